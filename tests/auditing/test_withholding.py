"""Metrics that rest on the weights alone are withheld where regressions contradict the weights, and nothing else is."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit import Evidence, Findings, Plan
from miaudit.auditing import withholding
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.causal import disagreement
from miaudit.findings.metric import WITHHELD, Metric
from miaudit.metrics.classical import Estimate
from miaudit.report.exports import model_card, numbers
from worlds import hidden_products

RESTS = {"tpr_at_fpr_0.001", "tpr_at_fpr_0.01", "tpr_at_fpr_0.1", "advantage", "balanced_accuracy"}
PLAN = Plan(fpr_targets=(0.01, 0.1), propensity_model="line", estimator="aipw", bounds=None)


def evidence(n: int = 600, effect: float = 0.0, **fields: object) -> Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    member = rng.random(n) < 1 / (1 + np.exp(-0.5 * x[:, 0]))
    loud = x[:, 0] + rng.normal(size=n) + 3.0 * member
    quiet = x[:, 0] + rng.normal(size=n) + effect * member
    score = {"quiet": quiet, "loud": loud} if fields.pop("both", False) else quiet
    return Evidence(score=score, member=member, covariates=x, design="zero-run", **fields)  # type: ignore[arg-type]


def audited(found: Evidence, plan: Plan = PLAN) -> Findings:
    return ma.audit(found, plan=plan, rng=np.random.default_rng(0))


@pytest.fixture
def contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disagreement, "LIMIT", -1.0)


def withheld(metrics: tuple[Metric, ...]) -> set[str]:
    return {metric.name for metric in metrics if metric.withheld}


@pytest.mark.long
def test_nothing_is_withheld_where_the_two_agree() -> None:
    found = audited(evidence())
    assert withheld(found.metrics) == set()
    assert found.curve is not None
    assert found.verdict.status in ("clear", "inconclusive")


@pytest.mark.long
@pytest.mark.usefixtures("contradicted")
def test_what_rests_on_weights_has_no_value_and_no_verdict(tmp_path: Path) -> None:
    group = np.where(np.arange(600) % 2, "a", "b").tolist()
    found = audited(evidence(effect=3.0, group=group), replace(PLAN, n_bootstrap=100))
    assert found.verdict.status == "refused"
    assert found.exit_code == 4
    assert "the weights and the regressions disagree" in found.verdict.text.lower()
    assert withheld(found.metrics) == RESTS
    for name in RESTS:
        metric = found.metric(name)
        assert (metric.value, metric.low, metric.high, metric.precision, metric.bootstrap) == (None,) * 5
        assert metric.interval == metric.reading == "withheld"
        assert metric.note.startswith(f"{WITHHELD}the weights and the regressions disagree: the AUC is ")
    assert [m.estimator for m in found.metrics if m.name == "auc"] == ["aipw", "hajek", "raw"]
    assert found.metric("auc").value is not None
    assert found.metric("ate").value is not None
    assert found.curve is None  # it is one of TPRs
    assert all(withheld(one.metrics) == RESTS for one in found.groups)
    assert found.memorisation is not None
    assert found.sensitivity is None
    assert found.memorisation.mislabelling == ()
    assert "Withheld: TPR at 0.1% FPR, TPR at 1% FPR, TPR at 10% FPR" in found.corrections[-1]
    found.to_html(tmp_path / "page.html")
    assert "withheld" in (tmp_path / "page.html").read_text()
    assert Findings.from_dict(json.loads(found.to_json())) == found
    assert not RESTS & set(numbers(found))
    assert "Withheld" not in model_card(found, model="m").partition("---\n\n")[0]
    assert found.to_frame() is not None


@pytest.mark.long
@pytest.mark.usefixtures("contradicted")
def test_the_auc_is_judged_all_the_same() -> None:
    plan = replace(PLAN, primary_metric="auc")
    assert audited(evidence(effect=3.0), plan).verdict.status == "flagged"
    assert audited(evidence(), plan).verdict.status in ("clear", "inconclusive")


@pytest.mark.long
def test_a_score_that_flags_flags_beside_one_that_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    def only(name: str) -> None:
        def told(rows: object, one: CorrectedScore, *_: object, **__: object) -> str:
            return "of a test" if name in one.evidence.scores else ""

        monkeypatch.setattr(withholding, "contradicted", told)

    only("quiet")
    found = audited(evidence(both=True))
    assert found.verdict.status == "flagged"
    assert {one.score: bool(withheld(one.metrics)) for one in found.scores} == {"loud": False, "quiet": True}
    only("loud")
    found = audited(evidence(both=True))
    assert found.verdict.status == "refused"
    assert "Of loud, of a test. TPR at" in found.verdict.text
    assert "FPR of loud cannot be judged" in found.verdict.text


def rows() -> list[tuple[str, str, Estimate]]:
    one = Estimate(0.6, 0.5, 0.7, 0.95)
    names = [("auc", "aipw"), ("auc", "hajek"), ("tpr_at_fpr_0.01", "hajek"), ("ate", "hajek"), ("auc", "g")]
    names += [("advantage", "tilted"), ("advantage", "hajek")]
    return [(name, method, one) for name, method in names]


def test_only_what_no_regression_corrects_is_withheld() -> None:
    assert list(withholding.without(rows(), "")) == rows()
    held = list(withholding.without(rows(), "why"))
    assert [(name, method) for name, method, one in held if one.value is None] == [
        ("tpr_at_fpr_0.01", "hajek"),
        ("ate", "hajek"),
    ]
    assert all(one.note == f"{WITHHELD}why" and math.isinf(one.high) for _, _, one in held if one.value is None)
    notes = {method: one.note for name, method, one in held if name == "advantage"}
    assert notes == {"tilted": "rests on the outcome model: why", "hajek": ""}


def test_the_refusal_names_metrics_of_the_verdict_only() -> None:
    held = Metric("advantage", "hajek", None, None, None, 0.95, f"{WITHHELD}the models disagree")
    auc = Metric("auc", "aipw", 0.6, 0.5, 0.7, 0.95)
    measured = {"loss": {"advantage": held, "auc": auc}}
    assert withholding.refusal(measured, ["auc"]) == ""
    said = withholding.refusal(measured, ["auc", "advantage"])
    assert said.startswith("The models disagree. Advantage")
    assert said.endswith("cannot be judged, because it rests on the weights alone.")


@pytest.mark.thorough
def test_many_levels_are_withheld_by_weights_alone() -> None:
    """Weights of a stack shrink 200 levels: without a test the audit shows a TPR of nothing memorised above chance."""
    drawn = hidden_products.many_levels(4000, np.random.default_rng(1))
    result = audited(drawn, Plan(categories=("x0",), estimator="hajek", bounds=None))
    assert result.verdict.status == "refused", result.verdict.text
    assert {"auc", "advantage", "balanced_accuracy", "tpr_at_fpr_0.1"} <= withheld(result.metrics)
    assert "the verdict rests on one" in result.in_words.said


@pytest.mark.thorough
def test_many_levels_rest_on_the_outcome_model_by_tilted_weights() -> None:
    drawn = hidden_products.many_levels(4000, np.random.default_rng(1))
    result = audited(drawn, Plan(categories=("x0",), bounds=None))
    assert result.verdict.status in ("clear", "inconclusive"), result.verdict.text
    assert withheld(result.metrics) == set()
    for name, truth in (("tpr_at_fpr_0.1", 0.1), ("advantage", 0.0)):
        tilted, alone = (
            next(m for m in result.metrics if (m.name, m.estimator) == (name, e)) for e in ("tilted", "hajek")
        )
        assert tilted.low <= truth < alone.low  # the control: the weights alone show a leak
        assert "rests on the outcome model: the weights and the regressions disagree" in tilted.note
    assert "rest on the outcome model." in result.corrections[-1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("slope", "leak", "status"), [(-2.0, hidden_products.LEAK, "flagged"), (2.0, 0.0, "inconclusive")]
)
def test_a_late_product_is_found(slope: float, leak: float, status: str) -> None:
    """A leak behind an opposite shift (TPR .144 at 1% FPR), and the shift alone: the weights of a line miss both."""
    drawn = hidden_products.late_product(2000, np.random.default_rng(1), slope=slope, leak=leak)
    result = audited(drawn, Plan(bounds=None))
    assert result.verdict.status == status, result.verdict.text
    for fpr in (0.1, 0.01):
        truth = hidden_products.rates(fpr, slope=slope, leak=leak)
        tilted = result.metric(f"tpr_at_fpr_{fpr:g}")
        assert (tilted.low or 0) <= truth <= tilted.high

"""The stack in a whole audit: by plan, by file and by the command line, in a bundle, and beside the line of bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from sklearn.naive_bayes import GaussianNB

import miaudit as ma
from miaudit import Evidence, Nuisance, Plan
from miaudit.auditing import pipeline
from miaudit.bundle import written_plan
from miaudit.causal import propensity, stack
from miaudit.errors import InputError

Run = Callable[..., tuple[int, str, str]]
STACK = Plan(primary_metric="auc")
LINE = Plan(estimator="aipw", propensity_model="line", primary_metric="auc")


ASKED = ["--covariates", "age,pay,hours", "--design", "zero-run", "--primary-metric", "auc"]
LINED = ["--propensity-model", "line", "--estimator", "hajek"]


def save(path: Path, evidence: Evidence) -> None:
    assert evidence.covariates is not None
    columns = dict(zip(("age", "pay", "hours"), evidence.covariates.T, strict=True))
    np.savez(path, score=evidence.score, member=evidence.member, **columns)


def draw(bent: bool, n: int = 1600, effect: float = 0.0) -> Evidence:
    """Membership goes with a product of two covariates, or with a line in them, and so does the score."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(n, 3))
    pull = x[:, 0] * x[:, 1] if bent else 0.8 * x[:, 0] - 0.5 * x[:, 1]
    member = rng.random(n) < special.expit(pull)
    score = pull + rng.normal(size=n) + effect * member
    return Evidence(
        score=score, member=member, covariates=x, covariate_names=("age", "pay", "hours"), design="zero-run"
    )


def audited(evidence: Evidence, plan: Plan = STACK, **options: object) -> ma.Findings:
    return ma.audit(evidence, plan=plan, rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.long
def test_a_bent_shift_is_answered_by_the_stack_and_refused_by_the_line() -> None:
    placebo, leak = audited(draw(bent=True)), audited(draw(bent=True, effect=1.0))
    assert placebo.verdict.status in ("clear", "inconclusive")
    assert leak.verdict.status == "flagged"
    line = audited(draw(bent=True), LINE)
    assert line.verdict.status == "refused"
    weights = audited(draw(bent=True), replace(STACK, estimator="hajek"))
    beside = {m.name: (m.value, m.low, m.high) for m in placebo.metrics if m.estimator == "hajek"}
    assert beside == {m.name: (m.value, m.low, m.high) for m in weights.metrics if m.estimator == "hajek"}
    assert [m.estimator for m in placebo.metrics if m.name == "auc"] == ["aipw", "hajek", "raw"]


@pytest.mark.thorough
@pytest.mark.long
def test_bounds_rest_on_the_line_and_say_so_where_it_is_refuted(tmp_path: Path) -> None:
    bent = audited(draw(bent=True), replace(STACK, bounds_model="line"))
    assert not bent.bounds
    assert bent.no_bound[0].startswith("Bounds rest on a line in the covariates, learned beside the stack")
    bent.to_html(tmp_path / "page.html")
    assert "Line beside the stack refuted: privacy bounds are void" in (tmp_path / "page.html").read_text()
    straight = audited(draw(bent=False))
    assert {bound.parameter for bound in straight.bounds} == {"mu", "epsilon"}
    assert straight.verdict.status in ("clear", "inconclusive")


@pytest.mark.thorough
@pytest.mark.long
def test_a_bundle_repeats_it(tmp_path: Path, run: Run) -> None:
    evidence = draw(bent=True, n=800)
    save(tmp_path / "t.npz", evidence)
    run("audit", tmp_path / "t.npz", *ASKED, "--out", tmp_path / "o", "--bundle", tmp_path / "b.zip")
    code, out, err = run("verify", tmp_path / "b.zip")
    assert code == 0, err
    assert "came out again" in out


def test_a_plan_says_which_model_learns_the_propensity() -> None:
    assert LINE.to_dict()["propensity_model"] == "line"
    assert STACK.to_dict()["propensity_model"] == "stack"
    assert written_plan.decode(written_plan.encode(STACK)) == STACK
    assert written_plan.decode(written_plan.encode(LINE)) == LINE


def test_a_classifier_of_the_caller_takes_the_place_of_the_stack() -> None:
    found = audited(draw(bent=False, n=400), nuisance=Nuisance(classifier=GaussianNB()))
    assert found.overlap is not None
    assert "GaussianNB" in found.overlap.propensity
    assert found.overlap.learning is not None  # judged as learned by one model, by its learning curve too


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match="propensity_model"):
        Plan(propensity_model="forest")


@pytest.mark.thorough
@pytest.mark.long
def test_the_command_line_and_a_file_ask_for_it(tmp_path: Path, run: Run) -> None:
    save(tmp_path / "t.npz", draw(bent=True))
    code, out, err = run("audit", tmp_path / "t.npz", *ASKED, "--json")
    assert code in (0, 4), err
    found = json.loads(out)
    assert found["plan"]["propensity_model"] == "stack"
    assert "a stack (" in found["overlap"]["propensity"]
    (tmp_path / "audit.yaml").write_text(
        "evaluation: {table_path: t.npz, score: score, member: member, covariates: [age, pay, hours],\n"
        "  design: zero-run}\nreporting: {primary_metric: auc}\n"
    )
    _, same, _ = run("run", tmp_path / "audit.yaml", "--json")
    assert json.loads(same)["metrics"] == found["metrics"]
    code, _, err = run("audit", tmp_path / "t.npz", *ASKED, *LINED, "--json")
    assert code == 4
    assert "leave out propensity_model: line" in err.replace("\n", " ")
    code, _, err = run("audit", tmp_path / "t.npz", *ASKED, "--propensity-model", "trees")
    assert code == 1
    assert "one of line, stack" in err.replace("\n", " ") or "line or stack" in err


@pytest.mark.thorough
@pytest.mark.long
def test_texts_beside_named_covariates_and_small_groups_are_answered_too() -> None:
    evidence = draw(bent=False, n=600)
    rng = np.random.default_rng(0)
    words = np.array(["red house", "blue sea", "green tree"])[rng.integers(0, 3, 600)].tolist()
    group = np.where(np.arange(600) < 540, "most", "few").tolist()
    found = audited(evidence.replace(text=words, group=group))
    assert found.verdict.status in ("clear", "inconclusive"), found.verdict.text
    assert {one.group for one in found.groups} == {"most", "few"}


@pytest.mark.thorough
@pytest.mark.long
def test_units_stay_whole_in_every_step() -> None:
    evidence, who = draw(bent=False, effect=1.0), np.repeat(np.arange(1600), 2)
    twice = evidence.take(who).replace(unit=who)
    once, both = audited(evidence), audited(twice)
    assert both.verdict.status == "flagged"
    widths = [m.high - m.low for f in (once, both) for m in f.metrics if (m.name, m.estimator) == ("auc", "aipw")]
    assert 0.8 < widths[1] / widths[0] < 1.25  # records seen twice are no new ones


@pytest.mark.thorough
@pytest.mark.long
def test_of_very_many_records_a_drawn_part_is_audited_and_the_findings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whole units, the same again, and as that part alone would be; with a given propensity all are audited."""
    monkeypatch.setattr(stack, "MOST_LEARNED", 800)
    single = draw(bent=True, effect=1.0)
    evidence = single.replace(unit=np.arange(1600) // 2)
    plan = replace(STACK, bounds=None)
    found, _, rows = pipeline.examine(evidence, plan=plan, rng=np.random.default_rng(0))
    assert rows is not None
    assert 800 <= len(rows) <= 802
    assert np.array_equal(rows[0::2] + 1, rows[1::2])
    assert any("of 1,600 records were audited, drawn at random by whole units" in text for text in found.notes)
    assert (found.counts.member_records or 0) + (found.counts.nonmember_records or 0) == len(rows)
    assert found == pipeline.examine(evidence, plan=plan, rng=np.random.default_rng(0))[0]
    given = Nuisance(propensity=propensity.Propensity.given(np.full(1600, 0.5)))
    assert pipeline.examine(single, plan=plan, nuisance=given, rng=np.random.default_rng(0))[2] is None

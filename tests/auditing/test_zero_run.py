"""Zero-run audits from end to end, in worlds whose causal answer is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, Findings, Plan, audit
from miaudit.auditing.plan import Bounds
from miaudit.causal import lack_of_fit
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError
from miaudit.findings.metric import foremost
from worlds import placebo
from worlds.aligned import Aligned


def line(**options: object) -> Plan:
    """A plan as it was before the stack: weights of a straight line, which is what these tests are about."""
    return Plan(**{"propensity_model": "line", "estimator": "hajek", **options})  # type: ignore[arg-type]


PLAN = line(fpr_targets=(0.01, 0.1), primary_metric="auc")


def world(shift: float, effect: float, n: int = 3000, seed: int = 0, d: int = 3, **fields: object) -> Evidence:
    """The first covariate moves both membership and score; membership moves the score by ``effect``."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    x = rng.normal(size=(n, d))
    x[:, 0] += shift * member
    score = x[:, 0] + rng.normal(size=n) + effect * member
    return Evidence(score=score, member=member, covariates=x, design="zero-run", **fields)


def audited(evidence: Evidence, plan: Plan = PLAN) -> Findings:
    found = audit(evidence, plan=plan, rng=np.random.default_rng(0))
    Findings.from_dict(found.to_dict())
    return found


def pick(found: Findings, name: str, estimator: str):
    return next(m for m in found.metrics if (m.name, m.estimator) == (name, estimator))


@pytest.mark.thorough
@pytest.mark.long
def test_shift_alone_is_not_taken_for_memorisation() -> None:
    found = audited(world(shift=0.8, effect=0.0))
    raw, causal = pick(found, "auc", "raw"), pick(found, "auc", "hajek")
    assert raw.low > 0.55  # the control: raw numbers would have raised a concern
    assert causal.low < 0.5 < causal.high
    assert found.verdict.status != "flagged"
    assert found.metrics[0].estimator == "hajek"
    assert found.memorisation is not None
    assert found.memorisation.shift > 0.08
    assert abs(found.memorisation.memorisation) < 0.04
    assert "covariates account" in found.verdict.text


@pytest.mark.long
def test_the_verdict_is_about_an_fpr_that_can_have_a_lower_limit() -> None:
    """The heaviest non-members have the highest scores: few count at 1%, though all together would be enough."""
    evidence, _ = Aligned(leak=2.0).draw(3000, np.random.default_rng(1))
    found = audited(evidence, line(fpr_targets=(0.001, 0.01, 0.1), bounds=None))
    assert found.overlap is not None
    assert 0.01 * found.overlap.effective_sample_size > 3.69  # the control: by this alone it would be about 1%
    assert 0.01 < found.counts.smallest_fpr < 0.1
    assert (found.verdict.metric, found.verdict.status) == ("tpr_at_fpr_0.1", "flagged")
    low = pick(found, "tpr_at_fpr_0.01", "hajek")
    assert low.value is not None
    assert low.low == 0
    curve, limit = found.scores[0].curve, 0.999 * found.counts.smallest_fpr
    assert [tpr is None for tpr in curve.tpr] == [fpr < limit for fpr in curve.fpr]


@pytest.mark.thorough
@pytest.mark.long
def test_memorisation_is_found_beside_shift() -> None:
    found = audited(world(shift=0.8, effect=1.0))
    truth = float(special.ndtr(1.0 / 2.0))  # members' scores against their own without membership: variance 2 + 2
    causal = pick(found, "auc", "hajek")
    assert causal.low < truth < causal.high
    assert pick(found, "auc", "raw").low > truth
    assert found.verdict.status == "flagged"
    assert found.memorisation is not None
    assert found.sensitivity is not None
    assert found.sensitivity.limits[0].size > 1.5
    assert found.overlap is not None
    assert found.overlap.status in ("answered", "warned")
    assert found.counts.smallest_fpr > 3.69 / 1500  # weights cost resolution


@pytest.mark.long
def test_without_overlap_there_is_no_number_unless_raw_ones_are_asked_for() -> None:
    evidence = world(shift=4.0, effect=0.0)
    found = audited(evidence)
    assert (found.verdict.status, found.verdict.exit_code) == ("refused", 4)
    assert found.metrics == ()
    assert found.groups == ()
    assert found.memorisation is None
    assert found.overlap is not None
    assert found.overlap.reasons
    raw = audited(evidence, line(fpr_targets=(0.1,), raw_only=True))
    assert raw.verdict.status == "refused"
    assert {m.estimator for m in raw.metrics} == {"raw"}


@pytest.mark.thorough
@pytest.mark.long
def test_a_propensity_that_still_learns_is_not_trusted() -> None:
    rng = np.random.default_rng(0)
    n, d = 700, 250
    member = np.arange(n) < n // 2
    x = rng.normal(size=(n, d)) + 0.1 * member[:, None]
    found = audited(Evidence(score=x.sum(axis=1), member=member, covariates=x, design="zero-run"))
    assert found.verdict.status in ("not-testable", "refused")
    assert found.overlap is not None
    assert found.overlap.learning is not None
    assert found.overlap.learning.rising


@pytest.mark.parametrize("d", [0, 60])
def test_no_propensity_no_answer(d: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, d)) if d else None  # none at all, or more than rows
    evidence = Evidence(score=rng.normal(size=40), member=np.arange(40) < 20, covariates=x, design="zero-run")
    found = audited(evidence)
    assert found.verdict.status == "not-testable"
    assert {m.estimator for m in found.metrics} == {"raw"}


@pytest.mark.thorough
@pytest.mark.long
def test_groups_scores_and_units_are_corrected_too() -> None:
    n = 3000
    evidence = world(0.8, 1.0, n, unit=np.arange(n) // 2, group=np.arange(n) % 2)
    both = evidence.replace(score={"a": evidence.score, "b": -evidence.score})
    found = audited(both)
    assert found.counts.of == "units"
    assert [s.score for s in found.scores] == ["a", "b"]
    for group in found.groups:
        first = next(m for m in group.metrics if m.name == "auc")
        assert first.estimator == "hajek"
        assert first.low < float(special.ndtr(0.5)) < first.high
    assert any("Bonferroni" in text for text in found.corrections)
    assert any("Hajek" in text for text in found.corrections)


@pytest.mark.thorough
@pytest.mark.long
def test_equal_generators_give_equal_bytes() -> None:
    evidence = world(0.8, 0.5, 800)
    assert audited(evidence).to_json() == audited(evidence).to_json()


@pytest.mark.thorough
@pytest.mark.long
def test_the_command_line(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    world(0.8, 1.0).save(tmp_path / "near.parquet")
    world(4.0, 0.0).save(tmp_path / "far.parquet")
    code, out, err = run(
        "audit", tmp_path / "near.parquet", "--limit", "tpr_at_fpr_0.1=0.15", "--out", tmp_path / "near"
    )
    assert (code, err) == (3, "")
    assert "is shift" in out
    assert "raw, not causal" in out
    page = (tmp_path / "near" / "report.html").read_text()
    assert "raw, not causal" in page
    figures = {path.name for path in (tmp_path / "near" / "figures").iterdir()}
    assert {"overlap.svg", "balance.svg", "calibration.svg", "shift.svg"} <= figures
    code, out, _ = run("audit", tmp_path / "far.parquet", "--out", tmp_path / "far")
    assert code == 4
    assert "auc" not in out
    found = json.loads((tmp_path / "far" / "findings.json").read_text())
    assert found["metrics"] == []
    assert (tmp_path / "far" / "figures" / "overlap.png").is_file()
    code, out, _ = run("audit", tmp_path / "far.parquet", "--json", "--raw-only")
    assert code == 4
    assert {m["estimator"] for m in json.loads(out)["metrics"]} == {"raw"}


@pytest.mark.thorough
@pytest.mark.long
def test_categories_and_components_are_encoded_inside_the_folds() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    member = np.arange(n) < n // 2
    site = np.where(rng.random(n) < np.where(member, 0.7, 0.3), rng.integers(0, 2, n), rng.integers(2, 4, n))
    jump = np.array([0.0, 3.0, 1.0, -1.0])[site]  # not linear in the code of the site
    evidence = Evidence(
        score=jump + rng.normal(size=n),
        member=member,
        covariates=np.c_[site, rng.normal(size=(n, 30))],
        covariate_names=["site", *(f"x{i}" for i in range(30))],
        design="zero-run",
    )
    found = audited(evidence, line(fpr_targets=(0.1,), primary_metric="auc", categories=("site",)))
    causal = pick(found, "auc", "hajek")
    assert pick(found, "auc", "raw").low > 0.55
    assert causal.low < 0.5 < causal.high
    found = audited(evidence, line(fpr_targets=(0.1,), primary_metric="auc", components=5))
    assert found.overlap is not None
    assert len([f for f in found.overlap.features if "squared" not in f.name]) == 5
    with pytest.raises(InputError, match="did you mean site"):
        audited(evidence, line(categories=("sites",)))


@pytest.mark.thorough
@pytest.mark.long
def test_wrong_labels_hide_memorisation() -> None:
    found = audited(world(shift=0.8, effect=1.0))
    assert found.memorisation is not None
    cases = {(m.members, m.nonmembers): m.auc for m in found.memorisation.mislabelling}
    assert cases[(0.1, 0.1)] > cases[(0.05, 0.05)] > found.memorisation.causal
    shrunk = 0.5 + (found.memorisation.causal - 0.5) / 0.9
    assert cases[(0.05, 0.05)] == pytest.approx(shrunk)


@pytest.mark.thorough
@pytest.mark.long
def test_twins_across_the_classes_are_reported() -> None:
    evidence = world(shift=0.5, effect=0.5)
    copied = np.array(evidence.covariates)
    copied[2000:2040] = copied[:40]  # forty non-members are members
    found = audited(evidence.replace(covariates=copied))
    assert found.overlap is not None
    assert found.overlap.duplicates is not None
    assert found.overlap.duplicates.exact_pairs == 40
    assert any("really non-members" in text for text in found.overlap.warnings)
    clean = audited(evidence)
    assert clean.overlap is not None
    assert not any("really non-members" in text for text in clean.overlap.warnings)


@pytest.mark.thorough
@pytest.mark.long
def test_small_groups_are_merged_and_said() -> None:
    n = 3000
    group = np.where(np.arange(n) % 300 < 2, np.char.add("rare ", (np.arange(n) // 300).astype(str)), "common")
    found = audited(world(0.5, 0.5, n, group=group))
    assert [g.group for g in found.groups] == ["common", "other (merged)"]
    assert "10 groups with fewer than 10 of a class, merged: rare 0" in found.groups[1].note


@pytest.mark.thorough
@pytest.mark.long
def test_aipw_for_the_auc_and_the_effect_and_never_for_a_low_fpr() -> None:
    found = audited(world(0.8, 1.0), line(fpr_targets=(0.1,), primary_metric="auc", estimator="aipw"))
    by_name = {m.name: m for m in foremost(found.metrics)}
    assert by_name["auc"].estimator == by_name["ate"].estimator == "aipw"
    assert by_name["tpr_at_fpr_0.1"].estimator == by_name["advantage"].estimator == "hajek"
    assert by_name["auc"].low < float(special.ndtr(0.5)) < by_name["auc"].high
    assert by_name["ate"].low < 1.0 < by_name["ate"].high
    hajek = pick(audited(world(0.8, 1.0)), "ate", "hajek")
    assert by_name["ate"].high - by_name["ate"].low < hajek.high - hajek.low  # the outcome model explains the covariate
    with pytest.raises(InputError, match="hajek or aipw"):
        line(estimator="ipw")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["product", "opposite correlations", "sites as codes", "product among 30 covariates"])
@pytest.mark.parametrize("bounds", [Bounds(), None])
def test_a_refuted_propensity_gives_no_verdict(name: str, bounds: Bounds | None) -> None:
    evidence = placebo.draw(name, 2000, np.random.default_rng(5))
    evidence = evidence.replace(group=np.arange(2000) % 2)
    found = audited(evidence, replace(PLAN, bounds=bounds, bounds_model="line"))
    assert (found.verdict.status, found.verdict.exit_code, found.exit_code) == ("refused", 4, 4)
    assert (found.metrics, found.groups, found.memorisation, found.bounds) == ((), (), None, ())
    assert found.overlap is not None
    assert found.overlap.fit is not None
    assert found.overlap.fit.rejected
    needed = {"age"} if name == "sites as codes" else {"age", "hours"}
    assert needed <= set(found.overlap.fit.missed)
    assert all(covariate in found.verdict.text for covariate in needed)
    assert ("--categories" in found.verdict.text) == (name == "sites as codes")


@pytest.mark.thorough
@pytest.mark.long
def test_bounds_rest_on_a_screened_line_where_the_line_of_the_metrics_is_refuted() -> None:
    """The verdict stays refused; bounds need no more than a line that passes both tests, and here nothing leaks."""
    evidence = placebo.draw("opposite correlations", 2000, np.random.default_rng(5))
    found = audited(evidence, replace(PLAN, bounds=Bounds()))
    assert found.verdict.status == "refused"
    assert found.bounds and all(bound.value == 0 for bound in found.bounds)
    assert found.challenge is not None and "The line alone is refuted" in found.challenge.text


@pytest.mark.long
def test_raw_numbers_of_a_refuted_propensity_are_shown_only_on_request() -> None:
    evidence = placebo.draw("product", 2000, np.random.default_rng(5))
    found = audited(evidence, replace(PLAN, raw_only=True, bounds=None))
    assert found.verdict.status == "refused"
    assert {m.estimator for m in found.metrics} == {"raw"}
    assert found.memorisation is None


@pytest.mark.long
def test_a_leak_behind_an_opposite_shift_is_not_called_clear() -> None:
    evidence = placebo.draw("leak behind opposite correlations", 4000, np.random.default_rng(5), effect=1.0)
    plan = replace(PLAN, threshold_for_concern=0.55, bounds=None)
    assert audited(evidence, plan).verdict.status == "refused"


@pytest.mark.thorough
@pytest.mark.long
def test_the_page_names_the_covariates_that_a_better_propensity_would_need(tmp_path: Path) -> None:
    found = audited(placebo.draw("product", 2000, np.random.default_rng(5)), replace(PLAN, bounds=None))
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "what hours and age say" in page or "what age and hours say" in page
    stands = audited(placebo.draw("line", 2000, np.random.default_rng(5)), replace(PLAN, bounds=None))
    stands.to_html(tmp_path / "stands.html")
    page = (tmp_path / "stands.html").read_text(encoding="utf-8")
    assert "Neither a forest" in page


@pytest.mark.thorough
@pytest.mark.long
def test_a_challenge_that_refutes_reaches_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bets that guard the bounds refute the same propensity: no verdict may rest on it, whatever else passed."""
    monkeypatch.setattr(lack_of_fit, "LIMIT", 1e9)
    monkeypatch.setattr(lack_of_fit, "_FAMILYWISE", 1e-300)
    found = audited(placebo.draw("product", 4000, np.random.default_rng(5)))
    assert found.challenge is not None
    assert found.challenge.rejected
    assert found.verdict.status == "refused"
    assert found.metrics == ()


@pytest.mark.thorough
@pytest.mark.long
def test_a_stated_margin_is_what_the_bounds_are_judged_by() -> None:
    """Bounds hold at a margin that covers the misfit; metrics have no margin, so that there is still no verdict."""
    evidence = placebo.draw("product", 2000, np.random.default_rng(5))
    found = audited(evidence, replace(PLAN, bounds=Bounds(margin=2.0)))
    assert found.verdict.status == "refused"
    assert found.challenge is not None
    assert not found.challenge.rejected
    assert found.bounds


def test_a_propensity_that_was_given_without_covariates_cannot_be_asked() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(1000) < 0.5
    evidence = Evidence(score=rng.normal(size=1000), member=member, design="zero-run")
    nuisance = Nuisance(propensity=Propensity.given(np.full(1000, 0.5)))
    found = audit(evidence, plan=PLAN, nuisance=nuisance, rng=rng)
    assert found.overlap is not None
    assert found.overlap.fit is None
    assert any("cannot be checked" in text for text in found.overlap.warnings)

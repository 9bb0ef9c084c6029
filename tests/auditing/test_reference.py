"""Reference scores: what tests a correction, what joins the covariates, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.auditing.headline import Split
from miaudit.auditing.reference import Reference, parted
from miaudit.bundle import written_plan
from miaudit.errors import InputError


def world(hidden: float, n: int = 1000, leak: float = 0.0, seed: int = 5) -> Evidence:
    """Two covariates and a hidden trait move membership and the score of every model; a leak moves the target's."""
    rng = np.random.default_rng(seed)
    x, trait = rng.normal(size=(n, 2)), rng.normal(size=n)
    member = rng.random(n) < special.expit(0.6 * x[:, 0] - 0.4 * x[:, 1] + hidden * trait)
    ease = x[:, 0] + 0.5 * x[:, 1] + trait
    scores = {name: ease + 0.5 * rng.normal(size=n) for name in ("loss", "small", "older")}
    scores["loss"] += leak * member
    return Evidence(score=scores, member=member, covariates=x, covariate_names=("age", "pay"), design="zero-run")


def plan_of(*names: str, **stated: Any) -> Plan:
    reference = Reference.named(names, **{"trained_on_neither": True, **stated}) if names else None
    options: dict[str, Any] = {"propensity_model": "line", "estimator": "hajek", "primary_metric": "auc"}
    return Plan(**options, reference=reference, bounds=None)


def audited(evidence: Evidence, *names: str, **stated: Any) -> ma.Findings:
    kept = {name: evidence.scores[name] for name in ("loss", *names)}
    return ma.audit(evidence.replace(score=kept), plan=plan_of(*names, **stated), rng=np.random.default_rng(0))


def auc(findings: ma.Findings) -> float:
    value = findings.metric("auc").value
    assert value is not None
    return value


@pytest.mark.long
def test_it_refutes_a_correction_that_misses_a_trait_and_no_other() -> None:
    wrong = audited(world(hidden=0.8), "older")
    assert wrong.verdict.status == "refused"
    assert wrong.exit_code == 4
    assert wrong.reference is not None
    assert wrong.overlap is not None
    assert wrong.reference.refuted
    assert wrong.reference.text in wrong.overlap.reasons
    assert not wrong.metrics  # as after every other reason to refuse
    right = audited(world(hidden=0.0, leak=1.0), "older")
    assert right.verdict.status == "flagged"
    assert right.reference is not None
    assert not right.reference.refuted
    assert right.reference.corrected is not None
    assert right.reference.corrected.estimator == right.metrics[0].estimator == "hajek"


@pytest.mark.long
def test_as_a_covariate_it_repairs_what_the_covariates_miss() -> None:
    evidence = world(hidden=0.6)
    without, repaired = auc(audited(evidence)), auc(audited(evidence, "small", use="covariate"))
    assert without - 0.5 > 0.08
    assert abs(repaired - 0.5) < (without - 0.5) / 2
    both = audited(evidence, "small", "older")
    assert auc(both) == repaired  # the test is another score, and moves no number
    assert both.reference is not None
    assert not both.reference.refuted
    assert both.overlap is not None
    assert "small" in {difference.name for difference in both.overlap.features}


@pytest.mark.long
def test_reference_scores_are_never_audited_and_cost_nothing() -> None:
    evidence = world(hidden=0.0)
    alone, beside = audited(evidence), audited(evidence, "older")
    assert beside.scores == alone.scores  # no correction for several scores
    assert beside.evidence["scores"] == ["loss", "older"]
    assert beside.plan["reference"]["test"] == "older"
    assert alone.reference is None
    assert alone.plan["reference"] is None
    assert ma.Findings.from_dict(json.loads(beside.to_json())) == beside


@pytest.mark.thorough
def test_what_is_said_depends_on_what_was_stated() -> None:
    evidence = world(hidden=0.0)
    known, public = audited(evidence, "older"), audited(evidence, "older", trained_on_neither=False)
    assert known.reference is not None
    assert public.reference is not None
    assert known.reference.text.startswith("A model that never saw these records would have shown an AUC of 0.")
    assert "by the same correction (reference score older)" in known.reference.text
    assert known.reference.conditions.startswith("Stated, not checked: the reference was trained on neither")
    assert public.reference.text.startswith("A reference model, of whose training nothing is stated")
    assert "which is not stated" in public.reference.conditions
    covariate = audited(evidence, "small", use="covariate")
    assert covariate.reference is not None
    assert "no second reference tests it" in covariate.reference.text


@pytest.mark.long
def test_without_a_correction_it_tests_nothing_and_says_so() -> None:
    found = audited(world(hidden=0.8).replace(covariates=None, covariate_names=None), "older")
    assert found.reference is not None
    assert found.reference.corrected is None
    assert "tests nothing: nothing was corrected" in found.reference.text
    assert "raw AUC 0.6" in found.reference.text
    alone = audited(world(hidden=0.8).replace(covariates=None, covariate_names=None), "small", use="covariate")
    assert alone.overlap is not None  # a covariate by itself


@pytest.mark.thorough
@pytest.mark.long
def test_a_covariate_that_saw_members_hides_a_leak_and_a_second_reference_tells() -> None:
    evidence = world(hidden=0.0, leak=1.5, n=1500)
    fair = audited(evidence, "small", use="covariate")
    assert fair.metric("auc").low > 0.55  # type: ignore[operator]
    spoilt = evidence.replace(score={**evidence.scores, "small": evidence.scores["small"] + 1.5 * evidence.member})
    assert audited(spoilt, "small", use="covariate").metric("auc").value < 0.62  # type: ignore[operator]
    told = audited(spoilt, "small", "older")
    assert told.verdict.status == "refused"
    assert "or small saw either side" in told.verdict.text


@pytest.mark.long
def test_units_parts_and_undeclared_designs() -> None:
    evidence = world(hidden=0.8)
    names = plan_of("older")
    split = replace(names, headline=Split())
    two = evidence.replace(score={**evidence.scores, "margin": evidence.scores["loss"] ** 3})
    found = ma.audit(two, plan=split, rng=np.random.default_rng(0))  # the reference goes with the audited half
    assert {score.score for score in found.scores} == {"loss", "small", "margin"}
    unknown = ma.audit(evidence.replace(design=None), plan=names, rng=np.random.default_rng(0))
    assert unknown.reference is None
    assert any("of use with the design zero-run" in note for note in unknown.notes)
    assert {score.score for score in unknown.scores} == {"loss", "small"}
    with pytest.raises(InputError, match=r"reference: expected none, unless the design is zero-run, received one-run"):
        ma.audit(evidence.replace(design="one-run"), plan=names, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a covariate, a test, or both, received neither"),
        ({"test": "a", "covariate": "a", "trained_on_neither": True}, "two different scores, received a twice"),
        ({"covariate": "a"}, "trained_on_neither: expected true, for a covariate"),
        ({"test": 3}, "expected names of scores"),
        ({"test": "a", "trained_on_neither": "yes"}, "expected true or false"),
    ],
)
def test_records_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Reference(**options)


def test_names_and_kinds_are_checked() -> None:
    assert Reference.named("a").test == "a"
    with pytest.raises(InputError, match="one or two names, received 3"):
        Reference.named(["a", "b", "c"])
    with pytest.raises(InputError, match="reference: expected Reference of miaudit"):
        Plan(reference="a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean older"):
        parted(world(0.0), Reference(test="oldest"))
    with pytest.raises(InputError, match="a score beside it to audit"):
        parted(world(0.0).only("older"), Reference(test="older"))
    with pytest.raises(InputError, match="a name that no covariate has"):
        parted(world(0.0).replace(covariate_names=("age", "small")), Reference("small", None, trained_on_neither=True))
    with pytest.raises(InputError, match="no covariate, beside components"):
        small = Reference("small", trained_on_neither=True)
        plan = Plan(components=2, reference=small, propensity_model="line")
        ma.audit(world(0.0), plan=plan, rng=np.random.default_rng(0))


@pytest.mark.parametrize("copy", [lambda s: s, lambda s: -(s**3), lambda s: np.round(s, 3)])
def test_a_copy_of_the_audited_score_is_no_reference(copy: Any) -> None:
    evidence = world(0.0)
    scores = {**evidence.scores, "older": copy(evidence.scores["loss"])}
    with pytest.raises(InputError, match=r"scores of another model, received older, a copy of loss \(rank correlation"):
        parted(evidence.replace(score=scores), Reference(test="older"))


def test_a_copy_of_the_other_reference_and_a_constant_are_none_either() -> None:
    evidence, both = world(0.0), Reference("small", "older", trained_on_neither=True)
    twice = evidence.replace(score={**evidence.scores, "older": 2 * evidence.scores["small"]})
    with pytest.raises(InputError, match="small, a copy of older"):
        parted(twice, both)
    flat = evidence.replace(score={**evidence.scores, "older": np.ones(evidence.n)})
    with pytest.raises(InputError, match="older, which is constant"):
        parted(flat, both)
    target = evidence.replace(score={**evidence.scores, "loss": np.ones(evidence.n)})
    assert set(parted(target, both)[1]) == {"small", "older"}  # a constant target is no copy of anything


def test_covariates_without_names_keep_their_places() -> None:
    evidence = world(0.0).replace(covariate_names=None)
    joined, scores = parted(evidence, Reference("small", "older", trained_on_neither=True))
    assert joined.covariate_names == ("0", "1", "small")
    assert joined.covariates is not None
    assert np.array_equal(joined.covariates[:, 2], scores["small"])
    assert list(joined.scores) == ["loss"]


def test_plans_with_it_and_without_are_read_again() -> None:
    assert Plan().to_dict()["reference"] is None
    for plan in (Plan(), plan_of("small", "older")):
        assert written_plan.decode(written_plan.encode(plan)) == plan

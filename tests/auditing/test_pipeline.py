"""The audit from evidence to findings: which score counts, what is assumed, and what is never shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from miaudit import Evidence, Findings, Plan, audit
from miaudit.auditing import pipeline
from miaudit.auditing.headline import Bonferroni, Declared, Exploratory, Split
from miaudit.auditing.plan import Bootstrap
from miaudit.command.results import summary
from miaudit.errors import InputError
from miaudit.findings.policy import DEFAULT_LIMITS
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample
from miaudit.report import audit_page
from worlds.clusters import Clusters
from worlds.coverage import run, useless_scores
from worlds.scores import WORLDS

TEN = Plan(fpr_targets=(0.01, 0.1))


def evidence_of(name: str = "gaussian", n: int = 1000, seed: int = 0, **fields: Any) -> Evidence:
    score, member = WORLDS[name].draw(n, n, np.random.default_rng(seed))
    return Evidence(score=score, member=member, **{"design": "one-run", **fields})


def audited(evidence: Evidence, plan: Plan = TEN, seed: int = 0) -> Findings:
    return audit(evidence, plan=plan, rng=np.random.default_rng(seed))


# -- one score --------------------------------------------------------------------------------------------------------


def test_findings_hold_the_metrics_of_the_sample() -> None:
    evidence = evidence_of()
    findings = audited(evidence)
    direct = definition.estimates(Sample.of(evidence), definition.names((0.001, 0.01, 0.1)), 0.95)
    assert [m.name for m in findings.metrics] == list(direct)
    for metric in findings.metrics:
        expected = direct[metric.name]
        assert (metric.value, metric.low, metric.high) == (expected.value, expected.low, expected.high)
        assert (metric.estimator, metric.confidence) == ("raw", 0.95)
    ppv = findings.metric("tpr_at_fpr_0.1").precision
    tpr = findings.metric("tpr_at_fpr_0.1").value
    assert ppv["value"] == pytest.approx(tpr / (tpr + 0.1))
    with pytest.raises(InputError, match="one of"):
        findings.metric("acu")


@pytest.mark.long
@pytest.mark.parametrize(("name", "status", "code"), [("near_perfect", "flagged", 3), ("null", "clear", 0)])
def test_the_verdict_follows_the_world(name: str, status: str, code: int) -> None:
    verdict = audited(evidence_of(name, 3000, seed=1)).verdict
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert verdict.metric in ("tpr_at_fpr_0.01", "tpr_at_fpr_0.1")
    assert verdict.threshold == dict(DEFAULT_LIMITS)[verdict.metric]
    assert (verdict.condition, verdict.reason, verdict.stated) == ("", None, False)


@pytest.mark.long
def test_the_same_limits_count_at_every_number_of_records() -> None:
    for n, unresolved in ((100, {"tpr_at_fpr_0.001", "tpr_at_fpr_0.01", "tpr_at_fpr_0.1"}), (8000, set())):
        findings = audited(evidence_of("null", n=n), Plan())
        limits = [one.limit for one in findings.verdict.limits if one.limit != "surest_members"]
        assert limits == list(DEFAULT_LIMITS)
        assert findings.plan["limits"] == {**DEFAULT_LIMITS, "surest_members": 0.9}
        assert {one.limit for one in findings.verdict.unresolved} == unresolved


@pytest.mark.long
def test_a_target_below_the_resolution_never_flags() -> None:
    plan = Plan(fpr_targets=(0.001,), primary_metric="tpr_at_fpr_0.001")
    findings = audited(evidence_of("perfect", 3689), plan)
    assert findings.verdict.status == "inconclusive"
    assert findings.metric("tpr_at_fpr_0.001").value is None
    assert findings.metric("tpr_at_fpr_0.001").low == 0
    assert audited(evidence_of("perfect", 3690), plan).verdict.status == "flagged"  # control


@pytest.mark.long
@pytest.mark.parametrize(("name", "would_be"), [("near_perfect", "Concern: "), ("null", "Within the limits: ")])
def test_an_undeclared_design_has_no_answer_but_what_it_would_be(name: str, would_be: str) -> None:
    findings = audited(evidence_of(name, 3000, seed=1, design=None))
    assert findings.design is None
    assert (findings.verdict.status, findings.exit_code) == ("not-testable", 4)
    assert (findings.verdict.reason, findings.verdict.limits) == ("undeclared", ())
    assert "not declared" in findings.verdict.text
    assert "--design" in findings.verdict.text
    assert f"If membership was decided at random, the verdict would be: {would_be}" in findings.verdict.text
    assert (findings.verdict.low, findings.verdict.condition, findings.verdict.level) == (None, "", "")
    assert findings.metric("auc").estimator == "raw"
    assert any("not declared" in text for text in findings.assumptions)
    declared = audited(evidence_of(name, 3000, seed=1)).verdict  # the control
    assert declared.text.startswith(would_be)
    assert declared.text in findings.verdict.text


def drifted(design: str | None = None, gap: float = 0.0, n: int = 2000, **fields: Any) -> Evidence:
    """Membership and score both go with a covariate; nothing is memorised where there is no gap."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=n)
    member = rng.random(n) < 1 / (1 + np.exp(-x))
    score = x + rng.normal(size=n) + gap * member
    return Evidence(score=score, member=member, covariates=x[:, None], design=design, **fields)


@pytest.mark.thorough
@pytest.mark.long
def test_the_covariates_alone_stand_beside_the_attack_of_an_undeclared_audit() -> None:
    findings = audited(drifted())
    alone, attack = findings.covariates_alone, findings.metric("auc")
    assert alone is not None and alone.value is not None and attack.value is not None
    assert alone.low > 0.6 and alone.value > attack.value - 0.05  # the covariates do what the attack seems to do
    assert "AUC of the covariates alone" in summary(findings)
    assert "AUC of the covariates alone" in audit_page.page(findings)
    rng = np.random.default_rng(8)  # the control: where membership was randomised it is one half
    tossed = drifted().replace(member=rng.random(2000) < 0.5)
    fair = audited(tossed).covariates_alone
    assert fair is not None and fair.low < 0.5 < fair.high
    assert audited(drifted("one-run")).verdict.status == "refused"  # chance did not decide
    assert audited(evidence_of(design=None)).covariates_alone is None
    few = audited(drifted(n=12))
    assert few.covariates_alone is None
    assert any("covariates alone" in note for note in few.notes)


@pytest.mark.long
def test_the_covariates_alone_move_no_other_draw() -> None:
    plan = Plan(fpr_targets=(0.1,), headline=Split(), n_bootstrap=100, bounds=None)
    plain, beside = evidence_of(design=None), evidence_of(design=None, covariates=np.arange(2000.0)[:, None])
    fields = [audited(e.replace(score={"a": e.score, "b": -e.score}), plan).to_dict() for e in (plain, beside)]
    assert fields[0]["metrics"] == fields[1]["metrics"]
    assert fields[0]["covariates_alone"] is None and fields[1]["covariates_alone"] is not None


# -- scores that point the wrong way ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "metric", ["tpr_at_fpr_0.01", "tpr_at_fpr_0.1", "auc", "advantage", "balanced_accuracy", "ate"]
)
def test_scores_that_point_the_wrong_way_are_never_no_concern(metric: str) -> None:
    evidence = evidence_of()
    threshold = 5.0 if metric == "ate" else 0.99
    plan = Plan(fpr_targets=(0.01, 0.1), primary_metric=metric, threshold_for_concern=threshold, bounds=None)
    losses = audited(evidence.replace(score=-evidence.score), plan)
    assert losses.metric("auc").high < 0.5
    assert (losses.verdict.status, losses.exit_code) == ("not-testable", 4)
    first = losses.verdict.text.split(". ")[0]
    assert "point the wrong way" in first and "--signal loss" in first
    assert audited(evidence, plan).verdict.status == "clear"  # control: the same scores the right way round
    assert audited(evidence_of("null", seed=1), plan).verdict.status == "clear"


def test_an_effect_below_zero_is_not_clear_though_the_auc_says_nothing() -> None:
    rng = np.random.default_rng(3)
    member = np.arange(4000) % 2 == 0
    score = np.where(rng.random(4000) < 0.02, np.where(member, -40.0, 0.0), rng.normal(size=4000) * 0.1)
    plan = Plan(primary_metric="ate", threshold_for_concern=0.5, bounds=None)
    found = audited(Evidence(score=score, member=member, design="one-run"), plan)
    assert found.metric("auc").high > 0.5 and found.metric("ate").high < 0
    assert found.verdict.status == "not-testable"
    assert "Average effect on the score of score is below" in found.verdict.text


@pytest.mark.long
def test_one_inverted_score_of_several_leaves_no_concern_unsaid_and_a_concern_standing() -> None:
    evidence = evidence_of()
    useless = np.random.default_rng(1).normal(size=2000)
    plan = Plan(fpr_targets=(0.1,), threshold_for_concern=0.9, bounds=None)
    quiet = audited(evidence.replace(score={"good": useless, "loss": -evidence.score}), plan)
    assert quiet.verdict.status == "not-testable"
    assert "the AUC of loss" in quiet.verdict.text and "AUC of good" not in quiet.verdict.text
    strong = replace(plan, threshold_for_concern=0.15)
    loud = audited(evidence.replace(score={"good": evidence.score, "loss": -evidence.score}), strong)
    assert loud.verdict.status == "flagged"
    declared = audited(
        evidence.replace(score={"good": useless, "loss": -evidence.score}), replace(plan, headline=Declared("good"))
    )
    assert declared.verdict.status == "clear"  # the verdict is about the other score; a note says so
    assert any("loss is clearly below one half" in note for note in declared.notes)


@pytest.mark.long
def test_a_corrected_score_that_points_the_wrong_way_is_not_clear() -> None:
    """Shift alone lifts the raw AUC above one half; corrected, members have lower scores."""
    plan = Plan(fpr_targets=(0.1,), primary_metric="auc", bounds=None)
    found = audited(drifted("zero-run", gap=-0.6, n=3000), plan)
    corrected, _, raw = (m for m in found.metrics if m.name == "auc")
    assert corrected.high < 0.5 < raw.high
    assert (found.verdict.status, found.exit_code) == ("not-testable", 4)


def test_an_undeclared_inverted_score_is_told_first_that_it_points_the_wrong_way() -> None:
    evidence = evidence_of(design=None)
    text = audited(evidence.replace(score=-evidence.score)).verdict.text
    assert text.startswith("Not answered (undeclared): scores point the wrong way")
    assert "Nor did anybody declare" in text


@pytest.mark.parametrize("name", ["near_perfect", "null"])
def test_zero_run_evidence_without_covariates_gets_no_answer(name: str) -> None:
    findings = audited(evidence_of(name, design="zero-run"))
    assert (findings.verdict.status, findings.verdict.exit_code) == ("not-testable", 4)
    assert "no covariates" in findings.verdict.text
    assert any("not causal" in text for text in findings.assumptions)
    assert findings.bounds == ()
    assert all(metric.estimator == "raw" for metric in findings.metrics)


@pytest.mark.long
@pytest.mark.parametrize("plan", [TEN, Plan(fpr_targets=(0.1,), n_bootstrap=100), Plan(headline=Split())])
def test_equal_generators_give_equal_bytes(plan: Plan) -> None:
    evidence = evidence_of()
    evidence = evidence.replace(score={"a": evidence.score, "b": -evidence.score})
    assert audited(evidence, plan, 1).to_json() == audited(evidence, plan, 1).to_json()


@pytest.mark.long
def test_the_bootstrap_is_an_option_and_is_shown_beside() -> None:
    evidence = evidence_of()
    beside = audited(evidence, Plan(fpr_targets=(0.1,), n_bootstrap=200))
    instead = audited(evidence, Plan(fpr_targets=(0.1,), n_bootstrap=200, intervals=Bootstrap()))
    plain = audited(evidence, Plan(fpr_targets=(0.1,)))
    for name in ("tpr_at_fpr_0.1", "auc", "ate"):
        a, b, c = (f.metric(name) for f in (beside, instead, plain))
        assert a.value == b.value == c.value
        assert (a.low, a.high) == (c.low, c.high)
        assert c.bootstrap is None
        assert a.bootstrap["replicates"] == 200
        if name.startswith("tpr"):  # percentiles alone are too narrow at low FPRs: never narrower than the default
            assert b.low == min(a.bootstrap["low"], c.low)
            assert b.high == max(a.bootstrap["high"], c.high)
        else:
            assert (a.bootstrap["low"], a.bootstrap["high"]) == (b.low, b.high)
        assert name.startswith("tpr") or b.low != c.low
    other = audited(evidence, Plan(fpr_targets=(0.1,), n_bootstrap=200), seed=5)
    assert other.metric("auc").bootstrap != beside.metric("auc").bootstrap


def test_units_reach_the_page() -> None:
    score, member, unit = Clusters(100, 5, 0.9, 1.0).draw(np.random.default_rng(1))
    with_units = audited(Evidence(score=score, member=member, unit=unit, design="one-run"))
    without = audited(Evidence(score=score, member=member, design="one-run"))
    assert (with_units.counts.members, with_units.counts.of) == (100, "units")
    assert (without.counts.members, without.counts.of) == (500, "records")
    a, b = with_units.metric("auc"), without.metric("auc")
    assert a.high - a.low > 1.5 * (b.high - b.low)


# -- several scores ---------------------------------------------------------------------------------------------------


def several(k: int = 4, n: int = 1000, seed: int = 0, loud: float = 0.0) -> Evidence:
    rng = np.random.default_rng(seed)
    member = np.arange(2 * n) < n
    scores = {f"s{i}": rng.normal(size=2 * n) for i in range(k)}
    scores["s2"] = scores["s2"] + loud * member
    return Evidence(score=scores, member=member, design="one-run")


@pytest.mark.long
def test_bonferroni_widens_every_interval() -> None:
    evidence = several(4, loud=2.0)
    findings = audited(evidence, Plan(fpr_targets=(0.1,), headline=Bonferroni()))
    assert findings.scores[0].score == "s2"
    assert findings.verdict.status == "flagged"
    direct = definition.estimates(Sample.of(evidence.only("s2")), definition.names((0.001, 0.01, 0.1)), 1 - 0.05 / 4)
    for metric in findings.metrics:
        assert (metric.low, metric.high) == (direct[metric.name].low, direct[metric.name].high)
    assert any("4 scores" in text for text in findings.corrections)
    assert {s.score for s in findings.scores} == {"s0", "s1", "s2", "s3"}


@pytest.mark.long
def test_a_split_chooses_on_one_part_and_measures_on_the_other() -> None:
    evidence = several(4, loud=2.0)
    findings = audited(evidence, Plan(fpr_targets=(0.1,), headline=Split(0.3)))
    assert findings.scores[0].score == "s2"
    assert findings.verdict.status == "flagged"
    assert 1250 < findings.counts.member_records + findings.counts.nonmember_records < 1550
    assert any("chosen on a random 30%" in text for text in findings.corrections)


@pytest.mark.long
def test_a_split_keeps_units_whole() -> None:
    score, member, unit = Clusters(200, 5, 0.9, 1.0).draw(np.random.default_rng(2))
    evidence = Evidence(score={"a": score, "b": -score}, member=member, unit=unit, design="one-run")
    findings = audited(evidence, Plan(fpr_targets=(0.1,), headline=Split()))
    counts = findings.counts
    assert counts.member_records == 5 * counts.members
    assert counts.nonmember_records == 5 * counts.nonmembers
    assert 0 < counts.members < 200


@pytest.mark.long
def test_a_declared_score_is_the_verdict_and_others_are_mentioned() -> None:
    evidence = several(4, loud=2.0)
    quiet = audited(evidence, Plan(fpr_targets=(0.1,), headline=Declared("s0")))
    assert quiet.scores[0].score == "s0"
    assert quiet.verdict.status == "flagged"
    assert {one.score for one in quiet.verdict.exceeded} == {"s2"}
    assert any("s2 exceeds a limit, though s0 was declared" in note for note in quiet.notes)
    silent = audited(several(4), Plan(fpr_targets=(0.1,), headline=Declared("s0")))  # the control
    assert silent.verdict.status == "clear"
    direct = definition.estimates(Sample.of(evidence.only("s0")), definition.names((0.1,)), 0.95)
    assert quiet.metric("auc").low == direct["auc"].low  # nothing to pay for
    loud = audited(evidence, Plan(fpr_targets=(0.1,), headline=Declared("s2")))
    assert loud.verdict.status == "flagged"
    with pytest.raises(InputError, match="did you mean s0"):
        audited(evidence, Plan(fpr_targets=(0.1,), headline=Declared("s00")))


@pytest.mark.long
def test_the_best_of_many_uncorrected_is_labelled() -> None:
    findings = audited(several(4), Plan(fpr_targets=(0.1,), headline=Exploratory()))
    assert findings.verdict.exploratory
    assert findings.verdict.text.startswith("Exploratory, not evidence:")
    assert any("uncorrected" in note for note in findings.notes)
    assert not audited(several(4), Plan(fpr_targets=(0.1,))).verdict.exploratory
    alone = audited(several(4).only("s0"), Plan(fpr_targets=(0.1,), headline=Exploratory()))
    assert not alone.verdict.exploratory  # one score: nothing was chosen


@pytest.mark.slow
def test_looking_at_ten_useless_scores_is_paid_for() -> None:
    """Nominal 5% (one side of 90% intervals); three standard errors of 160 runs are 5%."""
    share = {
        name: float(run(useless_scores, name, 10, 100, replicates=160, seed=3, pool=None)[0])
        for name in ("bonferroni", "exploratory")
    }
    assert share["bonferroni"] <= 0.10
    assert share["exploratory"] > 0.2  # control


def test_a_split_too_small_is_refused() -> None:
    evidence = Evidence(score={"a": [1.0, 0.0], "b": [0.0, 1.0]}, member=[True, False])
    with pytest.raises(InputError, match="bonferroni instead"):
        audited(evidence, Plan(fpr_targets=(0.1,), headline=Split()))


# -- what is never shown ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("n", [1, 2, 50])
def test_every_world_gives_findings_that_are_json(name: str, n: int) -> None:
    findings = audited(evidence_of(name, n, group=np.arange(2 * n) % 2))
    plain = json.loads(findings.to_json())
    assert plain["format"] == 1
    assert plain["verdict"]["exit_code"] in (0, 3, 4)
    assert plain["verdict"]["status"] == findings.verdict.status


@pytest.mark.parametrize("count", [0, 1, 7, 100, 300])
def test_the_most_exposed_rows_are_those_of_a_whole_sort(count: int) -> None:
    rng = np.random.default_rng(0)
    evidence = Evidence(score=rng.normal(size=200).round(1), member=rng.random(200) < 0.5)  # ties at every cut
    members = np.flatnonzero(evidence.member)
    expected = members[np.argsort(-evidence.score[members], kind="stable")[:count]]
    assert [row["row"] for row in pipeline._most_exposed(evidence, count, None)] == expected.tolist()


def test_digests_and_repeats_are_recorded() -> None:
    evidence = evidence_of(source="somewhere")
    findings = audit(evidence, plan=TEN, rng=np.random.default_rng(0), notes=["a note"], repeat={"seed": 7})
    assert findings.evidence["digest"] == evidence.digest
    assert findings.evidence["source"] == "somewhere"
    assert findings.repeat["seed"] == 7
    assert findings.notes[0] == "a note"


def test_an_audit_of_one_model_shows_what_its_stability_guarantees() -> None:
    @dataclass(frozen=True)
    class Seen:
        alpha: float = 1e-4
        beta: float = 1e-4
        pairs: int = 20

    draws = np.random.default_rng(0)
    evidence = Evidence(score=draws.random(600), member=np.arange(600) % 2 == 0, design="one-run")
    plan = Plan(primary_metric="auc", bounds=None)
    plain, seen = (audit(evidence, plan=plan, stability=one, rng=np.random.default_rng(0)) for one in (None, Seen()))
    assert any("Theorem 5.4" in note and "is within" in note for note in seen.notes)
    assert not any("Theorem 5.4" in note for note in plain.notes)
    assert seen.metrics == plain.metrics  # it is shown, and no part of the verdict
    with pytest.raises(InputError, match="stability: expected none"):
        audit(evidence.replace(design="multi-run"), plan=plan, stability=Seen(), rng=np.random.default_rng(0))


def test_what_is_no_evidence_is_told_how_it_becomes_some():
    with pytest.raises(InputError, match=r"received list; Evidence\(score=\.\.\., member"):
        audit([0.1, 0.9])  # type: ignore[arg-type]

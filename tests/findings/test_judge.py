"""The rule of every verdict: against slow twins, on worlds, and at its levels."""

import math

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.findings.judge import Scored, judge, p_value
from miaudit.findings.policy import Policy
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.surest_members import surest_members


def scored(name, score, member, *, alarm=True, several=1):
    sample = Sample.of(ma.Evidence(score=score, member=member))
    found = surest_members(sample, score=name, level=0.025 / several) if alarm else None
    return Scored(name, definition.estimator(sample), sample.effective_nonmembers, found)


def world(kind, n, rng):
    member = np.arange(2 * n) < n
    score = rng.normal(size=2 * n)
    if kind == "mu 1":
        score += member
    elif kind == "exposed":
        score[: int(0.02 * n)] = 9 + rng.random(int(0.02 * n))
    elif kind == "heavy":  # a few members far out, the others turned a little the other way
        score = rng.standard_t(2, size=2 * n) + 4 * (member & (rng.random(2 * n) < 0.1)) - 0.05 * member
    return score, member


# -- the rule ----------------------------------------------------------------------------------------------------------


def slow_twin(policy, scores, confidence=0.95):
    """The rule as its text says it, written out: which limits are exceeded, and whether all lie within."""
    tail = (1 - confidence) / 2
    n0 = min(one.nonmembers for one in scores)
    k, s = len(policy.limits), len(scores)

    def able(name):
        fpr = definition.of(name).fpr
        return fpr is None or n0 * fpr >= math.log(s * k / tail)

    count = s * sum(able(name) for name in policy.thresholds)
    over, within = set(), True
    for one in scores:
        for name, threshold in policy.limits:
            if able(name) and one.estimate(name, 1 - 2 * tail / count).low > threshold:
                over.add((one.score, name))
            within &= one.estimate(name, confidence).high < threshold
        if one.surest is not None and policy.sure and one.surest.p <= tail / s:
            over.add((one.score, "surest_members"))
    return over, "flagged" if over else "clear" if within else "inconclusive"


@pytest.mark.parametrize("kind", ["none", "mu 1", "exposed", "heavy"])
@pytest.mark.parametrize("n", [400, 2000])
@pytest.mark.parametrize("limits", [None, {"auc": 0.6, "tpr_at_fpr_0.01": 0.03, "surest_members": 0.9}])
def test_the_rule_is_that_of_its_text(kind, n, limits):
    rng = np.random.default_rng(n)
    policy = Policy.of(limits)
    first = scored("a", *world(kind, n, rng), several=2)
    scores = [first, scored("b", *world("none", n, rng), several=2)]
    found = judge(policy, scores, confidence=0.95)
    over, status = slow_twin(policy, scores)
    assert {(one.score, one.limit) for one in found.exceeded} == over
    assert found.status == status


def test_more_records_never_turn_a_concern_into_within_the_limits():
    """The failure that started this: 4,000 records raised a concern, 20,000 of the same population none."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        statuses = [
            judge(Policy.of(None), [scored("a", *world("mu 1", n, rng))], confidence=0.95).status
            for n in (1000, 4000, 20_000)
        ]
        assert statuses == ["flagged"] * 3


def test_a_single_metric_that_follows_the_number_of_records_fails_there():
    """The control: the rule that was replaced says no concern of 20,000 records of a world that leaks."""
    rng = np.random.default_rng(0)
    statuses = []
    for n in (2000, 20_000):
        one = scored("a", *world("mu 1", n, rng))
        fpr = next(x for x in (0.001, 0.01, 0.1) if n * x >= 3.69)
        found = one.estimate(f"tpr_at_fpr_{fpr:g}", 0.95)
        statuses.append("flagged" if found.low > 0.05 else "clear" if found.high < 0.05 else "inconclusive")
    assert statuses == ["flagged", "clear"]


def test_a_few_members_that_are_fully_exposed_raise_the_alarm():
    found = judge(Policy.of(None), [scored("a", *world("exposed", 4000, np.random.default_rng(0)))], confidence=0.95)
    assert found.status == "flagged"
    assert [one.limit for one in found.exceeded] == ["surest_members"]
    assert "an attacker can name 80 records of which 80 are members" in found.text
    assert "as a whole" in found.text  # never each record
    metrics = judge(
        Policy.of({"tpr_at_fpr_0.01": 0.05}),
        [scored("a", *world("exposed", 4000, np.random.default_rng(0)))],
        confidence=0.95,
    )
    assert metrics.status == "clear"  # the control: no TPR at 1% sees them


def test_limits_that_cannot_be_resolved_are_named_and_count_with_their_upper_limit():
    found = judge(Policy.of(None), [scored("a", *world("none", 1000, np.random.default_rng(1)))], confidence=0.95)
    assert found.status == "clear"
    assert [one.limit for one in found.unresolved] == ["tpr_at_fpr_0.001"]
    assert "So few non-members cannot show that TPR at 0.1% FPR exceeds its limit" in found.text
    small = judge(Policy.of(None), [scored("a", *world("none", 100, np.random.default_rng(1)))], confidence=0.95)
    assert small.status == "inconclusive"


def test_every_exceeded_limit_is_named_in_the_text():
    found = judge(
        Policy.of({"auc": 0.55, "advantage": 0.1, "tpr_at_fpr_0.1": 0.2}),
        [scored("a", *world("mu 1", 2000, np.random.default_rng(2)))],
        confidence=0.95,
    )
    assert {one.limit for one in found.exceeded} == {"auc", "advantage", "tpr_at_fpr_0.1"}
    for label in ("AUC", "largest TPR - FPR", "10%"):
        assert label in found.text


# -- scores beside a declared headline ---------------------------------------------------------------------------------


def test_a_reported_score_that_exceeds_a_limit_never_leaves_exit_0():
    rng = np.random.default_rng(0)
    quiet, loud = world("none", 2000, rng)[0], world("mu 1", 2000, rng)[0]
    member = np.arange(4000) < 2000
    evidence = ma.Evidence(score={"quiet": quiet, "loud": loud}, member=member, design="one-run")
    plan = ma.Plan(headline=ma.auditing.plan.Declared("quiet"), bounds=None)
    found = ma.audit(evidence, plan=plan, rng=0)
    assert found.exit_code == 3
    assert {one.score for one in found.verdict.exceeded} == {"loud"}
    assert found.scores[0].score == "quiet"
    assert any("though quiet was declared" in note for note in found.notes)
    alone = ma.audit(evidence.only("quiet"), plan=ma.Plan(bounds=None), rng=0)
    assert alone.exit_code == 0  # the control


def test_other_scores_that_only_straddle_change_nothing():
    wide = Scored("wide", lambda name, c: Estimate(0.6, 0.0, 1.0, c), 1e9)
    tight = Scored(
        "tight", lambda name, c: Estimate(0.5, 0.4, 0.6, c) if name == "auc" else Estimate(0.01, 0.0, 0.02, c), 1e9
    )
    policy = Policy.of({"tpr_at_fpr_0.01": 0.05})
    assert judge(policy, [tight], others=[wide], confidence=0.95).status == "clear"
    assert judge(policy, [tight, wide], confidence=0.95).status == "inconclusive"


# -- p-values ----------------------------------------------------------------------------------------------------------


def test_the_p_value_of_an_auc_is_that_of_delong_on_the_logit_scale():
    rng = np.random.default_rng(0)
    one = scored("a", *world("mu 1", 300, rng), alarm=False)
    at = one.estimate("auc", 0.95)
    logit = lambda x: math.log(x / (1 - x))  # noqa: E731
    error = (logit(at.high) - logit(at.low)) / (2 * stats.norm.isf(0.025))
    for threshold in (0.6, 0.7, 0.75):
        z = (logit(at.value) - logit(threshold)) / error
        expected = stats.norm.sf(z) if z > 0 else 1.0
        assert p_value(one, "auc", threshold) == pytest.approx(expected, rel=1e-3)


def test_the_p_value_and_the_rule_agree_at_every_level():
    one = scored("a", *world("mu 1", 1500, np.random.default_rng(5)), alarm=False)
    for name, threshold in (("tpr_at_fpr_0.1", 0.33), ("tpr_at_fpr_0.01", 0.06), ("advantage", 0.3)):
        p = p_value(one, name, threshold)
        assert 1e-12 < p < 0.5
        assert one.estimate(name, 1 - 2 * p * 1.01).low > threshold
        assert not one.estimate(name, 1 - 2 * p * 0.99).low > threshold


# -- parameters --------------------------------------------------------------------------------------------------------


def test_a_limit_on_mu_flags_by_its_bound_and_is_never_clear_without_an_accountant():
    rng = np.random.default_rng(0)
    member = rng.random(4000) < 0.5
    loud = ma.Evidence(score=rng.normal(size=4000) + 3 * member, member=member, design="one-run")
    quiet = ma.Evidence(score=rng.normal(size=4000), member=member, design="one-run")
    plan = ma.Plan(limits={"mu": 0.5})
    flagged = ma.audit(loud, plan=plan, rng=0).verdict
    assert flagged.status == "flagged"
    assert flagged.exceeded[0].limit == "mu"
    assert flagged.exceeded[0].low > 0.5
    assert flagged.exceeded[0].p <= 0.025
    silent = ma.audit(quiet, plan=plan, rng=0).verdict
    assert silent.status == "inconclusive"
    assert silent.unresolved[0].limit == "mu"
    described = ma.dp.mechanism.GaussianNoise(noise=10.0)
    proven = ma.Plan(limits={"mu": 0.5}, bounds=ma.auditing.plan.Bounds(mechanism=described))
    assert ma.audit(quiet, plan=proven, rng=0).verdict.status == "clear"

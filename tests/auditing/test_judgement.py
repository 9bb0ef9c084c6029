"""What measures each limit of an audit: the findings' own numbers, corrected ones, bounds at the level of the limit."""

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.plan import Bootstrap, Bounds
from miaudit.dp.mechanism import GaussianNoise
from miaudit.metrics.classical import Sample


def evidence(n=2000, gap=1.0, seed=0, names=1):
    rng = np.random.default_rng(seed)
    member = np.arange(2 * n) % 2 == 0
    scores = {f"s{i}": rng.normal(size=2 * n) + gap * member * (i == 0) for i in range(names)}
    return ma.Evidence(score=scores, member=member, design="one-run")


def audited(made, **options):
    return ma.audit(made, plan=ma.Plan(**{"bounds": None, **options}), rng=0)


def test_upper_limits_are_those_of_the_findings_and_lower_ones_are_corrected():
    made = evidence()
    found = audited(made, limits={"auc": 0.7, "tpr_at_fpr_0.1": 0.3})
    auc = next(one for one in found.verdict.limits if one.limit == "auc")
    sample = Sample.of(made)
    assert auc.high == found.metric("auc").high == sample.auc(0.95).high
    assert auc.low == sample.auc(1 - 0.05 / 2).low < found.metric("auc").low


def test_limits_that_cannot_be_exceeded_cost_nothing():
    """Three limits, of which 200 non-members resolve two at most: the correction is for those."""
    made = evidence(n=200)
    found = audited(made, limits={"auc": 0.7, "tpr_at_fpr_0.0001": 0.3, "tpr_at_fpr_0.001": 0.3})
    auc = next(one for one in found.verdict.limits if one.limit == "auc")
    assert auc.low == Sample.of(made).auc(0.95).low
    assert {one.limit for one in found.verdict.unresolved} >= {"tpr_at_fpr_0.0001", "tpr_at_fpr_0.001"}


def test_intervals_of_a_bootstrap_are_inside_what_is_judged():
    made = evidence(n=400)
    found = audited(made, limits={"auc": 0.7}, intervals=Bootstrap(), n_bootstrap=200)
    auc = found.verdict.limits[0]
    assert auc.high == found.metric("auc").high
    assert auc.low <= found.metric("auc").low


@pytest.mark.thorough
def test_corrected_metrics_are_judged_and_there_is_no_alarm():
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    member = rng.random(3000) < 1 / (1 + np.exp(-x))
    made = ma.Evidence(score=x + rng.normal(size=3000), member=member, covariates=x[:, None], design="zero-run")
    found = ma.audit(made, plan=ma.Plan(bounds=None, limits={"auc": 0.6, "tpr_at_fpr_0.1": 0.25}), rng=0)
    corrected = found.metric("auc")
    assert corrected.estimator == "aipw"
    assert found.metric("auc", estimator="raw").low > 0.6  # the control: the raw one exceeds the limit
    assert found.verdict.status in ("clear", "inconclusive")
    auc = next(one for one in found.verdict.limits if one.limit == "auc")
    assert auc.high == corrected.high
    assert found.surest_members == ()
    assert all(one.limit != "surest_members" for one in found.verdict.limits)
    default = ma.audit(made, plan=ma.Plan(bounds=None), rng=0)
    assert default.surest_members == ()


def test_a_limit_on_epsilon_is_measured_at_the_level_of_the_limit_and_at_the_delta_of_the_plan():
    made = evidence(gap=3.0)
    plan = ma.Plan(limits={"epsilon": 0.5, "auc": 0.6}, bounds=Bounds(delta=1e-6))
    found = ma.audit(made, plan=plan, rng=0)
    epsilon = next(one for one in found.verdict.limits if one.limit == "epsilon")
    shown = next(bound for bound in found.bounds if bound.parameter == "epsilon")
    assert shown.delta == 1e-6
    assert 0.5 < epsilon.low < shown.value  # at .0125 in the place of .05
    assert epsilon.outcome == "exceeded"
    assert epsilon.p < 0.0125


@pytest.mark.parametrize(("noise", "status"), [(10.0, "clear"), (0.5, "inconclusive")])
def test_only_an_accountant_shows_that_a_parameter_is_within_its_limit(noise, status):
    plan = ma.Plan(limits={"mu": 0.5}, bounds=Bounds(mechanism=GaussianNoise(noise=noise)))
    found = ma.audit(evidence(gap=0.0), plan=plan, rng=0)
    assert found.verdict.status == status


def test_what_is_proven_is_said_of_every_score_and_with_the_bounds():
    made = evidence(n=8000, gap=0.25, names=2)
    found = ma.audit(made, plan=ma.Plan(), rng=0)
    assert found.verdict.status == "clear"
    assert "s0: " in found.verdict.proven
    assert "AUC" in found.verdict.proven
    assert "Not excluded" in found.verdict.not_excluded
    assert "0.1% FPR" in found.verdict.not_excluded
    quiet = ma.audit(evidence(gap=0.0), plan=ma.Plan(bounds=None), rng=0)
    assert quiet.verdict.proven == ""


def test_an_alarm_that_stated_limits_switch_off_is_proven_all_the_same():
    rng = np.random.default_rng(0)
    member = np.arange(8000) % 2 == 0
    score = rng.normal(size=8000)
    score[np.flatnonzero(member)[:120]] += 30
    made = ma.Evidence(score=score, member=member, design="one-run")
    found = audited(made, limits={"auc": 0.6})
    assert found.verdict.status == "clear"
    assert "records of which" in found.verdict.proven
    assert found.surest_members[0].exceeded
    assert audited(made, limits={"auc": 0.6, "surest_members": 0.9}).verdict.status == "flagged"


def test_the_findings_are_about_the_score_that_is_nearest_to_a_limit():
    """A list that is right decides where the policy asks for lists, and else the p-values of its limits."""
    rng = np.random.default_rng(1)
    member = np.arange(8000) % 2 == 0
    exposed, moved = rng.normal(size=(2, 8000))
    exposed[np.flatnonzero(member)[:120]] += 30
    moved += 0.2 * member
    made = ma.Evidence(score={"exposed": exposed, "moved": moved}, member=member, design="one-run")
    for limits, best in (({"auc": 0.53}, "moved"), ({"auc": 0.53, "surest_members": 0.9}, "exposed")):
        found = audited(made, limits=limits)
        assert found.verdict.status == "flagged"
        assert found.scores[0].score == best
    assert audited(made).scores[0].score == "exposed"  # the default policy has the alarm


def test_sealed_coins_count_as_fair_ones():
    """The list's length follows from the number of coins, not from how they fell."""
    from miaudit.auditing.case import choose
    from miaudit.auditing.judgement import _surest

    made = evidence(n=3000)
    case = choose(made, ma.Plan(bounds=None), rng=np.random.default_rng(0))
    found = _surest(case, fair_coins=True)
    assert found["s0"].chance == 0.5
    assert found["s0"].q == pytest.approx(0.9)

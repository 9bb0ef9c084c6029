"""What measures each limit of an audit: the findings' own numbers, corrected ones, bounds at the level of the limit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Declared, Exploratory
from miaudit.auditing.judgement import Judged, all_the_same, with_all_scores
from miaudit.auditing.plan import Bootstrap, Bounds
from miaudit.dp.mechanism import GaussianNoise
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import LowerBound
from miaudit.findings.policy import Policy
from miaudit.findings.verdict import LimitResult, no_answer
from miaudit.metrics.classical import Sample
from miaudit.metrics.surest_members import SurestMembers


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


@pytest.mark.thorough
@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(("noise", "status"), [(10.0, "clear"), (0.5, "inconclusive")])
def test_only_an_accountant_shows_that_a_parameter_is_within_its_limit(noise, status):
    plan = ma.Plan(limits={"mu": 0.5}, bounds=Bounds(mechanism=GaussianNoise(noise=noise)))
    found = ma.audit(evidence(gap=0.0), plan=plan, rng=0)
    assert found.verdict.status == status


@pytest.mark.long
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


@pytest.mark.long
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


def metric(name, low, high, value=0.5):
    return SimpleNamespace(name=name, value=value, low=low, high=high, estimator="raw")


def score(name, *metrics, above=""):
    return SimpleNamespace(score=name, metrics=metrics, above_chance=above)


def bound(parameter, value, delta=0.0, exploratory=False):
    return LowerBound(parameter, value, 0.95, "a test", delta=delta, exploratory=exploratory)


def shown_of(*, scores=(), groups=(), bounds=(), surest=(), by_default=(), limits=None):
    found = SimpleNamespace(surest=surest, by_default=by_default, verdict=SimpleNamespace(limits=()))
    return all_the_same(found, scores or [score("a")], groups, bounds, Policy.of(limits or {"auc": 0.6}))


def test_bounds_that_show_something_are_proven_all_the_same():
    bounds = [bound("epsilon", 0.5, 1e-5), bound("mu", 0.25), bound("mu", 0.0), bound("mu", 0.7, exploratory=True)]
    proven, _ = shown_of(bounds=bounds)
    assert proven == "Lower bounds on privacy parameters: epsilon at least 0.5 at delta = 1e-05, mu at least 0.25."
    assert shown_of(bounds=bounds[2:])[0] == ""


def test_a_group_above_a_limit_is_proven_all_the_same():
    group = SimpleNamespace(group="north", metrics=[metric("auc", 0.61, 0.7), metric("advantage", 0.5, 0.7)])
    assert shown_of(groups=[group])[0] == "In the group north a limit is exceeded: AUC at least 0.610."
    for one in (metric("auc", 0.6, 0.7), metric("auc", None, 0.7), metric("auc", 0.61, 0.7, value=None)):
        assert shown_of(groups=[SimpleNamespace(group="north", metrics=[one])])[0] == ""


def test_scores_that_are_better_than_guessing_or_turned_are_named():
    low, high = score("a", metric("auc", 0.4, 0.499)), score("b", metric("auc", 0.5, 0.6), above="AUC above 0.5")
    proven, _ = shown_of(scores=[low, high])
    assert "Turned round, a identifies members better than random guessing." in proven
    assert "The attack is better than random guessing: b: AUC above 0.5." in proven
    assert shown_of(scores=[score("a", metric("auc", 0.4, 0.5), metric("ate", -2.0, -1.0))])[0] == ""
    alone, _ = shown_of(scores=[score("b", above="AUC above 0.5")])
    assert alone == "The attack is better than random guessing: AUC above 0.5."


def test_of_several_lists_the_longest_and_what_the_default_limits_say():
    lists = [
        SurestMembers(name, listed, listed, 0.9, 1.0, 0.5, 0.9, 0.9, p, 0.025)
        for name, listed, p in (("a", 40, 0.001), ("b", 60, 0.01), ("c", 90, 0.5))
    ]
    proven, _ = shown_of(surest=lists, scores=[score("a"), score("b"), score("c")])
    assert proven.startswith("An attacker can name 60 records of which 60 are members by b.")
    over = LimitResult("tpr_at_fpr_0.1", "", 0.3, 0.4, 0.25, 0.001, "exceeded")
    listed = LimitResult("surest_members", "", 60.0, 60.0, 0.9, 0.001, "exceeded")
    proven, _ = shown_of(by_default=(over, listed))
    assert proven == ("By the default limits this verdict would be a concern: TPR at 10% FPR at least 30% (limit 25%).")
    alone, _ = shown_of(surest=lists[:1])
    assert alone == "An attacker can name 40 records of which 40 are members. " + (
        "At even odds such a list is, as a whole, more than 90% right."
    )
    assert shown_of(by_default=(listed,))[0] == "By the default limits this verdict would be a concern."


@pytest.mark.parametrize(("status", "missing", "kept"), [("clear", 1, False), ("clear", 0, True), ("flagged", 1, True)])
def test_signed_scores_that_are_left_out_leave_no_verdict_within_the_limits(status, missing, kept):
    verdict = no_answer("refused", "", metric="auc", threshold=0.6, confidence=0.9, stated=False)
    found = Judged(replace(verdict, status=status), "a", ())
    after = with_all_scores(found, SimpleNamespace(missing=missing))
    assert with_all_scores(found, None) is found
    if kept:
        assert after is found
    else:
        one = after.verdict
        assert (one.status, one.exit_code, one.metric, one.threshold) == ("not-testable", 4, "auc", 0.6)
        assert (one.confidence, one.stated) == (0.9, False)
        assert "1 signed score is not in this audit" in one.text
        two = with_all_scores(found, SimpleNamespace(missing=2)).verdict
        assert "2 signed scores are not in this audit" in two.text


@pytest.mark.long
def test_a_verdict_within_stated_limits_says_what_the_default_ones_would():
    """Not where the limits are the default ones, where nothing is clear, and of a score that was chosen freely."""
    made = evidence(gap=1.0)
    within = {"auc": 0.9, "tpr_at_fpr_0.1": 0.9}
    assert "By the default limits" in audited(made, limits=within).verdict.proven
    quiet = evidence(gap=0.0)
    assert "By the default limits" not in audited(quiet, limits=within).verdict.proven
    flagged = audited(made, limits={"auc": 0.6})
    assert flagged.verdict.status == "flagged"
    assert "By the default limits" not in flagged.verdict.proven
    free = audited(evidence(gap=1.0, names=2), limits=within, headline=Exploratory())
    assert "By the default limits" not in free.verdict.proven
    assert free.verdict.exploratory


@pytest.mark.long
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_an_accountants_bound_is_that_of_the_parameter_and_of_the_delta(delta):
    bounds = Bounds(mechanism=GaussianNoise(noise=2.0), delta=delta)
    found = ma.audit(evidence(gap=0.0), plan=ma.Plan(limits={"mu": 1.0, "epsilon": 9.0}, bounds=bounds), rng=0)
    mu, epsilon = found.verdict.limits
    assert (mu.limit, mu.high) == ("mu", pytest.approx(0.5))
    assert (epsilon.limit, epsilon.high) == ("epsilon", pytest.approx(Gaussian(0.5).epsilon_at(delta)))


def unequal(names=2):
    rng = np.random.default_rng(2)
    member = rng.random(5000) < 0.3
    scores = {f"s{i}": rng.normal(size=5000) for i in range(names)}
    return ma.Evidence(score=scores, member=member, design="one-run")


@pytest.mark.parametrize("fair", [True, False])
def test_sealed_coins_count_as_fair_ones(fair):
    """The list's length follows from the number of coins, not from how they fell; the level is shared by the scores."""
    from miaudit.auditing.case import choose
    from miaudit.auditing.judgement import _surest

    made = unequal()
    case = choose(made, ma.Plan(bounds=None), rng=np.random.default_rng(0))
    found = _surest(case, fair_coins=fair, rng=np.random.default_rng(0))["s0"]
    share = 0.5 if fair else made.member.mean()
    assert found.chance == pytest.approx(share)
    assert found.q == pytest.approx(9 * share / (9 * share + 1 - share))
    assert found.level == pytest.approx(0.025 / 2)


def test_a_declared_headline_has_the_level_of_its_list_alone_and_the_others_pay_for_all():
    made = unequal(3)
    levels = {one.score: one.level for one in audited(made, headline=Declared("s1"), confidence=0.9).surest_members}
    assert levels == {"s1": pytest.approx(0.05), "s0": pytest.approx(0.05 / 3), "s2": pytest.approx(0.05 / 3)}


def test_of_scores_that_are_equally_far_from_every_limit_the_largest_auc_counts():
    rng = np.random.default_rng(3)
    member = np.arange(4000) % 2 == 0
    noise = rng.normal(size=(2, 4000))
    for gaps, best in (((0.1, 0.3), "s1"), ((0.3, 0.1), "s0")):
        scores = {f"s{i}": noise[i] + gap * member for i, gap in enumerate(gaps)}
        found = audited(ma.Evidence(score=scores, member=member, design="one-run"), limits={"advantage": 0.9})
        assert {one.p for one in found.verdict.limits} == {1.0}
        assert found.scores[0].score == best


@pytest.mark.long
def test_the_p_value_of_a_bound_that_shows_nothing_is_1():
    found = ma.audit(evidence(n=500, gap=0.0), plan=ma.Plan(limits={"mu": 3.0}), rng=0)
    assert found.verdict.limits[0].p == 1.0

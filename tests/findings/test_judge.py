"""The rule of every verdict: against slow twins, on worlds, and at its levels."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.findings import judge as judge_rule
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


@pytest.mark.long
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


# -- levels and strictness ---------------------------------------------------------------------------------------------


def asking(asked, *, low=0.4, high=0.6):
    """A score whose limits are always the same, and that notes at which confidence each metric is wanted."""

    def estimate(name, confidence):
        asked.setdefault(name, set()).add(round(confidence, 12))
        return Estimate((low + high) / 2, low, high, confidence)

    return estimate


def test_the_level_is_divided_by_what_can_be_exceeded():
    """Two scores, two limits that 1,000 non-members resolve, one that they do not, and one on mu: five comparisons."""
    asked, levels = {}, []

    def parameter(name, threshold, level):
        levels.append((name, threshold, level))
        return 0.5, None, 0.01

    policy = Policy.of({"auc": 0.7, "tpr_at_fpr_0.1": 0.7, "tpr_at_fpr_0.0001": 0.7, "mu": 1.0})
    judge(policy, [Scored(name, asking(asked), 1000) for name in "ab"], confidence=0.9, parameter=parameter)
    assert levels == [("mu", 1.0, pytest.approx(0.05 / 5))]
    joint = round(1 - 2 * 0.05 / 5, 12)
    assert asked["tpr_at_fpr_0.0001"] == {0.9, joint}  # no p-value is looked for
    assert {joint, 0.9} < asked["tpr_at_fpr_0.1"]
    assert {joint, 0.9, 0.95} < asked["auc"]  # .95: whether a score points the wrong way, divided by two scores
    alone = {}
    judge(Policy.of({"auc": 0.7}), [Scored("a", asking(alone), 1000)], confidence=0.9)
    assert 0.9 in alone["auc"]
    assert joint not in alone["auc"]


def test_so_many_nonmembers_as_resolve_a_rate_beside_all_limits_and_scores_can_exceed_it():
    policy = Policy.of({"tpr_at_fpr_0.1": 0.3, "auc": 0.99})
    needed = math.ceil(-100 * math.log(0.025 / 4)) / 100 / 0.1  # two limits of two scores
    for nonmembers, able in ((needed + 0.1, True), (needed - 0.1, False)):
        scores = [Scored("a", asking({}, low=0.4), nonmembers), Scored("b", asking({}, low=0.4), 1e9)]
        found = judge(policy, scores, confidence=0.95)
        assert (found.status == "flagged") == able
        assert all(one.resolved == able for one in found.limits if one.limit != "auc")


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (1.0, None, "open"),
        (1.0 + 1e-9, None, "exceeded"),
        (0.5, 1.0, "within"),
        (0.5, 1.0 + 1e-9, "open"),
        (2, 1, "exceeded"),
    ],
)
def test_a_parameter_exceeds_its_limit_above_it_and_keeps_it_up_to_it(low, high, outcome):
    found = judge(
        Policy.of({"mu": 1.0}),
        [Scored("a", asking({}), 1000)],
        confidence=0.95,
        parameter=lambda name, threshold, level: (low, high, 0.5),
    )
    assert [one.outcome for one in found.limits] == [outcome]
    assert found.limits[0].resolved
    assert found.exit_code == {"open": 4, "exceeded": 3, "within": 0}[outcome]


def test_a_parameter_without_a_bound_is_open_and_not_resolved():
    for parameter in (lambda name, threshold, level: (None, None, None), lambda *_: (None, 0.5, None)):
        found = judge(Policy.of({"mu": 1.0}), [Scored("a", asking({}), 1000)], confidence=0.95, parameter=parameter)
        assert not found.limits[0].resolved
    assert found.status == "clear"


@pytest.mark.parametrize(("high", "status"), [(0.5, "clear"), (0.4999, "not-testable")])
def test_a_score_points_the_wrong_way_below_one_half(high, status):
    found = judge(Policy.of({"auc": 0.6}), [Scored("a", asking({}, low=0.4, high=high), 1000)], confidence=0.95)
    assert (found.status, found.metric, found.threshold, found.stated) == (status, "auc", 0.6, True)


@pytest.mark.parametrize(("high", "status"), [(0.0, "clear"), (-1e-9, "not-testable")])
def test_a_difference_points_the_wrong_way_below_zero(high, status):
    def estimate(name, confidence):
        return Estimate(None, -1.0, high, confidence) if name == "ate" else Estimate(0.5, 0.4, 0.6, confidence)

    found = judge(Policy.of({"ate": 0.1}), [Scored("a", estimate, 1000)], confidence=0.95, exploratory=True)
    assert (found.status, found.exploratory) == (status, True)


def test_the_text_leads_with_the_limit_that_is_exceeded_most():
    """Lower limits in multiples of what is allowed; of those that are not exceeded, upper limits."""

    def estimate(name, confidence):
        ends = {"auc": (0.8, 0.9), "advantage": (0.5, 0.95), "balanced_accuracy": (0.75, 0.99)}[name]
        return Estimate(sum(ends) / 2, *ends, confidence)

    limits = {"auc": 0.6, "advantage": 0.2, "balanced_accuracy": 0.7}
    found = judge(Policy.of(limits), [Scored("a", estimate, 1e6)], confidence=0.95)
    assert (found.metric, found.low, found.high) == ("advantage", 0.5, 0.95)
    assert len(found.exceeded) == 3
    calm = judge(
        Policy.of({"auc": 0.85, "advantage": 0.9, "balanced_accuracy": 0.8}),
        [Scored("a", estimate, 1e6)],
        confidence=0.95,
    )
    assert (calm.status, calm.metric) == ("inconclusive", "balanced_accuracy")
    nothing = judge(Policy.of({"auc": 0.6, "advantage": 0.0}), [Scored("a", estimate, 1e6)], confidence=0.95)
    assert nothing.metric == "advantage"  # above a limit of 0 by any factor


def test_a_p_value_is_on_the_side_of_the_decision():
    """The search for it is rounded: an exceeded limit has at most its share of the level, any other at least."""
    for low, outcome in ((0.6 + 1e-12, "exceeded"), (0.6 - 1e-12, "open")):
        estimate = lambda name, confidence, low=low: Estimate(  # noqa: E731
            0.7, low + 1e-9 * (0.95 - confidence), 0.8, confidence
        )
        found = judge(Policy.of({"auc": 0.6}), [Scored("a", estimate, 1000)], confidence=0.95).limits[0]
        assert found.outcome == outcome
        assert found.p == pytest.approx(0.025, abs=1e-3)
        assert (found.p <= 0.025) == (outcome == "exceeded")


def test_a_limit_that_is_exceeded_leads_before_a_list():
    score, member = world("exposed", 4000, np.random.default_rng(0))
    policy = Policy.of({"ate": 0.1, "surest_members": 0.9})
    one = scored("a", score, member)
    high = Scored("a", lambda name, c: Estimate(0.2, 0.15, 0.3, c), 1e6, one.surest)
    found = judge(policy, [high], confidence=0.95)
    assert {limit.limit for limit in found.exceeded} == {"ate", "surest_members"}
    assert found.metric == "ate"


def test_without_a_lower_limit_a_level_begins_at_nothing():
    wide = Scored("a", lambda name, c: Estimate(None, -math.inf, 0.6 if name == "auc" else 0.03, c), 1e6)
    found = judge(Policy.of({"tpr_at_fpr_0.01": 0.02}), [wide], confidence=0.95)
    assert (found.status, found.level) == ("inconclusive", "anything from low to moderate")


@pytest.mark.parametrize("several", [1, 3])
def test_whether_a_score_points_the_wrong_way_is_asked_at_the_level_of_all_scores(several):
    """Upper limits that fall with the level: below one half only if the level were not divided, or one-sided."""
    tail = 0.025 / several
    for shift, status in ((1e-6, "not-testable"), (-1e-6, "clear")):
        estimate = lambda name, c, shift=shift: Estimate(  # noqa: E731
            0.4, 0.3, 0.5 + 0.1 * ((c - 1) / 2 + tail) - shift, c
        )
        found = judge(Policy.of({"auc": 0.6}), [Scored(n, estimate, 1000) for n in "abc"[:several]], confidence=0.95)
        assert found.status == status


def test_a_stated_list_without_records_for_one_is_open():
    found = judge(Policy.of({"auc": 0.99, "surest_members": 0.9}), [Scored("a", asking({}), 1000)], confidence=0.95)
    (missing,) = [one for one in found.limits if one.limit == "surest_members"]
    assert (missing.outcome, missing.resolved, missing.low, missing.high, missing.threshold) == (
        "open",
        False,
        None,
        None,
        0.9,
    )
    assert found.status == "clear"  # the list clears nothing and stands in the way of nothing
    default = judge(Policy.of(None), [Scored("a", asking({}, high=0.01, low=0.0), 1e6)], confidence=0.95)
    assert all(one.limit != "surest_members" for one in default.limits)


def test_a_policy_of_nothing_but_a_list_is_judged_by_it():
    score, member = world("exposed", 4000, np.random.default_rng(0))
    found = judge(Policy.of({"surest_members": 0.9}), [scored("a", score, member)], confidence=0.95)
    assert (found.status, found.metric, found.threshold) == ("flagged", "surest_members", 0.9)
    quiet = scored("a", *world("none", 4000, np.random.default_rng(0)))
    assert judge(Policy.of({"surest_members": 0.9}), [quiet], confidence=0.95).status == "inconclusive"


# -- scores beside a declared headline ---------------------------------------------------------------------------------


def test_a_reported_score_that_exceeds_a_limit_never_leaves_exit_0():
    rng = np.random.default_rng(0)
    quiet, loud = world("none", 2000, rng)[0], world("mu 1", 2000, rng)[0]
    member = np.arange(4000) < 2000
    evidence = ma.Evidence(score={"quiet": quiet, "loud": loud}, member=member, design="one-run")
    plan = ma.Plan(headline=Declared("quiet"), bounds=None)
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


@pytest.mark.parametrize("root", [-7.9, -2.5, -1.0, -0.001])
def test_the_search_for_a_p_value_is_the_bisection_of_scipy(root):
    for excess in (lambda z: math.expm1(z - root), lambda z: z - root, lambda z: 1.0 if z > root else -1.0):
        twin = optimize.bisect(excess, -7.94, -1e-9, xtol=judge_rule._PRECISION, rtol=1e-10)
        assert judge_rule._bisected(excess, -7.94, -1e-9) == twin
        assert judge_rule._bisected(lambda z, f=excess: f(z - 0.01), -7.94, -1e-9) != twin


def test_the_p_value_and_the_rule_agree_at_every_level():
    one = scored("a", *world("mu 1", 1500, np.random.default_rng(5)), alarm=False)
    for name, threshold in (("tpr_at_fpr_0.1", 0.33), ("tpr_at_fpr_0.01", 0.06), ("advantage", 0.3)):
        p = p_value(one, name, threshold)
        assert 1e-12 < p < 0.5
        assert one.estimate(name, 1 - 2 * p * 1.01).low > threshold
        assert not one.estimate(name, 1 - 2 * p * 0.99).low > threshold


def test_p_values_end_at_one_half_and_at_the_surest():
    flat = lambda low: Scored("a", lambda name, c: Estimate(0.7, low, 0.8, c), 1000)  # noqa: E731
    assert p_value(flat(0.61), "auc", 0.6) == 1e-15
    assert p_value(flat(0.6), "auc", 0.6) == 1.0
    none = Scored("a", lambda name, c: Estimate(None, 0.9, 1.0, c), 1000)
    assert p_value(none, "auc", 0.6) == 1.0  # what is not resolved exceeds nothing
    assert p_value(none, "ate", 1.5) == 1.0
    assert p_value(none, "ate", -1.5) == 1.0
    at = lambda name, c: Estimate(0.7, 0.6 + (0.8 - c) / 100, 0.8, c)  # noqa: E731 - two-sided level .2
    assert p_value(Scored("a", at, 1000), "auc", 0.6) == pytest.approx(0.1, rel=1e-3)


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
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

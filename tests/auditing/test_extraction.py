"""What comes out of members and controls: exact limits, false alarms, exposure by how often a text was trained on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.auditing.extraction import ExtractionPlan, by_queries, by_times, judge, told, way
from miaudit.errors import InputError
from miaudit.findings.extraction import Way


def verdict(out: np.ndarray, member: np.ndarray, design: str = "one-run") -> str:
    plan = ExtractionPlan()
    return judge([Way("sampled", "word for word", *way(out, member, plan.confidence))], plan, design).status


def test_limits_are_those_of_scipy() -> None:
    members, controls, difference = way(np.arange(100) < 10, np.arange(100) < 50, 0.95)
    exact = stats.binomtest(10, 50).proportion_ci(0.975, "exact")
    assert (members.low, members.high) == pytest.approx((exact.low, exact.high))
    none = stats.binomtest(0, 50).proportion_ci(0.975, "exact")
    assert difference.low == pytest.approx(exact.low - none.high) and controls.low == 0.0


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_where_nothing_was_memorised_few_audits_raise_an_alarm(rate: float) -> None:
    """2,000 audits of boilerplate: at most 2.5% may be flagged, and the limits hold all three in 95%."""
    rng = np.random.default_rng(7)
    member = np.arange(400) < 200
    flagged = held = 0
    for _ in range(2_000):
        members, controls, difference = way(rng.random(400) < rate, member, 0.95)
        flagged += difference.low > 0
        held += members.low <= rate <= members.high and controls.low <= rate <= controls.high
        held -= (
            not difference.low <= 0 <= difference.high
            and members.low <= rate <= members.high
            and (controls.low <= rate <= controls.high)
        )
    assert flagged <= stats.binom.ppf(0.999, 2_000, 0.025)
    assert held >= stats.binom.ppf(0.001, 2_000, 0.95)


def test_verdicts() -> None:
    member = np.arange(400) < 200
    nothing = np.zeros(400, dtype=bool)
    assert verdict(nothing, member) == "clear"
    assert verdict(nothing[::20], member[::20]) == "inconclusive"
    assert verdict(member, member) == "flagged"
    assert verdict(~nothing, member) == "clear"  # boilerplate: all of both
    plan = ExtractionPlan()
    none = judge([Way("sampled", "word for word", *way(nothing, nothing, 0.95))], plan, "one-run")
    assert none.status == "not-testable" and none.exit_code == 4 and "no members have a passage of 50" in none.text
    ways = [Way("sampled", "word for word", *way(member, member, 0.95))]
    given = judge(ways, plan, "zero-run")
    assert given.condition and given.text.endswith(f"This holds {given.condition}.")
    undeclared = judge(ways, plan, "")
    assert (undeclared.status, undeclared.reason, undeclared.exit_code) == ("not-testable", "undeclared", 4)
    assert undeclared.text.startswith("Not answered (undeclared): ") and "--design one-run" in undeclared.text
    assert undeclared.text.endswith(judge(ways, plan, "one-run").text)


def test_a_stated_limit_hides_no_excess_that_is_proven() -> None:
    out, member = np.arange(2000) < 100, np.arange(2000) < 1000
    ways = [Way("sampled", "word for word", *way(out, member, 0.95))]
    found = judge(ways, ExtractionPlan(limits={"extraction": 0.2}), "one-run")
    assert found.status == "clear" and "Proven even so: at least " in found.text
    none = [Way("sampled", "word for word", *way(out & ~member, member, 0.95))]
    assert "Proven" not in judge(none, ExtractionPlan(limits={"extraction": 0.2}), "one-run").text


def test_the_verdict_reads_all_ways() -> None:
    member, plan = np.arange(400) < 200, ExtractionPlan()
    nothing = Way("sampled", "word for word", *way(np.zeros(400, dtype=bool), member, 0.975))
    nearly = Way("asked-drawn-near", "nearly", *way(member, member, 0.975))
    found = judge([nothing, nearly], plan, "one-run")
    assert (found.status, found.way) == ("flagged", "asked-drawn-near") and "come out nearly than" in found.text
    few = Way("greedy", "likeliest", *way(np.zeros(40, dtype=bool), member[::10], 0.975))
    assert judge([nothing, few], plan, "one-run").status == "inconclusive"
    assert judge([nothing, nothing], plan, "one-run").status == "clear"


def test_who_can_be_told_is_said_only_by_coins_and_with_enough_controls() -> None:
    rng = np.random.default_rng(0)
    member, score = np.arange(600) < 300, rng.normal(size=600)
    score[:300] += 1.5
    found = told(score, member, None, "one-run", 0.95).share
    above = np.sort(score[300:])[-30]
    assert found.value == pytest.approx(np.mean(score[:300] >= above), abs=0.02)
    assert found.low < 0.587 < found.high  # the TPR of two normal laws at an FPR of a tenth: Phi(1.5 - 1.2816)
    for design, why in (("zero-run", "not drawn"), ("", "not declared")):
        none = told(score, member, None, design, 0.95)
        assert none.share.value is None and why in none.why_not
    few = told(score[280:320], member[280:320], None, "one-run", 0.95)
    assert few.share.value is None and "needs 37 non-members, there are 20" in few.why_not


@pytest.mark.long
@pytest.mark.parametrize("n", [3, 8, 25, 60])
def test_limits_of_the_median_exposure_hold(n: int) -> None:
    """Of uniform ranks the median exposure is 1 bit, beside many controls."""
    rng = np.random.default_rng(n)
    controls, held = np.arange(5_000) / 5_000, 0
    for _ in range(300):
        score = np.r_[rng.random(n), controls]
        times = np.r_[np.ones(n, dtype=np.int64), np.zeros(5_000, dtype=np.int64)]
        (row,) = by_times(times, times > 1, score, times > 0, 0.95)
        held += row.median.low <= 1.0005 and row.median.high >= 0.9995
        assert row.median.value is not None and row.median.low <= row.median.value <= row.median.high
    assert held >= stats.binom.ppf(0.001, 300, 0.95)


def test_shares_by_queries_rise_and_meet_the_verdict() -> None:
    rng = np.random.default_rng(0)
    needed, member = 10 ** rng.uniform(0, 7, 300), rng.random(300) < 0.5
    found = by_queries(needed, member, ExtractionPlan(queries=50))
    shares = [point.members.value or 0.0 for point in found]
    assert shares == sorted(shares) and 50.0 in [point.queries for point in found]
    for point in found:
        assert point.members.value == np.mean(needed[member] <= point.queries * (1 + 1e-12))


def test_exposure_of_what_was_not_trained_on_is_that_of_a_uniform_rank() -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    member = rng.random(n) < 0.5
    score = rng.normal(size=n)
    (row,) = by_times(member.astype(np.int64), np.zeros(n, dtype=bool), score, member, 0.95)
    assert row.exposure == pytest.approx(np.log2(np.e), abs=0.1)  # -log2 of a uniform share
    assert row.auc.low < 0.5 < row.auc.high
    (above,) = by_times(member.astype(np.int64), member, score + 100 * member, member, 0.95)
    assert above.exposure == pytest.approx(np.log2(1 + np.count_nonzero(~member)))
    assert above.out.value == 1.0 and above.auc.low > 0.5


def test_many_numbers_of_times_are_put_together() -> None:
    times = np.r_[np.zeros(50, dtype=np.int64), np.arange(1, 41)]
    found = by_times(times, times > 0, times.astype(float), times > 0, 0.95)
    assert [(row.times_from, row.times_to) for row in found] == [(1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63)]
    assert sum(row.texts for row in found) == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suffix": 0}, "suffix: expected .* received 0"),
        ({"prefix": -1}, "prefix"),
        ({"queries": 0}, "queries"),
        ({"chance": 1.0}, "chance"),
        ({"confidence": 0.4}, "confidence"),
        ({"limits": {"auc": 0.6}}, "extraction, which an audit of extraction measures"),
        ({"limits": {"extraction": 2.0}}, "limits"),
    ],
)
def test_bad_plans(change: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExtractionPlan(**change)  # type: ignore[arg-type]

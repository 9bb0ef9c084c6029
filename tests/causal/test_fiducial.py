from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import effects
from miaudit.causal.estimators import Comparison
from miaudit.causal.fiducial import Ranked
from miaudit.metrics import classical
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units
from worlds import aligned
from worlds.aligned import Aligned
from worlds.confounded import Confounded, given
from worlds.coverage import run


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def world(seed: int = 0, n: int = 1000, **how: float) -> tuple[Evidence, SimpleNamespace]:
    return Aligned(**{"slope": 0.7, "leak": 1.0, **how}).draw(n, rng(seed))


def ranked(evidence: Evidence, propensity: SimpleNamespace) -> Ranked:
    return Comparison.of(evidence, propensity).ranked


def by_draws(one: Ranked, fpr: float, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """The slow twin: weights drawn one by one, the threshold where their share reaches the FPR."""
    unit = np.arange(len(one.weight)) if one.unit is None else one.unit
    weight = rng.exponential(size=(draws, unit.max() + 1))[:, unit] * one.weight
    beyond = rng.exponential(size=draws) * one.heaviest_above(fpr)
    found = []
    for extra, hits, at_zero in ((beyond, one.before, True), (0 * beyond, one.after, False)):
        share = np.cumsum(weight, axis=1) + extra[:, None]
        allowed = fpr * share[:, -1]
        place = (share < allowed[:, None]).sum(axis=1)
        above = np.where(at_zero & (extra >= allowed), 0.0, hits[place])
        found.append(
            classical.beta_mixture_quantile(
                np.full(draws, 1 / draws), above, one.members, 0.025 if at_zero else 0.975, at_zero=at_zero
            )
        )
    return found[0], found[1]


# -- the promise -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_lower_limit_is_below_the_truth_where_the_heaviest_have_the_highest_scores() -> None:
    """In few replicates; tests/slow/test_weighted_tpr.py has the figures."""
    found = run(aligned.missed, Aligned(leak=1.0), 2000, 0.01, False, True, replicates=160, seed=3, pool=None)
    by_name = dict(zip(aligned.COLUMNS, found, strict=True))
    assert by_name["low > truth"] <= 0.035
    assert by_name["control low > truth"] > 0.12


def test_few_heavy_nonmembers_above_the_threshold_leave_no_lower_limit() -> None:
    evidence, known = world(n=2000, slope=1.0)
    overall = Comparison.of(evidence, known).effective_nonmembers
    above = effects.effective_nonmembers(evidence, known)
    assert above < 369 < overall  # control: as many as all of them count would resolve an FPR of 1%
    found = effects.tpr_at_fpr(evidence, known, fpr=0.01, rng=rng())
    assert (found.low, found.resolved) == (0.0, True)
    assert found.note == (
        "no lower limit: an FPR of 0.01 needs 369 effective non-members, and by the weight of the heaviest above the "
        f"threshold there are {int(above)}"
    )
    for alpha, exists in ((3.6 / above, False), (4.2 / above, True)):
        assert (effects.tpr_at_fpr(evidence, known, fpr=alpha, rng=rng()).low > 0) == exists
    modelled = effects.tpr_at_fpr(evidence, known, fpr=0.01, method="aipw", rng=rng())
    assert modelled.low == 0.0
    assert "no lower limit" in modelled.note
    opposed = evidence.replace(score=-evidence.score)  # the lightest have the highest scores
    assert effects.effective_nonmembers(opposed, known) > overall


def test_a_heavy_nonmember_with_a_low_score_costs_nothing_at_a_low_fpr() -> None:
    score, member = np.arange(2000.0), np.arange(2000) % 2 == 0
    odds = rng().uniform(0.9, 1.1, 2000)
    light = Comparison.of(Evidence(score=score, member=member), given(np.log(odds))).ranked.smallest_fpr(0.95)
    for row, costs in ((1, False), (1999, True)):
        heavy = odds.copy()
        heavy[row] = 40.0
        found = Comparison.of(Evidence(score=score, member=member), given(np.log(heavy))).ranked
        assert (found.smallest_fpr(0.95) > 10 * light) == costs


# -- second truths -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("n", "fpr"), [(1000, 0.01), (1000, 0.05), (600, 0.2), (600, 0.8)])
@pytest.mark.parametrize("how", [{}, {"grid": 0.5}, {"size": 3}])
def test_limits_are_those_of_drawn_weights(n: int, fpr: float, how: dict[str, float]) -> None:
    one = ranked(*world(n=n, slope=0.4, **how))
    found, drawn = one.limits(fpr, 0.95, one.members), by_draws(one, fpr, 8000, rng(1))
    assert found == pytest.approx(drawn, abs=0.012)
    assert one.limits(fpr, 0.95, one.members, most_nodes=60) == pytest.approx(drawn, abs=0.02)


@pytest.mark.parametrize("fpr", [0.01, 0.1, 0.5])
def test_equal_weights_give_the_mixture_with_the_outer_counts(fpr: float) -> None:
    evidence, _ = Confounded(slope=0.0, effect=1.0).draw(1000, 2000, rng(2))
    roc = Roc.of(evidence.score, evidence.member)
    low, high = Ranked.of(evidence.score, evidence.member, np.ones(3000), None).limits(fpr, 0.95, 1000)
    (mixed_low,), (mixed_high,) = classical.tpr_limits(roc, fpr, 0.95)
    assert 0 <= mixed_low - low < 0.1 * (mixed_high - mixed_low)
    assert 0 <= high - mixed_high < 0.1 * (mixed_high - mixed_low)


def test_horvitz_thompson_has_a_fixed_total() -> None:
    evidence, known = world(n=2000, slope=0.4)
    w = np.where(evidence.member, 1.0, known.odds)
    fixed = Ranked.of(evidence.score, evidence.member, w, None, evidence.n_members)
    own = ranked(evidence, known)
    assert fixed.limits(0.1, 0.95, 1000) == pytest.approx(own.limits(0.1, 0.95, 1000), abs=0.04)
    found = effects.tpr_at_fpr(evidence, known, fpr=0.1, method="horvitz-thompson", rng=rng())
    assert found.low < Aligned(slope=0.4, leak=1.0).tpr(0.1) < found.high


@pytest.mark.parametrize("how", [{}, {"size": 3}])
def test_many_fprs_at_once_are_as_one_by_one(how: dict[str, float]) -> None:
    one, rates, shapes = ranked(*world(n=900, slope=0.6, **how)), [0.004, 0.03, 0.2, 0.7], [1.0, 0.6, 0.9, 0.5]
    trials = [one.members / k for k in (1, 2, 3, 4)]
    together = one.band(rates, 0.95, trials, shapes, most_nodes=60)
    alone = [
        one.limits(fpr, 0.95, n, shape=shape, most_nodes=60)
        for fpr, n, shape in zip(rates, trials, shapes, strict=True)
    ]
    assert np.array(together) == pytest.approx(np.array(alone), abs=1e-9)


# -- laws --------------------------------------------------------------------------------------------------------------


def test_the_upper_limit_rises_with_the_fpr_and_the_lower_where_the_heaviest_stays() -> None:
    one = ranked(*world(n=1000, slope=0.4))
    grid = np.geomspace(0.005, 0.9, 40)
    low, high = np.array([one.limits(float(a), 0.95, one.members) for a in grid]).T
    assert (np.diff(high) > -2e-3).all()
    same = np.diff([one.heaviest_above(float(a)) for a in grid]) == 0
    assert (np.diff(low)[same] > -2e-3).all()
    assert (low <= high).all()


def test_a_heavier_nonmember_at_the_top_lowers_the_lower_limit() -> None:
    evidence, known = world(n=2000, slope=0.3)
    top = np.flatnonzero(~evidence.member)[np.argmax(evidence.score[~evidence.member])]
    lows = []
    for factor in (1.0, 3.0, 10.0, 30.0):
        odds = known.odds.copy()
        odds[top] *= factor
        lows.append(effects.tpr_at_fpr(evidence, given(np.log(odds)), fpr=0.05, rng=rng()).low)
    assert lows == sorted(lows, reverse=True)
    assert lows[0] > 0
    assert lows[-1] == 0


@pytest.mark.parametrize("grid", [0.0, 0.5])
def test_neither_generator_nor_order_of_rows_nor_scale_of_weights_matters(grid: float) -> None:
    evidence, known = world(n=800, grid=grid)
    found = effects.tpr_at_fpr(evidence, known, fpr=0.1, rng=rng(0))
    assert effects.tpr_at_fpr(evidence, known, fpr=0.1, rng=rng(1)) == found
    order = rng().permutation(evidence.n)
    moved = SimpleNamespace(values=known.values[order], odds=known.odds[order], features=None)
    again = effects.tpr_at_fpr(evidence.take(order), moved, fpr=0.1, rng=rng())
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
    for factor in (4.0, 0.3):
        scaled = SimpleNamespace(values=known.values, odds=factor * known.odds, features=None)
        again = effects.tpr_at_fpr(evidence, scaled, fpr=0.1, rng=rng())
        assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-4)


def test_copies_in_one_unit_say_nothing_new_and_units_of_one_record_change_nothing() -> None:
    evidence, known = world(n=600, slope=0.3)
    once = ranked(evidence, known)
    alone = ranked(evidence.replace(unit=np.arange(600)), known)
    assert alone.limits(0.1, 0.95, 300) == pytest.approx(once.limits(0.1, 0.95, 300), abs=2e-3)
    rows = np.repeat(np.arange(600), 3)
    many = SimpleNamespace(values=known.values[rows], odds=known.odds[rows], features=None)
    copies = evidence.take(rows)
    together, apart = ranked(copies.replace(unit=rows), many), ranked(copies, many)
    assert together.limits(0.1, 0.95, 300) == pytest.approx(once.limits(0.1, 0.95, 300), abs=0.01)
    assert together.smallest_fpr(0.95) == pytest.approx(once.smallest_fpr(0.95))
    low, high = apart.limits(0.1, 0.95, 300)  # control: as if the copies were other records
    assert high - low < 0.8 * np.diff(once.limits(0.1, 0.95, 300))[0]


def test_running_sums_of_units() -> None:
    code = np.array([0, 1, 0, 1, 1])
    one = Ranked.of(np.arange(5.0)[::-1], np.zeros(5, bool), np.arange(1.0, 6.0), Units.of(code, np.zeros(5, bool)))
    assert one.so_far.tolist() == [1, 2, 4, 6, 11]
    assert one.whole.tolist() == [4, 11, 4, 11, 11]


def test_an_average_unit_is_the_lightest_that_counts_as_the_heaviest() -> None:
    code, member = np.tile(np.arange(10), 2), np.zeros(20, bool)
    one = Ranked.of(np.arange(20.0), member, np.full(20, 0.5), Units.of(code, member))
    assert one.heaviest_above(0.01) == pytest.approx(1.0)  # two halves, though one record alone is above
    assert one.heaviest_above(0.9) == pytest.approx(1.0)


def test_no_fpr_is_resolved_where_all_weight_is_less_than_the_heaviest_needs() -> None:
    """With a fixed total the accused share may end below 1, and there is no lower limit all the same."""
    weight, member = np.r_[10.0, np.ones(11)], np.zeros(12, bool)  # the heaviest has the lowest score
    for total in (None, 100.0):
        assert Ranked.of(np.arange(12.0), member, weight, None, total).smallest_fpr(0.95) == 1.0
    even = Ranked.of(np.arange(12.0), member, np.ones(12), None, 100.0)  # the control
    assert even.smallest_fpr(0.95) == pytest.approx(classical.resolution(0.95) / 100)


def test_uncertain_weights_widen() -> None:
    one = ranked(*world(n=1000, slope=0.3))
    low, high = one.limits(0.1, 0.95, 500)
    lower, higher = one.limits(0.1, 0.95, 500, shape=0.5)
    assert lower < low < high < higher


@pytest.mark.parametrize("fpr", [1e-9, 1e-3, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("n", [4, 40])
def test_tiny_inputs_have_limits(fpr: float, n: int) -> None:
    draws = rng(n)
    for score in (draws.normal(size=n), np.zeros(n), np.arange(n) % 2, -(np.arange(n) % 2)):
        evidence = Evidence(score=score, member=np.arange(n) % 2 == 1)
        for unit in (None, np.arange(n) // 2):
            for method in ("hajek", "horvitz-thompson"):
                found = effects.tpr_at_fpr(
                    evidence.replace(unit=unit), given(3 * draws.normal(size=n)), fpr=fpr, method=method, rng=draws
                )
                assert 0 <= found.low <= found.high <= 1


def test_the_band_has_the_limits_of_single_fprs() -> None:
    evidence, known = world(n=1000, slope=0.4)
    grid = np.array([0.003, 0.05, 0.3])
    _, low, high = effects.tpr_band(evidence, known, grid)
    single = [effects.tpr_at_fpr(evidence, known, fpr=float(a), rng=rng()) for a in grid]
    assert low == pytest.approx([e.low for e in single], abs=0.01)
    assert high == pytest.approx([e.high for e in single], abs=0.01)

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import effects, sensitivity
from miaudit.errors import InputError
from miaudit.metrics.roc import Roc
from worlds.confounded import Confounded
from worlds.twins import auc_by_pairs


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def tiny(seed: int, ties: bool = False) -> tuple[Evidence, SimpleNamespace]:
    evidence, propensity = Confounded().draw(5, 9, rng(seed))
    return (evidence.replace(score=np.round(evidence.score)) if ties else evidence), propensity


def scaled(propensity: SimpleNamespace, factor: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(values=propensity.values, odds=propensity.odds * factor, features=None)


@pytest.mark.parametrize("metric", ["auc", "ate"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.3, 4.0])
def test_bounds_equal_enumeration(metric: str, ties: bool, factor: float) -> None:
    for seed in range(3):
        evidence, p = tiny(seed, ties)
        found = []
        y, a = evidence.score, evidence.member
        above = np.array([((y[a] > v).mean() + (y[a] >= v).mean()) / 2 for v in y[~a]])
        for choice in itertools.product((factor, 1 / factor), repeat=9):
            w = p.odds[~a] * np.array(choice)
            found.append(w @ above / w.sum() if metric == "auc" else y[a].mean() - w @ y[~a] / w.sum())
        low, high = sensitivity.bounds(evidence, p, odds_factor=factor, metric=metric)
        assert (low, high) == pytest.approx((min(found), max(found)))
        estimate = getattr(effects, metric)(evidence, p, rng=rng()).value
        assert low - 1e-12 <= estimate <= high + 1e-12


@pytest.mark.parametrize("metric", ["auc", "ate"])
@pytest.mark.parametrize("effect", [0.6, -0.6])
def test_at_the_breakdown_the_effect_can_just_vanish(metric: str, effect: float) -> None:
    evidence, p = Confounded(effect=effect).draw(200, 300, rng(2))
    found = sensitivity.breakdown(evidence, p, metric=metric, replicates=0, rng=rng())
    null = 0.5 if metric == "auc" else 0.0
    side = 0 if effect > 0 else 1
    assert found.value > 1
    assert sensitivity.bounds(evidence, p, odds_factor=found.value, metric=metric)[side] == pytest.approx(
        null, abs=1e-9
    )
    less = sensitivity.bounds(evidence, p, odds_factor=1 + 0.9 * (found.value - 1), metric=metric)[side]
    assert (less - null) * effect > 0
    assert "multiplies the odds" in found.sentence


def test_no_effect_has_a_breakdown_of_one_and_separation_has_none() -> None:
    evidence, p = Confounded(effect=0).draw(4000, 4000, rng(3))
    assert sensitivity.breakdown(evidence, p, replicates=50, rng=rng()).value < 1.1
    apart = evidence.replace(score=evidence.member.astype(float))
    found = sensitivity.breakdown(apart, p, replicates=20, rng=rng())
    assert math.isinf(found.value)
    assert "however strong" in found.sentence


@pytest.mark.parametrize("metric", ["auc", "ate"])
def test_the_low_quantile(metric: str) -> None:
    evidence, p = Confounded(effect=0.8).draw(500, 500, rng(4))
    found = sensitivity.breakdown(evidence, p, metric=metric, replicates=200, rng=rng(1))
    assert 1 <= found.low < found.value
    assert found == sensitivity.breakdown(evidence, p, metric=metric, replicates=200, rng=rng(1))
    # The straightforward way: copy the rows, sort again.
    slow, draws = [], rng(2)
    inside, outside = np.flatnonzero(evidence.member), np.flatnonzero(~evidence.member)
    for _ in range(200):
        rows = np.r_[draws.choice(inside, len(inside)), draws.choice(outside, len(outside))]
        again = SimpleNamespace(values=p.values[rows], odds=p.odds[rows], features=None)
        slow.append(sensitivity.breakdown(evidence.take(rows), again, metric=metric, replicates=0, rng=rng()).value)
    assert found.low == pytest.approx(np.quantile(slow, 0.05), rel=0.06)


@pytest.mark.parametrize("metric", ["auc", "ate"])
def test_one_resample_is_that_of_the_rows_copied_and_sorted_again(metric: str) -> None:
    """With ties; the same draws, members first."""
    evidence, p = Confounded(effect=1.5).draw(60, 80, rng(7))
    evidence = evidence.replace(score=np.round(evidence.score, 1))
    inside, outside = np.flatnonzero(evidence.member), np.flatnonzero(~evidence.member)
    value = sensitivity.breakdown(evidence, p, metric=metric, replicates=0, rng=rng()).value
    below = 0
    for seed in range(6):
        draws = rng(seed)
        rows = np.r_[inside[draws.integers(60, size=60)], outside[draws.integers(80, size=80)]]
        again = SimpleNamespace(values=p.values[rows], odds=p.odds[rows], features=None)
        expected = sensitivity.breakdown(evidence.take(rows), again, metric=metric, replicates=0, rng=rng()).value
        found = sensitivity.breakdown(evidence, p, metric=metric, replicates=1, rng=rng(seed))
        assert found.low == pytest.approx(max(1.0, min(expected, value)))
        below += 1 < expected < value
    assert below >= 2


def test_units_are_resampled_whole() -> None:
    evidence, p = Confounded(effect=0.8).draw(300, 300, rng(5))
    rows = np.repeat(np.arange(600), 5)
    copies = evidence.take(rows).replace(unit=rows)
    many = SimpleNamespace(values=p.values[rows], odds=p.odds[rows], features=None)
    once = sensitivity.breakdown(evidence, p, replicates=200, rng=rng())
    units = sensitivity.breakdown(copies, many, replicates=200, rng=rng())
    records = sensitivity.breakdown(copies.replace(unit=None), many, replicates=200, rng=rng())
    assert units.value == pytest.approx(once.value)
    assert units.low == pytest.approx(once.low, rel=0.05)
    assert records.low > units.low


def test_a_resample_that_lacks_a_class_explains_everything() -> None:
    """Two units, one of members and one of others: half of the resamples have one of them only."""
    evidence = Evidence(score=np.r_[5.0, 6.0, 1.0, 5.5], member=[1, 1, 0, 0], unit=[0, 0, 1, 1])
    flat = SimpleNamespace(values=np.full(4, 0.5), odds=np.ones(4), features=None)
    whole = sensitivity.breakdown(evidence, flat, metric="ate", replicates=40, rng=rng())
    assert whole.value == math.inf  # no non-member is above the mean of the members
    assert whole.low == 1.0


def test_tpr_bounds_are_reached_and_never_passed() -> None:
    evidence, p = Confounded(effect=0.8).draw(3000, 3000, rng(6))
    alpha, factor = 0.1, 1.5
    low, high = sensitivity.tpr_bounds(evidence, p, fpr=alpha, odds_factor=factor)
    estimate = effects.tpr_at_fpr(evidence, p, fpr=alpha, rng=rng()).value
    assert low < estimate < high
    reached = []
    for cut in np.quantile(evidence.score, np.linspace(0.02, 0.99, 120)):
        for up in (factor, 1 / factor):
            odds = scaled(p, np.where(evidence.score >= cut, up, 1 / up))
            reached.append(effects.roc(evidence, odds).tpr_at(alpha))
    assert (min(reached), max(reached)) == pytest.approx((low, high), abs=0.01)
    assert min(reached) >= low - 1e-9
    assert max(reached) <= high + 1e-9
    same = sensitivity.tpr_bounds(evidence, p, fpr=alpha, odds_factor=1.0)
    assert same == pytest.approx((estimate, estimate))


def test_what_wrong_labels_shrink_is_stretched_on_both_sides_of_chance() -> None:
    evidence, p = Confounded(effect=-0.7).draw(150, 150, rng(8))
    found = sensitivity.under_mislabelling(evidence, p, members=0.1, nonmembers=0.2, rng=rng())
    ate, auc, best = (metric(evidence, p, rng=rng()) for metric in (effects.ate, effects.auc, effects.advantage))
    assert ate.high < 0
    for name, one, chance in (("ate", ate, 0.0), ("auc", auc, 0.5), ("advantage", best, 0.0)):
        for end in ("value", "low", "high"):
            expected = chance + (getattr(one, end) - chance) / 0.7
            expected = expected if name == "ate" else min(max(expected, 0.0), 1.0)
            assert getattr(found[name], end) == pytest.approx(expected), (name, end)


@pytest.mark.long
def test_mislabelled_records_are_undone() -> None:
    e1, e0, n = 0.1, 0.2, 20_000
    draws = rng(7)
    right = np.arange(2 * n) < n
    wrong = draws.random(2 * n)
    score = draws.normal(size=2 * n) + np.where(right, wrong >= e1, wrong < e0)  # what a record truly is
    evidence = Evidence(score=score, member=right, design="zero-run")
    flat = SimpleNamespace(values=np.full(2 * n, 0.5), odds=np.ones(2 * n), features=None)
    found = sensitivity.under_mislabelling(evidence, flat, members=e1, nonmembers=e0, fpr_targets=(0.1,), rng=rng())
    assert found["auc"].value == pytest.approx(0.7602, abs=0.012)
    assert found["ate"].value == pytest.approx(1.0, abs=0.05)
    assert found["advantage"].value == pytest.approx(0.3829, abs=0.02)
    assert found["tpr_at_fpr_0.1"].value == pytest.approx(0.389, abs=0.03)
    for name, truth in {"auc": 0.7602, "ate": 1.0, "tpr_at_fpr_0.1": 0.389}.items():
        assert found[name].low < truth < found[name].high
    assert abs(effects.auc(evidence, flat, rng=rng()).value - 0.7602) > 0.05  # control
    nobody = sensitivity.under_mislabelling(evidence, flat, members=0, nonmembers=0, rng=rng())
    assert nobody["auc"] == effects.auc(evidence, flat, rng=rng())


def test_the_mixture_in_closed_form() -> None:
    """The area of a mixed curve shrinks by 1 - e1 - e0, whatever the two laws are."""
    inside, outside = rng(1).normal(size=40) + 1, rng(2).normal(size=40)
    e1, e0 = 0.25, 0.5
    score = np.r_[np.tile(inside, 3), outside, np.tile(inside, 1), outside]
    member = np.r_[np.ones(160, bool), np.zeros(80, bool)]
    pure = auc_by_pairs(np.r_[inside, outside], np.arange(80) < 40)
    mixed = auc_by_pairs(score, member)
    assert mixed - 0.5 == pytest.approx((1 - e1 - e0) * (pure - 0.5))
    solved = sensitivity.solved_curve(Roc.of(score, member), e1, e0)
    assert solved.auc == pytest.approx(pure)


def test_bad_input() -> None:
    evidence, p = tiny(0)
    with pytest.raises(InputError, match="odds_factor"):
        sensitivity.bounds(evidence, p, odds_factor=0.5)
    with pytest.raises(InputError, match="metric"):
        sensitivity.bounds(evidence, p, odds_factor=2, metric="tpr")
    with pytest.raises(InputError, match="metric"):
        sensitivity.breakdown(evidence, p, metric="tpr", replicates=0, rng=rng())
    with pytest.raises(InputError, match="less than 1"):
        sensitivity.under_mislabelling(evidence, p, members=0.6, nonmembers=0.4, rng=rng())
    with pytest.raises(InputError, match="members"):
        sensitivity.under_mislabelling(evidence, p, members=-0.1, nonmembers=0.4, rng=rng())
    with pytest.raises(InputError, match="fpr"):
        sensitivity.tpr_bounds(evidence, p, fpr=1.0, odds_factor=2)

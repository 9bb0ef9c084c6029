"""Sets: their promise in simulation, against slow twins, and at the ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miaudit.defences.label_sets import (
    AdaptiveSet,
    ConformalSet,
    SetThreshold,
    SizedSet,
    conformal_quantile,
    records_for,
    sums_down,
)
from miaudit.errors import InputError


def draw(n: int, rng: np.random.Generator, sure: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Exchangeable records; with ``sure`` above 1 the model is too sure, which conformal sets must not mind."""
    truth = rng.dirichlet(np.full(5, 0.6), size=n)
    y = (rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1).clip(max=4)
    return special.softmax(sure * np.log(np.maximum(truth, 1e-9)), axis=1), y


def coverage(defence: ConformalSet, held: int, repeats: int = 400) -> float:
    rng, found = np.random.default_rng(1), []
    for _ in range(repeats):
        p, y = draw(held + 50, rng, 2.0)
        sets = defence.fit(p[:held], y[:held], rng=rng).apply(p[held:], rng=rng).values
        found.append(sets[np.arange(50), y[held:]].mean())
    return float(np.mean(found))


@pytest.mark.long
@pytest.mark.parametrize("held", [19, 60])
@pytest.mark.parametrize(
    ("defence", "exact"),
    [
        (ConformalSet(0.9), True),
        (ConformalSet(0.9, temperature=0.1), True),
        (AdaptiveSet(0.9, randomised=True), True),
        (AdaptiveSet(0.9), False),
    ],
)
def test_the_promise_is_kept(defence: ConformalSet, exact: bool, held: int) -> None:
    found = coverage(defence, held)
    assert found > 0.892  # a standard error is 0.003
    if exact:
        assert found < 0.9 + 2 / (held + 1) + 0.01


def test_a_threshold_chosen_without_the_correction_breaks_the_promise() -> None:
    rng, found = np.random.default_rng(2), []
    for _ in range(400):
        p, y = draw(59, rng, 2.0)
        own = np.sort(p[:9][np.arange(9), y[:9]])
        sets = SetThreshold(float(np.quantile(own, 0.1))).apply(p[9:], rng=rng).values
        found.append(sets[np.arange(50), y[9:]].mean())
    assert np.mean(found) < 0.87


def test_the_threshold_is_the_largest_that_keeps_the_promise() -> None:
    rng = np.random.default_rng(3)
    p, y = draw(200, rng)
    own = p[np.arange(200), y]
    q = ConformalSet(0.9).fit(p, y, rng=rng).threshold
    risk = lambda t: ((own < t).sum() + 1) / 201  # noqa: E731
    assert risk(q) <= 0.1 + 1e-12
    above = own[own > q].min()
    assert risk(above) > 0.1 or risk(np.nextafter(above, 1)) > 0.1
    warm = ConformalSet(0.9, temperature=0.05).fit(p, y, rng=rng).threshold
    missed = (special.expit((warm - own) / 0.05).sum() + 1) / 201
    assert missed == pytest.approx(0.1, abs=1e-6)


def test_conformal_sets_are_those_of_the_score_of_sadinle() -> None:
    rng = np.random.default_rng(4)
    p, y = draw(137, rng)
    fresh, _ = draw(100, rng)
    limit = conformal_quantile(1 - p[np.arange(137), y], 0.9)
    theirs = 1 - fresh <= limit + 1e-12
    assert np.array_equal(ConformalSet(0.9).fit(p, y, rng=rng).apply(fresh, rng=rng).values, theirs)


def test_sums_down_by_their_definition() -> None:
    rng = np.random.default_rng(5)
    p, share = rng.dirichlet(np.ones(4), size=20), rng.random(20)
    found = sums_down(p, share)
    for row in range(20):
        for k in range(4):
            larger = p[row][p[row] > p[row, k]].sum()
            assert found[row, k] == pytest.approx(larger + share[row] * p[row, k])


def test_sets_of_a_size() -> None:
    rng = np.random.default_rng(6)
    p, y = draw(500, rng)
    for size in (0.5, 1.0, 2.5):
        exact = SizedSet(size).fit(p, y, rng=rng).apply(p, rng=rng).values.sum(axis=1).mean()
        assert exact == pytest.approx(size, abs=0.01)
        warm = SizedSet(size, temperature=0.2).fit(p, y, rng=rng)
        assert special.expit((p - warm.threshold) / 0.2).sum(axis=1).mean() == pytest.approx(size, abs=1e-6)
    with pytest.raises(InputError, match="at most 5 labels, received 6"):
        SizedSet(6.0).fit(p, y, rng=rng)


def test_coins_have_their_probability() -> None:
    p = np.tile([0.7, 0.3], (40_000, 1))
    sets = SetThreshold(0.5, temperature=0.2).apply(p, rng=np.random.default_rng(7)).values
    assert sets.mean(axis=0) == pytest.approx(special.expit([1.0, -1.0]), abs=0.01)
    cold = SetThreshold(0.5, temperature=1e-4).apply(p, rng=np.random.default_rng(7)).values
    assert np.array_equal(cold, SetThreshold(0.5).apply(p, rng=np.random.default_rng(7)).values)


def test_always_full_and_always_empty() -> None:
    rng = np.random.default_rng(8)
    p, y = draw(20, rng)
    assert SetThreshold(0.0).apply(p, rng=rng).values.all()
    assert not SetThreshold(1.0).apply(p, rng=rng).values.any()
    assert records_for(0.99) == 99
    assert ConformalSet(0.99).fit(p, y, rng=rng).apply(p, rng=rng).values.all()  # 20 records promise no 99%
    assert AdaptiveSet(0.99).fit(p, y, rng=rng).apply(p, rng=rng).values.all()
    assert not AdaptiveSet(0.5).fit(p, y, rng=rng).apply(p, rng=rng).values.all()
    assert AdaptiveSet(0.01).fit(p, y, rng=rng).apply(p, rng=rng).values.any(axis=1).all()  # never empty

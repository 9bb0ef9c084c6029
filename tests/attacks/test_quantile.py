"""Quantile regression where the conditional quantiles are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.attacks import quantile
from miaudit.errors import InputError
from worlds.shadow import auc


def records(n: int, rng: np.random.Generator, gain: float = 1.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Statistic, features and membership: N(3 x, (1 + |x|)^2) for non-members, shifted for members."""
    x = rng.uniform(-1, 1, (n, 2))
    member = rng.random(n) < 0.5
    sigma = 1 + np.abs(x[:, 0])
    return 3 * x[:, 0] + sigma * (rng.normal(size=n) + gain * member), x, member


class KnownQuantile:
    """The true conditional quantile, in place of a regression."""

    def __init__(self, level: float) -> None:
        self.level = level

    def get_params(self) -> dict:
        return {}

    def fit(self, x: np.ndarray, y: np.ndarray) -> KnownQuantile:
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return 3 * x[:, 0] + (1 + np.abs(x[:, 0])) * stats.norm.ppf(self.level)


def test_with_the_true_quantiles_the_score_is_the_true_standard_score() -> None:
    rng = np.random.default_rng(0)
    y, x, _ = records(500, rng)
    found = quantile.score(y, x, y, x, regressor=KnownQuantile, rng=rng)
    np.testing.assert_allclose(found, (y - 3 * x[:, 0]) / (1 + np.abs(x[:, 0])), rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_learned_quantiles_come_near_the_best_attack_that_sees_features() -> None:
    rng = np.random.default_rng(1)
    y, x, member = records(4000, rng)
    y0, x0, _ = records(4000, rng, gain=0.0)
    best = auc((y - 3 * x[:, 0]) / (1 + np.abs(x[:, 0])), member)
    found = auc(quantile.score(y, x, y0, x0, rng=rng), member)
    assert (found - 0.5) / (best - 0.5) > 0.95
    assert auc(y, member) < best - 0.05  # control: without the features


@pytest.mark.long
def test_the_false_positive_rate_is_the_one_that_was_asked_for() -> None:
    rng = np.random.default_rng(2)
    y, x, member = records(6000, rng)
    y0, x0, _ = records(4000, rng, gain=0.0)
    found = quantile.score(y, x, y0, x0, rng=rng)
    for level in quantile.LEVELS:
        rate = (found[~member] > stats.norm.ppf(level)).mean()
        assert rate == pytest.approx(1 - level, abs=0.02)
        hard = ~member & (x[:, 0] > 0.7)  # on average over all records a constant threshold has it too, but not here
        assert (found[hard] > stats.norm.ppf(level)).mean() == pytest.approx(1 - level, abs=0.08)
    constant = np.quantile(y0, 0.9)
    assert (y[~member & (x[:, 0] > 0.7)] > constant).mean() > 0.3  # control


@pytest.mark.slow
def test_cross_fitted_scores_are_void_without_leakage_and_sharp_with_it() -> None:
    rng = np.random.default_rng(3)
    null = []
    for _ in range(6):
        y, x, member = records(900, rng, gain=0.0)
        null.append(auc(quantile.cross_fitted(y, x, member, folds=2, rng=rng), member))
    assert np.mean(null) == pytest.approx(0.5, abs=0.04)
    y, x, member = records(2000, rng)
    assert auc(quantile.cross_fitted(y, x, member, rng=rng), member) > 0.8


@pytest.mark.thorough
@pytest.mark.long
def test_a_record_never_helps_to_score_itself() -> None:
    y, x, member = records(900, np.random.default_rng(4))
    before = quantile.cross_fitted(y, x, member, folds=2, rng=np.random.default_rng(5))
    i = int(np.flatnonzero(~member)[0])
    moved = y.copy()
    moved[i] = 50.0
    after = quantile.cross_fitted(moved, x, member, folds=2, rng=np.random.default_rng(5))
    unchanged = before == after
    assert 300 < unchanged.sum() < 600  # its own fold, whose models never saw it
    assert not unchanged[i]
    units = np.arange(900) // 3
    by_unit = quantile.cross_fitted(y, x, member, folds=2, unit_codes=units, rng=np.random.default_rng(6))
    u = units == units[i]
    other = y.copy()
    other[u & (np.arange(900) != i)] += 40.0
    again = quantile.cross_fitted(other, x, member, folds=2, unit_codes=units, rng=np.random.default_rng(6))
    assert by_unit[i] == again[i]


@pytest.mark.long
def test_scores_rise_with_the_statistic_and_have_no_ties() -> None:
    rng = np.random.default_rng(7)
    y0, x0, _ = records(1000, rng, gain=0.0)
    fitted = quantile.ConditionalQuantiles.fit(y0, x0, rng=rng)
    grid = np.linspace(-20, 20, 401)
    found = fitted.score(grid, np.tile(x0[0], (401, 1)))
    assert (np.diff(found) > 0).all()
    same = quantile.ConditionalQuantiles.fit(np.zeros(300), x0[:300], rng=rng)  # quantiles that coincide
    assert (np.diff(same.score(grid, np.tile(x0[0], (401, 1)))) > 0).all()


@pytest.mark.long
def test_equal_generators_give_equal_scores() -> None:
    y, x, member = records(900, np.random.default_rng(8))
    first, again = (quantile.cross_fitted(y, x, member, folds=2, rng=np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": [[1.0]]}, "target"),
        ({"target": [np.nan] * 5}, "first in row 0"),
        ({"features": np.zeros((4, 2))}, r"features.*\(5, d\)"),
        ({"features": np.full((5, 2), np.inf)}, "infinity"),
        ({"features": np.array([["a"]] * 5)}, "code categories"),
        ({"reference": np.zeros(100), "reference_features": np.zeros((100, 2))}, "167 non-members or more"),
        ({"reference": np.full(300, np.inf)}, "reference"),
        ({"levels": (0.5,)}, "two or more"),
        ({"levels": (0.9, 0.5)}, "increasing"),
        ({"levels": (0.5, 1.0)}, r"in \(0, 1\)"),
    ],
)
def test_bad_input_is_refused(change: dict, message: str) -> None:
    rng = np.random.default_rng(10)
    y0, x0, _ = records(300, rng)
    given = {"target": y0[:5], "features": x0[:5], "reference": y0, "reference_features": x0, **change}
    with pytest.raises(InputError, match=message):
        quantile.score(**given, rng=rng)


def test_bad_membership_and_folds_are_refused() -> None:
    rng = np.random.default_rng(11)
    y, x, member = records(300, rng)
    with pytest.raises(InputError, match="member"):
        quantile.cross_fitted(y, x, member.astype(float), rng=rng)
    with pytest.raises(InputError, match="folds"):
        quantile.cross_fitted(y, x, member, folds=1, rng=rng)
    with pytest.raises(InputError, match="non-members or more"):
        quantile.cross_fitted(y, x, member, rng=rng)

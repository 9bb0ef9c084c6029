"""The best linear predictor of an effect: against closed forms, in worlds unlike it, and jointly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.causal.effect_slopes import Features, largest_error, slopes
from miaudit.causal.record_kinds import Covariates


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of its own for each test."""
    return np.random.default_rng(4)


def _plain(name: str, level: float) -> str:
    return f"{level:g}"


def _features(x: np.ndarray, member: np.ndarray, categories: tuple[int, ...] = ()) -> Features:
    names = tuple("abcdefgh"[: x.shape[1]])
    return Features.of(Covariates(x, names, frozenset(categories)), member, _plain)


def test_least_squares(rng: np.random.Generator) -> None:
    """Without weights the slopes are the interactions of one regression with membership."""
    x, member = rng.normal(size=(600, 2)), rng.random(600) < 0.4
    y = rng.standard_t(4, 600) + member * x[:, 0]
    line = slopes(_features(x, member), y, member, np.ones(600), None, confidence=0.95, rng=rng)
    z = _features(x, member).values
    design = np.column_stack([np.ones(600), z, member, z * member[:, None]])
    whole = np.linalg.lstsq(design, y, rcond=None)[0]
    assert [one.value for one in line] == pytest.approx(whole[-2:].tolist())


def test_error(rng: np.random.Generator) -> None:
    """The standard error is that of independent samples, where noise grows with a covariate."""
    values, errors = [], []
    for _ in range(300):
        x, member = rng.normal(size=(400, 1)), rng.random(400) < 0.5
        y = rng.normal(size=400) * np.exp(0.5 * x[:, 0]) + member * np.maximum(x[:, 0], 0)
        one = slopes(_features(x, member), y, member, np.ones(400), None, confidence=0.95, rng=rng)[0]
        values.append(one.value)
        errors.append(one.standard_error)
    assert np.mean(values) == pytest.approx(0.5, abs=0.04)  # the slope of max(x, 0) under a normal law
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


def test_together(rng: np.random.Generator) -> None:
    """Limits hold for all slopes at once; single limits would not."""
    every = single = 0
    for _ in range(200):
        x, member = rng.standard_t(3, (500, 6)), rng.random(500) < 0.5
        line = slopes(_features(x, member), rng.normal(size=500), member, np.ones(500), None, confidence=0.9, rng=rng)
        every += all(one.low < 0 < one.high for one in line)
        single += all(abs(one.value) < 1.645 * one.standard_error for one in line)
    assert every >= 166  # 180 expected of a level of 0.9
    assert single <= 134  # the control: 106 expected


def test_weights(rng: np.random.Generator) -> None:
    """Weights make the line of non-members that of members; without them a bent baseline looks like an effect."""
    x = rng.uniform(-2, 2, 20_000)
    propensity = 1 / (1 + np.exp(-0.7 * x))
    member = rng.random(20_000) < propensity
    y, odds = np.abs(x) + rng.standard_t(3, 20_000), propensity / (1 - propensity)
    features = _features(x[:, None], member)
    weighted = slopes(features, y, member, odds, None, confidence=0.95, rng=rng)[0]
    plain = slopes(features, y, member, np.ones(20_000), None, confidence=0.95, rng=rng)[0]
    assert weighted.low < 0 < weighted.high
    assert plain.low > 0.1


def test_units(rng: np.random.Generator) -> None:
    """Records of a unit that share their noise have wider limits than as many independent records."""
    unit = np.repeat(np.arange(200), 5)
    x, member = rng.normal(size=200)[unit], (rng.random(200) < 0.5)[unit]
    y = rng.normal(size=200)[unit]
    features = _features(x[:, None], member)
    alone = slopes(features, y, member, np.ones(1000), None, confidence=0.95, rng=rng)[0]
    whole = slopes(features, y, member, np.ones(1000), unit, confidence=0.95, rng=rng)[0]
    assert whole.value == alone.value
    assert whole.standard_error == pytest.approx(alone.standard_error * np.sqrt(5), rel=0.1)


def test_features(rng: np.random.Generator) -> None:
    """Amounts are ranked, levels compared with the most frequent one, rare ones pooled, repetitions left out."""
    n = 2000
    heavy = rng.standard_cauchy(n)
    site = rng.choice([0.0, 1.0, 2.0, 7.0, 8.0], n, p=[0.5, 0.3, 0.16, 0.02, 0.02])
    x = np.column_stack([heavy, site, 3 * heavy, np.ones(n), rng.integers(0, 2, n)])
    member = np.arange(n) % 2 == 0
    features = _features(x, member, (1,))
    assert features.steps[0] == "a: from its median to its 84th percentile"
    levels = ("b: 1 in place of 0", "b: 2 in place of 0", "b: another level in place of 0")
    assert features.steps[1:4] == levels
    assert [step[0] for step in features.steps].count("c") == 0
    assert [step[0] for step in features.steps].count("d") == 0
    assert np.abs(features.values).max() < 5


def test_none(rng: np.random.Generator) -> None:
    """No feature, no slope."""
    member = np.arange(100) % 2 == 0
    features = _features(np.ones((100, 2)), member)
    assert slopes(features, np.zeros(100), member, np.ones(100), None, confidence=0.95, rng=rng) == ()


def test_largest_error(rng: np.random.Generator) -> None:
    """Independent errors: Sidak's number; equal ones: that of a single one."""
    independent = largest_error(np.eye(5), 0.95, rng=rng)
    assert independent == pytest.approx(stats.norm.ppf((1 + 0.95 ** (1 / 5)) / 2), rel=0.03)
    assert largest_error(np.ones((5, 5)), 0.95, rng=rng) == pytest.approx(1.96, rel=0.03)

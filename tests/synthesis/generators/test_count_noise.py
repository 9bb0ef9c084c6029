"""The noise of counts: OpenDP's, the repeatable twin and the closed form are one law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.synthesis.generators.count_noise import CountNoise, NoNoise, RepeatableNoise, SecretNoise

SOURCES = (SecretNoise(), RepeatableNoise(np.random.default_rng(1)))


def misfit(noise: CountNoise, sd: float, law: float, draws: int = 8_000) -> float:
    """P value of a chi-square test against a normal of standard deviation ``law``, rounded."""
    found = noise.normal(draws, sd)
    np.testing.assert_array_equal(found, np.rint(found))
    inner = np.arange(-2 * law, 2 * law + 1, max(1, law // 2)).round() + 0.5
    shares = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], inner, [np.inf]]), scale=law))
    counts = np.histogram(found, np.concatenate([[-np.inf], inner, [np.inf]]))[0]
    return float(stats.chisquare(counts, shares * draws).pvalue)


@pytest.mark.long
@pytest.mark.parametrize("noise", SOURCES, ids=lambda noise: type(noise).__name__)
def test_noise_is_a_rounded_normal(noise: CountNoise) -> None:
    assert misfit(noise, 3.3, 3.3) > 1e-4
    assert misfit(noise, 41.0, 41.0) > 1e-4
    assert misfit(noise, 3.3, 3.0) < 1e-4  # the control: a tenth less is seen


@pytest.mark.long
@pytest.mark.parametrize("noise", SOURCES, ids=lambda noise: type(noise).__name__)
def test_a_choice_is_the_exponential_mechanism(noise: CountNoise) -> None:
    scores, scale = np.array([0.0, 2.0, 3.0, 3.5]), 2.0
    found = np.bincount([noise.choose(scores.tolist(), scale) for _ in range(2_000)], minlength=4)
    shares = np.exp(scores / scale) / np.exp(scores / scale).sum()
    assert stats.chisquare(found, 2_000 * shares).pvalue > 1e-4
    assert stats.chisquare(found, 2_000 * np.exp(scores) / np.exp(scores).sum()).pvalue < 1e-4


def test_no_noise_is_none() -> None:
    assert not NoNoise().normal(3, 2.0).any() and NoNoise().choose([1.0, 3.0, 2.0], 1.0) == 1


def test_nothing_repeats_secret_noise() -> None:
    assert not np.array_equal(SecretNoise().normal(50, 100.0), SecretNoise().normal(50, 100.0))

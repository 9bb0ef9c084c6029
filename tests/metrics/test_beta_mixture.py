"""Mixtures of Beta laws against scipy's Beta law and against sums of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.metrics.beta_mixture import BetaMixture


@pytest.mark.parametrize("level", [1e-6, 0.025, 0.5, 0.975, 1 - 1e-6])
@pytest.mark.parametrize(("hits", "trials"), [(0.0, 5.0), (3.0, 10.0), (70.5, 400.25), (2_000.0, 2_000.0)])
def test_one_law_has_scipys_quantiles(hits: float, trials: float, level: float) -> None:
    one = BetaMixture(np.ones(1), np.array([hits]), trials)
    assert one.quantile(level) == pytest.approx(stats.beta.ppf(level, hits + 0.5, trials - hits + 0.5), rel=1e-6)


def test_mass_and_density_are_sums_over_the_laws() -> None:
    weight, hits = np.array([0.2, 0.5]), np.array([1.0, 12.0])
    mixture = BetaMixture(weight, hits, 20.0, at_zero=0.3)
    laws = [stats.beta(h + 0.5, 20 - h + 0.5) for h in hits]
    for x in (0.01, 0.2, 0.9):
        cdf = 0.3 + sum(w * law.cdf(x) for w, law in zip(weight, laws, strict=True))
        assert mixture.below(x) == pytest.approx(cdf)
        assert mixture.density(x) == pytest.approx(sum(w * law.pdf(x) for w, law in zip(weight, laws, strict=True)))


@pytest.mark.parametrize("level", [0.31, 0.5, 0.9])
def test_the_quantile_inverts_the_mass_below_it_also_between_far_peaks(level: float) -> None:
    mixture = BetaMixture(np.array([0.3, 0.4]), np.array([1.0, 990.0]), 1_000.0, at_zero=0.3)
    assert mixture.below(mixture.quantile(level)) == pytest.approx(level, abs=1e-9)

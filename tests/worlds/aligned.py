"""Zero-run worlds in which the score is the covariate itself: the heaviest non-members have the highest scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from miaudit import Evidence
from miaudit.causal import effects, tpr_limits
from miaudit.causal.estimators import Comparison, Hajek, PropensityLike
from miaudit.metrics import classical
from worlds.confounded import given, logistic

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """X ~ N(0, 1) twice, log-odds of membership slope X1 (+ start), Y = X1 + noise N(0, 1) + leak A.

    Attributes
    ----------
    slope, start : of the log-odds of membership
    noise : standard deviation in the score, 0 for none
    leak : of membership into the score; 0 is nothing memorised
    grid : the score is rounded to multiples of it; 0 for none
    size : records of a unit, which are members together and share half of the covariate's and the noise's variance
    """

    slope: float = 1.0
    start: float = 0.0
    noise: float = 0.5
    leak: float = 0.0
    grid: float = 0.0
    size: int = 1

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Evidence, SimpleNamespace]:
        """Return evidence of n records and the true propensity."""
        unit = np.arange(n) // self.size
        x = rng.normal(size=(unit[-1] + 1, 2))[unit]  # a unit has one covariate, and is a member as a whole
        log_odds = self.start + self.slope * x[:, 0]
        a = (rng.random(unit[-1] + 1) < special.expit(log_odds[np.unique(unit, return_index=True)[1]]))[unit]
        y = x[:, 0] + self.noise * rng.normal(size=n) + self.leak * a
        if self.grid:
            y = self.grid * np.round(y / self.grid)
        ids = None if self.size == 1 else unit
        return Evidence(score=y, member=a, covariates=x, unit=ids, design="zero-run"), given(log_odds)

    @cache  # noqa: B019 - a few worlds, each asked once a sample
    def tpr(self, alpha: float) -> float:
        """True causal TPR at an FPR, by quadrature; with a grid that of the interpolated curve."""
        x = np.linspace(-9, 9, 40_001)
        mass = stats.norm.pdf(x) * special.expit(self.start + self.slope * x)
        mass /= mass.sum()

        def above(t: float) -> float:
            return float(mass @ stats.norm.sf((t - x) / self.noise)) if self.noise else float(mass[x >= t].sum())

        if self.grid:
            edges = self.grid * (np.arange(-60, 61)[::-1] - 0.5)
            rates = np.array([[above(t), above(t - self.leak)] for t in edges])
            return float(np.interp(alpha, rates[:, 0], rates[:, 1]))
        if not self.noise:  # linear between the nodes
            rates = np.cumsum(mass[::-1])[::-1]
            t = float(np.interp(alpha, rates[::-1], x[::-1]))
            return float(np.interp(t - self.leak, x, rates))
        return above(optimize.brentq(lambda t: above(t) - alpha, -9, 12) - self.leak)


def by_overall_size(
    evidence: Evidence, propensity: PropensityLike, fpr: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Limits by a variance from the few above the threshold, resolution by the size of all: a control, no method."""
    comparison = Comparison.of(evidence, propensity)
    curve, effective = comparison.roc, comparison.effective_nonmembers
    if not classical.resolvable(fpr, effective, confidence):
        outer = (fpr * effective + 1) / (effective + 1)
        spread = outer * (1 - outer) / (effective + 1)
        limits = classical.tpr_limits_uncertain_level(curve, outer, confidence, spread, comparison.n1)
        return 0.0, limits[1]
    at = float(curve.threshold[np.searchsorted(curve.fpr, fpr * (1 - 1e-12), side="left")])
    _, variance = tpr_limits.rate_at(Hajek(), comparison, None, at)
    w = comparison.weight[~comparison.member & (comparison.score >= at)]
    variance *= 1 + float(np.sqrt(w @ w) / w.sum())
    return classical.tpr_limits_uncertain_level(curve, fpr, confidence, variance, comparison.n1)


COLUMNS = ("low > truth", "high < truth", "lower limit", "resolved", "control low > truth", "control high < truth")


def missed(
    world: Aligned, n: int, alpha: float, learned: bool, control: bool, replicates: int, seed: Any
) -> FloatArray:
    """Shares of samples, or means of limits, in the order of ``COLUMNS``."""
    truth, rng = world.tpr(alpha), np.random.default_rng(seed)
    found = np.zeros(len(COLUMNS))
    for _ in range(replicates):
        evidence, known = world.draw(n, rng)
        propensity = logistic(evidence) if learned else known
        one = effects.tpr_at_fpr(evidence, propensity, fpr=alpha, rng=rng)
        low, high = by_overall_size(evidence, propensity, alpha) if control else (np.nan, np.nan)
        found += (one.low > truth, one.high < truth, one.low, one.value is not None, low > truth, high < truth)
    return found / replicates

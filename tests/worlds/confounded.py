"""Zero-run worlds: covariates move both membership and the score, and the causal truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from miaudit import Evidence
from miaudit.causal import effects
from miaudit.causal.outcome import LocationScale
from miaudit.metrics.classical import Estimate

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Confounded:
    """Members X ~ N(shift, 1), non-members X ~ N(0, 1) in the first of d coordinates; Y(a) = g(X) + a effect + noise.

    The log-odds of membership are linear in X. Among members X is N(shift, 1), so Y(0) is known there.

    Attributes
    ----------
    shift : distance of the two populations
    slope : of the score in X; ``curve`` multiplies X^2
    effect : of membership on the score
    spread : the noise's standard deviation is exp(spread X)
    dimension : covariates, of which only the first matters
    """

    shift: float = 0.7
    slope: float = 1.0
    effect: float = 0.5
    curve: float = 0.0
    spread: float = 0.0
    dimension: int = 2

    def draw(self, n1: int, n0: int, rng: np.random.Generator) -> tuple[Evidence, SimpleNamespace]:
        """Return evidence and the true propensity."""
        a = np.arange(n1 + n0) < n1
        x = rng.normal(size=(n1 + n0, self.dimension))
        x[:, 0] += self.shift * a
        y = self.score(x[:, 0], rng) + self.effect * a
        evidence = Evidence(score=y, member=a, covariates=x, design="zero-run")
        return evidence, given(self.log_odds(x, n1, n0))

    def log_odds(self, x: FloatArray, n1: int, n0: int) -> FloatArray:
        """Return the true log-odds of membership (n,)."""
        return np.log(n1 / n0) + self.shift * x[:, 0] - self.shift**2 / 2

    def score(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw Y(0) given X."""
        return self.slope * x + self.curve * x**2 + np.exp(self.spread * x) * rng.normal(size=len(x))

    @property
    def scale(self) -> float:
        """Standard deviation of Y(0) among members, where it is normal."""
        return float(np.hypot(self.slope, 1.0))

    @property
    def auc(self) -> float:
        """True causal AUC of the world with normal scores."""
        return float(stats.norm.cdf(self.effect / (np.sqrt(2) * self.scale)))

    def tpr(self, alpha: float) -> float:
        """True causal TPR of the world with normal scores."""
        return float(stats.norm.sf(stats.norm.isf(alpha) - self.effect / self.scale))

    @property
    def advantage(self) -> float:
        """True causal sup(TPR - FPR) of the world with normal scores."""
        return float(2 * stats.norm.cdf(self.effect / (2 * self.scale)) - 1)

    def simulated(self, alpha: float, n: int = 2_000_000, seed: int = 0) -> tuple[float, float]:
        """Return AUC and TPR at alpha by simulation, for any shape."""
        rng = np.random.default_rng(seed)
        x = rng.normal(self.shift, 1, n)
        absent, present = np.sort(self.score(x, rng)), self.score(x, rng) + self.effect
        auc = float(np.searchsorted(absent, present).mean() / n)
        return auc, float((present >= absent[int(np.ceil((1 - alpha) * n))]).mean())


def given(log_odds: FloatArray, features: FloatArray | None = None) -> SimpleNamespace:
    """Return a propensity from log-odds."""
    values = 1 / (1 + np.exp(-log_odds))
    return SimpleNamespace(values=values, odds=np.exp(log_odds), features=features)


def logistic(evidence: Evidence) -> SimpleNamespace:
    """Fit a plain logistic propensity by Newton steps on the standardised covariates."""
    x = np.asarray(evidence.covariates)
    z = (x - x.mean(0)) / x.std(0)
    design = np.column_stack([np.ones(len(z)), z])
    a = evidence.member.astype(float)
    beta = np.zeros(design.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-design @ beta))
        step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design, design.T @ (a - p))
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    return given(design @ beta, z)


def fixed(evidence: Evidence) -> SimpleNamespace:
    """Return a propensity that is wrong: the same for all."""
    return given(np.full(evidence.n, np.log(evidence.n_members / evidence.n_nonmembers)))


WORLDS = {
    "moderate": Confounded(shift=0.7, effect=0.5),
    "no_effect": Confounded(shift=1.0, effect=0.0),
    "strong": Confounded(shift=0.5, slope=0.5, effect=1.5, dimension=5),
}
QUANTITIES = (
    "hajek auc",
    "hajek ate",
    "hajek tpr 5%",
    "hajek tpr 10%",
    "hajek advantage",
    "aipw auc",
    "aipw ate",
    "raw auc",
)


def covered(name: str, n1: int, n0: int, learned: bool, replicates: int, seed: Any) -> FloatArray:
    """Rows: ``QUANTITIES``. Columns: covered, lower limit above the truth, upper limit below it."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    found = np.zeros((len(QUANTITIES), 3))
    for _ in range(replicates):
        evidence, true = world.draw(n1, n0, rng)
        propensity = logistic(evidence) if learned else true
        law = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng)

        def ask(metric: Callable[..., Estimate], how: Any = "hajek", **more: float) -> Estimate:
            return metric(evidence, propensity, method=how, rng=rng, **more)  # noqa: B023 (used at once)

        pairs = (
            (ask(effects.auc), world.auc),
            (ask(effects.ate), world.effect),
            (ask(effects.tpr_at_fpr, fpr=0.05), world.tpr(0.05)),
            (ask(effects.tpr_at_fpr, fpr=0.1), world.tpr(0.1)),
            (ask(effects.advantage), world.advantage),
            (ask(effects.auc, effects.Aipw(law)), world.auc),
            (ask(effects.ate, effects.Aipw(law)), world.effect),
            (ask(effects.auc, "difference"), world.auc),
        )
        found += [(e.low <= truth <= e.high, e.low > truth, e.high < truth) for e, truth in pairs]
    return found / replicates

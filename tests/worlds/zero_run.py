"""Observational worlds with a known truth, and how often the zero-run bounds of many audits lie above it.

Log-odds of membership are normal, cut to [-3, 3]; the algorithm sees labels only, so that its privacy is known:

- **silent** tells nothing; the attack reads the covariates, and every bound above 0 is false;
- **told** releases each label by randomised response at epsilon = 1, the extreme case of the Poisson-binomial;
- **weighed** does the same, and the attack weighs what it is told with the covariates;
- **rarely** does so with a large epsilon, for a few records only, and in one run out of forty: errors that depend on
  each other, which bounds that add up records as if they were independent do not survive (erratum B17);
- **gaussian** adds a normal of scale 1 / mu to each label, and the attack weighs that with the covariates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.propensity import Propensity
from miaudit.dp import zero_run
from miaudit.dp.selection import Bonferroni, Exploratory, Pilot
from miaudit.dp.tradeoff import mu_of_pure

FloatArray = NDArray[np.float64]

SHIFTS = {"none": (0.0, 0.0), "mild": (0.0, 0.5), "strong": (0.0, 1.0), "unequal": (-1.0, 1.0)}
CUT = 3.0
MU = 0.66
RARELY = 0.025, 0.05, 3.0  # in which share of the runs, of how many records, at what epsilon


@dataclass(frozen=True)
class Rate:
    """What many audits of one world gave: share of bounds above the truth, mean bound, truth, number of audits."""

    above: float
    mean: float
    truth: float
    audits: int

    def allowed(self, level: float) -> float:
        """Return the level plus three standard errors."""
        return level + 3 * math.sqrt(level * (1 - level) / self.audits)


def draw(algorithm: str, shift: str, m: int, rng: np.random.Generator) -> tuple[Evidence, Propensity, dict[str, float]]:
    """One audit's evidence, its oracle propensities and the true parameters."""
    mean, scale = SHIFTS[shift]
    logit = np.clip(mean + scale * rng.normal(size=m), -CUT, CUT)
    pi = 1 / (1 + np.exp(-logit))
    member = rng.random(m) < pi
    score, truth = _score(algorithm, logit, member, rng)
    ev = Evidence(score=score, member=member, covariates=logit, design="zero-run")
    return ev, Propensity.given(pi), truth


def _score(
    algorithm: str, logit: FloatArray, member: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[FloatArray, dict[str, float]]:
    m = len(logit)
    match algorithm:
        case "silent":
            return logit + 1e-3 * rng.normal(size=m), {"mu": 0.0, "epsilon": 0.0}
        case "told" | "weighed":
            told = np.where(member ^ (rng.random(m) < 1 / (1 + math.e)), 1.0, -1.0)
            return told + (logit if algorithm == "weighed" else 0), {"mu": mu_of_pure(1.0), "epsilon": 1.0}
        case "rarely":
            share, few, epsilon = RARELY
            q = 1 / (1 + math.exp(-epsilon))
            chosen = rng.permutation(m)[: round(few * m)]
            told = np.where(member ^ (rng.random(m) < 1 - q), 1.0, -1.0)
            guess = told if rng.random() < share else np.where(rng.random(m) < 0.5, 1.0, -1.0)
            score = 1e-3 * rng.normal(size=m)
            score[chosen] = guess[chosen]
            inside = share * few
            return score, {"mu": float(ndtri(inside * q) - ndtri(inside * (1 - q))), "epsilon": epsilon}
        case "gaussian":
            output = MU * member + rng.normal(size=m)
            return MU * output + logit, {"mu": MU, "epsilon": math.inf}
    raise AssertionError(algorithm)


# -- corrections ----------------------------------------------------------------------------------------------------

CORRECTIONS: dict[str, tuple[str, Any]] = {
    "thinning": ("mu", zero_run.Thinning()),
    "thinning, half-width 0.2": ("mu", zero_run.Thinning(half_width=0.2)),
    "thinning, forty seeds": ("mu", zero_run.Thinning(seeds=zero_run.SeedStable())),
    "conditional": ("mu", zero_run.Conditional()),
    "conditional, aware": ("mu", zero_run.Conditional(aware=True)),
    "conditional, signed": ("mu", zero_run.Conditional(signed=True)),
    "composition": ("mu", zero_run.Composition(closeness=CUT)),
    "Poisson-binomial": ("epsilon", zero_run.PoissonBinomial()),
    "Poisson-binomial, |lambda|": ("epsilon", zero_run.PoissonBinomial(signed=False)),
    "thinning, epsilon": ("epsilon", zero_run.Thinning()),
    "thinning, epsilon, half-width 0.2": ("epsilon", zero_run.Thinning(half_width=0.2)),
    "conditional, epsilon": ("epsilon", zero_run.Conditional()),
    "conditional, epsilon, signed": ("epsilon", zero_run.Conditional(signed=True)),
    "composition, epsilon": ("epsilon", zero_run.Composition(closeness=CUT)),
}
SELECTIONS: dict[str, Any] = {
    "fixed": lambda m: m // 5,
    "all": lambda m: max(1, m // 2),
    "pilot": lambda m: Pilot(),
    "bonferroni": lambda m: Bonferroni(fractions=(0.4, 0.2, 0.1, 0.05)),
    "exploratory": lambda m: Exploratory(fractions=tuple(k / 40 for k in range(1, 41))),
}
UNCORRECTED: dict[str, tuple[str, Any]] = {
    "none": ("mu", zero_run.Composition(closeness=0.0)),
    "none, epsilon": ("epsilon", zero_run.Composition(closeness=0.0)),
}


def audits(
    algorithm: str,
    shift: str,
    correction: str,
    selection: str = "fixed",
    *,
    count: int = 2000,
    m: int = 300,
    level: float = 0.05,
    seed: int = 0,
) -> Rate:
    """Audit a world many times with oracle propensities."""
    parameter, option = {**CORRECTIONS, **UNCORRECTED}[correction]
    bound = zero_run.mu_lower_bound if parameter == "mu" else zero_run.epsilon_lower_bound
    found, truth = np.empty(count), 0.0
    for k, rng in enumerate(np.random.default_rng(seed).spawn(count)):
        ev, oracle, truths = draw(algorithm, shift, m, rng)
        truth = truths[parameter]
        number = SELECTIONS[selection](2 * min(ev.n_members, ev.n_nonmembers))
        found[k] = bound(ev, oracle, guesses=number, confidence=1 - level, rng=rng, correction=option).value
    return Rate(float(np.mean(found > truth)), float(found.mean()), truth, count)


# -- learned propensities -------------------------------------------------------------------------------------------


THINNED: dict[str, Any] = {"plain": 0.0, "two": zero_run.StandardErrors(), "Scheffe": zero_run.Scheffe()}


def learned(
    d: int,
    rows: int,
    way: str,
    *,
    count: int,
    level: float = 0.05,
    scale: float = 1.0,
    seed: int = 0,
) -> Rate:
    """No algorithm at all; the attack knows the true log-odds, the auditor learns them from ``rows`` per covariate.

    ``way`` is one of "plug-in", "margin", "bootstrap" and "both" (Poisson-binomial, 2,000 records), or of "plain" and
    "two" (thinning on the estimate, and with two standard errors, 10,000 records) and "Scheffe".
    """
    m = 10_000 if way in THINNED else 2000
    found = np.empty(count)
    for k, rng in enumerate(np.random.default_rng(seed).spawn(count)):
        beta = scale * rng.normal(size=d) / math.sqrt(d)
        train, _ = _sample(beta, rows * d, rng)
        ev, logit = _sample(beta, m, rng)
        estimate = propensity.fit(ev, train=train, rng=rng)
        sure = Evidence(score=logit, member=ev.member, covariates=ev.covariates, design="zero-run")
        found[k] = _learned_bound(way, sure, train, estimate, level, rng)
    return Rate(float(np.mean(found > 0)), float(found.mean()), 0.0, count)


def _sample(beta: FloatArray, n: int, rng: np.random.Generator) -> tuple[Evidence, FloatArray]:
    x = rng.normal(size=(n, len(beta)))
    logit = x @ beta
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    return Evidence(score=logit, member=member, covariates=x, design="zero-run"), logit


def _learned_bound(
    way: str, ev: Evidence, train: Evidence, estimate: Propensity, level: float, rng: np.random.Generator
) -> float:
    number = ev.n // 5
    if way in THINNED:
        option = zero_run.Thinning(half_width=THINNED[way])
        return zero_run.mu_lower_bound(
            ev, estimate, guesses=number, confidence=1 - level, rng=rng, correction=option
        ).value
    drawn = None
    if way in ("bootstrap", "both"):
        drawn = propensity.bootstrap(ev, train, 200, rng=rng)
    margin = 0.1 if way in ("margin", "both") else 0.0
    return zero_run.epsilon_lower_bound(
        ev,
        estimate,
        guesses=ev.n,
        confidence=1 - level,
        rng=rng,
        correction=zero_run.PoissonBinomial(margin=margin),
        replicates=drawn,
    ).value

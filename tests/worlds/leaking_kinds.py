"""Worlds in which membership raises the scores of some kinds of records, on top of scores that follow covariates.

Scores have heavy tails, their level and spread follow the covariates, and the effect is a step, a product of covariates
or one level of a category: nothing of it is a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.causal.record_kinds import Covariates, Kind
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample

NAMES = ("age", "visits", "site", "income")
_TRUTH = 60_000

Effect = Callable[[NDArray[np.float64]], NDArray[np.float64]]
EFFECTS: dict[str, Effect] = {
    "none": lambda x: np.zeros(len(x)),
    "step": lambda x: 2.0 * (x[:, 0] > 63),
    "product": lambda x: 1.8 * ((x[:, 0] > 54) == (x[:, 1] > 4)),
    "level": lambda x: 2.0 * (x[:, 2] == 2),
    "line": lambda x: 1.5 * (x[:, 0] - 18) / 72,
}


@dataclass(frozen=True)
class World:
    """Evidence of a world, and the truth about any kind of its records."""

    evidence: Evidence
    effect: Effect
    shift: float

    @property
    def covariates(self) -> Covariates:
        """The covariates, with the category."""
        assert self.evidence.covariates is not None
        return Covariates(self.evidence.covariates, NAMES, frozenset([2]))

    def auc(self, kind: Kind, rng: np.random.Generator) -> float:
        """AUC of the members of a kind against its non-members, each score standardised as the world made it."""
        x = _covariates(_TRUTH, rng)
        member = rng.random(_TRUTH) < _propensity(x, self.shift)
        noise = rng.standard_t(3, _TRUTH) + self.effect(x) * member
        rows = kind.rows(Covariates(x, NAMES, frozenset([2])))
        return float(Sample.of(Evidence(score=noise[rows], member=member[rows])).roc.auc)


def world(effect: str, n: int, rng: np.random.Generator, *, shift: float = 0.0, follows: bool = True) -> World:
    """Draw n records; ``shift`` says how much older members are, ``follows`` whether scores follow the covariates."""
    x = _covariates(n, rng)
    member = rng.random(n) < _propensity(x, shift)
    noise = rng.standard_t(3, n) + EFFECTS[effect](x) * member
    score = 0.05 * x[:, 0] + np.sqrt(x[:, 1]) + x[:, 2] + np.exp(0.01 * (x[:, 0] - 50)) * noise if follows else noise
    design = "zero-run" if shift else "one-run"
    evidence = Evidence(score=score, member=member, covariates=x, covariate_names=NAMES, design=design)
    return World(evidence, EFFECTS[effect], shift)


def _covariates(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    age, visits = rng.uniform(18, 90, n), rng.poisson(4.5, n)
    return np.column_stack([age, visits, rng.integers(0, 4, n), rng.lognormal(10, 1, n)])


def _propensity(x: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-shift * (x[:, 0] - 54) / 21)))

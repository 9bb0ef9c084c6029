"""Noise on counts, and private choices: by OpenDP's samplers, or from a generator where all must come out again.

Noise is normal, rounded to whole numbers. Counts are whole, so a rounded noisy count is a function of the noisy count,
and the closed form of Gaussian DP holds for it as it stands. What is released are whole numbers, whose last bits say
nothing; OpenDP draws the noise on a grid of 2^-40 with entropy of the operating system and no floating-point steps
(Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import MiauditError
from miaudit.errors.extras import pip_line

_GRID = -40  # power of two


class CountNoise(Protocol):
    """Where the randomness comes from on which differential privacy rests."""

    def normal(self, size: int, sd: float) -> FloatArray:
        """Draw whole numbers (size,): a normal of mean 0 and this standard deviation, rounded."""
        ...

    def choose(self, scores: Sequence[float], scale: float) -> int:
        """Choose a position with probability in proportion to exp(score / scale)."""
        ...

    def released(self, columns: Sequence[int], counts: FloatArray, sd: float) -> FloatArray:
        """Return noisy counts (cells,) of columns as all that follows sees them; a replay pins them here."""
        ...


@dataclass(frozen=True)
class SecretNoise:
    """By OpenDP, from entropy of the operating system: nothing gives it again."""

    def normal(self, size: int, sd: float) -> FloatArray:
        """Draw rounded normal numbers (size,)."""
        dp = _opendp()
        domain = dp.domains.vector_domain(dp.domains.atom_domain(T="f64", nan=False), size=size)
        add = dp.measurements.make_gaussian(domain, dp.metrics.l2_distance(T="f64"), scale=float(sd), k=_GRID)
        return np.asarray(np.rint(add([0.0] * size)))

    def choose(self, scores: Sequence[float], scale: float) -> int:
        """Choose by the largest of the scores with Gumbel noise."""
        dp = _opendp()
        domain, metric = dp.domains.vector_domain(dp.domains.atom_domain(T="f64", nan=False)), dp.metrics
        measure = dp.measures.zero_concentrated_divergence()
        choose = dp.measurements.make_noisy_max(domain, metric.linf_distance(T="f64"), measure, scale=float(scale))
        return int(choose([float(score) for score in scores]))

    def released(self, columns: Sequence[int], counts: FloatArray, sd: float) -> FloatArray:  # noqa: ARG002
        """Return the counts."""
        return counts


@dataclass(frozen=True, eq=False)
class RepeatableNoise:
    """The same laws from a generator, for experiments: anyone who knows its seed can subtract the noise."""

    rng: np.random.Generator

    def normal(self, size: int, sd: float) -> FloatArray:
        """Draw rounded normal numbers (size,)."""
        return np.asarray(np.rint(self.rng.normal(0.0, sd, size)))

    def choose(self, scores: Sequence[float], scale: float) -> int:
        """Choose by the largest of the scores with Gumbel noise."""
        return int(np.argmax(np.asarray(scores) / scale + self.rng.gumbel(size=len(scores))))

    def released(self, columns: Sequence[int], counts: FloatArray, sd: float) -> FloatArray:  # noqa: ARG002
        """Return the counts."""
        return counts


@dataclass(frozen=True)
class NoNoise:
    """Without differential privacy: counts as they are, and the best candidate."""

    def normal(self, size: int, sd: float) -> FloatArray:  # noqa: ARG002 - as the others are called
        """Return zeros (size,)."""
        return np.zeros(size)

    def choose(self, scores: Sequence[float], scale: float) -> int:  # noqa: ARG002
        """Choose the best."""
        return int(np.argmax(scores))

    def released(self, columns: Sequence[int], counts: FloatArray, sd: float) -> FloatArray:  # noqa: ARG002
        """Return the counts."""
        return counts


@cache
def _opendp() -> Any:
    try:
        import opendp.mod  # noqa: PLC0415 - an extra
        from opendp import domains, measurements, measures, metrics  # noqa: F401, PLC0415
    except ImportError:
        raise MiauditError(
            f"noise on tables needs opendp, which is not installed; run: {pip_line('synthesis')}"
        ) from None
    opendp.mod.enable_features("contrib")
    return opendp

"""Chance that a weighted sum of Gammas is at most 0, by the saddlepoint formula of Lugannani and Rice (1980)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray

_MOST_STEPS = 100
_TOLERANCE = 1e-6  # of the slope, in standard deviations
_FLAT = 1e-3  # at the mean the formula is 0/0; so near, its limit takes its place


def chance_below_zero(factor: FloatArray, times: FloatArray, shape: FloatArray | float) -> FloatArray:
    """Return P(sum of factor * G <= 0) (k,) of independent Gammas in each row; the error is at most about .003.

    Parameters
    ----------
    factor : array (k, groups)
    times : array (k, groups), how many Gammas have the factor; 0 for none
    shape : of each Gamma, whose mean is 1; one for all rows, or array (k,)

    Returns
    -------
    array (k,)
        0 where all factors are positive, 1 where none is.

    Examples
    --------
    >>> chance = chance_below_zero(np.array([[1.0, -50.0], [1.0, 1.0]]), np.ones((2, 2)), 1.0)
    >>> chance.round(2).tolist()  # the first is 50 / 51
    [0.98, 0.0]
    """
    shape = np.broadcast_to(shape, len(factor))[:, None]
    scale = np.where(times > 0, factor, 0.0) / shape
    largest, smallest = scale.max(axis=1), scale.min(axis=1)
    chance = np.where(largest <= 0, 1.0, 0.0)
    both_signs = (largest > 0) & (smallest < 0)
    if both_signs.any():
        chance[both_signs] = _GammaSums(scale[both_signs], (times * shape)[both_signs]).below_zero()
    return chance


@dataclass(frozen=True, eq=False)
class _GammaSums:
    """Sums of independent Gammas, one sum in each row, with scales of both signs.

    Attributes
    ----------
    scale, shape : arrays (k, groups)
    """

    scale: FloatArray
    shape: FloatArray

    @cached_property
    def variance(self) -> FloatArray:
        """Variance (k,) of each sum."""
        return np.asarray((self.shape * self.scale * self.scale).sum(axis=1))

    def below_zero(self) -> FloatArray:
        """Return the chance (k,) that each sum is at most 0."""
        c, m = self.scale, self.shape
        s, bend = self._saddlepoints()
        cumulant = -(m * np.log1p(-s[:, None] * c)).sum(axis=1)
        r, u = np.sign(s) * np.sqrt(np.maximum(-2 * cumulant, 0.0)), s * np.sqrt(bend)
        flat = np.abs(r) < _FLAT
        skew = 2 * (m * c**3).sum(axis=1) / self.variance**1.5
        correction = np.where(flat, -skew / 6, 1 / np.where(flat, 1, u) - 1 / np.where(flat, 1, r))
        chance = special.ndtr(r) - np.exp(-r * r / 2) / math.sqrt(2 * math.pi) * correction
        return np.asarray(np.clip(chance, 0.0, 1.0))

    def _saddlepoints(self) -> tuple[FloatArray, FloatArray]:
        """Return where the cumulant generating function is least (k,), and its second derivative (k,) there."""
        least, most = 1 / self.scale.min(axis=1), 1 / self.scale.max(axis=1)
        mean = (self.shape * self.scale).sum(axis=1)
        low, high, s = least, most, np.clip(-mean / self.variance, 0.9 * least, 0.9 * most)
        for _ in range(_MOST_STEPS):
            slope, bend = self._derivatives(s)
            solved = np.abs(slope) <= _TOLERANCE * np.sqrt(bend)
            if solved.all():
                break
            low, high = np.where(slope < 0, s, low), np.where(slope < 0, high, s)
            inside = (s - least) * (most - s)  # times the slope it has no poles at the ends: Newton's steps are good
            step = s - slope * inside / (bend * inside + slope * (least + most - 2 * s))
            s = np.where(solved, s, np.where((step > low) & (step < high), step, (low + high) / 2))
        return s, bend

    def _derivatives(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first two derivatives (k,) of the cumulant generating function at s (k,)."""
        q = self.scale / (1 - s[:, None] * self.scale)
        return np.einsum("ij,ij->i", self.shape, q), np.einsum("ij,ij,ij->i", self.shape, q, q)

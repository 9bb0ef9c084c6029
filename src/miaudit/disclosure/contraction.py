"""Contraction of confidence vectors by randomised decision sets: delta_{T,q}, uncertainty-mia, Eq. (39).

The square of delta is the largest total variation between the sets of two confidence vectors p and p'. **At its maximum
the two vectors share no label.** Proof: the event E that tells the sets apart best has weights p_k - p'_k (log-odds
of an entry are linear in p_k), so it grows with the entries of labels where p is larger and shrinks with the others';
moving the mass of p from the others to a label where it is larger raises P_p(E), and likewise for p'. Hence with two
classes delta^2 = sigma((1 - q) / T) - sigma(-q / T), and with K classes the labels are split in two.

A search over splits attains a **lower** value. The **upper** one is certified: with h(p) = -log of the affinity of one
label's entry with that of a label without mass, and h* its concave envelope, n labels of total mass 1 lose at most
n h*(1/n), so TV <= sqrt(1 - exp(-2 (n h*(1/n) + m h*(1/m)))), n + m = K; and the same with couplings (erratum E9).
"""

# ruff: noqa: PLC0415 - scipy.stats loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.errors import InputError

_GRID = 20_001
_STEPS = 2**18
_MOST_IN_SEARCH = 24  # labels on a side; more never were better than these


@dataclass(frozen=True)
class Contraction:
    """Lower (attained) and upper (certified) bounds on delta_{T,q}."""

    lower: float
    upper: float


def contraction(classes: int, threshold: float, temperature: float) -> Contraction:
    """Return bounds on delta_{T,q} of Eq. (39), for K classes, threshold q in [0, 1], temperature T >= 0.

    At T = 0 it is 1, but for q = 0 and q = 1, where the set is the same for every confidence vector without zeros (the
    limit T -> 0 of Eq. (39) is sqrt(1/2) there, not 0 as the text below it says).

    Examples
    --------
    >>> contraction(2, 0.5, 0.25)  # sqrt(tanh(1)): two classes are solved exactly
    Contraction(lower=0.872..., upper=0.872...)
    >>> found = contraction(10, 0.2, 0.5)
    >>> round(found.lower, 3), round(found.upper, 3)
    (0.681, 0.774)
    """
    if temperature == 0:
        factor = 1.0 if 0 < threshold < 1 else 0.0
        return Contraction(factor, factor)
    if classes == 2:
        exact = math.sqrt(float(_gain(np.array(1.0), threshold, temperature)))
        return Contraction(exact, exact)
    lower = math.sqrt(_searched(classes, threshold, temperature))
    upper = math.sqrt(min(_by_affinity(classes, threshold, temperature), _by_coupling(classes, threshold, temperature)))
    return Contraction(lower, max(lower, min(1.0, upper)))


def total_variation(p: ArrayLike, other: ArrayLike, *, threshold: float, temperature: float) -> Contraction:
    """Return the total variation between the sets of two confidence vectors, without 2^K terms (erratum E6).

    The log-likelihood ratio of a set is a sum over labels. Its law is built label by label on a grid, terms rounded
    down for the lower value and up for the upper one, so that the truth lies between.

    Parameters
    ----------
    p, other : arrays (K,), confidences
    threshold : q, in [0, 1]
    temperature : T, above 0

    Returns
    -------
    Contraction
        ``lower`` and ``upper`` of the total variation itself, not of its root; apart by about K / (100,000 T).

    Examples
    --------
    >>> found = total_variation([1.0, 0.0], [0.0, 1.0], threshold=0.5, temperature=0.25)
    >>> round(found.lower, 4), round(found.upper, 4)  # tanh(1)
    (0.7616, 0.7616)
    """
    first, second = (np.asarray(x, dtype=np.float64) for x in (p, other))
    finite = np.isfinite(first).all() and np.isfinite(second).all()
    if first.ndim != 1 or first.shape != second.shape or not temperature > 0 or not finite:
        received = f"shapes {first.shape} and {second.shape}, temperature {temperature:g}"
        raise InputError("p, other", "two finite vectors (K,) and a temperature above 0", received, "pass one pair")
    apart = first != second
    if not apart.any():
        return Contraction(0.0, 0.0)
    labels = _Labels.of((first[apart] - threshold) / temperature, (second[apart] - threshold) / temperature)
    ends = [labels.total_variation(rounded) for rounded in (np.floor, np.ceil)]
    return Contraction(min(ends), min(1.0, max(ends)))


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels whose probabilities of entry differ between two sets.

    Attributes
    ----------
    enter, stay : arrays (k,), probabilities in the first set
    if_in, if_out : arrays (k,), what each label adds to the log-likelihood ratio of the two sets
    step : of the grid of that ratio
    """

    enter: FloatArray
    stay: FloatArray
    if_in: FloatArray
    if_out: FloatArray
    step: float

    @classmethod
    def of(cls, u: FloatArray, v: FloatArray) -> _Labels:
        """Return labels (k,) with log-odds u of an entry into the first set and v into the second, nowhere equal."""
        return cls(
            enter=special.expit(u),
            stay=special.expit(-u),
            if_in=special.log_expit(u) - special.log_expit(v),
            if_out=special.log_expit(-u) - special.log_expit(-v),
            step=float(np.abs(u - v).sum()) / _STEPS,
        )

    def total_variation(self, rounded: Callable[[FloatArray], FloatArray]) -> float:
        """Return the total variation where each term of the log-likelihood ratio is rounded to the grid."""
        law, lowest = np.ones(1), 0
        cells_in, cells_out = (rounded(term / self.step).astype(int) for term in (self.if_in, self.if_out))
        for inside, outside, i, j in zip(self.enter, self.stay, cells_in, cells_out, strict=True):
            longer = np.zeros(len(law) + abs(i - j))
            longer[max(0, i - j) :][: len(law)] += inside * law
            longer[max(0, j - i) :][: len(law)] += outside * law
            law, lowest = longer, lowest + min(i, j)
        ratio = self.step * (lowest + np.arange(len(law)))
        return float(law @ -np.expm1(-np.maximum(ratio, 0.0)))


def _gain(p: FloatArray, q: float, temperature: float) -> FloatArray:
    """Return how much likelier a label with confidence p enters a set than one with confidence 0."""
    return np.asarray(special.expit((p - q) / temperature) - special.expit(-q / temperature))


def _by_affinity(classes: int, q: float, temperature: float) -> float:
    def loss(p: FloatArray) -> FloatArray:
        with_mass, without = (p - q) / temperature, np.full_like(p, -q / temperature)
        enter = np.exp((special.log_expit(with_mass) + special.log_expit(without)) / 2)
        stay = np.exp((special.log_expit(-with_mass) + special.log_expit(-without)) / 2)
        return np.asarray(-np.log(np.minimum(1.0, enter + stay)))

    return math.sqrt(-math.expm1(-2 * _largest_sum(loss, classes)))


def _by_coupling(classes: int, q: float, temperature: float) -> float:
    def loss(p: FloatArray) -> FloatArray:
        return -np.log1p(-np.minimum(_gain(p, q, temperature), 1 - 1e-300))

    return -math.expm1(-_largest_sum(loss, classes))


def _largest_sum(loss: Callable[[FloatArray], FloatArray], classes: int) -> float:
    """Return an upper bound on a sum over both sides' labels, by the function's concave envelope."""
    p = np.linspace(0, 1, _GRID) ** 2
    value = loss(p)
    # On each cell the function is at most its value at the right end, and so is the envelope of these points.
    x, y = _concave_envelope(p, np.append(value[1:], value[-1]))
    n = np.arange(1, classes)
    sides = n * np.interp(1 / n, x, y)
    return float(np.max(sides + sides[::-1]))


def _concave_envelope(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return x[hull], y[hull]


def _searched(classes: int, q: float, temperature: float) -> float:
    """Return the largest total variation between equal shares of n labels and equal shares of m others."""
    from scipy import stats

    none, most, best = special.expit(-q / temperature), min(classes - 1, _MOST_IN_SEARCH), 0.0
    share = special.expit((1 / np.arange(1, most + 1) - q) / temperature)
    laws = [
        (stats.binom.pmf(np.arange(n + 1), n, share[n - 1]), stats.binom.pmf(np.arange(n + 1), n, none))
        for n in range(1, most + 1)
    ]
    for n in range(1, most + 1):
        for m in range(1, min(most, classes - n) + 1):
            (with_n, without_n), (with_m, without_m) = laws[n - 1], laws[m - 1]
            apart = np.abs(np.outer(with_n, without_m) - np.outer(without_n, with_m)).sum() / 2
            best = max(best, float(apart))
    return best

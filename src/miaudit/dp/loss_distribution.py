"""The distribution of the privacy losses of repeated noise on Poisson samples, and the epsilon and delta it implies.

The loss is log dP/dQ under P, for the output with a record against the output without it ("remove"), and the other way
round ("add"). Its distribution is set on a grid so that the delta at each point of the grid is exact, and a straight
line in e^epsilon between them: an upper bound (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the dots",
2022). Grids are powers of two times each other, so a mechanism that gives away less never gets a larger bound.

Repetitions are convolved by Fourier transforms of the distribution times e^(tilt loss). The tilt puts the losses that
decide a small delta where the transform resolves them, so rounding of 1e-16 does not hide a delta of 1e-30.
"""

# ruff: noqa: PLC0415 - the heavier parts of scipy load when used
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import FloatArray, IntArray

__all__ = ["Released", "deltas", "epsilon"]

Noise = Literal["gaussian", "laplace"]
_CELLS, _WINDOW, _MOST_WINDOW = 2.0**17, 2.0**20, 2**22  # of the grid of one use, and of all of them together
_FINEST = 2.0**-20  # step of the grid: a finer one is lost in rounding
_REACH = 15.0  # standard deviations of the noise that one use covers
_BEYOND = special.ndtr(-_REACH)
_ROUNDED = 1e-13  # what a use adds to epsilon at most by rounding
_MOST_USES = 1e10
_TILTS = (1e-4, 1e7)
_FAINT = 36.0  # e^-36 of the tilted mass is left outside the window
_LEFT_OUT = 1e-6  # of delta: losses above the window, which count as a failure


@dataclass(frozen=True)
class Released:
    """One kind of noise, in sensitivities, on Poisson samples of a rate in (0, 1], some number of times."""

    kind: Noise
    noise: float
    rate: float
    times: int

    @property
    def largest(self) -> float:
        """The largest loss that a use covers."""
        raw = 1 / self.noise if self.kind == "laplace" else (0.5 + _REACH * self.noise) / self.noise**2
        return amplified(raw, self.rate)

    @property
    def smallest(self) -> float:
        """The smallest one, below 0."""
        raw = 1 / self.noise if self.kind == "laplace" else (0.5 + _REACH * self.noise) / self.noise**2
        return amplified(-raw, self.rate)

    def masses(self, step: float) -> tuple[int, FloatArray, FloatArray]:
        """Return the first point of the grid, and the mass of each cell with the record in the data, and without."""
        first, last = math.floor(self.smallest / step) - 1, math.ceil(self.largest / step) + 1
        at = self._outputs(step * np.arange(first, last + 1, dtype=np.float64))
        at[0], at[-1] = -math.inf, math.inf  # the outer cells hold what little is beyond the reach
        without = self._between(at, 0.0)
        return first, (1 - self.rate) * without + self.rate * self._between(at, 1.0), without

    def _outputs(self, losses: FloatArray) -> FloatArray:
        """Return the output, rising with its loss, at which the loss is one of these."""
        with np.errstate(divide="ignore"):
            odds = np.log(np.maximum(np.expm1(np.minimum(losses, 1.0)) + self.rate, 0.0) / self.rate)
        large = losses > 1
        odds[large] = losses[large] - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-losses[large]))
        if self.kind == "gaussian":
            return self.noise**2 * odds + 0.5
        bound = 1 / self.noise
        inside = (1 + self.noise * odds) / 2
        return np.where(odds < -bound, -math.inf, np.where(odds >= bound, math.inf, np.clip(inside, 0.0, 1.0)))

    def _between(self, at: FloatArray, mean: float) -> FloatArray:
        """Return the probabilities between neighbouring outputs, by the smaller tail of the noise around a mean."""
        z = (at - mean) / self.noise
        if self.kind == "gaussian":
            below, above = special.ndtr(z), special.ndtr(-z)
        else:
            tail = np.exp(-np.abs(z)) / 2
            below, above = np.where(z < 0, tail, 1 - tail), np.where(z < 0, 1 - tail, tail)
        return np.maximum(np.where(z[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1]), 0.0)


@dataclass(frozen=True)
class _Losses:
    """The losses of one use: at (first + i) step with probability p_i, and how often it happens."""

    first: int
    p: FloatArray
    times: int

    @cached_property
    def _log(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.p))

    @cached_property
    def at(self) -> IntArray:
        """Their places on the grid."""
        return self.first + np.arange(len(self.p))

    def exponents(self, step: float, tilt: float) -> FloatArray:
        """Return log p + tilt loss of each point."""
        return np.asarray(self._log + tilt * step * self.at)


def epsilon(parts: Iterable[Released], delta: float, *, spread: float) -> float:
    """Return an upper bound of epsilon at a delta in (0, 1), or infinity where the grid cannot hold the losses.

    Parameters
    ----------
    parts : what was released
    spread : a bound of epsilon that is larger, such as a closed form; the grid is chosen by it
    """
    parts = tuple(parts)
    uses = sum(part.times for part in parts)
    if uses > _MOST_USES or not spread < math.inf:
        return math.inf
    target = delta * (1 - 1e-9 - uses * 1e-15) - uses * _BEYOND
    if target <= 0:
        return math.inf
    step, bound = math.inf, spread
    while bound > 0 and (finer := _step(parts, min(spread, bound))) < step:  # rising with epsilon, as the bound is
        step = finer
        bound = max(_epsilon(losses, step, target) for losses in _both_ways(parts, step))
    return bound * (1 + 1e-12) + uses * _ROUNDED if bound > 0 else 0.0


def deltas(parts: Iterable[Released], epsilons: FloatArray, *, spread: float) -> FloatArray | None:
    """Return upper bounds of delta (k,) at some epsilons (k,), with an error of 1e-14, or None; as :func:`epsilon`."""
    parts = tuple(parts)
    uses = sum(part.times for part in parts)
    if uses > _MOST_USES or not spread < math.inf:
        return None
    step, bounds = _step(parts, spread), np.zeros(len(epsilons))
    for losses in _both_ways(parts, step):
        composed = _Composed.of(losses, step, tilt=0.0, left_out=1e-15)
        if composed is None:
            return None
        bounds = np.maximum(bounds, composed.deltas(epsilons - uses * _ROUNDED))
    return np.asarray(np.minimum(1.0, bounds * (1 + 1e-9 + uses * 1e-15) + uses * _BEYOND + 1e-14))


def _step(parts: tuple[Released, ...], spread: float) -> float:
    """Return the step of the grid: a power of two, larger where losses spread further."""
    one = max(part.largest - part.smallest for part in parts) / _CELLS
    return float(2.0 ** math.ceil(math.log2(max(_FINEST, one, 4 * spread / _WINDOW))))


def _both_ways(parts: tuple[Released, ...], step: float) -> Iterable[tuple[_Losses, ...]]:
    losses = [(part.times, part.masses(step)) for part in parts]
    yield tuple(_on_the_grid(first, p, q, step, times) for times, (first, p, q) in losses)
    yield tuple(_on_the_grid(-(first + len(p)), q[::-1], p[::-1], step, times) for times, (first, p, q) in losses)


def _on_the_grid(first: int, p: FloatArray, q: FloatArray, step: float, times: int) -> _Losses:
    """Share the mass of each cell among its two ends, so that both its p and its q stay what they are.

    The first cell is open below and goes to its upper end; the last is open above, within the mass of `_BEYOND`.
    """
    lower = (first + np.arange(len(p))) * step
    with np.errstate(over="ignore", invalid="ignore"):
        at_lower = np.where(q > 0, np.exp(np.minimum(lower + np.log(np.maximum(q, 1e-320)), 700.0)), 0.0)
        up = np.clip((p - at_lower) * (math.exp(step) / math.expm1(step) if step < 700 else 1.0), 0.0, p)
    up[0] = p[0]
    points = np.zeros(len(p) + 1)
    points[1:] += up
    points[:-1] += p - up
    return _Losses(first, points, times)


def _epsilon(losses: tuple[_Losses, ...], step: float, delta: float) -> float:
    tilt = _least(lambda t: (_moment(losses, step, t) - math.log(delta) - math.log1p(t)) / t)[1]
    composed = _Composed.of(losses, step, tilt=tilt, left_out=_LEFT_OUT * delta)
    return math.inf if composed is None else composed.epsilon(delta)


@dataclass(frozen=True)
class _Window:
    """The ``size`` points of the grid, from ``first`` on, that hold the losses of all uses but for what is left out."""

    first: int
    size: int
    moment: float  # of the losses, at the tilt

    @classmethod
    def of(cls, losses: tuple[_Losses, ...], step: float, tilt: float, left_out: float) -> _Window | None:
        """Bound the losses by Chernoff's inequality; None where the window would be too wide."""
        from scipy import fft

        most = sum((part.first + len(part.p) - 1) * part.times for part in losses) * step
        least = sum(part.first * part.times for part in losses) * step
        top = min(most, _least(lambda t: (_moment(losses, step, t) - math.log(left_out)) / t)[0])
        moment = _moment(losses, step, tilt)
        bottom = max(least, -_least(lambda t: (_moment(losses, step, tilt - t) - moment + _FAINT) / t)[0])
        tilted_top = min(most, _least(lambda t: (_moment(losses, step, tilt + t) - moment + _FAINT) / t)[0])
        if not max(top, -bottom) / step < _MOST_WINDOW:
            return None
        first = math.floor(bottom / step)
        cells = math.ceil(top / step) - first + 2
        # what lies outside is folded into the window, where it only adds to delta: a wider one adds less
        wider = min(max(top, tilted_top) / step - first + 2, _MOST_WINDOW)
        return cls(first, fft.next_fast_len(max(cells, math.ceil(wider)), real=True), moment)


def _transform(losses: tuple[_Losses, ...], step: float, tilt: float, size: int) -> tuple[NDArray[np.complex128], int]:
    """Return the Fourier transform of the tilted losses of all uses, and by how many points they were moved down.

    The losses of each use are moved to their mean first, which keeps the phases small that are multiplied by uses.
    """
    from scipy import fft

    log, moved = np.zeros(size // 2 + 1, dtype=complex), 0
    for part in losses:
        at, exponent = part.at, part.exponents(step, tilt)
        tilted = np.exp(exponent - exponent.max())
        tilted /= tilted.sum()
        center = round(float(tilted @ at))
        folded = np.bincount((at - center) % size, weights=tilted, minlength=size)
        with np.errstate(divide="ignore"):
            log += part.times * np.log(fft.rfft(folded))
        moved += center * part.times
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log.real), 0.0, np.exp(log)), moved


def _inverse(transform: NDArray[np.complex128], size: int, uses: int) -> FloatArray:
    """Return the masses (size,) that have a transform, each with a bound of what rounding may have taken from it."""
    from scipy import fft

    energy = float(np.square(np.abs(transform)).sum())
    rounded = 1e-15 * (30 + uses) * math.sqrt(energy * 2 / size) / math.sqrt(size)
    return np.asarray(np.maximum(fft.irfft(transform, size), 0.0) + rounded)


@dataclass(frozen=True)
class _Composed:
    """Losses of all uses: at (first + i) step with probability r_i e^(moment - tilt loss); the rest is lost."""

    first: int
    step: float
    r: FloatArray
    tilt: float
    moment: float
    lost: float

    @classmethod
    def of(cls, losses: tuple[_Losses, ...], step: float, *, tilt: float, left_out: float) -> _Composed | None:
        """Convolve; None where the window would be too wide."""
        window = _Window.of(losses, step, tilt, left_out)
        if window is None:
            return None
        transform, moved = _transform(losses, step, tilt, window.size)
        r = _inverse(transform, window.size, uses=sum(part.times for part in losses))
        r = np.roll(r, (moved - window.first) % window.size)
        return cls(window.first, step, r, tilt, window.moment, left_out)

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the losses, and from each one on the sum of its p, and of its p e^(the first of them - loss)."""
        from scipy.signal import lfilter

        at: FloatArray = self.step * (self.first + np.arange(len(self.r), dtype=np.float64))
        with np.errstate(divide="ignore", over="ignore"):
            exponent = np.log(self.r) + self.moment - self.tilt * at
        p = np.exp(np.minimum(exponent, 300.0))[::-1]  # above any delta
        held = lfilter([1.0], [1.0, -math.exp(-self.step)], p)
        return at, np.asarray(np.cumsum(p)[::-1]), np.asarray(held[::-1])

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at a delta."""
        at, above, held = self._sums()
        room = delta - self.lost
        # delta at each point, of the losses above it: with its own, which may be far more, their digits would be lost
        beyond = np.append(above[1:] - math.exp(-self.step) * held[1:], 0.0)
        first = int(np.argmax(beyond <= room))
        if first == 0:
            return float(at[0])
        share = (above[first] - room) / held[first]  # between two points delta is above - e^(epsilon - point) held
        smallest = float(at[first]) + (math.log(share) if share > 0 else -math.inf)
        return min(max(smallest, float(at[first - 1])), float(at[first]))

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Return the delta (k,) at each epsilon (k,)."""
        at, above, held = self._sums()
        first = np.minimum(np.searchsorted(at, epsilons), len(at) - 1)
        inside = above[first] - np.exp(np.minimum(epsilons - at[first], 0.0)) * held[first]
        return np.asarray(np.where(epsilons > at[-1], 0.0, np.maximum(inside, 0.0)) + self.lost)


def _moment(losses: tuple[_Losses, ...], step: float, tilt: float) -> float:
    """Return log E e^(tilt loss) of all uses."""
    total = 0.0
    for part in losses:
        exponent = part.exponents(step, tilt)
        top = float(exponent.max())
        total += part.times * (top + math.log(float(np.exp(exponent - top).sum())))
    return total


def _least(function: Callable[[float], float]) -> tuple[float, float]:
    """Return the least value of a function of a positive number that has one minimum, and where it is."""
    from scipy import optimize

    low, high = map(math.log, _TILTS)
    minimum: Any = optimize.minimize_scalar(
        lambda t: function(math.exp(t)), bounds=(low, high), method="bounded", options={"xatol": 0.02}
    )
    return float(minimum.fun), math.exp(float(minimum.x))


def amplified(loss: float, rate: float) -> float:
    """Return log(1 - rate + rate e^loss), the loss of a sampled use, without overflow; also a pure epsilon's."""
    if rate == 1:
        return loss
    return math.log1p(rate * math.expm1(loss)) if loss < 1 else loss + math.log(rate + (1 - rate) * math.exp(-loss))

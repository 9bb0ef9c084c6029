"""Replay one step of a DP training exactly: how far one record moves it, and how much noise it adds.

The step runs with all its noise draws replaced by 0, once on the data and once on each neighbouring data set, from the
same state. The largest distance between the released sums is a lower bound on the step's sensitivity. Then one draw is
1 and all others are 0. The response is the standard deviation that this draw adds, and the squares of independent
draws add up.

A difference from the claim is a counterexample, and it is exact up to rounding. A step without a difference is not
proved: other records, states and batches can behave differently.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray
from miaudit.dp import impulses
from miaudit.errors import InputError
from miaudit.errors.checks import finite, positive, whole

__all__ = ["Change", "Claim", "Comparison", "Draws", "StepNoise", "check", "without_one"]

Step = Callable[[Any, Any, "Draws"], ArrayLike]
_SHOWN = 4  # digits of a ratio in a sentence
_FROM_CLIP = "take both from what the accountant received"


@dataclass(frozen=True)
class Claim:
    """What the accountant assumes about one step.

    Attributes
    ----------
    clip : the most by which one record moves the released sum (Euclidean norm), above 0
    noise_multiplier : standard deviation of the noise at each coordinate of the sum, in units of ``clip``, above 0

    Raises
    ------
    InputError
        For a number that is not finite or not above 0.

    Examples
    --------
    >>> Claim(clip=2.0, noise_multiplier=1.5).deviation
    3.0
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        for name in ("clip", "noise_multiplier"):
            object.__setattr__(self, name, positive(name, getattr(self, name), _FROM_CLIP))

    @property
    def deviation(self) -> float:
        """The claimed standard deviation of the noise at each coordinate of the sum."""
        return self.clip * self.noise_multiplier


class Draws:
    """What a step receives in place of a random generator: its normal draws are 0, or 1 in one call.

    ``draws.normal(loc, scale, size)`` and ``draws.standard_normal(size)`` have the arguments of a NumPy generator, so a
    step that takes its generator as an argument runs unchanged.

    Parameters
    ----------
    impulse : the call, counted from 0, that returns the impulse; None: every call returns 0
    signs : whether the impulse is +1 and -1 in a fixed irregular order, instead of 1 everywhere
    height : what the impulse is multiplied by, above 0; larger than 1 where a long sum would round it away
    place : the number of that call which is the impulse, all others being 0; None: all numbers of the call

    Attributes
    ----------
    sizes : how many numbers each call has returned
    sources : the state of the random generator before each call, where it is known; else None

    Examples
    --------
    >>> draws = Draws(impulse=1)
    >>> draws.normal(0.0, 2.0, size=2), draws.normal(0.0, 2.0, size=2)
    (array([0., 0.]), array([2., 2.]))
    """

    def __init__(
        self, impulse: int | None = None, *, signs: bool = False, height: float = 1.0, place: int | None = None
    ) -> None:
        self.sizes: list[int] = []
        self.sources: list[bytes | None] = []
        self._impulse, self._signs, self._height, self._place = impulse, signs, height, place

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: int | Sequence[int] | None = None
    ) -> FloatArray:
        """Return ``loc + scale * z`` with the replaced standard normal draws z."""
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        return np.asarray(np.asarray(loc) + np.asarray(scale) * self.standard_normal(shape))

    def standard_normal(self, size: int | Sequence[int] | None = None, *, source: bytes | None = None) -> FloatArray:
        """Return the replaced standard normal draws of one call; ``source`` identifies the state of a generator."""
        shape = () if size is None else size
        call = len(self.sizes)
        answer = np.full(shape, self._height if call == self._impulse and self._place is None else 0.0)
        if call == self._impulse and self._place is not None:
            answer.flat[self._place] = self._height
        self.sizes.append(answer.size)
        self.sources.append(source)
        return answer * _signs(answer.size).reshape(answer.shape) if self._signs else answer

    def __getattr__(self, name: str) -> NoReturn:
        hint = "sample the batch and augment it before the step; noise other than Gaussian cannot be replayed"
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError("draws", "a step that uses normal or standard_normal", f"a step that uses {name}", hint)


@dataclass(frozen=True)
class Change:
    """The largest change of the released sum at one step when one record is missing.

    Attributes
    ----------
    step : counted from 1
    neighbour : index into ``neighbours``, counted from 0
    ratio : Euclidean norm of the change, in units of the claimed clip, 0 or more; the claim allows 1
    """

    step: int
    neighbour: int
    ratio: float


@dataclass(frozen=True)
class StepNoise:
    """The noise that one step adds to its released sum.

    Attributes
    ----------
    step : counted from 1
    lowest, highest : smallest and largest standard deviation of a coordinate, in units of the claimed one
    coordinates : coordinates of the released sum
    silent : coordinates without any noise, 0 to ``coordinates``
    numbers : random numbers that reach the released sum; fewer than the noisy coordinates: some share their noise
    reused : whether a generator drew from a state from which it had already drawn
    """

    step: int
    lowest: float
    highest: float
    coordinates: int
    silent: int
    numbers: int
    reused: bool


@dataclass(frozen=True)
class Comparison:
    """One or more replayed steps, compared with a claim.

    Attributes
    ----------
    claim : what the accountant assumes
    changes : the largest change of each step
    noise : the noise of each step
    neighbours : how many neighbouring data sets were replayed at each step
    differences : what differs from the claim, in sentences; empty if nothing does
    """

    claim: Claim
    changes: tuple[Change, ...]
    noise: tuple[StepNoise, ...]
    neighbours: int
    differences: tuple[str, ...]

    @property
    def largest(self) -> Change:
        """The largest change of all steps."""
        return max(self.changes, key=lambda change: change.ratio)

    @property
    def passed(self) -> bool:
        """Whether nothing differs from the claim; this proves nothing about other neighbours, states and batches."""
        return not self.differences

    def __str__(self) -> str:
        if self.differences:
            return " ".join(self.differences)
        steps = "1 step" if len(self.noise) == 1 else f"{len(self.noise)} steps"
        return (
            f"No counterexample in {steps} with {self.neighbours:,} neighbours: one record moved the sum by at most "
            f"{self.largest.ratio:.{_SHOWN}f} clips, and the noise is as claimed. "
            "This proves nothing about other records, states and batches."
        )


def check(
    step: Step,
    data: Any,
    neighbours: Sequence[Any],
    claim: Claim,
    *,
    state: Any = None,
    steps: int = 1,
    tolerance: float = 1e-4,
) -> Comparison:
    """Compare what one record changes, and the noise, with a claim; exact up to rounding.

    Parameters
    ----------
    step : ``step(data, state, draws)`` returns the released sum, clipped, with its noise, an array of any shape
        ``draws`` replaces the step's random generator (see :class:`Draws`). A step may change ``state`` in place. The
        sum is what has the sensitivity ``clip``: multiply a mean by the number that the training divides by.
    data : the records of one batch, in the form that ``step`` takes
    neighbours : data sets that lack one record of ``data``, at least one; :func:`without_one` makes all of them
    claim : the clip and the noise multiplier that the accountant received
    state : what ``step`` needs beside the data, such as weights and a step number; copied before each replay, so that
        all replays of a step begin from the history of the data's own run
    steps : how many steps to replay, one after the other, 1 or more; noise that is missing in some steps, or used
        again, shows only from the second step on
    tolerance : relative rounding error that is accepted in the change, from 0 up; half precision needs 1e-4

    Raises
    ------
    InputError
        For no neighbours, sums that are not finite or change their shape, a step that is not the same twice with equal
        draws, and draws that are mixed, so that impulses do not show the deviation.

    Notes
    -----
    A sum that moves by more than ``clip`` refutes the claim. An impulse replaces all numbers of one call by 1, and then
    by +1 and -1 as a control. If the two differ, several numbers reach one coordinate, as with noise for each record,
    and up to 4,096 numbers are replaced one by one. A number that reaches several coordinates is refused.

    Examples
    --------
    >>> def step(gradients, state, draws):
    ...     norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    ...     clipped = gradients / np.maximum(norms, 1.0)
    ...     return clipped.sum(axis=0) + draws.normal(0.0, 1.1, size=3)
    >>> batch = np.array([[3.0, 4.0, 0.0], [0.3, 0.0, 0.4]])
    >>> compared = check(step, batch, without_one(batch), Claim(clip=1.0, noise_multiplier=1.1))
    >>> compared.passed, round(compared.largest.ratio, 6)
    (True, 1.0)
    """
    if not isinstance(claim, Claim):
        raise InputError("claim", "a replay.Claim", repr(claim)[:60], "pass Claim(clip=1.0, noise_multiplier=1.1)")
    if not callable(step):
        raise InputError("step", "a function of data, state and draws", repr(step)[:60], "pass the function itself")
    count = whole("steps", steps, "4 show noise that is missing or used again", low=1, high=10_000)
    allowance = finite("tolerance", tolerance, "a number from 0 up", "1e-4 is the default")
    if allowance < 0:
        raise InputError("tolerance", "a number from 0 up", repr(tolerance), "1e-4 is the default")
    others = list(neighbours)
    if not others:
        hint = "pass replay.without_one(data)"
        raise InputError("neighbours", "data sets that lack one record, at least one", "none", hint)
    current, used = copy.deepcopy(state), set[bytes]()
    changes, noise = [], []
    for number in range(1, count + 1):
        at = _Replay(step, data, copy.deepcopy(current))
        ratios = [float(np.linalg.norm(at.sum - at.of(other))) / claim.clip for other in others]
        changes.append(Change(number, int(np.argmax(ratios)), max(ratios)))
        noise.append(_noise(at, number, claim, used))
        step(data, current, Draws())
    return Comparison(
        claim, tuple(changes), tuple(noise), len(others), _differences(claim, changes, noise, 1 + allowance)
    )


def without_one(data: ArrayLike) -> list[NDArray[Any]]:
    """Return all neighbours of an array of records (n, ...) or record numbers (n,): neighbour i lacks record i.

    Raises
    ------
    InputError
        For an array without records.

    Examples
    --------
    >>> without_one([7, 8, 9])
    [array([8, 9]), array([7, 9]), array([7, 8])]
    """
    records = np.asarray(data)
    if records.ndim == 0 or not len(records):
        hint = "pass the records, or their numbers"
        raise InputError("data", "an array of at least one record", f"shape {records.shape}", hint)
    return [np.delete(records, row, axis=0) for row in range(len(records))]


# -- one step ----------------------------------------------------------------------------------------------------------


class _Replay:
    """A step from one state: its sum without noise on the data, on neighbours, and with an impulse."""

    def __init__(self, step: Step, data: Any, state: Any) -> None:
        self._step, self._data, self._state = step, data, state
        self.draws = Draws()
        self.sum = self.of(data, self.draws)
        again = self.of(data)
        gap = float(np.abs(again - self.sum).max(initial=0.0))
        if gap > 1e-5 * max(1.0, float(np.abs(self.sum).max(initial=0.0))):
            received = f"sums that differ by {gap:.3g} between two runs with the same draws"
            hint = "turn dropout off, pass the sampled batch, and keep what the step changes in its state"
            raise InputError("step", "a step whose randomness is its normal draws alone", received, hint)

    def of(self, data: Any, draws: Draws | None = None) -> FloatArray:
        released = self._step(data, copy.deepcopy(self._state), Draws() if draws is None else draws)
        try:
            flat = np.asarray(released, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            hint = "return the released sum from the step"
            raise InputError("step", "an array of numbers", repr(released)[:60], hint) from None
        if not flat.size or not np.isfinite(flat).all():
            received = "an empty one" if not flat.size else "one with NaN or infinity"
            raise InputError("step", "a finite released sum", received, "replay a step before the training diverges")
        expected = getattr(self, "sum", flat).size
        if flat.size != expected:
            received = f"{expected:,} and {flat.size:,} numbers"
            raise InputError("step", "sums of one length for all data sets", received, "return the sum over records")
        return flat

    def deviation(self, call: int, claimed: float) -> FloatArray:
        """Return the standard deviation that one call adds to each coordinate, 0 where it is rounding."""
        # where the sum is long, as without clipping, the rounding of float32 would swallow an impulse of 1
        self._height = 2.0 ** math.ceil(math.log2(max(1.0, float(np.abs(self.sum).max()) / claimed)))
        respond, name = functools.partial(self._response, call), f"call {call + 1} of the step"
        return impulses.deviation(respond, size=self.draws.sizes[call], claimed=claimed, call=name)

    def _response(self, call: int, *, signs: bool = False, place: int | None = None) -> FloatArray:
        impulse = Draws(call, signs=signs, height=self._height, place=place)
        return np.asarray(np.abs(self.of(self._data, impulse) - self.sum) / self._height)


def _noise(at: _Replay, number: int, claim: Claim, used: set[bytes]) -> StepNoise:
    """Return the noise of a step, and add the states of its generators to those already drawn from."""
    squares, numbers = np.zeros(at.sum.size), 0
    for call, size in enumerate(at.draws.sizes):
        deviation = at.deviation(call, claim.deviation)
        numbers += min(size, int(np.count_nonzero(deviation)))
        squares += deviation**2
    deviations = np.sqrt(squares) / claim.deviation
    known = [source for source in at.draws.sources if source is not None]
    reused = len(set(known)) < len(known) or any(source in used for source in known)
    used.update(known)
    return StepNoise(
        number,
        float(deviations.min()),
        float(deviations.max()),
        deviations.size,
        int((deviations == 0).sum()),
        numbers,
        reused,
    )


def _signs(size: int) -> FloatArray:
    """Return the first +1 and -1 of the Thue-Morse sequence, which has no period."""
    signs = np.ones(1)
    while len(signs) < size:
        signs = np.concatenate([signs, -signs])
    return signs[:size]


# -- sentences ---------------------------------------------------------------------------------------------------------


def _differences(
    claim: Claim, changes: Sequence[Change], noise: Sequence[StepNoise], allowed: float
) -> tuple[str, ...]:
    sentences = []
    worst = max(changes, key=lambda change: change.ratio)
    if worst.ratio > allowed:
        sentences.append(
            f"One record moved the sum by {worst.ratio:.{_SHOWN}f} clips, and the claim allows 1 "
            f"(step {worst.step}, neighbour {worst.neighbour})."
        )
    for kind, group in itertools.groupby(noise, lambda each: _kind(each, claim)):
        if kind:
            numbers = [each.step for each in group]
            where = f"Step {numbers[0]}" if len(numbers) == 1 else f"Steps {numbers[0]} to {numbers[-1]}"
            sentences.append(f"{where}: {kind}.")
    return tuple(sentences)


def _kind(noise: StepNoise, claim: Claim) -> str:
    """Return what differs from the claimed noise at one step, or nothing."""
    parts, noisy = [], noise.coordinates - noise.silent
    if not noisy:
        parts.append("no fresh noise")
    elif noise.silent:
        parts.append(f"no noise at {noise.silent:,} of {noise.coordinates:,} coordinates")
    if noisy and not noise.silent and noise.lowest < 1 - impulses.ROUNDING:
        parts.append(f"the noise is {noise.lowest:.{_SHOWN}g} of the claimed deviation {claim.deviation:g}")
    if noise.highest > 1 + impulses.ROUNDING:
        parts.append(f"more noise than claimed, {noise.highest:.{_SHOWN}g} of the deviation {claim.deviation:g}")
    if noisy and noise.numbers < noisy:
        parts.append(f"{noisy:,} noisy coordinates share {noise.numbers:,} random numbers")
    if noise.reused:
        parts.append("noise from a generator's state that was already used")
    return "; ".join(parts)

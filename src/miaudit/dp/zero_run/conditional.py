"""The published conditional audits: right guesses that the covariates could have given are counted with less weight.

Theorem 5.1 of the zero-run paper: a guess survives with a probability b that makes up for the log-odds of membership
before the algorithm was asked ("tampering"), and the surviving right guesses are tested as in one run. A dropped guess
counts as wrong, which is what thinning (:mod:`miaudit.dp.zero_run.independent_guesses`) does better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.dp.selection import GUESSES_FIRST, CountBound
from miaudit.dp.verdict import LowerBound, Parameter
from miaudit.dp.zero_run.independent_guesses import check_margin


@dataclass(frozen=True)
class Conditional:
    """The published conditional audit (Theorem 5.1, Algorithms 1 and 9 with errata B3, B4, B13, B14).

    Attributes
    ----------
    aware : whether guesses are ranked by their expected success after tampering, or by the score alone
    signed : tamper with T lambda (experiments/methods.md, section 3), or with the paper's |lambda|
    margin, smallest : as in :class:`PoissonBinomial`
    """

    aware: bool = False
    signed: bool = False
    margin: float | None = None
    smallest: int | None = None

    def __post_init__(self) -> None:
        check_margin(self.margin)


def tampering_at(epsilon: float, toward: FloatArray) -> FloatArray:
    """Probability b (n,) with which a guess survives in the test of (epsilon, delta) (Theorem 5.1.1, errata B3, B13).

    Parameters
    ----------
    epsilon : of the claim, 0 or more
    toward : array (n,), log-odds that the guess is right before the algorithm is asked
        Its absolute value |lambda| in the paper; T lambda gives up less (experiments/methods.md, section 3).

    Returns
    -------
    array (n,)
        min(1, (1 + e^(-epsilon - toward)) / (1 + e^-epsilon)), in (0, 1], rising with epsilon.

    Examples
    --------
    >>> tampering_at(0.0, np.log([1.0, 3.0, 0.5])).round(3).tolist()
    [1.0, 0.667, 1.0]
    """
    # (1 + x e^-t) / (1 + x) with x = e^-epsilon
    x = np.exp(-epsilon)
    return np.asarray(np.minimum(1.0, (1 + x * np.exp(-np.maximum(toward, 0.0))) / (1 + x)))


def tampering(toward: FloatArray) -> FloatArray:
    """Probability (n,) with which a guess survives in the test of a trade-off function, min(1, e^-toward).

    Theorem 5.1.2; by erratum B4 no limit of :func:`tampering_at`, but a lower bound on it.

    Examples
    --------
    >>> tampering(np.log([1.0, 3.0, 0.5])).round(3).tolist()
    [1.0, 0.333, 1.0]
    """
    return np.exp(-np.maximum(toward, 0.0))


def expected_success(confidence: FloatArray, toward: FloatArray) -> FloatArray:
    """Chance (n,) that a guess is right and survives, by which the propensity-aware adversary ranks its guesses.

    The paper leaves the form open ("adjusts its confidence scores using the tampering probabilities"). Here a guess
    whose score lies z standard deviations from the centre is taken to be right with probability Phi(z), and it survives
    with probability e^-toward. Labels are not used, so that any choice is valid.

    Parameters
    ----------
    confidence : array (n,), 0 or more: distance of each score from the centre, in standard deviations of the scores
    toward : array (n,), log-odds that the guess is right before the algorithm is asked

    Examples
    --------
    >>> expected_success(np.array([0.0, 2.0, 2.0]), np.log([1.0, 1.0, 3.0])).round(3).tolist()
    [0.5, 0.977, 0.326]
    """
    from scipy.special import ndtr  # noqa: PLC0415 - scipy loads when used

    return np.asarray(ndtr(confidence) * tampering(toward))


@dataclass(frozen=True, eq=False)
class Tampered:
    """Guesses of an audit with the uniforms of their coins: the same for every epsilon and every bootstrap replicate.

    Attributes
    ----------
    correct : array (r,) of bool
    toward : array (r,), log-odds that each guess is right before the algorithm is asked
    uniforms : array (r,) in [0, 1); a guess survives where the uniform lies below b
    """

    correct: BoolArray
    toward: FloatArray
    uniforms: FloatArray

    def count(self) -> int:
        """Return how many right guesses survive in the test of a trade-off function."""
        return int(np.count_nonzero(self.correct & (self.uniforms < tampering(self.toward))))

    def count_at(self, epsilon: float) -> int:
        """Return how many right guesses survive in the test of (epsilon, delta); it rises with epsilon."""
        return int(np.count_nonzero(self.correct & (self.uniforms < tampering_at(epsilon, self.toward))))

    def epsilon_bound(self, bound: Callable[[int], float]) -> tuple[float, int]:
        """Return the end of the first stretch of rejected epsilon, from 0 up, and the surviving right guesses there.

        Since b depends on epsilon the rejections are not nested, and what counts is the **first** epsilon that is not
        rejected (erratum B13). With w survivors every epsilon below ``bound(w)`` is rejected; more survive as epsilon
        rises. So from epsilon the whole stretch up to bound(count_at(epsilon)) is rejected, and the walk goes on from
        its end until that no longer moves: it visits each number of survivors at most once.

        Parameters
        ----------
        bound : callable
            From a number of right guesses to the largest epsilon that it refutes, 0 if none; non-decreasing.

        Examples
        --------
        >>> guesses = Tampered(np.array([True, True]), np.array([2.0, 0.0]), np.array([0.9, 0.5]))
        >>> guesses.epsilon_bound(lambda right: [0.0, 2.5, 3.5][right])
        (3.5, 2)
        """
        reached, survivors = 0.0, self.count_at(0.0)
        while True:
            following = bound(survivors)
            if following <= reached:
                return reached, survivors
            reached, survivors = following, self.count_at(following)


@dataclass(frozen=True, eq=False)
class ConditionalTest:
    """Conditional audit of ranked guesses (Theorem 5.1): of epsilon at a delta, or of mu.

    Attributes
    ----------
    parameter : "epsilon" or "mu"
    name : how the guesses are made, in words
    places : ints (m,), record numbers, the surest guess first
    correct, uniforms : arrays (m,), in that order; see :class:`Tampered`
    from_counts : bound from counts, by which a schedule is laid out
    toward : array (m,), log-odds that each guess is right before the algorithm is asked, margin included
    replicates : from places (r,) to the same log-odds (K, r) under bootstrap replicates of the propensity; None without
        Half of the error probability then goes to the bootstrap (erratum B7), and the coins are the same throughout.
    """

    parameter: Parameter
    name: str
    places: IntArray
    correct: BoolArray
    uniforms: FloatArray
    from_counts: CountBound
    toward: FloatArray
    replicates: Callable[[IntArray], FloatArray] | None = None

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        chosen = rows[:guesses]
        level = (1 - confidence) / (1 if self.replicates is None else 2)
        cost = 1 - confidence - level if self.replicates is not None else 0.0
        limits = sorted(self._each(chosen, len(rows), level))
        value, survivors = limits[math.floor(cost * len(limits))]
        # At most as many guesses survive at epsilon 0 as at the value that was reached: these give the p-value.
        silent = sorted(self._survivors(guess) for guess in self._tampered(chosen))
        one = self._one_run(silent[math.floor(cost * len(limits))], guesses, len(rows), level)
        return replace(
            one,
            value=value,
            confidence=confidence,
            correct=survivors,
            p_value=None if one.p_value is None else min(1.0, one.p_value + cost),
            method=f"zero run, conditional audit (Theorem 5.1.{1 if self.parameter == 'epsilon' else 2})",
            assumptions=(GUESSES_FIRST,),
        )

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return surviving right and made guesses among the first so many of these rows."""
        tampered = next(self._tampered(rows[:guesses]))
        return self._survivors(tampered), len(tampered.correct)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the bound if this share of the guesses were right and survived."""
        level = (1 - confidence) / (1 if self.replicates is None else 2)
        return self._one_run(math.floor(share * guesses), guesses, len(rows), level).value

    def canaries(self, rows: IntArray) -> int:
        """Return the number of rows."""
        return len(rows)

    def _survivors(self, tampered: Tampered) -> int:
        return tampered.count_at(0.0) if self.parameter == "epsilon" else tampered.count()

    def _tampered(self, chosen: IntArray) -> Iterator[Tampered]:
        for toward in self.toward[None, chosen] if self.replicates is None else self.replicates(chosen):
            yield Tampered(self.correct[chosen], toward, self.uniforms[chosen])

    def _each(self, chosen: IntArray, canaries: int, level: float) -> Iterator[tuple[float, int]]:
        """Bound and surviving right guesses of each replicate."""

        def value(right: int) -> float:
            return self._one_run(right, len(chosen), canaries, level).value

        for tampered in self._tampered(chosen):
            if self.parameter == "epsilon":
                yield tampered.epsilon_bound(value)
            else:
                right = tampered.count()
                yield value(right), right

    def _one_run(self, right: int, guesses: int, canaries: int, level: float) -> LowerBound:
        return self.from_counts(correct=right, guesses=guesses, canaries=canaries, confidence=1 - level)

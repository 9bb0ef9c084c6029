"""Lower bounds from several runs of the same training, each with coins of its own: what one run cannot show.

A single run has a ceiling that no attack and no number of canaries passes. Runs with fresh coins and fresh noise are
independent whatever happens inside one of them: a parameter is refuted where at least j of K one-run tests refute it,
each at a level t with P(Bin(K, t) >= j) = 1 - confidence (experiments/methods.md, section 7). All that this needs is
that each run's p-value is valid given the runs before it. So j, K and t are fixed before the first run, every run that
was started counts, and what a run's attack learned from (reference models, settings) comes from outside the runs, or
from runs before it.

The same holds for the number of guesses. From three runs on, the first run chooses it and is not audited; the others
are (experiments/methods.md, section 7). A pilot inside each run is refused: it is chosen on that run, and its excess
over the level grows with the power of the number of runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp import one_run
from miaudit.dp.earlier_runs import Choice
from miaudit.dp.ranked_run import RankedRun
from miaudit.dp.selection import Option, Pilot, Schedule
from miaudit.dp.selection import check as check_guesses
from miaudit.dp.shared_noise import require_own_noise
from miaudit.dp.verdict import LowerBound, Parameter
from miaudit.errors import DesignError, InputError
from miaudit.errors.checks import check_confidence, is_number, whole
from miaudit.evidence import Evidence

__all__ = ["Anytime", "AtLeast", "Counts", "audit", "epsilon_lower_bound", "level", "mu_lower_bound", "p_value"]

Counts = tuple[int, int, float]
"""Correct guesses, guesses and canaries of one run, as of :func:`miaudit.dp.one_run.mu_lower_bound`."""

ALL_OF = 7  # up to here every run has to refute; beyond, all but one
SCHEDULE_UP_TO = 0.4  # level of each run; above it rounding decides it (experiments/methods.md, section 7)
ALIKE = 5.0  # standard deviations by which two runs' coins agree more, or less, than independent ones
FRESH = (
    "every run had coins and noise of its own, and every run that was started counts",
    "the number of runs, and how many have to refute, were fixed before the first",
    "what a run's attack learned from came from outside the runs, or from runs before it",
)


@dataclass(frozen=True)
class AtLeast:
    """A parameter is refuted where at least so many of the audited runs refute it; fixed before the first run.

    Parameters
    ----------
    runs : int from 1 to the number of audited runs; None: all of them up to seven, all but one from eight
    """

    runs: int | None = None

    def __post_init__(self) -> None:
        if self.runs is not None:
            whole("at_least", self.runs, "it is fixed before the first run")

    def of(self, several: int) -> int:
        """Return how many of ``several`` runs have to refute."""
        needed = self.runs or (several if several <= ALL_OF else several - 1)
        if needed > several:
            hint = "it is fixed before the runs; from three on the first chooses the guesses and is not audited"
            raise InputError("at_least", f"at most the {several} runs audited", str(needed), hint)
        return needed

    def level_of_each(self, several: int, confidence: float) -> float:
        """Return the level of each one-run test."""
        return level(several, at_least=self.runs, confidence=confidence)

    def largest(self, refuted: Sequence[float], confidence: float) -> float:  # noqa: ARG002 - it is in the level
        """Return the largest parameter that enough of the runs refute."""
        return sorted(refuted, reverse=True)[self.of(len(refuted)) - 1]

    def p_value(self, p_values: Sequence[float]) -> float:
        """Return that of the whole."""
        return p_value(p_values, at_least=self.runs)

    def in_words(self, several: int, each: float) -> str:
        """Say what refutes a parameter, where each run is tested at a level."""
        needed = self.of(several)
        which = f"at least {needed} of {several} audited runs refute it"
        if needed == several:
            which = "the audited run refutes it" if several == 1 else f"all {several} audited runs refute it"
        return f"a parameter is refuted where {which} at level {each:.3g}"


@dataclass(frozen=True)
class Anytime:
    """Run by run, with a stop as soon as enough is shown, or when no further run is paid for.

    Wealth starts at 1; each run multiplies it by 1 - ``stake``, plus ``stake`` / ``level`` where it refutes. A
    parameter is refuted once its wealth has reached 1 / (1 - confidence): Ville's inequality, whenever one stops.

    Parameters
    ----------
    level : float in (0, 1), of each one-run test; fixed before the first run
    stake : float in (0, 1)
    """

    level: float = 0.5
    stake: float = 0.9

    def __post_init__(self) -> None:
        for name in ("level", "stake"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < 1):
                raise InputError(name, "a number strictly between 0 and 1", repr(value), "leave it at its default")

    def fewest(self, confidence: float) -> int:
        """Return how many runs it takes at least, where every one of them refutes.

        Examples
        --------
        >>> Anytime().fewest(0.975)
        6
        """
        gain = math.log(1 - self.stake + self.stake / self.level)
        return math.ceil(-math.log1p(-check_confidence(confidence)) / gain - 1e-12)

    def level_of_each(self, several: int, confidence: float) -> float:  # noqa: ARG002 - however many there will be
        """Return the level of each one-run test."""
        check_confidence(confidence)
        return self.level

    def p_value(self, p_values: Sequence[float]) -> None:
        """Return none: the level of each run is fixed."""

    def in_words(self, several: int, each: float) -> str:  # noqa: ARG002
        """Say what refutes a parameter."""
        return f"one after the other, each tested at level {each:.3g}, with wealth that may be looked at any time"

    def largest(self, refuted: Sequence[float], confidence: float) -> float:
        """Return the largest parameter whose wealth reached the mark at any time; the runs' bounds in their order."""
        best = 0.0
        for parameter in refuted:
            steps = self.wealth(np.asarray(refuted) >= parameter)
            if parameter > best and np.cumsum(steps).max() >= self.mark(confidence):
                best = parameter
        return best

    def wealth(self, refuted: BoolArray) -> FloatArray:
        """Return by what each run multiplies the wealth, as a logarithm, by whether it refutes."""
        return np.asarray(np.log(1 - self.stake + np.where(refuted, self.stake / self.level, 0.0)))

    def mark(self, confidence: float) -> float:
        """Return the logarithm of the wealth that refutes a parameter."""
        return -math.log1p(-confidence) - 1e-12


Combination = AtLeast | Anytime


def named(text: object) -> int | Anytime:
    """Map the word at the door to what it stands for: a number of runs, or anytime.

    Examples
    --------
    >>> named("3"), named("anytime")
    (3, Anytime(level=0.5, stake=0.9))
    """
    if isinstance(text, Anytime) or text == "anytime":
        return text if isinstance(text, Anytime) else Anytime()
    number = int(text) if isinstance(text, str) and text.isdecimal() else text
    return check(number)  # type: ignore[return-value] # None is refused here


def check(at_least: object) -> int | Anytime | None:
    """Return what says how many runs have to refute, if it is that."""
    if at_least is None or isinstance(at_least, Anytime):
        return at_least
    if isinstance(at_least, bool) or not isinstance(at_least, int) or at_least < 1:
        allowed, hint = "a whole number of runs from 1 up, or anytime", "leave it out for the default"
        raise InputError("at_least", allowed, repr(at_least)[:60], hint)
    return at_least


def level(runs: int, *, at_least: int | None = None, confidence: float = 0.95) -> float:
    """Return the level t in (0, 1) of each one-run test: P(Bin(``runs``, t) >= ``at_least``) = 1 - ``confidence``.

    Examples
    --------
    >>> round(level(4, confidence=0.975), 4), round(level(8, confidence=0.975), 4)
    (0.3976, 0.4735)
    """
    several = whole("runs", runs, "it is fixed before the first run")
    needed = AtLeast(at_least).of(several)
    return float(special.betaincinv(needed, several - needed + 1, 1 - check_confidence(confidence)))


def p_value(p_values: Sequence[float], *, at_least: int | None = None) -> float:
    """Return the p-value of several runs' p-values, valid where each is so given the runs before it.

    Parameters
    ----------
    p_values : numbers in [0, 1], in the order of the runs
    at_least : as of :class:`AtLeast`

    Examples
    --------
    >>> round(p_value([0.3, 0.4, 0.1]), 3)
    0.064
    """
    values = sorted(p_values)
    if not values or not all(is_number(value) and 0 <= value <= 1 for value in values):
        raise InputError("p_values", "numbers from 0 to 1, one of each run", repr(p_values)[:80], "give them in order")
    needed = AtLeast(at_least).of(len(values))
    return float(special.betainc(needed, len(values) - needed + 1, values[needed - 1]))


def mu_lower_bound(
    counts: Sequence[Counts], *, confidence: float = 0.95, at_least: int | Anytime | None = None
) -> LowerBound:
    """Lower bound on mu of Gaussian DP from several runs' counts.

    Parameters
    ----------
    counts : (correct, guesses, canaries) of each run, in their order
        As of :func:`miaudit.dp.one_run.mu_lower_bound`. The number of guesses of a run is fixed before its scores are
        seen, or follows from runs before it. A run that chose it for the others is left out.
    confidence : float in (0, 1), one-sided, of the whole
    at_least : how many runs have to refute a parameter, as of :class:`AtLeast`; or :class:`Anytime`

    Returns
    -------
    LowerBound
        The ``at_least``-th largest of the one-run bounds at level :func:`level`; ``corrections`` says which.

    Examples
    --------
    >>> one = mu_lower_bound([(416, 500, 10_000)], confidence=0.975)
    >>> four = mu_lower_bound([(416, 500, 10_000)] * 4, confidence=0.975)
    >>> round(one.value, 3), round(four.value, 3)
    (0.437, 0.579)
    """
    return _of_counts(counts, one_run.count_bound("mu"), confidence, at_least)


def epsilon_lower_bound(
    counts: Sequence[Counts],
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    at_least: int | Anytime | None = None,
) -> LowerBound:
    """Lower bound on epsilon of (epsilon, delta)-DP from several runs' counts.

    Parameters
    ----------
    counts, confidence, at_least : as of :func:`mu_lower_bound`
    delta : float in [0, 1), of the claim

    Examples
    --------
    >>> found = epsilon_lower_bound([(90, 100, 1_000), (88, 100, 1_000)], delta=1e-5)
    >>> round(found.value, 2), found.confidence
    (1.71, 0.95)
    """
    return _of_counts(counts, one_run.count_bound("epsilon", delta), confidence, at_least)


def audit(
    runs: Sequence[Evidence],
    *,
    parameter: Parameter = "mu",
    delta: float = 0.0,
    guesses: Option | int | None = None,
    confidence: float = 0.95,
    at_least: int | Anytime | None = None,
    rng: np.random.Generator,
) -> LowerBound:
    """Lower bound from evidence of several runs, each with independent fair coins of its own.

    Parameters
    ----------
    runs : evidence of design "one-run", one score each, in the order of the runs
    parameter, delta : as of :func:`miaudit.dp.one_run.audit`
    guesses : int, an option of :mod:`miaudit.dp.selection`, or None
        None: from three runs on, run 1 chooses the number of guesses and their order, and is not audited. Of two, run 1
        is audited by Hedged() and run 2 as run 1 chose. With Anytime each run is audited as the runs before it chose.
        Any other option settles the guesses of every run, and all runs are audited. A pilot is refused.
    confidence : as of :func:`mu_lower_bound`
    at_least : as of :func:`mu_lower_bound`, of the audited runs
    rng : draws the order of ties, records of units, and records left out for balance

    Raises
    ------
    DesignError
        For evidence that no fair coins decided.
    InputError
        For runs of different lengths, for coins or scores that are no independent ones (copies, or the halves that were
        left over by each other), for a pilot, and for a schedule where each run is tested above level .4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random((4, 1_000)) < 0.5
    >>> runs = [Evidence(score=rng.normal(2.0 * c), member=c, design="one-run") for c in coins]
    >>> 1.2 < audit(runs, rng=rng).value < 2
    True
    """
    ranked = RankedRuns.of(runs, parameter=parameter, delta=delta, guesses=guesses, rng=rng)
    return ranked.lower_bound(confidence=confidence, at_least=at_least)


@dataclass(frozen=True, eq=False)
class RankedRuns:
    """Several runs, each ranked once, and how the guesses at each are settled.

    Attributes
    ----------
    runs : in their order
    guesses : int, an option, or None: chosen on earlier runs
    """

    runs: tuple[RankedRun, ...]
    guesses: Option | int | None

    @classmethod
    def of(
        cls,
        runs: Sequence[Evidence],
        *,
        parameter: Parameter = "mu",
        delta: float = 0.0,
        guesses: Option | int | None = None,
        rng: np.random.Generator,
    ) -> RankedRuns:
        """Rank runs that can be independent; arguments as of :func:`audit`."""
        check_guesses(guesses)
        if isinstance(guesses, Pilot) and len(runs) > 1:
            allowed, hint = "an option that needs no labels of the run itself", "leave it out: the first run chooses"
            raise InputError("guesses", f"{allowed}, with several runs", "a pilot", hint)
        require_independent(runs)
        bound = one_run.count_bound(parameter, delta)
        children = rng.spawn(len(runs))
        return cls(tuple(RankedRun.of(run, bound, one) for run, one in zip(runs, children, strict=True)), guesses)

    def first(self, several: int) -> RankedRuns:
        """Return the first so many runs."""
        return replace(self, runs=self.runs[:several])

    def audited(self, at_least: int | Anytime | None = None) -> int:
        """Return how many of the runs are audited: all, or all but the first where that chooses for the others."""
        several = len(self.runs)
        if self.guesses is not None:
            return several
        return several - 1 if several > 2 or isinstance(at_least, Anytime) else several

    def level(self, confidence: float, at_least: int | Anytime | None = None) -> float:
        """Return the level at which each audited run is tested."""
        return combination(at_least).level_of_each(max(1, self.audited(at_least)), confidence)

    def of_each(self, *, confidence: float, at_least: int | Anytime | None = None) -> tuple[LowerBound, ...]:
        """Return the bounds of the audited runs, each at confidence 1 - :meth:`level`."""
        each = 1 - self.level(confidence, at_least)
        if self.guesses is not None:
            _check_schedule(self.guesses, 1 - each, len(self.runs))
            return tuple(self._by_itself(place, each) for place in range(len(self.runs)))
        first, last = len(self.runs) - self.audited(at_least), len(self.runs)
        return tuple(self._chosen(place, each, at_least) for place in range(first, last))

    def lower_bound(self, *, confidence: float, at_least: int | Anytime | None = None) -> LowerBound:
        """Return the lower bound of all runs together."""
        bounds = self.of_each(confidence=confidence, at_least=at_least)
        if not bounds:
            return self._none_audited(confidence)
        bound = combined(bounds, confidence=confidence, at_least=at_least)
        several = len(self.runs)
        if len(bounds) == several and (self.guesses is not None or several == 1):
            return bound
        chosen = Choice.on(self.runs[:1], bounds[0].confidence).in_words(self.runs[0])
        text = f"run 1 chose {chosen}"
        if len(bounds) < several:
            text += ", and is not audited itself"
        if isinstance(at_least, Anytime) and several > 2:
            text += "; each later run was audited as all runs before it chose"
        return replace(bound, corrections=(*self.runs[0].notes, text, *bound.corrections))

    def alone(self, place: int, confidence: float) -> LowerBound:
        """Return the bound of one run by itself at the confidence of the whole."""
        if self.guesses is not None:
            return self._by_itself(place, confidence)
        return self._chosen(place, confidence, None)

    def _by_itself(self, place: int, confidence: float) -> LowerBound:
        return self.runs[place].lower_bound(self.guesses, confidence)

    def _chosen(self, place: int, confidence: float, at_least: int | Anytime | None) -> LowerBound:
        """Return the bound of a run as earlier runs chose; the first has none, and is audited by the default."""
        if place == 0:
            return self._by_itself(0, confidence)
        earlier = self.runs[:place] if isinstance(at_least, Anytime) else self.runs[:1]
        return Choice.on(earlier, confidence).lower_bound(self.runs[place], confidence)

    def _none_audited(self, confidence: float) -> LowerBound:
        """Return the bound of one run that only chooses for the next: 0."""
        bound = self._by_itself(0, confidence)
        text = "the first run chooses for the next and is not audited itself"
        notes = (*self.runs[0].notes, text)
        counts: dict[str, Any] = {"correct": None, "guesses": None, "canaries": None}
        return replace(bound, value=0.0, p_value=None, reachable=0.0, corrections=notes, **counts)


def of_each(
    runs: Sequence[Evidence],
    *,
    parameter: Parameter = "mu",
    delta: float = 0.0,
    guesses: Option | int | None = None,
    confidence: float = 0.95,
    at_least: int | Anytime | None = None,
    rng: np.random.Generator,
) -> list[LowerBound]:
    """Return the bounds of the audited runs that :func:`audit` combines, with its arguments."""
    ranked = RankedRuns.of(runs, parameter=parameter, delta=delta, guesses=guesses, rng=rng)
    return list(ranked.of_each(confidence=confidence, at_least=at_least))


def combined(bounds: Sequence[LowerBound], *, confidence: float, at_least: int | Anytime | None = None) -> LowerBound:
    """Return the bound of several one-run bounds in the order of their runs, each at confidence 1 - :func:`level`.

    Raises
    ------
    InputError
        For bounds on different parameters, or at another confidence.
    """
    way = combination(at_least)
    each, first = way.level_of_each(len(bounds), confidence), bounds[0]
    for bound in bounds:
        if (bound.parameter, bound.delta) != (first.parameter, first.delta):
            received = f"{bound.parameter} at delta {bound.delta:g} beside {first.parameter} at {first.delta:g}"
            raise InputError("bounds", "bounds on one parameter", received, "ask every run for the same")
        if not math.isclose(bound.confidence, 1 - each, abs_tol=1e-9):
            received = f"one at {bound.confidence:g}"
            raise InputError("bounds", f"bounds at confidence {1 - each:g}", received, "it is 1 - level(...)")
    values = [bound.value for bound in bounds]
    reachable = [bound.reachable for bound in bounds if bound.reachable is not None]
    silent = [bound.p_value for bound in bounds if bound.p_value is not None]
    corrections = tuple(dict.fromkeys(text for bound in bounds for text in bound.corrections))
    assumptions = tuple(dict.fromkeys(text for bound in bounds for text in bound.assumptions))
    return replace(
        first,
        value=way.largest(values, confidence),
        confidence=confidence,
        method=f"runs of the same training, {way.in_words(len(bounds), each)}; {first.method}",
        p_value=way.p_value(silent) if len(silent) == len(bounds) else None,
        correct=None,
        guesses=None,
        canaries=None,
        reachable=way.largest(reachable, confidence) if len(reachable) == len(bounds) else None,
        assumptions=(*assumptions, *FRESH),
        corrections=(
            *corrections,
            f"bounds of the runs at level {each:.3g}: {', '.join(f'{value:.4g}' for value in values)}",
        ),
        exploratory=any(bound.exploratory for bound in bounds),
    )


def require_independent(runs: Sequence[Evidence]) -> None:
    """Refuse runs whose coins or scores cannot be independent ones (p below 1e-6 for each pair that is sound)."""
    if not runs:
        raise InputError("runs", "evidence of at least one run", "none", "give one for each training")
    for number, run in enumerate(runs, start=1):
        if run.design != "one-run":
            needs = "several runs need evidence of design 'one-run' each, with coins of its own"
            raise DesignError(f"{needs}; run {number} has {run.design or 'none that was declared'}")
        if run.n != runs[0].n:
            received = f"{run.n:,} in run {number}"
            raise InputError("runs", f"runs of {runs[0].n:,} records, as the first", received, "audit the same records")
    for (i, one), (j, other) in itertools.combinations(enumerate(runs, start=1), 2):
        pair = f"runs {i} and {j}"
        if np.array_equal(one.score, other.score):
            raise InputError("runs", "scores of a model of its own for each", f"equal ones in {pair}", "score each run")
        alike = _correlation(one, other)
        if abs(alike) * math.sqrt(one.n_units) > ALIKE:
            received = f"{pair}, whose memberships have a correlation of {alike:.2f}"
            hint = "toss coins anew for each run; shadow models with exact halves are no runs of each other"
            raise InputError("runs", "members drawn by independent coins in each run", received, hint)
    require_own_noise(runs)


def _correlation(one: Evidence, other: Evidence) -> float:
    """Correlation of the coins of two runs: of one record of each unit, whose records share theirs."""
    rows = slice(None) if one.unit_codes is None else np.unique(one.unit_codes, return_index=True)[1]
    first, second = (run.member[rows] - run.member[rows].mean() for run in (one, other))
    size = math.sqrt(float((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / size if size else 0.0


# -- parts ------------------------------------------------------------------------------------------------------------


def _of_counts(
    counts: Sequence[Counts],
    bound: Callable[..., LowerBound],
    confidence: float,
    at_least: int | Anytime | None,
) -> LowerBound:
    if not counts or not all(isinstance(run, Sequence) and len(run) == 3 for run in counts):
        allowed = "(correct, guesses, canaries) of each run"
        raise InputError("counts", allowed, repr(counts)[:80], "give a list with one triple for each run")
    each = combination(at_least).level_of_each(len(counts), confidence)
    bounds = [bound(correct=c, guesses=r, canaries=m, confidence=1 - each) for c, r, m in counts]
    return combined(bounds, confidence=confidence, at_least=at_least)


def _check_schedule(guesses: Option | int, level_of_each: float, several: int) -> None:
    if isinstance(guesses, Schedule) and several > 1 and level_of_each > SCHEDULE_UP_TO + 1e-9:
        allowed = f"no schedule where each run is tested above level {SCHEDULE_UP_TO:g}"
        received = f"a schedule at level {level_of_each:.3g} of each of {several} runs"
        raise InputError("guesses", allowed, received, "leave it out: the first run chooses")


def combination(at_least: int | Anytime | None) -> Combination:
    """Return how the runs are combined where so many of them have to refute; None: the default of :class:`AtLeast`."""
    return at_least if isinstance(at_least, Anytime) else AtLeast(at_least)

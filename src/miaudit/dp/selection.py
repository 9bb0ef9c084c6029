"""How many guesses an audit makes, and in what order.

Guessing at fewer records makes the guesses surer and the bound larger, up to a point that depends on the attack.
Looking for that point on the audited labels is multiple testing (errata B6 and B19). Each option here divides the
level, or ties numbers of guesses to parameters before the scores are seen, or says that it does neither
(:class:`Pilot`, :class:`Exploratory`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.dp import schedule
from miaudit.dp.ranking import BOTH_ENDS, BOTH_SIDES, Ranking, ends_in_turn
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError, nearest
from miaudit.errors.checks import is_number

__all__ = ["PAPERS_SIX", "SWEEP", "TEN", "Bonferroni", "Exploratory", "Fixed", "Hedged", "Pilot", "Schedule"]

PAPERS_SIX = (0.1, 0.05, 0.02, 0.01, 0.005, 0.0025)
"""The zero-run paper's 1000, 500, 200, 100, 50 and 25 guesses among 10,000 records (erratum B6), as fractions."""
TEN = (0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.2, 0.4, 1.0)
"""The candidates of a pilot (experiments/methods.md, section 5)."""
SWEEP = (*PAPERS_SIX, 0.2, 0.4, 1.0)
"""The paper's six and three more for attacks that are right nearly everywhere, which they cost up to 3% elsewhere."""
CLEARLY = 1.2  # what a pilot asks of a later order beyond an earlier one
GUESSES_FIRST = "the number of guesses was fixed before the labels were looked at"


@dataclass(frozen=True)
class Fixed:
    """So many guesses, decided before the labels were looked at.

    Parameters
    ----------
    count : int from 1 to the number of records
    """

    count: int

    def __post_init__(self) -> None:
        _check_counts("count", (self.count,))


@dataclass(frozen=True)
class Pilot:
    """Reveal the labels of some records drawn at random, choose on them, audit the others at the full level.

    **It exceeds its level.** A pilot chooses the number of guesses from scores, and the mechanism writes the scores. At
    a nominal 5%, worst mixtures of patterns exceed the true mu in 3.8% of audits of 10,000 records, 7.8% of 100,000 and
    9.8% of 1,000,000. :class:`Hedged` keeps its level. For pure epsilon the choice is harmless.

    Parameters
    ----------
    share : float in (0, 1)
        Of the records, drawn at random for the pilot.
    fractions : floats in (0, 1]
        Candidate numbers of guesses, as fractions of the records.
    """

    share: float = 0.2
    fractions: tuple[float, ...] = TEN

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0 < self.share < 1):
            raise InputError("share", "a number strictly between 0 and 1", repr(self.share), "0.2 is the default")
        _check_fractions(self.fractions)


@dataclass(frozen=True)
class Bonferroni:
    """Test every candidate at an equal part of the level and take the best bound.

    For suspected sparse memorisation, where a few records give everything away.

    Parameters
    ----------
    fractions : floats in (0, 1]
        Of the records; candidates that round to the same number of guesses count once.
    counts : ints, 1 or more
        Numbers of guesses, in place of the fractions.
    """

    fractions: tuple[float, ...] = SWEEP
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_fractions(self.fractions)
        _check_counts("counts", self.counts)


@dataclass(frozen=True)
class Schedule:
    """Test each parameter with a number of guesses that is tied to it beforehand, from 0 up, until one is not rejected.

    Every parameter is tested once and the walk passes through the true one, so nothing has to be paid. The number of
    guesses tied to a parameter is the best one for a perfect Gaussian attack: strong there, and blind to a few very
    strong canaries (experiments/methods.md, section 5).

    Parameters
    ----------
    fractions : floats in (0, 1]
        Of the records; the numbers of guesses to tie parameters to.
    """

    fractions: tuple[float, ...] = (0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.6, 1.0)

    def __post_init__(self) -> None:
        _check_fractions(self.fractions)


@dataclass(frozen=True)
class Hedged:
    """Walk a schedule at one part of the level, and test a few fixed numbers of guesses at the rest. The default.

    A parameter is refuted where its own number of guesses refutes it at 1 - ``part`` of the level, or one of the
    ``few`` at an equal share of the rest. The level follows from the union bound, at any number of records. Where the
    scores are much longer on one side than on the other, guesses come from both ends in turn: which records are guessed
    may follow from scores, but how many may not.

    Parameters
    ----------
    fractions : floats in (0, 1]
        As of :class:`Schedule`.
    few : floats in (0, 1]
        Of the records; numbers of guesses that are tried for every parameter.
    part : float in (0, 1)
        Of the level, for the few, in equal shares.
    """

    fractions: tuple[float, ...] = Schedule.fractions
    few: tuple[float, ...] = (0.0025, 0.01, 0.05, 0.2, 1.0)
    part: float = 0.4

    def __post_init__(self) -> None:
        _check_fractions(self.fractions)
        _check_fractions(self.few, "few")
        if not (is_number(self.part) and 0 < self.part < 1):
            raise InputError("part", "a number strictly between 0 and 1", repr(self.part), "0.4 is the default")

    def confidences(self, confidence: float, few: int) -> tuple[float, float]:
        """Return the confidence of the schedule, and that of each of ``few`` fixed numbers of guesses."""
        level = 1 - confidence
        return 1 - level * (1 - self.part), 1 - level * self.part / few


@dataclass(frozen=True)
class Exploratory:
    """Take the best of several numbers of guesses without paying for the choice: no confidence attaches to the result.

    Parameters
    ----------
    fractions, counts : as in :class:`Bonferroni`
    """

    fractions: tuple[float, ...] = SWEEP
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_fractions(self.fractions)
        _check_counts("counts", self.counts)


@dataclass(frozen=True)
class Sides:
    """Algorithm 5 with k+ and k- explicit: guess "member" at the highest scores and "non-member" at the lowest.

    Of zero-run bounds.

    Attributes
    ----------
    members, nonmembers : numbers of guesses, 0 or more, not both 0
    """

    members: int
    nonmembers: int

    def __post_init__(self) -> None:
        for name in ("members", "nonmembers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(name, "a whole number from 0 up", repr(value), "how many such guesses?")
        if self.members + self.nonmembers < 1:
            raise InputError("members", "at least one guess in all", "none", "guess for some")


Option = Fixed | Pilot | Bonferroni | Schedule | Hedged | Exploratory


def named(text: str) -> Option | int:
    """Map a word to its record: hedged, bonferroni, schedule, pilot, exploratory, or a number of guesses.

    Examples
    --------
    >>> named("hedged").part, named("500")
    (0.4, 500)
    """
    known: dict[str, Option] = {
        "hedged": Hedged(),
        "bonferroni": Bonferroni(),
        "schedule": Schedule(),
        "pilot": Pilot(),
        "exploratory": Exploratory(),
    }
    if text in known:
        return known[text]
    if text.isdecimal() and len(text) > 12:  # Python itself converts no more than some thousands of digits
        received = f"a number of {len(text):,} digits"
        raise InputError("guesses", "no more guesses than records", received, "make fewer guesses")
    if not (text.isascii() and text.isdecimal()):
        hint = nearest(text, known) or "hedged is the default"
        raise InputError("guesses", f"{', '.join(known)}, or a whole number", repr(text), hint)
    _check_counts("guesses", (int(text),))
    return int(text)


def check(option: object) -> None:
    """Refuse what is no way to settle the number of guesses."""
    match option:
        case None | Fixed() | Pilot() | Bonferroni() | Schedule() | Hedged() | Exploratory():
            return
        case int() if not isinstance(option, bool):
            Fixed(option)
            return
    allowed = "Fixed, Pilot, Bonferroni, Schedule, Hedged or Exploratory, a whole number, or None"
    raise InputError("guesses", allowed, repr(option), "None is Hedged()")


class CountBound(Protocol):
    """A lower bound from counts, such as ``one_run.mu_lower_bound``."""

    def __call__(self, *, correct: int, guesses: int, canaries: float, confidence: float) -> LowerBound:
        """Return the bound of so many correct guesses."""
        ...

    def __hash__(self) -> int: ...


class RankedTest(Protocol):
    """A test of ranked records; ``rows`` are their positions in falling order of confidence."""

    @property
    def name(self) -> str:
        """Return how the guesses are made, in words."""
        ...

    @property
    def places(self) -> IntArray:
        """Return the record numbers (n,), the surest guess first."""
        ...

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        ...

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses, at most so many, among these rows."""
        ...

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return about what the bound would be if this share of the guesses were right; looks at no label."""
        ...

    def canaries(self, rows: IntArray) -> int:
        """Return the number of which fractions are taken; depends on covariates only."""
        ...

    @property
    def from_counts(self) -> CountBound:
        """Return a bound from counts, by which a schedule ties numbers of guesses to parameters beforehand."""
        ...


@dataclass(frozen=True, eq=False)
class CountTest:
    """The test of how many guesses were right, whichever they are.

    The order and the guesses may use scores and covariates, never labels.

    Attributes
    ----------
    name : how the guesses are made, in words
    places : ints (n,), record numbers, the surest guess first
    correct : bools (n,), whether the guess at record i (not at the i-th in order) is right
    from_counts : bound from counts
    survivors : bools (n,), records that thinning left (experiments/methods.md, section 3); None for all
    size : (n,), what each record counts for: the s_i of thinning, which must not depend on labels; None: 1
    """

    name: str
    places: IntArray
    correct: BoolArray
    from_counts: CountBound
    survivors: BoolArray | None = None
    size: FloatArray | None = None

    @classmethod
    def of(cls, correct: ArrayLike, from_counts: CountBound) -> CountTest:
        """Return the test of correctness indicators (n,) that already are in falling order of confidence."""
        indicators = np.asarray(correct)
        if indicators.ndim != 1 or not len(indicators) or not np.isin(indicators, (0, 1)).all():
            raise InputError(
                "correct", "an array (n,) of bool", f"an array of shape {indicators.shape}", "one entry per guess"
            )
        return cls("as given", np.arange(len(indicators)), indicators.astype(bool), from_counts)

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound with the first so many guesses; where thinning left fewer, the missing count as wrong."""
        return self.counted(self.share_right(rows, guesses)[0], guesses, self.canaries(rows), confidence)

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses among the first records that thinning left."""
        if self.survivors is None:
            places = self.places[rows[:guesses]]
        else:
            records = self.places[rows]
            places = records[self.survivors[records]][:guesses]
        return int(np.count_nonzero(self.correct[places])), len(places)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the bound if this share of the guesses were right."""
        return self.counted(math.floor(guesses * share), guesses, self.canaries(rows), confidence).value

    def canaries(self, rows: IntArray) -> int:
        """Return their effective number; it depends on covariates only, as the number of guesses must."""
        if self.size is None:
            return len(rows)
        inside = np.zeros(len(self.size), dtype=np.bool_)
        inside[self.places[rows]] = True
        return max(1, math.ceil(float(self.size[inside].sum()) - 1e-9))

    def counted(self, correct: int, guesses: int, canaries: int, confidence: float) -> LowerBound:
        """Return the bound of any counts among so many canaries."""
        return self.from_counts(
            correct=correct, guesses=guesses, canaries=max(canaries, guesses), confidence=confidence
        )


def two_sided(ranking: Ranking, member: BoolArray, from_counts: CountBound, *, rng: np.random.Generator) -> CountTest:
    """Guess "member" above the median score and "non-member" below it, the farthest first; ties in random order.

    Parameters
    ----------
    ranking : of scores (n,), higher is more member-like
    member : (n,)
    from_counts : bound from counts
    """
    offset = ranking.score - ranking.centre
    guess = np.where(offset == 0, rng.random(len(offset)) < 0.5, offset > 0)
    return CountTest(BOTH_SIDES, ranking.outermost_first(ranking.centre, rng), guess == member, from_counts)


def by_turns(ranking: Ranking, member: BoolArray, from_counts: CountBound, *, rng: np.random.Generator) -> CountTest:
    """Guess as :func:`two_sided`, with distances from the median counted in records: both ends take turns."""
    ascending = ranking.lowest_first(rng)
    coins = rng.random(len(ascending)) < 0.5
    half = len(ascending) // 2
    guess = np.zeros(len(ascending), dtype=np.bool_)
    guess[ascending[len(ascending) - half :]] = True
    middle = ascending[half : len(ascending) - half]
    guess[middle] = coins[middle]
    return CountTest(BOTH_ENDS, ends_in_turn(ascending, rng), guess == member, from_counts)


def one_sided(
    ranking: Ranking, member: BoolArray, from_counts: CountBound, *, guess: bool, rng: np.random.Generator
) -> CountTest:
    """Guess "member" from the highest score down (``guess=True``), or "non-member" from the lowest up."""
    name = "members only, the highest scores first" if guess else "non-members only, the lowest scores first"
    rows = ranking.highest_first(rng) if guess else ranking.lowest_first(rng)
    return CountTest(name, rows, member == guess, from_counts)


def choose(
    option: object,
    tests: Sequence[RankedTest],
    *,
    confidence: float,
    rng: np.random.Generator,
    gain: float = 1.0,
    rows: IntArray | None = None,
) -> LowerBound:
    """Return the lower bound of a test over ranked records, the number of guesses chosen as the option says.

    Parameters
    ----------
    option : Fixed, Pilot, Bonferroni, Schedule, Hedged or Exploratory; an int means Fixed, None means Hedged()
    tests : one or more of the same records in different orders
        A pilot chooses among them; every other option uses the first.
    confidence : in (0, 1), one-sided
    rng : draws the pilot
    gain : factor by which a later test has to promise more than an earlier one for a pilot to choose it
        A pilot is small, and the best of several looks better than it is: ``CLEARLY``.
    rows : positions (n,) of all records, for tests that read no more than how many they are

    Returns
    -------
    LowerBound
        With what was chosen and what was paid in ``corrections``.

    Raises
    ------
    InputError
        For more guesses than records, or an option that is none of these.

    Examples
    --------
    >>> from miaudit.dp.one_run import mu_lower_bound
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random(2_000) < np.linspace(0.98, 0.5, 2_000)
    >>> sweep = Bonferroni(counts=(50, 400))
    >>> found = choose(sweep, [CountTest.of(right, mu_lower_bound)], confidence=0.95, rng=rng)
    >>> round(found.value, 2), found.guesses
    (0.74, 400)
    """
    if not tests:
        raise InputError("rankings", "at least one ranking", "none", "pass CountTest.of(correct, bound)")
    test = tests[0]
    rows = np.arange(len(test.places)) if rows is None else rows
    match option:
        case None | Hedged():
            return _hedged(option or Hedged(), test, rows, confidence)
        case Pilot():
            return _piloted(option, tests, rows, confidence, rng, gain)
        case Fixed(count):
            return test.bound(rows, _at_most(count, len(rows)), confidence)
        case int() if not isinstance(option, bool):
            return test.bound(rows, _at_most(Fixed(option).count, len(rows)), confidence)
        case Bonferroni() | Exploratory():
            return _swept(option, test, rows, confidence)
        case Schedule():
            return _scheduled(option, test, rows, confidence)
    check(option)
    raise AssertionError(f"{option!r} passed the check")  # pragma: no cover


# -- the options ------------------------------------------------------------------------------------------------------


def _at_most(count: int, n: int) -> int:
    if count > n:
        raise InputError("guesses", f"at most the {n:,} records audited", f"{count:,}", "make fewer guesses")
    return count


def _numbers(fractions: Sequence[float], test: RankedTest, rows: IntArray) -> list[int]:
    """Return the numbers of guesses that are meant by fractions of the canaries among these rows."""
    return numbers_of(fractions, test.canaries(rows), most=len(rows))


def numbers_of(fractions: Sequence[float], canaries: int, *, most: int | None = None) -> list[int]:
    """Return numbers of guesses from 1 to ``most``, by default all canaries, from fractions of the canaries."""
    return [min(most or canaries, max(1, round(fraction * canaries))) for fraction in fractions]


@dataclass(frozen=True, eq=False)
class _Promise:
    """The bound that a pilot lets expect of a test on the rows that it did not reveal, and with how many guesses."""

    test: RankedTest
    rows: IntArray
    guesses: int
    value: float


def _piloted(
    option: Pilot, tests: Sequence[RankedTest], rows: IntArray, confidence: float, rng: np.random.Generator, gain: float
) -> LowerBound:
    n = len(rows)
    size = round(option.share * n)
    if not 1 <= size < n:
        every = tests[0].canaries(rows) if isinstance(tests[0], CountTest) else n
        bound = tests[0].bound(rows, every, confidence)
        return settled(bound, "too few records for a pilot: a guess at every one of them")
    revealed = np.zeros(n, dtype=np.bool_)
    revealed[rng.permutation(n)[:size]] = True
    first, *later = (_promise(option.fractions, test, revealed[test.places], confidence) for test in tests)
    best = first
    for promise in later:
        if promise.value > best.value * gain:
            best = promise
    text = (
        f"{best.guesses:,} guesses ({best.test.name}) chosen on {size:,} records drawn at random, "
        f"whose labels were revealed for it; the other {n - size:,} were audited"
    )
    return settled(best.test.bound(best.rows, best.guesses, confidence), text)


def _promise(fractions: Sequence[float], test: RankedTest, revealed: BoolArray, confidence: float) -> _Promise:
    """Return the largest bound that a pilot lets expect; ``revealed`` (n,) are its rows, in the order of the test.

    The share of right guesses is taken a little pessimistic (experiments/methods.md, section 5).
    """
    pilot, rest = np.flatnonzero(revealed), np.flatnonzero(~revealed)
    promises = []
    for tried, guesses in zip(_numbers(fractions, test, pilot), _numbers(fractions, test, rest), strict=True):
        right, guessed = test.share_right(pilot, tried)
        share = (right + 0.5) / (guessed + 1) - 0.125 / math.sqrt(max(1, guessed))
        value = test.foreseen(rest, guesses, min(1.0, max(0.0, share)), confidence) if guessed else 0.0
        promises.append(_Promise(test, rest, guesses, value))
    return max(promises, key=lambda promise: promise.value)


def _swept(option: Bonferroni | Exploratory, test: RankedTest, rows: IntArray, confidence: float) -> LowerBound:
    counts = sorted({_at_most(count, len(rows)) for count in option.counts or _numbers(option.fractions, test, rows)})
    unpaid = isinstance(option, Exploratory)
    paid = 1 if unpaid else len(counts)
    bounds = [test.bound(rows, count, confidence if unpaid else 1 - (1 - confidence) / paid) for count in counts]
    how = "and nothing was paid for that" if unpaid else f"the level divided by {len(counts)}"
    text = f"{'exploratory: ' if unpaid else ''}best of {len(counts)} numbers of guesses ({_listed(counts)}), {how}"
    smallest = min((bound.p_value for bound in bounds if bound.p_value is not None), default=None)
    return replace(
        settled(max(bounds, key=lambda bound: bound.value), text),
        confidence=confidence,
        p_value=None if smallest is None else min(1.0, paid * smallest),
        reachable=max((bound.reachable for bound in bounds if bound.reachable is not None), default=None),
        exploratory=unpaid,
    )


def _scheduled(option: Schedule, test: RankedTest, rows: IntArray, confidence: float) -> LowerBound:
    counts = tuple(sorted(set(_numbers(option.fractions, test, rows))))
    steps = schedule.steps(counts, test.canaries(rows), test.from_counts, confidence)
    tested = [(start, test.bound(rows, count, confidence)) for start, count in steps]
    text = (
        f"each parameter was tested with a number of guesses tied to it beforehand ({_listed([c for _, c in steps])}), "
        "from 0 up to the first that was not rejected"
    )
    best = replace(schedule.walk(tested), p_value=tested[0][1].p_value, reachable=_reachable(tested))
    return settled(best, text)


def _hedged(option: Hedged, test: RankedTest, rows: IntArray, confidence: float) -> LowerBound:
    few = sorted(set(_numbers(option.few, test, rows)))
    most, each = option.confidences(confidence, len(few))
    counts = tuple(sorted(set(_numbers(option.fractions, test, rows))))
    steps = schedule.steps(counts, test.canaries(rows), test.from_counts, most)
    own = [(start, test.bound(rows, count, most)) for start, count in steps]
    alone = [test.bound(rows, count, each) for count in few]
    of_nothing = [(own[0][1].p_value, 1 - option.part), *((bound.p_value, option.part / len(few)) for bound in alone)]
    known = [p_value / part for p_value, part in of_nothing if p_value is not None]
    text = (
        f"each parameter was tested with a number of guesses tied to it beforehand ({_listed([c for _, c in steps])}) "
        f"at {1 - option.part:.0%} of the level, from 0 up to the first that was not rejected, "
        f"and with {_listed(few)} guesses at equal shares of the rest"
    )
    best = replace(
        _walked_beside(own, alone),
        confidence=confidence,
        p_value=min(1.0, *known) if len(known) == len(of_nothing) else None,
        reachable=_reachable(own, alone),
    )
    return settled(best, text)


def _walked_beside(own: Sequence[tuple[float, LowerBound]], alone: Sequence[LowerBound]) -> LowerBound:
    """Walk steps where at each of them the best of ``alone`` takes the place of its own bound, if it is larger."""
    best = max(alone, key=lambda bound: bound.value)
    return schedule.walk([(start, bound if bound.value >= best.value else best) for start, bound in own])


def _reachable(own: Sequence[tuple[float, LowerBound]], alone: Sequence[LowerBound] = ()) -> float | None:
    """Return what the same walk shows if every guess is right; None where that is not known."""
    if any(bound.reachable is None for bound in (*(bound for _, bound in own), *alone)):
        return None
    perfect = [(start, replace(bound, value=bound.reachable or 0.0)) for start, bound in own]
    right = [replace(bound, value=bound.reachable or 0.0) for bound in alone]
    return (_walked_beside(perfect, right) if right else schedule.walk(perfect)).value


def settled(bound: LowerBound, correction: str) -> LowerBound:
    """Say how the number of guesses was settled, in place of the assumption that it was fixed."""
    assumptions = tuple(text for text in bound.assumptions if text != GUESSES_FIRST)
    return replace(bound, assumptions=assumptions, corrections=(*bound.corrections, correction))


# -- checks ---------------------------------------------------------------------------------------------------------


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts)


def _check_fractions(fractions: Sequence[float], name: str = "fractions") -> None:
    if not fractions or not all(is_number(fraction) and 0 < fraction <= 1 for fraction in fractions):
        raise InputError(name, "numbers in (0, 1], at least one", repr(fractions), "0.05 guesses at one in twenty")


def _check_counts(name: str, counts: Sequence[int]) -> None:
    for count in counts:
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise InputError(name, "a whole number from 1 up", repr(count), "how many records shall be guessed at?")

"""How many guesses an audit makes, and in what order: fixed, chosen on a pilot, or swept and paid for.

Guessing at fewer records makes the guesses surer and the bound larger, up to a point that depends on the attack.
Looking for that point on the audited labels is multiple testing (errata B6 and B19): here it is either paid for, or
carries the name :class:`Exploratory`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special.cython_special import ndtr

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.dp.bounds import LowerBound
from miaudit.errors import InputError, nearest

__all__ = ["PAPERS_SIX", "SWEEP", "TEN", "Bonferroni", "Exploratory", "Fixed", "Pilot", "Schedule"]

PAPERS_SIX = (0.1, 0.05, 0.02, 0.01, 0.005, 0.0025)
"""The zero-run paper's 1000, 500, 200, 100, 50 and 25 guesses among 10,000 records (erratum B6), as fractions."""
TEN = (0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.2, 0.4, 1.0)
"""The candidates of a pilot (statistics.md, section 9)."""
SWEEP = (*PAPERS_SIX, 0.2, 0.4, 1.0)
"""The paper's six and three more for attacks that are right nearly everywhere, which they cost up to 3% elsewhere."""
_CLEARLY = 1.2
_STRENGTHS = np.geomspace(0.05, 12.8, 53)  # of Gaussian attacks; the last errs once in 10^10 guesses
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

    Given the pilot, inclusion of the other records is still independent and fair, so nothing has to be paid. The
    default (statistics.md, section 9).

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
        if not (_is_number(self.share) and 0 < self.share < 1):
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
    strong canaries (statistics.md, section 9).

    Parameters
    ----------
    fractions : floats in (0, 1]
        Of the records; the numbers of guesses to tie parameters to.
    """

    fractions: tuple[float, ...] = (0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.6, 1.0)

    def __post_init__(self) -> None:
        _check_fractions(self.fractions)


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


Option = Fixed | Pilot | Bonferroni | Schedule | Exploratory


def named(text: str) -> Option | int:
    """Map the word at the door to its record: pilot, bonferroni, schedule, exploratory, or a number of guesses.

    Examples
    --------
    >>> named("pilot").share, named("500")
    (0.2, 500)
    """
    known: dict[str, Option] = {
        "pilot": Pilot(),
        "bonferroni": Bonferroni(),
        "schedule": Schedule(),
        "exploratory": Exploratory(),
    }
    if text in known:
        return known[text]
    if text.isdecimal() and len(text) > 12:  # Python itself converts no more than some thousands of digits
        received = f"a number of {len(text):,} digits"
        raise InputError("guesses", "no more guesses than records", received, "make fewer guesses")
    if not (text.isascii() and text.isdecimal()):
        hint = nearest(text, known) or "pilot is the default"
        raise InputError("guesses", f"{', '.join(known)}, or a whole number", repr(text), hint)
    _check_counts("guesses", (int(text),))
    return int(text)


def check(option: object) -> None:
    """Refuse what is no way to settle the number of guesses."""
    match option:
        case None | Fixed() | Pilot() | Bonferroni() | Schedule() | Exploratory():
            return
        case int() if not isinstance(option, bool):
            Fixed(option)
            return
    allowed = "Fixed, Pilot, Bonferroni, Schedule or Exploratory, a whole number, or None"
    raise InputError("guesses", allowed, repr(option), "None chooses on a pilot")


class CountBound(Protocol):
    """A lower bound from counts, such as ``one_run.mu_lower_bound``."""

    def __call__(self, *, correct: int, guesses: int, canaries: float, confidence: float) -> LowerBound:
        """Return the bound of so many correct guesses."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Ranking:
    """Records in falling order of the attack's confidence, and whether its guess at each is right.

    The order and the guesses may use scores and covariates, never labels.

    Attributes
    ----------
    name : how the guesses are made, in words
    order : ints (n,), record numbers, the surest guess first
    correct : bools (n,), of record i (not of the i-th in order)
    kept : bools (n,), records that thinning left (statistics.md, section 7); None for all
    """

    name: str
    order: IntArray
    correct: BoolArray
    kept: BoolArray | None = None

    @classmethod
    def of(cls, correct: ArrayLike) -> Ranking:
        """Return the ranking of correctness indicators (n,) that already are in falling order of confidence."""
        indicators = np.asarray(correct)
        if indicators.ndim != 1 or not len(indicators) or not np.isin(indicators, (0, 1)).all():
            raise InputError(
                "correct", "an array (n,) of bool", f"an array of shape {indicators.shape}", "one entry per guess"
            )
        return cls("as given", np.arange(len(indicators)), indicators.astype(bool))

    def right_among_first(self, rows: BoolArray) -> IntArray:
        """Correct guesses among the first 0, 1, 2, ... kept records of some rows, given as a mask (n,)."""
        wanted = rows if self.kept is None else rows & self.kept
        inside = self.order[wanted[self.order]]
        return np.concatenate([[0], np.cumsum(self.correct[inside])]).astype(np.int64)


def two_sided(score: FloatArray, member: BoolArray, *, rng: np.random.Generator, by_rank: bool = False) -> Ranking:
    """Guess "member" above the median score and "non-member" below it, the farthest first; ties in random order.

    Parameters
    ----------
    score : (n,), higher is more member-like
    member : (n,)
    by_rank : whether distance is counted in records, so that both ends take turns, instead of in score
    """
    position = _ranks(score, rng) if by_rank else score
    offset = position - _centre(position)
    guess = np.where(offset == 0, rng.random(len(score)) < 0.5, offset > 0)
    name = "both ends of the scores in turn" if by_rank else "both sides of the median score, the farthest first"
    return Ranking(name, _falling(np.abs(offset), rng), guess == member)


def one_sided(score: FloatArray, member: BoolArray, *, guess: bool, rng: np.random.Generator) -> Ranking:
    """Guess "member" from the highest score down (``guess=True``), or "non-member" from the lowest up."""
    name = "members only, the highest scores first" if guess else "non-members only, the lowest scores first"
    return Ranking(name, _falling(score if guess else -score, rng), member == guess)


def choose(
    option: Option | int | None,
    rankings: Sequence[Ranking],
    *,
    bound: CountBound,
    confidence: float,
    rng: np.random.Generator,
    size: FloatArray | None = None,
) -> LowerBound:
    """Return the lower bound of an attack's guesses, their number chosen as the option says.

    Parameters
    ----------
    option : Fixed, Pilot, Bonferroni, Schedule or Exploratory; an int means Fixed, None means Pilot()
    rankings : one or more of the same records
        A pilot chooses among them; every other option uses the first.
    bound : from counts to a LowerBound
    confidence : in (0, 1), one-sided
    size : (n,), optional
        What each record counts for: the s_i of thinning (statistics.md, section 7), 1 otherwise. Must not depend on
        labels.

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
    >>> found = choose(sweep, [Ranking.of(right)], bound=mu_lower_bound, confidence=0.95, rng=rng)
    >>> round(found.value, 2), found.guesses
    (0.74, 400)
    """
    if not rankings:
        raise InputError("rankings", "at least one ranking", "none", "pass Ranking.of(correct)")
    n = len(rankings[0].order)
    audit = _Audit(rankings[0], np.ones(n, bool), np.ones(n) if size is None else size, bound, confidence)
    match option:
        case None | Pilot():
            return _piloted(option or Pilot(), rankings, audit, rng)
        case Fixed(count):
            return audit.bound_at(count)
        case int() if not isinstance(option, bool):
            return audit.bound_at(Fixed(option).count)
        case Bonferroni():
            return _bonferroni(option, audit)
        case Schedule():
            return _scheduled(option, audit)
        case Exploratory():
            return _explored(option, audit)
    check(option)
    raise AssertionError(f"{option!r} passed the check")  # pragma: no cover


@dataclass(frozen=True, eq=False)
class _Audit:
    """Some rows of a ranking, to be audited with any number of guesses."""

    ranking: Ranking
    rows: BoolArray
    size: FloatArray
    bound: CountBound
    confidence: float

    @cached_property
    def right(self) -> IntArray:
        """Correct guesses among the first 0, 1, 2, ..."""
        return self.ranking.right_among_first(self.rows)

    @cached_property
    def canaries(self) -> int:
        """Their effective number; it depends on covariates only, as the number of guesses must."""
        return max(1, math.ceil(float(self.size[self.rows].sum()) - 1e-9))

    def guesses(self, fractions: Sequence[float], counts: Sequence[int] = ()) -> list[int]:
        """Return the numbers of guesses that are meant, without repetition, in rising order."""
        if counts:
            return sorted(set(counts))
        return sorted({max(1, round(fraction * self.canaries)) for fraction in fractions})

    def bound_at(self, guesses: int, *, confidence: float | None = None, perfect: bool = False) -> LowerBound:
        """Return the bound with the first so many guesses; where thinning left fewer, the missing count as wrong."""
        n = int(np.count_nonzero(self.rows))
        if guesses > n:
            raise InputError("guesses", f"at most the {n:,} records audited", f"{guesses:,}", "make fewer guesses")
        correct = guesses if perfect else int(self.right[min(guesses, len(self.right) - 1)])
        return self.counted(correct, guesses, self.confidence if confidence is None else confidence)

    def counted(self, correct: int, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of any counts at this size."""
        canaries = max(self.canaries, guesses)
        return self.bound(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)


# -- the options ------------------------------------------------------------------------------------------------------


def _piloted(option: Pilot, rankings: Sequence[Ranking], audit: _Audit, rng: np.random.Generator) -> LowerBound:
    n = len(audit.rows)
    revealed = round(option.share * n)
    if not 1 <= revealed < n:
        found = audit.bound_at(audit.guesses((1.0,))[0])
        return settled(found, "too few records for a pilot: a guess at every one of them")
    pilot = np.zeros(n, bool)
    pilot[rng.permutation(n)[:revealed]] = True
    best, chosen, count = -1.0, audit, 1
    for ranking in rankings:
        trial = replace(audit, ranking=ranking, rows=pilot)
        rest = replace(audit, ranking=ranking, rows=~pilot)
        promised = []
        for fraction in option.fractions:
            guesses = rest.guesses((fraction,))[0]
            foreseen = _foreseen(trial, fraction, guesses)
            promised.append((rest.counted(foreseen, guesses, audit.confidence).value, guesses))
        value, guesses = max(promised, key=lambda pair: pair[0])
        # A pilot is small, and the best of several looks better than it is: the first yields to a clear gain only.
        if value > max(best, 0.0) * _CLEARLY or best < 0:
            best, chosen, count = value, rest, guesses
    text = (
        f"{count:,} guesses ({chosen.ranking.name}) chosen on {revealed:,} records drawn at random, "
        f"whose labels were revealed for it; the other {n - revealed:,} were audited"
    )
    return settled(chosen.bound_at(count), text)


def _foreseen(pilot: _Audit, fraction: float, guesses: int) -> int:
    """Correct guesses to expect from a pilot, rounded down and a little pessimistic (statistics.md, section 9)."""
    made = min(pilot.guesses((fraction,))[0], len(pilot.right) - 1)
    if made < 1:
        return 0
    share = (int(pilot.right[made]) + 0.5) / (made + 1) - 0.125 / math.sqrt(made)
    return min(guesses, max(0, math.floor(guesses * share)))


def _bonferroni(option: Bonferroni, audit: _Audit) -> LowerBound:
    counts = audit.guesses(option.fractions, option.counts)
    each = 1 - (1 - audit.confidence) / len(counts)
    found = [audit.bound_at(count, confidence=each) for count in counts]
    best = max(found, key=lambda bound: bound.value)
    text = f"best of {len(counts)} numbers of guesses ({_listed(counts)}), the level divided by {len(counts)}"
    return settled(_joined(best, found, audit.confidence, times=len(counts)), text)


def _explored(option: Exploratory, audit: _Audit) -> LowerBound:
    counts = audit.guesses(option.fractions, option.counts)
    found = [audit.bound_at(count) for count in counts]
    best = max(found, key=lambda bound: bound.value)
    text = f"exploratory: best of {len(counts)} numbers of guesses ({_listed(counts)}), and nothing was paid for that"
    return replace(settled(_joined(best, found, audit.confidence, times=1), text), exploratory=True)


def _scheduled(option: Schedule, audit: _Audit) -> LowerBound:
    counts = tuple(audit.guesses(option.fractions))
    steps = _steps(counts, audit.canaries, audit.bound, audit.confidence)
    best = _walk([(start, audit.bound_at(count)) for start, count in steps])
    perfect = _walk([(start, audit.bound_at(count, perfect=True)) for start, count in steps])
    text = (
        f"each parameter was tested with a number of guesses tied to it beforehand ({_listed([c for _, c in steps])}), "
        "from 0 up to the first that was not rejected"
    )
    first = audit.bound_at(steps[0][1])
    return settled(replace(best, p_value=first.p_value, reachable=perfect.value), text)


@lru_cache(maxsize=64)
def _steps(
    counts: tuple[int, ...], canaries: int, bound: CountBound, confidence: float
) -> tuple[tuple[float, int], ...]:
    """Return (parameter, guesses): from each parameter up, the guesses that serve a perfect Gaussian attack best.

    Uses the number of records and the confidence, never a label or a score.
    """

    def value(correct: int, guesses: int) -> float:
        return bound(correct=correct, guesses=guesses, canaries=max(canaries, guesses), confidence=confidence).value

    steps: list[tuple[float, int]] = []
    for mu in _STRENGTHS:
        values = {}
        for count in counts:
            values[count] = value(round(count * gaussian_accuracy(float(mu), count / max(canaries, count))), count)
        best = max(counts, key=lambda count: values[count])
        if not steps and values[best] > 0:
            steps.append((0.0, best))
        elif steps and best != steps[-1][1] and values[best] > steps[-1][0]:
            # A step has to end where its guesses, all of them right, still reach: from there nothing could walk on.
            start = min(values[best], value(steps[-1][1], steps[-1][1]))
            if start > steps[-1][0]:
                steps.append((start, best))
            else:
                steps[-1] = (steps[-1][0], best)
    return tuple(steps) or ((0.0, counts[-1]),)


def _walk(found: Sequence[tuple[float, LowerBound]]) -> LowerBound:
    """Return the last parameter before the first that its own test does not reject."""
    for i, (start, bound) in enumerate(found):
        end = found[i + 1][0] if i + 1 < len(found) else math.inf
        if bound.value < end:
            return replace(bound, value=max(start, bound.value))
    raise AssertionError("the last step has no end")  # pragma: no cover


def gaussian_accuracy(mu: float, fraction: float) -> float:
    """Share of correct guesses of a perfect attack on mu-GDP among a fraction of the records, the surest.

    A statistic is N(mu/2, 1) for members and N(-mu/2, 1) for non-members; guesses are its sign, sure where it is large.

    Examples
    --------
    >>> round(gaussian_accuracy(0.66, 0.05), 3), round(gaussian_accuracy(1.0, 1.0), 3)
    (0.832, 0.691)
    """
    low, high = 0.0, 12.0 + mu
    for _ in range(60):
        threshold = (low + high) / 2
        if ndtr(mu / 2 - threshold) + ndtr(-mu / 2 - threshold) > fraction:
            low = threshold
        else:
            high = threshold
    right, wrong = ndtr(mu / 2 - low), ndtr(-mu / 2 - low)
    return float(right / (right + wrong))


def _joined(best: LowerBound, found: Sequence[LowerBound], confidence: float, *, times: int) -> LowerBound:
    smallest = min(bound.p_value for bound in found if bound.p_value is not None)
    reachable = max(bound.reachable for bound in found if bound.reachable is not None)
    return replace(best, confidence=confidence, p_value=min(1.0, times * smallest), reachable=reachable)


def settled(bound: LowerBound, correction: str) -> LowerBound:
    """Say how the number of guesses was settled, in place of the assumption that it was fixed."""
    assumptions = tuple(text for text in bound.assumptions if text != GUESSES_FIRST)
    return replace(bound, assumptions=assumptions, corrections=(*bound.corrections, correction))


# -- checks and order -------------------------------------------------------------------------------------------------


def _falling(confidence: FloatArray, rng: np.random.Generator) -> IntArray:
    return np.lexsort((rng.random(len(confidence)), -confidence))


def _centre(score: FloatArray) -> float:
    """Return the median; where many scores equal it, the middle of the gap beside them that splits most evenly.

    With two values only, and one more of one of them, the median is that one and would leave half the records without
    a guess.
    """
    centre = float(np.median(score))
    below, above = score[score < centre], score[score > centre]
    if len(below) > len(above):
        return (centre + float(below.max())) / 2
    if len(above) > len(below):
        return (centre + float(above.min())) / 2
    return centre


def _ranks(score: FloatArray, rng: np.random.Generator) -> FloatArray:
    ranks = np.empty(len(score))
    ranks[_falling(-score, rng)] = np.arange(len(score))
    return ranks


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_fractions(fractions: Sequence[float]) -> None:
    if not fractions or not all(_is_number(fraction) and 0 < fraction <= 1 for fraction in fractions):
        raise InputError(
            "fractions", "numbers in (0, 1], at least one", repr(fractions), "0.05 guesses at one in twenty"
        )


def _check_counts(name: str, counts: Sequence[int]) -> None:
    for count in counts:
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise InputError(name, "a whole number from 1 up", repr(count), "how many records shall be guessed at?")

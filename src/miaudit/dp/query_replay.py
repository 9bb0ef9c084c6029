"""Replay a generator of private tables exactly: what one record changes in each query, and how much noise each has.

A generator asks queries: noisy answers and private choices. Each query depends on earlier answers, so all answers are
pinned to those of one run. Then the generator runs again without noise, on the private table and on its neighbours.
miaudit compares the change of each answer with the claimed sensitivity, in the Euclidean norm where the noise is
normal, and in the L1 norm where it is Laplace. Of a choice it compares the scores. Everything else must be equal bit by
bit. What differs, such as a range, a category or a number of records, was read off the private table, and no budget
pays for it. Impulses show the noise of each answer (:mod:`miaudit.dp.replay`).

A difference is a counterexample to the proof of the claim, and it is exact up to rounding. A generator without a
difference is not proved: other records, neighbours and histories can behave differently.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray
from miaudit.dp import impulses
from miaudit.dp.mechanism import Selection
from miaudit.dp.query_draws import Call, History, QueryDraws, UnlikeHistoryError
from miaudit.errors import InputError, one_line
from miaudit.errors.checks import check_generator, positive, whole
from miaudit.errors.options import check_choice

__all__ = ["Claim", "QueryComparison", "QueryDraws", "ReplayedQuery", "check", "with_one", "with_one_replaced"]

Generator = Callable[[Any, QueryDraws], Any]
Unit = Literal["mu", "rho", "epsilon"]
_Law = Literal["normal", "Laplace", "choice", "none", "mixed"]
_UNITS = ("mu", "rho", "epsilon")
_NOISE = 1e-6  # relative, of deviations that double precision compares
_NORMS = {"normal": "Euclidean norm", "Laplace": "L1 norm", "none": "Euclidean norm", "mixed": "Euclidean norm"}
_FROM_PROOF = "take it from the proof of the claim"


@dataclass(frozen=True)
class Claim:
    """What the accountant assumes about all queries of a generator.

    Attributes
    ----------
    budget : what all queries may spend together, above 0
    unit : "mu" of Gaussian DP, "rho" of zero-concentrated DP, or "epsilon" of pure DP
    sensitivity : the most by which one record moves a noisy answer, above 0: in the Euclidean norm where the noise is
        normal, in the L1 norm where it is Laplace. One record that is added or removed moves a table of counts by 1. A
        record that is replaced moves it by sqrt(2), or by 2 in the L1 norm. None: only the sum is compared
    score_sensitivity : the most by which one record moves a score of a choice, above 0; None: as above

    Raises
    ------
    InputError
        For a number that is not finite or not above 0, or another unit.
    """

    budget: float
    unit: Unit = "mu"
    sensitivity: float | None = 1.0
    score_sensitivity: float | None = 1.0

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, _UNITS)
        for name in ("budget", "sensitivity", "score_sensitivity"):
            value = getattr(self, name)
            if value is not None or name == "budget":
                object.__setattr__(self, name, positive(name, value, _FROM_PROOF))


@dataclass(frozen=True)
class ReplayedQuery:
    """One query of one history.

    Attributes
    ----------
    history, number : counted from 1; the number is that among all queries of the history
    name : as the generator states it
    law : of the noise: "normal", "Laplace", "mixed" or "none"; "choice" for a private choice
    cells : of the answer, or the number of candidates
    change : the largest change by one record, 0 or more: a norm of the answer, or the largest change of a score
    neighbour : which neighbour it belongs to, counted from 0
    lowest, highest : smallest and largest deviation or Laplace scale of a cell with noise; of a choice its scale
    stated : the scale that the generator states; None if it states none
    silent : cells without noise
    numbers : random numbers that reach the answer; fewer than the noisy cells: some cells share their noise
    shared : whether a call of the random generator also reaches another answer
    """

    history: int
    number: int
    name: str
    law: _Law
    cells: int
    change: float
    neighbour: int
    lowest: float
    highest: float
    stated: float | None
    silent: int
    numbers: int
    shared: bool

    @property
    def label(self) -> str:
        """How a sentence names it."""
        kind = "Choice" if self.law == "choice" else "Answer"
        return f"{kind} {self.number}" + (f" ({self.name})" if self.name else "")


@dataclass(frozen=True)
class QueryComparison:
    """A replayed generator, compared with a claim.

    Attributes
    ----------
    claim : what the accountant assumes
    queries : of all histories
    spent : the most that the queries of a history spend on one neighbour, in the claim's unit; infinite where an answer
        moves without noise
    ledger : the most that the queries of a history spend with the claimed sensitivities and the noise that they have;
        None if the claim leaves a sensitivity open
    neighbours : how many were replayed in each history
    differences : what differs from the claim, in sentences; empty if nothing does
    """

    claim: Claim
    queries: tuple[ReplayedQuery, ...]
    spent: float
    ledger: float | None
    neighbours: int
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing differs from the claim; this proves nothing about other records and histories."""
        return not self.differences

    def __str__(self) -> str:
        if self.differences:
            return " ".join(self.differences)
        histories = self.queries[-1].history
        choices = sum(query.law == "choice" for query in self.queries)
        return (
            f"No counterexample in {len(self.queries) - choices:,} answers and {choices:,} choices of "
            f"{histories} {'history' if histories == 1 else 'histories'}, each with {self.neighbours:,} neighbours: on "
            f"one of them the queries spend {self.claim.unit} = {self.spent:.4f} of {self.claim.budget:.4f}, and "
            "nothing else depends on one record. This proves nothing about other records and histories."
        )


def check(
    generator: Generator,
    data: Any,
    neighbours: Sequence[Any],
    claim: Claim,
    *,
    rng: np.random.Generator,
    histories: int = 1,
) -> QueryComparison:
    """Compare the queries of a generator with a claim; exact up to rounding.

    Parameters
    ----------
    generator : ``generator(data, draws)`` returns what is released beside the answers, such as a model or a table
        It takes all its noise from ``draws`` (:class:`miaudit.dp.query_draws.QueryDraws`), passes each noisy answer
        through ``draws.answer`` before anything depends on it, and makes its private choices by ``draws.choose``. Its
        other randomness must be seeded, the same in each call. What it returns are arrays, numbers, words, or
        dictionaries and sequences of them.
    data : the private table, in the form that ``generator`` takes
    neighbours : tables that differ from it by one record, at least one: :func:`miaudit.dp.replay.without_one`,
        :func:`with_one` and :func:`with_one_replaced` make them. Add a record with a value that no other record has,
        and one at the end of each range
    claim : the budget, and the sensitivities that the noise is scaled by
    rng : of the noise in the run that all others follow
    histories : how many such runs, 1 or more; another one chooses and asks other queries

    Raises
    ------
    InputError
        For no neighbours, a generator that asks nothing, noise that reaches anything but answers, other randomness, and
        draws that are mixed, so that impulses do not show the deviation.

    Notes
    -----
    The sum is the composition of the queries on one neighbour, along one history: under "mu" the squares of the changes
    over the noise add up, under "rho" half of them, and a choice counts by the range r of the logarithms of its
    probabilities' ratios (:class:`miaudit.dp.mechanism.Selection`), under "rho" by r^2 / 8.

    Examples
    --------
    >>> def generator(table, draws):
    ...     noisy = np.bincount(table, minlength=3) + draws.normal(0.0, 2.0, size=3)
    ...     return {"shares": draws.answer("color", noisy, 2.0).clip(1.0)}
    >>> table = np.array([0, 0, 1, 2])
    >>> neighbours = with_one(table, [1])
    >>> compared = check(generator, table, neighbours, Claim(0.5), rng=np.random.default_rng(0))
    >>> compared.passed, compared.spent
    (True, 0.5)
    """
    if not isinstance(claim, Claim):
        raise InputError("claim", "a query_replay.Claim", repr(claim)[:60], "pass Claim(1.0, unit='mu')")
    if not callable(generator):
        raise InputError("generator", "a function of data and draws", repr(generator)[:60], "pass the function itself")
    count = whole("histories", histories, "three show other choices", low=1, high=10_000)
    others = list(neighbours)
    if not others:
        hint = "pass replay.without_one(data) and query_replay.with_one(data, records)"
        raise InputError("neighbours", "tables that differ by one record, at least one", "none", hint)
    replayed = [_Replayed(generator, data, own) for own in check_generator(rng).spawn(count)]
    results = [_compared(number, at, others, claim) for number, at in enumerate(replayed, start=1)]
    queries = tuple(query for each in results for query in each.queries)
    spent = max(each.spent for each in results)
    sums = [_ledger(claim, each.queries) for each in results]
    ledger = None if None in (claim.sensitivity, claim.score_sensitivity) else max(sums)
    differences = _differences(claim, queries, spent, ledger, [one for each in results for one in each.unpaid])
    return QueryComparison(claim, queries, spent, ledger, len(others), differences)


def with_one(data: ArrayLike, records: ArrayLike) -> list[NDArray[Any]]:
    """Return a neighbour of an array of records (n, ...) for each of some records (k, ...): it has that record too.

    Raises
    ------
    InputError
        For no records, or records of another shape.

    Examples
    --------
    >>> with_one([7, 8], [9])
    [array([7, 8, 9])]
    """
    own, more = _records(data, records)
    return [np.concatenate([own, one[None]]) for one in more]


def with_one_replaced(data: ArrayLike, records: ArrayLike) -> list[NDArray[Any]]:
    """Return the neighbours (n times k) in which one of n records is replaced by one of k.

    Raises
    ------
    InputError
        As :func:`with_one`.

    Examples
    --------
    >>> with_one_replaced([7, 8], [9])
    [array([9, 8]), array([7, 9])]
    """
    own, more = _records(data, records)
    neighbours = []
    for row in range(len(own)):
        for one in more:
            neighbour = own.copy()
            neighbour[row] = one
            neighbours.append(neighbour)
    return neighbours


def _records(data: ArrayLike, records: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    own, more = np.asarray(data), np.asarray(records)
    if own.ndim == 0 or more.ndim != own.ndim or more.shape[1:] != own.shape[1:] or not len(more):
        received = f"shape {more.shape} beside {own.shape}"
        raise InputError("records", "at least one record, as data holds them", received, "pass an array (k, ...)")
    return own, more


# -- one history -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Neighbour:
    """A neighbour: the change of each query that it shares with the history, and what else differs."""

    changes: list[FloatArray]
    unpaid: str


@dataclass(frozen=True, eq=False)
class _Noise:
    """The noise of one answer: of each cell, the laws, how many numbers reach it, and whether another one shares it."""

    deviations: FloatArray
    law: _Law
    numbers: int
    shared: bool


class _Replayed:
    """A generator that is pinned to one history: its exact answers on the data, on neighbours, and with an impulse."""

    def __init__(self, generator: Generator, data: Any, rng: np.random.Generator) -> None:
        self._generator, self._data = generator, data
        self._history = History()
        first = generator(data, QueryDraws(self._history, rng=rng))
        if not self._history.queries:
            hint = "pass each noisy answer through draws.answer, and each choice through draws.choose"
            raise InputError("generator", "a generator that asks queries", "one that asks none", hint)
        self.exact = QueryDraws(self._history)
        try:
            self.released = generator(data, self.exact)
            gap = _unequal(first, self.released) or self._fewer(self.exact)
        except UnlikeHistoryError as error:
            gap = str(error)
        if gap:
            hint = "seed all other randomness, and let nothing depend on noise before draws.answer has returned it"
            allowed = "a generator whose noise reaches its answers alone"
            raise InputError("generator", allowed, f"one that differs if its noise does: {gap}", hint)

    def on(self, other: Any) -> _Neighbour:
        """Return what differs on a neighbour."""
        draws = QueryDraws(self._history)
        try:
            released = self._generator(other, draws)
        except UnlikeHistoryError as error:
            unpaid = str(error)
        except Exception as error:  # any stop depends on the record
            unpaid = one_line(f"the generator stops with {type(error).__name__}: {error}")[:200]
        else:
            unpaid = self._fewer(draws) or _other_calls(self.exact, draws) or _unequal(self.released, released)
        changes = [own.values - at.values for own, at in zip(draws.queries, self.exact.queries, strict=False)]
        return _Neighbour(changes, unpaid)

    def noise(self) -> list[_Noise | None]:
        """Return the noise of each answer, by impulses; None of a choice."""
        sizes = [query.values.size for query in self.exact.queries if not query.choice]
        if not sizes:
            return [None] * len(self.exact.queries)
        ends, calls = np.cumsum(sizes)[:-1], []
        for number, call in enumerate(self.exact.calls):
            claimed, name = max(1e-300, *map(abs, call.scales)), f"call {number + 1} of the generator"
            respond = functools.partial(self._response, number)
            reached = impulses.deviation(respond, size=call.size, claimed=claimed, call=name)
            calls.append((call, np.split(reached, ends)))
        answers = iter([_noise(calls, place, size) for place, size in enumerate(sizes)])
        return [None if query.choice else next(answers) for query in self.exact.queries]

    def _response(self, call: int, *, signs: bool = False, place: int | None = None) -> FloatArray:
        draws = QueryDraws(self._history, impulse=call, signs=signs, place=place)
        self._generator(self._data, draws)
        return np.abs(_answers(draws) - _answers(self.exact))

    def _fewer(self, draws: QueryDraws) -> str:
        short = len(draws.queries) < len(self._history.queries)
        return f"the generator ends after {len(draws.queries):,} of its queries" if short else ""


def _noise(calls: Sequence[tuple[Call, list[FloatArray]]], place: int, size: int) -> _Noise:
    """Return the noise of the answer in this place from what each call adds to all answers."""
    own = [(call, parts) for call, parts in calls if parts[place].any()]
    laws = {call.law for call, _ in own}
    law: _Law = "mixed" if len(laws) > 1 else next(iter(laws), "none")
    deviations = np.sqrt(sum((parts[place] ** 2 for _, parts in own), start=np.zeros(size)))
    numbers = sum(min(call.size, int(np.count_nonzero(parts[place]))) for call, parts in own)
    return _Noise(deviations, law, numbers, any(sum(map(np.any, parts)) > 1 for _, parts in own))


def _answers(draws: QueryDraws) -> FloatArray:
    return np.concatenate([query.values for query in draws.queries if not query.choice])


@dataclass(frozen=True, eq=False)
class _Result:
    """One history: its queries, what they spend on the worst neighbour, and what else differs on which neighbour."""

    queries: tuple[ReplayedQuery, ...]
    spent: float
    unpaid: list[tuple[int, str]]


def _compared(history: int, at: _Replayed, others: Sequence[Any], claim: Claim) -> _Result:
    neighbours, noise = [at.on(other) for other in others], at.noise()
    spent = max(_total(claim.unit, _costs(claim.unit, each.changes, at, noise)) for each in neighbours)
    queries = tuple(_query(history, place, at, neighbours, noise) for place in range(len(noise)))
    return _Result(queries, spent, [(index, each.unpaid) for index, each in enumerate(neighbours) if each.unpaid])


def _other_calls(exact: QueryDraws, draws: QueryDraws) -> str:
    for number, (own, other) in enumerate(zip(exact.calls, draws.calls, strict=False), start=1):
        if own != other:
            return f"call {number} of the random generator has another size or scale"
    return "" if len(exact.calls) == len(draws.calls) else "the random generator is called another number of times"


def _unequal(one: Any, other: Any, path: str = "the release") -> str:
    """Return where two releases differ, bit by bit; nothing if they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f"{path} has other keys"
        parts = [(one[key], other[key], f"{path}[{key!r}]") for key in one]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return f"{path} has {len(other):,} parts instead of {len(one):,}"
        parts = [(*both, f"{path}[{at}]") for at, both in enumerate(zip(one, other, strict=True))]
    else:
        return _unequal_values(one, other, path)
    return next((text for part in parts if (text := _unequal(*part))), "")


def _unequal_values(one: Any, other: Any, path: str) -> str:
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return f"{path} has the shape {b.shape} instead of {a.shape}"
    same = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124 - NaN, of any type
    if np.all(same):
        return ""
    if a.ndim == 0:
        return f"{path} is {other!r} instead of {one!r}"[:120]
    return f"{path} differs in {int(a.size - np.count_nonzero(same)):,} of {a.size:,} places"


# -- what queries spend ------------------------------------------------------------------------------------------------


def _cost(unit: Unit, law: str, size: float) -> float:
    """Return what one query spends; ``size`` is a change over the noise, or the range of a choice."""
    if not size:
        return 0.0
    if math.isinf(size) or (unit == "epsilon" and law not in ("Laplace", "choice")):
        return math.inf
    if unit == "epsilon":
        return size
    if law in ("normal", "mixed", "none"):
        return size**2 / (2 if unit == "rho" else 1)
    if unit == "rho":
        return size**2 / (8 if law == "choice" else 2)
    return Selection(size if law == "choice" else 2 * size).mu ** 2


def _total(unit: Unit, costs: Sequence[float]) -> float:
    return math.sqrt(sum(costs)) if unit == "mu" else float(sum(costs))


def _costs(unit: Unit, changes: Sequence[FloatArray], at: _Replayed, noise: Sequence[_Noise | None]) -> list[float]:
    costs = []
    for change, query, own in zip(changes, at.exact.queries, noise, strict=False):
        if own is None:
            costs.append(_cost(unit, "choice", float(np.ptp(change)) / float(query.scale or 1.0)))
            continue
        moved = np.abs(change)
        with np.errstate(divide="ignore"):
            over = np.divide(moved, own.deviations, out=np.zeros_like(moved), where=moved > 0)
        costs.append(_cost(unit, own.law, float(over.sum() if own.law == "Laplace" else np.sqrt((over**2).sum()))))
    return costs


def _ledger(claim: Claim, queries: Sequence[ReplayedQuery]) -> float:
    """Return what queries spend with the claimed sensitivities and the noise that they have."""
    sizes = [
        (2 * (claim.score_sensitivity or 0.0) if query.law == "choice" else (claim.sensitivity or 0.0), query)
        for query in queries
    ]
    costs = [_cost(claim.unit, query.law, size / query.lowest if query.lowest else math.inf) for size, query in sizes]
    return _total(claim.unit, costs)


def _query(
    history: int, place: int, at: _Replayed, compared: Sequence[_Neighbour], noise: Sequence[_Noise | None]
) -> ReplayedQuery:
    query, own = at.exact.queries[place], noise[place]
    law = "choice" if own is None else own.law
    moved = [_size(each.changes[place], law) if place < len(each.changes) else 0.0 for each in compared]
    worst = int(np.argmax(moved))
    values = query.values.size, moved[worst], worst
    if own is None:
        scale = float(query.scale or 1.0)
        return ReplayedQuery(
            history, place + 1, query.name, "choice", *values, scale, scale, scale, 0, values[0], False
        )
    noisy = own.deviations[own.deviations > 0]
    low, high = (float(noisy.min()), float(noisy.max())) if noisy.size else (0.0, 0.0)
    silent = own.deviations.size - noisy.size
    return ReplayedQuery(
        history, place + 1, query.name, law, *values, low, high, query.scale, silent, own.numbers, own.shared
    )


def _size(change: FloatArray, law: str) -> float:
    moved = np.abs(change)
    if law == "choice":
        return float(moved.max())
    return float(moved.sum() if law == "Laplace" else np.linalg.norm(moved))


# -- sentences ---------------------------------------------------------------------------------------------------------


def _differences(
    claim: Claim,
    queries: Sequence[ReplayedQuery],
    spent: float,
    ledger: float | None,
    unpaid: Sequence[tuple[int, str]],
) -> tuple[str, ...]:
    moved = [(_over(claim, query), query) for query in queries if _over(claim, query) > 1 + _NOISE]
    sentences = [
        _of_queries([query for _, query in own], _moved(claim, own[0][1]))
        for is_choice in (False, True)
        if (own := _largest_first([each for each in moved if (each[1].law == "choice") == is_choice]))
    ]
    by_kind: dict[tuple[str, ...], list[tuple[str, ReplayedQuery]]] = {}
    for query in queries:
        if parts := _noisy(query):
            by_kind.setdefault(tuple(parts), []).append(("; ".join(parts.values()), query))
    sentences += [_of_queries([query for _, query in own], own[0][0]) for own in by_kind.values()]
    above, counted = claim.budget * (1 + _NOISE), ledger is not None and ledger > claim.budget * (1 + _NOISE)
    if spent > above or counted:
        where = "On one neighbour" if spent > above else "With the claimed sensitivities"
        amount = spent if spent > above else ledger
        sentences.append(f"{where} the queries spend {claim.unit} = {amount:.4f}, and the claim is {claim.budget:.4f}.")
    places: dict[str, list[tuple[int, str]]] = {}
    for index, text in unpaid:
        places.setdefault(re.sub(r"\d+", "", text), []).append((index, text))
    for same in places.values():
        index, text = same[0]
        sentences.append(f"No budget pays for this: with neighbour {index}{_more(len(same))}, {text}.")
    return tuple(sentences)


def _largest_first(moved: list[tuple[float, ReplayedQuery]]) -> list[tuple[float, ReplayedQuery]]:
    return sorted(moved, key=lambda each: -each[0])


def _of_queries(queries: Sequence[ReplayedQuery], text: str) -> str:
    return f"{queries[0].label}{_more(len(queries))}: {text}."


def _more(count: int) -> str:
    return f" and {count - 1:,} more" if count > 1 else ""


def _over(claim: Claim, query: ReplayedQuery) -> float:
    """Return the change of a query over what the claim allows; 0 if the claim leaves that open."""
    allowed = claim.score_sensitivity if query.law == "choice" else claim.sensitivity
    return 0.0 if allowed is None else query.change / allowed


def _moved(claim: Claim, query: ReplayedQuery) -> str:
    is_choice = query.law == "choice"
    allowed = claim.score_sensitivity if is_choice else claim.sensitivity
    what = "a score by" if is_choice else "it by"
    norm = "" if is_choice else f" ({_NORMS[query.law]})"
    where = f"neighbour {query.neighbour}"
    return f"one record moved {what} {query.change:.4f}{norm}, and the claim allows {allowed:.4f} ({where})"


def _noisy(query: ReplayedQuery) -> dict[str, str]:
    """Return what differs from the stated noise of an answer, by kind of difference."""
    if query.law == "choice":
        return {}
    noisy, parts = query.cells - query.silent, {}
    if not noisy:
        return {"none": "it has no noise"}
    if query.silent:
        parts["silent"] = f"no noise at {query.silent:,} of {query.cells:,} cells"
    if query.stated is not None and query.lowest < query.stated * (1 - _NOISE):
        parts["less"] = f"the noise is {query.lowest / query.stated:.4g} of the stated one"
    if query.stated is not None and query.highest > query.stated * (1 + _NOISE):
        ratio = f", {query.highest / query.stated:.4g} of it" if query.stated else ""
        parts["more"] = f"more noise than stated{ratio}"
    if query.numbers < noisy:
        parts["few"] = f"{noisy:,} noisy cells share {query.numbers:,} random numbers"
    if query.shared:
        parts["shared"] = "its noise also reaches another answer"
    if query.law == "mixed":
        parts["mixed"] = "its noise is a sum of normal and Laplace draws"
    return parts

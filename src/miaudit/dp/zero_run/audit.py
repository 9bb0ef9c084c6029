"""One zero-run audit, told in order: records, order of guesses, correction, number of guesses, bound.

The tests themselves are in ``thinning``, ``untampered``, ``conditional`` and ``composition`` beside it; this
module brings evidence and propensities to them. :mod:`miaudit.dp.zero_run` is the door.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import propensity as propensities
from miaudit.causal.progress import stage
from miaudit.causal.propensity import Propensity
from miaudit.dp import one_run, selection
from miaudit.dp.selection import CountTest, Sides
from miaudit.dp.verdict import LowerBound, Parameter
from miaudit.dp.zero_run import composition
from miaudit.dp.zero_run.composition import AnyShift, Composition, Shift
from miaudit.dp.zero_run.conditional import Conditional, ConditionalTest, expected_success
from miaudit.dp.zero_run.independent_guesses import (
    LEAST_ROWS_PER_COVARIATE,
    PoissonBinomial,
    Scheffe,
    SeedStable,
    SeedStableTest,
    StandardErrors,
    Thinning,
    UntamperedTest,
    coins_worth,
    half_width,
    independent,
    is_given,
    logit,
    rows_for_each,
    too_few_rows,
    tossed,
)
from miaudit.errors import DesignError, InputError
from miaudit.evidence import Evidence
from miaudit.metrics.trials import drawn_alike, equal_sizes, one_of_each

MARGIN = 0.1
_LEAST_REMAINDER = 1e-6  # of the score's standard deviation
_REPLICATES = 600
_LARGEST_REPLICATES = 5 * 10**7  # numbers in replicates that are computed here

Order = tuple[str, IntArray, IntArray]
"""How guesses are made, in words; record numbers (m,), the surest guess first; the guess at record i, +1 or -1."""

INDEPENDENT = "given the covariates, records became members independently, with the propensities used"
SCORES_ONLY = "the attack's order and guesses use scores and covariates, never labels"


# -- what is audited ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AuditedRecords:
    """What is audited: one record of each unit, perhaps fewer, and what was done to get there.

    ``rows`` says which records of the evidence they are; all arrays are in that order.
    """

    rows: IntArray
    score: FloatArray
    member: BoolArray
    logit: FloatArray
    notes: tuple[str, ...]

    @classmethod
    def of(cls, ev: Evidence, propensity: Propensity, rng: np.random.Generator) -> AuditedRecords:
        """Take zero-run evidence and its propensities; one record of each unit, drawn at random.

        A learned propensity is one of records. It holds for one record of each unit only if all records have the same
        chance to be drawn, so large units are then represented more often than small ones.
        """
        check_design(ev)
        score, values = ev.score, propensity.matched(ev).values
        if not ((values > 0) & (values < 1)).all():
            raise InputError(
                "propensity", "values strictly between 0 and 1", "others, or NaN", "use Propensity.given or fit"
            )
        rows = np.arange(ev.n)
        notes: tuple[str, ...] = ()
        if ev.unit_codes is not None:
            units = ev.n_units
            if is_given(propensity) or equal_sizes(ev.unit_codes):
                rows = one_of_each(ev.unit_codes, rng)
                sentence = f"one record drawn at random of each of {units:,} units"
            else:
                rows = drawn_alike(ev.unit_codes, rng)
                sentence = (
                    f"one record drawn at random of each of {len(rows):,} units; {units - len(rows):,} more units were "
                    "left out, small ones rather than large ones, since the propensity was learned from records and "
                    "holds where each record has the same chance to be drawn (learn it from one record of each unit "
                    "to keep all units)"
                )
            notes = (f"{sentence}; the other {ev.n - len(rows):,} left out",)
        if propensity.screened:
            enlarged = "".join(f", {name}" for name in propensity.added) or ", to which nothing was added"
            notes += (f"log-odds of a line in the covariates{enlarged} (splines and products screened at 5%)",)
        return cls(rows, score[rows], ev.member[rows], logit(values[rows]), notes)

    def right(self, guess: IntArray) -> BoolArray:
        """Return which guesses (n,) are right, +1 for a member and -1 for a non-member."""
        return np.asarray((guess > 0) == self.member)

    def take(self, chosen: IntArray, note: str) -> AuditedRecords:
        """Return some of the records and say why."""
        return AuditedRecords(
            self.rows[chosen], self.score[chosen], self.member[chosen], self.logit[chosen], (*self.notes, note)
        )


@dataclass(frozen=True, eq=False)
class Job:
    """What is asked of an audit, besides its correction."""

    ev: Evidence
    propensity: Propensity
    parameter: Parameter
    delta: float
    guesses: selection.Option | Sides | int | None
    centre: str | None
    confidence: float
    replicates: FloatArray | None
    rng: np.random.Generator

    @property
    def one_run(self) -> selection.CountBound:
        """The bound from counts of fair coins."""
        return one_run.count_bound(self.parameter, self.delta)

    @property
    def number(self) -> selection.Option | int | None:
        """How many guesses, whichever they are."""
        return self.guesses.members + self.guesses.nonmembers if isinstance(self.guesses, Sides) else self.guesses


@dataclass(frozen=True)
class OwnCorrection(ABC):
    """A correction of another package: a class derived from this one, at an entry point of ``miaudit.corrections``.

    Attributes
    ----------
    margin : how far the log-odds may be off, as the auditor stated it; None where nothing was stated
    """

    margin: float | None = None

    @abstractmethod
    def lower_bound(self, job: Job, records: AuditedRecords) -> LowerBound:
        """Bound the parameter of a job from below on records."""


Correction = Thinning | PoissonBinomial | Conditional | Composition | OwnCorrection


def audit(job: Job, records: AuditedRecords, correction: Correction) -> LowerBound:
    """Run one audit."""
    match correction:
        case Thinning():
            bound = _thinned(job, records, correction)
        case PoissonBinomial():
            bound = _untampered(job, records, correction)
        case Conditional():
            bound = _conditional(job, records, correction)
        case Composition():
            bound = _composed(job, records, correction)
        case _:
            return correction.lower_bound(job, records)
    return replace(bound, assumptions=(*bound.assumptions, INDEPENDENT, SCORES_ONLY))


# -- the corrections ------------------------------------------------------------------------------------------------


def _thinned(job: Job, records: AuditedRecords, option: Thinning) -> LowerBound:
    _refuse_few_rows_without_bounds(job, option)
    wide, how, cost = half_width_of(
        option.half_width, job.propensity, 1 - job.confidence, job.replicates, records, job.ev
    )
    low, high = records.logit - wide, records.logit + wide
    size, ways, sets = coins_worth(low, high), orders(job, records), option.seeds
    inner = job.confidence + cost

    def toss(places: IntArray, guess: IntArray) -> BoolArray:
        return tossed(records.member[places], guess[places], low[places], high[places], job.rng)

    if isinstance(sets, SeedStable):
        tests = [
            SeedStableTest(
                name,
                places,
                records.right(guess)[places],
                size[places],
                tuple(toss(places, guess) for _ in range(sets.sets)),
                sets,
                job.one_run,
            )
            for name, places, guess in ways
        ]
        choice = selection.choose(job.number, tests, confidence=inner, rng=job.rng)
    else:
        coins = [toss(places, guess)[np.argsort(places)] for _, places, guess in ways]
        choice = _counted(job, records, ways, job.one_run, inner, coins, size)
    worth = float(size[ways[0][1]].sum())
    thinned = f"{len(low):,} records thinned at random, worth {worth:,.1f} fair coins (Theorem Z); {how}"
    paid = (f"error probability {cost:.3g} charged for the band of the log-odds",) if cost else ()
    return replace(
        choice,
        confidence=job.confidence,
        p_value=None if choice.p_value is None else min(1.0, choice.p_value + cost),
        method=f"zero run, thinning to fair coins, then {choice.method}",
        assumptions=tuple(text for text in choice.assumptions if text != one_run.FAIR_COINS),
        corrections=(*records.notes, thinned, *paid, *choice.corrections),
    )


def _counted(
    job: Job,
    records: AuditedRecords,
    ways: Sequence[Order],
    bound: selection.CountBound,
    confidence: float,
    kept: Sequence[BoolArray | None],
    size: FloatArray | None = None,
) -> LowerBound:
    """Bound by how many guesses are right; it counts records by number, not by place."""
    tests = [
        CountTest(name, places, records.right(guess), bound, left, size)
        for (name, places, guess), left in zip(ways, kept, strict=True)
    ]
    return selection.choose(job.number, tests, confidence=confidence, rng=job.rng, gain=selection.CLEARLY)


def _untampered(job: Job, records: AuditedRecords, option: PoissonBinomial) -> LowerBound:
    records = _smallest(records, option.smallest, job.propensity)
    margin, replicates, notes = _pessimism(job, option.margin)
    tests = [
        UntamperedTest(
            name,
            places,
            records.right(guess)[places],
            job.one_run,
            *_beforehand(records, places, guess, replicates, option.signed, margin),
        )
        for name, places, guess in orders(job, records)
    ]
    # A schedule computes the exact law of every one of its steps; the few fixed numbers of guesses alone hold as well.
    number = selection.Bonferroni(selection.Hedged().few) if job.number is None else job.number
    with stage("sweep"):
        choice = selection.choose(number, tests, confidence=job.confidence, rng=job.rng)
    return replace(choice, corrections=(*records.notes, *notes, *choice.corrections))


def _conditional(job: Job, records: AuditedRecords, option: Conditional) -> LowerBound:
    records = _smallest(records, option.smallest, job.propensity)
    margin, replicates, notes = _pessimism(job, option.margin)
    uniforms = job.rng.random(len(records.rows))
    aware = partial(_toward, signed=option.signed, margin=margin) if option.aware else None
    tests = [
        ConditionalTest(
            job.parameter,
            name,
            places,
            records.right(guess)[places],
            uniforms,
            job.one_run,
            *_beforehand(records, places, guess, replicates, option.signed, margin),
        )
        for name, places, guess in orders(job, records, aware)
    ]
    choice = selection.choose(job.number, tests, confidence=job.confidence, rng=job.rng)
    how = "guesses tampered with by their log-odds" + (", and ranked by what survives" if option.aware else "")
    return replace(choice, corrections=(*records.notes, how, *notes, *choice.corrections))


def _composed(job: Job, records: AuditedRecords, option: Composition) -> LowerBound:
    shift, records = _shift(job, records, option)
    records = _equal_sizes(records, job.rng)
    ways = orders(job, records)
    bound = partial(_composition_bound, shift, job)
    best = _counted(job, records, ways, bound, job.confidence + shift.cost, [None] * len(ways))
    paid = (f"error probability {shift.cost:.3g} charged for the upper limit on delta_DS",) if shift.cost else ()
    return replace(
        best,
        confidence=job.confidence,
        p_value=None if best.p_value is None else min(1.0, best.p_value + shift.cost),
        corrections=(*records.notes, shift.how, *paid, *best.corrections),
    )


def _composition_bound(
    shift: AnyShift, job: Job, *, correct: int, guesses: int, canaries: float, confidence: float
) -> LowerBound:
    counts: dict[str, Any] = {"correct": correct, "guesses": guesses, "canaries": math.ceil(canaries)}
    if job.parameter == "mu":
        return composition.mu_lower_bound(shift, **counts, confidence=confidence)
    return composition.epsilon_lower_bound(shift, **counts, delta=job.delta, confidence=confidence)


# -- the order of the guesses ---------------------------------------------------------------------------------------


def orders(job: Job, records: AuditedRecords, aware: Callable[..., FloatArray] | None = None) -> tuple[Order, ...]:
    """Return the ways to guess, of which a pilot chooses one and every other option uses the first; from no label."""
    if isinstance(job.guesses, Sides):
        return (_by_sides(job.guesses, records.score, job.rng),)
    adaptive = job.guesses is None or isinstance(job.guesses, selection.Pilot | selection.Hedged)
    beyond = None
    if job.centre == "covariates" or (job.centre is None and adaptive):
        beyond = _beyond_covariates(records, job.ev, job.propensity)
    ways = []
    if beyond is not None:
        name = "both sides of what covariates say of the score"
        ways.append(_from_centre(name, beyond, records.logit, aware, job.rng))
    if job.centre != "covariates" or beyond is None:
        ways.append(_from_centre("both sides of the median score", records.score, records.logit, aware, job.rng))
    return tuple(ways)


def _from_centre(
    name: str, score: FloatArray, values: FloatArray, aware: Callable[..., FloatArray] | None, rng: np.random.Generator
) -> Order:
    offset = score - centre_of(score)
    guess = np.where(offset > 0, 1, -1)
    sureness = np.abs(offset)
    if aware is not None:
        sureness = expected_success(
            sureness / (float(score.std()) or 1.0), aware(values, sign=guess.astype(np.float64))
        )
    places = np.lexsort((rng.random(len(score)), -sureness))
    return f"{name}, the farthest first", places, guess


def _beyond_covariates(records: AuditedRecords, ev: Evidence, propensity: Propensity) -> FloatArray | None:
    """Return the part of the score that is not linear in covariates and log-odds; None where that would be all of it.

    What the covariates say of a score is what it would be of a record that the model never saw, so far as labels may
    not be used to find that out: members and non-members are pooled. Learned log-odds are left out for the same reason:
    held against the covariates, those of a fold tell what the labels of the other folds are, and so those of its own.
    """
    x = np.column_stack([np.ones(len(records.rows)), *_label_free(records, ev, propensity)])
    scale = x.std(axis=0)
    x = np.column_stack([x[:, 0], (x - x.mean(axis=0))[:, scale > 0] / scale[scale > 0]])
    if x.shape[1] == 1 or len(np.unique(records.score[:1000])) <= 2:
        return None
    gram = x.T @ x
    coefficients = np.linalg.solve(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)), x.T @ records.score)
    beyond = np.asarray(records.score - x @ coefficients)
    # A score that the covariates give exactly leaves a remainder of rounding, which is no guess at anything.
    return beyond if beyond.std() > _LEAST_REMAINDER * records.score.std() else None


def _label_free(records: AuditedRecords, ev: Evidence, propensity: Propensity) -> list[FloatArray]:
    """Columns (n,) to explain a score with, none of which was learned from labels of the audited records."""
    columns = [records.logit] if is_given(propensity) or propensity.folds is None else []
    learned = propensity.features if not columns else None
    covariates = ev.covariates if learned is None else learned
    if covariates is not None and 20 * covariates.shape[1] <= len(records.rows):
        columns += list(covariates[records.rows].T)
    return columns


def centre_of(score: FloatArray) -> float:
    """Return the median; where that is a common value itself, midway to the next value on the more even side."""
    values, number = np.unique(score, return_counts=True)
    below = np.cumsum(number) - number
    at = int(np.searchsorted(np.cumsum(number), len(score) / 2))
    if len(values) == 1 or number[at] == 1:
        return float(np.median(score))
    split_below = at > 0 and (at + 1 == len(values) or below[at] >= len(score) - below[at] - number[at])
    other = at - 1 if split_below else at + 1
    return float((values[at] + values[other]) / 2)


def _by_sides(sides: Sides, score: FloatArray, rng: np.random.Generator) -> Order:
    """Put the k+ highest and the k- lowest scores first; the others follow, and matter to thinning only."""
    total = sides.members + sides.nonmembers
    if total > len(score):
        raise InputError("guesses", f"at most the {len(score):,} records audited", f"{total:,}", "guess for fewer")
    falling = np.lexsort((rng.random(len(score)), -score))
    explicit = np.zeros(len(score), dtype=np.int64)
    explicit[falling[: sides.members]] = 1
    explicit[falling[len(score) - sides.nonmembers :]] = -1
    offset = score - centre_of(score)
    guess = np.where(explicit == 0, np.where(offset > 0, 1, -1), explicit)
    places = np.lexsort((rng.random(len(score)), -np.abs(offset), explicit == 0))
    name = f"the {sides.members:,} highest and the {sides.nonmembers:,} lowest scores"
    return name, places, guess


def _beforehand(
    records: AuditedRecords, places: IntArray, guess: IntArray, drawn: FloatArray | None, signed: bool, margin: float
) -> tuple[FloatArray, Callable[[IntArray], FloatArray] | None]:
    """Log-odds (m,) that guesses are right before the algorithm is asked, and a function of places under replicates.

    From places (r,) it gives the same log-odds (K, r) under each replicate of the propensities ``drawn`` (K, n).
    """
    at = partial(_toward, signed=signed, margin=margin)
    toward = at(records.logit, sign=guess.astype(np.float64))[places]
    if drawn is None:
        return toward, None

    def replicated(chosen: IntArray) -> FloatArray:
        numbers = places[chosen]
        return at(logit(drawn[:, records.rows[numbers]]), sign=guess[numbers].astype(np.float64))

    return toward, replicated


def _toward(values: FloatArray, *, sign: FloatArray, signed: bool, margin: float) -> FloatArray:
    """Log-odds that guesses are right before the algorithm is asked, from log-odds of membership (..., n)."""
    return np.asarray((sign * values if signed else np.abs(values)) + margin)


# -- propensities ---------------------------------------------------------------------------------------------------


def half_width_of(
    chosen: Any,
    propensity: Propensity,
    level: float,
    replicates: FloatArray | None,
    records: AuditedRecords | None,
    ev: Evidence,
) -> tuple[FloatArray, str, float]:
    """Return the half-widths of the audited records, or of all, what they are in words, and what they cost."""
    values, how, cost = half_width(chosen, propensity, level, replicates, independent(ev))
    return (values if records is None else values[records.rows]), how, cost


def _pessimism(job: Job, margin: float | None) -> tuple[float, FloatArray | None, tuple[str, ...]]:
    """Margin and bootstrap replicates for tests that take log-odds as points, and what was done, in words."""
    replicates = job.replicates
    if margin is None:
        _refuse_few_rows(job.propensity, job.ev)
        margin = 0.0 if is_given(job.propensity) else MARGIN
        if replicates is None and not is_given(job.propensity):
            replicates = _bootstrap(job.ev, job.propensity, job.rng)
    notes: tuple[str, ...] = (f"log-odds that are worse for the audit by {margin:g} (margin)",) if margin else ()
    if replicates is not None:
        notes += (
            f"plain quantile over {len(replicates):,} bootstrap replicates of the propensity, half of the error "
            "probability spent on it (erratum B7)",
        )
    return margin, replicates, notes


@stage("replicates")
def _bootstrap(ev: Evidence, propensity: Propensity, rng: np.random.Generator) -> FloatArray:
    """Bootstrap the default model, cross-fitted, from its encoded covariates."""
    if not propensity.logistic or propensity.features is None or propensity.folds is None:
        raise InputError(
            "replicates",
            f"an array (K, {ev.n}) for a propensity learned from other records, or by another classifier",
            "none",
            "pass causal.propensity.bootstrap(ev, train, ...), or state a margin on the log-odds",
        )
    encoded = Evidence(score=ev.score, member=ev.member, covariates=propensity.features, unit=ev.unit)
    number = int(np.clip(_LARGEST_REPLICATES // ev.n, 50, _REPLICATES))
    options: dict[str, Any] = {"folds": propensity.folds, "clip": propensity.clip or propensities.CLIP}
    return propensities.bootstrap(encoded, replicates=number, **options, screened=propensity.screened, rng=rng)


def _refuse_few_rows_without_bounds(job: Job, option: Thinning | Composition) -> None:
    if option.half_width is None or isinstance(option.half_width, StandardErrors | Scheffe):
        _refuse_few_rows(job.propensity, job.ev)


def _refuse_few_rows(propensity: Propensity, ev: Evidence) -> None:
    for reason in too_few_rows(propensity, ev):
        raise InputError(
            "propensity",
            f"{LEAST_ROWS_PER_COVARIATE} rows or more for each covariate",
            f"{rows_for_each(propensity, ev):.3g}",
            f"not testable: {reason}",
        )


def _smallest(records: AuditedRecords, count: int | None, propensity: Propensity) -> AuditedRecords:
    """Keep the records of smallest |lambda|; with learned log-odds that would pick the underestimated ones."""
    if count is None:
        return records
    if not is_given(propensity):
        raise InputError(
            "smallest",
            "given propensities",
            "learned ones",
            "records chosen by their own learned log-odds are a winner's curse (experiments/methods.md, section 3)",
        )
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(records.rows):
        raise InputError(
            "smallest", f"a whole number from 1 to {len(records.rows):,}", repr(count), "keep some records"
        )
    chosen = np.sort(np.argsort(np.abs(records.logit), kind="stable")[:count])
    return records.take(chosen, f"only the {count:,} records of smallest |log-odds| were audited")


def _shift(job: Job, records: AuditedRecords, option: Composition) -> tuple[AnyShift, AuditedRecords]:
    """Return the shift that was stated, or estimate it on a propensity sample, and the records left to audit."""
    stated = option.stated()
    if stated is not None:
        return stated, records
    sample, wide, cost, records = _propensity_sample(job, records, option)
    spent = option.spend * (1 - job.confidence - cost)
    confidence = job.confidence + cost + spent
    curve = composition.shift_curve(*sample, confidence=1 - spent, half_width=wide)
    cost = confidence - job.confidence
    if option.whole:
        return replace(curve.function, cost=cost), records
    size = 2 * min(int(records.member.sum()), int((~records.member).sum()))
    number = max(1, min(size, job.number if isinstance(job.number, int) else round(0.05 * size)))

    def planned(shift: Shift) -> float:
        counts = {"correct": number, "guesses": number, "canaries": max(1, size)}
        return _composition_bound(shift, job, **counts, confidence=confidence).value

    return replace(composition.choose_shift(curve, planned), cost=cost), records


def _propensity_sample(
    job: Job, records: AuditedRecords, option: Composition
) -> tuple[tuple[FloatArray, BoolArray], FloatArray, float, AuditedRecords]:
    """Return log-odds and membership to choose eta on, how far off they may be at what cost, and records to audit."""
    if option.sample is None:
        _refuse_few_rows_without_bounds(job, option)
        wide, how, cost = half_width_of(
            option.half_width, job.propensity, 1 - job.confidence, job.replicates, records, job.ev
        )
        aside = np.zeros(len(records.rows), dtype=np.bool_)
        aside[job.rng.permutation(len(aside))[: max(1, round(option.share * len(aside)))]] = True
        sample = (records.logit - _prior(job, records))[aside], records.member[aside]
        note = f"{np.count_nonzero(aside):,} records set aside at random to choose eta_DS on; {how}"
        return sample, wide[aside], cost, records.take(np.flatnonzero(~aside), note)
    sample = (np.asarray(option.sample[0], dtype=np.float64), np.asarray(option.sample[1], dtype=bool))
    shapes = sample[0].shape, sample[1].shape
    if sample[0].ndim != 1 or shapes[0] != shapes[1] or not np.isfinite(sample[0]).all():
        raise InputError("sample", "log-odds (k,) and membership (k,)", f"shapes {shapes[0]}, {shapes[1]}", "pass both")
    as_given = Propensity.given(np.full(len(sample[0]), 0.5))  # whose log-odds are known, as far as nothing is stated
    wide, _, cost = half_width(option.half_width, as_given, 1 - job.confidence)
    return sample, wide, cost, records


def _prior(job: Job, records: AuditedRecords) -> float:
    """Log-odds of membership in the sample that the propensities speak of: all records, or one of each unit."""
    if not is_given(job.propensity):
        return math.log(job.ev.n_members / job.ev.n_nonmembers)
    inside = int(np.count_nonzero(records.member))
    if not 0 < inside < len(records.member):
        raise InputError("evidence", "members and non-members to audit", "one of them only", "collect both")
    return math.log(inside / (len(records.member) - inside))


def _equal_sizes(records: AuditedRecords, rng: np.random.Generator) -> AuditedRecords:
    inside, outside = np.flatnonzero(records.member), np.flatnonzero(~records.member)
    fewer = min(len(inside), len(outside))
    if fewer == 0:
        raise InputError("evidence", "members and non-members to audit", "one of them only", "collect both")
    if len(inside) == len(outside):
        return records
    chosen = np.sort(np.concatenate([rng.permutation(inside)[:fewer], rng.permutation(outside)[:fewer]]))
    left = len(records.rows) - len(chosen)
    return records.take(
        chosen, f"{left:,} records left out at random, so that members and non-members are equally many"
    )


# -- checks ---------------------------------------------------------------------------------------------------------


def check_design(ev: Evidence) -> None:
    """Refuse evidence of another design, with the name of the module that takes it."""
    if ev.design == "zero-run":
        return
    right = {"one-run": "dp.one_run", "multi-run": "dp.multi_run"}
    if ev.design is None:
        raise DesignError(
            "zero-run bounds need evidence with design 'zero-run', received none; declare how membership came about"
        )
    raise DesignError(
        f"zero-run bounds need evidence with design 'zero-run', received '{ev.design}'; use {right[ev.design]}, "
        "where randomised membership makes bounds stronger"
    )


def check_centre(centre: Any) -> str | None:
    """Return a centre, if it is one."""
    if centre not in (None, "median", "covariates"):
        raise InputError("centre", '"median", "covariates" or None', repr(centre), "None is the default")
    return None if centre is None else str(centre)

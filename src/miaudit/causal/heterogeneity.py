"""Which kinds of records leak: the effect of membership by group, and as a line in the covariates.

The effect on a record is measured by its percentile: the share of non-members like it whose score is lower, ties half.
Kinds of records are learned on one half of the records and measured on the other (Chernozhukov et al. 2018, GATES with
one honest split). A group's number is the AUC of its members against its own non-members, so a group with generally
higher scores does not look memorised. The line needs no split: what is expected of a record is learned on the others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal import effects
from miaudit.causal.effect_slopes import MOST_FEATURES, Features, Slope, slopes
from miaudit.causal.outcome import Law, LocationScale
from miaudit.causal.propensity import Propensity
from miaudit.causal.record_kinds import FEWEST_OF_A_CLASS, Covariates, Kind, Labelled, divide
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, Sample

__all__ = ["Heterogeneity", "Measured", "Slope", "measure"]

FEWEST = 4 * FEWEST_OF_A_CLASS  # members, and non-members: two kinds on each half
_FEWEST_MEASURED = 30  # members, and non-members as heavy as the heaviest, of a kind on the measuring half
_POWER = 0.8


@dataclass(frozen=True)
class Measured:
    """A kind of records, as the measuring half shows it.

    Attributes
    ----------
    kind : its conditions
    text : the conditions in words
    members, nonmembers : of the measuring half
    auc : of its members against its own non-members, weighted to be like its members in a zero-run design; its limits
        hold for all kinds together. None where there are too few records of a class
    """

    kind: Kind
    text: str
    members: int
    nonmembers: int
    auc: Estimate | None


@dataclass(frozen=True)
class Heterogeneity:
    """How the effect of membership differs between records.

    Attributes
    ----------
    kinds : from the largest predicted effect to the smallest, as the learning half predicts them
    difference : AUC of the first measured kind less that of the last, by one hypothesis that the learning half chose;
        None where fewer than two kinds could be measured
    visible : difference that would have been established in 4 of 5 audits of this size; NaN without a difference
    slopes : of the best linear predictor of the effect on a record's percentile, from -1 to 1
    learned, measured : records of each half
    notes : what was left out, in sentences
    """

    kinds: tuple[Measured, ...]
    difference: Estimate | None
    visible: float
    slopes: tuple[Slope, ...]
    learned: int
    measured: int
    notes: tuple[str, ...] = ()

    @property
    def extremes(self) -> tuple[Measured, Measured] | None:
        """The kinds whose difference was tested, the one with the larger AUC first; None without two of them."""
        measured = [one for one in self.kinds if one.auc is not None]
        if len(measured) < 2:
            return None
        first, last = measured[0], measured[-1]
        return (first, last) if _value(first) >= _value(last) else (last, first)

    @property
    def established(self) -> bool:
        """Whether the difference between the two kinds excludes 0."""
        return self.difference is not None and (self.difference.low > 0 or self.difference.high < 0)


def measure(
    evidence: Evidence,
    propensity: Any = None,
    *,
    method: str = "aipw",
    outcome: Any = None,
    categories: Sequence[str] = (),
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Heterogeneity:
    """Say which kinds of records leak more than others, and how the effect goes with the covariates.

    Parameters
    ----------
    evidence : with one score, and covariates (n, d)
    propensity : Propensity or array (n,), for evidence whose memberships nobody drew; None where chance decided about
        all records alike
    method, outcome : of the AUC in a group of a zero-run design, as of :func:`miaudit.causal.effects.auc`
    categories : names of covariates that are codes, beside those whose levels have names
    confidence : in (0, 1), of the limits of all groups together; and of the difference with all slopes together, so
        that in a world without differences one of these is found with probability 1 - ``confidence`` at most
    rng : divides the records, and draws folds

    Raises
    ------
    InputError
        Without covariates, or with fewer than 200 members or non-members; for a zero-run design without a propensity.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, member = rng.uniform(20, 90, 4000), rng.random(4000) < 0.5
    >>> score = rng.normal(size=4000) + 1.5 * member * (age > 65)
    >>> evidence = Evidence(score=score, member=member, covariates=age, covariate_names=["age"], design="one-run")
    >>> result = measure(evidence, rng=rng)
    >>> first, last = result.extremes
    >>> result.established, first.kind.conditions[0].relation
    (True, 'above')
    """
    covariates = _checked(evidence, propensity, categories)
    known = None if propensity is None else Propensity.of(propensity).matched(evidence)
    groups = _Groups(evidence, covariates, known, (method, outcome), confidence)
    each = (1 + confidence) / 2  # of the difference, and of the slopes
    split, draws = rng.spawn(2)
    kinds, halves = groups.learned(split)
    measured = tuple(halves.kind(kind, len(kinds)) for kind in kinds)
    difference = halves.difference(measured, each)
    line, notes = _slopes(evidence, groups.features, groups.odds, each, draws)
    if len(kinds) == 1:
        notes = ("No condition on a covariate leaves enough records on both of its sides.", *notes)
    count = int(np.count_nonzero(halves.rows))
    return Heterogeneity(measured, difference, _visible(difference, each), line, evidence.n - count, count, notes)


def _visible(difference: Estimate | None, confidence: float) -> float:
    """Return the difference that 4 of 5 audits establish, where this one's standard error holds."""
    if difference is None or difference.standard_error is None:
        return math.nan
    return float(special.ndtri((1 + confidence) / 2) + special.ndtri(_POWER)) * difference.standard_error


@dataclass(frozen=True, eq=False)
class _Groups:
    """Records, and how groups of them are learned."""

    evidence: Evidence
    covariates: Covariates
    propensity: Propensity | None
    estimator: tuple[str, Any]
    confidence: float

    @cached_property
    def features(self) -> Features:
        """Of all records."""
        return Features.of(self.covariates, self.evidence.member, self.evidence.level_name)

    @property
    def odds(self) -> FloatArray:
        """Weights (n,) of non-members; 1 where chance decided about all alike."""
        return np.ones(self.evidence.n) if self.propensity is None else self.propensity.odds

    def learned(self, rng: np.random.Generator) -> tuple[tuple[Kind, ...], _Half]:
        """Divide the records, learn kinds on one half, and return the other with its scores among records alike."""
        split, folds, later = rng.spawn(3)
        evidence, learning = self.evidence, _half(self.evidence, split)
        law = _law(evidence, self.features, evidence.member | ~learning, folds)
        share = np.full(evidence.n, evidence.n_members / evidence.n)
        share = share if self.propensity is None else self.odds / (1 + self.odds)
        outcome = _lower(law, evidence.score)[learning] - 0.5
        kinds = divide(self.covariates.take(learning), Labelled(outcome, evidence.member[learning], share[learning]))
        among_alike = evidence.replace(score=(evidence.score - law.centre) / law.scale)
        half = _Half(among_alike, self.covariates, ~learning, self.propensity, self.estimator, self.confidence, later)
        return kinds, half


@dataclass(frozen=True, eq=False)
class _Half:
    """The measuring half, and how its groups are measured."""

    evidence: Evidence
    covariates: Covariates
    rows: BoolArray
    propensity: Propensity | None
    estimator: tuple[str, Any]
    confidence: float
    rng: np.random.Generator

    def kind(self, kind: Kind, count: int) -> Measured:
        """Measure one of ``count`` kinds, with limits that hold for all of them (Sidak 1967: however they depend)."""
        rows = kind.rows(self.covariates) & self.rows
        members = int(np.count_nonzero(rows & self.evidence.member))
        others = int(np.count_nonzero(rows)) - members
        text = kind.in_words(self.evidence.level_name)
        enough = min(members, others) >= _FEWEST_MEASURED and self._effective(rows) >= _FEWEST_MEASURED
        auc = self._auc(rows, self.confidence ** (1 / count)) if enough else None
        return Measured(kind, text, members, others, auc)

    def difference(self, kinds: tuple[Measured, ...], confidence: float) -> Estimate | None:
        """AUC of the first measured kind less that of the last, with limits from theirs (Zou and Donner 2008)."""
        measured = [one for one in kinds if one.auc is not None]
        if len(measured) < 2:
            return None
        rows = [measured[i].kind.rows(self.covariates) & self.rows for i in (0, -1)]
        first, last = (self._auc(one, confidence) for one in rows)
        together = self._correlation(*rows)
        value = float(first.value or 0.0) - float(last.value or 0.0)
        low = _apart(first.value - first.low, last.high - last.value, together)  # type: ignore[operator]
        high = _apart(first.high - first.value, last.value - last.low, together)  # type: ignore[operator]
        error = _apart(first.standard_error or 0.0, last.standard_error or 0.0, together)
        return Estimate(value, value - low, value + high, confidence, standard_error=error or None)

    def _auc(self, rows: BoolArray, confidence: float) -> Estimate:
        part = self.evidence.take(rows)
        if self.propensity is None:
            return Sample.of(part).auc(confidence)
        method, outcome = self.estimator
        again = copy.deepcopy(self.rng)  # the same folds at every confidence
        known = self.propensity.of_rows(rows)
        return effects.auc(part, known, method=method, outcome=outcome, confidence=confidence, rng=again)

    def _effective(self, rows: BoolArray) -> float:
        """Non-members as heavy as the heaviest that say as much as the weighted ones of a group."""
        if self.propensity is None:
            return math.inf
        weight = self.propensity.odds[rows & ~self.evidence.member]
        return float(weight.sum() ** 2 / (weight @ weight))

    def _correlation(self, first: BoolArray, last: BoolArray) -> float:
        """Correlation of the errors of two groups, whose records may share units; by unweighted influence."""
        if self.evidence.unit_codes is None:
            return 0.0
        code = self.evidence.unit_codes
        totals = []
        for rows in (first, last):
            influence = Sample.of(self.evidence.take(rows)).influence_on_auc()
            totals.append(np.bincount(code[rows], weights=influence, minlength=int(code.max()) + 1))
        size = math.sqrt(float(totals[0] @ totals[0]) * float(totals[1] @ totals[1]))
        return float(totals[0] @ totals[1]) / size if size > 0 else -1.0


def _checked(evidence: Evidence, propensity: Any, categories: Sequence[str]) -> Covariates:
    """Return the covariates with their names, or refuse."""
    x = evidence.covariates
    if x is None:
        hint = "pass covariates= to Evidence: kinds of records are described by them"
        raise InputError("evidence.covariates", "what is known of each record, (n, d)", "none", hint)
    if propensity is None and evidence.design == "zero-run":
        hint = "pass causal.propensity.fit(evidence, rng=rng)"
        raise InputError("propensity", "one, for the design zero-run", "none", hint)
    for what, count in (("members", evidence.n_members), ("non-members", evidence.n_nonmembers)):
        if count < FEWEST:
            hint = "add records: one half learns the groups and the other measures them"
            raise InputError("evidence", f"at least {FEWEST} {what}", f"{count}", hint)
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    coded = {i for i, name in enumerate(names) if name in categories or name in evidence.levels}
    return Covariates(x, tuple(names), frozenset(coded))


def _half(evidence: Evidence, rng: np.random.Generator) -> BoolArray:
    """Choose half of the units (n,) at random, as many of each class where units are records."""
    if evidence.unit_codes is not None:
        code = evidence.unit_codes
        return np.asarray((rng.permutation(int(code.max()) + 1) % 2 == 0)[code])
    chosen = np.zeros(evidence.n, dtype=np.bool_)
    for rows in (np.flatnonzero(evidence.member), np.flatnonzero(~evidence.member)):
        chosen[rng.permutation(rows)[: len(rows) // 2]] = True
    return chosen


def _law(evidence: Evidence, features: Features, unused: BoolArray, rng: np.random.Generator) -> Law:
    """Learn the law of a non-member's score given its covariates without the ``unused`` records, for all records."""
    x = features.values if features.values.shape[1] else np.zeros((evidence.n, 1))
    return LocationScale().fit(x, evidence.score, unused, unit_codes=evidence.unit_codes, rng=rng)


def _lower(law: Law, score: FloatArray) -> FloatArray:
    """Probability (n,) that a non-member like each record has a lower score, ties half."""
    standard = (score - law.centre) / law.scale
    lower = np.empty(law.n)
    for k, (nodes, mass) in enumerate(zip(law.residual, law.mass, strict=True)):
        rows = law.fold == k
        order = np.argsort(nodes)
        cumulated = np.concatenate([[0.0], np.cumsum(mass[order])])
        below, until = (np.searchsorted(nodes[order], standard[rows], side=side) for side in ("left", "right"))
        lower[rows] = (cumulated[below] + cumulated[until]) / 2
    return lower


def _slopes(
    evidence: Evidence, features: Features, odds: FloatArray, confidence: float, rng: np.random.Generator
) -> tuple[tuple[Slope, ...], tuple[str, ...]]:
    """The best linear predictor over all records; none of too many features."""
    count = features.values.shape[1]
    if count > MOST_FEATURES:
        return (), (f"No line of the effect in {count} covariates and levels: there are more than {MOST_FEATURES}.",)
    percentile = _lower(_law(evidence, features, evidence.member, rng), evidence.score) - 0.5
    code = evidence.unit_codes
    return slopes(features, percentile, evidence.member, odds, code, confidence=confidence, rng=rng), ()


def _apart(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first**2 + second**2 - 2 * correlation * first * second))


def _value(one: Measured) -> float:
    return math.nan if one.auc is None or one.auc.value is None else one.auc.value

"""Columns of the file that no audit uses: which of them separate members from non-members beyond the covariates.

What such a column records is not corrected for. Each column is tested by itself, after the non-members were weighted by
their learned odds of membership: a column that the covariates explain, or that has nothing to do with membership, is
then distributed alike in both classes. The test changes no number of the audit.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, Count, FloatArray, IntArray, Share, Text
from miaudit.causal.gaps import SharesApart, missing
from miaudit.evidence import Evidence

__all__ = ["UnusedColumn", "UnusedColumns", "UnusedValues"]

_FAMILYWISE = 0.01  # chance of a warning where no column separates beyond the covariates
_LEAST = 0.028  # of an AUC above one half: a difference of 0.1 standard deviations, as in the overlap rule
_FOLDS = 5
_TWO = 2
_SHRUNK = 5.0  # records by which the share of a level is drawn to one half
_MOST_NAMED = 5
_LONGEST = 60
_Kind = Literal["number", "category"]


@dataclass(frozen=True)
class UnusedColumn:
    """A column that is no covariate, and how well it separates members from non-members by itself.

    Attributes
    ----------
    name : of the column
    kind : "number", compared by rank in either direction, or "category", by the share of members at each level
    auc : of the column alone, 0.5 or more
    weighted_auc : the same after weighting by the learned odds, 0 to 1; None where no propensity was learned
    separates : whether it separates the classes beyond the covariates, after Bonferroni's correction for all columns
    members_missing, nonmembers_missing : shares of missing values
    gaps_differ : whether these shares differ beyond chance and by more than a trifle
    """

    name: Text
    kind: _Kind
    auc: Share
    weighted_auc: Share | None
    separates: bool
    members_missing: Share
    nonmembers_missing: Share
    gaps_differ: bool


@dataclass(frozen=True)
class UnusedColumns:
    """The columns of the file that the audit did not use.

    Attributes
    ----------
    columns : those that were looked at; the one that separates most comes first
    outputs : names of columns that by their names are membership, or what a model or an attack says of a record
    left : how many columns were not looked at
    """

    columns: tuple[UnusedColumn, ...]
    outputs: tuple[str, ...] = ()
    left: Count = 0

    @property
    def separating(self) -> tuple[UnusedColumn, ...]:
        """The columns that separate members from non-members beyond the covariates."""
        return tuple(one for one in self.columns if one.separates)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader has to know before any number."""
        return self.warnings_of()

    def warnings_of(self, *, given: bool = False) -> tuple[str, ...]:
        """Return the same for propensities that were given, where a further covariate would change no weight."""
        return tuple(text for text in (self._apart(given=given), self._gaps()) if text)

    def _apart(self, *, given: bool) -> str:
        apart = self.separating
        if not apart:
            return ""
        shown = apart[:_MOST_NAMED]
        options = f"--covariates {shlex.quote(','.join(one.name for one in shown))}"
        codes = [one.name for one in shown if one.kind == "category"]
        options += f" --categories {shlex.quote(','.join(codes))}" if codes else ""
        verb = "1 unused column separates" if len(apart) == 1 else f"{len(apart)} unused columns separate"
        beyond, step = "the covariates", f"add it to the covariates ({options})"
        if given:
            beyond, step = "the propensities that were given", "give propensities that allow for it"
        return (
            f"{verb} members from non-members beyond {beyond}: {_listed(map(_measured, apart))}. The answer does "
            f"not correct for what these columns record. If a column was known before training, {step}. "
            "Do not add a column that follows from training or from membership."
        )

    def _gaps(self) -> str:
        gaps = [one for one in self.columns if one.gaps_differ]
        if not gaps:
            return ""
        shown = _listed(f"{_short(one.name)} {missing(one.members_missing, one.nonmembers_missing)}" for one in gaps)
        return (
            f"Missing values differ between members and non-members in columns that are no covariates: {shown}. The "
            "records of the two classes may come from different sources."
        )

    @property
    def sentence(self) -> str:
        """Which columns were not used, in words; empty if there are none."""
        names = _listed(f"{_short(one.name)} ({one.auc:.3f})" for one in self.columns)
        columns = f"Columns of the file that are not used, with the AUC of each alone: {names}." if self.columns else ""
        return " ".join(text for text in (columns, self.rest) if text)

    @property
    def rest(self) -> str:
        """Which other columns of the file were not compared, and why; empty if there are none."""
        names = _listed(map(_short, self.outputs))
        by_name = f"Not compared, because of their names (membership, or what a model says): {names}."
        many = f"{self.left:,} more columns were not looked at."
        return " ".join(text for text, some in ((by_name, self.outputs), (many, self.left)) if some)


@dataclass(frozen=True, eq=False)
class UnusedValues:
    """The values of the columns of a file that an audit does not use.

    Attributes
    ----------
    numbers : by name an array (n,), NaN where a value is missing
    categories : by name an array (n,) of codes 0, 1, ..., -1 where a value is missing
    outputs, left : as of :class:`UnusedColumns`
    """

    numbers: Mapping[str, FloatArray]
    categories: Mapping[str, NDArray[Any]]
    outputs: tuple[str, ...] = ()
    left: int = 0

    def of_rows(self, rows: NDArray[Any] | None) -> UnusedValues:
        """Return the values of some rows, in their order."""
        if rows is None:
            return self
        numbers, categories = (
            {name: values[rows] for name, values in columns.items()} for columns in (self.numbers, self.categories)
        )
        return UnusedValues(numbers, categories, self.outputs, self.left)

    def judged(self, evidence: Evidence, odds: FloatArray | None) -> UnusedColumns:
        """Measure how each column separates members from non-members, alone and beyond the covariates.

        Parameters
        ----------
        evidence : the audited records, in the order of these values
        odds : array (n,) of learned odds of membership; None where there are none

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> member = rng.random(2000) < 0.5
        >>> values = {"size": rng.normal(size=2000) + member, "noise": rng.normal(size=2000)}
        >>> found = UnusedValues(values, {}).judged(Evidence(score=np.zeros(2000), member=member), None)
        >>> [(one.name, round(one.auc, 2), one.separates) for one in found.columns]
        [('size', 0.77, True), ('noise', 0.5, False)]
        """
        tests = 2 * (len(self.numbers) + len(self.categories))
        limit = float(-special.ndtri(_FAMILYWISE / max(2 * tests, 1)))
        plain = _Weighted.of(evidence, None)
        weighted = plain if odds is None else _Weighted.of(evidence, odds)
        every: list[tuple[str, NDArray[Any], _Kind]] = [
            *((name, values, "number") for name, values in self.numbers.items()),
            *((name, codes, "category") for name, codes in self.categories.items()),
        ]
        columns = [_judged(*one, plain, weighted, limit, alone=odds is None) for one in every]
        columns.sort(key=lambda one: (not one.separates, -abs((one.weighted_auc or one.auc) - 0.5), one.name))
        return UnusedColumns(tuple(columns), self.outputs, self.left)


def _judged(
    name: str,
    values: NDArray[Any],
    kind: _Kind,
    plain: _Weighted,
    weighted: _Weighted,
    limit: float,
    *,
    alone: bool,
) -> UnusedColumn:
    absent = np.isnan(values) if kind == "number" else values < 0
    raw, _ = plain.auc(values, kind)
    auc, z = weighted.auc(values, kind)
    gap = SharesApart.of(absent, plain.member, plain.code)
    return UnusedColumn(
        name=name,
        kind=kind,
        auc=max(raw, 1 - raw) if kind == "number" else max(raw, 0.5),
        weighted_auc=None if alone else auc,
        separates=bool((abs(z) if kind == "number" else z) > limit and abs(auc - 0.5) > _LEAST),
        members_missing=gap.members,
        nonmembers_missing=gap.nonmembers,
        gaps_differ=gap.matters(limit),
    )


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Records with a share of their class each: members count alike, non-members by their odds."""

    member: BoolArray
    share: FloatArray
    code: IntArray | None

    @classmethod
    def of(cls, evidence: Evidence, odds: FloatArray | None) -> _Weighted:
        weight = np.ones(evidence.n) if odds is None else np.where(evidence.member, 1.0, odds)
        return cls(evidence.member, weight, evidence.unit_codes)

    def auc(self, values: NDArray[Any], kind: str) -> tuple[float, float]:
        """Return the AUC of a column, and by how many standard errors it differs from one half."""
        if kind == "category":
            every = np.ones(len(values), dtype=np.bool_)
            if len(np.unique(values)) > _TWO:
                return self._of_ranks(self._rates(values), every)
            auc, z = self._of_ranks(values.astype(np.float64), every)
            return max(auc, 1 - auc), abs(z)
        return self._of_ranks(values, ~np.isnan(values))

    def _of_ranks(self, values: FloatArray, there: BoolArray) -> tuple[float, float]:
        member, weight = self.member[there], self.share[there]
        if not member.any() or member.all():
            return 0.5, 0.0
        levels, place = np.unique(values[there], return_inverse=True)
        inside, outside = (
            np.bincount(place, weights=np.where(kind, weight, 0.0), minlength=len(levels)) for kind in (member, ~member)
        )
        p, q = inside / inside.sum(), outside / outside.sum()
        below, above = np.cumsum(q) - q / 2, 1 - np.cumsum(p) + p / 2
        auc = min(max(float(p @ below), 0.0), 1.0)  # sums are rounded
        share = np.where(member, weight / inside.sum(), weight / outside.sum())
        influence = share * (np.where(member, below[place], above[place]) - auc)
        by_chance = float(1 - (((p + q) / 2) ** 3).sum()) / 12  # the variance of mid-ranks, of one law
        error = self._error(influence, there, by_chance * float(share @ share))
        return auc, (auc - 0.5) / error if error else 0.0

    def _error(self, influence: FloatArray, there: BoolArray, least: float) -> float:
        """Return the standard error of a mean from what each record adds to it, by units, and a least variance."""
        units = influence if self.code is None else np.bincount(self.code[there], weights=influence)
        return math.sqrt(max(float(units @ units), least))

    def _rates(self, codes: NDArray[Any]) -> FloatArray:
        """Return for each record the share of members at its level (n,), from the other folds."""
        place = codes.astype(np.int64) + 1  # what is missing is a level, too
        folds, rates = self._folds(), np.empty(len(place))
        for fold in range(_FOLDS):
            own = folds == fold
            rates[own] = self._shares(place, ~own)[place[own]]
        return rates

    def _shares(self, place: IntArray, rows: BoolArray) -> FloatArray:
        """Return the share of members at each level among some rows, as if both classes weighed the same."""
        of_class, prior = [], 0.0
        for kind in (self.member & rows, ~self.member & rows):
            weight = np.where(kind, self.share, 0.0)
            weight /= max(float(weight.sum()), 1e-300)
            prior += _SHRUNK * float(weight @ weight)
            of_class.append(np.bincount(place, weights=weight))
        inside, outside = of_class
        return np.asarray((inside + prior / 2) / (inside + outside + prior))

    def _folds(self) -> IntArray:
        """Return a fold (n,) of each record, by whole units; always the same ones."""
        code = np.arange(len(self.member)) if self.code is None else self.code
        order = np.random.default_rng(0).permutation(int(code.max()) + 1)
        return np.asarray(order[code] % _FOLDS, dtype=np.int64)


def _measured(one: UnusedColumn) -> str:
    alone = f"AUC {one.auc:.3f} alone"
    after = "" if one.weighted_auc is None else f", {max(one.weighted_auc, 1 - one.weighted_auc):.3f} after weighting"
    return f"{_short(one.name)} ({alone}{after})"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _listed(texts: Any) -> str:
    several: Sequence[str] = list(texts)
    more = f" and {len(several) - _MOST_NAMED:,} more" if len(several) > _MOST_NAMED else ""
    return ", ".join(several[:_MOST_NAMED]) + more

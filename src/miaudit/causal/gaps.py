"""Gaps of a comparison: levels with hardly any non-members, and values that weighting leaves unequal.

Each message also says which records to add or to leave out.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray, Share, Text
from miaudit.evidence import Evidence

_BARE_MEMBERS = 0.1  # largest share in levels with too few non-members; above it the audit is refused
_FEWEST_IN_LEVEL = 3
_MOST_LEVELS = 5  # named in a message
_FAMILYWISE = 0.01  # chance of a warning where values are missing alike in both classes
_APART = 0.2  # standard deviations by which shares of missing values differ before it is worth a warning
_GAPS, _MISSING = " missing", "(missing)"  # as evidence names the column, or the level, of missing values
_FEW_LEVELS = 12  # a column with at most so many is compared level by level


@dataclass(frozen=True, eq=False)
class SparseLevels:
    """Levels of categories with hardly any non-members.

    Attributes
    ----------
    levels : each with its covariate, as the file has them; of each covariate the one with most members first
    rows : array (n,) of bool, the records in these levels
    members, nonmembers : how many these are
    share : of all members, 0 to 1
    """

    levels: tuple[tuple[str, str], ...]
    rows: BoolArray
    members: int
    nonmembers: int
    share: float

    @classmethod
    def of(cls, evidence: Evidence, declared: Sequence[int]) -> SparseLevels | None:
        """Return the levels with fewer than 3 non-members, if more than 10% of the members have one of them; else None.

        Parameters
        ----------
        evidence : with covariates (n, d)
        declared : positions of the declared categories

        Examples
        --------
        >>> site = np.repeat([1.0, 2.0], [80, 20])
        >>> evidence = Evidence(score=site, member=np.arange(100) % 2 | (site == 2), covariates=site[:, None])
        >>> SparseLevels.of(evidence, [0]).sentence.partition(" (")[0]
        '33.3% of members are in levels with fewer than 3 non-members'
        """
        if not declared:
            return None
        x = np.asarray(evidence.covariates)
        names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
        rows = np.zeros(evidence.n, dtype=np.bool_)
        named: list[tuple[str, str]] = []
        for column in declared:
            levels, place = np.unique(x[:, column], return_inverse=True)
            outside, inside = (
                np.bincount(place[kind], minlength=len(levels)) for kind in (~evidence.member, evidence.member)
            )
            few = np.flatnonzero((outside < _FEWEST_IN_LEVEL) & (inside > 0))
            rows |= np.isin(place, few)
            most = few[np.argsort(-inside[few], kind="stable")]
            named += [(names[column], evidence.level_name(names[column], value)) for value in levels[most].tolist()]
        members, nonmembers = (int(np.count_nonzero(rows & kind)) for kind in (evidence.member, ~evidence.member))
        share = members / evidence.n_members
        return cls(tuple(named), rows, members, nonmembers, share) if share > _BARE_MEMBERS else None

    @property
    def place(self) -> str:
        """The levels in words, of each covariate at most five."""
        of_column: dict[str, list[str]] = {}
        for name, level in self.levels:
            of_column.setdefault(name, []).append(level)
        return "; ".join(
            f"{name} = {', '.join(levels[:_MOST_LEVELS])}"
            + (f" and {len(levels) - _MOST_LEVELS:,} more" if len(levels) > _MOST_LEVELS else "")
            for name, levels in of_column.items()
        )

    @property
    def sentence(self) -> str:
        """Why the audit is refused, and what to do."""
        return (
            f"{self.share:.1%} of members are in levels with fewer than {_FEWEST_IN_LEVEL} non-members ({self.place}). "
            "Nothing shows what their scores would have been without membership. Next: add non-members of these "
            f"levels, or leave out their {self.members:,} members ({exclusions(self.levels)}). The audit then answers "
            "for the other members only."
        )


def exclusions(levels: Sequence[tuple[str, str]]) -> str:
    """Write the options that leave out levels, each with its covariate, at most five of them.

    Examples
    --------
    >>> exclusions([("race", "r1"), ("job title", "clerk")])
    "--exclude-levels race=r1 --exclude-levels 'job title=clerk'"
    """
    options = [f"--exclude-levels {shlex.quote(f'{name}={level}')}" for name, level in levels[:_MOST_LEVELS]]
    more = f", and {len(levels) - _MOST_LEVELS:,} more levels" if len(levels) > _MOST_LEVELS else ""
    return " ".join(options) + more


@dataclass(frozen=True)
class SharesApart:
    """The share of members and of non-members of whom something holds, and how far the shares differ.

    Attributes
    ----------
    members, nonmembers : the shares, 0 to 1
    z : their difference in standard errors
    """

    members: float
    nonmembers: float
    z: float

    @classmethod
    def of(cls, holds: BoolArray, member: BoolArray, code: IntArray | None) -> SharesApart:
        """Compare the shares; records of one unit (``code``) count together."""
        inside, outside = float(holds[member].mean()), float(holds[~member].mean())
        count = int(np.count_nonzero(member)), int(np.count_nonzero(~member))
        pooled = float(holds.mean())
        of_records = pooled * (1 - pooled) * (1 / count[0] + 1 / count[1])
        influence = np.where(member, (holds - inside) / count[0], (holds - outside) / count[1])
        units = influence if code is None else np.bincount(code, weights=influence)
        error = math.sqrt(max(of_records, float(units @ units)))
        return cls(inside, outside, (inside - outside) / error if error else 0.0)

    def matters(self, limit: float) -> bool:
        """Return whether the difference exceeds a limit on z, and 0.2 standard deviations."""
        variance = (self.members * (1 - self.members) + self.nonmembers * (1 - self.nonmembers)) / 2
        apart = abs(self.members - self.nonmembers)
        return abs(self.z) > limit and apart > _APART * math.sqrt(variance)


@dataclass(frozen=True)
class UnequalGap:
    """A covariate whose values are missing more often in one class than in the other.

    Attributes
    ----------
    name : of the covariate
    members, nonmembers : shares of missing values
    """

    name: Text
    members: Share
    nonmembers: Share


def missing(members: float, nonmembers: float) -> str:
    """Write two shares of missing values.

    Examples
    --------
    >>> missing(0.3, 0.1)
    '(missing for 30.0% of the members and 10.0% of the non-members)'
    """
    return f"(missing for {members:.1%} of the members and {nonmembers:.1%} of the non-members)"


def in_words(gaps: Sequence[UnequalGap]) -> str:
    """Say in which covariates missing values differ between the classes; empty if in none."""
    if not gaps:
        return ""
    shown = ", ".join(f"{one.name} {missing(one.members, one.nonmembers)}" for one in gaps[:_MOST_LEVELS])
    more = f" and {len(gaps) - _MOST_LEVELS:,} more" if len(gaps) > _MOST_LEVELS else ""
    return (
        f"Missing values differ between members and non-members: {shown}{more}. The correction treats a missing value "
        "as one more covariate. Check that the records of the two classes come from the same source."
    )


def unequal(evidence: Evidence) -> tuple[UnequalGap, ...]:
    """Return the covariates whose missing values differ between members and non-members, the largest difference first.

    Examples
    --------
    >>> member, pay = np.arange(400) < 200, np.arange(400) % 10
    >>> x = np.c_[pay, np.where(member, pay < 3, pay < 1)]
    >>> evidence = Evidence(score=pay, member=member, covariates=x, covariate_names=["pay", "pay missing"])
    >>> unequal(evidence)
    (UnequalGap(name='pay', members=0.3, nonmembers=0.1),)
    """
    columns = dict(_missing(evidence))
    limit = float(-special.ndtri(_FAMILYWISE / max(2 * len(columns), 1)))
    shares = {name: SharesApart.of(holds, evidence.member, evidence.unit_codes) for name, holds in columns.items()}
    differing = [(name, one) for name, one in shares.items() if one.matters(limit)]
    differing.sort(key=lambda pair: -abs(pair[1].members - pair[1].nonmembers))
    return tuple(UnequalGap(name, one.members, one.nonmembers) for name, one in differing)


def owners(names: Sequence[str]) -> tuple[int, ...]:
    """Return for each covariate its own position, or for a column that marks gaps that of the column which has them.

    Examples
    --------
    >>> owners(["age", "pay", "pay missing", "parts missing"])
    (0, 1, 1, 3)
    """
    known = {name: i for i, name in enumerate(names)}
    return tuple(known.get(name.removesuffix(_GAPS), i) for i, name in enumerate(names))


def _missing(evidence: Evidence) -> Iterator[tuple[str, BoolArray]]:
    """Yield each covariate in which values are missing, and of which records (n,)."""
    names, x = evidence.covariate_names, evidence.covariates
    if x is None:
        return
    for column, name in enumerate(names):
        known = name.removesuffix(_GAPS)
        if known != name and known in names and np.isin(x[:, column], (0, 1)).all():
            yield known, x[:, column] == 1
        for value, text in evidence.levels.get(name, {}).items():
            if text == _MISSING:
                yield name, x[:, column] == value


def where(evidence: Evidence, weight: FloatArray, columns: Sequence[int], level: float | None = None) -> str:
    """Say at which values of one or two covariates members and weighted non-members differ most.

    Parameters
    ----------
    evidence : with covariates (n, d)
    weight : array (n,), weights of the non-members; the entries of members are not used
    columns : positions of one or two covariates
    level : value of the first covariate to compare with all its other values; None compares all values

    Returns
    -------
    str
        The values, the two shares, and which records to add or to leave out.

    Examples
    --------
    >>> x = np.arange(40.0)
    >>> evidence = Evidence(score=x, member=x > 19, covariates=x[:, None], covariate_names=["age"])
    >>> where(evidence, np.ones(40), [0]).partition(":")[0]
    '0.0% of members have low age, and 70.0% of the weighted non-members'
    >>> where(evidence, np.ones(40), [0], level=7).partition(":")[0]
    '0.0% of members have age = 7, and 5.0% of the weighted non-members'
    """
    x, member = np.asarray(evidence.covariates), evidence.member
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    cells: list[tuple[str, BoolArray]] = [("", np.ones(len(x), dtype=np.bool_))]
    for column in columns:
        one = level if column == columns[0] else None
        parts = _parts(evidence, column, names[column], halves=len(columns) > 1, level=one)
        cells = [(f"{a} and {b}" if a else b, rows & part) for a, rows in cells for b, part in parts]
    outside = np.where(member, 0.0, weight) / weight[~member].sum()
    shares = [(float(rows[member].mean()), float(outside[rows].sum())) for _, rows in cells]
    worst = max(range(len(cells)), key=lambda i: abs(shares[i][0] - shares[i][1]))
    inside, beside = shares[worst]
    who, whom = ("non-members", "members") if inside > beside else ("members", "non-members")
    return (
        f"{inside:.1%} of members have {cells[worst][0]}, and {beside:.1%} of the weighted non-members: "
        f"add {who} like that, or leave out such {whom}"
    )


def _parts(
    evidence: Evidence, column: int, name: str, *, halves: bool, level: float | None
) -> list[tuple[str, BoolArray]]:
    """Divide values at one level, else into levels if there are few, else at the median or at thirds."""
    values = np.asarray(evidence.covariates)[:, column]
    if level is not None:
        text = evidence.level_name(name, level)
        return [(f"{name} = {text}", values == level), (f"{name} other than {text}", values != level)]
    levels = np.unique(values)
    if len(levels) <= _FEW_LEVELS:
        return [(f"{name} = {evidence.level_name(name, level)}", values == level) for level in levels.tolist()]
    if halves:
        middle = np.median(values)
        return [(f"high {name}", values > middle), (f"low {name}", values <= middle)]
    low, high = np.quantile(values, (1 / 3, 2 / 3))
    between = (values > low) & (values <= high)
    return [(f"high {name}", values > high), (f"middling {name}", between), (f"low {name}", values <= low)]

"""Gaps of a comparison: levels with hardly any non-members, and values that weighting leaves unequal.

Each message also says which records to add or to leave out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.evidence import Evidence

_BARE_MEMBERS = 0.1  # largest share in levels with too few non-members; above it the audit is refused
_FEWEST_IN_LEVEL = 3
_MOST_LEVELS = 5  # named in a message
_FEW_LEVELS = 12  # a column with at most so many is compared level by level


def sparse_levels(evidence: Evidence, declared: Sequence[int]) -> str:
    """Return a refusal if too many members are in levels of a category with hardly any non-members.

    Parameters
    ----------
    evidence : with covariates (n, d)
    declared : positions of the declared categories

    Returns
    -------
    str
        Reason and remedy if more than 10% of the members are in levels with fewer than 3 non-members; else "".

    Examples
    --------
    >>> site = np.repeat([1.0, 2.0], [80, 20])
    >>> evidence = Evidence(score=site, member=np.arange(100) % 2 | (site == 2), covariates=site[:, None])
    >>> sparse_levels(evidence, [0]).partition(":")[0]
    '33.3% of members are in levels with fewer than 3 non-members (covariate 0 = 2)'
    """
    if not declared:
        return ""
    x = np.asarray(evidence.covariates)
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    bare, sentences = np.zeros(evidence.n, dtype=np.bool_), []
    for column in declared:
        levels, place = np.unique(x[:, column], return_inverse=True)
        outside, inside = (
            np.bincount(place[rows], minlength=len(levels)) for rows in (~evidence.member, evidence.member)
        )
        few = np.flatnonzero((outside < _FEWEST_IN_LEVEL) & (inside > 0))
        bare |= np.isin(place, few)
        most = few[np.argsort(-inside[few], kind="stable")]
        more = f" and {len(most) - _MOST_LEVELS:,} more" if len(most) > _MOST_LEVELS else ""
        sentences += (
            [f"{names[column]} = {', '.join(f'{x:g}' for x in levels[most[:_MOST_LEVELS]])}{more}"] if len(most) else []
        )
    share = float(bare[evidence.member].mean())
    if share <= _BARE_MEMBERS:
        return ""
    return (
        f"{share:.1%} of members are in levels with fewer than {_FEWEST_IN_LEVEL} non-members "
        f"({'; '.join(sentences)}): nothing tells what their scores would have been. Next: add non-members of these "
        f"levels, or leave out their members, which answers for the others only."
    )


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
        parts = _parts(x[:, column], names[column], halves=len(columns) > 1, level=one)
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


def _parts(values: FloatArray, name: str, *, halves: bool, level: float | None) -> list[tuple[str, BoolArray]]:
    """Divide values at one level, else into levels if there are few, else at the median or at thirds."""
    if level is not None:
        return [(f"{name} = {level:g}", values == level), (f"another {name}", values != level)]
    levels = np.unique(values)
    if len(levels) <= _FEW_LEVELS:
        return [(f"{name} = {level:g}", values == level) for level in levels]
    if halves:
        middle = np.median(values)
        return [(f"high {name}", values > middle), (f"low {name}", values <= middle)]
    low, high = np.quantile(values, (1 / 3, 2 / 3))
    between = (values > low) & (values <= high)
    return [(f"high {name}", values > high), (f"middling {name}", between), (f"low {name}", values <= low)]

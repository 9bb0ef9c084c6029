"""Standardised mean differences of covariates between members and weighted non-members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.evidence import Evidence

__all__ = ["Difference", "differences"]

_SQUARED = ", squared"  # suffix of the name of a covariate
_LEAST_SCALE = 0.1  # smallest scale, as a share of the pooled standard deviation
_LEAST_SPREAD = 1e-9  # below this share of its range a covariate does not vary within a class
_SEPARATED_SCALE = 1e-3  # of its range: the scale of a covariate that is constant in each class
_BLOCK = 64  # covariates whose squares are in memory at the same time


@dataclass(frozen=True)
class Difference:
    """Standardised mean difference of one covariate, before and after weighting.

    Attributes
    ----------
    name : name of the covariate, "NAME, squared", or "NAME = LEVEL" of a category
    before, after : in unweighted standard deviations of the members; 0 is balance
        The scale of a covariate with two values is the pooled one, sqrt((var of members + var of non-members) / 2),
        because a category may hardly occur among members. No scale is less than a tenth of the pooled one. The mean
        among members is subtracted from a covariate before it is squared.
    """

    name: str
    before: float
    after: float


def differences(
    evidence: Evidence, weight: FloatArray, categories: Sequence[int]
) -> tuple[tuple[Difference, ...], tuple[str, ...]]:
    """Compare members with weighted non-members.

    Parameters
    ----------
    evidence : with or without covariates (n, d)
    weight : array (m,) of non-members
    categories : positions of covariates that are codes: each of their levels is compared

    Returns
    -------
    differences, constant : of levels, of the other covariates, and of their squares; names of constant covariates

    Examples
    --------
    >>> evidence = Evidence(score=[0, 0, 0, 0], member=[1, 1, 0, 0], covariates=[[1.0], [3.0], [3.0], [5.0]])
    >>> compared, _ = differences(evidence, np.array([1.0, 0.0]), ())
    >>> compared[0].name, compared[0].before, compared[0].after
    ('covariate 0', -2.0, -1.0)
    """
    if evidence.covariates is None:
        return (), ()
    x = evidence.covariates
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    of_levels = {names[column]: _of_levels(evidence, names[column], x[:, column], weight) for column in categories}
    numbers = np.setdiff1d(np.arange(x.shape[1]), categories).astype(np.intp)
    compared, constant = _of_numbers(x[:, numbers], [names[i] for i in numbers], evidence.member, weight)
    constant += [name for name, rows in of_levels.items() if not rows]
    return (*(row for rows in of_levels.values() for row in rows), *compared), tuple(constant)


def _of_numbers(
    x: FloatArray, names: Sequence[str], member: BoolArray, weight: FloatArray
) -> tuple[list[Difference], list[str]]:
    """Return the differences of columns (n, d), then of their squares, and the names of constant columns."""
    plain: list[Difference] = []
    squares: list[Difference] = []
    constant: list[str] = []
    for start in range(0, x.shape[1], _BLOCK):
        block, labels = x[:, start : start + _BLOCK], names[start : start + _BLOCK]
        z, varies = _standardised(block, member)
        constant += [name for name, varying in zip(labels, varies, strict=True) if not varying]
        varying = [name for name, use in zip(labels, varies, strict=True) if use]
        plain += _compare(z, member, weight, varying)
        # The square of a covariate with two values adds nothing to the covariate.
        more = ~_two_valued(z)
        curved, varies = _standardised(z[:, more] ** 2, member)
        named = [f"{name}{_SQUARED}" for name, use in zip(varying, more, strict=True) if use]
        squares += _compare(curved, member, weight, [name for name, use in zip(named, varies, strict=True) if use])
    return plain + squares, constant


def _of_levels(evidence: Evidence, name: str, codes: FloatArray, weight: FloatArray) -> list[Difference]:
    """Compare the share of each level of a category, of two levels only that of the last; none of a constant one."""
    levels, place = np.unique(codes, return_inverse=True)
    inside, outside = place[evidence.member], place[~evidence.member]

    def shares(of: IntArray, weight: FloatArray | None = None) -> FloatArray:
        total = len(of) if weight is None else float(weight.sum())
        return np.bincount(of, weights=weight, minlength=len(levels)) / total

    of_members, of_others, weighted = shares(inside), shares(outside), shares(outside, weight)
    scale = np.sqrt((of_members * (1 - of_members) + of_others * (1 - of_others)) / 2)
    scale = np.where(scale > _LEAST_SPREAD, scale, _SEPARATED_SCALE)
    before, after = (of_members - of_others) / scale, (of_members - weighted) / scale
    labels = [f"{name} = {evidence.level_name(name, level)}" for level in levels.tolist()]
    rows = [Difference(*row) for row in zip(labels, before.tolist(), after.tolist(), strict=True)]
    return [] if len(rows) == 1 else rows[1:] if len(rows) == 2 else rows


def _standardised(x: FloatArray, member: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Standardise the columns that vary by the members' mean and sd; return them and their mask."""
    top = np.abs(x).max(axis=0, initial=0.0)
    varies = np.ptp(x, axis=0) > 1e-12 * top
    x = x[:, varies] - x[:, varies].mean(axis=0)  # before squaring, so that large offsets cost no digits
    inside, outside = x[member], x[~member]
    sd = inside.std(axis=0)
    pooled = np.sqrt((sd**2 + outside.var(axis=0)) / 2)
    # A category that hardly any member has would be divided by nearly zero.
    sd = np.where(_two_valued(x), pooled, np.maximum(sd, _LEAST_SCALE * pooled))
    # A covariate that is constant in each class, with different values, separates them. Any small scale shows it.
    span = np.ptp(x, axis=0)
    scale = np.where(sd > _LEAST_SPREAD * span, sd, _SEPARATED_SCALE * span)
    return (x - inside.mean(axis=0)) / scale, varies


def _two_valued(x: FloatArray) -> BoolArray:
    ends = (x == x.min(axis=0, initial=np.inf)) | (x == x.max(axis=0, initial=-np.inf))
    return np.asarray(ends.all(axis=0))


def _compare(z: FloatArray, member: BoolArray, weight: FloatArray, names: list[str]) -> list[Difference]:
    inside = z[member].mean(axis=0)
    before = inside - z[~member].mean(axis=0)
    after = inside - weight @ z[~member] / weight.sum()
    return [Difference(*row) for row in zip(names, before.tolist(), after.tolist(), strict=True)]

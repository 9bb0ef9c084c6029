"""A separate sample of records from which the propensity of the audited ones is learned, as the papers have it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import numeric, tables

NAME = "propensity sample"


def read(
    path: str | Path,
    audited: Evidence,
    *,
    member: str | None = None,
    covariates: str | Sequence[str] | None = None,
    text: str | None = None,
    unit: str | None = None,
    categories: str | Sequence[str] = (),
    table: str | Path | None = None,
) -> Evidence:
    """Read membership and covariates of other records, in the columns that the audited ones have.

    Parameters
    ----------
    path : path of an .npz, .parquet or .csv file
    audited : the evidence whose propensity is wanted
    member, covariates, text, unit, categories : names of columns, as they were named for the audited records
        Without names those that :meth:`Evidence.save` writes: ``member``, ``covariates`` or ``covariate.NAME``,
        ``text``, ``unit``.
    table : the file of the audited records, by whose text the codes of categories are made

    Returns
    -------
    Evidence
        With zeros as its score; its covariates have the names, the order and the codes of the audited ones.

    Raises
    ------
    InputError
        For a missing column, one class only, and whatever else is no evidence.
    """
    known = tables.column_names(path, NAME)
    member = member or "member"
    columns = [covariates] if isinstance(covariates, str) else list(covariates or _saved(audited, known))
    words = None if audited.text is None else text or "text"
    units = unit or ("unit" if "unit" in known else None)
    coded = [categories] if isinstance(categories, str) else list(categories)
    try:
        sample = Evidence.load(
            path, score=member, member=member, covariates=columns or None, text=words, unit=units, categories=coded
        )
    except InputError as error:
        raise InputError(f"{NAME}: {error.argument}", error.allowed, error.received, error.next_step) from None
    sample = _numbered_alike(sample, audited)
    _require_same_columns(sample, audited)
    x = _filled_alike(sample, audited)
    for name in coded:
        if table is not None and x is not None:
            x[:, sample.covariate_names.index(name.removeprefix("covariate."))] = _recoded(path, table, name)
    return sample.replace(score=np.zeros(sample.n), covariates=x)


def _require_same_columns(sample: Evidence, audited: Evidence) -> None:
    """Refuse a sample with other covariates than the audited records."""
    (theirs, received), (ours, allowed) = map(_columns, (sample, audited))
    if theirs != ours:
        step = "give it the covariates of the audited records"
        if any(name.endswith(f" {numeric.MISSING}") for name in {*sample.covariate_names} ^ {*audited.covariate_names}):
            step = "where a column has gaps in one of the two only, fill them there"
        raise InputError(NAME, allowed, received, step)


def _numbered_alike(sample: Evidence, audited: Evidence) -> Evidence:
    """Name the columns of an array as those of a campaign's records: "c.0" in the place of "c[0]"."""
    width = 0 if sample.covariates is None else sample.covariates.shape[1]
    names = sample.covariate_names or tuple(f"covariates[{i}]" for i in range(width))
    names = tuple(re.sub(rf"\[(\d+)\]( {numeric.MISSING})?$", r".\1\2", name) for name in names)
    return sample.replace(covariate_names=names) if names == audited.covariate_names else sample


def _filled_alike(sample: Evidence, audited: Evidence) -> FloatArray | None:
    """Return the covariates (n, d) with gaps filled by what fills those of the audited records."""
    if sample.covariates is None or audited.covariates is None:
        return None
    x, names = sample.covariates.copy(), sample.covariate_names
    for gap, name in enumerate(names):
        column = name.removesuffix(f" {numeric.MISSING}")
        if column != name and column in names:
            of, ours = names.index(column), audited.covariates
            x[x[:, gap] == 1, of] = ours[ours[:, gap] == 1, of][0]
    return x


def _columns(evidence: Evidence) -> tuple[object, str]:
    """Return what the covariates of two samples must have in common, and that in words."""
    width = 0 if evidence.covariates is None else evidence.covariates.shape[1]
    named = f" ({', '.join(evidence.covariate_names)})" if evidence.covariate_names else ""
    return (width, evidence.covariate_names), f"{width} column{'s' * (width != 1)} of covariates{named}"


def _saved(audited: Evidence, known: Sequence[str]) -> list[str]:
    """Return the columns of the audited covariates under the names that a saved file has for them."""
    if audited.covariates is None:
        return []
    if not audited.covariate_names:
        width = audited.covariates.shape[1]
        return ["covariates"] if "covariates" in known else [f"covariate.{i}" for i in range(width)]
    return list(dict.fromkeys(_column(name, known) for name in audited.covariate_names))


def _column(name: str, known: Sequence[str]) -> str:
    """Return the column of a covariate: its own, or the array "c" of what a campaign names "c.0"."""
    array = re.sub(r"\.\d+$", "", name)
    possible = (f"covariate.{name}", name, array)
    return next((one for one in possible if one in known), name)


def _recoded(path: str | Path, table: str | Path, name: str) -> NDArray[Any]:
    """Return the codes (n,) of a category, which are those of the audited table.

    Levels that the audited records do not have come after theirs.
    """
    theirs, ours = (tables.read_columns(one, [name], gaps=[name])[name] for one in (path, table))
    texts = [values.dtype.kind == "U" for values in (ours, theirs)]
    if texts[0] != texts[1]:
        kinds = ["text" if text else "numbers" for text in texts]
        raise InputError(f"{NAME}: {name}", f"{kinds[0]}, as in {Path(table).name}", kinds[1], "write both alike")
    if not texts[0]:
        if not np.isnan(ours).any():  # its numbers are its codes
            return np.where(np.isnan(theirs), np.nanmax(np.r_[ours, theirs]) + 1, theirs)
        theirs, ours = (np.where(np.isnan(values), np.inf, values) for values in (theirs, ours))  # the last, as NaN is
    levels = np.unique(ours)
    order = {level: code for code, level in enumerate([*levels, *np.setdiff1d(theirs, levels)])}
    return np.array([order[level] for level in theirs], dtype=np.float64)

"""Levels of covariates whose records are left out of an audit, as the plan names them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.arrays import BoolArray
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.findings.audit import ExcludedLevels

__all__ = ["excluded"]

_MOST_SHOWN = 12
_MISSING = "(missing)"  # as evidence calls the level of records without a value


def excluded(evidence: Evidence, wanted: Sequence[str]) -> tuple[BoolArray, ExcludedLevels]:
    """Return which records (n,) are left, and what was left out.

    Parameters
    ----------
    evidence : with covariates
    wanted : levels as "COVARIATE=LEVEL", with the level as the file has it

    Raises
    ------
    InputError
        For a covariate or a level that is not there, and where a class has no record left.

    Examples
    --------
    >>> site = np.array([1.0, 1.0, 2.0, 2.0])
    >>> evidence = Evidence(score=site, member=[1, 0, 1, 0], covariates=site, covariate_names=["site"])
    >>> left, what = excluded(evidence, ["site=2"])
    >>> left.tolist(), what.members, what.nonmembers
    ([True, True, False, False], 1, 1)
    """
    gone = np.zeros(evidence.n, dtype=np.bool_)
    named = []
    for text in wanted:
        name, level, rows = _of_level(evidence, text)
        gone |= rows
        named.append(f"{name} = {level}")
    member = evidence.member
    for kind, of_class in (("members", member), ("non-members", ~member)):
        if not (of_class & ~gone).any():
            received = f"no {kind} beside {', '.join(named)}"
            raise InputError("exclude_levels", "levels that leave members and non-members", received, "leave out fewer")
    counts = (int(np.count_nonzero(gone & kind)) for kind in (member, ~member))
    return ~gone, ExcludedLevels(tuple(named), *counts)


def _of_level(evidence: Evidence, text: str) -> tuple[str, str, BoolArray]:
    """Return the covariate and the level that a text names, and the records (n,) that have it."""
    x = np.empty((evidence.n, 0)) if evidence.covariates is None else evidence.covariates
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    name = next((one for one in sorted(names, key=len, reverse=True) if text.startswith(f"{one}=")), None)
    if name is None:
        column = text.partition("=")[0].strip()
        hint = nearest(column, names) or "name it in the covariates too"
        allowed = f"COVARIATE=LEVEL with a covariate ({_shown(names) or 'there are none'})"
        raise InputError("exclude_levels", allowed, repr(text), hint)
    values = x[:, names.index(name)]
    level = text.removeprefix(f"{name}=").strip() or _MISSING
    known = {evidence.level_name(name, value): value for value in np.unique(values).tolist()}
    if level not in known:
        of_number = _number(level)
        level = next((one for one, value in known.items() if value == of_number and name not in evidence.levels), level)
    if level not in known:
        hint = nearest(level, known) or "write it as the file has it"
        raise InputError("exclude_levels", f"a level of {name} ({_shown(list(known))})", repr(text), hint)
    return name, level, np.asarray(values == known[level])


def _number(level: str) -> float | None:
    try:
        return float(level)
    except ValueError:
        return None


def _shown(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_MOST_SHOWN])}{', ...' * (len(names) > _MOST_SHOWN)}"

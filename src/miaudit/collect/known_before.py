"""Covariates are what was known of each record before training: columns that follow from training are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from miaudit.errors import InputError
from miaudit.io import roles

Names = str | Sequence[str] | None


def check(covariates: Names, used: Mapping[str, Names]) -> None:
    """Refuse a covariate that the audit reads as something that follows from training.

    Parameters
    ----------
    covariates : names of columns, of texts too
    used : the names of columns that are no covariates, by what they are

    Raises
    ------
    InputError
        For the first of them.

    Examples
    --------
    >>> check(["age", "loss"], {"score": "loss"})
    Traceback (most recent call last):
    miaudit.errors.InputError: covariates: expected what was known of each record before training, received loss, which
    is also given as the score; leave it out of the covariates
    """
    for name in _listed(covariates):
        for what, others in used.items():
            if name in _listed(others):
                allowed = "what was known of each record before training"
                received = f"{name}, which is also given as the {what}"
                raise InputError("covariates", allowed, received, "leave it out of the covariates")


def doubts(path: str | Path, covariates: Names) -> tuple[str, ...]:
    """Name covariates of a table that may be what a model, or an attack, says of each record, by their names."""
    names = _listed(covariates)
    if not names or Path(path).suffix.lower() not in (*roles.TABLES, *roles.ARRAYS):
        return ()
    named = [one.name for one in roles.look(path)[0] if one.name in names and roles.signal_of(one) is not None]
    if not named:
        return ()
    them = "it" if len(named) == 1 else "them"
    return (
        f"By name, {', '.join(named)} may be what a model or an attack says of each record. If so, leave {them} out of "
        "the covariates: what follows from training would explain leakage away.",
    )


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())

"""Corrections with their options, as a file or the command line says them: ``conditional:aware,signed``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miaudit.dp.zero_run.audit import Correction
from miaudit.dp.zero_run.bounds import CORRECTIONS
from miaudit.dp.zero_run.independent_guesses import Scheffe, SeedStable, StandardErrors
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option

_WIDTHS = ("half_width", "standard_errors", "scheffe")  # one of which says how far the log-odds may be off
_MOST_SETS = 1000  # more keep a machine busy and change nothing
# What a file may say of each kind; :mod:`miaudit.dp.zero_run` has what it means.
OPTIONS: dict[str, dict[str, tuple[type, Option]]] = {
    "thinning": {
        "half_width": (float, Option("How far the log-odds may be off.", "it is in units of log-odds", ge=0)),
        "standard_errors": (float, Option("The same, in standard errors.", "2 is the default", gt=0, lt=1000)),
        "scheffe": (float, Option("The same, by Scheffe's band, at that share of the error.", "try 0.5", gt=0, lt=1)),
        "seeds": (
            int,
            Option(
                "Sets of coins of which three quarters must agree.",
                "40 is usual",
                where=lambda n: n == 1 or 4 <= n <= _MOST_SETS,
                allowed=f"1, or 4 to {_MOST_SETS:,} sets of coins",
            ),
        ),
    },
    "conditional": {
        "aware": (bool, Option("Rank guesses by their expected success after tampering.", "write the word alone")),
        "signed": (bool, Option("Tamper with the signed log-odds.", "write the word alone")),
        "margin": (float, Option("Pessimism on the log-odds.", "0.1 is usual", ge=0)),
        "smallest": (int, Option("Only so many records of smallest log-odds.", "leave it out for all", ge=1)),
    },
    "composition": {
        "eta": (float, Option("Propensities lie within [eta, 1 - eta].", "say 0.1", gt=0, le=0.5)),
        "delta_ds": (float, Option("But for that probability.", "0 is the default", ge=0, lt=1)),
        "closeness": (float, Option("Densities are within e^closeness.", "it is a log-ratio", ge=0)),
        "share": (float, Option("Of the records, to choose eta on.", "0.2 is the default", gt=0, lt=1)),
        "spend": (float, Option("Of the error, to estimate the shift.", "0.1 is the default", gt=0, lt=1)),
        "whole": (bool, Option("Compose with the shift's whole trade-off function.", "write the word alone")),
    },
}
OPTIONS["composition"] |= {name: OPTIONS["thinning"][name] for name in _WIDTHS}


def correction_said(value: object) -> str | Correction:
    """Return the correction that is said: a name alone, as it stands, or the record of a name with options.

    Parameters
    ----------
    value : a name; a name with options behind a colon, each ``name=value``, or ``name`` alone for true, with commas
        between; or a mapping with ``kind`` and the options

    Raises
    ------
    InputError
        For an unknown name, option or value, and for options that do not go together.

    Examples
    --------
    >>> correction_said("conditional:aware,smallest=500")
    Conditional(aware=True, signed=False, margin=None, smallest=500)
    >>> correction_said({"kind": "thinning", "standard_errors": 3}).half_width
    StandardErrors(multiple=3.0)
    >>> correction_said("thinning")
    'thinning'
    """
    kind, fields = _parts(value)
    if kind not in CORRECTIONS:
        hint = nearest(kind, CORRECTIONS) or "thinning is the default"
        raise InputError("correction", ", ".join(CORRECTIONS), repr(kind)[:60], hint)
    known = OPTIONS.get(kind, {})
    options = {}
    for written, one in fields.items():
        name = str(written).replace("-", "_")
        if name not in known:
            allowed = f"options of {kind} ({', '.join(known) or 'none'})"
            hint = nearest(name, known) or "leave it out"
            raise InputError("correction", allowed, repr(str(written))[:60], hint)
        form, option = known[name]
        number = _number(one, form) if isinstance(one, str) else one
        if not option.permits(form, number):
            raise option.refusal(f"correction.{name}", form, number)
        options[name] = float(number) if form is float else number
    return CORRECTIONS[kind](**_fields(options)) if options else kind


def _parts(value: object) -> tuple[str, Mapping[Any, Any]]:
    if isinstance(value, Mapping):
        return str(value.get("kind", "none")), {name: one for name, one in value.items() if name != "kind"}
    kind, _, rest = str(value).partition(":")
    pairs = (part.strip().partition("=") for part in rest.split(",") if part.strip())
    return kind.strip(), {name.strip(): one.strip() if equals else True for name, equals, one in pairs}


def _number(text: str, form: type) -> Any:
    """Return what a word of the command line stands for; the word itself where it is none."""
    if form is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if form is int else float(text)
    except ValueError:
        return text


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the record: the half-width in one of its ways, and the rule for several sets of coins."""
    widths = [name for name in _WIDTHS if name in given]
    if len(widths) > 1:
        raise InputError(f"correction.{widths[1]}", f"none, beside {widths[0]}", "both", "choose one of the two")
    fields = {name: value for name, value in given.items() if name not in _WIDTHS}
    if "seeds" in fields:
        fields["seeds"] = 1 if fields["seeds"] == 1 else SeedStable(fields["seeds"])
    records = {"standard_errors": StandardErrors, "scheffe": Scheffe}
    for name in widths:
        fields["half_width"] = records[name](given[name]) if name in records else given[name]
    return fields

"""Measures on outputs by name, made from options as a configuration file gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from miaudit.defences.calibration import Isotonic, Platt, Temperature
from miaudit.defences.label_sets import AdaptiveSet, ConformalSet, SetThreshold, SizedSet
from miaudit.defences.memguard import MemGuard
from miaudit.defences.noise import AdversarialNoise, OutputNoise
from miaudit.defences.outputs import Defence, LabelOnly, Rounding, TopK, TrueLabel
from miaudit.errors import InputError, nearest

_OWN = {"kind", "words", "keeps_label", "randomness"}
_DEFENCES: dict[str, Any] = {
    "true-label": TrueLabel,
    "top-k": TopK,
    "rounding": Rounding,
    "label": LabelOnly,
    "temperature": Temperature,
    "platt": Platt,
    "isotonic": Isotonic,
    "threshold": SetThreshold,
    "sized-set": SizedSet,
    "conformal": ConformalSet,
    "adaptive-set": AdaptiveSet,
    "noise": OutputNoise,
    "adversarial-noise": AdversarialNoise,
    "memguard": MemGuard,
}
DEFENCES: Mapping[str, Any] = MappingProxyType(_DEFENCES)


def register(name: str, measure: Any) -> None:
    """Add a measure of one's own; from then on comparisons and configuration files know it by its name.

    Parameters
    ----------
    measure : a dataclass whose fields besides those of :class:`miaudit.defences.outputs.Defence` are its options
        Each option has a default, from which its type is known: true or false, a whole number or a number.

    Raises
    ------
    InputError
        For a name that is taken, and something that is no such class.

    Examples
    --------
    >>> register("top-k", TopK)
    Traceback (most recent call last):
    miaudit.errors.InputError: name: expected a new name, received 'top-k'; choose another
    """
    if not isinstance(name, str) or not name.strip() or name in _DEFENCES:
        raise InputError("name", "a new name", repr(name), "choose another")
    if not isinstance(measure, type) or not is_dataclass(measure):
        raise InputError("measure", "a dataclass, as the others are", repr(measure)[:60], "see Defence")
    needed = [one.name for one in fields(measure) if one.default is MISSING and one.init]
    lacking = [part for part in (*sorted(_OWN), "fit") if not hasattr(measure, part)]
    if needed or lacking:
        received = f"{measure.__name__} without a default of {needed[0]}" if needed else f"one without {lacking[0]}"
        raise InputError("measure", "a Defence whose options have defaults", received, "add it")
    _DEFENCES[name] = measure


def make(name: str, options: Mapping[str, Any] | None = None) -> Defence:
    """Make a measure.

    Raises
    ------
    InputError
        For a name or an option that is not known, and a value of the wrong type or outside its range.

    Examples
    --------
    >>> make("top-k", {"k": 2})
    TopK(k=2, kind='confidence-vector')
    >>> make("topk")
    Traceback (most recent call last):
    miaudit.errors.InputError: defences: expected one of ..., received 'topk'; did you mean top-k?
    """
    if name not in DEFENCES:
        hint = nearest(str(name), DEFENCES) or "choose one"
        raise InputError("defences", f"one of {', '.join(DEFENCES)}", repr(name)[:60], hint)
    known = {one.name: one.default for one in fields(DEFENCES[name]) if one.name not in _OWN}
    for option, value in (options or {}).items():
        if option not in known:
            allowed = f"options of {name}: {', '.join(known) or 'none'}"
            hint = nearest(str(option), known) or "remove it"
            raise InputError(f"defences.{name}", allowed, repr(option)[:60], hint)
        wanted = bool if isinstance(known[option], bool) else int if isinstance(known[option], int) else (int, float)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            allowed = "true or false" if wanted is bool else "a whole number" if wanted is int else "a number"
            raise InputError(f"defences.{name}.{option}", allowed, repr(value)[:60], "correct the value")
    try:
        defence: Defence = DEFENCES[name](**(options or {}))
    except InputError as error:
        place = f"defences.{name}.{error.argument}"
        raise InputError(place, error.allowed, error.received, error.next_step) from error
    return defence


def named(name: str, options: Mapping[str, Any] | None = None) -> str:
    """Name a measure with its options, as findings do.

    Examples
    --------
    >>> named("label"), named("threshold", {"threshold": 0.2, "temperature": 0.1})
    ('label', 'threshold(threshold=0.2, temperature=0.1)')
    """
    inside = ", ".join(f"{key}={value}" for key, value in (options or {}).items())
    return f"{name}({inside})" if inside else name

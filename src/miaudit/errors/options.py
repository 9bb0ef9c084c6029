"""Options: what may be chosen, declared where it is used, and refused in the same words everywhere."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from miaudit.errors import InputError, nearest, share
from miaudit.errors.checks import is_whole

__all__ = ["Option", "check_choice", "check_options", "options_of", "without_none"]


@dataclass(frozen=True, eq=False)
class Option:
    """What an option is, beside its name, type and default: ``Annotated[float, Option("Help.", gt=0, lt=1)] = 0.5``.

    It stands at the field of the record, or the parameter of the function, that takes the option; configuration files
    and the command line have it from there.

    Parameters
    ----------
    help : a sentence for whoever chooses a value
    next_step : what to do instead of a value that is refused
    gt, ge, lt, le : limits of a number
    where : a further condition on a number
    choices : words of which one is permitted
    read : what makes the value of what a file or the command line says, where the value is no plain one
    default : as a file or the command line says it; that of the field or parameter, where it is a plain value
    allowed : in words, what is permitted; by default made from the type and the limits
    applies : what has to hold for the option to be read, of :data:`miaudit.config.unread.CIRCUMSTANCES`, such as
        "zero-run" or "bounds"; a file or command line that states the option where it does not hold is refused
    percent : whether a file or the command line may write the number with a %, as 5%; a number of at most 1 always may
    """

    help: str = ""
    next_step: str = "correct the value"
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    where: Callable[[Any], bool] | None = None
    choices: Collection[str] | None = None
    read: Callable[[Any], Any] | None = None
    default: Any = None
    allowed: str = ""
    applies: tuple[str, ...] = ()
    percent: bool = False

    def is_share(self, kind: Any) -> bool:
        """Whether 5% may be written for 0.05."""
        largest = self.le if self.lt is None else self.lt
        return kind is float and (self.percent or (largest is not None and largest <= 1))

    def permits(self, kind: Any, value: Any) -> bool:
        """Whether a value of a type is permitted; what no plain type describes always is."""
        words = self.words_of(kind)
        if words is not None:
            plain = kind is str or get_origin(kind) is Literal  # else a record may stand in the place of a word
            return value in words if isinstance(value, str) else not plain
        if kind is bool:
            return isinstance(value, bool)
        if kind not in (int, float):
            return True
        if not (is_whole(value) if kind is int else isinstance(value, numbers.Real) and not isinstance(value, bool)):
            return False
        return (
            -math.inf < value < math.inf  # of whole numbers of any length too
            and (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
            and (self.where is None or self.where(value))
        )

    def refusal(self, name: str, kind: Any, value: Any) -> InputError:
        """Return the error for a value that is not permitted."""
        received = repr(value)[:60] if isinstance(value, str) else f"{value}"[:60]
        if isinstance(value, bool) and kind in (int, float):
            return InputError(name, "a number", received.lower(), "write the number itself")
        words = self.words_of(kind)
        hint = "" if words is None else nearest(str(value), words)
        if self.is_share(kind) and not isinstance(value, bool):
            intended = share.meant(value)
            hint = intended if intended and self.permits(kind, float(value) / 100) else ""
        return InputError(name, self.allowed or self.range_of(kind), received, hint or self.next_step)

    def range_of(self, kind: Any) -> str:
        """Say in words what is permitted of a type."""
        words = self.words_of(kind)
        if words is not None:
            return " or ".join(words) if len(words) == 2 else ", ".join(words)
        if kind is bool:
            return "true or false"
        low, high = self.ge if self.gt is None else self.gt, self.le if self.lt is None else self.lt
        if kind is int:
            return f"{low} or more" if high is None else f"{low} to {high}"
        if low is None or high is None:
            return (
                "a finite number" if low is None else "a positive number" if self.gt == 0 else f"a number from {low} up"
            )
        return f"a number in {'[' if self.gt is None else '('}{low:g}, {high:g}{']' if self.lt is None else ')'}"

    def words_of(self, kind: Any) -> Collection[str] | None:
        """Return the words of which one is permitted; None where it is no matter of words."""
        return get_args(kind) if self.choices is None and get_origin(kind) is Literal else self.choices


def check_choice(name: str, value: object, allowed: Collection[str], next_step: str = "choose one") -> None:
    """Refuse what is none of the words; the nearest one is suggested, if one is near.

    Examples
    --------
    >>> check_choice("variance", "globl", ("record", "global"))
    Traceback (most recent call last):
    miaudit.errors.InputError: variance: expected record or global, received 'globl'; did you mean global?
    """
    if value not in allowed:
        raise InputError(name, " or ".join(allowed), repr(value), nearest(str(value), allowed) or next_step)


@functools.cache
def options_of(source: Callable[..., Any]) -> dict[str, tuple[Any, Option]]:
    """Return the options of a record or a function by name, in their order, each after its type.

    Examples
    --------
    >>> def flip(times: Annotated[int, Option("How often.", ge=1)] = 3) -> None: ...
    >>> kind, option = options_of(flip)["times"]
    >>> kind.__name__, option.help
    ('int', 'How often.')
    """
    hints = get_type_hints(source, include_extras=True)
    found = {}
    for name in inspect.signature(source).parameters:
        if get_origin(hints.get(name)) is Annotated:
            kind, *notes = get_args(hints[name])
            option = next((note for note in notes if isinstance(note, Option)), None)
            if option is not None:
                found[name] = kind, option
    return found


def without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, if it is one other type beside it, and whether None was there."""
    inside = get_args(kind)
    rest = [one for one in inside if one is not type(None)]
    return (rest[0], True) if len(rest) == 1 and len(inside) == 2 else (kind, type(None) in inside)


def check_options(record: Any, section: str = "") -> None:
    """Check the fields of a record that are options; ``section`` goes before their names.

    Raises
    ------
    InputError
        For the first value that is not permitted.
    """
    made: Callable[..., Any] = type(record)
    for name, (whole, said) in options_of(made).items():
        value, option, (kind, optional) = getattr(record, name), said, without_none(whole)
        if optional and value is None:
            continue
        if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Annotated:  # each has limits of its own
            kind, option, *_ = get_args(get_args(kind)[0])
        for one in value if isinstance(value, tuple) else (value,):
            if not option.permits(kind, one):
                raise option.refusal(f"{section}{name}", kind, one)

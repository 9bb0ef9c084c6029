"""Errors that a user can act on, and what may be chosen: options and names, refused in the same words everywhere."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import json
import logging
import math
import numbers
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import numpy as np

__all__ = ["ConfigError", "DesignError", "InputError", "MiauditError", "OutputError"]

T = TypeVar("T")


class MiauditError(Exception):
    """The root of every error that miaudit raises on purpose; the command line prints it in one line."""


class InputError(MiauditError):
    """A value that cannot be used.

    Parameters
    ----------
    argument : str
        The name of the argument, column, file or option.
    allowed : str
        What is permitted there.
    received : str
        What came instead.
    next_step : str
        What the user can do about it.

    Examples
    --------
    >>> raise InputError("confidence", "a number in (0, 1)", "95", "write 0.95 for 95%")
    Traceback (most recent call last):
    miaudit.errors.InputError: confidence: expected a number in (0, 1), received 95; write 0.95 for 95%
    """

    def __init__(self, argument: str, allowed: str, received: str, next_step: str) -> None:
        self.argument = argument
        self.allowed = allowed
        self.received = received
        self.next_step = next_step
        super().__init__(one_line(f"{argument}: expected {allowed}, received {received}; {next_step}"))

    @classmethod
    def of_array(cls, argument: str, allowed: str, received: Any, next_step: str) -> InputError:
        """Return the error for an array of another type or shape than is allowed."""
        return cls(argument, allowed, f"{received.dtype} of shape {received.shape}", next_step)


class ConfigError(MiauditError):
    """A configuration file with problems: all of them, each with its path in the file."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.problems = tuple(one_line(problem) for problem in problems)
        head = f"{one_line(source)}: "
        if len(self.problems) == 1:
            super().__init__(head + self.problems[0])
        else:
            super().__init__(head + f"{len(self.problems)} problems\n" + "\n".join(f"  {p}" for p in self.problems))


class DesignError(MiauditError):
    """Evidence whose design does not support the question; the message names the function that does."""


class OutputError(MiauditError):
    """Results cannot be written where they were asked for; nothing was changed."""


def one_line(text: str) -> str:
    """Fold a message into a single printable line, so that text from a file cannot forge further lines."""
    return " ".join("".join(ch if ch.isprintable() or ch.isspace() else "?" for ch in text).split())


def printable(text: str) -> str:
    """Keep the lines of a text, without what steers a terminal: escape characters come out of names of files too."""
    return "".join(ch if ch.isprintable() or ch in "\n\t" else "?" for ch in text)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number: true and false are none, though Python counts with them."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is nearest to a misspelt one, or nothing.

    Examples
    --------
    >>> nearest("fpr_target", ["fpr_targets", "type"])
    'did you mean fpr_targets?'
    >>> nearest("zzz", ["fpr_targets"])
    ''
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""


EXTRAS = {
    "dp": ("dp_accounting",),
    "torch": ("torch", "safetensors"),
    "text": ("torch", "safetensors", "transformers"),
    "synthesis": ("torch", "safetensors", "networkx", "opendp"),
    "onnx": ("onnxruntime",),
    "mlflow": ("mlflow",),
    "ray": ("ray",),
}  # the modules that the extras of an installation cannot do without


def missing_modules(extras: Iterable[str]) -> list[str]:
    """Return the modules of some extras that are not installed, without importing any."""

    def is_there(module: str) -> bool:
        with contextlib.suppress(ImportError, ValueError):
            return find_spec(module) is not None
        return False

    modules = dict.fromkeys(module for extra in extras for module in EXTRAS[extra])
    return [module for module in modules if not is_there(module)]


def pip_line(*extras: str) -> str:
    """Return the line that adds extras to this installation, which may come from an index, a folder or a wheel.

    Examples
    --------
    >>> pip_line("dp", "ray").rpartition("[")[2]
    "dp,ray]'"
    """
    origin = "miaudit"
    metadata = import_module("importlib.metadata")  # loaded where something is missing
    with contextlib.suppress(metadata.PackageNotFoundError):
        told = metadata.distribution("miaudit").read_text("direct_url.json") or "{}"
        url = urlsplit(json.loads(told).get("url", ""))
        origin = unquote(url.path) if url.scheme == "file" else origin
    smaller = " (without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu: 1.6 GB in place of 6)"
    networks = any("torch" in EXTRAS[extra] for extra in extras)
    return f"pip install '{origin}[{','.join(extras)}]'{smaller if networks else ''}"


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


def check_generator(rng: np.random.Generator | None) -> np.random.Generator:
    """Return a generator, or refuse what is none: a seed is enough for ``miaudit.audit`` and ``audit_model`` alone.

    Examples
    --------
    >>> check_generator(0)  # type: ignore[arg-type]
    Traceback (most recent call last):
    miaudit.errors.InputError: rng: expected a numpy.random.Generator, received 0; pass rng=numpy.random.default_rng(0)
    """
    if not (hasattr(rng, "spawn") and hasattr(rng, "permutation")):
        given: object = rng
        seed = given if is_whole(given) and given >= 0 else "seed"
        received, hint = repr(rng)[:60], f"pass rng=numpy.random.default_rng({seed})"
        raise InputError("rng", "a numpy.random.Generator", received, hint)
    return rng  # type: ignore[return-value]


def check_confidence(confidence: object) -> float:
    """Return a confidence, or refuse one outside (0, 1)."""
    allowed, hint = "a number strictly between 0 and 1", "0.95 is usual"
    number = finite("confidence", confidence, allowed, hint)
    if not 0 < number < 1:
        raise InputError("confidence", allowed, repr(confidence), hint)
    return number


def check_delta(delta: object) -> float:
    """Return a delta, or refuse one outside [0, 1)."""
    allowed, hint = "a number in [0, 1)", "1e-5 is usual, 0 is pure epsilon"
    number = finite("delta", delta, allowed, hint)
    if not 0 <= number < 1:
        raise InputError("delta", allowed, repr(delta), hint)
    return number


def finite(name: str, value: object, allowed: str, hint: str) -> float:
    """Return a value as a finite number, or refuse it: words, truth values and infinity are none."""
    try:
        number = float(value)  # type: ignore[arg-type]  # refused below if it is none
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, allowed, repr(value), hint) from None
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(name, allowed, repr(value), hint)
    return number


# -- names that installed packages add to ---------------------------------------------------------------------------


def on_demand(
    package: str, names: Collection[str], homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are loaded when they are first asked for.

    Parameters
    ----------
    package : its name
    names : all that it offers: modules in it, and what ``homes`` names
    homes : the module in the package of each name that is no module
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = (homes or {}).get(name)
        if home is None:
            return import_module(f"{package}.{name}")
        found = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: list(names)


class Offered(Mapping[str, T], Generic[T]):
    """Things of one kind by name: those that are built in, then those of installed packages, loaded when asked for.

    A package declares what it adds as entry points. Nothing of it is imported before its name is asked for, and a name
    that is built in stays what it is: a package that offers it again is refused, and the log says so.

    Parameters
    ----------
    group : of the entry points, such as "miaudit.attacks"
    kind : type of what an entry point has to lead to
    built_in : by name; may grow

    Examples
    --------
    >>> numbers = Offered("miaudit.numbers", int, {"one": 1})
    >>> numbers["one"], "two" in numbers
    (1, False)
    >>> numbers.named("oen", "number")
    Traceback (most recent call last):
    miaudit.errors.InputError: number: expected one of one, received 'oen'; did you mean one?
    """

    def __init__(self, group: str, kind: type[Any], built_in: Mapping[str, T]) -> None:
        self._group, self._kind, self._built_in = group, kind, built_in
        self._path: tuple[str, ...] = ()
        self._entries: dict[str, EntryPoint] = {}
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        added = self._added()
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(added[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._built_in or name in self._added())

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._built_in, *self._added()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    __eq__, __hash__ = object.__eq__, object.__hash__  # those of a mapping would load everything

    def loaded(self) -> dict[str, T]:
        """Return what is built in, and what was asked for and is still installed."""
        self._added()
        return {**self._built_in, **self._loaded}

    def named(self, name: str, argument: str) -> T:
        """Return what is meant, or raise an InputError about the argument that lists the names there are."""
        if name not in self:
            hint = nearest(str(name), self) or "choose one"
            raise InputError(argument, f"one of {', '.join(self)}", repr(name), hint)
        return self[name]

    def _added(self) -> dict[str, EntryPoint]:
        """Entry points by name, read again where the search path of modules has changed."""
        if self._path != tuple(sys.path):
            from importlib.metadata import entry_points  # noqa: PLC0415 - most programs ask for no name

            self._path, self._entries, self._loaded = tuple(sys.path), {}, {}
            for entry in entry_points(group=self._group):
                other = self._entries.get(entry.name, entry)
                if entry.name not in self._built_in and other == entry:
                    self._entries[entry.name] = entry
                    continue
                whose = "built in" if other == entry else f"taken by {_owner(other)}"
                line = f"{self._group}: {entry.name!r} of {_owner(entry)} is refused: the name is {whose}"
                logging.getLogger("miaudit").warning(one_line(line))
        return self._entries

    def _load(self, entry: EntryPoint) -> Any:
        step = f"repair or uninstall {_owner(entry)}"
        try:
            found = entry.load()
        except (Exception, SystemExit) as error:  # whatever the package raises
            allowed, raised = f"{entry.name} of {_owner(entry)} to load", f"{type(error).__name__}: {str(error)[:200]}"
            raise InputError(self._group, allowed, raised, step) from error
        if not isinstance(found, self._kind) or getattr(found, "name", entry.name) != entry.name:
            allowed = f"{self._kind.__name__} named {entry.name} at {entry.value} of {_owner(entry)}"
            raise InputError(self._group, allowed, repr(found)[:80], step)
        return found


def _owner(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else entry.dist.name

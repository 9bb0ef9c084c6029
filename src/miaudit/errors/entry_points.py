"""Names that installed packages add to: attacks, metrics, targets and others, by entry points."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from miaudit.errors import InputError, nearest, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Offered"]

T = TypeVar("T")


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

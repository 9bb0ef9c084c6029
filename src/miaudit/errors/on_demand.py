"""Packages whose names are loaded when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

__all__ = ["on_demand"]


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

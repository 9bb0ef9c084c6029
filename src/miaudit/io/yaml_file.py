"""YAML from untrusted files as plain values: no objects, no expansion of aliases."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from miaudit.errors import InputError

_LARGEST_FILE = 1_000_000


def read(path: Path, argument: str) -> Any:
    """Return the plain values of a YAML file.

    Parameters
    ----------
    path : an existing file
    argument : what to call it in an error

    Raises
    ------
    InputError
        If it is too large, no YAML, names a program, has an alias or a key twice, or is nested too deeply.
    """
    if path.stat().st_size > _LARGEST_FILE:
        raise InputError(argument, "a file below 1 MB", f"{path.stat().st_size:,} bytes", "this is no configuration")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(argument, "a YAML file", f"{path.name} ({_problem(error)})", "correct that line") from error


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that reads 1e-5 as a number and refuses repeated keys.

    Aliases are refused too: a file of a few lines could mean gigabytes with them, or hold itself.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "an alias (*name); write the value itself", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key if isinstance(key, Hashable) else None)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(  # YAML 1.1 takes 1e-5 and 1.5e3 for text
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _problem(error: BaseException) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)[:120]

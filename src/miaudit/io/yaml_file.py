"""YAML files of strangers: plain values, no objects, no expansion of aliases."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any

from miaudit.errors import InputError
from miaudit.io.tables import existing_file

__all__ = ["read_yaml"]

_LARGEST_YAML = 1_000_000


def read_yaml(path: str | Path, argument: str) -> Any:
    """Return the plain values of a .yaml or .yml file: no objects, no expansion of aliases.

    Parameters
    ----------
    argument : what to call the file in an error

    Raises
    ------
    InputError
        If it is missing, too large, no YAML, names a program, has an alias or a key twice, or is nested too deeply.
    """
    import yaml

    file = existing_file(path, argument, (".yaml", ".yml"))
    if file.stat().st_size > _LARGEST_YAML:
        raise InputError(argument, "a file below 1 MB", f"{file.stat().st_size:,} bytes", "this is no configuration")
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_yaml_loader())  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or (str(error).splitlines() or [type(error).__name__])[0]
        problem = f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)[:120]
        raise InputError(argument, "a YAML file", f"{file.name} ({problem})", "correct that line") from error


@lru_cache
def _yaml_loader() -> Any:
    """Return a safe YAML loader that reads 1e-5 as a number, and yes, no, on, off and dates as texts.

    YAML 1.1 takes NO, as of Norway, for false. YAML 1.2 does not. Repeated keys are refused.

    Aliases are refused too: a file of a few lines could mean gigabytes with them, or hold itself.
    """
    import yaml

    class Loader(yaml.SafeLoader):
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
                    problem = f"the key {key!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
                seen.add(key if isinstance(key, Hashable) else None)
            return super().construct_mapping(node, deep=deep)

    texts = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag not in texts]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    words = re.compile("^(?:true|True|TRUE|false|False|FALSE)$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", words, list("tTfF"))
    Loader.add_implicit_resolver(  # YAML 1.1 takes 1e-5 and 1.5e3 for text
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )
    return Loader

"""The file findings.json of any kind: plain values, their text, and reading them back checked against a schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from miaudit.errors import InputError, one_line

_LARGEST = 200_000_000


@dataclass(frozen=True)
class Drawing:
    """What shows plain values of findings: as a page, and as a cell of a notebook.

    The report stands above the findings, so it says so itself, by :func:`drawn_by`, when it is imported.
    """

    page: Callable[[Mapping[str, Any]], str]
    cell: Callable[[Mapping[str, Any]], str]


_drawings: list[Drawing] = []


def drawn_by(drawing: Drawing) -> None:
    """State what draws findings from now on."""
    _drawings[:] = [drawing]


def drawing() -> Drawing:
    """Return what draws findings."""
    return _drawings[0]


class Filed:
    """Base of frozen dataclasses that fill a findings.json: plain values of their fields, after kind and exit code.

    Attributes
    ----------
    FORMAT : version of the kind's format
    KIND : its name in the file
    DERIVED : properties that are written before the fields
    """

    FORMAT: ClassVar[int] = 1
    KIND: ClassVar[str]
    DERIVED: ClassVar[tuple[str, ...]] = ("exit_code",)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; numbers that are not finite become None."""
        derived = {name: getattr(self, name) for name in self.DERIVED}
        content = {"format": self.FORMAT, "kind": self.KIND, **derived, **asdict(self)}  # type: ignore[call-overload]
        return {name: plain(value) for name, value in content.items()}

    def to_json(self) -> str:
        """Return findings.json as text: equal findings give equal bytes."""
        return to_text(self.to_dict())


def plain(value: Any) -> Any:
    """Return plain values: mappings, lists, text and finite numbers; a number that is not finite becomes None.

    Examples
    --------
    >>> plain({"a": (1, float("inf"))})
    {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):
        return plain(value.item())
    return str(value)


def to_text(content: Mapping[str, Any]) -> str:
    """Write plain values as the text of findings.json."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def parse(path: str | Path) -> dict[str, Any]:
    """Read a findings.json of any kind, unchecked but for being a JSON object of a reasonable size.

    Raises
    ------
    InputError
        If it is missing, too large, or no JSON object.
    """
    from miaudit.io.tables import existing_file

    path = existing_file(path, "findings", (".json",))
    if path.stat().st_size > _LARGEST:
        raise InputError(
            "findings", "a file below 200 MB", f"{path.stat().st_size:,} bytes", "this is no findings.json"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(
            "findings", "a JSON file", f"{path.name} ({one_line(str(error))[:100]})", "write it again"
        ) from error
    if not isinstance(content, dict):
        raise InputError("format", "1", repr(type(content).__name__), "this is no findings.json")
    return content


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a kind: ``name`` of ``name.schema.json`` in this package.

    Examples
    --------
    >>> schema("findings")["type"]
    'object'
    """
    text = resources.files("miaudit.findings").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def check(schema: Mapping[str, Any], content: Any, version: int) -> dict[str, Any]:
    """Check plain values against a JSON schema and the version of their format, and return them.

    Raises
    ------
    InputError
        With the place that does not follow the schema.
    """
    import jsonschema

    if not isinstance(content, dict) or content.get("format") != version:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise InputError(
            "format", str(version), repr(found)[:40], "use the version of miaudit that wrote these findings"
        )
    validator = jsonschema.Draft202012Validator(schema)
    error = next(iter(validator.iter_errors(content)), None)
    if error is not None:
        where = "findings" + "".join(f"[{p!r}]" if isinstance(p, str) else f"[{p}]" for p in error.absolute_path)
        raise InputError(where, "what the schema of findings.json says", error.message[:120], "run the audit again")
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")

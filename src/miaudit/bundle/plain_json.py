"""Untrusted JSON, bounded before it is parsed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miaudit.errors import InputError, one_line

LARGEST = 16_000_000
_DEEPEST = 60
# A parsed container takes up to 232 bytes and a value up to about 60, however few bytes stand for them in the file.
_CONTAINERS, _VALUES = 200_000, 1_000_000


def read(path: Path, name: str, *, largest: int = LARGEST, values: int = _VALUES) -> dict[str, Any]:
    """Read a JSON object whose size, number of values and depth are bounded.

    Parameters
    ----------
    path : path
    name : what to call it in an error
    largest : int
        Bytes that it may have.
    values : int
        Commas that may stand in it.

    Raises
    ------
    InputError
        If it is larger, or no JSON object.
    """
    size = path.stat().st_size
    if size > largest:
        raise InputError(name, f"at most {largest:,} bytes", f"{size:,}", "ask for the bundle again")
    return parse(path.read_bytes(), name, values=values)


def parse(content: bytes, name: str, *, values: int = _VALUES) -> dict[str, Any]:
    """Parse a JSON object as :func:`read` does.

    Examples
    --------
    >>> parse(b'{"a": [1, 2]}', "a.json")
    {'a': [1, 2]}
    >>> parse(b"[" * 300_000, "a.json")
    Traceback (most recent call last):
    miaudit.errors.InputError: a.json: expected at most 200,000 lists and objects, received 300,000; ...
    """
    check(content, name, values=values)
    try:
        parsed = json.loads(content.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(name, "JSON", one_line(str(error))[:80], "ask for the bundle again") from error
    if not isinstance(parsed, dict):
        raise InputError(name, "a JSON object", type(parsed).__name__, "ask for the bundle again")
    _check_depth(parsed, name)
    return parsed


def check(content: bytes, name: str, *, values: int = _VALUES, largest: int | None = None) -> None:
    """Refuse JSON that would take too much memory to read."""
    for what, most, size in (
        ("bytes", largest, len(content)),
        ("lists and objects", _CONTAINERS, content.count(b"[") + content.count(b"{")),
        ("values", values, content.count(b",")),
    ):
        if most is not None and size > most:
            raise InputError(name, f"at most {most:,} {what}", f"{size:,}", "ask for a smaller bundle")


def dump(value: Any) -> bytes:
    """Write plain values; equal values give equal bytes."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def listed(content: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list that stands under a key."""
    value = content.get(key)
    if not isinstance(value, list):
        raise InputError(key, "a list", type(value).__name__, "ask for the bundle again")
    return value


def mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object that stands under a key."""
    value = content.get(key)
    if not isinstance(value, dict):
        raise InputError(key, "an object", type(value).__name__, "ask for the bundle again")
    return value


def _check_depth(content: Any, name: str) -> None:
    """Refuse deep nesting before any recursive step."""
    level = [content]
    for _ in range(_DEEPEST):
        below = [item for item in level if isinstance(item, dict | list)]
        level = [inner for item in below for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return
    raise InputError(name, f"at most {_DEEPEST} levels", "more", "ask for the bundle again")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")

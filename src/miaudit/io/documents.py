"""Texts with names and units, one JSON object on each line of a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miaudit.errors import InputError, nearest
from miaudit.io import tables
from miaudit.io.token_records import Limits, Place, check_id, check_label, json_object, numbered_lines

__all__ = ["Document", "digest_of", "read_documents"]

_SUFFIXES = (".jsonl",)


@dataclass(frozen=True)
class Document:
    """A text with its name, and whose it is.

    Attributes
    ----------
    record : its name, of no other document of the file
    text : what it says
    unit : to whom or what it belongs; None where nobody says
    """

    record: str
    text: str
    unit: str | None = None


def digest_of(documents: tuple[Document, ...]) -> str:
    """Return the SHA-256 of documents in their order, in hexadecimal."""
    whole = hashlib.sha256()
    for one in documents:
        whole.update(json.dumps([one.record, one.unit, one.text]).encode() + b"\n")
    return whole.hexdigest()


def read_documents(
    path: str | Path, *, text: str = "text", unit: str | None = None, ids: str | None = None
) -> tuple[Document, ...]:
    """Read texts from a .jsonl file, UTF-8, one JSON object on each line; other keys are passed over.

    Parameters
    ----------
    path : path
    text : key of the text
    unit : key of whose it is, optional
    ids : key of its name, of no other line; default: the number of the line

    Raises
    ------
    InputError
        With the number of the line: no JSON, a key that is missing or no text, a name twice. For an empty file.
    """
    path = tables.existing_file(path, "documents", _SUFFIXES)
    documents, seen = list[Document](), dict[str, int]()
    with path.open("rb") as handle:
        for number, line in numbered_lines(handle, path.name, Limits().line_bytes):
            at = Place(path.name, number)
            content = json_object(line, at)
            name = str(number) if ids is None else _label(content, ids, at)
            check_id(name, at, seen)
            own = None if unit is None else _label(content, unit, at)
            documents.append(Document(name, check_label(_value(content, text, at), "text", at), own))
    if not documents:
        raise InputError("documents", "a text or more", f"none in {path.name}", "write one object on each line")
    return tuple(documents)


def _value(content: dict[str, Any], key: str, at: Place) -> Any:
    if key not in content:
        known = ", ".join(list(content)[:8]) or "none"
        hint = nearest(key, content) or "name the key that is meant (--text, --unit, --ids)"
        at.refuse("keys", repr(key), known, hint)
    return content[key]


def _label(content: dict[str, Any], key: str, at: Place) -> str:
    label = check_label(_value(content, key, at), key[:40] if key != "text" else "id", at)
    if not label.strip() or len(label) > 1000:
        at.refuse(key[:40], "1 to 1,000 characters", f"{len(label):,}", "give each line a name")
    return label

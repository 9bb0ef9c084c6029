"""Answers that a model gave elsewhere, and the texts to compare them with: files of a JSON object on each line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.errors import InputError, nearest
from miaudit.io import tables
from miaudit.io.token_records import (
    SUFFIXES,
    BoolArray,
    IntArray,
    Limits,
    Place,
    check_id,
    check_label,
    check_member,
    json_object,
    numbered_lines,
    unused,
)

__all__ = ["AnswerBatch", "AnswerFile", "KnownTexts", "read_texts"]

_OF_TEXTS = ("text", "id", "unit", "member")
_OF_ANSWERS = ("answer", "text", "prompt", "targets", "id")
_MOST_BYTES = 4 * 2**20  # of the answers that are held at a time


@dataclass(frozen=True, eq=False)
class KnownTexts:
    """Texts that a model was trained on, and texts that it cannot have seen.

    Attributes
    ----------
    ids : n str; of texts without one the number of their line
    member : array (n,) of bool
    text : n str
    unit : n str, or None
    notes : what was not used
    """

    ids: tuple[str, ...]
    member: BoolArray
    text: tuple[str, ...]
    unit: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AnswerBatch:
    """Some of the answers of a file.

    Attributes
    ----------
    text : m str, what the model wrote, without a prompt that stands before it
    prompt : m str, what it was given; empty where the file does not say
    lines : array (m,), number of each answer's line
    targets : array (k, 2), pairs of an answer (its row here) and a text that it is compared with; None for all texts
    read, size : bytes that were read so far, and of the whole file
    """

    text: tuple[str, ...]
    prompt: tuple[str, ...]
    lines: IntArray
    targets: IntArray | None
    read: int
    size: int


def read_texts(texts: str | Path, controls: str | Path) -> KnownTexts:
    """Read private texts and controls: on each line an object with ``text``, and optionally ``id`` and ``unit``.

    Parameters
    ----------
    texts : .jsonl file of texts that the model was trained on
    controls : .jsonl file of texts that it cannot have seen

    Raises
    ------
    InputError
        With the number of the line: no JSON, no text, an id that a line before has, or a ``member`` that contradicts
        the file; where only some texts have a unit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("private", "public"):
    ...         _ = Path(f"{folder}/{name}.jsonl").write_text(f'{{"text": "a {name} text"}}')
    ...     read_texts(f"{folder}/private.jsonl", f"{folder}/public.jsonl").text
    ('a private text', 'a public text')
    """
    ids: list[str] = []
    member: list[bool] = []
    text: list[str] = []
    unit: list[str] = []
    notes: list[str] = []
    for argument, file, inside in (("texts", texts, True), ("controls", controls, False)):
        seen: dict[str, int] = {}
        ignored: dict[str, int] = {}
        for at, content in _objects(file, argument):
            _check_keys(content, _OF_TEXTS, ("text",), at, ignored)
            if "member" in content and check_member(content["member"], at) != inside:
                kind = "texts that were trained on" if inside else "texts that were not trained on"
                at.refuse("member", f"{kind}, as --{argument} says", repr(content["member"]), "move it to the other")
            name = check_label(content["id"], "id", at) if "id" in content else f"line {at.number}"
            check_id(name, at, seen)
            if len(unit) != len(ids) * ("unit" in content):
                at.refuse("unit", "one of every text, or of none", "of some", "say whom each text belongs to")
            unit += [check_label(content["unit"], "unit", at)] if "unit" in content else []
            ids.append(name)
            member.append(inside)
            text.append(check_label(content["text"], "text", at))
        if not seen:
            raise _nothing(argument, file)
        notes += unused(ignored, f"line of {Path(file).name},")
    return KnownTexts(tuple(ids), np.array(member), tuple(text), tuple(unit) or None, tuple(notes))


class AnswerFile:
    """A file of answers, read a part at a time: on each line ``answer`` (or ``text``), and what else is known of it.

    ``prompt`` is what the model was given: it may stand before the answer, and is then cut off. ``targets`` are the ids
    of the texts that an answer is compared with, on every line or on none.

    Parameters
    ----------
    path : .jsonl file
    texts : what the answers are compared with

    Attributes
    ----------
    notes : what was not used, once all is read
    """

    def __init__(self, path: str | Path, texts: KnownTexts) -> None:
        self.path = tables.existing_file(path, "generations", SUFFIXES)
        self._numbers: dict[str, int] = {}
        self._twice: set[str] = set()
        for i, name in enumerate(texts.ids):
            if self._numbers.setdefault(name, i) != i:
                self._twice.add(name)
        self._ignored: dict[str, int] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not used."""
        return unused(self._ignored, "line")

    def batches(self) -> Iterator[AnswerBatch]:
        """Yield the answers, some megabytes at a time.

        Raises
        ------
        InputError
            With the number of the line: no JSON, no answer, or targets that no text has; where there is no answer.
        """
        size, read, targeted = self.path.stat().st_size, 0, None
        text: list[str] = []
        prompt: list[str] = []
        lines: list[int] = []
        pairs: list[tuple[int, int]] = []
        held = 0
        for at, content in _objects(self.path, "generations"):
            key = "answer" if "answer" in content else "text"
            _check_keys(content, _OF_ANSWERS, (key,) if key in content else ("answer",), at, self._ignored)
            answer, question = content[key], content.get("prompt") or ""
            if not isinstance(answer, str) or not isinstance(question, str):
                name, value = (key, answer) if not isinstance(answer, str) else ("prompt", question)
                at.refuse(name, "text", type(value).__name__, "write a string")
            if targeted is None:
                targeted = "targets" in content
            if targeted:
                pairs += [(len(text), self._number(name, at)) for name in self._targets(content, at)]
            elif "targets" in content:
                at.refuse("targets", "on every line, or on none", "on some", "name the texts of each answer")
            text.append(_continuation(answer, question))
            prompt.append(question)
            lines.append(at.number)
            held += len(answer) + len(question)
            if held > _MOST_BYTES:
                read = min(size, read + held)
                yield _batch(text, prompt, lines, pairs if targeted else None, read, size)
                text, prompt, lines, pairs, held = [], [], [], [], 0
        if targeted is None:
            raise _nothing("generations", self.path)
        if text:
            yield _batch(text, prompt, lines, pairs if targeted else None, size, size)

    def _targets(self, content: Mapping[str, Any], at: Place) -> list[Any]:
        names = content.get("targets")
        if not isinstance(names, list) or not names:
            received = "none" if names in (None, []) else type(names).__name__
            at.refuse("targets", "a list of ids of texts, on every line or on none", received, "name one or more")
        return names

    def _number(self, name: Any, at: Place) -> int:
        label = check_label(name, "targets", at)
        if label not in self._numbers or label in self._twice:
            received = f"{label[:40]!r}, which {'a text and a control have' if label in self._twice else 'none has'}"
            at.refuse("targets", "ids of texts or controls", received, "give each text an id of its own")
        return self._numbers[label]


def _batch(
    text: list[str], prompt: list[str], lines: list[int], pairs: list[tuple[int, int]] | None, read: int, size: int
) -> AnswerBatch:
    targets = None if pairs is None else np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return AnswerBatch(tuple(text), tuple(prompt), np.array(lines, dtype=np.int64), targets, read, size)


def _continuation(answer: str, prompt: str) -> str:
    """Return an answer without the prompt that it begins with."""
    begins = prompt.strip()
    bare = answer.lstrip()
    return bare[len(begins) :] if begins and bare.startswith(begins) else answer


def _objects(file: str | Path, argument: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the object of each line that is not blank."""
    path = tables.existing_file(file, argument, SUFFIXES)
    try:
        with path.open("rb") as handle:
            for number, line in numbered_lines(handle, path.name, Limits().line_bytes):
                at = Place(path.name, number)
                yield at, json_object(line, at)
    except OSError as error:
        raise InputError(argument, "a readable file", f"{path.name} ({error.strerror})", "check it") from error


def _check_keys(
    content: Mapping[str, Any], known: tuple[str, ...], required: tuple[str, ...], at: Place, ignored: dict[str, int]
) -> None:
    """Refuse keys that are missing or look misspelt; remember those that nothing reads."""
    for name in content:
        if name not in known and name[:40] not in ignored:
            hint = nearest(name, [one for one in known if one not in content])
            if hint:
                at.refuse("keys", ", ".join(known), repr(name[:40]), hint)
            ignored[name[:40]] = at.number
    for name in required:
        if name not in content:
            other = " or text" if name == "answer" else ""
            at.refuse("keys", f"{name}{other}", f"none named {name}{other}", f"write {name} on every line")


def _nothing(argument: str, file: str | Path) -> InputError:
    return InputError(argument, "a line or more", f"none in {Path(file).name}", "write one object on each line")

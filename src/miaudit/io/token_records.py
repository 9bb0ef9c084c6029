"""Texts of known membership with the log-probabilities that a model gives to their tokens: the file and its record.

Texts differ in length, so all tokens lie in one flat array: record i owns ``log_p[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.io import declared_kind, tables
from miaudit.io.server_answers import SENTINEL, ServerAnswers

__all__ = ["Limits", "TokenRecords", "read_jsonl", "write_jsonl"]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SUFFIXES = (".jsonl",)
# Softmax in half precision may round a probability slightly above 1.
ROUNDING = 1e-3
LARGEST = 1e6
_REQUIRED = ("id", "member", "logprobs")
# Keys of the file and where their numbers stand in the record: one for each token, or as many as they like.
EACH = {
    "mean": "mean",
    "std": "std",
    "top1": "top1",
    "tokens": "tokens",
    "prefixed_logprobs": "prefixed_log_p",
    "frequency_logprobs": "frequency_log_p",
}
OWN = {"reference_logprobs": "reference", "neighbour_logprobs": "neighbour"}
ARRAYS, LABELS = ("logprobs", *EACH, *OWN), ("text", "unit", "group")
_NUMBERS = ("times", "same_tokens", "windows")
_OPTIONAL = (*ARRAYS[1:], *LABELS, *_NUMBERS)
_OF_MODEL = frozenset({"logprobs", "prefixed_logprobs", *OWN})  # where a server may have stood in for minus infinity
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_WHOLE = {"top1": 1, "tokens": 2**31 - 1}  # their largest value; all are whole numbers from 0


@dataclass(frozen=True)
class Limits:
    """Limits on a file of token log-probabilities: bytes of a line, records, tokens of all records."""

    line_bytes: int = 16 * 2**20
    records: int = 1_000_000
    tokens: int = 50_000_000


@dataclass(frozen=True, eq=False)
class TokenRecords:
    """Texts of known membership with the log-probabilities of their tokens, without a model.

    Attributes
    ----------
    ids : n str, all different
    member : array (n,) of bool
    log_p, offsets : arrays (tokens,) and (n + 1,)
    mean, std : arrays (tokens,), or None: of log p under the model's own distribution at each position
    top1 : array (tokens,) of bool, or None: whether the token was the likeliest of all
    tokens : array (tokens,), or None: the token's number in the vocabulary
    prefixed_log_p : array (tokens,), or None: log p where other texts stand before the text
    frequency_log_p : array (tokens,), or None: logarithm of the token's share of a large corpus
    reference_log_p, reference_offsets : log p of a reference model, or None
    same_tokens : array (n,) of bool, or None: whether the reference model cuts the text into the same tokens, by number
    neighbour_log_p, neighbour_offsets : mean log p of texts that resemble each record, or None
    times : array (n,), or None: how often each text stood in the training data, 0 for others
    windows : array (n,), or None: in how many overlapping windows of the model's context each text was scored
    text, unit, group : n str, or None
    notes : what the reader left out
    """

    ids: tuple[str, ...]
    member: BoolArray
    log_p: FloatArray
    offsets: IntArray
    mean: FloatArray | None = None
    std: FloatArray | None = None
    top1: BoolArray | None = None
    tokens: IntArray | None = None
    prefixed_log_p: FloatArray | None = None
    frequency_log_p: FloatArray | None = None
    reference_log_p: FloatArray | None = None
    reference_offsets: IntArray | None = None
    neighbour_log_p: FloatArray | None = None
    neighbour_offsets: IntArray | None = None
    times: IntArray | None = None
    same_tokens: BoolArray | None = None
    windows: IntArray | None = None
    text: tuple[str, ...] | None = None
    unit: tuple[str, ...] | None = None
    group: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def read_jsonl(path: str | Path, *, limits: Limits | None = None) -> TokenRecords:
    """Read token log-probabilities: one JSON object on each line.

    Every object has ``id`` (text or whole number, unique), ``member`` (true or false) and ``logprobs`` (numbers at most
    0, in nats). Optional, but then on every line: ``mean`` and ``std`` (as many numbers, for min-k%++), ``top1`` (true
    where the token was the likeliest), ``tokens`` (their numbers), ``prefixed_logprobs`` and ``frequency_logprobs`` (as
    many), ``reference_logprobs`` (of a reference model, maybe of another length), ``same_tokens`` (whether it cuts the
    text into the same tokens), ``neighbour_logprobs`` (a number for each text that resembles it), ``times`` (how often
    it was trained on), ``windows`` (in how many windows of the model's context it was scored), ``text`` (for the
    zlib ratio, and as the covariate of zero-run audits), ``unit`` and ``group``.
    Blank lines are passed over; other keys are too, and said, unless they look like a misspelt one. In place of
    ``logprobs`` a line may hold what a server answered (:mod:`miaudit.io.server_answers`).

    Parameters
    ----------
    path : path of a .jsonl file, UTF-8
    limits : Limits, optional

    Raises
    ------
    InputError
        With the number of the line: no JSON, NaN or infinity, missing, doubled or inconsistent keys, beyond the limits.
    """
    path = tables.existing_file(path, "token-logprobs", SUFFIXES)
    limits = limits or Limits()
    try:
        with path.open("rb") as handle:
            return of_lines(numbered_lines(handle, path.name, limits.line_bytes), path.name, limits)
    except OSError as error:
        raise InputError("token-logprobs", "a readable file", f"{path.name} ({error.strerror})", "check it") from error


def of_lines(lines: Iterable[tuple[int, bytes]], name: str, limits: Limits) -> TokenRecords:
    """Read numbered lines of a file, as :func:`read_jsonl` does."""
    rows: list[_Row] = []
    seen: dict[str, int] = {}
    ignored: dict[str, int] = {}
    answers = ServerAnswers()
    tokens = 0
    for number, line in lines:
        row = _Row.read(line, Place(name, number), ignored, answers)
        if rows:
            _same_keys(row, rows[0])
        check_id(row.id, row.at, seen)
        rows.append(row)
        tokens += max(map(len, row.arrays.values()))
        if len(rows) > limits.records or tokens > limits.tokens:
            check_size(len(rows), tokens, limits, row.at)
    if not rows:
        raise no_records(name)
    return _assembled(rows, ignored, answers.notes)


def write_jsonl(path: str | Path, records: TokenRecords) -> None:
    """Write records for :func:`read_jsonl`, to a temporary name that is then renamed."""

    def write(target: Path) -> None:
        with target.open("w", encoding="utf-8", newline="\n") as handle:
            for i in range(len(records.ids)):
                handle.write(json.dumps(_as_object(records, i), allow_nan=False) + "\n")

    tables.write_atomically(tables.require_suffix(path, "path", SUFFIXES), write)


def _as_object(records: TokenRecords, i: int) -> dict[str, Any]:
    own = slice(records.offsets[i], records.offsets[i + 1])
    row: dict[str, Any] = {"id": records.ids[i], "member": bool(records.member[i])}
    row["logprobs"] = records.log_p[own].tolist()
    for name, field in EACH.items():
        values = getattr(records, field)
        if values is not None:
            row[name] = values[own].tolist()
    for name, field in OWN.items():
        values, offsets = getattr(records, f"{field}_log_p"), getattr(records, f"{field}_offsets")
        if values is not None:
            row[name] = values[offsets[i] : offsets[i + 1]].tolist()
    if records.times is not None:
        row["times"] = int(records.times[i])
    if records.same_tokens is not None:
        row["same_tokens"] = bool(records.same_tokens[i])
    if records.windows is not None:
        row["windows"] = int(records.windows[i])
    for name, labels in (("text", records.text), ("unit", records.unit), ("group", records.group)):
        if labels is not None:
            row[name] = labels[i]
    return row


class Place(NamedTuple):
    """Place in a file, for error messages."""

    file: str
    number: int
    kind: str = "line"

    def refuse(self, what: str, allowed: str, received: str, next_step: str) -> NoReturn:
        raise InputError(f"{self.file}, {self.kind} {self.number}, {what}", allowed, received, next_step)


def check_id(name: str, at: Place, seen: dict[str, int]) -> None:
    """Refuse an id that stands in a place before, and remember it."""
    if name in seen:
        at.refuse("id", "an id of its own", f"{name[:40]!r}, as in {at.kind} {seen[name]}", "rename it")
    seen[name] = at.number


def check_size(records: int, tokens: int, limits: Limits, at: Place) -> None:
    """Refuse more than is allowed."""
    if records > limits.records or tokens > limits.tokens:
        allowed = f"at most {limits.records} records and {limits.tokens} tokens"
        at.refuse("size", allowed, f"{records} and {tokens} so far", "part the file, or raise limits")


def no_records(name: str) -> InputError:
    """Return the error of a file without records."""
    return InputError("token-logprobs", "a record or more", f"none in {name}", "write one object on each line")


@dataclass(frozen=True, eq=False)
class _Row:
    """One line, checked."""

    at: Place
    id: str
    member: bool
    arrays: Mapping[str, FloatArray]
    labels: Mapping[str, str]
    times: int | None
    same_tokens: bool | None
    windows: int | None

    @property
    def keys(self) -> frozenset[str]:
        own = {name for name in _NUMBERS if getattr(self, name) is not None}
        return frozenset(self.arrays) | frozenset(self.labels) | own

    @classmethod
    def read(cls, line: bytes, at: Place, ignored: dict[str, int], answers: ServerAnswers) -> _Row:
        content = answers.plain(json_object(line, at), at.number, at.refuse)
        check_keys(content, at, ignored)
        member = check_member(content["member"], at)
        arrays = {name: _array(content[name], name, at) for name in ARRAYS if name in content}
        for name, values in arrays.items():
            if name in EACH:
                check_length(name, len(values), len(arrays["logprobs"]), at)
        labels = {name: check_label(content[name], name, at) for name in LABELS if name in content}
        times = check_times(content["times"], member, at) if "times" in content else None
        same = None
        if "same_tokens" in content:
            reference = len(arrays.get("reference_logprobs", ()))
            same = check_same_tokens(content["same_tokens"], reference, len(arrays["logprobs"]), at)
        windows = check_windows(content["windows"], at) if "windows" in content else None
        return cls(at, check_label(content["id"], "id", at), member, arrays, labels, times, same, windows)


def check_keys(names: Iterable[str], at: Place, ignored: dict[str, int]) -> None:
    """Refuse keys, or columns, that are missing or look misspelt; remember those that nothing reads."""
    present, known = list(names), (*_REQUIRED, *_OPTIONAL)
    for name in present:
        if name not in known:
            hint = nearest(name, [one for one in known if one not in present])
            if hint:
                at.refuse("keys", ", ".join(known), repr(name[:40]), hint)
            ignored.setdefault(name[:40], at.number)
    for name in _REQUIRED:
        if name not in present:
            at.refuse("keys", ", ".join(_REQUIRED), f"none named {name}", "write all three on every line")
    if ("mean" in present) != ("std" in present):
        at.refuse("keys", "mean and std, or neither", "one of the two", "min-k%++ needs both")


def check_member(value: Any, at: Place) -> bool:
    """Return whether a text was trained on, or refuse what says neither."""
    if not (isinstance(value, bool) or (type(value) is int and value in (0, 1))):
        at.refuse("member", "true or false", repr(value)[:40], "code members as true, non-members as false")
    return bool(value)


def numbered_lines(handle: BinaryIO, name: str, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank lines with their numbers; reads no more of a line than is allowed."""
    number = 0
    while line := handle.readline(most + 1):
        number += 1
        if len(line) > most:
            Place(name, number).refuse("size", f"at most {most} bytes", "more", "part long texts, or raise limits")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield number, line


def json_object(line: bytes, at: Place) -> dict[str, Any]:
    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(entries)
        if len(content) < len(entries):
            at.refuse("keys", "each key once", "one of them twice", "remove one")
        return content

    def constant(name: str) -> NoReturn:
        at.refuse("numbers", "finite numbers", name, "leave out tokens without a prediction, or drop the record")

    try:
        content = json.loads(line.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except UnicodeDecodeError as error:
        at.refuse("text", "UTF-8", f"byte {error.object[error.start]:#x} at {error.start}", "save the file as UTF-8")
    except RecursionError:
        at.refuse("JSON", "one plain object", "one that is nested too deeply", "write lists of numbers only")
    except ValueError as error:
        at.refuse("JSON", "one object", str(error).splitlines()[0][:80], "write one object on each line")
    if not isinstance(content, dict):
        at.refuse("JSON", "one object", type(content).__name__, 'write {"id": ..., "member": ..., "logprobs": [...]}')
    return content


def _array(values: Any, name: str, at: Place) -> FloatArray:
    if not isinstance(values, list) or not values:
        received = "an empty list" if values == [] else type(values).__name__
        at.refuse(name, "a list of one number or more", received, "drop records without tokens")
    allowed = {float, int, bool} if name == "top1" else {float, int}
    if not set(map(type, values)) <= allowed:
        position, value = next((i, value) for i, value in enumerate(values) if type(value) not in allowed)
        shown = "null" if value is None else type(value).__name__
        at.refuse(name, "numbers", f"{shown} at position {position}", "leave out tokens without a prediction")
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        array = np.array([np.inf])
    wrong = first_wrong(array, name)
    if wrong is not None:
        at.refuse(name, wrong.allowed, f"{wrong.received} at position {wrong.position}", wrong.next_step)
    return array


class Wrong(NamedTuple):
    """A number that is none that a key may have, and where it stands."""

    position: int
    allowed: str
    received: str
    next_step: str


def first_wrong(array: FloatArray, name: str) -> Wrong | None:
    """Return a number of a key (k,) that is not finite or out of its range, if there is one."""
    none = "a probability of 0 has no logarithm"
    if not np.abs(array).max() <= LARGEST:  # NaN too
        position = int(np.argmax(~(np.abs(array) <= LARGEST)))
        received = "NaN" if np.isnan(array[position]) else "a larger one"
        return Wrong(position, f"finite numbers up to {LARGEST:g}", received, none)
    if name in _WHOLE:
        odd = ~((array >= 0) & (array <= _WHOLE[name]) & (array == np.floor(array)))
        if odd.any():
            wanted = "true or false" if name == "top1" else "numbers of tokens, whole and from 0"
            position = int(np.argmax(odd))
            return Wrong(position, wanted, f"{array[position]:g}", "write one for each of logprobs")
    elif name == "std":
        if array.min() < 0:
            position = int(np.argmin(array))
            return Wrong(position, "0 or more", f"{array[position]:.4g}", "it is a standard deviation")
    elif name in _OF_MODEL and array.min() <= SENTINEL and (array == SENTINEL).any():
        received = f"{SENTINEL:g}, a server's word for minus infinity"
        return Wrong(int(np.argmax(array == SENTINEL)), "finite numbers", received, none)
    return None


def first_positive(array: FloatArray, name: str) -> Wrong | None:
    """Return the largest number of a key in the whole file (k,) that is no logarithm of a probability, if there is one.

    All numbers show what they are instead: probabilities, losses or logits.
    """
    if name in _WHOLE or name == "std" or array.max() <= ROUNDING:
        return None
    position = int(np.argmax(array))
    looks, step = declared_kind.in_tokens(array)
    return Wrong(position, declared_kind.TOKENS_ALLOWED, f"{array[position]:.4g}", f"{looks}: {step}")


def check_length(name: str, own: int, wanted: int, at: Place) -> None:
    """Refuse a key that has not as many numbers as there are tokens."""
    if own != wanted:
        at.refuse(name, f"{wanted} numbers, as in logprobs", str(own), "give one for each token")


def check_times(value: Any, member: bool, at: Place) -> int:
    """Return how often a text was trained on, or refuse what contradicts its membership."""
    if type(value) is not int or value < 0 or (value > 0) != member:
        allowed = "a whole number from 1 up for members, 0 for others"
        at.refuse("times", allowed, repr(value)[:40], "say how often the text was trained on")
    return int(value)


def check_windows(value: Any, at: Place) -> int:
    """Return in how many windows a text was scored, or refuse what is no such number."""
    if type(value) is not int or value < 1:
        at.refuse("windows", "a whole number from 1", repr(value)[:40], "write 1 for a text within the model's context")
    return int(value)


def check_same_tokens(value: Any, reference: int, own: int, at: Place) -> bool:
    """Return whether a reference model cuts a text into the same tokens, or refuse what their numbers contradict."""
    if not isinstance(value, bool) or not reference or (value and reference != own):
        allowed = "true or false, and true only for as many reference_logprobs as logprobs"
        at.refuse("same_tokens", allowed, repr(value)[:40], "compare the tokens' numbers in both models")
    return value


def check_label(value: Any, name: str, at: Place) -> str:
    """Return a label as text, or refuse what is none."""
    if name != "text" and type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        at.refuse(name, "text" if name == "text" else "text or a whole number", type(value).__name__, "write a string")
    if _UNREADABLE.search(value):
        at.refuse(name, "text without NUL and half characters", "one of them", "decode it again, or replace it")
    return value


def _same_keys(row: _Row, first: _Row) -> None:
    odd = sorted(row.keys ^ first.keys)
    if odd:
        has = "absent" if odd[0] in first.keys else "given"
        row.at.refuse("keys", f"the keys of line {first.at.number}", f"{odd[0]} {has}", "give it everywhere or nowhere")


def _assembled(rows: Sequence[_Row], ignored: Mapping[str, int], notes: Sequence[str]) -> TokenRecords:
    parts = {name: [row.arrays[name] for row in rows] for name in rows[0].arrays}
    flat = {name: np.concatenate(part) for name, part in parts.items()}
    starts = {name: np.cumsum([0, *map(len, part)], dtype=np.int64) for name, part in parts.items()}
    for name, values in flat.items():
        wrong = first_positive(values, name)
        if wrong is not None:
            row = int(np.searchsorted(starts[name], wrong.position, side="right")) - 1
            received = f"{wrong.received} at position {wrong.position - int(starts[name][row])}"
            rows[row].at.refuse(name, wrong.allowed, received, wrong.next_step)
    labels = {name: tuple(row.labels[name] for row in rows) for name in rows[0].labels}
    times = None if rows[0].times is None else [int(row.times or 0) for row in rows]
    ids, member = tuple(row.id for row in rows), np.array([row.member for row in rows])
    same = None if rows[0].same_tokens is None else [bool(row.same_tokens) for row in rows]
    windows = None if rows[0].windows is None else [int(row.windows or 1) for row in rows]
    return assembled(ids, member, flat, starts, labels, (times, same, windows), (*unused(ignored, "line"), *notes))


def assembled(
    ids: tuple[str, ...],
    member: BoolArray,
    flat: Mapping[str, NDArray[Any]],
    starts: Mapping[str, IntArray],
    labels: Mapping[str, tuple[str, ...]],
    numbers: tuple[Sequence[int] | None, Sequence[bool] | None, Sequence[int] | None],
    notes: tuple[str, ...],
) -> TokenRecords:
    """Make the record of checked columns: numbers of all tokens by key, where each text begins, and labels.

    ``numbers`` are how often each text was trained on, whether a reference model has the same tokens, and in how many
    windows each text was scored.
    """
    times, same, windows = numbers
    optional: dict[str, Any] = {**labels, **{field: flat.get(name) for name, field in EACH.items()}}
    for field, kind in (("top1", np.bool_), ("tokens", np.int64)):
        optional[field] = None if optional[field] is None else optional[field].astype(kind)
    for name, field in OWN.items():
        optional |= {f"{field}_log_p": flat.get(name), f"{field}_offsets": starts.get(name)}
    return TokenRecords(
        ids=ids,
        member=member,
        log_p=flat["logprobs"],
        offsets=starts["logprobs"],
        **optional,
        times=None if times is None else np.array(times, dtype=np.int64),
        same_tokens=None if same is None else np.array(same),
        windows=None if windows is None else np.array(windows, dtype=np.int64),
        notes=(*notes, *_in_windows(windows or ()), *declared_kind.check_tokens(flat["logprobs"], len(ids))),
    )


def _in_windows(windows: Sequence[int]) -> tuple[str, ...]:
    longer = sum(one > 1 for one in windows)
    if not longer:
        return ()
    return (
        f"{longer:,} of {len(windows):,} texts are longer than the model's context. They were scored in overlapping "
        "windows, each token once.",
    )


def unused(ignored: Mapping[str, int], kind: str) -> tuple[str, ...]:
    """Say which keys nothing reads, and where each stood first."""
    shown = ", ".join(f"{name!r} ({kind} {number})" for name, number in list(ignored.items())[:8])
    return (f"Keys that were not used, with the first {kind} of each: {shown}.",) if shown else ()

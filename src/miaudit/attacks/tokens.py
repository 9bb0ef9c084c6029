"""Scores of texts from the log-probabilities that a language model gives to their tokens.

Texts differ in length, so all tokens lie in one flat array: record i owns ``log_p[offsets[i]:offsets[i + 1]]``, natural
logarithms of the probability of each token given those before it. Every score is **higher for members**.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError, nearest
from miaudit.io import tables

__all__ = [
    "ATTACKS",
    "TokenAttack",
    "TokenRecords",
    "loss",
    "member_scores",
    "min_k",
    "min_k_plus_plus",
    "read_jsonl",
    "reference_ratio",
    "write_jsonl",
    "zlib_ratio",
]

SUFFIXES = (".jsonl",)
# A predictive distribution narrower than this is a point mass to a float32 model; the floor keeps z finite and ordered.
STD_FLOOR = 1e-6
# Softmax in half precision may round a probability slightly above 1.
_ROUNDING = 1e-3
_LARGEST = 1e6
_REQUIRED = ("id", "member", "logprobs")
_ARRAYS, _LABELS = ("logprobs", "mean", "std", "reference_logprobs"), ("text", "unit", "group")
_OPTIONAL = (*_ARRAYS[1:], *_LABELS)


# -- scores -----------------------------------------------------------------------------------------------------------


def loss(log_p: ArrayLike, offsets: ArrayLike) -> FloatArray:
    """Return minus the loss: the mean log-probability of the tokens (n,), at most 0; higher for members.

    The loss is the mean negative log-likelihood per token, the logarithm of the perplexity (Yeom et al. 2018).

    Parameters
    ----------
    log_p : array (tokens,), log-probabilities in nats
    offsets : array (n + 1,) of int, rising from 0 to ``tokens``; no record without tokens

    Raises
    ------
    InputError
        For numbers that are no log-probabilities, and offsets that do not part them.

    Examples
    --------
    >>> loss([-1.0, -3.0, -5.0], [0, 2, 3]).tolist()
    [-2.0, -5.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    return _means(values, starts)


def min_k(log_p: ArrayLike, offsets: ArrayLike, *, k: float = 0.2) -> FloatArray:
    """Return Min-k%: the mean log-probability of the least likely tokens (n,), <= 0; higher for members.

    Shi et al., "Detecting Pretraining Data from Large Language Models" (ICLR 2024), Eq. (2). Of a text of L tokens
    floor(k L) count, and one where that is none.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    k : float in (0, 1]

    Examples
    --------
    >>> min_k([-1.0, -3.0, -2.0, -8.0, -5.0], [0, 4, 5], k=0.5).tolist()
    [-5.5, -5.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    return _mean_of_lowest(values, starts, _share(k))


def min_k_plus_plus(
    log_p: ArrayLike, offsets: ArrayLike, mean: ArrayLike, std: ArrayLike, *, k: float = 0.2
) -> FloatArray:
    """Return Min-k%++: the mean of the ``k`` lowest standardised log-probabilities (n,); higher for members.

    z = (log p - mean) / std, where mean and std are of the log-probability of a token that the model itself draws at
    that position (Zhang et al., "Min-K%++", ICLR 2025, Eq. (3)). A std below 1e-6 is taken as 1e-6.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    mean : array (tokens,), sum over the vocabulary of p log p, at most 0
    std : array (tokens,), root of the sum over the vocabulary of p (log p - mean)^2, 0 or more
    k : float in (0, 1]

    Examples
    --------
    >>> min_k_plus_plus([-1.0, -3.0], [0, 2], mean=[-1.0, -1.0], std=[1.0, 0.5], k=0.5).tolist()
    [-4.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    centre, spread = _beside(mean, "mean", values), _beside(std, "std", values)
    if (spread < 0).any():
        raise InputError("std", "0 or more", f"a smallest value of {spread.min():.4g}", "it is a standard deviation")
    return _mean_of_lowest((values - centre) / np.maximum(spread, STD_FLOOR), starts, _share(k))


def zlib_ratio(log_p: ArrayLike, offsets: ArrayLike, compressed: ArrayLike) -> FloatArray:
    """Return minus the loss over the compressed size in bytes (n,), at most 0; higher for members.

    Carlini et al., "Extracting Training Data from Large Language Models" (2021), section 6: the loss (per token)
    against what zlib makes of the text. Texts of unequal length differ in it for their length alone.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    compressed : array (n,), bytes after compression, above 0: :func:`compressed_bytes`

    Examples
    --------
    >>> zlib_ratio([-1.0, -3.0], [0, 2], [8]).tolist()
    [-0.25]
    """
    score = loss(log_p, offsets)
    size = np.asarray(compressed, dtype=np.float64)
    if size.shape != score.shape or not (np.isfinite(size) & (size > 0)).all():
        allowed = f"{len(score)} sizes above 0"
        raise InputError("compressed", allowed, f"shape {size.shape}", "use compressed_bytes(texts)")
    return score / size


def reference_ratio(
    log_p: ArrayLike, offsets: ArrayLike, reference_log_p: ArrayLike, reference_offsets: ArrayLike
) -> FloatArray:
    """Return minus the loss over a reference model's loss (n,), at most 0; higher for members.

    The ratio of log-perplexities of Carlini et al. 2021, section 6. The reference may cut texts into other tokens. It
    must not have been trained on the audited records; what it shares with the model (hard words, a topic) cancels.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`, of the audited model
    reference_log_p, reference_offsets : the same of the reference model

    Raises
    ------
    InputError
        Also if the reference is certain of every token of a text: its loss of 0 divides nothing.

    Examples
    --------
    >>> reference_ratio([-1.0, -3.0], [0, 2], [-4.0], [0, 1]).tolist()
    [-0.5]
    """
    score = loss(log_p, offsets)
    values, starts = _sequences(reference_log_p, reference_offsets, "reference_log_p")
    reference = -_means(values, starts)
    if len(reference) != len(score):
        allowed = f"{len(score)} records"
        raise InputError("reference_offsets", allowed, f"{len(reference)}", "score the same texts by both models")
    if (reference <= 0).any():
        row = int(np.flatnonzero(reference <= 0)[0])
        received = f"{reference[row]:.4g} in record {row}"
        raise InputError("reference_log_p", "losses above 0", received, "drop the record")
    return score / reference


def compressed_bytes(texts: Iterable[str]) -> IntArray:
    """Return the size of each text in bytes (n,) after zlib at its default level; at least 8.

    Builds of zlib differ by a byte now and then: compare sizes from one machine only.

    Examples
    --------
    >>> compressed_bytes(["", "abc " * 100]).tolist()
    [8, 17]
    """
    return np.array([len(zlib.compress(text.encode())) for text in texts], dtype=np.int64)


class TokenAttack(NamedTuple):
    """An attack on texts: function, arrays needed beside log_p and offsets, and whether it takes k."""

    function: Callable[..., FloatArray]
    needs: tuple[str, ...] = ()
    takes_k: bool = False


ATTACKS: Mapping[str, TokenAttack] = MappingProxyType(
    {
        "loss": TokenAttack(loss),
        "min_k": TokenAttack(min_k, takes_k=True),
        "min_k_plus_plus": TokenAttack(min_k_plus_plus, ("mean", "std"), takes_k=True),
        "zlib_ratio": TokenAttack(zlib_ratio, ("text",)),
        "reference_ratio": TokenAttack(reference_ratio, ("reference_log_p", "reference_offsets")),
    }
)


def member_scores(
    *,
    log_p: ArrayLike,
    offsets: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    text: Sequence[str] | None = None,
    reference_log_p: ArrayLike | None = None,
    reference_offsets: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    k: float = 0.2,
) -> dict[str, FloatArray]:
    """Compute scores of texts by name; all are higher for members.

    Parameters
    ----------
    log_p, offsets, mean, std, reference_log_p, reference_offsets : as in the functions above
    text : sequence of n str, for ``zlib_ratio``
    names : iterable of str, from :data:`ATTACKS`
        Default: every score whose needs are given.
    k : float in (0, 1], of ``min_k`` and ``min_k_plus_plus``

    Raises
    ------
    InputError
        For unknown names, a score that needs what is not given, and unusable arrays.

    Examples
    --------
    >>> member_scores(log_p=[-1.0, -3.0], offsets=[0, 1, 2])
    {'loss': array([-1., -3.]), 'min_k': array([-1., -3.])}
    """
    given = {
        "mean": mean,
        "std": std,
        "text": text,
        "reference_log_p": reference_log_p,
        "reference_offsets": reference_offsets,
    }
    able = [name for name, attack in ATTACKS.items() if all(given[need] is not None for need in attack.needs)]
    wanted = able if names is None else list(dict.fromkeys(names))
    if not wanted:
        raise InputError("attack", f"one of {', '.join(ATTACKS)}", "none", "choose one")
    scores = {}
    for name in wanted:
        if name not in ATTACKS:
            hint = nearest(name, ATTACKS) or "choose one"
            raise InputError("attack", f"one of {', '.join(ATTACKS)}", repr(name), hint)
        attack = ATTACKS[name]
        missing = [need for need in attack.needs if given[need] is None]
        if missing:
            raise InputError("attack", f"{', '.join(missing)} for {name}", "none", f"give it, or choose {able[0]}")
        needs = [compressed_bytes(text or ()) if need == "text" else given[need] for need in attack.needs]
        scores[name] = attack.function(log_p, offsets, *needs, **({"k": k} if attack.takes_k else {}))
    return scores


def _means(values: FloatArray, offsets: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, offsets[:-1]) / np.diff(offsets))


def _mean_of_lowest(values: FloatArray, offsets: IntArray, k: float) -> FloatArray:
    """Return the mean of the floor(k L) lowest values (at least one) of each record."""
    lengths = np.diff(offsets)
    result = np.empty(len(lengths))
    order = np.argsort(lengths, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[rows[0]])
        count = max(1, int(k * length + 1e-9))  # 0.29 * 100 is 28.999... in floating point
        block = values[offsets[rows, None] + np.arange(length)]
        block.partition(count - 1, axis=1)
        result[rows] = block[:, :count].mean(axis=1)
    return result


def _sequences(log_p: ArrayLike, offsets: ArrayLike, name: str) -> tuple[FloatArray, IntArray]:
    """Check log-probabilities (tokens,) and offsets (n + 1,), and return them as float64 and int64."""
    values = _flat(log_p, name)
    if len(values) and values.max() > _ROUNDING:
        received = f"a largest value of {values.max():.4g}"
        raise InputError(name, "log-probabilities, at most 0", received, "if these are losses, pass their negatives")
    starts = np.asarray(offsets)
    ordered = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) >= 2
    if not ordered or starts[0] != 0 or starts[-1] != len(values):
        allowed = f"whole numbers (n + 1,) from 0 to {len(values)}, the number of tokens"
        shown = f"{starts[0]} to {starts[-1]}" if ordered else f"{starts.dtype} of shape {starts.shape}"
        raise InputError("offsets", allowed, shown, "record i owns the tokens offsets[i] to offsets[i + 1]")
    starts = starts.astype(np.int64)
    short = np.flatnonzero(np.diff(starts) <= 0)
    if len(short):
        raise InputError("offsets", "a token or more in every record", f"none in record {short[0]}", "drop the record")
    return values, starts


def _flat(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        hint = "join the records, and say where each begins"
        raise InputError.of_array(name, "numbers of shape (tokens,)", array, hint)
    result = array.astype(np.float64)
    bad = ~(np.abs(result) <= _LARGEST)  # NaN fails too
    if bad.any():
        received = f"NaN, infinity or larger, first at token {int(np.argmax(bad))}"
        raise InputError(name, f"finite numbers up to {_LARGEST:g}", received, "leave out tokens without a prediction")
    return result


def _beside(values: ArrayLike, name: str, log_p: FloatArray) -> FloatArray:
    result = _flat(values, name)
    if len(result) != len(log_p):
        raise InputError(name, f"{len(log_p)} values, one for each token", str(len(result)), "check the offsets")
    return result


def _share(k: float) -> float:
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 < k <= 1:
        raise InputError("k", "a share in (0, 1]", repr(k), "write 0.2 for 20%")
    return float(k)


# -- files ------------------------------------------------------------------------------------------------------------


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
    reference_log_p, reference_offsets : the same of a reference model, or None
    text, unit, group : n str, or None
    notes : what the reader left out
    """

    ids: tuple[str, ...]
    member: BoolArray
    log_p: FloatArray
    offsets: IntArray
    mean: FloatArray | None = None
    std: FloatArray | None = None
    reference_log_p: FloatArray | None = None
    reference_offsets: IntArray | None = None
    text: tuple[str, ...] | None = None
    unit: tuple[str, ...] | None = None
    group: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def scores(self, names: Iterable[str] | None = None, *, k: float = 0.2) -> dict[str, FloatArray]:
        """Compute scores by name; default: all that the file has arrays for (:func:`member_scores`)."""
        needs = {need: getattr(self, need) for attack in ATTACKS.values() for need in attack.needs}
        return member_scores(log_p=self.log_p, offsets=self.offsets, **needs, names=names, k=k)


def read_jsonl(path: str | Path, *, limits: Limits | None = None) -> TokenRecords:
    """Read token log-probabilities: one JSON object on each line.

    Every object has ``id`` (text or whole number, unique), ``member`` (true or false) and ``logprobs`` (numbers at most
    0, in nats). Optional, but then on every line: ``mean`` and ``std`` (as many numbers, for min-k%++),
    ``reference_logprobs`` (of a reference model, maybe of another length), ``text`` (for the zlib ratio, and as the
    covariate of zero-run audits), ``unit`` and ``group``. Blank lines are passed over; other keys are too, and said,
    unless they look like a misspelt one.

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
    rows: list[_Row] = []
    seen: dict[str, int] = {}
    ignored: dict[str, int] = {}
    tokens = 0
    try:
        with path.open("rb") as handle:
            for number, line in _lines(handle, path.name, limits.line_bytes):
                row = _Row.read(line, _Line(path.name, number), ignored)
                if rows:
                    _same_keys(row, rows[0])
                if row.id in seen:
                    row.at.refuse("id", "an id of its own", f"{row.id[:40]!r}, as in line {seen[row.id]}", "rename it")
                seen[row.id] = number
                rows.append(row)
                tokens += max(map(len, row.arrays.values()))
                if len(rows) > limits.records or tokens > limits.tokens:
                    allowed = f"at most {limits.records} records and {limits.tokens} tokens"
                    row.at.refuse("size", allowed, f"{len(rows)} and {tokens} so far", "part the file, or raise limits")
    except OSError as error:
        raise InputError("token-logprobs", "a readable file", f"{path.name} ({error.strerror})", "check it") from error
    if not rows:
        raise InputError("token-logprobs", "a record or more", f"none in {path.name}", "write one object on each line")
    return _assembled(rows, ignored)


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
    for name, values in (("mean", records.mean), ("std", records.std)):
        if values is not None:
            row[name] = values[own].tolist()
    if records.reference_log_p is not None and records.reference_offsets is not None:
        low, high = records.reference_offsets[i : i + 2]
        row["reference_logprobs"] = records.reference_log_p[low:high].tolist()
    for name, labels in (("text", records.text), ("unit", records.unit), ("group", records.group)):
        if labels is not None:
            row[name] = labels[i]
    return row


class _Line(NamedTuple):
    """Place in a file, for error messages."""

    file: str
    number: int

    def refuse(self, what: str, allowed: str, received: str, next_step: str) -> NoReturn:
        raise InputError(f"{self.file}, line {self.number}, {what}", allowed, received, next_step)


@dataclass(frozen=True, eq=False)
class _Row:
    """One line, checked."""

    at: _Line
    id: str
    member: bool
    arrays: Mapping[str, FloatArray]
    labels: Mapping[str, str]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.arrays) | frozenset(self.labels)

    @classmethod
    def read(cls, line: bytes, at: _Line, ignored: dict[str, int]) -> _Row:
        content = _object(line, at)
        for name in content:
            if name not in (*_REQUIRED, *_OPTIONAL):
                hint = nearest(name, [known for known in (*_REQUIRED, *_OPTIONAL) if known not in content])
                if hint:
                    at.refuse("keys", ", ".join((*_REQUIRED, *_OPTIONAL)), repr(name[:40]), hint)
                ignored.setdefault(name[:40], at.number)
        for name in _REQUIRED:
            if name not in content:
                at.refuse("keys", ", ".join(_REQUIRED), f"none named {name}", "write all three on every line")
        member = content["member"]
        if not (isinstance(member, bool) or (type(member) is int and member in (0, 1))):
            at.refuse("member", "true or false", repr(member)[:40], "code members as true, non-members as false")
        arrays = {name: _array(content[name], name, at) for name in _ARRAYS if name in content}
        _check_together(arrays, at)
        labels = {name: _label(content[name], name, at) for name in _LABELS if name in content}
        return cls(at, _label(content["id"], "id", at), bool(member), arrays, labels)


def _lines(handle: BinaryIO, name: str, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank lines with their numbers; reads no more of a line than is allowed."""
    number = 0
    while line := handle.readline(most + 1):
        number += 1
        if len(line) > most:
            _Line(name, number).refuse("size", f"at most {most} bytes", "more", "part long texts, or raise limits")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield number, line


def _object(line: bytes, at: _Line) -> dict[str, Any]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(items)
        if len(content) < len(items):
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


def _array(values: Any, name: str, at: _Line) -> FloatArray:
    if not isinstance(values, list) or not values:
        received = "an empty list" if values == [] else type(values).__name__
        at.refuse(name, "a list of one number or more", received, "drop records without tokens")
    for position, value in enumerate(values):
        if type(value) not in (float, int):
            shown = "null" if value is None else type(value).__name__
            at.refuse(name, "numbers", f"{shown} at position {position}", "leave out tokens without a prediction")
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        array = np.array([np.inf])
    bad = ~(np.abs(array) <= _LARGEST)
    if bad.any():
        received = f"a larger one at position {int(np.argmax(bad))}"
        at.refuse(name, f"finite numbers up to {_LARGEST:g}", received, "a probability of 0 has no logarithm")
    if name == "std" and array.min() < 0:
        at.refuse(name, "0 or more", f"{array.min():.4g}", "it is a standard deviation")
    if name != "std" and array.max() > _ROUNDING:
        at.refuse(name, "logarithms of probabilities, at most 0", f"{array.max():.4g}", "negate losses")
    return array


def _check_together(arrays: Mapping[str, FloatArray], at: _Line) -> None:
    if ("mean" in arrays) != ("std" in arrays):
        at.refuse("keys", "mean and std, or neither", "one of the two", "min-k%++ needs both")
    for name in ("mean", "std"):
        if name in arrays and len(arrays[name]) != len(arrays["logprobs"]):
            own, wanted = len(arrays[name]), len(arrays["logprobs"])
            at.refuse(name, f"{wanted} numbers, as in logprobs", str(own), "give one for each token")


def _label(value: Any, name: str, at: _Line) -> str:
    if name != "text" and type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        at.refuse(name, "text" if name == "text" else "text or a whole number", type(value).__name__, "write a string")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        at.refuse(name, "text without NUL and half characters", "one of them", "decode it again, or replace it")
    return value


def _same_keys(row: _Row, first: _Row) -> None:
    odd = sorted(row.keys ^ first.keys)
    if odd:
        has = "absent" if odd[0] in first.keys else "given"
        row.at.refuse("keys", f"the keys of line {first.at.number}", f"{odd[0]} {has}", "give it everywhere or nowhere")


def _assembled(rows: Sequence[_Row], ignored: Mapping[str, int]) -> TokenRecords:
    parts = {name: [row.arrays[name] for row in rows] for name in rows[0].arrays}
    flat = {name: np.concatenate(part) for name, part in parts.items()}
    starts = {name: np.cumsum([0, *map(len, part)], dtype=np.int64) for name, part in parts.items()}
    shown = ", ".join(f"{name!r} (line {number})" for name, number in list(ignored.items())[:8])
    return TokenRecords(
        ids=tuple(row.id for row in rows),
        member=np.array([row.member for row in rows]),
        log_p=flat["logprobs"],
        offsets=starts["logprobs"],
        mean=flat.get("mean"),
        std=flat.get("std"),
        reference_log_p=flat.get("reference_logprobs"),
        reference_offsets=starts.get("reference_logprobs"),
        **{name: tuple(row.labels[name] for row in rows) for name in rows[0].labels},
        notes=(f"Keys that were not used, with the first line of each: {shown}.",) if shown else (),
    )

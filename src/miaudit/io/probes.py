"""Probes: each record with its true string and with decoys, for a model to score, and the key that tells them apart.

``NAME.jsonl`` holds one JSON object on each line: ``record``, ``unit``, ``candidate`` (from 0) and ``text``. The
scorer adds a number to each line. ``NAME.key.json`` says which candidate of each unit is the true one, and belongs
to its probes by their digest. The scorer must not see it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic, tables
from miaudit.io.sealed_coins import checked_digest

__all__ = ["Key", "KeyUnit", "Probe", "Seed", "beside", "digest_of", "write"]

SUFFIX, KEY_SUFFIX = ".jsonl", ".key.json"
_FORMAT, _KIND = 1, "key of probes"
_LARGEST_KEY = 2**30
_TAG_SEED, _TAG_SEAL = b"miaudit decoys seed\x00", b"miaudit decoys commitment\x00"
_WHOLE_FILE = "take the file as miaudit decoys wrote it"


class Probe(NamedTuple):
    """A text with one of the candidates of its unit in the place of the true strings."""

    record: str
    unit: str
    candidate: int
    text: str

    def line(self) -> str:
        """Return the line of the file."""
        return json.dumps(self._asdict(), ensure_ascii=False)


@dataclass(frozen=True)
class Seed:
    """What decoys and places of true strings are drawn from: 32 bytes in hexadecimal, secret until scores are in.

    Examples
    --------
    >>> Seed.of("7") == Seed.of(7), len(Seed.new().value)
    (True, 64)
    """

    value: str

    def __post_init__(self) -> None:
        checked_digest(self.value, "seed", "a whole number, or 64 digits from 0 to f")

    @classmethod
    def new(cls) -> Self:
        """Draw a seed that nobody can guess."""
        return cls(secrets.token_bytes(32).hex())

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the seed of a whole number, which others can guess, or of 64 hexadecimal digits."""
        text = str(value).strip()
        if text.isascii() and text.isdecimal() and len(text) < 64:
            return cls(hashlib.sha256(_TAG_SEED + str(int(text)).encode()).hexdigest())
        return cls(text)

    def commitment(self, documents: str) -> str:
        """Return the SHA-256 by which the seed is fixed for documents with a digest, before any score."""
        return hashlib.sha256(_TAG_SEAL + bytes.fromhex(self.value) + bytes.fromhex(documents)).hexdigest()

    def generator(self) -> np.random.Generator:
        """Return the generator of the seed, as it begins."""
        return np.random.default_rng(int(self.value, 16))


@dataclass(frozen=True)
class KeyUnit:
    """Which candidate of a unit is the true one.

    Attributes
    ----------
    unit : its name
    records : names of its records
    true : number of the true candidate, from 0
    laws : law of each of its strings, in words
    candidates : for each candidate its strings, in the order of the laws
    """

    unit: str
    records: tuple[str, ...]
    true: int
    laws: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, content: Any) -> Self:
        """Make it of plain values, checked.

        Raises
        ------
        ValueError
            For values that are none of a unit.
        """
        values = {field.name: content[field.name] for field in fields(cls)}
        texts = [values["unit"], *values["records"], *values["laws"]]
        candidates = tuple(tuple(one) for one in values["candidates"])
        whole = type(values["true"]) is int and 0 <= values["true"] < len(candidates)
        strings = [string for one in candidates for string in one]
        alike = {len(one) for one in candidates} == {len(values["laws"])} and len(candidates) > 1
        if not (whole and alike and values["laws"] and all(isinstance(one, str) for one in (*texts, *strings))):
            raise ValueError("no unit of a key")
        return cls(values["unit"], tuple(values["records"]), values["true"], tuple(values["laws"]), candidates)

    @property
    def true_first(self) -> list[int]:
        """The numbers of the candidates, of the true one first."""
        return [self.true, *(k for k in range(len(self.candidates)) if k != self.true)]


@dataclass(frozen=True)
class Key:
    """What tells true strings and decoys apart, and what shows that these were drawn before any score.

    Attributes
    ----------
    probes : SHA-256 of the probes (:func:`digest_of`)
    documents : SHA-256 of the texts that they were made of
    seed : of the draw
    commitment : SHA-256 of seed and documents together, which may be published before any score
    units : which candidate of each is the true one
    """

    probes: str
    documents: str
    seed: str
    commitment: str
    units: tuple[KeyUnit, ...]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a key, also a stranger's.

        Raises
        ------
        InputError
            For a file that is none, and a seed that does not fit the commitment.
        """
        path = Path(path)
        if not path.is_file():
            hint = "name it by --key; miaudit decoys wrote it beside the probes"
            raise InputError("key", "an existing file", str(path), hint)
        if path.stat().st_size > _LARGEST_KEY:
            raise InputError("key", f"at most {_LARGEST_KEY:,} bytes", f"{path.stat().st_size:,}", _WHOLE_FILE)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["kind"] != _KIND or content["format"] != _FORMAT:
                raise ValueError("another kind")
            digests = {name: checked_digest(content[name], name) for name in ("probes", "documents", "seed")}
            commitment = checked_digest(content["commitment"], "commitment")
            units = tuple(KeyUnit.of(one) for one in content["units"])
        except (ValueError, TypeError, KeyError, RecursionError, InputError) as error:
            received = f"{path.name}, which is none"
            raise InputError("key", "a key that miaudit decoys wrote", received, _WHOLE_FILE) from error
        if len({len(unit.candidates) for unit in units}) != 1:
            received = f"units with different numbers in {path.name}" if units else f"no unit in {path.name}"
            raise InputError("key", "equally many candidates of each unit", received, _WHOLE_FILE)
        key = cls(**digests, commitment=commitment, units=units)
        if Seed(key.seed).commitment(key.documents) != commitment:
            received = f"another seed in {path.name}"
            raise InputError("key", "the seed that its commitment fixes", received, _WHOLE_FILE)
        return key

    def text(self) -> str:
        """Return the content of the file."""
        head = {"kind": _KIND, "format": _FORMAT}
        return json.dumps({**head, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def digest_of(probes: Iterable[Probe]) -> str:
    """Return the SHA-256 of probes, in whatever order they are, in hexadecimal."""
    whole = hashlib.sha256()
    for probe in sorted(probes):
        whole.update(json.dumps(list(probe)).encode() + b"\n")
    return whole.hexdigest()


def beside(path: str | Path) -> Path:
    """Return the path of the key of probes: the file's own name with another ending.

    Examples
    --------
    >>> beside("out/probes.jsonl").name
    'probes.key.json'
    """
    path = Path(path)
    return path.with_name(path.name.removesuffix(path.suffix) + KEY_SUFFIX)


def write(path: str | Path, probes: Sequence[Probe], key: Key, *, overwrite: bool = False) -> Path:
    """Write probes, and their key beside them for the owner alone; a kill leaves no probes without their key.

    Parameters
    ----------
    path : .jsonl file of the probes
    overwrite : whether earlier files are replaced

    Returns
    -------
    Path of the key

    Raises
    ------
    InputError
        If one of the two files is there already.
    OutputError
        If they cannot be written.
    """
    path = check_free(path, overwrite=overwrite)
    try:
        if overwrite:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        atomic.write_text(beside(path), key.text(), mode=0o600, replace=overwrite)
        atomic.write_text(path, "".join(f"{probe.line()}\n" for probe in probes), replace=overwrite)
    except OSError as error:
        why = f"cannot be written ({error.strerror or error}); choose another --out"
        raise OutputError(one_line(f"--out {path}: {why}")) from error
    return beside(path)


def check_free(path: str | Path, *, overwrite: bool, documents: str | Path | None = None) -> Path:
    """Return the path of new probes, or refuse one that is there already, and one beside which their key would be.

    The ``documents`` that the probes are made of are never replaced.
    """
    path = tables.require_suffix(path, "--out", (SUFFIX,))
    if documents is not None and path.resolve() == Path(documents).resolve():
        raise InputError("--out", "another file than the documents", str(path), "choose another --out")
    for place in (path, beside(path)):
        if place.exists() and not overwrite:
            hint = "name another, or add --overwrite: scores of the earlier probes are of no use then"
            raise InputError("--out", "new files", f"{place}, which exists", hint)
    return path

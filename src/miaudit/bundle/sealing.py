"""Sealed labels and results: published commitments, and the keys that open them.

Half of the units is sealed, not half of the records: an open label of a unit would tell the sealed ones beside it. And
the records are shuffled: members often stand before non-members in a file. The audit of all records is committed to as
one text: each of its numbers, published beside the scores, would be an exact equation in the sealed labels.

The owner opens once, and signs which submissions were in by then: who submits later has the labels, and is not listed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, IntArray
from miaudit.bundle import plain_json
from miaudit.bundle.sharing import KEY_BYTES
from miaudit.errors import InputError, one_line
from miaudit.evidence import Evidence
from miaudit.io import atomic, signature

SEALED = -1
COMMITMENT_BYTES = 32
_FORMAT = 1
_SALT = 16
_LARGEST_FILE = 1_000_000_000
_MOST_SUBMISSIONS = 10_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
# A score that learns from the labels of other records, by the name that the collector gives it.
_LEARNED = "gaussian_lira"
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Sealed:
    """Published commitments in place of labels: hiding and binding.

    Attributes
    ----------
    rows : array (m,) of indices of the sealed records, rising
    commitments : array (m, 32) of uint8, one to each label
    audit : array (32,) of uint8, to the audit of all records
    signer : array (32,) of uint8, the key under which the owner signs what was submitted before the opening
    """

    rows: IntArray
    commitments: Bytes
    audit: Bytes
    signer: Bytes


@dataclass(frozen=True, eq=False)
class Opening:
    """Opening of a sealed bundle, with the submissions received before it.

    Attributes
    ----------
    rows : array (m,) of indices of the sealed records, rising
    labels : array (m,) of bool, whether each is a member
    salts : array (m, 16) of uint8
    audit : the audit of all records, as text, and ``audit_salt`` (32 bytes)
    submissions : digests of what was submitted before, sorted, and the owner's ``signature`` of them
    """

    rows: IntArray
    labels: BoolArray
    salts: Bytes
    audit: str
    audit_salt: bytes
    submissions: tuple[str, ...] = ()
    signature: bytes = b""

    def opens(self, sealed: Sealed) -> bool:
        """Return whether this opens all commitments of a bundle."""
        return bool(
            np.array_equal(self.rows, sealed.rows)
            and np.array_equal(_commitments(self.rows, self.labels, self.salts), sealed.commitments)
            and np.array_equal(_commitment(self.audit, self.audit_salt), sealed.audit)
        )

    def lists(self, submission: str, mark: bytes, sealed: Sealed) -> bool:
        """Return whether the owner signed that a submission was received before the opening."""
        message = _message(mark, self.submissions)
        return submission in self.submissions and signature.holds(sealed.signer.tobytes(), message, self.signature)

    def write(self, path: Path) -> None:
        """Write the opening; an earlier one is never overwritten.

        Raises
        ------
        OutputError
            If the file is there already or cannot be written.
        """
        more = {"submissions": list(self.submissions), "signature": self.signature.hex()}
        _write_new(path, {"kind": "opening", **self._plain(), **more}, 0o644)

    def _plain(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "rows": self.rows.tolist(),
            "labels": self.labels.tolist(),
            "salts": self.salts.tobytes().hex(),
            "audit": self.audit,
            "audit_salt": self.audit_salt.hex(),
        }


@dataclass(frozen=True, eq=False)
class SealKeys(Opening):
    """Secrets of a bundle's owner: they open labels, sign an opening and map pseudonyms to names.

    Attributes
    ----------
    pseudonyms : 32 random bytes
    signing : 32 random bytes, the seed of the signature
    order : array (n,), the place in the owner's evidence of each record of the bundle; None where it was not shuffled
    use : the submissions of the opening that was signed, which the key file records too
    """

    pseudonyms: bytes = b""
    signing: bytes = b""
    order: IntArray | None = None
    use: signature.Use = field(default_factory=signature.Use, repr=False)

    @classmethod
    def new(
        cls,
        member: BoolArray,
        *,
        seal: bool,
        unit: IntArray | None = None,
        order: IntArray | None = None,
    ) -> SealKeys:
        """Draw keys from the operating system, and a random half of the units to seal if wanted.

        The generator of an audit is not used: who knows its seed would know the salts.
        """
        code = np.arange(len(member)) if unit is None else unit
        units = int(code.max()) + 1 if len(code) else 0
        chosen = secrets.SystemRandom().sample(range(units), units // 2) if seal else []
        rows = np.flatnonzero(np.isin(code, chosen)).astype(np.int64)
        salts = np.frombuffer(secrets.token_bytes(_SALT * len(rows)), dtype=np.uint8).reshape(-1, _SALT)
        audit_salt, pseudonyms, signing = (secrets.token_bytes(KEY_BYTES) for _ in range(3))
        return cls(rows, member[rows], salts, "", audit_salt, pseudonyms=pseudonyms, signing=signing, order=order)

    def sealed(self) -> Sealed:
        """Return the public commitments of these keys."""
        return Sealed(
            self.rows,
            _commitments(self.rows, self.labels, self.salts),
            _commitment(self.audit, self.audit_salt),
            np.frombuffer(signature.public_of(self.signing), dtype=np.uint8),
        )

    def opening(self, mark: bytes, submissions: Iterable[str]) -> Opening:
        """Return the opening of the bundle with this mark, signed for the submissions received.

        **Once**, since whoever submits after it has the labels. What is signed is recorded first, in the key file too
        that the keys were read from, or written to; the same may be signed again.

        Raises
        ------
        InputError
            For what is no SHA-256 of a submission, or too many, and where others were signed before.
        OutputError
            If it cannot be recorded.
        """
        digests = tuple(sorted(set(_checked_digests(submissions))))
        self.use.record({"bundle": mark.hex(), "submissions": list(digests)})
        signed = signature.sign(self.signing, _message(mark, digests))
        return Opening(self.rows, self.labels, self.salts, self.audit, self.audit_salt, digests, signed)

    def write(self, path: Path) -> None:
        """Write the key file as :meth:`Opening.write` writes an opening, readable by its owner only."""
        order = None if self.order is None else self.order.tolist()
        more = {"pseudonyms": self.pseudonyms.hex(), "signing": self.signing.hex(), "order": order}
        _write_new(path, {"kind": "keys", **self._plain(), **more, "signed": self.use.signed}, 0o600)
        self.use.path = path

    @classmethod
    def read(cls, path: str | Path) -> SealKeys:
        """Read a key file, as :func:`read`; an opening is refused too."""
        opening = read(path)
        if not isinstance(opening, SealKeys):
            raise InputError("key", "the owner's key file", "an opening, which signs nothing", "ask its owner")
        return opening


def read(path: str | Path) -> Opening:
    """Read an opening, or the owner's keys, which list no submissions.

    Raises
    ------
    InputError
        If it is missing, damaged or neither.
    """
    from miaudit.io import tables  # noqa: PLC0415

    path = tables.existing_file(path, "key", (".json",))
    try:
        content = plain_json.read(path, "key", largest=_LARGEST_FILE, values=path.stat().st_size // 2)
        if content.get("format") != _FORMAT:
            raise ValueError(f"format {content.get('format')!r}, not {_FORMAT}"[:60])
        rows = np.asarray(content["rows"], dtype=np.int64)
        labels = np.asarray([_truth(value) for value in content["labels"]], dtype=np.bool_)
        salts = np.frombuffer(bytes.fromhex(content["salts"]), dtype=np.uint8).reshape(len(rows), _SALT)
        if rows.ndim != 1 or labels.shape != rows.shape or not isinstance(content["audit"], str):
            raise ValueError("columns of unequal length, or no audit")
        common = (rows, labels, salts, content["audit"], bytes.fromhex(content["audit_salt"]))
        if len(common[-1]) != KEY_BYTES:
            raise ValueError("a salt of another length")
        if content["kind"] == "opening":
            listed = tuple(_checked_digests(content["submissions"]))
            return Opening(*common, listed, bytes.fromhex(content["signature"]))
        order = None if content.get("order") is None else np.asarray(content["order"], dtype=np.int64)
        pseudonyms, signing = (bytes.fromhex(content[name]) for name in ("pseudonyms", "signing"))
        use = signature.Use(path, content["signed"])
        return SealKeys(*common, pseudonyms=pseudonyms, signing=signing, order=order, use=use)
    except (InputError, ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        received = f"{path.name} ({one_line(str(error))[:60]})"
        raise InputError("key", "the key file or opening that miaudit wrote", received, "ask its owner") from error


def check(evidence: Evidence) -> None:
    """Refuse to seal labels if published values were computed from them.

    Raises
    ------
    InputError
        For a score that learned from labels, and several runs.
    """
    if evidence.run is not None:
        hint = "seal each run's own bundle, or publish the runs without a seal"
        raise InputError("seal", "evidence of one run", "evidence of several", hint)
    if _LEARNED in evidence.scores:
        raise InputError(
            "seal",
            "scores that learned nothing from the labels",
            f"{_LEARNED}, whose statistics are those of members and non-members",
            "audit the loss instead; or rename a score whose statistics are of other records",
        )


def check_margin(plan: Any) -> None:
    """Refuse an option of the plan with a number for each record, where memberships are kept.

    Raises
    ------
    InputError
        For a margin for each record: it may come from a model that saw the labels.
    """
    width = getattr(getattr(getattr(plan, "bounds", None), "correction", None), "half_width", None)
    if isinstance(width, np.ndarray) and width.ndim:
        raise InputError("margin", "one margin for all records", "one for each", "give the largest, or share scores")


def shuffled(n: int) -> IntArray:
    """Return 0 to n - 1 in random order, from the operating system's randomness."""
    return np.array(secrets.SystemRandom().sample(range(n), n), dtype=np.int64)


def generator() -> np.random.Generator:
    """Return a generator seeded by the operating system, which no seed repeats."""
    return np.random.default_rng(secrets.randbits(128))


def judge(opening: Opening, submission: str) -> np.random.Generator:
    """Return the generator of a sealed contest, fixed by the commitments of both sides."""
    digest = hashlib.sha256(b"miaudit contest\x00" + opening.audit_salt + submission.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def _write_new(path: Path, content: Mapping[str, Any], mode: int) -> None:
    what = {"keys": "keys are", "opening": "an opening is"}[content["kind"]]
    text = json.dumps(content)

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")

    atomic.write_once(path, write, mode=mode, what=what)


def _checked_digests(submissions: Iterable[str]) -> list[str]:
    digests = list(submissions)
    if len(digests) > _MOST_SUBMISSIONS:
        raise InputError("submission", f"at most {_MOST_SUBMISSIONS:,}", f"{len(digests):,}", "open for fewer")
    for text in digests:
        if not isinstance(text, str) or not _DIGEST.fullmatch(text):
            allowed = "the SHA-256 that miaudit challenge printed (64 digits from 0 to f)"
            raise InputError("submission", allowed, repr(text)[:80], "ask the challenger for it")
    return digests


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("labels are true or false")
    return value


def _message(mark: bytes, submissions: tuple[str, ...]) -> bytes:
    return b"miaudit opening\x00" + mark + b"".join(map(bytes.fromhex, submissions))


def _commitment(text: str, salt: bytes) -> Bytes:
    commitment = hmac.digest(salt, b"miaudit audit\x00" + text.encode(errors="surrogatepass"), "sha256")
    return np.frombuffer(commitment, dtype=np.uint8)


def _commitments(rows: NDArray[Any], labels: NDArray[Any], salts: NDArray[Any]) -> Bytes:
    commitments = [
        hashlib.sha256(b"miaudit label\x00" + int(row).to_bytes(8, "little") + bytes([bool(label)]) + salt.tobytes())
        for row, label, salt in zip(rows, labels, salts, strict=True)
    ]
    return np.frombuffer(b"".join(h.digest() for h in commitments), dtype=np.uint8).reshape(-1, COMMITMENT_BYTES)

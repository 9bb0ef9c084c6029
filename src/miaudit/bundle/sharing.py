"""What a bundle holds of the records: everything, scores without covariates, or nothing but keyed hashes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence

Share = Literal["all", "scores", "hashes"]
SHARES: tuple[Share, ...] = ("all", "scores", "hashes")
KEY_BYTES = 32
Columns = dict[str, NDArray[Any]]


def check(share: str) -> Share:
    """Return one of the three ways to share, or say which there are."""
    for known in SHARES:
        if share == known:
            return known
    hint = nearest(str(share), SHARES) or "scores leaves covariates and texts out"
    raise InputError("share", ", ".join(SHARES), repr(share)[:40], hint)


def check_sealing(share: Share, *, seal: bool) -> None:
    """Refuse to seal labels of which nothing is shared."""
    if seal and share == "hashes":
        raise InputError("seal", "share all or scores with it", "share hashes", "hashes hold no labels: leave it out")


def check_key(key: bytes | None) -> bytes:
    """Return a key of pseudonyms, or refuse one that could be guessed."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        received = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise InputError("key", f"{KEY_BYTES} random bytes", received, "pass secrets.token_bytes(32), and keep it")
    return key


def prepared(evidence: Evidence, share: Share, key: bytes | None) -> Evidence:
    """Return evidence whose units carry pseudonyms, unless everything is shared.

    It is done before the audit, since where units are drawn or split by their order, other names give other draws.

    Parameters
    ----------
    key : 32 random bytes that stay with the owner. Pseudonyms are HMAC-SHA256 under it: plain hashes of names could
        be reversed by hashing a list of names.
    """
    if share == "all" or evidence.unit is None:
        return evidence
    secret = check_key(key)
    names, codes = np.unique(evidence.unit, return_inverse=True)
    pseudonyms = np.array([_keyed(secret, b"unit", str(name).encode())[:16].hex() for name in names.tolist()])
    return evidence.replace(unit=pseudonyms[codes])


def columns_of(evidence: Evidence, share: Share, key: bytes | None) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns that are shared, and the names of what is withheld.

    With ``"hashes"`` the one column is ``hash``: for each record an HMAC-SHA256 of all that is known of it, by which
    the owner can show later that a record was, or was not, among those audited.
    """
    columns = evidence.columns()
    if share == "all":
        return columns, ()
    if share == "scores":
        withheld = {name for name in columns if name == "text" or name.startswith("covariate")}
        kept = {name: values for name, values in columns.items() if name not in withheld}
        units = ("names of units (pseudonyms under a key instead)",) if evidence.unit is not None else ()
        parts = {"text": "texts"}
        return kept, (*sorted({parts.get(name, "covariates") for name in withheld}), *units)
    secret = check_key(key)
    hashes = [_keyed(secret, b"record", content) for content in _rows(columns)]
    found = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, KEY_BYTES)
    return {"hash": found}, ("scores", "membership", *sorted(set(columns) - {"member", "score", "source", "design"}))


def findings_of(
    found: Mapping[str, Any], share: Share, columns: Mapping[str, NDArray[Any]], *, sealed: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return findings without what gives away records or labels, and what was taken out, in words.

    Where labels are sealed, curves, histograms and groups go too: with the scores beside them each point counts the
    members among a few records, and together they give most labels of a small audit. The digest of the evidence is
    replaced by one of what is shared: it would confirm a guess of all labels, or of what is withheld.

    Parameters
    ----------
    found : plain values as in findings.json
    columns : what is shared of the records; sealed membership is -1
    """
    if share == "all" and not sealed:
        return dict(found), ()
    kept, gone = dict(found), []
    kept["evidence"] = {**found["evidence"], "digest": digest_of(columns)}
    if kept.pop("covariates_alone", None):
        gone.append("the AUC of the covariates alone")
    if kept["rows"]:
        kept["rows"] = []
        gone.append("the most exposed records by row")
    if (share == "hashes" or sealed) and kept["groups"]:
        kept["groups"] = []
        gone.append("findings by group")
    if kept.get("vulnerability"):
        if share == "hashes" or sealed:
            del kept["vulnerability"]
            gone.append("which records leak, over shadow models")
        elif kept["vulnerability"]["named"]:
            kept["vulnerability"] = {**kept["vulnerability"], "named": []}
            gone.append("names of the most vulnerable records")
    if sealed:
        kept["scores"] = [{**score, "curve": None, "distribution": None} for score in found["scores"]]
        kept["overlap"] = None
        gone.append("curves, histograms and balance of the findings, which would tell sealed labels")
    return kept, tuple(gone)


def digest_of(columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of what is shared of all records, in hexadecimal."""
    return hashlib.sha256(row_digests(columns).tobytes()).hexdigest()


def row_digests(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return a digest (n, 16) of what is shared of each record, so that a change is found and named.

    A row of sealed membership (-1) is covered like any other: its commitment, not its label, is what is shared.
    """
    found = [hashlib.blake2b(content, digest_size=16).digest() for content in _rows(columns)]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, 16)


def _rows(columns: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """Each record's values as bytes: numbers in little-endian doubles, text with its length before it."""
    n = len(next(iter(columns.values())))
    numbers: list[NDArray[np.uint8]] = []
    texts: list[list[str]] = []
    for _, values in sorted(columns.items()):
        if values.dtype.kind in "fiub":
            flat = np.ascontiguousarray(values.reshape(n, -1).astype("<f8"))
            numbers.append(flat.view(np.uint8).reshape(n, -1))
        else:
            texts.append([str(value) for value in values.tolist()])
    joined = np.concatenate(numbers, axis=1) if numbers else np.empty((n, 0), dtype=np.uint8)
    written = [[text.encode() for text in column] for column in texts]
    return [
        b"".join(
            [
                i.to_bytes(8, "little"),
                joined[i].tobytes(),
                *(len(column[i]).to_bytes(8, "little") + column[i] for column in written),
            ]
        )
        for i in range(n)
    ]


def _keyed(key: bytes, purpose: bytes, content: bytes) -> bytes:
    return hmac.digest(key, purpose + b"\x00" + content, "sha256")

"""Sharing of records in a bundle: everything, scores without covariates, or keyed hashes only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.io import level_names
from miaudit.metrics.roc import Histogram

Share = Literal["all", "scores", "hashes"]
SHARES: tuple[Share, ...] = ("all", "scores", "hashes")
KEY_BYTES = 32
_VERSIONS = ("python", "numpy")
_BLOCK = 1000  # records at a time
Columns = dict[str, NDArray[Any]]


def check(share: str) -> Share:
    """Return one of the three ways to share, or refuse an unknown one."""
    for known in SHARES:
        if share == known:
            return known
    hint = nearest(str(share), SHARES) or "scores leaves covariates and texts out"
    raise InputError("share", ", ".join(SHARES), repr(share)[:40], hint)


def check_sealing(share: Share, *, seal: bool) -> None:
    """Refuse to seal labels if nothing is shared."""
    if seal and share == "hashes":
        raise InputError("seal", "share all or scores with it", "share hashes", "hashes hold no labels: leave it out")


def hides_members(share: Share, *, seal: bool) -> bool:
    """Return whether memberships are kept: then nothing published may follow from the generator that drew them."""
    return seal or share == "hashes"


def check_coins(share: Share, *, seal: bool) -> None:
    """Refuse to reveal coins beside memberships that are withheld or sealed: they are the memberships."""
    if hides_members(share, seal=seal):
        received = "sealed labels" if seal else "share hashes"
        hint = "leave the seal out: scores that were in before the reveal are named in it" if seal else "share scores"
        raise InputError("coins", "none, beside memberships that are not shared", received, hint)


def check_key(key: bytes | None) -> bytes:
    """Return a key of pseudonyms; refuse one that could be guessed."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        received = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise InputError("key", f"{KEY_BYTES} random bytes", received, "pass secrets.token_bytes(32), and keep it")
    return key


def prepared(evidence: Evidence, share: Share, key: bytes | None) -> Evidence:
    """Return evidence with pseudonyms of units, unless everything is shared.

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
    """Return the shared columns and the names of the withheld ones.

    With ``"hashes"`` the one column is ``hash``: for each record an HMAC-SHA256 of all that is known of it, by which
    the owner can show later that a record was, or was not, among those audited.
    """
    columns = evidence.columns()
    if share == "all":
        return columns, ()
    if share == "scores":
        withheld = {name for name in columns if name == "text" or name.startswith(("covariate", "level."))}
        shared = {name: values for name, values in columns.items() if name not in withheld}
        units = ("names of units (pseudonyms under a key instead)",) if evidence.unit is not None else ()
        parts = {"text": "texts"}
        return shared, (*sorted({parts.get(name, "covariates") for name in withheld}), *units)
    secret = check_key(key)
    hashes = [_keyed(secret, b"record", content) for content in _rows(columns)]
    digests = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, KEY_BYTES)
    return {"hash": digests}, ("scores", "membership", *sorted(set(columns) - {"member", "score", "source", "design"}))


def evidence_of(columns: Mapping[str, NDArray[Any]]) -> Evidence:
    """Return the evidence of these columns.

    Examples
    --------
    >>> evidence = Evidence(score=[0.1, 0.9], member=[False, True], design="one-run")
    >>> evidence_of(evidence.columns()).digest == evidence.digest
    True
    """
    parts = {name.removeprefix("covariate."): columns[name] for name in columns if name.startswith("covariate.")}
    return Evidence(
        score={
            name.removeprefix("score."): columns[name]
            for name in columns
            if name == "score" or name.startswith("score.")
        },
        member=columns["member"],
        covariates=np.column_stack(list(parts.values())) if parts else columns.get("covariates"),
        covariate_names=tuple(parts),
        levels=level_names.from_columns(columns),
        text=columns.get("text"),
        unit=columns.get("unit"),
        group=columns.get("group"),
        run=columns.get("run"),
        inclusion=columns.get("inclusion"),
        design=str(columns["design"][0]) if "design" in columns else None,
        source=str(columns["source"][0]) if "source" in columns else "",
    )


def findings_of(
    findings: Findings, share: Share, columns: Mapping[str, NDArray[Any]]
) -> tuple[Findings, tuple[str, ...]]:
    """Return findings without what identifies records, and a description of what was removed.

    The digest of the evidence is replaced by one of what is shared: it would confirm a guess of what is withheld.

    Parameters
    ----------
    findings : of an audit
    columns : what is shared of the records that they are about
    """
    if share == "all":
        return findings, ()
    removed, vulnerability = [], findings.vulnerability
    if findings.covariates_alone:
        removed.append("the AUC of the covariates alone")
    if findings.unused_columns:
        removed.append("what columns show that were not used")
    if findings.by_covariates:
        removed.append("which kinds of records leak, by covariates")
    if findings.rows:
        removed.append("the most exposed records by row")
    if share == "hashes":
        removed += ["findings by group"] if findings.groups else []
        removed += ["curves and histograms", "notes, and how to repeat the audit"]
    if vulnerability and share == "hashes":
        vulnerability = None
        removed.append("which records leak, over shadow models")
    elif vulnerability and vulnerability.named:
        vulnerability = replace(vulnerability, named=())
        removed.append("names of the most vulnerable records")
    if share == "hashes":
        findings = _of_counts(findings)
    shared = replace(
        findings,
        evidence={**findings.evidence, "digest": digest_of(columns)},
        covariates_alone=None,
        unused_columns=None,
        by_covariates=None,
        rows=(),
        groups=() if share == "hashes" else findings.groups,
        vulnerability=vulnerability,
    )
    return shared, tuple(removed)


def _of_counts(findings: Findings) -> Findings:
    """Return findings without what tells memberships to whoever has the scores, or a seed that drew them.

    A curve or a histogram says of the record at each score on which side it stands; a command line or a note may name
    the seed of the memberships.
    """
    overlap = findings.overlap
    if overlap is not None:
        edges = overlap.log_odds.edges
        overlap = replace(overlap, log_odds=Histogram((edges[0], edges[-1]), (1.0,), (1.0,)))
    return replace(
        findings,
        overlap=overlap,
        notes=(),
        repeat={name: findings.repeat[name] for name in _VERSIONS if name in findings.repeat},
        scores=tuple(replace(one, curve=None, distribution=None) for one in findings.scores),
    )


def digest_of(columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the shared values of all records, in hexadecimal."""
    return hashlib.sha256(row_digests(columns).tobytes()).hexdigest()


def row_digests(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return a digest (n, 16) of the shared values of each record.

    A row of sealed membership (-1) is covered like any other: its commitment, not its label, is what is shared.
    """
    digests = np.empty((len(next(iter(columns.values()))), 16), dtype=np.uint8)
    for i, content in enumerate(_rows(columns)):
        digests[i] = np.frombuffer(hashlib.blake2b(content, digest_size=16).digest(), dtype=np.uint8)
    return digests


def _rows(columns: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    """Yield each record's values as bytes: little-endian doubles, and text after its length.

    In blocks: as text and as doubles at once, the records of a stranger's bundle would take many times their size.
    """
    n = len(next(iter(columns.values())))
    for start in range(0, n, _BLOCK):
        block = {name: values[start : start + _BLOCK] for name, values in sorted(columns.items())}
        size = min(_BLOCK, n - start)
        numbers = [
            np.ascontiguousarray(values.reshape(size, -1).astype("<f8")).view(np.uint8).reshape(size, -1)
            for values in block.values()
            if values.dtype.kind in "fiub"
        ]
        joined = np.concatenate(numbers, axis=1) if numbers else np.empty((size, 0), dtype=np.uint8)
        texts = [values for values in block.values() if values.dtype.kind not in "fiub"]
        for i in range(size):
            written = [str(column[i]).encode() for column in texts]
            parts = [len(text).to_bytes(8, "little") + text for text in written]
            yield b"".join([(start + i).to_bytes(8, "little"), joined[i].tobytes(), *parts])


def _keyed(key: bytes, purpose: bytes, content: bytes) -> bytes:
    return hmac.digest(key, purpose + b"\x00" + content, "sha256")

"""Reading of bundles, also untrusted ones: no code runs, and memory is bounded.

The manifest is read first. What it declares, in bytes, bounds what is read at all: entries are stored and not
compressed, arrays have the types that miaudit writes, and JSON is counted before it is parsed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.arrays import IntArray
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, arrays, plain_json, sealed_audits, sealing, sharing, written_plan
from miaudit.bundle.contents import (
    AUDIT,
    COINS,
    FINDINGS,
    FORMAT,
    MANIFEST,
    PROPENSITY,
    RECORDS,
    ROWS,
    SEALED_LABELS,
    Bundle,
)
from miaudit.bundle.sealing import Sealed
from miaudit.bundle.sharing import Columns, Share
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, one_line
from miaudit.findings.audit import Findings
from miaudit.findings.sealed_coins import departure
from miaudit.io.sealed_coins import LARGEST_FILE, Coins

_LARGEST_MANIFEST = 1_000_000
_UNDECLARED = 4_000_000  # bytes beyond those that the manifest lists: a forger's few are named, not refused
_TYPES = {"member": ("b|i1", 1), "score": ("f8", 1), "covariates": ("f8", 2), "inclusion": ("f8", 1), "hash": ("u1", 2)}
_TYPES |= dict.fromkeys(("unit", "group", "run"), ("b|i|u|U", 1)) | dict.fromkeys(("design", "source"), ("U", 1))
_OF_SEALED = {"rows": ("i8", 1), "commitments": ("u1", 2), "audit": ("u1", 1), "signer": ("u1", 1)}
_OF_PROPENSITY = {"values": ("f8", 1), "rows": ("i8", 1), "folds": ("b|i|u", 1)}


def read(path: str | Path) -> Bundle:
    """Read a bundle, also an untrusted one; no code of it runs.

    Digests are checked, and what does not fit is listed in ``tampered``: :mod:`miaudit.bundle.verify` says more.

    Raises
    ------
    InputError
        If it is no bundle, damaged beyond reading, of another format version, or larger than its manifest says.
    """
    path = Path(path)
    manifest: dict[str, Any] = {}

    def agreed(where: Path, sizes: Mapping[str, int]) -> None:
        manifest.update(_manifest(where))
        _check_sizes(path, manifest, sizes)

    with tempfile.TemporaryDirectory(prefix="miaudit-") as folder:
        placed = archive.unpack(path, Path(folder), first=MANIFEST, agreed=agreed)
        tampered = list(_file_changes(manifest, placed))
        held = _named(path, placed)
        if RECORDS not in held or AUDIT not in held or FINDINGS not in held:
            raise _refused(path, "a bundle without records, audit.json or findings.json")
        share = sharing.check(str(manifest.get("share", "")))
        columns = _columns(held[RECORDS], share)
        n = len(next(iter(columns.values())))
        if manifest.get("records") != n:
            tampered.append("manifest.json counts other records than there are.")
        about = plain_json.read(held[AUDIT], AUDIT)
        findings = Findings.from_dict(plain_json.read(held[FINDINGS], FINDINGS))
        tampered += _row_changes(held.get(ROWS), columns)
        sealed = _sealed(held.get(SEALED_LABELS), columns)
        _check_membership(columns, np.empty(0, dtype=np.int64) if sealed is None else sealed.rows)
        audited = n if sealed is None else n - len(sealed.rows)
        propensity, rows = _propensity(held.get(PROPENSITY), about, audited)
        coins = _coins(held.get(COINS))
        plan = written_plan.plan_of(about.get("plan"))
        if coins is not None:
            tampered += [*_forged(coins, columns, sealed), *_of_another_plan(coins, plan)]
        return Bundle(
            share,
            tuple(str(text)[:200] for text in plain_json.listed(manifest, "withheld")),
            columns,
            sealed,
            findings,
            plan,
            plain_json.mapping(about, "random"),
            tuple(str(note) for note in plain_json.listed(about, "notes")),
            propensity,
            rows,
            str(about.get("programs", ""))[:500],
            plain_json.mapping(about, "environment"),
            tuple(tampered),
            archive.sha256(path),
            coins,
        )


def _manifest(path: Path) -> dict[str, Any]:
    manifest = plain_json.read(path, MANIFEST, largest=_LARGEST_MANIFEST)
    if manifest.get("format") != FORMAT:
        by = one_line(str(manifest.get("made_by", "an unknown version")))[:40]
        version = f"{manifest.get('format')!r}"[:20]
        raise InputError("bundle", f"format {FORMAT}", version, f"use the version that wrote it ({by})")
    return manifest


def _check_sizes(path: Path, manifest: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Refuse to read much more than the manifest declares."""
    listed = manifest.get("files")
    stated = listed if isinstance(listed, Mapping) else {}
    beyond = sum(max(0, size - _bytes(stated.get(name))) for name, size in sizes.items() if name != MANIFEST)
    if beyond > _UNDECLARED:
        raise _refused(path, f"{beyond:,} bytes more than its manifest declares")


def _bytes(stated: Any) -> int:
    size = stated.get("bytes") if isinstance(stated, Mapping) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0


def _named(path: Path, placed: Mapping[str, Path]) -> dict[str, Path]:
    strangers = set(placed) - {AUDIT, FINDINGS, ROWS, SEALED_LABELS, PROPENSITY, RECORDS, COINS, MANIFEST}
    if strangers:
        raise _refused(path, f"an entry that no bundle has ({min(strangers)})")
    return {name: where for name, where in placed.items() if name != MANIFEST}


def _file_changes(manifest: Mapping[str, Any], placed: Mapping[str, Path]) -> Iterator[str]:
    listed = manifest.get("files")
    if not isinstance(listed, Mapping):
        yield "manifest.json lists no files."
        return
    for name, stated in listed.items():
        if name not in placed:
            yield f"{one_line(str(name))[:60]} is missing."
        elif not isinstance(stated, Mapping) or archive.sha256(placed[name]) != stated.get("sha256"):
            yield f"{name} was changed: its digest is not that of the manifest."
    for name in sorted(set(placed) - set(listed) - {MANIFEST}):
        yield f"{name} is not in the manifest."


def _row_changes(path: Path | None, columns: Columns) -> list[str]:
    if path is None:
        return ["rows.npy is missing, so a changed record cannot be named."]
    stated = arrays.one(path, ROWS, "u1", 2)
    digests = sharing.row_digests(columns)
    if stated.shape != digests.shape:
        return [f"rows.npy holds digests of {len(stated):,} records, not of the {len(digests):,} that are there."]
    changed = np.flatnonzero((stated != digests).any(axis=1))
    if not len(changed):
        return []
    named = ", ".join(map(str, changed[:10])) + (", ..." if len(changed) > 10 else "")
    what = "record" if len(changed) == 1 else "records"
    return [f"{len(changed):,} {what} changed: row {named} (counted from 0)."]


def _columns(path: Path, share: Share) -> Columns:
    columns = arrays.read(path, "records", _type_of)
    names = set(columns)
    fits = names == {"hash"} if share == "hashes" else "member" in names and "hash" not in names
    if share == "scores":
        fits = fits and not any(name == "text" or name.startswith(("covariate", "level.")) for name in names)
    matrix = "covariates" in names and any(name.startswith("covariate.") for name in names)
    if not fits or matrix or "score.score" in names:  # one thing under two names: which of them was audited?
        raise InputError("records", "columns of evidence", ", ".join(names)[:80], "ask for the bundle again")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError("records", "columns of one length", f"lengths {sorted(lengths)[:5]}", "ask for it again")
    for name in {"design", "source"} & names:
        if not (columns[name] == columns[name][0]).all():
            raise InputError("records", f"one {name} of all records", "several", "ask for it again")
    return columns


def _type_of(name: str) -> tuple[str, int] | None:
    if name.startswith(("score.", "covariate.")):
        return ("f8", 1)
    if name.startswith("level."):
        return ("U", 1)
    return _TYPES.get(name)


def _check_membership(columns: Columns, sealed: IntArray) -> None:
    """Check that membership is 0 or 1, and -1 exactly where it is sealed."""
    if "member" in columns and not np.isin(np.delete(columns["member"], sealed), (0, 1)).all():
        raise InputError("records", "membership of 0 or 1 where it is not sealed", "something else", "ask for it again")


def _sealed(path: Path | None, columns: Columns) -> Sealed | None:
    if path is None:
        return None
    held = arrays.read(path, SEALED_LABELS, _OF_SEALED.get)
    if set(held) == set(_OF_SEALED):
        sealed = Sealed(**held)
        sealed_audits.check_rows(sealed.rows, len(next(iter(columns.values()))), SEALED_LABELS)
        sizes = (sealed.commitments.shape, sealed.audit.shape, sealed.signer.shape)
        whole = sealing.COMMITMENT_BYTES
        fits = sizes == ((len(sealed.rows), whole), (whole,), (whole,)) and "member" in columns
        if fits and np.array_equal(np.flatnonzero(columns["member"] == sealing.SEALED), sealed.rows):
            return sealed
    raise InputError(SEALED_LABELS, "a commitment for each sealed label", "something else", "ask for the bundle again")


def _coins(path: Path | None) -> Coins | None:
    """Read what revealed sealed coins; whether they fit is said apart."""
    return None if path is None else Coins.of(plain_json.read(path, COINS, largest=LARGEST_FILE))


def _forged(coins: Coins, columns: Columns, sealed: Sealed | None) -> list[str]:
    """Say what does not fit of sealed coins: their commitment, its answer, the memberships that they decided."""
    if sealed is not None or "member" not in columns:
        return ["The coins are revealed, and memberships that follow from them are not: no such bundle is written."]
    declared = str(columns["design"][0]) if "design" in columns else "none"
    if declared != "one-run":
        return [f"Coins are of a one-run audit, and the design of this one is {declared}."]
    member = columns["member"].astype(np.bool_)
    return list(coins.misfits(member, unit=columns.get("unit"), run=columns.get("run")))


def _of_another_plan(coins: Coins, plan: Plan) -> list[str]:
    """Say where the plan is not the one that the answer to the coins fixed."""
    difference = departure(None if coins.answer is None else coins.answer.plan, plan.policy, plan.confidence)
    return (
        []
        if difference is None
        else [f"The answer to the coins fixed the {difference[0]} {difference[1]}, not {difference[2]}."]
    )


def _propensity(path: Path | None, about: Mapping[str, Any], n: int) -> tuple[Propensity | None, IntArray | None]:
    if path is None:
        return None, None
    held = arrays.read(path, PROPENSITY, _OF_PROPENSITY.get)
    rows = held.get("rows")
    sealed_audits.check_rows(rows, n, PROPENSITY)
    if "values" not in held or len(held["values"]) != (n if rows is None else len(rows)):
        raise InputError(PROPENSITY, "one value for each audited record", "another number", "ask for it again")
    how = about.get("propensity")
    words = str(how.get("how", "given"))[:300] if isinstance(how, Mapping) else "given"
    return Propensity.given(held["values"], words), rows


def _refused(path: Path, what: str) -> InputError:
    return InputError("bundle", "a bundle that miaudit wrote", f"{path.name}: {what}", "ask for it again")

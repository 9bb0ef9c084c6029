"""What a bundle is: evidence as far as it is shared, plan, randomness, propensities, findings, and a digest of each."""

# ruff: noqa: PLC0415 - libraries whose versions are recorded load when a bundle is made
from __future__ import annotations

import io
import json
import math
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit import exhibits, pipeline, tables
from miaudit.bundle import archive, sealing, sharing, written_plan
from miaudit.bundle.sealing import SEALED, Keys
from miaudit.bundle.sharing import Columns, Share
from miaudit.causal.nuisance import Nuisance
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, OutputError, one_line
from miaudit.evidence import Evidence
from miaudit.plan import Plan
from miaudit.report import findings as audit_findings
from miaudit.report import findings_file
from miaudit.report.findings import Vulnerability

FORMAT = 1
KEY_SUFFIX = ".key.json"
GIVEN = "propensity, given"
_MANIFEST, _AUDIT, _FINDINGS, _ROWS = "manifest.json", "audit.json", "findings.json", "rows.npy"
_SEALED, _PROPENSITY, _RECORDS = "sealed.npz", "propensity.npz", ("records.npz", "records.parquet")
_LARGEST_JSON = 200_000_000
_DEEPEST = 60


@dataclass(frozen=True, eq=False)
class Bundle:
    """An audit that others can repeat.

    Attributes
    ----------
    share : "all", "scores" or "hashes"
    withheld : what is not in it, in words
    columns : what is shared of the n records, by the names of ``Evidence.columns``; sealed membership is -1
    sealed : indices (m,) of the records whose label is sealed, and commitments (m, 32) to them
    findings : plain values as in findings.json
    plan : Plan
    random : where the generator stood when the audit began
    notes : what the collector of the evidence had to say
    propensity : of the audited rows, or None
    rows : indices of the audited rows, or None for all
    programs : the caller's own models that the audit used and that no bundle can hold, in words
    environment : versions under which the findings came about
    tampered : what does not fit the manifest, in sentences; empty for a bundle as it was written
    digest : SHA-256 of the file, or None before it is written
    """

    share: Share
    withheld: tuple[str, ...]
    columns: Columns
    sealed: tuple[NDArray[np.int64], NDArray[np.uint8]]
    findings: Mapping[str, Any]
    plan: Plan
    random: Mapping[str, Any]
    notes: tuple[str, ...]
    propensity: Propensity | None
    rows: NDArray[np.int64] | None
    programs: str
    environment: Mapping[str, Any]
    tampered: tuple[str, ...] = ()
    digest: str | None = None

    @property
    def n(self) -> int:
        """Number of records."""
        return len(next(iter(self.columns.values())))

    @property
    def has_sealed_labels(self) -> bool:
        """Whether a part of the labels is sealed."""
        return len(self.sealed[0]) > 0

    def evidence(self, keys: Keys | None = None) -> Evidence | None:
        """Return the evidence as far as it is shared, or None where scores are withheld or labels sealed.

        Parameters
        ----------
        keys : Keys, optional
            They open sealed labels.

        Raises
        ------
        InputError
            If the keys do not fit the commitments.
        """
        if self.share == "hashes":
            return None
        member = self.columns["member"].astype(np.int8)
        if self.has_sealed_labels:
            if keys is None:
                return None
            if not keys.opens(*self.sealed):
                allowed = "the key file that belongs to this bundle"
                raise InputError("key", allowed, "keys of other labels", "ask the owner of the bundle")
            member = member.copy()
            member[self.sealed[0]] = keys.labels
        return _evidence(self.columns, member)

    def write(self, path: str | Path, *, overwrite: bool = False) -> str:
        """Write the bundle to one .zip, whole or not at all; return its SHA-256.

        Raises
        ------
        OutputError
            If the file is there and ``overwrite`` is false.
        """
        path = Path(path)
        if path.exists() and not overwrite:
            raise OutputError(one_line(f"--bundle {path}: is there already; name another file, or add --overwrite"))
        return archive.write(path, _entries(self))


def record(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    share: str = "all",
    seal: bool = False,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[pipeline.Examined, Bundle, Keys]:
    """Audit evidence as :func:`miaudit.audit` does, and keep what lets others repeat it.

    Parameters
    ----------
    share : "all", "scores" or "hashes"
        With ``"scores"`` covariates and texts are left out and units carry pseudonyms; with ``"hashes"`` a record is a
        hash under a key that its owner keeps.
    seal : bool
        Keep the labels of a random half of the units sealed, so that a challenger cannot win by submitting the labels.
        The records of the bundle are shuffled then; ``Keys.order`` says where each stood.
    evidence, plan, nuisance, rng, notes, repeat, vulnerability, progress : as in :func:`miaudit.audit`

    Returns
    -------
    (Examined, Bundle, Keys)
        Findings as the audit gives them; the bundle, to be written; the keys, to be kept (``Keys.write``).

    Raises
    ------
    InputError
        As :func:`miaudit.audit`, for a plan or generator that cannot be written down, and for more records than a
        bundle holds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(400) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=400) + member, member=member, design="one-run")
    >>> examined, bundle, keys = record(evidence, rng=rng)
    >>> bundle.n, bundle.evidence().digest == evidence.digest
    (400, True)
    """
    level = sharing.check(share)
    sharing.check_sealing(level, seal=seal)
    plan = plan or Plan()
    if not seal:  # it counts labels, and covariates that may be withheld
        notes = (*notes, *exhibits.equal_rows(evidence))
    order = sealing.shuffled(evidence.n) if seal else None
    if order is not None:
        evidence, nuisance = evidence.take(order), None if nuisance is None else nuisance.of_rows(order)
    keys = Keys.new(evidence.member, seal=seal, unit=evidence.unit_codes, order=order)
    audited = sharing.prepared(evidence, level, keys.pseudonyms)
    state = written_plan.state_of(rng)
    written_plan.encode(plan)  # refused before the work, not after it
    columns, withheld = sharing.columns_of(audited, level, keys.pseudonyms)
    if "text" not in columns:  # parquet, where texts go, compresses
        archive.check_size(sum(values.nbytes for values in columns.values()))
    examined = pipeline.examine(
        audited,
        plan=plan,
        nuisance=nuisance,
        rng=rng,
        notes=notes,
        repeat=repeat,
        vulnerability=vulnerability,
        progress=progress,
    )
    if "member" in columns:
        member = columns["member"].astype(np.int8)
        member[keys.rows] = SEALED
        columns["member"] = member
    found, gone = sharing.findings_of(examined.findings.to_dict(), level, columns, sealed=seal)
    sealed = (keys.rows, keys.commitments())
    programs = _programs(nuisance)
    learned = level == "all" and seal and not programs
    bundle = Bundle(
        level,
        (
            *withheld,
            *gone,
            *((f"the labels of {len(keys.rows):,} records, sealed",) if seal else ()),
            *(
                ("propensities, which are learned again when labels are opened",)
                if learned and examined.propensity
                else ()
            ),
        ),
        columns,
        sealed,
        found,
        plan,
        state,
        tuple(notes),
        examined.propensity if level != "hashes" and not learned else None,
        examined.rows if not learned else None,
        programs,
        environment(),
    )
    return _unshuffled(examined, order), bundle, keys


def _unshuffled(examined: pipeline.Examined, order: NDArray[np.int64] | None) -> pipeline.Examined:
    """The audit as its owner sees it: rows are counted as in the evidence that was handed in."""
    if order is None:
        return examined
    named = tuple({**row, "row": int(order[row["row"]])} for row in examined.findings.rows)
    rows, propensity = examined.rows, examined.propensity
    if rows is not None:
        rows = order[rows]
    elif propensity is not None:
        propensity = propensity.of_rows(np.argsort(order))
    return pipeline.Examined(replace(examined.findings, rows=named), propensity, rows)


def read(path: str | Path) -> Bundle:
    """Read a bundle that may come from a stranger; nothing in it runs.

    Digests are checked, and what does not fit is listed in ``tampered``: :mod:`miaudit.bundle.verify` says more.

    Raises
    ------
    InputError
        If it is no bundle, damaged beyond reading, or of another format version.
    """
    path = Path(path)
    with tempfile.TemporaryDirectory(prefix="miaudit-") as folder:
        placed = archive.unpack(path, Path(folder))
        manifest = _manifest(path, placed)
        tampered = list(_file_changes(manifest, placed))
        held = _named(path, placed)
        records = next((held[name] for name in _RECORDS if name in held), None)
        if records is None or _AUDIT not in held or _FINDINGS not in held:
            raise _refused(path, "a bundle without records, audit.json or findings.json")
        share = sharing.check(str(manifest.get("share", "")))
        columns = _columns(records, share)
        if manifest.get("records") != len(next(iter(columns.values()))):
            tampered.append("manifest.json counts other records than there are.")
        about = _json(held[_AUDIT], "audit.json")
        findings = audit_findings.check(_json(held[_FINDINGS], "findings.json"))
        tampered += _row_changes(held.get(_ROWS), columns)
        sealed = _sealed(held.get(_SEALED), columns)
        _check_membership(columns, sealed[0])
        propensity, rows = _propensity(held.get(_PROPENSITY), about, len(next(iter(columns.values()))))
        return Bundle(
            share,
            tuple(str(text)[:200] for text in _list(manifest, "withheld")),
            columns,
            sealed,
            findings,
            written_plan.plan_of(about.get("plan")),
            _mapping(about, "random"),
            tuple(str(note) for note in _list(about, "notes")),
            propensity,
            rows,
            str(about.get("programs", ""))[:500],
            _mapping(about, "environment"),
            tuple(tampered),
            archive.sha256(path),
        )


# -- writing ----------------------------------------------------------------------------------------------------------


def _entries(bundle: Bundle) -> dict[str, bytes]:
    name = _RECORDS["text" in bundle.columns]
    entries = {
        name: _table(bundle.columns, Path(name).suffix),
        _FINDINGS: findings_file.to_text(bundle.findings).encode(),
        _AUDIT: _as_json(
            {
                "plan": written_plan.encode(bundle.plan),
                "random": bundle.random,
                "notes": list(bundle.notes),
                "programs": bundle.programs,
                "propensity": None if bundle.propensity is None else _how(bundle.propensity),
                "environment": bundle.environment,
            }
        ),
        _ROWS: _array(sharing.row_digests(bundle.columns)),
    }
    if bundle.has_sealed_labels:
        entries[_SEALED] = _table({"rows": bundle.sealed[0], "commitments": bundle.sealed[1]}, ".npz")
    if bundle.propensity is not None:
        arrays: Columns = {"values": bundle.propensity.values}
        if bundle.propensity.folds is not None and not bundle.has_sealed_labels:
            arrays["folds"] = bundle.propensity.folds
        if bundle.rows is not None:
            arrays["rows"] = bundle.rows
        entries[_PROPENSITY] = _table(arrays, ".npz")
    files = {key: {"bytes": len(value), "sha256": _sha256(value)} for key, value in sorted(entries.items())}
    manifest = {
        "format": FORMAT,
        "made_by": f"miaudit {version('miaudit')}",
        "records": bundle.n,
        "share": bundle.share,
        "withheld": list(bundle.withheld),
        "files": files,
    }
    return {**entries, _MANIFEST: _as_json(manifest)}


def _how(propensity: Propensity) -> dict[str, Any]:
    """How propensities came about."""
    rows = propensity.rows_per_covariate
    return {
        "how": propensity.how,
        "clip": propensity.clip,
        "clipped": propensity.clipped,
        "dropped": list(propensity.dropped),
        "rows_per_covariate": rows if rows is None or math.isfinite(rows) else None,
    }


def _table(columns: Mapping[str, NDArray[Any]], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="miaudit-") as folder:
        path = Path(folder) / f"table{suffix}"
        tables.write_columns(path, columns)
        return path.read_bytes()


def _array(values: NDArray[Any]) -> bytes:
    handle = io.BytesIO()
    np.save(handle, values, allow_pickle=False)
    return handle.getvalue()


def _as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _programs(nuisance: Nuisance | None) -> str:
    if nuisance is None:
        return ""
    used = [name for name in ("encoding", "classifier", "outcome") if getattr(nuisance, name) is not None]
    given = nuisance.propensity
    if given is not None:  # of a learned one its values alone are kept, not what it was learned from
        used.append(GIVEN if given.rows_per_covariate is None else "propensity, learned elsewhere")
    return ", ".join(used)


def environment() -> dict[str, str]:
    """Return the versions under which findings come about."""
    import polars
    import scipy
    import sklearn

    return {
        "miaudit": version("miaudit"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "polars": polars.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


# -- reading ----------------------------------------------------------------------------------------------------------


def _manifest(path: Path, placed: Mapping[str, Path]) -> dict[str, Any]:
    if _MANIFEST not in placed:
        raise _refused(path, "an archive without manifest.json")
    manifest = _json(placed[_MANIFEST], _MANIFEST)
    if manifest.get("format") != FORMAT:
        found = repr(manifest.get("format"))[:20]
        raise InputError("bundle", f"format {FORMAT}", found, "use the version of miaudit that wrote it")
    return manifest


def _named(path: Path, placed: Mapping[str, Path]) -> dict[str, Path]:
    known = {_AUDIT, _FINDINGS, _ROWS, _SEALED, _PROPENSITY, *_RECORDS}
    strangers = set(placed) - known - {_MANIFEST}
    if strangers:
        raise _refused(path, f"an entry that no bundle has ({min(strangers)})")
    return {name: where for name, where in placed.items() if name != _MANIFEST}


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
    for name in sorted(set(placed) - set(listed) - {_MANIFEST}):
        yield f"{name} is not in the manifest."


def _row_changes(path: Path | None, columns: Columns) -> list[str]:
    if path is None:
        return ["rows.npy is missing, so a changed record cannot be named."]
    stated = tables.read_array(path, "rows.npy")
    found = sharing.row_digests(columns)
    if stated.shape != found.shape or stated.dtype != found.dtype:
        return [f"rows.npy holds digests of {len(stated):,} records, not of the {len(found):,} that are there."]
    changed = np.flatnonzero((stated != found).any(axis=1))
    if not len(changed):
        return []
    named = ", ".join(map(str, changed[:10])) + (", ..." if len(changed) > 10 else "")
    what = "record" if len(changed) == 1 else "records"
    return [f"{len(changed):,} {what} changed: row {named} (counted from 0)."]


def _columns(path: Path, share: Share) -> Columns:
    names = tables.column_names(path, "records")
    known = [name for name in names if _is_column(name)]
    fits = known == ["hash"] if share == "hashes" else "member" in known and "hash" not in known
    if share == "scores":
        fits = fits and not any(name == "text" or name.startswith("covariate") for name in known)
    if len(known) < len(names) or not fits:
        raise InputError("records", "columns of evidence", ", ".join(names)[:80], "ask for the bundle again")
    columns = tables.read_columns(path, known, "records")
    lengths = {len(values) if values.ndim else -1 for values in columns.values()}
    if len(lengths) != 1 or lengths & {-1, 0}:
        raise InputError("records", "columns of one length", f"lengths {sorted(lengths)[:5]}", "ask for it again")
    return columns


def _check_membership(columns: Columns, sealed: NDArray[np.int64]) -> None:
    """Membership is 0 or 1, and -1 exactly where it is sealed: anything else would silently count as a member."""
    if "member" not in columns:
        return
    member = columns["member"]
    plain = member.ndim == 1 and member.dtype.kind in "biu"
    if not plain or not np.isin(np.delete(member, sealed), (0, 1)).all():
        raise InputError("records", "membership of 0 or 1 where it is not sealed", "something else", "ask for it again")


def _is_column(name: str) -> bool:
    plain = {"member", "score", "covariates", "text", "unit", "group", "design", "source", "hash"}
    return name in plain or name.startswith(("score.", "covariate."))


def _evidence(columns: Columns, member: NDArray[np.int8]) -> Evidence:
    """Evidence from the columns that it was written as."""
    with tempfile.TemporaryDirectory(prefix="miaudit-") as folder:
        path = Path(folder) / _RECORDS["text" in columns]
        tables.write_columns(path, {**columns, "member": member.astype(np.bool_)})
        loaded = Evidence.load(path)
        return loaded if "source" in columns else loaded.replace(source="")


def _sealed(path: Path | None, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    if path is None:
        return np.empty(0, dtype=np.int64), np.empty((0, 32), dtype=np.uint8)
    held = tables.read_columns(path, ("rows", "commitments"), _SEALED)
    rows, commitments = held["rows"], held["commitments"]
    n = len(next(iter(columns.values())))
    good = rows.ndim == 1 and rows.dtype.kind == "i" and commitments.shape == (len(rows), 32)
    good = good and commitments.dtype == np.uint8 and _rise(rows)
    good = good and (not len(rows) or (rows[0] >= 0 and rows[-1] < n)) and "member" in columns
    if not good or not np.array_equal(np.flatnonzero(columns["member"] == sealing.SEALED), rows):
        raise InputError(_SEALED, "a commitment for each sealed label", "something else", "ask for the bundle again")
    return rows.astype(np.int64), commitments


def _propensity(
    path: Path | None, about: Mapping[str, Any], n: int
) -> tuple[Propensity | None, NDArray[np.int64] | None]:
    if path is None:
        return None, None
    names = tables.column_names(path, _PROPENSITY)
    held = tables.read_columns(path, [name for name in ("values", "rows") if name in names], _PROPENSITY)
    rows = held.get("rows")
    if rows is not None and not (
        rows.ndim == 1 and rows.dtype.kind == "i" and len(rows) and rows[0] >= 0 and rows[-1] < n and _rise(rows)
    ):
        raise InputError(_PROPENSITY, "rows of the records", "others", "ask for the bundle again")
    if "values" not in held or held["values"].shape != (n if rows is None else len(rows),):
        raise InputError(_PROPENSITY, "one value for each audited record", "another number", "ask for it again")
    how = about.get("propensity")
    words = str(how.get("how", "given"))[:300] if isinstance(how, Mapping) else "given"
    if held["values"].dtype.kind != "f":
        raise InputError(_PROPENSITY, "numbers", f"values of type {held['values'].dtype}", "ask for the bundle again")
    return Propensity.given(held["values"], words), rows


def _rise(rows: NDArray[Any]) -> bool:
    return bool(np.all(np.diff(rows) > 0))


def _json(path: Path, name: str) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_JSON:
        raise InputError(name, "a file below 200 MB", f"{path.stat().st_size:,} bytes", "ask for the bundle again")
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(name, "JSON", one_line(str(error))[:80], "ask for the bundle again") from error
    if not isinstance(content, dict):
        raise InputError(name, "a JSON object", type(content).__name__, "ask for the bundle again")
    _check_depth(content, name)
    return content


def _check_depth(content: Any, name: str) -> None:
    """Refuse deep nesting at once: many a later step goes down the tree."""
    level = [content]
    for _ in range(_DEEPEST):
        below = [item for item in level if isinstance(item, dict | list)]
        level = [inner for item in below for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return
    raise InputError(name, f"at most {_DEEPEST} levels", "more", "ask for the bundle again")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key)
    if not isinstance(value, list):
        raise InputError(key, "a list", type(value).__name__, "ask for the bundle again")
    return value


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if not isinstance(value, dict):
        raise InputError(key, "an object", type(value).__name__, "ask for the bundle again")
    return value


def _refused(path: Path, what: str) -> InputError:
    return InputError("bundle", "a bundle that miaudit wrote", f"{path.name}: {what}", "ask for it again")

"""Contents of a bundle: shared evidence, plan, randomness, propensities, findings and digests."""

# ruff: noqa: PLC0415 - libraries whose versions are recorded load when a bundle is made
from __future__ import annotations

import glob
import hashlib
import io
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IndexArray, IntArray
from miaudit.auditing import pipeline, remarks
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, arrays, plain_json, sealing, sharing, written_plan
from miaudit.bundle.sealing import SEALED, Keys, Opening, Sealed
from miaudit.bundle.sharing import Columns, Share
from miaudit.causal import concentration
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError, OutputError, one_line
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings, SealedCoins, Vulnerability
from miaudit.io.sealed_coins import Coins

FORMAT = 1
KEY_SUFFIX = ".key.json"
OPENING_SUFFIX = ".opening.json"
GIVEN = "propensity, given"
MANIFEST, AUDIT, FINDINGS, ROWS = "manifest.json", "audit.json", "findings.json", "rows.npy"
SEALED_LABELS, PROPENSITY, RECORDS, COINS = "sealed.npz", "propensity.npz", "records.npz", "coins.json"


@dataclass(frozen=True, eq=False)
class Bundle:
    """An audit that others can repeat.

    Attributes
    ----------
    share : "all", "scores" or "hashes"
    withheld : what is not in it, in words
    columns : what is shared of the n records, by the names of ``Evidence.columns``; sealed membership is -1
    sealed : what stands in place of sealed labels, or None where none is
    findings : of the audit; where labels are sealed, of the open records alone, as are
        propensity, rows, notes and programs
    plan : Plan
    random : where the generator stood when the audit began; empty where nothing can be recomputed
    notes : what the collector of the evidence had to say
    propensity : of the audited rows, or None
    rows : indices of the audited rows, or None for all
    programs : the caller's own models that the audit used and that no bundle can hold, in words
    environment : versions under which the findings came about
    tampered : what does not fit the manifest, in sentences; empty for a bundle as it was written
    digest : SHA-256 of the file, or None before it is written
    coins : sealed coins that membership came from, revealed, or None
    """

    share: Share
    withheld: tuple[str, ...]
    columns: Columns
    sealed: Sealed | None
    findings: Findings
    plan: Plan
    random: Mapping[str, Any]
    notes: tuple[str, ...]
    propensity: Propensity | None
    rows: IntArray | None
    programs: str
    environment: Mapping[str, Any]
    tampered: tuple[str, ...] = ()
    digest: str | None = None
    coins: Coins | None = None

    @property
    def n(self) -> int:
        """Number of records."""
        return len(next(iter(self.columns.values())))

    @property
    def mark(self) -> bytes:
        """SHA-256 (32 bytes) of records, plan and commitments, which submissions and openings refer to."""
        state = hashlib.sha256(b"miaudit bundle\x00" + sharing.row_digests(self.columns).tobytes())
        state.update(plain_json.dump([*sorted(self.columns), written_plan.encode(self.plan)]))
        for values in () if self.sealed is None else vars(self.sealed).values():
            state.update(values.tobytes())
        return state.digest()

    def labels(self, keys: Opening | None = None) -> NDArray[np.int8]:
        """Return membership (n,) of 0 and 1; sealed labels need keys.

        Raises
        ------
        InputError
            If the keys do not fit the commitments.
        """
        member = self.columns["member"].astype(np.int8)
        if self.sealed is None:
            return member
        if keys is None or not keys.opens(self.sealed):
            received = "none" if keys is None else "keys of other labels"
            allowed = "the key file that belongs to this bundle"
            raise InputError("key", allowed, received, "ask the owner of the bundle")
        member[self.sealed.rows] = keys.labels
        return member

    def evidence(self, keys: Opening | None = None) -> Evidence | None:
        """Return the evidence, with ``keys`` as in :meth:`labels`; None where scores are withheld or labels sealed."""
        if self.share == "hashes" or (self.sealed is not None and keys is None):
            return None
        return sharing.evidence_of({**self.columns, "member": self.labels(keys).astype(np.bool_)})

    def write(self, path: str | Path, *, overwrite: bool = False, before: Callable[[str], None] | None = None) -> str:
        """Write the bundle to one .zip, whole or not at all; return its SHA-256.

        ``before`` is called with it when only the name of the file is missing.

        Raises
        ------
        OutputError
            If the file is there and ``overwrite`` is false.
        """
        path = Path(path)
        if path.exists() and not overwrite:
            raise OutputError(one_line(f"--bundle {path}: is there already; name another file, or add --overwrite"))
        return archive.write(path, _entries(self), before=before)

    def write_with_keys(self, keys: Keys, path: Path, key_path: Path) -> str:
        """Write the bundle, replacing an earlier one, and its owner's keys, which replace none; return its SHA-256.

        The keys take their name after the bundle does. Until then they wait under a hidden name that holds the SHA-256,
        so that a kill between the two loses nothing and blocks nothing: see :func:`finish_keys`.

        Raises
        ------
        OutputError
            If one of them cannot be written.
        """
        waiting: list[Path] = []

        def before(digest: str) -> None:
            waiting.append(_waiting(key_path, digest))
            keys.write(waiting[0])

        try:
            digest = self.write(path, overwrite=True, before=before)
        except BaseException:  # keys without a bundle open nothing
            for one in waiting:
                one.unlink(missing_ok=True)
            raise
        finish_keys(path, key_path)
        if waiting[0].exists():
            raise OutputError(one_line(f"{key_path}: keys are there already, and kept; the new ones are {waiting[0]}"))
        keys.use.path = key_path
        return digest


def finish_keys(path: Path, key_path: Path) -> None:
    """Give the keys of a bundle their name where a killed process left them under a hidden one.

    Parameters
    ----------
    path, key_path : of the bundle and of its keys; without either, and where keys have that name, nothing happens
    """
    if not any(key_path.parent.glob(glob.escape(f".{key_path.name}.") + "*")) or not path.is_file():
        return
    waiting = _waiting(key_path, archive.sha256(path))
    if waiting.is_file() and not key_path.exists():
        waiting.rename(key_path)


def _waiting(key_path: Path, digest: str) -> Path:
    return key_path.with_name(f".{key_path.name}.{digest}")


@dataclass(frozen=True, eq=False)
class Examined:
    """An audit with its intermediate results, row by row, as its owner sees it.

    Attributes
    ----------
    findings : Findings
    propensity : Propensity of the audited rows, or None where nothing was corrected
    rows : array of indices of the audited rows, or None for all of them
    """

    findings: Findings
    propensity: Propensity | None
    rows: IndexArray | None


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
    stability: concentration.Measured | None = None,
    coins: Coins | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Examined, Bundle, Keys]:
    """Audit evidence as :func:`miaudit.audit` does, and keep what repeats the audit.

    Parameters
    ----------
    share : "all", "scores" or "hashes"
        With ``"scores"`` covariates and texts are left out and units carry pseudonyms; with ``"hashes"`` a record is a
        hash under a key that its owner keeps, and the operating system seeds the audit in place of ``rng``, whose
        state stays out of the bundle: it may have drawn the memberships.
    seal : bool
        Keep the labels of a random half of the units sealed, so that a challenger cannot win by submitting the labels.
        The bundle then holds the audit of the open records, and a commitment to that of all; what was handed in beside
        the evidence (notes, repeat, vulnerability, propensities) stays out of it. Records are shuffled, ``Keys.order``
        says where each stood, and the operating system seeds the audit in place of ``rng``.
    coins : Coins, optional
        Sealed coins that membership came from; they are checked, and revealed by the bundle: their secret signs.
    evidence, plan, nuisance, rng, notes, repeat, vulnerability, stability, progress : as in :func:`miaudit.audit`

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
    plan, shown = plan or Plan(), _checked(coins, evidence, level, seal=seal)
    coins = None if coins is None else coins.revealed()
    # What is said of equal rows counts labels, and covariates that may be withheld.
    notes = (*notes, *remarks.beforehand(evidence, plan, stability, rows=not seal))
    order = None
    if sharing.hides_members(level, seal=seal):
        sealing.check_margin(plan)
        rng = sealing.generator()
    if seal:
        sealing.check(evidence)
        order = sealing.shuffled(evidence.n)
        evidence, nuisance = evidence.take(order), None if nuisance is None else nuisance.of_rows(order)
    keys = Keys.new(evidence.member, seal=seal, unit=evidence.unit_codes, order=order)
    audited = sharing.prepared(evidence, level, keys.pseudonyms)
    state = written_plan.state_of(rng)
    written_plan.encode(plan)  # refused before the work, not after it
    columns, withheld = sharing.columns_of(audited, level, keys.pseudonyms)
    texts = sum(map(len, columns["text"])) if "text" in columns else 0
    archive.check_size(texts + sum(values.nbytes for name, values in columns.items() if name != "text"))
    published = _of_open_records(audited, keys, plan, nuisance, state, level) if seal else None
    beside: dict[str, Any] = {"notes": notes, "repeat": repeat, "vulnerability": vulnerability, "coins": shown}
    options: dict[str, Any] = {"plan": plan, "nuisance": nuisance, "rng": rng, "progress": progress}
    whole, learned, audited_rows = pipeline.examine(audited, **options, **beside)
    shared_findings, gone = sharing.findings_of(whole, level, columns)
    propensity = None if level == "hashes" else learned
    parts: Parts = (shared_findings, tuple(notes), _programs(nuisance), propensity, audited_rows)
    if level == "hashes":
        state, parts = {}, (shared_findings, (), _programs(nuisance), None, None)
    sealed = None
    if published is not None:
        keys = replace(keys, audit=_written(*parts))
        sealed, parts, gone = keys.sealed(), published, (_withheld(keys),)
        columns = {**columns, "member": _without(columns["member"], keys.rows)}
    stated, notes_of_rows, programs, given_propensity, rows = parts
    shared = (level, (*withheld, *gone), columns, sealed)
    bundle = Bundle(
        *shared, stated, plan, state, notes_of_rows, given_propensity, rows, programs, environment(), coins=coins
    )
    return _unshuffled(Examined(whole, learned, audited_rows), order), bundle, keys


Parts = tuple[Findings, tuple[str, ...], str, Propensity | None, NDArray[Any] | None]


def _checked(coins: Coins | None, evidence: Evidence, level: Share, *, seal: bool) -> SealedCoins | None:
    """Check sealed coins, if there are any, before the work."""
    if coins is None:
        return None
    sharing.check_coins(level, seal=seal)
    return SealedCoins.of(coins, evidence)


def _of_open_records(
    audited: Evidence, keys: Keys, plan: Plan, nuisance: Nuisance | None, state: Mapping[str, Any], level: Share
) -> Parts:
    """Audit the open records, before any sealed label is used.

    Propensities that were handed in are not used: nobody can tell whether they were learned from all labels.
    """
    is_open = np.delete(np.arange(audited.n), keys.rows)
    own = None if nuisance is None else replace(nuisance, propensity=None)
    notes = (
        f"{len(keys.rows):,} labels are sealed: these findings are of the {len(is_open):,} open records alone, "
        "and rows are counted among these. A commitment to the findings of all records is in the bundle.",
    )
    try:
        part = audited.take(is_open)
        rng = written_plan.generator_at(state)
        alone, propensity, rows = pipeline.examine(part, plan=plan, nuisance=own, rng=rng, notes=notes)
    except InputError as error:
        received = one_line(f"too few ({error})")[:160]
        raise InputError("seal", "open records that can be audited alone", received, "seal a larger audit") from error
    columns, _ = sharing.columns_of(part, level, keys.pseudonyms)
    open_findings, _ = sharing.findings_of(alone, level, columns)
    return open_findings, notes, _programs(own), propensity, rows


def _written(
    findings: Findings,
    notes: tuple[str, ...],
    programs: str,
    propensity: Propensity | None,
    rows: NDArray[Any] | None,
) -> str:
    """Return the audit of all records as the text to commit to."""
    content = {
        "findings": findings.to_dict(),
        "notes": list(notes),
        "programs": programs,
        "how": None if propensity is None else propensity.how,
        "propensity": None if propensity is None else propensity.values.tolist(),
        "rows": None if rows is None else rows.tolist(),
    }
    return plain_json.dump(content).decode()


def _withheld(keys: Keys) -> str:
    return f"the labels of {len(keys.rows):,} records, and all that was computed on them: sealed"


def _without(member: NDArray[Any], rows: IntArray) -> NDArray[np.int8]:
    labels = member.astype(np.int8)
    labels[rows] = SEALED
    return labels


def _unshuffled(examined: Examined, order: IntArray | None) -> Examined:
    """Return the audit with rows counted as in the evidence of its owner."""
    if order is None:
        return examined
    named = tuple({**row, "row": int(order[row["row"]])} for row in examined.findings.rows)
    rows, propensity = examined.rows, examined.propensity
    if rows is not None:
        rows = order[rows]
    elif propensity is not None:
        propensity = propensity.of_rows(np.argsort(order))
    return Examined(replace(examined.findings, rows=named), propensity, rows)


# -- writing ----------------------------------------------------------------------------------------------------------


def _entries(bundle: Bundle) -> dict[str, bytes]:
    entries = {
        RECORDS: arrays.write(bundle.columns),
        FINDINGS: bundle.findings.to_json().encode(),
        AUDIT: plain_json.dump(
            {
                "plan": written_plan.encode(bundle.plan),
                "random": bundle.random,
                "notes": list(bundle.notes),
                "programs": bundle.programs,
                "propensity": None if bundle.propensity is None else _how(bundle.propensity),
                "environment": bundle.environment,
            }
        ),
        ROWS: _array(sharing.row_digests(bundle.columns)),
    }
    for name in (FINDINGS, AUDIT):
        plain_json.check(entries[name], name, largest=plain_json.LARGEST)
    if bundle.sealed is not None:
        entries[SEALED_LABELS] = arrays.write(vars(bundle.sealed))
    if bundle.propensity is not None:
        values: Columns = {"values": bundle.propensity.values}
        if bundle.propensity.folds is not None:
            values["folds"] = bundle.propensity.folds
        if bundle.rows is not None:
            values["rows"] = bundle.rows
        entries[PROPENSITY] = arrays.write(values)
    if bundle.coins is not None:
        entries[COINS] = plain_json.dump(bundle.coins.plain())
    files = {key: {"bytes": len(value), "sha256": _sha256(value)} for key, value in sorted(entries.items())}
    manifest = {
        "format": FORMAT,
        "made_by": f"miaudit {version('miaudit')}",
        "records": bundle.n,
        "share": bundle.share,
        "withheld": list(bundle.withheld),
        "files": files,
    }
    return {**entries, MANIFEST: plain_json.dump(manifest)}


def _how(propensity: Propensity) -> dict[str, Any]:
    """Describe how propensities were made."""
    rows = propensity.rows_per_covariate
    return {
        "how": propensity.how,
        "clip": propensity.clip,
        "clipped": propensity.clipped,
        "dropped": list(propensity.dropped),
        "rows_per_covariate": rows if rows is None or math.isfinite(rows) else None,
    }


def _array(values: NDArray[Any]) -> bytes:
    handle = io.BytesIO()
    np.save(handle, values, allow_pickle=False)
    return handle.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _programs(nuisance: Nuisance | None) -> str:
    if nuisance is None:
        return ""
    used = [name for name in ("encoding", "classifier", "outcome") if getattr(nuisance, name) is not None]
    propensity = nuisance.propensity
    if propensity is not None:  # of a learned one its values alone are kept, not what it was learned from
        used.append(GIVEN if propensity.rows_per_covariate is None else "propensity, learned elsewhere")
    return ", ".join(used)


def environment() -> dict[str, str]:
    """Return the versions of the libraries that findings depend on."""
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

"""Contents of a bundle: shared evidence, plan, randomness, propensities, findings and digests."""

# ruff: noqa: PLC0415 - libraries whose versions are recorded load when a bundle is made
from __future__ import annotations

import glob
import hashlib
import io
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, arrays, plain_json, sharing, written_plan
from miaudit.bundle.sealing import Opening, Sealed, SealKeys
from miaudit.bundle.sharing import Columns, Share
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, OutputError, one_line
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
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
    sealed : commitments in place of sealed labels, or None if no label is sealed
    findings : of the audit; where labels are sealed, of the open records alone, as are
        propensity, rows, notes and programs
    plan : Plan
    random : state of the generator when the audit began; empty where nothing can be recomputed
    notes : of the collector of the evidence
    propensity : of the audited rows, or None
    rows : indices of the audited rows, or None for all
    programs : the caller's own models that the audit used and that no bundle can hold, in words
    environment : versions of the libraries that computed the findings
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

    def write_with_keys(self, keys: SealKeys, path: Path, key_path: Path) -> str:
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

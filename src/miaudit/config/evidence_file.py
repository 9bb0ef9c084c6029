"""The evidence of a finished audit, read again from the file that the audit read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.collect import outputs
from miaudit.config.assumed import NARROW, assume
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.io import tables

__all__ = ["read"]

_ID = "id"


def read(path: str | Path, findings: Findings) -> tuple[Evidence, NDArray[Any] | None]:
    """Read the evidence that an audit was made on, and the column ``id`` of the same file.

    The columns have the names that :meth:`miaudit.Evidence.save` and ``miaudit collect`` write, or the names from which
    ``miaudit audit FILE`` would know them. What is read is right if its digest is that of the findings.

    Parameters
    ----------
    path : .npz, .parquet or .csv
    findings : of the audit

    Returns
    -------
    evidence : as far as the file gives the evidence of the findings, else what was read
    id : array (n,) that names each record, or None where the file has no such column

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    path = tables.existing_file(path, "--evidence", tuple(tables.FORMATS))
    refused: InputError | None = None
    last: Evidence | None = None
    for options in _readings(path, findings.evidence["scores"]):
        try:
            last = outputs.from_table(path, **options, design=findings.design, rng=np.random.default_rng(0)).evidence
        except InputError as error:
            refused = refused or error
            continue
        if last.digest == findings.evidence["digest"]:
            break
    if last is None:
        raise refused or InputError("--evidence", "evidence", path.name, "name the file that the audit read")
    return last, _ids(path)


def _readings(path: Path, scores: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the options by which the file may be read: as saved evidence, or by names and first rows.

    From losses or outputs the scores of the findings are computed again, as far as they need no option.
    """
    yield {}
    try:
        assumed = assume(path, {})[0].options
    except InputError:
        return
    if not {"score", "member"} <= assumed.keys():
        return
    known = tuple(name for name in scores if name in outputs.of_outputs())
    signal = assumed.get("signal", "score")
    for kind in NARROW if signal in NARROW else (signal,):
        for without in ((), ("unit",)) if "unit" in assumed else ((),):
            options: dict[str, Any] = {key: value for key, value in assumed.items() if key not in without}
            attack = None if kind == "score" else outputs.Attack(known or ("loss",))
            yield {**options, "score": assumed["score"].split(","), "signal": kind, "attack": attack}


def _ids(path: Path) -> NDArray[Any] | None:
    if _ID not in tables.column_names(path):
        return None
    ids = np.asarray(tables.read_columns(path, [_ID], "--evidence", as_text=[_ID])[_ID])
    if ids.ndim != 1:
        raise InputError(_ID, "one value for each record", f"shape {ids.shape}", "write one id in each row")
    return ids

"""The two audits of a sealed bundle: of the open records, and of all records after the opening."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.bundle import plain_json
from miaudit.bundle.contents import Bundle
from miaudit.bundle.sealing import Opening
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.findings.audit import Findings

_LARGEST = 200_000_000
_OTHERS = "ask the owner of the bundle"


def open_part(bundle: Bundle) -> Bundle:
    """Return the bundle of the open records and published findings; an unsealed bundle itself."""
    if bundle.sealed is None:
        return bundle
    is_open = np.delete(np.arange(bundle.n), bundle.sealed.rows)
    return replace(bundle, columns={name: values[is_open] for name, values in bundle.columns.items()}, sealed=None)


def opened(bundle: Bundle, keys: Opening) -> Bundle:
    """Return the bundle of all records with their labels (``keys`` as in :meth:`Bundle.labels`) and committed audit.

    Raises
    ------
    InputError
        Also if what was committed to is no audit.
    """
    if bundle.sealed is None:
        return bundle
    columns = {**bundle.columns, "member": bundle.labels(keys)}
    content = plain_json.parse(_text(keys), "key", values=len(keys.audit))
    propensity, rows = _propensity(content, bundle.n)
    return replace(
        bundle,
        columns=columns,
        sealed=None,
        findings=Findings.from_dict(content.get("findings")),
        notes=tuple(str(note) for note in plain_json.listed(content, "notes")),
        programs=str(content.get("programs", ""))[:500],
        propensity=propensity,
        rows=rows,
    )


def _text(keys: Opening) -> bytes:
    text = keys.audit.encode(errors="replace")
    if len(text) > _LARGEST:
        raise InputError("key", f"at most {_LARGEST:,} bytes", f"{len(text):,}", _OTHERS)
    return text


def _propensity(content: Mapping[str, Any], n: int) -> tuple[Propensity | None, IntArray | None]:
    values, rows = content.get("propensity"), content.get("rows")
    if values is None:
        return None, None
    try:
        numbers = np.array(values, dtype=np.float64)
        chosen = None if rows is None else np.array(rows, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("key", "propensities that are numbers", "something else", _OTHERS) from error
    check_rows(chosen, n, "key")
    if numbers.shape != (n if chosen is None else len(chosen),):
        raise InputError("key", "one propensity for each audited record", "another number", _OTHERS)
    return Propensity.given(numbers, str(content.get("how", "given"))[:300]), chosen


def check_rows(rows: NDArray[Any] | None, n: int, name: str) -> None:
    """Refuse anything but ascending indices of the records."""
    if rows is None:
        return
    good = rows.ndim == 1 and rows.dtype.kind == "i" and len(rows) > 0 and bool(np.all(rows[1:] > rows[:-1]))
    if not good or rows[0] < 0 or rows[-1] >= n:
        raise InputError(name, "rows of the records", "others", "ask for the bundle again")

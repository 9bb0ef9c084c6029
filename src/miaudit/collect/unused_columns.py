"""The columns of a file that its audit does not use, as far as they could be covariates.

Constant columns, and texts or whole numbers that differ in every record (identifiers), say nothing here. Columns that
are named as membership, or as what a model or an attack says of a record, are set aside: what follows from training
separates members because the model leaks. At most 200 columns and 20 million values are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.auditing.unused_columns import UnusedValues
from miaudit.errors import InputError
from miaudit.io import numeric, roles, tables
from miaudit.io.evidence_columns import EvidenceColumns

__all__ = ["UnusedValues", "read"]

_MOST = 200  # columns
_CELLS = 20_000_000  # values of all columns together
_FEWEST_LEVELS = 2
_KNOWN = {"id", "propensity", "collector.notes"}  # that files of miaudit have
_PREFIXES = ("score.", "level.")


def read(path: str | Path, rows: int, also: Collection[str] = (), **columns: Any) -> UnusedValues | None:
    r"""Read the columns of a table that no role of the audit takes; None where there are none.

    It never fails: a column that cannot be read, or has another number of rows, counts as not looked at.

    Parameters
    ----------
    path : .npz, .parquet, .csv or another format of tables
    rows : how many records the audit has
    also : other columns in use, such as labels, propensities and reference scores
    columns : the columns of evidence, as :meth:`miaudit.Evidence.load` takes them

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("id,member,loss,age,site,year\na,1,0.2,31,x,7\nb,0,1.4,45,y,7\nc,1,0.3,31,x,7\n")
    ...     unused = read(file, 3, score="loss", member="member", covariates="age")
    >>> list(unused.numbers), list(unused.categories)
    ([], ['site'])
    """
    try:
        names = tables.column_names(path)
        of_evidence = EvidenceColumns.of(names, **columns)
        named = roles.of_training(path)
    except InputError:
        return None
    roles_of = {*of_evidence.scores, of_evidence.member, *of_evidence.covariates, *of_evidence.labels}
    used = {*roles_of, *also, *_KNOWN}
    other = [name for name in names if name not in used and not name.startswith(_PREFIXES)]
    outputs = tuple(name for name in other if name in named)
    wanted = [name for name in other if name not in named]
    chosen = wanted[: min(_MOST, _CELLS // max(rows, 1))]
    numbers: dict[str, FloatArray] = {}
    categories: dict[str, NDArray[Any]] = {}
    left = len(wanted) - len(chosen)
    for name, values in _values(path, chosen):
        if values is None or values.shape != (rows,):
            left += 1
        elif values.dtype.kind == "U":
            if _says_something(values):
                categories[name] = np.unique(values, return_inverse=True)[1] - int((values == "").any())
        elif _says_something(values):
            numbers[name] = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    return UnusedValues(numbers, categories, outputs, left) if numbers or categories or outputs or left else None


def _values(path: str | Path, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any] | None]]:
    """Yield the values of each column, read together where that is possible; None where a column cannot be read."""
    try:
        together = tables.read_columns(path, names, gaps=names)
    except InputError:
        together = {}
    for name in names:
        try:
            values = together[name] if name in together else tables.read_columns(path, [name], gaps=[name])[name]
            values = numeric.days(values, name)
        except InputError:
            yield name, None
            continue
        yield name, values if values.dtype.kind in "biufU" else None


def _says_something(values: NDArray[Any]) -> bool:
    """Whether a column varies, and is no identifier."""
    distinct = len(np.unique(values))
    whole = values.dtype.kind in "iuU" or (values.dtype.kind == "f" and bool((values == np.rint(values)).all()))
    return distinct >= _FEWEST_LEVELS and not (whole and distinct == len(values))

"""Token log-probabilities in Parquet: a row for each text, with lists of numbers; the same record, read faster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError
from miaudit.io import tables, token_records
from miaudit.io.token_records import ARRAYS, EACH, LABELS, OWN, Limits, Place, TokenRecords, Wrong

if TYPE_CHECKING:
    import polars as pl

__all__ = ["holds_tokens", "read_parquet", "write_parquet"]

SUFFIXES = (".parquet",)
_ARGUMENT = "token-logprobs"


def holds_tokens(path: Path, argument: str = _ARGUMENT) -> bool:
    """Whether a .parquet file holds the log-probabilities of tokens: lists named logprobs, beside an id.

    A list of logprobs is never a score, so no evidence of :func:`miaudit.io.tables.read_columns` has it.
    """
    import polars as pl

    schema = tables.guarded(path, argument, lambda: pl.scan_parquet(path, glob=False).collect_schema())
    return "id" in schema and isinstance(schema.get("logprobs"), pl.List | pl.Array)


def read_parquet(path: str | Path, *, limits: Limits | None = None) -> TokenRecords:
    """Read token log-probabilities from columns with the names, and the meaning, of :func:`token_records.read_jsonl`.

    Numbers of tokens are lists of float32 or float64 (``top1`` of booleans, ``tokens`` of whole numbers), a list in
    every row. Errors name the row, from 1.

    Parameters
    ----------
    path : path of a .parquet file
    limits : Limits, optional; bytes of a line do not matter here

    Raises
    ------
    InputError
        As :func:`token_records.read_jsonl`, and for a file that holds scores of records and no tokens.
    """
    import polars as pl

    path = tables.existing_file(path, _ARGUMENT, SUFFIXES)
    names = tables.column_names(path, _ARGUMENT)
    ignored: dict[str, int] = {}
    if "logprobs" not in names:
        received = f"{path.name}, whose columns are {', '.join(names)[:120]}"
        hint = "audit scores without --signal token-logprobs"
        raise InputError(_ARGUMENT, "columns id, member and logprobs (a list in each row)", received, hint)
    token_records.check_keys(names, Place(path.name, 1, "row"), ignored)
    wanted = [name for name in names if name not in ignored]
    limits = limits or Limits()
    rows = tables.guarded(path, _ARGUMENT, lambda: pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    if not rows:
        raise token_records.no_records(path.name)
    token_records.check_size(rows, 0, limits, Place(path.name, rows, "row"))
    frame = tables.read_frame(path, wanted, _ARGUMENT)
    return _Columns(frame, path.name, limits).records(token_records.unused(ignored, "column"))


class _Columns:
    """The columns of a file, and where in it something is wrong."""

    def __init__(self, frame: pl.DataFrame, file: str, limits: Limits) -> None:
        self.frame, self.file, self.limits = frame, file, limits

    def at(self, row: int) -> Place:
        return Place(self.file, row + 1, "row")

    def records(self, notes: tuple[str, ...]) -> TokenRecords:
        """Check all columns and make the record of them."""
        arrays = {name: self.numbers(name) for name in ARRAYS if name in self.frame.columns}
        flat = {name: values for name, (values, _) in arrays.items()}
        starts = {name: offsets for name, (_, offsets) in arrays.items()}
        wanted = np.diff(starts["logprobs"])
        for name in set(EACH) & set(starts):
            own = np.diff(starts[name])
            row = int(np.argmax(own != wanted))  # the first, or 0, where all are as many
            token_records.check_length(name, int(own[row]), int(wanted[row]), self.at(row))
        member = np.array([token_records.check_member(one, self.at(row)) for row, one in self.values("member")])
        labels = {
            name: tuple(token_records.check_label(one, name, self.at(row)) for row, one in self.values(name))
            for name in ("id", *LABELS)
            if name in self.frame.columns
        }
        seen: dict[str, int] = {}
        for row, name in enumerate(labels["id"]):
            token_records.check_id(name, self.at(row), seen)
        times = None
        if "times" in self.frame.columns:
            each = zip(self.values("times"), member.tolist(), strict=True)
            times = [token_records.check_times(one, inside, self.at(row)) for (row, one), inside in each]
        windows = None
        if "windows" in self.frame.columns:
            windows = [token_records.check_windows(one, self.at(row)) for row, one in self.values("windows")]
        numbers = (times, self.same_tokens(starts), windows)
        return token_records.assembled(labels.pop("id"), member, flat, starts, labels, numbers, notes)

    def same_tokens(self, starts: Mapping[str, NDArray[np.int64]]) -> list[bool] | None:
        """Return whether the reference model cuts each text into the same tokens, if the file says so."""
        if "same_tokens" not in self.frame.columns:
            return None
        own = np.diff(starts["logprobs"]).tolist()
        other = np.diff(starts["reference_logprobs"]).tolist() if "reference_logprobs" in starts else [0] * len(own)
        return [
            token_records.check_same_tokens(one, other[row], own[row], self.at(row))
            for row, one in self.values("same_tokens")
        ]

    def values(self, name: str) -> list[tuple[int, Any]]:
        """Return the rows and the values of a column of labels, of which none is missing."""
        column = self.frame[name]
        self.everywhere(column)
        return list(enumerate(column.to_list()))

    def everywhere(self, column: pl.Series) -> None:
        """Refuse a column with empty rows."""
        if column.null_count():
            row = int(column.is_null().arg_max() or 0)
            received = f"{column.name} absent"
            self.at(row).refuse("keys", "the keys of other rows", received, "give it everywhere or nowhere")

    def numbers(self, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return all numbers of a column of lists (tokens,), checked, and where each row's begin (n + 1,)."""
        import polars as pl

        column = self.frame[name]
        if isinstance(column.dtype, pl.Array):
            column = column.arr.to_list()
        if not isinstance(column.dtype, pl.List):
            self.at(0).refuse(name, "a list of one number or more", f"a column of {column.dtype}", "write lists")
        self.everywhere(column)
        lengths = column.list.len().to_numpy().astype(np.int64)
        if not lengths.all():
            row = int(np.argmin(lengths))
            self.at(row).refuse(name, "a list of one number or more", "an empty list", "drop records without tokens")
        starts = np.concatenate([[0], np.cumsum(lengths)])
        token_records.check_size(len(lengths), int(starts[-1]), self.limits, self.at(len(lengths) - 1))
        inner = column.explode()
        whole = inner.dtype == pl.Boolean and name == "top1"
        if not (inner.dtype.is_numeric() or whole):
            self.at(0).refuse(name, "numbers", f"{inner.dtype} at position 0", "leave out tokens without a prediction")
        if inner.null_count():
            gap = Wrong(int(inner.is_null().arg_max() or 0), "numbers", "null", "leave out tokens without a prediction")
            self.wrong(name, starts, gap)
        values = inner.cast(pl.Float64).to_numpy()
        problem = token_records.first_wrong(values, name) or token_records.first_positive(values, name)
        if problem is not None:
            self.wrong(name, starts, problem)
        return values, starts

    def wrong(self, name: str, starts: NDArray[np.int64], problem: Wrong) -> None:
        """Refuse a number by its row and its position there."""
        row = int(np.searchsorted(starts, problem.position, side="right")) - 1
        place = problem.position - int(starts[row])
        self.at(row).refuse(name, problem.allowed, f"{problem.received} at position {place}", problem.next_step)


def write_parquet(path: str | Path, records: TokenRecords) -> None:
    """Write records for :func:`read_parquet`, to a temporary name that is then renamed."""
    import polars as pl

    columns: dict[str, Any] = {"id": list(records.ids), "member": records.member}
    columns["logprobs"] = _lists(records.log_p, records.offsets)
    for name, field in EACH.items():
        values = getattr(records, field)
        if values is not None:
            columns[name] = _lists(values, records.offsets)
    for name, field in OWN.items():
        values = getattr(records, f"{field}_log_p")
        if values is not None:
            columns[name] = _lists(values, getattr(records, f"{field}_offsets"))
    columns |= _optional(records)
    frame = pl.DataFrame(columns)
    tables.write_atomically(tables.require_suffix(path, "path", SUFFIXES), frame.write_parquet)


def _optional(records: TokenRecords) -> Mapping[str, Any]:
    columns = {name: getattr(records, name) for name in ("times", "same_tokens", "windows", *LABELS)}
    return {name: list(values) if name in LABELS else values for name, values in columns.items() if values is not None}


def _lists(values: NDArray[Any], offsets: NDArray[np.int64]) -> pl.Series:
    import polars as pl

    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError("records", "finite numbers", "NaN or infinity", "leave out tokens without a prediction")
    return pl.Series(np.split(values, offsets[1:-1]))

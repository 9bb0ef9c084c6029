"""Canaries behind the records of a campaign: checked against each other, and against what is there already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.auditing.near_texts import SHARE, near
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.io import frames

__all__ = ["behind", "beside", "described", "joined", "keys_of"]


def beside(records: Records, canaries: Records, made: str = "") -> Records:
    """Put canaries behind the records; those that differ from one by their label only leave.

    Fields that only one of the two has (covariates, groups) are left out, and so are units of the records: each canary
    has a coin of its own, unless the canaries have units. Then records without units are units of their own.

    Parameters
    ----------
    made : what the canaries are, in words

    Raises
    ------
    InputError
        For canaries with other columns or labels, one that is there twice, and one that is a record already; of texts
        also one that nearly stands in a record.
    """
    combined = behind(records, canaries, made)
    if isinstance(combined.x, list):
        stay = combined.n - canaries.n
        within = near(canaries.x, combined.x[:stay])
        if (within >= 0).any():
            row = int(np.argmax(within >= 0))
            received = f"canary {row}, which nearly stands in a record ({_begin(combined.x[within[row]])})"
            hint = "leave it out: a model learns it there"
            raise InputError(
                "canaries", f"canaries with fewer than {SHARE:.0%} of their words in a record", received, hint
            )
    return combined


def _begin(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def behind(records: Records, canaries: Records, made: str = "") -> Records:
    """As :func:`beside`, of canaries that are known to stand in no record."""
    if records.member is not None:
        raise InputError("data.member", "none, beside canaries that are made here", "one", "memberships are drawn")
    if canaries.n < 2:
        raise InputError("canaries", "two canaries or more", str(canaries.n), "miaudit canaries makes some")
    inputs, mine, other = _alike(records, canaries), records.written_labels, canaries.written_labels
    _require_labels(mine, other)
    staying = np.flatnonzero(_staying(records, inputs, mine, other))
    if not len(staying):
        raise InputError("canaries", "records beside them that are always learned", "none that stay", "make fewer")
    fields = {
        name: (
            values
            if name == "covariate_names"
            else np.concatenate([np.asarray(records.fields[name])[staying], np.asarray(canaries.fields[name])])
        )
        for name, values in records.fields.items()
        if name in canaries.fields
    }
    if "unit" in canaries.fields:
        fields["unit"] = _units(records, canaries, staying)
    total = len(staying) + canaries.n
    return Records(
        x=joined(frames.taken(records.x, staying), inputs),
        y=None if mine is None or other is None else np.concatenate([mine[staying], other]),
        member=None,
        fields=fields,
        source=f"{records.source} with {canaries.n:,} canaries",
        ids=_ids(records, canaries, staying),
        canary=np.arange(total) >= len(staying),
        made=made or canaries.made,
        times=_times(records, canaries, staying),
        natural=canaries.natural,
    )


def described(records: Records) -> str:
    """Say what the inputs of records are: rows of numbers, a table, images or texts."""
    x = records.x
    labels = "" if records.y is not None else " without labels"
    if isinstance(x, list):
        return f"texts{labels}"
    if frames.is_frame(x):
        return f"a table with columns of text, categories or gaps{labels}"
    return f"{'rows of numbers' if x.ndim == 2 else f'images of shape {x.shape[1:]}'}{labels}"


def joined(first: Any, second: Any) -> Any:
    """Return the inputs of some records, then those of others: arrays, lists or data frames."""
    if isinstance(first, list):
        return [*first, *second]
    return frames.joined(first, second) if frames.is_frame(first) else np.concatenate([first, second])


def _alike(records: Records, canaries: Records) -> Any:
    """Inputs of the canaries, in the columns and of the type of the records'."""
    own, theirs = records.x, canaries.x
    if isinstance(own, list) != isinstance(theirs, list) or frames.is_frame(own) != frames.is_frame(theirs):
        received = described(canaries)
        raise InputError("canaries", f"{described(records)}, as the data", received, "write them as the data are")
    if frames.is_frame(own):
        return frames.same_columns(own, theirs, "canaries", "the data")
    if isinstance(own, list):
        return theirs
    if own.shape[1:] != theirs.shape[1:]:
        received = f"shape {theirs.shape[1:]}"
        raise InputError("canaries", f"records of shape {own.shape[1:]}, as the data", received, "use the same columns")
    cast = theirs.astype(own.dtype)
    if own.dtype.kind != "f" and not np.array_equal(cast, theirs):
        allowed = f"values that {own.dtype} holds, as the data"
        raise InputError("canaries", allowed, f"others, of {theirs.dtype}", "round and cut them as the data are")
    return cast


def _staying(records: Records, x: Any, mine: NDArray[Any] | None, other: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which records (n,) stay beside canaries with inputs x: those that no canary differs from by its label only."""
    first = dict[Any, int]()
    for row, key in enumerate(keys_of(x)):
        if first.setdefault(key, row) != row:
            received = f"row {row} as row {first[key]}"
            raise InputError("canaries", "canaries that all differ", received, "leave one of the two out")
    stay = np.ones(records.n, dtype=np.bool_)
    for row, key in enumerate(keys_of(records.x)):
        canary = first.get(key)
        if canary is None:
            continue
        if mine is None or other is None or np.array_equal(mine[row], other[canary]):
            received = f"canary {canary}, which is record {row}"
            hint = "leave it out: the record is in every training"
            raise InputError("canaries", "canaries that are no records of the data", received, hint)
        stay[row] = False
    return stay


def _require_labels(mine: NDArray[Any] | None, other: NDArray[Any] | None) -> None:
    if mine is None and other is None:
        return
    if mine is None or other is None:
        received = "none" if other is None else "some, beside data without"
        raise InputError("canaries", "labels as those of the data", received, "name the same columns in both")
    if mine.shape[1:] != other.shape[1:] or (mine.dtype.kind == "U") != (other.dtype.kind == "U"):
        received = f"{other.dtype} of shape {other.shape}"
        raise InputError("canaries", "labels as those of the data", received, "write them as the data's")
    if mine.dtype.kind in "iuU" and mine.ndim == 1:
        strange = np.setdiff1d(other, mine)
        if len(strange):
            received = f"{strange[0]!s}, which no record of the data has"
            raise InputError("canaries", "labels of the data", received, "a model has an output for each of these only")


def _ids(records: Records, canaries: Records, kept: IntArray) -> NDArray[Any] | None:
    if records.ids is None:
        return None
    canary_ids = canaries.ids
    if canary_ids is None:
        numbers = np.arange(canaries.n)
        canary_ids = np.array([f"canary-{i}" for i in numbers])
        if records.ids.dtype.kind in "iu":
            canary_ids = numbers + records.ids.max() + 1
    all_ids = np.concatenate([records.ids[kept], canary_ids])
    if len(np.unique(all_ids)) != len(all_ids):
        raise InputError("data.ids", "other ids for canaries than for records", "one that both have", "rename it")
    return all_ids


def _units(records: Records, canaries: Records, kept: IntArray) -> NDArray[Any]:
    """Whose the records that stay and the canaries are: those without a unit are units of their own."""
    record_units, theirs = records.fields.get("unit"), np.asarray(canaries.fields["unit"])
    if record_units is None:
        return np.concatenate([[f"record-{row}" for row in kept.tolist()], theirs.astype(np.str_)])
    own = np.asarray(record_units)[kept]
    both = np.intersect1d(own.astype(np.str_), theirs.astype(np.str_))
    if len(both):
        received = f"{both[0]!s}, which has records and canaries"
        raise InputError("data.unit", "units of canaries that have no other records", received, "rename it")
    same = own.dtype.kind == theirs.dtype.kind
    return np.concatenate([own, theirs] if same else [own.astype(np.str_), theirs.astype(np.str_)])


def _times(records: Records, canaries: Records, kept: IntArray) -> IntArray | None:
    """How often each record that stays and each canary stands in a training; once where it is not said."""
    if records.times is None and canaries.times is None:
        return None
    own, theirs = (np.ones(one.n, dtype=np.int64) if one.times is None else one.times for one in (records, canaries))
    return np.concatenate([own[kept], theirs])


def keys_of(x: Any) -> list[Any]:
    """Something to compare each record by."""
    if isinstance(x, list):
        return x
    if frames.is_frame(x):
        return list(zip(*(_plain(x[name]) for name in x.columns), strict=True))
    rows = np.ascontiguousarray(x).reshape(len(x), -1)
    return [row.tobytes() for row in (rows + 0 if rows.dtype.kind == "f" else rows)]  # -0.0 is 0.0


def _plain(column: Any) -> list[Any]:
    """Values of a column, each equal to itself."""
    return [None if gap else value for value, gap in zip(column.tolist(), column.isna(), strict=True)]

"""Labels and texts of strangers, one for each record, as arrays that nobody changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError
from miaudit.io import numeric

# Words for members and for others, in small letters.
MEMBER_WORDS = (
    (("true", "1"), ("false", "0")),
    (("train",), ("test",)),
    (("member",), ("nonmember", "non-member")),
    (("in",), ("out",)),
)
MEMBER_SAID = "true/false, 1/0, train/test, member/nonmember or in/out"


def same_length(name: str, values: NDArray[Any], n: int) -> None:
    """Refuse values that are not one for each of n records."""
    if len(values) != n:
        raise InputError(name, f"{n} rows, as in the score", f"{len(values)}", "pass one value for each record")


def same_index(columns: Mapping[str, Any]) -> None:
    """Refuse columns of pandas whose indices name the same rows in different orders: rows are taken by position.

    Examples
    --------
    >>> import pandas as pd
    >>> one = pd.Series([1.0, 2.0], index=["a", "b"])
    >>> same_index({"score": one, "member": one[::-1]})
    Traceback (most recent call last):
    miaudit.errors.InputError: member: expected the index of score, received the same rows in another order; pass ...
    """
    named = [(name, values.index) for name, values in columns.items() if hasattr(values, "iloc")]
    for name, index in named[1:]:
        first, known = named[0]
        if len(index) == len(known) and not index.equals(known) and index.isin(known).all():
            step = f"pass {name}.reindex({first}.index), or .to_numpy() of both if the positions are right"
            raise InputError(name, f"the index of {first}", "the same rows in another order", step)


def one_each(values: NDArray[Any]) -> NDArray[Any]:
    """Return a column (n, 1) of labels as labels (n,), and every other array as it is.

    Examples
    --------
    >>> one_each(np.array([[1], [0]])), one_each(np.array([[1, 0]])).shape
    (array([1, 0]), (1, 2))
    """
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array after making it read-only."""
    values.flags.writeable = False
    return values


def membership(member: ArrayLike) -> NDArray[np.bool_]:
    """Return membership (n,) as true and false, or refuse what is none, and one class alone."""
    members = truth(member)
    inside = int(np.count_nonzero(members))
    if len(members) and inside in (0, len(members)):
        missing = "non-members" if inside else "members"
        raise InputError("member", "members and non-members", f"no {missing}", f"add records that are {missing}")
    return frozen(members)


def truth(member: ArrayLike) -> NDArray[np.bool_]:
    """Return membership (n,) as true and false, or refuse what is none; one class alone may be a part of more.

    Examples
    --------
    >>> truth(["train", "Train "]), truth([0, 1])
    (array([ True,  True]), array([False,  True]))
    """
    array = one_each(numeric.plain(member, "member"))
    if array.ndim != 1:
        raise InputError("member", "one value for each record", f"an array of shape {array.shape}", "pass one column")
    if array.dtype.kind == "U":
        array = np.char.strip(array)
        lowered = np.char.lower(array)
        for yes, no in MEMBER_WORDS if len(array) else ():
            if np.isin(lowered, (*yes, *no)).all():
                array = np.isin(lowered, yes)
                break
    if array.dtype.kind not in "biuf" or (array.dtype.kind != "b" and not np.isin(array, (0, 1)).all()):
        shown = ", ".join(str(v)[:20] for v in np.unique(array)[:4])
        raise InputError("member", MEMBER_SAID, f"other values ({shown})", "code members as 1, non-members as 0")
    return np.array(array, dtype=np.bool_)


def checked_labels(values: ArrayLike | None, name: str, n: int) -> NDArray[Any] | None:
    """Copy labels (integers or text) into a read-only array."""
    if values is None:
        return None
    array = one_each(numeric.plain(values, name))
    if array.ndim != 1:
        raise InputError(name, "one label for each record", f"an array of shape {array.shape}", "pass one column")
    if array.dtype.kind == "f" and (np.abs(array) < 2**53).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)  # beyond 2^53 a float no longer tells neighbours apart
    if array.dtype.kind not in "biuU":
        raise InputError(name, "integers or text", f"values of type {array.dtype}", "convert the labels to text")
    same_length(name, array, n)
    return frozen(np.array(array))


def checked_texts(values: ArrayLike | None, n: int) -> NDArray[Any] | None:
    """Copy texts into a read-only array of str objects."""
    if values is None:
        return None
    array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise InputError("text", "one text for each record", f"an array of shape {array.shape}", "pass one column")
    same_length("text", array, n)
    texts = np.empty(n, dtype=object)
    for row, value in enumerate(array):
        if not isinstance(value, str):
            received = f"{type(value).__name__} in row {row}"
            raise InputError("text", "one str for each record", received, 'use "" for a record that says nothing')
        if "\0" in value or (not value.isascii() and _has_surrogate(value)):
            received = f"a character that files cannot hold in row {row}"
            raise InputError("text", "text without NUL and half characters", received, "decode it again, or replace it")
        texts[row] = str(value)
    return frozen(texts)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)

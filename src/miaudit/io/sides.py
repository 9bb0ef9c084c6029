"""Arrays of members and of non-members in files of their own, or in one: told apart by words in their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError
from miaudit.io import tables
from miaudit.io.array_heads import array_heads
from miaudit.io.roles import NUMBERS, Seen, Signal, signal_of
from miaudit.io.secret_names import words

__all__ = [
    "BESIDE",
    "array_of",
    "both",
    "check_classes",
    "check_no_mask",
    "has_labels",
    "read",
    "side_of",
    "signal_of_pair",
]

Side = Literal["member", "nonmember", ""]
# What a file of each class may hold, beside the outputs themselves.
BESIDE = ("labels", "covariates", "texts", "units", "groups", "propensities", "references")
_INSIDE = {"member", "members", "train", "training", "trained", "in", "seen"}
_OUTSIDE = {"nonmember", "nonmembers", "non", "test", "testing", "holdout", "heldout", "held", "out", "val", "valid"}
_OUTSIDE |= {"validation", "unseen", "control", "controls"}
_WORDS = {
    "loss": {"loss", "losses", "nll"},
    "score": {"score", "scores"},
    "logits": {"logit", "logits"},
    "probabilities": {"prob", "probs", "proba", "probability", "probabilities", "softmax"},
    **{f"{one}s": {one, f"{one}s"} for one in ("label", "covariate", "text", "unit", "group", "reference")},
    "propensities": {"propensity", "propensities"},
}


def side_of(name: str) -> Side:
    """Return whose an array is by its name; empty where no word, or words of both, say so.

    Examples
    --------
    >>> [side_of(name) for name in ("train_loss", "losses-holdout", "nonMembers", "losses")]
    ['member', 'nonmember', 'nonmember', '']
    """
    parts = set(words(name))
    outside = bool(parts & _OUTSIDE)
    inside = bool(parts & _INSIDE - ({"member", "members"} if "non" in parts else set()))
    return "" if outside == inside else "nonmember" if outside else "member"


def array_of(path: str | Path, side: Side, kind: str, argument: str) -> NDArray[Any]:
    """Read the array of one side from a .npy, or from an .npz by the words of its names.

    Parameters
    ----------
    path : a .npy; or an .npz with one array of this side and kind, such as ``losses`` or ``train_losses``
    side : whose
    kind : "loss", "score", "logits", "probabilities", "labels", "covariates", "texts", "units", "groups", ...

    Raises
    ------
    InputError
        If the file cannot be read, or its names leave none or several arrays.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", train_loss=np.zeros(3), test_loss=np.ones(2))
    ...     array_of(f"{folder}/a.npz", "nonmember", "loss", "nonmembers")
    array([1., 1.])
    """
    if Path(path).suffix.lower() != ".npz":
        return tables.read_array(path, argument)
    names = tables.column_names(path, argument)
    chosen = _chosen(names, side, kind)
    if len(chosen) != 1:
        received = f"an archive named {Path(path).name}, with {' and '.join(chosen[:4]) or 'none that says so'}"
        raise InputError(argument, f"one array (.npy), or an .npz with one of {kind}", received, "save it as .npy")
    return tables.read_columns(path, chosen, argument)[chosen[0]]


def read(
    members: Mapping[str, str | Path], nonmembers: Mapping[str, str | Path], first: str
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_], dict[str, Any]]:
    """Read files of both classes: the arrays by kind, who is a member, and the fields of evidence.

    Parameters
    ----------
    members, nonmembers : the files by kind: "signal", and those of :data:`BESIDE`
    first : what the signal is called; the other files have as many rows

    Raises
    ------
    InputError
        For a file without its counterpart, and for rows or shapes that do not agree.
    """
    data: dict[str, NDArray[Any]] = {}
    sizes: tuple[int, int] | None = None
    for kind in ("signal", *BESIDE):
        if (kind in members) != (kind in nonmembers):
            raise InputError(kind, "a file of members and one of non-members", "only one", "give both, or neither")
        if kind in members:
            data[kind], counted = _joined(members[kind], nonmembers[kind], kind if kind != "signal" else first)
            sizes = sizes or counted
            if counted != sizes:
                raise InputError(
                    kind,
                    f"{sizes[0]} and {sizes[1]} rows, as in the {first}",
                    f"{counted[0]} and {counted[1]}",
                    "check the files",
                )
    inside, outside = sizes or (0, 0)
    named = {"covariates": "covariates", "text": "texts", "unit": "units", "group": "groups"}
    return data, np.arange(inside + outside) < inside, {field: data.get(kind) for field, kind in named.items()}


def _joined(inside: str | Path, outside: str | Path, kind: str) -> tuple[NDArray[Any], tuple[int, int]]:
    first = array_of(inside, "member", kind, f"members ({kind})")
    second = array_of(outside, "nonmember", kind, f"non-members ({kind})")
    for name, array in (("members", first), ("non-members", second)):
        if array.ndim == 0 or len(array) == 0:
            raise InputError(f"{name} ({kind})", "at least one row", f"shape {array.shape}", "both classes are needed")
    if first.ndim != second.ndim or first.shape[1:] != second.shape[1:]:
        raise InputError(
            kind, "arrays of one shape but for the rows", f"{first.shape} and {second.shape}", "check the files"
        )
    if kind in ("score", "loss"):
        check_no_mask(first, second, kind, (Path(inside).name, Path(outside).name))
    if first.dtype.kind != second.dtype.kind and "U" in (first.dtype.kind, second.dtype.kind):
        raise InputError(kind, "two arrays of one type", f"{first.dtype} and {second.dtype}", "check the files")
    return np.concatenate([first, second]), (len(first), len(second))


def signal_of_pair(members: str | Path, nonmembers: str | Path) -> Signal | None:
    """Return what the arrays of two files are, by names and first rows; None where the sides differ in it.

    Parameters
    ----------
    members, nonmembers : .npy or .npz; the same .npz may hold both
    """
    signals = [_of_side(path, side) for path, side in ((members, "member"), (nonmembers, "nonmember"))]  # type: ignore[arg-type]
    kinds = {one.kind for one in signals if one is not None and one.kind}
    signal = next((one for one in signals if one is not None and one.kind), signals[0])
    return signal if len(kinds) < 2 and None not in signals else None


def both(path: str | Path) -> bool:
    """Whether an .npz has outputs of members and outputs of non-members, by the names of its arrays."""
    whose = {side_of(name) for name in tables.column_names(path)}
    return {"member", "nonmember"} <= whose and signal_of_pair(path, path) is not None


def has_labels(path: str | Path, side: Side) -> bool:
    """Whether an .npz has one array of labels of a side, by its name."""
    if Path(path).suffix.lower() != ".npz":
        return False
    chosen = _chosen(tables.column_names(path), side, "labels")
    return len(chosen) == 1 and bool(_WORDS["labels"] & set(words(chosen[0])))


def check_classes(first: Path, second: Path) -> None:
    """Refuse two arrays of which one says who is a member: they are no two classes, but scores and membership.

    Raises
    ------
    InputError
        If a file cannot be read, or one holds as many zeros and ones as the other one has rows.
    """
    heads = [array_heads(path, NUMBERS) for path in (first, second)]
    if first == second or any(len(head) != 1 for head in heads):
        return
    (rows, one), (length, other) = (next(iter(head.values())) for head in heads)
    if one is not None and other is not None and (len(one), len(other)) == (rows, length):
        check_no_mask(one, other, "file", (first.name, second.name))


def check_no_mask(members: NDArray[Any], nonmembers: NDArray[Any], argument: str, names: tuple[str, str]) -> None:
    """Refuse scores, or losses, of two sides of which one says who is a member.

    Two sides of zeros and ones are scores: whether a guess was right.

    Parameters
    ----------
    argument, names : what a refusal is about, and what it calls each array

    Raises
    ------
    InputError
        If one holds true and false, or as many zeros and ones as the other one has rows, and the other one does not.

    Examples
    --------
    >>> check_no_mask(np.array([0.3, 1.2]), np.array([True, False]), "file", ("s.npy", "m.npy"))
    Traceback (most recent call last):
    miaudit.errors.InputError: file: expected a file of members and one of non-members, received m.npy, which holds true
    and false, as membership does; put both into one .npz: numpy.savez("e.npz", score=..., member=...)
    """
    coded = [_coded(values) for values in (members, nonmembers)]
    if all(coded) or not any(coded):
        return
    if len(members) == len(nonmembers) or "true and false" in coded:
        received = f"{names[0] if coded[0] else names[1]}, which holds {coded[0] or coded[1]}, as membership does"
        hint = 'put both into one .npz: numpy.savez("e.npz", score=..., member=...)'
        raise InputError(argument, "a file of members and one of non-members", received, hint)


def _coded(values: NDArray[Any]) -> str:
    """What an array of two values holds that may be membership, else nothing."""
    if values.ndim == 1 and values.dtype.kind == "b":
        return "true and false"
    two = values.ndim == 1 and values.dtype.kind in "iuf" and set(np.unique(values).tolist()) == {0, 1}
    return "0 and 1" if two else ""


def _of_side(path: str | Path, side: Side) -> Signal | None:
    """What the array of a side is; one of unknown kind where no word says so."""
    path = Path(path)
    heads = array_heads(path, NUMBERS, f"{side}s")
    whose = [name for name in heads if path.suffix.lower() == ".npy" or side_of(name) in ("", side)]
    own = [name for name in whose if side_of(name) == side] or whose
    signals = []
    for name in own:
        rows, values = heads[name]
        array_name = name if len(own) > 1 or name == path.stem else f"{path.stem} {name}"
        outputs = f"{array_name} outputs" if values is not None and values.ndim == 2 and len(own) == 1 else array_name
        if (signal := signal_of(Seen(outputs, rows, values))) is not None:
            signals.append(signal)
    if not signals and len(own) == 1:
        return Signal((own[0],), "", "no word of its name says so", heads[own[0]][0])
    return signals[0] if len(signals) == 1 else None


def _chosen(names: list[str], side: Side, kind: str) -> list[str]:
    """Names of this side and kind; where no name says a kind, or a side, those that say no other."""
    kinds = {name: next((k for k, its in _WORDS.items() if its & set(words(name))), "") for name in names}
    candidates = [name for name in names if side_of(name) in ("", side) and kinds[name] in ("", kind)]
    candidates = [name for name in candidates if kinds[name] == kind] or candidates
    return [name for name in candidates if side_of(name) == side] or candidates

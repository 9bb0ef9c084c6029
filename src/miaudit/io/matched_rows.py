"""Records of the design "matched" as rows: one true string and K decoys for each unit, and who is which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError
from miaudit.io import frames, numeric
from miaudit.io.labels import checked_labels, same_length

__all__ = ["REFERENCE", "check", "columns", "places"]

REFERENCE = "reference"  # the name of the score of a model that never saw the records
_ONE_TRUE = "one true string and equally many decoys for each unit"


def columns(
    true: Any, decoys: Any, *, unit: ArrayLike | None, text: Any, group: ArrayLike | None, reference: Any
) -> dict[str, Any]:
    """Return scores of true strings and of decoys as columns of evidence: for each unit its true string, then K decoys.

    Parameters
    ----------
    true, decoys : arrays (n,) and (n, K), or mappings of the same names to such arrays
    unit : labels (n,); the scores of the strings of a unit are added up, and so are those of their k-th decoys
    text : texts (n, K + 1), the true string first; those of a unit are joined by line breaks
    group : labels (n,), one for each unit
    reference : pair of arrays (n,) and (n, K)

    Examples
    --------
    >>> held = columns([3.0, 1.0], [[0.0, 1.0], [2.0, 0.0]], unit=["a", "a"], text=None, group=None, reference=None)
    >>> held["score"]["score"].tolist(), held["member"].tolist(), held["unit"].tolist()
    ([4.0, 2.0, 1.0], [True, False, False], ['a', 'a', 'a'])
    """
    named = _named(true, decoys, reference)
    n, wide = next(iter(named.values())).shape
    if unit is None:
        names, code = np.arange(n), np.arange(n)
    else:
        labels = checked_labels(unit, "unit", n)
        assert labels is not None  # noqa: S101
        names, code = np.unique(labels, return_inverse=True)
    scores = {name: np.zeros((len(names), wide)) for name in named}
    for name, values in named.items():
        np.add.at(scores[name], code, values)
    held: dict[str, Any] = {
        "score": {name: values.ravel() for name, values in scores.items()},
        "member": np.tile(np.arange(wide) == 0, len(names)),
        "unit": np.repeat(names, wide),
    }
    if text is not None:
        held["text"] = _texts(text, code, len(names), n, wide)
    if group is not None:
        held["group"] = np.repeat(_of_units(group, code, n), wide)
    return held


def places(code: NDArray[Any], member: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the rows (n, K + 1) of each unit: of its true string, then of its decoys in their order.

    Parameters
    ----------
    code : units (rows,) as integers from 0
    member : bools (rows,), whether a row is of a true string

    Examples
    --------
    >>> places(np.array([0, 1, 0, 1]), np.array([False, True, True, False])).tolist()
    [[2, 0], [1, 3]]
    """
    order = np.lexsort((~member, code))
    return order.reshape(int(np.count_nonzero(member)), -1)


def check(member: NDArray[np.bool_], held: Mapping[str, Any]) -> None:
    """Refuse rows that are not one true string and equally many decoys for each unit, and what has no meaning there.

    Parameters
    ----------
    member : bools (rows,)
    held : the fields "unit", "group", "run", "covariates" and "text", each None where there is none

    Raises
    ------
    InputError
        For no units, units of another form, several groups in a unit, covariates or runs; for a true string that is in
        two units, or is a decoy too.
    """
    for name in ("covariates", "run"):
        if held[name] is not None:
            hint = "leave it out: true strings and decoys differ by chance alone"
            raise InputError(name, "none with the design matched", "some", hint)
    if held["unit"] is None:
        hint = "name the record of each row as its unit, or use Evidence.matched(true=, decoys=)"
        raise InputError("unit", f"the design matched needs units: {_ONE_TRUE}", "none", hint)
    code = np.unique(held["unit"], return_inverse=True)[1]
    sizes, true = np.bincount(code), np.bincount(code, weights=member)
    wrong = np.flatnonzero((true != 1) | (sizes != sizes[0]) | (sizes < 2))
    if len(wrong):
        label = np.unique(held["unit"])[wrong[0]]
        received = f"{int(true[wrong[0]])} true and {int(sizes[wrong[0]] - true[wrong[0]])} others in unit {label}"
        hint = "score each candidate once; Evidence.matched(unit=) adds up several strings of a unit"
        raise InputError("unit", _ONE_TRUE, received, hint)
    if held["group"] is not None:
        _of_units(held["group"], code, len(code))
    if held["text"] is not None:
        _check_texts(held["text"], member)


def _check_texts(text: NDArray[Any], member: NDArray[np.bool_]) -> None:
    """Refuse a string that was trained on twice, or is a decoy although it was trained on."""
    true, decoys = text[member].tolist(), set(text[~member].tolist())
    if len(set(true)) < len(true):
        twice = next(one for one in true if true.count(one) > 1)
        hint = "equal strings are one unit: pass unit="
        raise InputError("text", "each true string in one unit", f"{twice[:40]!r} in several", hint)
    trained = next((one for one in true if one in decoys), None)
    if trained is not None:
        hint = "draw that decoy again: the model saw it"
        raise InputError("text", "decoys that are in no training record", f"{trained[:40]!r} among both", hint)


def _named(true: Any, decoys: Any, reference: Any) -> dict[str, NDArray[np.float64]]:
    """Scores (n, K + 1) by name, of the true string first; the reference's by its own name."""
    several = isinstance(true, Mapping) or frames.is_frame(true)
    sides = (frames.named(true), dict(decoys)) if several else ({"score": true}, {"score": decoys})
    if set(sides[0]) != set(sides[1]) or not sides[0]:
        received = f"{', '.join(map(str, sides[1])) or 'none'}"
        raise InputError("decoys", f"the scores of true: {', '.join(map(str, sides[0]))}", received, "name both alike")
    if REFERENCE in sides[0]:
        hint = "pass the scores of the reference model as reference=(true, decoys)"
        raise InputError("true", f"names other than {REFERENCE}", REFERENCE, hint)
    pairs = {str(name): (values, sides[1][name]) for name, values in sides[0].items()}
    if reference is not None:
        if not isinstance(reference, tuple | list) or len(reference) != 2:
            received = type(reference).__name__
            raise InputError(REFERENCE, "a pair: scores of true strings and of decoys", received, "pass both arrays")
        pairs[REFERENCE] = (reference[0], reference[1])
    joined = {name: _joined(name, *pair) for name, pair in pairs.items()}
    first = next(iter(joined.values()))
    for name, values in joined.items():
        if values.shape != first.shape:
            allowed = f"{first.shape[0]:,} records with {first.shape[1] - 1} decoys, as the first score"
            raise InputError(name, allowed, f"{values.shape[0]:,} with {values.shape[1] - 1}", "score all strings")
    return joined


def _joined(name: str, true: Any, decoys: Any) -> NDArray[np.float64]:
    one, others = numeric.finite(true, f"true ({name})", 1), numeric.finite(decoys, f"decoys ({name})", 2)
    if len(others) != len(one):
        allowed, received = f"{len(one):,} rows, one for each true string", f"{len(others):,}"
        raise InputError("decoys", allowed, received, "pass an array (n, K): the decoys of record i in row i")
    if not others.shape[1] or not len(one):
        raise InputError("decoys", "at least one record and one decoy", f"shape {others.shape}", "20 are usual")
    return np.column_stack([one, others])


def _of_units(group: ArrayLike, code: NDArray[Any], n: int) -> NDArray[Any]:
    """One group label for each unit; refused where a unit has several."""
    labels = checked_labels(group, "group", n)
    assert labels is not None  # noqa: S101
    first = np.unique(code, return_index=True)[1]
    if not (labels[first][code] == labels).all():
        raise InputError("group", "one group for each unit", "several in one unit", "make the group a part of the unit")
    return labels[first]


def _texts(text: Any, code: NDArray[Any], units: int, n: int, wide: int) -> NDArray[Any]:
    texts = np.asarray(text, dtype=object)
    if texts.ndim != 2 or texts.shape[1] != wide:
        allowed = f"an array (n, {wide}) of texts, the true string first"
        raise InputError("text", allowed, f"shape {texts.shape}", "give the text of every candidate")
    same_length("text", texts, n)
    joined = [[[] for _ in range(wide)] for _ in range(units)]  # type: list[list[list[str]]]
    for unit, row in zip(code, texts, strict=True):
        for place, one in enumerate(row):
            joined[unit][place].append(one)
    held = np.empty(units * wide, dtype=object)
    for place, parts in enumerate(part for of_unit in joined for part in of_unit):
        held[place] = parts[0] if len(parts) == 1 else "\n".join(map(str, parts))
    return held

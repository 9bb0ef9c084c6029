"""Outputs of shadow models that were trained elsewhere, and which of the audited records they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray, IntArray
from miaudit.attacks.signals import SIGNALS
from miaudit.errors import InputError, nearest
from miaudit.io import tables
from miaudit.io.labels import one_each
from miaudit.models.outputs import check_kind, class_count, label_count
from miaudit.models.shadow_outputs import ShadowOutputs
from miaudit.models.targets import Given, Precomputed

_ARRAYS = ("outputs", "signals", "included", "labels", "rows")
_PATH = "shadow.outputs_path"
_MANY = 200  # numbers, below which their range shows nothing
_ROUNDING = 1e-3
_ALIKE = 0.3  # correlation of the signals of two augmentations of the same records


@dataclass(frozen=True, eq=False)
class GivenShadows:
    """What M shadow models say of m records.

    Attributes
    ----------
    outputs : ShadowOutputs
    rows : array (m,), the row of the data that each of the records is; None where the file does not say
        -1 says that it is none of them.
    signal : the signal that is given in the place of outputs; empty where there are outputs
    labelled : whether the file has labels of its own
    source : name of the file
    augmented : outputs on further augmentations of the records; ``outputs`` are on the first, the records as they are
    notes : on what the numbers may be, other than what they are said to be
    """

    outputs: ShadowOutputs
    rows: IntArray | None
    signal: str
    labelled: bool
    source: str
    augmented: tuple[ShadowOutputs, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def load(
        cls, path: str | Path, *, given: Given = "logits", signal: str = "logit_confidence", labels: int = 0
    ) -> GivenShadows:
        """Read an .npz file; nothing is unpickled.

        Parameters
        ----------
        path : path of an .npz file with the arrays
            ``outputs`` (M, m, C), or ``signals`` (M, m), higher for members; with k augmentations of each record, the
            first of them the record as it is, (M, m, k, C) and (M, m, k);
            ``included`` (M, m) of bool, which model learnt which record;
            ``labels`` (m,) or (m, L), needed where the records are not those of the audit;
            ``rows`` (m,), the row of the data that each record is, from 0, or -1: optional, see :meth:`rows_in`.
        given : what ``outputs`` are; probabilities become log-probabilities
        signal : what ``signals`` are, by name (:data:`miaudit.attacks.signals.SIGNALS`)
        labels : how many labels each record of the data has, 0 for one class; for a file without labels of its own

        Raises
        ------
        InputError
            For arrays that are missing, of other shapes or types, or not finite.
        """
        name = Path(path).name
        file = tables.existing_file(path, _PATH, (".npz",))
        known = tables.column_names(file, _PATH)
        if "included" not in known:
            hint = nearest("included", known) or "without it the members of each model are unknown"
            raise InputError(_PATH, "an array included (M, n) of true and false", f"none in {name}", hint)
        if ("outputs" in known) == ("signals" in known):
            received = f"{'both' if 'outputs' in known else 'neither'} in {name}, which has {', '.join(known[:12])}"
            raise InputError(_PATH, "outputs (M, n, C) or signals (M, n)", received, "save one of them")
        arrays = tables.read_columns(file, [one for one in _ARRAYS if one in known], _PATH)
        if "labels" in arrays:
            arrays["labels"] = one_each(arrays["labels"])
        views = _views(arrays, name)
        member, own, rows = _checked(views[0], arrays, name)
        if "labels" not in known and labels:
            own = np.zeros((len(own), labels), dtype=np.intp)
        kept_signal = signal if "signals" in known else ""
        if kept_signal and kept_signal not in SIGNALS and given != "signals":
            raise InputError(
                "shadow.signal", f"one of {', '.join(SIGNALS)}", repr(kept_signal), nearest(kept_signal, SIGNALS)
            )
        notes = _check_signals(views, kept_signal) if kept_signal and given != "signals" else ()
        first, *more = (_outputs(one, member, own, given, kept_signal, name) for one in views)
        return cls(first, rows, kept_signal, "labels" in known, name, tuple(more), notes)

    @property
    def n(self) -> int:
        """Records that the models were asked about."""
        return self.outputs.n

    def rows_in(self, n: int, y: NDArray[Any] | None) -> IndexArray | None:
        """Say where the n records of the data with labels y stand here; None where these are other records.

        With ``rows``, all of the data must be among them. Without, there must be as many records, in the same order,
        and with the same labels where both have some.

        Returns
        -------
        array (n,), the position of each record of the data, or None
        """
        if self.rows is not None:
            place = np.full(n, -1, dtype=np.intp)
            inside = (self.rows >= 0) & (self.rows < n)
            place[self.rows[inside]] = np.flatnonzero(inside)
            return place if (place >= 0).all() else None
        alike = self.n == n and (not self.labelled or y is None or np.array_equal(self.outputs.labels, y))
        return np.arange(n) if alike else None

    def per_record(self, n: int, y: NDArray[Any] | None) -> bool:
        """Whether these are several models on the n records of the data, as attacks on single records need."""
        return self.outputs.models > 1 and self.rows_in(n, y) is not None

    def require_same_records(self, n: int, y: NDArray[Any] | None, attack: str) -> IndexArray:
        """As :meth:`rows_in`, or the reason why an attack on single records cannot do with these.

        Raises
        ------
        InputError
            For one shadow model, and for other records.
        """
        place = self.rows_in(n, y)
        if place is None or self.outputs.models < 2:
            models = "1 shadow model" if self.outputs.models == 1 else f"{self.outputs.models} shadow models"
            covered = 0 if self.rows is None else len(np.intersect1d(self.rows, np.arange(n)))
            others = f"{self.n:,} other records" if not covered else f"{covered:,} of the {n:,} audited records"
            received = f"{models} on {others if place is None else 'these records'} in {self.source}"
            hint = "such attacks need each record's own in and out models: use shadow_classifier, which pools records"
            allowed = f"several shadow models on the {n:,} audited records, for {attack}"
            raise InputError(_PATH, allowed, received, hint)
        return place

    def require_labels(self, n: int, y: NDArray[Any] | None, attack: str) -> None:
        """Refuse an attack that pools records whose classes are unknown: here, or in the data.

        Raises
        ------
        InputError
            For other records than those of the data, without labels of their own.
        """
        if not self.labelled and (y is None or self.rows_in(n, y) is None):
            received = f"none, and other records than the {n:,} audited ones, in {self.source}"
            hint = "save the array labels: the class of each record that the shadow models were asked about"
            raise InputError(f"{_PATH}: labels", f"labels ({self.n},), for {attack}", received, hint)

    def on(self, place: IndexArray, y: NDArray[Any], augmentation: int = 0) -> ShadowOutputs:
        """Outputs on the records of the data: those at these places, with their labels."""
        whole = (self.outputs, *self.augmented)[augmentation]
        arrays = tuple(np.ascontiguousarray(whole.model(m)[place]) for m in range(whole.models))
        return ShadowOutputs(whole.included[:, place], y, arrays, arrays[0].shape, whole.kind)


def augmented(
    target: Any, given: GivenShadows | None, x: Any, y: NDArray[Any] | None
) -> tuple[tuple[tuple[Float32Array, ShadowOutputs], ...], tuple[str, ...]]:
    """Pair outputs on further augmentations of the records x with labels y, of a target and of shadow models.

    Returns
    -------
    pairs, one for each augmentation but the first, and a note; none of either where nothing was augmented

    Raises
    ------
    InputError
        For other numbers of augmentations.
    """
    own = target.of_augmentations(x) if isinstance(target, Precomputed) else ()
    others = () if given is None else given.augmented
    if not (own or others):
        return (), ()
    if own and others and len(own) != len(others):
        allowed, received = f"{1 + len(own)} augmentations, as the target has", str(1 + len(others))
        raise InputError(_PATH, allowed, received, "save the same augmentations of both")
    place = None if given is None else given.rows_in(len(x), y)
    if given is None or place is None or not (own and others):
        whose = "the target's outputs" if own else "the shadow models' outputs"
        return (), (f"Of the augmentations in {whose} the first, the records as they are, was compared.",)
    labels = np.zeros(len(x), dtype=np.intp) if y is None else y
    pairs = ((one, given.on(place, labels, i)) for i, one in enumerate(own, 1))
    return tuple(pairs), (f"LiRA compares {1 + len(own)} augmentations of each record; other attacks the first.",)


def _views(found: dict[str, NDArray[Any]], name: str) -> list[NDArray[Any]]:
    """Outputs (M, m, C), or signals (M, m), of each augmentation of the records."""
    kind, least = ("outputs", 3) if "outputs" in found else ("signals", 2)
    values = found[kind]
    if values.ndim == least + 2 and values.shape[2] == 1:  # (M, m, 1, k, ...), as the code of the LiRA paper writes it
        values = values[:, :, 0]
    if values.ndim != least + 1 or not values.size or values.dtype.kind not in "iuf":
        return [values]
    views = [values[:, :, i] for i in range(values.shape[2])]
    if kind == "signals" and not all(_agree(views[0], one) for one in views[1:]):
        received = f"shape {values.shape} in {name}, whose last axis holds different things"
        hint = "save what models return for each class as outputs"
        raise InputError(f"{_PATH}: signals", "signals (M, n), or (M, n, k) of k augmentations", received, hint)
    return views


def _agree(first: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether signals of two augmentations (M, m) go together, as outputs of two classes do not."""
    if not (np.ptp(first) and np.ptp(other)):
        return True
    return float(np.corrcoef(first.ravel(), other.ravel())[0, 1]) > _ALIKE


def _check_signals(views: Sequence[NDArray[Any]], name: str) -> tuple[str, ...]:
    """Refuse signals that are certainly not those that are named, or not higher for members; return notes.

    Minus a loss and minus an entropy are at most 0. Log-odds that all lie in [0, 1] and reach both ends are
    probabilities.
    """
    values = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in views])
    least, most = float(values.min()), float(values.max())
    argument = f"{_PATH}: signals"
    if SIGNALS[name].sign < 0:
        if most > _ROUNDING:
            received = f"{most:g}, as of the {name} itself"
            raise InputError(argument, f"minus the {name}, at most 0", received, "turn the sign: higher is for members")
        return ()
    if len(values) >= _MANY and least >= 0 and most <= 1 and least < 0.05 and most > 0.95:
        step = "save numpy.log(p / (1 - p)), or the outputs"
        raise InputError(argument, name, "numbers that all lie in [0, 1], as probabilities do", step)
    if len(values) >= _MANY and name == "logit_confidence" and most <= 0:
        return (
            "The shadow models' signals may be log-probabilities: none is above 0. If they are, declare signal: loss.",
        )
    return ()


def _checked(
    values: NDArray[Any] | None, found: dict[str, NDArray[Any]], name: str
) -> tuple[BoolArray, NDArray[Any], IntArray | None]:
    """Inclusion (M, m), labels (m,) and rows (m,) that fit the outputs."""
    kind, least = ("outputs", 3) if "outputs" in found else ("signals", 2)
    shape = "(M, n, C), or (M, n, k, C) of k augmentations" if least == 3 else "(M, n), or (M, n, k)"
    if values is None or values.ndim != least or values.dtype.kind not in "iuf" or not values.size:
        received = "nothing" if values is None else f"{values.dtype} of shape {values.shape} in {name}"
        raise InputError(f"{_PATH}: {kind}", f"numbers of shape {shape}", received, "a row for each model comes first")
    models, n = values.shape[:2]
    member = found["included"]
    if member.dtype.kind in "iu" and np.isin(member, (0, 1)).all():
        member = member.astype(np.bool_)
    if member.dtype != np.bool_ or member.shape != (models, n):
        turned = member.shape == (n, models) and n != models
        received = f"{member.dtype} of shape {member.shape} in {name}"
        hint = "transpose it: a row for each model" if turned else "say which model learnt which record"
        raise InputError(f"{_PATH}: included", f"true or false of shape ({models}, {n})", received, hint)
    for one in ("labels", "rows"):
        several = one == "labels" and one in found and found[one].ndim == 2
        shape_is = () if one not in found else found[one].shape[:1] if several else found[one].shape
        if one in found and (shape_is != (n,) or (one == "rows" and found[one].dtype.kind not in "iu")):
            received = f"{found[one].dtype} of shape {found[one].shape} in {name}"
            hint = "one for each record that the models were asked about"
            allowed = f"{'whole numbers' if one == 'rows' else 'labels'} ({n},)"
            raise InputError(f"{_PATH}: {one}", allowed, received, hint)
    rows = found["rows"].astype(np.int64) if "rows" in found else None
    if rows is not None and len(np.unique(rows[rows >= 0])) < np.count_nonzero(rows >= 0):
        raise InputError(f"{_PATH}: rows", "each row of the data once", f"one of them twice in {name}", "drop one")
    return member, found.get("labels", np.zeros(n, dtype=np.intp)), rows


def _outputs(
    values: Any, member: BoolArray, labels: NDArray[Any], given: Given, signal: str, name: str
) -> ShadowOutputs:
    if signal:
        return ShadowOutputs.of(list(values), member, labels, kind="signals" if given == "signals" else signal)
    several = label_count(labels) if given in ("logits", "probabilities") else 0
    each = [Precomputed(one, given, f"model {m} in {name}", labels=several) for m, one in enumerate(values)]
    if each[0].kind == "logits" and labels.any() and class_count(labels) > values.shape[2]:
        received = f"{values.shape[2]} columns for labels up to {class_count(labels) - 1}"
        raise InputError(f"{_PATH}: outputs", "a column for each class", received, "check the labels")
    for one in each:
        check_kind(one.kind, np.asarray(one.values), one.name, labels)  # votes, which labels show
    return ShadowOutputs.of([np.asarray(one.values) for one in each], member, labels, kind=each[0].kind)

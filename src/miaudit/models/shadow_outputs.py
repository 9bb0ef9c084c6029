"""What shadow models said of the records: outputs on disk or in memory, and the signals that they are reduced to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, Float32Array, IntArray
from miaudit.attacks import output_kinds, signals
from miaudit.attacks.output_kinds import MULTI_LABEL
from miaudit.attacks.regression import squared_error
from miaudit.errors import InputError, nearest
from miaudit.models.inclusion import checked_included

# From outputs (n, C) and labels (n,) to one number a record (n,), higher for members.
Signal = Callable[[Any, Any], ArrayLike]
SQUARED_ERROR = "negative_squared_error"
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class Signals:
    """Signals that are kept in the place of a classifier's outputs, so that a record costs a few bytes, not 4 a class.

    Attributes
    ----------
    each : names of the signals (:data:`miaudit.attacks.signals.SIGNALS`) of every model but the first, in single
        precision, as signals of shadow models are everywhere
    first : names of the signals of the first model, the audited one, in double precision, as its scores are
    """

    each: tuple[str, ...]
    first: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.each)} of each model, {', '.join(self.first)} of the first"

    def of(self, outputs: NDArray[Any], labels: NDArray[Any], number: int) -> NDArray[Any]:
        """Reduce logits (n, C) of a model, by its number, to (n, k); to (n,) where shadow models keep one signal."""
        names = list(self.each if number else self.first)
        scores = signals.member_scores(labels=labels, logits=outputs, names=names)
        reduced = np.stack([scores[name] for name in names], axis=1)
        _require_finite(reduced, "signal")
        if not number:
            return reduced
        return np.ascontiguousarray(reduced[:, 0] if len(names) == 1 else reduced, dtype=np.float32)

    def bytes_of(self, number: int) -> int:
        """Bytes that a record takes of a model, by its number."""
        return 4 * len(self.each) if number else 8 * len(self.first)


@dataclass(frozen=True, eq=False)
class ShadowOutputs:
    """Outputs of many models on the same records, on disk or in memory.

    Attributes
    ----------
    included : array (M, n) of bool, which records each model learnt
    labels : array (n,), or (n, L) where each record has several; (M, n, ...) where each model kept records of its own
    sources : for each model the path of a .npy file or an array, float32 of ``shape``
    shape : (n, C), or (n,) if one signal was kept, with the number of views behind n
    kind : what a row holds: "logits", "predictions", "signals", "multi-label" or the name of the signal that was kept
    fingerprint : str, of data, configuration and seed
    names : of the columns, where several signals were kept
    """

    included: BoolArray
    labels: NDArray[Any]
    sources: tuple[Path | Float32Array, ...]
    shape: tuple[int, ...]
    kind: str
    fingerprint: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, outputs: Sequence[ArrayLike], included: ArrayLike, labels: ArrayLike, *, kind: str = "logits"
    ) -> ShadowOutputs:
        """Wrap outputs that were computed elsewhere: for each of M models an array (n, ...)."""
        member = checked_included(included, len(np.asarray(labels)))
        if len(outputs) != len(member):
            raise InputError("outputs", f"{len(member)} models, as in included", str(len(outputs)), "pass one of each")
        arrays = tuple(np.ascontiguousarray(one, dtype=np.float32) for one in outputs)
        for m, array in enumerate(arrays):
            if array.shape[:1] != member.shape[1:] or array.shape != arrays[0].shape:
                allowed = f"shape ({member.shape[1]}, ...)"
                raise InputError(f"outputs of model {m}", allowed, str(array.shape), "pass alike")
            _require_finite(array, f"outputs of model {m}")
        return cls(member, np.asarray(labels), arrays, arrays[0].shape, kind)

    def without(self, numbers: Sequence[int]) -> ShadowOutputs:
        """Return the outputs of all models but these."""
        remaining = np.delete(np.arange(self.models), np.asarray(numbers, dtype=np.intp))
        return replace(self, included=self.included[remaining], sources=tuple(self.sources[m] for m in remaining))

    def set_apart(self, chosen: IntArray) -> tuple[Float32Array, ShadowOutputs]:
        """Return outputs (n, ...) of the chosen model (n,) of each record, and those of its other models."""

        def taken(rows_of: Callable[[int], NDArray[Any]], m: int) -> NDArray[Any]:
            later = chosen <= m
            here, following = rows_of(m), rows_of(m + 1)
            return np.where(later.reshape(-1, *[1] * (here.ndim - 1)), following, here)

        outputs = np.empty(self.shape, dtype=np.float32)
        for m in range(self.models):
            outputs[chosen == m] = self.model(m)[chosen == m]
        rest = range(self.models - 1)
        included = np.stack([taken(lambda i: self.included[i], m) for m in rest])
        sources = tuple(taken(self.model, m).astype(np.float32) for m in rest)
        return outputs, replace(self, included=included, sources=sources)

    @property
    def models(self) -> int:
        """How many models there are."""
        return len(self.sources)

    @property
    def n(self) -> int:
        """How many records there are."""
        return self.shape[0]

    def model(self, number: int) -> Float32Array:
        """Outputs (n, ...) of one model, a read-only memory map where they are on disk."""
        return outputs_of(self.sources[number])

    def block(self, start: int, stop: int) -> Float32Array:
        """Outputs (stop - start, M, ...) of some records by all models."""
        return np.stack([np.asarray(self.model(m)[start:stop]) for m in range(self.models)], axis=1)

    def blocks(self, most_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[slice, Float32Array]]:
        """Yield rows and outputs (rows, M, ...) of all records, a block of at most so many bytes at a time."""
        width = 4 * self.models * int(np.prod(self.shape[1:], dtype=np.int64))
        step = max(1, most_bytes // max(1, width))
        for start in range(0, self.n, step):
            yield slice(start, min(start + step, self.n)), self.block(start, min(start + step, self.n))

    def signal(self, signal: str | Signal = "logit_confidence") -> Float32Array:
        """One number for each record and model (n, M), or (n, M, k) with k views; higher for members.

        Parameters
        ----------
        signal : a name (:func:`signal_names`), or a function of outputs (n, C) and labels (n,)
            Outputs that are signals already are returned as they are.
        """
        if self.names:
            if signal not in self.names:
                allowed = f"{' or '.join(self.names)}, which were kept"
                raise InputError("signal", allowed, str(signal), "train with other signals, or with none")
            column = self.names.index(str(signal))
            return np.stack([self.model(m)[:, column] for m in range(self.models)], axis=1)
        kept_already = len(self.shape) == 1 or self.kind in signal_names()
        if kept_already and isinstance(signal, str) and self.kind not in ("signals", signal):
            allowed = f"{self.kind}, which was kept"
            raise InputError("signal", allowed, signal, "train with another signal, or with none")
        first = self.model(0) if kept_already else signal_of(self.model(0), self.labels, signal, self.kind)
        scores = np.empty((self.n, self.models, *first.shape[1:]), dtype=np.float32)
        for m in range(self.models):
            values = self.model(m)
            scores[:, m] = values if kept_already else signal_of(values, self.labels, signal, self.kind)
        return scores


def signal_of(outputs: Any, labels: Any, signal: str | Signal, kind: str) -> Float32Array:
    """Reduce outputs (n, C) or (n, k, C) to (n,) or (n, k)."""
    values = np.asarray(outputs)
    if values.ndim == 3:
        return np.stack([signal_of(values[:, v], labels, signal, kind) for v in range(values.shape[1])], axis=1)
    if not isinstance(signal, str):
        scores = np.asarray(signal(values, labels))
    elif signal == SQUARED_ERROR:
        _require_kind(signal, kind, "predictions")
        scores = -squared_error(values, labels)
    elif signal in signals.SIGNALS:
        if kind != MULTI_LABEL:
            _require_kind(signal, kind, "logits")
        scores = output_kinds.member_scores(kind, values, labels, [signal])[signal]
    else:
        raise unknown_signal(signal)
    if scores.shape != values.shape[:1]:
        allowed = f"one number for each of {len(values)} records"
        raise InputError("signal", allowed, f"shape {scores.shape}", "return (n,)")
    result = np.ascontiguousarray(scores, dtype=np.float32)
    _require_finite(result, "signal")
    return result


def signal_names() -> tuple[str, ...]:
    """Return the signals by name that outputs can be reduced to."""
    return (*signals.SIGNALS, SQUARED_ERROR)


def unknown_signal(signal: str) -> InputError:
    """Return the refusal of an unknown signal."""
    hint = nearest(signal, signal_names()) or "choose one"
    return InputError("signal", f"one of {', '.join(signal_names())}", repr(signal), hint)


def _require_kind(signal: str, kind: str, needed: str) -> None:
    if kind != needed:
        hint = f"use {SQUARED_ERROR}" if kind == "predictions" else "pass a function of outputs and labels"
        raise InputError("signal", f"one of {kind}", f"{signal}, which needs {needed}", hint)


def _require_finite(values: NDArray[Any], name: str) -> None:
    if not np.isfinite(values).all():
        bad = int(np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(name, "finite numbers", f"NaN or infinity, first in record {bad}", "drop or repair it")


def outputs_of(source: Path | Float32Array) -> Float32Array:
    """Return the outputs in a source, a read-only memory map of a file."""
    return source if isinstance(source, np.ndarray) else np.load(source, mmap_mode="r", allow_pickle=False)

"""What is fixed before the first fit of many: target, records, seeds, who learns what; checked, and its digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.attacks import multi_label
from miaudit.errors import InputError
from miaudit.io import frames
from miaudit.io.labels import one_each
from miaudit.jobs.resumable import digest
from miaudit.models.inclusion import checked_included
from miaudit.models.outputs import class_count
from miaudit.models.own_code import described_function
from miaudit.models.protocol import (
    Target,
    Trainable,
    Traits,
    can_be_trained,
    can_be_trained_together,
    check_target,
    traits_of,
)
from miaudit.models.shadow_outputs import Signal, Signals, signal_names, unknown_signal

View = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Fits:
    """What is fixed before the first fit, as of :func:`train`, and checked; this is what travels to workers."""

    target: Trainable
    x: Any
    y: Any
    included: Any
    seed: int
    signal: str | Signal | Signals | None = None
    views: tuple[View, ...] = ()
    at_once: int = 1
    keep: Any = None
    swaps: Any = None
    own: Any = None
    logs: Path | None = None  # the store, where what a fit tells can go
    threads: int = 1
    times: Any = None

    def __post_init__(self) -> None:
        target: Any = self.target
        if isinstance(target, Traits):
            target = target.labelled(self.y)
            object.__setattr__(self, "target", target)
        n = len(self.x) if hasattr(self.x, "__len__") else 0
        if not can_be_trained(target):
            received = target.name if isinstance(target, Target) else type(target).__name__
            hint = "shadow models are trained: name an estimator, or a factory with a TrainConfig"
            raise InputError("target", "one that can be fitted", f"{received}, which cannot", hint)
        check_target(target)
        if not hasattr(self.x, "__len__") or isinstance(self.x, str):
            raise InputError("x", "records (n, ...)", type(self.x).__name__, "pass an array, or a list of texts")
        labels = _checked_labels(self.y, n, target.kind)
        if self.seed < 0:
            raise InputError("seed", "0 or more", str(self.seed), "any number of your choice")
        if self.at_once < 1 or (self.at_once > 1 and not can_be_trained_together(target)):
            received = f"{self.at_once} of {target.name}"
            raise InputError("at_once", "1, or more where the target has fit_many", received, "1 is the default")
        self._check_signal()
        checked: dict[str, Any] = {"y": labels, "included": checked_included(self.included, n)}
        checked |= {"seed": int(self.seed), "at_once": int(self.at_once)}
        checked |= self._parts(n, len(checked["included"]))
        if self.swaps is not None:
            pairs = np.asarray(self.swaps)
            fit = pairs.shape == (len(checked["included"]), 2) and pairs.dtype.kind in "iu"
            if not fit or pairs.min() < 0 or pairs.max() >= n or self.at_once > 1:
                allowed = f"two row numbers from 0 to {n - 1} for each model, trained one at a time"
                raise InputError.of_array("swaps", allowed, pairs, "leave it out, or set at_once=1")
            checked["swaps"] = pairs.astype(np.intp)
        if self.times is not None:
            often = np.asarray(self.times)
            if often.shape != (n,) or often.dtype.kind not in "iu" or (often < 1).any() or self.at_once > 1:
                allowed = f"a whole number from 1 for each of {n:,} records, of models trained one at a time"
                raise InputError.of_array("times", allowed, often, "leave it out, or set at_once=1")
            checked["times"] = often.astype(np.intp)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _check_signal(self) -> None:
        if isinstance(self.signal, str) and self.signal not in signal_names():
            raise unknown_signal(self.signal)
        if isinstance(self.signal, Signals) and self.target.kind != "logits":
            raise InputError("signal", "signals of a classifier", self.target.kind, "keep its outputs, which are few")

    def _parts(self, n: int, models: int) -> dict[str, Any]:
        """Check the rows whose outputs are kept, and the places among them that each model keeps."""
        checked: dict[str, Any] = {}
        if self.keep is not None:
            rows = np.asarray(self.keep)
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size or rows.min() < 0 or rows.max() >= n:
                allowed = f"row numbers (k,) from 0 to {n - 1}"
                raise InputError.of_array("keep", allowed, rows, "leave it out to keep all")
            checked["keep"] = rows.astype(np.intp)
        if self.own is not None:
            places, count = np.asarray(self.own), len(checked.get("keep", range(n)))
            fit = places.ndim == 2 and len(places) == models and places.dtype.kind in "iu" and places.size > 0
            if not fit or places.min() < 0 or places.max() >= count:
                allowed = f"places from 0 to {count - 1}, as many for each of {models} models"
                raise InputError.of_array("own", allowed, places, "leave it out to keep all")
            checked["own"] = places.astype(np.intp)
        return checked

    @property
    def models(self) -> int:
        """How many there are."""
        return len(self.included)

    @property
    def kind(self) -> str:
        """What is kept of each."""
        if self.signal is None:
            return self.target.kind
        if isinstance(self.signal, Signals):
            return self.signal.each[0] if len(self.signal.each) == 1 else "signals"
        return self.signal if isinstance(self.signal, str) else "signals"

    def seeds(self) -> list[int]:
        """One seed for each model, of 32 bits: scikit-learn takes no larger ones."""
        children = np.random.SeedSequence(self.seed).spawn(self.models if self.swaps is None else 1)
        seeds = [int(child.generate_state(1)[0]) for child in children]
        return seeds if self.swaps is None else seeds * self.models

    def columns(self) -> list[str]:
        """The columns of a data frame, each with its type; none of other records."""
        return [f"{name} ({self.x[name].dtype})" for name in self.x.columns] if frames.is_frame(self.x) else []

    def learned(self, m: int, x: Any = None) -> tuple[Any, NDArray[Any], NDArray[np.intp]]:
        """Records and labels in the order in which a model sees them, and the rows of those that it learns.

        ``x`` are the records as the target prepared them.
        """
        x = self.x if x is None else x
        if self.swaps is None:
            rows = np.flatnonzero(self.included[m])
            return x, self.y, rows if self.times is None else np.repeat(rows, self.times[rows])
        order = np.arange(len(self.x))
        order[self.swaps[m]] = self.swaps[m][::-1]
        return frames.taken(x, order), self.y[order], np.flatnonzero(self.included[m][order])

    def decides(self) -> dict[str, str]:
        """All that decides the outputs, by name.

        Threads, where there are more: sums are then taken in another order and have other last digits. The kind of
        device, where it is no CPU: its results are not those of the CPU, and ``auto`` would not say which it was.
        """
        signal = "outputs" if self.signal is None else self.signal
        device = traits_of(self.target).device.partition(":")[0]
        return {
            "records": digest(self.x),
            "labels": digest(self.y),
            "target": digest(self.target.identity()),
            "inclusion": digest(self.included),
            "seed": str(self.seed),
            "signal": str(signal) if isinstance(signal, str | Signals) else described_function(signal),
            "views": digest([described_function(view) for view in self.views] or "none"),
            "at_once": str(self.at_once),
            **({} if self.threads == 1 else {"threads": str(self.threads)}),
            **({} if device in ("cpu", "auto") else {"device": device}),
            **({} if self.keep is None else {"keep": digest(self.keep)}),
            **({} if self.swaps is None else {"swaps": digest(self.swaps)}),
            **({} if self.times is None else {"times": digest(self.times)}),
        }


def _checked_labels(y: ArrayLike, n: int, kind: str) -> NDArray[Any]:
    """Labels of n records as outputs of a kind need them."""
    labels = np.asarray(y) if kind == "multi-label" else one_each(np.asarray(y))
    if labels.shape[:1] != (n,) or labels.ndim > 2:
        hint = "pass (n,), or (n, L) where each record has several"
        raise InputError("y", f"one label for each of {n} records", f"shape {labels.shape}", hint)
    if kind == "logits":
        class_count(labels)
    return multi_label.checked_labels(labels, "y") if kind == "multi-label" else labels

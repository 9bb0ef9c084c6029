"""Shadow models: many fits, each on half of the records; their outputs on disk; which records they give away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import Float32Array
from miaudit.attacks import multi_label
from miaudit.errors import InputError, MiauditError
from miaudit.io import frames
from miaudit.io.labels import one_each
from miaudit.jobs import executor as execution
from miaudit.jobs import resumable
from miaudit.jobs.resources import Resources
from miaudit.jobs.resumable import JobsFailedError, Store, batches, digest, duration
from miaudit.metrics.vulnerability import Vulnerability, vulnerability
from miaudit.models.inclusion import checked_included, inclusion
from miaudit.models.outputs import check_kind, check_label_columns, checked_outputs, class_count, label_count
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
from miaudit.models.shadow_outputs import (
    ShadowOutputs,
    Signal,
    Signals,
    outputs_of,
    signal_names,
    signal_of,
    unknown_signal,
)

View = Callable[[Any], Any]
_NAME = "model"  # of the files of a store


# -- training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailedModel:
    """A model that gave no outputs: its number, its seed, and what went wrong."""

    model: int
    seed: int
    problem: str

    def __str__(self) -> str:
        return f"model {self.model} (seed {self.seed}): {self.problem}"


def train(
    target: Trainable,
    x: Any,
    y: ArrayLike,
    included: ArrayLike,
    *,
    seed: int,
    store: str | Path | None = None,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    signal: str | Signal | Signals | None = None,
    views: Sequence[View] = (),
    at_once: int = 1,
    keep: ArrayLike | None = None,
    own: ArrayLike | None = None,
    swaps: ArrayLike | None = None,
    times: ArrayLike | None = None,
    progress: Callable[[resumable.Progress], None] | None = None,
) -> ShadowOutputs:
    """Train shadow models and keep what each says of every record. Runs the target's code.

    Same target, data and seed: same outputs, bit for bit, whatever the executor, the number of workers and the
    interruptions (on one kind of machine), but for noise for privacy, which no seed gives again. Only this process
    writes to the store, so a killed one loses the models in flight and no other.

    Parameters
    ----------
    target : what is trained, see :class:`miaudit.models.protocol.Trainable`
    x : records (n, ...): an array, a list of texts, or a data frame of pandas
    y : labels (n,): classes 0, 1, ... or numbers; or (n, L): 0 and 1 for each of several labels, or several numbers
    included : array (M, n) of bool
        Which records each model learns; :func:`inclusion` draws it. Records that no model learns (a population, for
        attacks that need one) get outputs all the same.
    seed : int, 0 or more
        Of all models; each has its own, derived from this one and its number.
    store : folder, optional
        Each finished model is written there at once. The same call again trains only what is missing; a call with
        other data, target, inclusion or seed is refused, and what differs is named.
    executor : "local", "ray" or "ray:ADDRESS", or a record with what each fit is given (threads, GPUs, time); see
        :mod:`miaudit.jobs.executor`
    workers : fits at a time, where ``executor`` is no record
    signal : name or function, optional; or several names, of a classifier (:class:`Signals`)
        Keep one number a record instead of all outputs: (n,) for (n, C).
    views : functions of records, optional
        Outputs are kept for each view (a mirrored image, say): (n, k, C). The records as they are need a view, too.
    at_once : models that are trained together by a target with ``fit_many``
    keep : array (k,) of row numbers, optional
        Outputs of these records only are asked for and kept, in this order.
    own : array (M, j) of places among these records, optional
        Each model keeps its outputs of j records only. It is asked about all of them: last digits of an answer may
        depend on what else is asked. A store is the same with and without: models that kept all are taken up, and
        models that kept less than is asked for are trained again.
    swaps : array (M, 2) of row numbers, optional
        Each model learns its records with these two in each other's place, and all models have the seed of the first:
        what replaces a record stands where that one stood, and nothing else is different.
    times : array (n,) of int from 1, optional
        How often a record stands in the training of a model that learns it: its row number is given so often.
    progress : function of :class:`miaudit.jobs.resumable.Progress`, called in this process

    Raises
    ------
    InputError
        For unusable arguments, a store of something else, or a cluster that does not answer.
    JobsFailedError
        If models failed; it names them, after all others have finished.
    OutputError
        If the store cannot be written, for want of space say; finished models stay.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miaudit.models.targets import SklearnTarget
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    >>> shadows = train(SklearnTarget(GaussianNB()), x, y, inclusion(40, 4, rng=rng), seed=0)
    >>> shadows.models, shadows.shape, shadows.signal("logit_confidence").shape
    (4, (40, 2), (40, 4))
    """
    target, where = placed(target, execution.chosen(executor, workers))
    plan = Fits(
        target,
        x,
        y,
        included,
        seed,
        signal,
        tuple(views),
        at_once,
        keep,
        swaps,
        own,
        logs=None if store is None else Path(store).absolute(),
        threads=where.each.threads,
        times=times,
    )
    with nullcontext() if store is None else Store.alone(store, plan.decides(), _NAME, plan.columns()) as place:
        outputs = _finished(plan, place, where, progress)
    return _gathered(plan, outputs, "" if place is None else place.fingerprint)


def _finished(
    plan: Fits,
    place: Store | None,
    where: execution.Local | execution.Ray,
    progress: Callable[[resumable.Progress], None] | None,
) -> dict[int, Path | Float32Array]:
    """Train the models that are missing, and return the outputs of all models by number."""
    seeds = plan.seeds()
    return resumable.finish(
        _fit_group,
        plan,
        list(enumerate(seeds)),
        place=None if place is None else _Enough(place, plan),
        what="shadow models" if plan.swaps is None else "models with a record replaced",
        failure=lambda m, problem: FailedModel(m, seeds[m], problem),
        at_once=plan.at_once,
        executor=where,
        progress=progress,
    )


def placed(target: Any, where: execution.Local | execution.Ray) -> tuple[Any, execution.Local | execution.Ray]:
    """Return a target with the device that its fits use there, and where they run with the GPUs that it wants.

    Raises
    ------
    InputError
        For a GPU that is asked for and not there, or not given to the fits.
    """
    if not isinstance(target, Traits):
        return target, where
    if where.each.gpus is None and target.gpus is not None:
        where = replace(where, each=replace(where.each, gpus=target.gpus))
    placed_target = target.placed(where.each.gpus, cluster=isinstance(where, execution.Ray))
    if isinstance(where, execution.Local) and ":" in placed_target.device:  # all fits on that one
        where = replace(where, deals=False)
    return placed_target, where


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
        return len(self.included)

    @property
    def kind(self) -> str:
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


def _gathered(plan: Fits, outputs: dict[int, Path | Float32Array], fingerprint: str) -> ShadowOutputs:
    sources = tuple(outputs[m] if plan.own is None else _own(plan, m, outputs[m]) for m in range(plan.models))
    shapes = [outputs_of(source).shape for source in sources]
    several = plan.signal if isinstance(plan.signal, Signals) else None
    usual = shapes[0 if several is None else -1]
    for m, shape in enumerate(shapes):
        if shape != usual and not (several and m == 0):
            received = f"{shape} by model {m} and {usual} by model 0"
            raise InputError("outputs", "one shape by all models", received, "let the columns not depend on the subset")
    of = slice(None) if plan.keep is None else plan.keep
    included, labels = plan.included[:, of], plan.y[of]
    if plan.own is not None:
        included, labels = np.take_along_axis(included, plan.own, axis=1), labels[plan.own]
    names = several.each if several is not None and len(several.each) > 1 else ()
    return ShadowOutputs(included, labels, sources, usual, plan.kind, fingerprint, names)


def _own(plan: Fits, m: int, source: Path | Float32Array) -> Path | Float32Array:
    """Return a model's outputs on its own records, where it may have kept those on all records."""
    values = outputs_of(source)
    return source if len(values) == plan.own.shape[1] else np.ascontiguousarray(values[plan.own[m]])


@dataclass(frozen=True)
class _Enough:
    """A store in which a model counts as finished only if it kept outputs on all requested records."""

    store: Store
    plan: Fits

    @property
    def folder(self) -> Path:
        return self.store.folder

    def keep(self, number: int, result: Float32Array) -> Path:
        return self.store.keep(number, result)

    def finished(self, total: int) -> dict[int, Path]:
        plan = self.plan
        enough = {len(plan.y) if plan.keep is None else len(plan.keep)}
        enough |= set() if plan.own is None else {plan.own.shape[1]}
        return {m: path for m, path in self.store.finished(total).items() if len(self.store.read(m)) in enough}


def _fit_group(plan: Fits, group: Sequence[tuple[int, int]]) -> list[Float32Array | str]:
    """Fit the models of one group and return what is kept of each, or its problem."""
    x = _prepared(plan)
    if len(group) == 1:
        ((m, seed),) = group
        target = plan.target.at_work(m, plan.logs) if isinstance(plan.target, Traits) else plan.target
        fitted = target.fit(*plan.learned(m, x), seed=seed)
        return [_kept_outputs(plan, m, fitted)]
    included, seeds = plan.included[[m for m, _ in group]], [seed for _, seed in group]
    fits = plan.target.fit_many(x, plan.y, included, seeds=seeds)  # type: ignore[attr-defined]
    results: list[Float32Array | str] = []
    for (m, _), fitted in zip(group, fits, strict=True):
        try:
            results.append(str(fitted) if isinstance(fitted, MiauditError) else _kept_outputs(plan, m, fitted))
        except MiauditError as error:
            results.append(str(error))
    return results


_PREPARED: WeakKeyDictionary[Fits, Any] = WeakKeyDictionary()  # records as the target takes them, as long as its fits


def _prepared(plan: Fits) -> Any:
    if plan not in _PREPARED:
        _PREPARED[plan] = plan.target.prepared(plan.x) if isinstance(plan.target, Traits) else plan.x
    return _PREPARED[plan]


def _kept_outputs(plan: Fits, m: int, fitted: Any) -> Float32Array:
    inputs, y = plan.x if plan.views else _prepared(plan), plan.y
    if plan.keep is not None:
        inputs, y = frames.taken(inputs, plan.keep), y[plan.keep]
    views = [inputs] if not plan.views else [view(inputs) for view in plan.views]
    by_view = []
    for records in views:
        values = checked_outputs(plan.target.outputs(fitted, records), len(inputs), plan.target.name)
        check_kind(plan.target.kind, values, plan.target.name)
        if plan.target.kind == "logits" and (most := class_count(plan.y)) > values.shape[1]:
            received = f"{values.shape[1]} columns for labels up to {most - 1}"
            raise InputError("outputs", "a column for each class", received, "give the network more outputs")
        if plan.y.ndim == 2 and plan.target.kind != "signals":
            check_label_columns(values.shape[1], plan.y.shape[1], plan.target.name)
        if isinstance(plan.signal, Signals):
            values = plan.signal.of(values, y, m)
        elif plan.signal is not None:
            values = signal_of(values, y, plan.signal, plan.target.kind)
        by_view.append(values)
    outputs = np.stack(by_view, axis=1) if plan.views else by_view[0]
    return outputs if plan.own is None else outputs[plan.own[m]]


# -- what it will cost -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What shadow models will take: fits to do, seconds per fit, hours in all, bytes on disk, and how this is known."""

    fits: int
    reused: int
    seconds_per_fit: float
    hours: float
    disk_bytes: int
    how: str

    def beside(self, more: Cost, how: str) -> Cost:
        """Return what these and more fits take together, one after the other."""
        sums = (getattr(self, name) + getattr(more, name) for name in ("fits", "reused", "hours", "disk_bytes"))
        fits, reused, hours, size = sums
        return Cost(fits, reused, self.seconds_per_fit or more.seconds_per_fit, hours, size, how)

    @property
    def said(self) -> str:
        """Fits, time and size in words."""
        reused = f" ({self.reused} more are there)" if self.reused else ""
        return f"{self.fits} fits{reused}, {duration(self.hours * 3600)}, {self.disk_bytes / 1e6:,.1f} MB"

    def __str__(self) -> str:
        return f"{self.said} on disk; {self.how}"


def estimate(
    target: Trainable,
    x: Any,
    y: ArrayLike,
    included: ArrayLike,
    *,
    seed: int,
    seconds_per_fit: float | None = None,
    columns: int | None = None,
    store: str | Path | None = None,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    signal: str | Signal | Signals | None = None,
    views: Sequence[View] = (),
    at_once: int = 1,
    keep: ArrayLike | None = None,
    own: ArrayLike | None = None,
    swaps: ArrayLike | None = None,
    times: ArrayLike | None = None,
) -> Cost:
    """Say beforehand what :func:`train` with the same arguments will take; nothing is written.

    Parameters
    ----------
    seconds_per_fit : number, optional
        A rate from elsewhere. Without it the first group of models is trained once and timed, in this process.
    columns : outputs for each record, where the rate is given; default the number of classes, or 1

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miaudit.models.targets import SklearnTarget
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(1000, 2)), np.arange(1000) % 2
    >>> cost = estimate(
    ...     SklearnTarget(GaussianNB()), x, y, inclusion(1000, 64, rng=rng), seed=0, seconds_per_fit=9.0, workers=2)
    >>> print(cost)
    64 fits, 4.8 minutes, 0.5 MB on disk; at the stated 9 seconds a fit and 2 at a time
    """
    target, where = placed(target, execution.chosen(executor, workers))
    plan = Fits(
        target, x, y, included, seed, signal, tuple(views), at_once, keep, swaps, own, None, where.each.threads, times
    )
    done = _reused(plan, store)
    if len(done) == plan.models:
        return Cost(0, len(done), 0.0, 0.0, 0, "all are there from before")
    if seconds_per_fit is None:
        return _cost(plan, done, _timed(plan, where), where.workers)
    return _cost(plan, done, _stated(plan, seconds_per_fit, columns, where.workers), where.workers)


@dataclass(frozen=True)
class _Rate:
    """What one fit takes: seconds, bytes on disk, and how this is known."""

    seconds: float
    bytes_each: int
    how: str


def _reused(plan: Fits, store: str | Path | None) -> set[int]:
    """Return the numbers of the models that a store holds already."""
    place = None if store is None else Store.found(store, plan.decides(), _NAME, plan.columns())
    return set() if place is None else set(_Enough(place, plan).finished(plan.models))


def _stated(plan: Fits, seconds_per_fit: float, columns: int | None, workers: int) -> _Rate:
    """Return the rate that the caller states, with the size that the outputs will have."""
    if not (np.isfinite(seconds_per_fit) and seconds_per_fit >= 0):
        raise InputError("seconds_per_fit", "0 or more", str(seconds_per_fit), "leave it out to time one fit")
    width = 1 if plan.signal is not None else columns or 0
    if not width:
        width = class_count(plan.y) if plan.target.kind == "logits" else max(1, label_count(plan.y))
    records = next((part.shape[-1] for part in (plan.own, plan.keep) if part is not None), len(plan.x))
    seconds, bytes_each = float(seconds_per_fit), 4 * records * width * max(1, len(plan.views))
    return _Rate(seconds, bytes_each, f"at the stated {duration(seconds)} a fit and {workers} at a time")


def _timed(plan: Fits, where: execution.Local | execution.Ray) -> _Rate:
    """Train the first group of models once, without keeping it, and return the time and size of a fit."""
    group = batches(plan.models, plan.at_once)[0]
    seeds, begin = plan.seeds(), time.perf_counter()
    here: execution.Local | execution.Ray = execution.Local(each=Resources(plan.threads))
    if isinstance(where, execution.Ray) and where.each.gpus:
        here = replace(where, workers=1)  # where there are GPUs
    (outcome,) = execution.outcomes(_fit_group, plan, [[(m, seeds[m]) for m in group]], executor=here)
    problem = outcome.problem or next((one for one in outcome.value if isinstance(one, str)), "")
    if problem:
        failed = [FailedModel(group[0], seeds[group[0]], problem)]
        raise JobsFailedError(failed, plan.models, None, "shadow models")
    seconds, bytes_each = (time.perf_counter() - begin) / len(group), int(outcome.value[0].nbytes)
    return _Rate(seconds, bytes_each, f"one fit was timed, {duration(seconds)}, and {where.workers} run at a time")


def _cost(plan: Fits, done: set[int], rate: _Rate, workers: int) -> Cost:
    fits = plan.models - len(done)
    hours = rate.seconds * np.ceil(fits / workers) / 3600
    size = fits * (rate.bytes_each + 128)
    if isinstance(plan.signal, Signals):
        size = sum(plan.signal.bytes_of(m) * len(plan.y) + 128 for m in range(plan.models) if m not in done)
    return Cost(fits, len(done), rate.seconds, float(hours), size, rate.how)


__all__ = [
    "Cost",
    "FailedModel",
    "ShadowOutputs",
    "Target",
    "Vulnerability",
    "estimate",
    "inclusion",
    "train",
    "vulnerability",
]

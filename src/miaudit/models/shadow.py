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
from numpy.typing import ArrayLike

from miaudit.arrays import Float32Array
from miaudit.errors import InputError, MiauditError
from miaudit.io import frames, storage
from miaudit.jobs import executor as execution
from miaudit.jobs import resumable
from miaudit.jobs.resources import Resources
from miaudit.jobs.resumable import JobsFailedError, Part, Store, batches, duration
from miaudit.metrics.vulnerability import Vulnerability, vulnerability
from miaudit.models.fits import Fits, View
from miaudit.models.inclusion import inclusion
from miaudit.models.outputs import check_kind, check_label_columns, checked_outputs, class_count, label_count
from miaudit.models.protocol import (
    Target,
    Trainable,
    Traits,
)
from miaudit.models.shadow_outputs import (
    ShadowOutputs,
    Signal,
    Signals,
    outputs_of,
    signal_of,
)

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
    store: storage.Place | None = None,
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
    store : folder, or URL of an object store (s3://BUCKET/PREFIX; :mod:`miaudit.io.storage`), optional
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
    plan, where = _planned(
        target,
        x,
        y,
        included,
        seed,
        store,
        executor=executor,
        workers=workers,
        signal=signal,
        views=tuple(views),
        at_once=at_once,
        keep=keep,
        own=own,
        swaps=swaps,
        times=times,
    )
    with nullcontext() if store is None else Store.alone(store, plan.decides(), _NAME, plan.columns()) as place:
        outputs = _finished(plan, place, where, progress)
    return _gathered(plan, outputs, "" if place is None else place.fingerprint)


def train_part(
    target: Trainable,
    x: Any,
    y: ArrayLike,
    included: ArrayLike,
    *,
    seed: int,
    store: storage.Place,
    part: Part,
    progress: Callable[[resumable.Progress], None] | None = None,
    **options: Any,
) -> int:
    """Train one part of the shadow models of :func:`train`, and leave them in the store; runs the target's code.

    Tasks of a scheduler share a store that way, on one machine or on many. When all are done :func:`train` with the
    same arguments reads them, and trains what failed.

    Parameters
    ----------
    store : as of :func:`train`, needed
    part : which models
    options : as of :func:`train`

    Returns
    -------
    how many models this part has

    Raises
    ------
    InputError, JobsFailedError, OutputError
        As of :func:`train`. Also if models are trained together.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miaudit.models.targets import SklearnTarget
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    >>> data = (SklearnTarget(GaussianNB()), x, y, inclusion(40, 4, rng=rng))
    >>> with tempfile.TemporaryDirectory() as store:
    ...     [train_part(*data, seed=0, store=store, part=Part(i, 3)) for i in (1, 2, 3)]
    ...     estimate(*data, seed=0, store=store).reused
    [2, 1, 1]
    4
    """
    plan, where = _planned(target, x, y, included, seed, store, **options)
    if plan.at_once > 1:
        raise InputError("at_once", "1 beside a part", str(plan.at_once), "models that train together are one task")
    with Store.alone(store, plan.decides(), _NAME, plan.columns(), part=part) as place:
        return len(_finished(plan, place, where, progress, part.numbers(plan.models)))


def _planned(
    target: Trainable,
    x: Any,
    y: ArrayLike,
    included: ArrayLike,
    seed: int,
    store: storage.Place | None,
    *,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    **options: Any,
) -> tuple[Fits, execution.Local | execution.Ray]:
    """What is fixed before the first fit, and where fits run."""
    target, where = placed(target, execution.chosen(executor, workers))
    place = None if store is None else storage.folder(store)
    logs = place.place.absolute() if isinstance(place, storage.Disk) else None  # an object store keeps outputs only
    return Fits(target, x, y, included, seed, logs=logs, threads=where.each.threads, **options), where


def _finished(
    plan: Fits,
    place: Store | None,
    where: execution.Local | execution.Ray,
    progress: Callable[[resumable.Progress], None] | None,
    numbers: Sequence[int] | None = None,
) -> dict[int, Path | Float32Array]:
    """Train the models that are missing, and return the outputs of all models by number, or of some."""
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
        numbers=numbers,
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
    def folder(self) -> str:
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
    store: storage.Place | None = None,
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


def _reused(plan: Fits, store: storage.Place | None) -> set[int]:
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
    size = fits * (rate.bytes_each + storage.BESIDE)
    if isinstance(plan.signal, Signals):
        size = sum(plan.signal.bytes_of(m) * len(plan.y) + storage.BESIDE for m in range(plan.models) if m not in done)
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
    "train_part",
    "vulnerability",
]

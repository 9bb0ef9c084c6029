"""Evidence of many runs, one for each record (multi-run), and of none (zero-run): causal-mia, Algorithms 1 and 3."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import atomic, tables
from miaudit.io.numeric import LARGEST
from miaudit.jobs import executor as execution
from miaudit.jobs import resumable
from miaudit.models.inclusion import coins

Fit = Callable[..., Any]
Scorer = Callable[[Any, IndexArray], ArrayLike | Mapping[str, ArrayLike]]
Progress = Callable[[int, int], None]
_FORMAT = "miaudit runs 1"


@dataclass(frozen=True)
class FailedRun:
    """A run that gave no score: its number, the row of its record, whether it was a member, and what went wrong."""

    run: int
    row: int
    member: bool
    problem: str

    def __str__(self) -> str:
        return f"run {self.run} (row {self.row}, {'member' if self.member else 'non-member'}): {self.problem}"


def multi_run(
    fit: Fit,
    score: Scorer,
    *,
    records: int | ArrayLike,
    rng: np.random.Generator,
    inclusion: float = 0.5,
    base: ArrayLike | None = None,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    store: str | Path | None = None,
    key: str = "",
    progress: Progress | None = None,
    source: str = "",
) -> Evidence:
    """Train one model for each record, with or without it, and score that record only (causal-mia, Algorithm 1).

    All memberships are drawn before any training, then one generator for each run is spawned from ``rng``: the result
    does not depend on the number of workers, on the order in which runs finish, or on how often the work was
    interrupted (apart from the last digits, where linear algebra uses several threads).

    Parameters
    ----------
    fit : function of rows (k,), indices of the records to train on, that returns a model
        If it has a parameter named ``rng``, the generator of its own run is passed there; a trainer that draws random
        numbers should take them from it.
    score : function of the model and of rows (1,), that returns one score (1,), higher for members, or several by name
    records : int n (the rows 0 to n - 1) or array (n,) of distinct row indices
        One record for each run.
    rng : generator of the memberships and of the runs
    inclusion : probability, in (0, 1), with which record i is a member of its model, independently of all others
    base : array of row indices, optional
        What every model is trained on; none of ``records``. Without it ``fit`` gets one row or none, and holds what
        else it trains on.
    executor : "local", "ray" or "ray:ADDRESS"; see :mod:`miaudit.jobs.executor`
    workers : runs at a time, at least 1
        With more than one, or on Ray, ``fit`` and ``score`` are sent to other processes and must survive that (be
        picklable).
    store : folder, optional
        Each finished run is written there at once by this process, under a fingerprint of the records, the base rows,
        the memberships, the seeds and ``key``; a call with an equal fingerprint repeats only what is missing, any other
        starts afresh.
    key : str, needed with ``store``
        Says what is trained on what ("resnet-8, cifar10, v2"): the store cannot see a change in ``fit`` or in the data.
    progress : function of (finished runs, all runs), optional, called in this process

    Returns
    -------
    Evidence with the design "multi-run", in the order of ``records``

    Raises
    ------
    InputError
        For rows that overlap, draws of one class only, a store without a key or in which another process is at work, or
        functions that cannot be sent.
    JobsFailedError
        If some runs failed: it names them, after all others have finished. With a store, calling again resumes.

    Examples
    --------
    >>> data = np.random.default_rng(1).normal(size=(60, 3))
    >>> evidence = multi_run(
    ...     lambda rows: data[rows].mean(axis=0),
    ...     lambda mean, rows: data[rows] @ mean,
    ...     records=50, base=np.arange(50, 60), rng=np.random.default_rng(0))
    >>> evidence.design, evidence.n
    ('multi-run', 50)
    """
    rows = row_indices(records, "records")
    fixed = np.empty(0, np.intp) if base is None else base_indices(base, rows)
    where = execution.chosen(executor, workers)
    member = coins(len(rows), inclusion=inclusion, rng=rng)
    jobs = [
        _Run(int(row), bool(inside), own) for row, inside, own in zip(rows, member, rng.spawn(len(rows)), strict=True)
    ]
    target = _Target(fit, score, _takes_rng(fit), fixed)
    with (
        nullcontext() if store is None else _Folder.alone(store, rows, fixed, jobs, key) as place,
        _as_functions(),
    ):
        finished = resumable.finish(
            _Target.scores,
            target,
            jobs,
            place=place,
            what="runs",
            failure=lambda i, problem: FailedRun(i, jobs[i].row, jobs[i].member, problem),
            executor=where,
            progress=resumable.counted(progress),
        )
    return Evidence(score=_joined(finished), member=member, design="multi-run", source=source)


def zero_run(
    score: Callable[[Any], ArrayLike | Mapping[str, ArrayLike]],
    *,
    members: Any,
    nonmembers: Any,
    covariates: ArrayLike | Callable[[Any], ArrayLike] | None = None,
    source: str = "",
    **fields: Any,
) -> Evidence:
    """Score known members and known non-members of a model that is what it is (causal-mia, Algorithm 3).

    The memberships were not drawn: what tells members from non-members beside the model (dates, sources, style) has to
    be in the covariates, or the metrics stay raw.

    Parameters
    ----------
    score : function of rows or records, that returns a score (n,), higher for members, or several by name
        The model is inside it. It is called once, with the members first.
    members, nonmembers : arrays of row indices (n1,) and (n0,), or of records (n1, ...) and (n0, ...), or lists
    covariates : array (n1 + n0, d), members first, or function of rows or records that returns one, optional
    fields
        Further fields of :class:`Evidence`, members first: covariate_names, unit, group.

    Returns
    -------
    Evidence with the design "zero-run", members first

    Raises
    ------
    InputError
        If a class is empty, a row index is in both classes, or what comes back does not have one row for each record.

    Examples
    --------
    >>> data = np.random.default_rng(1).normal(size=(60, 3))
    >>> evidence = zero_run(
    ...     lambda rows: -data[rows, 0] ** 2,
    ...     members=np.arange(20), nonmembers=np.arange(20, 60), covariates=lambda rows: data[rows, 1:])
    >>> evidence.design, evidence.n_members, evidence.covariates.shape
    ('zero-run', 20, (60, 2))
    """
    for name, records in (("members", members), ("nonmembers", nonmembers)):
        if isinstance(records, str) or not hasattr(records, "__len__") or len(records) == 0:
            raise InputError(name, "at least one row index or record", repr(records)[:40], "both classes are needed")
    both = _both_classes(members, nonmembers)
    member = np.arange(len(both)) < len(members)
    x = covariates(both) if callable(covariates) else covariates
    return Evidence(score=score(both), member=member, covariates=x, design="zero-run", source=source, **fields)


def row_indices(records: int | ArrayLike, name: str, most: int | None = None) -> IndexArray:
    """Return distinct, non-negative row indices (n,), from a number n (0 to n - 1) or an array, below ``most``."""
    if isinstance(records, int | np.integer):
        records = np.arange(int(records))
    rows = np.asarray(records)
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu":
        received = "no row" if rows.size == 0 else f"shape {rows.shape} of type {rows.dtype}"
        raise InputError(name, "a number of records, or an array (n,) of row indices", received, "pass integers")
    if int(rows.min()) < 0 or (most is not None and int(rows.max()) >= most):
        allowed = "row indices from 0" + (f" to {most - 1}" if most is not None else "")
        raise InputError(name, allowed, f"{int(rows.min())} to {int(rows.max())}", "count rows from 0")
    if len(np.unique(rows)) < len(rows):
        raise InputError(name, "distinct row indices", "one of them twice", "drop the repetitions")
    return rows.astype(np.intp)


def base_indices(base: ArrayLike, records: IndexArray, most: int | None = None) -> IndexArray:
    """Return the row indices of the fixed part of every training set; a record there would always be a member."""
    fixed = row_indices(base, "base", most)
    shared = np.intersect1d(fixed, records)
    if len(shared):
        received = f"{len(shared)} in both, the first {int(shared[0])}"
        raise InputError("base", "rows that are not among the records", received, "a row in both is always a member")
    return fixed


# -- one run, and all of them --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Run:
    """What one run needs apart from the functions."""

    row: int
    member: bool
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Target:
    """The two functions and all that is the same in every run; this is what travels to a worker."""

    fit: Fit
    score: Scorer
    takes_rng: bool
    base: IndexArray

    def scores(self, runs: list[_Run]) -> list[dict[str, float]]:
        """Train with the record of this one run or without it, and score it."""
        (run,) = runs
        own = np.array([run.row], dtype=np.intp)
        rows = np.concatenate([self.base, own]) if run.member else self.base.copy()
        model = self.fit(rows, rng=run.rng) if self.takes_rng else self.fit(rows)
        return [_checked(self.score(model, own))]


@contextmanager
def _as_functions() -> Iterator[None]:
    """Name what cannot be sent to other processes as the caller does."""
    try:
        yield
    except InputError as error:
        if error.argument != "task":
            raise
        next_step = "make what they hold inside fit, or use workers=1"
        allowed = "functions that can be sent to other processes"
        raise InputError("fit and score", allowed, error.received, next_step) from error


def _takes_rng(fit: Fit) -> bool:
    try:
        return "rng" in inspect.signature(fit).parameters
    except (TypeError, ValueError):  # some compiled functions do not tell
        return False


def _checked(scores: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, float]:
    """One finite number for each name, or an error that says what came instead."""
    named = dict(scores) if isinstance(scores, Mapping) else {"score": scores}
    numbers = {}
    for name, values in named.items():
        array = np.asarray(values, dtype=np.float64)
        if array.size != 1 or not abs(array.item()) <= LARGEST:
            shown = f"shape {array.shape}" if array.size != 1 else str(array.item())
            raise InputError(str(name), "one finite score for the one row", shown, "check the score function")
        numbers[str(name)] = array.item()
    if not numbers:
        raise InputError("score", "at least one score", "an empty mapping", "check the score function")
    return numbers


def _joined(finished: Mapping[int, Mapping[str, float]]) -> dict[str, FloatArray]:
    """Scores by name, in the order of the runs."""
    names = list(finished[0])
    for run, scores in finished.items():
        if set(scores) != set(names):
            raise InputError(
                "score", f"the names {', '.join(names)} in every run", f"others in run {run}", "name alike"
            )
    return {name: np.array([finished[run][name] for run in range(len(finished))]) for name in names}


def _both_classes(members: Any, nonmembers: Any) -> Any:
    if isinstance(members, list | tuple) and isinstance(nonmembers, list | tuple):
        return [*members, *nonmembers]
    inside, outside = np.asarray(members), np.asarray(nonmembers)
    if inside.shape[1:] != outside.shape[1:]:
        raise InputError("nonmembers", f"records of shape {inside.shape[1:]}", str(outside.shape[1:]), "pass alike")
    if inside.ndim == 1 and inside.dtype.kind in "iu" and outside.dtype.kind in "iu":
        shared = np.intersect1d(inside, outside)
        if len(shared):
            raise InputError("nonmembers", "rows that are no members", f"row {shared[0]} in both", "decide for one")
    return np.concatenate([inside, outside])


# -- what is kept between calls ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Folder:
    """A folder of finished runs, one small file each, named by the fingerprint of all that decides them."""

    folder: Path
    fingerprint: str

    @classmethod
    @contextmanager
    def alone(
        cls, place: str | Path, rows: IndexArray, base: IndexArray, runs: Sequence[_Run], key: str
    ) -> Iterator[_Folder]:
        """Open the folder of these runs, or make it, and keep every other process out of it."""
        if not key:
            raise InputError("key", "a word for what is trained on what, with store=", "none", "change it with them")
        if "://" in str(place):
            raise InputError("store", "a folder, for runs in Python", str(place), "a campaign's store may be a URL")
        root = Path(place)
        if root.exists() and not root.is_dir():
            raise InputError("store", "a folder", f"the file {root}", "name a folder")
        fingerprint = _fingerprint(rows, base, runs, key)
        opened = cls(root / fingerprint[:32], fingerprint)
        about = {"format": _FORMAT, "key": key, "runs": len(runs), "members": sum(run.member for run in runs)}
        text = json.dumps({**about, "fingerprint": fingerprint}, indent=1) + "\n"
        with atomic.locked_folder(opened.folder):
            atomic.write_text(opened.folder / "about.json", text)
            yield opened

    def keep(self, run: int, scores: Mapping[str, float]) -> Mapping[str, float]:
        """Write one run; renamed into place, so a killed process leaves it whole or absent."""
        columns = {
            "fingerprint": np.array(self.fingerprint),
            "names": np.array(list(scores)),
            "values": np.array(list(scores.values())),
        }
        tables.write_columns(self._path(run), columns)
        return scores

    def finished(self, total: int) -> dict[int, Mapping[str, float]]:
        """Read the runs that are whole; a damaged or foreign file counts as absent, and its run is repeated."""
        finished_runs: dict[int, Mapping[str, float]] = {}
        for run in filter(lambda run: self._path(run).is_file(), range(total)):
            with suppress(InputError, ValueError):
                columns = tables.read_columns(self._path(run), ["fingerprint", "names", "values"])
                if str(columns["fingerprint"]) == self.fingerprint:
                    values = columns["values"].tolist()
                    finished_runs[run] = _checked(dict(zip(columns["names"].tolist(), values, strict=True)))
        return finished_runs

    def _path(self, run: int) -> Path:
        return self.folder / f"run-{run:07d}.npz"


def _fingerprint(rows: IndexArray, base: IndexArray, runs: Sequence[_Run], key: str) -> str:
    state = hashlib.sha256(f"{_FORMAT}|{key}|{len(rows)}|{len(base)}|".encode())
    state.update(rows.astype("<i8").tobytes())
    state.update(base.astype("<i8").tobytes())
    state.update(np.array([run.member for run in runs]).tobytes())
    for run in runs:
        seed = run.rng.bit_generator.seed_seq
        state.update(seed.generate_state(4).astype("<u4").tobytes())  # type: ignore[attr-defined, unused-ignore]
    return state.hexdigest()

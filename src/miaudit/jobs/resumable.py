"""Many jobs that can be taken up again: kept results are read, missing ones made, and failures named at the end.

What they make is kept in a folder of their own, such as :class:`Store`, a file of finished numbers for each.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, MiauditError, one_line
from miaudit.io import atomic, frames, storage
from miaudit.jobs import executor as execution

_FORMAT = "miaudit store 1"
_ABOUT = "about.json"
_BLOCK = 1 << 24  # bytes that are hashed at a time
_NAMED = 3  # failed jobs spelt out in a message
_OWN_FOLDER = re.compile(r"miaudit-fit-\w+")  # of a fit, in what its command said


class Kept(Protocol):
    """A place in which results are kept one by one, by the number of their job."""

    @property
    def folder(self) -> object:
        """Where they are, as it is named in messages."""
        ...

    def finished(self, total: int) -> Mapping[int, Any]:
        """Return the results that are there and whole, of so many jobs."""
        ...

    def keep(self, number: int, result: Any) -> Any:
        """Write a result, whole or not at all; return what stands for it."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far the work is: models that are there (some from before), that failed, of how many, and seconds left."""

    finished: int
    reused: int
    failed: int
    total: int
    seconds_left: float

    def __str__(self) -> str:
        if self.reused == self.total:
            return f"all {self.total} models are there from before: nothing left to train"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.finished} of {self.total} models{failed}, {duration(self.seconds_left)} left"


class JobsFailedError(MiauditError):
    """Some models or runs failed; the others finished, and are kept where there is a store.

    Attributes
    ----------
    failed : tuple, one record for each that failed, which says in words what went wrong
    """

    def __init__(self, failed: Sequence[Any], total: int, store: object, what: str) -> None:
        self.failed = tuple(failed)
        alike = _alike(self.failed)
        shown = "; ".join(f"{ones[0]}{_others(ones[1:])}" for ones in alike[:_NAMED])
        rest = sum(map(len, alike[_NAMED:]))
        more = f"; and {rest} more" if rest else ""
        if store is None:
            named = "" if what in ("generators", "passes") else " (shadow.store in a configuration file)"
            hint = f"give store={named} to keep what finishes"
        elif len(failed) == total:
            hint = "none finished: mend the cause and run again"
        else:
            hint = f"the {total - len(failed)} others are kept in {store}: run again to repeat only these"
        super().__init__(one_line(f"{len(failed)} of {total} {what} failed: {shown}{more}; {hint}"))


def _alike(failed: Sequence[Any]) -> list[list[Any]]:
    """Failures that are reported in the same words, whatever their number and the place of their log, together."""
    groups = dict[str, list[Any]]()
    for one in failed:
        problem = str(getattr(one, "problem", one)).partition("; log: ")[0]
        groups.setdefault(_OWN_FOLDER.sub("", problem), []).append(one)
    return list(groups.values())


def _others(alike: Sequence[Any]) -> str:
    """How many more failed in the same way, and the first of them by name: what stands before the brackets."""
    if not alike:
        return ""
    named = ", ".join(str(one).partition(": ")[0].partition(" (")[0] for one in alike[:_NAMED])
    return f" ({len(alike)} more alike: {named}{', ...' * (len(alike) > _NAMED)})"


def batches(total: int, at_once: int) -> list[range]:
    """Return the numbers of jobs that are done together: always the same ones, so that a resumed run fits alike."""
    return [range(start, min(start + at_once, total)) for start in range(0, total, at_once)]


def finish(
    task: Callable[[Any, list[Any]], Sequence[Any]],
    shared: Any,
    jobs: Sequence[Any],
    *,
    place: Kept | None,
    what: str,
    failure: Callable[[int, str], Any],
    at_once: int = 1,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
    numbers: Collection[int] | None = None,
) -> dict[int, Any]:
    """Do all jobs whose results are not kept from before; a run that is killed loses those in flight and no others.

    Parameters
    ----------
    task : function of ``shared`` and of a batch of jobs, that returns a result for each, or a text that says why not
    shared, executor, workers : as of :func:`miaudit.jobs.executor.outcomes`
    jobs : what is different in each; small
    place : where results are kept at once, by this process; None: in memory
    what : the jobs in one word, for the error ("runs")
    failure : from the number of a job and what went wrong to a record of it
    at_once : jobs that are done together
    progress : called in this process at the beginning and after each job
    numbers : which of the jobs are wanted here; default all. With one job at a time

    Returns
    -------
    dict from the number of each job to its result, or to what stands for it where it is kept

    Raises
    ------
    JobsFailedError
        If jobs failed; it names them, after all others have finished, and has the first traceback as a note.
    MiauditError
        If the cluster is lost; it says how to go on.
    """
    numbers = range(len(jobs)) if numbers is None else frozenset(numbers)
    done = {} if place is None else {n: one for n, one in place.finished(len(jobs)).items() if n in numbers}
    missing = [batch for batch in batches(len(jobs), at_once) if any(n in numbers and n not in done for n in batch)]
    failed, first = dict[int, Any](), ""
    tally = _Tally(done, failed, len(numbers), len(done), time.monotonic(), progress)
    tally.report()
    for outcome in _reported(
        execution.outcomes(
            task, shared, [[jobs[n] for n in batch] for batch in missing], executor=executor, workers=workers
        ),
        missing,
        tally,
        place,
        what,
    ):
        first = first or outcome.where
        batch = missing[outcome.number]
        for number, result in zip(
            batch, [outcome.problem] * len(batch) if outcome.problem else outcome.value, strict=True
        ):
            if number in done:  # from before, made again beside another of its batch
                continue
            if isinstance(result, str):
                failed[number] = failure(number, result)
            else:
                done[number] = result if place is None else place.keep(number, result)
            tally.report()
    if failed:
        raise _error(failed, len(numbers), place, what, first)
    return done


@dataclass(frozen=True)
class _Tally:
    """The jobs that are done or failed so far, and the function that progress is reported to."""

    done: Mapping[int, Any]
    failed: Mapping[int, Any]
    total: int
    reused: int
    start: float
    progress: Callable[[Progress], None] | None

    def report(self) -> None:
        if self.progress is not None:
            new = len(self.done) - self.reused + len(self.failed)
            left = (time.monotonic() - self.start) / new * (self.total - self.reused - new) if new else math.nan
            self.progress(Progress(len(self.done), self.reused, len(self.failed), self.total, left))


def _reported(
    outcomes: Iterator[execution.Outcome],
    missing: Sequence[Sequence[int]],
    tally: _Tally,
    place: Kept | None,
    what: str,
) -> Iterator[execution.Outcome]:
    """Pass outcomes on; say once, at the end, what ran again, and of a lost cluster how to go on."""
    repeated = list[int]()
    try:
        for outcome in outcomes:
            if outcome.losses:
                repeated += missing[outcome.number]
            yield outcome
    except execution.ClusterLostError as error:
        finished = f"{len(tally.done)} of {tally.total} {what} are finished"
        if place is None:
            hint = "none of them is kept: give store= (shadow.store in a configuration file)"
        else:
            hint = f"they are kept in {place.folder}: start a cluster, and run the same command to go on"
        raise MiauditError(one_line(f"{error}; {finished}, and {hint}")) from error
    finally:
        if repeated:
            named = ", ".join(map(str, sorted(repeated)[:_NAMED])) + ", ..." * (len(repeated) > _NAMED)
            message = "%d of %d %s ran again, since a process or a node was lost: number %s; each counts once"
            logging.getLogger("miaudit").warning(message, len(repeated), tally.total, what, named)


def _error(failed: Mapping[int, Any], total: int, place: Kept | None, what: str, first: str) -> JobsFailedError:
    """The error that names all failures in their order, with the first traceback as a note."""
    folder = None if place is None else place.folder
    error = JobsFailedError([failed[number] for number in sorted(failed)], total, folder, what)
    if first:
        error.add_note(first)
    return error


def counted(progress: Callable[[int, int], None] | None) -> Callable[[Progress], None] | None:
    """Call a function with (finished jobs, all jobs) after each job."""
    if progress is None:
        return None

    def tell(state: Progress) -> None:
        if state.finished + state.failed > state.reused:
            progress(state.finished, state.total)

    return tell


def duration(seconds: float) -> str:
    """Write a time that work takes in words.

    Examples
    --------
    >>> duration(0.395), duration(20.2), duration(1200), duration(3600), duration(3e5)
    ('0.4 seconds', '20 seconds', '20 minutes', '60 minutes', '3.5 days')
    """
    if not math.isfinite(seconds):
        return "unknown time"
    for unit, length, most in (("second", 1, 90), ("minute", 60, 90), ("hour", 3600, 48)):
        if seconds < most * length:
            number = f"{seconds / length:.2g}" if seconds < 10 * length else f"{seconds / length:.0f}"
            return f"{number} {unit}{'s' * (number != '1')}"
    return f"{seconds / 86400:,.1f} days"


# -- a folder of finished arrays -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A share of the fits of a campaign, one of many tasks of a scheduler: number 1 to ``of``.

    Examples
    --------
    >>> Part.of_text("2/3").numbers(8)
    [1, 4, 7]
    >>> Part.of_text("4/3")
    Traceback (most recent call last):
    miaudit.errors.InputError: part: expected NUMBER/OF, such as 1/10 for the first of ten tasks, received '4/3';
    number the tasks from 1
    """

    number: int
    of: int

    @classmethod
    def of_text(cls, text: str) -> Part:
        """Read "NUMBER/OF".

        Raises
        ------
        InputError
            For anything else, and for a number that is not 1 to ``of``.
        """
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            allowed = "NUMBER/OF, such as 1/10 for the first of ten tasks"
            raise InputError("part", allowed, repr(text[:40]), "number the tasks from 1")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"

    def numbers(self, total: int) -> list[int]:
        """The fits of this part, of so many."""
        return list(range(self.number - 1, total, self.of))


@dataclass(frozen=True)
class Store:
    """Finished arrays by number in one place, which belong to all that decides them; make it with :meth:`alone`.

    No path, host or time is in it: it may be moved, and another machine goes on with it.

    Attributes
    ----------
    place : where the files are
    fingerprint : str, 64 hexadecimal digits, of all that decides the arrays
    name : of the files, before the number: ``model-00003``
    """

    place: storage.Disk | storage.ObjectStore
    fingerprint: str
    name: str

    @property
    def folder(self) -> str:
        """The place in words."""
        return str(self.place)

    @classmethod
    @contextmanager
    def alone(
        cls,
        folder: storage.Place,
        decides: Mapping[str, str],
        name: str,
        columns: Sequence[str] = (),
        *,
        part: Part | None = None,
    ) -> Iterator[Store]:
        """Open a store, or make one, and keep every other process out of it, as far as the file system can tell.

        The lock is taken before anything is read or written, and a killed process lets go of it. An object store has
        no locks, and a part locks out only the same part. Two processes that make the same array there write the same
        bytes under the same name, so it counts once.

        Parameters
        ----------
        folder : path, or URL of an object store (:mod:`miaudit.io.storage`)
        decides : mapping from what decides the arrays ("data", "seed") to its digest or its words
        name : of the files
        columns : of a data frame, with their types: kept to be named where the records are others
        part : of the fits, where several processes share the store

        Raises
        ------
        InputError
            If the folder is a store of something else: what differs is named, and nothing is reused. Also if another
            process is at work in it.
        OutputError
            If it cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store.alone(folder, {"data": digest(np.arange(3)), "seed": "0"}, "model"):
        ...         pass
        ...     with Store.alone(folder, {"data": digest(np.arange(3)), "seed": "1"}, "model"):
        ...         pass
        Traceback (most recent call last):
        miaudit.errors.InputError: store: expected a folder of the same seed, received ... made with another;
        name another folder, or delete this one
        """
        place = storage.folder(folder)
        cls._of(place, decides, name, columns)  # what is no store, or another one, is left as it is
        shared = place.shared or part is not None
        with _locked(place, part):
            opened, known, decisions = cls._of(place, decides, name, columns)
            if known is None:
                decided: dict[str, Any] = {"format": _FORMAT, "fingerprint": opened.fingerprint, "decides": decisions}
                decided |= {"columns": list(columns)} if columns else {}
                text = json.dumps(decided, indent=1) + "\n"
                place.write(_ABOUT, lambda handle: handle.write(text.encode()))
            try:
                yield opened
            except BaseException:
                if known is None and not shared and place.names() <= {_ABOUT}:
                    place.remove(_ABOUT)  # nothing to go on with: another attempt may differ
                raise

    @classmethod
    def found(
        cls, folder: storage.Place, decides: Mapping[str, str], name: str, columns: Sequence[str] = ()
    ) -> Store | None:
        """Open the store that is there, or None where :meth:`alone` would make one; nothing is written.

        Raises
        ------
        InputError
            If the folder is a store of something else.
        """
        opened, known, _ = cls._of(storage.folder(folder), decides, name, columns)
        return None if known is None else opened

    @classmethod
    def _of(
        cls,
        place: storage.Disk | storage.ObjectStore,
        decides: Mapping[str, str],
        name: str,
        columns: Sequence[str],
    ) -> tuple[Store, dict[str, str] | None, dict[str, str]]:
        """The store that a folder is or can become; what decides its arrays as it says, or None; and as given."""
        if isinstance(place, storage.Disk) and place.place.exists() and not place.place.is_dir():
            raise InputError("store", "a folder", f"the file {place}", "name a folder")
        decisions = {str(name): str(value) for name, value in decides.items()}
        # listed before it is read: a store that is made between the two is no folder with other files
        others = bool(place.names())
        known = _read_about(place)
        if known is None and others:
            raise InputError("store", "a store or an empty folder", f"{place} with other files", "name a new folder")
        if known is not None and known != decisions:
            differ = [what for what in {**decisions, **known} if known.get(what) != decisions.get(what)]
            allowed = f"a folder of the same {' and '.join(differ)}"
            received = f"{place}, made with another{_changed(place, columns)}"
            raise InputError("store", allowed, received, "name another folder, or delete this one")
        fingerprint = hashlib.sha256(json.dumps([_FORMAT, sorted(decisions.items())]).encode()).hexdigest()
        return cls(place, fingerprint, name), known, decisions

    def path(self, number: int) -> Path:
        """Where the array of this number is on this machine, or would be.

        With the fingerprint, so no stale file is taken for it.
        """
        return self.place.path(self._file(number))

    def _file(self, number: int) -> str:
        return f"{self.name}-{number:05d}-{self.fingerprint[:8]}.npy"

    def keep(self, number: int, values: NDArray[Any]) -> Path:
        """Write an array (C order) with its digest; a killed process leaves it whole or absent.

        Raises
        ------
        OutputError
            If it cannot be written, for want of space say; nothing of it is left behind.
        """
        array = np.ascontiguousarray(values)
        self.place.write(self._file(number), lambda handle: storage.write_array(handle, array))
        return self.path(number)

    def finished(self, total: int) -> dict[int, Path]:
        """Return where the arrays are that are whole, of so many; a damaged file counts as absent.

        Damaged is a file that does not have the digest that was written with it.
        """
        numbers = {self._file(number): number for number in range(total)}
        return {numbers[name]: path for name, path in self.place.fetched(numbers) if storage.verified(path)}

    def has(self, number: int) -> bool:
        """Whether the array is there and whole."""
        return any(storage.verified(path) for _, path in self.place.fetched([self._file(number)]))

    def read(self, number: int) -> NDArray[Any]:
        """Open an array as a read-only memory map, of a copy on this machine where the store is elsewhere.

        Raises
        ------
        OSError, ValueError
            If it is not there, or damaged.
        """
        array: NDArray[Any] = np.load(self.path(number), mmap_mode="r", allow_pickle=False)
        return array


@contextmanager
def _locked(place: storage.Disk | storage.ObjectStore, part: Part | None) -> Iterator[None]:
    """Keep other processes out of a folder, and remove what killed ones left of their files."""
    if not isinstance(place, storage.Disk):
        yield
        return
    lock = ".lock" if part is None else f".lock-{part.number}-of-{part.of}"
    with atomic.locked_folder(place.place, lock):
        atomic.sweep(place.place, r"\..+\.part", atomic.remove_file)
        yield


def digest(values: Any) -> str:
    """Return the SHA-256 of an array, a sequence of texts, numbers or arrays, or a frame: values, types, shape, names.

    Examples
    --------
    >>> digest(np.zeros(2)) == digest([0.0, 0.0]), digest(np.zeros(2)) == digest(np.zeros(2, np.float32))
    (True, False)
    >>> digest(["ab", "c"]) == digest(["a", "bc"])
    False
    """
    state = hashlib.sha256()
    _feed(state, frames.described(values) if frames.is_frame(values) else values)
    return state.hexdigest()


def _feed(state: Any, values: Any) -> None:
    if isinstance(values, str | bytes):
        raw = values.encode() if isinstance(values, str) else values
        state.update(f"{type(values).__name__} {len(raw)}|".encode() + raw)
        return
    ragged = isinstance(values, list | tuple) and any(
        isinstance(one, str | bytes | list | tuple | np.ndarray) for one in values
    )
    if ragged:
        state.update(f"sequence {len(values)}|".encode())
        for one in values:
            _feed(state, one)
        return
    array = np.asarray(values)
    if array.dtype == object:
        raise InputError("data", "numbers or texts", "Python objects", "pass plain arrays, or lists of texts")
    state.update(f"{array.dtype.str} {array.shape}|".encode())
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, _BLOCK // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        state.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B") if rows.size else b"")


def _changed(place: storage.Disk | storage.ObjectStore, columns: Sequence[str]) -> str:
    """Which columns of a data frame are others than those of a store, in words; nothing where that is not known."""
    try:
        known = [str(name) for name in json.loads(place.read(_ABOUT))["columns"]]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    gone, new = [name for name in known if name not in columns], [name for name in columns if name not in known]
    parts = [f"{word} {', '.join(names[:_NAMED])}" for word, names in (("with", gone), ("without", new)) if names]
    return f" ({' and '.join(parts)})" if parts else ""


def _read_about(place: storage.Disk | storage.ObjectStore) -> dict[str, str] | None:
    """What decided the arrays of a store; None where there is no store."""
    try:
        about = json.loads(place.read(_ABOUT))
        decides = about["decides"] if about["format"] == _FORMAT else {}
        return {str(name): str(value) for name, value in decides.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}

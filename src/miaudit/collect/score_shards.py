"""Scores in shards: files of one audit that together are too large for memory, read a part at a time.

Each part is sorted and counted, and what is counted is merged on disk (:mod:`miaudit.metrics.sorted_counts`). Temporary
files have no names, so a process that is ended leaves none behind. A cluster can count by itself: a shard may hold
distinct scores with their numbers of members and of non-members in the place of records.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError
from miaudit.io import attack_scores, labels, numeric, roles, tables
from miaudit.io.attack_scores import Signal
from miaudit.io.evidence_digest import streamed_digest
from miaudit.metrics.counted_evidence import CountedEvidence
from miaudit.metrics.sorted_counts import BATCH, SortedCounts, Writer, counted, merged

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read"]

_MEMBERS, _NONMEMBERS = "members", "nonmembers"  # columns of counts
_OF_RECORDS = ("unit", "group", "run", "text", "covariates", "inclusion")  # that saved evidence may have
_RUNS = 256  # that are merged at once
_LARGEST = 2**53  # counts below it are exact in float64, too
Progress = Callable[[int, int], None]


def read(
    shards: str | Path | Sequence[str | Path],
    *,
    score: str | None = None,
    member: str | None = None,
    design: str | None = None,
    signal: Signal = "score",
    batch: int = BATCH,
    progress: Progress | None = None,
) -> CountedEvidence:
    """Read .parquet files of records, or of counts, as one evidence. Their order and that of their rows do not matter.

    Parameters
    ----------
    shards : path, pattern such as "scores/*.parquet", or several of them
        Of records: a score and the membership of each. Of counts: distinct scores, and columns ``members`` and
        ``nonmembers``, whole numbers that say how many of each have the score. A score may be in several shards.
    score, member : names of columns; "score" and "member", or those that saved evidence has, where none are named
    design : "one-run", or None where none was declared
    signal : what the column of scores holds: "score" (higher is more member-like) or "loss"
    batch : records that are sorted at once, and distinct scores that stay in memory
    progress : function of rows that are finished and their total, each row read and merged

    Returns
    -------
    CountedEvidence
        With the digest and the findings of evidence whose rows are all records, by score and non-members first.

    Raises
    ------
    InputError
        For a file that cannot be read, columns of other types than in the first file, missing or infinite scores, and
        what :class:`~miaudit.metrics.counted_evidence.CountedEvidence` refuses.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"score": [2.0, 0.5], "member": [True, False]}).write_parquet(f"{folder}/a.parquet")
    ...     pl.DataFrame({"score": [1.0, 0.5], "member": [True, True]}).write_parquet(f"{folder}/b.parquet")
    ...     read(f"{folder}/*.parquet", design="one-run")
    Evidence(3 members, 1 non-members, score: score, design: one-run)
    """
    paths = _paths([shards] if isinstance(shards, str | Path) else shards)
    files = _Files.of(paths, score, member)
    place = f"{len(paths):,} shards" if len(paths) > 1 else paths[0].name
    (name, _), *_ = (named := attack_scores.checked({files.name: [0.0]}, place, signal))[0].items()
    counts = _counts(files, batch, -1.0 if signal == "loss" else 1.0, progress)
    design = files.design() if design is None else design
    digest = _digest(name, counts, design)
    return CountedEvidence(counts, name=name, digest=digest, design=design, source=named[1])


def _paths(shards: Sequence[str | Path]) -> list[Path]:
    """Return the files that patterns name, each once, in the order of their names."""
    paths: set[Path] = set()
    for one in map(str, shards):
        pattern = glob.has_magic(one) and not Path(one).exists()
        files = glob.glob(one) if pattern else [one]  # noqa: PTH207 - the pattern may be absolute
        if not files:
            raise InputError("shards", "a pattern that names files", f"{one}, which names none", "check the folder")
        paths |= {tables.existing_file(path, "shards", (".parquet",)) for path in files}
    if not paths:
        raise InputError("shards", "at least one file", "none", 'name them: "scores/*.parquet"')
    return sorted(paths)


@dataclass(frozen=True)
class _Files:
    """Shards of equal columns.

    Attributes
    ----------
    rows : number of rows of each file, by its path
    score : column of the scores
    others : the column of membership, or those of the two counts
    saved : whether columns are those of saved evidence, and none was named
    types : of these columns, by name
    """

    rows: Mapping[Path, int]
    score: str
    others: tuple[str, ...]
    saved: bool
    types: Mapping[str, Any]

    @classmethod
    def of(cls, paths: Sequence[Path], score: str | None, member: str | None) -> _Files:
        """Look at the columns of every file."""
        first = _schema(paths[0])
        counts = member is None and {_MEMBERS, _NONMEMBERS} <= first.keys()
        saved = score is None and member is None and not counts
        named = score or next(iter([*roles.saved("score", list(first)), "score"]))
        others = (_MEMBERS, _NONMEMBERS) if counts else (member or "member",)
        if saved:
            _refuse_records(list(first), paths[0])
        rows = {}
        for path in paths:
            schema = _schema(path)
            for column in (named, *others):
                _check_column(column, schema, first, path, paths[0])
            rows[path] = _row_count(path)
        return cls(rows, named, others, saved, {name: first[name] for name in (named, *others)})

    @property
    def name(self) -> str:
        """The name of the score."""
        return self.score.removeprefix("score.") if self.saved else self.score

    @property
    def total(self) -> int:
        """Number of rows of all files."""
        return sum(self.rows.values())

    def design(self) -> str | None:
        """The design that saved evidence declares, the same in every file; None where it declares none."""
        designs = set[str]()
        for path in self.rows if self.saved else ():
            if "design" in _schema(path):
                column = _guarded(path, _scan(path).select("design").unique().collect)["design"]
                designs |= {str(one) for one in column.to_list() if one}
        if len(designs) > 1:
            received = " and ".join(sorted(designs))
            raise InputError("design", "one design in all shards", received, "declare it (--design)")
        return designs.pop() if designs else None

    def parts(self, size: int) -> Iterator[tuple[Path, int, pl.DataFrame]]:
        """Yield so many rows at a time, with their file and the first of their rows."""
        names = [self.score, *self.others]
        for path, rows in self.rows.items():
            for start in range(0, rows, size):
                part = _scan(path).select(names).slice(start, size)
                yield path, start, _guarded(path, part.collect)


def _refuse_records(names: Sequence[str], path: Path) -> None:
    """Refuse saved evidence with more than one score and memberships: counts have no place for it."""
    more = [name for name in names if name in _OF_RECORDS or name.startswith("covariate.")]
    scores = roles.saved("score", names)
    if more or len(scores) > 1:
        received = f"{', '.join((more or scores)[:4])} in {path.name}"
        hint = "name --score and --member to leave the rest aside, or audit one file"
        raise InputError("shards", "columns of one score and of membership", received, hint)


def _check_column(name: str, schema: Mapping[str, Any], first: Mapping[str, Any], path: Path, other: Path) -> None:
    """Refuse a file that lacks a column, or has it in another type than the first file."""
    if name not in schema:
        has = ", ".join(list(schema)[:8]) or "none"
        hint = f"it has {has}: name the columns (--score, --member)"
        raise InputError(name, f"a column of {path.name}", "a name that is not there", hint)
    if schema[name] != first.get(name, schema[name]):
        expected = f"the type {first[name]}, as in {other.name}"
        raise InputError(name, expected, f"{schema[name]} in {path.name}", "write all shards alike")


# -- counting ----------------------------------------------------------------------------------------------------------


def _counts(files: _Files, batch: int, sign: float, progress: Progress | None) -> SortedCounts:
    """Sort the rows of files a batch at a time, and merge the batches."""
    total, finished = 2 * files.total, 0

    def advance(rows: int) -> None:
        nonlocal finished
        finished += rows
        if progress is not None:
            progress(min(finished, total), total)

    runs: list[SortedCounts] = []
    for score, members, nonmembers in _batches(files, batch, sign):
        runs.append(_spilled(counted(score, members, nonmembers), alone=len(score) >= files.total))
        advance(len(score))
        if len(runs) == _RUNS:
            runs = [merged(runs, most=batch)]
    if not runs:
        raise InputError("shards", "at least one member and one non-member", "no rows", "check the input")
    return merged(runs, most=batch, advance=advance)


def _spilled(rows: NDArray[np.void], *, alone: bool) -> SortedCounts:
    """Keep a batch on disk, unless it is all there is."""
    writer = Writer(len(rows) if alone else 0)
    writer.add(rows)
    return writer.finished()


def _batches(files: _Files, batch: int, sign: float) -> Iterator[tuple[FloatArray, NDArray[Any], NDArray[Any]]]:
    """Yield scores with numbers of members and non-members of so many rows, or fewer at the end; small files joined."""
    held: list[tuple[NDArray[Any], ...]] = []
    words = set[str]()
    for path, start, frame in files.parts(batch):
        held.append(_of_part(files, path, start, frame, sign, words))
        if sum(len(part[0]) for part in held) >= batch:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)
    if words:
        labels.truth(np.array(sorted(words)))  # one pair of words in all files


def _joined(parts: Sequence[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    score, members, nonmembers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return score, members, nonmembers


def _of_part(
    files: _Files, path: Path, start: int, frame: pl.DataFrame, sign: float, words: set[str]
) -> tuple[FloatArray, NDArray[Any], NDArray[Any]]:
    """Scores (n,), members and non-members (n,) of some rows of a file; ``words`` gathers the words for members."""
    place = f" in {path.name}" + (f", rows counted from {start:,}" if start else "")
    try:
        values = {name: tables.to_numpy(frame[name]) for name in frame.columns}
    except InputError as error:
        raise _located(error, place) from None
    score = sign * numeric.finite(values[files.score], f"{files.score}{place}", 1) + 0.0  # -0.0 becomes 0.0
    if len(files.others) == 2:
        members, nonmembers = (_whole(values[name], f"{name}{place}") for name in files.others)
        some = members + nonmembers > 0
        return score[some], members[some], nonmembers[some]
    member = values[files.others[0]]
    try:
        inside: BoolArray = labels.truth(member)
    except InputError as error:
        raise _located(error, place) from None
    if member.dtype.kind == "U":
        words |= {str(word).strip().lower() for word in np.unique(member)}
    return score, inside, ~inside


def _located(error: InputError, place: str) -> InputError:
    """The same error, with the file that it is in."""
    return InputError(f"{error.argument}{place}", error.allowed, error.received, error.next_step)


def _whole(values: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return counts (n,) as whole numbers."""
    if values.dtype.kind not in "iu" or values.ndim != 1 or (values < 0).any() or (values >= _LARGEST).any():
        received = f"values of type {values.dtype}" if values.dtype.kind not in "iu" else "other numbers"
        raise InputError(name, "whole numbers from 0 up", received, "count the records of each score")
    return values.astype(np.int64)


def _digest(name: str, counts: SortedCounts, design: str | None) -> str:
    """The digest of evidence whose rows are spelled out in their order."""
    shape = (counts.records,)
    scores = (score for score, _ in counts.spelled_out())
    members = (member for _, member in counts.spelled_out())
    return streamed_digest({f"score.{name}": (shape, scores), "member": (shape, members)}, f"|{()}|{design}")


# -- files -------------------------------------------------------------------------------------------------------------


def _scan(path: Path) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(path, glob=False)


def _row_count(path: Path) -> int:
    import polars as pl

    return int(_guarded(path, _scan(path).select(pl.len()).collect).item())


def _schema(path: Path) -> dict[str, Any]:
    schema: dict[str, Any] = _guarded(path, lambda: dict(_scan(path).collect_schema()))
    return schema


def _guarded(path: Path, look: Callable[[], Any]) -> Any:
    """Return what a reader of polars gives, or raise with the file."""
    import polars.exceptions as errors

    try:
        return look()
    except (errors.PolarsError, errors.PanicException, OSError, ValueError) as error:
        raise tables.unreadable(path, "shards", error) from error

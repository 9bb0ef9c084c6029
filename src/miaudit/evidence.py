"""Evidence: the checked, immutable input of every audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.errors import InputError, nearest
from miaudit.io import attack_scores, frames, level_names, matched_rows, numeric, sides, tables
from miaudit.io import inclusion as chances
from miaudit.io.attack_scores import Signal
from miaudit.io.evidence_columns import ColumnNames, EvidenceColumns
from miaudit.io.evidence_digest import content_digest
from miaudit.io.labels import checked_labels, checked_texts, membership, same_index, same_length

Design = Literal["multi-run", "one-run", "matched", "zero-run"]
DESIGNS: tuple[Design, ...] = ("multi-run", "one-run", "matched", "zero-run")
REFERENCE = matched_rows.REFERENCE
_LABELS = ("unit", "group", "run")
_OF_RECORDS = ("covariates", "text", *_LABELS, "inclusion")  # with a value for each record, beside score and member
_FIELDS = ("score", "member", "covariate_names", "levels", "design", *_OF_RECORDS, "source")


class Columns(ColumnNames, total=False):
    """Columns of a file or a data frame by name, and what the scores are: see :meth:`Evidence.load`."""

    signal: Signal


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Evidence:
    """Scores of records with known membership, and how membership came about.

    Parameters
    ----------
    score : array (n,), mapping of names to such arrays, or data frame whose columns are they
        One or several attack scores. **Higher always means more member-like**; a loss is stored as its negative.
    member : array (n,) of bool, of 0 and 1, or of the words train and test, member and nonmember, in and out
        Whether the record was used in training.
    covariates : array (n, d) or (n,), optional
        What is known of each record apart from the model (needed for the zero-run design).
    covariate_names : sequence of d str, optional
    levels : mapping of names of covariates to mappings of numbers to str, optional
        What the file calls the levels of a category, which is a covariate of codes.
    text : array (n,) of str, optional
        What each record says: a covariate too, for records that are texts.
    design : {"multi-run", "one-run", "matched", "zero-run"} or None
        How membership came about. Never guessed: undeclared stays None, and findings then have no answer. Rows of
        "matched" are one true string (the member) and its decoys for each unit: see :meth:`matched`.
    unit : array (n,) of int or str, optional
        Who or what a record belongs to. Where units repeat, intervals and counts are of units, not of records.
    group : array (n,) of int or str, optional
        A partition of the records (class, site) for which metrics are wanted one by one.
    run : array (n,) of int or str, optional
        Which training a row is of, where the same records were audited in several, each with coins of its own: see
        :meth:`of_runs`. Runs are in the order in which they first appear.
    inclusion : number or array (n,), strictly between 0 and 1, optional
        Chance with which each record became a member (one-run only). Records are thinned to fair coins for bounds.
    source : str
        Where the scores came from, for the report.
    signal : {"score", "loss"}
        What ``score`` holds. A loss is turned by its sign, here and once; ``source`` says so, and one is named "loss".

    Raises
    ------
    InputError
        For NaN or infinite numbers, missing texts, unequal lengths, one class only, more than one dimension, or an
        unknown design.

    Examples
    --------
    >>> evidence = Evidence(score=[0.1, 0.9, 0.4], member=[False, True, False], design="one-run")
    >>> evidence.n_members, evidence.n_nonmembers, evidence.design
    (1, 2, 'one-run')
    >>> evidence.digest[:12]
    'f8d3713432d4'
    >>> Evidence(score=[0.2, 3.0], member=[1, 0], signal="loss").score.tolist()
    [-0.2, -3.0]
    """

    scores: Mapping[str, FloatArray]
    member: BoolArray
    covariates: FloatArray | None
    covariate_names: tuple[str, ...]
    levels: level_names.Levels
    text: NDArray[Any] | None
    design: Design | None
    unit: NDArray[Any] | None
    group: NDArray[Any] | None
    run: NDArray[Any] | None
    inclusion: FloatArray | None
    source: str

    def __init__(
        self,
        *,
        score: ArrayLike | Mapping[str, ArrayLike],
        member: ArrayLike,
        covariates: ArrayLike | None = None,
        covariate_names: Sequence[str] | None = None,
        levels: level_names.Levels | None = None,
        text: ArrayLike | None = None,
        design: str | None = None,
        unit: ArrayLike | None = None,
        group: ArrayLike | None = None,
        run: ArrayLike | None = None,
        inclusion: ArrayLike | None = None,
        source: str = "",
        signal: Signal = "score",
    ) -> None:
        named = frames.named(score) if isinstance(score, Mapping) or frames.is_frame(score) else {"score": score}
        if not named:
            raise InputError("score", "at least one score", "an empty mapping", "pass an array of scores")
        same_index({**named, "member": member, "unit": unit, "group": group, "run": run, "covariates": covariates})
        same_index({**named, "inclusion": inclusion})
        scores, source = attack_scores.checked(named, str(source), signal)
        n = len(next(iter(scores.values())))
        members = membership(member)
        same_length("member", members, n)
        x, names = _covariates(covariates, covariate_names, n)
        self._set(
            {
                "scores": MappingProxyType(scores),
                "member": members,
                "covariates": x,
                "covariate_names": names,
                "levels": MappingProxyType(level_names.checked(levels, names)),
                "text": checked_texts(text, n),
                "design": check_design(design),
                "unit": checked_labels(unit, "unit", n),
                "group": checked_labels(group, "group", n),
                "run": checked_labels(run, "run", n),
                "inclusion": chances.chances(inclusion, design, n),
                "source": str(source),
            }
        )
        if self.design == "matched":
            matched_rows.check(members, vars(self))
        if self.inclusion is not None:
            chances.check_units(self.inclusion, self.unit_codes)

    def _set(self, values: Mapping[str, Any]) -> None:
        """Set fields of new evidence, which is frozen from then on."""
        for field, value in values.items():
            object.__setattr__(self, field, value)

    # -- what it holds --------------------------------------------------------------------------------------------

    @property
    def score(self) -> FloatArray:
        """The score (n,), if there is only one; with several, choose by name with :meth:`only`."""
        if len(self.scores) > 1:
            names = ", ".join(self.scores)
            raise InputError("score", "evidence with one score", f"several: {names}", "choose with evidence.only(name)")
        return next(iter(self.scores.values()))

    @cached_property
    def ascending(self) -> IndexArray:
        """Rows (n,) from the lowest score to the highest, equal scores in any order, if there is only one score."""
        return np.argsort(self.score)

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.member)

    @property
    def n_members(self) -> int:
        """Number of member records."""
        return int(np.count_nonzero(self.member))

    @property
    def n_nonmembers(self) -> int:
        """Number of non-member records."""
        return self.n - self.n_members

    def level_name(self, covariate: str, value: float) -> str:
        """Return what the file calls a level of a covariate: its name, or else the number itself."""
        return self.levels.get(covariate, {}).get(value, f"{value:g}")

    def spelled(self, term: str) -> str:
        """Return a term such as "race = 1" with what the file calls the level."""
        return level_names.spelled(term, self.levels)

    @cached_property
    def unit_codes(self) -> IntArray | None:
        """Units as integers 0, 1, ... (n,), or None where every record is its own unit; of each run its own."""
        if self.unit is None:
            return None
        names, codes = np.unique(self.unit, return_inverse=True)
        count = len(names)
        if self.run is not None:
            of_run = np.unique(self.run, return_inverse=True)[1]
            names, codes = np.unique(of_run * count + codes, return_inverse=True)
        return None if len(names) == self.n else codes.astype(np.int64)

    @cached_property
    def candidate_rows(self) -> IndexArray:
        """Rows (n, K + 1) of the design "matched": of each unit its true string, then its decoys."""
        codes = np.unique([] if self.unit is None else self.unit, return_inverse=True)[1]
        return matched_rows.places(codes, self.member)

    @cached_property
    def runs(self) -> tuple[Evidence, ...]:
        """Evidence of each run by itself, in the order in which they first appear; this one, where there is one."""
        if self.run is None:
            return (self,)
        labels, first = np.unique(self.run, return_index=True)
        return tuple(self.take(self.run == label).replace(run=None) for label in labels[np.argsort(first)])

    @property
    def n_units(self) -> int:
        """How many units there are: records, where each is its own."""
        return self.n if self.unit_codes is None else int(self.unit_codes.max()) + 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content; equal content has an equal digest in any file format."""
        held = {f"score.{name}": self.scores[name] for name in sorted(self.scores)} | {"member": self.member}
        held |= {name: getattr(self, name) for name in _OF_RECORDS}
        return content_digest(held, f"|{self.covariate_names}|{self.design}")

    def only(self, name: str) -> Evidence:
        """Return the evidence with one of its scores; what it shares is not copied, nor checked or sorted again."""
        if name not in self.scores:
            hint = nearest(name, self.scores) or "choose one of these"
            raise InputError("score", f"one of {', '.join(self.scores)}", repr(name), hint)
        if len(self.scores) == 1:
            return self
        if name not in self._singles:
            self._singles[name] = self._single(name)
        return self._singles[name]

    @cached_property
    def _singles(self) -> dict[str, Evidence]:
        """The evidence under each score that was asked for."""
        return {}

    def _single(self, name: str) -> Evidence:
        """Return the evidence with one of its scores; its other fields are frozen, and passed the checks together."""
        one = object.__new__(Evidence)
        one._set({field.name: getattr(self, field.name) for field in fields(self)})
        one._set({"scores": MappingProxyType({name: self.scores[name]})})
        if self.unit is not None:
            one.__dict__["unit_codes"] = self.unit_codes
        return one

    def replace(self, **changes: Any) -> Evidence:
        """Return new evidence with some fields changed; the checks run again."""
        for name in changes:
            if name not in _FIELDS:
                raise InputError(
                    name, f"a field of evidence ({', '.join(_FIELDS)})", "another name", nearest(name, _FIELDS)
                )
        return Evidence(**{**self._fields(), **changes})

    def take(self, rows: NDArray[Any]) -> Evidence:
        """Return the evidence of some rows, given as indices or as a mask (n,)."""
        columns = {name: getattr(self, name) for name in ("member", *_OF_RECORDS)}
        selected = {name: values[rows] for name, values in columns.items() if values is not None}
        return self.replace(score={name: values[rows] for name, values in self.scores.items()}, **selected)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fields(),)

    def _fields(self) -> dict[str, Any]:
        plain = {"score": dict(self.scores), "levels": dict(self.levels)}
        return {field: plain[field] if field in plain else getattr(self, field) for field in _FIELDS}

    def __repr__(self) -> str:
        counts = f"{self.n_members} members, {self.n_nonmembers} non-members"
        return f"Evidence({counts}, score: {', '.join(self.scores)}, design: {self.design})"

    # -- files ----------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, *, design: str | None = None, **columns: Unpack[Columns]) -> Evidence:
        """Read evidence from an .npz (arrays), .parquet or .csv (columns) file.

        Parameters
        ----------
        path : path
        score, member, covariates, text, unit, group, run : str, or several where a sequence is allowed
            Names in the file. Without them the names that :meth:`save` writes are looked for: ``score`` or
            ``score.NAME``, ``member``, ``covariates`` or ``covariate.NAME``, ``text``, ``unit``, ``group``, ``run``,
            ``design`` and, beside it, ``inclusion``. A covariate name may be one list column (a two-dimensional array
            in an .npz). Dates become days since 1970; what is missing of a covariate is filled by the median, and one
            more covariate, "NAME missing", says where.
        categories : str or several
            Covariates that may hold text: each becomes codes 0, 1, ... of its values in their order. Name them in
            ``Plan(categories=...)`` too, which compares them level by level.
        inclusion : str, the column of the chances of inclusion; or a number, one chance for all records
        design : str, optional
            Overrides what the file declares; a file that declares nothing gives None.
        signal : {"score", "loss"}
            What the named columns of scores hold; a file that :meth:`save` wrote holds scores.

        Raises
        ------
        InputError
            If the file or a column cannot be read, or the content is no evidence.
        """

        def read(wanted: list[str], labels: list[str], gaps: list[str]) -> Mapping[str, NDArray[Any]]:
            return tables.read_columns(path, wanted, as_text=labels, gaps=gaps)

        return _of_columns(tables.column_names(path), read, design, Path(path).name, **columns)

    @classmethod
    def from_frame(
        cls, frame: Any, *, design: str | None = None, source: str = "", **columns: Unpack[Columns]
    ) -> Evidence:
        """Make evidence from the columns of a data frame: of pandas, polars or arrow.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame or LazyFrame, pyarrow.Table
        score, member, covariates, text, unit, group, run, categories, inclusion, design, signal : as in :meth:`load`
        source : str
            Where the frame came from, for the report.

        Raises
        ------
        InputError
            If a column is missing or holds other things than numbers or text, or the content is no evidence.

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"loss": [0.1, 2.0, 1.5], "trained": [True, False, False]})
        >>> Evidence.from_frame(frame, score="loss", signal="loss", member="trained")
        Evidence(1 members, 2 non-members, score: loss, design: None)
        """
        names = tables.frame_names(frame)

        def read(wanted: list[str], _: list[str], gaps: list[str]) -> Mapping[str, NDArray[Any]]:
            return tables.frame_columns(frame, wanted, gaps)

        return _of_columns(names, read, design, source, **columns)

    @classmethod
    def load_pair(cls, members: str | Path, nonmembers: str | Path, *, design: str | None = None) -> Evidence:
        """Read two .npy files of scores (higher: more member-like), of members and of non-members."""
        inside = tables.read_array(members, "members")
        outside = tables.read_array(nonmembers, "nonmembers")
        return cls.from_pair(inside, outside, design=design, source=f"{Path(members).name}, {Path(nonmembers).name}")

    @classmethod
    def of_runs(cls, runs: Sequence[Evidence]) -> Evidence:
        """Put evidence of several trainings on the same records together, in the order of the runs.

        Each run has memberships of its own: coins that were tossed anew. An audit of them shows more of differential
        privacy than any single run can (:mod:`miaudit.dp.several_runs`).

        Parameters
        ----------
        runs : evidence of one run each, with the same scores, fields and design

        Raises
        ------
        InputError
            For no run, and for runs that differ in what they hold.

        Examples
        --------
        >>> coins = [[True, False, True], [False, False, True]]
        >>> both = Evidence.of_runs([Evidence(score=[2.0, 1.0, 3.0], member=c, design="one-run") for c in coins])
        >>> both.n, [one.n_members for one in both.runs]
        (6, [2, 1])
        """
        if not runs:
            raise InputError("runs", "evidence of at least one run", "none", "give one for each training")
        first = runs[0]
        arrays = [name for name in _OF_RECORDS if getattr(first, name) is not None]
        for number, one in enumerate(runs, start=1):
            held = [name for name in _OF_RECORDS if getattr(one, name) is not None]
            what = (list(one.scores), held, one.covariate_names, one.design)
            if "run" in held or what != (list(first.scores), arrays, first.covariate_names, first.design):
                received = f"other scores, columns or design in run {number}, or several runs in one"
                raise InputError("runs", "evidence of the same kind, one run each", received, "make all alike")
        joined = {name: np.concatenate([getattr(one, name) for one in runs]) for name in ("member", *arrays)}
        return first.replace(
            score={name: np.concatenate([one.scores[name] for one in runs]) for name in first.scores},
            run=np.repeat(np.arange(1, len(runs) + 1), [one.n for one in runs]),
            source=", ".join(dict.fromkeys(one.source for one in runs if one.source)),
            **joined,
        )

    @classmethod
    def from_pair(
        cls,
        members: ArrayLike,
        nonmembers: ArrayLike,
        *,
        design: str | None = None,
        source: str = "",
        signal: Signal = "score",
    ) -> Evidence:
        """Make evidence from the scores of members (n1,) and of non-members (n0,), or from their losses by ``signal``.

        Examples
        --------
        >>> Evidence.from_pair([2.0, 3.0], [1.0])
        Evidence(2 members, 1 non-members, score: score, design: None)
        """
        inside, outside = numeric.finite(members, "members", 1), numeric.finite(nonmembers, "nonmembers", 1)
        sides.check_no_mask(np.asarray(members), np.asarray(nonmembers), "scores", ("members", "nonmembers"))
        member = np.r_[np.ones(len(inside), bool), np.zeros(len(outside), bool)]
        scores = np.concatenate([inside, outside])
        return cls(score=scores, member=member, design=design, source=source, signal=signal)

    @classmethod
    def matched(
        cls,
        *,
        true: ArrayLike | Mapping[str, ArrayLike],
        decoys: ArrayLike | Mapping[str, ArrayLike],
        unit: ArrayLike | None = None,
        text: ArrayLike | None = None,
        group: ArrayLike | None = None,
        reference: tuple[ArrayLike, ArrayLike] | None = None,
        source: str = "",
        signal: Signal = "score",
    ) -> Evidence:
        """Make evidence of the design "matched": strings that chance drew, each with K decoys of the same law.

        Parameters
        ----------
        true : array (n,), or mapping of names to such arrays
            Scores of the strings in the training data. Higher means more member-like; ``signal`` turns losses.
        decoys : array (n, K), or mapping of the same names to such arrays, K at least 1
            Scores of K strings for each record, drawn from the same law, which the model never saw.
        unit : labels (n,), optional
            Strings of one unit were drawn together: their scores are added up, and those of their k-th decoys too.
        text : texts (n, K + 1), optional
            The candidates, the true string first. The audit tests whether their form identifies the true one.
        group : labels (n,), optional
            One for each unit.
        reference : pair of arrays (n,) and (n, K), optional
            The same scores of a model that never saw any of the strings. Its ranks of the true strings must be uniform.
        source, signal : as in :class:`Evidence`

        Raises
        ------
        InputError
            For arrays of other shapes, and as :class:`Evidence`.

        Examples
        --------
        >>> Evidence.matched(true=[3.0, 1.0], decoys=[[0.1, 0.2], [0.3, 2.0]])
        Evidence(2 members, 4 non-members, score: score, design: matched)
        """
        columns = matched_rows.columns(true, decoys, unit=unit, text=text, group=group, reference=reference)
        return cls(**columns, design="matched", source=source, signal=signal)

    def save(self, path: str | Path) -> None:
        """Write to .npz, .parquet or .csv, chosen by the ending; :meth:`load` reads it back with an equal digest."""
        tables.write_columns(path, self.columns(one_number_each=Path(path).suffix.lower() == ".csv"))

    def columns(self, *, one_number_each: bool = False) -> dict[str, NDArray[Any]]:
        """Return the columns that :meth:`save` writes, by the names that :meth:`load` reads.

        Covariates without names are one matrix, unless each column may hold ``one_number_each`` row only.
        """
        columns: dict[str, NDArray[Any]] = {}
        for name, values in self.scores.items():
            columns["score" if name == "score" else f"score.{name}"] = values
        columns["member"] = self.member
        if self.covariates is not None:
            if one_number_each or self.covariate_names:
                for i, name in enumerate(self.covariate_names or map(str, range(self.covariates.shape[1]))):
                    columns[f"covariate.{name}"] = self.covariates[:, i]
                columns |= level_names.columns(self.levels, self.covariate_names, self.covariates)
            else:
                columns["covariates"] = self.covariates
        if self.text is not None:
            columns["text"] = self.text.astype(np.str_)  # files hold plain text, never Python objects
        for field in (*_LABELS, "inclusion"):
            if getattr(self, field) is not None:
                columns[field] = getattr(self, field)
        for field in ("design", "source"):
            if getattr(self, field):
                columns[field] = np.full(self.n, getattr(self, field))
        return columns

    def save_pair(self, members: str | Path, nonmembers: str | Path) -> None:
        """Write the scores of members and of non-members to two .npy files, without other fields."""
        more = (getattr(self, name) for name in _OF_RECORDS)
        if len(self.scores) > 1 or any(values is not None for values in more):
            received = "several scores, covariates, texts, units, groups, runs or chances"
            raise InputError("evidence", "one score and nothing else", received, "save to .npz")
        for path, side in ((members, self.member), (nonmembers, ~self.member)):
            values = self.score[side]

            def write(target: Path, values: FloatArray = values) -> None:
                with target.open("wb") as handle:
                    np.save(handle, values, allow_pickle=False)

            tables.write_atomically(tables.require_suffix(path, "path", (".npy",)), write)


def _of_columns(
    known: Sequence[str],
    read: Callable[[list[str], list[str], list[str]], Mapping[str, NDArray[Any]]],
    design: str | None,
    source: str,
    *,
    signal: Signal = "score",
    **names: Unpack[ColumnNames],
) -> Evidence:
    """Make evidence of columns; where no score is named, of those that ``save`` writes.

    ``read`` returns the wanted columns, of which the second are text and the third may have gaps; a design given by the
    caller overrides theirs.
    """
    columns = EvidenceColumns.of(known, **names)
    data = read(columns.wanted, columns.labels, columns.gaps)
    matrix = columns.covariates == ("covariates",)
    x, x_names = (data["covariates"], None) if matrix else numeric.joined(data, columns.covariates, columns.categories)
    member = data[columns.member]
    texts = {columns.member} if member.dtype.kind == "U" else set()  # a score only where it stands in for one
    scores = {name: membership(data[name]) if name in texts else data[name] for name in columns.scores}
    return Evidence(
        score={name.removeprefix("score."): values for name, values in scores.items()},
        member=member,
        covariates=x,
        covariate_names=x_names,
        levels=level_names.from_columns(data) | level_names.of_categories(data, columns.covariates, columns.categories),
        text=_optional(data, columns.text),
        design=_declared_design(data.get("design"), explicit=columns.named) if design is None else design,
        unit=_optional(data, columns.unit),
        group=_optional(data, columns.group),
        run=_optional(data, columns.run),
        inclusion=data[columns.inclusion] if isinstance(columns.inclusion, str) else columns.inclusion,
        source=_constant_text(data.get("source")) or source,
        signal=signal,
    )


def _optional(data: Mapping[str, NDArray[Any]], name: str | None) -> NDArray[Any] | None:
    return None if name is None else data[name]


def _rebuild(fields: dict[str, Any]) -> Evidence:
    """Make evidence again in another process, with its checks."""
    return Evidence(**fields)


def check_design(design: str | None) -> Design | None:
    """Return the design if it is known (or None), else raise."""
    if design is None or design in DESIGNS:
        return design
    hint = nearest(str(design), DESIGNS) or "leave it out if it is not known how membership was decided"
    raise InputError("design", f"one of {', '.join(DESIGNS)}", repr(design), hint)


def _covariates(
    covariates: ArrayLike | None, names: Sequence[str] | None, n: int
) -> tuple[FloatArray | None, tuple[str, ...]]:
    if covariates is None:
        return None, ()
    array = numeric.plain(covariates, "covariates")
    x = numeric.finite(array.reshape(-1, 1) if array.ndim == 1 else array, "covariates", 2)
    same_length("covariates", x, n)
    of_frame = getattr(covariates, "columns", ()) if names is None else names
    labels = tuple(str(name) for name in of_frame) if names or all(isinstance(one, str) for one in of_frame) else ()
    if labels and len(labels) != x.shape[1]:
        raise InputError("covariate_names", f"{x.shape[1]} names", f"{len(labels)}", "name every covariate, or none")
    attack_scores.each_once("covariate_names", labels)
    return x, labels


def _declared_design(column: NDArray[Any] | None, *, explicit: bool) -> str | None:
    """Return the design of a constant column 'design' with a known value; ignore other columns."""
    value = _constant_text(column)
    if value is None or value == "":
        return None
    if explicit and value not in DESIGNS:
        return None
    return check_design(value)


def _constant_text(column: NDArray[Any] | None) -> str | None:
    if column is None or column.dtype.kind != "U" or not column.size:
        return None
    flat = column.reshape(-1)
    return str(flat[0]) if bool((flat == flat[0]).all()) else None

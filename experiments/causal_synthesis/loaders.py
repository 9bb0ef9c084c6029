"""EEDI, which cannot be shipped: read from the files of who has them (erratum D3), and a stand-in for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import FloatArray, IndexArray, IntArray
from miaudit.errors import InputError
from miaudit.errors.checks import is_whole
from miaudit.io import tables
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

if TYPE_CHECKING:
    import polars as pl


EEDI_QUESTIONS = 948
EEDI_YEARS = ("up to 6", "7", "8", "9", "10", "11", "12 and above")
EEDI_GENDERS = ("unspecified", "female", "male", "other")
_TOPICS, _QUIZ = 4, 12

_ANSWERS = Path("train_data") / "train_task_3_4.csv"
_STUDENTS = Path("metadata") / "student_metadata_task_3_4.csv"
_SCHOOL_YEAR = 2019  # the data are of September 2018 to May 2020
_SEPTEMBER = 9


@dataclass(frozen=True, eq=False)
class Eedi:
    """The answers of EEDI's students, and what causes them as far as is known.

    Attributes
    ----------
    table : a row for each student: gender, year group, premium pupil, then each answer (1 right, 0 wrong)
    graph : student -> answers
    students : UserId of each row
    """

    table: Table
    graph: CausalGraph
    students: IntArray


def load_eedi(
    folder: str | Path, *, least_answers: int = 1, students: int | None = None, questions: int = EEDI_QUESTIONS
) -> Eedi:
    """Read tasks 3 and 4 of the NeurIPS 2020 Education Challenge (Wang et al. 2020).

    The paper's 2,950 records are 60% of the 4,918 students that the challenge counts here; how they were chosen it does
    not say, so nothing is dropped unless asked for. The public files name no school. The year group is that of the
    school year 2019/20 by date of birth, as in England.

    Parameters
    ----------
    folder : the unpacked archive, with ``train_data/train_task_3_4.csv`` (QuestionId, UserId, IsCorrect) and
        ``metadata/student_metadata_task_3_4.csv`` (UserId, Gender, DateOfBirth, PremiumPupil)
    least_answers : students with fewer are left out
    students : keep so many, those with the most answers (ties by UserId); all by default
    questions : QuestionIds 0 to questions - 1 are declared; 948 in the challenge

    Raises
    ------
    InputError
        For a file or column that is not there, a question that was not declared, or fewer students than asked for.
    """
    import polars as pl  # noqa: PLC0415 - loads when files are read

    place = Path(folder)
    answers = _read(place / _ANSWERS, ("QuestionId", "UserId", "IsCorrect"))
    known = _read(place / _STUDENTS, ("UserId", "Gender", "DateOfBirth", "PremiumPupil"))
    question, user = answers["QuestionId"].to_numpy(), answers["UserId"].to_numpy()
    if question.min() < 0 or question.max() >= questions:
        received = f"QuestionId {int(question.max() if question.max() >= questions else question.min())}"
        raise InputError("questions", f"0 to {questions - 1}", received, "declare all questions")
    ids, row, count = np.unique(user, return_inverse=True, return_counts=True)
    kept = _kept(ids, count, least_answers, students)
    place_of = np.full(len(ids), -1)
    place_of[kept] = np.arange(len(kept))
    values = np.full((len(kept), 3 + questions), np.nan)
    inside = place_of[row] >= 0
    values[place_of[row][inside], 3 + question[inside]] = answers["IsCorrect"].to_numpy()[inside]
    by_id = known.unique(subset="UserId", keep="first").sort("UserId")
    joined = pl.DataFrame({"UserId": ids[kept]}).join(by_id, on="UserId", how="left", maintain_order="left")
    values[:, :3] = _student(joined)
    graph = eedi_graph(questions)
    return Eedi(Table(graph.schema, values), graph, ids[kept].astype(np.int64))


def _read(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    path = tables.existing_file(path, "folder", (".csv",))
    try:
        frame = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(path.name, "a CSV file", str(error)[:120], "unpack the archive again") from error
    for name in columns:
        if name not in frame.columns:
            received = ", ".join(frame.columns[:8])
            raise InputError(path.name, f"a column {name}", received, "use the challenge's files as they are")
    if frame.height == 0:
        raise InputError(path.name, "at least one row", "none", "unpack the archive again")
    return frame.select(columns)


def _kept(ids: NDArray[Any], count: IndexArray, least: int, students: int | None) -> IndexArray:
    """Positions of the students that are kept, by UserId."""
    enough = np.flatnonzero(count >= least)
    if students is not None:
        if not 1 <= students <= len(enough):
            received = f"{students}, where {len(enough):,} have {least} answers or more"
            raise InputError("students", f"1 to {len(enough):,}", received, "ask for fewer")
        order = np.lexsort((ids[enough], -count[enough]))[:students]
        enough = np.sort(enough[order])
    if not len(enough):
        raise InputError("least_answers", f"at most {count.max():,}", str(least), "lower it")
    return enough


def _student(frame: pl.DataFrame) -> FloatArray:
    """Gender, year group and premium pupil (n, 3); NaN where not known."""
    import polars as pl  # noqa: PLC0415

    gender = frame["Gender"].cast(pl.Float64).fill_null(0.0).to_numpy()
    if ((gender < 0) | (gender >= len(EEDI_GENDERS)) | (gender != np.floor(gender))).any():
        raise InputError("Gender", f"0 to {len(EEDI_GENDERS) - 1}", "another code", "use the challenge's files")
    premium = frame["PremiumPupil"].cast(pl.Float64).to_numpy().copy()
    born = frame["DateOfBirth"].cast(pl.String).str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    month = born.dt.month().cast(pl.Float64).to_numpy()
    start = born.dt.year().cast(pl.Float64).to_numpy() - (month < _SEPTEMBER)
    year = _SCHOOL_YEAR - start - 5  # who was born from September 2007 on is in year 7 in 2019/20
    return np.column_stack([gender, np.clip(year - 6, 0, len(EEDI_YEARS) - 1), premium])


# -- the stand-in -----------------------------------------------------------------------------------------------------


def eedi_graph(questions: int = EEDI_QUESTIONS) -> CausalGraph:
    """Return the partial graph of SCG-2: attributes of a student -> the answers.

    Examples
    --------
    >>> graph = eedi_graph(12)
    >>> graph.edges, len(graph.schema)
    ((('student', 'answers'),), 15)
    """
    student = (
        Column("gender", "categorical", categories=EEDI_GENDERS),
        Column("year_group", "ordinal", categories=EEDI_YEARS, missing=True),
        Column("premium_pupil", missing=True),
    )
    answers = tuple(Column(f"question_{i}", missing=True) for i in range(questions))
    groups = {"student": [c.name for c in student], "answers": [c.name for c in answers]}
    return CausalGraph(Schema(student + answers), groups, [("student", "answers")])


@dataclass(frozen=True, eq=False)
class EediStandIn:
    """An item-response model in the shape of EEDI: students, questions, most answers missing.

    Ability in four topics is Gaussian, and higher for older students and lower for premium pupils (those for whom the
    school gets extra money); a question belongs to one topic. Questions come in quizzes of 12, students take a random
    share of these, 30% on average, and answer all of a quiz they take. Numbers are assumptions, not estimates: nothing
    was fitted to the real data.

    Parameters
    ----------
    questions : 948 as in the challenge's tasks 3 and 4
    seed : of the questions' parameters
    """

    questions: int = EEDI_QUESTIONS
    seed: int = 20

    name = "eedi stand-in"

    def __post_init__(self) -> None:
        if not is_whole(self.questions) or self.questions < 1:
            raise InputError("questions", "a whole number from 1 up", repr(self.questions), "948 is the challenge's")

    @property
    def graph(self) -> CausalGraph:
        """Partial graph: student -> answers."""
        return _eedi_graph(self.questions)

    @property
    def schema(self) -> Schema:
        """Columns of the tables."""
        return self.graph.schema

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, float] | None = None) -> Table:
        """Draw n students; under ``do`` on gender, year_group or premium_pupil nothing is missing.

        Examples
        --------
        >>> world = EediStandIn(questions=120)
        >>> table = world.sample(500, rng=np.random.default_rng(0))
        >>> 0.6 < float(np.isnan(table.values[:, 3:]).mean()) < 0.8
        True
        """
        if not is_whole(n) or n < 1:
            raise InputError("n", "a number of records from 1 up", repr(n), "draw at least one")
        own = np.random.default_rng(self.seed)
        topic = own.integers(_TOPICS, size=self.questions)
        slope, difficulty = 0.5 + own.random(self.questions), own.normal(-0.3, 0.8, self.questions)
        student = np.column_stack(
            [
                rng.choice(len(EEDI_GENDERS), size=n, p=(0.2, 0.39, 0.39, 0.02)),
                rng.choice(len(EEDI_YEARS), size=n, p=(0.05, 0.25, 0.25, 0.2, 0.13, 0.1, 0.02)),
                rng.random(n) < 0.2,
            ]
        ).astype(np.float64)
        for name, value in (do or {}).items():
            Table(Schema((self.schema.column(name),)), np.array([[value]], dtype=np.float64))
            place = self.schema.position(name)
            if place >= student.shape[1]:
                raise InputError("do", "gender, year_group or premium_pupil", name, "answers have no mechanism to cut")
            student[:, place] = value
        ability = rng.standard_normal((n, _TOPICS)) * 0.8 + rng.standard_normal((n, 1)) * 0.6
        ability += 0.25 * (student[:, 1:2] - 2.5) - 0.5 * student[:, 2:]
        correct = rng.random((n, self.questions)) < special.expit(slope * (ability[:, topic] - difficulty))
        values = np.concatenate([student, correct.astype(np.float64)], axis=1)
        if do is None:
            self._lose(values, rng)
        return Table(self.schema, values)

    def _lose(self, values: FloatArray, rng: np.random.Generator) -> None:
        n, quizzes = len(values), -(-self.questions // _QUIZ)
        taken = rng.random((n, quizzes)) < rng.uniform(0.1, 0.5, (n, 1))
        taken[np.arange(n), rng.integers(quizzes, size=n)] = True
        answered = np.repeat(taken, _QUIZ, axis=1)[:, : self.questions]
        values[:, 3:][~answered] = np.nan
        for place in (1, 2):
            values[rng.random(n) < 0.3, place] = np.nan


@lru_cache(maxsize=4)
def _eedi_graph(questions: int) -> CausalGraph:
    return eedi_graph(questions)

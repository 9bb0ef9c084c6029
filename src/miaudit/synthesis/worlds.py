"""Structural causal models with known mechanisms, sampled as observed or under interventions.

They stand in for the data of the paper that cannot be shipped or do not exist: the 22-attribute graph (absent from its
text), the neuropathic pain simulator (the stand-in of experiments/causal_synthesis) and EEDI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.errors import InputError, nearest
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

Variant = Literal["binary", "mixed"]

_REDRAWS = 10_000


@dataclass(frozen=True)
class Term:
    """One input of a mechanism: a parent's value, or whether it is in one category."""

    parent: str
    level: int | None = None

    def of(self, values: FloatArray) -> FloatArray:
        """Return the input (n,) from the parent's values (n,)."""
        return values if self.level is None else (values == self.level).astype(np.float64)


class Mechanism(Protocol):
    """Conditional law of a column given its parents."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """Inputs of the mechanism."""
        ...

    def draw(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw values (n,) given the inputs (n, terms)."""
        ...


@dataclass(frozen=True)
class NoisyMax:
    """P(1) is the largest weight of a parent that is 1, and ``floor`` if that is larger or none is."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    floor: float

    def probability(self, inputs: FloatArray) -> FloatArray:
        """Return P(1) (n,)."""
        if not self.terms:
            return np.full(len(inputs), self.floor)
        return np.asarray(np.maximum((inputs * np.asarray(self.weights)).max(axis=1), self.floor))

    def draw(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw 0 or 1 (n,)."""
        return np.asarray(rng.random(len(inputs)) < self.probability(inputs), dtype=np.float64)


@dataclass(frozen=True)
class Softmax:
    """Log odds of each category against the first, linear in the inputs; with one row, a logistic model of 1.

    Attributes
    ----------
    weights : (levels - 1) rows of one number for each term
    bias : one number for each row
    """

    terms: tuple[Term, ...]
    weights: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]

    def probability(self, inputs: FloatArray) -> FloatArray:
        """Return the probabilities (n, levels)."""
        odds = np.zeros((len(inputs), len(self.bias) + 1))
        odds[:, 1:] = inputs @ np.asarray(self.weights).reshape(len(self.bias), -1).T + np.asarray(self.bias)
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def draw(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw categories (n,)."""
        below = np.cumsum(self.probability(inputs), axis=1)[:, :-1]
        return np.asarray((rng.random(len(inputs))[:, None] >= below).sum(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class Gaussian:
    """Linear in the inputs, with Gaussian noise; kept within the declared range."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    bias: float
    sd: float
    low: float
    high: float

    def draw(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw numbers (n,)."""
        mean = self.bias + inputs @ np.asarray(self.weights, dtype=np.float64)
        return np.clip(mean + self.sd * rng.standard_normal(len(inputs)), self.low, self.high)


@dataclass(frozen=True)
class MissingAtRandom:
    """Values missing with a probability that depends on another, always observed column.

    Attributes
    ----------
    given : the column
    probability : of each of its categories
    """

    given: str
    probability: tuple[float, ...]


class World(Protocol):
    """A distribution of tables."""

    @property
    def name(self) -> str:
        """Name of the world."""
        ...

    @property
    def graph(self) -> CausalGraph:
        """Known causal graph, full or partial."""
        ...

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, float] | None = None) -> Table:
        """Draw n records, as observed or under an intervention."""
        ...


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """A structural causal model.

    Attributes
    ----------
    name : of the model
    graph : the full graph
    partial : partial graphs by name, as an expert might give them
    mechanisms : one for each column
    missing : what gets lost afterwards, if anything
    redrawn : whether records with zeros only are drawn again, as a registry holds nobody without a finding
    """

    name: str
    graph: CausalGraph
    mechanisms: Mapping[str, Mechanism]
    partial: Mapping[str, CausalGraph] = field(default_factory=lambda: MappingProxyType({}))
    missing: MissingAtRandom | None = None
    redrawn: bool = False

    @property
    def schema(self) -> Schema:
        """Columns of the tables."""
        return self.graph.schema

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, float] | None = None) -> Table:
        """Draw n records.

        Parameters
        ----------
        n : at least 1
        rng : generator
        do : column -> value that it is set to from outside, its mechanism cut; categories by position. Under an
            intervention nothing is redrawn and nothing gets lost: both select on what comes after the causes.

        Examples
        --------
        >>> world = synthetic22()
        >>> rng = np.random.default_rng(0)
        >>> seen, forced = world.sample(4000, rng=rng), world.sample(4000, rng=rng, do={"M1": 1})
        >>> float(forced.column("M1").mean()), bool(abs(forced.column("R1").mean() - seen.column("R1").mean()) < 0.05)
        (1.0, True)
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError("n", "a number of records from 1 up", repr(n), "draw at least one")
        fixed = self._checked(do or {})
        values = self._drawn(n, fixed, rng)
        if do is None and self.redrawn:
            empty = np.flatnonzero(~values.any(axis=1))
            for _ in range(_REDRAWS):
                if not len(empty):
                    break
                values[empty] = self._drawn(len(empty), fixed, rng)
                empty = empty[~values[empty].any(axis=1)]
        if do is None and self.missing is not None:
            self._lose(values, self.missing, rng)
        return Table(self.schema, values)

    def _drawn(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        position = self.schema.position
        values = np.zeros((n, len(self.schema)))
        for name in self.graph.order:
            place = position(name)
            if place in fixed:
                values[:, place] = fixed[place]
                continue
            mechanism = self.mechanisms[name]
            columns = [term.of(values[:, position(term.parent)]) for term in mechanism.terms]
            inputs = np.stack(columns, axis=1) if columns else np.zeros((n, 0))
            values[:, place] = mechanism.draw(inputs, rng)
        return values

    def _checked(self, do: Mapping[str, float]) -> dict[int, float]:
        fixed = {}
        for name, value in do.items():
            column = self.schema.column(name)
            Table(
                Schema((column,)), np.array([[value]], dtype=np.float64)
            )  # refuses a value outside the column's range
            fixed[self.schema.position(name)] = float(value)
        return fixed

    def _lose(self, values: FloatArray, missing: MissingAtRandom, rng: np.random.Generator) -> None:
        rate = np.asarray(missing.probability)[values[:, self.schema.position(missing.given)].astype(np.intp)]
        for place, column in enumerate(self.schema.columns):
            lost = rng.random(len(values)) < rate
            if column.missing:
                values[lost, place] = np.nan


# -- 22 attributes ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def synthetic22(variant: Variant = "binary") -> StructuralModel:
    """Return the 22-attribute world of ``synthetic22.json``: 6 roots, 8 middle and 8 last columns, 40 edges.

    The paper uses such a graph (Figure 2, Table 1) and does not print it. M_i has the parents R(i mod 6)+1 and
    R((i+1) mod 6)+1, L_i the parents M_i, M(i mod 8)+1 and R(i mod 6)+1; weights are +-U(1, 2).

    Parameters
    ----------
    variant : "binary", logistic mechanisms; or "mixed", with three-level categorical and Gaussian columns, and a tenth
        of all values of M and L lost at random given R1

    Returns
    -------
    StructuralModel
        ``partial`` has "layers" (roots, middle and last columns) and "causes" (roots, and all else).

    Examples
    --------
    >>> world = synthetic22()
    >>> len(world.schema), len(world.graph.edges), world.graph.parents("M1")
    (22, 40, ('R2', 'R3'))
    """
    found = json.loads(resources.files("miaudit.synthesis").joinpath("synthetic22.json").read_text(encoding="utf-8"))
    if variant not in found["variants"]:
        names = tuple(found["variants"])
        raise InputError("variant", " or ".join(names), repr(variant), nearest(str(variant), names) or "choose one")
    return _read(found["name"], found["variants"][variant])


def _read(name: str, given: Mapping[str, Any]) -> StructuralModel:
    """Build a model from the published file."""
    schema = Schema.from_mapping(given["columns"])
    mechanisms = {node["name"]: _mechanism(node, schema) for node in given["nodes"]}
    edges = [(parent, node["name"]) for node in given["nodes"] for parent in node["parents"]]
    layers = {layer: [c for c in schema.names if c[0] == letter] for layer, letter in _LAYERS.items()}
    chain = [("roots", "middle"), ("roots", "last"), ("middle", "last")]
    two = {"causes": layers["roots"], "conditions": layers["middle"] + layers["last"]}
    partial = {
        "layers": CausalGraph(schema, layers, chain),
        "causes": CausalGraph(schema, two, [("causes", "conditions")]),
    }
    lost = given.get("missing")
    missing = None if lost is None else MissingAtRandom(lost["given"], tuple(lost["probability"]))
    return StructuralModel(
        name, CausalGraph(schema, None, edges), MappingProxyType(mechanisms), MappingProxyType(partial), missing
    )


_LAYERS = {"roots": "R", "middle": "M", "last": "L"}


def _mechanism(node: Mapping[str, Any], schema: Schema) -> Mechanism:
    terms = []
    for parent in node["parents"]:
        column = schema.column(parent)
        levels: Sequence[int | None] = range(1, column.levels) if column.kind == "categorical" else (None,)
        terms += [Term(parent, level) for level in levels]
    if node["mechanism"] == "gaussian":
        column = schema.column(node["name"])
        assert column.low is not None and column.high is not None  # noqa: S101 - by its check
        return Gaussian(tuple(terms), tuple(node["weights"]), node["bias"], node["sd"], column.low, column.high)
    return Softmax(tuple(terms), tuple(tuple(row) for row in node["weights"]), tuple(node["bias"]))


# -- EEDI -------------------------------------------------------------------------------------------------------------

EEDI_QUESTIONS = 948
EEDI_YEARS = ("up to 6", "7", "8", "9", "10", "11", "12 and above")
EEDI_GENDERS = ("unspecified", "female", "male", "other")
_TOPICS, _QUIZ = 4, 12


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
        if isinstance(self.questions, bool) or not isinstance(self.questions, int) or self.questions < 1:
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
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
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

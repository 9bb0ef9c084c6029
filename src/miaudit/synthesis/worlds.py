"""Structural causal models with known mechanisms, sampled as observed or under interventions.

They replace data of the paper that cannot be shipped or do not exist: here the 22-attribute graph (absent from its
text); those of the neuropathic pain simulator and of EEDI are in experiments/causal_synthesis.
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

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.errors.checks import is_whole
from miaudit.errors.options import check_choice
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Schema, Table

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
    given : the column on which the probability depends
    probability : of each of its categories
    """

    given: str
    probability: tuple[float, ...]


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
    redrawn : whether records with zeros only are drawn again, as a registry holds no person without a finding
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
        if not is_whole(n) or n < 1:
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
            Table(Schema((column,)), np.array([[value]]))  # refuses a value outside the column's range
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
    content = json.loads(resources.files("miaudit.synthesis").joinpath("synthetic22.json").read_text(encoding="utf-8"))
    check_choice("variant", variant, tuple(content["variants"]))
    return _read(content["name"], content["variants"][variant])


def _read(name: str, content: Mapping[str, Any]) -> StructuralModel:
    """Build a model from the published file."""
    schema = Schema.from_mapping(content["columns"])
    mechanisms = {node["name"]: _mechanism(node, schema) for node in content["nodes"]}
    edges = [(parent, node["name"]) for node in content["nodes"] for parent in node["parents"]]
    layers = {layer: [c for c in schema.names if c[0] == letter] for layer, letter in _LAYERS.items()}
    chain = [("roots", "middle"), ("roots", "last"), ("middle", "last")]
    two = {"causes": layers["roots"], "conditions": layers["middle"] + layers["last"]}
    partial = {
        "layers": CausalGraph(schema, layers, chain),
        "causes": CausalGraph(schema, two, [("causes", "conditions")]),
    }
    lost = content.get("missing")
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

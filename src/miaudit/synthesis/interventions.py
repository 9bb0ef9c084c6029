"""Interventional error: distance of a generator's records from the world's under interventions.

A generator along the true full graph can answer "what if", not only "what is likely given"; one that merely reproduces
the joint distribution cannot. Only where the true mechanisms are known, as in a simulated world, can that be measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.metrics.classical import Estimate, student_limits
from miaudit.synthesis.fidelity import Levels
from miaudit.synthesis.schema import Category, Table

__all__ = ["InterventionalError", "interventional_error"]

_BINS = 10


class Sampler(Protocol):
    """A generator or world that draws records, with or without interventions."""

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, Any] | None = None) -> Table:
        """Draw n records with the columns in ``do`` set to its values."""
        ...


@dataclass(frozen=True)
class Outcome:
    """One column under one intervention.

    Attributes
    ----------
    do : column and value that were set
    column : the outcome
    error : total variation distance, 0 to 1, of the generator's shares from the world's, both under the intervention
    effect : that of the world's shares without the intervention from those with it: the largest error worth counting
    floor : that of two draws of the world under the intervention: what so many records differ by
    """

    do: tuple[str, Category]
    column: str
    error: float
    effect: float
    floor: float


@dataclass(frozen=True)
class InterventionalError:
    """All interventions and outcomes, with means and intervals over interventions.

    ``error`` at the ``effect`` or above means that the generator knows nothing of what interventions do; at the
    ``floor`` it is as good as the world itself.
    """

    outcomes: tuple[Outcome, ...]
    error: Estimate
    effect: Estimate
    floor: Estimate


def interventional_error(
    generator: Sampler,
    world: Sampler,
    interventions: Sequence[tuple[str, Category]],
    *,
    outcomes: Mapping[str, Sequence[str]] | None = None,
    n: int = 5000,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> InterventionalError:
    """Compare a generator with the world it was trained on, under one intervention after another.

    Parameters
    ----------
    generator, world : both can draw under interventions, with one schema
    interventions : column and value
    outcomes : for each column that is set, the columns to look at, for example its descendants; default all others
    n : records drawn for each intervention from the generator, twice from the world, and once from the world as it is
    confidence : of the intervals of the means, over the columns that are set (Student's t)
    rng : the generator and the world get streams of their own

    Raises
    ------
    InputError
        Without interventions, for unknown columns, or for schemas that differ.

    Examples
    --------
    >>> from miaudit.synthesis.worlds import synthetic22
    >>> world = synthetic22()
    >>> result = interventional_error(world, world, [("R1", 1.0), ("R2", 1.0)], rng=np.random.default_rng(0))
    >>> result.error.value < 0.02 < result.effect.value
    True
    """
    if not interventions:
        raise InputError("interventions", "at least one (column, value)", "none", "write [('R1', 1.0)]")
    draw_rng, truth_rng = rng.spawn(2)
    observed = world.sample(n, rng=truth_rng)
    compared: list[Outcome] = []
    for column, value in interventions:
        observed.schema.position(column)
        synthetic = generator.sample(n, rng=draw_rng, do={column: value})
        if synthetic.schema != observed.schema:
            raise InputError("generator", "the schema of the world", "another one", "train it on the world's tables")
        truth, again = (world.sample(n, rng=truth_rng, do={column: value}) for _ in range(2))
        others = [name for name in observed.schema.names if name != column]
        for name in others if outcomes is None else outcomes[column]:
            compared.append(_outcome((column, value), name, synthetic, truth, again, observed))
    if not compared:
        raise InputError("outcomes", "at least one column", "none", "set a column that has descendants")
    return InterventionalError(
        tuple(compared), *(_mean(compared, part, confidence) for part in ("error", "effect", "floor"))
    )


def _outcome(
    do: tuple[str, Category], name: str, synthetic: Table, truth: Table, again: Table, observed: Table
) -> Outcome:
    levels = Levels.of(truth.schema.column(name), truth.column(name), _BINS, None)

    def shares(table: Table) -> FloatArray:
        return np.bincount(levels.codes(table.column(name)), minlength=levels.count) / len(table)

    real = shares(truth)
    error, effect, floor = (float(np.abs(shares(table) - real).sum() / 2) for table in (synthetic, observed, again))
    return Outcome(do, name, error, effect, floor)


def _mean(outcomes: Sequence[Outcome], part: str, confidence: float) -> Estimate:
    """Return the mean over outcomes, with intervened columns as the independent units."""
    units: dict[str, list[float]] = {}
    for outcome in outcomes:
        units.setdefault(outcome.do[0], []).append(getattr(outcome, part))
    everything = [value for values in units.values() for value in values]
    mean, count = float(np.mean(everything)), len(units)
    if count < 2:
        return Estimate(mean, -math.inf, math.inf, confidence, "no interval: one column was set")
    totals = np.array([sum(values) - len(values) * mean for values in units.values()])
    error = math.sqrt(float(totals @ totals) * count / (count - 1)) / len(everything)
    return Estimate(mean, *student_limits(mean, error, count - 1, confidence), confidence)

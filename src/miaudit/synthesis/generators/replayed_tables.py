"""Noisy tables as :func:`miaudit.dp.query_replay.check` replays them: what one record changes, and the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.dp.query_draws import QueryDraws
from miaudit.dp.query_replay import Claim
from miaudit.errors import InputError
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.schema import Table

__all__ = ["ReplayedNoise", "claimed", "replayed"]


@dataclass(frozen=True, eq=False)
class ReplayedNoise:
    """The noise of counts and choices from replayed draws. It is not rounded: rounding follows the sum."""

    draws: QueryDraws
    names: tuple[str, ...]

    def normal(self, size: int, sd: float) -> FloatArray:
        """Return replaced normal numbers (size,)."""
        return self.draws.normal(0.0, sd, size)

    def choose(self, scores: Sequence[float], scale: float) -> int:
        """Return the position that the history has chosen."""
        return self.draws.choose(scores, scale)

    def released(self, columns: Sequence[int], counts: FloatArray, sd: float) -> FloatArray:
        """Return the counts that the history has released."""
        return self.draws.answer(", ".join(self.names[column] for column in columns), counts, sd)


def claimed(plan: TablesPlan) -> Claim:
    """Return what the ledger assumes about the queries of a plan.

    Raises
    ------
    InputError
        For a plan without differential privacy, which claims nothing.
    """
    if math.isinf(plan.mu):
        raise InputError("plan", "one with differential privacy", "one without", "state privacy")
    return Claim(plan.mu, "mu", sensitivity=math.sqrt(plan.changes), score_sensitivity=plan.changes)


def replayed(plan: TablesPlan | Callable[[Table], TablesPlan]) -> Callable[[Table, QueryDraws], dict[str, Any]]:
    """Return the generator of a plan, as a replay takes it: ``generator(table, draws)``.

    Parameters
    ----------
    plan : what is measured; or a function of the private table that returns it, to see whether it reads the table

    Examples
    --------
    >>> from miaudit.dp import query_replay
    >>> from miaudit.synthesis import CausalGraph, Column, Privacy, Schema, TablesConfig
    >>> schema = Schema((Column("a"), Column("b")))
    >>> plan = TablesPlan(CausalGraph(schema, None, [("a", "b")]), TablesConfig(), Privacy(records=40, epsilon=4.0), 40)
    >>> values = np.arange(80).reshape(40, 2) % 3 % 2
    >>> neighbours = [Table(schema, values[1:]), Table(schema, values[:-1])]
    >>> rng = np.random.default_rng(0)
    >>> query_replay.check(replayed(plan), Table(schema, values), neighbours, claimed(plan), rng=rng).passed
    True
    """

    def generator(table: Table, draws: QueryDraws) -> dict[str, Any]:
        own = plan(table) if callable(plan) else plan
        names = table.schema.names
        model = fit_tables(table, own, rng=np.random.default_rng(0), noise=ReplayedNoise(draws, names))
        return {
            "levels": model.plan.sizes,
            "facts": dict(model.facts),
            "laws": [law.logits for law in model.laws],
            "records": model.sample(own.records, rng=np.random.default_rng(1)).values,
        }

    return generator

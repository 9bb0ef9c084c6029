"""Private tables as they come: one or several, or choices of rows of one; and the graph over their columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import IntArray
from miaudit.errors import InputError
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Schema, Table


def records_of(tables: Table | Sequence[Table], rows: ArrayLike | None) -> tuple[Table, list[IntArray]]:
    """Return all records in one table, and the positions of each model's."""
    if isinstance(tables, Table):
        if rows is None:
            hint = "pass rows=(M, n) true and false, or a list of tables"
            raise InputError("tables", "a list of tables, or one with rows", "one table", hint)
        included = np.asarray(rows)
        if included.dtype != np.bool_ or included.ndim != 2 or included.shape[1] != len(tables) or not len(included):
            received = f"shape {included.shape} of type {included.dtype}"
            raise InputError("rows", f"true and false (M, {len(tables)})", received, "a row for each generator")
        return tables, [np.flatnonzero(own) for own in included]
    if rows is not None:
        raise InputError("rows", "none beside a list of tables", "rows", "pass one table with rows")
    if not tables or not all(isinstance(table, Table) for table in tables):
        raise InputError("tables", "tables, at least one", repr(tables)[:60], "use Table.from_frame")
    schema = tables[0].schema
    if any(table.schema != schema for table in tables):
        raise InputError("tables", "tables under one schema", "different ones", "fit them one by one")
    ends = np.cumsum([0, *(len(table) for table in tables)])
    base = tables[0] if len(tables) == 1 else Table(schema, np.concatenate([table.values for table in tables]))
    return base, [np.arange(start, end) for start, end in itertools.pairwise(ends.tolist())]


def over(schema: Schema, graph: CausalGraph | None) -> CausalGraph:
    """Return the graph, or that of a plain generator: one group of all columns."""
    if graph is None:
        return CausalGraph(schema, {"columns": schema.names})
    if not isinstance(graph, CausalGraph):
        raise InputError("graph", "a CausalGraph or none", type(graph).__name__, "see CausalGraph.from_yaml")
    if graph.schema != schema:
        ours, theirs = set(graph.schema.names), set(schema.names)
        odd = sorted(ours ^ theirs)
        received = f"{odd[0]} in only one of them" if odd else "columns declared differently"
        raise InputError("graph", "a graph over the schema of the table", received, "build both from one schema")
    return graph

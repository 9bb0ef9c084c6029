"""Causal graphs over the columns of a table, full (single columns) or partial (groups of columns).

Read from YAML, networkx or GML (extra ``synthesis`` for the latter two). A cycle, an unknown column and a group that
nothing reaches are refused with the offending path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from miaudit.errors import InputError, MiauditError, nearest
from miaudit.errors.extras import pip_line
from miaudit.io.tables import existing_file
from miaudit.io.yaml_file import read_yaml
from miaudit.synthesis.schema import Schema

if TYPE_CHECKING:
    import networkx as nx  # type: ignore[import-untyped,unused-ignore]

_KEYS = ("columns", "groups", "edges", "isolated")


@dataclass(frozen=True)
class CausalGraph:
    """Causal graph of groups of columns; the latent variable z is a parent of every group.

    Attributes
    ----------
    schema : the columns
    groups : name -> its columns; each column of the schema belongs to one group. None makes a group of each column,
        named as the column: a full graph
    edges : (cause, effect) pairs of groups, without a cycle
    isolated : groups that are meant to have no edge; any other group without an edge is refused, unless there is one
        group only

    Raises
    ------
    InputError
        For a cycle, an unknown column or group, a column in two groups or in none, an empty group, an edge named twice,
        or a group that no edge reaches; the message has the path.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> schema = Schema((Column("smokes"), Column("coughs"), Column("sleeps")))
    >>> graph = CausalGraph(schema, {"cause": ["smokes"], "signs": ["coughs", "sleeps"]}, [("cause", "signs")])
    >>> graph.parents("signs"), graph.order, graph.full
    (('cause',), ('cause', 'signs'), False)
    >>> CausalGraph(schema, None, [("smokes", "coughs"), ("coughs", "sleeps"), ("sleeps", "smokes")])
    Traceback (most recent call last):
    miaudit.errors.InputError: edges: expected a graph without a cycle, received smokes -> coughs -> sleeps -> smokes;
    remove one of these edges
    """

    schema: Schema
    groups: Mapping[str, tuple[str, ...]]
    edges: tuple[tuple[str, str], ...]
    isolated: tuple[str, ...] = ()

    def __init__(
        self,
        schema: Schema,
        groups: Mapping[str, Sequence[str]] | None = None,
        edges: Iterable[Sequence[str]] = (),
        isolated: Iterable[str] = (),
    ) -> None:
        if not isinstance(schema, Schema):
            raise InputError("schema", "a Schema", type(schema).__name__, "declare the columns first")
        options = {name: (name,) for name in schema.names} if groups is None else groups
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "groups", MappingProxyType(_checked_groups(schema, options)))
        object.__setattr__(self, "edges", tuple(_checked_edge(self.groups, edge) for edge in edges))
        object.__setattr__(self, "isolated", tuple(isolated))
        self._check()

    def _check(self) -> None:
        seen: set[tuple[str, str]] = set()
        for edge in self.edges:
            if edge in seen:
                raise InputError("edges", "each edge once", " -> ".join(edge) + " twice", "remove one of them")
            seen.add(edge)
        for name in self.isolated:
            _known_group("isolated", self.groups, name)
        path = _cycle(self._parents)
        if path:
            hint = "remove one of these edges"
            raise InputError("edges", "a graph without a cycle", " -> ".join(path), hint)
        touched = {name for edge in self.edges for name in edge} | set(self.isolated)
        alone = [name for name in self.groups if name not in touched]
        if alone and len(self.groups) > 1:
            more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
            hint = "add its edges, or list it under isolated if it stands alone"
            raise InputError("edges", "an edge to or from every group", f"none for {alone[0]}{more}", hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.schema, dict(self.groups), self.edges, self.isolated)

    def __hash__(self) -> int:
        return hash((self.schema, tuple(self.groups.items()), self.edges, self.isolated))

    @cached_property
    def _parents(self) -> dict[str, tuple[str, ...]]:
        by_name: dict[str, list[str]] = {name: [] for name in self.groups}
        for cause, effect in self.edges:
            by_name[effect].append(cause)
        return {name: tuple(causes) for name, causes in by_name.items()}

    def parents(self, group: str) -> tuple[str, ...]:
        """Return the direct causes of a group, in the order of the edges."""
        return self._parents[_known_group("group", self.groups, group)]

    def descendants(self, group: str) -> tuple[str, ...]:
        """Return the groups that a group causes, directly or not, in causal order."""
        reached = {_known_group("group", self.groups, group)}
        for name in self.order:
            if reached & set(self._parents[name]):
                reached.add(name)
        return tuple(name for name in self.order if name in reached and name != group)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Groups in causal order: by generation, then in declared order."""
        return tuple(name for level in self.generations for name in level)

    @cached_property
    def generations(self) -> tuple[tuple[str, ...], ...]:
        """Groups by the length of the longest path to them."""
        sorter = TopologicalSorter(self._parents)
        sorter.prepare()
        levels = []
        while ready := sorter.get_ready():
            levels.append(tuple(name for name in self.groups if name in ready))
            sorter.done(*ready)
        return tuple(levels)

    @property
    def full(self) -> bool:
        """Whether each column is its own group, called as it is."""
        return all(columns == (name,) for name, columns in self.groups.items())

    def by_columns(self) -> CausalGraph:
        """Return the graph with each group called as its column, where all groups have one; else the graph itself.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column
        >>> schema = Schema((Column("a"), Column("b")))
        >>> CausalGraph(schema, {"cause": ["a"], "effect": ["b"]}, [("cause", "effect")]).by_columns().edges
        (('a', 'b'),)
        """
        if self.full or len(self.groups) < len(self.schema):
            return self
        column = {name: columns[0] for name, columns in self.groups.items()}
        edges = [(column[cause], column[effect]) for cause, effect in self.edges]
        return CausalGraph(self.schema, None, edges, [column[name] for name in self.isolated])

    def positions(self, group: str) -> tuple[int, ...]:
        """Return the positions of a group's columns in the table."""
        return tuple(self.schema.position(name) for name in self.groups[_known_group("group", self.groups, group)])

    def with_edges(self, edges: Iterable[Sequence[str]]) -> CausalGraph:
        """Return the graph with other edges; groups without an edge become isolated."""
        pairs = [_checked_edge(self.groups, edge) for edge in edges]
        touched = {name for edge in pairs for name in edge}
        return CausalGraph(self.schema, dict(self.groups), pairs, [name for name in self.groups if name not in touched])

    def reversed(self) -> CausalGraph:
        """Return the graph with reversed edges: a wrong graph for sensitivity checks."""
        return self.with_edges([(effect, cause) for cause, effect in self.edges])

    @classmethod
    def from_mapping(cls, description: Any, *, schema: Schema | None = None) -> CausalGraph:
        """Read a graph from a mapping with ``columns`` (or ``schema=``), ``groups``, ``edges`` and ``isolated``.

        Examples
        --------
        >>> CausalGraph.from_mapping({"columns": [{"names": ["a", "b"]}], "edges": [["a", "b"]]}).order
        ('a', 'b')
        """
        if not isinstance(description, Mapping):
            allowed = "a mapping with columns, groups and edges"
            raise InputError("graph", allowed, type(description).__name__, "see docs/synthesis.md")
        for key in description:
            if key not in _KEYS:
                hint = nearest(str(key), _KEYS) or f"keys are {', '.join(_KEYS)}"
                raise InputError("graph", "known keys", repr(key), hint)
        if (schema is None) == ("columns" not in description):
            received = "neither" if schema is None else "both"
            raise InputError("columns", "a schema, in the file or beside it", received, "declare the columns once")
        edges = description.get("edges") or ()
        if isinstance(edges, str | Mapping) or not isinstance(edges, Sequence):
            raise InputError("edges", "a list of pairs", repr(edges)[:60], "write [cause, effect]")
        own = Schema.from_mapping(description["columns"]) if schema is None else schema
        return cls(own, description.get("groups"), edges, description.get("isolated") or ())

    def to_mapping(self) -> dict[str, Any]:
        """Return the mapping that :meth:`from_mapping` reads."""
        by_name: dict[str, Any] = {"columns": self.schema.to_mapping()}
        if {name: (name,) for name in self.schema.names} != dict(self.groups):
            by_name["groups"] = {name: list(columns) for name, columns in self.groups.items()}
        by_name["edges"] = [list(edge) for edge in self.edges]
        return by_name | ({"isolated": list(self.isolated)} if self.isolated else {})

    @classmethod
    def from_yaml(cls, path: str | Path, *, schema: Schema | None = None) -> CausalGraph:
        """Read a graph from a YAML file with the keys of :meth:`from_mapping`."""
        return cls.from_mapping(read_yaml(path, "graph"), schema=schema)

    @classmethod
    def from_networkx(
        cls, graph: nx.DiGraph[Any], schema: Schema, groups: Mapping[str, Sequence[str]] | None = None
    ) -> CausalGraph:
        """Read the edges of a directed networkx graph with groups or columns as nodes.

        Nodes without an edge count as isolated.
        """
        if not graph.is_directed() or graph.is_multigraph():
            hint = "an edge leads from cause to effect"
            raise InputError("graph", "a networkx.DiGraph", type(graph).__name__, hint)
        names = list(schema.names if groups is None else groups)
        for node in graph.nodes:
            if node not in names:
                hint = nearest(str(node), names) or "name nodes as columns or groups"
                raise InputError("graph", "nodes named as columns or groups", repr(node), hint)
        alone = [str(node) for node in graph.nodes if graph.degree(node) == 0]
        return cls(schema, groups, list(graph.edges), alone)

    @classmethod
    def from_gml(
        cls, path: str | Path, schema: Schema, groups: Mapping[str, Sequence[str]] | None = None
    ) -> CausalGraph:
        """Read the edges of a GML file with groups or columns as labels."""
        networkx = _networkx()
        path = existing_file(path, "graph", (".gml",))
        try:
            network = networkx.read_gml(path)
        except (networkx.NetworkXError, ValueError, KeyError, OSError) as error:
            hint = "write it with networkx.write_gml"
            raise InputError("graph", "a GML file", f"{path.name}: {str(error)[:120]}", hint) from error
        return cls.from_networkx(network, schema, groups)

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return a networkx.DiGraph of the groups, each with the node attribute ``columns``."""
        network: nx.DiGraph[str] = _networkx().DiGraph()
        for name, columns in self.groups.items():
            network.add_node(name, columns=list(columns))
        network.add_edges_from(self.edges)
        return network


def _networkx() -> Any:
    try:
        import networkx  # noqa: PLC0415 - an extra
    except ImportError:
        raise MiauditError(f"this needs networkx, which is not installed; run: {pip_line('synthesis')}") from None
    return networkx


def _checked_groups(schema: Schema, groups: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            "groups", "a mapping: name of a group to its columns", repr(groups)[:60], "leave it out for one each"
        )
    owner: dict[str, str] = {}
    by_name: dict[str, tuple[str, ...]] = {}
    for name, columns in groups.items():
        if not isinstance(name, str) or isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            received = f"{name!r}: {columns!r}"[:80]
            raise InputError("groups", "names, each with a list of columns", received, "give each group its columns")
        for column in columns:
            if column not in schema.names:
                hint = nearest(str(column), schema.names) or "declare it in the schema"
                raise InputError(f"groups.{name}", "columns of the schema", repr(column), hint)
            if column in owner:
                received = f"{column} in {owner[column]} and {name}"
                raise InputError("groups", "each column in one group", received, "remove it from one")
            owner[column] = name
        by_name[name] = tuple(columns)
    lost = [name for name in schema.names if name not in owner]
    if lost:
        received = f"none for {', '.join(lost[:3])}{' ...' * (len(lost) > 3)}"
        raise InputError("groups", "a group for every column", received, "nothing would generate it: add it to a group")
    return by_name


def _checked_edge(groups: Mapping[str, tuple[str, ...]], edge: object) -> tuple[str, str]:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
        raise InputError("edges", "pairs [cause, effect]", repr(edge)[:60], "write one pair for each edge")
    cause, effect = (_known_group(f"edges ({' -> '.join(map(str, edge))})", groups, name) for name in edge)
    return cause, effect


def _known_group(argument: str, groups: Mapping[str, tuple[str, ...]], name: object) -> str:
    if not isinstance(name, str) or name not in groups:
        hint = nearest(str(name), groups) or f"groups are {', '.join(list(groups)[:8])}{' ...' * (len(groups) > 8)}"
        raise InputError(argument, "groups of the graph", repr(name), hint)
    return name


def _cycle(parents: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return a directed cycle as a path from cause to effect, or an empty one."""
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1][1:]
        first = min(range(len(cycle)), key=lambda i: list(parents).index(cycle[i]))
        return [*cycle[first:], *cycle[: first + 1]]
    return []

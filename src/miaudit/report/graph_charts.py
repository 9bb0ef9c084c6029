"""The chart of a causal graph: groups by generation from left to right, edges from cause to effect."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from miaudit.findings.release import Graph, Group
from miaudit.report.drawing import BLUE, GREY, INK, distinct, finished, tips
from miaudit.report.vega_lite import Chart, Layer, channel, expression, over

NAMES = ("graph",)
# Groups in one generation up to which their names are drawn.
_NAMED = 24
_SWEEPS = 8
_ACROSS, _UP = 0.35, 0.04  # room beside the outermost groups, in generations and in heights
_HEAD = 9  # pixels of the head of an arrow


def charts(graph: Graph, *, latent: bool = False) -> dict[str, Chart]:
    """Draw groups of columns as points, edges between them as arrows; no arrow goes from right to left.

    Nothing is drawn of a graph without edges: points beside each other show nothing. With ``latent`` the caption names
    the latent variable of a network, which noisy tables do not have.
    """
    if not graph.edges:
        return {}
    groups = graph.groups
    places = places_of(groups, graph.edges)
    by_name = distinct([group.name for group in groups], 18)
    most = max(Counter(group.generation for group in groups).values())
    generations = max(group.generation for group in groups) + 1
    across = channel("x:Q", axis=None, scale={"domain": [-_ACROSS, generations - 1 + _ACROSS], "nice": False})
    up = channel("y:Q", axis=None, scale={"domain": [-_UP, 1 + _UP], "nice": False})
    nodes = [
        {
            "x": places[group.name][0],
            "y": places[group.name][1],
            "name": by_name[group.name],
            "columns": _columns(group.columns),
            "size": _size(group),
        }
        for group in groups
    ]
    layers = [layer.encode(x=across, y=up) for layer in _arrows(graph, places, generations)]
    layers.append(
        over(nodes)
        .mark("point", filled=True, color=BLUE, opacity=1)
        .encode(
            x=across,
            y=up,
            size=channel("size:Q", scale=None, legend=None),
            tooltip=tips(name="Group", columns="Columns"),
        )
    )
    if most <= _NAMED:
        named = over(nodes).encode(x=across, y=up, text="name:N")
        layers.append(
            named.mark("text", dy=-11, fontSize=11, stroke="white", strokeWidth=3)
        )  # arrows pass behind a name
        layers.append(named.mark("text", dy=-11, fontSize=11, color=INK))
    sentences = ["Arrows go from cause to effect, left to right."]
    if latent:
        sentences.append("The latent variable is a cause of every group and is not drawn.")
    if most > _NAMED:
        sentences.append("Names show under the pointer.")
    title = f"{_several(len(groups), 'group')} of columns, {_several(len(graph.edges), 'edge')}"
    if graph.full:
        title = f"{_several(len(groups), 'column')}, {_several(len(graph.edges), 'edge')}"
    height = max(180, 46 + 34 * min(most, 18)) if generations > 2 else 20 + 34 * min(most, 18)
    return {"graph": finished(layers, title, sentences, _described(groups, graph.edges), height)}


def places_of(groups: Sequence[Group], edges: Sequence[Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Return (generation, height in [0, 1]) of each group; within a generation, ordered by the mean of its neighbours.

    Examples
    --------
    >>> groups = [Group(n, (n,), g) for n, g in (("a", 0), ("b", 0), ("c", 1), ("d", 1))]
    >>> places_of(groups, [("a", "d"), ("b", "c")])
    {'a': (0.0, 0.75), 'b': (0.0, 0.25), 'c': (1.0, 0.25), 'd': (1.0, 0.75)}
    """
    levels: dict[int, list[str]] = {}
    for group in groups:
        levels.setdefault(group.generation, []).append(group.name)
    near: dict[str, list[str]] = {group.name: [] for group in groups}
    for cause, effect in edges:
        near[cause].append(effect)
        near[effect].append(cause)
    height = {name: 1 - (i + 0.5) / len(names) for names in levels.values() for i, name in enumerate(names)}
    for sweep in range(_SWEEPS):
        depths = sorted(levels, reverse=bool(sweep % 2))[1:]
        for depth in depths:
            names = levels[depth]
            mean = {
                name: sum(height[other] for other in near[name]) / len(near[name]) if near[name] else height[name]
                for name in names
            }
            ordered = sorted(names, key=lambda name: -mean[name])
            height |= {name: 1 - (i + 0.5) / len(ordered) for i, name in enumerate(ordered)}
    return {group.name: (float(group.generation), round(height[group.name], 6)) for group in groups}


def _path(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the points of an edge: a bow where it passes a generation, so that no group in between hides it."""
    span = end[0] - start[0]
    if span <= 1:
        return [start, end]
    bow = min(0.3, 0.12 * span)
    if (start[1] + end[1]) / 2 > 0.6:  # away from the edge of the picture
        bow = -bow
    parts = [i / 16 for i in range(17)]
    return [(start[0] + t * span, start[1] + t * (end[1] - start[1]) + 4 * bow * t * (1 - t)) for t in parts]


def _arrows(graph: Graph, places: Mapping[str, tuple[float, float]], generations: int) -> list[Layer]:
    """Lines from causes to effects, and their heads; none where there is no edge."""
    if not graph.edges:
        return []
    paths = [_path(places[cause], places[effect]) for cause, effect in graph.edges]
    lines = [{"edge": i, "at": at, "x": x, "y": y} for i, path in enumerate(paths) for at, (x, y) in enumerate(path)]
    opacity = max(0.12, min(0.7, 60 / len(paths)))
    shafts: Layer = over(lines).mark("line", color=GREY, strokeWidth=1.2, opacity=opacity)
    radius = {group.name: math.sqrt(_size(group) / math.pi) for group in graph.groups}
    ends = [_end(path, radius[effect]) for path, (_, effect) in zip(paths, graph.edges, strict=True)]
    return [shafts.encode(detail="edge:N", order="at:Q"), _heads(ends, generations, max(opacity, 0.45))]


def _end(path: Sequence[tuple[float, float]], radius: float) -> dict[str, float]:
    """Where an edge ends, the way it comes from there, and the pixels that its group takes."""
    (x0, y0), (x, y) = path[-2:]
    return {"x": x, "y": y, "dx": x - x0, "dy": y - y0, "radius": radius}


def _heads(ends: Sequence[Mapping[str, float]], generations: int, opacity: float) -> Layer:
    """Heads of arrows that touch the groups they point to, at whatever width the chart is drawn."""
    right = f"datum.dx * width / {generations - 1 + 2 * _ACROSS}"
    down = f"-datum.dy * height / {1 + 2 * _UP}"
    way, back = f"atan2({down}, {right})", f"-(datum.radius + {_HEAD / 2 + 1})"
    look: dict[str, Any] = {
        "angle": expression(f"180 / PI * {way}"),
        "xOffset": expression(f"{back} * cos({way})"),
        "yOffset": expression(f"{back} * sin({way})"),
    }
    heads: Layer = over(ends).mark(
        "point", shape="triangle-right", filled=True, color=GREY, size=_HEAD**2, opacity=opacity, **look
    )
    return heads


def _size(group: Group) -> int:
    return 60 if len(group.columns) == 1 else 160


def _columns(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _described(groups: Sequence[Group], edges: Sequence[Sequence[str]]) -> str:
    shown = "; ".join(" causes ".join(edge) for edge in edges[:12])
    more = f"; and {len(edges) - 12} more" if len(edges) > 12 else ""
    return f"Causal graph of {len(groups)} groups. Edges: {shown or 'none'}{more}."

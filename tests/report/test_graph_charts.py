"""Heads of arrows: each touches the group that its edge points to, and turns its way, at any width."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from miaudit.findings.release import Graph, Group
from miaudit.report import drawing, graph_charts

GROUPS = (Group("a", ("a",), 0), Group("b", ("b",), 0), Group("c", ("x", "y"), 1), Group("d", ("d",), 2))
EDGES = (("a", "c"), ("b", "c"), ("c", "d"), ("a", "d"))


@pytest.mark.long
@pytest.mark.parametrize("width", [560, 300])
def test_heads_touch_what_they_point_to(width: int) -> None:
    spec = graph_charts.charts(Graph(GROUPS, EDGES, full=False))["graph"].to_dict()
    height = spec["height"]
    picture = drawing.svg({**spec, "width": width})
    marks = [mark for mark in ElementTree.fromstring(picture).iter() if mark.get("fill") == drawing.GREY]
    drawn = [[*map(float, re.findall(r"-?[\d.]+", mark.get("transform", ""))), 0.0][:3] for mark in marks]
    assert len(drawn) == len(EDGES)
    places = graph_charts.places_of(GROUPS, EDGES)

    def pixels(point: tuple[float, float]) -> tuple[float, float]:
        return (point[0] + 0.35) / 2.7 * width, (1 - (point[1] + 0.04) / 1.08) * height

    for (cause, effect), head in zip(EDGES, drawn, strict=True):
        x, y, turned = head
        path = graph_charts._path(places[cause], places[effect])
        (x0, y0), (x1, y1) = pixels(path[-2]), pixels(path[-1])
        assert turned == pytest.approx(math.degrees(math.atan2(y1 - y0, x1 - x0)), abs=0.01)
        radius = math.sqrt((160 if effect == "c" else 60) / math.pi)
        assert math.hypot(x1 - x, y1 - y) == pytest.approx(radius + 5.5, abs=0.01)
        assert math.degrees(math.atan2(y1 - y, x1 - x)) == pytest.approx(turned, abs=0.01)


def test_nothing_is_drawn_of_a_graph_without_edges() -> None:
    assert graph_charts.charts(Graph(GROUPS[:2], (), full=False)) == {}


def test_only_a_network_has_a_latent_variable() -> None:
    graph = Graph(GROUPS, EDGES, full=False)
    for latent in (False, True):
        spec = graph_charts.charts(graph, latent=latent)["graph"].to_dict()
        assert ("latent variable" in str(spec["title"])) is latent

"""Charts as Vega-Lite specifications: rows, marks and channels, layered. What pages draw needs no more of the grammar.

Altair writes the same specifications and checks each word of them. To load it takes more processor time than to compute
an audit of 20,000 scores, so it is loaded for :meth:`miaudit.Findings.plot` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Chart", "Drawn", "Layer", "Part", "channel", "constant", "expression", "over"]

Part = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}
_SECOND = ("x2", "y2")  # ends of what "x" and "y" begin: they have no type


class Drawn(Protocol):
    """What is drawn: a chart of this module, or one of Altair in a package of your own."""

    def to_dict(self, *, validate: bool = True) -> Any:
        """Return its specification."""


def channel(shorthand: str, **properties: Any) -> Part:
    """Return a channel that shows a field: its name, and ``Q`` for a quantity, ``N`` for a name, ``O`` for a rank.

    Examples
    --------
    >>> channel("fpr:Q", title=None)
    {'field': 'fpr', 'type': 'quantitative', 'title': None}
    """
    name, _, kind = shorthand.rpartition(":")
    if kind not in _TYPES:
        raise ValueError(f"a channel is a name, a colon, and one of {', '.join(_TYPES)}: {shorthand!r}")
    return {"field": name, "type": _TYPES[kind], **properties}


def constant(of: float | str) -> Part:
    """Return a channel with one value for all rows, in pixels or a colour."""
    return {"value": of}


def expression(text: str) -> Part:
    """Return a property that Vega computes for each row."""
    return {"expr": text}


@dataclass(frozen=True)
class Layer:
    """Marks of one kind over rows.

    Attributes
    ----------
    rows : of the data, each by name of its field
    conditions : what a row has to meet, as expressions of Vega
    kind, look : of the marks
    channels : what places and colours them, by name
    """

    rows: Sequence[Mapping[str, Any]]
    conditions: tuple[str, ...] = ()
    kind: str = ""
    look: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, Any] = field(default_factory=dict)

    def where(self, condition: str) -> Layer:
        """Return the layer over the rows that meet a condition, too."""
        return replace(self, conditions=(*self.conditions, condition))

    def mark(self, kind: str, **look: Any) -> Layer:
        """Return the layer with marks of a kind."""
        return replace(self, kind=kind, look=look)

    def encode(self, **channels: Part | Sequence[Part] | str) -> Layer:
        """Return the layer with more channels; a string is one that only names its field."""
        parts = {
            name: _named(name, one) if isinstance(one, str) else one if isinstance(one, dict) else list(one)
            for name, one in channels.items()
        }
        return replace(self, channels={**self.channels, **parts})

    def part(self, data: str) -> Part:
        """Return what stands in the specification of a chart, where ``data`` names the rows."""
        filters = {"transform": [{"filter": condition} for condition in self.conditions]} if self.conditions else {}
        mark = {"type": self.kind, **self.look}
        return {"data": {"name": data}, **filters, "mark": mark, "encoding": dict(self.channels)}


def over(rows: Sequence[Mapping[str, Any]]) -> Layer:
    """A layer over rows that stand inside the specification."""
    return Layer(list(rows))


@dataclass(frozen=True)
class Chart:
    """Layers over each other.

    Attributes
    ----------
    layers : the first is below
    title : text and subtitle, lines of each
    description : the text alternative
    width, height : in pixels
    config : how all of it looks
    """

    layers: Sequence[Layer]
    title: Mapping[str, Sequence[str]]
    description: str
    width: int
    height: int
    config: Mapping[str, Any]

    def to_dict(self, *, validate: bool = False) -> Part:
        """Return the specification. Rows that several layers share stand in it once. ``validate`` changes nothing."""
        del validate
        datasets: dict[str, Sequence[Mapping[str, Any]]] = {}
        layers = []
        for layer in self.layers:
            name = _name_of(layer.rows)
            datasets[name] = layer.rows
            layers.append(layer.part(name))
        return {
            "$schema": SCHEMA,
            "config": dict(self.config),
            "title": {name: list(lines) for name, lines in self.title.items() if lines},
            "description": self.description,
            "width": self.width,
            "height": self.height,
            "layer": layers,
            "datasets": datasets,
        }

    def to_altair(self) -> alt.LayerChart:
        """Return the chart as one of Altair."""
        import altair as alt

        chart: alt.LayerChart = alt.LayerChart.from_dict(self.to_dict())
        return chart


def _named(channel_name: str, shorthand: str) -> Part:
    return {"field": shorthand.partition(":")[0]} if channel_name in _SECOND else channel(shorthand)


def _name_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """The name of rows by their content, as Altair names them."""
    return "data-" + hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:32]

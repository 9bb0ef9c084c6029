"""Charts of what a model discloses: the advantage that theory predicts beside the one that an attack has.

All take plain values as ``disclosure.prediction.Comparison.to_dict`` gives them, and advantages are AUC - 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from miaudit.metrics.rounding import percent, written
from miaudit.report.drawing import BLUE, GREY, INK, ORANGE, finished, scaled, tips, upright
from miaudit.report.vega_lite import Chart, Layer, Part, channel, over

NAMES = {
    "confidence-vector": "Confidence vector",
    "true-label": "True-label confidence",
    "decision-set": "Decision set",
}


class _Advantage(NamedTuple):
    """A kind of mean advantage: its name, its key in a comparison, and how it is drawn."""

    name: str
    key: str
    colour: str
    shape: str


_ADVANTAGES = (
    _Advantage("predicted", "mean_predicted", ORANGE, "diamond"),
    _Advantage("predicted, attack fitted to others", "mean_transferred", GREY, "square"),
    _Advantage("measured", "mean_measured", BLUE, "circle"),
)
_SLIGHT = 0.02  # an advantage below this is not worth a word on its direction
_MOST_BARS = 150  # points with a bar of their own
_ROW = 44


def predicted_against_measured(comparison: Mapping[str, Any]) -> Chart:
    """One point for each record under one disclosure, beside the line on which the prediction is right."""
    rows = _points(comparison)
    low = min(-0.05, *(row["low"] for row in rows))
    x = scaled("Predicted advantage (AUC − 1/2)", [0, 0.5], format="~g", tickCount=6)
    y = scaled("Measured advantage", [low, 0.52], format="~g", tickCount=6)
    ends = over([{"x": 0.0, "y": 0.0}, {"x": 0.5, "y": 0.5}])
    right = ends.mark("line", color=GREY, strokeDash=[6, 4], strokeWidth=1.5)
    layers = [right.encode(x=channel("x:Q", **x), y=channel("y:Q", **y))]
    if len(rows) <= _MOST_BARS:
        bars = over(rows).mark("rule", color=BLUE, opacity=0.18, strokeWidth=1.2)
        layers.append(bars.encode(x=channel("predicted:Q", **x), y=channel("low:Q", **y), y2="high:Q"))
    dots = over(rows).mark("circle", color=BLUE, opacity=0.55, size=34)
    tooltips = tips(record="Record", words="Words")
    layers.append(dots.encode(x=channel("predicted:Q", **x), y=channel("measured:Q", **y), tooltip=tooltips))
    title = headline(comparison)
    alternative = f"{comparison['records']} points beside the diagonal on which the prediction is right."
    return finished(layers, title, _under(comparison), f"{title}. {alternative}", 340)


def _points(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = (comparison["predicted"], comparison["measured"], comparison["measured_sd"])
    return [
        {
            "record": str(i),
            "predicted": p,
            "measured": m,
            "low": m - sd,
            "high": m + sd,
            "words": f"predicted {p:.3f}, measured {m:.3f} (standard error {sd:.3f})",
        }
        for i, (p, m, sd) in enumerate(zip(*columns, strict=True))
    ]


def headline(comparison: Mapping[str, Any]) -> str:
    """Say how far prediction and measurement are apart.

    Examples
    --------
    >>> limits = {"low": 0.77, "value": 0.84, "high": 0.9}
    >>> headline({"disclosure": "true-label", "threshold": None, "rank_correlation": limits, "attainable": 0.92,
    ...           "mean_error": {"value": 0.08}, "mean_absolute_error": {"value": 0.081}})
    'True-label confidence: predicted 0.08 too high on average; ranks agree to 0.84, noise would allow 0.92'
    """
    name = NAMES[comparison["disclosure"]]
    if comparison["threshold"] is not None:
        name += f" at q = {comparison['threshold']:g}"
    error, size = comparison["mean_error"]["value"], comparison["mean_absolute_error"]["value"]
    if abs(error) >= max(_SLIGHT, 0.5 * size):
        apart = f"predicted {abs(error):.2f} too {'high' if error > 0 else 'low'} on average"
    else:
        apart = f"prediction off by {size:.3f} on average, in either direction"
    ranks = comparison["rank_correlation"]
    if ranks is None:
        return f"{name}: {apart}; all records alike, so there are no ranks to compare"
    allows = comparison["attainable"]
    noise = "" if allows is None else f", noise would allow {allows:.2f}"
    return f"{name}: {apart}; ranks agree to {ranks['value']:.2f}{noise}"


def _under(comparison: Mapping[str, Any]) -> list[str]:
    predicted, measured = comparison["mean_predicted"], comparison["mean_measured"]
    sure = percent(comparison["confidence"])
    sentences = [
        f"{comparison['records']} records, {comparison['models']} models. Mean predicted {_limits(predicted)}, "
        f"measured {_limits(measured)}; {sure} limits over records."
    ]
    if comparison["rank_correlation"] is not None:
        sentences.append(f"Rank correlation {_limits(comparison['rank_correlation'])}.")
    sentences.append(
        f"Mean distance {_limits(comparison['mean_absolute_error'])}; noise in the measurement alone would make "
        f"{comparison['noise']:.3f}. Dashed: the prediction is right."
    )
    if comparison["records"] <= _MOST_BARS:
        sentences.append("Bars: one standard error of the measurement.")
    return sentences


def _limits(interval: Mapping[str, float]) -> str:
    low, high = written(interval["low"], ".3f", "down"), written(interval["high"], ".3f", "up")
    return f"{interval['value']:.3f} ({low} to {high})"


def steps(comparisons: Sequence[Mapping[str, Any]]) -> Chart:
    """Mean advantage under each disclosure: predicted, with the price of few models taken off, and measured."""
    order = [_row_name(one) for one in comparisons]
    rows = [
        {"row": _row_name(one), "kind": kind.name, **one[kind.key], "text": f"{kind.name} {_limits(one[kind.key])}"}
        for one in comparisons
        for kind in _ADVANTAGES
        if one[kind.key] is not None
    ]
    highest = max(0.1, 1.08 * max(row["high"] for row in rows))
    domain = [min(0.0, *(row["low"] for row in rows)), highest]
    x = scaled("Mean advantage over the records (AUC − 1/2)", domain, format="~g", tickCount=6)
    y = channel(
        "row:N",
        sort=order,
        title=None,
        axis={"labelLimit": 220, "labelFontSize": 12, "ticks": False, "labelPadding": 8},
    )
    title, under = _furthest_off(comparisons), _steps_in_words(comparisons)
    layers = [upright(0.0, x, INK, width=1), *_marks_with_limits(rows, x, y)]
    return finished(layers, title, under, f"Marks with limits. {title}.", _ROW * len(order) + 30)


def _marks_with_limits(rows: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Part) -> list[Layer]:
    """Bars from limit to limit, and a mark of each kind on them."""
    names = [kind.name for kind in _ADVANTAGES]
    legend = {"orient": "top", "title": None, "labelLimit": 320}
    colours = {"domain": names, "range": [kind.colour for kind in _ADVANTAGES]}
    shapes = {"domain": names, "range": [kind.shape for kind in _ADVANTAGES]}
    colour, shape = channel("kind:N", scale=colours, legend=legend), channel("kind:N", scale=shapes, legend=legend)
    bars = over(rows).mark("rule", strokeWidth=2, opacity=0.7)
    marks = over(rows).mark("point", filled=True, size=90, opacity=1)
    return [
        bars.encode(x=channel("low:Q", **x), x2="high:Q", y=y, color=colour),
        marks.encode(x=channel("value:Q", **x), y=y, color=colour, shape=shape, tooltip=tips(text="Advantage")),
    ]


def _furthest_off(comparisons: Sequence[Mapping[str, Any]]) -> str:
    worst = max(comparisons, key=lambda one: abs(one["mean_error"]["value"]))
    error = worst["mean_error"]["value"]
    distance = f"{abs(error):.2f} too {'high' if error > 0 else 'low'}"
    return f"The prediction is furthest off for the {NAMES[worst['disclosure']].lower()}: {distance} on average"


def _steps_in_words(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    sentences = ["Advantage: AUC − 1/2 of the likelihood-ratio attack, averaged over the records."]
    if any(one["mean_transferred"] is not None for one in comparisons):
        sentences.append(
            "From orange to grey: the price of few models, whose laws look further apart than they are. From grey to "
            "blue: what the law gets wrong about the model."
        )
    return sentences


def _row_name(comparison: Mapping[str, Any]) -> str:
    name = NAMES[comparison["disclosure"]]
    return name if comparison["threshold"] is None else f"{name}, q = {comparison['threshold']:g}"

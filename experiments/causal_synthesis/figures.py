"""Change of the attacks by defence, as SVG and PNG: the form of Figures 2 to 5 and 8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt

from miaudit.report import drawing

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#b3261e", "#7f5fa8")


def draw(found: Mapping[str, Any], out: Path) -> None:
    """Draw a chart for each data set and comparison."""
    for name, part in found.items():
        if name == "outlier":
            continue
        for i, (comparison, rows) in enumerate(part["changes"].items()):
            save(change(rows, f"{name}: {comparison}"), out / f"figure-{name}-{i + 1}")


def change(rows: list[dict[str, Any]], title: str) -> Any:
    """Drop of TPR - FPR of each attack with its interval; above zero the defence helped."""
    points = [
        {"extractor": row["extractor"], "classifier": row["classifier"]}
        | dict(zip(("low", "value", "high"), row["advantage"], strict=True))
        for row in rows
    ]
    extractors = list(dict.fromkeys(row["extractor"] for row in rows))
    classifiers = list(dict.fromkeys(row["classifier"] for row in rows))
    x = alt.X("extractor:N", title=None, sort=extractors, axis=alt.Axis(labelAngle=0))
    shift = alt.XOffset("classifier:N", sort=classifiers)
    colour = alt.Color(
        "classifier:N",
        sort=classifiers,
        scale=alt.Scale(domain=classifiers, range=list(COLOURS[: len(classifiers)])),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    base = alt.Chart(alt.Data(values=points)).encode(x=x, xOffset=shift, color=colour)
    y = alt.Y("value:Q", title="Drop of TPR - FPR")
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#777").encode(y="zero:Q")
    layers = [zero, base.mark_rule().encode(y=alt.Y("low:Q", title="Drop of TPR - FPR"), y2="high:Q")]
    return alt.layer(*layers, base.mark_point(filled=True, size=45).encode(y=y)).properties(
        width=520, height=280, title=title
    )


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(drawing.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(drawing.png(spec))

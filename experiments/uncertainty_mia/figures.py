"""Figures 4, 6 to 10, 12 and 13 of uncertainty-mia, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from miaudit.report import drawing

COLOURS = {"confidence-vector": "#0072b2", "true-label": "#d55e00", "decision-set": "#009e73"}
AXES = {
    "calibration_error": "Relative calibration error Delta",
    "aleatoric": "Aleatoric uncertainty eps_a",
    "epistemic": "Epistemic uncertainty eps_e",
}
Rows = Sequence[Mapping[str, Any]]


def _kinds() -> alt.Color:
    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    return alt.Color("disclosure:N", scale=scale, title="Disclosed")


def _temperatures(rows: Rows) -> alt.Color:
    heats = sorted({row["temperature"] for row in rows})
    return alt.Color("temperature:O", sort=heats, scale=alt.Scale(scheme="viridis"), title="Temperature T")


def factor(rows: Rows) -> Any:
    """Figure 4: with two classes exact; with more, the certified value and, dashed, the attained one."""
    panels = []
    for classes in sorted({row["classes"] for row in rows}):
        data = alt.Data(values=[row for row in rows if row["classes"] == classes])
        x = alt.X("threshold:Q", title="Threshold q")
        base = alt.Chart(data).encode(x=x, color=_temperatures(rows))
        upper = base.mark_line().encode(y=alt.Y("upper:Q", title="delta (T, q)", scale=alt.Scale(domain=[0, 1])))
        lower = base.mark_line(strokeDash=[4, 3]).encode(y="lower:Q")
        panels.append((upper + lower).properties(width=300, height=260, title=f"K = {classes:g}"))
    return alt.hconcat(*panels)


def curves(rows: Rows) -> Any:
    """Figure 6: the trade-off and its lower bound."""
    panels = []
    for key, title in (("fnr", "True trade-off"), ("lower", "Lower bound by Lemma 1")):
        line = (
            alt.Chart(alt.Data(values=list(rows)))
            .mark_line()
            .encode(
                x=alt.X("tnr:Q", title="True-negative rate alpha"),
                y=alt.Y(f"{key}:Q", title="False-negative rate beta"),
                color=_kinds(),
            )
        )
        guess = (
            alt.Chart(alt.Data(values=[{"a": 0, "b": 0}, {"a": 1, "b": 1}]))
            .mark_line(strokeDash=[3, 3], color="grey")
            .encode(x="a:Q", y="b:Q")
        )
        panels.append((guess + line).properties(width=300, height=300, title=title))
    return alt.hconcat(*panels)


def sweep(rows: Rows, parameter: str, truth: str, bounds: Mapping[str, str], title: str) -> Any:
    """One of Figures 7 to 9 or a row of 12: the truth solid, bounds dashed and dotted."""
    dashes = {"true": [1, 0]} | dict(zip(bounds.values(), ([6, 3], [2, 2]), strict=False))
    data = [
        {"x": row["x"], "disclosure": row["disclosure"], "value": row[key], "what": name}
        for row in rows
        for key, name in {truth: "true", **bounds}.items()
    ]
    dash = alt.StrokeDash(
        "what:N", scale=alt.Scale(domain=list(dashes), range=list(dashes.values())), title="Advantage"
    )
    return (
        alt.Chart(alt.Data(values=data))
        .mark_line()
        .encode(
            x=alt.X("x:Q", title=AXES[parameter]),
            y=alt.Y("value:Q", title="Advantage alpha - beta"),
            color=_kinds(),
            strokeDash=dash,
        )
        .properties(width=420, height=300, title=title)
    )


def sets(rows: Rows, key: str, title: str) -> Any:
    """Figures 10 and 13: expected set size (dashed: of models that learned the record), and the advantage."""
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X("threshold:Q", title="Threshold q"), color=_temperatures(rows)
    )
    size = base.mark_line().encode(y=alt.Y("size_out:Q", title="Expected labels in the set"))
    inside = base.mark_line(strokeDash=[4, 3]).encode(y="size_in:Q")
    told = base.mark_line().encode(y=alt.Y(f"{key}:Q", title="Advantage alpha - beta"))
    left = (size + inside).properties(width=300, height=280, title="Set size")
    return alt.hconcat(left, told.properties(width=300, height=280, title=title))


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(drawing.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(drawing.png(spec))

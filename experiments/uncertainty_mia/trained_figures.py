"""Charts of experiments/uncertainty_mia/trained.py, from its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from scipy import stats

from miaudit.report import disclosure_charts, drawing
from miaudit.report.drawing import BLUE, INK, ORANGE, finished, over

NAMES = {
    "classes": "Number of classes",
    "size": "Records of class 0",
    "shift": "Strength of the shift of class 0",
}


def draw(found: Mapping[str, Any], out: Path) -> None:
    """Write every chart as SVG and PNG."""
    charts: dict[str, alt.LayerChart] = {}
    for name, row in found.get("records", {}).items():
        for form in ("fitted", "three-numbers"):
            charts[f"{name}-{form}-steps"] = disclosure_charts.steps(list(row[form].values()))
            for disclosure, one in row[form].items():
                charts[f"{name}-{form}-{disclosure}"] = disclosure_charts.predicted_against_measured(one)
    for name, row in found.get("laws", {}).items():
        for side in ("nonmembers", "members"):
            charts[f"law-{name}-{side}"] = law(name, row, side)
    for part in NAMES:
        if part in found:
            charts[f"figure14-{part}"] = trend(part, found[part])
    for name, chart in charts.items():
        spec = chart.to_dict()
        (out / f"{name}.svg").write_text(drawing.svg(spec))
        (out / f"{name}.png").write_bytes(drawing.png(spec))


def law(name: str, row: Mapping[str, Any], side: str) -> alt.LayerChart:
    """Figures 5 and 11: a histogram of the label's confidence, and the marginal of the fitted law."""
    edges = np.linspace(0, 1, 26)
    density, _ = np.histogram(row["confidences"][side], edges, density=True)
    grid = (np.arange(400) + 0.5) / 400
    group = row["group"][side]
    kinds = (
        (f"Dirichlet law of all classes, {group['distance']:.2f} away", group["alpha"], ORANGE, [1, 0]),
        (f"Beta law of this confidence alone, {group['distance_alone']:.2f} away", group["alpha_alone"], INK, [5, 3]),
    )
    top = float(1.6 * density.max())
    curves = [
        {"left": at, "density": min(value, top), "kind": kind}
        for kind, alpha, *_ in kinds
        for at, value in zip(grid, stats.beta.pdf(grid, alpha[0], sum(alpha[1:])), strict=True)
    ]
    names = [kind for kind, *_ in kinds]
    legend = alt.Legend(orient="top", title=None, labelLimit=300, columns=1)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=names, range=[c for *_, c, _ in kinds]), legend=legend)
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=names, range=[d for *_, d in kinds]), legend=legend)
    x = alt.X("left:Q", scale=alt.Scale(domain=[0, 1]), title="Confidence in the true label")
    y = alt.Y("density:Q", scale=alt.Scale(domain=[0, top]), title="Density")
    bars = over([{"left": a, "right": b, "density": d} for a, b, d in zip(edges, edges[1:], density, strict=False)])
    who = "images that the network learned" if side == "members" else "images that it did not learn"
    title = f"{name}, class 0, {who}: the fitted Dirichlet law is {group['distance']:.2f} away"
    layers = [
        bars.mark_rect(color=BLUE, opacity=0.35).encode(x=x, x2="right:Q", y=y, y2=alt.value("height")),
        over(curves).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, strokeDash=dash),
    ]
    said = ["Bars: the network. Lines: fitted laws. Distance: Kolmogorov's, 0 to 1."]
    return finished(layers, title, said, title, 220)


def trend(part: str, row: Mapping[str, Any]) -> alt.LayerChart:
    """Figure 14: calibration error and advantage, each with limits over repeats."""
    name = NAMES[part]
    rows = [
        {"at": value, "kind": kind, **limits}
        for kind, key in (("relative calibration error", "calibration_error"), ("advantage (AUC − 1/2)", "advantage"))
        for value, limits in zip(row["values"], row[key], strict=True)
    ]
    x, y = alt.X("at:Q", title=name, scale=alt.Scale(zero=False)), alt.Y("value:Q", title=None)
    kinds = ["relative calibration error", "advantage (AUC − 1/2)"]
    legend = alt.Legend(orient="top", title=None, labelLimit=240)
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[BLUE, ORANGE]), legend=legend)
    base = over(rows)
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=x, y=alt.Y("low:Q", title=None), y2="high:Q", color=colour),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        base.mark_circle(size=60, opacity=1).encode(x=x, y=y, color=colour),
    ]
    change = row["trend"]["value"]
    verb = "rises" if change > 0 else "falls"
    title = f"The calibration error of class 0 {verb} by {abs(change):.3f} from {row['values'][0]:g} to "
    title += f"{row['values'][-1]:g} ({name.lower()})"
    said = [f"{row['repeats']} repeats; 95% limits over repeats. Truth known: a fifth of the labels is flipped."]
    return finished(layers, title, said, title, 240)

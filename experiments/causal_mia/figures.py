"""Figures 3(a) and 3(b): mean ROC curves over the repetitions, as SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from miaudit.report import charts

NAMES = {
    "multi_run": "Multi-run",
    "one_run": "One-run",
    "zero_run_raw": "Zero-run, raw: not causal",
    "zero_run_oracle": "Zero-run, corrected (oracle)",
    "zero_run_learned": "Zero-run, corrected (learned)",
}
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#b3261e", "#cc79a7")


def limit(fpr: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """The ROC limit of (epsilon, delta)-DP (errata A8).

    >>> limit(np.array([0.0, 0.5, 1.0]), 0.0, 0.01).round(2).tolist()
    [0.01, 0.51, 1.0]
    """
    return np.clip(np.minimum(np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr)), 0.0, 1.0)


def roc(curves: dict[str, np.ndarray], grid: np.ndarray, title: str, limits: dict[str, tuple[float, float]]) -> Any:
    """One chart: a line for each evaluation, a black one for each limit, chance dotted."""
    shown = {NAMES[name]: curve for name, curve in curves.items() if name in NAMES}
    rows = [
        {"fpr": float(x), "tpr": float(y), "evaluation": name}
        for name, curve in shown.items()
        for x, y in zip(grid, curve, strict=True)
    ]
    axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~%")
    x = alt.X("fpr:Q", title="False-positive rate", axis=axis, scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("tpr:Q", title="True-positive rate", axis=axis, scale=alt.Scale(domain=[0, 1]))
    scale = alt.Scale(domain=list(shown), range=list(COLOURS[: len(shown)]))
    colour = alt.Color("evaluation:N", scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=2))
    layers = [
        alt.Chart(alt.Data(values=[{"fpr": 0, "tpr": 0}, {"fpr": 1, "tpr": 1}]))
        .mark_line(strokeDash=[2, 3], color="#6b7683")
        .encode(x=x, y=y),
        alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
    ]
    for name, (epsilon, delta) in limits.items():
        edge = [{"fpr": float(a), "tpr": float(b)} for a, b in zip(grid, limit(grid, epsilon, delta), strict=True)]
        layers.append(alt.Chart(alt.Data(values=edge)).mark_line(color="black").encode(x=x, y=y))
        label = alt.Chart(alt.Data(values=[edge[len(edge) // 2]]))
        layers.append(label.mark_text(align="right", dx=-8, dy=-6, text=name).encode(x=x, y=y))
    return alt.layer(*layers).properties(width=420, height=380, title=title)


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(charts.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(charts.png(spec))

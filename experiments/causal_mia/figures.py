"""Figures 3(a), 3(b): mean ROC curves over the repetitions. Figure 4: histograms of a zero-run. As SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from miaudit.report import drawing

NAMES = {
    "multi_run": "Multi-run",
    "one_run": "One-run",
    "zero_run_raw": "Zero-run, raw: not causal",
    "zero_run_oracle": "Zero-run, corrected (oracle)",
    "zero_run_learned": "Zero-run, corrected (learned)",
}
GROUP_COLOURS = {"Members": "#0072b2", "Non-members (shifted)": "#d55e00"}
WEIGHT_SHOWN = 8.0  # weights above it share the last bin
DASHES = ([1, 0], [6, 3], [2, 2])  # of up to three limits
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
    if limits:
        edges = [
            {"fpr": float(a), "tpr": float(b), "limit": name}
            for name, pair in limits.items()
            for a, b in zip(grid, limit(grid, *pair), strict=True)
        ]
        dashes = alt.Scale(domain=list(limits), range=list(DASHES[: len(limits)]))
        key = alt.Legend(title="Limit of (epsilon, 0.01)-DP", orient="bottom", direction="vertical", labelLimit=400)
        dash = alt.StrokeDash("limit:N", scale=dashes, legend=key)
        line = alt.Chart(alt.Data(values=edges)).mark_line(color="black", strokeWidth=1.2)
        layers.append(line.encode(x=x, y=y, strokeDash=dash))
    return alt.layer(*layers).properties(width=420, height=380, title=title)


def comparability(drawn: Mapping[str, np.ndarray], learned_on: int) -> dict[str, Any]:
    """Loss, log odds of membership and weights of one zero-run: what differs, and how the weights make up for it.

    ``drawn``: member (n,) of bool; loss (n,); oracle and learned log odds (n,), as of ``synthetic.ridge_zero_run``.
    """
    member = drawn["member"]
    group = np.where(member, "Members", "Non-members (shifted)")
    found = {"loss": histogram(drawn["loss"], group, "Loss", "Shift moves the loss of non-members: not memorisation")}
    for name, what in (("oracle", "oracle"), ("learned", f"learned on {learned_on:,} other rows")):
        title = f"Log odds of membership, {what}"
        found[f"log-odds-{name}"] = histogram(drawn[name], group, "Log odds", title)
        weight = np.exp(drawn[name][~member])
        weight /= weight.mean()
        share = weight.sum() ** 2 / (weight**2).sum() / len(weight)
        title = f"Weights of non-members, {what}: effective share {share:.0%}"
        # The far tail is gathered in the last bin, or it would be all there is to see.
        shown, ends = np.minimum(weight, WEIGHT_SHOWN), np.array(["Non-members (shifted)"] * len(weight))
        axis = f"Weight (mean 1; {np.mean(weight > WEIGHT_SHOWN):.1%} are above {WEIGHT_SHOWN:g}, in the last bin)"
        found[f"weights-{name}"] = histogram(shown, ends, axis, title)
    return found


def histogram(values: np.ndarray, group: np.ndarray, axis: str, title: str, bins: int = 60) -> Any:
    """Share of each group in each bin, groups laid over each other."""
    edges = np.linspace(values.min(), values.max(), bins + 1)
    names = sorted(set(group.tolist()))
    rows = [
        {"low": float(edges[i]), "high": float(edges[i + 1]), "share": float(count) / np.sum(group == name), "of": name}
        for name in names
        for i, count in enumerate(np.histogram(values[group == name], edges)[0])
    ]
    scale = alt.Scale(domain=list(GROUP_COLOURS), range=list(GROUP_COLOURS.values()))
    legend = alt.Legend(title=None, orient="bottom")
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(opacity=0.55)
        .encode(
            x=alt.X("low:Q", title=axis),
            x2="high:Q",
            y2=alt.datum(0.0),
            y=alt.Y("share:Q", title="Share of the group", axis=alt.Axis(format="~%"), stack=None),
            color=alt.Color("of:N", scale=scale, legend=legend),
        )
        .properties(width=420, height=240, title=title)
    )


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(drawing.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(drawing.png(spec))

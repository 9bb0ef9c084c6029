"""Figure 2 of zero-run: bounds against the shift, bounds over bootstrap replicates, propensities. As SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from miaudit.report import drawing

COLOURS = ("#b3261e", "#e69f00", "#cc79a7", "#009e73", "#0072b2", "#56b4e9")
GROUPS = {"Members": "#0072b2", "Non-members": "#d55e00"}


def bounds(rows: Mapping[str, Any], truth: float, part: str) -> Any:
    """Figure 2(a): mean bound of each procedure and its 5% to 95% band, from no shift on the left to the strongest."""
    names = list(next(iter(rows.values())))
    data = [
        {"rho": float(rho), "procedure": name, **{key: row[name][key] for key in ("mean", "low", "high")}}
        for rho, row in rows.items()
        for name in names
    ]
    x = alt.X("rho:Q", title="Alignment rho (1: no shift)", scale=alt.Scale(reverse=True, zero=False))
    y = alt.Y("mean:Q", title="Lower bound on mu")
    colour = alt.Color(
        "procedure:N",
        scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])),
        legend=alt.Legend(title=None, orient="right"),
    )
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    line = (
        alt.Chart(alt.Data(values=[{"truth": truth}])).mark_rule(color="black", strokeDash=[5, 4]).encode(y="truth:Q")
    )
    band = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q", title="Lower bound on mu"), y2="high:Q")
    title = f"Bounds under a shift, {'known' if part == 'oracle' else 'learned'} propensities; dashed: the truth"
    layered = alt.layer(band, base.mark_line(point=True).encode(y=y), line)
    return layered.properties(width=440, height=320, title=title)


def replicates(values: Mapping[str, np.ndarray], quantiles: Mapping[str, float]) -> Any:
    """Figure 2(b): bounds over bootstrap replicates of the propensity, and the quantile that is reported."""
    names = list(values)
    data = [{"bound": float(v), "split": name} for name, found in values.items() for v in found]
    marks = [{"bound": float(v), "split": name} for name, v in quantiles.items()]
    colour = alt.Color("split:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), title=None)
    bars = (
        alt.Chart(alt.Data(values=data))
        .mark_bar(opacity=0.5)
        .encode(
            x=alt.X("bound:Q", bin=alt.Bin(maxbins=50), title="Lower bound in a bootstrap replicate"),
            y=alt.Y("count():Q", title="Replicates", stack=None),
            color=colour,
        )
    )
    rules = alt.Chart(alt.Data(values=marks)).mark_rule(strokeDash=[5, 4]).encode(x="bound:Q", color=colour)
    return alt.layer(bars, rules).properties(width=440, height=280, title="Dashed: the quantile that is reported")


def propensity(values: np.ndarray, member: np.ndarray, title: str) -> Any:
    """Figure 2(c): estimated propensities of both classes."""
    edges = np.linspace(0, 1, 41)
    rows = []
    for name, inside in (("Members", member), ("Non-members", ~member)):
        share = np.histogram(values[inside], edges)[0] / max(1, int(inside.sum()))
        rows += [
            {"from": float(a), "to": float(b), "share": float(s), "class": name}
            for a, b, s in zip(edges[:-1], edges[1:], share, strict=True)
        ]
    scale = alt.Scale(domain=list(GROUPS), range=list(GROUPS.values()))
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(opacity=0.5)
        .encode(
            x=alt.X("from:Q", title="Estimated propensity", scale=alt.Scale(domain=[0, 1])),
            x2="to:Q",
            y=alt.Y("share:Q", title="Share of the class", stack=None),
            color=alt.Color("class:N", scale=scale, title=None),
        )
        .properties(width=440, height=240, title=title)
    )


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(drawing.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(drawing.png(spec))

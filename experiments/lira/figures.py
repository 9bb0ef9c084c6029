"""What the number of shadow models brings, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt

from miaudit.report import drawing

NAMES = {
    "lira_online": "LiRA, online",
    "lira_online_global": "LiRA, online, global variance",
    "lira_offline": "LiRA, offline",
    "loss": "Raw loss",
}
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#b3261e")
TPR = "tpr_at_fpr_0.01"


def draw(found: Mapping[str, Any], out: Path) -> None:
    """Draw a chart for each data set that was attacked."""
    for name, row in found.items():
        if "lira" in row:
            save(by_shadows(row["lira"], name), out / f"shadows-{name}")


def by_shadows(row: Mapping[str, Any], name: str) -> Any:
    """TPR at 1% FPR against the number of shadow models, with intervals of 95%; the raw loss needs none."""
    counts = list(row["scores"]["lira_online"])
    points = [
        {"models": int(count), "low": one[TPR][0], "tpr": one[TPR][1], "high": one[TPR][2], "score": NAMES[score]}
        for score, given in row["scores"].items()
        for count in counts
        if (one := given.get(count, given.get("-")))[TPR][1] is not None
    ]
    x = alt.X(
        "models:Q",
        title="Shadow models",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(values=[int(count) for count in counts]),
    )
    scale = alt.Scale(domain=list(NAMES.values()), range=list(COLOURS))
    colour = alt.Color("score:N", scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=2))
    axis = alt.Axis(format="~%")
    base = alt.Chart(alt.Data(values=points)).encode(x=x, color=colour)
    return alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title="TPR at 1% FPR", axis=axis), y2="high:Q"),
        base.mark_line(point=True, strokeWidth=2).encode(y=alt.Y("tpr:Q", title="TPR at 1% FPR", axis=axis)),
    ).properties(width=420, height=300, title=f"{name}: {row['records']:,} records, {row['targets']} target models")


def save(chart: Any, path: Path) -> None:
    """Write the chart as SVG and as PNG."""
    spec = chart.to_dict()
    path.with_suffix(".svg").write_text(drawing.svg(spec), encoding="utf-8")
    path.with_suffix(".png").write_bytes(drawing.png(spec))

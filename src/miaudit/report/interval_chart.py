"""One chart of intervals, a row each: differences of metrics, or one metric over many audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from miaudit.report.drawing import BLUE, GREY, INK, finished, over, tips, upright

if TYPE_CHECKING:
    import altair as alt

_ROW = 34


def intervals(
    rows: Sequence[Mapping[str, Any]], *, axis: str, against: float | None, title: str, said: Sequence[str]
) -> alt.LayerChart:
    """Draw an interval with its point in each row.

    Parameters
    ----------
    rows : of each ``name`` (shown as it is, once), ``value``, ``low``, ``high`` and ``text`` for the pointer; a row
        without a value shows its upper limit only
    axis : title of the horizontal axis
    against : where a dashed line stands, such as no difference or chance
    title, said : what is seen, and what is said under it
    """
    import altair as alt

    shown = [
        {**row, "low": row["low"] if row["low"] is not None else row["high"]} for row in rows if row["high"] is not None
    ]
    names = [row["name"] for row in shown]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, grid=True, ticks=False, domain=False))
    x: dict[str, Any] = {"title": axis, "scale": alt.Scale(zero=False, nice=True)}
    tip = tips(name="Audit or metric", text="Value")
    base = over(shown)
    layers = []
    if against is not None:
        layers.append(upright(against, x, GREY, strokeDash=[5, 4]))
    rule = base.mark_rule(color=BLUE, strokeWidth=3)
    layers.append(rule.encode(y=y, x=alt.X("low:Q", **x), x2="high:Q", tooltip=tip))
    point = base.transform_filter("datum.value != null").mark_point(color=INK, filled=True, size=70, opacity=1)
    layers.append(point.encode(y=y, x=alt.X("value:Q", **x), tooltip=tip))
    text = "; ".join(f"{row['name']}: {row['text']}" for row in shown)
    return finished(layers, title, said, f"{title}. Intervals by row: {text}.", max(90, _ROW * len(shown)))

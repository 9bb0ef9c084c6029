"""The chart of kinds of records: the AUC of each group that covariates describe, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miaudit.metrics.rounding import percent
from miaudit.report.drawing import BLUE, GREY, coloured, distinct, finished, in_rows, scaled, tips, upright
from miaudit.report.vega_lite import Chart, channel, constant, over

if TYPE_CHECKING:
    from miaudit.findings.by_covariates import ByCovariates

NAMES = ("kinds",)
_COMPARED, _OTHERS = "compared", "others"
_LONGEST = 40  # characters of a name that are drawn
_ROW = 26


def charts(kinds: ByCovariates) -> dict[str, Chart]:
    """Draw the AUC of each group, in the order of the table; nothing where fewer than two were measured."""
    measured = [one for one in kinds.groups if one.value is not None and one.low is not None and one.high is not None]
    if len(measured) < 2:
        return {}
    names = distinct([one.group for one in measured], _LONGEST)
    compared = () if kinds.difference is None else (kinds.difference.first, kinds.difference.second)
    rows = [
        {
            "group": names[one.group],
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "kind": _COMPARED if one.group in compared else _OTHERS,
            "text": one.reading,
        }
        for one in measured
    ]
    kinds_present = {row["kind"] for row in rows}
    present = {kind: colour for kind, colour in ((_COMPARED, BLUE), (_OTHERS, GREY)) if kind in kinds_present}
    colour = coloured("kind", present) if len(present) > 1 else constant(BLUE)
    x = scaled("AUC among records that are alike", zero=False, format="~g", tickCount=6)
    base = over(rows).encode(y=in_rows("group", 240, sort=list(names.values())), color=colour)
    points = base.mark("point", filled=True, size=85, opacity=1)
    layers = [
        upright(0.5, x, GREY, strokeDash=[2, 3]),
        base.mark("rule", strokeWidth=3, opacity=0.6).encode(x=channel("low:Q", **x), x2="high:Q"),
        points.encode(x=channel("value:Q", **x), tooltip=tips(group="Records with", text="AUC")),
    ]
    above = sum(one.low is not None and one.low > 0.5 for one in measured)
    title = f"{above} of {len(measured)} kinds of records are shown to leak"
    sentence = f"Dots: chance. Intervals hold for all groups together, with {percent(kinds.confidence)} confidence."
    values = "; ".join(f"{one.group}: {one.reading}" for one in measured)
    return {"kinds": finished(layers, title, [sentence], f"{title}. {values}.", _ROW * len(rows) + 10)}

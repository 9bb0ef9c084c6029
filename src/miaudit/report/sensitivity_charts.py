"""The chart of a sensitivity analysis: how strong an unmeasured trait would have to be, beside the covariates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from miaudit.findings.policy import label_of, written_limit
from miaudit.report.drawing import BLUE, GREY, RED, distinct, finished, in_rows, scaled, short, tips, upright
from miaudit.report.vega_lite import Chart, Layer, channel, over

if TYPE_CHECKING:
    from miaudit.findings.sensitivity import LimitSensitivity, Sensitivity

NAMES = ("sensitivity",)
_MOST = 10  # covariates that are shown
_LONGEST_NAME = 24
_ROW = 24  # pixels


def charts(sensitivity: Sensitivity) -> dict[str, Chart]:
    """Draw the odds factor of each covariate, and the one that a trait would need; nothing without covariates."""
    if not sensitivity.covariates:
        return {}
    deciding, shown = sensitivity.limits[0], sensitivity.covariates[:_MOST]
    names = distinct([one.covariate for one in shown], _LONGEST_NAME)
    rows = [
        {
            "covariate": names[one.covariate],
            "one": 1.0,
            "odds": one.odds,
            "factor": f"{one.odds:.3g}",
            "moved": "" if one.moved is None else f"{100 * one.moved:+.1f} points",
        }
        for one in shown
    ]
    top = max(deciding.size, *(one.odds for one in shown))
    x = _axis(top)
    y = in_rows("covariate", 160)
    bars = over(rows).mark("bar", color=BLUE, height=13)
    words = over(rows).mark("text", align="left", dx=6, color=GREY, fontSize=11)
    layers: list[Layer] = [
        bars.encode(
            x=channel("one:Q", **x),
            x2="odds:Q",
            y=y,
            tooltip=tips(covariate="Covariate", factor="Factor", moved="Without it"),
        ),
        words.encode(x=channel("odds:Q", **x), y=y, text="moved:N"),
    ]
    if deciding.factor is not None:
        layers.append(upright(deciding.factor, x, RED, strokeDash=[6, 3]))
    title, sentences = _in_words(deciding, sensitivity)
    values = "; ".join(f"{row['covariate']}: {row['factor']}, {row['moved'] or 'not measured'}" for row in rows)
    height = _ROW * len(shown) + 12
    return {"sensitivity": finished(layers, title, sentences, f"{title}. By covariate: {values}.", height)}


def _axis(top: float) -> dict[str, Any]:
    """A logarithmic axis from 1, with room for the words behind the longest bar."""
    end = math.exp(1.35 * math.log(max(top, 1.2)))
    ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500) if tick <= end]
    x = scaled("Factor on the odds of membership", values=ticks, format="~g", grid=True)
    return {**x, "scale": {"type": "log", "domain": [1, end], "nice": False}}


def _in_words(deciding: LimitSensitivity, sensitivity: Sensitivity) -> tuple[str, list[str]]:
    strongest = sensitivity.covariates[0]
    name = short(strongest.covariate)
    what = f"{label_of(deciding.limit)} above {written_limit(deciding.limit, deciding.threshold)}"
    does = f"explain {what}" if deciding.side == "low" else f"hide {what}"
    if deciding.size > strongest.odds:
        title = f"To {does}, an unmeasured trait would have to matter more than {name} does"
    else:
        title = f"An unmeasured trait as strong as {name} could {does}"
    dashes = "" if deciding.factor is None else f" Red dashes: what the trait would need, {deciding.factor:.3g}."
    sentence = (
        f"Bars: the factor by which leaving a covariate out changes the odds of nine records in ten at most.{dashes}"
    )
    moved = f"Beside the bars: how much higher or lower {label_of(deciding.limit)} would be without it."
    rest = len(sensitivity.covariates) - _MOST
    more = [f"The {_MOST} covariates that matter most; {rest} more matter less."] if rest > 0 else []
    return title, [sentence, *([moved] if strongest.moved is not None else []), *more]

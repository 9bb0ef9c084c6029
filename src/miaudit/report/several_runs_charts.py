"""The chart of several runs: the bound by their number, each run by itself, and a proven limit of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miaudit.metrics.rounding import lower_text, percent, upper_text
from miaudit.report.drawing import BLUE, DARK_ORANGE, GREY, RED, finished, scaled, tips
from miaudit.report.vega_lite import Chart, Layer, channel, over

if TYPE_CHECKING:
    from miaudit.findings.audit import ClaimVerdict, SeveralRuns

NAMES = ("runs",)
_HEIGHT = 300


def charts(several: SeveralRuns, claim: ClaimVerdict | None, confidence: float) -> dict[str, Chart]:
    """Draw lower bounds on mu by the number of runs; nothing for one run, or where only their last is known."""
    if len(several.by_number) < 2:
        return {}
    rows = [
        {"run": k, "together": together, "alone": alone, "said": lower_text(together), "one": lower_text(alone)}
        for k, (together, alone) in enumerate(zip(several.by_number, several.alone, strict=True), start=1)
    ]
    x = channel("run:O", axis={"title": "Number of runs", "labelAngle": 0})
    y = scaled("Lower bound on μ", zero=True, format="~r", tickCount=6)
    base = over(rows).encode(x=x)
    shown = tips(run="Runs", said="Together", one="This run by itself")
    layers = [*_levels(several, claim, y)]
    layers.append(base.mark("point", filled=True, size=50, color=GREY, opacity=1).encode(y=channel("alone:Q", **y)))
    layers.append(base.mark("line", color=BLUE, strokeWidth=2).encode(y=channel("together:Q", **y)))
    points = base.mark("point", filled=True, size=90, color=BLUE, opacity=1)
    layers.append(points.encode(y=channel("together:Q", **y), tooltip=shown))
    least = lower_text(several.by_number[-1])
    title = f"{several.runs} runs together show a mu of at least {least} ({percent(confidence)})"
    sentences = ["Blue: the first run, the first two, and so on. Grey: each run by itself."]
    if several.audited < several.runs:
        sentences.append("From three runs on, run 1 chooses the number of guesses and is not audited.")
    if several.ceiling is not None and claim is not None:
        top = upper_text(several.ceiling)
        proven = f"a proven limit of the mean that one run can show of it, {top}"
        sentences.append(f"Red: the claim, {claim.value:g}. Orange dashes: {proven}.")
    values = ", ".join(f"{row['run']}: {row['said']}" for row in rows)
    return {"runs": finished(layers, title, sentences, f"{title}. By the number of runs: {values}.", _HEIGHT)}


def _levels(several: SeveralRuns, claim: ClaimVerdict | None, y: dict[str, Any]) -> list[Layer]:
    if several.ceiling is None or claim is None:
        return []
    lines = [(several.ceiling, DARK_ORANGE, [6, 3]), (claim.value, RED, [1, 0])]
    return [
        over([{"at": at}]).mark("rule", color=colour, strokeDash=dash, strokeWidth=1.5).encode(y=channel("at:Q", **y))
        for at, colour, dash in lines
    ]

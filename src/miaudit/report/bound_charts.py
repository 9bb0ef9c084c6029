"""The chart of privacy bounds: what the runs show, what a theorem guarantees and what is claimed, on one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from miaudit.metrics.rounding import at_least, at_most, percent
from miaudit.report.chart_style import BLUE, DARK_ORANGE, GREY, INK, RED, finished, over, scaled, tips

if TYPE_CHECKING:
    import altair as alt

    from miaudit.findings.audit import Findings

_LINE = 64  # height of the line, between two rows of names above it and two below
_AXIS = 128


def parameter_name(parameter: str, delta: float) -> str:
    """Name a privacy parameter for a reader.

    Examples
    --------
    >>> parameter_name("epsilon", 1e-5), parameter_name("epsilon", 0.0), parameter_name("mu", 0.0)
    ('ε at δ = 1e-5', 'ε at δ = 0', 'μ')
    """
    if parameter == "epsilon":
        return f"ε at δ = {delta:.3g}".replace("e-0", "e-")
    return {"mu": "μ"}.get(parameter, parameter)


def size(value: float | None) -> str:
    """Write a lower bound with three digits, rounded down; zero is nothing shown, never no leakage.

    Examples
    --------
    >>> size(1.23456), size(0.0), size(None)
    ('1.23', 'nothing shown (0)', '–')
    """
    if value is None:
        return "–"
    return "nothing shown (0)" if value == 0 else at_least(value)


def is_void(findings: Findings) -> bool:
    """Say whether the propensity was refuted, so that no bound that rests on it holds."""
    return bool(findings.challenge and findings.challenge.rejected)


def bounds(findings: Findings) -> dict[str, alt.LayerChart]:
    """Draw the bounds of the claim's parameter, or of the first bound where nothing is claimed.

    Nothing is drawn where there is no number, or where a refuted propensity makes the bounds void.
    """
    told = _told(findings)
    return {} if told is None or is_void(findings) else {"bounds": _bounds(told)}


@dataclass(frozen=True)
class _Told:
    """What stands on the line: values of one parameter, 0 or more, each of them possibly missing."""

    parameter: str
    lower: float | None
    confidence: float | None
    reachable: float | None
    upper: float | None = None
    claim: float | None = None

    @property
    def marks(self) -> list[tuple[float, str, str, list[int], int]]:
        """Value, name, colour, dash and row of each mark: the claim and the upper bound stand above the line."""
        at = "" if self.confidence is None else f" ({percent(self.confidence)})"
        lower = size(self.lower) if self.lower == 0 else f"≥ {size(self.lower)}"
        candidates = (
            (self.claim, f"claim ≤ {at_most(self.claim or 0)}", RED, [6, 3], 10),
            (self.upper, f"upper bound ≤ {at_most(self.upper or 0)}", DARK_ORANGE, [1, 0], 34),
            (self.lower, f"lower bound{at} {lower}", BLUE, [1, 0], 94),
            (self.reachable, f"most it could show {at_most(self.reachable or 0)}", GREY, [2, 3], 116),
        )
        return [(value, *rest) for value, *rest in candidates if value is not None]  # type: ignore[misc]


def _told(findings: Findings) -> _Told | None:
    claim, found = findings.claim, findings.bounds
    if claim and (claim.lower is not None or claim.upper is not None):
        sure = {bound.confidence for bound in found}
        return _Told(
            parameter_name(claim.parameter, claim.delta),
            claim.lower,
            sure.pop() if len(sure) == 1 else None,
            claim.reachable,
            claim.upper,
            claim.value,
        )
    if not found:
        return None
    first = found[0]
    name = parameter_name(first.parameter, first.delta)
    return _Told(name, first.value, first.confidence, first.reachable)


def _bounds(told: _Told) -> alt.LayerChart:
    """A line from zero; the stretch that neither the runs nor the theorem rule out is drawn strong."""
    import altair as alt

    marks = told.marks
    top = 1.1 * max(value for value, *_ in marks) or 1.0
    x = scaled(told.parameter, [0, top], zero=True, format="~g", grid=False, tickCount=6, labelFlush=False)
    line = over([{"from": 0, "to": top}]).mark_rule(color=GREY, strokeWidth=1.2)
    layers = [line.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(_LINE))]
    if told.lower is not None and told.upper is not None and told.lower < told.upper:
        between = over(
            [{"from": told.lower, "to": told.upper, "text": f"{at_least(told.lower)} to {at_most(told.upper)}"}]
        )
        strong = between.mark_rule(color=BLUE, strokeWidth=9, opacity=0.3)
        layers.append(
            strong.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(_LINE), tooltip=tips(text="Possible")[0])
        )
    rules = [_rule(value, colour, dash, row, x) for value, _, colour, dash, row in marks]
    names = [layer for value, name, colour, _, row in marks for layer in _name(value, name, colour, row, x)]
    alternative = f"A line from zero with marks: {'; '.join(name for _, name, *_ in marks)}."
    title = _title(told)
    return finished([*layers, *rules, *names], title, _in_words(told), f"{title}. {alternative}", _AXIS)


def _title(told: _Told) -> str:
    sure = "" if told.confidence is None else f" with {percent(told.confidence)} confidence"
    said = [
        f"The runs show nothing about {told.parameter}{sure}"
        if told.lower == 0
        else f"The runs show {told.parameter} to be at least {at_least(told.lower)}{sure}"
        if told.lower is not None
        else "",
        f"a theorem says at most {at_most(told.upper)}" if told.upper is not None else "",
        f"claimed is at most {at_most(told.claim)}" if told.claim is not None else "",
    ]
    text = "; ".join(part for part in said if part)
    return text[:1].upper() + text[1:] if told.lower is not None else f"{told.parameter}: {text}"


def _rule(value: float, colour: str, dash: list[int], row: int, x: dict[str, Any]) -> alt.Chart:
    """A stroke from the name of a mark across the line."""
    import altair as alt

    first, last = (row, _LINE + 9) if row < _LINE else (_LINE - 9, row)
    rule: alt.Chart = (
        over([{"at": value}])
        .mark_rule(color=colour, strokeDash=dash, strokeWidth=2.2)
        .encode(x=alt.X("at:Q", **x), y=alt.value(first), y2=alt.value(last))
    )
    return rule


def _name(value: float, name: str, colour: str, row: int, x: dict[str, Any]) -> list[alt.Chart]:
    """The name of a mark in a row of its own, leaning towards the middle; its halo keeps other strokes from it."""
    import altair as alt

    leans = value > x["scale"].domain[1] / 2
    side: Literal["left", "right"] = "right" if leans else "left"
    ink = INK if colour == GREY else colour
    base = over([{"at": value, "text": name}])
    look: dict[str, Any] = {"align": side, "dx": -6 if leans else 6, "baseline": "middle", "fontSize": 12}
    words = [
        base.mark_text(color="white", stroke="white", strokeWidth=5, fontWeight=600, **look),
        base.mark_text(color=ink, fontWeight=600, **look),
    ]
    return [text.encode(x=alt.X("at:Q", **x), y=alt.value(row), text="text:N") for text in words]


def _in_words(told: _Told) -> list[str]:
    said = []
    if told.upper is not None and told.lower is not None and told.lower < told.upper:
        said.append("Strong stretch: what neither the runs nor the theorem rule out.")
    if told.reachable is not None:
        said.append("Dotted: what an attack without any error could have shown with so much evidence.")
    if told.lower == 0:
        said.append("A lower bound of 0 shows nothing; that is no sign of privacy.")
    return said

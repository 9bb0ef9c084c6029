"""The chart of privacy bounds: what runs and theorems say of one parameter, on a line from zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from miaudit.metrics.rounding import lower_text, percent, upper_text
from miaudit.report.drawing import BLUE, DARK_ORANGE, GREY, INK, RED, finished, scaled, tips
from miaudit.report.vega_lite import Chart, Layer, channel, constant, over

if TYPE_CHECKING:
    from miaudit.findings.audit import Findings

NAMES = ("bounds",)
_ROW, _FIRST = 24, 10  # pixels of a row of names, and of the first


def charts(findings: Findings) -> dict[str, Chart]:
    """Draw the bounds of the claim's parameter, or of the first bound where nothing is claimed, on a line from zero.

    Nothing is drawn where there is no number, or where a refuted propensity makes the bounds void.
    """
    known = None if findings.is_void else _Known.of(findings)
    if known is None:
        return {}
    marks = _marks(known)
    title = _title(known)
    alternative = f"A line from zero with marks: {'; '.join(mark.name for mark in marks)}."
    return {
        "bounds": finished(_layers(known, marks), title, _in_words(known), f"{title}. {alternative}", _height(marks))
    }


@dataclass(frozen=True)
class _Known:
    """What is known of one privacy parameter.

    Attributes
    ----------
    name : of the parameter, for a reader
    lower, confidence : what the runs show, and at which confidence; None where bounds differ in it
    reachable : the most that an attack without error could show
    upper : of a theorem
    claimed : at most
    """

    name: str
    lower: float | None
    confidence: float | None
    reachable: float | None
    upper: float | None = None
    claimed: float | None = None

    @classmethod
    def of(cls, findings: Findings) -> _Known | None:
        """Return what findings hold of the claim's parameter, or of the first bound; None where there is no number."""
        claim, bounds = findings.claim, findings.bounds
        if claim and (claim.lower is not None or claim.upper is not None):
            levels = {bound.confidence for bound in bounds}
            confidence = levels.pop() if len(levels) == 1 else None
            name = parameter_name(claim.parameter, claim.delta)
            return cls(name, claim.lower, confidence, claim.reachable, claim.upper, claim.value)
        if bounds:
            first = bounds[0]
            name = parameter_name(first.parameter, first.delta) + (
                f" ({first.changes} a record)" if first.changes else ""
            )
            return cls(name, first.value, first.confidence, first.reachable)
        return None

    @property
    def gap(self) -> tuple[float, float] | None:
        """What neither the runs nor the theorem rule out, where both are there and apart."""
        if self.lower is None or self.upper is None or self.lower >= self.upper:
            return None
        return self.lower, self.upper


class _Mark(NamedTuple):
    """A mark on the line, with its name in a row of its own."""

    value: float
    name: str
    colour: str
    dash: list[int]
    row: int
    above: bool


_Candidates = tuple[tuple[float | None, str, str, list[int]], ...]


def _marks(known: _Known) -> list[_Mark]:
    """Return what stands on the line: the claim and the upper bound above, what the runs show below."""
    at = "" if known.confidence is None else f" ({percent(known.confidence)})"
    shown = size(known.lower) if known.lower == 0 else f"≥ {size(known.lower)}"
    above: _Candidates = (
        (known.claimed, f"claim ≤ {upper_text(known.claimed or 0)}", RED, [6, 3]),
        (known.upper, f"upper bound ≤ {upper_text(known.upper or 0)}", DARK_ORANGE, [1, 0]),
    )
    below: _Candidates = (
        (known.lower, f"lower bound{at} {shown}", BLUE, [1, 0]),
        (known.reachable, f"most it could show {upper_text(known.reachable or 0)}", GREY, [2, 3]),
    )
    marks: list[_Mark] = []
    for candidates, is_above in ((above, True), (below, False)):
        for value, name, colour, dash in candidates:
            if value is not None:
                row = _FIRST + _ROW * (len(marks) + (not is_above))
                marks.append(_Mark(value, name, colour, dash, row, is_above))
    return marks


def _line(marks: Sequence[_Mark]) -> int:
    """The height of the line: below the names above it, and without room where there are none."""
    return _FIRST + _ROW * sum(mark.above for mark in marks)


def _height(marks: Sequence[_Mark]) -> int:
    return _FIRST + _ROW * (len(marks) + 1)


def _layers(known: _Known, marks: Sequence[_Mark]) -> list[Layer]:
    """The stretch that neither the runs nor the theorem rule out is drawn strong."""
    at = _line(marks)
    top = 1.1 * max(mark.value for mark in marks) or 1.0
    x = scaled(known.name, [0, top], zero=True, format="~r", grid=False, tickCount=6, labelFlush=False)
    line = over([{"from": 0, "to": top}]).mark("rule", color=GREY, strokeWidth=1.2)
    layers = [line.encode(x=channel("from:Q", **x), x2="to:Q", y=constant(at))]
    if known.gap is not None:
        low, high = known.gap
        stretch = over([{"from": low, "to": high, "text": f"{lower_text(low)} to {upper_text(high)}"}])
        strong = stretch.mark("rule", color=BLUE, strokeWidth=9, opacity=0.3)
        tip = tips(text="Possible")[0]
        layers.append(strong.encode(x=channel("from:Q", **x), x2="to:Q", y=constant(at), tooltip=tip))
    layers += [_rule(mark, x, at) for mark in marks]
    return layers + [layer for mark in marks for layer in _name(mark, x)]


def _rule(mark: _Mark, x: dict[str, Any], line: int) -> Layer:
    """A stroke from the name of a mark across the line."""
    first, last = (mark.row, line + 9) if mark.above else (line - 9, mark.row)
    rule: Layer = (
        over([{"at": mark.value}])
        .mark("rule", color=mark.colour, strokeDash=mark.dash, strokeWidth=2.2)
        .encode(x=channel("at:Q", **x), y=constant(first), y2=constant(last))
    )
    return rule


def _name(mark: _Mark, x: dict[str, Any]) -> list[Layer]:
    """The name of a mark in a row of its own, leaning towards the middle; its halo keeps other strokes from it."""
    leans = mark.value > x["scale"]["domain"][1] / 2
    side: Literal["left", "right"] = "right" if leans else "left"
    ink = INK if mark.colour == GREY else mark.colour
    base = over([{"at": mark.value, "text": mark.name}])
    look: dict[str, Any] = {"align": side, "dx": -6 if leans else 6, "baseline": "middle", "fontSize": 12}
    words = [
        base.mark("text", color="white", stroke="white", strokeWidth=5, fontWeight=600, **look),
        base.mark("text", color=ink, fontWeight=600, **look),
    ]
    return [text.encode(x=channel("at:Q", **x), y=constant(mark.row), text="text:N") for text in words]


# -- in words ----------------------------------------------------------------------------------------------------------


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
    return "nothing shown (0)" if value == 0 else lower_text(value)


def _title(known: _Known) -> str:
    name, lower = known.name, known.lower
    sure = "" if known.confidence is None else f" with {percent(known.confidence)} confidence"
    sentences = [
        f"The runs show nothing about {name}{sure}"
        if lower == 0
        else f"The runs show {name} to be at least {lower_text(lower)}{sure}"
        if lower is not None
        else "",
        f"a theorem says at most {upper_text(known.upper)}" if known.upper is not None else "",
        f"claimed is at most {upper_text(known.claimed)}" if known.claimed is not None else "",
    ]
    text = "; ".join(part for part in sentences if part)
    return text[:1].upper() + text[1:] if lower is not None else f"{name}: {text}"


def _in_words(known: _Known) -> list[str]:
    sentences = []
    if known.gap is not None:
        sentences.append("Strong stretch: what neither the runs nor the theorem rule out.")
    if known.reachable is not None:
        sentences.append("Dotted: what an attack without any error could have shown with so much evidence.")
    if known.lower == 0:
        sentences.append("A lower bound of 0 shows nothing. Do not treat it as a sign of privacy.")
    return sentences

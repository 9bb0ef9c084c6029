"""Charts of a comparison of defences: leakage against use, and what each takes off the leakage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from miaudit.findings.disclosure import Compared, DisclosureFindings, Limits
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import in_points, percent
from miaudit.report.drawing import BLUE, GREY, INK, ORANGE, RED, coloured, distinct, finished, scaled, tips
from miaudit.report.vega_lite import Chart, Layer, channel, over

KINDS = {
    "confidence-vector": ("probabilities", BLUE, "circle"),
    "true-label": ("confidence of one label", "#56b4e9", "diamond"),
    "decision-set": ("sets of labels", ORANGE, "square"),
    "label": ("label only", "#009e73", "triangle-up"),
}
TRAINED = ("another training", "#6a3d9a", "cross")
_EFFECTS = {"helps": BLUE, "harms": RED, "not shown": GREY}
_ROW = 26


def tradeoff(findings: DisclosureFindings) -> Chart:
    """Each option as a point with limits: how often a reader's guess is right, and how well the attack does."""
    rows = [_point(i, one) for i, one in enumerate(findings.options)]
    useful = "A reader's best guess is right (records not learned); further right is more useful"
    across = scaled(useful, _span([row[k] for row in rows for k in ("left", "right")]), format="~%", tickCount=6)
    ends = [*(row[k] for row in rows for k in ("low", "high")), 0.5]
    up = scaled("AUC of the attack; lower is more private", _span(ends), format=".2f", tickCount=6)
    chance = over([{"at": 0.5}]).mark("rule", color=GREY, strokeDash=[4, 3])
    front = over(sorted((row for row in rows if row["front"]), key=lambda row: float(row["accuracy"])))
    layers = [
        chance.encode(y=channel("at:Q", **up)),
        front.mark("line", color=GREY, strokeWidth=5, opacity=0.3).encode(
            x=channel("accuracy:Q", **across), y=channel("auc:Q", **up)
        ),
        *_points_with_limits(rows, across, up),
        *_numbers(_labels(rows, across["scale"]["domain"], up["scale"]["domain"]), across, up),
    ]
    title = "What each release gives away and is good for"
    several = sum(bool(row["front"]) for row in rows) > 1  # a line needs two
    thick = "Thick grey: no other option is below and to the right, by the estimates. " if several else ""
    sentences = [
        f"Numbers are those of the table. {thick}"
        f"Bars: {percent(findings.confidence)} limits of each number by itself. Dashed: mere chance."
    ]
    described = "; ".join(f"{row['number']} {row['name']}: {row['words']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {described}.", 340)


def _points_with_limits(
    rows: Sequence[Mapping[str, Any]], across: Mapping[str, Any], up: Mapping[str, Any]
) -> list[Layer]:
    """The point of each option, in the colour and shape of its kind, with limits both ways."""
    names, colours, shapes = _legend(rows)
    legend = {"orient": "top", "title": None, "columns": 3}
    colour = channel("what:N", scale={"domain": names, "range": colours}, legend=legend)
    shape = channel("what:N", scale={"domain": names, "range": shapes}, legend=legend)
    x, y = channel("accuracy:Q", **across), channel("auc:Q", **up)
    bars = over(rows).mark("rule", opacity=0.4)
    points = over(rows).mark("point", filled=True, size=80, opacity=1)
    return [
        bars.encode(x=channel("left:Q", **across), x2="right:Q", y=y, color=colour),
        bars.encode(x=x, y=channel("low:Q", **up), y2="high:Q", color=colour),
        points.encode(x=x, y=y, color=colour, shape=shape, tooltip=tips(name="Option", words="Figures")),
    ]


def _numbers(labels: Sequence[Mapping[str, Any]], across: Mapping[str, Any], up: Mapping[str, Any]) -> list[Layer]:
    """The number of each option above its point, with a halo."""
    look: dict[str, Any] = {"dx": 8, "dy": -8, "align": "left", "fontSize": 12, "fontWeight": 600}
    base = over(labels).encode(x=channel("accuracy:Q", **across), y=channel("auc:Q", **up), text="number:N")
    return [
        base.mark("text", color="white", stroke="white", strokeWidth=4, **look),
        base.mark("text", color=INK, **look),
    ]


def reductions(findings: DisclosureFindings) -> Chart:
    """What each option takes off the AUC of the outputs as they are, with limits that hold for all together."""
    rows = _bars(findings)
    ends = [value for row in rows for value in (row["low"], row["high"])]
    domain = [min(0.0, *ends) - 1, max(0.0, *ends) + 1]
    x = scaled("Points off the attack's AUC (right: more private)", domain, format="~f", tickCount=7)
    order = [row["row"] for row in rows]
    y = channel("row:N", sort=order, title=None, axis={"labelLimit": 260, "labelFontSize": 12, "ticks": False})
    shown = {name: ink for name, ink in _EFFECTS.items() if any(row["effect"] == name for row in rows)}
    base, colour = over(rows), coloured("effect", shown)
    layers = [
        over([{"at": 0.0}]).mark("rule", color=INK).encode(x=channel("at:Q", **x)),
        base.mark("rule", strokeWidth=3, opacity=0.7).encode(x=channel("low:Q", **x), x2="high:Q", y=y, color=colour),
        base.mark("point", filled=True, size=70, opacity=1).encode(
            x=channel("value:Q", **x), y=y, color=colour, tooltip=tips(text="Reduction")
        ),
    ]
    title = _title(findings)
    sentences = [
        f"With {percent(findings.confidence)} confidence all bars hold together. A bar that reaches zero shows no "
        "effect, and no absence of one."
    ]
    described = "; ".join(f"{row['row']}: {row['text']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {described}.", _ROW * len(rows) + 20)


def _bars(findings: DisclosureFindings) -> list[dict[str, Any]]:
    """Return a row for each option that is compared with the outputs as they are, under its number and its words."""
    words = {f"{i} {one.words}": one for i, one in enumerate(findings.options) if one.reduction is not None}
    names = distinct(list(words), 42)
    return [_bar(names[text], one.reduction, one.effect) for text, one in words.items() if one.reduction]


def _title(findings: DisclosureFindings) -> str:
    measures = [one for one in findings.options if one.reduction is not None]
    helping = sum(one.effect == "helps" for one in measures)
    if not helping:
        return "No measure is shown to make the attack weaker"
    return f"{helping} of {len(measures)} measures {'is' if helping == 1 else 'are'} shown to make the attack weaker"


def _point(number: int, one: Compared) -> dict[str, Any]:
    auc, right = one.leakage["auc"], one.accuracy
    what = TRAINED[0] if one.group == "training" else KINDS[one.kind][0]
    share = percent(right.value or 0.0)
    return {
        "number": str(number),
        "name": one.words,
        "what": what,
        "auc": auc.value,
        "low": auc.low,
        "high": auc.high,
        "accuracy": right.value,
        "left": right.low,
        "right": right.high,
        "front": one.front,
        "words": f"AUC {amount('auc', auc.value)}, a guess is right in {share}",
    }


def _labels(rows: Sequence[Mapping[str, Any]], across: list[float], up: list[float]) -> list[dict[str, Any]]:
    """Numbers beside the points; points too near to each other share one text."""
    texts: list[dict[str, Any]] = []
    for row in rows:
        near = next(
            (
                one
                for one in texts
                if abs(one["accuracy"] - row["accuracy"]) < 0.06 * (across[1] - across[0])
                and abs(one["auc"] - row["auc"]) < 0.035 * (up[1] - up[0])
            ),
            None,
        )
        if near is None:
            texts.append({"accuracy": row["accuracy"], "auc": row["auc"], "number": row["number"]})
        else:
            near["number"] += f", {row['number']}"
            near["accuracy"] = max(near["accuracy"], row["accuracy"])
    return texts


def _bar(row: str, reduction: Limits, effect: str) -> dict[str, Any]:
    value, low, high = (None if x is None else 100 * x for x in (reduction.value, reduction.low, reduction.high))
    limits = (
        in_points(reduction.low, "down", sign=False),
        in_points(reduction.high, "up", sign=False),
    )
    text = f"{' to '.join(limits)} points, {effect}"
    return {"row": row, "value": value, "low": low, "high": high, "effect": effect, "text": text}


def _legend(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str], list[str]]:
    looks = [look for look in (*KINDS.values(), TRAINED) if any(row["what"] == look[0] for row in rows)]
    return [name for name, *_ in looks], [colour for _, colour, _ in looks], [shape for *_, shape in looks]


def _span(values: Sequence[float]) -> list[float]:
    """Where shares lie, with some room round them."""
    low, high = min(values), max(values)
    room = max(0.06 * (high - low), 0.01)
    return [max(0.0, low - room), min(1.0, high + 2.5 * room)]

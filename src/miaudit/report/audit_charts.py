"""From findings to Altair charts: one specification each gives the page, SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from miaudit.findings.audit import foremost, named
from miaudit.findings.verdict import LEVEL_NAMES
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, at_least, at_most, between, chance, label, percent
from miaudit.report import overlap_charts, several_runs_charts, vulnerability_charts
from miaudit.report.drawing import (
    BLUE,
    DARK_ORANGE,
    GREY,
    INK,
    RED,
    distinct,
    finished,
    histogram,
    over,
    scaled,
    share,
    short,
    tips,
)

if TYPE_CHECKING:
    import altair as alt

    from miaudit.findings.audit import Curve, Findings, Histogram, ScoreFindings

_HEIGHT = 400
_MOST_CURVES = 8
_HARDLY_RESOLVED = 0.1  # FPR from which less than a decade of a logarithmic axis is left
_CROWDED = 0.9  # share of both classes in one bin, beside which nothing else can be seen
_LINE = 64  # height of the line of bounds, between two rows of names above it and two below
_LIMIT = "limit of the claim"
_Mark = tuple[float, str, str, list[int], int]  # of a bound: value, name, colour, dash and row

_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a6a00", "#6b7683")
_LEVEL_SHADES = ("#f3f5f7", "#e6eaee", "#d8dee4", "#c9d1d9")

NAMES = (
    *("verdict", "shift", "overlap", "calibration", "balance"),
    *("roc-log", "roc-linear", "distribution", "bounds"),
    *vulnerability_charts.NAMES,
    *several_runs_charts.NAMES,
)


def charts(findings: Findings) -> dict[str, alt.LayerChart]:
    """Draw what the findings hold.

    Parameters
    ----------
    findings : Findings
        As they are written: a number that is not finite is None.

    Returns
    -------
    dict
        Layered charts by name, in the order of the page, which is that of :data:`NAMES`; one whose data the findings do
        not have is left out. Each has a width in pixels, a title that states what is seen, and a ``description``: the
        text alternative.
    """
    by_name: dict[str, alt.LayerChart] = {}
    without = left_out(findings)
    if findings.verdict.high is not None and findings.verdict.low is not None and "verdict" not in without:
        by_name["verdict"] = _verdict(findings, findings.verdict.low, findings.verdict.high)
    if findings.memorisation:
        by_name["shift"] = overlap_charts.shift(findings.memorisation)
    if findings.overlap:
        by_name |= overlap_charts.comparability(findings.overlap)
    if headline := findings.curve:
        if "roc-log" not in without:
            by_name["roc-log"] = _roc_log(findings, headline)
        by_name["roc-linear"] = _roc_linear(findings)
    if (shape := findings.scores[0].distribution) and "distribution" not in without:
        by_name["distribution"] = _distribution(findings, shape)
    by_name |= {} if "bounds" in without else _bounds(findings)
    if findings.groups and "groups" not in without:
        by_name |= vulnerability_charts.groups(findings)
    if findings.vulnerability:
        by_name |= vulnerability_charts.charts(findings.vulnerability)
    if findings.several_runs:
        by_name |= several_runs_charts.charts(findings.several_runs, findings.claim, findings.plan["confidence"])
    return by_name


def left_out(findings: Findings) -> dict[str, str]:
    """Return why charts that would be mostly empty are not drawn, by name; nothing is said where words do not miss it.

    The verdict's chart of an effect would have units of the score, which say nothing to whoever reads the first screen.
    """
    drawable = definition.of(findings.verdict.metric).bounded  # no privacy parameter, and no list
    reasons = {} if drawable else {"verdict": ""}
    limit = findings.counts.smallest_fpr
    if findings.curve and limit > _HARDLY_RESOLVED:
        few = f"so few non-members resolve no false-positive rate below {percent(limit, 'down')}"
        reasons["roc-log"] = f"No curve on log axes: {few}."
    shape = findings.scores[0].distribution
    crowded = max(map(min, shape.members, shape.nonmembers)) if shape else 0.0
    if crowded >= _CROWDED:
        share = percent(crowded, "down")
        reasons["distribution"] = f"No histogram: at least {share} of the scores of either class lie in one bin of it."
    if findings.bounds and findings.claim is None and findings.bounds[0].value == 0:
        reasons["bounds"] = ""  # the table says that nothing is shown
    if len(findings.groups) == 1:
        reasons["groups"] = ""
    return reasons


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
    return "nothing shown (0)" if value == 0 else at_least(value)


def nonmembers(findings: Findings) -> str:
    """Say how many non-members the numbers rest on."""
    counts = findings.counts
    sentence = f"{counts.nonmembers:,} non-member {counts.of}"
    if findings.overlap and findings.is_corrected:
        effective = math.floor(findings.overlap.effective_sample_size)
        return f"an effective {effective:,} of {sentence} (fewer above a high threshold)"
    return sentence


# -- the charts -------------------------------------------------------------------------------------------------------


def _verdict(findings: Findings, low: float, high: float) -> alt.LayerChart:
    """The interval of the primary metric against the threshold and the reading levels."""
    import altair as alt

    name, threshold = findings.verdict.metric, findings.verdict.threshold
    x = _verdict_axis(findings, low, high)
    layers: list[alt.Chart] = [*_level_bands(findings, x)] if definition.of(name).has_levels else []
    for at, text, colour, dash, row in (
        (chance(name), "chance", GREY, [2, 3], "bottom"),
        (threshold, f"limit {amount(name, threshold)}", RED, [6, 3], "top"),
    ):
        if at is not None:
            layers += _marked_rule(at, text, colour, dash, x, row)
    tip = [{"low": low, "high": high, "text": between(name, low, high)}]
    bar = over(tip).encode(
        x=alt.X("low:Q", **x), x2="high:Q", y=alt.value(44), tooltip=alt.Tooltip("text:N", title=label(name))
    )
    layers.append(bar.mark_rule(strokeWidth=9, color=BLUE))
    metric = named(findings.metrics, name)
    if metric and metric.value is not None and low <= metric.value <= high:
        layers.append(
            over([{"value": metric.value}])
            .mark_point(filled=True, fill="white", stroke=BLUE, size=90, strokeWidth=2, opacity=1)
            .encode(x=alt.X("value:Q", **x), y=alt.value(44))
        )
    sentence = f"{label(name)}: {percent(findings.verdict.confidence)} interval {between(name, low, high)}"
    title = f"{sentence}, limit {amount(name, threshold)}"
    return finished(layers, title, [], f"{title}.", 88)


def _verdict_axis(findings: Findings, low: float, high: float) -> dict[str, Any]:
    name = findings.verdict.metric
    marks = [low, high, findings.verdict.threshold, chance(name) or 0.0]
    if definition.of(name).has_levels:
        marks.append(findings.plan["levels"][-1])
    spread = (max(marks) - min(marks)) or 1.0
    domain = [min(marks) - 0.06 * spread, max(marks) + 0.1 * spread]
    if definition.of(name).bounded:
        domain = [max(0.0, domain[0]), min(1.0, domain[1])]
    form = "~%" if definition.of(name).form == "percent" else "~g"
    return scaled(label(name), domain, zero=False, format=form, grid=False, tickCount=6, labelFlush=False)


def _level_bands(findings: Findings, x: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    floor, top = x["scale"].domain
    edges = [floor, *(level for level in findings.plan["levels"] if floor < level < top), top]
    rows = []
    for left, right in pairwise(edges):
        rank = sum((left + right) / 2 >= level for level in findings.plan["levels"])
        wide = (right - left) / (top - floor) > 0.02 * len(LEVEL_NAMES[rank])
        rows.append(
            {"left": left, "right": right, "level": LEVEL_NAMES[rank], "name": LEVEL_NAMES[rank] if wide else ""}
        )
    base = over(rows)
    shades = alt.Scale(domain=list(LEVEL_NAMES), range=list(_LEVEL_SHADES))
    bands = base.mark_rect().encode(
        x=alt.X("left:Q", **x),
        x2="right:Q",
        y=alt.value(18),
        y2=alt.value(70),
        color=alt.Color("level:N", scale=shades, legend=None),
        tooltip=alt.Tooltip("level:N", title="reading level"),
    )
    words = base.mark_text(align="right", baseline="bottom", dx=-5, color=GREY, fontSize=11).encode(
        x=alt.X("right:Q", **x), y=alt.value(68), text="name:N"
    )
    return [bands, words]


def _marked_rule(at: float, text: str, colour: str, dash: list[int], x: dict[str, Any], row: str) -> list[alt.Chart]:
    """A dashed line across the verdict's chart, named at its upper or lower end; the name leans towards the middle."""
    import altair as alt

    left, right = x["scale"].domain
    leans = at > (left + right) / 2
    base = over([{"at": at, "text": text}]).encode(x=alt.X("at:Q", **x))
    first, last, name = (2, 70, 9) if row == "top" else (18, 88, 80)
    words = base.mark_text(
        color=colour, fontSize=11, fontWeight=600, align="right" if leans else "left", dx=-5 if leans else 5
    )
    return [
        base.mark_rule(color=colour, strokeDash=dash, strokeWidth=1.6).encode(y=alt.value(first), y2=alt.value(last)),
        words.encode(y=alt.value(name), text="text:N"),
    ]


def _roc_log(findings: Findings, headline: Curve) -> alt.LayerChart:
    """ROC on log-log axes, with the zone of FPRs that so many non-members cannot resolve."""
    import altair as alt

    limit, targets = findings.counts.smallest_fpr, findings.plan["fpr_targets"]
    floor = min(limit / 3, min(targets) / 1.5)
    if limit > math.sqrt(floor):  # else more than half of the axis would be a grey zone
        floor = limit / 3
    floor = max(floor, min(f for f in headline.fpr if f > 0))
    ticks = [10.0**k for k in range(math.ceil(math.log10(floor) - 1e-9), 1)]
    x, y = (
        {
            "scale": alt.Scale(type="log", domain=[floor, 1], nice=False),
            "axis": alt.Axis(values=ticks, format="~%", grid=True),
            "title": title,
        }
        for title in ("False-positive rate (log)", "True-positive rate (log)")
    )
    layers = [
        *_unresolved_zone(findings, floor, x, y),
        *_curves(findings, x, y, floor=floor),
        *_claimed(findings, x, y),
        *_targets(targets, x, floor),
    ]
    title, sentence = _at_target(findings), _legend_in_words(findings)
    if limit > floor:
        sentence.append(
            f"Grey zone: FPRs below {percent(limit, 'down')} cannot be resolved with {nonmembers(findings)}; "
            "only the upper limit (dashed) means anything there."
        )
    return finished(layers, title, sentence, _alternative(findings, "on log-log axes", title), _HEIGHT)


def _roc_linear(findings: Findings) -> alt.LayerChart:
    """ROC on linear axes."""
    x, y = (share(title) for title in ("False-positive rate", "True-positive rate"))
    layers = [
        *_unresolved_zone(findings, 0.0, x, y),
        *_curves(findings, x, y),
        *_claimed(findings, x, y),
        *_targets(findings.plan["fpr_targets"], x, None),
    ]
    auc = named(findings.metrics, "auc")
    title = findings.qualifier + (f"AUC {auc.reading}, chance is 0.5" if auc else "ROC curve")
    return finished(layers, title, _legend_in_words(findings), _alternative(findings, "on linear axes", title), _HEIGHT)


def _curves(findings: Findings, x: dict[str, Any], y: dict[str, Any], floor: float = 0.0) -> list[alt.Chart]:
    """Band, chance line and the curve of each score, drawn where it is resolved and every rate >= ``floor``."""
    import altair as alt

    shown = _shown_scores(findings)
    names = _names(findings)
    rows = [row for score in reversed(shown) for row in _points(score, names[score.score], floor)]
    head = names[shown[0].score]
    colours = alt.Scale(domain=[names[s.score] for s in shown], range=[BLUE, *_OTHERS][: len(shown)])
    legend = alt.Legend(orient="bottom", title=None, symbolStrokeWidth=3)
    best = [row for row in rows if row["score"] == head]
    others = [row for row in rows if row["score"] != head]
    horizontal, vertical = alt.X("fpr:Q", **x), alt.Y("tpr:Q", **y)
    colour = alt.Color("score:N", scale=colours, sort=None, legend=legend if len(shown) > 1 else None)
    diagonal = over([{"fpr": floor, "tpr": floor}, {"fpr": 1, "tpr": 1}])
    band = over(best).mark_area(color=BLUE, opacity=0.17, clip=True)
    layers = [
        band.encode(x=horizontal, y=alt.Y("low:Q", **y), y2="high:Q"),
        diagonal.mark_line(color=GREY, strokeDash=[5, 4], strokeWidth=1.4).encode(x=horizontal, y=vertical),
    ]
    if others:
        thin = over(others).mark_line(strokeWidth=1.6, opacity=0.75, clip=True)
        layers.append(thin.encode(x=horizontal, y=vertical, color=colour))
    strong = over(best)
    layers.append(strong.mark_line(strokeWidth=2.8, clip=True).encode(x=horizontal, y=vertical, color=colour))
    touch = strong.mark_circle(size=140, opacity=0, clip=True)
    layers.append(
        touch.encode(
            x=horizontal, y=vertical, tooltip=tips(score="Score", at="FPR", **{"is": "TPR"}, limits="Interval")
        )
    )
    return layers


def _claimed(findings: Findings, x: dict[str, Any], y: dict[str, Any]) -> list[alt.Chart]:
    """The ROC curve that the claim allows at most, with an entry of its own in the legend."""
    import altair as alt

    limit = findings.claim.limit if findings.claim else None
    if limit is None:
        return []
    # A logarithm has no zero; where the line enters the picture it is clipped.
    rows = [
        {"fpr": fpr, "tpr": tpr, "line": _LIMIT, "at": percent(fpr), "is": f"at most {percent(tpr, 'up')}"}
        for fpr, tpr in zip(limit.fpr, limit.tpr, strict=True)
        if x["scale"].type != "log" or (fpr > 0 and tpr > 0)
    ]
    # Below the diagonal there is room at every width, where one more legend under the picture has none on a phone.
    look: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 2, "symbolDash": [7, 4], "symbolSize": 400}
    legend = alt.Legend(orient="bottom-right", title=None, fillColor="white", padding=4, **look)
    stroke = alt.Stroke("line:N", scale=alt.Scale(domain=[_LIMIT], range=[RED]), legend=legend)
    line = over(rows).mark_line(strokeDash=[7, 4], strokeWidth=2, clip=True)
    return [
        line.encode(
            x=alt.X("fpr:Q", **x),
            y=alt.Y("tpr:Q", **y),
            stroke=stroke,
            tooltip=tips(line="Line", at="FPR", **{"is": "TPR"}),
        )
    ]


def _points(score: ScoreFindings, name: str, floor: float) -> list[dict[str, Any]]:
    rows = []
    for fpr, tpr, low, high in score.curve.points if score.curve else ():
        if tpr is None or fpr < floor or tpr < floor:
            continue
        words = {"at": percent(fpr), "is": percent(tpr), "limits": f"{percent(low, 'down')} to {percent(high, 'up')}"}
        rows.append({"score": name, "fpr": fpr, "tpr": tpr, "low": max(low, floor), "high": max(high, floor), **words})
    return rows


def _unresolved_zone(findings: Findings, floor: float, x: dict[str, Any], y: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    limit = findings.counts.smallest_fpr
    if limit <= floor:
        return []
    edge = [{"from": floor, "to": limit}]
    zone = over(edge).mark_rect(color="#8a94a0", opacity=0.18)
    layers = [zone.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(0), y2=alt.value("height"))]
    if limit > 0.15 if floor == 0 else math.log(limit / floor) > -0.05 * math.log(floor):
        words = over(edge).mark_text(
            text="not resolved: upper limit only", angle=270, align="right", dy=-9, fontSize=11, color="#47515c"
        )
        layers.append(words.encode(x=alt.X("to:Q", **x), y=alt.value(26)))
    inside = []
    headline = findings.scores[0].curve
    for fpr, tpr, _, high in headline.points if headline else ():
        if fpr >= floor:
            inside.append(
                {"fpr": fpr, "high": max(high, floor), "text": f"at most {percent(high, 'up')}", "at": percent(fpr)}
            )
        if tpr is not None:
            break  # the first resolved point joins the dashes to the curve
    upper = over(inside).mark_line(color=BLUE, strokeDash=[3, 3], strokeWidth=1.6, clip=True)
    layers.append(upper.encode(x=alt.X("fpr:Q", **x), y=alt.Y("high:Q", **y), tooltip=tips(at="FPR", text="TPR")))
    return layers


def _targets(targets: Sequence[float], x: dict[str, Any], floor: float | None) -> list[alt.Chart]:
    """Vertical rules at the FPR targets; on log axes there is room for their names."""
    import altair as alt

    rows = [{"fpr": t, "name": percent(t)} for t in targets if floor is None or t > floor]
    base = over(rows).encode(x=alt.X("fpr:Q", **x))
    layers = [base.mark_rule(color=INK, strokeWidth=0.9, opacity=0.55, strokeDash=[1, 3])]
    if floor is not None:
        words = base.mark_text(align="left", dx=3, baseline="top", fontSize=11, color=INK)
        layers.append(words.encode(y=alt.value(4), text="name:N"))
    return layers


def _distribution(findings: Findings, shape: Histogram) -> alt.LayerChart:
    """Shares of members and non-members over the score."""
    name = short(findings.scores[0].score)
    effect = named(findings.metrics, "ate")
    if findings.design == "zero-run" and not findings.is_raw_only:
        title = "Raw, not causal: the scores as they were observed, before any weighting"
    elif effect:
        title = f"{findings.qualifier}Mean score of members less that of non-members: {effect.reading}"
    else:
        title = f"{findings.qualifier}Distribution of the score"
    sentence = (
        "Higher is more member-like: where the two shapes part at the right end, members can be accused with few false "
        "alarms. The first and the last bin hold the tails."
    )
    layers = histogram(shape, name, "Score")
    return finished(layers, title, [sentence], f"Histogram of {name} for members and for non-members. {title}.", 300)


def _bounds(findings: Findings) -> dict[str, alt.LayerChart]:
    """The bounds of the claim's parameter, or of the first bound where nothing is claimed, on a line from zero.

    Nothing is drawn where there is no number, or where a refuted propensity makes the bounds void.
    """
    claim, bounds, upper, claimed = findings.claim, findings.bounds, None, None
    if findings.is_void:
        return {}
    if claim and (claim.lower is not None or claim.upper is not None):
        sure = {bound.confidence for bound in bounds}
        confidence = sure.pop() if len(sure) == 1 else None
        name, lower, reachable = parameter_name(claim.parameter, claim.delta), claim.lower, claim.reachable
        upper, claimed = claim.upper, claim.value
    elif bounds:
        first = bounds[0]
        name, lower, reachable = parameter_name(first.parameter, first.delta), first.value, first.reachable
        confidence = first.confidence
    else:
        return {}
    marks = _bound_marks(lower, confidence, reachable, upper, claimed)
    title = _bounds_title(name, lower, confidence, upper, claimed)
    alternative = f"A line from zero with marks: {'; '.join(mark for _, mark, *_ in marks)}."
    layers, sentence = _bound_layers(name, lower, upper, marks), _bounds_in_words(lower, upper, reachable)
    return {"bounds": finished(layers, title, sentence, f"{title}. {alternative}", 2 * _LINE)}


def _bound_marks(
    lower: float | None,
    confidence: float | None,
    reachable: float | None,
    upper: float | None,
    claimed: float | None,
) -> list[_Mark]:
    """What stands on the line, where it is known: the claim and the upper bound above, what the runs show below."""
    at = "" if confidence is None else f" ({percent(confidence)})"
    shown = size(lower) if lower == 0 else f"≥ {size(lower)}"
    candidates: tuple[tuple[float | None, str, str, list[int], int], ...] = (
        (claimed, f"claim ≤ {at_most(claimed or 0)}", RED, [6, 3], 10),
        (upper, f"upper bound ≤ {at_most(upper or 0)}", DARK_ORANGE, [1, 0], 34),
        (lower, f"lower bound{at} {shown}", BLUE, [1, 0], 94),
        (reachable, f"most it could show {at_most(reachable or 0)}", GREY, [2, 3], 116),
    )
    return [(value, *rest) for value, *rest in candidates if value is not None]  # type: ignore[misc]


def _bound_layers(name: str, lower: float | None, upper: float | None, marks: Sequence[_Mark]) -> list[alt.Chart]:
    """The stretch that neither the runs nor the theorem rule out is drawn strong."""
    import altair as alt

    top = 1.1 * max(value for value, *_ in marks) or 1.0
    x = scaled(name, [0, top], zero=True, format="~g", grid=False, tickCount=6, labelFlush=False)
    line = over([{"from": 0, "to": top}]).mark_rule(color=GREY, strokeWidth=1.2)
    layers = [line.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(_LINE))]
    if lower is not None and upper is not None and lower < upper:
        between = over([{"from": lower, "to": upper, "text": f"{at_least(lower)} to {at_most(upper)}"}])
        strong = between.mark_rule(color=BLUE, strokeWidth=9, opacity=0.3)
        tip = tips(text="Possible")[0]
        layers.append(strong.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(_LINE), tooltip=tip))
    layers += [_bound_rule(value, colour, dash, row, x) for value, _, colour, dash, row in marks]
    return layers + [
        layer for value, mark, colour, _, row in marks for layer in _bound_name(value, mark, colour, row, x)
    ]


def _bounds_title(
    name: str, lower: float | None, confidence: float | None, upper: float | None, claimed: float | None
) -> str:
    sure = "" if confidence is None else f" with {percent(confidence)} confidence"
    sentences = [
        f"The runs show nothing about {name}{sure}"
        if lower == 0
        else f"The runs show {name} to be at least {at_least(lower)}{sure}"
        if lower is not None
        else "",
        f"a theorem says at most {at_most(upper)}" if upper is not None else "",
        f"claimed is at most {at_most(claimed)}" if claimed is not None else "",
    ]
    text = "; ".join(part for part in sentences if part)
    return text[:1].upper() + text[1:] if lower is not None else f"{name}: {text}"


def _bound_rule(value: float, colour: str, dash: list[int], row: int, x: dict[str, Any]) -> alt.Chart:
    """A stroke from the name of a mark across the line."""
    import altair as alt

    first, last = (row, _LINE + 9) if row < _LINE else (_LINE - 9, row)
    rule: alt.Chart = (
        over([{"at": value}])
        .mark_rule(color=colour, strokeDash=dash, strokeWidth=2.2)
        .encode(x=alt.X("at:Q", **x), y=alt.value(first), y2=alt.value(last))
    )
    return rule


def _bound_name(value: float, name: str, colour: str, row: int, x: dict[str, Any]) -> list[alt.Chart]:
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


def _bounds_in_words(lower: float | None, upper: float | None, reachable: float | None) -> list[str]:
    sentences = []
    if upper is not None and lower is not None and lower < upper:
        sentences.append("Strong stretch: what neither the runs nor the theorem rule out.")
    if reachable is not None:
        sentences.append("Dotted: what an attack without any error could have shown with so much evidence.")
    if lower == 0:
        sentences.append("A lower bound of 0 shows nothing; that is no sign of privacy.")
    return sentences


# -- which numbers are drawn, and what is said of them -----------------------------------------------------------------


def _shown_scores(findings: Findings) -> list[ScoreFindings]:
    """The headline and, of the others, those with the largest AUC; corrected curves are never mixed with raw ones."""

    def auc(score: ScoreFindings) -> float:
        metric = named(score.metrics, "auc")
        return float(metric.value or 0.0) if metric else 0.0

    head, *others = (score for score in findings.scores if score.curve)
    others = [score for score in others if score.is_corrected == head.is_corrected]
    return [head, *sorted(others, key=auc, reverse=True)[: _MOST_CURVES - 1]]


def _names(findings: Findings) -> dict[str, str]:
    return distinct([score.score for score in findings.scores])


def _at_target(findings: Findings) -> str:
    """State the TPR at the primary target, or else at the smallest that has a value."""
    rates = [m for m in foremost(findings.metrics) if definition.of(m.name).fpr is not None]
    if not rates:
        return f"{findings.qualifier}ROC curve"
    chosen = named(rates, findings.verdict.metric) or next((m for m in rates if m.value is not None), rates[0])
    at, name = percent(definition.of(chosen.name).fpr or 0.0), short(findings.scores[0].score)
    if chosen.high is None:
        return f"{findings.qualifier}At {at} FPR nothing is resolved"
    if chosen.value is None:
        return f"{findings.qualifier}At {at} FPR only a limit: {name} finds {chosen.interval} of members"
    return f"{findings.qualifier}At {at} FPR {name} finds {chosen.reading} of members"


def _legend_in_words(findings: Findings) -> list[str]:
    shown = _shown_scores(findings)
    sure = percent(findings.plan["confidence"])
    sentence = f"Shaded: {sure} interval at each FPR. Dashes: chance. Dotted: FPR targets."
    if findings.claim and findings.claim.limit:
        sentence += " Red dashes: the most that the claim allows"
        sentence += "; a raw curve above them refutes nothing." if findings.is_raw_only else "."
    if len(shown) == 1:
        return [sentence]
    left_out = len(findings.scores) - len(shown)
    more = f" {left_out} more scores are in the table." if left_out else ""
    return [f"{sentence} Strong line: {_names(findings)[shown[0].score]}, the headline score.{more}"]


def _alternative(findings: Findings, axes: str, title: str) -> str:
    rates = [m for m in foremost(findings.metrics) if m.name == "auc" or definition.of(m.name).fpr is not None]
    numbers = "; ".join(f"{label(m.name)}: {m.reading}" for m in rates)
    name = short(findings.scores[0].score)
    return f"ROC curve {axes} of {name}, with interval band and chance line. {title}. {numbers}."

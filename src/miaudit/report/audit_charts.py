"""From findings to Altair charts: one specification each gives the page, SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from miaudit.findings.metric import foremost, named
from miaudit.findings.verdict import LEVEL_NAMES
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, between, chance, label
from miaudit.metrics.rounding import percent
from miaudit.report import (
    bound_charts,
    by_covariates_charts,
    overlap_charts,
    sensitivity_charts,
    several_runs_charts,
    vulnerability_charts,
)
from miaudit.report.drawing import (
    BLUE,
    GREY,
    INK,
    RED,
    distinct,
    finished,
    histogram,
    scaled,
    share,
    short,
    tips,
)
from miaudit.report.vega_lite import Chart, Layer, Part, channel, constant, over

if TYPE_CHECKING:
    from miaudit.findings.audit import Curve, Findings, Histogram, ScoreFindings

_HEIGHT = 400
_MOST_CURVES = 8
_HARDLY_RESOLVED = 0.1  # FPR from which less than a decade of a logarithmic axis is left
_CROWDED = 0.9  # share of both classes in one bin, beside which nothing else can be seen
_LIMIT = "limit of the claim"

_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a6a00", "#6b7683")
_LEVEL_SHADES = ("#f3f5f7", "#e6eaee", "#d8dee4", "#c9d1d9")

NAMES = (
    *("verdict", "shift"),
    *sensitivity_charts.NAMES,
    *("overlap", "calibration", "balance"),
    *("roc-log", "roc-linear", "distribution"),
    *bound_charts.NAMES,
    *vulnerability_charts.NAMES,
    *by_covariates_charts.NAMES,
    *several_runs_charts.NAMES,
)


def charts(findings: Findings) -> dict[str, Chart]:
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
    by_name: dict[str, Chart] = {}
    without = left_out(findings)
    if findings.verdict.high is not None and findings.verdict.low is not None and "verdict" not in without:
        by_name["verdict"] = _verdict(findings, findings.verdict.low, findings.verdict.high)
    if findings.memorisation:
        by_name["shift"] = overlap_charts.shift(findings.memorisation)
    if findings.sensitivity:
        by_name |= sensitivity_charts.charts(findings.sensitivity)
    if findings.overlap:
        by_name |= overlap_charts.comparability(findings.overlap)
    if headline := findings.curve:
        if "roc-log" not in without:
            by_name["roc-log"] = _roc_log(findings, headline)
        by_name["roc-linear"] = _roc_linear(findings)
    if (shape := findings.scores[0].distribution) and "distribution" not in without:
        by_name["distribution"] = _distribution(findings, shape)
    by_name |= {} if "bounds" in without else bound_charts.charts(findings)
    if findings.groups and "groups" not in without:
        by_name |= vulnerability_charts.groups(findings)
    if findings.vulnerability:
        by_name |= vulnerability_charts.charts(findings.vulnerability)
    if findings.by_covariates:
        by_name |= by_covariates_charts.charts(findings.by_covariates)
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


def nonmembers(findings: Findings) -> str:
    """Say how many non-members the numbers rest on."""
    counts = findings.counts
    sentence = counts.in_words[1] if counts.of == "strings" else f"{counts.nonmembers:,} non-member {counts.of}"
    if findings.overlap and findings.is_corrected:
        effective = math.floor(findings.overlap.effective_sample_size)
        return f"an effective {effective:,} of {sentence} (fewer above a high threshold)"
    return sentence


# -- the charts -------------------------------------------------------------------------------------------------------


def _verdict(findings: Findings, low: float, high: float) -> Chart:
    """The interval of the primary metric against the threshold and the reading levels."""
    name, threshold = findings.verdict.metric, findings.verdict.threshold
    x = _verdict_axis(findings, low, high)
    layers: list[Layer] = [*_level_bands(findings, x)] if definition.of(name).has_levels else []
    for at, text, colour, dash, row in (
        (chance(name), "chance", GREY, [2, 3], "bottom"),
        (threshold, f"limit {amount(name, threshold)}", RED, [6, 3], "top"),
    ):
        if at is not None:
            layers += _marked_rule(at, text, colour, dash, x, row)
    tip = [{"low": low, "high": high, "text": between(name, low, high)}]
    bar = over(tip).encode(
        x=channel("low:Q", **x), x2="high:Q", y=constant(44), tooltip=channel("text:N", title=label(name))
    )
    layers.append(bar.mark("rule", strokeWidth=9, color=BLUE))
    metric = named(findings.metrics, name)
    if metric and metric.value is not None and low <= metric.value <= high:
        layers.append(
            over([{"value": metric.value}])
            .mark("point", filled=True, fill="white", stroke=BLUE, size=90, strokeWidth=2, opacity=1)
            .encode(x=channel("value:Q", **x), y=constant(44))
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


def _level_bands(findings: Findings, x: dict[str, Any]) -> list[Layer]:
    floor, top = x["scale"]["domain"]
    edges = [floor, *(level for level in findings.plan["levels"] if floor < level < top), top]
    rows = []
    for left, right in pairwise(edges):
        rank = sum((left + right) / 2 >= level for level in findings.plan["levels"])
        wide = (right - left) / (top - floor) > 0.02 * len(LEVEL_NAMES[rank])
        rows.append(
            {"left": left, "right": right, "level": LEVEL_NAMES[rank], "name": LEVEL_NAMES[rank] if wide else ""}
        )
    base = over(rows)
    shades = {"domain": list(LEVEL_NAMES), "range": list(_LEVEL_SHADES)}
    bands = base.mark("rect").encode(
        x=channel("left:Q", **x),
        x2="right:Q",
        y=constant(18),
        y2=constant(70),
        color=channel("level:N", scale=shades, legend=None),
        tooltip=channel("level:N", title="reading level"),
    )
    words = base.mark("text", align="right", baseline="bottom", dx=-5, color=GREY, fontSize=11).encode(
        x=channel("right:Q", **x), y=constant(68), text="name:N"
    )
    return [bands, words]


def _marked_rule(at: float, text: str, colour: str, dash: list[int], x: dict[str, Any], row: str) -> list[Layer]:
    """A dashed line across the verdict's chart, named at its upper or lower end; the name leans towards the middle."""
    left, right = x["scale"]["domain"]
    leans = at > (left + right) / 2
    base = over([{"at": at, "text": text}]).encode(x=channel("at:Q", **x))
    first, last, name = (2, 70, 9) if row == "top" else (18, 88, 80)
    words = base.mark(
        "text", color=colour, fontSize=11, fontWeight=600, align="right" if leans else "left", dx=-5 if leans else 5
    )
    return [
        base.mark("rule", color=colour, strokeDash=dash, strokeWidth=1.6).encode(y=constant(first), y2=constant(last)),
        words.encode(y=constant(name), text="text:N"),
    ]


def _roc_log(findings: Findings, headline: Curve) -> Chart:
    """ROC on log-log axes, with the zone of FPRs that so many non-members cannot resolve."""
    limit, targets = findings.counts.smallest_fpr, findings.plan["fpr_targets"]
    floor = min(limit / 3, min(targets) / 1.5)
    if limit > math.sqrt(floor):  # else more than half of the axis would be a grey zone
        floor = limit / 3
    floor = max(floor, min(f for f in headline.fpr if f > 0))
    ticks = [10.0**k for k in range(math.ceil(math.log10(floor) - 1e-9), 1)]
    x, y = (
        {
            "scale": {"type": "log", "domain": [floor, 1], "nice": False},
            "axis": {"values": ticks, "format": "~%", "grid": True},
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


def _roc_linear(findings: Findings) -> Chart:
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


def _curves(findings: Findings, x: dict[str, Any], y: dict[str, Any], floor: float = 0.0) -> list[Layer]:
    """Band, chance line and the curve of each score, drawn where it is resolved and every rate >= ``floor``."""
    shown, names = _shown_scores(findings), _names(findings)
    rows = [row for score in reversed(shown) for row in _points(score, names[score.score], floor)]
    best = [row for row in rows if row["score"] == names[shown[0].score]]
    others = [row for row in rows if row["score"] != names[shown[0].score]]
    across, up = channel("fpr:Q", **x), channel("tpr:Q", **y)
    colour = _colour_of_scores([names[score.score] for score in shown])
    diagonal = over([{"fpr": floor, "tpr": floor}, {"fpr": 1, "tpr": 1}])
    band = over(best).mark("area", color=BLUE, fillOpacity=0.17)
    layers = [
        band.encode(x=across, y=channel("low:Q", **y), y2="high:Q"),
        diagonal.mark("line", color=GREY, strokeDash=[5, 4], strokeWidth=1.4).encode(x=across, y=up),
    ]
    if others:
        thin = over(others).mark("line", strokeWidth=1.6, opacity=0.75, clip=True)
        layers.append(thin.encode(x=across, y=up, color=colour))
    strong = over(best).mark("line", strokeWidth=2.8, clip=True)
    layers.append(strong.encode(x=across, y=up, color=colour))
    touch = over(best).mark("circle", size=140, opacity=0, clip=True)
    tooltip = tips(score="Score", at="FPR", **{"is": "TPR"}, limits="Interval")
    layers.append(touch.encode(x=across, y=up, tooltip=tooltip))
    return layers


def _colour_of_scores(names: Sequence[str]) -> Part:
    """A colour for each score, the headline first, with a legend where there are several."""
    scale = {"domain": list(names), "range": [BLUE, *_OTHERS][: len(names)]}
    legend = {"orient": "bottom", "title": None, "symbolStrokeWidth": 3} if len(names) > 1 else None
    return channel("score:N", scale=scale, sort=None, legend=legend)


def _claimed(findings: Findings, x: dict[str, Any], y: dict[str, Any]) -> list[Layer]:
    """The ROC curve that the claim allows at most, with an entry of its own in the legend."""
    limit = findings.claim.limit if findings.claim else None
    if limit is None:
        return []
    # A logarithm has no zero; where the line enters the picture it is clipped.
    rows = [
        {"fpr": fpr, "tpr": tpr, "line": _LIMIT, "at": percent(fpr), "is": f"at most {percent(tpr, 'up')}"}
        for fpr, tpr in zip(limit.fpr, limit.tpr, strict=True)
        if x["scale"].get("type") != "log" or (fpr > 0 and tpr > 0)
    ]
    # Below the diagonal there is room at every width, where one more legend under the picture has none on a phone.
    look: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 2, "symbolDash": [7, 4], "symbolSize": 400}
    legend = dict(orient="bottom-right", title=None, fillColor="white", padding=4, **look)
    stroke = channel("line:N", scale={"domain": [_LIMIT], "range": [RED]}, legend=legend)
    line = over(rows).mark("line", strokeDash=[7, 4], strokeWidth=2, clip=True)
    return [
        line.encode(
            x=channel("fpr:Q", **x),
            y=channel("tpr:Q", **y),
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


def _unresolved_zone(findings: Findings, floor: float, x: dict[str, Any], y: dict[str, Any]) -> list[Layer]:
    limit = findings.counts.smallest_fpr
    if limit <= floor:
        return []
    edge = [{"from": floor, "to": limit}]
    zone = over(edge).mark("rect", color="#8a94a0", fillOpacity=0.18)
    layers = [zone.encode(x=channel("from:Q", **x), x2="to:Q", y=constant(0), y2=constant("height"))]
    inside = []
    headline = findings.scores[0].curve
    for fpr, tpr, _, high in headline.points if headline else ():
        if fpr >= floor:
            inside.append(
                {"fpr": fpr, "high": max(high, floor), "text": f"at most {percent(high, 'up')}", "at": percent(fpr)}
            )
        if tpr is not None:
            break  # the first resolved point joins the dashes to the curve
    upper = over(inside).mark("line", color=BLUE, strokeDash=[3, 3], strokeWidth=1.6, clip=True)
    layers.append(upper.encode(x=channel("fpr:Q", **x), y=channel("high:Q", **y), tooltip=tips(at="FPR", text="TPR")))
    if limit > 0.15 if floor == 0 else math.log(limit / floor) > -0.05 * math.log(floor):
        look = {"angle": 270, "align": "right", "dy": -9, "fontSize": 11, "text": "not resolved: upper limit only"}
        words = over(edge).encode(x=channel("to:Q", **x), y=constant(26))
        layers += _with_halo(words, "#47515c", "#eaecee", look)  # the colour of the zone
    return layers


def _with_halo(base: Layer, ink: str, halo: str, look: dict[str, Any]) -> list[Layer]:
    """Words over lines: a halo in the colour of the ground keeps the lines from their letters."""
    return [base.mark("text", color=halo, stroke=halo, strokeWidth=4, **look), base.mark("text", color=ink, **look)]


def _targets(targets: Sequence[float], x: dict[str, Any], floor: float | None) -> list[Layer]:
    """Vertical rules at the FPR targets; on log axes there is room for their names."""
    rows = [{"fpr": t, "name": percent(t)} for t in targets if floor is None or t > floor]
    base = over(rows).encode(x=channel("fpr:Q", **x))
    layers = [base.mark("rule", color=INK, strokeWidth=0.9, opacity=0.55, strokeDash=[1, 3])]
    if floor is not None:
        look = {"align": "left", "dx": 3, "baseline": "top", "fontSize": 11}
        layers += _with_halo(base.encode(y=constant(4), text="name:N"), INK, "#ffffffcc", look)
    return layers


def _distribution(findings: Findings, shape: Histogram) -> Chart:
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

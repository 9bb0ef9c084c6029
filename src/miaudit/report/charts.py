"""From the plain values of findings to Altair charts: one specification each gives the page, SVG and PNG."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from miaudit.concern import LEVEL_NAMES
from miaudit.errors import one_line
from miaudit.wording import amount, chance, interval, label, percent, reading, target

if TYPE_CHECKING:
    import altair as alt

WIDTH = 560
_HEIGHT = 400
_MOST_CURVES = 8
_MOST_GROUPS = 40
_MOST_FEATURES = 30
_TPR = "tpr_at_fpr_"

# Okabe and Ito's palette: told apart by readers with any of the common kinds of colour blindness.
_BLUE, _ORANGE, _INK, _GREY, _RED = "#0072b2", "#d55e00", "#1c2530", "#6b7683", "#b3261e"
_DARK_ORANGE = "#a34700"  # for words: the orange of shapes is too light to read
_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a6a00", "#6b7683")
_LEVEL_SHADES = ("#f3f5f7", "#e6eaee", "#d8dee4", "#c9d1d9")
_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"


NAMES = (
    *("verdict", "shift", "overlap", "calibration", "balance"),
    *("roc-log", "roc-linear", "distribution", "groups"),
)


def charts(findings: Mapping[str, Any]) -> dict[str, alt.LayerChart]:
    """Draw what the findings hold.

    Parameters
    ----------
    findings : mapping
        Plain values as in findings.json (``Findings.to_dict()``).

    Returns
    -------
    dict
        Layered charts by name, in the order of the page, which is that of :data:`NAMES`; one whose data the findings do
        not have is left out. Each has a width in pixels, a title that states what is seen, and a ``description``: the
        text alternative.
    """
    headline = findings["scores"][0]
    drawn: dict[str, alt.LayerChart] = {}
    if findings["verdict"]["high"] is not None and findings["verdict"]["low"] is not None:
        drawn["verdict"] = _verdict(findings)
    if findings["memorisation"]:
        drawn["shift"] = _shift(findings)
    if findings["overlap"]:
        drawn |= _comparability(findings)
    if curve(findings):
        drawn["roc-log"] = _roc_log(findings)
        drawn["roc-linear"] = _roc_linear(findings)
    if headline["distribution"]:
        drawn["distribution"] = _distribution(findings)
    if any(_primary_of(findings, group["metrics"]) for group in findings["groups"]):
        drawn["groups"] = _groups(findings)
    return drawn


def svg(spec: Mapping[str, Any]) -> str:
    """Render a Vega-Lite specification (``chart.to_dict()``) as SVG text, offline; equal ones give equal text."""
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(json.dumps(spec), allowed_base_urls=[]))
    # The renderer numbers its clipping paths through the life of the process.
    numbers = {name: f"clip{i}" for i, name in enumerate(re.findall(r'<clipPath id="(clip\d+)"', drawn))}
    return re.sub(r'(<clipPath id="|clip-path="url\(#)(clip\d+)', lambda m: m[1] + numbers.get(m[2], m[2]), drawn)


def png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """Render a Vega-Lite specification as PNG bytes, offline; ``scale`` pixels for each unit of its size."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(json.dumps(spec), scale=scale, allowed_base_urls=[]))


# -- looking things up -------------------------------------------------------------------------------------------------


def foremost(metrics: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one metric of each name: of the corrected ones where there are any, else of the raw ones."""
    metrics = list(metrics)
    kept = [metric for metric in metrics if metric["estimator"] != "raw"] or metrics
    return list({metric["name"]: metric for metric in reversed(kept)}.values())[::-1]


def named(metrics: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the metric of that name, a raw one only where nothing was corrected, or None."""
    return next((metric for metric in foremost(metrics) if metric["name"] == name), None)


def curve(findings: Mapping[str, Any]) -> Mapping[str, Sequence[float]] | None:
    """Return the curve of the headline score; None where there is none, or no metric that it could be of."""
    found: Mapping[str, Sequence[float]] | None = findings["scores"][0]["curve"]
    return found if findings["metrics"] else None


def is_corrected(findings: Mapping[str, Any]) -> bool:
    """Say whether the headline numbers were corrected for the difference between members and non-members."""
    return any(metric["estimator"] != "raw" for metric in findings["metrics"])


def is_raw_only(findings: Mapping[str, Any]) -> bool:
    """Say whether there are numbers, all of them uncorrected although membership was not randomised."""
    return bool(findings["design"] == "zero-run" and findings["metrics"] and not is_corrected(findings))


def nonmembers(findings: Mapping[str, Any]) -> str:
    """Say how many non-members the numbers rest on."""
    counts = findings["counts"]
    said = f"{counts['nonmembers']:,} non-member {counts['of']}"
    if findings["overlap"] and is_corrected(findings):
        return f"an effective {math.floor(findings['overlap']['effective_sample_size']):,} of {said}"
    return said


# -- the charts -------------------------------------------------------------------------------------------------------


def _verdict(findings: Mapping[str, Any]) -> alt.LayerChart:
    """The interval of the primary metric against the threshold and the reading levels."""
    import altair as alt

    verdict, name = findings["verdict"], findings["verdict"]["metric"]
    low, high, threshold = verdict["low"], verdict["high"], verdict["threshold"]
    x = _verdict_axis(findings)
    layers: list[alt.Chart] = [*_level_bands(findings, x)] if name.startswith(_TPR) else []
    for at, text, colour, dash, row in (
        (chance(name), "chance", _GREY, [2, 3], "bottom"),
        (threshold, f"threshold {amount(name, threshold)}", _RED, [6, 3], "top"),
    ):
        if at is not None:
            layers += _marked_rule(at, text, colour, dash, x, row)
    tip = [{"low": low, "high": high, "text": f"{amount(name, low)} to {amount(name, high)}"}]
    bar = _over(tip).encode(
        x=alt.X("low:Q", **x), x2="high:Q", y=alt.value(44), tooltip=alt.Tooltip("text:N", title=label(name))
    )
    layers.append(bar.mark_rule(strokeWidth=9, color=_BLUE))
    metric = named(findings["metrics"], name)
    if metric and metric["value"] is not None and low <= metric["value"] <= high:
        layers.append(
            _over([{"value": metric["value"]}])
            .mark_point(filled=True, fill="white", stroke=_BLUE, size=90, strokeWidth=2, opacity=1)
            .encode(x=alt.X("value:Q", **x), y=alt.value(44))
        )
    said = f"{label(name)}: {percent(verdict['confidence'])} interval {amount(name, low)} to {amount(name, high)}"
    title = f"{said}, threshold {amount(name, threshold)}"
    return _finished(layers, title, [], f"{title}.", 88)


def _verdict_axis(findings: Mapping[str, Any]) -> dict[str, Any]:
    import altair as alt

    verdict, name = findings["verdict"], findings["verdict"]["metric"]
    marks = [verdict["low"], verdict["high"], verdict["threshold"], chance(name) or 0.0]
    if name.startswith(_TPR):
        marks.append(findings["plan"]["levels"][-1])
    spread = (max(marks) - min(marks)) or 1.0
    domain = [min(marks) - 0.06 * spread, max(marks) + 0.1 * spread]
    if name != "ate":
        domain = [max(0.0, domain[0]), min(1.0, domain[1])]
    form = "~%" if name.startswith(_TPR) else "~g"
    axis = alt.Axis(format=form, grid=False, tickCount=6, labelFlush=False)
    return {"scale": alt.Scale(domain=domain, nice=False, zero=False), "axis": axis, "title": label(name)}


def _level_bands(findings: Mapping[str, Any], x: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    floor, top = x["scale"].domain
    edges = [floor, *(level for level in findings["plan"]["levels"] if floor < level < top), top]
    rows = []
    for left, right in pairwise(edges):
        rank = sum((left + right) / 2 >= level for level in findings["plan"]["levels"])
        wide = (right - left) / (top - floor) > 0.02 * len(LEVEL_NAMES[rank])
        rows.append(
            {"left": left, "right": right, "level": LEVEL_NAMES[rank], "name": LEVEL_NAMES[rank] if wide else ""}
        )
    base = _over(rows)
    shades = alt.Scale(domain=list(LEVEL_NAMES), range=list(_LEVEL_SHADES))
    bands = base.mark_rect().encode(
        x=alt.X("left:Q", **x),
        x2="right:Q",
        y=alt.value(18),
        y2=alt.value(70),
        color=alt.Color("level:N", scale=shades, legend=None),
        tooltip=alt.Tooltip("level:N", title="reading level"),
    )
    words = base.mark_text(align="right", baseline="bottom", dx=-5, color=_GREY, fontSize=11).encode(
        x=alt.X("right:Q", **x), y=alt.value(68), text="name:N"
    )
    return [bands, words]


def _marked_rule(at: float, text: str, colour: str, dash: list[int], x: dict[str, Any], row: str) -> list[alt.Chart]:
    """A dashed line across the verdict's chart, named at its upper or lower end; the name leans towards the middle."""
    import altair as alt

    left, right = x["scale"].domain
    leans = at > (left + right) / 2
    base = _over([{"at": at, "text": text}]).encode(x=alt.X("at:Q", **x))
    first, last, name = (2, 70, 9) if row == "top" else (18, 88, 80)
    words = base.mark_text(
        color=colour, fontSize=11, fontWeight=600, align="right" if leans else "left", dx=-5 if leans else 5
    )
    return [
        base.mark_rule(color=colour, strokeDash=dash, strokeWidth=1.6).encode(y=alt.value(first), y2=alt.value(last)),
        words.encode(y=alt.value(name), text="text:N"),
    ]


def _roc_log(findings: Mapping[str, Any]) -> alt.LayerChart:
    """ROC on log-log axes, with the zone of FPRs that so many non-members cannot resolve."""
    import altair as alt

    limit, targets = findings["counts"]["smallest_fpr"], findings["plan"]["fpr_targets"]
    drawn = findings["scores"][0]["curve"]
    floor = max(min(limit / 3, min(targets) / 1.5), min(f for f in drawn["fpr"] if f > 0))
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
        *_targets(targets, x, floor),
    ]
    title, said = _at_target(findings), _legend_in_words(findings)
    if limit > floor:
        said.append(
            f"Grey zone: FPRs below {percent(limit)} cannot be resolved with {nonmembers(findings)}; "
            "only the upper limit (dashed) means anything there."
        )
    return _finished(layers, title, said, _alternative(findings, "on log-log axes", title), _HEIGHT)


def _roc_linear(findings: Mapping[str, Any]) -> alt.LayerChart:
    """ROC on linear axes."""
    import altair as alt

    axis = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~%", grid=True)
    scale = alt.Scale(domain=[0, 1], nice=False)
    x: dict[str, Any] = {"scale": scale, "axis": axis, "title": "False-positive rate"}
    y: dict[str, Any] = {"scale": scale, "axis": axis, "title": "True-positive rate"}
    layers = [
        *_unresolved_zone(findings, 0.0, x, y),
        *_curves(findings, x, y),
        *_targets(findings["plan"]["fpr_targets"], x, None),
    ]
    auc = named(findings["metrics"], "auc")
    title = _qualified(findings, f"AUC {reading(auc)}, chance is 0.5" if auc else "ROC curve")
    return _finished(
        layers, title, _legend_in_words(findings), _alternative(findings, "on linear axes", title), _HEIGHT
    )


def _curves(findings: Mapping[str, Any], x: dict[str, Any], y: dict[str, Any], floor: float = 0.0) -> list[alt.Chart]:
    """Band, chance line and the curve of each score, drawn where it is resolved and every rate >= ``floor``."""
    import altair as alt

    shown = _shown_scores(findings)
    names = _names(findings)
    rows = [row for score in reversed(shown) for row in _points(score, names[score["score"]], floor)]
    head = names[shown[0]["score"]]
    colours = alt.Scale(domain=[names[s["score"]] for s in shown], range=[_BLUE, *_OTHERS][: len(shown)])
    legend = alt.Legend(orient="bottom", title=None, symbolStrokeWidth=3)
    best = [row for row in rows if row["score"] == head]
    others = [row for row in rows if row["score"] != head]
    horizontal, vertical = alt.X("fpr:Q", **x), alt.Y("tpr:Q", **y)
    colour = alt.Color("score:N", scale=colours, sort=None, legend=legend if len(shown) > 1 else None)
    tips = [alt.Tooltip(f"{key}:N", title=title) for key, title in _TIPS]
    diagonal = _over([{"fpr": floor, "tpr": floor}, {"fpr": 1, "tpr": 1}])
    band = _over(best).mark_area(color=_BLUE, opacity=0.17, clip=True)
    layers = [
        band.encode(x=horizontal, y=alt.Y("low:Q", **y), y2="high:Q"),
        diagonal.mark_line(color=_GREY, strokeDash=[5, 4], strokeWidth=1.4).encode(x=horizontal, y=vertical),
    ]
    if others:
        thin = _over(others).mark_line(strokeWidth=1.6, opacity=0.75, clip=True)
        layers.append(thin.encode(x=horizontal, y=vertical, color=colour))
    strong = _over(best)
    layers.append(strong.mark_line(strokeWidth=2.8, clip=True).encode(x=horizontal, y=vertical, color=colour))
    touch = strong.mark_circle(size=140, opacity=0, clip=True)
    layers.append(touch.encode(x=horizontal, y=vertical, tooltip=tips))
    return layers


_TIPS = (("score", "Score"), ("at", "FPR"), ("is", "TPR"), ("limits", "Interval"))


def _points(score: Mapping[str, Any], name: str, floor: float) -> list[dict[str, Any]]:
    rows = []
    for fpr, tpr, low, high in zip(*_columns(score["curve"]), strict=True):
        if tpr is None or fpr < floor or tpr < floor:
            continue
        words = {"at": percent(fpr), "is": percent(tpr), "limits": f"{percent(low)} to {percent(high)}"}
        rows.append({"score": name, "fpr": fpr, "tpr": tpr, "low": max(low, floor), "high": max(high, floor), **words})
    return rows


def _columns(curve: Mapping[str, Sequence[Any]]) -> tuple[Sequence[Any], ...]:
    """FPR, TPR (None where it is not resolved), and the limits of the TPR."""
    return tuple(curve[key] for key in ("fpr", "tpr", "low", "high"))


def _unresolved_zone(
    findings: Mapping[str, Any], floor: float, x: dict[str, Any], y: dict[str, Any]
) -> list[alt.Chart]:
    import altair as alt

    limit = findings["counts"]["smallest_fpr"]
    if limit <= floor:
        return []
    edge = [{"from": floor, "to": limit}]
    zone = _over(edge).mark_rect(color="#8a94a0", opacity=0.18)
    layers = [zone.encode(x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(0), y2=alt.value("height"))]
    if limit > 0.15 if floor == 0 else math.log(limit / floor) > -0.05 * math.log(floor):
        words = _over(edge).mark_text(
            text="not resolved: upper limit only", angle=270, align="right", dy=-9, fontSize=11, color="#47515c"
        )
        layers.append(words.encode(x=alt.X("to:Q", **x), y=alt.value(26)))
    inside = []
    for fpr, tpr, _, high in zip(*_columns(findings["scores"][0]["curve"]), strict=True):
        if fpr >= floor:
            inside.append(
                {"fpr": fpr, "high": max(high, floor), "text": f"at most {percent(high)}", "at": percent(fpr)}
            )
        if tpr is not None:
            break  # the first resolved point joins the dashes to the curve
    upper = _over(inside).mark_line(color=_BLUE, strokeDash=[3, 3], strokeWidth=1.6, clip=True)
    tips = [alt.Tooltip("at:N", title="FPR"), alt.Tooltip("text:N", title="TPR")]
    layers.append(upper.encode(x=alt.X("fpr:Q", **x), y=alt.Y("high:Q", **y), tooltip=tips))
    return layers


def _targets(targets: Sequence[float], x: dict[str, Any], floor: float | None) -> list[alt.Chart]:
    """Vertical rules at the FPR targets; on log axes there is room for their names."""
    import altair as alt

    rows = [{"fpr": t, "name": percent(t)} for t in targets if floor is None or t > floor]
    base = _over(rows).encode(x=alt.X("fpr:Q", **x))
    layers = [base.mark_rule(color=_INK, strokeWidth=0.9, opacity=0.55, strokeDash=[1, 3])]
    if floor is not None:
        words = base.mark_text(align="left", dx=3, baseline="top", fontSize=11, color=_INK)
        layers.append(words.encode(y=alt.value(4), text="name:N"))
    return layers


def _distribution(findings: Mapping[str, Any]) -> alt.LayerChart:
    """Shares of members and non-members over the score."""
    name = _short(findings["scores"][0]["score"])
    effect = named(findings["metrics"], "ate")
    if findings["design"] == "zero-run" and not is_raw_only(findings):
        title = "Raw, not causal: the scores as they were observed, before any weighting"
    elif effect:
        title = _qualified(findings, f"Mean score of members less that of non-members: {reading(effect)}")
    else:
        title = _qualified(findings, "Distribution of the score")
    said = (
        "Higher is more member-like: where the two shapes part at the right end, members can be accused with few false "
        "alarms. The first and the last bin hold the tails."
    )
    layers = _histogram(findings["scores"][0]["distribution"], name, "Score")
    return _finished(layers, title, [said], f"Histogram of {name} for members and for non-members. {title}.", 300)


def _histogram(shape: Mapping[str, Any], axis: str, of: str) -> list[alt.Chart]:
    """Shares of members and non-members in bins of ``of``; the end bins are named as tails."""
    import altair as alt

    edges = shape["edges"]
    top = max(*shape["members"], *shape["nonmembers"]) * 1.14
    x: dict[str, Any] = {
        "scale": alt.Scale(domain=[edges[0], edges[-1]], nice=False, zero=False),
        "axis": alt.Axis(grid=False, tickCount=7),
        "title": axis,
    }
    y: dict[str, Any] = {
        "scale": alt.Scale(domain=[0, top], nice=False),
        "axis": alt.Axis(format="~%", tickCount=5),
        "title": "Share of the class in each bin",
    }
    steps = _steps(shape)
    colour = alt.Color(
        "class:N",
        scale=alt.Scale(domain=["members", "non-members"], range=[_BLUE, _ORANGE]),
        legend=alt.Legend(orient="top", title=None, columns=2, symbolType="square", symbolStrokeWidth=0),
    )
    across, up = alt.X("score:Q", **x), alt.Y("share:Q", stack=None, **y)
    fill = _over(steps).mark_area(interpolate="step-after", opacity=0.26)
    outlines = [
        _over([row for row in steps if row["class"] == kind])
        .mark_line(interpolate="step-after", strokeWidth=2, strokeDash=dash)
        .encode(x=across, y=up, color=colour)
        for kind, dash in (("members", [1, 0]), ("non-members", [5, 3]))
    ]
    return [fill.encode(x=across, y=up, color=colour), *outlines, *_tail_names(edges, x), _bins(shape, x, of)]


def _steps(shape: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"score": edge, "share": share, "class": kind}
        for kind, shares in (("members", shape["members"]), ("non-members", shape["nonmembers"]))
        for edge, share in zip(shape["edges"], [*shares, shares[-1]], strict=True)
    ]


def _bins(shape: Mapping[str, Any], x: dict[str, Any], of: str) -> alt.Chart:
    """Invisible bars that answer the pointer."""
    import altair as alt

    edges, last = shape["edges"], len(shape["members"]) - 1
    rows = []
    for i, (inside, outside) in enumerate(zip(shape["members"], shape["nonmembers"], strict=True)):
        left, right = ("below" if i == 0 else f"{edges[i]:g} to"), ("and above" if i == last else f"{edges[i + 1]:g}")
        words = {"range": f"{left} {right}", "members": percent(inside), "nonmembers": percent(outside)}
        rows.append({"left": edges[i], "right": edges[i + 1], **words})
    tips = [("range", of), ("members", "Members"), ("nonmembers", "Non-members")]
    places = {"x": alt.X("left:Q", **x), "x2": "right:Q", "y": alt.value(0), "y2": alt.value("height")}
    bars: alt.Chart = _over(rows).mark_rect(opacity=0).encode(**places)
    return bars.encode(tooltip=[alt.Tooltip(f"{key}:N", title=title) for key, title in tips])


def _tail_names(edges: Sequence[float], x: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    ends: tuple[tuple[Literal["left", "right"], float, str, int], ...] = (
        ("left", edges[0], f"‹ and all below {edges[1]:g}", 4),
        ("right", edges[-1], f"{edges[-2]:g} and above ›", -4),
    )
    return [
        _over([{"at": at, "text": text}])
        .mark_text(align=side, dx=dx, baseline="top", fontSize=11, color="#47515c")
        .encode(x=alt.X("at:Q", **x), y=alt.value(3), text="text:N")
        for side, at, text, dx in ends
    ]


def _groups(findings: Mapping[str, Any]) -> alt.LayerChart:
    """The primary metric of each group with its interval: a forest plot, the highest first."""
    import altair as alt

    name = findings["verdict"]["metric"]
    distinct = _distinct([group["group"] for group in findings["groups"]])
    found = [(distinct[group["group"]], _primary_of(findings, group["metrics"])) for group in findings["groups"]]
    drawable = [(group, metric) for group, metric in found if metric]
    drawable.sort(key=lambda pair: -(pair[1]["value"] if pair[1]["value"] is not None else pair[1]["high"]))
    rows = _group_rows(drawable[:_MOST_GROUPS])
    unit = name.startswith(_TPR)
    x: dict[str, Any] = {
        "scale": alt.Scale(zero=unit, nice=True),
        "axis": alt.Axis(format="~%" if unit else "~g", tickCount=6),
        "title": label(name),
    }
    y = alt.Y(
        "group:N", sort=None, title="Group", axis=alt.Axis(labelLimit=150, ticks=False, domain=False, labelPadding=8)
    )
    base = _over(rows).encode(y=y)
    tips = [alt.Tooltip("group:N", title="Group"), alt.Tooltip("text:N", title=label(name))]
    symbols = {"measured": "circle", "upper limit only": "triangle-left"}
    present = [kind for kind in symbols if any(row["kind"] == kind for row in rows)]
    kinds = alt.Scale(domain=present, range=[symbols[kind] for kind in present])
    shape = alt.Shape("kind:N", scale=kinds, legend=alt.Legend(orient="bottom", title=None))
    layers = [*_overall(findings, x)]
    layers.append(base.mark_rule(strokeWidth=3, color=_BLUE, opacity=0.45).encode(x=alt.X("low:Q", **x), x2="high:Q"))
    points = base.mark_point(filled=True, size=85, opacity=1, color=_BLUE)
    layers.append(points.encode(x=alt.X("value:Q", **x), shape=shape, tooltip=tips))
    title, said = _groups_in_words(findings, drawable)
    alternative = "; ".join(f"{group}: {reading(metric)}" for group, metric in drawable[:_MOST_GROUPS])
    return _finished(layers, title, said, f"{title}. {alternative}.", max(90, 26 * len(rows) + 10))


def _group_rows(drawable: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "value": metric["value"] if metric["value"] is not None else metric["high"],
            "low": metric["low"],
            "high": metric["high"],
            "kind": "measured" if metric["value"] is not None else "upper limit only",
            "text": reading(metric),
        }
        for group, metric in drawable
    ]


def _overall(findings: Mapping[str, Any], x: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    name = findings["verdict"]["metric"]
    lines = [(findings["verdict"]["threshold"], _RED, [6, 3]), (chance(name), _GREY, [2, 3])]
    return [
        _over([{"at": at}]).mark_rule(color=colour, strokeDash=dash, strokeWidth=1.5).encode(x=alt.X("at:Q", **x))
        for at, colour, dash in lines
        if at is not None
    ]


def _groups_in_words(
    findings: Mapping[str, Any], drawable: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[str, list[str]]:
    name, threshold = findings["verdict"]["metric"], findings["verdict"]["threshold"]
    above = sum(m["value"] is not None and (m["low"] or 0.0) > threshold for _, m in drawable)
    sure = percent(findings["plan"]["confidence"])
    seen = f"{label(name)}: {above} of {len(drawable)} groups lie above {amount(name, threshold)} at {sure} confidence"
    said = ["Red dashes: the threshold for concern. Grey dots: chance. Intervals hold for all groups at once."]
    if len(drawable) > _MOST_GROUPS:
        said.append(f"The {_MOST_GROUPS} highest of {len(drawable)} groups; the table has all of them.")
    return _qualified(findings, seen), said


# -- zero-run: memorisation or shift, and how comparable the classes are -----------------------------------------------


def points(difference: float) -> str:
    """Write a difference of two AUCs in points, hundredths of AUC, with its sign.

    Examples
    --------
    >>> points(0.0812), points(-0.012), points(0.0003), points(0.0)
    ('+8.1', '−1.2', '+0.03', '0.0')
    """
    if difference == 0:
        return "0.0"
    size = abs(100 * difference)
    digits = f"{size:.1f}" if size >= 0.05 else f"{size:.1g}" if size >= 5e-5 else "0.0"
    return f"{'−' if difference < 0 else '+'}{digits}"


def _shift(findings: Mapping[str, Any]) -> alt.LayerChart:
    """One bar from chance by memorisation and then by shift to the raw AUC."""
    import altair as alt

    found = findings["memorisation"]
    causal, raw = found["causal"], found["raw"]
    ends = (min(0.5, causal, raw), max(0.5, causal, raw))
    room = max(0.06 * (ends[1] - ends[0]), 0.004)
    domain = [max(0.0, ends[0] - room), min(1.0, ends[1] + room)]
    x: dict[str, Any] = {
        "scale": alt.Scale(domain=domain, nice=False, zero=False),
        "axis": alt.Axis(format="~g", grid=False, tickCount=6, labelFlush=False),
        "title": "AUC",
    }
    # Parts that point the same way stand in one row; a part that leads back gets a row of its own below the other.
    back = (causal - 0.5) * (raw - causal) < 0
    middle = 46 if back else 64
    parts = (
        ("memorisation", 0.5, causal, found["memorisation"], _BLUE, (28, middle)),
        ("shift", causal, raw, found["shift"], _ORANGE, (middle, 64) if back else (28, 64)),
    )
    layers: list[alt.Chart] = []
    for kind, start, end, size, colour, (top, bottom) in parts:
        bar = _over([{"from": start, "to": end, "part": kind, "points": points(size)}])
        tips = [alt.Tooltip("part:N", title="Part"), alt.Tooltip("points:N", title="AUC points")]
        layers.append(
            bar.mark_rect(color=colour, opacity=0.85).encode(
                x=alt.X("from:Q", **x), x2="to:Q", y=alt.value(top), y2=alt.value(bottom), tooltip=tips
            )
        )
    layers += [*_shift_words(parts), *_shift_rules(findings, x)]
    sums = ", ".join(f"{kind} {points(size)} points" for kind, _, _, size, _, _ in parts)
    title = f"Raw AUC {amount('auc', raw)} = chance 0.5, {sums}"
    said = "The raw AUC (thin line at its end) is what an attack seems to achieve; only memorisation is leakage."
    if back:
        said += " One part leads back, so each has its own row."
    return _finished(layers, title, [said], f"Stacked bar. {title}. Corrected AUC {amount('auc', causal)}.", 104)


def _shift_words(parts: Iterable[tuple[str, float, float, float, str, tuple[int, int]]]) -> list[alt.Chart]:
    """The name of each part at a fixed place, so that no width of the chart lets them meet."""
    import altair as alt

    inks = {"memorisation": ("left", 0, 16, _BLUE), "shift": ("right", "width", 80, _DARK_ORANGE)}
    layers = []
    for kind, start, end, size, _, _ in parts:
        side, at, row, ink = inks[kind]
        text = f"{kind} {points(size)} points: {amount('auc', start)} to {amount('auc', end)}"
        words = _over([{"text": text}]).mark_text(align=side, baseline="middle", fontSize=12, fontWeight=600, color=ink)  # type: ignore[arg-type]
        layers.append(words.encode(x=alt.value(at), y=alt.value(row), text="text:N"))
    return layers


def _shift_rules(findings: Mapping[str, Any], x: dict[str, Any]) -> list[alt.Chart]:
    import altair as alt

    left, right = x["scale"].domain
    found = findings["memorisation"]
    lines = (
        (0.5, _GREY, [2, 3], 24, 104),
        (found["causal"], _INK, [1, 0], 26, 66),
        (found["raw"], _INK, [1, 0], 26, 66),
    )
    rules = [
        _over([{"at": at}])
        .mark_rule(color=colour, strokeDash=dash, strokeWidth=1.4)
        .encode(x=alt.X("at:Q", **x), y=alt.value(top), y2=alt.value(bottom))
        for at, colour, dash, top, bottom in lines
    ]
    leans = (left + right) / 2 < 0.5
    words = _over([{"at": 0.5}]).mark_text(
        text="chance",
        color=_GREY,
        fontSize=11,
        fontWeight=600,
        align="right" if leans else "left",
        dx=-5 if leans else 5,
    )
    return [*rules, words.encode(x=alt.X("at:Q", **x), y=alt.value(97))]


def _comparability(findings: Mapping[str, Any]) -> dict[str, alt.LayerChart]:
    """How comparable members and non-members are: shown whether the audit was answered or refused."""
    drawn = {"overlap": _overlap(findings)}
    if findings["overlap"]["calibration"]:
        drawn["calibration"] = _calibration(findings)
    if findings["overlap"]["features"]:
        drawn["balance"] = _balance(findings)
    return drawn


def _overlap(findings: Mapping[str, Any]) -> alt.LayerChart:
    """Shares of members and non-members over the log-odds of membership that their covariates give them."""
    found = findings["overlap"]
    layers = _histogram(found["log_odds"], "Log-odds of membership, from the covariates alone", "Log-odds")
    limits = f"{amount('auc', found['blind_low'])} to {amount('auc', found['blind_high'])}"
    title = (
        f"Without the model, the covariates tell members from non-members with an AUC of "
        f"{amount('auc', found['blind_auc'])} ({limits})"
    )
    said = (
        "Before weighting. Where only members stand, nobody can be compared with them: "
        f"{percent(found['without_match'])} of members have no match. The first and the last bin hold the tails."
    )
    alternative = f"Histogram of the log-odds of membership for members and for non-members. {title}. {said}"
    return _finished(layers, title, [said], alternative, 260)


def _calibration(findings: Mapping[str, Any]) -> alt.LayerChart:
    """The propensity against the share of members that was observed, with the diagonal."""
    import altair as alt

    bins = findings["overlap"]["calibration"]
    axis, scale = (
        alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~%", grid=True),
        alt.Scale(domain=[0, 1], nice=False),
    )
    x: dict[str, Any] = {"scale": scale, "axis": axis, "title": "Predicted: the propensity"}
    y: dict[str, Any] = {"scale": scale, "axis": axis, "title": "Observed share of members"}
    rows = [
        {**row, "p": percent(row["predicted"]), "o": percent(row["observed"]), "n": f"{row['count']:,}"} for row in bins
    ]
    size = alt.Size(
        "count:Q", scale=alt.Scale(domain=[0, max(row["count"] for row in bins)], range=[14, 260]), legend=None
    )
    tips = [("p", "Predicted"), ("o", "Observed"), ("n", "Records")]
    diagonal = _over([{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}])
    marks = _over(rows).mark_point(filled=True, color=_BLUE, opacity=0.8, clip=False)
    across, up = alt.X("predicted:Q", **x), alt.Y("observed:Q", **y)
    layers = [
        diagonal.mark_line(color=_GREY, strokeDash=[5, 4], strokeWidth=1.4).encode(x=across, y=up),
        marks.encode(x=across, y=up, size=size, tooltip=[alt.Tooltip(f"{key}:N", title=name) for key, name in tips]),
    ]
    total = sum(row["count"] for row in bins)
    off = 100 * sum(row["count"] * abs(row["predicted"] - row["observed"]) for row in bins) / total
    title = f"Propensity and observed share of members differ by {off:.2g} percentage points on average"
    said = "On the dashes the propensity is what is observed. The larger a point, the more records stand behind it."
    alternative = f"Calibration of the propensity in {len(bins)} bins, with the diagonal. {title}."
    return _finished(layers, title, [said], alternative, 260)


def _balance(findings: Mapping[str, Any]) -> alt.LayerChart:
    """A love plot: how far each covariate and its square differ before and after weighting, the worst first."""
    import altair as alt

    limit = findings["overlap"]["feature_limit"]
    features = sorted(findings["overlap"]["features"], key=lambda f: (-abs(f["after"]), -abs(f["before"])))
    shown = features[:_MOST_FEATURES]
    names = _distinct([feature["name"] for feature in shown])
    x: dict[str, Any] = {
        "scale": alt.Scale(zero=True, nice=True),
        "axis": alt.Axis(format="~g", tickCount=6),
        "title": "Absolute standardised difference",
    }
    y = alt.Y(
        "feature:N", sort=None, title=None, axis=alt.Axis(labelLimit=130, ticks=False, domain=False, labelPadding=8)
    )
    kinds = ("before", "after")
    rows = [
        {"feature": names[f["name"]], "at": abs(f[kind]), "when": kind, "text": f"{f[kind]:+.3f}"}
        for f in shown
        for kind in kinds
    ]
    pairs = [{"feature": names[f["name"]], "from": abs(f["before"]), "to": abs(f["after"])} for f in shown]
    fill = alt.Fill(
        "when:N",
        scale=alt.Scale(domain=list(kinds), range=["#ffffff", _BLUE]),
        legend=alt.Legend(orient="top", title=None, columns=2, symbolStrokeColor=_BLUE, symbolStrokeWidth=2),
    )
    tips = [("feature", "Covariate"), ("when", "Weighting"), ("text", "Difference")]
    lines = _over(pairs).mark_rule(color=_BLUE, opacity=0.35, strokeWidth=1.5)
    marks = _over(rows).mark_point(shape="circle", stroke=_BLUE, strokeWidth=2, size=64, opacity=1)
    tolerated = _over([{"at": limit}]).mark_rule(color=_RED, strokeDash=[6, 3], strokeWidth=1.5)
    layers = [
        lines.encode(x=alt.X("from:Q", **x), x2="to:Q", y=y),
        tolerated.encode(x=alt.X("at:Q", **x)),
        marks.encode(
            x=alt.X("at:Q", **x), y=y, fill=fill, tooltip=[alt.Tooltip(f"{k}:N", title=name) for k, name in tips]
        ),
    ]
    title, said = _balance_in_words(features, limit)
    listed = "; ".join(f"{names[f['name']]}: {abs(f['before']):.2g} before, {abs(f['after']):.2g} after" for f in shown)
    return _finished(layers, title, said, f"{title}. {listed}.", max(90, 19 * len(shown) + 10))


def _balance_in_words(features: Sequence[Mapping[str, Any]], limit: float) -> tuple[str, list[str]]:
    worst = features[0]
    most = f"{_short(worst['name'])}, {abs(worst['after']):.2g}"
    over = sum(abs(feature["after"]) > limit for feature in features)
    if over:
        title = (
            f"After weighting {over} of {len(features)} covariates and squares still differ by more than {limit:.2g}"
        )
        title += f" (most: {most})"
    else:
        title = f"After weighting no covariate and no square differs by more than {limit:.2g} (most: {most})"
    said = ["Hollow: before weighting. Filled: after it. Red dashes: the most that is tolerated after it."]
    rest = features[_MOST_FEATURES:]
    if rest:
        said.append(
            f"The {_MOST_FEATURES} that differ most after weighting; the other {len(rest)} differ by at most "
            f"{abs(rest[0]['after']):.2g}."
        )
    return title, said


# -- shared pieces ----------------------------------------------------------------------------------------------------


def _over(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart over rows that stand inside its specification."""
    import altair as alt

    return alt.Chart({"values": list(rows)})


def _primary_of(findings: Mapping[str, Any], metrics: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The metric of the verdict, where it can be drawn and is of the same kind as the headline's."""
    metric = named(metrics, findings["verdict"]["metric"])
    if metric is None or metric["low"] is None or metric["high"] is None or not findings["metrics"]:
        return None
    return metric if (metric["estimator"] != "raw") == is_corrected(findings) else None


def _shown_scores(findings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The headline and, of the others, those with the largest AUC; corrected curves are never mixed with raw ones."""

    def auc(score: Mapping[str, Any]) -> float:
        metric = named(score["metrics"], "auc")
        return float(metric["value"] or 0.0) if metric else 0.0

    head, *others = (score for score in findings["scores"] if score["curve"])
    others = [score for score in others if is_corrected(score) == is_corrected(head)]
    return [head, *sorted(others, key=auc, reverse=True)[: _MOST_CURVES - 1]]


def _names(findings: Mapping[str, Any]) -> dict[str, str]:
    return _distinct([score["score"] for score in findings["scores"]])


def _distinct(names: Sequence[str]) -> dict[str, str]:
    """Shorten names so that they can be drawn, and keep them distinct."""
    short: dict[str, str] = {}
    taken: set[str] = set()
    for i, name in enumerate(names):
        short[name] = f"{_short(name)} #{i + 1}" if _short(name) in taken else _short(name)
        taken.add(short[name])
    return short


def _short(name: str, most: int = 36) -> str:
    """A name in one line of printable characters: Vega cannot parse a title with a line separator in it."""
    name = one_line(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _at_target(findings: Mapping[str, Any]) -> str:
    """State the TPR at the primary target, or else at the smallest that has a value."""
    rates = [m for m in foremost(findings["metrics"]) if m["name"].startswith(_TPR)]
    if not rates:
        return _qualified(findings, "ROC curve")
    chosen = named(rates, findings["verdict"]["metric"]) or next((m for m in rates if m["value"] is not None), rates[0])
    at, name = percent(target(chosen["name"])), _short(findings["scores"][0]["score"])
    if chosen["high"] is None:
        return _qualified(findings, f"At {at} FPR nothing is resolved")
    if chosen["value"] is None:
        return _qualified(findings, f"At {at} FPR only a limit: {name} finds {interval(chosen)} of members")
    return _qualified(findings, f"At {at} FPR {name} finds {reading(chosen)} of members")


def _qualified(findings: Mapping[str, Any], title: str) -> str:
    if is_raw_only(findings):
        return f"Raw, not causal: {title}"
    return f"Corrected for shift: {title}" if is_corrected(findings) else title


def _legend_in_words(findings: Mapping[str, Any]) -> list[str]:
    shown = _shown_scores(findings)
    sure = percent(findings["plan"]["confidence"])
    said = f"Shaded: {sure} interval at each FPR. Dashes: chance. Dotted: FPR targets."
    if len(shown) == 1:
        return [said]
    left_out = len(findings["scores"]) - len(shown)
    more = f" {left_out} more scores are in the table." if left_out else ""
    return [f"{said} Strong line: {_names(findings)[shown[0]['score']]}, the headline score.{more}"]


def _alternative(findings: Mapping[str, Any], axes: str, title: str) -> str:
    rates = [m for m in foremost(findings["metrics"]) if m["name"].startswith(_TPR) or m["name"] == "auc"]
    numbers = "; ".join(f"{label(m['name'])}: {reading(m)}" for m in rates)
    name = _short(findings["scores"][0]["score"])
    return f"ROC curve {axes} of {name}, with interval band and chance line. {title}. {numbers}."


def _finished(
    layers: Sequence[alt.Chart], title: str, said: Sequence[str], description: str, height: int
) -> alt.LayerChart:
    import altair as alt

    lines = [line for text in said for line in textwrap.wrap(text, 100)]
    heading = alt.TitleParams(text=textwrap.wrap(title, 72), subtitle=lines or alt.Undefined)
    chart = alt.LayerChart(layer=list(layers))
    chart.title, chart.description, chart.width, chart.height = heading, description, WIDTH, height
    return _styled(chart)


def _styled(chart: alt.LayerChart) -> alt.LayerChart:
    title = {"anchor": "start", "fontSize": 16, "color": _INK, "offset": 12}
    subtitle = {"subtitleFontSize": 12, "subtitleColor": "#47515c", "subtitlePadding": 5}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8}
    colours = {"labelColor": _INK, "titleColor": _INK, "domainColor": "#9aa4ae", "tickColor": "#9aa4ae"}
    styled: alt.LayerChart = chart.configure(
        font=_FONT,
        background="white",
        padding=10,
        title={**title, **subtitle},
        axis={**sizes, **colours, "gridColor": "#e3e7eb"},
        legend={"labelFontSize": 12, "labelColor": _INK, "columns": 3, "labelLimit": 165, "symbolOpacity": 0.85},
        view={"stroke": None},
        mark={"aria": False},  # the chart as a whole has a text alternative
    )
    return styled

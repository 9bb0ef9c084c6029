"""The page of an audit of a synthetic table, from plain findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from miaudit.findings.audit import LowerBound, ScoreFindings
from miaudit.findings.metric import Metric, foremost
from miaudit.findings.next_steps import Intent, Step, origin_of
from miaudit.findings.table import (
    Attack,
    PositiveControl,
    Rate,
    SecretValue,
    TableFindings,
    opened_with,
    proven,
    worded,
)
from miaudit.metrics import definition
from miaudit.metrics.definition import label
from miaudit.metrics.rounding import lower_text, percent, points, upper_text
from miaudit.report import audit_charts, fidelity_charts, page_frame
from miaudit.report.drawing import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    coloured,
    distinct,
    finished,
    in_rows,
    scaled,
    tips,
    upright,
)
from miaudit.report.vega_lite import Chart, Layer, channel, over

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

_OF_AUDIT = ("roc-log", "distribution", "bounds")
NAMES = ("differences", "rates", *_OF_AUDIT, *fidelity_charts.NAMES)
_LEAD = re.compile(r"(?:Concern|Within the limits|Not answered(?: \([a-z ]+\))?)(?:, (?:and|but) |: )")
_LONGEST = 26


def charts(findings: TableFindings) -> dict[str, Chart]:
    """Draw what the findings hold, in the order of :data:`NAMES`; a chart without data is left out."""
    by_name = {"differences": _differences(findings), "rates": _rates(findings)}
    of_audit = audit_charts.charts(findings.membership)
    by_name |= {name: of_audit[name] for name in _OF_AUDIT if name in of_audit}
    if findings.fidelity:
        by_name |= fidelity_charts.charts(findings.fidelity)
    return by_name


def page(findings: TableFindings, *, built: Built | None = None) -> str:
    """Write findings of an audit of a table as one self-contained HTML page."""
    membership, lead = findings.membership, findings.leading()
    word = worded(lead.status, membership.design)
    text = _LEAD.sub("", lead.text, count=1) if _LEAD.match(lead.text) else lead.text
    return page_frame.render(
        "table_page.html",
        findings,
        built or charts(findings),
        overall={**lead._asdict(), "word": word, "said": text[:1].upper() + text[1:]},
        plain=_plain(findings),
        steps=_steps(findings),
        blocking=[_row(row) for row in findings.attacks if row.role == "blocking"],
        informing=[_row(row) for row in findings.attacks if row.role == "informing"],
        by_value=[_of_value(part) for part in findings.by_value],
        control=_control(findings.positive_control) + _changed(findings.near_control),
        membership={
            "text": membership.verdict.text,
            "leads": opened_with(membership.verdict.text, proven(membership)) == lead.text,
            "word": worded(membership.verdict.status, membership.design),
            "tone": membership.verdict.status,
            "design": membership.design or "not declared",
            "declared": membership.plan.get("headline", {}).get("score", ""),
            "scores": [_score(score) for score in membership.scores],
            "metrics": [label(metric.name) for metric in _shown(membership.scores[0])],
            "bounds": [_bound(bound) for bound in membership.bounds],
            "notes": [*membership.assumptions, *membership.corrections, *membership.notes],
            "no_bound": membership.no_bound,
        },
        fidelity=fidelity_charts.cards(findings.fidelity),
    )


# -- words and rows ---------------------------------------------------------------------------------------------------


def _plain(findings: TableFindings) -> str:
    """Say the attack that leads in numbers that anybody knows; nothing where differences answer nothing."""
    if findings.verdict.status in ("not-testable", "refused"):
        return ""
    shown = [row for row in findings.attacks if row.difference is not None and row.role == "blocking"]
    flagged = [row for row in shown if row.status == "flagged"]
    if not shown:
        return ""
    row = max(flagged or shown, key=lambda one: one.difference_low)
    right = [f"{1000 * (rate.value or 0.0):,.0f}" for rate in (row.members, row.control)]
    meant = {"flagged": "the table gives the difference away", "clear": "the difference is within the limit"}
    sentence = meant.get(row.status or "", "chance alone may explain the difference")
    tries = f"Of 1,000 members the attack {row.name!r} is right about {right[0]}, of 1,000 control records about"
    return f"{tries} {right[1]}: {sentence}."


def _steps(findings: TableFindings) -> list[Step]:
    """What to do next, by the verdict that leads."""
    status, origin = findings.leading().status, origin_of(findings.repeat)
    command = origin.command(Intent("repeat"))
    if status == "flagged":
        return [
            Step("Do not hand on this table."),
            Step("Make another table with differential privacy.", "miaudit synthesise TABLE.csv"),
            Step("Then audit that table in the same way.", command),
        ]
    if status == "clear":
        sentence = "These attacks found no excess above the limits. Only differential privacy gives a guarantee."
        return [Step(sentence, "miaudit synthesise TABLE.csv")]
    if status == "inconclusive":
        return [Step("Audit with more members and control records, as the verdict says.", command)]
    draw = "If not, let chance decide before the next table which records go in."
    one_run = origin.command(Intent("audit again", {"design": "one-run"}))
    declared = Step("Did chance decide which records went in? Then declare it.", one_run)
    return [*([] if findings.membership.design else [declared]), Step(draw, origin.command(Intent("draw")))]


def _row(row: Attack) -> dict[str, Any]:
    missing = row.difference is None
    risk = "–"
    if row.risk is not None and row.risk_low is not None and row.risk_high is not None:
        risk = f"{points(row.risk)} ({points(row.risk_low, 'down')} to {points(row.risk_high, 'up')})"
    return {
        "name": row.name,
        "members": "–" if missing else _rate(row.members),
        "control": "–" if missing else _rate(row.control),
        "by_chance": "–" if row.by_chance is None else percent(row.by_chance),
        "difference": _difference(row),
        "risk": risk,
        "word": _word(row),
        "tone": row.status or "",
        "limit": "" if row.threshold is None else _limit(row),
        "detectable": "none" if (row.detectable or 1.0) >= 1 else points(row.detectable or 1.0, "up"),
        "note": "; ".join(text for text in (row.note, *_besides(row)) if text),
    }


def _of_value(part: SecretValue) -> dict[str, str]:
    limits = f"{points(part.difference_low, 'down')} to {points(part.difference_high, 'up')}"
    detectable = part.detectable or 1.0
    return {
        "secret": part.secret,
        "value": part.value,
        "members": _rate(part.members),
        "control": _rate(part.control),
        "difference": f"{points(part.difference)} ({limits})",
        "detectable": "none" if detectable >= 1 else points(detectable, "up"),
        "note": "an excess is shown" if part.difference_low > 0 else "",
    }


def _word(row: Attack) -> str:
    """The status in words; near copies without one do not decide, and the notes name those above chance."""
    if row.status is not None:
        return worded(row.status, row.status)
    if row.role != "blocking":
        return ""
    return "Above chance, decides nothing" if row.above_chance else "Not beyond chance"


def _limit(row: Attack) -> str:
    return points(row.threshold) if row.threshold else "any excess"


def _besides(row: Attack) -> list[str]:
    above = row.role == "informing" and row.above_chance
    sentence = ("no better than a guess", row.weak), ("an excess is shown", above)
    return [text for text, holds in sentence if holds]


def _rate(rate: Rate) -> str:
    return "–" if rate.value is None else f"{percent(rate.value)} ({rate.right:,} of {rate.trials:,})"


def _difference(row: Attack) -> str:
    if row.difference is None:
        return "–"
    limits = f"{points(row.difference_low, 'down')} to {points(row.difference_high, 'up')}"
    return f"{points(row.difference)} ({limits})"


def _control(control: PositiveControl) -> str:
    seen = "sees them" if control.found else "does NOT see them: an excess that it does not find may still be there"
    return (
        "The labels of members and control records are permuted, so that a leak of the table plays no part, and copies "
        f'of {control.copies:,} "members" ({percent(control.share)}) are planted. The excess of copies is seen in '
        f"{control.seen} of {control.repetitions} repetitions, {control.needed} are needed: the audit {seen}."
    )


def _changed(control: PositiveControl | None) -> str:
    if control is None:
        return ""
    return f" With one cell of each copy changed, it is seen in {control.seen} of {control.repetitions}."


def _shown(score: ScoreFindings) -> list[Metric]:
    return [m for m in foremost(score.metrics) if m.name == "auc" or definition.of(m.name).fpr is not None]


def _score(score: ScoreFindings) -> dict[str, Any]:
    return {"name": score.score, "cells": [metric.reading for metric in _shown(score)]}


def _bound(bound: LowerBound) -> str:
    name = "ε" if bound.parameter == "epsilon" else "μ"
    at = f" at δ = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    shown = f"{name} is at least {lower_text(bound.value)}{at}" if bound.value > 0 else f"{name}{at}: nothing shown"
    most = "" if bound.reachable is None else f"; at most {upper_text(bound.reachable)} could have been shown"
    return f"{shown} ({percent(bound.confidence)} confidence, {bound.method}{most})"


# -- charts -----------------------------------------------------------------------------------------------------------


def _differences(findings: TableFindings) -> Chart:
    """The difference of each attack with its interval, and the threshold."""
    shown = [row for row in findings.attacks if row.difference is not None]
    names = distinct([row.name for row in shown], _LONGEST)
    rows = [
        {
            "attack": names[row.name],
            "value": row.difference,
            "low": row.difference_low,
            "high": row.difference_high,
            "text": _difference(row),
        }
        for row in shown
    ]
    x = scaled("Success on members less success on control records", zero=True, format="+~%", tickCount=7)
    base = over(rows).encode(y=in_rows("attack", 185, title="Attack"))
    threshold = max(findings.plan.get("threshold", 0.0), *(row.threshold or 0.0 for row in findings.attacks))
    points = base.mark("point", filled=True, size=80, color=BLUE, opacity=1)
    layers = [
        upright(0.0, x, GREY, strokeDash=[2, 3]),
        upright(threshold, x, RED, strokeDash=[6, 3]),
        base.mark("rule", strokeWidth=3, color=BLUE, opacity=0.45).encode(x=channel("low:Q", **x), x2="high:Q"),
        points.encode(x=channel("value:Q", **x), tooltip=tips(attack="Attack", text="Difference")),
    ]
    deciding = [row for row in findings.attacks if row.role == "blocking"]
    flagged = sum(row.status == "flagged" for row in deciding)
    title = f"{flagged} of {len(deciding)} attacks that decide succeed on members more often than their limit allows"
    sure = percent(findings.verdict.confidence)
    sentences = [
        f"Each interval holds at {sure}. The attacks that decide come first. Grey dots: no difference. Red dashes: the "
        "limit, except of copies, for which any excess counts."
    ]
    alternative = "; ".join(f"{row['attack']}: {row['text']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {alternative}.", max(90, 24 * len(rows) + 10))


def _rates(findings: TableFindings) -> Chart:
    """How often each attack is right about members and about control records, beside a guess."""
    shown = [row for row in findings.attacks if row.difference is not None]
    names = distinct([row.name for row in shown], _LONGEST)
    rows = [
        {"attack": names[row.name], "of": kind, "rate": rate.value, "text": _rate(rate)}
        for row in shown
        for kind, rate in (("members", row.members), ("control records", row.control))
    ]
    guesses = [
        {"attack": names[row.name], "rate": row.by_chance, "text": percent(row.by_chance)}
        for row in shown
        if row.by_chance is not None
    ]
    x = channel(
        "rate:Q", **scaled("Share of the trials in which the attack was right", [0, 1], format="~%", tickCount=6)
    )
    y = in_rows("attack", 185, sort=[names[row.name] for row in shown], title="Attack")
    layers = [] if not guesses else [_guess_ticks(guesses).encode(x=x, y=y)]
    layers.append(_rate_points(rows).encode(x=x, y=y))
    title = "What is right about both is knowledge of the population; only the gap is a leak"
    sentences = ["Grey ticks: a guess that looks at no record. An attack left of its tick has shown nothing."]
    alternative = "; ".join(
        f"{row.name}: members {_rate(row.members)}, control records {_rate(row.control)}" for row in shown
    )
    return finished(layers, title, sentences, f"{title}. {alternative}.", max(90, 24 * len(shown) + 10))


def _guess_ticks(guesses: Sequence[Mapping[str, Any]]) -> Layer:
    ticks: Layer = over(guesses).mark("tick", thickness=2.5, size=17, color=GREY)
    return ticks.encode(tooltip=[channel("attack:N"), *tips(text="A guess")])


def _rate_points(rows: Sequence[Mapping[str, Any]]) -> Layer:
    """A point in the colour and shape of its class for each rate."""
    shapes = {"domain": ["members", "control records"], "range": ["circle", "diamond"]}
    points: Layer = over(rows).mark("point", filled=True, size=80, opacity=0.85)
    return points.encode(
        color=coloured("of", {"members": BLUE, "control records": ORANGE}),
        shape=channel("of:N", scale=shapes, legend={"orient": "top", "title": None}),
        tooltip=[channel("attack:N"), *tips(of="Of", text="Right")],
    )

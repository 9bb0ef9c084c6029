"""The page of a comparison of two audits, and that of the history of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from miaudit.findings.budget import Budget, BudgetedRelease
from miaudit.findings.comparison import ADDED, NOT_CAUSAL, Audited, Change, Comparison, History, is_not_causal
from miaudit.findings.next_steps import Step
from miaudit.findings.verdict import CONCERN
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, chance, label
from miaudit.metrics.rounding import difference, difference_limits, percent
from miaudit.report import page_frame
from miaudit.report.drawing import BLUE, GREY, INK, distinct, finished, in_rows, scaled, tips, upright
from miaudit.report.vega_lite import Chart, channel, over

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

NAMES = ("differences", "history")
_STATUS = {
    "rose": ("flagged", "Leakage rose"),
    "fell": ("clear", "Leakage fell"),
    "no-difference": ("inconclusive", "No difference shown"),
    "not-comparable": ("refused", "Not comparable"),
}
_ALARM = {0: ("clear", "No alarm"), 3: ("flagged", "Alarm"), 4: ("inconclusive", "Not answered")}
VERDICTS = page_frame.WORDS
_NARROWER = Step(
    "Compare again with the records of both audits: the interval is then narrower.",
    "miaudit compare BEFORE AFTER --evidence BEFORE.csv AFTER.csv",
)
_MOST_DRAWN = 60
_ROW = 34


def charts(findings: Comparison | History) -> dict[str, Chart]:
    """Draw the differences of metrics, or one metric over the audits; nothing where nothing has an interval."""
    return _differences(findings) if isinstance(findings, Comparison) else _course(findings)


def page(findings: Comparison | History, *, built: Built | None = None) -> str:
    """Write a comparison or a history as one self-contained HTML page."""
    budget = findings.budget if isinstance(findings, History) else None
    if isinstance(findings, History):
        status, what = findings.changes[-1].status if findings.changes else "no-difference", "Audits over time"
        shown: dict[str, Any] = {
            "rows": [],
            "audits": [{**vars(audit), "verdict": VERDICTS[audit.status]} for audit in findings.audits],
            "steps": [{**vars(one), "text": one.text.partition(f" {CONCERN}: ")[0]} for one in findings.changes],
            "cautions": _shared([one.cautions for one in findings.changes]),
            "releases": [] if budget is None else [_release(one) for one in budget.releases],
        }
    else:
        status, what = findings.status, "Two audits compared"
        shown = {"rows": [_row(change) for change in findings.changes], "audits": [], "steps": []}
        shown["deciding"] = _deciding(findings)
    tone, word = _STATUS[status]
    if _exceeds(findings) and status != "rose":
        tone, word = "flagged", f"{word}, and the later audit exceeds a limit"
    if budget is not None:
        tone, word = _ALARM[budget.exit_code]
    return page_frame.render(
        "comparison_page.html",
        findings,
        built or charts(findings),
        verdict={"status": tone, "word": word, "what": what, "text": _without(findings, word)},
        plain=_plain(findings),
        next=_steps(findings),
        **shown,
    )


def _without(findings: Comparison | History, word: str) -> str:
    """The text without the word that stands above it. The name of an audit keeps its first letter."""
    rest = findings.text.removeprefix(f"{word}: ")
    names = (findings.before, findings.after) if isinstance(findings, Comparison) else [a.name for a in findings.audits]
    return rest if rest.startswith(tuple(names)) else rest[:1].upper() + rest[1:]


def _shared(cautions: Sequence[Sequence[str]]) -> list[str]:
    """The cautions that hold for every one of several comparisons."""
    return [text for text in cautions[0] if all(text in one for one in cautions)] if len(cautions) > 1 else []


def _exceeds(findings: Comparison | History) -> bool:
    """Whether the later audit exceeds a limit."""
    later = findings.later if isinstance(findings, Comparison) else findings.audits[-1].status
    return later == "flagged"


def _deciding(findings: Comparison) -> str:
    """Say which metrics decide, at which confidence."""
    sure = percent(findings.confidence)
    names = ", ".join(map(label, findings.followed))
    if len(findings.followed) > 1:
        how = f"The result is about {len(findings.followed)} metrics of the later audit, which share the error level"
        return f"{how}: {names}. The intervals of the table have {sure} confidence each, without that correction."
    one = f"The result is about one metric of the later audit, {names}, at {sure} confidence."
    return f"{one} The other metrics are not corrected for their number."


def _plain(findings: Comparison | History) -> str:
    """Say the metric that decides in numbers that anybody knows; nothing where nothing is shown of it."""
    metric, before, after = definition.of(findings.primary), None, None
    if isinstance(findings, Comparison):
        of = (findings.before, findings.after)
        changes = [c for c in findings.changes if c.name == findings.primary and not is_not_causal(c)]
        if findings.status != "not-comparable" and changes:
            before, after = changes[0].before, changes[0].after
    else:
        of = (findings.audits[-2].name, findings.audits[-1].name) if len(findings.audits) > 1 else ("", "")
        if findings.changes and findings.changes[-1].status != "not-comparable":
            before, after = (audit.value for audit in findings.audits[-2:])
    if before is None or after is None:
        return ""
    if metric.name == "auc":
        counts = f"{100 * before:.0f} in {of[0]}, and {100 * after:.0f} in {of[1]}"
        picked = f"the attack picks the member in {counts}"
        return f"Of 100 pairs of a member and a non-member {picked}. Random guessing picks it in 50."
    if metric.fpr is not None:
        wrong = f"{1000 * metric.fpr:g} of 1,000 non-members wrongly"
        counts = f"{1000 * before:,.0f} of 1,000 members in {of[0]}, and {1000 * after:,.0f} in {of[1]}"
        return f"Accusing {wrong}, the attack finds {counts}."
    return ""


def _steps(findings: Comparison | History) -> list[Step]:
    """What to do next, by the last comparison and by the verdict of the last audit."""
    if isinstance(findings, History) and findings.budget is not None:
        return _after_budget(findings.budget)
    if isinstance(findings, Comparison):
        status, last = findings.status, findings.after
    else:
        status, last = findings.changes[-1].status, findings.audits[-1].name
    if _exceeds(findings) and status != "rose":
        return [Step(f"Hold back {last}: its own audit exceeds a limit, whatever the one before showed.")]
    if status == "rose":
        return [
            Step(f"Hold back {last}, and look for what changed: data, number of epochs, regularisation, noise."),
            Step("See which measures weaken the attack, and what each costs.", "miaudit disclosure CONFIG.yaml"),
        ]
    if status == "not-comparable":
        return [
            Step(
                "Audit both in the same way, with a declared design, and compare again.", "miaudit compare BEFORE AFTER"
            )
        ]
    if status == "no-difference":
        more = Step("Audit more records if a smaller rise would matter: four times as many about halve the interval.")
        known = isinstance(findings, History) or any(c.correlation is not None for c in findings.changes)
        return [more] if known else [_NARROWER, more]
    return [
        Step(f"Keep {last} as the one to beat, and compare the next version with it."),
        Step("What is left is said by its own audit: less leakage is not none."),
    ]


def _after_budget(budget: Budget) -> list[Step]:
    """What to do next, by the rule of the budget."""
    last = budget.releases[-1].name
    if budget.exit_code == 3:
        first = next(one.name for one in budget.releases if one.alarm)
        return [
            Step(f"Hold back {first} and what follows it, and look for what changed: data, epochs, noise."),
            Step("After the model is mended, begin a new folder with a new budget: this one keeps its alarm."),
        ]
    if budget.exit_code == 4:
        return [Step(f"Audit {last} again so that it gives an answer: it has already taken its share of the budget.")]
    again = Step("Add the next release to the folder and run the same command again.")
    if budget.memberships == "fresh":
        return [again]
    return [again, Step("Assign members anew at random for each release: small leaks are then found sooner.")]


def _release(one: BudgetedRelease) -> dict[str, str]:
    return {
        "name": one.name,
        "date": one.date,
        "p": f"{one.p:.2g}" if one.tests else f"– {one.reason}",
        "tests": f"{one.tests:,}",
        "spent": percent(one.spent),
        "left": percent(one.left, "down"),
        "threshold": f"{one.threshold:.2g}",
        "gathered": "–" if one.gathered is None else f"{one.gathered:.3g}",
        "result": "Alarm" if one.alarm else "No alarm" if one.tests else "Not answered",
        "tone": "flagged" if one.alarm else "" if one.tests else "inconclusive",
    }


def _row(change: Change) -> dict[str, str]:
    name = change.name
    low, high = change.low, change.high
    added = f"; {ADDED}" if ADDED in change.note else ""
    return {
        "name": _name(change),
        "before": amount(name, change.before),
        "after": amount(name, change.after),
        "difference": "–" if change.value is None else f"{change.value:+.4f}",
        "limits": f"{difference_limits(low, high)}{added}" if low is not None and high is not None else change.note,
    }


def _name(change: Change) -> str:
    sentence = "" if change.estimator == "raw" else f" ({change.estimator})"
    if is_not_causal(change):
        sentence = f" ({NOT_CAUSAL})"
    return f"{label(change.name)}{sentence}"


def _differences(findings: Comparison) -> dict[str, Chart]:
    rows = [
        {
            "name": _name(c).replace(", largest TPR − FPR", ""),
            "text": difference(c.value, c.low, c.high),
            **_limits(c),
        }
        for c in findings.changes
        if c.value is not None and c.low is not None and c.high is not None
        if definition.of(c.name).bounded and not is_not_causal(c)
    ]
    if not rows:
        return {}
    title = f"{findings.after} less {findings.before}, with intervals"
    sentences = ["Right of the dashed line: more leakage."]
    return {
        "differences": intervals(rows, axis="Difference", against=0.0, title=title, sentences=sentences),
    }


def _course(findings: History) -> dict[str, Chart]:
    shown = [a for a in findings.audits if a.high is not None][-_MOST_DRAWN:]
    if not shown:
        return {}
    names = distinct([audit.name for audit in shown])
    rows = [{"name": names[a.name], "text": a.said, **_limits(a)} for a in shown]
    primary = findings.primary
    title = f"{label(primary)} over {len(shown)} audits, oldest first"
    sentences = ["Dashed: an attack that knows nothing. A row without a point has an upper limit only."]
    return {"history": intervals(rows, axis=label(primary), against=chance(primary), title=title, sentences=sentences)}


def _limits(row: Change | Audited) -> dict[str, Any]:
    return {"value": row.value, "low": row.low, "high": row.high}


def intervals(
    rows: Sequence[Mapping[str, Any]], *, axis: str, against: float | None, title: str, sentences: Sequence[str]
) -> Chart:
    """Draw an interval with its point in each row.

    Parameters
    ----------
    rows : of each ``name`` (shown as it is, once), ``value``, ``low``, ``high`` and ``text`` for the pointer; a row
        without a value shows its upper limit only
    axis : title of the horizontal axis
    against : where a dashed line stands, such as no difference or chance
    title, sentences : what is seen, and the words under it
    """
    shown = [
        {**row, "low": row["low"] if row["low"] is not None else row["high"]} for row in rows if row["high"] is not None
    ]
    names = [row["name"] for row in shown]
    y = in_rows("name", 190, sort=names)
    x = scaled(axis, zero=False, tickCount=8)
    tip = tips(name="Audit or metric", text="Value")
    base = over(shown)
    layers = []
    if against is not None:
        layers.append(upright(against, x, GREY, strokeDash=[5, 4]))
    rule = base.mark("rule", color=BLUE, strokeWidth=3)
    layers.append(rule.encode(y=y, x=channel("low:Q", **x), x2="high:Q", tooltip=tip))
    point = base.where("datum.value != null").mark("point", color=INK, filled=True, size=70, opacity=1)
    layers.append(point.encode(y=y, x=channel("value:Q", **x), tooltip=tip))
    text = "; ".join(f"{row['name']}: {row['text']}" for row in shown)
    return finished(layers, title, sentences, f"{title}. Intervals by row: {text}.", max(90, _ROW * len(shown)))

"""The page of a release of a synthetic table, from plain findings."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from miaudit.findings.next_steps import Step
from miaudit.findings.release import Guarantee, Spent, SynthesisFindings, Usefulness, rounded_up
from miaudit.metrics.rounding import lower_text, percent, upper_text
from miaudit.report import fidelity_charts, graph_charts, page_frame
from miaudit.report.drawing import BLUE, GREY, INK, finished, tips
from miaudit.report.vega_lite import Chart, channel, constant, over

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

NAMES = (*graph_charts.NAMES, "limit", "kept", *fidelity_charts.NAMES)


def charts(findings: SynthesisFindings) -> dict[str, Chart]:
    """Draw what the findings hold, in the order of :data:`NAMES`; a chart without data is left out."""
    by_name: dict[str, Chart] = {}
    if findings.graph:
        by_name |= graph_charts.charts(findings.graph, latent="latent" in findings.generator)
    if findings.guarantee:
        by_name["limit"] = _limit_chart(findings.guarantee)
    if findings.useful and findings.useful.kept:
        by_name["kept"] = _shares_kept(findings.useful)
    if findings.fidelity:
        by_name |= fidelity_charts.charts(findings.fidelity)
    return by_name


def page(findings: SynthesisFindings, *, built: Built | None = None) -> str:
    """Write findings of a release as one self-contained HTML page."""
    return page_frame.render(
        "synthesis_page.html",
        findings,
        built or charts(findings),
        overall=_overall(findings),
        steps=_steps(findings),
        advice=_more_advice(findings),
        cards=_cards(findings),
        guarantee=guarantee_facts(findings.guarantee, findings.neighbours),
        spent=_spent(findings.spent),
        useful=usefulness_table(findings.useful),
        fidelity=fidelity_charts.cards(findings.fidelity),
    )


def _overall(findings: SynthesisFindings) -> dict[str, str]:
    """Word and tone of the box, and where not all is well its first sentence: of privacy and of use together."""
    guarantee, useful, word = findings.guarantee, findings.useful, findings.word
    if guarantee is not None and (useful is None or useful.status == "useful"):
        return {"word": word, "tone": "clear", "said": ""}
    if findings.stopped and useful is not None:
        return {"word": word, "tone": "inconclusive", "said": useful.text}
    return {"word": word, "tone": "inconclusive", "said": "" if useful is None else useful.text}


def _steps(findings: SynthesisFindings) -> list[Step]:
    """What to do with the release."""
    useful, file = findings.useful, findings.release.file
    audit = shlex.join(
        ["miaudit", "audit", "--synthetic", file, "--members", "MEMBERS.csv", "--nonmembers", "OTHERS.csv"]
    )
    if findings.guarantee is None:
        private = "Ask for differential privacy, or audit the table before anybody sees it."
        return [Step(private, audit)]
    if useful is not None and findings.stopped:
        return [Step(_sentence(text)) for text in useful.advice]
    if useful is not None and useful.status in ("not", "unjudged"):
        return [
            Step(
                f"Do not hand {file} on as it is: what it shows beside single columns may not hold of the real records."
            ),
            *(Step(_sentence(text)) for text in useful.advice[:3]),
        ]
    steps = [Step(f"Hand on {file} with the .json and .html files of the same name. Keep this page and the ledger.")]
    if useful is not None and useful.status == "partly":
        steps.append(Step("Say with it what it does not keep."))
    return [*steps, Step("Try the promise: attack the table with records that it was made of, and with others.", audit)]


def _sentence(advice: str) -> str:
    return f"{advice[:1].upper()}{advice[1:]}."


def _more_advice(findings: SynthesisFindings) -> list[str]:
    """What to change, without what the next steps say."""
    listed = {step.text for step in _steps(findings)}
    return [text for text in (findings.useful.advice if findings.useful else ()) if _sentence(text) not in listed]


def _limit_chart(guarantee: Guarantee) -> Chart:
    """The largest true-positive rate at each false-positive rate that the claim leaves to an attack on a record."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    rates = [10 ** (-4 + 4 * i / 120) for i in range(121)]
    most = [_most(fpr, epsilon, delta) for fpr in rates]
    rows = [
        {"fpr": fpr, "tpr": tpr, "guess": fpr, "at": percent(fpr), "most": f"{rounded_up(100 * tpr)}%"}
        for fpr, tpr in zip(rates, most, strict=True)
    ]
    axis = {"format": "~%", "values": [1e-4, 1e-3, 1e-2, 1e-1, 1]}
    scale = {"type": "log", "domain": [1e-4, 1]}
    x = channel("fpr:Q", title="False-positive rate", scale=scale, axis=axis)
    y: dict[str, Any] = {"scale": scale, "axis": axis, "title": "True-positive rate"}
    layers = [
        over(rows).mark("line", color=GREY, strokeDash=[5, 4]).encode(x=x, y=channel("guess:Q", **y)),
        over(rows)
        .mark("line", color=BLUE, strokeWidth=2.5)
        .encode(x=x, y=channel("tpr:Q", **y), tooltip=tips(at="FPR", most="At most")),
        over([rows[54]])
        .mark("text", align="right", dx=-8, dy=-8, color=INK, fontSize=11)
        .encode(x=x, y=channel("tpr:Q", **y), text=constant("no attack lies above")),
    ]
    title = "What the guarantee leaves to an attack on any one record"
    sentences = ["No attack can lie above the blue line, whatever it knows. The dashed line is random guessing."]
    at = ", ".join(f"{rounded_up(100 * tpr)}% at {percent(fpr)}" for fpr, tpr in guarantee.tpr_limits)
    return finished(
        layers, title, sentences, f"Limits of the true-positive rate by the false-positive rate: {at}.", 260
    )


def _most(fpr: float, epsilon: float, delta: float) -> float:
    """min(1, e^eps FPR + delta, 1 - e^-eps (1 - delta - FPR)), as in the trade-off function of (epsilon, delta)-DP."""
    lower = math.exp(min(epsilon, 700.0)) * fpr + delta
    upper = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return max(fpr, min(1.0, lower, upper))


def _cards(findings: SynthesisFindings) -> list[tuple[str, str, str]]:
    guarantee = findings.guarantee
    cards = []
    if guarantee:
        fpr, tpr = guarantee.tpr_limits[1]
        cards += [
            ("Epsilon", rounded_up(guarantee.epsilon, 6), f"proved: {upper_text(guarantee.proved, 4)}"),
            ("Delta", rounded_up(guarantee.delta), f"of {guarantee.records:,} records, nominally"),
            (f"TPR at {percent(fpr)} FPR", f"{rounded_up(100 * tpr)}%", "at most, for any attack on a record"),
        ]
    if not findings.stopped:
        cards.append(("Records", f"{findings.release.records:,}", findings.release.file))
    cards.append(("Columns", f"{len(findings.columns):,}", _kinds(findings.columns)))
    return cards


def guarantee_facts(guarantee: Guarantee | None, neighbours: str | None) -> list[tuple[str, str]]:
    """Return what is proved as names and values; none without a guarantee."""
    if not guarantee:
        return []
    epsilon, delta = rounded_up(guarantee.epsilon, 6), rounded_up(guarantee.delta, 4)
    changed = "added or removed" if neighbours is None else "replaced by another"
    rows = [
        ("claim", f"ε = {epsilon} at δ = {delta}, one record {changed}"),
        ("mechanism", guarantee.mechanism),
        ("proved", f"ε = {upper_text(guarantee.proved, 5)}, by {guarantee.accountant}"),
        ("noise multiplier", f"{guarantee.noise:.4g}"),
    ]
    rows += [] if guarantee.clip is None else [("clipping norm", f"{guarantee.clip:g}")]
    return [*rows, ("nominal records", f"{guarantee.records:,}")]


def _shares_kept(usefulness: Usefulness) -> Chart:
    """How much the release keeps of each thing that real records show."""
    rows = [
        {"of": one.of, "share": max(0.0, min(one.share, 1.0)), "kept": one.shown, "measure": one.measure}
        for one in usefulness.kept
    ]
    axis = {"format": "~%", "values": [0, 0.5, 0.8, 1]}
    x = channel("share:Q", title="Kept of what real records show", scale={"domain": [0, 1]}, axis=axis)
    y = channel("of:N", title=None, sort=None, axis={"labelLimit": 260})
    limits = over([{"at": 0.5}, {"at": 0.8}])
    layers = [
        over(rows)
        .mark("bar", color=BLUE, height=18)
        .encode(x=x, y=y, tooltip=tips(of="Of", kept="Kept", measure="By")),
        limits.mark("rule", color=GREY, strokeDash=[5, 4]).encode(x=channel("at:Q", scale={"domain": [0, 1]})),
        over(rows).mark("text", align="left", dx=6, color=INK, fontSize=12).encode(x=x, y=y, text="kept:N"),
    ]
    sentences = ["1 is as much as real records keep, 0 what columns without any dependence keep.", "Useful from 80%."]
    at = ", ".join(f"{one.shown} of {one.of}" for one in usefulness.kept)
    return finished(layers, "What the release keeps", sentences, f"Shares kept: {at}.", 60 + 34 * len(rows))


def usefulness_table(usefulness: Usefulness | None) -> dict[str, Any] | None:
    """Return what a release keeps as the rows of a table; None where it was not judged."""
    if usefulness is None:
        return None
    rows = [
        {
            "of": one.of,
            "share": one.shown,
            "limits": ""
            if one.low is None or one.high is None
            else f"{percent(one.low, 'down')} to {percent(one.high, 'up')}",
            "measure": one.measure,
            "values": [f"{value:.3f}" for value in (one.real, one.synthetic, one.nothing)],
        }
        for one in usefulness.kept
    ]
    tone = {
        "useful": "clear",
        "partly": "inconclusive",
        "not": "flagged",
        "unjudged": "inconclusive",
        "stopped": "inconclusive",
    }[usefulness.status]
    return {"text": usefulness.text, "tone": tone, "on": usefulness.on, "records": usefulness.records, "rows": rows}


def _spent(spent: Spent | None) -> dict[str, Any] | None:
    if not spent:
        return None
    if spent.epsilon is None or spent.delta is None:
        total = "A release without differential privacy is among them: of all together nothing can be claimed."
    else:
        total = f"All together: ε = {rounded_up(spent.epsilon, 4)} at δ = {rounded_up(spent.delta)}."
        if spent.budget is not None:
            left = spent.budget - spent.epsilon
            total += f" The budget is {spent.budget:g}, of which {lower_text(left, 4)} is left."
    return {"table": spent.table, "releases": spent.releases, "total": total}


def _kinds(columns: Any) -> str:
    counts = Counter(column["kind"] for column in columns)
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())

"""The page of what a language model repeats word for word, for readers who are no statisticians."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miaudit.findings.extraction import ExtractionFindings, Rate, Repetition
from miaudit.metrics.definition import amount, percent, written
from miaudit.report import page_frame
from miaudit.report.drawing import BLUE, ORANGE, coloured, finished, over, share, tips

if TYPE_CHECKING:
    import altair as alt

NAMES = ("queries", "repetitions")
_OF = {"members": "trained on", "controls": "not trained on (controls)"}
_WAYS = {"sampled": "Drawn from the model", "greedy": "The likeliest continuation"}
_SHOWN = 50


def charts(findings: ExtractionFindings) -> dict[str, alt.LayerChart]:
    """Draw the shares by the number of queries, and by how often a text was trained on."""
    drawn: dict[str, alt.LayerChart] = {}
    if findings.members.value is not None and findings.controls.value is not None:
        drawn["queries"] = _by_queries(findings)
    if len(findings.repetitions) > 1:
        drawn["repetitions"] = _by_times(findings)
    return drawn


def page(findings: ExtractionFindings) -> str:
    """Write the findings as one self-contained HTML page."""
    verdict = findings.verdict
    word = page_frame.WORDS[verdict.status]
    text = verdict.text.removeprefix(f"{word}: ").removeprefix("No concern at this limit: ")
    plan = findings.plan
    return page_frame.render(
        "extraction_page.html",
        findings,
        charts(findings),
        verdict={"status": verdict.status, "word": word},
        said=text[:1].upper() + text[1:],
        what="units" if "member_units" in findings.counts else "texts",
        cards=_cards(findings),
        ways=[
            [_WAYS[w.name], *(_of_1000(rate) for rate in (w.members, w.controls, w.difference))] for w in findings.ways
        ],
        repetitions=[_row(row) for row in findings.repetitions],
        most=f"{findings.most_exposure:.1f}",
        sure=percent(plan["confidence"]),
        named=findings.named[:_SHOWN],
    )


def text(findings: ExtractionFindings) -> str:
    """The verdict and the shares as lines of text."""
    counts = findings.counts
    lines = [
        findings.verdict.text,
        "",
        f"{counts['members']:,} texts that were trained on, {counts['controls']:,} controls, "
        f"{counts['passages']:,} passages",
    ]
    for way in findings.ways:
        lines.append(f"  {_WAYS[way.name]}, of 1,000:")
        for name, rate in (("trained on", way.members), ("controls", way.controls), ("difference", way.difference)):
            lines.append(f"    {name:<12} {_of_1000(rate)}")
    if findings.repetitions:
        lines.append("  By how often a text was trained on:")
        for name, texts, out, exposure, auc in map(_row, findings.repetitions):
            lines.append(
                f"    {name:<12} {texts:>7} texts  {out} of 1,000 come out  exposure {exposure} bits  AUC {auc}"
            )
    lines += [f"  {one.id}: {one.queries:,.1f} queries" for one in findings.named[:_SHOWN]]
    return "\n".join([*lines, *(f"Note: {note}" for note in findings.notes)])


# -- words and rows ---------------------------------------------------------------------------------------------------


def _cards(findings: ExtractionFindings) -> list[tuple[str, str, str]]:
    first = findings.ways[0]
    of = "of 1,000 {}"
    return [
        ("Come out, trained on", _number(first.members), of.format(f"with limits {_limits(first.members)}")),
        ("Come out, never seen", _number(first.controls), of.format(f"with limits {_limits(first.controls)}")),
        ("More than of controls", _number(first.difference), of.format(f"with limits {_limits(first.difference)}")),
    ]


def _row(row: Repetition) -> list[str]:
    times = f"{row.times_from:,}" if row.times_from == row.times_to else f"{row.times_from:,} to {row.times_to:,}"
    auc = amount("auc", row.auc.value)
    limits = f"({amount('auc', row.auc.low, 'down')} to {amount('auc', row.auc.high, 'up')})"
    return [times, f"{row.texts:,}", _of_1000(row.out), f"{row.exposure:.1f}", f"{auc} {limits}"]


def _of_1000(rate: Rate) -> str:
    return "–" if rate.value is None else f"{_number(rate)} ({_limits(rate)})"


def _number(rate: Rate) -> str:
    return "–" if rate.value is None else written(1000 * rate.value, ".0f")


def _limits(rate: Rate) -> str:
    return f"{written(1000 * rate.low, '.0f', 'down')} to {written(1000 * rate.high, '.0f', 'up')}"


# -- charts -----------------------------------------------------------------------------------------------------------


def _by_queries(findings: ExtractionFindings) -> alt.LayerChart:
    """The share of texts that come out within so many queries."""
    import altair as alt

    rows = [
        {
            "queries": point.queries,
            "of": _OF[of],
            "value": rate.value,
            "low": rate.low,
            "high": rate.high,
            "asked": f"{point.queries:,.0f}",
            "text": f"{_of_1000(rate)} of 1,000",
        }
        for point in findings.queries
        for of, rate in (("members", point.members), ("controls", point.controls))
    ]
    x = alt.X("queries:Q", scale=alt.Scale(type="log"), title="Queries", axis=alt.Axis(format="~s", tickCount=6))
    y = share("Share of which a passage comes out")
    colours = coloured("of", {_OF["members"]: BLUE, _OF["controls"]: ORANGE})
    base = over(rows).encode(x=x, color=colours)
    layers = [
        base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=alt.Y("value:Q", **y)),
        base.mark_point(filled=True, size=40, opacity=1).encode(
            y=alt.Y("value:Q", **y), tooltip=tips(of="Texts", asked="Queries", text="Come out")
        ),
    ]
    first = findings.ways[0]
    title = (
        f"In {findings.plan['queries']:,} queries {_number(first.members)} of 1,000 texts that were trained on come "
        f"out, and {_number(first.controls)} of 1,000 controls"
    )
    said = ["What controls show is boilerplate; only the gap is memorised. Bands: limits of each point for itself."]
    values = ", ".join(f"{row['asked']} queries, {row['of']}: {row['text']}" for row in rows)
    return finished(layers, title, said, f"{title}. {values}.", 300)


def _by_times(findings: ExtractionFindings) -> alt.LayerChart:
    """The share of texts that come out by how often they were trained on."""
    import altair as alt

    rows = []
    for row in findings.repetitions:
        times, texts, out, exposure, auc = _row(row)
        rate = row.out
        limits = {"value": rate.value, "low": rate.low, "high": rate.high}
        rows.append(
            {
                "times": times,
                **limits,
                "text": f"{out} of 1,000",
                "exposure": f"{exposure} bits",
                "auc": auc,
                "texts": texts,
            }
        )
    x = alt.X("times:N", sort=None, title="Times trained on", axis=alt.Axis(labelAngle=0))
    y = share("Share of which a passage comes out")
    base = over(rows).encode(x=x)
    shown = tips(times="Times", texts="Texts", text="Come out", exposure="Exposure", auc="AUC")
    layers = [
        base.mark_rule(strokeWidth=3, color=BLUE, opacity=0.45).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_point(filled=True, size=90, color=BLUE, opacity=1).encode(y=alt.Y("value:Q", **y), tooltip=shown),
    ]
    if findings.controls.value is not None:
        level = [{"at": findings.controls.value}]
        layers.append(over(level).mark_rule(color=ORANGE, strokeDash=[6, 3]).encode(y=alt.Y("at:Q", **y)))
    last = findings.repetitions[-1]
    title = f"Of texts trained on {_row(last)[0]} times {_number(last.out)} of 1,000 come out"
    said = ["Limits hold for all numbers of times together. Orange dashes: texts that were not trained on."]
    values = ", ".join(f"{row['times']} times: {row['text']}" for row in rows)
    return finished(layers, title, said, f"{title}. {values}.", 260)

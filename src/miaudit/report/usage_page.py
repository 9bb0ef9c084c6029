"""The page of how many records were used, or of whether their deletion worked, for readers who are no statisticians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from miaudit.findings.usage import Compared, DeletionFindings, Point, UsageFindings
from miaudit.metrics.deletion import Deviation
from miaudit.metrics.rounding import percent, written
from miaudit.report import page_frame
from miaudit.report.drawing import BLUE, GREY, ORANGE, coloured, finished, share, tips
from miaudit.report.vega_lite import Chart, channel, over

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

NAMES = ("usage", "deletion")
_NAMES = {
    "auc": "Above a never-seen score (AUC)",
    "highest scores": "Among the highest",
    "lowest scores": "Among the lowest",
}
_READ = 0.25  # of the highest scores are read out
_TONES = {"stated": "refused"}  # a bound without a judgement is grey
_NEXT = {
    "stated": (
        "State how many may have been used before you look, and the answer becomes a verdict: --limit used=0.1.",
        "More decoys or non-members, or more records, raise the bound.",
    ),
    "flagged": (
        "Ask the owner of the model where these records came from. Keep the scores, the key and this report together.",
    ),
    "inconclusive": (
        "A stronger score, more decoys or non-members, or more records raise the bound. Do not read this as unused.",
    ),
}
_NEXT_OF_DELETION = {
    "clear": ("Test again with the strongest attack that you have: this answer is about these scores.",),
    "flagged": (
        "Delete again, or train again without these records, and test the new model with the same scores.",
        "Scores far below chance are a trace too: they show which records were to be forgotten.",
    ),
    "inconclusive": ("Test more deleted records: about 2,000 with 20 decoys each resolve a margin of 0.03.",),
    "not-testable": (
        "Use a stronger attack, one that finds these records before the deletion. Without it nothing can be tested.",
    ),
}

_WARNING = "Do not treat this as a pass."
_COPIES = (
    "This does not show from which copy the model learned a record, or whether that was allowed. It may also "
    "be in other training data, or in that of a model from which this one was trained further."
)
_WHICH = "This does not show which records were used. The bound is of their number."
_UNSEEN = "Do not conclude that no record was used. A model can use records and leave no trace in these scores."
_ELSEWHERE = "Do not conclude that no copies are left, for example in backups, in other models or in data passed on."
_THIS_MODEL = "The answer is about the model, and the version of it, that gave these scores. Others were not tested."


def charts(findings: UsageFindings | DeletionFindings) -> dict[str, Chart]:
    """Draw the share of records among the highest scores, beside what chance puts there."""
    if isinstance(findings, UsageFindings):
        one = findings.usage
        title = f"{one.hits:,} of {one.records:,} records are among the highest {percent(one.chance)} of scores"
        return {"usage": _curves({"these records": findings.curve}, title)}
    last = findings.deletion.deviations[0]
    title = f"After the deletion a deleted record scores above a never-seen one in {percent(last.value)} of pairs"
    return {"deletion": _curves({"after the deletion": findings.after, "before it": findings.before}, title)}


def page(findings: UsageFindings | DeletionFindings, *, built: Built | None = None) -> str:
    """Write the findings as one self-contained HTML page; text from files is escaped."""
    verdict = findings.verdict
    used = isinstance(findings, UsageFindings)
    lead = verdict.text.removeprefix(f"{verdict.word}: ")
    return page_frame.render(
        "usage_page.html",
        findings,
        built or charts(findings),
        verdict={"status": _TONES.get(verdict.status, verdict.status), "word": verdict.word},
        lead=lead[:1].upper() + lead[1:],
        heading="How many of these records were used" if used else "Whether the deletion worked",
        records=f"{_records(findings):,}",
        beside=_beside(findings.compared),
        cards=[*_cards(findings)],
        not_concluded=not_concluded(findings),
        error=percent(1 - (findings.usage if isinstance(findings, UsageFindings) else findings).confidence),
        after=[*(_NEXT if used else _NEXT_OF_DELETION)[verdict.status]],
        rows=[] if isinstance(findings, UsageFindings) else [_row(one) for one in findings.deletion.deviations],
        margin="" if isinstance(findings, UsageFindings) else written(findings.deletion.margin, "g"),
    )


def not_concluded(findings: UsageFindings | DeletionFindings) -> tuple[str, ...]:
    """What a reader must not conclude, in sentences; the first is a warning where the answer could pass for a pass."""
    if isinstance(findings, UsageFindings):
        one = findings.usage
        if not one.used:
            return f"{_WARNING} Nothing shows that a record was not used.", _UNSEEN, _THIS_MODEL
        rest = one.records - one.used
        others = f"Do not conclude that the other {rest:,} records were not used. They may have been used too."
        return *([others] if rest else ()), _WHICH, _COPIES, _THIS_MODEL
    status, tested = findings.verdict.status, findings.deletion
    if status == "clear":
        whole = f"Up to {tested.most_whole:,} of the {tested.records:,} records may still be fully known"
        return (
            f"Do not conclude that the records are gone. {whole}, or more of them in part.",
            "Do not conclude that a certain record is deleted. The test is about all of them together.",
            "Do not conclude that other attacks find nothing. A stronger one may find what these scores do not.",
            _ELSEWHERE,
            _THIS_MODEL,
        )
    if status == "flagged":
        return (
            "Do not conclude that nothing was deleted. A trace of some of the records is enough for this answer.",
            "This does not show where the trace comes from. Copies of the records elsewhere leave one too.",
            _THIS_MODEL,
        )
    return f"{_WARNING} It shows neither that the deletion worked nor that it failed.", _ELSEWHERE, _THIS_MODEL


def text(findings: UsageFindings | DeletionFindings) -> str:
    """The verdict and its numbers as lines of text."""
    lines = [findings.verdict.text, "", f"{_records(findings):,} records, compared with {_beside(findings.compared)}."]
    if isinstance(findings, DeletionFindings):
        seen = written(findings.deletion.seen_before, ".3f", "down")
        lines += [f"  before the deletion     AUC at least {seen}"]
        lines += [
            f"  {name:<32} {value}  limits {limits}, chance {chance}"
            for name, value, limits, chance in map(_row, findings.deletion.deviations)
        ]
    else:
        one = findings.usage
        chance = f"chance puts {percent(one.chance)} of unused records there"
        lines.append(f"  {one.hits:,} of them are among the highest scores; {chance}.")
    lines += [f"Note: {note}" for note in findings.notes]
    return "\n".join([*lines, "What you must not conclude:", *(f"  {one}" for one in not_concluded(findings))])


def _records(findings: UsageFindings | DeletionFindings) -> int:
    return findings.usage.records if isinstance(findings, UsageFindings) else findings.deletion.records


def _beside(compared: Compared) -> str:
    return f"{compared.count:,} decoys each" if compared.kind == "decoys" else f"{compared.count:,} non-members"


def _cards(findings: UsageFindings | DeletionFindings) -> Iterator[tuple[str, str, str]]:
    if isinstance(findings, UsageFindings):
        one = findings.usage
        yield "Used, at least", f"{one.used:,}", f"of {one.records:,}, at {percent(one.confidence)} confidence"
        yield "As a share", percent(one.share, "down", 2), "the lower bound"
        yield "Among the highest", f"{one.hits:,}", f"where chance puts {percent(one.chance)} of unused records"
        return
    tested = findings.deletion
    seen = written(tested.seen_before, ".3f", "down")
    yield "AUC before", f"≥ {seen}", f"more than {written(0.5 + tested.margin, 'g')} is needed to test anything"
    first = tested.deviations[0]
    yield "AUC after", f"{first.value:.3f}", f"limits {_auc(first.low, first.high)}; 0.5 if nothing is left"
    yield "Still fully known", f"≤ {percent(tested.most_kept, 'up', 2)}", "of the deleted records"


def _auc(low: float, high: float) -> str:
    return f"{written(low, '.3f', 'down')} to {written(high, '.3f', 'up')}"


def _row(one: Deviation) -> tuple[str, str, str, str]:
    if one.name == "auc":
        return _NAMES[one.name], f"{one.value:.3f}", _auc(one.low, one.high), "0.5"
    limits = f"{percent(one.low, 'down')} to {percent(one.high, 'up')}"
    return _NAMES[one.name], percent(one.value), limits, percent(one.expected)


def _curves(curves: Mapping[str, Sequence[Point]], title: str) -> Chart:
    """The share of records among the highest scores, by the share that chance puts there."""
    rows = [
        {
            "of": name,
            "chance": point.chance,
            "share": point.share,
            "by": percent(point.chance),
            "is": percent(point.share),
        }
        for name, points in curves.items()
        for point in points
    ]
    x, y = share("Share that chance puts among the highest scores"), share("Share of the records that are there")
    colours = dict(zip(curves, (BLUE, ORANGE), strict=False))
    across, up = channel("chance:Q", **x), channel("share:Q", **y)
    chance = over([{"chance": 0, "share": 0}, {"chance": 1, "share": 1}])
    base = over(rows).encode(x=across, y=up, color=coloured("of", colours))
    layers = [
        chance.mark("line", color=GREY, strokeDash=[6, 3]).encode(x=across, y=up),
        base.mark("line", strokeWidth=2),
        base.mark("point", filled=True, size=30, opacity=1).encode(
            tooltip=tips(of="Records", by="Chance", **{"is": "Share"})
        ),
    ]
    sentences = ["Grey dashes: records that were not used. A line far above it on the left shows use."]
    values = ", ".join(
        f"{name}, highest {percent(point.chance)}: {percent(point.share)}"
        for name, points in curves.items()
        for point in points
        if point.chance <= _READ
    )
    return finished(layers, title, sentences, f"{title}. {values}.", 320)

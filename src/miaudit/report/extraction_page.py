"""The page of what a language model repeats word for word, for readers who are no statisticians."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from miaudit.findings.extraction import ExtractionFindings, Named, Queries, Rate, Repetition, Run, Way
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import Rounding, percent, written
from miaudit.report import page_frame
from miaudit.report.drawing import BLUE, ORANGE, coloured, finished, share, tips
from miaudit.report.vega_lite import Chart, channel, over

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

NAMES = ("queries", "runs", "repetitions", "exposure")
_OF = {"members": "trained on", "controls": "not trained on (controls)"}
_WAYS = {
    "sampled": "By probabilities, in {queries:,} queries",
    "greedy": "By probabilities, the likeliest continuation",
    "asked-greedy": "Asked, the likeliest answer",
    "asked-greedy-near": "Asked, nearly the likeliest answer",
    "asked-drawn": "Asked, in {samples:,} answers",
    "asked-drawn-near": "Asked, nearly in {samples:,} answers",
    "answers": "Word for word, in {answers:,} answers",
    "answers-near": "Nearly, in {answers:,} answers",
}
_SHORT = {
    "sampled": "in queries",
    "greedy": "likeliest",
    "asked-greedy": "asked: likeliest",
    "asked-greedy-near": "nearly",
    "asked-drawn": "asked: drawn",
    "asked-drawn-near": "drawn nearly",
    "answers": "word for word",
    "answers-near": "nearly",
}
_NEXT = {
    "flagged": (
        "Look at which texts these are: miaudit extraction {file} --names. Take texts that the training data hold "
        "many times out, or keep one of each, and train again.",
        "If no text may be repeated at all, train with differential privacy. miaudit audit tests such a claim.",
    ),
    "clear": (
        "Ask about more text for a smaller limit, and with a longer prefix: miaudit extraction {file} --prefix 100.",
        "That a text does not come out does not hide that it was trained on: miaudit audit measures that.",
    ),
    "inconclusive": (
        "More texts give narrower limits: four times as many about halve them.",
        "Add controls first, where they are fewer: texts like the members that were not trained on.",
    ),
    "undeclared": (
        "Declare how it was decided which texts were trained on: --design one-run or multi-run if coins decided, "
        "--design zero-run if not.",
    ),
    "not-testable": ("Add texts of the kind that is missing, or lower --prefix and --suffix.",),
}
_NEXT_OF_ANSWERS = {
    "flagged": (
        "Look at which texts these are: {command} --names. Take texts that the training data hold many times out, or "
        "keep one of each, and train again.",
        _NEXT["flagged"][1],
    ),
    "clear": (
        "Ask for more answers, with the beginnings of private texts and of controls as prompts, and compare again: "
        "{command}.",
        _NEXT["clear"][1],
    ),
    "not-testable": ("Make answers about private texts and controls in the same way, and compare again: {command}.",),
}
_SHOWN = 50


def charts(findings: ExtractionFindings) -> dict[str, Chart]:
    """Draw the shares by the number of queries, or by tokens in a row, and by how often a text was trained on."""
    by_name: dict[str, Chart] = {}
    if findings.members.value is not None and findings.controls.value is not None:
        by_name |= {"queries": _by_queries(findings)} if findings.queries else {"runs": _by_runs(findings)}
    if len(findings.repetitions) > 1:
        by_name |= {"repetitions": _by_times(findings), "exposure": _exposure(findings)}
    return by_name


def page(findings: ExtractionFindings, *, built: Built | None = None) -> str:
    """Write the findings as one self-contained HTML page."""
    verdict = findings.verdict
    word = verdict.word
    text = verdict.text.removeprefix(f"{word}: ")
    plan = findings.plan
    about = _about(findings)
    return page_frame.render(
        "extraction_page.html",
        findings,
        built or charts(findings),
        verdict={"status": verdict.status, "word": word},
        said=text[:1].upper() + text[1:],
        what=_what(findings),
        plain=[*sentences(findings)],
        after=_next(findings),
        cards=_cards(findings, about),
        ways=[
            [_name(findings, w.name), *(_of_1000(rate) for rate in (w.members, w.controls, w.difference))]
            for w in findings.ways
        ],
        edits=int(plan["near"] * plan["suffix"] + 1e-9),
        repetitions=[_row(row) for row in findings.repetitions],
        most=f"{findings.most_exposure:.1f}",
        sure=percent(plan["confidence"]),
        named=[_named(one) for one in findings.named[:_SHOWN]],
        units=findings.units[:_SHOWN],
    )


def text(findings: ExtractionFindings) -> str:
    """The verdict and the shares as lines of text."""
    counts, answers = findings.counts, findings.generations
    lines = [
        findings.verdict.text,
        "",
        *sentences(findings),
        "",
        f"{counts['members']:,} texts that were trained on, {counts['controls']:,} controls, "
        + (f"{counts['passages']:,} passages" if answers is None else f"{answers.answers:,} answers"),
    ]
    for way in findings.ways:
        lines.append(f"  {_name(findings, way.name)}, of 1,000:")
        for name, rate in (("trained on", way.members), ("controls", way.controls), ("difference", way.difference)):
            lines.append(f"    {name:<12} {_of_1000(rate)}")
    if findings.repetitions:
        lines.append("  By how often a text was trained on:")
        for name, texts, out, exposure, median, auc in map(_row, findings.repetitions):
            bits = f"exposure {exposure} bits, median {median}"
            lines.append(f"    {name:<12} {texts:>7} texts  {out} of 1,000 come out  {bits}  AUC {auc}")
    for one in findings.named[:_SHOWN]:
        name, member, times, queries, ways = _named(one)
        how = f"trained on {times} times, {queries} queries"
        if answers is not None:
            how = f"{'private' if member == 'yes' else 'control'}, {one.run:,} tokens in a row, line {one.line:,}"
        lines.append(f"  {name}: {how}; {ways}")
    lines += [f"  {one.unit}: {one.out:,} of {one.texts:,} texts" for one in findings.units[:_SHOWN]]
    return "\n".join([*lines, *(f"Note: {note}" for note in findings.notes)])


# -- words and rows ---------------------------------------------------------------------------------------------------


def sentences(findings: ExtractionFindings) -> Iterator[str]:
    """Say in plain words how many texts come out, and how many can be identified as training data."""
    about, identified = _about(findings), findings.told
    what = _what(findings)
    if about.members.value is not None and about.controls.value is not None:
        of = "private texts" if what == "texts" else "people or sources (units) with private texts"
        limits = _limit(about.members.low, "down"), _limit(about.controls.high, "up")
        yield (
            f"Of 1,000 {of} {_number(about.members)} (at least {limits[0]}) come out {about.words}, compared with "
            f"{_number(about.controls)} (at most {limits[1]}) of 1,000 that it never saw."
        )
    if identified.share.value is not None:
        accused = written(1000 * identified.fpr, ".0f")
        yield (
            f"{_number(identified.share)} ({_limits(identified.share)}) of 1,000 texts can be identified as training "
            f"data, if {accused} of 1,000 others may be wrongly accused. Random guessing would find {accused}."
        )
    elif findings.generations is None:
        yield f"How many can be identified as training data is not shown. {identified.why_not}"


def _listed(findings: ExtractionFindings, step: str) -> str:
    """A step that does not ask for names which the page has."""
    if not findings.named:
        return step
    return re.sub(r"^(Look at which texts these are): .*? --names\.", r"\1 in the table below.", step)


def _next(findings: ExtractionFindings) -> list[str]:
    """What to do next, each with its command where there is one."""
    file, answers = findings.source or "FILE.jsonl", findings.generations
    if answers is not None:
        command = f"miaudit extraction --generations {file} --texts {answers.texts} --controls {answers.controls}"
        reason = findings.verdict.reason or findings.verdict.status
        texts = _NEXT_OF_ANSWERS.get(reason, _NEXT[reason])
        return [_listed(findings, one).replace("{command}", command) for one in texts]
    texts = _NEXT[findings.verdict.reason or findings.verdict.status]
    steps = [_listed(findings, one).replace("{file}", file) for one in texts]
    design = findings.design or "zero-run"
    if findings.told.share.value is None:
        options = f"--signal token-logprobs --design {design}"
        steps.append(f"Who can be identified as a member, corrected or refused: miaudit audit {file} {options}.")
    if findings.asked is None and findings.verdict.status != "not-testable":
        steps.append(f"Nearly the same words: ask the model, miaudit extraction {file} --model FOLDER.")
    return steps


def _about(findings: ExtractionFindings) -> Way:
    """The way of which the verdict is told."""
    return next(way for way in findings.ways if way.name == findings.verdict.way)


def _what(findings: ExtractionFindings) -> str:
    return "units" if "member_units" in findings.counts else "texts"


def _name(findings: ExtractionFindings, name: str) -> str:
    prompted, answers = findings.asked, findings.generations
    return _WAYS[name].format(
        queries=findings.plan.get("queries", 0),
        samples=0 if prompted is None else prompted.samples,
        answers=0 if answers is None else answers.answers,
    )


def _named(one: Named) -> list[str]:
    times = "–" if one.times is None else f"{one.times:,}"
    queries = "–" if one.queries is None else f"{one.queries:,.0f}" if one.queries < 1e7 else f"{one.queries:.1g}"
    ways = ", ".join(_SHORT[name] for name in one.ways)
    return [one.id, "yes" if one.member else "no", times, queries, ways]


def _cards(findings: ExtractionFindings, about: Way) -> list[tuple[str, str, str]]:
    of = "of 1,000 {}"
    cards = [
        ("Come out, trained on", _number(about.members), of.format(f"with limits {_limits(about.members)}")),
        ("Come out, never seen", _number(about.controls), of.format(f"with limits {_limits(about.controls)}")),
        ("More than controls", _number(about.difference), of.format(f"with limits {_limits(about.difference)}")),
    ]
    identified = findings.told
    if identified.share.value is not None:
        accused = f"and {written(1000 * identified.fpr, '.0f')} of 1,000 others wrongly"
        cards.append(
            ("Identified", _number(identified.share), f"of 1,000, {accused}; limits {_limits(identified.share)}")
        )
    return cards


def _row(row: Repetition) -> list[str]:
    times = f"{row.times_from:,}" if row.times_from == row.times_to else f"{row.times_from:,} to {row.times_to:,}"
    auc = amount("auc", row.auc.value)
    limits = f"({amount('auc', row.auc.low, 'down')} to {amount('auc', row.auc.high, 'up')})"
    median = f"{row.median.value or 0.0:.1f} ({_bits(row.median.low, 'down')} to {_bits(row.median.high, 'up')})"
    return [times, f"{row.texts:,}", _of_1000(row.out), f"{row.exposure:.1f}", median, f"{auc} {limits}"]


def _bits(value: float, rounding: Rounding) -> str:
    return written(value, ".1f", rounding)


def _of_1000(rate: Rate) -> str:
    return "–" if rate.value is None else f"{_number(rate)} ({_limits(rate)})"


def _number(rate: Rate) -> str:
    return "–" if rate.value is None else written(1000 * rate.value, ",.0f")


def _limits(rate: Rate) -> str:
    return f"{_limit(rate.low, 'down')} to {_limit(rate.high, 'up')}"


def _limit(share: float, rounding: Rounding) -> str:
    return written(1000 * share, ",.0f", rounding)


# -- charts -----------------------------------------------------------------------------------------------------------


def _by_queries(findings: ExtractionFindings) -> Chart:
    """The share of texts that come out within so many queries."""
    first = findings.ways[0]
    title = (
        f"In {findings.plan['queries']:,} queries {_number(first.members)} of 1,000 texts that were trained on come "
        f"out, and {_number(first.controls)} of 1,000 controls"
    )
    points = [(point.queries, f"{point.queries:,.0f} queries", point) for point in findings.queries]
    return _curves(points, "Queries", title)


def _by_runs(findings: ExtractionFindings) -> Chart:
    """The share of texts of which so many tokens in a row stand in an answer."""
    first = findings.ways[0]
    title = (
        f"{findings.plan['suffix']:,} tokens in a row of {_number(first.members)} of 1,000 private texts are in an "
        f"answer, and of {_number(first.controls)} of 1,000 controls"
    )
    points = [(float(point.tokens), f"{point.tokens:,} tokens", point) for point in findings.runs]
    return _curves(points, "Tokens in a row, or more", title)


def _curves(points: Sequence[tuple[float, str, Queries | Run]], along: str, title: str) -> Chart:
    """Shares of members and of controls along an axis, with limits."""
    rows = [
        {
            "at": at,
            "of": _OF[of],
            "value": rate.value,
            "low": rate.low,
            "high": rate.high,
            "name": name,
            "text": f"{_of_1000(rate)} of 1,000",
        }
        for at, name, point in points
        for of, rate in (("members", point.members), ("controls", point.controls))
    ]
    x = channel("at:Q", scale={"type": "log"}, title=along, axis={"format": "~s", "tickCount": 6})
    y = share("Share of which a passage comes out")
    colours = coloured("of", {_OF["members"]: BLUE, _OF["controls"]: ORANGE})
    base = over(rows).encode(x=x, color=colours)
    layers = [
        base.mark("area", opacity=0.18).encode(y=channel("low:Q", **y), y2="high:Q"),
        base.mark("line", strokeWidth=2).encode(y=channel("value:Q", **y)),
        base.mark("point", filled=True, size=40, opacity=1).encode(
            y=channel("value:Q", **y), tooltip=tips(of="Texts", name=along, text="Come out")
        ),
    ]
    sentences = [
        "What controls show is boilerplate; only the gap is memorised. Bands: limits of each point for itself."
    ]
    values = ", ".join(f"{row['name']}, {row['of']}: {row['text']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {values}.", 300)


def _by_times(findings: ExtractionFindings) -> Chart:
    """The share of texts that come out by how often they were trained on."""
    rows = _times_rows(findings, "out")
    y = share("Share of which a passage comes out")
    layers = _whiskers(rows, y, None if findings.controls.value is None else findings.controls.value)
    last = findings.repetitions[-1]
    title = f"Of texts trained on {_row(last)[0]} times {_number(last.out)} of 1,000 come out"
    sentences = ["Limits hold for all numbers of times together. Orange dashes: texts that were not trained on."]
    values = ", ".join(f"{row['times']} times: {row['text']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {values}.", 260)


def _exposure(findings: ExtractionFindings) -> Chart:
    """The median exposure of texts by how often they were trained on."""
    rows = _times_rows(findings, "median")
    y = {
        "scale": {"domain": [0, math.ceil(findings.most_exposure)], "nice": False},
        "title": "Median exposure, bits",
        "axis": {"tickMinStep": 1},
    }
    last = findings.repetitions[-1]
    title = f"Texts trained on {_row(last)[0]} times have a median exposure of {last.median.value or 0.0:.1f} bits"
    sentences = [
        "Each bit halves the controls that are as likely. Limits hold for all together, beside these controls. Orange: "
        f"one bit, the median of controls. At most {findings.most_exposure:.1f} with so many controls."
    ]
    values = ", ".join(f"{row['times']} times: {row['exposure']}" for row in rows)
    return finished(_whiskers(rows, y, 1.0), title, sentences, f"{title}. {values}.", 260)


def _times_rows(findings: ExtractionFindings, of: str) -> list[dict[str, Any]]:
    rows = []
    for row in findings.repetitions:
        times, texts, out, exposure, median, auc = _row(row)
        rate: Rate = getattr(row, of)
        numbers: dict[str, Any] = {"value": rate.value, "low": rate.low, "high": rate.high}
        words = {"text": f"{out} of 1,000", "exposure": f"median {median} bits, mean {exposure}", "auc": auc}
        rows.append({"times": times, **numbers, **words, "texts": texts})
    return rows


def _whiskers(rows: list[dict[str, Any]], y: dict[str, Any], level: float | None) -> list[Any]:
    """Points with limits over the numbers of times, and a dashed level of texts that were not trained on."""
    x = channel("times:N", sort=None, title="Times trained on", axis={"labelAngle": 0})
    shown = tips(times="Times", texts="Texts", text="Come out", exposure="Exposure", auc="AUC")
    base = over(rows).encode(x=x)
    layers = [
        base.mark("rule", strokeWidth=3, color=BLUE, opacity=0.45).encode(y=channel("low:Q", **y), y2="high:Q"),
        base.mark("point", filled=True, size=90, color=BLUE, opacity=1).encode(
            y=channel("value:Q", **y), tooltip=shown
        ),
    ]
    if level is not None:
        dashes = over([{"at": level}]).mark("rule", color=ORANGE, strokeDash=[6, 3])
        layers.append(dashes.encode(y=channel("at:Q", **y)))
    return layers

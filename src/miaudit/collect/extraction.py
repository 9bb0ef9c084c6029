"""From a file of token log-probabilities, and from what a model answered, to what the model repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.attacks import extraction, tokens
from miaudit.attacks.extraction import Passages
from miaudit.auditing.extraction import ExtractionPlan, by_queries, by_times, in_both, judge, told, way
from miaudit.collect.asked_passages import PassageAnswers
from miaudit.collect.extraction_units import MOST_NAMED, Came, Units
from miaudit.errors import InputError
from miaudit.findings.extraction import Asked, ExtractionFindings, Named, Repetition, Way, WayName
from miaudit.io import token_files
from miaudit.io.token_records import TokenRecords

__all__ = ["ExtractionPlan", "audit_extraction"]

_LEAST = -1e6  # log-probability in the place of a passage that a text does not have


def audit_extraction(
    records: TokenRecords | str | Path,
    plan: ExtractionPlan | None = None,
    *,
    answers: PassageAnswers | None = None,
    design: str = "",
    names: bool = False,
    repeat: Mapping[str, Any] | None = None,
) -> ExtractionFindings:
    """Say how many texts a model repeats word for word, beside texts that it was not trained on.

    Parameters
    ----------
    records : texts of known membership with the log-probabilities of their tokens, or their file (.jsonl, .parquet)
    plan : what counts as coming out; a text (or its unit) counts if any of its passages does
    answers : of the model about passages of these texts (:func:`miaudit.collect.asked_passages.ask_passages`), optional
    design : "one-run" or "multi-run" if it was drawn which texts were trained on, "zero-run" if not; empty if nobody
        knows
    names : whether to name the texts that come out, by their ids, and their units
    repeat : what repeats the work

    Raises
    ------
    InputError
        Also for units that have texts of both kinds: they are neither members nor controls.

    Examples
    --------
    >>> offsets = 100 * np.arange(401)
    >>> member = np.arange(400) < 200
    >>> log_p = np.repeat(np.where(member, -0.01, -3.0), 100)
    >>> records = TokenRecords(tuple(map(str, range(400))), member, log_p, offsets)
    >>> findings = audit_extraction(records, design="one-run")
    >>> findings.verdict.status, findings.members.value, findings.controls.value, findings.exit_code
    ('flagged', 1.0, 0.0, 3)
    """
    plan = plan or ExtractionPlan()
    source = "" if isinstance(records, TokenRecords) else Path(records).name
    held = records if isinstance(records, TokenRecords) else token_files.read(records)
    cut = extraction.passages(held.log_p, held.offsets, prefix=plan.prefix, suffix=plan.suffix, top1=held.top1)
    best = np.full(len(held.ids), _LEAST)
    np.maximum.at(best, cut.record, cut.log_p)
    has = np.bincount(cut.record, minlength=len(best)) > 0
    units = Units.of(held, has)
    likeliest, inside = units.largest(best), units.member
    came = [*_by_log_p(cut, best, has, plan), *_by_answers(answers, len(held.ids), plan)]
    each = 1 - (1 - plan.confidence) / len(came)
    ways = [Way(one.name, one.words, *way(*units.came(one), each)) for one in came]
    repetitions: tuple[Repetition, ...] = ()
    if held.times is not None and inside.any() and not inside.all():
        out = extraction.within(likeliest, plan.queries) >= plan.chance
        repetitions = by_times(units.largest(held.times), out, likeliest, inside, plan.confidence)
    score = tokens.member_scores(log_p=held.log_p, offsets=held.offsets, names=["loss"])["loss"]
    return ExtractionFindings(
        verdict=judge(ways, plan, design, unit=units.what),
        members=ways[0].members,
        controls=ways[0].controls,
        difference=ways[0].difference,
        ways=tuple(ways),
        queries=by_queries(extraction.queries_needed(likeliest, plan.chance), inside, plan),
        repetitions=repetitions,
        most_exposure=float(np.log2(1 + np.count_nonzero(~inside))),
        told=told(score, held.member, held.unit, design, plan.confidence),
        named=_named(held, extraction.queries_needed(best, plan.chance), came) if names else (),
        units=units.named(came) if names else (),
        counts=_counts(held, has, cut) | units.counts,
        plan=_plan(plan),
        design=design,
        asked=None if answers is None else _asked(answers),
        notes=(*held.notes, *(() if answers is None else answers.notes), *_notes(held, has, plan)),
        source=source,
        repeat=dict(repeat or {}),
    )


# -- in which ways texts come out -------------------------------------------------------------------------------------


def _plan(plan: ExtractionPlan) -> dict[str, float | int]:
    """The options as plain values, with both sides of the limit."""
    held = {name: value for name, value in asdict(plan).items() if name != "limits"}
    return {**held, "limit": plan.threshold, "within": plan.negligible}


def _by_log_p(cut: Passages, best: FloatArray, has: BoolArray, plan: ExtractionPlan) -> list[Came]:
    """By log-probabilities: in so many queries, and as the likeliest continuation where that is known."""
    window = f"({plan.suffix} tokens after {plan.prefix}"
    sampled = extraction.within(best, plan.queries) >= plan.chance
    ways = [Came("sampled", f"word for word {window}, in {plan.queries:,} queries)", sampled & has, has)]
    if cut.greedy is not None:
        greedy = np.bincount(cut.record[cut.greedy], minlength=len(best)) > 0
        ways.append(Came("greedy", f"as the likeliest continuation {window})", greedy, has))
    return ways


def _by_answers(answers: PassageAnswers | None, n: int, plan: ExtractionPlan) -> list[Came]:
    """By what a model answered: its likeliest continuation and those that were drawn, word for word and nearly."""
    if answers is None or not len(answers.record):
        return []
    if answers.record.max() >= n:
        raise InputError("answers", f"of these {n} texts", f"of text {answers.record.max()}", "ask about them")
    has = np.bincount(answers.record, minlength=n) > 0
    edits = int(plan.near * plan.suffix + 1e-9)
    window = f"({plan.suffix} tokens after {plan.prefix} alone"
    comparisons: list[tuple[WayName, WayName, str, IntArray]] = [
        ("asked-greedy", "asked-greedy-near", "as the likeliest answer", answers.greedy)
    ]
    if answers.drawn.shape[1]:
        samples = f"in {answers.drawn.shape[1]:,} answers"
        comparisons.append(("asked-drawn", "asked-drawn-near", samples, answers.drawn.min(axis=1, initial=plan.suffix)))
    ways = []
    for exact, near, how, distance in comparisons:
        for name, most, words in (
            (exact, 0, "word for word"),
            (near, edits, f"but for {edits} edited token{'' if edits == 1 else 's'}"),
        ):
            out = np.bincount(answers.record[distance <= most], minlength=n) > 0
            ways.append(Came(name, f"{words} {how} {window})", out, has))
    return ways


def _asked(answers: PassageAnswers) -> Asked:
    how = answers.asking
    return Asked(answers.model, how.samples, how.temperature, how.top_k, len(answers.record))


# -- what is named and counted -----------------------------------------------------------------------------------------


def _named(held: TokenRecords, needed: FloatArray, came: Sequence[Came]) -> tuple[Named, ...]:
    out = np.stack([one.out for one in came], axis=1)
    rows = np.flatnonzero(out.any(axis=1))
    rows = rows[np.argsort(needed[rows], kind="stable")][:MOST_NAMED]
    return tuple(
        Named(
            held.ids[row],
            bool(held.member[row]),
            None if held.times is None else int(held.times[row]),
            float(needed[row]) if np.isfinite(needed[row]) else None,
            tuple(one.name for one, yes in zip(came, out[row], strict=True) if yes),
        )
        for row in rows
    )


def _counts(held: TokenRecords, has: BoolArray, cut: Passages) -> dict[str, int]:
    return {
        "members": int(np.count_nonzero(has & held.member)),
        "controls": int(np.count_nonzero(has & ~held.member)),
        "passages": len(cut.record),
        "too_short": int(np.count_nonzero(~has)),
    }


def _notes(held: TokenRecords, has: BoolArray, plan: ExtractionPlan) -> list[str]:
    shared = "" if held.text is None else in_both(held.text, held.member)
    notes = [shared] if shared else []
    if not has.all():
        least = plan.prefix + plan.suffix
        notes.append(f"{int((~has).sum()):,} texts have fewer than {least:,} tokens and take no part.")
    mean = [
        float(np.diff(held.offsets)[has & rows].mean()) for rows in (held.member, ~held.member) if (has & rows).any()
    ]
    if len(mean) == 2 and max(mean) > 1.2 * min(mean):
        notes.append(
            f"Members have {mean[0]:,.0f} tokens on average, controls {mean[1]:,.0f}: a longer text has more passages, "
            "one of which may come out. Compare texts of one length."
        )
    return notes

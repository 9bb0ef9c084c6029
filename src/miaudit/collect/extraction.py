"""From a file of token log-probabilities to what the model repeats of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.attacks import extraction
from miaudit.attacks.extraction import Passages
from miaudit.auditing.extraction import ExtractionPlan, by_queries, by_times, in_both, judge, way
from miaudit.errors import InputError
from miaudit.findings.extraction import ExtractionFindings, Named, Repetition, Way
from miaudit.io import token_files
from miaudit.io.token_records import TokenRecords

__all__ = ["ExtractionPlan", "audit_extraction"]

_MOST_NAMED = 1000
_LEAST = -1e6  # log-probability in the place of a passage that a text does not have


def audit_extraction(
    records: TokenRecords | str | Path,
    plan: ExtractionPlan | None = None,
    *,
    design: str = "",
    names: bool = False,
    repeat: Mapping[str, Any] | None = None,
) -> ExtractionFindings:
    """Say how many texts a model repeats word for word, beside texts that it was not trained on.

    Parameters
    ----------
    records : texts of known membership with the log-probabilities of their tokens, or their file (.jsonl, .parquet)
    plan : what counts as coming out; a text (or its unit) counts if any of its passages does
    design : "one-run" or "multi-run" if it was drawn which texts were trained on, "zero-run" if not; empty if nobody
        knows
    names : whether to name the texts that come out, by their ids
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
    >>> found = audit_extraction(records, design="one-run")
    >>> found.verdict.status, found.members.value, found.controls.value, found.exit_code
    ('flagged', 1.0, 0.0, 3)
    """
    plan = plan or ExtractionPlan()
    source = "" if isinstance(records, TokenRecords) else Path(records).name
    held = records if isinstance(records, TokenRecords) else token_files.read(records)
    cut = extraction.passages(held.log_p, held.offsets, prefix=plan.prefix, suffix=plan.suffix, top1=held.top1)
    best = np.full(len(held.ids), _LEAST)
    np.maximum.at(best, cut.record, cut.log_p)
    has = np.bincount(cut.record, minlength=len(best)) > 0
    what, code = _units(held, has)
    units, own = np.unique(code[has], return_inverse=True)
    likeliest, inside = np.full(len(units), _LEAST), np.zeros(len(units), dtype=np.bool_)
    np.maximum.at(likeliest, own, best[has])
    inside[own] = held.member[has]
    out = extraction.within(likeliest, plan.queries) >= plan.chance
    words = f"word for word ({plan.suffix} tokens after {plan.prefix}, in {plan.queries:,} queries)"
    ways = [Way("sampled", words, *way(out, inside, plan.confidence))]
    if cut.greedy is not None:
        greedy = np.zeros(len(held.ids), dtype=np.bool_)
        greedy[cut.record[cut.greedy]] = True
        words = f"as the likeliest continuation ({plan.suffix} tokens after {plan.prefix})"
        any_of = np.bincount(own, weights=greedy[has], minlength=len(units)) > 0
        ways.append(Way("greedy", words, *way(any_of, inside, plan.confidence)))
    needed = extraction.queries_needed(best, plan.chance)
    repetitions: tuple[Repetition, ...] = ()
    if held.times is not None and inside.any() and not inside.all():
        times = np.zeros(len(units), dtype=np.int64)
        np.maximum.at(times, own, held.times[has])
        repetitions = by_times(times, out, likeliest, inside, plan.confidence)
    return ExtractionFindings(
        verdict=judge(ways[0], plan, design, unit=what),
        members=ways[0].members,
        controls=ways[0].controls,
        difference=ways[0].difference,
        ways=tuple(ways),
        queries=by_queries(extraction.queries_needed(likeliest, plan.chance), inside, plan),
        repetitions=repetitions,
        most_exposure=float(np.log2(1 + np.count_nonzero(~inside))),
        named=_named(held, needed, has & (needed <= plan.queries * (1 + 1e-12))) if names else (),
        counts=_counts(held, has, cut, code),
        plan=asdict(plan),
        design=design,
        notes=(*held.notes, *_notes(held, has, plan)),
        source=source,
        repeat=dict(repeat or {}),
    )


def _units(held: TokenRecords, has: BoolArray) -> tuple[str, IntArray]:
    """Return what is counted, in words, and which one (n,) each text belongs to."""
    if held.unit is None:
        return "texts", np.arange(len(held.ids))
    names, code = np.unique(np.asarray(held.unit), return_inverse=True)
    both = np.intersect1d(code[has & held.member], code[has & ~held.member])
    if len(both):
        received = f"{len(both)} of {len(names)} units have both, the first {str(names[both[0]])[:40]!r}"
        hint = "leave out the controls of units that were trained on"
        raise InputError("unit", "units of members or of controls alone", received, hint)
    return "units", code.astype(np.int64)


def _named(held: TokenRecords, needed: FloatArray, out: BoolArray) -> tuple[Named, ...]:
    rows = np.flatnonzero(out)
    rows = rows[np.argsort(needed[rows], kind="stable")][:_MOST_NAMED]
    return tuple(Named(held.ids[row], bool(held.member[row]), float(needed[row])) for row in rows)


def _counts(held: TokenRecords, has: BoolArray, cut: Passages, code: IntArray) -> dict[str, int]:
    found = {
        "members": int(np.count_nonzero(has & held.member)),
        "controls": int(np.count_nonzero(has & ~held.member)),
        "passages": len(cut.record),
        "too_short": int(np.count_nonzero(~has)),
    }
    if held.unit is not None:
        found["member_units"] = len(np.unique(code[has & held.member]))
        found["control_units"] = len(np.unique(code[has & ~held.member]))
    return found


def _notes(held: TokenRecords, has: BoolArray, plan: ExtractionPlan) -> list[str]:
    shared = "" if held.text is None else in_both(held.text, held.member)
    found = [shared] if shared else []
    if not has.all():
        least = plan.prefix + plan.suffix
        found.append(f"{int((~has).sum()):,} texts have fewer than {least:,} tokens and take no part.")
    mean = [
        float(np.diff(held.offsets)[has & rows].mean()) for rows in (held.member, ~held.member) if (has & rows).any()
    ]
    if len(mean) == 2 and max(mean) > 1.2 * min(mean):
        found.append(
            f"Members have {mean[0]:,.0f} tokens on average, controls {mean[1]:,.0f}: a longer text has more passages, "
            "one of which may come out. Compare texts of one length."
        )
    return found

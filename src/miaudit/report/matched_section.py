"""The section of an audit's page on the design "matched": why its numbers are causal, and what tested that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miaudit.findings.matched import UNCHECKED
from miaudit.metrics.rounding import percent, upper_text

if TYPE_CHECKING:
    from miaudit.findings.audit import Findings


def section(findings: Findings) -> dict[str, Any] | None:
    """Why chance alone separates true strings from decoys where nothing leaks, and what tested that."""
    shown = findings.matched
    if shown is None:
        return None
    tone, word = ("clear", "One law not refuted") if shown.law else ("inconclusive", "Law not checked")
    tone, word = ("refused", "One law refuted") if shown.obstacle else (tone, word)
    rows = [(one.score, percent(one.mean), upper_text(one.p_value, 2)) for one in shown.ranks]
    law = [one.text for one in shown.law] or [UNCHECKED]
    return {"tone": tone, "word": word, "text": shown.text, "law": law, "ranks": rows}


def size(findings: Findings) -> str:
    """Say how much was audited: true strings and decoys, or records."""
    counts = findings.counts
    if counts.of == "strings":
        return ", ".join(counts.in_words)
    return f"{counts.member_records + counts.nonmember_records:,} records"

"""A verification or a challenge as findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from miaudit.bundle.challenge import Outcome
from miaudit.bundle.contents import Bundle
from miaudit.bundle.verify import Verification
from miaudit.findings.verification import ChallengeFindings, VerificationFindings


def of_verification(found: Verification, repeat: Mapping[str, Any]) -> VerificationFindings:
    """Return a verification as findings."""
    return VerificationFindings(
        status=found.status,
        text=_text(found),
        digest=found.digest,
        tampered=found.tampered,
        recomputed=found.recomputed,
        differences=found.differences,
        not_recomputed=found.not_recomputed,
        environment=found.environment,
        repeat=dict(repeat),
    )


def of_challenge(bundle: Bundle, outcome: Outcome, repeat: Mapping[str, Any]) -> ChallengeFindings:
    """Return the outcome of a challenge as findings, beside its bundle."""
    return ChallengeFindings(
        status=outcome.status,
        text=outcome.text,
        digest=bundle.digest or "",
        subject=outcome.subject,
        labels_visible=outcome.labels_visible,
        order=outcome.order,
        made_before=outcome.made_before,
        judged=outcome.judged,
        submission=outcome.submission,
        metric=outcome.metric,
        difference=None if outcome.difference is None else asdict(outcome.difference),
        bet=None if outcome.bet is None else asdict(outcome.bet),
        bundle=outcome.stated,
        findings=outcome.findings,
        environment=(),
        repeat=dict(repeat),
    )


def _text(found: Verification) -> str:
    if found.status == "failed":
        parts = []
        if found.tampered:
            parts.append(f"{len(found.tampered)} {'place does' if len(found.tampered) == 1 else 'places do'} not fit")
        if found.differences:
            parts.append(
                f"{len(found.differences)} of the findings {'does' if len(found.differences) == 1 else 'do'} "
                "not come out again"
            )
        first = found.tampered[0] if found.tampered else found.differences[0].place
        return f"The bundle does not hold: {', and '.join(parts)}. First: {first}"
    if found.status == "not-testable":
        return "Digests fit, and nothing could be recomputed: what it needs is withheld."
    if found.sealed and found.status == "in-part":
        return (
            f"Every digest fits, and {found.recomputed:,} numbers and words of the findings of the open records "
            "came out again. The findings of all records are sealed."
        )
    if found.status == "in-part":
        return (
            f"Every digest fits, and {found.recomputed:,} numbers and words of the findings came out again, but not "
            "the verdict: what it rests on is withheld."
        )
    left = " Some things were not recomputed." if found.not_recomputed else ""
    return f"Every digest fits, and {found.recomputed:,} numbers and words of the findings came out again.{left}"

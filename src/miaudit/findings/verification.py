"""Findings about a bundle: of its verification, and of a challenge to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from miaudit.arrays import Count
from miaudit.findings.audit import Findings, Measured
from miaudit.findings.kind import FindingsRecord, Whole

_VERIFIED = {"verified": 0, "failed": 3, "in-part": 4, "not-testable": 4}
_CHALLENGED = {"won": 3, "stands": 0, "undecided": 4}


@dataclass(frozen=True)
class Difference:
    """One number or word of the findings that does not come out again.

    Attributes
    ----------
    place : where it stands in findings.json
    stated, recomputed : as text
    """

    place: str
    stated: str
    recomputed: str


@dataclass(frozen=True)
class VerificationFindings(FindingsRecord):
    """What became of checking a bundle, in words; its fields are those of the verification."""

    FORMAT = 2
    KIND = "verification"

    status: Literal["verified", "failed", "in-part", "not-testable"]
    text: str
    digest: str
    tampered: tuple[str, ...]
    recomputed: Count
    differences: tuple[Difference, ...]
    not_recomputed: tuple[str, ...]
    environment: tuple[str, ...]
    repeat: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """0 only where everything but per-record vulnerability came out again, 3 for a failure, else 4."""
        return _VERIFIED[self.status]


@dataclass(frozen=True)
class ChallengeFindings(FindingsRecord):
    """The outcome of a challenge; its fields are those of the outcome, ``bundle`` the metrics that were challenged."""

    FORMAT = 2
    KIND = "challenge"

    status: Literal["won", "stands", "undecided"]
    text: str
    digest: str
    subject: Literal["scores", "propensity"]
    labels_visible: bool
    order: Literal["committed before the opening", "order unknown"] | None
    made_before: Count
    judged: Count
    submission: str
    metric: str | None
    difference: Mapping[str, Any] | None
    bet: Mapping[str, Any] | None
    bundle: tuple[Measured, ...]
    findings: Annotated[Findings, Whole()] | None
    environment: tuple[str, ...]
    repeat: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """3 where the challenger won, 4 while nothing is decided, else 0."""
        return _CHALLENGED[self.status]

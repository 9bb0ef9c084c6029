"""Findings of how many records were used in a training, and of whether the deletion of some of them worked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from miaudit.arrays import Inside, Positive, Share, Text
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.verdict import Conclusion, LimitResult, word_of
from miaudit.metrics.deletion import Deletion
from miaudit.metrics.usage import Usage

Status = Literal["stated", "flagged", "clear", "inconclusive", "not-testable"]


@dataclass(frozen=True)
class Point:
    """Which share of the records is among the highest scores, and which one would be by chance."""

    chance: Share
    share: Share


@dataclass(frozen=True)
class Compared:
    """What the records were compared with: so many decoys of each, or so many non-members in all."""

    kind: Literal["decoys", "non-members"]
    count: Positive


@dataclass(frozen=True)
class UsageVerdict(Conclusion):
    """What is concluded.

    Attributes
    ----------
    status : of usage "stated" without a limit, else "flagged" or "inconclusive": nothing shows that records were not
        used, so no usage is within a limit; of a deletion "clear" if equivalence was shown, "flagged" if a deviation
        is beyond the margin, "inconclusive" if neither, "not-testable" if nothing was seen before the deletion
    text : in one sentence or two
    limits : the limit on the share of used records, where one was stated
    """

    status: Status
    text: Text
    limits: tuple[LimitResult, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 stated or within the limits, 3 concern, 4 not answered."""
        return 0 if self.status == "stated" else super().exit_code

    @property
    def word(self) -> str:
        """The word that people read, and why there is no answer where there is none."""
        return "Lower bound" if self.status == "stated" else word_of(self.status)


@dataclass(frozen=True)
class UsageFindings(FindingsRecord):
    """How many records were used, at least.

    Attributes
    ----------
    verdict : against the limit, or the bound alone
    usage : the bound, and the count that gives it
    compared : what the records were compared with
    curve : the share of records among the highest scores, by the share that chance puts there
    score : name of the score
    notes, source, repeat : as in an audit's findings
    """

    KIND = "usage"
    DERIVED = ("exit_code", "verdict.exceeded", "verdict.unresolved", "verdict.word", "usage.share", "usage.estimate")

    verdict: UsageVerdict
    usage: Usage
    compared: Compared
    curve: tuple[Point, ...]
    score: str
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The bound on the share of used records."""
        one = self.usage
        yield {
            "kind": "bound",
            "score": self.score,
            "name": "used",
            "value": one.estimate,
            "low": one.share,
            "high": None,
            "confidence": one.confidence,
        }


@dataclass(frozen=True)
class DeletionFindings(FindingsRecord):
    """Whether a deletion worked: the deleted records beside decoys or never-seen records, before and after.

    Attributes
    ----------
    verdict : by the equivalence test
    deletion : its deviations and limits
    compared : what the records were compared with
    before, after : the share of deleted records among the highest scores, by the share that chance puts there
    score : name of the score
    notes, source, repeat : as in an audit's findings
    """

    KIND = "deletion"
    DERIVED = ("exit_code", "verdict.exceeded", "verdict.unresolved", "verdict.word", "deletion.most_kept")

    verdict: UsageVerdict
    deletion: Deletion
    compared: Compared
    before: tuple[Point, ...]
    after: tuple[Point, ...]
    score: str
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def confidence(self) -> Inside:
        """One-sided, of each limit."""
        return self.deletion.confidence

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Each deviation with its limits."""
        for one in self.deletion.deviations:
            limits = {"value": one.value, "low": one.low, "high": one.high, "confidence": self.confidence}
            yield {"kind": "metric", "score": self.score, "name": one.name, **limits}

"""Findings of what a language model repeats word for word, beside what it repeats of texts that it never saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge

from miaudit.arrays import Count, Inside, NotNegative, Share, Text
from miaudit.findings.kind import FindingsRecord, Keys

Status = Literal["flagged", "clear", "inconclusive", "not-testable"]
_EXIT_CODES: dict[Status, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4}
_COUNTS = Keys(
    dict.fromkeys(("members", "controls", "passages", "too_short"), Count),
    others=Count,
    optional=("member_units", "control_units"),
)


@dataclass(frozen=True)
class Rate:
    """A share, or a difference of two, with confidence limits; ``value`` is None where nothing could be counted."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Way:
    """One way in which a text may come out.

    Attributes
    ----------
    name : "sampled" or "greedy"
    words : what is asked of the model, in words
    members, controls : share of the texts (or of units) of which a passage comes out
    difference : members less controls; the limits of all three hold together
    """

    name: Literal["sampled", "greedy"]
    words: str
    members: Rate
    controls: Rate
    difference: Rate


@dataclass(frozen=True)
class Queries:
    """The shares that come out within so many queries; each with limits of its own."""

    queries: NotNegative
    members: Rate
    controls: Rate


@dataclass(frozen=True)
class Repetition:
    """The texts that were trained on equally often.

    Attributes
    ----------
    times_from, times_to : how often
    texts : how many of them
    out : share of which a passage comes out; limits hold for all rows together
    exposure : mean over the texts, in bits: by how many halvings a text stands above controls in the order of
        probability (Carlini et al., 2019, with controls in the place of all that might have stood there)
    auc : chance that one of them is likelier than a control
    """

    times_from: Annotated[int, Ge(1)]
    times_to: Annotated[int, Ge(1)]
    texts: Count
    out: Rate
    exposure: NotNegative
    auc: Rate


@dataclass(frozen=True)
class Named:
    """A text that comes out, by its id: named only where that was asked for."""

    id: str
    member: bool
    queries: NotNegative


@dataclass(frozen=True)
class ExtractionVerdict:
    """What is concluded; ``condition`` is what it assumes and nobody declared."""

    status: Status
    text: Text
    condition: str
    confidence: Inside

    @property
    def exit_code(self) -> int:
        """0 no concern, 3 concern, 4 no answer."""
        return _EXIT_CODES[self.status]


@dataclass(frozen=True)
class ExtractionFindings(FindingsRecord):
    """Everything that an audit of extraction found, without any text.

    Attributes
    ----------
    verdict : of the first way
    members, controls, difference : of the first way
    ways : "sampled", and "greedy" where the file says which tokens were the likeliest
    queries : the shares by the number of queries
    repetitions : by how often a text was trained on; empty where the file does not say
    most_exposure : bits that a text above all controls has
    named : texts that come out, those that need the fewest queries first; empty unless asked for
    counts : texts (and units) of both kinds, passages, and texts too short to have one
    plan : prefix, suffix, queries, chance, confidence, negligible
    design : how it was decided which texts were trained on; empty if nobody said
    notes, source, repeat : as in an audit's findings
    """

    KIND = "extraction"

    verdict: ExtractionVerdict
    members: Rate
    controls: Rate
    difference: Rate
    ways: tuple[Way, ...]
    queries: tuple[Queries, ...]
    repetitions: tuple[Repetition, ...]
    most_exposure: NotNegative
    named: tuple[Named, ...]
    counts: Annotated[Mapping[str, Any], _COUNTS]
    plan: Mapping[str, Share | int]
    design: str
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 no concern, 3 concern, 4 no answer."""
        return self.verdict.exit_code

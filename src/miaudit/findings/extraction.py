"""Findings of what a language model repeats word for word, beside what it repeats of texts that it never saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge

from miaudit.arrays import Count, Inside, NotNegative, Positive, Share, Text
from miaudit.findings.about import About
from miaudit.findings.kind import Entries, FindingsRecord
from miaudit.findings.verdict import Conclusion, LimitResult, word_of

Status = Literal["flagged", "clear", "inconclusive", "not-testable"]
WayName = Literal[
    "sampled",
    "greedy",
    "asked-greedy",
    "asked-greedy-near",
    "asked-drawn",
    "asked-drawn-near",
    "answers",
    "answers-near",
]
_COUNTS = Entries(
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
    name : "sampled" and "greedy" by log-probabilities; "asked-" of a model that was asked: its likeliest answer, or one
        of those that were drawn, word for word or nearly; "answers" of answers that were made elsewhere
    words : what is asked of the model, in words
    members, controls : share of the texts (or of units) of which a passage comes out
    difference : members less controls; the limits of all three, in all ways, hold together
    """

    name: WayName
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
class Run:
    """The shares of which so many tokens in a row or more stand in an answer; each with limits of its own."""

    tokens: Positive
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
    median : of the exposures, with exact limits beside these controls
    auc : chance that one of them is likelier than a control
    """

    times_from: Annotated[int, Ge(1)]
    times_to: Annotated[int, Ge(1)]
    texts: Count
    out: Rate
    exposure: NotNegative
    median: Rate
    auc: Rate


@dataclass(frozen=True)
class Told:
    """The members that a score of whole texts tells from others, which is less than to have them word for word.

    Attributes
    ----------
    score : name of the attack
    fpr : share of controls that are wrongly accused beside them
    share : of the members, with limits of its own; no value where it cannot be said
    why_not : it cannot be said, in a sentence; empty where it can
    """

    score: str
    fpr: Inside
    share: Rate
    why_not: str


@dataclass(frozen=True)
class Asked:
    """A model that was asked to go on: what it is called, how it was asked, and about how many passages."""

    model: str
    samples: Count
    temperature: NotNegative
    top_k: Count
    passages: Count


@dataclass(frozen=True)
class Generations:
    """Answers that were made elsewhere, and compared with the texts.

    Attributes
    ----------
    texts, controls : names of the files of both
    answers, tokens : how many there are; tokens beyond what their prompts hold
    short : answers with fewer tokens than a passage
    targets_of_members, targets_of_controls : answers that name a text of each kind as their target, on average; None
        where each answer is compared with all texts
    prompted_members, prompted_controls : texts of each kind of which a prompt holds a part
    """

    texts: str
    controls: str
    answers: Count
    tokens: Count
    short: Count
    targets_of_members: NotNegative | None
    targets_of_controls: NotNegative | None
    prompted_members: Count
    prompted_controls: Count


@dataclass(frozen=True)
class Named:
    """A text that comes out, by its id: named only where that was asked for.

    Attributes
    ----------
    times : how often it was trained on; None where the file does not say
    queries : continuations until it has come out with the plan's probability; None where never
    ways : names of the ways in which it comes out
    run : tokens in a row that an answer has; None where no answers were compared, 0 where it comes out only nearly
    line : of the first such answer, in its file
    """

    id: str
    member: bool
    times: Count | None
    queries: NotNegative | None
    ways: tuple[WayName, ...]
    run: Count | None = None
    line: Positive | None = None


@dataclass(frozen=True)
class NamedUnit:
    """A unit of which a text comes out, and how many of its texts do: named only where that was asked for."""

    unit: str
    member: bool
    texts: Count
    out: Count


@dataclass(frozen=True)
class ExtractionVerdict(Conclusion):
    """What is concluded.

    ``condition`` is what it assumes undeclared, ``way`` the way that the text is about, ``stated`` whether the
    user stated the limit, ``limits`` what each way shows of it, and ``reason`` "undeclared" where nobody declared the
    design.
    """

    status: Status
    text: Text
    condition: str
    confidence: Inside
    way: WayName
    stated: bool = True
    limits: tuple[LimitResult, ...] = ()
    reason: Literal["undeclared"] | None = None

    @property
    def word(self) -> str:
        """The word that people read, and why there is no answer where there is none."""
        return word_of(self.status, self.reason)


@dataclass(frozen=True)
class ExtractionFindings(FindingsRecord):
    """Everything that an audit of extraction found, without any text.

    Attributes
    ----------
    verdict : of all ways
    members, controls, difference : of the first way
    ways : "sampled", "greedy" where the file says which tokens were the likeliest, and those of a model that was asked;
        or those of answers that were made elsewhere
    queries : the shares by the number of queries; empty for answers that were made elsewhere
    runs : the shares by tokens in a row, of such answers
    repetitions : by how often a text was trained on; empty where the file does not say
    most_exposure : bits that a text above all controls has
    told : members that can be told to be members
    named : texts that come out, those that need the fewest queries first; empty unless asked for
    units : units of which a text comes out, most texts first; empty unless asked for
    counts : texts (and units) of both kinds, passages, and texts too short to have one
    plan : prefix, suffix, queries, chance, near, confidence (of answers made elsewhere suffix, near, confidence), and
        the limit: excess above it raises concern, below it (``within``) is within the limits
    design : how it was decided which texts were trained on; empty if not stated
    asked : the model that was asked to go on; None where only log-probabilities were read
    generations : the answers that were made elsewhere; None where there are none
    about, notes, source, repeat : as in an audit's findings
    """

    KIND = "extraction"
    DERIVED = ("exit_code", "verdict.exceeded", "verdict.unresolved", "verdict.word")

    verdict: ExtractionVerdict
    members: Rate
    controls: Rate
    difference: Rate
    ways: tuple[Way, ...]
    queries: tuple[Queries, ...]
    repetitions: tuple[Repetition, ...]
    most_exposure: NotNegative
    told: Told
    named: tuple[Named, ...]
    units: tuple[NamedUnit, ...]
    counts: Annotated[Mapping[str, Any], _COUNTS]
    plan: Mapping[str, Share | int]
    design: str
    asked: Asked | None = None
    runs: tuple[Run, ...] = ()
    generations: Generations | None = None
    about: About | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """What comes out of members and of controls, in each way, and the difference."""
        for way in self.ways:
            for name, rate in (("members", way.members), ("controls", way.controls), ("difference", way.difference)):
                limits = {"value": rate.value, "low": rate.low, "high": rate.high}
                confidence = self.verdict.confidence
                yield {"kind": "rate", "score": way.name, "name": name, **limits, "confidence": confidence}

"""Findings of an audit of a synthetic table: frozen, versioned, plain values in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import MinLen

from miaudit.arrays import Count, Share
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.kind import Entries, FindingsRecord, Whole
from miaudit.findings.verdict import CONCERN, NOT_ANSWERED, WITHIN, LimitResult, word_of
from miaudit.metrics.rounding import lower_text, percent

_COLUMN = Entries({"name": str, "kind": str})
Status = Literal["flagged", "clear", "inconclusive"]
Role = Literal["blocking", "informing"]
_OPENINGS = (CONCERN, WITHIN, NOT_ANSWERED)
_EXIT_CODES: dict[str, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}
_OF_CLAIMS = {"refuted": "flagged", "not-refuted": "clear", "not-testable": "not-testable"}


@dataclass(frozen=True)
class Rate:
    """Trials that were right, of how many, and the limits of their share."""

    right: Count
    trials: Count
    value: float | None
    low: Share
    high: Share


@dataclass(frozen=True)
class Attack:
    """One attack: its success on members against that on control records.

    Attributes
    ----------
    name : "copies", "singling out, univariate", "linkability", "inference: income", ...
    members, control : rates of success
    difference, difference_low, difference_high : of the two rates, with limits that hold for this attack alone
    risk, risk_low, risk_high : (members - control) / (1 - control); None where it is not defined
    by_chance : how often a guess is right that looks at no record; None where the attack has none
    role : "blocking" attacks decide the verdict, "informing" ones never do
    threshold : difference above which a blocking attack raises concern; None for an informing one
    status : of a blocking attack: "flagged" (lower limit, corrected for the number of blocking attacks, above the
        threshold), "clear" (upper limit at most the plan's threshold) or "inconclusive"; None for an informing
        one, and for near copies whose excess is not beyond chance
    p : one-sided p-value against the threshold, or against no difference where there is none; not corrected
    corrected_low : lower limit of the difference, corrected for the number of attacks of the same role
    detectable : smallest excess that the attack detects in four of five cases at a one-sided level of 5%; 1 where none
    weak : whether it is no better on members than a guess
    note : what must be said with it
    """

    name: str
    members: Rate
    control: Rate
    difference: float | None
    difference_low: float
    difference_high: float
    risk: float | None
    risk_low: float | None
    risk_high: float | None
    by_chance: float | None
    role: Role
    threshold: float | None
    status: Status | None
    p: Share | None
    corrected_low: float
    detectable: Share | None
    weak: bool
    note: str = ""

    @property
    def above_chance(self) -> bool:
        """Whether an excess is shown, corrected for the number of attacks of the same role."""
        return self.corrected_low > 0


@dataclass(frozen=True)
class SecretValue:
    """How often a secret of one value, or of a range of values, is guessed right. It informs and never decides.

    Attributes
    ----------
    secret, value : name of the column, and the value or range in words
    members, control : rates of success for the records that have the value
    difference, difference_low, difference_high : of the two rates, with limits that hold for all values of the secret
    detectable : smallest excess that is detected in four of five cases at a one-sided level of 5%; 1 where none
    """

    secret: str
    value: str
    members: Rate
    control: Rate
    difference: float
    difference_low: float
    difference_high: float
    detectable: Share | None


@dataclass(frozen=True)
class TableVerdict:
    """The blocking attacks (copies, and the secrets that the plan names) against their limits.

    Its status is "not-testable" where membership was not randomised, or nobody declared it: differences in success then
    mix what the table gives away with how members and control records differ. It is "refused" where no interval holds.

    Attributes
    ----------
    status : "flagged", "clear", "inconclusive", "not-testable" or "refused"
    text : the verdict in sentences
    confidence : of each interval
    reason : "undeclared" where it is not declared how membership was decided; else None
    exceeded : limits that are exceeded
    unresolved : limits that these records leave open
    """

    status: Status | Literal["not-testable", "refused"]
    text: str
    confidence: Share
    reason: Literal["undeclared"] | None = None
    exceeded: tuple[LimitResult, ...] = ()
    unresolved: tuple[LimitResult, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 clear, 3 flagged, 4 inconclusive, not testable or refused."""
        return _EXIT_CODES[self.status]


@dataclass(frozen=True)
class PositiveControl:
    """Whether this audit sees copies of one per cent of the members, where nothing else tells members from others.

    The labels of members and control records are permuted, so that what the table itself gives away plays no part. Then
    copies of some "members" are added to the table, and the copies are compared. This is repeated.

    Attributes
    ----------
    copies : "members" that were copied each time
    share : of all "members"
    excess : by which the planted copies alone raised the rate of copies among "members" above that of the others, on
        average; less than ``share`` where records stand in the table anyway, or have equals
    rate : share of the others of which the table then holds a copy, on average
    repetitions, seen : how often it was tried, and how often the excess of copies was seen
    needed : how often it must be seen
    found : whether it was
    changed : cells of each planted copy that got another value
    """

    copies: Count
    share: Share
    excess: float
    rate: Share
    repetitions: Count
    seen: Count
    needed: Count
    found: bool
    changed: Count = 0


class Leading(NamedTuple):
    """The verdict that decides, of several."""

    status: str
    text: str


@dataclass(frozen=True)
class TableFindings(FindingsRecord):
    """Everything that an audit of a table found, without any row of it.

    Attributes
    ----------
    verdict : of the blocking attacks
    attacks : the blocking ones, then the informing ones
    by_value : the inference of each secret that the plan names, by the value of the secret
    positive_control : the same audit of a table that is known to leak
    near_control : the same with copies of which one cell was changed. It never keeps a verdict open
    membership : findings of the record-wise audit of the attacks' scores
    fidelity : of the table; None where it was not asked for
    counts : rows of each table, how many of them were attacked, and how many units they are of, where units repeat
    columns : name and kind of each
    schema : where the schema came from, in a sentence
    cannot_see : what such an audit is blind to, in sentences
    about, notes, plan, repeat : as in an audit's findings
    """

    KIND = "table"
    DERIVED = ("exit_code", "fidelity.summary")

    verdict: TableVerdict
    attacks: Annotated[tuple[Attack, ...], MinLen(1)]
    positive_control: PositiveControl
    membership: Annotated[Findings, Whole()]
    counts: Mapping[str, Count]
    columns: tuple[Annotated[Mapping[str, str], _COLUMN], ...]
    schema: str
    fidelity: Fidelity | None = None
    near_control: PositiveControl | None = None
    by_value: tuple[SecretValue, ...] = ()
    cannot_see: tuple[str, ...] = ()
    about: About | None = None
    notes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """3 where blocking attacks or the record-wise audit raise concern, else 4 where one has no answer, else 0."""
        codes = {self.verdict.exit_code, self.membership.exit_code}
        return next(code for code in (3, 4, 0) if code in codes)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Each attack: its success on members, on control records, and their difference; then the record-wise audit."""
        for one in self.attacks:
            own = {"score": one.name, "confidence": self.verdict.confidence}
            for name, rate in (("members", one.members), ("control", one.control)):
                yield {"kind": "rate", "name": name, "value": rate.value, "low": rate.low, "high": rate.high, **own}
            limits = {"value": one.difference, "low": one.difference_low, "high": one.difference_high}
            yield {"kind": "difference", "name": "difference", "note": one.note, **limits, **own}
        for part in self.by_value:
            own = {"score": f"inference: {part.secret} = {part.value}", "confidence": self.verdict.confidence}
            limits = {"value": part.difference, "low": part.difference_low, "high": part.difference_high}
            yield {"kind": "difference", "name": "difference", **limits, **own}
        yield from self.membership._rows()

    @property
    def _said(self) -> str:
        return self.leading().text

    def leading(self) -> Leading:
        """Return status and text of the one verdict that decides the exit code.

        It is the attacks' verdict, the record-wise one, or the claim: the first of them that has the exit code of all.
        Where raw differences answer nothing the record-wise verdict comes first. The first sentence names an epsilon
        that is proven and that nobody claimed.
        """
        one = self.membership
        leading = [Leading(self.verdict.status, self.verdict.text), Leading(one.verdict.status, one.verdict.text)]
        if self.verdict.status == "not-testable" and one.design is not None:
            leading.reverse()
        if one.claim is not None:
            leading.append(Leading(_OF_CLAIMS[one.claim.status], one.claim.text))
        lead = next((part for part in leading if _EXIT_CODES[part.status] == self.exit_code), leading[0])
        return lead._replace(text=opened_with(lead.text, proven(one)))


def worded(status: str, design: str | None) -> str:
    """Return the word for a status that people read; "Not answered" gives its reason.

    Examples
    --------
    >>> worded("clear", "one-run"), worded("not-testable", None), worded("not-testable", "zero-run")
    ('Within the limits', 'Not answered (undeclared)', 'Not answered (not testable)')
    """
    return word_of(status, "undeclared" if status == "not-testable" and design is None else None)


# -- what is proven, whatever the verdict ------------------------------------------------------------------------------


def proven(audited: Findings) -> str:
    """Return the largest lower bound on epsilon (or else mu) above 0 that nobody claimed, as a clause; else ""."""
    shown = [bound for bound in audited.bounds if bound.value > 0]
    if audited.claim is not None or not shown:
        return ""
    bound = max(shown, key=lambda one: (one.parameter == "epsilon", one.value))
    at = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    article = "an" if bound.parameter == "epsilon" else "a"
    least = lower_text(bound.value)
    return f"{article} {bound.parameter} of at least {least}{at} is proven ({percent(bound.confidence)} confidence)"


def opened_with(text: str, clause: str) -> str:
    """Put a clause into the first sentence of a verdict's text, unless it is there.

    Examples
    --------
    >>> opened_with("Within the limits: few copies.", "an epsilon of at least 0.3 is proven")
    'Within the limits, but an epsilon of at least 0.3 is proven: few copies.'
    >>> opened_with("Concern: copies.", "")
    'Concern: copies.'
    """
    if not clause or clause in text:
        return text
    word, colon, rest = text.partition(": ")
    if not colon or not word.startswith(_OPENINGS):
        return f"{clause[:1].upper()}{clause[1:]}. {text}"
    return f"{word}, {'and' if word == 'Concern' else 'but'} {clause}: {rest}"

"""Findings of an audit of a synthetic table: frozen, versioned, plain values in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import MinLen

from miaudit.arrays import Count, Share
from miaudit.findings.audit import Findings
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.kind import FindingsRecord, Keys, Whole

_COLUMN = Keys({"name": str, "kind": str})
Status = Literal["flagged", "clear", "inconclusive"]
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
    difference, difference_low, difference_high : of the two rates, with limits that hold for all attacks together
    risk, risk_low, risk_high : (members - control) / (1 - control); None where it is not defined
    by_chance : how often a guess is right that looks at no record; None where the attack has none
    threshold : difference above which it raises concern
    status : "flagged" (lower limit above the threshold), "clear" (upper limit at most that) or "inconclusive"
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
    threshold: float
    status: Status
    weak: bool
    note: str = ""


@dataclass(frozen=True)
class TableVerdict:
    """All attacks against their thresholds, as a word and a sentence.

    Its status is "not-testable" where membership was not randomised, or nobody said so: differences in success then mix
    what the table gives away with how members and control records differ. It is "refused" where no interval holds.
    """

    status: Status | Literal["not-testable", "refused"]
    text: str
    confidence: Share

    @property
    def exit_code(self) -> int:
        """0 clear, 3 flagged, 4 inconclusive, not testable or refused."""
        return _EXIT_CODES[self.status]


@dataclass(frozen=True)
class PositiveControl:
    """What this audit would have said of the same table with copies of some members added.

    ``copies`` members were added, ``share`` of the table's rows; ``found`` says whether the excess of exact copies was
    seen. ``auc`` and ``auc_low`` are those of the distance then.
    """

    copies: Count
    share: Share
    found: bool
    members: Share
    control: Share
    difference_low: float
    auc: Share
    auc_low: Share


class Leading(NamedTuple):
    """The verdict that decides, of several."""

    status: str
    text: str


@dataclass(frozen=True)
class TableFindings(FindingsRecord):
    """Everything that an audit of a table found, without any row of it.

    Attributes
    ----------
    verdict : of the attacks
    attacks : in the order of the page
    positive_control : the same audit of a table that is known to leak
    membership : findings of the record-wise audit of the attacks' scores
    fidelity : of the table; None where it was not asked for
    counts : rows of each table, how many of them were attacked, and how many units they are of, where units repeat
    columns : name and kind of each
    schema : where the schema came from, in a sentence
    cannot_see : what such an audit is blind to, in sentences
    notes, plan, repeat : as in an audit's findings
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
    cannot_see: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """3 where the attacks or the record-wise audit raise concern, else 4 where one has no answer, else 0."""
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
        yield from self.membership._rows()

    @property
    def _said(self) -> str:
        return self.leading().text

    def leading(self) -> Leading:
        """Return status and text of the one verdict that decides the exit code.

        It is the attacks' verdict, the record-wise one, or the claim: the first of them that has the exit code of all.
        Where raw differences answer nothing the record-wise verdict comes first.
        """
        one = self.membership
        found = [Leading(self.verdict.status, self.verdict.text), Leading(one.verdict.status, one.verdict.text)]
        if self.verdict.status == "not-testable" and one.design is not None:
            found.reverse()
        if one.claim is not None:
            found.append(Leading(_OF_CLAIMS[one.claim.status], one.claim.text))
        return next((part for part in found if _EXIT_CODES[part.status] == self.exit_code), found[0])

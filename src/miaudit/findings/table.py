"""Findings of an audit of a synthetic table: frozen, versioned, plain values in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from miaudit.findings import audit as audit_findings
from miaudit.findings import kind
from miaudit.findings.kind import Filed

Status = Literal["flagged", "clear", "inconclusive"]
_EXIT_CODES: dict[str, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}
_OF_CLAIMS = {"refuted": "flagged", "not-refuted": "clear", "not-testable": "not-testable"}


@dataclass(frozen=True)
class Rate:
    """Trials that were right, of how many, and the limits of their share."""

    right: int
    trials: int
    value: float | None
    low: float
    high: float


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
    confidence: float

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

    copies: int
    share: float
    found: bool
    members: float
    control: float
    difference_low: float
    auc: float
    auc_low: float


@dataclass(frozen=True)
class TableFindings(Filed):
    """Everything that an audit of a table found, without any row of it.

    Attributes
    ----------
    verdict : of the attacks
    attacks : in the order of the page
    positive_control : the same audit of a table that is known to leak
    membership : findings of the record-wise audit of the attacks' scores, as :meth:`Findings.to_dict` gives them
    fidelity : of the table, as plain values; None where it was not asked for
    counts : rows of each table, how many of them were attacked, and how many units they are of, where units repeat
    columns : name and kind of each
    schema : where the schema came from, in a sentence
    cannot_see : what such an audit is blind to, in sentences
    notes, plan, repeat : as in an audit's findings
    """

    KIND = "table"

    verdict: TableVerdict
    attacks: tuple[Attack, ...]
    positive_control: PositiveControl
    membership: Mapping[str, Any]
    counts: Mapping[str, int]
    columns: tuple[Mapping[str, str], ...]
    schema: str
    fidelity: Mapping[str, Any] | None = None
    cannot_see: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """3 where the attacks or the record-wise audit raise concern, else 4 where one has no answer, else 0."""
        codes = {self.verdict.exit_code, int(self.membership["exit_code"])}
        return next(code for code in (3, 4, 0) if code in codes)


def leading(content: Mapping[str, Any]) -> dict[str, str]:
    """Return status and text of the one verdict that decides the exit code.

    Parameters
    ----------
    content : plain values, as ``TableFindings.to_dict`` gives them

    Returns
    -------
    dict
        ``status`` and ``text`` of the attacks' verdict, of the record-wise one, or of the claim: the first of them that
        has the exit code of all. Where raw differences answer nothing the record-wise verdict comes first.
    """
    membership = content["membership"]
    found = [(content["verdict"]["status"], content["verdict"]["text"])]
    found.append((membership["verdict"]["status"], membership["verdict"]["text"]))
    if found[0][0] == "not-testable" and membership["design"] is not None:
        found.reverse()
    if membership["claim"]:
        found.append((_OF_CLAIMS[membership["claim"]["status"]], membership["claim"]["text"]))
    status, text = next((part for part in found if _EXIT_CODES[part[0]] == content["exit_code"]), found[0])
    return {"status": status, "text": text}


def check(content: Any) -> dict[str, Any]:
    """Check plain values against the schema of this format version, and return them.

    Raises
    ------
    InputError
        With the place that does not follow the schema.
    """
    checked = kind.check(schema(), content, TableFindings.FORMAT)
    audit_findings.check(checked["membership"])
    return checked


def schema() -> dict[str, Any]:
    """Return the JSON schema of this kind of findings."""
    return kind.schema("table")

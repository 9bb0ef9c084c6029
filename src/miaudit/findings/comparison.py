"""Audits side by side: by how much leakage differs between two, and how it went over many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from miaudit.arrays import Count
from miaudit.errors import InputError
from miaudit.findings import verdict
from miaudit.findings.audit import Findings, Metric
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.verdict import TURN
from miaudit.metrics.definition import amount, difference, label, written

Status = Literal["rose", "fell", "no-difference", "not-comparable"]
_EXIT_CODES: dict[str, int] = {"rose": 3, "not-comparable": 4}
NOT_CAUSAL = "raw, not causal"
_ZERO_RUN = "zero-run"


@dataclass(frozen=True)
class Change:
    """One metric of two audits.

    Attributes
    ----------
    name, estimator : of the metric, in both audits
    before, after : values, None where one is not resolved
    value : after less before; above 0 means more leakage
    low, high : limits of that difference
    note : why there is no difference, or what it assumes
    """

    name: str
    estimator: str
    before: float | None
    after: float | None
    value: float | None
    low: float | None
    high: float | None
    note: str = ""


@dataclass(frozen=True)
class Comparison(FindingsRecord):
    """Two audits, metric by metric.

    Attributes
    ----------
    before, after : what to call the two
    changes : of every metric that both have
    primary : name of the metric that the text is about
    confidence : of the two-sided limits of each difference
    status : "rose", "fell", "no-difference" or "not-comparable"
    text : the comparison in a sentence or two
    cautions : what makes the two hard to compare
    """

    KIND = "comparison"

    before: str
    after: str
    changes: tuple[Change, ...]
    primary: str
    confidence: float
    status: Status
    text: str
    cautions: tuple[str, ...]
    repeat: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """Of the command line: 3 where leakage rose, 4 where the two cannot be compared, else 0."""
        return _EXIT_CODES.get(self.status, 0)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Each metric before, after, and the difference with its limits."""
        for one in self.changes:
            own = {"name": one.name, "estimator": one.estimator}
            for of, value in ((self.before, one.before), (self.after, one.after)):
                yield {"kind": "metric", "score": of, "value": value, **own}
            limits = {"value": one.value, "low": one.low, "high": one.high, "confidence": self.confidence}
            yield {"kind": "difference", **own, **limits, "note": one.note}


def compare(
    before: Findings,
    after: Findings,
    *,
    names: tuple[str, str] = ("before", "after"),
    repeat: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare two audits by their findings, as if they were about different records.

    The limits of a difference come from those of its two parts (the square-and-add method of Zou and Donner 2008). They
    hold for independent audits; where both are about the same records they are too wide rather than too short, since
    the scores of one model and of the next go up and down together.

    Parameters
    ----------
    before, after : findings of the two
    names : what to call them
    repeat : how to repeat the comparison

    Raises
    ------
    InputError
        If the two are at different confidence.

    Examples
    --------
    >>> import numpy as np, miaudit
    >>> member = np.arange(400) % 2 == 0
    >>> def audit(gap, rng):
    ...     score = rng.normal(size=400) + gap * member
    ...     return miaudit.audit(miaudit.Evidence(score=score, member=member, design="one-run"), rng=rng)
    >>> found = compare(audit(0.0, np.random.default_rng(0)), audit(2.0, np.random.default_rng(1)))
    >>> next(change for change in found.changes if change.name == "auc").low > 0.2
    True
    """
    levels = [float(audit.plan["confidence"]) for audit in (before, after)]
    if not math.isclose(*levels):
        received = f"{levels[0]:g} and {levels[1]:g}"
        raise InputError("confidence", "the same in both audits", received, "run one again with --confidence")
    parts = {(m.name, m.estimator): m for m in before.metrics}
    mixed = _ZERO_RUN in (before.design, after.design)
    changes = tuple(
        _change(parts[key], m, note=NOT_CAUSAL if mixed and m.estimator == "raw" else "")
        for m in after.metrics
        if (key := (m.name, m.estimator)) in parts
    )
    primary = str(after.plan["primary_metric"])
    reason = _no_contrast(before, after, names)
    decisive = None if reason else next((c for c in changes if c.name == primary and c.note != NOT_CAUSAL), None)
    status = _status(decisive)
    return Comparison(
        names[0],
        names[1],
        changes,
        primary,
        levels[0],
        status,
        reason or _text(status, decisive, primary, names),
        tuple(_cautions(before, after)),
        dict(repeat or {}),
    )


def _no_contrast(before: Findings, after: Findings, names: tuple[str, str]) -> str:
    """Why no metric of two audits can decide, or nothing: a raw number of a zero-run audit holds the shift as well."""
    pairs = list(zip(names, (before, after), strict=True))
    refused = [name for name, audit in pairs if audit.verdict.status == "refused"]
    if refused:
        was = "was" if len(refused) == 1 else "were"
        return f"{' and '.join(refused)} {was} refused: there is no number of memorisation to compare."
    undeclared = [name for name, audit in pairs if audit.design is None]
    if undeclared:
        return (
            f"Nobody declared how membership came about in {' and '.join(undeclared)}: its raw numbers may mix "
            "memorisation with shift, and nothing can be said of a difference. Audit again with --design."
        )
    inverted = [name for name, audit in pairs if _is_inverted(audit)]
    if inverted:
        return (
            f"The scores of {' and '.join(inverted)} point the wrong way: members have lower ones, so a small number "
            f"there is no sign of little leakage. Audit again; {TURN}."
        )
    if (before.design == _ZERO_RUN) != (after.design == _ZERO_RUN):
        one = names[0] if before.design == _ZERO_RUN else names[1]
        return (
            f"Only {one} is a zero-run audit. What both have are raw numbers, and there they mix memorisation with "
            "shift: nothing can be said of a difference."
        )
    return ""


def _is_inverted(audit: Findings) -> bool:
    """Whether the AUC that counts, the corrected one where there is one, is shown to be below one half."""
    auc = next((m for m in audit.metrics if m.name == "auc"), None)
    return auc is not None and auc.high is not None and auc.high < 0.5


def _change(before: Metric, after: Metric, note: str = "") -> Change:
    name, estimator = after.name, after.estimator
    a, b = before.value, after.value
    limits = [before.low, before.high, after.low, after.high]
    if a is None or b is None or any(x is None for x in limits):
        said = "; ".join(text for text in (note, "not resolved by both audits") if text)
        return Change(name, estimator, a, b, None, None, None, said)
    low_a, high_a, low_b, high_b = (float(x) for x in limits if x is not None)
    change = float(b) - float(a)
    low = change - math.hypot(b - low_b, high_a - a)
    high = change + math.hypot(high_b - b, a - low_a)
    return Change(name, estimator, a, b, change, low, high, note)


def _status(change: Change | None) -> Status:
    if change is None or change.low is None or change.high is None:
        return "not-comparable"
    if change.low > 0:
        return "rose"
    return "fell" if change.high < 0 else "no-difference"


def _text(status: Status, change: Change | None, primary: str, names: tuple[str, str]) -> str:
    if change is None or change.value is None or change.low is None or change.high is None:
        return (
            f"{label(primary)} is not resolved by both {names[0]} and {names[1]}: nothing can be said of a difference."
        )
    numbers = (
        f"{amount(primary, change.before)} in {names[0]}, {amount(primary, change.after)} in {names[1]}; difference "
        f"{difference(change.value, change.low, change.high)}"
    )
    said = {
        "rose": f"Leakage rose: {label(primary)} is {numbers}.",
        "fell": f"Leakage fell: {label(primary)} is {numbers}.",
        "no-difference": f"No difference is shown: {label(primary)} is {numbers}. A rise by "
        f"{written(max(0.0, change.high), '.4f', 'up')} is not excluded.",
    }
    return said[status]


def _cautions(before: Findings, after: Findings) -> list[str]:
    said = []
    if before.design != after.design:
        said.append(
            f"The designs differ ({before.design or 'not declared'} and {after.design or 'not declared'}): their "
            "numbers do not estimate the same thing."
        )
    scores = [audit.scores[0].score if audit.scores else None for audit in (before, after)]
    if scores[0] != scores[1]:
        said.append(
            f"The headline scores differ ({scores[0]} and {scores[1]}): another attack, not only another model. Two "
            "attacks on the same records are compared by miaudit challenge, or by one audit with both (--score A,B)."
        )
    if before.evidence["digest"] == after.evidence["digest"]:
        said.append("Both audits are of the same evidence: any difference comes from their plans.")
    if "refused" in (before.verdict.status, after.verdict.status):
        said.append("An audit that was refused has raw numbers, if any, and they are not causal.")
    return said


@dataclass(frozen=True)
class Audited:
    """One audit of a history: its verdict, the followed metric in words and as numbers, and what it was about."""

    name: str
    status: verdict.Status
    said: str
    value: float | None
    low: float | None
    high: float | None
    members: Count
    design: str
    digest: str


@dataclass(frozen=True)
class Step:
    """An audit of a history compared with the one before it."""

    before: str
    after: str
    status: Status
    text: str
    cautions: tuple[str, ...]


@dataclass(frozen=True)
class History(FindingsRecord):
    """Many audits of one model, in the order in which they were given.

    Attributes
    ----------
    primary : name of the metric that is followed: the last audit's
    audits : of each its name, verdict, the metric in words and as numbers, and members
    changes : comparison of each audit with the one before it
    text : how it went, in a sentence
    """

    KIND = "history"

    primary: str
    audits: tuple[Audited, ...]
    changes: tuple[Step, ...]
    text: str
    repeat: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """That of the last comparison: 3 where leakage rose, 4 where the two cannot be compared."""
        return _EXIT_CODES.get(self.changes[-1].status, 0) if self.changes else 0

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The metric that is followed, of each audit."""
        for one in self.audits:
            limits = {"value": one.value, "low": one.low, "high": one.high}
            yield {"kind": "metric", "score": one.name, "name": self.primary, **limits, "note": one.said}


def history(audits: Sequence[tuple[str, Findings]], *, repeat: Mapping[str, Any] | None = None) -> History:
    """Line up audits, each with its name and findings, oldest first.

    Raises
    ------
    InputError
        For fewer than two.
    """
    if len(audits) < 2:
        raise InputError("findings", "at least two audits", str(len(audits)), "name their folders, oldest first")
    primary = str(audits[-1][1].plan["primary_metric"])
    rows = tuple(_row(name, audit, primary) for name, audit in audits)
    steps: list[Step] = []
    for (a, before), (b, after) in pairwise(audits):
        if not math.isclose(before.plan["confidence"], after.plan["confidence"]):
            steps.append(Step(a, b, "not-comparable", "Not compared: the two are at different confidence.", ()))
            continue
        aimed = replace(after, plan={**after.plan, "primary_metric": primary})
        found = compare(before, aimed, names=(a, b))
        steps.append(Step(a, b, found.status, found.text, found.cautions))
    return History(primary, rows, tuple(steps), _course(rows, steps, primary), dict(repeat or {}))


def _row(name: str, audit: Findings, primary: str) -> Audited:
    said, limits = followed([m for m in audit.metrics if m.name == primary], audit.design)
    return Audited(
        name=name,
        status=audit.verdict.status,
        said=said,
        **limits,
        members=audit.counts.members,
        design=audit.design or "not declared",
        digest=str(audit.evidence["digest"]),
    )


def followed(estimates: Sequence[Metric], design: str | None) -> tuple[str, dict[str, Any]]:
    """Return the metric that is followed over audits in words, and its value and limits where it is causal.

    ``estimates`` are those of one metric in one audit: the first that the design makes causal counts.
    """
    causal = [m for m in estimates if design != _ZERO_RUN or m.estimator != "raw"]
    said = "not measured"
    if estimates:
        said = causal[0].reading if causal else f"{estimates[0].reading}, {NOT_CAUSAL}"
    return said, {part: getattr(causal[0], part) if causal else None for part in ("value", "low", "high")}


def _course(rows: Sequence[Audited], steps: Sequence[Step], primary: str) -> str:
    last, step = rows[-1], steps[-1]
    went = {"rose": "it rose", "fell": "it fell", "no-difference": "no difference is shown"}
    since = went.get(step.status, "the two cannot be compared")
    return f"{len(rows)} audits. {label(primary)} in the last one: {last.said}; against the one before, {since}."

"""Audits side by side: how much leakage differs between two audits, and how it developed over many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Literal

from miaudit.arrays import Count
from miaudit.errors import InputError
from miaudit.findings import verdict
from miaudit.findings.audit import Findings
from miaudit.findings.budget import Budget
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.metric import Metric
from miaudit.findings.policy import PARAMETERS, SURE_LIST
from miaudit.findings.verdict import TURN
from miaudit.metrics.classical import joined
from miaudit.metrics.definition import amount, label
from miaudit.metrics.rounding import difference, percent, written

Status = Literal["rose", "fell", "no-difference", "not-comparable"]
_EXIT_CODES: dict[str, int] = {"rose": 3, "not-comparable": 4}
NOT_CAUSAL = "raw, not causal"
_ZERO_RUN = "zero-run"
ADDED = "half-widths added"
_FINDINGS_ALONE = (
    "The intervals of the differences are wide. Findings do not show which records both audits share, so miaudit adds "
    "the half-widths of the two intervals. Give it the records for narrower ones: two bundles with --share all, or "
    "--evidence BEFORE AFTER."
)


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
    correlation : of the errors of the two estimates, by the records that both audits share; None where it is not known
    """

    name: str
    estimator: str
    before: float | None
    after: float | None
    value: float | None
    low: float | None
    high: float | None
    note: str = ""
    correlation: float | None = None


@dataclass(frozen=True)
class SharedRecords:
    """What the records of two audits say about a difference between them.

    Attributes
    ----------
    correlation : of the errors of the two estimates, in [-1, 1], by the name of the raw metric
    text : how many records both audits have and how they were matched, or why that is not known
    """

    correlation: Mapping[str, float]
    text: str


@dataclass(frozen=True)
class Comparison(FindingsRecord):
    """Two audits, metric by metric.

    Attributes
    ----------
    before, after : what to call the two
    changes : of every metric that both have
    primary : name of the metric that the text begins with
    confidence : of the two-sided limits of each difference
    status : "rose", "fell", "no-difference" or "not-comparable"
    text : the comparison in a sentence or two
    cautions : what makes the two hard to compare
    followed : names of the metrics that decide; they share the error level
    later : status of the verdict of the later audit
    records : which records both audits share, and what the intervals make of it
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
    followed: tuple[str, ...] = ()
    later: verdict.Status | None = None
    records: str = ""

    @property
    def exit_code(self) -> int:
        """3 where leakage rose or the later audit exceeds a limit, 4 where the two cannot be compared, else 0."""
        return _code(self.status, self.later)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Each metric before, after, and the difference with its limits."""
        for one in self.changes:
            own = {"name": one.name, "estimator": one.estimator}
            for of, value in ((self.before, one.before), (self.after, one.after)):
                yield {"kind": "metric", "score": of, "value": value, **own}
            limits = {"value": one.value, "low": one.low, "high": one.high, "confidence": self.confidence}
            yield {"kind": "difference", **own, **limits, "note": one.note}


def followed_metrics(after: Findings) -> tuple[str, ...]:
    """Return the names of the metrics by which a comparison with an audit is judged: those that it has limits for."""
    named = tuple(name for name in after.plan["limits"] if name not in (*PARAMETERS, SURE_LIST))
    return named or ("auc",)


def compare(
    before: Findings,
    after: Findings,
    *,
    names: tuple[str, str] = ("before", "after"),
    shared: SharedRecords | None = None,
    followed: Sequence[str] | None = None,
    repeat: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare two audits, metric by metric.

    The limits of a difference come from those of its two parts (square-and-add, Zou and Donner 2008) and from the
    correlation of their errors, which the records that both audits share decide. Where it is not known, the half-widths
    of the two are added: such limits hold whatever the audits share, and they are wide.

    Parameters
    ----------
    before, after : findings of the two
    names : what to call them
    shared : correlations by shared records, from :func:`miaudit.auditing.paired_records.correlations`
    followed : names of the metrics that decide, which share the error level (Bonferroni); default: those of the later
        audit's plan
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
        _change(parts[key], m, shared, note=NOT_CAUSAL if mixed and m.estimator == "raw" else "")
        for m in after.metrics
        if (key := (m.name, m.estimator)) in parts
    )
    wanted = tuple(followed_metrics(after) if followed is None else followed)
    reason = _no_contrast(before, after, names)
    judged = _Judged.of(changes if not reason else (), wanted, levels[0])
    sentences = [reason or judged.text(names), _later(after, names[1])]
    return Comparison(
        names[0],
        names[1],
        changes,
        judged.primary,
        levels[0],
        judged.status,
        " ".join(text for text in sentences if text),
        tuple(_cautions(before, after)),
        dict(repeat or {}),
        wanted,
        _state(after),
        _FINDINGS_ALONE if shared is None else shared.text,
    )


def _code(status: Status, later: verdict.Status | None) -> int:
    """Return the exit code of a comparison; what exceeds a limit never passes because something else was worse."""
    return 3 if later == "flagged" else _EXIT_CODES.get(status, 0)


def _state(audit: Findings) -> verdict.Status:
    """The status of an audit; a refuted claim raises concern whatever the limits say."""
    return "flagged" if audit.exit_code == 3 else audit.verdict.status


def _later(audit: Findings, name: str) -> str:
    if audit.verdict.status == "flagged":
        return f"{name} exceeds a limit. {audit.verdict.text}"
    return f"In {name} a privacy claim is refuted. {audit.claim.text}" if audit.claim and audit.exit_code == 3 else ""


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
            f"It is not declared how membership came about in {' and '.join(undeclared)}: its raw numbers may mix "
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


def _change(before: Metric, after: Metric, shared: SharedRecords | None, note: str = "") -> Change:
    """Return the difference of a metric, with limits by the correlation of the two errors, or -1 where unknown."""
    name, estimator = after.name, after.estimator
    a, b = before.value, after.value
    limits = [before.low, before.high, after.low, after.high]
    if a is None or b is None or any(x is None for x in limits):
        text = "; ".join(text for text in (note, "not resolved by both audits") if text)
        return Change(name, estimator, a, b, None, None, None, text)
    low_a, high_a, low_b, high_b = (float(x) for x in limits if x is not None)
    correlation = shared.correlation.get(name) if shared is not None and estimator == "raw" else None
    if correlation is None and shared is not None and shared.correlation:
        note = "; ".join(text for text in (note, ADDED) if text)
    change, together = float(b) - float(a), -1.0 if correlation is None else correlation
    low = change - joined(b - low_b, high_a - a, -together)
    high = change + joined(high_b - b, a - low_a, -together)
    return Change(name, estimator, a, b, change, low, high, note, correlation)


@dataclass(frozen=True)
class _Judged:
    """What the followed metrics say together.

    Attributes
    ----------
    wanted : names of the followed metrics
    resolved : the changes of those that both audits resolve, each with its status at the shared level
    confidence : of each interval at the shared level
    """

    wanted: tuple[str, ...]
    resolved: tuple[tuple[Change, Status], ...]
    confidence: float

    @classmethod
    def of(cls, changes: Sequence[Change], wanted: tuple[str, ...], confidence: float) -> _Judged:
        """Judge each followed metric at an equal part of the error level (Bonferroni).

        Limits at the shared level are those at ``confidence`` stretched by the ratio of the normal quantiles. Which
        metrics share it follows from what both audits resolve: from counts, not from scores.
        """
        causal = [next((c for c in changes if c.name == name and not is_not_causal(c)), None) for name in wanted]
        held = [c for c in causal if c is not None and c.value is not None]
        each = 1 - (1 - confidence) / max(len(held), 1)
        stretch = NormalDist().inv_cdf((1 + each) / 2) / NormalDist().inv_cdf((1 + confidence) / 2)
        stretched = [_stretched(c, 1.0 if len(held) == 1 else stretch) for c in held]
        return cls(wanted, tuple((c, _status(c)) for c in stretched), each)

    @property
    def status(self) -> Status:
        """Whether any rose, else whether any fell."""
        statuses = [status for _, status in self.resolved]
        order: tuple[Status, ...] = ("rose", "fell", "no-difference")
        return next((one for one in order if one in statuses), "not-comparable")

    @property
    def primary(self) -> str:
        """The metric that comes first: of those that decide the status."""
        deciding = [c.name for c, status in self.resolved if status == self.status]
        return [*deciding, *self.wanted][0]

    def text(self, names: tuple[str, str]) -> str:
        """Say what is shown in words."""
        if not self.resolved:
            what = ", ".join(map(label, self.wanted))
            return f"{what} is not resolved by both {names[0]} and {names[1]}: nothing can be said of a difference."
        deciding = [c for c, status in self.resolved if status == self.status]
        numbers = "; ".join(_numbers(c, names) for c in deciding)
        heads = {"rose": "Leakage rose", "fell": "Leakage fell", "no-difference": "No difference is shown"}
        text = f"{heads[self.status]}: {numbers}."
        if self.status == "no-difference":
            largest = max(max(0.0, c.high or 0.0) for c in deciding)
            text += f" A rise by {written(largest, '.4f', 'up')} is not excluded."
        if len(self.resolved) > 1:
            text += (
                f" Each of these intervals has {percent(self.confidence)} confidence, since {len(self.resolved)} "
                "metrics share the error level."
            )
        return text


def is_not_causal(change: Change) -> bool:
    """Whether a change is one of raw numbers of a zero-run audit."""
    return change.note.startswith(NOT_CAUSAL)


def _stretched(change: Change, factor: float) -> Change:
    """Return a change with its limits further from its value by a factor."""
    if change.value is None or change.low is None or change.high is None:
        return change
    low, high = (change.value + factor * (limit - change.value) for limit in (change.low, change.high))
    return replace(change, low=low, high=high)


def _status(change: Change) -> Status:
    if change.low is None or change.high is None:
        return "not-comparable"
    if change.low > 0:
        return "rose"
    return "fell" if change.high < 0 else "no-difference"


def _numbers(change: Change, names: tuple[str, str]) -> str:
    value, low, high = (0.0 if x is None else x for x in (change.value, change.low, change.high))
    return (
        f"{label(change.name)} is {amount(change.name, change.before)} in {names[0]}, "
        f"{amount(change.name, change.after)} in {names[1]}; difference {difference(value, low, high)}"
    )


def _cautions(before: Findings, after: Findings) -> list[str]:
    sentences = []
    if before.design != after.design:
        sentences.append(
            f"The designs differ ({before.design or 'not declared'} and {after.design or 'not declared'}): their "
            "numbers do not estimate the same thing."
        )
    scores = [audit.scores[0].score if audit.scores else None for audit in (before, after)]
    if scores[0] != scores[1]:
        sentences.append(
            f"The headline scores differ ({scores[0]} and {scores[1]}): another attack, not only another model. Two "
            "attacks on the same records are compared by miaudit challenge, or by one audit with both (--score A,B)."
        )
    if before.evidence["digest"] == after.evidence["digest"]:
        sentences.append("Both audits are of the same evidence: any difference comes from their plans.")
    if "refused" in (before.verdict.status, after.verdict.status):
        sentences.append("An audit that was refused has raw numbers, if any, and they are not causal.")
    return sentences


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
    budget : of false alarms over all releases, which then decides alone; None where none was stated
    """

    KIND = "history"

    primary: str
    audits: tuple[Audited, ...]
    changes: tuple[Step, ...]
    text: str
    repeat: Mapping[str, Any]
    budget: Budget | None = None

    @property
    def exit_code(self) -> int:
        """3 where leakage rose in the last step or the last audit exceeds a limit, 4 where it is not comparable.

        With a budget: 3 where any release raised an alarm, 4 where the last one has no answer.
        """
        if self.budget is not None:
            return self.budget.exit_code
        return _code(self.changes[-1].status, self.audits[-1].status) if self.changes else 0

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The metric that is followed, of each audit."""
        for one in self.audits:
            limits = {"value": one.value, "low": one.low, "high": one.high}
            yield {"kind": "metric", "score": one.name, "name": self.primary, **limits, "note": one.said}


def history(
    audits: Sequence[tuple[str, Findings]],
    *,
    shared: Sequence[SharedRecords | None] | None = None,
    repeat: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> History:
    """Line up audits, each with its name and findings, oldest first.

    Parameters
    ----------
    audits : names and findings
    shared : of each audit but the first, what it shares with the one before it; None where that is not known
    repeat : how to repeat the history
    budget : of false alarms over all releases, as :meth:`miaudit.findings.budget.Budget.of` returns it

    Raises
    ------
    InputError
        For fewer than two; with a budget, for none.
    """
    if len(audits) < (2 if budget is None else 1):
        raise InputError("findings", "at least two audits", str(len(audits)), "name their folders, oldest first")
    last = audits[-1][1]
    followed = followed_metrics(last)
    resolved = {metric.name for metric in last.metrics if metric.value is not None}
    primary = next((name for name in followed if name in resolved), followed[0])
    rows = tuple(_row(name, audit, primary) for name, audit in audits)
    steps: list[Step] = []
    for ((a, before), (b, after)), records in zip(pairwise(audits), shared or [None] * (len(audits) - 1), strict=True):
        if not math.isclose(before.plan["confidence"], after.plan["confidence"]):
            steps.append(Step(a, b, "not-comparable", "Not compared: the two are at different confidence.", ()))
            continue
        step = compare(before, after, names=(a, b), shared=records, followed=followed)
        steps.append(Step(a, b, step.status, step.text, (*step.cautions, step.records)))
    text = _course(rows, steps, last, primary) if budget is None else budget.text
    return History(primary, rows, tuple(steps), text, dict(repeat or {}), budget)


def _row(name: str, audit: Findings, primary: str) -> Audited:
    reading, limits = estimate_in_words([m for m in audit.metrics if m.name == primary], audit.design)
    return Audited(
        name=name,
        status=_state(audit),
        said=reading,
        **limits,
        members=audit.counts.members,
        design=audit.design or "not declared",
        digest=str(audit.evidence["digest"]),
    )


def estimate_in_words(estimates: Sequence[Metric], design: str | None) -> tuple[str, dict[str, Any]]:
    """Return the metric that is followed over audits in words, and its value and limits where it is causal.

    ``estimates`` are those of one metric in one audit: the first that the design makes causal counts.
    """
    causal = [m for m in estimates if design != _ZERO_RUN or m.estimator != "raw"]
    reading = "not measured"
    if estimates:
        reading = causal[0].reading if causal else f"{estimates[0].reading}, {NOT_CAUSAL}"
    return reading, {part: getattr(causal[0], part) if causal else None for part in ("value", "low", "high")}


def _course(rows: Sequence[Audited], steps: Sequence[Step], last: Findings, primary: str) -> str:
    row, step = rows[-1], steps[-1]
    went = {"rose": "leakage rose", "fell": "leakage fell", "no-difference": "no difference is shown"}
    since = went.get(step.status, "the two cannot be compared")
    text = f"{len(rows)} audits. {label(primary)} in the last one: {row.said}; against the one before, {since}."
    return " ".join(part for part in (text, _later(last, row.name)) if part)

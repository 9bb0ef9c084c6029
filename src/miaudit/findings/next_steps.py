"""What to do after an audit: read off the findings and how they were made.

Where a command does it, this module says what to do (an :class:`Intent`, by the names of Python), and the command
line, which stands above the findings, gives the words. A name in capitals
(FILE, BEFORE) stands for a value that the reader fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, Protocol

import numpy as np

from miaudit.errors.entry_points import Offered
from miaudit.findings.policy import PARAMETERS
from miaudit.metrics import classical, definition
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import percent

__all__ = ["Action", "CommandLine", "Intent", "Origin", "Step", "of", "origin_of"]

_USUAL_CONFIDENCE = 0.95

Action = Literal["repeat", "audit again", "compare", "foresee", "plan", "weaken", "hand on", "draw"]


@dataclass(frozen=True)
class Step:
    """One thing to do: in words, and the command for it, or an empty text; ``asks`` where it answers a question."""

    text: str
    command: str = ""
    asks: bool = False


@dataclass(frozen=True)
class Intent:
    """What a command is to do, without its words.

    Attributes
    ----------
    action : "repeat" (as it was), "audit again" (with changes), "compare" (with a later audit), "foresee" (what an
        audit would see, from what was known of records), "plan" (sizes), "weaken" (try measures), "hand on" (for
        somebody else to repeat) or "draw" (decide membership by chance)
    options : values by the names of Python, such as ``design`` or ``fpr_targets``
    """

    action: Action
    options: Mapping[str, Any] = field(default_factory=dict)


class Origin(Protocol):
    """How findings were made, as far as their record says."""

    @property
    def config(self) -> str:
        """The configuration file; empty where there was none."""
        ...

    @property
    def from_command(self) -> bool:
        """Whether a command made them, and not a call in Python."""
        ...

    def option(self, name: str) -> str:
        """Return the value of an option by its name in Python; empty where it was not given."""
        ...

    def command(self, intent: Intent) -> str:
        """Return the command for an intent; empty where too little is known."""
        ...


@dataclass(frozen=True)
class CommandLine:
    """Reads how findings were made (their ``repeat``), and writes commands.

    It offers itself as the entry point ``program`` of the group ``miaudit.commands``.
    """

    read: Callable[[Mapping[str, Any]], Origin]


_WEAKEN = Intent("weaken")
_COMMAND_LINES: Offered[CommandLine] = Offered("miaudit.commands", CommandLine, {})


@dataclass(frozen=True)
class _Unknown:
    """The origin of findings where no command line is installed."""

    config: str = ""
    from_command: bool = False

    def option(self, name: str) -> str:  # noqa: ARG002
        return ""

    def command(self, intent: Intent) -> str:  # noqa: ARG002
        return ""


def origin_of(repeat: Mapping[str, Any]) -> Origin:
    """Return how findings were made, from their ``repeat``."""
    return _COMMAND_LINES["program"].read(repeat) if "program" in _COMMAND_LINES else _Unknown()


class Audited(Protocol):
    """What is read of :class:`miaudit.findings.audit.Findings`."""

    @property
    def verdict(self) -> Any: ...
    @property
    def counts(self) -> Any: ...
    @property
    def design(self) -> str | None: ...
    @property
    def plan(self) -> Mapping[str, Any]: ...
    @property
    def repeat(self) -> Mapping[str, Any]: ...
    @property
    def claim(self) -> Any: ...
    @property
    def scores(self) -> Sequence[Any]: ...
    @property
    def is_corrected(self) -> bool: ...


class Measured(Protocol):
    """What is read of :class:`miaudit.findings.metric.Metric`."""

    @property
    def value(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def reason(found: Audited, auc: Measured | None) -> Literal["no correction", "wrong way", "constant", "not declared"]:
    """Return why a verdict is not testable."""
    if ": Every record has the same" in found.verdict.text:
        return "constant"
    if found.design == "zero-run" and not found.is_corrected:
        return "no correction"
    inverted = auc is not None and auc.high is not None and auc.high < 0.5
    return "wrong way" if inverted or found.design is not None else "not declared"


def of(found: Audited, primary: Measured | None, auc: Measured | None) -> Iterator[Step]:
    """Yield what to do next, the most useful first.

    Parameters
    ----------
    found : Findings
    primary, auc : the primary metric and the AUC of the headline score; None where not shown
    """
    status, origin = found.verdict.status, origin_of(found.repeat)
    if found.claim is not None and found.claim.status == "refuted":
        yield Step("Withdraw the claim. Then look for what breaks it: noise, clipping, sampling or accounting.")
    if status == "flagged":
        yield from _weaken(origin, scores_only=_scores_only(found, origin))
    elif status == "clear":
        yield Step(f"Try a stronger attack before you rely on this: {_stronger(found)}.")
        yield Step("Audit the next version in the same way, and compare.", origin.command(Intent("compare")))
    elif status == "inconclusive":
        yield from _more_records(found, primary, origin)
    elif status == "refused" and found.design == "matched":
        yield Step("Draw the decoys again, by the rule that drew the true strings, filters included. Score them, too.")
        yield Step("Check that the reference model never saw the strings.")
    elif status == "refused" and found.design != "zero-run":
        if "contradict the stated chances of inclusion" in found.verdict.text:
            again = origin.command(Intent("audit again", {"inclusion": "CHANCE"}))
            yield Step("State the chance with which each record became a member, as it was.", again)
        yield Step(
            "If members were not assigned at random, declare the design zero-run.",
            origin.command(Intent("audit again", {"design": "zero-run"})),
        )
        yield _drawn(origin)
    elif status == "refused":
        text = "See, before any new scores are computed, which columns or records would help."
        yield Step(text, origin.command(Intent("foresee")))
        yield _drawn(origin)
    elif reason(found, auc) == "no correction":
        named = origin.option("covariates")  # those were none
        yield Step(
            "Name what was known of each record before training: then the difference can be corrected for.",
            "" if named else origin.command(Intent("audit again", {"covariates": "COLUMNS"})),
        )
        yield _drawn(origin)
    elif reason(found, auc) == "constant":
        yield Step("Check how the scores were made: every record has the same one.")
    elif reason(found, auc) == "wrong way":
        yield from _turn(origin)
    if found.design is None:
        yield from _declare(origin)


def _drawn(origin: Origin) -> Step:
    text = (
        "Or let chance decide before the next training which records go in, if you train the model or can ask those "
        "who do. Then nothing has to be corrected."
    )
    return Step(text, origin.command(Intent("draw")))


def _stronger(found: Audited) -> str:
    """Name an attack that was not made, and that can be made with what there is."""
    if any(one.score.startswith(("lira", "rmia")) for one in found.scores):
        return "more shadow models, or another signal"
    if _scores_only(found, origin_of(found.repeat)):
        return "another signal of the same model, or losses less those of a model that never saw the records"
    return "shadow models, where you can repeat the training"


def _scores_only(found: Audited, origin: Origin) -> bool:
    """Whether a fixed model was audited by its scores alone: its training code is not at hand, as far as is known."""
    return found.design == "zero-run" and not origin.config


# -- a concern ---------------------------------------------------------------------------------------------------------


def _weaken(origin: Origin, *, scores_only: bool) -> Iterator[Step]:
    hand_on = Intent("hand on")
    if scores_only:
        sent = "Send this page and a bundle to the people who train the model. The bundle lets them repeat the audit."
        yield Step(sent, origin.command(hand_on))
        yield Step("Audit their next version in the same way, and compare.", origin.command(Intent("compare")))
        yield Step("If you train the model yourself, see which measures weaken the attack.", origin.command(_WEAKEN))
        return
    if origin.config:
        name = PurePath(origin.config).name
        text = (
            f"See which measures weaken the attack on this model, and what each costs: if {name} trains a classifier, "
            "copy its sections target, data, shadow and reporting (its limits) to measures.yaml beside it."
        )
    else:
        text = (
            "With the training code, see which measures weaken the attack, and what each costs: rounded or fewer "
            "probabilities, labels alone, other trainings."
        )
    yield Step(text, origin.command(_WEAKEN))
    yield Step(
        "Or train with fewer epochs, more regularisation or differential privacy, audit that model in the same way, "
        "and compare.",
        origin.command(Intent("compare")),
    )
    yield Step(
        "Without the training code, send this page and a bundle to the people who train the model. The bundle lets "
        "them repeat the audit.",
        origin.command(hand_on),
    )


# -- more records ------------------------------------------------------------------------------------------------------


def _more_records(found: Audited, primary: Measured | None, origin: Origin) -> Iterator[Step]:
    verdict, counts = found.verdict, found.counts
    if verdict.metric in PARAMETERS:
        yield Step(
            "Describe the mechanism (privacy: mechanism): only an accountant shows that a parameter is within a limit."
        )
        return
    metric = definition.of(verdict.metric)
    level = found.plan["confidence"]
    options = {} if level == _USUAL_CONFIDENCE else {"confidence": level}
    if metric.fpr is not None:
        options["fpr_targets"] = metric.fpr
    if found.design == "zero-run":
        if metric.fpr is not None:
            yield from _too_few_members(counts, verdict.confidence, verdict.threshold)
        yield Step(
            "Collect more non-members that resemble the training records: the command estimates what more would show.",
            origin.command(Intent("foresee")),
        )
        return
    if found.design == "matched":
        yield Step("Audit more records with such strings: four times as many about halve the interval.")
        if metric.fpr is not None and (primary is None or primary.value is None):
            needed = classical.nonmembers_needed(metric.fpr, verdict.confidence)
            yield Step(f"Score more decoys: {percent(metric.fpr)} FPR needs {needed:,} in all, and decoys are free.")
        return
    if metric.fpr is not None and (primary is None or primary.value is None):
        needed = classical.nonmembers_needed(metric.fpr, verdict.confidence)
        yield Step(
            f"Audit more non-members: a lower limit at {percent(metric.fpr)} FPR needs at least {needed:,} "
            f"{counts.of}, and there are {counts.nonmembers:,}.",
            origin.command(_sizes(max(counts.members, needed), max(counts.nonmembers, needed), options)),
        )
    elif metric.fpr is not None and primary is not None and (primary.value or 0.0) > verdict.threshold:
        options |= {"tpr": float(f"{primary.value:.6g}"), "threshold_for_concern": verdict.threshold}
        yield Step(
            f"Audit more {counts.of}: the command says how many it takes to tell what was seen, "
            f"{amount(verdict.metric, primary.value)}, from {amount(verdict.metric, verdict.threshold)}.",
            origin.command(Intent("plan", options)),
        )
    else:
        more = _sizes(4 * counts.members, 4 * counts.nonmembers, options)
        yield Step(f"Audit more {counts.of}: four times as many about halve the interval.", origin.command(more))


def _too_few_members(counts: Any, confidence: float, threshold: float) -> Iterator[Step]:
    """Yield that non-members alone do not suffice, where even an attack that identifies no member leaves too much."""
    one, none = np.ones(1), np.zeros(1)
    most = classical.beta_mixture_quantile(one, none, counts.members, (1 + confidence) / 2, at_zero=False)
    if most > threshold:
        yield Step(
            f"Audit more members: with {counts.members:,} ({counts.of}), even an attack that identifies none of them "
            f"leaves up to {percent(most, 'up')} possible, above the limit of {percent(threshold)}."
        )


def _sizes(members: int, nonmembers: int, options: Mapping[str, Any]) -> Intent:
    return Intent("plan", {"members": members, "nonmembers": nonmembers, **options})


# -- what was not declared --------------------------------------------------------------------------------------------


_BEFORE_TRAINING = " Name what was known of each record before training."
_QUESTIONS = (
    ("one-run", "Did chance decide for each record whether it was trained on, in one training?", ""),
    ("multi-run", "Did chance decide it, in a training of its own for each record?", ""),
    ("zero-run", "Did something else decide it: a date, a source, a choice?", _BEFORE_TRAINING),
)


def _declare(origin: Origin) -> Iterator[Step]:
    """The question about the design, with what goes with each answer."""
    named = origin.option("covariates") or origin.option("text")
    where = f", under evaluation: in {PurePath(origin.config).name}" if origin.config else ""
    for design, question, besides in _QUESTIONS:
        changes = {"design": design} | ({"covariates": "COLUMNS"} if besides and not named else {})
        command = origin.command(Intent("audit again", changes))
        in_python = f'Evidence(..., design="{design}")'
        how = f"design: {design}{where}" if origin.from_command else in_python
        yield Step(f"{question} Then declare {design if command else how}.{besides}", command, asks=True)
    yield Step("If it is unknown how membership was decided, this audit cannot answer.", asks=True)


def _turn(origin: Origin) -> Iterator[Step]:
    if origin.option("signal") not in ("", "score"):
        yield Step("Turn the scores round, so that they are higher for records of the training data, and audit again.")
    else:
        losses = origin.command(Intent("audit again", {"signal": "loss"}))
        yield Step("If the scores are losses, say so; turn any others round.", losses)

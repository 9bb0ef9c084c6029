"""What to do after an audit, with the command: read off the findings and the command that made them.

A name in capitals (FILE, BEFORE) stands for what the findings do not know.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, Protocol

from miaudit.findings.policy import PARAMETERS
from miaudit.metrics import classical, definition
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import percent

__all__ = ["Step", "of"]

_TABLES = (".npz", ".csv", ".parquet")
_OTHER_TABLES = ("--propensity-sample", "--synthetic", "--schema")
_OF_PLAN = (  # options of miaudit audit that miaudit plan has too, for records whose membership nobody drew
    *("--member", "--covariates", "--text", "--unit", "--categories", "--components", "--estimator"),
    *("--propensity-model", "--member-covariates", "--nonmember-covariates", "--member-texts", "--nonmember-texts"),
    *("--member-units", "--nonmember-units"),
)
_PLACES = ("--out", "--overwrite", "--bundle", "--share", "--seal")
_SWITCHES = ("--overwrite", "--seal")
_USUAL_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Step:
    """One thing to do: in words, and the command for it, or an empty text; ``asks`` where it answers a question."""

    text: str
    command: str = ""
    asks: bool = False


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


def repeated(repeat: Mapping[str, Any]) -> str:
    """Return the command line that made findings; empty where it is none of ours."""
    command = repeat.get("command", "")
    return command if isinstance(command, str) and command.startswith("miaudit ") else ""


def of(found: Audited, primary: Measured | None, auc: Measured | None) -> Iterator[Step]:
    """Yield what to do next, the most useful first.

    Parameters
    ----------
    found : Findings
    primary, auc : the primary metric and the AUC of the headline score; None where not shown
    """
    status, command = found.verdict.status, Made.by(found.repeat.get("command", ""))
    if found.claim is not None and found.claim.status == "refuted":
        yield Step("Withdraw the claim. Then look for what breaks it: noise, clipping, sampling or accounting.")
    if status == "flagged":
        yield from _weaken(command)
    elif status == "clear":
        yield Step("Try a stronger attack before you rely on this: shadow models, where you can repeat the training.")
        yield Step("Audit the next version in the same way, and compare.", command.comparison)
    elif status == "inconclusive":
        yield from _more_records(found, primary, command)
    elif status == "refused" and found.design != "zero-run":
        yield Step(
            "If members were not assigned at random, declare the design zero-run.",
            command.again("--design", "zero-run"),
        )
        yield _DRAW
    elif status == "refused":
        yield Step("See, before any new scores are computed, which columns or records would help.", command.outlook())
        yield _DRAW
    elif reason(found, auc) == "no correction":
        yield Step(
            "Name what was known of each record before training: then the difference can be corrected for.",
            "" if command.option("--covariates") else command.again("--covariates", "COLUMNS"),  # else: those are none
        )
        yield _DRAW
    elif reason(found, auc) == "constant":
        yield Step("Check how the scores were made: every record has the same one.")
    elif reason(found, auc) == "wrong way":
        yield from _turn(command)
    if found.design is None:
        yield from _declare(command)


_DRAW = Step(
    "Or let chance decide before the next training which records go in: then nothing has to be corrected.",
    "miaudit draw --help",
)


@dataclass(frozen=True)
class Made:
    """The command that made findings, as words; none where they were made in Python or by something else."""

    words: tuple[str, ...] = ()

    @classmethod
    def by(cls, command: object) -> Made:
        """Read a command line; one that is none of ours counts as none."""
        try:
            words = shlex.split(command) if isinstance(command, str) else []
        except ValueError:
            words = []
        return cls(tuple(words)) if words[:1] == ["miaudit"] and words[1:2] in (["audit"], ["run"]) else cls()

    @property
    def config(self) -> str:
        """The configuration file; empty where there was none."""
        if self.words[1:2] != ("run",):
            return ""
        return next((word for word in self.words[2:] if word.endswith((".yaml", ".yml"))), "")

    def again(self, *more: str) -> str:
        """Return the command with more options; empty where it is not known.

        It says nothing of where earlier results or bundles went, which it would replace; an option that is given anew
        stands in place of its earlier values.
        """
        if self.words[1:2] != ("audit",):
            return ""
        return shlex.join([*self._without(*_PLACES, *(word for word in more if word.startswith("--"))), *more])

    def _without(self, *options: str) -> Iterator[str]:
        """The words without some options and their values."""
        skipped = False
        for word in self.words:
            name, has_value, _ = word.partition("=")
            if skipped or name in options:
                skipped = not skipped and not has_value and name not in _SWITCHES
            else:
                yield word

    @property
    def folder(self) -> str:
        """Where the results went, as far as the command says so."""
        return self.option("--out") or "BEFORE"

    @property
    def comparison(self) -> str:
        """The command that compares these results with those of a later audit."""
        return shlex.join(["miaudit", "compare", self.folder, "AFTER"])

    def option(self, name: str) -> str:
        """Return the value that an option was given last, or an empty text."""
        return next(reversed(list(self._values(name))), "")

    def _values(self, name: str) -> Iterator[str]:
        for i, word in enumerate(self.words):
            if word == name and i + 1 < len(self.words):
                yield self.words[i + 1]
            elif word.startswith(f"{name}="):
                yield word.partition("=")[2]

    def outlook(self, *more: str) -> str:
        """The command that says from covariates alone what an audit would see."""
        options = [part for name in _OF_PLAN for value in self._values(name) for part in (name, value)]
        before = dict(zip(self.words[1:], self.words, strict=False))
        tables = [w for w in self.words[2:] if w.endswith(_TABLES) and before[w] not in _OTHER_TABLES]
        sides = any(word.startswith(("--member-", "--nonmember-")) for word in options)
        if not options:
            tables, options = ["FILE"], ["--member", "MEMBER", "--covariates", "COLUMNS"]
        return shlex.join(["miaudit", "plan", *([] if sides else tables[:1] or ["FILE"]), *options, *more])


# -- a concern ---------------------------------------------------------------------------------------------------------


def _weaken(made: Made) -> Iterator[Step]:
    if made.config:
        name = PurePath(made.config).name
        measures = str(PurePath(made.config).with_name("measures.yaml"))
        yield Step(
            f"See which measures weaken the attack on this model, and what each costs: if {name} trains a classifier, "
            "copy its sections target, data, shadow and reporting (its limits) to measures.yaml beside it.",
            shlex.join(["miaudit", "disclosure", measures]),
        )
    else:
        yield Step(
            "With the training code, see which measures weaken the attack, and what each costs: rounded or fewer "
            "probabilities, labels alone, other trainings.",
            "miaudit disclosure CONFIG.yaml",
        )
    yield Step(
        "Or train with fewer epochs, more regularisation or differential privacy, audit that model in the same way, "
        "and compare.",
        made.comparison,
    )
    bundle = made.option("--bundle")
    yield Step(
        "Without the training code, hand the page to whoever trains the model, with a bundle, by which they repeat the "
        "audit.",
        shlex.join(["miaudit", "verify", bundle]) if bundle else made.again("--bundle", "audit.zip"),
    )


# -- more records ------------------------------------------------------------------------------------------------------


def _more_records(found: Audited, primary: Measured | None, made: Made) -> Iterator[Step]:
    verdict, counts = found.verdict, found.counts
    if verdict.metric in PARAMETERS:
        yield Step(
            "Describe the mechanism (privacy: mechanism): only an accountant shows that a parameter is within a limit."
        )
        return
    metric = definition.of(verdict.metric)
    level = found.plan["confidence"]
    sure = [] if level == _USUAL_CONFIDENCE else ["--confidence", f"{level:g}"]
    at = [] if metric.fpr is None else ["--fpr-targets", f"{metric.fpr:g}"]
    if found.design == "zero-run":
        yield Step(
            "Collect more non-members that resemble the training records: the command estimates what more would show.",
            made.outlook(),
        )
        return
    if metric.fpr is not None and (primary is None or primary.value is None):
        needed = classical.nonmembers_needed(metric.fpr, verdict.confidence)
        yield Step(
            f"Audit more non-members: a lower limit at {percent(metric.fpr)} FPR needs at least {needed:,} "
            f"{counts.of}, and there are {counts.nonmembers:,}.",
            shlex.join(_planned(max(counts.members, needed), max(counts.nonmembers, needed), *at, *sure)),
        )
    elif metric.fpr is not None and primary is not None and (primary.value or 0.0) > verdict.threshold:
        observed = ["--tpr", f"{primary.value:.6g}", "--threshold-for-concern", f"{verdict.threshold:g}"]
        yield Step(
            f"Audit more {counts.of}: the command says how many it takes to tell what was seen, "
            f"{amount(verdict.metric, primary.value)}, from {amount(verdict.metric, verdict.threshold)}.",
            shlex.join(["miaudit", "plan", *at, *observed, *sure]),
        )
    else:
        more = _planned(4 * counts.members, 4 * counts.nonmembers, *at, *sure)
        yield Step(f"Audit more {counts.of}: four times as many about halve the interval.", shlex.join(more))


def _planned(members: int, nonmembers: int, *more: str) -> list[str]:
    return ["miaudit", "plan", "--members", str(members), "--nonmembers", str(nonmembers), *more]


# -- what nobody declared ----------------------------------------------------------------------------------------------


_BEFORE_TRAINING = " Name what was known of each record before training."
_QUESTIONS = (
    ("one-run", "Did chance decide for each record whether it was trained on, in one training?", ""),
    ("multi-run", "Did chance decide it, in a training of its own for each record?", ""),
    ("zero-run", "Did something else decide it: a date, a source, a choice?", _BEFORE_TRAINING),
)


def _declare(made: Made) -> Iterator[Step]:
    """The question about the design, with what goes with each answer."""
    named = made.option("--covariates") or made.option("--text")
    for design, question, besides in _QUESTIONS:
        how = f'Evidence(..., design="{design}")' if not made.words else f"--design {design}"
        if made.config:
            how = f"design: {design}, under evaluation: in {PurePath(made.config).name}"
        covariates = ["--covariates", "COLUMNS"] if besides and not named else []
        command = made.again("--design", design, *covariates)
        yield Step(f"{question} Then declare {design if command else how}.{besides}", command, asks=True)
    yield Step("If nobody knows how membership was decided, this audit cannot answer.", asks=True)


def _turn(made: Made) -> Iterator[Step]:
    if made.option("--signal") not in ("", "score"):
        yield Step("Turn the scores round, so that they are higher for records of the training data, and audit again.")
    else:
        yield Step("If the scores are losses, say so; turn any others round.", made.again("--signal", "loss"))

"""Findings: the finished, versioned result of an audit; the page shows nothing that is not in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Interval, Len, MinLen

from miaudit.arrays import Count, FloatArray, Inside, Positive, Share, Text
from miaudit.causal import concentration
from miaudit.causal.balance import Overlap
from miaudit.causal.challenge import Challenge
from miaudit.causal.gaps import in_words
from miaudit.causal.lack_of_fit import LackOfFit
from miaudit.causal.mean_differences import Difference
from miaudit.causal.propensity import LearningCurve
from miaudit.causal.unused_columns import UnusedColumns
from miaudit.dp.verdict import ClaimVerdict, LowerBound, RocLimit
from miaudit.errors import InputError, nearest
from miaudit.findings.about import About
from miaudit.findings.by_covariates import ByCovariates
from miaudit.findings.inclusion import Inclusion
from miaudit.findings.kind import WIDTH, Entries, FindingsRecord, Pattern, cut
from miaudit.findings.matched import Matched
from miaudit.findings.metric import Measured, Metric, foremost, named
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.findings.sensitivity import Sensitivity
from miaudit.findings.several_runs import SeveralRuns
from miaudit.findings.verdict import MetricName, Verdict
from miaudit.metrics import classical, definition
from miaudit.metrics.classical import Sample
from miaudit.metrics.definition import amount
from miaudit.metrics.roc import Histogram
from miaudit.metrics.rounding import lower_text
from miaudit.metrics.surest_members import SurestMembers

if TYPE_CHECKING:
    from miaudit.findings.plain_words import InWords

__all__ = [
    "About",
    "ByCovariates",
    "Challenge",
    "ClaimVerdict",
    "Counts",
    "Curve",
    "Difference",
    "ExcludedLevels",
    "Findings",
    "GroupFindings",
    "Histogram",
    "Inclusion",
    "LackOfFit",
    "LearningCurve",
    "LowerBound",
    "Matched",
    "Memorisation",
    "Metric",
    "Mislabelled",
    "Overlap",
    "ReferenceFindings",
    "RocLimit",
    "ScoreFindings",
    "SealedCoins",
    "Sensitivity",
    "Separation",
    "SeveralRuns",
    "SurestMembers",
    "UnusedColumns",
    "Vulnerability",
    "VulnerableGroup",
    "VulnerableRecord",
]
Rates = Annotated[tuple[Share, ...], MinLen(2)]
Shares = Annotated[tuple[Share, ...], MinLen(1)]
_METRIC = ("name", "estimator", "value", "low", "high", "standard_error", "confidence", "note")
_SCALAR = int | float | str | bool | None
_HEADLINE = {"kind": Literal["bonferroni", "split", "declared", "exploratory"], "score": str, "share": Inside}
_INTERVALS = {"kind": Literal["calibrated", "bootstrap"]}
_PLAN = Entries(
    {
        "fpr_targets": Annotated[list[Inside], MinLen(1)],
        "confidence": Annotated[float, Interval(gt=0.5, lt=1)],
        "limits": Annotated[Mapping[str, float], MinLen(1)],
        "primary_metric": MetricName,
        "threshold_for_concern": float,
        "levels": Annotated[list[Inside], Len(3, 3)],
        "prior": Inside,
        "headline": Annotated[Mapping[str, Any], Entries(_HEADLINE, optional=("score", "share"))],
        "intervals": Annotated[Mapping[str, Any], Entries(_INTERVALS)],
        "n_bootstrap": Count,
        "row_level": Count,
        "exclude_levels": list[str],
        "by_covariates": bool,
    },
    others=Any,
    optional=("primary_metric", "threshold_for_concern", "exclude_levels", "by_covariates"),
)
_DIGEST = Annotated[str, Pattern("^[0-9a-f]{64}$")]
_EVIDENCE = Entries({"digest": _DIGEST, "source": str, "scores": Annotated[list[str], MinLen(1)]}, others=_SCALAR)
_ROW = Entries({"row": Count, "unit": str | None, "score": float})
_REPEAT = Entries(
    {"command": str, "seed": int | None, "miaudit": str, "python": str, "numpy": str},
    others=_SCALAR | Mapping[str, _SCALAR],  # what a configuration says of the model is a mapping
    optional=("command", "seed", "miaudit"),
)


def _unknown(argument: str, value: str, known: Iterable[str]) -> InputError:
    names = list(dict.fromkeys(known))
    allowed, hint = f"one of {', '.join(names)}", nearest(str(value), names)
    return InputError(argument, allowed, repr(value)[:60], hint or "ask for one of these")


@dataclass(frozen=True)
class Curve:
    """The ROC curve on a grid of FPRs with its pointwise band, all of the same length.

    ``tpr`` is None where so many non-members cannot resolve it: there, ``high`` alone means anything (erratum C3).
    """

    fpr: Rates
    tpr: Annotated[tuple[Share | None, ...], MinLen(2)]
    low: Rates
    high: Rates

    @staticmethod
    def grid(targets: Sequence[float], nonmembers: float, resolved: float) -> FloatArray:
        """Return the FPRs (k,) inside (0, 1) at which a curve is shown.

        They are fine where they are low, and hold every target and ``resolved``, the smallest FPR that so many
        non-members resolve.
        """
        smallest = min(0.1 / nonmembers, targets[0] / 2)
        spread = np.r_[np.geomspace(smallest, 1, 50), np.linspace(0.04, 0.98, 33)]
        points = np.unique(np.r_[spread, targets, resolved])
        return points[points < 1]

    @classmethod
    def of(cls, fpr: FloatArray, tpr: FloatArray, low: FloatArray, high: FloatArray, resolved: float) -> Curve:
        """Close a curve on FPRs (k,) inside (0, 1) with its ends; no TPR below the FPR that is ``resolved``."""
        # The band is pointwise; a running maximum keeps its drawn edges as monotone as the curve that they enclose.
        columns = (fpr, tpr, np.maximum.accumulate(np.minimum(low, tpr)), np.maximum.accumulate(np.maximum(high, tpr)))
        starts = (0.0, 0.0, 0.0, float(columns[3][0].round(9)))
        x, y, below, above = (
            (first, *np.round(column, 9).tolist(), 1.0) for column, first in zip(columns, starts, strict=True)
        )
        known = (False, *(fpr >= resolved * (1 - 1e-12)), True)
        return cls(x, tuple(rate if shown else None for rate, shown in zip(y, known, strict=True)), below, above)

    @property
    def points(self) -> Iterator[tuple[float, float | None, float, float]]:
        """Each FPR with its TPR and its limits."""
        return zip(self.fpr, self.tpr, self.low, self.high, strict=True)


@dataclass(frozen=True)
class ScoreFindings:
    """What one score showed."""

    score: str
    metrics: tuple[Measured, ...]
    curve: Curve | None = None
    distribution: Histogram | None = None

    @property
    def is_corrected(self) -> bool:
        """Whether numbers were corrected for the difference between members and non-members."""
        return any(metric.estimator != "raw" for metric in self.metrics)

    @property
    def above_chance(self) -> str:
        """The AUC and the TPRs whose lower limits are above chance, with these; raw ones where nothing is corrected."""
        above = []
        for metric in foremost(self.metrics):
            known = definition.of(metric.name)
            counts = (metric.name == "auc" or known.fpr is not None) and metric.value is not None
            if counts and known.chance is not None and (metric.low or 0.0) > known.chance:
                above.append(f"{known.label} at least {amount(metric.name, metric.low, 'down')}")
        return "; ".join(above)


@dataclass(frozen=True)
class GroupFindings:
    """What the headline score showed in one group; no metrics where it has only one class."""

    group: str
    members: Count
    nonmembers: Count
    metrics: tuple[Measured, ...]
    note: str = ""


@dataclass(frozen=True)
class Mislabelled:
    """The corrected AUC if a share of the labelled members, and of the labelled non-members, were labelled wrongly."""

    members: Share
    nonmembers: Share
    auc: Share | None
    low: Share
    high: Share


@dataclass(frozen=True)
class Memorisation:
    """What part of the raw AUC above chance is memorisation, and what part is shift.

    Attributes
    ----------
    raw, causal : AUC before and after the correction
    memorisation : ``causal`` - 0.5
    shift : ``raw`` - ``causal``
    sentence : the same in words
    mislabelling : the corrected AUC under assumed shares of wrong labels
    """

    raw: Share
    causal: Share
    memorisation: float
    shift: float
    sentence: str
    mislabelling: tuple[Mislabelled, ...] = ()


@dataclass(frozen=True)
class ReferenceFindings:
    """What scores of a reference model, which membership cannot have touched, say of the correction.

    Attributes
    ----------
    covariate, test : names of the reference scores; None where there is none
    trained_on_neither : whether its conditions were stated; nothing checks them
    raw : uncorrected AUC of each reference score, the covariate's first
    corrected : AUC of the test by the correction of the audited scores; None where there was none
    refuted : whether that AUC excludes one half
    text : the same in words
    conditions : under which a reference is to be relied on, and whether they were stated
    """

    covariate: str | None
    test: str | None
    trained_on_neither: bool
    raw: Annotated[tuple[Measured, ...], Len(1, 2)]
    corrected: Measured | None
    refuted: bool
    text: Text
    conditions: Text


@dataclass(frozen=True)
class Separation:
    """Shares of the records in bins of the separation of their shadow models, and what chance alone would give.

    ``edges`` are one more than the shares, from 0 to 1; ``expected`` is the exact law where no record leaks.
    """

    edges: Rates
    observed: Shares
    expected: Shares


@dataclass(frozen=True)
class VulnerableGroup:
    """How many records of a group are detectably vulnerable: at least ``leaking`` of ``records``."""

    group: str
    records: Positive
    leaking: Count


@dataclass(frozen=True)
class VulnerableRecord:
    """One record, or unit, by name: row-level data, kept only where it was asked for.

    Attributes
    ----------
    record : the unit, or the row in the data, from 0
    group : its group; None where none were given, or a unit has records of several
    member : whether the audited model was trained on it
    separation, separation_low, separation_high : probability that a model that learnt it gives the higher signal
    p_value : of "whether it was learnt does not change the signal", after the correction for all records
    detected, detected_low, detected_high : share of the models that learnt it in which an attacker finds it
    """

    record: str
    group: str | None
    member: bool
    separation: Share
    separation_low: Share
    separation_high: Share
    p_value: Share
    detected: Share
    detected_low: Share
    detected_high: Share


@dataclass(frozen=True)
class Vulnerability:
    """Which records leak, over many shadow models.

    Attributes
    ----------
    of : "records", or "units" where several records share one
    records, models : how many of each
    signal : what the models say of a record, by name
    leaking : records that are detectably vulnerable; with the stated confidence no fewer leak
    confidence : that none of these is named wrongly, and of all limits together, in (0, 1)
    fpr : of the threshold at which a record counts as found, in (0, 1)
    smallest_p : smallest p-value of a record that so many models can give, before any correction
    separation : of all records, beside what chance gives
    text : the same as a sentence
    groups : none where no groups were given
    named : the most vulnerable first; empty unless names were asked for
    """

    of: Annotated[str, Pattern("^(records|units)$")]
    records: Positive
    models: Annotated[int, Ge(4)]
    signal: Text
    leaking: Count
    confidence: Inside
    fpr: Inside
    smallest_p: Share
    separation: Separation
    text: Text
    groups: tuple[VulnerableGroup, ...] = ()
    named: tuple[VulnerableRecord, ...] = ()


@dataclass(frozen=True)
class ExcludedLevels:
    """Levels of covariates whose records were left out, as the plan names them.

    Attributes
    ----------
    levels : each with its covariate, such as "race = r1"
    members, nonmembers : how many records were left out
    """

    levels: Annotated[tuple[str, ...], MinLen(1)]
    members: Count
    nonmembers: Count

    @property
    def sentence(self) -> str:
        """What was left out, and what the answer holds for."""
        return (
            f"{self.members:,} members and {self.nonmembers:,} non-members were left out ({', '.join(self.levels)}). "
            "The answer holds for the other members only, and says nothing about these."
        )


@dataclass(frozen=True)
class Counts:
    """How much evidence there was; units where records share them, else every record is one.

    ``smallest_fpr`` is the smallest FPR at which so many non-members give a lower limit (erratum C3), at most 1; where
    they are weighted, by the heaviest of them above the threshold of the headline score.
    """

    members: Positive
    nonmembers: Positive
    member_records: Positive
    nonmember_records: Positive
    smallest_fpr: Annotated[float, Interval(gt=0, le=1)]
    of: Annotated[str, Pattern("^(records|units|strings)$")] = "records"

    @property
    def in_words(self) -> tuple[str, str]:
        """Both classes with their numbers: members and non-members, or true strings and decoys."""
        inside, outside = ("true strings", "decoys") if self.of == "strings" else ("members", "non-members")
        return f"{self.members:,} {inside}", f"{self.nonmembers:,} {outside}"

    @classmethod
    def of_sample(cls, sample: Sample, effective_nonmembers: float, confidence: float) -> Counts:
        """Count the records and the units of a sample, with the smallest FPR that can be resolved."""
        members, nonmembers = round(sample.roc.n_members), round(sample.roc.n_nonmembers)
        smallest = classical.smallest_fpr(effective_nonmembers, confidence)
        if sample.decoys:  # each true string stands beside every decoy of its unit
            true, decoys = sample.independent_members, sample.independent_nonmembers
            return cls(true, decoys, true, decoys, smallest, "strings")
        return cls(
            sample.independent_members,
            sample.independent_nonmembers,
            members,
            nonmembers,
            smallest,
            "records" if sample.units is None else "units",
        )


@dataclass(frozen=True)
class Findings(FindingsRecord):
    """Everything that an audit found, without any row of the evidence unless it was asked for.

    ``scores[0]`` is the headline score, whose metrics are also :attr:`metrics`. ``no_bound`` says why ``bounds`` is
    empty, where bounds were wanted. ``to_dict`` gives plain values, ``to_json`` text, ``to_html`` writes the page.
    """

    KIND = "audit"
    DERIVED = ("exit_code", "verdict.exit_code", "verdict.word", "verdict.exceeded", "verdict.unresolved")

    verdict: Verdict
    metrics: tuple[Measured, ...]
    design: Literal["multi-run", "one-run", "matched", "zero-run"] | None
    counts: Counts
    scores: Annotated[tuple[ScoreFindings, ...], MinLen(1)]
    plan: Annotated[Mapping[str, Any], _PLAN]
    evidence: Annotated[Mapping[str, Any], _EVIDENCE]
    groups: tuple[GroupFindings, ...] = ()
    overlap: Overlap | None = None
    memorisation: Memorisation | None = None
    challenge: Challenge | None = None
    claim: ClaimVerdict | None = None
    bounds: tuple[LowerBound, ...] = ()
    no_bound: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[Annotated[Mapping[str, Any], _ROW], ...] = ()
    repeat: Annotated[Mapping[str, Any], _REPEAT] = field(default_factory=dict)
    vulnerability: Vulnerability | None = None
    covariates_alone: Measured | None = None
    reference: ReferenceFindings | None = None
    several_runs: SeveralRuns | None = None
    sealed_coins: SealedCoins | None = None
    about: About | None = None
    surest_members: tuple[SurestMembers, ...] = ()
    sensitivity: Sensitivity | None = None
    excluded: ExcludedLevels | None = None
    unused_columns: UnusedColumns | None = None
    matched: Matched | None = None
    inclusion: Inclusion | None = None
    by_covariates: ByCovariates | None = None

    @property
    def ahead(self) -> tuple[str, ...]:
        """What a reader has to know before any number, in sentences."""
        excluded = () if self.excluded is None else (self.excluded.sentence,)
        gaps = "" if self.overlap is None else in_words(self.overlap.gaps)
        known = self.overlap is not None and self.overlap.propensity == "given"
        unused = () if self.unused_columns is None else self.unused_columns.warnings_of(given=known)
        return tuple(text for text in (*excluded, *unused, gaps) if text)

    @property
    def exit_code(self) -> int:
        """Of the command line: 3 where verdict or claim raise concern, else 4 where one is not answered, else 0."""
        codes = {self.verdict.exit_code, 0 if self.claim is None else self.claim.exit_code}
        return next(code for code in (3, 4, 0) if code in codes)

    @property
    def is_corrected(self) -> bool:
        """Whether the headline numbers were corrected for the difference between members and non-members."""
        return any(metric.estimator != "raw" for metric in self.metrics)

    def is_raw(self, metric: Metric) -> bool:
        """Say whether a number is not causal: uncorrected although membership was not, or cannot have been, random."""
        return metric.estimator == "raw" and (self.design == "zero-run" or self.verdict.status == "refused")

    @property
    def is_raw_only(self) -> bool:
        """Whether there are numbers, none of which is causal."""
        return bool(self.metrics) and all(map(self.is_raw, self.metrics))

    @property
    def is_void(self) -> bool:
        """Whether the propensity was refuted, so that no bound that rests on it holds."""
        return self.challenge is not None and self.challenge.rejected

    @property
    def unmeasured(self) -> str:
        """What the intervals of one model rest on and nobody measured, in a sentence; empty where there is nothing."""
        measured = any(note.startswith(concentration.MEASURED) for note in self.notes)
        several = self.several_runs is not None
        if measured or several or not self.metrics or self.design not in ("one-run", "matched", "zero-run"):
            return ""
        return (
            "The intervals describe this one trained model. Variation between trainings was not measured; a "
            "configuration that trains the model can measure it (stability:)."
        )

    @property
    def in_words(self) -> InWords:
        """The verdict for a reader who is no statistician, and what to do next."""
        from miaudit.findings import plain_words

        return plain_words.of(self, named(self.metrics, self.verdict.metric), named(self.metrics, "auc"))

    @property
    def qualifier(self) -> str:
        """What has to be said before a number: that it is not causal, or that it was corrected; else nothing."""
        return "Raw, not causal: " if self.is_raw_only else "Corrected for shift: " if self.is_corrected else ""

    @property
    def curve(self) -> Curve | None:
        """The curve of the headline score; None where there is none, or no metric that it could be of."""
        return self.scores[0].curve if self.metrics else None

    def metric(self, name: str, *, score: str | None = None, estimator: str | None = None) -> Metric:
        """Return a metric by its name.

        Parameters
        ----------
        name : such as "auc" or "tpr_at_fpr_0.01"
        score : of which score; default: the headline's
        estimator : "raw", "hajek" or another of this metric; default: the first that the findings have

        Raises
        ------
        InputError
            For a metric, score or estimator that is not there; it lists those that are.
        """
        by_score = {one.score: one.metrics for one in self.scores}
        if score is not None and score not in by_score:
            raise _unknown("score", score, by_score)
        metrics = self.metrics if score is None else by_score[score]
        if not metrics:
            raise InputError("name", "a metric", "findings without any", "print(findings) says why there is none")
        if not (of_name := [metric for metric in metrics if metric.name == name]):
            raise _unknown("name", name, [metric.name for metric in metrics])
        if estimator is None:
            return of_name[0]
        if not (chosen := [metric for metric in of_name if metric.estimator == estimator]):
            raise _unknown("estimator", estimator, [metric.estimator for metric in of_name])
        return chosen[0]

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Metrics of all scores, the headline's first, then bounds: the lower limit of a bound is its value."""
        for one in self.scores:
            for metric in one.metrics:
                yield {"kind": "metric", "score": one.score, **{key: getattr(metric, key) for key in _METRIC}}
        for bound in self.bounds:
            note = "exploratory, at no confidence" if bound.exploratory else ""
            own = {"name": bound.parameter, "estimator": bound.method, "value": bound.value, "low": bound.value}
            yield {"kind": "bound", "delta": bound.delta, "confidence": bound.confidence, "note": note, **own}

    def __str__(self) -> str:
        """Verdict, headline metrics and bounds on a screen: at most 24 lines of at most 100 characters."""
        counts, design = self.counts, self.design or "not declared"
        size = f"{counts.in_words[0]}, {counts.in_words[1]} ({counts.of})"
        claimed = "" if self.claim is None else self.claim.text
        leading = f"Concern: {claimed} " if self.exit_code == 3 != self.verdict.exit_code else ""
        head = wrap(f"{leading}{self.qualifier}{self.verdict.text} {self.verdict.proven}", WIDTH, max_lines=5)
        head.append(f"{size}; design: {design}; score: {shorten(self.scores[0].score, 30)}")
        metrics = [f"  {metric.name:<20} {metric.reading}" for metric in foremost(self.metrics)]
        bounds = [
            f"  {bound.parameter} >= {lower_text(bound.value)}"
            + (f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else "")
            + (f", {bound.changes}" if bound.changes else "")
            + (" (exploratory)" if bound.exploratory else f" ({100 * bound.confidence:.6g}%)")
            for bound in self.bounds
        ]
        head += wrap(claimed, WIDTH, max_lines=2) if claimed and not leading else []
        more = f"scores: {len(self.scores)}; notes: {len(self.notes)}; findings.to_html(path) writes all of it"
        return "\n".join([*head, *cut(metrics, 9), *cut(bounds, 6), more])

    @classmethod
    def head(cls) -> dict[str, Any]:
        """Return what the file starts with: an audit's does not name its kind."""
        return {"format": cls.FORMAT}

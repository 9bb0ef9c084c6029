"""Findings of a comparison of disclosures: frozen, versioned, plain values in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, MinLen

from miaudit.arrays import Count, Share
from miaudit.findings.about import About
from miaudit.findings.kind import Entries, FindingsRecord
from miaudit.findings.verdict import LimitResult, Verdict


@dataclass(frozen=True)
class Limits:
    """A number with confidence limits; ``value`` is None where only an upper limit can be given."""

    value: float | None
    low: float
    high: float
    note: str = ""


_LEAKAGE = Entries({"auc": Limits, "advantage": Limits}, others=Limits)
_MEASURED = ("mean_predicted", "mean_measured", "mean_transferred", "mean_error", "mean_absolute_error")
_PREDICTED = ("rank_correlation", "attainable", "noise", "threshold", "confidence", "models", "records")
_PREDICTION = Entries(
    {
        "disclosure": Literal["confidence-vector", "true-label", "decision-set"],
        **dict.fromkeys(("predicted", "measured", "measured_sd"), list[float]),
        **dict.fromkeys((*_MEASURED, *_PREDICTED), Any),
        "notes": list[str],
    },
    others=Any,
)


@dataclass(frozen=True)
class Compared:
    """One thing that could be released.

    Attributes
    ----------
    name, words : in configuration and findings, and on the page
    group : "output" (a measure on outputs), "training" (another training) or "given" (outputs from a file)
    kind : what is disclosed: "confidence-vector", "true-label", "decision-set" or "label"
    randomness : "none", "fixed" (drawn once for each record) or "redrawn" (with each query)
    attack : the attack that was chosen, on shadow models
    tried : AUC of each attack on shadow models
    leakage : limits by metric: ``auc``, ``tpr_at_fpr_...``, ``advantage`` (the largest TPR - FPR)
    averaged_advantage : AUC - 1/2, the advantage averaged over alpha (erratum E8)
    accuracy : of a reader's best guess, on records that the model did not learn
    calibration_error : of the largest probability; None for sets and labels
    coverage, size : share of sets that hold the true label, and labels in a set; None where there is no set
    empty, full : shares of sets with no label and with all
    reduction : of the AUC against the outputs as they are, with limits for all together; None for these themselves
    cost : loss of accuracy likewise; None also where the label is kept by construction
    effect : "helps", "harms" or "not shown"
    price : "none", "bearable", "too high" or "not shown"
    front : whether no other option has a smaller AUC and a larger accuracy, by the estimates
    within : "exceeded", "within" or "open": every limit of the policy against its attack
    limits : each limit with what was measured
    recommended : whether the recommendation names it
    notes : what must be said
    """

    name: str
    words: str
    group: Literal["output", "training", "given"]
    kind: Literal["confidence-vector", "true-label", "decision-set", "label"]
    randomness: Literal["none", "fixed", "redrawn"]
    attack: str
    tried: Mapping[str, Share]
    leakage: Annotated[Mapping[str, Limits], _LEAKAGE]
    averaged_advantage: Limits
    accuracy: Limits
    calibration_error: Limits | None
    coverage: Limits | None
    size: Limits | None
    empty: Share
    full: Share
    reduction: Limits | None
    cost: Limits | None
    effect: Literal["helps", "harms", "not shown"]
    price: Literal["none", "bearable", "too high", "not shown"]
    front: bool
    within: Literal["exceeded", "within", "open"]
    limits: tuple[LimitResult, ...]
    recommended: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Driver:
    """One group of records: how well the attack on the release does in it, and why.

    Attributes
    ----------
    group : its name, or the class
    members, nonmembers : audited records
    auc : of the attack on what is released, limits for all groups together; None for fewer than 20 of a class
    calibration_error, aleatoric : relative calibration error (Eq. 24) and aleatoric uncertainty (Eq. 23) of the outputs
        as they are, each with limits of its own; None without shadow models
    epistemic : epistemic uncertainty (Eq. 28)
    assumption : what stands in for the ground truth, in words
    """

    group: str
    members: Count
    nonmembers: Count
    auc: Limits | None
    calibration_error: Limits | None = None
    aleatoric: Limits | None = None
    epistemic: float | None = None
    assumption: str = ""


@dataclass(frozen=True)
class Counts:
    """How much evidence there was."""

    members: Count
    nonmembers: Count
    shadow_models: Count
    calibration: Count
    classes: Annotated[int, Ge(2)]


@dataclass(frozen=True)
class DisclosureFindings(FindingsRecord):
    """Everything that a comparison of disclosures found, without any row of the records.

    Attributes
    ----------
    verdict : of what is to be released
    release : its name among ``options``
    recommendation : in a sentence
    parts : one sentence for each use
    rests_on : what the recommendation assumes
    options : the first is the reference, outputs as they are
    counts : of records and models
    confidence : of single limits, and of each family of differences together
    drivers : groups of records, those that the release gives away most first
    predictions : what uncertainty and calibration predict beside what was measured, plain values for each disclosure
    about, notes, plan, source, target, repeat : as in an audit's findings
    """

    KIND = "disclosure"
    DERIVED = ("exit_code", "verdict.word", "verdict.exceeded", "verdict.unresolved")

    verdict: Verdict
    release: str
    recommendation: str
    parts: tuple[str, ...]
    rests_on: tuple[str, ...]
    options: Annotated[tuple[Compared, ...], MinLen(1)]
    counts: Counts
    confidence: Share
    drivers: tuple[Driver, ...] = ()
    predictions: tuple[Annotated[Mapping[str, Any], _PREDICTION], ...] = ()
    about: About | None = None
    notes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    target: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Leakage by each metric, accuracy, and what they gain and cost, of each thing that could be released."""
        for one in self.options:
            rest = {"accuracy": one.accuracy, "reduction": one.reduction, "cost": one.cost}
            for name, limits in {**one.leakage, **rest}.items():
                if limits is not None:
                    kind = "metric" if name in one.leakage else name
                    own = {"kind": kind, "score": one.name, "name": name, "confidence": self.confidence}
                    yield {**own, **{key: getattr(limits, key) for key in ("value", "low", "high", "note")}}

"""Findings: the finished, versioned result of an audit; the page shows nothing that is not in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval, Len, MinLen

from miaudit.arrays import Count, Inside, NotNegative, Positive, Share, Text
from miaudit.errors import InputError
from miaudit.findings.kind import FindingsRecord, Keys, Pattern
from miaudit.findings.verdict import MetricName, Verdict

AtLeastOne = Annotated[float, Ge(1)]
Delta = Annotated[float, Interval(ge=0, lt=1)]
Parameter = Literal["epsilon", "mu"]
Rates = Annotated[tuple[Share, ...], MinLen(2)]
Shares = Annotated[tuple[Share, ...], MinLen(1)]
_SCALAR = str | float | bool | None
_BOOTSTRAP = Keys({"low": float | None, "high": float | None, "replicates": Positive})
_PRECISION = Keys({"prior": Inside, **dict.fromkeys(("value", "low", "high"), Share | None)})
_DUPLICATES = Keys(
    dict.fromkeys(("exact_pairs", "near_pairs", "members_affected", "nonmembers_affected", "members_alike"), Count)
)
_LEARNING = Keys({"half": Share, "full": Share, "rising": bool})
_HEADLINE = {"kind": Literal["bonferroni", "split", "declared", "exploratory"], "score": str, "share": Inside}
_INTERVALS = {"kind": Literal["calibrated", "bootstrap"]}
_PLAN = Keys(
    {
        "fpr_targets": Annotated[list[Inside], MinLen(1)],
        "confidence": Annotated[float, Interval(gt=0.5, lt=1)],
        "primary_metric": MetricName,
        "threshold_for_concern": float,
        "levels": Annotated[list[Inside], Len(3, 3)],
        "prior": Inside,
        "headline": Annotated[Mapping[str, Any], Keys(_HEADLINE, optional=("score", "share"))],
        "intervals": Annotated[Mapping[str, Any], Keys(_INTERVALS)],
        "n_bootstrap": Count,
        "row_level": Count,
    },
    others=Any,
)
_DIGEST = Annotated[str, Pattern("^[0-9a-f]{64}$")]
_EVIDENCE = Keys({"digest": _DIGEST, "source": str, "scores": Annotated[list[str], MinLen(1)]}, others=_SCALAR)
_ROW = Keys({"row": Count, "unit": str | None, "score": float})
_REPEAT = Keys(
    {"command": str, "seed": int | None, "miaudit": str, "python": str, "numpy": str},
    others=_SCALAR,
    optional=("command", "seed", "miaudit"),
)
ClaimStatus = Literal["refuted", "not-refuted", "not-testable"]
_CLAIM_EXIT_CODES: dict[ClaimStatus, int] = {"not-refuted": 0, "refuted": 3, "not-testable": 4}


@dataclass(frozen=True)
class Metric:
    """One number of the findings, with its interval.

    Attributes
    ----------
    name : ``auc``, ``tpr_at_fpr_0.001``, ``advantage``, ``balanced_accuracy`` or ``ate``
    estimator : ``raw`` for the classical estimate
    value : None where only an upper limit can be given
    low, high : confidence limits; None where there is none
    confidence : of the interval
    note : what must be said with it
    step_value : of a TPR, without a randomised threshold inside tie blocks
    bootstrap : limits and number of replicates of the stratified bootstrap, where it was asked for
    precision : of a TPR, precision of an accusation at the stated prior: value, low, high
    """

    name: MetricName
    estimator: Annotated[str, Pattern("^(raw|hajek|horvitz-thompson|g|aipw)$")]
    value: float | None
    low: float | None
    high: float | None
    confidence: Inside
    note: str = ""
    step_value: Share | None = None
    bootstrap: Annotated[Mapping[str, float], _BOOTSTRAP] | None = None
    precision: Annotated[Mapping[str, float | None], _PRECISION] | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return what reading checks it by: all but an effect on the score are shares."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(_share_or_effect, handler(source))


@dataclass(frozen=True)
class Curve:
    """The ROC curve on a grid of FPRs with its pointwise band, all of the same length.

    ``tpr`` is None where so many non-members cannot resolve it: there, ``high`` alone means anything (erratum C3).
    """

    fpr: Rates
    tpr: Annotated[tuple[Share | None, ...], MinLen(2)]
    low: Rates
    high: Rates


@dataclass(frozen=True)
class Distribution:
    """Histogram of a score: shares of members and of non-members in each bin; the end bins hold the tails."""

    edges: Annotated[tuple[float, ...], MinLen(2)]
    members: Shares
    nonmembers: Shares


@dataclass(frozen=True)
class ScoreFindings:
    """What one score showed."""

    score: str
    metrics: tuple[Metric, ...]
    curve: Curve | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True)
class GroupFindings:
    """What the headline score showed in one group; no metrics where it has only one class."""

    group: str
    members: Count
    nonmembers: Count
    metrics: tuple[Metric, ...]
    note: str = ""


@dataclass(frozen=True)
class FeatureBalance:
    """Standardised mean difference of a covariate (or of its square) between the classes, before and after weights."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class CalibrationBin:
    """Records with a similar propensity: its mean, the share of members among them, and how many they are."""

    predicted: Share
    observed: Share
    count: Positive


@dataclass(frozen=True)
class Fit:
    """Whether the propensity describes how membership goes with the covariates; if not, the audit is refused.

    Attributes
    ----------
    z, limit : of a forest that foresees its residuals from the same covariates, and what is tolerated
    product_z, product_limit : of the product of two covariates (or the square of one) that goes with its residuals most
        closely, and what is tolerated; None where none could be tried
    product : names of its one or two covariates
    missed : covariates that a better propensity would need, the most important first; empty unless ``rejected``
    rejected : whether the propensity is refuted
    """

    z: float
    limit: float
    product_z: NotNegative | None
    product_limit: NotNegative | None
    product: tuple[str, ...]
    missed: tuple[str, ...]
    rejected: bool


@dataclass(frozen=True)
class Overlap:
    """How comparable members and non-members of zero-run evidence are, and whether that allows an answer.

    Attributes
    ----------
    status : "answered", "warned" or "refused"
    reasons, warnings : sentences with the numbers that decided
    propensity : how the propensity came about
    clipped : share of propensities moved to the clipping bounds
    blind_auc, blind_low, blind_high : how well the covariates alone tell members from non-members; 0.5 is not at all
    effective_sample_size : of the weighted non-members
    largest_weight : share of the largest weight, 0 to 1
    without_match : share of members with log-odds that hardly any non-member reaches, 0 to 1
    features, feature_limit : balance of each covariate and of its square, and what is tolerated after weighting
    calibration : the propensity against what was observed
    log_odds : distribution of the estimated log-odds of membership in both classes
    duplicates : members and non-members with a twin in the other class, and members with one among the members
    learning : blind AUC at ``half`` and at the ``full`` sample, and whether it is still ``rising``
    fit : whether the propensity misses what the covariates say; None where there are none to ask
    """

    status: Literal["answered", "warned", "refused"]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    propensity: str
    clipped: Share
    blind_auc: Share
    blind_low: Share
    blind_high: Share
    effective_sample_size: NotNegative
    largest_weight: Share
    without_match: Share
    features: tuple[FeatureBalance, ...]
    feature_limit: NotNegative
    calibration: tuple[CalibrationBin, ...]
    log_odds: Distribution
    duplicates: Annotated[Mapping[str, int], _DUPLICATES] | None = None
    learning: Annotated[Mapping[str, float | bool], _LEARNING] | None = None
    fit: Fit | None = None


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
    """What part of the raw AUC above chance is memorisation, what part is shift, and how firm that is.

    Attributes
    ----------
    raw, causal : AUC before and after the correction
    memorisation : ``causal`` - 0.5
    shift : ``raw`` - ``causal``
    sensitivity : factor by which an unmeasured trait would have to multiply the odds of membership to explain the
        corrected AUC away (1 or more); None where the corrected AUC is not above chance
    sensitivity_low : its lower confidence limit
    sentence : the same in words
    mislabelling : the corrected AUC under assumed shares of wrong labels
    """

    raw: Share
    causal: Share
    memorisation: float
    shift: float
    sensitivity: AtLeastOne | None
    sensitivity_low: AtLeastOne | None
    sentence: str
    mislabelling: tuple[Mislabelled, ...] = ()


@dataclass(frozen=True)
class Bound:
    """A lower bound on a privacy parameter: it lies above the true one in at most ``1 - confidence`` of the runs.

    Attributes
    ----------
    parameter : "epsilon" of (epsilon, delta)-DP, or "mu" of Gaussian DP
    value : 0 or more; 0 shows nothing, which is not the same as no leakage
    confidence : in (0, 1), after every correction
    method : the test that was inverted, by name
    delta : of an epsilon, in [0, 1); 0 for a mu
    p_value : of "nothing leaks at all", in [0, 1]; None where the method gives none
    correct, guesses, canaries : counts behind it, where it comes from counts; canaries may be an effective number
    reachable : the largest value that an attack with no error could have shown at this size; None if not known
    assumptions : what has to hold beyond the data, in sentences
    corrections : what was paid for or adjusted, in sentences
    exploratory : whether a choice made on the same data was left unpaid, so that the confidence does not hold
    """

    parameter: Parameter
    value: NotNegative
    confidence: Inside
    method: Text
    delta: Delta = 0.0
    p_value: Share | None = None
    correct: Count | None = None
    guesses: Count | None = None
    canaries: NotNegative | None = None
    reachable: NotNegative | None = None
    assumptions: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    exploratory: bool = False


@dataclass(frozen=True)
class RocLimit:
    """The largest TPR that a claim allows at each FPR, both rising from 0 to 1 and of the same length."""

    fpr: Rates
    tpr: Rates


@dataclass(frozen=True)
class Claim:
    """A privacy claim against what the runs show (a lower bound) and what a theorem guarantees (an upper bound).

    Attributes
    ----------
    parameter, value, delta : what is claimed: "epsilon" at a delta, or "mu" (delta 0), is at most ``value``
    status : "refuted", "not-refuted" or "not-testable"
    text : the same as a sentence
    lower : the lower bound on the claim's own scale, or None
    upper : the upper bound on the claim's own scale, or None
    upper_from : the mechanism and the accountant behind it; empty if there is none
    gap : ``upper`` - ``lower``, what neither the runs nor the theorem settle, or None
    reachable : the largest lower bound, on the claim's own scale, that an attack with no error could have shown
    limit : the ROC curve that the claim allows at most, or None
    """

    parameter: Parameter
    value: NotNegative
    delta: Delta
    status: ClaimStatus
    text: Text
    lower: NotNegative | None = None
    upper: NotNegative | None = None
    upper_from: str = ""
    gap: float | None = None
    reachable: NotNegative | None = None
    limit: RocLimit | None = None

    @property
    def exit_code(self) -> int:
        """0 not refuted, 3 refuted, 4 not testable."""
        return _CLAIM_EXIT_CODES[self.status]


@dataclass(frozen=True)
class Challenge:
    """Whether another model foresees membership better than the propensity allows; if so, no bound holds.

    Attributes
    ----------
    p_value : of "the log-odds of membership lie within ``gamma`` of the propensity's", in [0, 1], after Bonferroni
    gamma : the margin on the log-odds that was stated beforehand
    smallest_gamma : the smallest margin that is not rejected at ``level``; None where there is none
    level : of the test, in (0, 1)
    correct, guesses : of the competitor with the smallest p-value, on held-out records
    competitor : its name
    competitors : names of all that were tried
    rejected : whether the propensity is refuted at its margin
    text : the same as a sentence
    """

    p_value: Share
    gamma: NotNegative
    smallest_gamma: NotNegative | None
    level: Inside
    correct: Count
    guesses: Positive
    competitor: str
    competitors: Annotated[tuple[str, ...], MinLen(1)]
    rejected: bool
    text: Text


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
    of: Annotated[str, Pattern("^(records|units)$")] = "records"


@dataclass(frozen=True)
class Findings(FindingsRecord):
    """Everything that an audit found, without any row of the evidence unless it was asked for.

    ``scores[0]`` is the headline score, whose metrics are also :attr:`metrics`. ``no_bound`` says why ``bounds`` is
    empty, where bounds were wanted. ``to_dict`` gives plain values, ``to_json`` text, ``to_html`` writes the page.
    """

    KIND = "audit"
    DERIVED = ("exit_code", "verdict.exit_code")
    LATER = ("vulnerability", "covariates_alone")

    verdict: Verdict
    metrics: tuple[Metric, ...]
    design: Literal["multi-run", "one-run", "zero-run"] | None
    counts: Counts
    scores: Annotated[tuple[ScoreFindings, ...], MinLen(1)]
    plan: Annotated[Mapping[str, Any], _PLAN]
    evidence: Annotated[Mapping[str, Any], _EVIDENCE]
    groups: tuple[GroupFindings, ...] = ()
    overlap: Overlap | None = None
    memorisation: Memorisation | None = None
    challenge: Challenge | None = None
    claim: Claim | None = None
    bounds: tuple[Bound, ...] = ()
    no_bound: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[Annotated[Mapping[str, Any], _ROW], ...] = ()
    repeat: Annotated[Mapping[str, Any], _REPEAT] = field(default_factory=dict)
    vulnerability: Vulnerability | None = None
    covariates_alone: Metric | None = None

    @property
    def exit_code(self) -> int:
        """Of the command line: 3 where verdict or claim raise concern, else 4 where one has no answer, else 0."""
        codes = {self.verdict.exit_code, 0 if self.claim is None else self.claim.exit_code}
        return next(code for code in (3, 4, 0) if code in codes)

    def metric(self, name: str) -> Metric:
        """Return a metric of the headline score by its name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise InputError(
            "name", f"one of {', '.join(m.name for m in self.metrics)}", repr(name), "ask for one of these"
        )

    @classmethod
    def head(cls) -> dict[str, Any]:
        """Return what the file starts with: an audit's does not name its kind."""
        return {"format": cls.FORMAT}


def _share_or_effect(metric: Metric) -> Metric:
    if metric.name != "ate" and any(x is not None and not 0 <= x <= 1 for x in (metric.value, metric.low, metric.high)):
        raise ValueError("value and limits should be between 0 and 1")
    return metric

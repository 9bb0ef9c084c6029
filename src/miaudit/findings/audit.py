"""Findings: the finished, versioned result of an audit; the page shows nothing that is not in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from miaudit.errors import InputError
from miaudit.findings import kind
from miaudit.findings.verdict import Verdict
from miaudit.io.atomic import write_atomically

FORMAT = 1
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

    name: str
    estimator: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    note: str = ""
    step_value: float | None = None
    bootstrap: Mapping[str, float] | None = None
    precision: Mapping[str, float | None] | None = None


@dataclass(frozen=True)
class Curve:
    """The ROC curve on a grid of FPRs with its pointwise band, all of the same length.

    ``tpr`` is None where so many non-members cannot resolve it: there, ``high`` alone means anything (erratum C3).
    """

    fpr: tuple[float, ...]
    tpr: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Distribution:
    """Histogram of a score: shares of members and of non-members in each bin; the end bins hold the tails."""

    edges: tuple[float, ...]
    members: tuple[float, ...]
    nonmembers: tuple[float, ...]


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
    members: int
    nonmembers: int
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

    predicted: float
    observed: float
    count: int


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
    product_z: float | None
    product_limit: float | None
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

    status: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    propensity: str
    clipped: float
    blind_auc: float
    blind_low: float
    blind_high: float
    effective_sample_size: float
    largest_weight: float
    without_match: float
    features: tuple[FeatureBalance, ...]
    feature_limit: float
    calibration: tuple[CalibrationBin, ...]
    log_odds: Distribution
    duplicates: Mapping[str, int] | None = None
    learning: Mapping[str, float | bool] | None = None
    fit: Fit | None = None


@dataclass(frozen=True)
class Mislabelled:
    """The corrected AUC if a share of the labelled members, and of the labelled non-members, were labelled wrongly."""

    members: float
    nonmembers: float
    auc: float | None
    low: float
    high: float


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

    raw: float
    causal: float
    memorisation: float
    shift: float
    sensitivity: float | None
    sensitivity_low: float | None
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

    parameter: str
    value: float
    confidence: float
    method: str
    delta: float = 0.0
    p_value: float | None = None
    correct: int | None = None
    guesses: int | None = None
    canaries: float | None = None
    reachable: float | None = None
    assumptions: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    exploratory: bool = False


@dataclass(frozen=True)
class RocLimit:
    """The largest TPR that a claim allows at each FPR, both rising from 0 to 1 and of the same length."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]


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

    parameter: str
    value: float
    delta: float
    status: ClaimStatus
    text: str
    lower: float | None = None
    upper: float | None = None
    upper_from: str = ""
    gap: float | None = None
    reachable: float | None = None
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

    p_value: float
    gamma: float
    smallest_gamma: float | None
    level: float
    correct: int
    guesses: int
    competitor: str
    competitors: tuple[str, ...]
    rejected: bool
    text: str


@dataclass(frozen=True)
class Separation:
    """Shares of the records in bins of the separation of their shadow models, and what chance alone would give.

    ``edges`` are one more than the shares, from 0 to 1; ``expected`` is the exact law where no record leaks.
    """

    edges: tuple[float, ...]
    observed: tuple[float, ...]
    expected: tuple[float, ...]


@dataclass(frozen=True)
class VulnerableGroup:
    """How many records of a group are detectably vulnerable: at least ``leaking`` of ``records``."""

    group: str
    records: int
    leaking: int


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
    separation: float
    separation_low: float
    separation_high: float
    p_value: float
    detected: float
    detected_low: float
    detected_high: float


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

    of: str
    records: int
    models: int
    signal: str
    leaking: int
    confidence: float
    fpr: float
    smallest_p: float
    separation: Separation
    text: str
    groups: tuple[VulnerableGroup, ...] = ()
    named: tuple[VulnerableRecord, ...] = ()


@dataclass(frozen=True)
class Counts:
    """How much evidence there was; units where records share them, else every record is one.

    ``smallest_fpr`` is the smallest FPR at which so many non-members give a lower limit (erratum C3), at most 1; where
    they are weighted, by the heaviest of them above the threshold of the headline score.
    """

    members: int
    nonmembers: int
    member_records: int
    nonmember_records: int
    smallest_fpr: float
    of: str = "records"


@dataclass(frozen=True)
class Findings:
    """Everything that an audit found, without any row of the evidence unless it was asked for.

    ``scores[0]`` is the headline score, whose metrics are also :attr:`metrics`. ``no_bound`` says why ``bounds`` is
    empty, where bounds were wanted. ``to_dict`` gives plain values, ``to_json`` text, ``to_html`` writes the page.
    """

    verdict: Verdict
    metrics: tuple[Metric, ...]
    design: str | None
    counts: Counts
    scores: tuple[ScoreFindings, ...]
    plan: Mapping[str, Any]
    evidence: Mapping[str, Any]
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
    rows: tuple[Mapping[str, Any], ...] = ()
    repeat: Mapping[str, Any] = field(default_factory=dict)
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the order of the format; numbers that are not finite become None."""
        content: dict[str, Any] = kind.plain({"format": FORMAT, "exit_code": self.exit_code, **asdict(self)})
        for name in ("vulnerability", "covariates_alone"):  # later parts of the format, absent where nothing is said
            if content[name] is None:
                del content[name]
        content["verdict"]["exit_code"] = self.verdict.exit_code
        return content

    def to_json(self) -> str:
        """Return findings.json as text: equal audits give equal bytes."""
        return kind.to_text(self.to_dict())

    def _repr_html_(self) -> str:
        """Show the findings in a notebook: verdict, metrics and curve, all text escaped."""
        return kind.drawing().cell(self.to_dict())

    def to_html(self, path: str | Path) -> None:
        """Write the findings as one self-contained page."""
        page = kind.drawing().page(self.to_dict())
        write_atomically(Path(path), lambda target: _write_text(target, page))


def read(path: str | Path) -> dict[str, Any]:
    """Read and check the findings.json of an audit; return its plain values.

    Raises
    ------
    InputError
        If it is missing, no JSON, of another format version, or does not follow the schema.
    """
    return check(kind.parse(path))


def check(content: Any) -> dict[str, Any]:
    """Check plain values against the schema of this format version, and return them."""
    return kind.check(schema(), content, FORMAT)


def schema() -> dict[str, Any]:
    """Return the JSON schema of findings.json."""
    return kind.schema("findings")


def _write_text(target: Path, text: str) -> None:
    target.write_text(text, encoding="utf-8")

"""Overlap and balance: whether weighted non-members are comparable to members, and the refusal rule.

miaudit weights non-members by the odds of membership given the covariates, so that their covariates look like those of
members. This works where every kind of member has comparable non-members. :func:`measure` measures how well it worked,
and :func:`judge_overlap` applies the refusal rule. Simulations set the limits of the rule
(``experiments/validity/balance.md``). A
propensity of texts sees only a few components of their words. :func:`words_alone` tests all words separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, NotNegative, Positive, Share
from miaudit.causal import covariates, crossfit
from miaudit.causal.duplicates import Twins
from miaudit.causal.estimators import PropensityLike
from miaudit.causal.gaps import UnequalGap
from miaudit.causal.lack_of_fit import LackOfFit
from miaudit.causal.mean_differences import Difference, differences
from miaudit.causal.propensity import LearningCurve, Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.roc import Histogram, histogram
from miaudit.metrics.rounding import written
from miaudit.metrics.units import Units

Status = Literal["answered", "warned", "refused"]

_BLIND_AUC = (0.80, 0.95)
FEWEST_EFFECTIVE = 100.0
_EFFECTIVE_SIZE = (300.0, FEWEST_EFFECTIVE)
LARGEST_WEIGHT = 0.10
_BEYOND = (0.10, 0.25)
_DIFFERENCE = (0.10, 0.20)
_FAMILYWISE = 0.005
COMPARABLE = 3  # place of the share without a comparable non-member among the checks
_RANK = 10  # of the non-member log-odds above which a member has no comparable non-member
_BINS = 10
_FEWEST_IN_BIN = 20
_MOST_FEATURES = 400  # of a love plot; the largest differences come first, and more would show nothing new
_MOST_WORDS = 50_000
_LEFT_OVER = 0.02  # by which the AUC of the words may exceed the propensity's; above it the propensity misses a shift


@dataclass(frozen=True)
class CalibrationBin:
    """Records with similar propensities: predicted and observed membership.

    Attributes
    ----------
    predicted : mean propensity
    observed : share of members
    count : number of records
    """

    predicted: Share
    observed: Share
    count: Positive

    def limits(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the Wilson limits of the share of members, with records treated as independent."""
        return classical.wilson_limits(self.observed, self.count, confidence)


@dataclass(frozen=True)
class Balance:
    """Comparability of members and non-members under a propensity.

    Attributes
    ----------
    blind_auc : Estimate
        AUC of the log-odds of membership given X alone, without any model output; 0.5 means exchangeable.
    members, nonmembers : number of records of each class
    effective_members : number of members, counted as independent units
    effective_size : W^2 / sum of w^2, with W the sum of the weights w of non-members (added by unit, if units repeat)
    largest_share : share of W that the heaviest non-member (or unit) carries, in (0, 1]
    beyond : share of members above the 10th largest non-member log-odds; they have no comparable non-member
    differences : :class:`Difference` of each covariate, then of the square of each covariate with more than two values
    constant : names of covariates with one value only; they balance nothing and are left out
    limit : largest absolute difference after weighting that is not refused
        max(0.20, z sqrt(1 / effective_members + 1 / effective_size)), z = Phi^-1(1 - .005 / number of differences)
    calibration : up to ten bins of equal count, by ascending propensity
    log_odds : histogram of the log-odds of both classes
    of : what the effective numbers count, "records" or "units"
    """

    blind_auc: Estimate
    members: int
    nonmembers: int
    effective_members: float
    effective_size: float
    largest_share: float
    beyond: float
    differences: tuple[Difference, ...]
    constant: tuple[str, ...]
    limit: float
    calibration: tuple[CalibrationBin, ...]
    log_odds: Histogram
    of: str = "records"

    @cached_property
    def worst(self) -> Difference | None:
        """Largest absolute difference after weighting; None if no covariate varies."""
        return max(self.differences, key=lambda d: abs(d.after), default=None)

    def resolves(self, fpr: float, confidence: float = 0.95) -> bool:
        """Return whether a TPR at this FPR has a lower limit for any score.

        The condition is fpr / largest share >= 3.69 at 95%. If the heaviest non-members have low scores, smaller FPRs
        have a lower limit, too (:func:`miaudit.causal.effects.effective_nonmembers`).
        """
        return classical.resolvable(fpr, 1 / self.largest_share, confidence)


@dataclass(frozen=True)
class Overlap:
    """Comparability of zero-run members and non-members, and whether an answer is possible.

    Attributes
    ----------
    status : "answered", "warned" or "refused"
    reasons : sentences with the numbers that caused the refusal; empty unless refused
    warnings : sentences, one for each part of the rule that warns
    propensity : how the propensity was obtained, in words; empty if not stated
    clipped : share of propensities moved to the clipping bounds
    blind_auc, blind_low, blind_high : AUC of the covariates alone and its confidence limits; 0.5 is chance level
    effective_sample_size : effective number of the weighted non-members
    largest_weight : share of the total weight that the heaviest non-member (or unit) carries, 0 to 1
    without_match : share of members with log-odds that hardly any non-member reaches, 0 to 1
    features : balance of each covariate and of its square, the worst first, at most 400 of them
    feature_limit : largest difference after weighting that is not refused
    calibration : predicted and observed membership
    log_odds : distribution of the estimated log-odds of membership in both classes
    duplicates : counts of records with a twin in the other class, and of members with a twin among the members
    learning : blind AUC learned from half of the sample and from all of it, and whether it is still rising
    fit : whether the propensity misses a shift in the covariates; None without covariates to test
    gaps : covariates whose values are missing more often in one class than in the other
    """

    status: Status
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
    features: tuple[Difference, ...]
    feature_limit: NotNegative
    calibration: tuple[CalibrationBin, ...]
    log_odds: Histogram
    duplicates: Twins | None = None
    learning: LearningCurve | None = None
    fit: LackOfFit | None = None
    gaps: tuple[UnequalGap, ...] = ()


def measure(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    confidence: float = 0.95,
    categories: Sequence[int] = (),
) -> Balance:
    """Measure overlap and balance of evidence under a propensity, without scores.

    Parameters
    ----------
    evidence : Evidence
        With covariates (n, d). Without covariates, only the numbers from the propensity are measured, no differences.
        Where units repeat, effective numbers count units, and all records of a unit count as one.
    propensity : array (n,) in (0, 1), or an object with ``values`` and ``odds``, arrays (n,)
        Cross-fitted, or fitted on separate records. A propensity fitted on the same records hides a lack of overlap.
    confidence : of the interval of the blind AUC, in (0, 1)
    categories : positions of covariates that are codes: each of their levels is compared

    Returns
    -------
    Balance

    Raises
    ------
    InputError
        If the propensity has another length or is not strictly inside (0, 1).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> member = np.arange(4000) < 2000
    >>> x = rng.normal(size=4000) + 0.5 * member
    >>> odds = np.exp(0.5 * x - 0.125)
    >>> evidence = Evidence(score=np.zeros(4000), member=member, covariates=x, design="zero-run")
    >>> balance = measure(evidence, SimpleNamespace(values=odds / (1 + odds), odds=odds))
    >>> round(balance.blind_auc.value, 2), round(balance.effective_size, -2), balance.worst.name
    (0.63, 1600.0, 'covariate 0')
    >>> round(balance.worst.before, 1), round(abs(balance.worst.after), 1), judge_overlap(balance).status
    (0.5, 0.0, 'answered')
    """
    propensity = Propensity.of(propensity)
    member, log_odds = evidence.member, _log_odds(evidence, propensity)
    weight = np.exp(log_odds[~member] - log_odds[~member].max())
    code = evidence.unit_codes
    totals: FloatArray = weight if code is None else np.bincount(code[~member], weights=weight).astype(np.float64)
    effective = _kish(totals)
    inside = float(evidence.n_members) if code is None else Units.of(code, member).effective_members
    compared, constant = differences(evidence, weight, categories)
    z = -special.ndtri(_FAMILYWISE / max(len(compared), 1))
    blind = Evidence(score=log_odds, member=member, unit=evidence.unit)
    return Balance(
        blind_auc=Sample.of(blind).auc(confidence),
        members=evidence.n_members,
        nonmembers=evidence.n_nonmembers,
        effective_members=inside,
        effective_size=effective,
        largest_share=float(totals.max() / totals.sum()),
        beyond=float(np.mean(_beyond(log_odds, member)[member])),
        differences=compared,
        constant=constant,
        limit=max(_DIFFERENCE[1], float(z) * math.sqrt(1 / inside + 1 / effective)),
        calibration=_calibration(np.asarray(propensity.values, dtype=np.float64), member),
        log_odds=histogram(log_odds, member),
        of="records" if code is None else "units",
    )


def beyond_others(evidence: Evidence, propensity: PropensityLike, others: BoolArray) -> float:
    """Return the share of all members that have no comparable non-member, without counting some records (n,)."""
    beyond = _beyond(_log_odds(evidence, propensity), evidence.member)
    return float(np.mean((beyond & ~others)[evidence.member]))


def judge_overlap(balance: Balance, *, differences: bool = True) -> Overlap:
    """Apply the refusal rule: refuse if any part refuses, else answer, with the warnings.

    Each part refuses beyond the first limit, and warns beyond the limit in brackets:

    - blind AUC > 0.95 (0.80)
    - effective size < 100 (300)
    - one weight > 10% of the total (no warning)
    - more than 25% (10%) of members above the 10th largest non-member log-odds
    - largest absolute difference after weighting, squares included, > ``balance.limit`` (0.10)

    A number exactly at its limit passes. Without ``differences`` the last part only warns. For a stack, the standard
    errors of the differences decide instead (:func:`miaudit.causal.lack_of_fit.measure`).

    Returns
    -------
    Overlap

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> member = np.arange(400) < 200
    >>> x = np.where(member, 1.0, -1.0) + np.random.default_rng(0).normal(size=400)
    >>> odds = np.exp(2 * x)
    >>> evidence = Evidence(score=x, member=member, covariates=x, design="zero-run")
    >>> overlap = judge_overlap(measure(evidence, SimpleNamespace(values=odds / (1 + odds), odds=odds)))
    >>> overlap.status, len(overlap.reasons)
    ('refused', 3)
    >>> overlap.reasons[0]
    'The weighted non-members count for 8 independent records, fewer than the 100 needed.'
    """
    judged = checks(balance)
    if not differences:
        judged = (*judged[:-1], _left_to_errors(balance))
    reasons = tuple(text for status, text in judged if status == "refused")
    warnings = tuple(text for status, text in judged if status == "warned")
    features = sorted(balance.differences, key=lambda d: -max(abs(d.after), abs(d.before)))[:_MOST_FEATURES]
    return Overlap(
        status="refused" if reasons else "warned" if warnings else "answered",
        reasons=reasons,
        warnings=warnings,
        propensity="",
        clipped=0.0,
        blind_auc=balance.blind_auc.value or 0.0,
        blind_low=balance.blind_auc.low,
        blind_high=balance.blind_auc.high,
        effective_sample_size=balance.effective_size,
        largest_weight=balance.largest_share,
        without_match=balance.beyond,
        features=tuple(features),
        feature_limit=balance.limit,
        calibration=balance.calibration,
        log_odds=balance.log_odds,
    )


def checks(balance: Balance) -> tuple[tuple[Status, str], ...]:
    """Return the parts of the refusal rule in order: the status, and the sentence to report with it."""
    return (_blind(balance), _effective(balance), _heaviest(balance), _comparable(balance), _balanced(balance))


# -- the parts of the rule --------------------------------------------------------------------------------------------


def _blind(balance: Balance) -> tuple[Status, str]:
    auc = balance.blind_auc.value or 0.0
    status, limits = _above(auc, *_BLIND_AUC, ".2f")
    high = "nearly separate members from non-members" if status == "refused" else "tell much of membership"
    return status, f"The covariates alone {high}: AUC {auc:.3f}, {limits}."


def _effective(balance: Balance) -> tuple[Status, str]:
    value, (warn, refuse) = balance.effective_size, _EFFECTIVE_SIZE
    status: Status = "refused" if value < refuse else "warned" if value < warn else "answered"
    least = f"the {refuse:.0f} needed" if status == "refused" else f"the {warn:.0f} wanted"
    count = f"{math.floor(value):,} independent {balance.of}"
    return status, f"The weighted non-members count for {count}, fewer than {least}."


def _heaviest(balance: Balance) -> tuple[Status, str]:
    one = "record" if balance.of == "records" else "unit"
    status, limits = _above(balance.largest_share, None, LARGEST_WEIGHT, ".0%")
    share = _percent(balance.largest_share)
    return status, f"One {one} of the non-members carries {share} of all weight, {limits}."


def _comparable(balance: Balance) -> tuple[Status, str]:
    status, limits = _above(balance.beyond, *_BEYOND, ".0%")
    return status, (
        f"{_percent(balance.beyond)} of members have no comparable non-member: they lie above the {_RANK}th largest "
        f"non-member log-odds; the share is {limits}."
    )


def _balanced(balance: Balance) -> tuple[Status, str]:
    worst = balance.worst or Difference("none", 0.0, 0.0)
    value = abs(worst.after)
    status, limits = _above(value, _DIFFERENCE[0], balance.limit, ".2f")
    return status, (
        f"After weighting, members and non-members still differ by {value:.3f} standard deviations in {worst.name}, "
        f"{limits}."
    )


def _left_to_errors(balance: Balance) -> tuple[Status, str]:
    """Warn of differences under a stack, for which standard errors replace ``balance.limit``."""
    status, text = _balanced(balance)
    worst = balance.worst
    if worst is None or status == "answered":
        return status, text
    return "warned", (
        f"After weighting, members and non-members still differ by {abs(worst.after):.3f} standard deviations in "
        f"{worst.name}, above {_DIFFERENCE[0]:.2f} (a stack is refused by standard errors, not by a limit)."
    )


def _above(value: float, warn: float | None, refuse: float, form: str) -> tuple[Status, str]:
    """Judge a number that is better when smaller, and name the limit that it exceeds."""
    most = written(refuse, form, "down") if form.endswith("f") else f"{refuse:{form}}"
    if value > refuse or warn is None:
        return "refused" if value > refuse else "answered", f"above the limit of {most}"
    return "warned" if value > warn else "answered", f"above {warn:{form}} (refused above {most})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


# -- measuring --------------------------------------------------------------------------------------------------------


def _log_odds(evidence: Evidence, propensity: PropensityLike) -> FloatArray:
    """Return finite log-odds (n,), or raise an error that names the problem."""
    odds, values = (np.asarray(x, dtype=np.float64) for x in (propensity.odds, propensity.values))
    if odds.shape != (evidence.n,) or values.shape != (evidence.n,):
        raise InputError(
            "propensity", f"{evidence.n} values, one for each record", f"shape {odds.shape}", "fit it for this evidence"
        )
    good = (values > 0) & (values < 1) & (odds > 0) & np.isfinite(odds)
    if not good.all():
        raise InputError(
            "propensity",
            "probabilities strictly between 0 and 1",
            f"{int((~good).sum())} others, the first in row {int(np.argmin(good))}",
            "clip them, and record the share that was clipped",
        )
    return np.log(odds)


def _beyond(log_odds: FloatArray, member: BoolArray) -> BoolArray:
    """Return which records (n,) lie above the 10th largest log-odds of the non-members."""
    rank = min(_RANK, int(np.count_nonzero(~member)))
    return np.asarray(log_odds > np.partition(log_odds[~member], -rank)[-rank])


def _kish(weight: FloatArray) -> float:
    return float(weight.sum() ** 2 / (weight @ weight))


def _calibration(values: FloatArray, member: BoolArray) -> tuple[CalibrationBin, ...]:
    """Return bins of nearly equal count, none so small that it identifies a record."""
    bins = max(1, min(_BINS, len(values) // _FEWEST_IN_BIN))
    inner = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    place = np.searchsorted(inner, values, side="left")
    sums = np.stack([np.bincount(place, weights=column) for column in (member, values, np.ones(len(values)))], axis=1)
    curves: list[FloatArray] = []
    for row in sums[sums[:, 2] > 0]:
        if curves and min(row[2], curves[-1][2]) < _FEWEST_IN_BIN / 2:
            curves[-1] = curves[-1] + row
        else:
            curves.append(row)
    rows = (row.tolist() for row in curves)
    return tuple(CalibrationBin(predicted / n, members / n, round(n)) for members, predicted, n in rows)


# -- texts ------------------------------------------------------------------------------------------------------------


def words_alone(
    evidence: Evidence, blind: Estimate, *, confidence: float = 0.95, rng: np.random.Generator
) -> tuple[Estimate, str]:
    """Compare a classifier on all words with the propensity.

    A propensity of texts sees a few components of their words. If the words themselves separate the classes, or do so
    clearly better than the propensity, weights cannot make the classes comparable.

    Parameters
    ----------
    evidence : with text (n,)
    blind : AUC of the propensity's log-odds, from :func:`measure`
    confidence : of the interval of the AUC, in (0, 1)
    rng : draws the folds

    Returns
    -------
    auc : of a cross-fitted linear classifier on the words alone; 0.5 if the words carry no information
    reason : why texts with such words cannot be compared under the propensity; empty if they can

    Raises
    ------
    InputError
        If the evidence has no text, or if the texts contain no words.

    Examples
    --------
    >>> text = ["old news today", "new story now"] * 50
    >>> ev = Evidence(score=np.arange(100.0), member=[True, False] * 50, text=text, design="zero-run")
    >>> auc, reason = words_alone(ev, Estimate(0.6, 0.5, 0.7, 0.95), rng=np.random.default_rng(0))
    >>> round(auc.value, 2), reason[:47]
    (1.0, 'The words of the texts alone tell members from ')
    """
    if evidence.text is None:
        raise InputError("evidence", "evidence with text", "none", "pass text= to Evidence")
    log_odds = _of_words(evidence, rng)
    auc = Sample.of(Evidence(score=log_odds, member=evidence.member, unit=evidence.unit)).auc(confidence)
    known = blind.high if np.isfinite(blind.high) else blind.value or 0.5
    limit = min(_BLIND_AUC[1], known + _LEFT_OVER)
    reason = ""
    if auc.low > limit:
        value = 0.0 if auc.value is None else auc.value
        reason = (
            f"The words of the texts alone tell members from non-members with an AUC of {value:.3f}, the propensity "
            f"with {0.5 if blind.value is None else blind.value:.3f}: it misses a shift that is there."
        )
        if auc.low > _BLIND_AUC[1]:
            reason = (
                f"The words of the texts alone tell members from non-members with an AUC of {value:.3f}: "
                "hardly any member has a comparable non-member."
            )
    return auc, reason


def _of_words(evidence: Evidence, rng: np.random.Generator) -> FloatArray:
    """Return log-odds (n,) of membership from all words, minus the median of each fold."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - loads when used
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    code = covariates.codes(evidence)
    folds = covariates.folds_of(crossfit.FOLDS, evidence.member, code, rng)
    text = np.asarray(evidence.text)
    differences = np.zeros(evidence.n)
    for fold in np.unique(folds):
        out = folds == fold
        terms = TfidfVectorizer(sublinear_tf=True, max_features=_MOST_WORDS)
        try:
            x = terms.fit_transform(text[~out])
        except ValueError as error:  # scikit-learn: an empty vocabulary
            raise InputError("text", "texts with words in them", str(error), "check what the texts hold") from None
        model = LogisticRegression(C=10.0, max_iter=300).fit(x, evidence.member[~out])
        # Subtract each fold's own median, so that folds can be pooled.
        score = model.decision_function(terms.transform(text[out]))
        differences[out] = score - np.median(score)
    return differences

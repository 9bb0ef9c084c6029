"""Zero-run evidence: whether members and non-members can be compared, and what is left of the attack once they are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.causal import balance, effects, propensity, sensitivity
from miaudit.causal.classical import Estimate, tpr_name
from miaudit.causal.propensity import Propensity
from miaudit.causal.roc import Roc
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.report.findings import CalibrationBin, Distribution, FeatureBalance, Memorisation, Metric, Overlap

FloatArray = NDArray[np.float64]

ESTIMATOR = "hajek"
_MOST_FEATURES = 400  # of a love plot: those out of balance come first, the others add nothing to see


@dataclass(frozen=True, eq=False)
class Correction:
    """The propensity of zero-run evidence, and what it says of overlap.

    ``still_learning`` is the sentence to refuse with while more records would still improve the propensity (errata A10,
    B20); empty if not.
    """

    propensity: Propensity
    overlap: Overlap
    effective_nonmembers: float
    still_learning: str

    @property
    def answered(self) -> bool:
        """Whether the evidence allows corrected metrics."""
        return self.overlap.status != "refused"


def assess(evidence: Evidence, *, confidence: float, rng: np.random.Generator) -> Correction | str:
    """Learn the propensity by cross-fitting and measure overlap; a sentence where not even that is possible.

    Parameters
    ----------
    evidence : zero-run evidence
    confidence : of the interval of the blind AUC
    rng : draws folds
    """
    if evidence.covariates is None:
        return "there are no covariates to correct the difference between members and non-members with"
    fit_rng, curve_rng = rng.spawn(2)
    try:
        learned = propensity.fit(evidence, rng=fit_rng)
        curve = propensity.learning_curve(evidence, rng=curve_rng)
    except InputError as error:
        return f"the propensity cannot be learned ({error})"
    measured = balance.measure(evidence, learned, confidence=confidence)
    judged = balance.judge_overlap(measured)
    still = ""
    if curve.rising:
        still = (
            f"The propensity is not learned yet: the AUC of the covariates alone rises from {curve.half:.3f} at half "
            f"the records to {curve.full:.3f} at all of them, so part of the shift is still uncorrected."
        )
    status = "refused" if still else judged.status
    shown = Overlap(
        status=status,
        reasons=(*judged.reasons, *([still] if still else [])),
        warnings=judged.warnings,
        propensity=learned.how,
        clipped=learned.clipped,
        blind_auc=measured.blind_auc.value or 0.0,
        blind_low=measured.blind_auc.low,
        blind_high=measured.blind_auc.high,
        effective_sample_size=measured.effective_size,
        largest_weight=measured.largest_share,
        without_match=measured.beyond,
        features=_features(measured),
        feature_limit=measured.limit,
        calibration=tuple(CalibrationBin(b.predicted, b.observed, b.count) for b in measured.calibration),
        log_odds=Distribution(measured.log_odds.edges, measured.log_odds.members, measured.log_odds.nonmembers),
        learning={"half": curve.half, "full": curve.full, "rising": curve.rising},
    )
    return Correction(learned, shown, measured.effective_size, still)


def metrics(
    evidence: Evidence,
    learned: Propensity,
    fpr_targets: Iterable[float],
    confidence: float,
    *,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Compute the causal metrics of one score, by the names of the classical ones.

    Returns
    -------
    dict
        ``tpr_at_fpr_...`` for each target, then ``auc``, ``advantage``, ``balanced_accuracy``, ``ate``.
    """
    found = {
        tpr_name(fpr): effects.tpr_at_fpr(evidence, learned, fpr=fpr, confidence=confidence, rng=rng)
        for fpr in fpr_targets
    }
    for name, effect in (
        ("auc", effects.auc),
        ("advantage", effects.advantage),
        ("balanced_accuracy", effects.balanced_accuracy),
        ("ate", effects.ate),
    ):
        found[name] = effect(evidence, learned, confidence=confidence, rng=rng)
    return found


def band(
    evidence: Evidence, learned: Propensity, fpr: FloatArray, confidence: float, *, rng: np.random.Generator
) -> tuple[Roc, FloatArray, FloatArray]:
    """Return the causal ROC curve and its pointwise limits (k,) at each FPR (k,)."""
    limits = [effects.tpr_at_fpr(evidence, learned, fpr=float(a), confidence=confidence, rng=rng) for a in fpr]
    low, high = np.array([e.low for e in limits]), np.array([e.high for e in limits])
    return effects.roc(evidence, learned), low, high


def of_rows(learned: Propensity, rows: NDArray[np.bool_]) -> Propensity:
    """Return the propensities of some rows: odds that differ by a factor give the same self-normalised weights."""
    return Propensity.given(learned.values[rows], learned.how)


def memorisation(
    evidence: Evidence, learned: Propensity, *, raw: Metric, causal: Metric, rng: np.random.Generator
) -> Memorisation:
    """Split the raw AUC of one score into memorisation and shift, and say how much confounding would undo it."""
    before, after = raw.value or 0.0, causal.value or 0.0
    parts = f"Of the raw AUC of {before:.3f}, {before - after:+.3f} is shift and {after - 0.5:+.3f} is memorisation."
    if after <= 0.5:
        return Memorisation(before, after, after - 0.5, before - after, None, None, parts)
    found = sensitivity.breakdown(evidence, learned, metric="auc", rng=rng)
    told = f"{parts} {found.sentence[0].upper()}{found.sentence[1:]}."
    value, low = (x if math.isfinite(x) else None for x in (found.value, found.low))
    return Memorisation(before, after, after - 0.5, before - after, value, low, told)


def _features(measured: balance.Balance) -> tuple[FeatureBalance, ...]:
    worst = sorted(measured.differences, key=lambda d: -max(abs(d.after), abs(d.before)))[:_MOST_FEATURES]
    return tuple(FeatureBalance(d.name, d.before, d.after) for d in worst)

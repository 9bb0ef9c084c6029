"""Zero-run evidence: whether members and non-members can be compared, and what is left of the attack once they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.causal import balance, covariates, duplicates, effects, propensity, sensitivity
from miaudit.causal.classical import Estimate, tpr_name
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.plan import Plan
from miaudit.report.findings import (
    CalibrationBin,
    Distribution,
    FeatureBalance,
    Memorisation,
    Metric,
    Mislabelled,
    Overlap,
)

FloatArray = NDArray[np.float64]

ESTIMATOR = "hajek"
_WRONG_LABELS = ((0.01, 0.0), (0.05, 0.0), (0.0, 0.05), (0.05, 0.05), (0.1, 0.1))  # shares of members, non-members
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


def assess(evidence: Evidence, plan: Plan, *, rng: np.random.Generator) -> Correction | str:
    """Learn the propensity by cross-fitting and measure overlap; a sentence where not even that is possible.

    Parameters
    ----------
    evidence : zero-run evidence
    plan : its confidence, and how covariates become numbers
    rng : draws folds

    Raises
    ------
    InputError
        If the plan names a category that is no covariate.
    """
    if evidence.covariates is None:
        return "there are no covariates to correct the difference between members and non-members with"
    encoding = _encoding(evidence, plan)
    fit_rng, curve_rng, twin_rng = rng.spawn(3)
    try:
        learned = propensity.fit(evidence, encoding=encoding, rng=fit_rng)
        curve = propensity.learning_curve(evidence, encoding=encoding, folds=_folds(learned), rng=curve_rng)
        twins = duplicates.of_covariates(evidence, rng=twin_rng)
    except InputError as error:
        return f"the propensity cannot be learned ({error})"
    seen = evidence
    if plan.components is not None and learned.features is not None:
        # Balance is asked of what the propensity could see: the components, not the hundreds of columns behind them.
        names = [f"component {i + 1}" for i in range(learned.features.shape[1])]
        seen = evidence.replace(covariates=learned.features, covariate_names=names)
    measured = balance.measure(seen, learned, confidence=plan.confidence)
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
        warnings=(*judged.warnings, *_twins_in_words(twins)),
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
        duplicates={
            "exact_pairs": twins.exact_pairs,
            "near_pairs": twins.near_pairs,
            "members_affected": twins.members_affected,
            "nonmembers_affected": twins.nonmembers_affected,
            "members_alike": twins.members_alike,
        },
        learning={"half": curve.half, "full": curve.full, "rising": curve.rising},
    )
    return Correction(learned, shown, measured.effective_size, still)


def metrics(
    evidence: Evidence, learned: Propensity, plan: Plan, confidence: float, *, rng: np.random.Generator
) -> dict[str, tuple[str, Estimate]]:
    """Compute the causal metrics of one score, by the names of the classical ones, each with its estimator.

    Returns
    -------
    dict
        ``tpr_at_fpr_...`` for each target, then ``auc``, ``advantage``, ``balanced_accuracy``, ``ate``.
    """
    found = {
        tpr_name(fpr): (ESTIMATOR, effects.tpr_at_fpr(evidence, learned, fpr=fpr, confidence=confidence, rng=rng))
        for fpr in plan.fpr_targets
    }
    for name, effect, method in (
        ("auc", effects.auc, plan.estimator),
        ("advantage", effects.advantage, ESTIMATOR),
        ("balanced_accuracy", effects.balanced_accuracy, ESTIMATOR),
        ("ate", effects.ate, plan.estimator),
    ):
        found[name] = method, effect(evidence, learned, method=method, confidence=confidence, rng=rng)
    return found


def of_rows(learned: Propensity, rows: NDArray[np.bool_]) -> Propensity:
    """Return the propensities of some rows: odds that differ by a factor give the same self-normalised weights."""
    return Propensity.given(learned.values[rows], learned.how)


def memorisation(
    evidence: Evidence, learned: Propensity, *, raw: Metric, causal: Metric, rng: np.random.Generator
) -> Memorisation:
    """Split the raw AUC of one score into memorisation and shift, and say how much confounding would undo it."""
    before, after = raw.value or 0.0, causal.value or 0.0
    parts = f"Of the raw AUC of {before:.3f}, {before - after:+.3f} is shift and {after - 0.5:+.3f} is memorisation."
    wrong = tuple(_mislabelled(evidence, learned, e1, e0, rng) for e1, e0 in _WRONG_LABELS)
    if after <= 0.5:
        return Memorisation(before, after, after - 0.5, before - after, None, None, parts, wrong)
    found = sensitivity.breakdown(evidence, learned, metric="auc", rng=rng)
    told = f"{parts} {found.sentence[0].upper()}{found.sentence[1:]}."
    value, low = (x if math.isfinite(x) else None for x in (found.value, found.low))
    return Memorisation(before, after, after - 0.5, before - after, value, low, told, wrong)


def _mislabelled(
    evidence: Evidence, learned: Propensity, members: float, nonmembers: float, rng: np.random.Generator
) -> Mislabelled:
    found = sensitivity.under_mislabelling(evidence, learned, members=members, nonmembers=nonmembers, rng=rng)["auc"]
    return Mislabelled(members, nonmembers, found.value, found.low, found.high)


def _encoding(evidence: Evidence, plan: Plan) -> covariates.Encoding:
    """Say how covariates become numbers, from the plan's names of categories or number of components."""
    if plan.components is not None:
        return covariates.Reduced(plan.components)
    if not plan.categories:
        return covariates.Numbers()
    names = evidence.covariate_names or tuple(str(i) for i in range(evidence.covariates.shape[1]))  # type: ignore[union-attr]
    for name in plan.categories:
        if name not in names:
            hint = nearest(name, names) or f"it has {', '.join(names[:12])}"
            raise InputError("categories", "names of covariates", repr(name), hint)
    return covariates.Categories(tuple(names.index(name) for name in plan.categories))


def _folds(learned: Propensity) -> int | NDArray[np.int64]:
    """Use the folds of the propensity again, so that its learning curve is that of the same models."""
    return propensity.FOLDS if learned.folds is None else learned.folds.astype(np.int64)


def _twins_in_words(twins: duplicates.Duplicates) -> tuple[str, ...]:
    """Warn of twins across the classes where they are more common than among the members."""
    if twins.members_affected <= twins.members_alike:
        return ()
    return (
        f"{twins.members_affected:,} members have a twin among the non-members ({twins.exact_pairs:,} equal pairs, "
        f"{twins.near_pairs:,} nearly equal ones): are these really non-members? {twins.note}",
    )


def _features(measured: balance.Balance) -> tuple[FeatureBalance, ...]:
    worst = sorted(measured.differences, key=lambda d: -max(abs(d.after), abs(d.before)))[:_MOST_FEATURES]
    return tuple(FeatureBalance(d.name, d.before, d.after) for d in worst)

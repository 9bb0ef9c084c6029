"""Estimators of a counterfactual mean of the non-members (paper, (3) to (11)).

What is E[h(Y(0))] in the population of the **members**? :func:`counterfactual_mean` returns a value, its influence
function and its gradient. :mod:`miaudit.causal.effects` turns them into metrics and intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal.fiducial import Ranked
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units


class PropensityLike(Protocol):
    """The part of a propensity that estimators read: P(A=1|X), its odds and its origin.

    Attributes
    ----------
    values : array (n,), in (0, 1)
    odds : array (n,), values / (1 - values)
    features : array (n, p) without an intercept, or None
    logistic : bool, optional, True if it is missing
        Whether the log-odds were fitted as linear in ``features``, as the score term assumes.
    folds : array (n,) of int or None, optional
        None states that the propensity was given, or learned from other records.
    rows_per_covariate : float or None, optional
        Of those other records: their error is added to the variance.
    """

    @property
    def values(self) -> FloatArray: ...  # noqa: D102
    @property
    def odds(self) -> FloatArray: ...  # noqa: D102
    @property
    def features(self) -> FloatArray | None: ...  # noqa: D102


@dataclass(frozen=True)
class Difference:
    """Unweighted non-members: classical metrics, causal only under randomised membership (paper, (3))."""


@dataclass(frozen=True)
class HorvitzThompson:
    """Odds-weighted non-members divided by n1 (paper, (6) and (11), with the divisor of errata A1)."""


@dataclass(frozen=True)
class Hajek:
    """Odds-weighted non-members divided by the sum of weights: the default (errata A1)."""


@dataclass(frozen=True)
class GFormula:
    """An outcome model averaged over the members (paper, (7)); consistent if the model is right.

    Attributes
    ----------
    outcome : LocationScale, a fitted Law, any scikit-learn regressor, or None for the default
    """

    outcome: Any = None


@dataclass(frozen=True)
class Aipw:
    """Outcome model plus weighted residuals (paper, (8); errata A3); consistent if either model is right.

    The weights of the residuals are self-normalised, so that odds that are wrong by a factor do no harm.

    Attributes
    ----------
    outcome : LocationScale, a fitted Law, any scikit-learn regressor, or None for the default
    """

    outcome: Any = None


Estimator = Difference | HorvitzThompson | Hajek | GFormula | Aipw
METHODS = ("difference", "horvitz-thompson", "hajek", "g", "aipw")


def estimator_of(method: str | Estimator, outcome: Any = None) -> Estimator:
    """Return the estimator of a name.

    Examples
    --------
    >>> estimator_of("hajek")
    Hajek()
    """
    match method:
        case Difference() | HorvitzThompson() | Hajek() | GFormula() | Aipw():
            return method
        case "difference":
            return Difference()
        case "horvitz-thompson":
            return HorvitzThompson()
        case "hajek":
            return Hajek()
        case "g":
            return GFormula(outcome)
        case "aipw":
            return Aipw(outcome)
    hint = nearest(str(method), METHODS) or "choose one of these"
    raise InputError("method", f"one of {', '.join(METHODS)}, or a record such as Hajek()", repr(method), hint)


@dataclass(frozen=True, eq=False)
class Comparison:
    """One score with the weight of every record, sorted once.

    Attributes
    ----------
    evidence : with one score
    weight : array (n,): 1 for members, the odds of membership for non-members
    propensity : array (n,), in (0, 1)
    features : array (n, p), or None where the propensity adds no term to the variance (:func:`_logistic_features`)
    learned_on : records of a separate sample that the propensity was learned from; None: the audited ones
    units : or None where every record is one
    roc : the self-normalised weighted curve
    """

    evidence: Evidence
    weight: FloatArray
    propensity: FloatArray
    features: FloatArray | None
    learned_on: float | None
    units: Units | None
    roc: Roc

    @classmethod
    def of(cls, evidence: Evidence, propensity: PropensityLike) -> Comparison:
        """Sort, and refuse a propensity that does not match the evidence."""
        values, odds = _checked(evidence, propensity)
        weight = np.where(evidence.member, 1.0, odds)
        code = evidence.unit_codes
        units = None if code is None else Units.of(code, evidence.member)
        return cls(
            evidence,
            weight,
            values,
            _logistic_features(propensity),
            _separate_rows(propensity),
            units,
            Roc.of(evidence.score, evidence.member, weight, ascending=evidence.ascending),
        )

    @property
    def score(self) -> FloatArray:
        """Array (n,)."""
        return self.evidence.score

    @property
    def member(self) -> BoolArray:
        """Array (n,)."""
        return self.evidence.member

    @cached_property
    def sample(self) -> Sample:
        """The records without weights, for the classical metrics."""
        return Sample.of(self.evidence)

    @property
    def n1(self) -> float:
        """Number of members."""
        return self.roc.n_members

    @property
    def total(self) -> float:
        """Sum of the weights of the non-members; close to n1 if the propensity is right."""
        return self.roc.n_nonmembers

    @cached_property
    def effective_nonmembers(self) -> float:
        """Kish's effective number of non-members or of their units, W^2 / sum w^2."""
        w = self.weight[~self.member]
        if self.units is not None:
            w = np.asarray(np.bincount(self.units.code[~self.member], weights=w), dtype=np.float64)
        return float(w.sum() ** 2 / (w @ w))

    @property
    def effective_members(self) -> float:
        """Number of members, or Kish's effective number of their units."""
        return self.n1 if self.units is None else self.units.effective_members

    @cached_property
    def ranked(self) -> Ranked:
        """Non-members in descending order of score, for TPRs at an FPR."""
        return Ranked.of(self.score, self.member, self.weight, self.units)

    @property
    def even(self) -> bool:
        """Whether all non-members have the same weight."""
        w = self.weight[~self.member]
        return bool(np.ptp(w) <= 1e-12 * w[0])

    @cached_property
    def share_of_members_above(self) -> FloatArray:
        """S1(y) of each record (n,): share of members with a higher score; ties count one half."""
        vertex = self.roc.blocks_of(self.score)
        tpr = self.roc.tpr
        return np.asarray((tpr[vertex] + tpr[vertex - 1]) / 2)

    @cached_property
    def share_of_nonmembers_below(self) -> FloatArray:
        """F0(y) of each record (n,): weighted share of non-members with a lower score."""
        vertex = self.roc.blocks_of(self.score)
        fpr = self.roc.fpr
        return np.asarray(1 - (fpr[vertex] + fpr[vertex - 1]) / 2)

    def variance(self, influence: FloatArray, gradient: FloatArray) -> float:
        """Return the variance of an estimate, with that of the fitted propensity.

        Learned from the audited records: the larger of with and without the score term (experiments/methods.md,
        section 1).
        Learned from others: what their number leaves uncertain is independent, so it is added.

        Parameters
        ----------
        influence : array (n,), each record's part in the error, zero in sum
        gradient : array (n,)
            How the estimate moves when a record's log-odds do; all zero where there is nothing to add.
        """
        plain = self._plain_variance(influence)
        if self._information is None or not gradient.any():
            return plain
        x, information = self._information
        moved = x.T @ gradient
        direction = np.linalg.lstsq(information, moved, rcond=1e-10)[0]
        if self.learned_on is not None:
            return plain + float(moved @ direction) * len(x) / self.learned_on
        return max(plain, self._plain_variance(influence + (self.member - self.propensity) * (x @ direction)))

    def _plain_variance(self, influence: FloatArray) -> float:
        if self.units is not None:
            return self.units.variance(influence)
        n = len(influence)
        return float(influence @ influence) * n / max(n - 1, 1)

    @cached_property
    def _information(self) -> tuple[FloatArray, FloatArray] | None:
        """Return features with an intercept (n, p + 1) and the information matrix of a logistic model."""
        if self.features is None or self.features.shape[1] + 1 >= len(self.score) / 2:
            return None
        x = np.column_stack([np.ones(len(self.score)), self.features])
        spread = self.propensity * (1 - self.propensity)
        return x, (x * spread[:, None]).T @ x


def counterfactual_mean(
    estimator: Estimator, comparison: Comparison, outcome: FloatArray, predicted: FloatArray | None
) -> tuple[float, FloatArray, FloatArray]:
    """Estimate E[h(Y(0))] in the population of the members: the formula of every metric.

    Parameters
    ----------
    estimator : which of the five answers
    comparison : evidence with weights
    outcome : array (n,), h(Y); only the non-members' values are read
    predicted : array (n,), E[h(Y(0)) | x], where the estimator has an outcome model

    Returns
    -------
    value : float
    influence : array (n,), each record's part in the error, zero in sum
    gradient : array (n,), derivative by each record's log-odds (of :meth:`Comparison.variance`)
    """
    a, w, n1 = comparison.member, np.where(comparison.member, 0.0, comparison.weight), comparison.n1
    share = w / comparison.total
    match estimator:
        case Difference():
            even = ~a / float((~a).sum())
            value = float(even @ outcome)
            return value, even * (outcome - value), np.zeros(len(a))
        case HorvitzThompson():
            value = float(w @ outcome) / n1
            part = w * outcome / n1
            return value, part - np.where(a, value, 0.0) / n1, part
        case Hajek():
            value = float(share @ outcome)
            part = share * (outcome - value)
            return value, part, part
        case GFormula() | Aipw():
            if predicted is None:
                raise InputError("outcome", "an outcome model", "None", "pass outcome=")
            modelled = float(predicted[a].mean())
            residual = share * (outcome - predicted)
            # The G-formula has the variance of AIPW, the least that is possible without assumptions on the shape.
            value = modelled + (float(residual.sum()) if isinstance(estimator, Aipw) else 0.0)
            centre = value if isinstance(estimator, Aipw) else modelled
            return value, np.where(a, (predicted - centre) / n1, residual), np.zeros(len(a))


def _checked(evidence: Evidence, propensity: PropensityLike) -> tuple[FloatArray, FloatArray]:
    values, odds = np.asarray(propensity.values, float), np.asarray(propensity.odds, float)
    if values.shape != (evidence.n,) or odds.shape != (evidence.n,):
        allowed = f"one value for each of {evidence.n} records"
        raise InputError("propensity", allowed, f"shape {values.shape}", "estimate it on the same records")
    if not (np.all((values > 0) & (values < 1)) and np.all(np.isfinite(odds) & (odds > 0))):
        bad = int(np.count_nonzero(~((values > 0) & (values < 1) & np.isfinite(odds) & (odds > 0))))
        raise InputError("propensity", "values in (0, 1)", f"{bad} outside", "clip, or drop records without overlap")
    features = propensity.features
    if features is not None and (np.ndim(features) != 2 or len(features) != evidence.n):
        raise InputError("propensity", f"features of {evidence.n} records", f"{np.shape(features)}", "pass (n, p)")
    return values, odds


def _logistic_features(propensity: PropensityLike) -> FloatArray | None:
    """Return the features (n, p) of a propensity that is linear in them, else None."""
    own, separate = getattr(propensity, "folds", True) is not None, _separate_rows(propensity) is not None
    linear = getattr(propensity, "logistic", True) and propensity.features is not None and (own or separate)
    return np.asarray(propensity.features, dtype=np.float64) if linear else None


def _separate_rows(propensity: PropensityLike) -> float | None:
    """Return the records of a separate training sample of the propensity, else None."""
    ratio = getattr(propensity, "rows_per_covariate", None)
    if getattr(propensity, "folds", True) is not None or ratio is None or propensity.features is None:
        return None
    return float(ratio * propensity.features.shape[1])

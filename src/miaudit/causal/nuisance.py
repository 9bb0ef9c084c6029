"""The caller's nuisance models of an audit, in place of the default propensity and outcome model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from miaudit.arrays import IndexArray
from miaudit.causal import covariates, crossfit
from miaudit.causal.covariates import Encoding
from miaudit.causal.outcome import Law, LocationScale
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, is_whole


@dataclass(frozen=True, eq=False)
class Nuisance:
    """Nuisance models of a zero-run audit; None is the default of each.

    Parameters
    ----------
    encoding : record of :mod:`miaudit.causal.covariates`, optional
        How covariates become numbers, for example ``Custom(f)`` with an image function f; fitted inside the folds.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        The propensity is learned with it, cross-fitted and calibrated as the default is.
    outcome : LocationScale or scikit-learn regressor, optional
        The outcome model of AIPW (``Plan(estimator="aipw")``).
    propensity : Propensity, optional
        Known, or learned elsewhere, for each record of the evidence: nothing is learned then, and there is no learning
        curve to judge it by.
    workers : int
        Processes that refit ``classifier`` in the bootstrap; the result does not depend on their number.

    Raises
    ------
    InputError
        For what is no such model, or a classifier beside a propensity.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> Nuisance(classifier=GaussianNB()).workers
    1
    >>> Nuisance(propensity=[0.5, 0.5])
    Traceback (most recent call last):
    miaudit.errors.InputError: propensity: expected a Propensity, received list; pass Propensity.given(values)
    """

    encoding: Encoding | None = None
    classifier: Any = None
    outcome: Any = None
    propensity: Propensity | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if self.encoding is not None:
            covariates.check(self.encoding)
        crossfit.check_classifier(self.classifier)
        self._check_outcome()
        given: Any = self.propensity
        if given is not None and not isinstance(given, Propensity):
            received = type(given).__name__
            raise InputError("propensity", "a Propensity", received, "pass Propensity.given(values)")
        if given is not None and self.classifier is not None:
            raise InputError("classifier", "none, beside a propensity", "both", "choose one of the two")
        if not (is_whole(self.workers) and self.workers >= 1):
            raise InputError("workers", "a whole number from 1 up", repr(self.workers), "1 is the default")

    def _check_outcome(self) -> None:
        model = self.outcome
        if isinstance(model, Law):
            raise InputError(
                "outcome",
                "a model that can be fitted",
                "a fitted Law, which belongs to one score and one set of records",
                "pass the regressor or LocationScale that it came from",
            )
        fits = hasattr(model, "fit") and hasattr(model, "predict")
        if model is not None and not isinstance(model, LocationScale) and not fits:
            received = type(model).__name__
            raise InputError("outcome", "LocationScale or a scikit-learn regressor", received, "pass one of these")

    @property
    def outcome_model(self) -> LocationScale:
        """Outcome model that AIPW uses."""
        return self.outcome if isinstance(self.outcome, LocationScale) else LocationScale(self.outcome)

    def of_rows(self, rows: IndexArray | None) -> Nuisance:
        """Return the models for some rows (indices) of the evidence; None: all rows."""
        if rows is None or self.propensity is None:
            return self
        whole, part = self.propensity, self.propensity.of_rows(rows)
        if whole.folds is not None:  # learned from the evidence itself: a part is no better known than the whole
            per_covariate = whole.rows_per_covariate
            part = replace(part, folds=whole.folds[rows], logistic=whole.logistic, rows_per_covariate=per_covariate)
        return replace(self, propensity=part)

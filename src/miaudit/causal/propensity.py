"""Propensity P(A=1 | X): cross-fitted and calibrated; its learning curve is a diagnostic.

:class:`Nuisance` holds the caller's own models of an audit, in place of the default propensity and outcome model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray, IndexArray, IntArray
from miaudit.causal import covariates, crossfit, logistic, screen, stack, targeted_step
from miaudit.causal.cores import at_once
from miaudit.causal.covariates import Categories, Custom, Encoding, Images, Reduced, Text, resample
from miaudit.causal.crossfit import CLIP, FOLDS, FoldModels, Learner
from miaudit.causal.learning_curve import LearningCurve, learning_curve
from miaudit.causal.outcome import Law, LocationScale, Regression
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator, is_whole
from miaudit.evidence import Evidence
from miaudit.metrics.trials import one_of_each

__all__ = [
    "CLIP",
    "FOLDS",
    "LearningCurve",
    "Nuisance",
    "Propensity",
    "bootstrap",
    "fit",
    "held_out_logits",
    "learning_curve",
    "resample",
    "rows_per_covariate",
    "stacked",
]


_RESAMPLES = 100  # their spread is the standard error of screened log-odds


@dataclass(frozen=True, eq=False)
class Propensity:
    """P(A=1 | X) of each record in the pooled sample of members and non-members (errata A1).

    Attributes
    ----------
    values : array (n,) in (0, 1), higher means more like the members
    how : how they were learned, in words
    clip : values are held between ``clip`` and 1 - ``clip``; 0 if they were given
    clipped : share of the records whose value the clip changed, 0 to 1
    folds : array (n,) of int or None
        Fold in which each record was held out; None for given values and for a separate training sample.
    features : array (n, p) or None
        Encoded covariates, standardised, no intercept; the encoding is fitted on all rows, without labels.
    dropped : names of constant covariates that were left out
    logistic : whether the model is the default, linear in ``features`` (the score term of experiments/methods.md,
        section 1)
    rows_per_covariate : rows that the propensity was learned from, for each feature; None if given
    models : folds and features of a stack (:func:`stacked`), which regressions of the score share; None of others
    line : the line in the covariates that is part of a stack, on the same folds
    errors : array (n,), standard errors of the log-odds over resamples that repeat the screen; None without a screen
    added : splines and products that a screen added, in words; ``features`` are those of the line alone

    Examples
    --------
    >>> Propensity.given([0.5, 0.8]).odds.round(3).tolist()
    [1.0, 4.0]
    """

    values: FloatArray
    how: str
    clip: float = 0.0
    clipped: float = 0.0
    folds: IntArray | None = None
    features: FloatArray | None = None
    dropped: tuple[str, ...] = ()
    logistic: bool = False
    rows_per_covariate: float | None = None
    models: stack.Folds | None = None
    line: Propensity | None = None
    errors: FloatArray | None = None
    added: tuple[str, ...] = ()

    @classmethod
    def given(cls, values: ArrayLike, how: str = "given") -> Propensity:
        """Take known propensities (n,), each strictly between 0 and 1.

        Raises
        ------
        InputError
            For probabilities of exactly 0 or 1, NaN, or more than one dimension.
        """
        pi = np.array(values, dtype=np.float64)
        pi = pi[:, 0] if pi.ndim == 2 and pi.shape[1] == 1 else pi
        if pi.ndim != 1 or pi.size == 0:
            raise InputError("values", "one probability for each record, (n,)", f"shape {pi.shape}", "pass one column")
        outside = ~((pi > 0) & (pi < 1))
        if outside.any():
            row = int(np.argmax(outside))
            step = "records that can only be members, or only non-members, have no counterfactual: leave them out"
            if bool((pi > 1).any()) and bool(((pi >= 0) & (pi <= 100)).all()) and np.median(pi) > 1:
                step = "percent? divide by 100"
            elif not (0 <= pi[row] <= 1):
                step = "give the probability of membership, not its odds or its logarithm"
            received = f"{pi[row]:g} in row {row} ({np.count_nonzero(outside):,} such rows)"
            raise InputError("values", "probabilities strictly between 0 and 1", received, step)
        pi.flags.writeable = False
        return cls(pi, how)

    @classmethod
    def of(cls, propensity: Any) -> Propensity:
        """Return a caller's propensity: an object with odds as it is, or values (n,) as given ones.

        Raises
        ------
        InputError
            As :meth:`given`.

        Examples
        --------
        >>> Propensity.of(np.array([0.5, 0.8])).how
        'given'
        """
        if isinstance(propensity, Propensity) or hasattr(propensity, "odds"):
            return propensity  # type: ignore[no-any-return]
        try:
            return cls.given(np.asarray(propensity, dtype=np.float64))
        except InputError as error:
            raise InputError("propensity", error.allowed, error.received, error.next_step) from None
        except (TypeError, ValueError):
            allowed, hint = "a Propensity, or one probability for each record, (n,)", "propensity.fit learns one"
            raise InputError("propensity", allowed, type(propensity).__name__, hint) from None

    @property
    def stacked(self) -> bool:
        """Whether the model is that of :func:`stacked`."""
        return self.models is not None

    @property
    def screened(self) -> bool:
        """Whether a screen could add splines and products to the line."""
        return self.errors is not None

    @property
    def odds(self) -> FloatArray:
        """Weights w = pi / (1 - pi) (n,) by which non-members represent members."""
        return self.values / (1 - self.values)

    @property
    def logit(self) -> FloatArray:
        """Log-odds of membership (n,)."""
        return np.asarray(np.log(self.odds))

    def of_rows(self, rows: NDArray[Any]) -> Propensity:
        """Return the propensities of some rows (indices or a mask) as given ones.

        Odds that differ by a factor give the same self-normalised weights, so a part keeps its meaning. Learned from
        separate records, it also keeps their number, so that a part is as uncertain as the whole.
        """
        features = None if self.features is None else self.features[rows]
        models = None if self.models is None else self.models.of_rows(rows)
        part = replace(Propensity.given(self.values[rows], self.how), features=features, models=models)
        if self.folds is not None or self.rows_per_covariate is None:
            return part
        errors = None if self.errors is None else self.errors[rows]
        known: dict[str, Any] = {"rows_per_covariate": self.rows_per_covariate, "errors": errors, "added": self.added}
        return replace(part, logistic=self.logistic, **known)

    def matched(self, evidence: Evidence) -> Propensity:
        """Return these propensities if their number is that of the evidence's records, else refuse.

        Raises
        ------
        InputError
            If the lengths differ.
        """
        if len(self.values) != evidence.n:
            raise InputError(
                "propensity", f"{evidence.n:,} values, one for each record", f"{len(self.values):,}", "fit it again"
            )
        return self


@dataclass(frozen=True, eq=False)
class Nuisance:
    """Nuisance models of a zero-run audit; None is the default of each.

    Parameters
    ----------
    encoding : record of :mod:`miaudit.causal.covariates`, optional
        How covariates become numbers, for example ``Custom(f)`` with an image function f; fitted inside the folds.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        The propensity is learned with it, cross-fitted and calibrated as the default is.
    outcome : LocationScale, Regression or scikit-learn regressor, optional
        The outcome model of AIPW (``Plan(estimator="aipw")``).
    propensity : Propensity or array (n,) in (0, 1), optional
        Known, or learned elsewhere, for each record of the evidence: nothing is learned then, and there is no learning
        curve to judge it by.
    workers : int
        Processes that refit ``classifier`` in the bootstrap; the result does not depend on their number.

    Raises
    ------
    InputError
        For any other object, or a classifier together with a propensity.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> Nuisance(classifier=GaussianNB()).workers
    1
    >>> Nuisance(propensity=[0.5, 0.5]).propensity.how
    'given'
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
        if self.propensity is not None:
            object.__setattr__(self, "propensity", Propensity.of(self.propensity))
        if self.propensity is not None and self.classifier is not None:
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
        if model is not None and not isinstance(model, LocationScale | Regression) and not fits:
            received, allowed = type(model).__name__, "LocationScale, Regression or a scikit-learn regressor"
            raise InputError("outcome", allowed, received, "pass one of these")

    @property
    def outcome_model(self) -> LocationScale | Regression:
        """Outcome model that AIPW uses."""
        return self.outcome if isinstance(self.outcome, LocationScale | Regression) else LocationScale(self.outcome)

    def of_rows(self, rows: IndexArray | None) -> Nuisance:
        """Return the models for some rows (indices) of the evidence; None: all rows."""
        if rows is None or self.propensity is None:
            return self
        whole, part = self.propensity, self.propensity.of_rows(rows)
        if whole.folds is not None:  # learned from the evidence itself: a part is no better known than the whole
            per_covariate = whole.rows_per_covariate
            folds, logistic = whole.folds[rows], whole.logistic
            part = replace(part, folds=folds, logistic=logistic, rows_per_covariate=per_covariate)
        return replace(self, propensity=part)


# -- learning a propensity ------------------------------------------------------------------------------------------


def fit(
    evidence: Evidence,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    clip: float = CLIP,
    train: Evidence | None = None,
    strength: float | None = None,
    refuse_few_rows: bool = True,
    screened: bool = False,
    rng: np.random.Generator,
) -> Propensity:
    """Fit the propensity of each record on other records.

    Parameters
    ----------
    evidence : the audited records, with covariates (n, d) or texts
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Default: L2 logistic regression, its strength chosen by cross-validation. Either is Platt-calibrated on
        log-odds that were cross-fitted inside the training rows.
    encoding : record of :mod:`miaudit.causal.covariates`, fitted on the training rows only
        Default: ``Text()`` where the evidence has texts, else ``Numbers()``.
    folds : number of folds, or the fold of each record (n,); whole units stay in one fold
    clip : propensities are held in [clip, 1 - clip], 0 < clip < 0.5
    train : separate records to learn from instead of cross-fitting
        Their share of members may differ; the log-odds are moved to the share of ``evidence`` (errata A1).
    strength : C of the logistic regression, more than 0; default: chosen by cross-validation
    refuse_few_rows : bool
        False fits even with more features than rows, which is never valid (errata B20): for reproductions only.
    screened : bool
        Enlarge the logistic model by the splines and products that pass Bonferroni's 5% on the training rows
        (:mod:`miaudit.causal.screen`); standard errors are then those of 100 resamples, each screened again.
    rng : generator of the folds and of the classifier's seeds

    Raises
    ------
    InputError
        Without covariates, with too few records for the folds, with as many features as training rows, or if
        ``train`` holds audited rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> member = rng.random(2000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
    >>> propensity = fit(evidence, rng=rng)
    >>> propensity.values.shape, bool(abs(propensity.logit - x[:, 0]).mean() < 0.15), propensity.clipped
    ((2000,), True, 0.0)
    """
    check_generator(rng)
    chosen = crossfit.encoding_of(evidence, encoding, classifier, strength)
    crossfit.check_clip(clip)
    enlarge = screen.enlarging(chosen, classifier) if screened else None
    learner = Learner(chosen, classifier, strength, enlarge, refuse_few_rows=refuse_few_rows)
    place, learn = rng.spawn(2)
    models = FoldModels.of(learner, evidence, train, folds, rng=place, learn=learn)
    source = evidence if train is None else train
    propensity = _of_models(models, source.n, clip, place)
    if not screened:
        return propensity
    resampled = resample(source, _RESAMPLES, strata=models.fold, rng=place)
    errors = screen.spread(evidence.n, models.parts, models.models, resampled, place)
    return replace(propensity, errors=errors, added=models.added)


def _of_models(models: FoldModels, rows: int, clip: float, rng: np.random.Generator) -> Propensity:
    """Return the propensity of the audited records, from models that were learned from so many rows."""
    values, clipped = crossfit.clipped(logistic.expit(models.logit), clip)
    features = models.features(rng)
    per_covariate = rows / (features.shape[1] + len(models.added))
    dropped, line = models.audited.dropped, models.learner.classifier is None
    how = _description(models, rows)
    return Propensity(values, how, clip, clipped, models.fold, features, dropped, line, per_covariate)


def _description(models: FoldModels, rows: int) -> str:
    """Describe in words where the models were learned, from which features, and how."""
    separate = f"on {rows:,} separate records"
    where = separate if models.fold is None else f"cross-fitted in {len(models.models)} folds"
    model = _model_named(models.learner.classifier, models.strengths)
    enlarged = f", enlarged by {', '.join(models.added)}" if models.added else ""
    wide = "" if models.learner.refuse_few_rows else "; with more features than rows allowed"
    return f"{where}: {_named(models.learner.encoding)}, {model}{enlarged}, Platt calibration{wide}"


def stacked(
    evidence: Evidence,
    *,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    rng: np.random.Generator,
) -> Propensity:
    """Fit the propensity on other records by a stack: a line, a ridge on a basis and boosted trees.

    For evidence whose shift is not a straight line (:mod:`miaudit.causal.stack`, experiments/methods.md, section 9).
    Bounds on privacy parameters need the line of :func:`fit`, whose log-odds have known errors.

    Parameters
    ----------
    evidence, encoding, folds, rng : as in :func:`fit`

    Returns
    -------
    Propensity
        For ``miaudit.Nuisance(propensity=...)``; log-odds are within 7 of zero.

    Raises
    ------
    InputError
        Without covariates, with too few records for the folds, or with as many features as training rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> truth = x[:, 0] * x[:, 1]
    >>> member = rng.random(2000) < 1 / (1 + np.exp(-truth))
    >>> evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
    >>> fitted = stacked(evidence, rng=rng)
    >>> bool(np.corrcoef(fitted.logit, truth)[0, 1] > 0.9), fitted.how.partition(":")[0]
    (True, 'cross-fitted in 5 folds')
    """
    check_generator(rng)
    chosen = crossfit.encoding_of(evidence, encoding)
    straight, place = rng.spawn(2)
    line = fit(evidence, encoding=chosen, folds=folds, rng=straight)
    assert line.folds is not None  # noqa: S101 (there is no separate sample)
    table, seed = covariates.table_of(evidence, chosen), crossfit.seed_of(place)
    alone = covariates.independent_share(evidence.member, covariates.codes(evidence))
    models = stack.Folds.of_table(table, chosen, evidence.member, line.folds, independent=alone, seed=seed)
    logit, shares = stack.log_odds(models, {"line": line.logit})
    logit, directions = _targeted(models, logit)
    learners = ", ".join(f"{share:.2f} of {name}" for name, share in shares.items() if share >= 0.005)
    learners += f"; {directions} targeted steps" if directions else ""
    return replace(
        line,
        values=logistic.expit(logit),
        how=f"cross-fitted in {len(models.designs)} folds: {_named(chosen)}, a stack ({learners or 'of nothing'})",
        clip=float(logistic.expit(np.array(-stack.MOST_LOG_ODDS))),
        clipped=float((np.abs(logit) >= stack.MOST_LOG_ODDS).mean()),
        logistic=False,
        models=models,
        line=line,
    )


def _targeted(models: stack.Folds, logit: FloatArray) -> tuple[FloatArray, int]:
    """Return log-odds (n,) with a step along what they miss, weighed as a learner, and how many directions it has."""
    added, directions = targeted_step.step(models.sorted_x, models.member, logit, models.fold, models.independent)
    if not directions:
        return logit, 0
    return stack.combined(np.column_stack([logit, added]), models.member)[0], directions


class Refitting(TypedDict, total=False):
    """Keywords of :func:`miaudit.causal.crossfit.refits`, see :func:`bootstrap`."""

    classifier: Any
    encoding: Encoding | None
    folds: int | ArrayLike
    clip: float
    strength: float | None
    counts: ArrayLike | None
    workers: int
    enlarge: crossfit.Enlarge | None
    rng: Required[np.random.Generator]


def bootstrap(
    evidence: Evidence,
    train: Evidence | None = None,
    replicates: int = 600,
    *,
    screened: bool = False,
    **options: Unpack[Refitting],
) -> FloatArray:
    """Refit the propensity on resamples of its training records; the audited records stay the same.

    Encoding, strength and calibration are those of the original fit; the model's coefficients are refitted. A
    replicate lies about the calibrated value as far as the uncalibrated log-odds moved: a calibration that shrinks them
    shows that they are poor, not that they are certain. The logistic model is solved for all replicates together: one
    Hessian, that of the original fit, serves every replicate, and a replicate for which that is not enough gets Newton
    steps of its own. Any other classifier is fitted replicate by replicate, in ``workers`` processes; the result does
    not depend on their number.

    Parameters
    ----------
    evidence, classifier, encoding, folds, clip, strength : as in :func:`fit`
    train : separate records to learn from and to resample; default: cross-fitted on ``evidence``
    replicates : number of resamples
    counts : array (replicates, rows) of how often each record was drawn, optional; default :func:`resample`
    screened : as in :func:`fit`; every replicate is screened again
    workers : number of processes for a classifier other than the default
    rng : generator of resamples, folds and seeds

    Returns
    -------
    array (replicates, n)
        Propensities of the records of ``evidence``, clipped; higher means more like the members.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> evidence = Evidence(score=x[:, 1], member=rng.random(500) < 0.5, covariates=x)
    >>> bootstrap(evidence, replicates=20, rng=rng).shape
    (20, 500)
    """
    check_generator(options.get("rng"))
    if screened:
        chosen = crossfit.encoding_of(evidence, options.get("encoding"))
        options["enlarge"] = screen.enlarging(chosen, options.get("classifier"))
    counts, blocks = crossfit.refits(evidence, train, replicates, **options)
    propensities = np.empty((len(counts), evidence.n))
    for block, values in blocks:
        propensities[block] = values
    return propensities


def held_out_logits(
    evidence: Evidence,
    classifiers: Sequence[Any],
    *,
    encoding: Encoding | None = None,
    inner: int = crossfit.INNER_FOLDS,
    screened: bool = False,
    rng: np.random.Generator,
) -> tuple[IntArray, list[FloatArray]]:
    """Fit each classifier on a random half of the units and apply it to the other half.

    Parameters
    ----------
    evidence, encoding, rng : as in :func:`fit`
    classifiers : scikit-learn classifiers with ``predict_proba``; None is the default model
    inner : folds of that half on which a classifier is calibrated
    screened : whether the default model is enlarged, as in :func:`fit`

    Returns
    -------
    rows : array (m,), ascending: one record, drawn at random, of each unit of the other half
    logits : for each classifier an array (m,), the calibrated log-odds of membership of those records

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> evidence = Evidence(score=x, member=x + rng.normal(size=100) > 0, covariates=x)
    >>> rows, (logit,) = held_out_logits(evidence, [None], rng=rng)
    >>> rows.shape, logit.shape
    ((50,), (50,))
    """
    check_generator(rng)
    chosen = crossfit.encoding_of(evidence, encoding)
    for classifier in classifiers:
        crossfit.check_classifier(classifier)
    place, learn = rng.spawn(2)
    table = covariates.table_of(evidence, chosen)
    code = covariates.codes(evidence)
    part = covariates.fold_part(
        table, evidence.member, code, covariates.folds_of(2, evidence.member, code, place) == 0, 0.0
    )

    def logit_of(task: tuple[Any, np.random.Generator]) -> FloatArray:
        classifier, seed = task
        enlarge = screen.enlarging(chosen, None) if screened and classifier is None else None
        return Learner(chosen, classifier, enlarge=enlarge, inner=inner).learn(part, seed).logit(part.apply)

    logits = at_once(logit_of, zip(classifiers, learn.spawn(len(classifiers)), strict=True), *classifiers)
    selected = one_of_each(code[part.held_out], place)
    return np.flatnonzero(part.held_out)[selected], [logit[selected] for logit in logits]


def rows_per_covariate(evidence: Evidence, *, encoding: Encoding | None = None, seed: int = 0) -> float:
    """Return the number of rows for each encoded covariate; below 40, bounds are not testable.

    Examples
    --------
    >>> rows_per_covariate(Evidence(score=range(6), member=[0, 1] * 3, covariates=np.eye(6)[:, :2]))
    3.0
    """
    chosen = crossfit.encoding_of(evidence, encoding)
    table = covariates.table_of(evidence, chosen)
    features = covariates.fit(chosen, table, seed=seed)(table)
    return float(evidence.n / features.shape[1])


def _model_named(classifier: Any, strengths: Sequence[float]) -> str:
    if classifier is not None:
        return type(classifier).__name__
    low, high = min(strengths), max(strengths)
    return f"L2 logistic regression (C {low:.2g}{'' if low == high else f' to {high:.2g}'})"


def _named(encoding: Encoding) -> str:
    """Name the features of an encoding, with the name of a caller's own function."""
    match encoding:
        case Custom(function=function):
            return f"features of {getattr(function, '__name__', type(function).__name__)}"
        case Text(beside=beside):
            return "TF-IDF of texts" + ("" if beside == Text().beside else f" beside {_named(beside)}")
        case Categories():
            return "columns with coded categories"
        case Images():
            return "principal components of pixels"
        case Reduced():
            return "principal components"
    return "standardised columns"

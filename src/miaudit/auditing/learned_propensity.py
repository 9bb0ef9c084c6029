"""The propensity of zero-run evidence as it is learned, with all that it is judged by afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.arrays import IntArray
from miaudit.auditing.plan import Plan
from miaudit.auditing.seed import AssessmentStreams
from miaudit.causal import covariates, crossfit, duplicates, lack_of_fit, propensity
from miaudit.causal.covariates import Encoding
from miaudit.causal.lack_of_fit import LackOfFit
from miaudit.causal.outcome import Regression
from miaudit.causal.propensity import LearningCurve, Nuisance, Propensity
from miaudit.evidence import Evidence

__all__ = ["Learned", "Training", "folds_of"]


@dataclass(frozen=True, eq=False)
class Training:
    """What a propensity is learned from, and how: resamples learn it alike."""

    evidence: Evidence
    plan: Plan
    nuisance: Nuisance
    encoding: Encoding
    seed: int

    @classmethod
    def of(
        cls, evidence: Evidence, plan: Plan, nuisance: Nuisance, encoding: Encoding, streams: AssessmentStreams
    ) -> Training:
        """Complete the models of the caller, and check that a propensity that was given goes with the evidence.

        Raises
        ------
        InputError
            If it does not.
        """
        if plan.propensity_model == "stack" and nuisance.outcome is None:
            nuisance = replace(nuisance, outcome=Regression(_coded(encoding)))  # read by AIPW only
        if nuisance.propensity is not None:
            nuisance.propensity.matched(evidence)
        return cls(evidence, plan, nuisance, encoding, crossfit.seed_of(streams.propensity))

    @property
    def coded(self) -> tuple[int, ...]:
        """Columns of the covariates that are codes of categories."""
        return _coded(self.encoding)


@dataclass(frozen=True, eq=False)
class Learned:
    """A propensity, and what it is judged by.

    Attributes
    ----------
    propensity : of the metrics
    curve : learning curve of a line or a classifier; None of a stack, or of a propensity that was given
    seen : the evidence with the covariates that the propensity could see
    twins : equal and nearly equal records across the classes, with a note; None without covariates and texts
    line_of_bounds : what bounds rest on beside the propensity; None without bounds, or where it is the same
    fit, fit_of_line : lack of fit of the propensity and of that line; None where there is nothing to test
    moved : a refuted stack, moved along what refutes it; only scores tell whether that matters
    """

    propensity: Propensity
    curve: LearningCurve | None
    seen: Evidence
    twins: tuple[duplicates.Twins, str] | None
    line_of_bounds: Propensity | None
    fit: LackOfFit | None = None
    fit_of_line: LackOfFit | None = None
    moved: tuple[Propensity, ...] = ()

    @classmethod
    def of(cls, training: Training, streams: AssessmentStreams) -> Learned:
        """Learn the propensity by cross-fitting, and test what it misses.

        Raises
        ------
        InputError
            If it cannot be learned.
        """
        evidence = training.evidence
        # Balance is asked of what the propensity could see: components, not the hundreds of columns behind them.
        seen = covariates.compared(evidence, training.encoding, seed=crossfit.seed_of(streams.compared))
        twins = _twins(evidence, streams.twins)
        model, curve = _model(training, streams.curve)
        if model.features is None:
            model = replace(model, features=seen.covariates)
        learned = cls(model, curve, seen, twins, _line_of_bounds(training, model))
        return learned if seen.covariates is None else learned._tested(streams.challenge)

    def _tested(self, rng: np.random.Generator) -> Learned:
        """Test the propensity and the line of the bounds for lack of fit, against the same challenger."""
        trees = lack_of_fit.Challenger.of(self.seen, self.propensity, rng=rng)
        fit = lack_of_fit.measure(self.seen, self.propensity, challenger=trees, rng=rng)
        moved = lack_of_fit.moved(self.seen, self.propensity, fit, trees) if self.propensity.stacked else ()
        tested = replace(self, fit=fit, moved=moved)
        if self.line_of_bounds is None:
            return tested
        return replace(
            tested, fit_of_line=lack_of_fit.measure(self.seen, self.line_of_bounds, challenger=trees, rng=rng)
        )


def folds_of(learned: Propensity) -> int | IntArray:
    """Use the folds of the propensity again, so that its learning curve is that of the same models."""
    return propensity.FOLDS if learned.folds is None else learned.folds.astype(np.int64)


def _coded(encoding: Encoding) -> tuple[int, ...]:
    return encoding.columns if isinstance(encoding, covariates.Categories) else ()


def _model(training: Training, rng: np.random.Generator) -> tuple[Propensity, LearningCurve | None]:
    """Return the propensity, and the learning curve of a line or a classifier."""
    evidence, nuisance, encoding = training.evidence, training.nuisance, training.encoding
    if nuisance.propensity is not None:
        return nuisance.propensity, None
    if training.plan.propensity_model == "stack" and nuisance.classifier is None:
        return propensity.stacked(evidence, encoding=encoding, rng=np.random.default_rng(training.seed)), None
    options: dict[str, Any] = {"classifier": nuisance.classifier, "encoding": encoding}
    learned = propensity.fit(evidence, **options, rng=np.random.default_rng(training.seed))
    return learned, propensity.learning_curve(evidence, **options, folds=folds_of(learned), rng=rng)


def _line_of_bounds(training: Training, learned: Propensity) -> Propensity | None:
    """Return what bounds rest on beside the propensity of the metrics; None without bounds, or where it is the same."""
    plan = training.plan
    if plan.bounds is None:
        return None
    straight = learned if learned.line is None and training.nuisance.propensity is None else learned.line
    if plan.bounds_model == "line" or straight is None or not straight.logistic or straight.folds is None:
        return learned.line
    rng = np.random.default_rng(training.seed)
    evidence = training.evidence
    line = propensity.fit(evidence, encoding=training.encoding, folds=straight.folds, screened=True, rng=rng)
    return replace(line, added=tuple(evidence.spelled(term) for term in line.added))


def _twins(evidence: Evidence, rng: np.random.Generator) -> tuple[duplicates.Twins, str] | None:
    """Count twins across the classes: of texts where there are any, as they say more of a record than its numbers."""
    if evidence.text is not None:
        return duplicates.of_texts(evidence.text.tolist(), evidence.member, rng=rng)
    return None if evidence.covariates is None else duplicates.of_covariates(evidence, rng=rng)

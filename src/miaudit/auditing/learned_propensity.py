"""The propensity of zero-run evidence as it is learned, with all that it is judged by afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.arrays import IntArray
from miaudit.auditing.plan import FALLBACK, Plan
from miaudit.auditing.seed import AssessmentStreams
from miaudit.causal import covariates, crossfit, duplicates, lack_of_fit, progress, propensity
from miaudit.causal.covariates import Encoding
from miaudit.causal.lack_of_fit import Challenger, LackOfFit
from miaudit.causal.outcome import Regression
from miaudit.causal.propensity import LearningCurve, Nuisance, Propensity
from miaudit.dp.zero_run.independent_guesses import LEAST_ROWS_PER_COVARIATE
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
    fit : lack of fit of the propensity; None where there is nothing to test
    fit_of_line : that of what bounds rest on, at the margin that the plan states; None where it is ``fit``
    refuted_line : lack of fit of a line that a screened one took the place of; None where none did
    moved : a refuted stack, moved along what refutes it; only scores tell whether that matters
    trees : the challenger of these tests; None where there is nothing to test
    """

    propensity: Propensity
    curve: LearningCurve | None
    seen: Evidence
    twins: tuple[duplicates.Twins, str] | None
    line_of_bounds: Propensity | None
    fit: LackOfFit | None = None
    fit_of_line: LackOfFit | None = None
    refuted_line: LackOfFit | None = None
    moved: tuple[Propensity, ...] = ()
    trees: Challenger | None = None

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
        with progress.stage("propensity"):
            model, curve = _model(training, streams.curve)
        if model.features is None:
            model = replace(model, features=seen.covariates)
        learned = cls(model, curve, seen, twins, _line_of_bounds(training, model))
        if seen.covariates is None:
            return learned
        with progress.stage("lack of fit"):
            return learned._tested(training.plan, streams.challenge)

    def _tested(self, plan: Plan, rng: np.random.Generator) -> Learned:
        """Test the propensity and what bounds rest on for lack of fit, against the same challenger."""
        trees = lack_of_fit.Challenger.of(self.seen, self.propensity, rng=rng)
        fit = lack_of_fit.measure(self.seen, self.propensity, challenger=trees, rng=rng)
        moved = lack_of_fit.moved(self.seen, self.propensity, fit, trees) if self.propensity.stacked else ()
        tested = replace(self, fit=fit, moved=moved, trees=trees)
        if self.line_of_bounds is None and not _margin(plan):
            return tested
        return replace(tested, fit_of_line=tested._fit_of(self.line_of_bounds or self.propensity, plan, rng))

    def _fit_of(self, line: Propensity, plan: Plan, rng: np.random.Generator) -> LackOfFit:
        return lack_of_fit.measure(self.seen, line, challenger=self.trees, margin=_margin(plan), rng=rng)

    @property
    def fit_for_bounds(self) -> LackOfFit | None:
        """Lack of fit of what bounds rest on, at the margin that the plan states."""
        return self.fit if self.fit_of_line is None else self.fit_of_line

    def falls_back(self, training: Training) -> bool:
        """Whether bounds have to rest on a screened line: their line is refuted by its lack of fit."""
        fit = self.fit_for_bounds
        line, plan = _straight(training, self.propensity), training.plan
        if plan.bounds is None or plan.bounds_model != FALLBACK or line is None or fit is None or not fit.rejected:
            return False
        return line.rows_per_covariate is not None and line.rows_per_covariate >= LEAST_ROWS_PER_COVARIATE

    def with_screened_line(self, training: Training, rng: np.random.Generator) -> Learned:
        """Enlarge the line of the bounds by what its training rows call for, and test it as the line was tested."""
        line = _straight(training, self.propensity)
        assert line is not None  # noqa: S101 (falls_back)
        enlarged = _screened(training, line)
        fit = self._fit_of(enlarged, training.plan, rng)
        return replace(self, line_of_bounds=enlarged, fit_of_line=fit, refuted_line=self.fit_for_bounds)


def _margin(plan: Plan) -> float:
    """How far log-odds may be off, as the plan states for bounds; 0 where it states nothing."""
    return 0.0 if plan.bounds is None or plan.bounds.margin is None else plan.bounds.margin


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
    line = _straight(training, learned)
    return learned.line if line is None or plan.bounds_model != "screened" else _screened(training, line)


def _straight(training: Training, learned: Propensity) -> Propensity | None:
    """Return the line in the covariates, learned from the audited records; None where there is none to enlarge."""
    line = learned if learned.line is None and training.nuisance.propensity is None else learned.line
    return None if line is None or not line.logistic or line.folds is None else line


def _screened(training: Training, line: Propensity) -> Propensity:
    """Return that line, enlarged by what its training rows call for."""
    rng, folds = np.random.default_rng(training.seed), folds_of(line)
    evidence = training.evidence
    enlarged = propensity.fit(evidence, encoding=training.encoding, folds=folds, screened=True, rng=rng)
    return replace(enlarged, added=tuple(evidence.spelled(term) for term in enlarged.added))


def _twins(evidence: Evidence, rng: np.random.Generator) -> tuple[duplicates.Twins, str] | None:
    """Count twins across the classes: of texts where there are any, as they say more of a record than its numbers."""
    if evidence.text is not None:
        return duplicates.of_texts(evidence.text.tolist(), evidence.member, rng=rng)
    return None if evidence.covariates is None else duplicates.of_covariates(evidence, rng=rng)

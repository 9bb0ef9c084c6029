"""One score of zero-run evidence with all that corrects it: the propensity, regressions of the score, tilted weights.

AIPW corrects the AUC and the average effect by regressions. Any other metric rests on weights. Where the regressions
are those of a stack, the weights are tilted so that they carry them (:mod:`miaudit.causal.prognostic_tilt`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.arrays import FloatArray
from miaudit.auditing.plan import Plan
from miaudit.causal import effects, prognostic_tilt, stack
from miaudit.causal.disagreement import Disagreement
from miaudit.causal.estimators import PropensityLike
from miaudit.causal.outcome import FEWEST_NONMEMBERS, Regression
from miaudit.causal.prognostic_tilt import Tilted
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.evidence import Evidence
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate
from miaudit.metrics.roc import Roc

__all__ = ["TILTED", "WEIGHTS", "CorrectedScore", "Row"]

WEIGHTS = "hajek"
TILTED = "tilted"
_CONFIDENCE = 0.95  # of the AUCs whose distance is looked at in standard errors
Row = tuple[str, str, Estimate]  # name, estimator and estimate of a corrected metric


@dataclass(frozen=True, eq=False)
class CorrectedScore:
    """A score with what corrects its metrics; everything is fitted once, and serves every confidence.

    Attributes
    ----------
    evidence : with one score
    propensity : of its records
    estimator : of the metrics that an outcome model corrects: "aipw", "g" or one of weights alone
    outcome : the law of a stack's regressions, which are fitted when they are read, or the model that each estimate
        fits by itself; an estimator of weights alone does not read it
    fprs : at which tilted weights are right where the regressions are
    """

    evidence: Evidence
    propensity: Propensity
    estimator: str
    outcome: Any
    fprs: tuple[float, ...]

    @classmethod
    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def of(
        cls, evidence: Evidence, propensity: Propensity, plan: Plan, nuisance: Nuisance, *, rng: np.random.Generator
    ) -> CorrectedScore:
        """Fit the regressions of a score.

        Where there are too few non-members (in a group), or nothing to regress on, the weights alone are used.
        """
        described = evidence.covariates is not None or evidence.text is not None
        enough, outcome = evidence.n_nonmembers >= FEWEST_NONMEMBERS, nuisance.outcome
        enough = enough and (described or bool(np.ptp(propensity.odds)))
        estimator = plan.estimator if enough else WEIGHTS
        if enough and isinstance(outcome, Regression):
            outcome = outcome.fit(evidence, propensity, rng)
        return cls(evidence, propensity, estimator, outcome, tuple(plan.fpr_targets))

    @cached_property
    def tilt(self) -> tuple[Tilted, Tilted] | None:
        """The weights tilted once and twice; None without regressions of a stack, or where nothing can be tilted."""
        if self.estimator != "aipw" or not isinstance(self.outcome, stack.Regressed):
            return None
        with threadpool_limits(limits=1):
            return prognostic_tilt.tilted(self.evidence, self.propensity, self.outcome, self.fprs)

    @cached_property
    def weights(self) -> tuple[PropensityLike, ...]:
        """What metrics without an outcome model rest on: their value on the first, their limits on all together.

        Where regressions and weights agree about the AUC, the limits hold those of the weights as they were too: then
        a tilt along the regression of a rare threshold is mostly noise, which its interval does not know.
        """
        if self.tilt is None:
            return (self.propensity,)
        no_draws: Any = None  # regressions of a stack are there already
        gap = self.disagreement(_CONFIDENCE, rng=no_draws)
        return self.tilt if gap is None or gap.exceeds else (*self.tilt, self.propensity)

    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def metrics(
        self, names: Sequence[str], confidence: float, *, rng: np.random.Generator
    ) -> dict[str, tuple[str, Estimate]]:
        """Return the estimator and the estimate of metrics, by the names of the classical ones."""
        estimates = {}
        for name in names:
            metric = definition.of(name)
            by_weights = not metric.outcome_model or self.estimator == WEIGHTS
            method = self.estimator if metric.outcome_model else TILTED if self.tilt else WEIGHTS
            options: dict[str, Any] = {
                "method": WEIGHTS if by_weights else method,
                "outcome": None if by_weights else self.outcome,
                "confidence": confidence,
                "rng": rng,
            }
            weights = self.weights if by_weights else (self.propensity,)
            each = [effects.of(metric)(self.evidence, one, **options) for one in weights]
            estimates[name] = method, _hull(each)
        return estimates

    def rows(self, names: Sequence[str], confidence: float, *, rng: np.random.Generator) -> Iterator[Row]:
        """Yield name, estimator and estimate of each metric, and after it what the weights alone say."""
        alone = replace(self, estimator=WEIGHTS)
        for name, (method, estimate) in self.metrics(names, confidence, rng=rng).items():
            yield name, method, estimate
            if method != WEIGHTS:
                yield name, *alone.metrics([name], confidence, rng=rng)[name]

    def disagreement(self, confidence: float, *, rng: np.random.Generator) -> Disagreement | None:
        """Compare the AUC by AIPW with that of the weights alone; None without an outcome model."""
        if self.estimator != "aipw" and not isinstance(self.outcome, stack.Regressed):
            return None
        by_both = (replace(self, estimator=one).metrics(["auc"], confidence, rng=rng) for one in ("aipw", WEIGHTS))
        modelled, weighted = (one["auc"][1] for one in by_both)
        return Disagreement.of(modelled, weighted)

    def weighted_by(self, propensity: Propensity) -> CorrectedScore:
        """Return the score with the same regressions, and with other weights."""
        return replace(self, propensity=propensity)

    def tpr_band(self, fpr: FloatArray, confidence: float) -> tuple[Roc, FloatArray, FloatArray]:
        """Return the ROC curve with limits (k,) of the TPR at each FPR (k,)."""
        each = [effects.tpr_band(self.evidence, one, fpr, confidence=confidence) for one in self.weights]
        low, high = np.min([band[1] for band in each], axis=0), np.max([band[2] for band in each], axis=0)
        return each[0][0], low, high

    def effective_nonmembers(self, confidence: float) -> float:
        """Return how many non-members a low FPR rests on: independent ones, as heavy as the heaviest."""
        return min(effects.effective_nonmembers(self.evidence, one, confidence=confidence) for one in self.weights)


def _hull(each: Sequence[Estimate]) -> Estimate:
    """The first estimate, with limits that hold those of all."""
    return replace(each[0], low=min(one.low for one in each), high=max(one.high for one in each))

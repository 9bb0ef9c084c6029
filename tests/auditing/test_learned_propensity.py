"""A propensity as it is learned, and what it is judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, Plan
from miaudit.auditing.learned_propensity import Learned, Training, folds_of
from miaudit.auditing.plan import Bounds
from miaudit.auditing.seed import AssessmentStreams
from miaudit.causal.covariates import Categories, Numbers
from miaudit.causal.outcome import Regression
from miaudit.causal.propensity import FOLDS, Nuisance, Propensity
from miaudit.errors import InputError

X = np.random.default_rng(0).normal(size=(800, 2))
EVIDENCE = Evidence(
    score=X[:, 0],
    member=np.random.default_rng(1).random(800) < special.expit(X[:, 0]),
    covariates=X,
    design="zero-run",
)
LINE: dict[str, Any] = {"propensity_model": "line", "estimator": "hajek"}


def learned(plan: Plan, nuisance: Nuisance, evidence: Evidence = EVIDENCE) -> Learned:
    streams = AssessmentStreams.of(np.random.default_rng(2))
    return Learned.of(Training.of(evidence, plan, nuisance, Numbers(), streams), streams)


@pytest.mark.long
def test_a_line_comes_with_its_learning_curve_and_its_lack_of_fit() -> None:
    without = learned(Plan(**LINE, bounds=None), Nuisance())
    assert without.curve is not None
    assert without.fit is not None
    assert without.line_of_bounds is without.fit_of_line is None
    screened = learned(Plan(**LINE, bounds=Bounds(), bounds_model="screened"), Nuisance())
    assert np.array_equal(screened.propensity.values, without.propensity.values)
    assert screened.line_of_bounds is not None
    assert screened.line_of_bounds.screened
    assert screened.fit_of_line is not None


def test_a_given_propensity_is_kept_and_nothing_is_tested_without_covariates() -> None:
    given = Propensity.given(np.full(800, 0.5))
    bare = EVIDENCE.replace(covariates=None)
    outcome = learned(Plan(**LINE, bounds=None), Nuisance(propensity=given), bare)
    assert np.array_equal(outcome.propensity.values, given.values)
    assert outcome.curve is outcome.twins is outcome.fit is None
    assert folds_of(outcome.propensity) == FOLDS


def test_a_training_completes_the_models_of_the_caller() -> None:
    streams = AssessmentStreams.of(np.random.default_rng(2))
    stack = Training.of(EVIDENCE, Plan(), Nuisance(), Categories((1,)), streams)
    assert stack.nuisance.outcome == Regression((1,))
    assert stack.coded == (1,)
    line = Training.of(EVIDENCE, Plan(**LINE), Nuisance(), Numbers(), streams)
    assert line.nuisance.outcome is None
    assert line.coded == ()
    with pytest.raises(InputError):
        Training.of(EVIDENCE, Plan(), Nuisance(propensity=Propensity.given(np.full(7, 0.5))), Numbers(), streams)


@pytest.mark.long
def test_bounds_fall_back_to_a_screened_line_where_a_test_refutes_the_line() -> None:
    both = X[:, 0] * X[:, 1]
    product = EVIDENCE.replace(member=np.random.default_rng(1).random(800) < special.expit(2 * both))
    models = {"line": Plan(bounds=Bounds(), bounds_model="line", **LINE), "default": Plan(bounds=Bounds(), **LINE)}
    streams = AssessmentStreams.of(np.random.default_rng(2))
    for name, plan in models.items():
        for evidence in (EVIDENCE, product):
            training = Training.of(evidence, plan, Nuisance(), Numbers(), streams)
            outcome = Learned.of(training, AssessmentStreams.of(np.random.default_rng(2)))
            assert outcome.falls_back(training) == (name == "default" and evidence is product)
    enlarged = outcome.with_screened_line(training, streams.challenge)
    assert enlarged.line_of_bounds is not None
    assert enlarged.line_of_bounds.added == ("a product of covariate 0 and covariate 1",)
    assert enlarged.refuted_line is outcome.fit
    assert enlarged.fit_of_line is not None
    assert not enlarged.fit_of_line.rejected
    assert np.array_equal(enlarged.propensity.values, outcome.propensity.values)

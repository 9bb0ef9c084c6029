"""The named classifiers: each learns what it is there for, alike for a seed, from as few rows as a line does."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import propensity, stack
from miaudit.causal.classifiers import CLASSIFIERS


def world(n: int) -> Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    member = rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0] * x[:, 1]))
    return Evidence(score=x[:, 0], member=member, covariates=x, design="zero-run")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "sees"), [("boosting", True), pytest.param("forest", True, marks=pytest.mark.long), ("naive-bayes", False)]
)
def test_trees_see_a_product_and_naive_bayes_does_not(name: str, sees: bool) -> None:
    evidence = world(1200)
    truth = 2 * evidence.covariates.prod(axis=1)
    first, again = (
        propensity.fit(evidence, classifier=CLASSIFIERS[name](), folds=2, rng=np.random.default_rng(1))
        for _ in range(2)
    )
    assert np.array_equal(first.values, again.values)
    assert (np.corrcoef(first.logit, truth)[0, 1] > 0.6) == sees


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_they_learn_from_as_few_rows_as_a_line_does(name: str) -> None:
    evidence = world(40)
    found = propensity.fit(evidence, classifier=CLASSIFIERS[name](), folds=2, rng=np.random.default_rng(1))
    assert ((found.values > 0) & (found.values < 1)).all()


def test_boosting_has_the_settings_of_the_trees_in_the_stack() -> None:
    """But for early stopping, which the stack turns off and which only samples of 10,000 and more have."""
    settings = {name: value for name, value in stack._BOOSTED.items() if name != "early_stopping"}
    assert len(settings) == 5
    assert settings.items() <= CLASSIFIERS["boosting"]().get_params().items()

"""The learning curve rises where rows are wanting, and its standard error is DeLong's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from miaudit.causal import learning_curve, propensity
from miaudit.errors import InputError
from miaudit.metrics import classical
from miaudit.metrics.roc import Roc
from worlds.shifted import world


def rng_of(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.long
def test_the_curve_rises_where_it_should() -> None:
    known = propensity.learning_curve(world(1000, 1000, 5, 0.7)[0], rng=rng_of())
    assert not known.rising
    assert abs(known.full - stats.norm.cdf(0.7 / np.sqrt(2))) < 0.03
    assert not propensity.learning_curve(world(1000, 1000, 5, 0.0)[0], rng=rng_of()).rising
    wide = propensity.learning_curve(world(300, 300, 150, 1.5)[0], rng=rng_of())
    assert wide.rising
    assert wide.full - wide.half > 0.02


def test_the_curve_of_another_classifier() -> None:
    evidence, _ = world(300, 300, 2, 0.8)
    curve = propensity.learning_curve(evidence, classifier=GaussianNB(), rng=rng_of())
    assert abs(curve.full - stats.norm.cdf(0.8 / np.sqrt(2))) < 0.06
    assert not curve.rising


@pytest.mark.parametrize("classifier", [None, GaussianNB()])
def test_more_features_than_rows_have_no_curve(classifier: object) -> None:
    evidence, _ = world(30, 30, 70, 0.8)
    with pytest.raises(InputError, match="features"):
        propensity.learning_curve(evidence, classifier=classifier, rng=rng_of())


def test_influences_on_the_auc_give_delongs_variance() -> None:
    evidence, truth = world(80, 60, 2, 1.0)
    score = np.round(truth, 1)
    auc, influence = learning_curve._auc_influence(score, evidence.member)
    roc = Roc.of(score, evidence.member)
    assert np.isclose(auc, roc.auc)
    assert np.isclose(influence @ influence, classical.delong_variance(roc), rtol=0.05)
    assert np.isclose(influence[evidence.member].sum(), 0)

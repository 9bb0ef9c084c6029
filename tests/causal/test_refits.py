"""Replicates of a propensity: their law, and what a resample keeps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from causal.test_propensity import rng_of
from miaudit.causal import propensity, resamples
from worlds.shifted import world


@pytest.mark.long
def test_replicates_of_a_separate_sample_have_the_law_of_the_loop() -> None:
    train, _ = world(150, 150, 3, 0.8, seed=5)
    evidence, _ = world(10, 10, 3, 0.8, seed=6)
    fast = propensity.bootstrap(evidence, train, 400, strength=0.1, rng=rng_of())
    strength = 0.1
    x = np.array(train.covariates)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z, out = (x - mean) / scale, (np.array(evidence.covariates) - mean) / scale
    rng, slow = rng_of(7), []
    for _ in range(400):
        rows = np.r_[rng.integers(0, 150, 150), rng.integers(150, 300, 150)]
        slow.append(LogisticRegression(C=strength).fit(z[rows], train.member[rows]).decision_function(out))
    loop, logit = np.array(slow), np.log(fast / (1 - fast))
    slope = np.polyfit(loop.mean(axis=0), logit.mean(axis=0), 1)[0]
    ratio = logit.std(axis=0) / (max(1, slope) * loop.std(axis=0))
    assert 0.7 < slope < 1.4  # the calibration, held fixed
    assert np.abs(ratio - 1).max() < 0.2
    assert abs(ratio.mean() - 1) < 0.08


def test_counts_of_one_give_the_propensity_itself() -> None:
    evidence, _ = world(100, 80, 3, 0.6)
    folds = propensity.fit(evidence, rng=rng_of()).folds
    ones = np.ones((2, 180), int)
    point = propensity.fit(evidence, folds=folds, rng=rng_of()).values
    drawn = propensity.bootstrap(evidence, folds=folds, counts=ones, rng=rng_of())
    assert np.abs(np.log(drawn / (1 - drawn)) - np.log(point / (1 - point))).max() < 0.02
    assert np.array_equal(drawn[0], drawn[1])


@pytest.mark.long
def test_the_spread_of_replicates_is_the_error_of_the_propensity() -> None:
    evidence, truth = world(200, 200, 4, 0.8, seed=11)
    z = []
    for seed in range(12):
        train, _ = world(1000, 1000, 4, 0.8, seed=100 + seed)
        drawn = propensity.bootstrap(evidence, train, 100, rng=rng_of())
        logit = np.log(drawn / (1 - drawn))
        z.append((propensity.fit(evidence, train=train, rng=rng_of()).logit - truth) / logit.std(axis=0))
    assert 0.6 < np.sqrt(np.mean(np.array(z) ** 2)) < 1.5


def test_resamples_keep_classes_and_strata() -> None:
    evidence, _ = world(30, 50, 1, 0.5)
    folds = np.arange(80) % 3
    counts = propensity.resample(evidence, 200, strata=folds, rng=rng_of())
    for inside, k in product((evidence.member, ~evidence.member), range(3)):
        some = inside & (folds == k)
        assert (counts[:, some].sum(axis=1) == some.sum()).all()
    assert abs(counts.var() - 1) < 0.1
    assert abs(counts.mean(axis=0) - 1).max() < 0.4


@pytest.mark.thorough
@pytest.mark.long
def test_other_classifiers_do_not_depend_on_the_number_of_workers() -> None:
    evidence, _ = world(60, 60, 2, 1.5)
    forest = RandomForestClassifier(2, max_depth=2)
    one, two = (
        propensity.bootstrap(evidence, replicates=4, classifier=forest, folds=2, workers=w, rng=rng_of())
        for w in (1, 2)
    )
    assert np.array_equal(one, two)
    assert len(np.unique(one[:, 0])) > 1


@pytest.mark.long
def test_another_classifier_resamples_like_the_default() -> None:
    train, _ = world(300, 300, 2, 0.8, seed=1)
    evidence, _ = world(15, 15, 2, 0.8, seed=2)
    own = propensity.bootstrap(evidence, train, 150, rng=rng_of())
    loop = propensity.bootstrap(evidence, train, 150, classifier=LogisticRegression(C=1.0), rng=rng_of())
    ratio = np.log(own / (1 - own)).std(axis=0) / np.log(loop / (1 - loop)).std(axis=0)
    assert 0.75 < np.median(ratio) < 1.25


def test_replicates_of_a_classifier_are_fits_to_the_rows_copied_and_lie_about_the_calibrated_value() -> None:
    """A calibration that shrinks the log-odds moves their centre, and does not make them more certain."""
    train, _ = world(30, 30, 2, 0.8, seed=1)
    evidence, _ = world(10, 10, 2, 0.8, seed=2)
    counts = propensity.resample(train, 4, rng=rng_of(3))
    options = {"classifier": GaussianNB(), "clip": 1e-9}
    values = propensity.bootstrap(evidence, train, counts=counts, rng=rng_of(), **options)
    x, out = (np.array(one.covariates) for one in (train, evidence))
    rows = [np.repeat(np.arange(60), count) for count in (np.ones(60, int), *counts)]
    models = [GaussianNB().fit(x[some], train.member[some]).predict_proba(out) for some in rows]
    point, *loop = (np.log(p[:, 1]) - np.log(p[:, 0]) for p in models)
    centre = propensity.fit(evidence, train=train, rng=rng_of(), **options).logit
    assert np.polyfit(point, centre, 1)[0] < 0.95  # the slope of the calibration
    np.testing.assert_allclose(special.logit(values) - centre, loop - point, atol=1e-5)


def test_small_blocks_of_replicates_are_those_of_one_large_block(monkeypatch: pytest.MonkeyPatch) -> None:
    (train, _), (evidence, _) = (world(30, 30, 2, 0.5, seed=seed) for seed in (0, 1))
    large = propensity.bootstrap(evidence, train, 12, strength=1.0, rng=rng_of())
    monkeypatch.setattr(resamples, "_NUMBERS", 300)  # five replicates of sixty records
    small = propensity.bootstrap(evidence, train, 12, strength=1.0, rng=rng_of())
    np.testing.assert_allclose(small, large, rtol=1e-6)

"""Cross-fitting: folds keep classes and units, and no record helps to judge itself."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from causal.test_propensity import rng_of
from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from worlds.shifted import world


def test_folds_are_stratified() -> None:
    evidence, _ = world(101, 57, 2, 0.5)
    folds = propensity.fit(evidence, rng=rng_of()).folds
    assert folds is not None
    for inside in (evidence.member, ~evidence.member):
        assert np.ptp(np.bincount(folds[inside], minlength=5)) <= 1


@pytest.mark.long
@pytest.mark.parametrize("classifier", [None, GaussianNB()])
def test_what_a_record_says_of_itself_never_reaches_its_own_fold(classifier: object) -> None:
    """Labels swapped inside one fold leave its model, hence all propensities there, as they were."""
    evidence, _ = world(100, 100, 3, 0.7)
    folds = propensity.fit(evidence, rng=rng_of()).folds
    assert folds is not None
    before = propensity.fit(evidence, classifier=classifier, folds=folds, rng=rng_of()).values
    member = np.array(evidence.member)
    pair = np.r_[np.flatnonzero((folds == 0) & member)[:1], np.flatnonzero((folds == 0) & ~member)[:1]]
    member[pair] = ~member[pair]
    after = propensity.fit(evidence.replace(member=member), classifier=classifier, folds=folds, rng=rng_of()).values
    assert np.array_equal(before[folds == 0], after[folds == 0])
    assert not np.array_equal(before[folds != 0], after[folds != 0])


@pytest.mark.long
def test_units_stay_in_one_fold_and_memorising_them_does_not_pay() -> None:
    """Every unit has its own place in X and one label: a model that saw the unit would know the label."""
    rng = rng_of(3)
    unit = np.repeat(np.arange(60), 5)
    x = np.repeat(rng.normal(size=(60, 4)), 5, axis=0) + 0.01 * rng.normal(size=(300, 4))
    member = np.repeat(rng.permutation(60) % 2 == 0, 5)
    evidence = Evidence(score=rng.normal(size=300), member=member, covariates=x, unit=unit)
    forest = RandomForestClassifier(8, random_state=0)
    whole = propensity.fit(evidence, classifier=forest, rng=rng_of())
    assert whole.folds is not None
    assert all(len(np.unique(whole.folds[unit == u])) == 1 for u in range(60))
    split = propensity.fit(evidence.replace(unit=None), classifier=forest, rng=rng_of())

    def auc(p: Propensity) -> float:
        return float(
            stats.mannwhitneyu(p.values[member], p.values[~member]).statistic / (member.sum() * (~member).sum())
        )

    assert auc(split) > 0.95
    assert abs(auc(whole) - 0.5) < 0.25
    counts = propensity.resample(evidence, 10, rng=rng_of())
    assert all(np.ptp(counts[:, unit == u], axis=1).max() == 0 for u in range(60))


def test_given_folds_that_split_a_unit_are_refused() -> None:
    evidence, _ = world(20, 20, 1, 0.5, unit=np.repeat(np.arange(20), 2))
    with pytest.raises(InputError, match="unit in two folds"):
        propensity.fit(evidence, folds=np.arange(40) % 2, rng=rng_of())


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("classifier", [GaussianNB(), RandomForestClassifier(15, min_samples_leaf=20)])
def test_any_classifier(classifier: object) -> None:
    evidence, truth = world(400, 400, 2, 1.0)
    found = propensity.fit(evidence, classifier=classifier, rng=rng_of())
    again = propensity.fit(evidence, classifier=classifier, rng=rng_of())
    assert np.corrcoef(found.logit, truth)[0, 1] > 0.85
    assert np.array_equal(found.values, again.values)
    assert not found.logistic


def test_a_clip_outside_is_refused_with_the_one_that_is_used_by_default() -> None:
    default = inspect.signature(propensity.fit).parameters["clip"].default
    evidence, _ = world(20, 20, 1, 0.5)
    with pytest.raises(InputError, match=rf"received 0\.5.*{default:g} is the default"):
        propensity.fit(evidence, clip=0.5, rng=rng_of())

"""Propensities against scikit-learn, against worlds where they are known, and against their own rules."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from miaudit import Evidence
from miaudit.causal import effects, logistic, propensity
from miaudit.causal.covariates import Categories
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from worlds.shifted import world


def rng_of(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- the record


def test_given_values_odds_and_logit() -> None:
    given = Propensity.given([0.2, 0.5, 0.9])
    assert np.allclose(given.odds, [0.25, 1, 9])
    assert np.allclose(given.logit, np.log([0.25, 1, 9]))
    with pytest.raises(ValueError, match="read-only"):
        given.values[0] = 0.3


@pytest.mark.parametrize("values", [[0.0, 0.5], [0.5, 1.0], [0.5, np.nan], [[0.5, 0.5]], [], 0.5])
def test_given_values_outside_are_refused(values: object) -> None:
    with pytest.raises(InputError, match="values"):
        Propensity.given(values)  # type: ignore[arg-type]


def test_lengths_are_checked_when_used() -> None:
    evidence, _ = world(10, 10, 1, 0.5)
    assert Propensity.given(np.full(20, 0.5)).matched(evidence).values.shape == (20,)
    with pytest.raises(InputError, match="propensity"):
        Propensity.given([0.5]).matched(evidence)


# -- against worlds with known propensities


@pytest.mark.long
@pytest.mark.parametrize(("n1", "n0"), [(2000, 2000), (3000, 1000), (1000, 3000)])
def test_the_pooled_propensity_is_found_with_unequal_sizes(n1: int, n0: int) -> None:
    evidence, truth = world(n1, n0, 5, 0.7)
    found = propensity.fit(evidence, rng=rng_of())
    slope, offset = np.polyfit(truth, found.logit, 1)
    assert abs(slope - 1) < 0.15
    assert abs((found.logit - truth).mean()) < 0.08
    assert np.sqrt(np.mean((found.logit - truth) ** 2)) < 0.2
    assert abs(found.values.mean() - n1 / (n1 + n0)) < 0.01
    assert abs(offset) < 0.2


@pytest.mark.long
def test_a_separate_sample_with_another_share_of_members_is_moved_to_the_audited_share() -> None:
    train, _ = world(1000, 4000, 3, 0.7, seed=1)
    evidence, truth = world(3000, 1000, 3, 0.7, seed=2)
    found = propensity.fit(evidence, train=train, rng=rng_of())
    assert found.folds is None
    assert np.sqrt(np.mean((found.logit - truth) ** 2)) < 0.2
    drawn = propensity.bootstrap(evidence, train, 20, rng=rng_of())
    assert abs(np.log(drawn / (1 - drawn)).mean() - truth.mean()) < 0.1


@pytest.mark.long
def test_it_is_calibrated() -> None:
    evidence, _ = world(3000, 3000, 40, 1.0)
    found = propensity.fit(evidence, rng=rng_of())
    for low, high in ((0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 1)):
        some = (found.values >= low) & (found.values < high)
        error = evidence.member[some].mean() - found.values[some].mean()
        assert abs(error) < 4 * np.sqrt(0.25 / some.sum())


def test_no_shift_gives_the_share_of_members() -> None:
    evidence, _ = world(600, 300, 5, 0.0)
    found = propensity.fit(evidence, rng=rng_of())
    assert np.sqrt(np.mean((found.values - 2 / 3) ** 2)) < 0.05


@pytest.mark.long
def test_clipping_is_recorded() -> None:
    evidence, truth = world(1000, 1000, 2, 3.0)
    found = propensity.fit(evidence, clip=0.05, rng=rng_of())
    assert found.values.min() == 0.05
    assert abs(found.clipped - np.mean(np.abs(truth) > np.log(0.95 / 0.05))) < 0.05
    assert propensity.fit(evidence, clip=1e-12, rng=rng_of()).clipped == 0


@pytest.mark.long
def test_both_ends_are_clipped_and_the_estimate_shows_each() -> None:
    """The effect that a user reads has the weights of both clips; with one of the two alone it would be another."""
    evidence, truth = world(300, 300, 1, 2.0)
    evidence, clip = evidence.replace(score=truth), 0.15  # a score that goes with the covariate
    raw = propensity.fit(evidence, clip=1e-9, rng=rng_of()).values
    assert (raw[~evidence.member] < clip).sum() > 30 and (raw[~evidence.member] > 1 - clip).sum() > 3
    fitted = propensity.fit(evidence, clip=clip, rng=rng_of())
    effect = effects.ate(evidence, fitted, method="hajek", rng=rng_of()).value

    def by_hand(low: float, high: float) -> float:
        values = np.clip(raw, low, high)[~evidence.member]
        absent = np.average(evidence.score[~evidence.member], weights=values / (1 - values))
        return float(evidence.score[evidence.member].mean() - absent)

    assert effect == pytest.approx(by_hand(clip, 1 - clip), rel=1e-9)
    for one_sided in (by_hand(clip, 1.0), by_hand(0.0, 1 - clip)):  # the controls
        assert abs(effect - one_sided) > 0.1
    assert (fitted.values.min(), fitted.values.max()) == (clip, 1 - clip)
    replicates = propensity.bootstrap(evidence, replicates=5, clip=clip, rng=rng_of())
    assert (replicates.min(), replicates.max()) == (clip, 1 - clip)


def test_what_is_recorded() -> None:
    x = np.column_stack([rng_of().normal(size=(200, 2)), np.ones(200)])
    evidence = Evidence(score=x[:, 0], member=np.arange(200) % 2, covariates=x, covariate_names=["a", "b", "c"])
    found = propensity.fit(evidence, rng=rng_of())
    assert found.dropped == ("c",)
    assert found.features is not None
    assert found.features.shape == (200, 2)
    assert np.allclose(found.features.mean(axis=0), 0)
    assert found.logistic
    assert found.rows_per_covariate == 100 == propensity.rows_per_covariate(evidence)
    assert "5 folds" in found.how
    assert "logistic" in found.how


# -- cross-fitting


@pytest.mark.long
def test_the_same_generator_gives_the_same_values_and_another_one_others() -> None:
    evidence, _ = world(100, 100, 3, 0.5)
    first, again, other = (propensity.fit(evidence, rng=rng_of(seed)).values for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_refusals() -> None:
    evidence, _ = world(30, 30, 2, 0.5)
    bare = evidence.replace(covariates=None)
    wide, _ = world(30, 30, 48, 0.5)
    other, _ = world(30, 30, 3, 0.5)
    cases: list[tuple[Evidence, dict[str, object], str]] = [
        (bare, {}, "propensity.fit"),
        (wide, {}, "fewer features"),
        (evidence, {"train": evidence}, "100% of the audited rows"),
        (evidence, {"train": evidence.replace(source="elsewhere")}, "train"),
        (evidence, {"train": evidence.replace(score=np.zeros(60))}, "100% of the audited rows"),
        (evidence, {"train": other}, "same"),
        (evidence.take(np.r_[:9, 30:60]), {}, "at least 10 members"),
        (evidence, {"folds": 1}, "folds"),
        (evidence, {"folds": np.zeros(60, int)}, "folds"),
        (evidence, {"folds": (np.arange(60) >= 30).astype(int)}, "beside each fold"),
        (evidence, {"clip": 0.0}, "clip"),
        (evidence, {"clip": 0.5}, "clip"),
        (evidence, {"classifier": LinearSVC()}, "predict_proba"),
        (evidence, {"encoding": "pca"}, "encoding"),
        (evidence, {"strength": 0.0}, "strength"),
        (evidence, {"strength": 1.0, "classifier": GaussianNB()}, "strength"),
    ]
    for of, options, words in cases:
        with pytest.raises(InputError, match=words):
            propensity.fit(of, rng=rng_of(), **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="replicates"):
        propensity.bootstrap(evidence, replicates=0, rng=rng_of())
    with pytest.raises(InputError, match="workers"):
        propensity.bootstrap(evidence, workers=0, rng=rng_of())
    with pytest.raises(InputError, match="counts"):
        propensity.bootstrap(evidence, counts=np.ones((2, 5), int), rng=rng_of())
    assert propensity.fit(wide, refuse_few_rows=False, rng=rng_of()).how.endswith("allowed")


def test_separate_rows_that_repeat_by_chance_are_not_refused_but_shared_ones_are() -> None:
    rng = rng_of()

    def levels(n: int) -> Evidence:
        return Evidence(score=rng.normal(size=n), member=np.arange(n) % 2, covariates=rng.integers(0, 4, size=(n, 3)))

    encoding = Categories((0, 1, 2))
    propensity.fit(levels(300), train=levels(300), encoding=encoding, rng=rng_of())
    evidence, _ = world(100, 100, 2, 0.5)
    train, _ = world(100, 100, 2, 0.5, seed=1)
    x = np.array(train.covariates)
    x[:40] = np.array(evidence.covariates)[:40]
    with pytest.raises(InputError, match="20% of the audited rows"):
        propensity.fit(evidence, train=train.replace(covariates=x), rng=rng_of())


# -- the logistic model against scikit-learn


@pytest.mark.parametrize(
    ("n", "d", "strength", "size"), [(800, 12, 1.0, 0.3), (300, 60, 0.05, 0.5), (200, 8, 1e3, 3.0)]
)
def test_coefficients_and_replicates_agree_with_scikit_learn(n: int, d: int, strength: float, size: float) -> None:
    rng = rng_of(4)
    x = rng.normal(size=(n, d))
    member = rng.random(n) < 1 / (1 + np.exp(-x @ np.full(d, size / np.sqrt(d))))
    ones = np.column_stack([np.ones(n), x])
    penalty = np.r_[0, np.full(d, 1 / strength)]
    start, _ = logistic.minimise(ones, member.astype(float), penalty, np.zeros(d + 1))

    def reference(weight: np.ndarray | None) -> np.ndarray:
        model = LogisticRegression(C=strength, tol=1e-9, max_iter=10_000).fit(x, member, sample_weight=weight)
        return np.r_[model.intercept_, model.coef_[0]]

    assert np.abs(start - reference(None)).max() < 1e-5
    counts = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(12)])
    found = logistic.reweighted(ones, member, counts, penalty, start)
    for weight, beta in zip(counts, found, strict=True):
        expected = reference(weight.astype(float))
        assert np.abs(beta - expected).max() < 1e-4 * max(1, np.abs(expected).max())


@pytest.mark.long
def test_the_strength_is_about_as_good_as_that_of_scikit_learn() -> None:
    evidence, truth = world(400, 400, 30, 1.0)
    x = np.array(evidence.covariates)
    model = LogisticRegressionCV(cv=5, scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False)
    fresh, target = world(400, 400, 30, 1.0, seed=9)
    theirs = model.fit(x, evidence.member).decision_function(np.array(fresh.covariates))
    ours = propensity.fit(fresh, train=evidence, clip=1e-9, rng=rng_of()).logit

    def error(logit: np.ndarray) -> float:
        return float(np.mean((logit - target) ** 2))

    assert error(ours) < 1.25 * error(theirs)
    assert len(truth) == 800


# -- calibration


def test_a_calibration_to_nothing_is_not_mistaken_for_certainty() -> None:
    evidence, _ = world(60, 60, 3, 0.0, seed=2)
    drawn = propensity.bootstrap(evidence, replicates=30, strength=1.0, rng=rng_of())
    assert np.log(drawn / (1 - drawn)).std(axis=0).min() > 0.05


# -- speed, and what an import costs


def test_speed() -> None:
    evidence, _ = world(2000, 2000, 20, 0.5)
    start = time.process_time()
    propensity.fit(evidence, rng=rng_of())
    assert time.process_time() - start < 1


@pytest.mark.long
def test_importing_does_not_load_scikit_learn() -> None:
    code = "import sys, miaudit.causal.propensity; print({'sklearn', 'scipy.stats', 'joblib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([72.7, 22.7, 0.8], "percent\\? divide by 100"),
        ([1.7, -2.0, 0.3], "not its odds or its logarithm"),
        ([100.0, 0.0, 30.0], "percent\\? divide by 100"),
        ([101.0, 40.0, 30.0], "not its odds or its logarithm"),
        ([72.7, 22.7, -0.8], "not its odds or its logarithm"),
        ([1.0, 0.5], "can only be members"),
        ([0.5, 0.0], "can only be members"),
    ],
)
def test_what_is_no_probability_is_named(values: list[float], step: str) -> None:
    with pytest.raises(InputError, match=step):
        Propensity.given(values)

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from miaudit import Evidence
from miaudit.causal import stack
from miaudit.causal.outcome import Law, LocationScale, Regression, default_regressor, draw_folds, law_of
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from worlds.confounded import Confounded


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def fitted() -> tuple[np.ndarray, np.ndarray, Law]:
    evidence, _ = Confounded(curve=0.3, spread=0.3).draw(4000, 8000, rng())
    law = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    return evidence.covariates[:, 0], evidence.member, law


@pytest.mark.long
def test_the_law_of_a_location_scale_world(fitted: tuple[np.ndarray, np.ndarray, Law]) -> None:
    x, _, law = fitted
    middle = np.abs(x) < 1.5
    assert np.abs(law.mean - (x + 0.3 * x**2))[middle].max() < 0.2
    for t in (-1.0, 0.5, 2.0):
        truth = stats.norm.sf((t - x - 0.3 * x**2) / np.exp(0.3 * x))
        assert np.abs(law.exceedance(t) - truth)[middle].max() < 0.08


def test_one_scale_for_all_is_worse(fitted: tuple[np.ndarray, np.ndarray, Law]) -> None:
    evidence, _ = Confounded(curve=0.3, spread=0.6).draw(2000, 6000, rng())  # control
    x = evidence.covariates[:, 0]
    truth = stats.norm.sf((3.0 - x - 0.3 * x**2) / np.exp(0.6 * x))
    error = [
        np.abs(
            LocationScale(scale=s).fit(evidence.covariates, evidence.score, evidence.member, rng=rng()).exceedance(3.0)
            - truth
        ).mean()
        for s in (True, False)
    ]
    assert error[0] < 0.7 * error[1]


@pytest.mark.long
def test_monotone_in_the_threshold_and_all_at_once(fitted: tuple[np.ndarray, np.ndarray, Law]) -> None:
    _, member, law = fitted
    thresholds = np.linspace(-4, 8, 25)
    one_by_one = np.array([law.exceedance(t) for t in thresholds])
    assert (np.diff(one_by_one, axis=0) <= 1e-12).all()
    assert law.exceedance(-1e9) == pytest.approx(1)
    assert law.exceedance(1e9) == pytest.approx(0)
    weight = np.where(member, 1.0, -rng().random(law.n))
    assert law.weighted_exceedance(weight, thresholds) == pytest.approx(one_by_one @ weight)
    assert law.expected(lambda y: y) == pytest.approx(law.mean)


def test_nobody_predicts_itself() -> None:
    """A regressor that memorises would give residuals of zero without cross-fitting."""
    x, y = rng().normal(size=(300, 1)), rng(1).normal(size=300)
    law = LocationScale(KNeighborsRegressor(1), scale=False).fit(x, y, np.arange(300) < 100, rng=rng())
    assert np.mean((y[100:] - law.centre[100:]) ** 2) > 1.2  # 2 in truth, 0 with itself
    moved = y.copy()
    moved[200] += 100
    after = LocationScale(KNeighborsRegressor(1), scale=False).fit(x, moved, np.arange(300) < 100, rng=rng())
    same_fold = law.fold == law.fold[200]
    assert (after.centre[same_fold] == law.centre[same_fold]).all()


def test_only_nonmembers_are_learned_from() -> None:
    x, y, a = rng().normal(size=(300, 2)), rng(1).normal(size=300), np.arange(300) < 100
    moved = np.where(a, y + 1000, y)
    one, other = (LocationScale().fit(x, values, a, rng=rng()) for values in (y, moved))
    assert (one.centre == other.centre).all()
    assert (one.mean == other.mean).all()


def test_any_regressor() -> None:
    evidence, _ = Confounded(curve=0.5).draw(500, 2000, rng())
    law = LocationScale(DecisionTreeRegressor(min_samples_leaf=30, random_state=0), folds=3).fit(
        evidence.covariates, evidence.score, evidence.member, rng=rng()
    )
    x = evidence.covariates[:, 0]
    assert np.corrcoef(law.mean, x + 0.5 * x**2)[0, 1] > 0.9
    assert "DecisionTree" in law.how


def test_folds_hold_whole_units_and_equal_shares() -> None:
    member = np.arange(100) < 30
    fold = draw_folds(member, 5, None, rng())
    assert np.bincount(fold[member]).tolist() == [6] * 5
    assert np.bincount(fold[~member]).tolist() == [14] * 5
    unit = np.arange(100) // 4
    fold = draw_folds(member, 5, unit, rng())
    assert all(len(set(fold[unit == u])) == 1 for u in range(25))


def test_a_constant_score_and_tied_scores() -> None:
    x, a = rng().normal(size=(80, 2)), np.arange(80) < 40
    law = LocationScale().fit(x, np.full(80, 3.0), a, rng=rng())
    assert law.mean == pytest.approx(3)
    exact = LocationScale(DummyRegressor()).fit(x, np.full(80, 3.0), a, rng=rng())
    for threshold, share in ((2.999, 1.0), (3.0, 1.0), (3.001, 0.0)):  # at least the threshold
        assert exact.exceedance(threshold) == pytest.approx(np.full(80, share))
        assert exact.weighted_exceedance(np.ones(80), [threshold]) == pytest.approx([80 * share])
    tied = LocationScale().fit(x, (x[:, 0] > 0).astype(float), a, rng=rng())
    assert np.isfinite(tied.mean).all()
    assert ((tied.exceedance(0.5) >= 0) & (tied.exceedance(0.5) <= 1 + 1e-12)).all()


def test_bad_input() -> None:
    x, y, a = rng().normal(size=(60, 2)), rng().normal(size=60), np.arange(60) < 30
    with pytest.raises(InputError, match="fit and predict"):
        LocationScale("ridge").fit(x, y, a, rng=rng())
    with pytest.raises(InputError, match="at least 2"):
        LocationScale(folds=1).fit(x, y, a, rng=rng())
    with pytest.raises(InputError, match="hajek"):
        LocationScale().fit(x, y, np.arange(60) < 50, rng=rng())
    with pytest.raises(InputError, match="as many rows"):
        LocationScale().fit(x[:-1], y, a, rng=rng())


@pytest.mark.long
def test_of_very_many_records_regressions_learn_from_a_part_and_predict_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "MOST_LEARNED", 400)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 2))
    evidence = Evidence(score=x[:, 0] + rng.normal(size=1200), member=rng.random(1200) < 0.5, covariates=x)
    law = Regression().fit(evidence, Propensity.given(np.full(1200, 0.5)), np.random.default_rng(1))
    assert law.how.endswith("learned from 400 of 1,200 records")
    assert np.corrcoef(law.mean, x[:, 0])[0, 1] > 0.9
    others = np.ones(1200, dtype=np.bool_)
    others[law.folds.training_rows] = False
    changed = evidence.replace(score=np.where(others, 9.0, evidence.score))  # what is not learned from is not read
    again = Regression().fit(changed, Propensity.given(np.full(1200, 0.5)), np.random.default_rng(1))
    assert np.array_equal(again._learned[0].leaves, law._learned[0].leaves)
    assert all(made.shape == (400, law.folds.features[0].shape[1]) for made in law.folds.features.values())


@pytest.mark.long
def test_an_outcome_is_regressed_on_the_covariates_and_not_on_what_a_propensity_made_of_them() -> None:
    evidence, known = Confounded().draw(60, 140, rng())
    features = rng(1).normal(size=(evidence.n, 1))
    encoded = SimpleNamespace(values=known.values, odds=known.odds, features=features)
    expected = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng(2))
    np.testing.assert_array_equal(law_of(None, evidence, encoded, rng(2)).mean, expected.mean)
    bare = evidence.replace(covariates=None, covariate_names=None)
    of_features = LocationScale().fit(features, evidence.score, evidence.member, rng=rng(2))
    np.testing.assert_array_equal(law_of(None, bare, encoded, rng(2)).mean, of_features.mean)
    with pytest.raises(InputError, match="evidence without covariates"):
        law_of(None, bare, known, rng(2))
    assert law_of(expected, evidence, encoded, None) is expected
    with pytest.raises(InputError, match="a law of 100 records"):
        law_of(expected, evidence.take(np.arange(100)), encoded, None)


def test_a_regressor_reads_the_covariates_unless_there_are_texts() -> None:
    draws = rng(3)
    x, features = draws.normal(size=(2, 80, 1))
    evidence = Evidence(score=x[:, 0] + 5 * features[:, 0], member=np.arange(80) < 30, covariates=x)
    encoded = SimpleNamespace(features=features)
    model = LocationScale(LinearRegression(), folds=2, scale=False)
    expected = {
        name: model.fit(read, evidence.score, evidence.member, rng=rng(2)).mean
        for name, read in (("covariates", x), ("features", features))
    }
    worded = evidence.replace(text=["a word"] * 80)
    for one, name in ((evidence, "covariates"), (worded, "features"), (evidence.replace(covariates=None), "features")):
        np.testing.assert_allclose(law_of(model, one, encoded, rng(2)).mean, expected[name])
    np.testing.assert_allclose(
        law_of(model, worded, SimpleNamespace(features=None), rng(2)).mean, expected["covariates"]
    )


def test_beyond_ten_standard_deviations_a_parabola_goes_on_as_a_line() -> None:
    draws = rng(4)
    x = draws.normal(size=(60, 1))
    model = default_regressor().fit(x, x[:, 0] + x[:, 0] ** 2 + 0.1 * draws.normal(size=60))
    centre, sd = x.mean(), x.std()
    for side in (1, -1):
        near, far = (model.predict([[centre + side * k * sd] for k in places]) for places in ((8, 9, 10), (10, 20, 30)))
        assert far[2] - far[1] == pytest.approx(far[1] - far[0], rel=1e-9)
        assert abs(near[2] - 2 * near[1] + near[0]) > 0.5  # the control

"""The stack: its shares, its regressions, and what it repairs that a line leaves standing."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from scipy.optimize import nnls
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

import miaudit as ma
from miaudit import Evidence, Nuisance, Plan
from miaudit.causal import effects, propensity, stack
from miaudit.causal.basis import Design
from miaudit.causal.covariates import Categories
from miaudit.causal.outcome import Regression
from miaudit.causal.stack import Folds, Regressed
from miaudit.errors import InputError
from miaudit.metrics.roc import Roc


def folds(x: np.ndarray, member: np.ndarray) -> Folds:
    return Folds.of(x, member, np.arange(len(x)) % 5, names=[str(i) for i in range(x.shape[1])], seed=0)


def line(x: np.ndarray, member: np.ndarray, fold: np.ndarray) -> np.ndarray:
    held = np.empty(len(x))
    for k in np.unique(fold):
        held[fold == k] = LogisticRegression().fit(x[fold != k], member[fold != k]).decision_function(x[fold == k])
    return held


def product(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 3))
    member = rng.random(n) < special.expit(x[:, 0] * x[:, 1])
    return x, member, x[:, 0] * x[:, 1] + rng.normal(size=n)


def test_the_shares_are_those_of_a_logistic_regression_where_none_is_at_an_end() -> None:
    rng = np.random.default_rng(0)
    held = rng.normal(size=(5000, 2))
    member = rng.random(5000) < special.expit(0.3 + held @ [0.7, 0.4])
    twin = LogisticRegression(C=1e9, tol=1e-10).fit(held, member)
    assert np.allclose(stack.weigh(held, member), np.r_[twin.intercept_, twin.coef_[0]], atol=1e-3)


def test_a_learner_that_points_the_wrong_way_has_no_share() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(size=2000)
    member = rng.random(2000) < special.expit(logit)
    shares = stack.weigh(np.column_stack([-logit, logit]), member)
    assert shares[1] == 0
    assert 0.8 < shares[2] < 1.2


def test_the_ridge_has_the_penalty_of_least_generalised_cross_validation() -> None:
    rng = np.random.default_rng(1)
    x, relative = rng.normal(size=(80, 6)), np.array([0.1, 0.1, 1, 1, 1, 1])
    y = x[:, 0] + 0.3 * x[:, 3] + rng.normal(size=80)
    ones = np.c_[np.ones(80), x]
    best = (np.inf, np.zeros(7))
    for penalty in stack._RIDGES:  # the twin: hat matrices, one by one
        gram = ones.T @ ones + np.diag(np.r_[0, penalty * relative])
        hat = ones @ np.linalg.solve(gram, ones.T)
        loss = float(((y - hat @ y) ** 2).sum() / (1 - np.trace(hat) / 80) ** 2)
        if loss < best[0]:
            best = loss, np.linalg.solve(gram, ones.T @ y)
    there = rng.normal(size=(9, 6))
    intercept, slopes = stack._Ridge.of(x, relative).fit(x, y)
    assert np.allclose(intercept + there @ slopes, np.c_[np.ones(9), there] @ best[1])


@pytest.mark.thorough
@pytest.mark.long
def test_regressions_are_those_of_the_straightforward_loop() -> None:
    """Trees asked leaf by leaf, models fitted fold by fold for one target; what is shared changes nothing."""
    rng = np.random.default_rng(8)
    x, member, score = product(240, rng)
    held, target = folds(x, member), score**3
    parts, outside = np.empty((3, 240)), ~member
    for k in range(5):
        out, rows = held.fold == k, (held.fold != k) & outside
        design, _ = Design.fitted(x[held.fold != k], member[held.fold != k], ["0", "1", "2"])
        intercept, slopes = stack._Ridge.of(design(x[rows]), design.ridge).fit(design(x[rows]), target[rows])
        parts[0, out] = intercept + design(x[out]) @ slopes
        boosted = HistGradientBoostingRegressor(**stack._BOOSTED, max_bins=255, random_state=0)
        parts[1, out] = boosted.fit(x[rows], target[rows]).predict(x[out])
        trees = ExtraTreesRegressor(40, min_samples_leaf=4, max_features=3, random_state=0)
        trees.fit(x[rows], np.argsort(np.argsort(score[rows])) + 1.0)
        near, far = trees.apply(x[rows]), trees.apply(x[out])
        parts[2, out] = [
            np.mean([target[rows][near[:, t] == leaf].mean() for t, leaf in enumerate(leaves)]) for leaves in far
        ]
    centre = target[outside].mean()
    shares, _ = nnls((parts[:, outside] - centre).T, target[outside] - centre)
    expected = np.clip(centre + shares @ (parts - centre), target[outside].min(), target[outside].max())
    law = Regressed(held, score)
    assert np.allclose(law.expected(lambda y: y**3), expected, atol=1e-6)
    assert not np.allclose(law.mean, expected, atol=1e-2)  # the control: another function


def test_columns_of_many_levels_keep_a_bin_for_each() -> None:
    rng = np.random.default_rng(9)
    x, member = rng.normal(size=(400, 2)), np.arange(400) % 2 == 0
    assert stack._regression_options(folds(x, member))["max_bins"] == 63
    x[:, 1] = np.arange(400) % 100
    assert stack._regression_options(folds(x, member))["max_bins"] == 255


@pytest.mark.thorough
@pytest.mark.long
def test_nobody_is_predicted_by_models_that_saw_them() -> None:
    """Membership and scores of one fold turned round: its designs, and the trees behind it, stay as they are."""
    rng = np.random.default_rng(2)
    x, member, _ = product(600, rng)
    fold = np.arange(600) % 5
    turned = np.where(fold == 0, ~member, member)
    one, other = folds(x, member), folds(x, turned)
    assert np.array_equal(one.features[0], other.features[0])
    held, again = np.empty(600), np.empty(600)
    for k in range(5):
        stack._boosted(one, k, held)
        stack._boosted(other, k, again)
    assert np.array_equal(held[fold == 0], again[fold == 0])
    assert not np.isclose(held[fold == 1], again[fold == 1]).any()  # the control: these learned from fold 0


def test_log_odds_stay_within_seven() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 2))
    member = x[:, 0] > 0
    held = folds(x, member)
    logit, _ = stack.log_odds(held, {"line": 100 * x[:, 0]})
    assert np.abs(logit).max() == 7


@pytest.mark.long
def test_the_stack_repairs_what_a_line_leaves_standing() -> None:
    """Nothing is memorised, so that the AUC against weighted non-members is one half; the line leaves +.13."""
    bent, straight, shares = [], [], []
    for rng in np.random.default_rng(4).spawn(5):
        x, member, score = product(2000, rng)
        held = folds(x, member)
        own = line(x, member, held.fold)
        logit, share = stack.log_odds(held, {"line": own})
        inside = np.sort(score[member])
        h = 1 - np.searchsorted(inside, score[~member]) / len(inside)
        for found, values in ((bent, logit), (straight, own)):
            weight = np.exp(values[~member])
            found.append(float(weight @ h / weight.sum()))
        shares.append(share["basis"])
        assert np.corrcoef(special.expit(logit), special.expit(x[:, 0] * x[:, 1]))[0, 1] > 0.9
    assert abs(np.mean(bent) - 0.5) < 0.02
    assert np.mean(straight) > 0.6  # the control
    assert min(shares) > 0.7


# -- the propensity and the estimates that are made of it -------------------------------------------------------------


def shifted(n: int = 1200, seed: int = 5, effect: float = 0.0, **fields: object) -> Evidence:
    rng = np.random.default_rng(seed)
    x, member, score = product(n, rng)
    given = {"covariates": x, "design": "zero-run", **fields}
    return Evidence(score=score + effect * member, member=member, **given)  # type: ignore[arg-type]


def learned(evidence: Evidence, **options: object) -> propensity.Propensity:
    return propensity.stacked(evidence, rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_stacked_propensity_says_how_it_came_about_and_is_the_same_again() -> None:
    evidence = shifted()
    found = learned(evidence)
    assert np.array_equal(found.values, learned(evidence).values)
    assert found.how.startswith("cross-fitted in 5 folds: standardised columns, a stack (")
    assert (found.logistic, found.stacked, found.folds is None, found.values.shape) == (False, True, False, (1200,))
    assert Nuisance(propensity=found).of_rows(np.arange(600)).propensity.stacked  # type: ignore[union-attr]
    assert found.rows_per_covariate == 400


@pytest.mark.long
def test_units_stay_whole_and_categories_are_no_amounts() -> None:
    rng = np.random.default_rng(6)
    level = rng.normal(size=30)
    unit = np.repeat(np.arange(600), 2)
    site = rng.integers(0, 30, 600)[unit]
    member = rng.random(600)[unit] < special.expit(level[site])
    evidence = Evidence(score=level[site], member=member, covariates=np.c_[site, rng.normal(size=1200)], unit=unit)
    found = learned(evidence, encoding=Categories((0,)))
    assert found.folds is not None
    assert (found.folds[0::2] == found.folds[1::2]).all()
    assert np.corrcoef(found.logit, level[site])[0, 1] > 0.8


@pytest.mark.long
def test_copies_of_each_record_leave_the_stack_as_it_is() -> None:
    """Of 450 persons a product is learned, whether each has one record or four that are alike."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(450, 3))
    both = x[:, 0] * x[:, 1]
    member = rng.random(450) < special.expit(both)
    unit = np.repeat(np.arange(450), 4)
    found = learned(Evidence(score=both[unit], member=member[unit], covariates=x[unit], unit=unit))
    assert np.corrcoef(found.logit, both[unit])[0, 1] > 0.85


@pytest.mark.long
def test_texts_join_as_their_components() -> None:
    rng = np.random.default_rng(7)
    member = rng.random(600) < 0.5
    words = np.array(["the red house", "the blue sea", "a green tree", "a grey stone"])
    text = words[np.where(rng.random(600) < 0.7, member * 1, rng.integers(2, 4, 600))].tolist()
    evidence = Evidence(score=rng.normal(size=600), member=member, text=text)
    found = learned(evidence)
    assert Roc.of(found.logit, member).auc > 0.75


def test_without_covariates_it_is_refused() -> None:
    with pytest.raises(InputError, match=r"evidence\.covariates"):
        learned(Evidence(score=[1.0, 2, 3, 4], member=[1, 0, 1, 0]))


@pytest.fixture(scope="module")
def answered() -> tuple[Evidence, propensity.Propensity]:
    evidence = shifted(2000, effect=0.5)
    return evidence, learned(evidence)


@pytest.mark.long
def test_the_auc_is_that_of_the_formula(answered: tuple[Evidence, propensity.Propensity]) -> None:
    """AIPW with one regression, written out: its value, its standard error, and the hull of its interval."""
    evidence, pi = answered
    rng = np.random.default_rng(1)
    law = Regression().fit(evidence, pi, rng)
    a, y, w = evidence.member, evidence.score, np.where(evidence.member, 0.0, pi.odds)
    inside = np.sort(y[a])
    h = 1 - np.searchsorted(inside, y) / len(inside)  # no ties here
    m, share = law.expected(lambda y: 1 - np.searchsorted(inside, y) / len(inside)), w / w.sum()
    value, weighted = m[a].mean() + share @ (h - m), share @ h
    below = np.array([share @ (y < score) for score in y[a]])
    parts = np.zeros((2, len(y)))
    parts[0][a] = (below - below.mean() + m[a] - m[a].mean()) / a.sum()
    parts[0][~a] = (share * (h - m - share @ (h - m)))[~a]
    parts[1][a] = (below - below.mean()) / a.sum()
    parts[1][~a] = (share * (h - weighted))[~a]
    error = np.sqrt(max((part**2).sum() for part in parts))
    found = effects.auc(evidence, pi, method="aipw", outcome=law, rng=rng)
    assert found.value == pytest.approx(value, abs=1e-9)
    ends = [
        special.expit(special.logit(x) + np.array([-1, 1]) * 1.96 * error / (x * (1 - x)))
        for x in (value, 2 * value - weighted)
    ]
    assert found.low == pytest.approx(min(ends[0][0], ends[1][0]), abs=2e-3)
    assert found.high == pytest.approx(max(ends[0][1], ends[1][1]), abs=2e-3)


@pytest.mark.long
def test_the_effect_covers_both_steps_and_the_truth(answered: tuple[Evidence, propensity.Propensity]) -> None:
    evidence, pi = answered
    rng = np.random.default_rng(1)
    law = Regression().fit(evidence, pi, rng)
    found = effects.ate(evidence, pi, method="aipw", outcome=law, rng=rng)
    weighted = effects.ate(evidence, pi, rng=rng)
    assert found.value is not None
    assert weighted.value is not None
    assert found.low < 2 * found.value - weighted.value < found.high
    assert found.low < 0.5 < found.high
    raw = effects.ate(evidence, pi, method="difference", rng=rng)
    assert raw.low > 0.5  # the control: the shift is still in it


def test_a_curve_by_regressions_is_refused_with_the_way_out() -> None:
    evidence = shifted(200)
    given = propensity.Propensity.given(np.full(200, 0.4) + 0.2 * (np.arange(200) % 2))
    with pytest.raises(InputError, match="use method='hajek'"):
        effects.advantage(evidence, given, method="aipw", outcome=Regression(), rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
def test_a_whole_audit_takes_both(answered: tuple[Evidence, propensity.Propensity]) -> None:
    evidence, pi = answered
    plan = Plan(estimator="aipw", primary_metric="auc")
    found = ma.audit(
        evidence, plan=plan, nuisance=Nuisance(propensity=pi, outcome=Regression()), rng=np.random.default_rng(0)
    )
    assert found.verdict.status == "flagged"
    assert found.overlap is not None
    assert found.overlap.fit is not None
    assert found.overlap.fit.limit == 2.33  # judged as a stack is
    causal = next(m for m in found.metrics if (m.name, m.estimator) == ("auc", "aipw"))
    assert "ridge on a basis, boosting and trees" in causal.note
    # The line that came with the stack misses the product, and a screened line takes its place.
    assert found.bounds[0].value > 0
    assert found.challenge is not None
    assert "The line alone is refuted" in found.challenge.text
    straight = replace(plan, bounds_model="line")
    alone = ma.audit(evidence, plan=straight, nuisance=Nuisance(propensity=pi), rng=np.random.default_rng(0))
    assert not alone.bounds
    assert any("Bounds rest on a line" in text for text in alone.no_bound)
    line = ma.audit(evidence, plan=replace(plan, propensity_model="line"), rng=np.random.default_rng(0))
    assert line.verdict.status == "refused"  # the control: a line misses the product


@pytest.mark.long
def test_features_are_held_of_the_records_that_are_learned_from_only() -> None:
    rng = np.random.default_rng(10)
    x, member = rng.normal(size=(20_000, 8)), rng.random(20_000) < 0.5
    fold = np.arange(20_000) % 5
    Folds.of(x[:300], member[:300], fold[:300], names=list("abcdefgh"), seed=0)  # what is imported here is not counted

    def most(kept: np.ndarray | None) -> float:
        tracemalloc.start()
        held = Folds.of(x, member, fold, names=list("abcdefgh"), training_rows=kept, seed=0)
        rows = [part for k in range(5) for part, _ in held.held_out(k)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(20_000))  # each record is held out once
        return peak / (20_000 * 40 * 8 * 5)  # of the features of all records in all folds

    some = np.arange(0, 20_000, 21)
    assert most(some) < 0.5
    assert most(None) > 0.9  # the control
    held = Folds.of(x, member, fold, names=list("abcdefgh"), training_rows=some, seed=0)
    for rows, features in held.held_out(0):
        assert np.allclose(features, held.designs[0](x[rows]))

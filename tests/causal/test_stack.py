"""The stack: its shares, its regressions, and what it repairs that a line leaves standing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression

from miaudit.causal import stack
from miaudit.causal.stack import Folds


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
    assert np.allclose(stack._ridge(x, y, relative, there), np.c_[np.ones(9), there] @ best[1])


def test_nobody_is_predicted_by_models_that_saw_them() -> None:
    """Membership and scores of one fold turned round: its designs, and the trees behind it, stay as they are."""
    rng = np.random.default_rng(2)
    x, member, _ = product(600, rng)
    fold = np.arange(600) % 5
    turned = np.where(fold == 0, ~member, member)
    one, other = folds(x, member), folds(x, turned)
    assert np.array_equal(one.designs[0](x), other.designs[0](x))
    held, again = stack._boosted(one), stack._boosted(other)
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

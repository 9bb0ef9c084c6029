"""What each covariate would change, against a fit without it."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.causal import logistic
from miaudit.causal.basis import Design
from miaudit.causal.benchmarks import SHARE, without_each


def features(x: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, Design]:
    design, columns = Design.fitted(x, member, [str(i) for i in range(x.shape[1])])
    return columns, design


def world(name: str, n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """Covariates (n, 4) and the true log-odds (n,) of membership."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 4))
    if name == "line":
        return x, x[:, 0] - 0.4 * x[:, 1]
    if name == "correlated":
        x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
        return x, x[:, 0] - 0.4 * x[:, 1]
    if name == "bent":
        return x, np.abs(x[:, 0]) - 0.5 * (x[:, 1] > 1)
    return x, 0.8 * x[:, 0] * x[:, 1]  # a product


def fitted(columns: np.ndarray, member: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    ones = logistic.with_ones(columns)
    beta, _ = logistic.minimise(ones, member.astype(float), np.r_[0.0, ridge], np.zeros(ones.shape[1]))
    return ones @ beta


@pytest.mark.parametrize("name", ["line", "correlated", "bent", "product"])
def test_one_step_is_near_the_fit_without_the_covariate(name: str) -> None:
    x, logit = world(name)
    member = np.random.default_rng(2).random(len(x)) < logistic.expit(logit)
    columns, design = features(x, member)
    whole = fitted(columns, member, design.ridge)
    for one in without_each(whole, columns, design.ridge, design.sources):
        kept = np.array([one.column not in source for source in design.sources])
        refitted = fitted(columns[:, kept], member, design.ridge[kept])
        factor = np.exp(np.quantile(np.abs(whole - refitted), SHARE))
        assert one.factor == pytest.approx(factor, rel=0.12), (name, one.column)
        if factor > 1.3:
            assert np.corrcoef(one.logit, refitted)[0, 1] > 0.97 or np.ptp(refitted) < 1.5


def test_a_covariate_of_which_there_is_a_copy_changes_nothing() -> None:
    x, logit = world("line")
    x[:, 2] = x[:, 0]
    factors = {one.column: one.factor for one in without_each(logit, x, np.ones(4), [frozenset([i]) for i in range(4)])}
    assert factors[0] == pytest.approx(1.0, abs=0.02)
    assert factors[1] == pytest.approx(np.exp(0.4 * 1.645), rel=0.1)
    assert factors[3] == pytest.approx(1.0, abs=0.02)


def test_the_sources_of_a_design_are_the_columns_that_its_features_read() -> None:
    """Twin: a column is shuffled, and the features that change are those that name it."""
    rng = np.random.default_rng(3)
    n = 3000
    x = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 6, size=n), rng.integers(0, 30, size=n), np.ones(n)])
    corner = (x[:, 0] > 1) & (x[:, 1] > 1)
    logit = 1.2 * x[:, 0] * x[:, 1] + (x[:, 2] == 3) * x[:, 1] + 3.0 * corner
    member = rng.random(n) < logistic.expit(logit)
    design, columns = Design.fitted(x, member, list("abcde"), declared=[3])
    assert len(design.sources) == columns.shape[1] == len(design.ridge)
    assert any(len(source) == 2 for source in design.sources)
    for j in range(x.shape[1]):
        other = x.copy()
        other[:, j] = rng.permutation(x[:, j])
        changed = (design(other) != design(x)).any(axis=0)
        assert changed.tolist() == [j in source for source in design.sources] or j == 4

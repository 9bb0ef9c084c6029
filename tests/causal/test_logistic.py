"""The logistic model where its Hessian gives way."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from miaudit import Evidence
from miaudit.causal import logistic, propensity
from miaudit.errors import InputError


def data(n: int = 400, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    return logistic.with_ones(x), (rng.random(n) < logistic.expit(x[:, 0])).astype(float)


def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x[:, 1:], y)
    return np.r_[model.intercept_, model.coef_[0]]


@pytest.mark.parametrize("start", [0.0, 50.0, 400.0])
def test_a_start_where_nothing_curves_finds_the_minimum_all_the_same(start: float) -> None:
    """At log-odds beyond 37 every fitted probability is 1 to the last digit, and the Hessian of the intercept 0."""
    x, y = data()
    point = np.array([start, 0.0, 0.0, 0.0])
    found, _ = logistic.minimise(x, y, logistic.penalty_of(x, 1.0), point)
    assert np.allclose(found, reference(x, y), atol=1e-4)


def test_repeated_and_constant_columns_without_a_penalty() -> None:
    x, y = data()
    wide = np.c_[x, x[:, 1], np.zeros(len(x))]
    found, _ = logistic.minimise(wide, y, np.zeros(wide.shape[1]), np.zeros(wide.shape[1]))
    plain, _ = logistic.minimise(x, y, np.zeros(4), np.zeros(4))
    assert np.allclose(wide @ found, x @ plain, atol=1e-4)


@pytest.mark.parametrize("size", [1e155, 1e200, np.inf])
def test_features_beyond_the_range_of_numbers_are_refused_in_one_line(size: float) -> None:
    x, y = data()
    with pytest.raises(InputError, match="scale the covariates"), np.errstate(all="ignore"):
        logistic.minimise(x * size, y, logistic.penalty_of(x, 1.0), np.zeros(4))


def test_a_replicate_that_starts_at_its_solution_stays_there() -> None:
    x = np.column_stack([np.ones(4), [-1.0, 1.0, -1.0, 1.0]])
    member = np.array([False, True, True, False])  # of no column: the gradient at 0 is exactly 0
    start = np.zeros(2)
    found = logistic.reweighted(x, member, np.ones((3, 4)), logistic.penalty_of(x, 1.0), start)
    assert np.array_equal(found, np.zeros((3, 2)))


def test_replicates_start_where_nothing_curves() -> None:
    x, y = data()
    counts = np.ones((2, len(x)), dtype=np.uint16)
    start = np.array([50.0, 0.0, 0.0, 0.0])
    with np.errstate(all="ignore"):
        found = logistic.reweighted(x, y > 0, counts, logistic.penalty_of(x, 1.0), start)
    assert np.allclose(found, reference(x, y), atol=1e-3)


@pytest.mark.parametrize("far", [1e3, 1e100, 1e149])
def test_one_record_far_away_neither_fails_nor_warns(far: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    x[0, 0] = far
    evidence = Evidence(score=x[:, 1], member=np.arange(300) < 150, covariates=x)
    assert np.isfinite(propensity.fit(evidence, rng=rng).odds).all()
    assert np.isfinite(propensity.bootstrap(evidence, replicates=5, rng=rng)).all()


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_a_hessian_in_single_precision_leads_to_the_same_coefficients(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many rows; columns that all but repeat each other, and numbers beyond single precision, included."""
    rng = np.random.default_rng(6)
    n = logistic._MANY_ROWS + 1
    x = rng.normal(size=(n, 6))
    x[:, 5] = x[:, 4] + 1e-5 * x[:, 5]
    x = logistic.with_ones(x)
    x[:, 1] *= scale
    y = (rng.random(n) < logistic.expit(x[:, 2] - 0.5)).astype(np.float64)
    penalty = logistic.penalty_of(x, logistic.STRENGTHS[-1])
    found, _ = logistic.minimise(x, y, penalty, np.zeros(x.shape[1]))
    monkeypatch.setattr(logistic, "_MANY_ROWS", n)
    exact, _ = logistic.minimise(x, y, penalty, np.zeros(x.shape[1]))
    assert np.allclose(x @ found, x @ exact, atol=1e-6)
    if scale == 1.0:  # where it ends, by a formula of its own; with the other, both stop far from there
        gradient = x.T @ (logistic.expit(x @ found) - y) + penalty * found
        assert np.abs(gradient / np.abs(x).sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.8])
def test_what_steps_of_a_chord_leave_is_the_rest_of_a_geometric_series(rate: float) -> None:
    error, failed = logistic._progress(np.array([0.2 * rate, 0.02 * rate]), np.array([0.2, 0.02]), 1e-6)
    rest = sum(0.2 * rate**k for k in range(2, 200))
    assert error == pytest.approx([rest, rest / 10])
    assert failed.tolist() == [False, False]


def test_steps_that_do_not_shrink_have_failed_unless_they_are_tiny() -> None:
    change = np.array([0.1, 0.095, 0.08, 1e-7])
    _, failed = logistic._progress(change, np.array([0.1, 0.1, 0.1, 1e-7]), 1e-6)
    assert failed.tolist() == [True, True, False, False]


def test_platts_line_through_two_values_has_the_mean_targets_there() -> None:
    """Targets of (n1 + 1) / (n1 + 2) and 1 / (n0 + 2): log-odds of three members are log 4, of the others -log 3."""
    held, y = np.array([1.0, 1.0, 1.0, -1.0, -1.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    slope, offset = logistic.platt(held, y)
    assert offset + slope == pytest.approx(np.log(4), abs=1e-6)
    assert offset - slope == pytest.approx(-np.log(3), abs=1e-6)


def test_the_search_of_a_strength_ends_after_three_that_are_no_better() -> None:
    rng = np.random.default_rng(7)
    x, y = logistic.with_ones(rng.normal(size=(60, 8))), (np.arange(60) % 2).astype(float)  # nothing to learn
    tried: list[float] = []

    class Strengths(list):
        def __iter__(self):
            for strength in super().__iter__():
                tried.append(strength)
                yield strength

    strengths = Strengths(10.0 ** np.arange(-3, 5))
    best, *_ = logistic.choose_strength(x, y, np.arange(60) // 2 % 5, strengths)
    assert best == tried[-4]
    assert len(tried) < len(strengths)

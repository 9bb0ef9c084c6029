"""The closed form of ridge regression against refits, to 1e-8."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.collect import ridge, runs
from miaudit.collect.ridge import Ridge
from miaudit.errors import InputError


def world(n: int, d: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, d))
    return a, a @ rng.normal(size=d) + rng.normal(size=n)


def solve(a, y, penalty):
    """The textbook normal equations."""
    return np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ y)


SHAPES = [(40, 90), (90, 40), (50, 50), (1, 5), (5, 1)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("penalty", [1e-2, 1.0, 1e4])
def test_the_fit_is_the_minimiser(n: int, d: int, penalty: float) -> None:
    a, y = world(n, d)
    model = Ridge.fit(a, y, penalty=penalty)
    assert model.is_dual == (n < d)
    np.testing.assert_allclose(model.coefficients, solve(a, y, penalty), rtol=1e-8, atol=1e-10)
    gradient = a.T @ model.residual(a, y) - penalty * model.coefficients
    np.testing.assert_allclose(gradient, 0, atol=1e-8 * np.abs(a.T @ y).max())


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("penalty", [1e-2, 1.0, 1e4])
def test_inclusion_equals_refitting(n: int, d: int, penalty: float) -> None:
    a, y = world(n + 6, d)
    model, at = Ridge.fit(a[6:], y[6:], penalty=penalty), a[2:8]
    own, elsewhere = model.residual_included(a[:6], y[:6]), model.predict_including(a[:6], y[:6], at)
    for i in range(6):
        rows = [i, *range(6, n + 6)]
        w = solve(a[rows], y[rows], penalty)
        np.testing.assert_allclose(own[i], y[i] - a[i] @ w, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(elsewhere[i], at @ w, rtol=1e-8, atol=1e-8)


def test_inclusion_only_shrinks_a_residual() -> None:
    a, y = world(300, 100)
    model = Ridge.fit(a[50:], y[50:], penalty=1.0)
    assert (model.leverage(a[:50]) > 0).all()
    assert (np.abs(model.residual_included(a[:50], y[:50])) < np.abs(model.residual(a[:50], y[:50]))).all()
    assert model.leverage(np.zeros((1, 100))).tolist() == [0.0]


@pytest.mark.parametrize(("n", "d"), [(60, 100), (100, 60)])
def test_multi_run_equals_the_general_one_with_refits(n: int, d: int) -> None:
    a, y = world(40 + n, d)
    base = np.arange(40, 40 + n)
    closed = ridge.multi_run(a, y, records=40, base=base, penalty=10.0, rng=np.random.default_rng(3))
    general = runs.multi_run(
        lambda rows: solve(a[rows], y[rows], 10.0),
        lambda w, rows: -((y[rows] - a[rows] @ w) ** 2) / 2,
        records=40,
        base=base,
        rng=np.random.default_rng(3),
    )
    assert closed.design == general.design == "multi-run"
    assert closed.member.tolist() == general.member.tolist()
    np.testing.assert_allclose(closed.score, general.score, rtol=1e-8, atol=1e-8)


def test_a_wrong_update_would_be_noticed() -> None:
    a, y = world(106, 60)
    model = Ridge.fit(a[6:], y[6:], penalty=1.0)
    rows = [0, *range(6, 106)]
    refit = y[0] - a[0] @ solve(a[rows], y[rows], 1.0)
    leave_one_out = model.residual(a[:1], y[:1])[0] * (1 - model.leverage(a[:1])[0])  # a formula for another question
    assert abs(leave_one_out - refit) > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": 0.0}, "penalty"),
        ({"penalty": np.nan}, "penalty"),
        ({"targets": np.zeros(3)}, "targets"),
        ({"features": np.zeros(4)}, "features"),
        ({"features": np.full((4, 2), np.inf)}, "finite"),
        ({"features": np.zeros((0, 2))}, "features"),
    ],
)
def test_bad_input(change, message: str) -> None:
    options = {"features": np.ones((4, 2)), "targets": np.ones(4), "penalty": 1.0} | change
    with pytest.raises(InputError, match=message):
        Ridge.fit(**options)


def test_bad_rows() -> None:
    a, y = world(10, 3)
    with pytest.raises(InputError, match="3 columns"):
        Ridge.fit(a, y, penalty=1.0).predict(a[:, :2])
    for records, base in ((5, [4, 6]), (5, [12]), ([11], [0])):
        with pytest.raises(InputError, match="row"):
            ridge.multi_run(a, y, records=records, base=base, penalty=1.0, rng=np.random.default_rng(0))

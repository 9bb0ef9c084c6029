"""Dirichlet fits against a general optimiser, the truth, and inputs that have no maximum."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import optimize, special

from miaudit.attacks import dirichlet_fit
from miaudit.attacks.dirichlet_fit import fit
from miaudit.errors import InputError


def records(n: int, models: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    alpha = np.exp(rng.normal(0, 1, size=(n, classes)))
    return alpha, np.stack([rng.dirichlet(a, size=models) for a in alpha])


def by_general_optimiser(p: np.ndarray) -> np.ndarray:
    """L-BFGS-B in the logarithms of the parameters, as the paper fits (Section V-A)."""
    mean = np.log(p).mean(axis=0)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        a = np.exp(x)
        value = special.gammaln(a).sum() - special.gammaln(a.sum()) - (a - 1) @ mean
        return float(value), a * (special.digamma(a) - special.digamma(a.sum()) - mean)

    found = optimize.minimize(loss, np.zeros(p.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    return np.exp(found.x)


def test_the_maximum_is_that_of_a_general_optimiser() -> None:
    _, p = records(12, 20, 5, seed=0)
    found = fit(p)
    assert found.converged.all()
    for row, alpha in zip(p, found.alpha, strict=True):
        np.testing.assert_allclose(alpha, by_general_optimiser(row), rtol=2e-4)


def test_moments_are_another_estimate() -> None:
    """Control: the starting point is not the maximum."""
    _, p = records(5, 20, 5, seed=1)
    start = dirichlet_fit._from_moments(p.mean(axis=1), p.var(axis=1))
    assert np.max(np.abs(start / fit(p).alpha - 1)) > 0.05


def test_the_truth_is_found_from_many_models() -> None:
    alpha, p = records(4, 20_000, 4, seed=2)
    found = fit(p, smoothing=1e-300).alpha
    np.testing.assert_allclose(found, alpha, rtol=0.05)
    assert np.max(np.abs(found / (1.2 * alpha) - 1)) > 0.1  # control: it would see 20%


def test_only_the_models_of_the_mask_count() -> None:
    _, p = records(6, 40, 3, seed=3)
    mask = np.random.default_rng(4).random((6, 40)) < 0.5
    found = fit(p, mask)
    for i in range(6):
        np.testing.assert_allclose(found.alpha[i], fit(p[i : i + 1, mask[i]]).alpha[0], rtol=1e-6)
    np.testing.assert_array_equal(found.models, mask.sum(axis=1))
    spoilt = np.where(mask[:, :, None], p, np.nan)
    np.testing.assert_allclose(fit(spoilt, mask).alpha, found.alpha)  # the others are not even read


def test_the_likelihood_is_reported_as_it_is() -> None:
    _, p = records(3, 30, 4, seed=5)
    found = fit(p, smoothing=1e-300)
    from miaudit.disclosure.dirichlet import log_density

    np.testing.assert_allclose(found.log_likelihood, log_density(p, found.alpha[:, None]).mean(axis=1), rtol=1e-9)


def test_sure_models_and_tiny_parameters_converge() -> None:
    rng = np.random.default_rng(6)
    alpha = np.array([50.0, 0.02, 0.01, 0.3])
    logs = np.log(rng.standard_gamma(alpha + 1, size=(8, 64, 4))) + np.log(rng.random((8, 64, 4))) / alpha
    found = fit(special.softmax(logs, axis=2), smoothing=1e-300)
    assert found.converged.all()
    assert 0.5 < np.median(found.alpha[:, 1]) / 0.02 < 2


def test_zeros_are_smoothed_and_counted() -> None:
    p = np.array([[[1.0, 0.0], [0.5, 0.5], [0.8, 0.2]]])
    found = fit(p, smoothing=1e-6)
    assert found.smoothed == pytest.approx(1 / 6)
    assert found.smoothing == 1e-6
    assert np.isfinite(found.alpha).all()
    less = fit(p, smoothing=1e-12)
    assert less.alpha.sum() < found.alpha.sum()  # what is assumed for a zero decides: so it is said


@pytest.mark.parametrize("row", [[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
def test_outputs_that_coincide_have_no_maximum(row: list[float]) -> None:
    found = fit(np.tile(row, (1, 8, 1)))
    assert not found.converged[0]
    assert found.alpha.sum() == pytest.approx(dirichlet_fit.LARGEST_TOTAL)


def test_float32_and_float16_outputs() -> None:
    _, p = records(20, 30, 6, seed=7)
    exact = fit(p, smoothing=1e-4).alpha
    np.testing.assert_allclose(fit(p.astype(np.float32), smoothing=1e-4).alpha, exact, rtol=1e-4)
    np.testing.assert_allclose(fit(p.astype(np.float16), smoothing=1e-4).alpha, exact, rtol=0.05)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, p = records(50, 8, 3, seed=8)
    whole = fit(p)
    monkeypatch.setattr(dirichlet_fit, "_BLOCK", 100)
    pieces = fit(p)
    np.testing.assert_allclose(pieces.alpha, whole.alpha)
    assert pieces.smoothed == whole.smoothed


@pytest.mark.long
def test_ten_thousand_records_take_seconds() -> None:
    rng = np.random.default_rng(9)
    logs = np.log(rng.standard_gamma(0.7, size=(10_000, 64, 10)))
    p = special.softmax(logs, axis=2).astype(np.float32)
    start = time.process_time()
    found = fit(p)
    assert found.converged.all()
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("p", "mask", "message"),
    [
        (np.ones((2, 3, 1)), None, "at least two classes, received K = 1"),
        (np.full((2, 3), 0.5), None, r"shape \(n, M, K\)"),
        (np.full((2, 3, 2), 0.7), None, "record 0, model 0: sum 1.4; apply softmax"),
        (np.array([[[0.5, 0.5], [np.nan, 0.5]]]), None, "record 0, model 1"),
        (np.array([[[1.5, -0.5], [0.5, 0.5]]]), None, "add up to 1"),
        (np.full((2, 1, 2), 0.5), None, "at least 2 models for every record, received 1 for record 0"),
        (np.full((2, 3, 2), 0.5), np.array([[True] * 3, [True, False, False]]), "received 1 for record 1"),
        (np.full((2, 3, 2), 0.5), np.ones((3, 2), dtype=bool), r"True or False of shape \(2, 3\)"),
        (np.full((2, 3, 2), 0.5), np.ones((2, 3)), "True or False"),
    ],
)
def test_bad_outputs_are_refused(p: np.ndarray, mask: np.ndarray | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(p, mask)


@pytest.mark.parametrize("smoothing", [0.0, 0.5, -1.0, float("nan"), True])
def test_bad_smoothing_is_refused(smoothing: float) -> None:
    with pytest.raises(InputError, match="smoothing"):
        fit(np.full((1, 2, 2), 0.5), smoothing=smoothing)

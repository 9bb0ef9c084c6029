"""Linear regression by DP-SGD, many models at once: they share the base records and the batches drawn of them.

Each model has its own noise and, where it is given one more record, its own coin for that record in every step.
Per-record gradients of half the squared error are clipped to norm 1 in closed form, since that gradient is residual
times features: no array of (models, records, columns) is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq


@dataclass(frozen=True)
class DPSGD:
    """causal-mia G.1: batches of 128 of 2,000 by Poisson sampling, 75 epochs, clipping at 1, l2 with lambda = 10.

    ``noise`` is the standard deviation, in each coordinate, of the noise added to the **sum** of the clipped gradients;
    the paper's N(0, 3 I) is the square root of 3. The l2 term depends on no record and is **outside** the clipping
    unless ``l2_clipped`` puts it inside, into each record's gradient (errata A7: the paper does not say).
    """

    steps: int = 1172
    batch: int = 128
    rate: float = 0.01
    noise: float = 3.0**0.5
    clip: float = 1.0
    l2: float = 10.0
    l2_clipped: bool = False


def train(features, targets, plan: DPSGD, *, models: int, rng: np.random.Generator, extra=None) -> np.ndarray:
    """Train ``models`` models (models, d) on (n, d) records, from zero.

    ``extra``: (features (models, d), targets (models,), included (models,) of bool): one record more each.
    In every step it draws, in this order: batch (n,), coins (models,) if there is an extra record, noise (models, d).
    """
    n, d = features.shape
    share = plan.batch / n
    squared = np.einsum("ij,ij->i", features, features)
    weights = np.zeros((models, d))
    for _ in range(plan.steps):
        rows = np.flatnonzero(rng.random(n) < share)
        a = features[rows]
        gradient = _sum_of_clipped(weights, a, targets[rows], squared[rows], plan)
        if extra is not None:
            x, y, included = extra
            drawn = included & (rng.random(models) < share)
            gradient[drawn] += _own_clipped(weights[drawn], x[drawn], y[drawn], plan)
        gradient += plan.noise * plan.clip * rng.standard_normal((models, d))
        step = gradient / plan.batch
        if not plan.l2_clipped:
            step += plan.l2 * weights
        weights -= plan.rate * step
    return weights


def _sum_of_clipped(weights, a, y, squared, plan: DPSGD) -> np.ndarray:
    """Sum over records of the clipped gradients r a + l2 w (models, d), with all norms from inner products."""
    fitted = a @ weights.T
    residual = fitted - y[:, None]
    if not plan.l2_clipped:
        factor = np.minimum(1.0, plan.clip / np.maximum(np.abs(residual) * np.sqrt(squared)[:, None], 1e-300))
        return (factor * residual).T @ a
    own = np.einsum("ij,ij->i", weights, weights)
    norm2 = residual**2 * squared[:, None] + 2 * plan.l2 * residual * fitted + plan.l2**2 * own[None, :]
    factor = np.minimum(1.0, plan.clip / np.sqrt(np.maximum(norm2, 1e-300)))
    return (factor * residual).T @ a + plan.l2 * factor.sum(axis=0)[:, None] * weights


def _own_clipped(weights, x, y, plan: DPSGD) -> np.ndarray:
    """Clipped gradient of each model's own record (k, d)."""
    gradient = (np.einsum("ij,ij->i", x, weights) - y)[:, None] * x
    if plan.l2_clipped:
        gradient = gradient + plan.l2 * weights
    norm = np.linalg.norm(gradient, axis=1, keepdims=True)
    return gradient * np.minimum(1.0, plan.clip / np.maximum(norm, 1e-300))


def epsilon(plan: DPSGD, n: int, delta: float) -> float | None:
    """Epsilon at ``delta`` by dp-accounting's privacy-loss distributions (add or remove a record); None without it."""
    try:
        from dp_accounting import dp_event, pld  # noqa: PLC0415 - the extra `dp`
    except ImportError:
        return None
    accountant = pld.PLDAccountant()
    step = dp_event.PoissonSampledDpEvent(plan.batch / n, dp_event.GaussianDpEvent(plan.noise))
    accountant.compose(dp_event.SelfComposedDpEvent(step, plan.steps))
    return float(accountant.get_epsilon(delta))


def calibrated(plan: DPSGD, n: int, target: float, delta: float) -> float | None:
    """Noise, for ``plan`` otherwise as it is, with which its epsilon at ``delta`` is ``target``; None as above."""
    if epsilon(plan, n, delta) is None:
        return None
    return float(brentq(lambda noise: epsilon(replace(plan, noise=noise), n, delta) - target, 0.8, 40.0, xtol=1e-3))

"""Other ways to the same trade-offs: integration over the simplex, enumeration of sets, draws with scipy's laws."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

FloatArray = NDArray[np.float64]

# (classes, aleatoric, epistemic, calibration_error): the sweeps of Figures 7 to 9, and far from them
GRID = [
    (10, 0.5, 0.25, 0.2),
    (10, 0.5, 0.25, 0.02),
    (10, 0.5, 0.25, 0.9),
    (10, 0.2, 0.25, 0.2),
    (10, 0.9, 0.25, 0.2),
    (10, 0.5, 0.05, 0.2),
    (10, 0.5, 2.0, 0.2),
    (2, 0.4, 0.5, 0.3),
    (3, 0.3, 0.1, 0.25),
    (100, 0.7, 4.0, 0.05),
    (100, 0.6, 0.02, 0.1),
]


def symmetrised_divergence(alpha: ArrayLike, beta: ArrayLike) -> FloatArray:
    """D(alpha || beta) + D(beta || alpha) in nats, without cancellation of the log-Beta terms.

    With equal sums it is the square of Eq. (31), the factor Delta (1 - eps_a) / eps_e on all four terms (erratum E2).
    """
    a, b = np.asarray(alpha), np.asarray(beta)
    total_a, total_b = a.sum(axis=-1), b.sum(axis=-1)
    shared = (total_a - total_b) * (special.digamma(total_a) - special.digamma(total_b))
    result: FloatArray = ((a - b) * (special.digamma(a) - special.digamma(b))).sum(axis=-1) - shared
    return np.maximum(result, 0.0)


def cells_of_unit(n: int) -> tuple[FloatArray, FloatArray]:
    """Midpoints and widths on [0, 1], fine near both ends: x = s^4 / (s^4 + (1 - s)^4)."""
    s = np.linspace(0, 1, n + 1)
    edges = s**4 / (s**4 + (1 - s) ** 4)
    middle = (s[:-1] + s[1:]) / 2
    return middle**4 / (middle**4 + (1 - middle) ** 4), np.diff(edges)


def simplex_cells(n: int) -> tuple[FloatArray, FloatArray]:
    """Points (n^2, 3) of the triangle and their areas, by p_0 = x and p_1 = (1 - x) y."""
    x, wx = cells_of_unit(n)
    a, b = np.meshgrid(x, x, indexing="ij")
    p = np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1).reshape(-1, 3)
    return p, (np.outer(wx, wx) * (1 - a)).ravel()


def masses_on_triangle(alpha: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    p, area = simplex_cells(n)
    mass = np.exp(stats.dirichlet(alpha).logpdf((p / p.sum(axis=1, keepdims=True)).T)) * area
    return p, mass / mass.sum()


def area_and_largest(mass_out: FloatArray, mass_in: FloatArray) -> tuple[float, float]:
    """AUC - 1/2 and sup(TPR - FPR) of finitely many outcomes, by a double loop's sum over pairs of ranks."""
    order = np.argsort(mass_in / np.maximum(mass_out, 1e-300), kind="stable")
    out, into = mass_out[order], mass_in[order]
    below = np.cumsum(out) - out
    return float((into * (below + out / 2)).sum() - 0.5), float(np.abs(into - out).sum() / 2)


def drawn_area(alpha_in: FloatArray, alpha_out: FloatArray, draws: int, seed: int) -> tuple[float, float]:
    """AUC - 1/2 of the ratio at scipy's draws of log-gamma variables, by Mann and Whitney; and its standard error."""
    rng = np.random.default_rng(seed)
    scores = []
    for law in (alpha_in, alpha_out):
        logs = stats.loggamma.rvs(law, size=(draws, len(law)), random_state=rng)
        scores.append((logs - special.logsumexp(logs, axis=1, keepdims=True)) @ (alpha_in - alpha_out))
    u = stats.mannwhitneyu(scores[0], scores[1]).statistic / draws**2
    return float(u - 0.5), float(np.sqrt(u * (1 - u) * 1.0 / draws))


def enumerated_sets(alpha: FloatArray, q: float, temperature: float, n: int) -> FloatArray:
    """Probabilities of all 8 sets of three labels, by integration over the triangle."""
    p, mass = masses_on_triangle(alpha, n)
    enters = (p >= q).astype(float) if temperature == 0 else special.expit((p - q) / temperature)
    found = []
    for wanted in itertools.product((0, 1), repeat=3):
        chance = np.prod(np.where(np.array(wanted) == 1, enters, 1 - enters), axis=1)
        found.append(float(mass @ chance))
    return np.array(found)


def drawn_sets(alpha: FloatArray, q: float, temperature: float, draws: int, seed: int) -> FloatArray:
    """Shares of the 2^K sets among draws."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(alpha, size=draws)
    inside = p >= q if temperature == 0 else rng.random(p.shape) < special.expit((p - q) / temperature)
    return np.bincount(inside @ (1 << np.arange(len(alpha))), minlength=1 << len(alpha)) / draws

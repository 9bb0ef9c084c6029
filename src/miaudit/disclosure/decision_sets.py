"""Exact laws of decision sets under a Dirichlet law of confidence vectors.

uncertainty-mia, Eqs. (5), (36) and (37). Labels with equal parameters are exchangeable, and a set tells no more than
how many labels of each such group it holds; so the outcomes are vectors of counts. Their probabilities need no
enumeration of 2^K sets and no draws:

- **threshold alone** (T = 0): the probability that given labels are all in the set is an integral over a smooth
  function, built one label at a time; laws of counts follow by inclusion and exclusion. At most 1/q labels fit into a
  set.
- **temperature T > 0:** labels enter independently given the confidences, so the law is an expectation of a product
  over labels, which breaks one Beta variable off the stick at a time.

Both are interpolated at Chebyshev nodes whose number follows from the distance of the nearest singularity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.linalg import eigh_tridiagonal

from miaudit.arrays import BoolArray, FloatArray, IntArray

_MOST_OUTCOMES = 4096
_MOST_NODES = 240
_DIGITS = 1e-9
_DIGITS_BEFORE_DIFFERENCES = 1e-12
_NOISE = 1e-13
_LEVELS = 1000  # of the logistic law
_LARGEST_TERM = 1e5  # of inclusion and exclusion: with it seven digits are left


class Intractable(Exception):
    """An exact law would cost too much; the caller samples instead."""


@dataclass(frozen=True, eq=False)
class SetLaws:
    """Outcomes of a decision set and their probabilities without (out) and with (in) the record.

    Attributes
    ----------
    mass_out, mass_in : arrays (m,), each adding up to 1
    error : float
        Largest total variation between these laws and those of the whole set: labels that hardly ever enter, or whose
        entry hardly depends on their confidence, are left out where there would be too many outcomes.
    """

    mass_out: FloatArray
    mass_in: FloatArray
    error: float


def laws(alpha_in: FloatArray, alpha_out: FloatArray, threshold: float, temperature: float) -> SetLaws:
    """Return the laws of a decision set's outcomes under two Dirichlet parameter vectors (K,), both above 0.

    Raises
    ------
    Intractable
        Where neither method can be exact at an acceptable cost.

    Examples
    --------
    >>> found = laws(np.array([2.4, 1.6]), np.array([2.0, 2.0]), 0.5, 0.0)  # of two labels one is in the set
    >>> np.sort(found.mass_out).round(4).tolist()
    [0.0, 0.0, 0.5, 0.5]
    """
    rows = (tuple(float(x) for x in alpha) for alpha in (alpha_in, alpha_out))
    return _laws(*rows, float(threshold), float(temperature))


@lru_cache(maxsize=256)
def _laws(alpha_in: tuple[float, ...], alpha_out: tuple[float, ...], threshold: float, temperature: float) -> SetLaws:
    """Return the laws, cached: advantage, bounds and several true-negative rates use the same ones."""
    if temperature == 0 and not 0 < threshold < 1:
        return SetLaws(np.ones(1), np.ones(1), 0.0)  # always full, or empty
    pairs = np.array([alpha_in, alpha_out])
    loss = _loss_of_label(pairs, threshold, temperature)
    most = _most_labels(threshold, len(alpha_in)) if temperature == 0 else len(alpha_in)
    likely, error = _likely_labels(pairs, loss, most)
    if not likely.any():
        return SetLaws(np.ones(1), np.ones(1), error)  # the same set nearly always
    groups, sizes = _groups(pairs[:, likely])
    rest = pairs[:, ~likely].sum(axis=1)
    of = _thresholded if temperature == 0 else _randomised
    mass_in, mass_out = (_cleaned(of(groups[i], sizes, float(rest[i]), threshold, temperature)) for i in (0, 1))
    for mass in (mass_in, mass_out):
        mass.flags.writeable = False
    return SetLaws(mass_out, mass_in, error)


def chance_of_entry(alpha: FloatArray, threshold: float, temperature: float) -> FloatArray:
    """Return the probability (..., K) that each label is in the set, for Dirichlet parameters (..., K).

    sigma((p - q) / T) is the probability that p - q exceeds T times a logistic variable: the Beta tail, averaged over
    it.

    Examples
    --------
    >>> chance_of_entry(np.array([1.0, 1.0, 1.0]), 0.5, 0.0).round(4).tolist()
    [0.25, 0.25, 0.25]
    """
    others = alpha.sum(axis=-1, keepdims=True) - alpha
    if temperature == 0:
        beyond: FloatArray = special.betaincc(alpha, others, threshold)
        return beyond
    levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
    chance = np.zeros(alpha.shape)
    for shift in temperature * special.logit(levels):
        chance += special.betaincc(alpha, others, np.clip(threshold + shift, 0.0, 1.0))
    return chance / _LEVELS


def _cleaned(mass: FloatArray) -> FloatArray:
    if abs(mass.sum() - 1) > 1e-5 or mass.min() < -1e-5:
        raise Intractable  # digits were lost: never passed on
    positive = np.where(mass > _NOISE, mass, 0.0)
    cleaned: FloatArray = positive / positive.sum()
    return cleaned


# -- which outcomes there are ------------------------------------------------------------------------------------------


def _most_labels(threshold: float, labels: int) -> int:
    """Return the most labels that can reach ``threshold`` at once with positive probability."""
    return min(labels, math.ceil(1 / threshold - 1e-9) - 1)


def _loss_of_label(pairs: FloatArray, threshold: float, temperature: float) -> FloatArray:
    """Return the largest change from omitting a label, summed over both laws (K,)."""
    totals = pairs.sum(axis=1, keepdims=True)
    if temperature == 0:
        enters = special.betaincc(pairs, totals - pairs, threshold).sum(axis=0)
        stays = special.betainc(pairs, totals - pairs, threshold).sum(axis=0)
        return np.asarray(np.minimum(enters, stays))
    # its entry is the coin sigma(-q / T) but for |sigma((p - q) / T) - sigma(-q / T)| <= p / (4 T)
    return np.asarray(np.minimum(1.0, pairs / totals / (4 * temperature)).sum(axis=0))


def _likely_labels(pairs: FloatArray, loss: FloatArray, most: int) -> tuple[BoolArray, float]:
    """Return the labels that count: those of negligible effect go first, then the cheapest, until few remain."""
    order = np.argsort(loss)
    cost = np.concatenate([[0.0], np.cumsum(loss[order])])
    first = int(np.searchsorted(cost, 1e-8, side="right")) - 1
    for left_out in range(first, len(loss) + 1):
        likely = np.ones(len(loss), dtype=np.bool_)
        likely[order[:left_out]] = False
        if _count_outcomes(_groups(pairs[:, likely])[1], most) <= _MOST_OUTCOMES:
            return likely, float(cost[left_out])
    raise Intractable


def _groups(pairs: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
    """Return the distinct pairs of parameters (2, G), and how many labels share each."""
    values, counts = np.unique(pairs, axis=1, return_counts=True)
    return values, tuple(int(c) for c in counts)


def _count_outcomes(sizes: tuple[int, ...], most: int) -> int:
    ways = np.zeros(most + 1)
    ways[0] = 1
    for size in sizes:
        ways = np.convolve(ways, np.ones(min(size, most) + 1))[: most + 1]
    return int(min(ways.sum(), 2**53))


# -- threshold alone ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Lattice:
    """Count vectors with a bounded sum, grouped by that sum.

    Attributes
    ----------
    counts : array (m, G)
    levels : for each sum, indices of its vectors
    last : array (m,), the last group that a vector counts
    before : array (m,), the index of the vector with one less of it
    above : array (G, m), the index of the vector with one more of a group, or -1
    """

    counts: IntArray
    levels: tuple[IntArray, ...]
    last: IntArray
    before: IntArray
    above: IntArray


@lru_cache(maxsize=32)
def _lattice(sizes: tuple[int, ...], most: int) -> _Lattice:
    groups = len(sizes)
    points: list[tuple[int, ...]] = [(0,) * groups]
    last, before, start = [0], [0], 0
    for _ in range(most):
        stop = len(points)
        for i in range(start, stop):
            for g in range(last[i], groups):
                if points[i][g] < sizes[g]:
                    points.append((*points[i][:g], points[i][g] + 1, *points[i][g + 1 :]))
                    last.append(g)
                    before.append(i)
        start = stop
    index = {point: i for i, point in enumerate(points)}
    above = [[index.get((*c[:g], c[g] + 1, *c[g + 1 :]), -1) for c in points] for g in range(groups)]
    counts = np.array(points, dtype=np.int64)
    sums = counts.sum(axis=1)
    levels = tuple(np.flatnonzero(sums == j) for j in range(most + 1))
    return _Lattice(counts, levels, np.array(last), np.array(before), np.array(above))


def _thresholded(gamma: FloatArray, sizes: tuple[int, ...], rest: float, q: float, _: float) -> FloatArray:
    """Return the law of the counts of labels at or above q; gamma (G,) of the groups, rest of the others.

    By inclusion and exclusion from E[prod C(count_g, c_g)] = prod C(size_g, c_g) P(c_g given labels of each group are
    in).
    """
    if sum(sizes) + (rest > 0) == 2:
        return _of_two(float(gamma[0]), rest if rest > 0 else float(gamma[-1]), sizes, q)
    lattice = _lattice(sizes, _most_labels(q, sum(sizes)))
    moments = _moments(gamma, sizes, rest, q, lattice)
    # E[(1 + x)^count] has the factorial moments as coefficients; the law follows by the shift x -> x - 1.
    for g, size in enumerate(sizes):
        for lowest in range(size):
            for count in range(size - 1, lowest - 1, -1):
                here = np.flatnonzero((lattice.counts[:, g] == count) & (lattice.above[g] >= 0))
                moments[here] -= moments[lattice.above[g][here]]
    return moments


def _of_two(own: float, other: float, sizes: tuple[int, ...], q: float) -> FloatArray:
    """Return the law of the set where one confidence determines it."""
    below = float(special.betainc(own, other, q))
    if sum(sizes) == 1:
        return np.array([below, float(special.betaincc(own, other, q))])
    # the other label enters while the first has at most 1 - q
    above = float(special.betaincc(own, other, 1 - q))
    middle = 1 - float(special.betainc(own, other, min(q, 1 - q))) - float(special.betaincc(own, other, max(q, 1 - q)))
    both, none = (middle, 0.0) if q <= 0.5 else (0.0, middle)
    if q > 0.5:
        below, above = float(special.betainc(own, other, 1 - q)), float(special.betaincc(own, other, q))
    return np.array([none, below, above, both])


def _moments(gamma: FloatArray, sizes: tuple[int, ...], rest: float, q: float, lattice: _Lattice) -> FloatArray:
    """Return E[prod C(count_g, c_g)] for each count vector c, up to the sum where it becomes negligible.

    Confidences are Gamma variables with sum 1. The density of the sum of j labels that are q or more each is
    y^(j-1) w_j(y) at j q + y, with w_1(y) = k(q + y) and w_{j+1}(y) = int_0^1 t^(j-1) w_j(y t) k(q + y (1 - t)) dt,
    where k is the Gamma density of the label that is added: smooth on [0, 1 - j q].
    """
    total = float(gamma @ np.array(sizes)) + rest
    nodes = _node_count(total, q)
    chances = special.betaincc(gamma, total - gamma, q)
    if 2 ** min(60.0, float(chances @ np.array(sizes))) > _LARGEST_TERM:
        raise Intractable  # E[C(count, j)] is at least about C(E[count], j)
    moments = np.zeros(len(lattice.counts))
    moments[0] = 1.0
    ways = np.asarray(special.comb(np.array(sizes), lattice.counts).prod(axis=1))
    w = np.zeros((len(lattice.counts), nodes))
    left = (np.array(sizes) - lattice.counts) @ gamma + rest
    whole = _log_gamma_density(1.0, total, total)
    for j in range(1, len(lattice.levels)):
        points = lattice.levels[j]
        _add_label(w, gamma, total, q, lattice, j)
        for part in np.unique(left[points]):
            mine = points[left[points] == part]
            inside = w[mine] @ _closing(float(part), total, 1 - j * q, j, nodes) * math.exp(-whole)
            moments[mine] = ways[mine] * inside
        highest = float(moments[points].max())
        if highest > _LARGEST_TERM:
            raise Intractable
        if highest * 2.0**j < _NOISE:
            break
    return moments


def _add_label(w: FloatArray, gamma: FloatArray, total: float, q: float, lattice: _Lattice, j: int) -> None:
    """Fill the rows of w (m, nodes) whose vectors count j labels: w_j at the nodes, from the rows with j - 1."""
    points, nodes = lattice.levels[j], w.shape[1]
    for g in range(len(gamma)):
        mine = points[lattice.last[points] == g]
        if not len(mine):
            continue
        if j == 1:
            w[mine] = np.exp(_log_gamma_density(q + (1 - j * q) * _chebyshev(nodes), gamma[g], total))
        else:
            w[mine] = w[lattice.before[mine]] @ _adding(float(gamma[g]), total, q, j, nodes).T


def _log_gamma_density(z: FloatArray | float, shape: float, rate: float) -> FloatArray:
    result: FloatArray = (
        shape * math.log(rate) - special.gammaln(shape) + (shape - 1) * np.log(z) - rate * np.asarray(z)
    )
    return result


def _adding(shape: float, total: float, q: float, j: int, nodes: int) -> FloatArray:
    """Return the matrix (nodes, nodes) from w_{j-1} to w_j when a label with this parameter is added."""
    unit, room, before = _chebyshev(nodes), 1 - j * q, 1 - (j - 1) * q
    t, weight = _beta_nodes(j - 1.0, 1.0, nodes)
    y = room * unit
    kernel = np.exp(_log_gamma_density(q + y[:, None] * (1 - t), shape, total)) * weight / (j - 1)
    basis = _interpolation(y[:, None] * t / before, nodes)
    result: FloatArray = np.einsum("il,ilm->im", kernel, basis, optimize=True)
    return result


def _closing(rest: float, total: float, room: float, j: int, nodes: int) -> FloatArray:
    """Return the weights (nodes,) of w_j in the last integral, over the Gamma density of all other labels."""
    if rest == 0:
        at_end = np.zeros(nodes)
        at_end[-1] = room ** (j - 1)
        return at_end
    t, weight = _beta_nodes(float(j), rest, nodes)
    log_scale = (
        rest * math.log(total) - special.gammaln(rest) + special.betaln(j, rest) + (j + rest - 1) * math.log(room)
    )
    scaled = weight * np.exp(log_scale - total * room * (1 - t))
    result: FloatArray = scaled @ _interpolation(t, nodes)
    return result


def _node_count(total: float, q: float) -> int:
    """Return the nodes for twelve digits, from the nearest singularity and the width 1/sqrt(total)."""
    rate = _bernstein(complex(-q / max(1 - q, 1e-9), 0.0))
    return _enough(rate, _DIGITS_BEFORE_DIFFERENCES, least=5.5 * math.sqrt(total))


def _enough(rate: float, digits: float = _DIGITS, least: float = 0.0) -> int:
    """Return the nodes after which errors that fall as rate^-n are small enough."""
    if _MOST_NODES * math.log(rate) <= -math.log(digits) or least > _MOST_NODES:
        raise Intractable
    return math.ceil(max(-math.log(digits) / math.log(rate), least)) + 8


# -- with a temperature ------------------------------------------------------------------------------------------------


def _randomised(gamma: FloatArray, sizes: tuple[int, ...], rest: float, q: float, temperature: float) -> FloatArray:
    """Return the law of the counts when label k enters with probability sigma((p_k - q) / T), Eq. (37).

    With w_j(x) the law of the counts of the first j labels when they share x, w_{j+1}(x) is an expectation over a
    Beta variable t of w_j(x t) times what the next label does with x (1 - t).
    """
    nodes = _enough(_bernstein(complex(q, math.pi * temperature)))
    unit = _chebyshev(nodes)
    finished, used = np.ones((1, nodes)), rest
    for shape, size in zip(gamma, sizes, strict=True):
        law = finished[:, None, :]
        for _ in range(size):
            out, into = _breaking(used, float(shape), unit, q, temperature, nodes)
            longer = np.zeros((len(law), law.shape[1] + 1, nodes))
            longer[:, :-1] = law @ out.T
            longer[:, 1:] += law @ into.T
            law, used = longer, used + float(shape)
        finished = law.reshape(-1, nodes)
    result: FloatArray = finished[:, -1]
    return result


def _breaking(
    used: float, shape: float, unit: FloatArray, q: float, temperature: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """Return the matrices (nodes, nodes) for one more label outside the set, and inside it."""
    if used == 0:
        enters = special.expit((unit - q) / temperature)
        return np.diag(1 - enters), np.diag(enters)
    t, weight = _beta_nodes(used, shape, nodes)
    enters = special.expit((unit[:, None] * (1 - t) - q) / temperature)
    basis = _interpolation(unit[:, None] * t, nodes)
    out = np.einsum("il,ilm->im", weight * (1 - enters), basis, optimize=True)
    into = np.einsum("il,ilm->im", weight * enters, basis, optimize=True)
    return out, into


# -- nodes and interpolation -------------------------------------------------------------------------------------------


def _bernstein(z: complex) -> float:
    """Return the rate of convergence of interpolation on [0, 1] with the nearest singularity at z."""
    x = 2 * z - 1
    root = (x * x - 1) ** 0.5
    return max(abs(x + root), abs(x - root))


@lru_cache(maxsize=64)
def _chebyshev(nodes: int) -> FloatArray:
    """Return the Chebyshev nodes on [0, 1], from 0 to 1, both ends included."""
    points: FloatArray = (1 - np.cos(np.pi * np.arange(nodes) / (nodes - 1))) / 2
    return points


def _interpolation(x: FloatArray, nodes: int) -> FloatArray:
    """Return the basis (..., nodes) of barycentric interpolation at points x (...) of [0, 1]."""
    unit = _chebyshev(nodes)
    weight = np.where(np.arange(nodes) % 2 == 0, 1.0, -1.0)
    weight[[0, -1]] /= 2
    apart = x[..., None] - unit
    hit = apart == 0
    share = weight / np.where(hit, 1.0, apart)
    result: FloatArray = share / share.sum(axis=-1, keepdims=True)
    exact = hit.any(axis=-1)
    result[exact] = hit[exact]
    return result


def _beta_nodes(a: float, b: float, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss quadrature of Beta(a, b) on [0, 1] (Golub and Welsch 1969)."""
    # Jacobi weight (1 - x)^(b-1) (1 + x)^(a-1) on [-1, 1]
    p, s = b - 1, a - 1
    n = np.arange(1, nodes, dtype=np.float64)
    diagonal = np.empty(nodes)
    diagonal[0] = (s - p) / (p + s + 2)
    diagonal[1:] = (s - p) * (s + p) / ((2 * n + p + s) * (2 * n + p + s + 2))
    # (n + p + s) / (2 n + p + s - 1) is 1 for n = 1, where it would be 0/0 if a + b = 1
    ratio = np.ones(nodes - 1)
    ratio[1:] = (n[1:] + p + s) / (2 * n[1:] + p + s - 1)
    square = 4 * n * (n + p) * (n + s) * ratio / ((2 * n + p + s) ** 2 * (2 * n + p + s + 1))
    values, vectors = eigh_tridiagonal(diagonal, np.sqrt(square))
    return np.clip((1 + values) / 2, 0.0, 1.0), vectors[0] ** 2

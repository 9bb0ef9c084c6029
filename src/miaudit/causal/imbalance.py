"""Whether weighted non-members still differ from members in a function of the covariates.

See experiments/methods.md, section 10.

The functions are those of the basis and the products of all pairs of the columns' normal scores, squares included.
The means of the products and the variances of these means are moments of the scores, so that matrix products give all
of them at once, without a column for each pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal.basis import Basis
from miaudit.evidence import Evidence

__all__ = ["LEAST_LIMIT", "Imbalance"]

LEAST_LIMIT = 3.5  # standard errors that a difference may always have
_LEVEL = 0.05  # of all functions together
_MOST_SCORE = 6.0**0.5  # of a normal score in a product, whose size is then at most 6
_LEAST_SPREAD = 0.05  # standard deviation of a function, below which hardly a record has it
_NOTHING = 1e-12


@dataclass(frozen=True)
class Imbalance:
    """The function of the covariates that differs most after weighting.

    Attributes
    ----------
    z : its weighted difference between members and non-members, in standard errors; not negative
    limit : above it the weights are refuted: Bonferroni's 5% over all functions, at least 3.5
    names : of its one or two covariates, in alphabetical order
    function : array (n,), its values
    """

    z: float
    limit: float
    names: tuple[str, ...]
    function: FloatArray = field(repr=False, compare=False)

    @classmethod
    def largest(cls, evidence: Evidence, odds: FloatArray, names: Sequence[str]) -> Imbalance:
        """Measure all functions.

        Parameters
        ----------
        evidence : with covariates (n, d); where units repeat, the records of a unit vary together
        odds : array (n,), the weights of non-members; those of members are not read
        names : of the d columns

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 3))
        >>> member = rng.random(2000) < special.expit(x[:, 0] * x[:, 2])
        >>> evidence = Evidence(score=x[:, 1], member=member, covariates=x)
        >>> even = Imbalance.largest(evidence, np.ones(2000), ["age", "hours", "pay"])
        >>> even.names, even.z > even.limit
        (('age', 'pay'), True)
        >>> right = Imbalance.largest(evidence, np.exp(x[:, 0] * x[:, 2]), ["age", "hours", "pay"])
        >>> right.z > right.limit
        False
        """
        basis, main = Basis.fitted(np.asarray(evidence.covariates), names)
        weight = np.where(evidence.member, 0.0, odds)
        sides = evidence.member / evidence.n_members, weight / weight.sum()
        usable = np.isfinite(basis.spread) & (basis.spread >= _LEAST_SPREAD)
        alone = np.where(usable, _of_columns(main, sides, evidence.unit_codes), 0.0)
        scores = np.clip(main[:, : basis.sorts[0]], -_MOST_SCORE, _MOST_SCORE)
        both, tried = of_pairs(scores, sides, evidence.unit_codes)
        both = np.where(tried, both, 0.0)
        count = int(np.count_nonzero(usable) + np.count_nonzero(tried))
        limit = max(LEAST_LIMIT, -float(special.ndtri(_LEVEL / (2 * max(count, 1)))))
        if both.max(initial=0.0) > alone.max(initial=0.0):
            return cls(float(both.max()), limit, *_pair(both, basis.names, scores))
        if not len(alone):
            return cls(0.0, limit, (), np.zeros(evidence.n))
        at = int(np.argmax(alone))
        return cls(float(alone[at]), limit, (basis.names[at],), main[:, at])


def _pair(z: FloatArray, names: Sequence[str], scores: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """Return the names of the pair with the largest z (d, d), and its product (n,)."""
    i, j = map(int, np.unravel_index(int(np.argmax(z)), z.shape))
    pair = (f"{names[i]}, squared",) if i == j else tuple(sorted((names[i], names[j])))
    return pair, scores[:, i] * scores[:, j]


def of_pairs(
    scores: FloatArray, sides: tuple[FloatArray, FloatArray], code: IntArray | None = None
) -> tuple[FloatArray, BoolArray]:
    """Return |z| (d, d) of the difference of the products of all pairs of columns, and which pairs are tried.

    With S the scores, u the weights of one side and M_u = S' diag(u) S, the variance of the weighted means of one side
    is (S^2)' diag(u^2) S^2 - 2 M_u * (S' diag(u^2) S) + M_u^2 sum u^2, element by element.

    Parameters
    ----------
    scores : array (n, d), clipped, so that no product rests on few records
    sides : weights (n,) of members and of non-members, each with the sum 1
    code : units as integers (n,), where records of a unit vary together

    Returns
    -------
    z : array (d, d), symmetric
    tried : array (d, d) of bool, above the diagonal and on it: pairs whose product varies among the records
    """
    squares = scores * scores
    means, variance = [], np.zeros((scores.shape[1],) * 2)
    for weight in sides:
        rows = np.flatnonzero(weight)
        s, q, w = scores[rows], squares[rows], weight[rows][:, None]
        mean, w2 = (w * s).T @ s, w * w
        variance += (w2 * q).T @ q - 2 * mean * ((w2 * s).T @ s) + mean * mean * float(w2.sum())
        means.append(mean)
    if code is not None:
        variance = _of_units(scores, sides, (means[0], means[1]), code)
    spread = squares.T @ squares / len(scores) - (scores.T @ scores / len(scores)) ** 2
    tried = np.triu(spread >= _LEAST_SPREAD**2)
    return np.abs(means[0] - means[1]) / np.sqrt(np.maximum(variance, _NOTHING)), tried


def _of_units(
    scores: FloatArray, sides: tuple[FloatArray, FloatArray], means: tuple[FloatArray, FloatArray], code: IntArray
) -> FloatArray:
    """Return the variance (d, d) of the differences of products, with the records of one unit together."""
    unit_means = np.empty_like(means[0])
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    s, inside, outside = scores[order], sides[0][order][:, None], sides[1][order][:, None]
    for i in range(scores.shape[1]):
        product = s[:, [i]] * s
        parts = inside * (product - means[0][i]) - outside * (product - means[1][i])
        unit_means[i] = (np.add.reduceat(parts, starts, axis=0) ** 2).sum(axis=0)
    return unit_means


def _of_columns(g: FloatArray, sides: tuple[FloatArray, FloatArray], code: IntArray | None) -> FloatArray:
    """Return |z| (p,) of the differences of functions (n, p)."""
    inside, outside = sides
    means = inside @ g, outside @ g
    parts = inside[:, None] * (g - means[0]) - outside[:, None] * (g - means[1])
    if code is not None:
        parts = np.stack([np.bincount(code, weights=column) for column in parts.T], axis=1)
    return np.asarray(np.abs(means[0] - means[1]) / np.sqrt(np.maximum((parts**2).sum(axis=0), _NOTHING)))

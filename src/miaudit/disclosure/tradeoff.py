"""Trade-off curves of the best attack given a confidence vector, one confidence or a decision set.

The attacker knows the two Dirichlet laws and compares them by likelihood ratio, which no test beats (Neyman and
Pearson). As in uncertainty-mia, Eq. (11), alpha is the true-negative rate and beta_alpha the smallest false-negative
rate at it: how often the attacker fails to see that the record **was** used (erratum E4).

Two formulas make draws unnecessary. With a, b the parameters in and out, the log-likelihood ratio of a confidence
vector is L = log(B(b) / B(a)) + sum_k (a_k - b_k) log p_k, and its law halfway between in and out has the transform

    M(t) = E_out[exp((1/2 + it) L)] = exp(it log(B(b) / B(a))) B((a + b) / 2 + it (a - b)) / sqrt(B(a) B(b)).

Inverted by one fast Fourier transform it gives the whole curve. And by Parseval the area above the curve's chord is

    alpha - beta_alpha averaged over alpha = 1/2 - (1 / 2 pi) int_0^inf |M(t)|^2 / (1/4 + t^2) dt.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import FloatArray, IntArray
from miaudit.disclosure import decision_sets
from miaudit.disclosure.decision_sets import Intractable
from miaudit.disclosure.dirichlet import log_beta, marginal, parameters
from miaudit.errors import InputError

__all__ = [
    "TradeOff",
    "averaged_confidence_vector",
    "averaged_with_error",
    "confidence_vector",
    "decision_set",
    "true_label",
]

DRAWS = 400_000
_LEAST_DRAWS = 100
_TOGETHER = 50_000
_STEP = 0.1  # of the trapezoid in u; at 0.2 the result agrees to twelve digits
_RECORDS = 1024  # in one block
_CELLS = 4096  # of a Beta law
_FINENESS = 8  # cells for each half period of the highest frequency
_FINEST = 2**18
_SURE = 14.0  # beyond it e^-14 = 8e-7 of the other law is left, which no result resolves
_FURTHEST = 100.0
_TINY = -600.0  # logits below it are those of numbers that floating point does not hold


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The curve beta_alpha of Eq. (13): convex, non-decreasing, piecewise linear.

    Between two vertices the attacker tosses a coin. The paper's decision sets have no coin, which makes a curve of
    steps that lies above this one; the bounds hold for both.

    Attributes
    ----------
    tnr : array (m,), increasing from 0 to 1
        alpha, the true-negative rates of the vertices.
    fnr : array (m,), non-decreasing
        The smallest false-negative rate at each.
    slack : array (m,)
        Estimate of the error of each ``fnr``, from quadrature or draws.
    """

    tnr: FloatArray
    fnr: FloatArray
    slack: FloatArray

    @classmethod
    def of_masses(cls, mass_out: ArrayLike, mass_in: ArrayLike, error: float = 0.0) -> TradeOff:
        """Return the trade-off of an observation with finitely many outcomes, from both laws (m,).

        Examples
        --------
        >>> curve = TradeOff.of_masses([0.5, 0.5], [0.2, 0.8])
        >>> curve.fnr.round(4).tolist(), round(curve.averaged(), 4)
        ([0.0, 0.2, 1.0], 0.15)
        """
        out, into = np.asarray(mass_out, dtype=np.float64), np.asarray(mass_in, dtype=np.float64)
        seen = out + into > 0
        out, into = out[seen], into[seen]
        order = np.argsort(into / (out + into), kind="stable")
        tnr = np.minimum(1.0, np.concatenate([[0.0], np.cumsum(out[order]) / out.sum()]))
        fnr = np.minimum(1.0, np.concatenate([[0.0], np.cumsum(into[order]) / into.sum()]))
        tnr[-1] = 1.0
        # Outcomes that only members give stand at alpha = 1: the smallest beta there is the first.
        first = np.unique(tnr, return_index=True)[1]
        return cls(tnr[first], fnr[first], np.full(len(first), error))

    @classmethod
    def blind(cls) -> TradeOff:
        """Return the trade-off of an observation without information: beta = alpha."""
        return cls.of_masses([1.0], [1.0])

    def __call__(self, tnr: ArrayLike) -> FloatArray:
        """Return the smallest false-negative rates at true-negative rates in [0, 1], any shape."""
        rates = check_tnr(tnr)
        return np.asarray(np.interp(rates, self.tnr, self.fnr))

    def advantage(self, tnr: ArrayLike) -> FloatArray:
        """Return the advantage alpha - beta_alpha, Eq. (14), at true-negative rates in [0, 1], any shape."""
        return np.asarray(tnr, dtype=np.float64) - self(tnr)

    def error(self, tnr: ArrayLike) -> FloatArray:
        """Return the estimated error of ``advantage`` at true-negative rates in [0, 1], any shape."""
        return np.asarray(np.interp(check_tnr(tnr), self.tnr, self.slack))

    def averaged(self) -> float:
        """Return the average of alpha - beta_alpha over alpha: AUC - 1/2 (erratum E8)."""
        return max(0.0, 0.5 - float(np.trapezoid(self.fnr, self.tnr)))

    def largest(self) -> float:
        """Return the largest alpha - beta_alpha: sup(TPR - FPR), the total variation between the laws."""
        return float(np.max(self.tnr - self.fnr))


def check_tnr(tnr: ArrayLike) -> FloatArray:
    """Return true-negative rates, or refuse those outside [0, 1]."""
    rates = np.asarray(tnr, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        received = f"{rates.ravel()[~((rates >= 0) & (rates <= 1)).ravel()][0]:g}"
        raise InputError("alpha", "true-negative rates in [0, 1]", received, "0.999 is a false-positive rate of 0.1%")
    return rates


# -- confidence vector -------------------------------------------------------------------------------------------------


def averaged_confidence_vector(alpha_in: ArrayLike, alpha_out: ArrayLike) -> FloatArray:
    """Return AUC - 1/2 when the confidence vector is disclosed, to about 1e-10.

    Parameters
    ----------
    alpha_in, alpha_out : arrays (..., K), above 0

    Returns
    -------
    array (...), in [0, 1/2]

    Examples
    --------
    >>> round(float(averaged_confidence_vector([2.0, 1.0], [1.0, 1.0])), 4)  # 2 x against 1: int x 2 x dx - 1/2
    0.1667
    """
    return averaged_with_error(alpha_in, alpha_out)[0]


def averaged_with_error(alpha_in: ArrayLike, alpha_out: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return :func:`averaged_confidence_vector` with an error estimate from half of the nodes."""
    a, b = np.broadcast_arrays(parameters("alpha_in", alpha_in), parameters("alpha_out", alpha_out))
    value, error = np.zeros(a.shape[:-1]), np.zeros(a.shape[:-1])
    if a.ndim == 1:
        return _averaged(a, b)
    flat_a, flat_b = a.reshape(-1, a.shape[-1]), b.reshape(-1, a.shape[-1])
    for start in range(0, len(flat_a), _RECORDS):
        rows = slice(start, start + _RECORDS)
        value.reshape(-1)[rows], error.reshape(-1)[rows] = _averaged(flat_a[rows], flat_b[rows])
    return value, error


def _averaged(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the averaged advantage by the trapezoid rule in u, with t = sinh(u) / 2."""
    u = _STEP * np.arange(2 * (round(math.asinh(2e9) / _STEP) // 2) + 1)  # 1 / cosh(u) falls to 2e-10
    square = np.exp(2 * _log_affinity(a, b, 0.5 * np.sinh(u)).real) / np.cosh(u) / math.pi
    square[..., 0] /= 2
    fine, coarse = _STEP * square.sum(axis=-1), 2 * _STEP * square[..., ::2].sum(axis=-1)
    same = (a == b).all(axis=-1)
    value = np.where(same, 0.0, np.clip(0.5 - fine, 0.0, 0.5))
    return value, np.where(same, 0.0, np.abs(fine - coarse) + 1e-9)


def _log_affinity(a: FloatArray, b: FloatArray, t: FloatArray) -> NDArray[np.complex128]:
    """Return log M(t), shape (..., len(t)), for parameters (..., K)."""
    middle, apart = (a + b) / 2, a - b
    log = -0.5 * (log_beta(a) + log_beta(b))[..., None] + 1j * t * (log_beta(b) - log_beta(a))[..., None]
    labels, counts = _distinct(middle, apart)
    for k, count in zip(labels, counts, strict=True):
        log = log + count * special.loggamma(middle[..., k, None] + 1j * t * apart[..., k, None])
    sums = middle.sum(axis=-1)[..., None] + 1j * t * apart.sum(axis=-1)[..., None]
    result: NDArray[np.complex128] = log - special.loggamma(sums)
    return result


def _distinct(middle: FloatArray, apart: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the distinct labels and the multiplicity of each; for one record only."""
    if middle.ndim > 1:
        return np.arange(middle.shape[-1]), np.ones(middle.shape[-1], dtype=np.int64)
    _, first, counts = np.unique(np.stack([middle, apart]), axis=1, return_index=True, return_counts=True)
    return first, counts


def confidence_vector(alpha_in: ArrayLike, alpha_out: ArrayLike) -> TradeOff:
    """Return the trade-off of the likelihood ratio of confidence vectors, by inverting its transform.

    Parameters
    ----------
    alpha_in, alpha_out : arrays (K,), above 0

    Examples
    --------
    >>> curve = confidence_vector([3.0, 1.0, 1.0], [2.0, 1.5, 1.5])
    >>> round(curve.averaged(), 4), round(float(curve.advantage(0.9)), 3), bool(curve.slack.max() < 1e-3)
    (0.2688, 0.309, True)
    """
    a, b = _pair(alpha_in, alpha_out)
    if np.array_equal(a, b):
        return TradeOff.blind()
    if len(a) == 2:
        return true_label(a, b)
    return _with_resolution(*_masses_of_ratio(a, b), float(averaged_confidence_vector(a, b)))


def _masses_of_ratio(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities, out and in, of cells of the log-likelihood ratio.

    For every pair of laws P_out(L > x) and P_in(L < -x) are below e^-x, and the density halfway falls at least as
    e^(-|x|/2): so a bounded range of L serves whatever the parameters, and what lies beyond it is told apart for sure.
    """
    low, high = (math.copysign(min(abs(end), _FURTHEST), end) for end in _ratio_range(a, b))
    width = 1.25 * (high - low)
    last = _last_frequency(a, b, width)
    size = min(_FINEST, 2 ** math.ceil(math.log2(max(2048.0, _FINENESS * width * last / math.pi))))
    spacing = width / size
    t = 2 * math.pi / width * np.arange(size // 2 + 1)
    transform = np.zeros(size // 2 + 1, dtype=np.complex128)
    used = t <= last
    transform[used] = np.exp(_log_affinity(a, b, t[used]))
    x = (low + high) / 2 + spacing * (np.arange(size) - size // 2)
    # density(x) = (1 / 2 pi) int M(t) exp(-itx) dt: the conjugate is what irfft expects
    density = np.fft.irfft(np.conj(transform) * np.exp(1j * t * x[0]), n=size) * size / width
    near = np.abs(x) <= _SURE
    halfway = np.maximum(density[near], 0.0) * spacing
    mass_out, mass_in = halfway * np.exp(-x[near] / 2), halfway * np.exp(x[near] / 2)
    beyond_out, beyond_in = (max(0.0, 1 - float(mass.sum())) for mass in (mass_out, mass_in))
    pad = [0.0] * (len(halfway) % 2)
    return np.concatenate([[0.0, beyond_out], mass_out, pad, [0.0, 0.0]]), np.concatenate(
        [[0.0, 0.0], mass_in, pad, [beyond_in, 0.0]]
    )


def _ratio_range(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Return the range of the log-likelihood ratio, by Chernoff's bound with e^-30 on either side."""
    middle, apart = (a + b) / 2, a - b
    shift = float(log_beta(b) - log_beta(a))

    def end(sign: int) -> float:
        direction = sign * apart
        falling = direction < 0
        furthest = float(np.min(-middle[falling] / direction[falling])) if falling.any() else 1e6
        s = np.minimum(furthest * 0.999, 1e6) * np.logspace(-9, 0, 200)
        log_moment = log_beta(middle + s[:, None] * direction) - log_beta(middle) + s * sign * shift
        return sign * float(np.min((log_moment + 30) / s))

    return end(-1), end(1)


def _last_frequency(a: FloatArray, b: FloatArray, width: float) -> float:
    """Return the frequency where the transform falls to 1e-11, or the last that the finest grid can hold."""
    most = math.pi / width * _FINEST / 4
    t = most * 2.0 ** -np.arange(0, 40, 0.25)[::-1]
    size = _log_affinity(a, b, t).real - _log_affinity(a, b, np.zeros(1)).real
    small = np.flatnonzero(size > math.log(1e-11))
    return float(t[min(len(t) - 1, small[-1] + 1)]) if len(small) else float(t[0])


def _with_resolution(mass_out: FloatArray, mass_in: FloatArray, averaged: float) -> TradeOff:
    """Return the trade-off of fine cells; its error is the change when cells are paired."""
    fine = TradeOff.of_masses(mass_out, mass_in)
    coarse = TradeOff.of_masses(mass_out.reshape(-1, 2).sum(axis=1), mass_in.reshape(-1, 2).sum(axis=1))
    change = np.abs(fine.fnr - coarse(fine.tnr))
    # pairing leaves every second vertex where it is
    around = np.maximum(change, np.maximum(np.append(change[1:], 0.0), np.concatenate([[0.0], change[:-1]])))
    return TradeOff(fine.tnr, fine.fnr, around + abs(fine.averaged() - averaged))


# -- true label --------------------------------------------------------------------------------------------------------


def true_label(alpha_in: ArrayLike, alpha_out: ArrayLike, label: int = 0) -> TradeOff:
    """Return the trade-off when one label's confidence is disclosed: Beta laws (erratum E3).

    Parameters
    ----------
    alpha_in, alpha_out : arrays (K,), above 0
    label : int

    Examples
    --------
    >>> curve = true_label([2.0, 1.0], [1.0, 1.0])  # beta = alpha^2
    >>> round(float(curve(0.5)), 4), round(curve.largest(), 4)
    (0.25, 0.25)
    """
    a, b = _pair(alpha_in, alpha_out)
    own = marginal(np.stack([a, b]), label)
    if np.array_equal(own[0], own[1]):
        return TradeOff.blind()
    edges = np.unique(np.concatenate([_logit_edges(*law) for law in own]))
    mass_in, mass_out = (_beta_masses(edges, *law) for law in own)
    if len(mass_in) % 2:
        mass_in, mass_out = (np.append(mass, 0.0) for mass in (mass_in, mass_out))
    return _with_resolution(mass_out, mass_in, float(averaged_confidence_vector(own[0], own[1])))


def _logit_edges(a: float, b: float) -> FloatArray:
    """Return edges of cells for the logit of a Beta variable, wider in the tails."""
    middle = float(special.digamma(a) - special.digamma(b))
    spread = math.sqrt(float(special.polygamma(1, a) + special.polygamma(1, b)))
    reach = math.asinh(40.0)
    return middle + spread * np.sinh(np.linspace(-reach, reach, _CELLS // 2))


def _beta_masses(edges: FloatArray, a: float, b: float) -> FloatArray:
    """Return the probabilities of the cells of the logit, each from the nearer tail."""
    below, above = _logit_beta_below(edges, a, b), _logit_beta_below(-edges, b, a)
    below = np.concatenate([[0.0], below, [1.0]])
    above = np.concatenate([[1.0], above, [0.0]])
    result: FloatArray = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    return np.maximum(result, 0.0)


def _logit_beta_below(u: FloatArray, a: float, b: float) -> FloatArray:
    """Return P(logit of a Beta(a, b) variable <= u), also where the variable rounds to 0 or 1."""
    left = special.betainc(a, b, special.expit(np.minimum(u, 0.0)))
    right = special.betaincc(b, a, special.expit(-np.maximum(u, 0.0)))
    body = np.where(u < 0, left, right)
    below_all = np.exp(np.minimum(0.0, a * np.minimum(u, 0.0) - math.log(a) - special.betaln(a, b)))
    above_all = -np.expm1(np.minimum(0.0, -b * np.maximum(u, 0.0) - math.log(b) - special.betaln(a, b)))
    result: FloatArray = np.where(u < _TINY, below_all, np.where(u > -_TINY, above_all, body))
    return result


# -- decision set ------------------------------------------------------------------------------------------------------


def decision_set(
    alpha_in: ArrayLike,
    alpha_out: ArrayLike,
    *,
    threshold: float,
    temperature: float = 0.0,
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> TradeOff:
    """Return the trade-off when the labels at or above q are disclosed, randomised by Eq. (37) at T > 0.

    Parameters
    ----------
    alpha_in, alpha_out : arrays (K,), above 0
    threshold : float in [0, 1]
        q. At 0 the set always is full and at 1 empty: nothing is told (unless T > 0).
    temperature : float, 0 or more
    draws : int
        Where the exact law costs too much (q far below 1/K with many classes, a temperature below about 0.02,
        hundreds of classes that all differ), that many draws of each law are used instead.
    rng : numpy.random.Generator
        Needed only then.

    Examples
    --------
    >>> curve = decision_set([2.4, 1.6], [2.0, 2.0], threshold=0.5)  # which of two labels is the likelier
    >>> curve.tnr.round(4).tolist(), curve.fnr.round(4).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.3276, 1.0])
    """
    a, b = _pair(alpha_in, alpha_out)
    q, heat = check_threshold(threshold), check_temperature(temperature)
    with contextlib.suppress(Intractable):
        law = decision_sets.laws(a, b, q, heat)
        return TradeOff.of_masses(law.mass_out, law.mass_in, law.error)
    return simulated_sets(a, b, threshold=q, temperature=heat, draws=draws, rng=rng)


def check_threshold(threshold: object) -> float:
    """Return a set threshold, or refuse one outside [0, 1]."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.floating | np.integer):
        raise InputError("threshold", "a number in [0, 1]", repr(threshold), "a decision set holds labels with p >= q")
    if not 0 <= threshold <= 1:
        next_step = f"the set would always be {'full' if threshold < 0 else 'empty'} and tell nothing"
        raise InputError("threshold", "a number in [0, 1]", f"{threshold:g}", next_step)
    return float(threshold)


def check_temperature(temperature: object) -> float:
    """Return a temperature, or refuse one below 0."""
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | np.floating | np.integer):
        raise InputError("temperature", "a number, 0 or more", repr(temperature), "0 is the threshold alone")
    if not 0 <= temperature < math.inf:
        raise InputError("temperature", "a finite number, 0 or more", f"{temperature:g}", "0 is the threshold alone")
    return float(temperature)


def _pair(alpha_in: ArrayLike, alpha_out: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = parameters("alpha_in", alpha_in), parameters("alpha_out", alpha_out)
    if a.ndim != 1 or a.shape != b.shape:
        received = f"shapes {a.shape} and {b.shape}"
        raise InputError("alpha_in, alpha_out", "parameters (K,) of one record", received, "loop over records")
    return a, b


# -- draws -------------------------------------------------------------------------------------------------------------


def simulated(ratio_in: ArrayLike, ratio_out: ArrayLike) -> TradeOff:
    """Return the trade-off of drawn log-likelihood ratios, (m1,) with and (m0,) without the record.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> curve = simulated(rng.normal(0.5, 1, 20_000), rng.normal(-0.5, 1, 20_000))  # of N(1, 1) against N(0, 1)
    >>> abs(curve.largest() - 0.3829) < 0.02
    True
    """
    into, out = np.sort(np.asarray(ratio_in, float)), np.sort(np.asarray(ratio_out, float))
    values = np.unique(np.concatenate([into, out]))
    tnr = np.concatenate([[0.0], np.searchsorted(out, values, side="right") / len(out)])
    fnr = np.concatenate([[0.0], np.searchsorted(into, values, side="right") / len(into)])
    first = np.unique(tnr, return_index=True)[1]
    tnr, fnr = tnr[first], fnr[first]
    wide = 2 * np.sqrt(tnr * (1 - tnr) / len(out))
    ends = [np.interp(np.clip(tnr + sign * wide, 0, 1), tnr, fnr) for sign in (-1, 1)]
    slack = np.maximum(fnr - ends[0], ends[1] - fnr) + 2 * np.sqrt(fnr * (1 - fnr) / len(into))
    return TradeOff(tnr, fnr, slack)


def simulated_confidence(
    alpha_in: ArrayLike, alpha_out: ArrayLike, *, draws: int = DRAWS, rng: np.random.Generator
) -> TradeOff:
    """Return the trade-off of confidence vectors by draws; for parameters (K,).

    Examples
    --------
    >>> curve = simulated_confidence([2.0, 1.0], [1.0, 1.0], draws=40_000, rng=np.random.default_rng(0))
    >>> abs(curve.averaged() - 1 / 6) < 0.01
    True
    """
    a, b = _pair(alpha_in, alpha_out)
    shift = float(log_beta(b) - log_beta(a))
    parts = _parts(draws)
    ratio_in, ratio_out = (
        shift + np.concatenate([log_sample(law, part, rng=rng) @ (a - b) for part in parts]) for law in (a, b)
    )
    return simulated(ratio_in, ratio_out)


def _parts(draws: int) -> list[int]:
    """Return numbers of draws to hold in memory at once, adding up to all."""
    if isinstance(draws, bool) or draws != int(draws) or draws < _LEAST_DRAWS:
        raise InputError("draws", f"a whole number from {_LEAST_DRAWS} up", repr(draws), f"{DRAWS:,} is the default")
    whole, left = divmod(int(draws), _TOGETHER)
    return [_TOGETHER] * whole + ([left] if left else [])


def log_sample(alpha: FloatArray, n: int, *, rng: np.random.Generator) -> FloatArray:
    """Return logarithms (n, K) of Dirichlet draws, also where probabilities are below 1e-300."""
    logs = np.log(rng.standard_gamma(alpha + 1, size=(n, len(alpha)))) + np.log1p(-rng.random((n, len(alpha)))) / alpha
    result: FloatArray = logs - special.logsumexp(logs, axis=1, keepdims=True)
    return result


def simulated_sets(
    alpha_in: ArrayLike,
    alpha_out: ArrayLike,
    *,
    threshold: float,
    temperature: float = 0.0,
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> TradeOff:
    """Return the trade-off of decision sets by draws.

    The likelihood ratio of a set is its share among the draws. Judged on the same draws it is too good, and judged on
    others, as a real attacker would, not good enough: the curve is halfway, and half the distance counts as error.

    Examples
    --------
    >>> curve = simulated_sets([2.4, 1.6], [2.0, 2.0], threshold=0.5, draws=40_000, rng=np.random.default_rng(0))
    >>> abs(float(curve(0.5)) - 0.3276) < 0.02
    True
    """
    a, b = _pair(alpha_in, alpha_out)
    if rng is None:
        raise InputError(
            "rng",
            "a numpy Generator, since the exact law of these sets costs too much and draws are needed",
            "None",
            "pass rng=np.random.default_rng(0)",
        )
    return of_drawn_sets(*(_drawn_sets(law, a, b, threshold, temperature, draws, rng) for law in (a, b)))


def of_drawn_sets(sets_in: IntArray, sets_out: IntArray) -> TradeOff:
    """Return the trade-off of decision sets that were drawn with and without a record, as :func:`simulated_sets` does.

    Parameters
    ----------
    sets_in, sets_out : arrays (draws, labels or groups of labels) of counts, 0 or more; equal rows are equal outcomes
    """
    draws = len(sets_in)
    index = _numbered(np.concatenate([sets_in, sets_out]))
    outcomes = int(index.max()) + 1
    mine, other = (np.bincount(index[part], minlength=outcomes) for part in (slice(0, draws), slice(draws, None)))
    same = TradeOff.of_masses(other, mine)
    half = draws // 2
    learned = [np.bincount(index[s : s + half], minlength=outcomes) + 0.5 for s in (0, draws)]
    ratio = np.log(learned[0] / learned[1])
    fresh = simulated(ratio[index[half:draws]], ratio[index[draws + half :]])
    grid = np.union1d(np.linspace(0, 1, 1001), same.tnr)
    gap = np.maximum(0.0, np.minimum(grid, fresh(grid)) - same(grid))
    return TradeOff(grid, same(grid) + gap / 2, gap / 2 + 1 / math.sqrt(draws))


def _numbered(counts: IntArray) -> IntArray:
    """Number the distinct rows (n, groups): (n,)."""
    highest = counts.max(axis=0) + 1
    if float(np.prod(highest, dtype=np.float64)) < 2**62:
        radix = np.concatenate([[1], np.cumprod(highest[:-1])])
        return np.unique(counts @ radix, return_inverse=True)[1].reshape(-1)
    return np.unique(counts, axis=0, return_inverse=True)[1].reshape(-1)


def _drawn_sets(
    law: FloatArray, a: FloatArray, b: FloatArray, q: float, temperature: float, draws: int, rng: np.random.Generator
) -> IntArray:
    """Return counts (draws, groups) of the labels in drawn sets, for groups with equal parameters."""
    groups = np.unique(np.stack([a, b]), axis=1, return_inverse=True)[1].reshape(-1)
    counts = np.zeros((draws, groups.max() + 1), dtype=np.int64)
    start = 0
    for part in _parts(draws):
        rows = slice(start, start + part)
        start += part
        p = np.exp(log_sample(law, part, rng=rng))
        inside = p >= q if temperature == 0 else rng.random(p.shape) < special.expit((p - q) / temperature)
        np.add.at(counts[rows].T, groups, inside.T)
    return counts

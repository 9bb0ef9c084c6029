"""What the steps of DP-SGD released at the coordinates of canaries, what an attacker makes of it, and what is checked.

The attacker knows the claim: the rate of sampling, the noise and the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, gammainc, gammaincc, logsumexp

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp.mechanism import GaussianNoise, Mechanism, PoissonSubsampled, Repeated, described
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = [
    "AgainstRerun",
    "Released",
    "SameBatch",
    "Sampled",
    "Statistic",
    "Steps",
    "Summed",
    "check_sampling",
    "evidence",
    "strange_noise",
]

_CONTRADICTED = 1e-6  # probability under the claimed sampling, or noise, below which it is not what was claimed
_MOST_COMPARED = 1_000  # steps whose noise is compared with each other's
_FEWEST_COMPARED = 20  # canaries that were left out, for that
_SILENT = 1e-12  # spread of released sums, in units of the clip, below which nothing was released


@dataclass(frozen=True)
class Steps:
    """What a claim says of each step.

    Attributes
    ----------
    rate : probability with which a record joins a batch, in (0, 1]
    noise : standard deviation of the noise on the sum, in units of the clipping norm
    count : number of steps
    """

    rate: float
    noise: float
    count: int

    @classmethod
    def of(cls, mechanism: Mechanism | Mapping[str, Any]) -> Steps:
        """Read them from a description of DP-SGD, sampled or with all records in each step.

        Examples
        --------
        >>> from miaudit.dp.mechanism import dp_sgd
        >>> Steps.of(dp_sgd(records=1_000, batch=100, noise=1.5, steps=40))
        Steps(rate=0.1, noise=1.5, count=40)
        """
        parts = described(mechanism)
        match parts:
            case Repeated(PoissonSubsampled(GaussianNoise(noise), rate), times):
                return cls(rate, noise, times)
            case Repeated(GaussianNoise(noise), times):
                return cls(1.0, noise, times)
        hint = "describe the training by accounting.dp_sgd(records=, batch=, noise=, steps=)"
        raise InputError("mechanism", "steps of DP-SGD: Gaussian noise, sampled or not, repeated", str(parts), hint)


@dataclass(frozen=True, eq=False)
class Released:
    """What the steps of one training released at the canaries' coordinates.

    Attributes
    ----------
    sums : floats (T, m), released sums in units of the clipping norm
        With the sign that the canary's gradient had in that step, so that a canary in a batch adds 1.
    coins : bools (m,), whether each canary was among the training records; tossed for this training alone
    joined : bools (T, m), which canaries were in which batch, if that was seen; for :func:`check_sampling`
    again : floats (T, m), what a second training released that began in the same way, without any canary, optional
        An attacker who knows the seeds can make it; it serves :class:`AgainstRerun`.

    Raises
    ------
    InputError
        For arrays that do not fit together, canaries on one side only, sums that are not finite, and steps that
        release nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(500) < 0.5
    >>> Released(coins + rng.normal(size=(20, 500)), coins)
    Released(20 steps, 500 canaries, 223 of them in the training)
    """

    sums: FloatArray
    coins: BoolArray
    joined: BoolArray | None = None
    again: FloatArray | None = None

    def __post_init__(self) -> None:
        coins = _coins(self.coins)
        object.__setattr__(self, "coins", coins)
        for name in ("sums", "again"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, _sums(name, array, len(coins)))
        for name in ("again", "joined"):
            array = getattr(self, name)
            if array is not None and np.shape(array) != self.sums.shape:
                received = f"shape {np.shape(array)}"
                raise InputError(name, f"an array of shape {self.sums.shape}", received, "one row for each step")
        if float(self.sums.std()) < _SILENT:
            hint = "does the step hand on its gradient, and did the canaries reach the model?"
            raise InputError("sums", "sums that steps released", "the same number everywhere", hint)

    def __repr__(self) -> str:
        steps, m = self.sums.shape
        return f"Released({steps:,} steps, {m:,} canaries, {int(self.coins.sum()):,} of them in the training)"


# -- what the attacker makes of the released sums ----------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """Log-likelihood ratio of "in the training" where each step draws its batch anew: the best for a correct step."""

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        return np.asarray(_log_ratios(run.sums, steps.rate, steps.noise).sum(0))


@dataclass(frozen=True)
class Summed:
    """Plain sum of what was released; noise that is drawn once and used again cancels in it."""

    def scores(self, run: Released, steps: Steps) -> FloatArray:  # noqa: ARG002 - as the others
        """Return scores (m,)."""
        return np.asarray(run.sums.sum(0))


@dataclass(frozen=True)
class SameBatch:
    """The same where a record is in every ``period``-th batch, and in no other, whichever it is of the period.

    For batches that are drawn once and used in each epoch, though the claim says they are drawn anew.

    Parameters
    ----------
    period : steps of an epoch, 1 or more; None: 1 / rate, rounded
    """

    period: int | None = None

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        period = self.period or max(1, round(1 / steps.rate))
        whole = len(run.sums) // period * period
        if not whole:
            received = f"{len(run.sums)} steps"
            raise InputError("period", f"at most the steps, for a period of {period}", received, "take more steps")
        surely = _log_ratios(run.sums[:whole], 1.0, steps.noise).reshape(-1, period, run.sums.shape[1]).sum(0)
        return np.asarray(logsumexp(surely, axis=0))


@dataclass(frozen=True)
class AgainstRerun:
    """As :class:`Sampled`, of the difference to a training that began in the same way and that no canary joined.

    Noise whose seed is known cancels; fresh noise doubles its variance.
    """

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        if run.again is None:
            hint = "train again from the same seeds, with coins that are all False"
            raise InputError("again", "what a second training released", "none", hint)
        return np.asarray(_log_ratios(run.sums - run.again, steps.rate, steps.noise * math.sqrt(2)).sum(0))


Statistic = Sampled | Summed | SameBatch | AgainstRerun


def evidence(run: Released, mechanism: Mechanism | Mapping[str, Any], *, statistic: Statistic = Sampled()) -> Evidence:
    """Return the canaries of one training as evidence of design "one-run", for ``miaudit audit`` too.

    Parameters
    ----------
    run : what was released
    mechanism : DP-SGD as claimed, as of :meth:`Steps.of`; it decides how scores are made, not whether they are valid
    statistic : how

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(500) < 0.5
    >>> run = Released(coins + rng.normal(size=(20, 500)), coins)
    >>> evidence(run, Repeated(GaussianNoise(1.0), 20))
    Evidence(223 members, 277 non-members, score: score, design: one-run)
    """
    scores = statistic.scores(run, Steps.of(mechanism))
    return Evidence(score=scores, member=run.coins, design="one-run")


def check_sampling(run: Released, steps: Steps) -> None:
    """Refuse a training whose batches are not drawn as claimed: each record with the same chance, step by step anew.

    How often each canary joined, and how many did in each step, are compared with binomial counts, at a probability of
    one in a million each.

    Raises
    ------
    InputError
        If they do not fit, or a canary joined that the coins left out.
    """
    if run.joined is None:
        return
    seen = np.asarray(run.joined, dtype=bool)
    if seen[:, ~run.coins].any():
        received = f"{int(seen[:, ~run.coins].any(0).sum()):,} that were in batches"
        raise InputError("coins", "canaries left out by the coins to stay out", received, "train on the given records")
    seen = seen[:, run.coins]
    for counts, trials, what in (
        (seen.sum(), seen.size, "canaries in all batches"),
        (seen.sum(0), seen.shape[0], "batches that each canary is in"),
        (seen.sum(1), seen.shape[1], "canaries in each batch"),
    ):
        observed = np.atleast_1d(counts)
        p = _binomial_fit(observed, trials, steps.rate)
        if p < _CONTRADICTED:
            expected = f"{trials * steps.rate:.4g} with a spread of {_spread(trials, steps.rate):.3g}"
            received = (
                f"{observed.mean():.4g} with a spread of {observed.std():.3g}"
                if len(observed) > 1
                else f"{observed[0]:,}"
            )
            hint = "claim the sampling that was done; shuffled or fixed batches are no Poisson samples"
            raise InputError("sampling", f"{what}: {expected}", received, hint)


def strange_noise(run: Released, steps: Steps) -> tuple[str, ...]:
    """Say where the noise is not as described: Gaussian of the claimed deviation, drawn anew in each step.

    It is looked at where no canary was. This is no test of a guarantee, which other noise could keep too, but of the
    description that the accountant was given; each of the three tests errs once in a million.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(200) < 0.5
    >>> once = rng.normal(size=200)
    >>> strange_noise(Released(coins + np.stack([once, -once]), coins), Steps(1.0, 1.0, 2))
    ('the noise of steps 1 and 2 has a correlation of -1.00: it is not drawn anew',)
    """
    noise = run.sums[:, ~run.coins] / steps.noise
    each = (noise**2).sum(1)
    sentences = []
    least = int(each.argmin())
    if gammainc(noise.size / 2, each.sum() / 2) < _CONTRADICTED:
        sentences.append(f"the noise is {math.sqrt(each.mean() / noise.shape[1]):.3g} times what is claimed")
    elif len(each) * gammainc(noise.shape[1] / 2, each[least] / 2) < _CONTRADICTED:
        deviation = math.sqrt(each[least] / noise.shape[1])
        sentences.append(f"the noise of step {least + 1:,} is {deviation:.3g} times what is claimed")
    alike = _alike(noise[:_MOST_COMPARED])
    if alike is not None:
        sentences.append(alike)
    return tuple(sentences)


def _alike(noise: FloatArray) -> str | None:
    """Name the two steps (T, k) whose noise is most alike, if independent noise could not be."""
    size = np.linalg.norm(noise, axis=1)
    if len(noise) < 2 or noise.shape[1] < _FEWEST_COMPARED or not size.all():
        return None
    products = (noise @ noise.T) / np.outer(size, size)
    np.fill_diagonal(products, 0)
    one, other = sorted(int(i) for i in np.unravel_index(np.abs(products).argmax(), products.shape))
    correlation = float(products[one, other])
    p = len(noise) * (len(noise) - 1) / 2 * betainc((noise.shape[1] - 1) / 2, 0.5, max(0.0, 1 - correlation**2))
    if p >= _CONTRADICTED:
        return None
    return (
        f"the noise of steps {one + 1:,} and {other + 1:,} has a correlation of {correlation:.2f}: it is not drawn anew"
    )


# -- parts -------------------------------------------------------------------------------------------------------------


def _log_ratios(sums: FloatArray, rate: float, noise: float) -> FloatArray:
    """Log-likelihood ratios (T, m) of "joined with probability ``rate``, and added 1" against "was not there"."""
    surely = (sums - 0.5) / noise**2
    if rate == 1:
        return surely
    return np.logaddexp(math.log1p(-rate), math.log(rate) + surely)


def _binomial_fit(counts: FloatArray, trials: int, rate: float) -> float:
    """Two-sided p-value of counts (k,) as independent Bin(trials, rate): of one its tail, of several their spread."""
    if len(counts) == 1 or rate == 1:
        k = float(counts.sum())
        n = float(trials * len(counts))
        if rate == 1:
            return float(k == n)
        above = betainc(k, n - k + 1, rate) if k > 0 else 1.0
        below = betainc(n - k, k + 1, 1 - rate) if k < n else 1.0
        return float(min(1.0, 2 * min(above, below)))
    spread = float(((counts - trials * rate) ** 2).sum()) / (trials * rate * (1 - rate))
    half = len(counts) / 2
    return float(2 * min(gammaincc(half, spread / 2), gammainc(half, spread / 2)))


def _spread(trials: int, rate: float) -> float:
    return math.sqrt(trials * rate * (1 - rate))


def _coins(given: ArrayLike) -> BoolArray:
    coins = np.asarray(given)
    if coins.ndim != 1 or coins.dtype != np.bool_:
        received = f"shape {coins.shape} of type {coins.dtype}"
        raise InputError("coins", "an array (m,) of bool", received, "True: among the training records")
    if coins.all() or not coins.any():
        received = f"{int(coins.sum()):,} of {len(coins):,} in the training"
        raise InputError("coins", "canaries on both sides", received, "toss a fair coin for each of many canaries")
    return coins


def _sums(name: str, given: ArrayLike, canaries: int) -> FloatArray:
    sums = np.asarray(given, dtype=np.float64)
    if sums.ndim != 2 or sums.shape[1] != canaries or not len(sums):
        received, hint = f"shape {sums.shape}", "one row for each step, one column for each canary"
        raise InputError(name, f"released sums (T, {canaries})", received, hint)
    if not np.isfinite(sums).all():
        received = f"{int((~np.isfinite(sums)).sum()):,} that are not"
        raise InputError(name, "finite numbers", received, "did the training diverge?")
    return sums

"""Sets of labels instead of probabilities: a threshold, with temperature, and conformal sets that keep a promise.

Conformal sets are written here: with outputs of many models as arrays they are a quantile and a comparison, and a
library built around estimators would have to be fed one wrapped model after another. ``tests`` check the coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy import optimize, special

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.defences.calibration import held_out
from miaudit.defences.outputs import Disclosed, Kind, Measure, Randomness, checked
from miaudit.errors import InputError
from miaudit.errors.options import Option

__all__ = ["AdaptiveSet", "ConformalSet", "SetThreshold", "SizedSet"]

Heat = Annotated[float, Option(ge=0, allowed="0 or more", next_step="0 leaves chance out of it")]
Coverage = Annotated[float, Option(gt=0, lt=1, next_step="0.9 is 90%")]


class CoinMeasure(Measure):
    """Sets of labels, which enter by coins where there is a temperature."""

    kind: Kind = "decision-set"
    temperature: float
    fixed: bool

    @property
    def randomness(self) -> Randomness:  # type: ignore[override]
        """None without a temperature."""
        return "none" if self.temperature == 0 else "fixed" if self.fixed else "redrawn"

    def _called(self, words: str) -> str:
        """Return the words with the temperature, if there is one."""
        return f"{words} at temperature {self.temperature:g}" if self.temperature else words


@dataclass(frozen=True)
class SetThreshold(CoinMeasure):
    """All labels with a probability of at least q (Eq. 5); with a temperature T each enters by a coin (Eqs. 36, 37).

    Parameters
    ----------
    threshold : q, in [0, 1]
    temperature : T, 0 for the deterministic set; a label of probability p enters with probability 1/(1 + e^((q-p)/T))
    fixed : whether the coins are thrown once for each record; otherwise with each query, and averaging undoes them

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> SetThreshold(0.2).apply(np.array([[0.7, 0.2, 0.1]]), rng=rng).values.tolist()
    [[True, True, False]]
    """

    threshold: Annotated[float, Option(ge=0, le=1, next_step="0.2 keeps labels of 20% and up")] = 0.2
    temperature: Heat = 0.0
    fixed: bool = False

    @property
    def words(self) -> str:
        """What a page calls it."""
        return self._called(f"labels of {100 * self.threshold:g}% and more")

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Draw the sets."""
        return Chosen(self.threshold, self.temperature).apply(probabilities, rng=rng)


@dataclass(frozen=True)
class Chosen:
    """A threshold that was chosen. With a temperature it may lie outside [0, 1]: minus infinity lets every label in."""

    threshold: float
    temperature: float = 0.0

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Draw the sets."""
        return Disclosed("decision-set", thrown(checked(probabilities), self.threshold, self.temperature, rng=rng))


@dataclass(frozen=True)
class SizedSet(CoinMeasure):
    """A threshold whose sets hold a given number of labels on average, chosen on held-out records.

    Parameters
    ----------
    size : mean number of labels on the held-out records, above 0
    """

    size: Annotated[float, Option(gt=0, allowed="a number of labels above 0", next_step="2 is a pair on average")] = 2.0
    temperature: Heat = 0.0
    fixed: bool = False

    @property
    def words(self) -> str:
        """What a page calls it."""
        return self._called(f"sets of {self.size:g} labels on average")

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> Chosen:  # noqa: ARG002
        """Choose q; the size falls in q, so it is found by halving."""
        p = held_out(probabilities, labels)
        if self.size > p.shape[1]:
            raise InputError("size", f"at most {p.shape[1]} labels", f"{self.size:g}", "there are no more classes")
        if self.temperature == 0:  # the size is a step function of q: a quantile of all probabilities
            count = min(max(round(self.size * len(p)), 1), p.size)
            q = float(np.partition(p.ravel(), p.size - count)[p.size - count])
            return Chosen(q)

        def excess(q: float) -> float:
            return float(special.expit((p - q) / self.temperature).sum(axis=1).mean()) - self.size

        low, high = _reach(self.temperature)
        root = optimize.brentq(excess, low, high) if excess(low) > 0 > excess(high) else -math.inf
        return Chosen(float(root), self.temperature)


@dataclass(frozen=True)
class ConformalSet(CoinMeasure):
    """A threshold whose sets hold the true label with a promised probability (split conformal prediction).

    The threshold is the largest q with n/(n+1) R(q) + 1/(n+1) <= 1 - coverage, where R(q) is the mean probability to
    miss the true label of n held-out records (conformal risk control, Angelopoulos et al. 2024, Theorem 1). Without a
    temperature it is split conformal prediction with the score 1 - p_y (Sadinle et al. 2019); with one, the coins are
    in the promise. It holds on average over held-out and new records that are exchangeable: not for members, and not
    where the held-out records were learnt.

    Parameters
    ----------
    coverage : in (0, 1)
    temperature, fixed : as of :class:`SetThreshold`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([2.0, 1.0, 1.0], size=4000)
    >>> y = (rng.random(4000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    >>> sets = ConformalSet(0.9).fit(p[:1000], y[:1000], rng=rng).apply(p[1000:], rng=rng).values
    >>> bool(abs(sets[np.arange(3000), y[1000:]].mean() - 0.9) < 0.02)
    True
    """

    coverage: Coverage = 0.9
    temperature: Heat = 0.0
    fixed: bool = False

    @property
    def words(self) -> str:
        """What a page calls it."""
        return self._called(f"{100 * self.coverage:g}% conformal sets")

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> Chosen:  # noqa: ARG002
        """Choose q. With too few records no q keeps the promise, and every set is full."""
        own = np.sort(held_out(probabilities, labels)[np.arange(len(labels)), labels])
        n = len(own)
        if self.temperature == 0:
            allowed = math.floor((n + 1) * (1 - self.coverage) * (1 + 1e-12)) - 1  # true labels that may be missed
            return Chosen(float(own[allowed]) if allowed >= 0 else -math.inf)

        def slack(q: float) -> float:
            missed = special.expit((q - own) / self.temperature).sum()
            return float((missed + 1) / (n + 1)) - (1 - self.coverage)

        low, high = _reach(self.temperature)
        return Chosen(-math.inf if slack(low) >= 0 else float(optimize.brentq(slack, low, high)), self.temperature)


@dataclass(frozen=True)
class AdaptiveSet(Measure):
    """Labels from the most probable down, until their sum is large enough (adaptive sets, Romano et al. 2020).

    Hard records get larger sets than easy ones. With ``randomised`` the last label enters by a coin, which makes the
    promise exact; without, the sets are larger than they need be.

    Parameters
    ----------
    coverage : in (0, 1)
    randomised : whether the last label enters by a coin
    fixed : as of :class:`SetThreshold`
    """

    coverage: Coverage = 0.9
    randomised: bool = False
    fixed: bool = False
    kind: Kind = "decision-set"

    @property
    def words(self) -> str:
        """What a page calls it."""
        return f"{100 * self.coverage:g}% {'randomised ' if self.randomised else ''}adaptive sets"

    @property
    def randomness(self) -> Randomness:  # type: ignore[override]
        """None unless the last label enters by a coin."""
        return "none" if not self.randomised else "fixed" if self.fixed else "redrawn"

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> FittedAdaptive:
        """Take the conformal quantile of the sums down to the true label."""
        p = held_out(probabilities, labels)
        coins = rng.random(len(p)) if self.randomised else np.ones(len(p))
        score = sums_down(p, coins)[np.arange(len(p)), labels]
        return FittedAdaptive(conformal_quantile(score, self.coverage), self.randomised)


@dataclass(frozen=True)
class FittedAdaptive:
    """The largest sum of probabilities that still enters."""

    largest: float
    randomised: bool

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Draw the sets; without coins none is empty."""
        p = checked(probabilities)
        coins = rng.random(p.shape[:-1]) if self.randomised else np.ones(p.shape[:-1])
        inside = sums_down(p, coins) <= self.largest
        if not self.randomised:
            np.put_along_axis(inside, p.argmax(axis=-1)[..., None], True, axis=-1)
        return Disclosed("decision-set", inside)


def sums_down(p: FloatArray, share: FloatArray) -> FloatArray:
    """Sum of all larger probabilities and a share (...) of the own, for each label (..., K).

    Examples
    --------
    >>> sums_down(np.array([0.2, 0.5, 0.3]), np.array(1.0)).round(2).tolist()
    [1.0, 0.5, 0.8]
    """
    order = np.argsort(-p, axis=-1, kind="stable")
    down = np.take_along_axis(p, order, axis=-1)
    sums = down.cumsum(axis=-1) - down + share[..., None] * down
    by_label = np.empty_like(sums)
    np.put_along_axis(by_label, order, sums, axis=-1)
    return by_label


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """The ceil((n + 1) coverage)-th smallest score, or infinity where there are too few.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 20.0), 0.9), conformal_quantile(np.arange(8.0), 0.9)
    (18.0, inf)
    """
    rank = math.ceil((len(scores) + 1) * coverage * (1 - 1e-12))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def thrown(p: FloatArray, threshold: float, temperature: float, *, rng: np.random.Generator) -> BoolArray:
    """Throw the coin of each label (..., K); without a temperature, compare."""
    if temperature == 0:
        return np.asarray(p >= threshold)
    return np.asarray(rng.random(p.shape) < special.expit((p - threshold) / temperature))


def records_for(coverage: float) -> int:
    """Return the fewest held-out records with which a conformal set can be smaller than all labels.

    Examples
    --------
    >>> records_for(0.9), records_for(0.99)
    (9, 99)
    """
    return math.ceil(coverage / (1 - coverage) * (1 - 1e-12))


def _reach(temperature: float) -> tuple[float, float]:
    """Thresholds at which every coin has fallen one way."""
    return -40 * temperature, 1 + 40 * temperature

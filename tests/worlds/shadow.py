"""A world of shadow models in which every record's likelihood ratio, and so the best possible attack, is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Laws:
    """The true law of each record's statistic over models: Gaussian, with and without the record in training.

    Attributes
    ----------
    mean_in, mean_out, sigma_in, sigma_out : arrays (n,)
    """

    mean_in: FloatArray
    mean_out: FloatArray
    sigma_in: FloatArray
    sigma_out: FloatArray

    @classmethod
    def draw(
        cls, n: int, rng: np.random.Generator, *, gain: float = 1.0, hardness: float = 2.0, spread: float = 0.0
    ) -> Laws:
        """Draw records: hard ones learn more; ``spread`` is the standard deviation of their log standard deviations."""
        mean_out = 1.0 + hardness * rng.normal(size=n)
        sigma_out = np.exp(spread * rng.normal(size=n))
        sigma_in = sigma_out * np.exp(0.5 * spread * rng.normal(size=n))
        return cls(mean_out + gain * rng.gamma(2.0, 0.5, n) * sigma_out, mean_out, sigma_in, sigma_out)

    def statistics(self, included: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Draw the statistics (n, M) of models with this inclusion (n, M)."""
        mean = np.where(included, self.mean_in[:, None], self.mean_out[:, None])
        sigma = np.where(included, self.sigma_in[:, None], self.sigma_out[:, None])
        return mean + sigma * rng.normal(size=included.shape)

    def log_ratio(self, target: FloatArray) -> FloatArray:
        """Return the true log-likelihood ratio (n,): by Neyman and Pearson no attack on these records is better."""
        inside = stats.norm.logpdf(target, self.mean_in, self.sigma_in)
        return np.asarray(inside - stats.norm.logpdf(target, self.mean_out, self.sigma_out))


@dataclass(frozen=True, eq=False)
class World:
    """One target model and M shadow models.

    Attributes
    ----------
    laws : the truth
    member : array (n,) of bool, the target model's training records
    target : array (n,), the target model's statistic
    included : array (n, M) of bool, each record in half of the shadow models
    shadow : array (n, M), the shadow models' statistic
    """

    laws: Laws
    member: BoolArray
    target: FloatArray
    included: BoolArray
    shadow: FloatArray

    @classmethod
    def draw(cls, n: int, models: int, rng: np.random.Generator, **laws: float) -> World:
        truth = Laws.draw(n, rng, **laws)
        member = rng.permutation(np.arange(n) % 2 == 0)
        included = rng.permuted(np.tile(np.arange(models) % 2 == 0, (n, 1)), axis=1)
        target = truth.statistics(member[:, None], rng)[:, 0]
        return cls(truth, member, target, included, truth.statistics(included, rng))

    @property
    def optimal(self) -> FloatArray:
        """Return the best possible score (n,)."""
        return self.laws.log_ratio(self.target)


def auc(score: FloatArray, member: BoolArray) -> float:
    """Area under the ROC curve; ties count one half."""
    ranks = stats.rankdata(score)
    n1 = int(member.sum())
    n0 = len(member) - n1
    return float((ranks[member].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def share_of_optimum(score: FloatArray, world: World) -> float:
    """What a score reaches of the optimal AUC, both less one half: 0 at chance, 1 at the optimum."""
    return (auc(score, world.member) - 0.5) / (auc(world.optimal, world.member) - 0.5)

"""Laws of what shadow models say of each record, with it and without it: logit-normal or Dirichlet.

Both stand behind one form, so that a prediction, its attack, its bound and its test rest on the same law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.attacks import dirichlet_fit
from miaudit.disclosure import dirichlet, logit_normal, tradeoff
from miaudit.disclosure.advantage import advantage_of

__all__ = ["DirichletLaws", "LawName", "Laws", "LogitNormalLaws", "drawn_sets", "fit", "refuted"]

LawName = Literal["logit-normal", "dirichlet"]
Sides = tuple[BoolArray, BoolArray]

# A covariance of K - 1 log-ratios from a few dozen models is mostly noise: without shrinkage the laws look far apart.
VECTOR_SHRINKAGE = 0.9
SET_DRAWS = 2000  # of each law; exact laws of sets without symmetry cost seconds each, these leave about 0.01
REPLICATES = 19  # of the bootstrap: the smallest p-value is 1 / 20, so that 5% is met exactly
SIGNIFICANCE = 0.05


class Laws(Protocol):
    """Laws of n records, of models with and without each."""

    def averaged(self) -> FloatArray:
        """Return AUC - 1/2 of the best attack on the vector (n,)."""

    def of_sets(self, threshold: float, temperature: float, rng: np.random.Generator) -> FloatArray:
        """Return AUC - 1/2 of the best attack on decision sets (n,), by draws."""

    def score(self, p: FloatArray) -> FloatArray:
        """Return the log-likelihood ratio (n, T) of vectors (n, T, C) above 0."""

    def sample(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw vectors (n, 2 draws, C), those with the record first."""

    def divergences(self) -> tuple[FloatArray, FloatArray]:
        """Return D(out || in) and D(in || out) in nats, (n,) each."""

    def take(self, rows: IndexArray | slice) -> Laws:
        """Return those of some records."""


@dataclass(frozen=True, eq=False)
class DirichletLaws:
    """Dirichlet laws, as in uncertainty-mia: parameters (n, C) with and without each record."""

    alpha_in: FloatArray
    alpha_out: FloatArray

    def averaged(self) -> FloatArray:
        """As of :class:`Laws`."""
        return np.asarray(advantage_of(self.alpha_in, self.alpha_out, disclosure="confidence-vector").value)

    def of_sets(self, threshold: float, temperature: float, rng: np.random.Generator) -> FloatArray:
        """As of :class:`Laws`."""
        return np.asarray(
            advantage_of(
                self.alpha_in,
                self.alpha_out,
                disclosure="decision-set",
                threshold=threshold,
                temperature=temperature,
                method="simulation",
                draws=SET_DRAWS,
                rng=rng,
            ).value
        )

    def score(self, p: FloatArray) -> FloatArray:
        """As of :class:`Laws`."""
        sides = (dirichlet.log_density(p, alpha[:, None]) for alpha in (self.alpha_in, self.alpha_out))
        return np.asarray(next(sides) - next(sides))

    def sample(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """As of :class:`Laws`."""
        return np.concatenate(
            [dirichlet.sample(alpha, draws, rng=rng) for alpha in (self.alpha_in, self.alpha_out)], axis=1
        )

    def divergences(self) -> tuple[FloatArray, FloatArray]:
        """As of :class:`Laws`."""
        return (
            dirichlet.divergence(self.alpha_out, self.alpha_in),
            dirichlet.divergence(self.alpha_in, self.alpha_out),
        )

    def take(self, rows: IndexArray | slice) -> DirichletLaws:
        """As of :class:`Laws`."""
        return DirichletLaws(self.alpha_in[rows], self.alpha_out[rows])


@dataclass(frozen=True, eq=False)
class LogitNormalLaws:
    """Logit-normal laws of n records with and without each."""

    law_in: logit_normal.Law
    law_out: logit_normal.Law

    def averaged(self) -> FloatArray:
        """As of :class:`Laws`."""
        return logit_normal.averaged_confidence_vector(self.law_in, self.law_out)

    def of_sets(self, threshold: float, temperature: float, rng: np.random.Generator) -> FloatArray:
        """As of :class:`Laws`."""
        value = np.empty(len(self.law_in.mean))
        for i in range(len(value)):
            p = self.take(slice(i, i + 1)).sample(SET_DRAWS, rng=rng)[0]
            sets = drawn_sets(p, threshold, temperature, rng=rng).astype(np.int64)
            value[i] = tradeoff.of_drawn_sets(sets[:SET_DRAWS], sets[SET_DRAWS:]).averaged()
        return value

    def score(self, p: FloatArray) -> FloatArray:
        """As of :class:`Laws`."""
        sides = (
            logit_normal.log_density(p, logit_normal.Law(law.mean[:, None], law.covariance[:, None]))
            for law in (self.law_in, self.law_out)
        )
        return np.asarray(next(sides) - next(sides))

    def sample(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """As of :class:`Laws`."""
        return np.concatenate([logit_normal.sample(law, draws, rng=rng) for law in (self.law_in, self.law_out)], axis=1)

    def divergences(self) -> tuple[FloatArray, FloatArray]:
        """As of :class:`Laws`."""
        return (
            logit_normal.divergence(self.law_out, self.law_in),
            logit_normal.divergence(self.law_in, self.law_out),
        )

    def take(self, rows: IndexArray | slice) -> LogitNormalLaws:
        """As of :class:`Laws`."""
        return LogitNormalLaws(
            *(logit_normal.Law(law.mean[rows], law.covariance[rows]) for law in (self.law_in, self.law_out))
        )


def fit(name: LawName, p: FloatArray, sides: Sides, *, smoothing: float = dirichlet_fit.SMOOTHING) -> Laws:
    """Fit laws to vectors (n, M, C) of the models on each side, (n, M) each.

    A logit-normal law of more than two classes keeps a tenth of the covariances between log-ratios.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, inside = rng.dirichlet([3.0, 1.0], size=(2, 60)), np.tile(np.arange(60) % 2 == 0, (2, 1))
    >>> [fit(name, p, (inside, ~inside)).averaged().shape for name in ("logit-normal", "dirichlet")]
    [(2,), (2,)]
    """
    if name == "dirichlet":
        fits = [dirichlet_fit.fit(p, side, smoothing=smoothing).alpha for side in sides]
        return DirichletLaws(*(np.asarray(alpha, dtype=np.float64) for alpha in fits))
    shrinkage = _shrinkage(p)
    return LogitNormalLaws(*(logit_normal.fit(p, side, smoothing=smoothing, shrinkage=shrinkage).law for side in sides))


def refuted(
    name: LawName,
    p: FloatArray,
    sides: Sides,
    *,
    smoothing: float = dirichlet_fit.SMOOTHING,
    rng: np.random.Generator,
) -> BoolArray:
    """Return for each record and side (n, 2) whether the models refute the fitted law, at a significance of 5%.

    By a parametric bootstrap that fits again, so that fitting costs nothing: a right law is refuted for one in twenty.
    A Dirichlet law is tested by its marginal of the label's confidence, a logit-normal one as
    :func:`miaudit.disclosure.logit_normal.goodness` says.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, inside = rng.dirichlet([3.0, 1.0], size=(40, 60)), np.tile(np.arange(60) % 2 == 0, (40, 1))
    >>> bool(refuted("dirichlet", p, (inside, ~inside), rng=rng).mean() < 0.15)
    True
    """
    laws = fit(name, p, sides, smoothing=smoothing)
    columns = []
    for i, side in enumerate(sides):
        if isinstance(laws, DirichletLaws):
            alpha = (laws.alpha_in, laws.alpha_out)[i]
            tested = dirichlet.goodness(p, alpha, side, replicates=REPLICATES, smoothing=smoothing, rng=rng)
        elif isinstance(laws, LogitNormalLaws):
            law = (laws.law_in, laws.law_out)[i]
            options = {"smoothing": smoothing, "shrinkage": _shrinkage(p)}
            tested = logit_normal.goodness(p, law, side, replicates=REPLICATES, rng=rng, **options)
        columns.append(np.asarray(tested.p_value) <= SIGNIFICANCE + 1e-12)
    return np.stack(columns, axis=1)


def refuted_more_often_than_by_chance(count: int, tests: int) -> bool:
    """Return whether a right law would be refuted so often in fewer than 1% of cases, for independent tests.

    Examples
    --------
    >>> refuted_more_often_than_by_chance(5, 100), refuted_more_often_than_by_chance(15, 100)
    (False, True)
    """
    return bool(count) and float(special.bdtrc(count - 1, tests, SIGNIFICANCE)) < 0.01


def drawn_sets(p: FloatArray, threshold: float, temperature: float, *, rng: np.random.Generator) -> BoolArray:
    """Return decision sets (..., C) of Eq. 5, or draws of Eq. 37 where the temperature is above 0.

    Examples
    --------
    >>> drawn_sets(np.array([0.7, 0.3]), 0.5, 0.0, rng=np.random.default_rng(0)).tolist()
    [True, False]
    """
    if temperature == 0:
        return np.asarray(p >= threshold)
    return np.asarray(rng.random(p.shape) < special.expit((p - threshold) / temperature))


def _shrinkage(p: FloatArray) -> float:
    return 0.0 if p.shape[-1] == 2 else VECTOR_SHRINKAGE

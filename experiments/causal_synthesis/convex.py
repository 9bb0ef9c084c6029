"""Generators that are convex: a ridge-regularised logistic regression for each binary column.

With few columns every record, every neighbouring table and the law of what is released can be listed, so that what
proofs say of a "strongly convex and Lipschitz" loss can be computed instead of simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.synthesis.schema import Table

_SWEEPS = 400
_STEPS = 200


def records(columns: int) -> FloatArray:
    """All binary records (2^d, d).

    Examples
    --------
    >>> records(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    return np.array(list(product((0.0, 1.0), repeat=columns)))


@dataclass(frozen=True, eq=False)
class Conditionals:
    """Which columns each column is predicted from.

    Attributes
    ----------
    uses : (d, d) of bool, ``uses[t, j]`` if column t is predicted from column j
    """

    uses: BoolArray

    @classmethod
    def causal(cls, parents: BoolArray) -> Conditionals:
        """Each column from its parents."""
        return cls(parents)

    @classmethod
    def reversed(cls, parents: BoolArray) -> Conditionals:
        """Each column from its children: as many terms, the wrong way round."""
        return cls(parents.T)

    @classmethod
    def associational(cls, columns: int) -> Conditionals:
        """Each column from all others."""
        return cls(~np.eye(columns, dtype=np.bool_))

    @property
    def columns(self) -> int:
        """How many there are."""
        return len(self.uses)

    @property
    def lipschitz(self) -> float:
        """Largest norm of the gradient of a record's log-loss, over all binary records and parameters."""
        return float(np.sqrt((1 + self.uses.sum(axis=1)).sum()))

    def features(self, t: int) -> FloatArray:
        """Intercept and predictors (2^d, 1 + k) of column t in every record."""
        every = records(self.columns)
        return np.c_[np.ones(len(every)), every[:, self.uses[t]]]

    def fit(self, counts: FloatArray, ridge: FloatArray) -> list[FloatArray]:
        """Minimise the summed log-loss plus ridge / 2 times the squared norm, intercepts included, by Newton's method.

        Parameters
        ----------
        counts : (m, 2^d), how often each record is in each of m tables; need not be whole
        ridge : (m,), above 0

        Returns
        -------
        list
            For each column its parameters (m, 1 + k).
        """
        every = records(self.columns)
        found = []
        for t in range(self.columns):
            x, y = self.features(t), every[:, t]
            squares = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
            theta, penalty = np.zeros((len(counts), x.shape[1])), ridge[:, None, None] * np.eye(x.shape[1])
            for _ in range(_STEPS):
                p = special.expit(theta @ x.T)
                slope = (counts * (p - y)) @ x + ridge[:, None] * theta
                bend = ((counts * p * (1 - p)) @ squares).reshape(len(counts), x.shape[1], -1) + penalty
                step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
                size = np.linalg.norm(step, axis=1, keepdims=True)
                theta = theta - step * np.minimum(1, 2 / np.maximum(size, 1e-300))
                if size.max() < 1e-11 * (1 + np.abs(theta).max()):
                    break
            else:
                raise RuntimeError(f"column {t}: Newton's method did not settle in {_STEPS} steps")
            found.append(theta)
        return found

    def losses(self, theta: Sequence[FloatArray]) -> FloatArray:
        """Log-loss (m, 2^d, d) of each column in every record; their sum is a record's loss."""
        every = records(self.columns)
        parts = [np.logaddexp(0, (1 - 2 * every[:, t]) * (theta[t] @ self.features(t).T)) for t in range(self.columns)]
        return np.stack(parts, axis=-1)

    def law(self, theta: Sequence[FloatArray]) -> FloatArray:
        """P(record) (m, 2^d) of what is released.

        Along a graph the product of the conditionals; otherwise what drawing one column after the other, given the
        rest, settles at (a dependency network: Heckerman et al. 2000).
        """
        chance = np.exp(-self.losses(theta))
        if self._orderable:
            return np.asarray(chance.prod(axis=-1))
        every = records(self.columns).astype(np.int64)
        place = 2 ** np.arange(self.columns)[::-1]
        law = np.full(chance.shape[:2], 1 / len(every))
        for _ in range(_SWEEPS):
            before = law
            for t in range(self.columns):
                other = (every ^ (np.arange(self.columns) == t)) @ place
                law = (law + law[:, other]) * chance[:, :, t]
            if np.abs(law - before).max() < 1e-13:
                break
        return law

    @property
    def _orderable(self) -> bool:
        left = self.uses.copy()
        alive = np.ones(self.columns, dtype=np.bool_)
        while alive.any():
            free = alive & ~left[:, alive].any(axis=1)
            if not free.any():
                return False
            alive &= ~free
        return True


@dataclass(frozen=True, eq=False)
class ConvexGenerator:
    """A fitted generator, and Gaussian noise on its parameters (output perturbation; Chaudhuri et al. 2011).

    Attributes
    ----------
    columns : how many
    law : (2^d,) P(record)
    """

    columns: int
    law: FloatArray

    @classmethod
    def of(
        cls, table: Table, model: Conditionals, *, ridge: float, noise: float, rng: np.random.Generator
    ) -> ConvexGenerator:
        """Fit to a table; ``noise`` is the standard deviation on each parameter, 0 for none."""
        theta = model.fit(counted(table.values)[None], np.array([ridge]))
        noisy = [one + noise * rng.standard_normal(one.shape) for one in theta]
        return cls(model.columns, model.law(noisy)[0])

    def sample(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw records (n, d)."""
        return records(self.columns)[rng.choice(len(self.law), size=n, p=self.law / self.law.sum())]


def counted(values: FloatArray) -> FloatArray:
    """How often each of the 2^d records is in a table (n, d)."""
    columns = values.shape[1]
    code = values.astype(np.int64) @ 2 ** np.arange(columns)[::-1]
    return np.bincount(code, minlength=2**columns).astype(np.float64)


def distances(theta: Sequence[FloatArray], others: Sequence[FloatArray]) -> FloatArray:
    """Norm of the difference of all parameters (m,)."""
    return np.sqrt(sum(((a - b) ** 2).sum(axis=-1) for a, b in zip(theta, others, strict=True)))

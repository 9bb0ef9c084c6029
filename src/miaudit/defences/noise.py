"""Noise on confidence vectors that leaves the label alone: at random, or aimed at an attacker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.defences.calibration import held_out
from miaudit.defences.outputs import Disclosed, Kind, Measure, Randomness, Stateless, checked
from miaudit.errors import InputError
from miaudit.errors.options import Option

__all__ = ["AdversarialNoise", "OutputNoise"]

_FLOOR = 1e-30
_LARGEST_MOVE = 1e3
_HALVINGS = 60


@dataclass(frozen=True)
class OutputNoise(Stateless):
    """Gaussian noise on the log-probabilities; the two largest change places where the label would change.

    Parameters
    ----------
    scale : standard deviation, above 0
    fixed : whether it is drawn once for each record; otherwise with each query, and averaging undoes it
    """

    scale: Annotated[
        float, Option(gt=0, allowed="a number above 0", next_step="1 moves log-probabilities by about 1")
    ] = 1.0
    fixed: bool = False
    kind: Kind = "confidence-vector"

    @property
    def words(self) -> str:
        """What a page calls it."""
        return f"output noise of {self.scale:g}{' fixed for each record' if self.fixed else ''}"

    @property
    def randomness(self) -> Randomness:  # type: ignore[override]
        """Drawn for each record, or with each query."""
        return "fixed" if self.fixed else "redrawn"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Add the noise."""
        p = checked(probabilities)
        z = np.log(np.maximum(p, _FLOOR)) + self.scale * rng.normal(size=p.shape)
        return Disclosed(self.kind, label_kept(special.softmax(z, axis=-1), p))


@dataclass(frozen=True)
class AdversarialNoise(Measure):
    """The smallest change that makes the owner's own membership classifier undecided (after MemGuard, Jia et al. 2019).

    The owner learns, from outputs on records that the model learnt and on held-out ones, a logistic regression of
    membership on the sorted log-probabilities. Each vector then moves along that classifier's gradient until it says
    one half, and the label is kept. Where that needs more than the budget, the change is made for a share of the
    records only, drawn once for each, so that the mean distortion is the budget. Attackers that know of it train on
    shadow models that do the same.

    Parameters
    ----------
    budget : largest mean distortion, the sum of absolute changes of the probabilities; in (0, 2]

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> out, members = rng.dirichlet([4, 1, 1], 400), rng.dirichlet([40, 1, 1], 400)
    >>> fitted = AdversarialNoise(1.0).fit(out, np.zeros(400, dtype=np.intp), learnt=members, rng=rng)
    >>> bool(fitted.apply(members, rng=rng).values.max(axis=1).mean() < members.max(axis=1).mean() - 0.05)
    True
    """

    budget: Annotated[float, Option(gt=0, le=2, next_step="2 allows any change")] = 1.0
    kind: Kind = "confidence-vector"
    keeps_label: bool = True
    randomness: Randomness = "fixed"

    @property
    def words(self) -> str:
        """What a page calls it."""
        return f"adversarial noise (budget {self.budget:g})"

    def fit(
        self,
        probabilities: FloatArray,
        labels: IndexArray,
        *,
        learnt: FloatArray | None = None,
        rng: np.random.Generator,  # noqa: ARG002 - one signature for all defences
    ) -> FittedAdversarial:
        """Learn what gives members away."""
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - scikit-learn takes a second to load

        outside, inside = held_out(probabilities, labels), outputs_on_members(learnt)
        x = np.concatenate([_sorted(inside), _sorted(outside)])
        centre, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
        y = np.repeat([1, 0], [len(inside), len(outside)])
        model = LogisticRegression(class_weight="balanced", max_iter=1000).fit((x - centre) / spread, y)
        slope = model.coef_[0] / spread
        return FittedAdversarial(slope, float(model.intercept_[0] - slope @ centre), self.budget)


@dataclass(frozen=True, eq=False)
class FittedAdversarial:
    """A membership classifier on sorted log-probabilities, and what may be changed to silence it."""

    slope: FloatArray
    offset: float
    budget: float

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Move each vector as far as needed, for as many records as the budget allows."""
        p = checked(probabilities)
        flat = p.reshape(-1, p.shape[-1])
        moved = label_kept(self._silenced(flat), flat)
        distortion = np.abs(moved - flat).sum(axis=1)
        total = float(distortion.mean())
        share = 1.0 if total <= self.budget else self.budget / total
        changed = rng.random(len(flat)) < share
        return Disclosed("confidence-vector", np.where(changed[:, None], moved, flat).reshape(p.shape))

    def _silenced(self, p: FloatArray) -> FloatArray:
        """Go down (members) or up (others) the gradient until the classifier says one half, or as far as it goes."""
        if not self.slope.any():  # outputs that are all alike teach the classifier nothing, and need no change
            return p
        order = np.argsort(-p, axis=1, kind="stable")
        z = np.log(np.maximum(np.take_along_axis(p, order, axis=1), _FLOOR))
        direction = -np.sign(z @ self.slope + self.offset)[:, None] * self.slope / np.linalg.norm(self.slope)
        start = z @ self.slope + self.offset
        low, high = np.zeros(len(p)), np.full(len(p), _LARGEST_MOVE)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            log_p = special.log_softmax(z + middle[:, None] * direction, axis=1)
            crossed = np.sign(log_p @ self.slope + self.offset) != np.sign(start)
            low, high = np.where(crossed, low, middle), np.where(crossed, middle, high)
        moved = special.softmax(z + high[:, None] * direction, axis=1)
        reached = high < _LARGEST_MOVE * (1 - 1e-9)
        ordered = np.where(reached[:, None], moved, np.exp(z))
        by_label = np.empty_like(ordered)
        np.put_along_axis(by_label, order, ordered, axis=1)
        return np.asarray(by_label / by_label.sum(axis=1, keepdims=True))


def outputs_on_members(learnt: FloatArray | None) -> FloatArray:
    """Return outputs (a, K) on records that a model learnt, for a defence that learns what gives them away.

    Raises
    ------
    InputError
        For fewer than two.
    """
    if learnt is None or len(learnt) < 2:
        hint = "this defence learns what gives members away"
        raise InputError("learnt", "outputs on records that the model learnt", "none", hint)
    return checked(learnt)


def label_kept(changed: FloatArray, p: FloatArray) -> FloatArray:
    """Let the largest of ``changed`` (..., K) and the value at the label of ``p`` change places, where they differ.

    Examples
    --------
    >>> label_kept(np.array([[0.3, 0.7]]), np.array([[0.6, 0.4]])).tolist()
    [[0.7, 0.3]]
    """
    before, after = p.argmax(axis=-1)[..., None], changed.argmax(axis=-1)[..., None]
    swapped = changed.copy()
    top, own = (np.take_along_axis(changed, place, axis=-1) for place in (after, before))
    np.put_along_axis(swapped, after, own, axis=-1)
    np.put_along_axis(swapped, before, top, axis=-1)
    return swapped


def _sorted(p: FloatArray) -> FloatArray:
    return np.log(np.maximum(-np.sort(-p, axis=-1), _FLOOR))

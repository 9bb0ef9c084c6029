"""How well an attack distinguishes sets of generators, with intervals that count generators and not sets.

Sets of one generator share whatever chance did to its training, so a generator is the unit. Scores are compared within
a stratum only, where one classifier judged models of one target: scores of different classifiers have no common zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate
from miaudit.synthesis.utility import placement

METRICS = ("accuracy", "balanced_accuracy", "auc", "advantage", "tpr", "fpr", "auc_of_models")
_CHANCE = {"advantage": 0.0}


@dataclass(frozen=True, eq=False)
class Judged:
    """Sets that were judged by classifiers which had not seen their models.

    Attributes
    ----------
    score : (n,), higher is more member-like; at least 0 is called a member
    member : (n,) of bool
    model, stratum : (n,) of int, which model a set came from and which classifier and target it was judged for
    """

    score: FloatArray
    member: BoolArray
    model: IntArray
    stratum: IntArray

    def of_models(self) -> Judged:
        """Judge whole models: the mean score of a model's sets in a stratum."""
        pairs, code = np.unique(np.stack([self.stratum, self.model]), axis=1, return_inverse=True)
        code = code.ravel()
        count = np.bincount(code)
        first = np.zeros(len(count), dtype=np.intp)
        first[code[::-1]] = np.arange(len(code))[::-1]
        mean = np.bincount(code, weights=self.score) / count
        return Judged(mean, self.member[first], pairs[1].astype(np.int64), pairs[0].astype(np.int64))

    def within(self, keep: BoolArray) -> Judged:
        """Return some of the sets."""
        return Judged(self.score[keep], self.member[keep], self.model[keep], self.stratum[keep])

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Return the sets of all parts, in their order."""
        names = ("score", "member", "model", "stratum")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def constant(self) -> float:
        """Share of the strata in which all sets got one answer: such a classifier has learned nothing (erratum D1)."""
        called = self.score >= 0
        strata = np.unique(self.stratum)
        return float(np.mean([np.ptp(called[self.stratum == g].astype(np.int8)) == 0 for g in strata]))


def chance(metric: str) -> float:
    """What a metric is on average where membership makes no difference; tpr and fpr have no such value (NaN)."""
    return float("nan") if metric in ("tpr", "fpr") else _CHANCE.get(metric, 0.5)


def measure(arms: Judged | Sequence[Judged], confidence: float) -> dict[str, Estimate]:
    """Compute every metric with its interval; of several arms (placebos) that share their models, of their mean.

    Parameters
    ----------
    arms : one arm, or several
    confidence : two-sided, in (0, 1)

    Returns
    -------
    dict
        ``accuracy`` and ``balanced_accuracy`` (chance 0.5), ``advantage`` = TPR - FPR (chance 0), ``tpr``, ``fpr``: at
        the classifier's own threshold, so that no choice needs a correction; ``auc``: of a member set over a non-member
        one; ``auc_of_models``: the same for whole models by the mean score of their sets. Means over strata with equal
        weights. The intervals are those of the trained classifiers: what other training models would have taught them
        is not in it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = np.repeat(np.arange(40), 10)
    >>> member = model % 2 == 0
    >>> judged = Judged(rng.normal(size=40)[model] + rng.normal(size=400), member, model, model * 0)
    >>> auc = measure(judged, 0.95)["auc"]
    >>> auc.low < 0.5 < auc.high
    True
    """
    sides = [arms] if isinstance(arms, Judged) else list(arms)
    by_name = {}
    sums = [_Linear.mean([_rates(arm)[i] for arm in sides]) for i in range(4)]
    for name, part in zip(("accuracy", "tpr", "fpr", "balanced_accuracy"), sums, strict=True):
        by_name[name] = _rate(part, confidence)
    half = by_name["balanced_accuracy"]
    assert half.value is not None  # noqa: S101 - rates always have one
    by_name["advantage"] = Estimate(2 * half.value - 1, 2 * half.low - 1, 2 * half.high - 1, confidence)
    by_name["auc"] = _area(_Linear.mean([_areas(arm) for arm in sides]), confidence)
    by_name["auc_of_models"] = _area(_Linear.mean([_areas(arm.of_models()) for arm in sides]), confidence)
    return {name: by_name[name] for name in METRICS}


@dataclass(frozen=True, eq=False)
class _Linear:
    """An estimate as a sum of what each model contributes, zero on average.

    ``influence`` (models,) by number of the model, already scaled for the degree of freedom that each mean costs.
    """

    value: float
    influence: FloatArray
    models: tuple[int, int]  # of members and of non-members, in all strata
    freedom: float
    sets: int

    @property
    def variance(self) -> float:
        return float(self.influence @ self.influence)

    @classmethod
    def mean(cls, parts: Sequence[_Linear]) -> _Linear:
        """The mean of estimates from the same models."""
        value = float(np.mean([part.value for part in parts]))
        influence = np.mean([part.influence for part in parts], axis=0)
        first = parts[0]
        return cls(value, influence, first.models, first.freedom, first.sets)


def _strata(judged: Judged) -> list[tuple[IndexArray, IndexArray]]:
    """Positions of member and non-member sets in each stratum that has both."""
    strata = []
    for g in np.unique(judged.stratum):
        inside = judged.stratum == g
        rows = np.flatnonzero(inside & judged.member), np.flatnonzero(inside & ~judged.member)
        if len(rows[0]) and len(rows[1]):
            strata.append(rows)
    return strata


def _spread(judged: Judged, rows: IndexArray, values: FloatArray, models: int) -> tuple[FloatArray, int]:
    """What each model contributes (models,) to the mean of values (rows,), and how many models did."""
    code = judged.model[rows]
    totals = np.bincount(code, weights=values - values.mean(), minlength=models) / len(rows)
    count = len(np.unique(code))
    return totals * np.sqrt(count / (count - 1)) if count > 1 else totals, count


def _collected(
    judged: Judged, pieces: Sequence[tuple[float, IndexArray, FloatArray, IndexArray, FloatArray]]
) -> _Linear:
    """Average strata: the value of each, its member sets and their values, its non-member sets and theirs."""
    models = int(judged.model.max()) + 1
    total, counts, freedom = np.zeros(models), [0, 0], 0.0
    for _, inside, up, outside, down in pieces:
        for side, (rows, values) in enumerate(((inside, up), (outside, down))):
            part, count = _spread(judged, rows, values, models)
            total += part / len(pieces)
            counts[side] += count
            freedom += count - 1
    value = float(np.mean([piece[0] for piece in pieces]))
    return _Linear(value, total, (counts[0], counts[1]), max(freedom, 1.0), len(judged.score))


def _areas(judged: Judged) -> _Linear:
    """The AUC of each stratum, averaged, and the placement of each set (DeLong et al. 1988; Obuchowski 1997)."""
    pieces = []
    for inside, outside in _strata(judged):
        up = placement(judged.score[inside], judged.score[outside])
        down = 1 - placement(judged.score[outside], judged.score[inside])
        pieces.append((float(up.mean()), inside, up, outside, down))
    return _collected(judged, pieces)


def _rates(judged: Judged) -> tuple[_Linear, _Linear, _Linear, _Linear]:
    """Accuracy, TPR, FPR and balanced accuracy at the threshold 0."""
    called = (judged.score >= 0).astype(np.float64)
    accuracy, tpr, fpr, balanced = [], [], [], []
    for inside, outside in _strata(judged):
        hit, alarm = called[inside], called[outside]
        share = len(inside) / (len(inside) + len(outside))
        t, f, none_in, none_out = float(hit.mean()), float(alarm.mean()), np.zeros(len(inside)), np.zeros(len(outside))
        accuracy.append((share * t + (1 - share) * (1 - f), inside, share * hit, outside, -(1 - share) * alarm))
        tpr.append((t, inside, hit, outside, none_out))
        fpr.append((f, inside, none_in, outside, alarm))
        balanced.append(((1 + t - f) / 2, inside, hit / 2, outside, -alarm / 2))
    rates = [_collected(judged, pieces) for pieces in (accuracy, tpr, fpr, balanced)]
    return rates[0], rates[1], rates[2], rates[3]


def _rate(part: _Linear, confidence: float) -> Estimate:
    """Wilson's limits with as many trials as give the rate its variance; with models as trials where it has none.

    A rate of exactly 0 or 1, or a constant predictor, varies between no models at all.
    """
    value = min(max(part.value, 0.0), 1.0)
    models = sum(part.models)
    trials = float(models)
    if part.variance > 1e-12 and 0 < value < 1:
        trials = min(value * (1 - value) / part.variance, float(part.sets))
    quantile = float(special.stdtrit(part.freedom, (1 + confidence) / 2))
    low, high = classical.wilson_limits(value, trials, 1 - 2 * float(special.ndtr(-quantile)))
    return Estimate(value, min(low, value), max(high, value), confidence)


def _area(part: _Linear, confidence: float) -> Estimate:
    value = min(max(part.value, 0.0), 1.0)
    value = round(value) if abs(value - round(value)) < 1e-12 else value
    low, high = classical.auc_limits(value, part.variance, *part.models, confidence, part.freedom)
    return Estimate(value, low, high, confidence)

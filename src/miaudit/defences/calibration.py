"""Calibration as a defence: temperature, Platt and isotonic, and how far confidence is from accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy import optimize, special

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.defences.outputs import Disclosed, Kind, Measure, checked
from miaudit.errors import InputError
from miaudit.errors.options import Option

__all__ = ["Isotonic", "Platt", "Temperature"]

_FLOOR = 1e-12  # a probability whose logarithm is taken is never below it
_COLDEST, _HOTTEST = 1e-2, 1e3
_LEAST = 10  # held-out records below which nothing can be learned


@dataclass(frozen=True)
class Temperature(Measure):
    """One temperature for all logits (Guo et al. 2017): learned by maximum likelihood, or given.

    It is one increasing map of each vector, so an attacker who knows the temperature undoes it exactly; and an
    attacker's shadow models have temperatures of their own. Exact zeros, as of a forest, are first lifted to half of
    the smallest probability among the held-out records.

    Parameters
    ----------
    temperature : above 0, or none to learn it; above 1 makes confidences smaller

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = np.tile([0.99, 0.01], (100, 1))
    >>> right = np.repeat([0, 1], [80, 20])  # right in 80 of 100 at a confidence of 99%
    >>> Temperature().fit(p, right, rng=rng).apply(p[:1], rng=rng).values.round(2).tolist()
    [[0.8, 0.2]]
    """

    temperature: Annotated[
        float | None, Option(gt=0, allowed="a number above 0", next_step="leave it out to learn it")
    ] = None
    kind: Kind = "confidence-vector"
    keeps_label: bool = True

    @property
    def words(self) -> str:
        """What a page calls it."""
        return "temperature scaling" if self.temperature is None else f"temperature of {self.temperature:g}"

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> FittedTemperature:  # noqa: ARG002
        """Find the temperature with the largest likelihood on held-out records."""
        if self.temperature is not None:
            return FittedTemperature(self.temperature, _FLOOR)
        p, y = held_out(probabilities, labels), labels
        floor = _lifted(p)
        log_p, rows = np.log(np.maximum(p, floor)), np.arange(len(y))

        def loss(log_temperature: float) -> float:
            z = log_p * np.exp(-log_temperature)
            return float(np.mean(special.logsumexp(z, axis=1) - z[rows, y]))

        minimum = optimize.minimize_scalar(loss, bounds=(np.log(_COLDEST), np.log(_HOTTEST)), method="bounded")
        return FittedTemperature(float(np.exp(minimum.x)), floor)


@dataclass(frozen=True)
class FittedTemperature:
    """A temperature, and what zeros are lifted to."""

    temperature: float
    floor: float

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Divide the logarithms by the temperature."""
        log_p = np.log(np.maximum(checked(probabilities), self.floor))
        return Disclosed("confidence-vector", special.softmax(log_p / self.temperature, axis=-1))


@dataclass(frozen=True)
class Platt(Measure):
    """A logistic line for each class through its log-odds (Platt 1999; Zadrozny and Elkan 2002 for several classes)."""

    kind: Kind = "confidence-vector"
    words: str = "Platt calibration"

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> FittedClasses:  # noqa: ARG002
        """Fit the lines by scikit-learn's logistic regression, without a penalty, to Platt's targets."""
        p = held_out(probabilities, labels)
        floor = _lifted(p)
        odds = _log_odds(p, floor)
        return FittedClasses(tuple(_line(odds[:, k], labels == k) for k in range(odds.shape[1])), floor)


@dataclass(frozen=True)
class Isotonic(Measure):
    """An increasing step function for each class (Zadrozny and Elkan 2002), by scikit-learn. It has exact zeros."""

    kind: Kind = "confidence-vector"
    words: str = "isotonic calibration"

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> FittedClasses:  # noqa: ARG002
        """Fit the steps."""
        from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415 - scikit-learn takes a second to load

        p = held_out(probabilities, labels)
        steps = (IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip") for _ in range(p.shape[1]))
        return FittedClasses(
            tuple(step.fit(p[:, k], (labels == k).astype(np.float64)).predict for k, step in enumerate(steps)),
            None,
        )


@dataclass(frozen=True, eq=False)
class FittedClasses:
    """A function for each class, of its probability or, with a floor of zeros, of its log-odds; sums are made 1."""

    of_class: tuple[Any, ...]
    floor: float | None

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Calibrate each class against the rest, then divide by the sum; a row of zeros becomes equal shares."""
        p = checked(probabilities)
        values = p if self.floor is None else _log_odds(p, self.floor)
        flat = values.reshape(-1, p.shape[-1])
        raw = np.stack([of(flat[:, k]) for k, of in enumerate(self.of_class)], axis=1).reshape(p.shape)
        total = raw.sum(axis=-1, keepdims=True)
        shares = np.where(total > 0, raw / np.where(total > 0, total, 1.0), 1 / p.shape[-1])
        return Disclosed("confidence-vector", shares)


def calibration_error(probabilities: FloatArray, labels: IndexArray, *, bins: int = 15) -> float:
    """Expected calibration error of the largest probability, in bins of equal counts (Naeini et al. 2015); 0 is best.

    It is never below what chance makes of so few records: a calibrated model has a small positive one.

    Parameters
    ----------
    probabilities : array (n, K)
    labels : array (n,)
    bins : number of bins, at least 1

    Examples
    --------
    >>> calibration_error(np.tile([0.9, 0.1], (10, 1)), np.repeat([0, 1], [6, 4]), bins=1)
    0.3
    """
    top = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    order = np.argsort(top, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, len(order))) if len(part)]
    gaps = [abs(float(right[part].mean() - top[part].mean())) * len(part) for part in parts]
    return round(sum(gaps) / len(order), 12)


def held_out(probabilities: FloatArray, labels: IndexArray) -> FloatArray:
    """Return outputs (c, K) that something is learned from; refuse too few, and labels that do not belong to them."""
    p = checked(probabilities)
    if p.ndim != 2 or np.shape(labels) != (len(p),):
        received = f"shapes {p.shape} and {np.shape(labels)}"
        raise InputError("calibration", "outputs (c, K) and labels (c,)", received, "pass a label for each record")
    if len(p) < _LEAST:
        hint = "set more aside: calibration.records"
        raise InputError("calibration.records", f"{_LEAST} held-out records or more", str(len(p)), hint)
    return p


def _lifted(p: FloatArray) -> float:
    """What zeros are lifted to: half of the smallest probability, where there are any."""
    return max(float(p[p > 0].min()) / 2, _FLOOR) if (p == 0).any() else _FLOOR


def _log_odds(p: FloatArray, floor: float) -> FloatArray:
    """Log-odds of each class, from the others' sum, so that a probability that rounds to 1 keeps its digits."""
    others = p.sum(axis=-1, keepdims=True) - p
    near = p > 0.5
    if near.any():
        rest = np.where(near, 0.0, p).sum(axis=-1, keepdims=True)
        others = np.where(near, rest, others)
    return np.asarray(np.log(np.maximum(p, floor)) - np.log(np.maximum(others, floor)))


def _line(odds: FloatArray, of_class: BoolArray) -> Any:
    """Return a function of log-odds: the logistic line, or the share of the class where it has records on one side."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    inside, outside = int(of_class.sum()), int((~of_class).sum())
    high, low = (inside + 1) / (inside + 2), 1 / (outside + 2)
    if not inside or not outside:
        share = high if inside else low
        return lambda values: np.full(len(values), share)
    # Platt's targets are soft: each record stands on both sides, with weights.
    target = np.where(of_class, high, low)
    scale = max(float(np.abs(odds).max()), 1.0)
    x = np.concatenate([odds, odds])[:, None] / scale
    y = np.repeat([1, 0], len(odds))
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(
        x, y, sample_weight=np.concatenate([target, 1 - target])
    )
    slope, offset = float(model.coef_[0, 0]) / scale, float(model.intercept_[0])
    return lambda values: special.expit(slope * values + offset)

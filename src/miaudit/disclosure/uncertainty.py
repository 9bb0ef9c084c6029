"""Calibration error and aleatoric and epistemic uncertainty of records, from shadow outputs.

These are the three figures that uncertainty-mia's theory starts from (Eqs. 23, 24 and 28). The theory defines them by a
ground truth that nobody has for a real record; what stands in for it is part of the result, in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray
from miaudit.attacks import dirichlet_fit
from miaudit.errors import InputError
from miaudit.errors.options import check_choice

__all__ = ["Outputs", "Uncertainty", "estimate", "from_shadow"]

Form = Literal["fitted", "three-numbers"]

# Models on each side below which a Dirichlet law of a record's own says nothing.
LEAST = 4
_ROUNDING = 1e-3
_ASSUMED = (
    "the true probability of a record's label is taken to be the mean confidence of the models that did not learn the "
    "record, which no data can check"
)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Calibration and uncertainty of each record, estimated from shadow models.

    Attributes
    ----------
    confidence_in, confidence_out : arrays (n,), 0 to 1
        Mean probability of the record's label over models that did and did not learn it.
    truth : array (n,), 0 to 1
        Its ground-truth probability p_0*, as given or assumed.
    calibration_error : array (n,), from -1 up
        Delta = (confidence_in - p_0*) / p_0* (Eq. 24); positive is overconfident.
    calibration_error_sd : array (n,), its standard error over the models
    aleatoric : array (n,), 0 to 1
        epsilon_a = 1 - p_0* (Eq. 23).
    epistemic : array (n,), above 0
        epsilon_e, the mean of ``epistemic_in`` and ``epistemic_out``, which Eq. 28 takes for equal.
    epistemic_in, epistemic_out : arrays (n,)
        One over the sum of the Dirichlet parameters fitted to each side.
    alpha_in, alpha_out : arrays (n, K)
        These parameters; column 0 is the record's label, the other classes follow in their order.
    converged : array (n,) of bool, whether both fits did
    models_in, models_out : arrays (n,) of int
    smoothing : smallest probability that was let through
    smoothed : share of the probabilities that were raised to it, 0 to 1
    truth_known : whether the ground truth was the caller's
    """

    confidence_in: FloatArray
    confidence_out: FloatArray
    truth: FloatArray
    calibration_error: FloatArray
    calibration_error_sd: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray
    epistemic_in: FloatArray
    epistemic_out: FloatArray
    alpha_in: FloatArray
    alpha_out: FloatArray
    converged: BoolArray
    models_in: IntArray
    models_out: IntArray
    smoothing: float
    smoothed: float
    truth_known: bool

    @property
    def given(self) -> bool:
        """The earlier name of ``truth_known``."""
        return self.truth_known

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.truth)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.alpha_in.shape[1])

    @property
    def in_domain(self) -> BoolArray:
        """Whether the theory covers a record: Delta >= 0 and epsilon_a <= 1 - 1/K (erratum E5).

        The lower limit Delta / (1 + Delta) < epsilon_a says that ``confidence_in`` is below 1, and always holds here.
        """
        return np.asarray((self.calibration_error >= 0) & (self.aleatoric <= 1 - 1 / self.classes + 1e-12))

    @property
    def assumption(self) -> str:
        """The stand-in for the ground truth, in words."""
        return assumption(self.truth_known)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to show beside the figures."""
        outside = int((~self.in_domain).sum())
        apart = float(np.median(self.epistemic_out / self.epistemic_in))
        sentences = [self.assumption]
        if outside:
            under = int((self.calibration_error < 0).sum())
            hard = int((self.aleatoric > 1 - 1 / self.classes + 1e-12).sum())
            sentences.append(
                f"{outside} of {self.n} records lie outside the theory's domain: {under} with a calibration error "
                f"below 0, {hard} with an aleatoric uncertainty above 1 - 1/K = {1 - 1 / self.classes:.3g}"
            )
        if not 0.5 <= apart <= 2:
            sentences.append(
                f"the epistemic uncertainty without a record is {apart:.3g} times that with it (median), where the "
                "theory takes both for equal (Eq. 28)"
            )
        if not self.converged.all():
            sentences.append(f"the Dirichlet fit of {int((~self.converged).sum())} records did not converge")
        if self.smoothed:
            sentences.append(
                f"probabilities below {self.smoothing:.3g} ({self.smoothed:.3%} of all) were raised to it, since a "
                "Dirichlet law has no place for a zero"
            )
        return tuple(sentences)

    def parameters(self, form: Form = "fitted") -> tuple[FloatArray, FloatArray]:
        """Return Dirichlet parameters (n, K) with and without each record; column 0 is its label.

        Parameters
        ----------
        form : "fitted", all K parameters of both sides as fitted; or "three-numbers", what Eqs. 29 and 30 make of the
            calibration error and the two uncertainties, all other classes alike. Outside the theory's domain these are
            still proper laws.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> p = rng.dirichlet([4.0, 3.0, 1.0], size=(5, 16))
        >>> found = estimate(p, np.tile(np.arange(16) % 2 == 0, (5, 1)), [0, 0, 1, 1, 2])
        >>> inside, outside = found.parameters("three-numbers")
        >>> bool(np.allclose(inside.sum(axis=1), outside.sum(axis=1))), bool(np.allclose(outside[:, 1], outside[:, 2]))
        (True, True)
        """
        check_choice("form", form, get_args(Form))
        if form == "fitted":
            return self.alpha_in, self.alpha_out
        return self._law((1 + self.calibration_error) * self.truth), self._law(self.truth)

    def _law(self, confidence: FloatArray) -> FloatArray:
        """Return parameters with this mean of the true label, the rest even, and a sum of 1 / epsilon_e."""
        own = np.clip(confidence, self.smoothing, 1 - self.smoothing)
        other = np.repeat(((1 - own) / (self.classes - 1))[:, None], self.classes - 1, axis=1)
        return np.asarray(np.column_stack([own, other]) / self.epistemic[:, None])

    def table(self) -> dict[str, NDArray[Any]]:
        """Return columns by name, one row for each record, for :func:`miaudit.io.tables.write_columns`."""
        names = (
            "confidence_in",
            "confidence_out",
            "truth",
            "calibration_error",
            "calibration_error_sd",
            "aleatoric",
            "epistemic",
            "epistemic_in",
            "epistemic_out",
            "in_domain",
            "converged",
        )
        return {"record": np.arange(self.n), **{name: getattr(self, name) for name in names}}


def estimate(
    probabilities: ArrayLike,
    included: ArrayLike,
    labels: ArrayLike,
    *,
    used: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    smoothing: float = dirichlet_fit.SMOOTHING,
) -> Uncertainty:
    """Estimate each record's relative calibration error and both uncertainties from shadow outputs.

    Parameters
    ----------
    probabilities : array (n, M, K)
        What M shadow models say of each record; softmax of logits.
    included : array (n, M) of bool
        Whether model j was trained on record i; ``ShadowOutputs.included`` is its transpose.
    labels : array (n,) of int, 0 to K - 1
    used : array (n, M) of bool, optional
        Which models count for which record; by default all.
    truth : float or array (n,), in (0, 1], optional
        Known ground-truth probability of each record's label: 0.8 where a fifth of the labels was flipped, say. By
        default the mean of the models that did not learn the record, an assumption that the result states.
    smoothing : in (0, 1 / K); probabilities below it are raised to it

    Raises
    ------
    InputError
        For values that are no probabilities, K = 1, shapes or labels that do not fit, a truth outside (0, 1], and fewer
        than four models with and without each record.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(400) % 2 == 0, (3, 1))
    >>> gamma = rng.gamma(np.where(included[..., None], [6.0, 2.0, 2.0], [5.0, 2.5, 2.5]))
    >>> found = estimate(gamma / gamma.sum(axis=2, keepdims=True), included, [0, 0, 0])
    >>> tuple(float(values.mean().round(2)) for values in (found.calibration_error, found.aleatoric, found.epistemic))
    (0.18, 0.5, 0.1)
    >>> found.assumption[:55]
    "the true probability of a record's label is taken to be"
    """
    p, inside, y = checked(probabilities, included, labels)
    counts = np.ones_like(inside) if used is None else _used(used, inside)
    sides = inside & counts, ~inside & counts
    require_models(sides, LEAST, "an estimate for each record")
    if not 0 < smoothing < 1 / p.shape[2]:
        raise InputError("smoothing", f"a number in (0, {1 / p.shape[2]:.3g})", repr(smoothing), "leave it out")
    p = label_first(p, y)
    known_truth = None if truth is None else checked_truth(truth, len(p))
    member, other = (_Side.of(p, side, smoothing) for side in sides)
    # Without a given truth the mean of the other models stands in; smoothed, since the calibration error divides by it.
    target = np.maximum(other.mean, smoothing) if known_truth is None else known_truth
    unsure = (member.mean / target) ** 2 * other.error**2 if known_truth is None else 0.0
    return Uncertainty(
        confidence_in=member.mean,
        confidence_out=other.mean,
        truth=target,
        calibration_error=(member.mean - target) / target,
        calibration_error_sd=np.sqrt(member.error**2 + unsure) / target,
        aleatoric=1 - target,
        epistemic=(member.epistemic + other.epistemic) / 2,
        epistemic_in=member.epistemic,
        epistemic_out=other.epistemic,
        alpha_in=member.alpha,
        alpha_out=other.alpha,
        converged=member.converged & other.converged,
        models_in=member.models,
        models_out=other.models,
        smoothing=smoothing,
        smoothed=float((member.raised + other.raised) / counts.sum()),
        truth_known=known_truth is not None,
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """What the models of one side say of each record.

    Attributes
    ----------
    models : array (n,), how many there are
    mean, error : arrays (n,), mean confidence in the label and its standard error
    alpha : array (n, K), the fitted Dirichlet parameters
    converged : array (n,) of bool
    raised : number of outputs times the share of their probabilities that were raised
    """

    models: IntArray
    mean: FloatArray
    error: FloatArray
    alpha: FloatArray
    converged: BoolArray
    raised: float

    @classmethod
    def of(cls, p: FloatArray, side: BoolArray, smoothing: float) -> _Side:
        """Estimate from outputs (n, M, K), of which ``side`` (n, M) count."""
        fit = dirichlet_fit.fit(p, side, smoothing=smoothing)
        alpha = np.asarray(fit.alpha, dtype=np.float64)
        return cls(*_moments(p[..., 0], side), alpha, fit.converged, float(fit.smoothed * side.sum()))

    @property
    def epistemic(self) -> FloatArray:
        """One over the sum of the parameters (n,)."""
        return np.asarray(1 / self.alpha.sum(axis=1))


class Outputs(Protocol):
    """The part of :class:`miaudit.models.shadow.ShadowOutputs` that this module reads."""

    @property
    def included(self) -> BoolArray:
        """Which records each model learned, (M, n)."""

    @property
    def labels(self) -> NDArray[Any]:
        """Classes (n,)."""

    @property
    def kind(self) -> str:
        """Kind of output; "logits" here."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, K) of one model's outputs."""

    @property
    def models(self) -> int:
        """Number of models, M."""

    def model(self, number: int) -> Float32Array:
        """Return the outputs (n, K) of one model."""


def from_shadow(outputs: Outputs, rows: ArrayLike | None = None) -> tuple[FloatArray, BoolArray, IndexArray]:
    """Return probabilities (n, M, K), inclusion (n, M) and labels (n,) of shadow outputs.

    Parameters
    ----------
    outputs : :class:`miaudit.models.shadow.ShadowOutputs` with all logits of one view
    rows : array of int, optional
        Which records; by default all, which takes 8 n M K bytes.

    Raises
    ------
    InputError
        Where one signal or several views were kept instead of logits.

    Examples
    --------
    >>> from miaudit.models.shadow import ShadowOutputs
    >>> logits = np.log([[[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]]] * 4)
    >>> outputs = ShadowOutputs.of(logits, [[True, False, True], [False, True, False]] * 2, [0, 0, 1])
    >>> p, included, labels = from_shadow(outputs, [1])
    >>> p[0, 0].round(2).tolist(), included.tolist(), labels.tolist()
    ([0.8, 0.2], [[False, True, False, True]], [0])
    """
    if outputs.kind != "logits" or len(outputs.shape) != 2:
        received = f"{outputs.kind} of shape {outputs.shape}"
        raise InputError("outputs", "logits of one view, (n, K)", received, "train without signal= and views=")
    n = outputs.shape[0]
    chosen = np.arange(n) if rows is None else np.asarray(rows)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or not chosen.size or chosen.min() < 0 or chosen.max() >= n:
        received = f"{chosen.dtype} of shape {chosen.shape}"
        raise InputError("rows", f"whole numbers from 0 to {n - 1}", received, "leave it out for all records")
    logits = np.stack([np.asarray(outputs.model(m)[chosen], dtype=np.float64) for m in range(outputs.models)], axis=1)
    inside = np.ascontiguousarray(outputs.included.T[chosen])
    return special.softmax(logits, axis=2), inside, np.asarray(outputs.labels)[chosen].astype(np.intp)


def assumption(truth_known: bool) -> str:
    """Describe the stand-in for the ground truth."""
    return "the true probability of a record's label was given by the caller" if truth_known else _ASSUMED


def label_first(p: FloatArray, labels: IndexArray) -> FloatArray:
    """Move the column of each record's label to the front; the others keep their order.

    Examples
    --------
    >>> label_first(np.array([[[0.1, 0.2, 0.7]]]), np.array([2])).tolist()
    [[[0.7, 0.1, 0.2]]]
    """
    classes = p.shape[-1]
    others = np.arange(classes - 1)[None] + (np.arange(classes - 1)[None] >= labels[:, None])
    order = np.column_stack([labels, others])
    return np.take_along_axis(p, np.broadcast_to(order[:, None], p.shape), axis=2)


def checked(
    probabilities: ArrayLike, included: ArrayLike, labels: ArrayLike
) -> tuple[FloatArray, BoolArray, IndexArray]:
    """Return shadow outputs as float64 that sum to 1, bool and int; refuse what cannot be used.

    Raises
    ------
    InputError
        As :func:`estimate`.
    """
    p = np.asarray(probabilities)
    if p.dtype.kind not in "iuf" or p.ndim != 3 or not p.size:
        received = f"{p.dtype} of shape {p.shape}"
        raise InputError("probabilities", "numbers of shape (n, M, K)", received, "stack the outputs of all models")
    if p.shape[2] < 2:
        raise InputError("probabilities", "two classes or more", "K = 1", "one class is always certain")
    p = p.astype(np.float64)
    total = p.sum(axis=2)
    wrong = ~((p >= 0).all(axis=2) & (np.abs(total - 1) <= _ROUNDING))
    if wrong.any():
        record, model = np.argwhere(wrong)[0]
        received = f"a sum of {total[record, model]:.4g} or values below 0, first in record {record}, model {model}"
        raise InputError("probabilities", "numbers from 0 up that sum to 1", received, "apply softmax to logits")
    inside = np.asarray(included)
    if inside.dtype.kind != "b" or inside.shape != p.shape[:2]:
        hint = "transpose it" if inside.T.shape == p.shape[:2] else "a row for each record, a column for each model"
        received = f"{inside.dtype} of shape {inside.shape}"
        raise InputError("included", f"True or False of shape {p.shape[:2]}", received, hint)
    y = np.asarray(labels)
    if y.dtype.kind not in "iu" or y.shape != p.shape[:1] or y.min() < 0 or y.max() >= p.shape[2]:
        allowed = f"{len(p)} whole numbers from 0 to {p.shape[2] - 1}"
        raise InputError("labels", allowed, f"{y.dtype} of shape {y.shape}", "pass the column of each record's class")
    return p / total[..., None], inside, y.astype(np.intp)


def require_models(sides: tuple[BoolArray, BoolArray], least: int, purpose: str) -> None:
    """Refuse fewer than ``least`` models with and without each record; name the number needed."""
    fewest = min(int(side.sum(axis=1).min()) for side in sides)
    if fewest < least:
        raise InputError(
            "included",
            f"{least} models or more with and without each record, for {purpose}",
            f"{fewest} on one side of a record",
            f"train {2 * least} or more with shadow.inclusion(n, {2 * least}), or pool records with disclosure.groups",
        )


def _used(values: ArrayLike, inside: BoolArray) -> BoolArray:
    used = np.asarray(values)
    if used.dtype.kind != "b" or used.shape != inside.shape:
        received = f"{used.dtype} of shape {used.shape}"
        raise InputError("used", f"True or False of shape {inside.shape}", received, "leave it out to use all models")
    return used


def checked_truth(values: ArrayLike, n: int) -> FloatArray:
    """Return known ground-truth probabilities (n,), each above 0 and at most 1."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)) or not ((array > 0) & (array <= 1)).all():
        received = f"shape {array.shape}, from {np.min(array):.3g} to {np.max(array):.3g}"
        raise InputError("truth", f"one probability or {n}, above 0 and at most 1", received, "1 - the flip rate")
    return np.array(np.broadcast_to(array, n))


def _moments(confidence: FloatArray, side: BoolArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return each record's number of models, mean and standard error of the mean."""
    count = side.sum(axis=1)
    mean = np.sum(confidence, axis=1, where=side) / count
    squares = np.sum((confidence - mean[:, None]) ** 2, axis=1, where=side)
    return count.astype(np.int64), mean, np.sqrt(squares / ((count - 1) * count))

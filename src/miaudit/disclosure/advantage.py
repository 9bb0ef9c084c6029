"""The advantage of an attacker given a confidence vector, the true label's confidence or a decision set.

uncertainty-mia, Section V. "Advantage" has several meanings (erratum E8): here alpha - beta_alpha at a true-negative
rate alpha, or averaged over alpha, which equals AUC - 1/2 and is what Figures 7 to 10 show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.disclosure import tradeoff
from miaudit.disclosure.decision_sets import chance_of_entry
from miaudit.disclosure.dirichlet import World, marginal, parameters
from miaudit.disclosure.tradeoff import DRAWS, TradeOff
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.errors.options import check_choice

Disclosure = Literal["confidence-vector", "true-label", "decision-set"]
Method = Literal["exact", "simulation"]

AVERAGED = "alpha - beta averaged over the true-negative rate alpha: AUC - 1/2"


@dataclass(frozen=True, eq=False)
class Advantage:
    """Advantage of the best attack under one disclosure.

    Attributes
    ----------
    value : float, or array (n,) for n records
        In [0, 1/2] averaged, in [0, 1] at one alpha; 0: nothing beyond guessing.
    error : float, or array (n,)
        Estimate of how far ``value`` may be from the truth of the model: quadrature, labels left out, or two standard
        errors of draws.
    disclosure : "confidence-vector", "true-label" or "decision-set"
    alpha : float or None
        The true-negative rate, 1 - FPR; None: averaged.
    meaning : which advantage this is, in words
    method : "exact" or "simulation"
    note : what a reader has to know, or ""
    """

    value: Any
    error: Any
    disclosure: Disclosure
    alpha: float | None
    meaning: str
    method: Method
    note: str = ""


def advantage(
    disclosure: Disclosure,
    *,
    classes: int,
    aleatoric: float,
    epistemic: float,
    calibration_error: float,
    threshold: float | None = None,
    temperature: float = 0.0,
    alpha: float | None = None,
    method: Method = "exact",
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> Advantage:
    """Return the advantage of the likelihood-ratio attack in the Dirichlet model, Eqs. (13) to (16).

    Parameters
    ----------
    disclosure : "confidence-vector" (Eq. 3), "true-label" (Eq. 4) or "decision-set" (Eq. 36)
    classes, aleatoric, epistemic, calibration_error : see :class:`miaudit.disclosure.dirichlet.World`
    threshold : float in [0, 1]
        q of a decision set, required there and not read otherwise.
    temperature : float, 0 or more
        T of a decision set; 0: labels with confidence q or more, without coins.
    alpha : float in [0, 1], optional
        A true-negative rate (1 - FPR); by default the average over all.
    method : "exact" or "simulation"
        "exact" uses no draws, but for decision sets whose law costs too much; then ``rng`` is needed.
    draws : int
        Of each law, where draws are used.
    rng : numpy.random.Generator
        Required where draws are used.

    Raises
    ------
    InputError
        For parameters outside the domain (erratum E5), an unknown disclosure, a missing threshold or generator.

    Examples
    --------
    >>> world = dict(classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2)
    >>> [round(advantage(d, **world, threshold=0.2).value, 4) for d in get_args(Disclosure)]
    [0.2002, 0.1256, 0.0754]
    >>> round(advantage("true-label", **world, alpha=0.999).value, 5)  # TPR 0.55% at an FPR of 0.1%
    0.00455
    """
    world = World(classes, aleatoric, epistemic, calibration_error)
    return advantage_of(
        world.alpha_in,
        world.alpha_out,
        disclosure=disclosure,
        threshold=threshold,
        temperature=temperature,
        alpha=alpha,
        method=method,
        draws=draws,
        rng=rng,
    )


def advantage_of(
    alpha_in: ArrayLike,
    alpha_out: ArrayLike,
    *,
    disclosure: Disclosure,
    label: ArrayLike = 0,
    threshold: float | None = None,
    temperature: float = 0.0,
    alpha: float | None = None,
    method: Method = "exact",
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> Advantage:
    """Return the advantage of the likelihood-ratio attack between two Dirichlet laws, for one or many records.

    Parameters
    ----------
    alpha_in, alpha_out : arrays (K,) or (n, K), above 0
        Parameters of models that did and did not learn the record; the values come back as a float or as (n,).
    label : int, or array (n,) of int
        The true label, read by "true-label" only.
    disclosure, threshold, temperature, alpha, method, draws, rng : as in :func:`advantage`

    Examples
    --------
    >>> found = advantage_of([[3.0, 1.0], [9.0, 1.0]], [[2.0, 1.0], [2.0, 1.0]], disclosure="true-label")
    >>> found.value.round(4).tolist()
    [0.1, 0.3182]
    """
    check_disclosure(disclosure, threshold)
    check_choice("method", method, get_args(Method), "choose")
    a, b, alpha = checked_laws(alpha_in, alpha_out, alpha)
    note = _note(disclosure, threshold, temperature, a)
    if alpha is None and method == "exact" and disclosure != "decision-set":
        laws = (a, b) if disclosure == "confidence-vector" else (marginal(a, label), marginal(b, label))
        value, error = tradeoff.averaged_with_error(*laws)
        return _result(value, error, disclosure, alpha, method, note)
    records = zip(np.atleast_2d(a), np.atleast_2d(b), _labels(label, a), strict=True)
    curves = (
        curve_of(mine, other, disclosure, which, threshold, temperature, method, draws, rng)
        for mine, other, which in records
    )
    readings = [_read(curve, alpha) for curve in curves]
    value, error = (np.array(x) if a.ndim == 2 else np.array(x[0]) for x in zip(*readings, strict=True))
    return _result(value, error, disclosure, alpha, method, note)


def _labels(label: ArrayLike, laws: FloatArray) -> list[int]:
    """Return the label of each record, one of the laws or several."""
    return [int(one) for one in np.broadcast_to(np.asarray(label), len(np.atleast_2d(laws)))]


def checked_laws(
    alpha_in: ArrayLike, alpha_out: ArrayLike, alpha: float | None
) -> tuple[FloatArray, FloatArray, float | None]:
    """Return parameters (K,) or (n, K) of both laws and a true-negative rate, if there is one; refuse others."""
    a, b = parameters("alpha_in", alpha_in), parameters("alpha_out", alpha_out)
    if a.shape != b.shape or a.ndim > 2:
        raise InputError("alpha_in, alpha_out", "one shape, (K,) or (n, K)", f"{a.shape}, {b.shape}", "pass both alike")
    return a, b, None if alpha is None else float(tradeoff.check_tnr(alpha))


def meaning_at(alpha: float | None) -> str:
    """Say which advantage stands at a true-negative rate; none: averaged."""
    return AVERAGED if alpha is None else f"alpha - beta at the true-negative rate alpha = {alpha:g}"


def _read(curve: TradeOff, alpha: float | None) -> tuple[float, float]:
    if alpha is None:
        return curve.averaged(), float(np.trapezoid(curve.slack, curve.tnr))
    return max(0.0, float(curve.advantage(alpha))), float(curve.error(alpha))


def _result(
    value: FloatArray, error: FloatArray, disclosure: Disclosure, alpha: float | None, method: Method, note: str
) -> Advantage:
    shown = (value, error) if value.ndim else (float(value), float(error))
    return Advantage(shown[0], shown[1], disclosure, alpha, meaning_at(alpha), method, note)


def curve_of(
    alpha_in: ArrayLike,
    alpha_out: ArrayLike,
    disclosure: Disclosure,
    label: int = 0,
    threshold: float | None = None,
    temperature: float = 0.0,
    method: Method = "exact",
    draws: int = DRAWS,
    rng: np.random.Generator | None = None,
) -> TradeOff:
    """Return the whole trade-off curve of one record under a disclosure; arguments as in :func:`advantage_of`.

    Examples
    --------
    >>> curve = curve_of([2.0, 1.0], [1.0, 1.0], "true-label")
    >>> round(float(curve(0.9)), 3)  # beta = alpha^2
    0.81
    """
    check_disclosure(disclosure, threshold)
    simulate = method == "simulation"
    if simulate or rng is not None:
        check_generator(rng)
    if disclosure == "decision-set":
        q, heat = tradeoff.check_threshold(threshold), tradeoff.check_temperature(temperature)
        of_sets = tradeoff.simulated_sets if simulate else tradeoff.decision_set
        return of_sets(alpha_in, alpha_out, threshold=q, temperature=heat, draws=draws, rng=rng)
    if simulate and rng is not None:
        laws = (alpha_in, alpha_out)
        if disclosure == "true-label":
            laws = marginal(alpha_in, label), marginal(alpha_out, label)
        return tradeoff.simulated_confidence(*laws, draws=draws, rng=rng)
    if disclosure == "true-label":
        return tradeoff.true_label(alpha_in, alpha_out, label)
    return tradeoff.confidence_vector(alpha_in, alpha_out)


def check_disclosure(disclosure: str, threshold: float | None) -> None:
    """Refuse an unknown disclosure, and a decision set without threshold."""
    check_choice("disclosure", disclosure, get_args(Disclosure))
    if disclosure == "decision-set" and threshold is None:
        raise InputError(
            "threshold", "a number in [0, 1] for a decision set", "None", "it holds the labels with p >= q"
        )


def _note(disclosure: Disclosure, threshold: float | None, temperature: float, alpha_in: FloatArray) -> str:
    if disclosure != "decision-set" or threshold is None or tradeoff.check_temperature(temperature) > 0:
        return ""
    q = tradeoff.check_threshold(threshold)
    if q in (0, 1):
        held = "every label" if q == 0 else "no label"
        return f"at a threshold of {q:g} the set holds {held} whatever the model says: it tells nothing"
    size = expected_size(alpha_in, threshold=q)
    if np.any(np.minimum(size, alpha_in.shape[-1] - size) < 1e-6):
        return f"at a threshold of {q:g} the set of some record is (nearly) always full or empty: it tells nothing"
    return ""


def expected_size(alpha: ArrayLike, *, threshold: float, temperature: float = 0.0) -> FloatArray:
    """Return the expected number of labels in a decision set (uncertainty-mia, Figures 10 and 13, left).

    Parameters
    ----------
    alpha : array (K,) or (n, K), above 0
    threshold, temperature : of the set

    Returns
    -------
    array () or (n,), in [0, K]

    Examples
    --------
    >>> round(float(expected_size([1.0, 1.0, 1.0], threshold=0.5)), 4)  # 3 (1 - 0.5)^2
    0.75
    """
    laws = parameters("alpha", alpha)
    q, heat = tradeoff.check_threshold(threshold), tradeoff.check_temperature(temperature)
    return np.asarray(chance_of_entry(laws, q, heat).sum(axis=-1))

"""Information-theoretic upper bounds on an attacker's advantage: printed, approximate and tight.

uncertainty-mia, Lemmas 1 and 2 and Propositions 1 to 3. With J = D(out || in) + D(in || out) in nats between what is
disclosed without and with the record:

- **printed**: sqrt(J), Eqs. (22), (31), (34) and (38);
- **approximate**: Eqs. (32), (35) and (40), where digamma functions became logarithms: no bound (erratum E1);
- **pinsker**: sqrt(J) / 2, since d(a || b) >= 2 (a - b)^2 in nats;
- **tight**: the A that solves 4 A artanh(A) = J (erratum E1), always below 1;
- **region**: alpha - beta_alpha^lb of Eq. (20) at one alpha, or averaged over alpha.

All but the last hold at every alpha, so also for the average. Lemmas 1 and 2 hold for any pair of laws: here Dirichlet
laws, as in the paper, or logit-normal ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.disclosure import decision_sets, logit_normal
from miaudit.disclosure.advantage import Disclosure, check_disclosure, checked_laws, meaning_at
from miaudit.disclosure.contraction import Contraction, contraction
from miaudit.disclosure.decision_sets import Intractable
from miaudit.disclosure.dirichlet import World, divergence, marginal
from miaudit.disclosure.logit_normal import Law
from miaudit.disclosure.tradeoff import check_temperature, check_threshold, check_tnr
from miaudit.errors import InputError
from miaudit.errors.options import check_choice

Form = Literal["tight", "printed", "pinsker", "approximate", "region"]

_BISECTIONS = 60
_RATES = 400  # true-negative rates of the average


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound on an advantage: a property of the model, not of data.

    Attributes
    ----------
    value : float, or array (n,) for n records
        0 or more; "printed" and "approximate" may exceed 1, where they say nothing.
    form : "tight", "printed", "pinsker", "approximate" or "region"
    disclosure : "confidence-vector", "true-label" or "decision-set"
    alpha : float or None
        Read by "region" only; the others hold at every alpha.
    meaning : what it bounds, in words
    out_in, in_out : float, or array (n,)
        D(out || in) and D(in || out), in nats, that it was computed from.
    delta : Contraction or None
        delta_{T,q} of Eq. (39), where it was used.
    holds : bool
        False for "approximate", which erratum E1 shows failing when halved, as the exact formula may be, and which of
        logit-normal laws takes a margin for Gaussian.
    """

    value: Any
    form: Form
    disclosure: Disclosure
    alpha: float | None
    meaning: str
    out_in: Any
    in_out: Any
    delta: Contraction | None
    holds: bool


def bound(
    disclosure: Disclosure,
    *,
    classes: int,
    aleatoric: float,
    epistemic: float,
    calibration_error: float,
    threshold: float | None = None,
    temperature: float = 0.0,
    alpha: float | None = None,
    tight: bool = True,
    form: Form | None = None,
    rng: np.random.Generator | None = None,  # noqa: ARG001 - the same arguments as advantage
) -> Bound:
    """Return an upper bound on :func:`miaudit.disclosure.advantage`; same arguments.

    Parameters
    ----------
    disclosure, classes, aleatoric, epistemic, calibration_error, threshold, temperature, alpha :
        As in :func:`miaudit.disclosure.advantage`.
    tight : bool
        True: 4 A artanh(A) = J (erratum E1); False: the printed sqrt(J).
    form : optional
        Any of the forms by name, instead of ``tight``.
    rng : ignored; nothing is drawn.

    Raises
    ------
    InputError
        As :func:`miaudit.disclosure.advantage`, and for an unknown form.

    Examples
    --------
    >>> world = dict(classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2)
    >>> [round(bound(d, **world, threshold=0.2).value, 3) for d in get_args(Disclosure)]
    [0.367, 0.228, 0.154]
    >>> [round(bound("true-label", **world, form=f).value, 3) for f in get_args(Form)]
    [0.228, 0.459, 0.23, 0.452, 0.168]
    """
    world = World(classes, aleatoric, epistemic, calibration_error)
    chosen = _form(tight, form)
    if chosen != "approximate":
        return bound_of(
            world.alpha_in,
            world.alpha_out,
            disclosure=disclosure,
            threshold=threshold,
            temperature=temperature,
            alpha=alpha,
            form=chosen,
        )
    check_disclosure(disclosure, threshold)
    of_vector = math.sqrt(approximate_divergence(world, world.classes if disclosure != "true-label" else 2))
    delta = None
    if disclosure == "decision-set":
        delta = contraction(world.classes, check_threshold(threshold), check_temperature(temperature))
    value = of_vector * (1.0 if delta is None else delta.upper)
    exact = _of_vector(world.alpha_in, world.alpha_out, disclosure, 0)
    return Bound(
        value, chosen, disclosure, alpha, _meaning(chosen, alpha), float(exact[0]), float(exact[1]), delta, False
    )


def bound_of(
    alpha_in: ArrayLike,
    alpha_out: ArrayLike,
    *,
    disclosure: Disclosure,
    label: ArrayLike = 0,
    threshold: float | None = None,
    temperature: float = 0.0,
    alpha: float | None = None,
    tight: bool = True,
    form: Form | None = None,
) -> Bound:
    """Return an upper bound on the advantage between two Dirichlet laws, for one record or many.

    Decision sets: "printed" and "pinsker" are Proposition 3, delta_{T,q} (certified, erratum E9) times the bound of the
    confidence vector. "tight" and "region" use the divergences of the sets themselves, which are smaller; where these
    cost too much, delta^2 times those of the vector.

    Parameters
    ----------
    alpha_in, alpha_out : arrays (K,) or (n, K), above 0
    label : int, or array (n,); read by "true-label" only
    disclosure, threshold, temperature, alpha, tight, form : as in :func:`bound`; "approximate" needs a World.

    Examples
    --------
    >>> found = bound_of([[3.0, 1.0], [9.0, 1.0]], [[2.0, 1.0], [2.0, 1.0]], disclosure="true-label")
    >>> found.value.round(4).tolist()
    [0.2027, 0.731]
    """
    chosen = _form(tight, form)
    check_disclosure(disclosure, threshold)
    if chosen == "approximate":
        raise InputError(
            "form", "a form for any laws", "'approximate'", "Eqs. (32), (35), (40) need a World: use bound"
        )
    a, b, alpha = checked_laws(alpha_in, alpha_out, alpha)
    out_in, in_out = _of_vector(a, b, disclosure, label)
    slack, delta = np.zeros(out_in.shape), None
    if disclosure == "decision-set":
        q, heat = check_threshold(threshold), check_temperature(temperature)
        delta = contraction(a.shape[-1], q, heat)
        if chosen in ("tight", "region"):
            out_in, in_out, slack = _of_sets(a, b, q, heat, delta.upper**2)
        else:
            out_in, in_out = delta.upper**2 * out_in, delta.upper**2 * in_out
    value = _value(chosen, out_in, in_out, alpha) + slack
    shown = (value, out_in, in_out) if a.ndim == 2 else (float(value), float(out_in), float(in_out))
    return Bound(shown[0], chosen, disclosure, alpha, _meaning(chosen, alpha), shown[1], shown[2], delta, True)


def bound_of_logit_normal(
    law_in: Law,
    law_out: Law,
    *,
    disclosure: Disclosure,
    threshold: float | None = None,
    temperature: float = 0.0,
    alpha: float | None = None,
    tight: bool = True,
    form: Form | None = None,
    rng: np.random.Generator | None = None,
) -> Bound:
    """Return Propositions 1 to 3 for two logit-normal laws, of one record or many.

    The log-ratios z determine the confidences and the reverse, so J of the vectors is that of two Gaussian laws:
    J = (tr(S' / S) + tr(S / S') - 2 d + g' (1 / S + 1 / S') g) / 2, with covariances S and S', d = K - 1 log-ratios and
    the difference g of the means. In one dimension this is (r + 1 / r - 2 + g^2 (1 / s + 1 / s')) / 2, r = s / s'.

    - **confidence-vector** (Proposition 1): J.
    - **true-label** (Proposition 2): with laws of two classes, the label and all others, as ``prediction`` fits them,
      J is that of the confidence itself. With more classes the confidence of class 0 is a function of z, so J of the
      vector bounds it (data processing), and loosely. "approximate" takes the log-odds of the label for Gaussian
      instead (:func:`miaudit.disclosure.logit_normal.label_margin`), which is **not** a bound: ``holds`` is False.
    - **decision-set** (Proposition 3): J of the vector times delta_{T,q}^2, for any law.

    Parameters
    ----------
    law_in, law_out : Law of shape (d,) or (n, d), of models that did and did not learn the record
    disclosure, threshold, temperature, alpha, tight, form : as in :func:`bound`
    rng : generator of the draws of "approximate", required there

    Examples
    --------
    >>> law_in, law_out = Law([-2.0], [[1.0]]), Law([-1.0], [[1.0]])  # log-odds one standard deviation apart
    >>> [round(bound_of_logit_normal(law_in, law_out, disclosure="true-label", form=f).value, 3)
    ...  for f in ("tight", "printed", "pinsker")]  # the truth is 2 Phi(1/2) - 1 = 0.383
    [0.479, 1.0, 0.5]
    """
    chosen = _form(tight, form)
    check_disclosure(disclosure, threshold)
    if law_in.mean.shape != law_out.mean.shape or law_in.mean.ndim > 2:
        received = f"{law_in.mean.shape}, {law_out.mean.shape}"
        raise InputError("law_in, law_out", "one shape, (d,) or (n, d)", received, "pass both alike")
    rate = None if alpha is None else float(check_tnr(alpha))
    if chosen == "approximate":
        if disclosure != "true-label":
            hint = "J of the vector is exact: use tight"
            raise InputError("form", "another for vectors and sets", "'approximate'", hint)
        if rng is None:
            raise InputError("rng", "a numpy Generator for draws", "None", "pass np.random.default_rng(0)")
        law_in, law_out = (logit_normal.label_margin(law, rng=rng) for law in (law_in, law_out))
    out_in, in_out = logit_normal.divergence(law_out, law_in), logit_normal.divergence(law_in, law_out)
    delta = None
    if disclosure == "decision-set":
        delta = contraction(law_in.mean.shape[-1] + 1, check_threshold(threshold), check_temperature(temperature))
        out_in, in_out = delta.upper**2 * out_in, delta.upper**2 * in_out
    value = _value("tight" if chosen == "approximate" else chosen, out_in, in_out, rate)
    shown = (value, out_in, in_out) if law_in.mean.ndim == 2 else (float(value), float(out_in), float(in_out))
    meaning = _meaning(chosen, rate)
    return Bound(shown[0], chosen, disclosure, rate, meaning, shown[1], shown[2], delta, chosen != "approximate")


def _form(tight: bool, form: Form | None) -> Form:
    if form is None:
        return "tight" if tight else "printed"
    check_choice("form", form, get_args(Form))
    return form


def _meaning(form: Form, alpha: float | None) -> str:
    if form != "region":
        return "alpha - beta at every true-negative rate alpha, and so on average"
    return meaning_at(alpha)


def _of_vector(a: FloatArray, b: FloatArray, disclosure: Disclosure, label: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return D(out || in) and D(in || out) of the confidence vector, or of the true label's confidence."""
    if disclosure == "true-label":
        a, b = marginal(a, label), marginal(b, label)
    return divergence(b, a), divergence(a, b)


def _of_sets(
    a: FloatArray, b: FloatArray, q: float, temperature: float, contracted: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the divergences of the sets, and what omitted labels may add to an advantage."""
    bounds = []
    for mine, other in zip(np.atleast_2d(a), np.atleast_2d(b), strict=True):
        try:
            law = decision_sets.laws(mine, other, q, temperature)
            bounds.append((*set_divergences(law.mass_out, law.mass_in), law.error))
        except Intractable:
            bounds.append(
                (contracted * float(divergence(other, mine)), contracted * float(divergence(mine, other)), 0.0)
            )
    out_in, in_out, slack = np.array(bounds).T.reshape(3, *a.shape[:-1])
    return out_in, in_out, slack


def set_divergences(mass_out: ArrayLike, mass_in: ArrayLike) -> tuple[float, float]:
    """Return D(out || in) and D(in || out) in nats of two finite laws (m,); infinite where one has a 0 alone.

    Examples
    --------
    >>> set_divergences([0.5, 0.5], [0.25, 0.75])
    (0.1438..., 0.1308...)
    """
    out, into = np.asarray(mass_out, dtype=np.float64), np.asarray(mass_in, dtype=np.float64)
    # Below the precision of the laws an outcome is noise; without it the divergences stay those of a coarser set.
    possible = (out > 1e-12) & (into > 1e-12)
    lost_out, lost_in = 1 - out[possible].sum(), 1 - into[possible].sum()
    ratio = np.log(out[possible] / into[possible])
    forward, backward = float(out[possible] @ ratio), float(-into[possible] @ ratio)
    for p, s, which in ((lost_out, lost_in, 0), (lost_in, lost_out, 1)):
        if p > 1e-9:
            extra = math.inf if s <= 0 else p * math.log(p / s)
            forward, backward = (forward + extra, backward) if which == 0 else (forward, backward + extra)
    return max(0.0, forward), max(0.0, backward)


def _value(form: Form, out_in: FloatArray, in_out: FloatArray, alpha: float | None) -> FloatArray:
    match form:
        case "printed":
            return np.sqrt(out_in + in_out)
        case "pinsker":
            return np.sqrt(out_in + in_out) / 2
        case "tight":
            return tight_bound(out_in + in_out)
    if alpha is not None:
        return np.asarray(alpha - lemma_1(alpha, out_in, in_out))
    return region(out_in, in_out)


def region(out_in: ArrayLike, in_out: ArrayLike) -> FloatArray:
    """Return the largest advantage averaged over alpha, AUC - 1/2, that two divergences allow by Lemma 1, Eq. (20).

    Parameters
    ----------
    out_in, in_out : arrays of one shape, D(out || in) and D(in || out) in nats, 0 or more

    Examples
    --------
    >>> region([0.0, 0.1], [0.0, 0.1]).round(2).tolist()
    [0.0, 0.16]
    """
    # alpha - beta_lb is concave in alpha, so the midpoint rule does not understate its mean.
    rates = (np.arange(_RATES) + 0.5) / _RATES
    forward, backward = (np.asarray(one, dtype=np.float64)[..., None] for one in (out_in, in_out))
    return np.asarray((rates - lemma_1(rates, forward, backward)).mean(axis=-1))


def tight_bound(symmetrised: ArrayLike) -> FloatArray:
    """Solve 4 A artanh(A) = J for A in [0, 1): the advantage is at most A at every alpha (erratum E1).

    (17) gives d(a || b) + d(b || a) <= J, which is (a - b) (logit a - logit b), and that is at least 4 A artanh(A) with
    A = a - b, with equality at a = (1 + A) / 2 = 1 - b.

    Parameters
    ----------
    symmetrised : array, J in nats, 0 or more; infinity gives 1

    Examples
    --------
    >>> tight_bound([0.0, 0.56458, 1000.0]).round(4).tolist()
    [0.0, 0.3668, 1.0]
    """
    total = np.asarray(symmetrised, dtype=np.float64)
    if not (total >= 0).all():
        raise InputError("symmetrised", "divergences of 0 or more", f"{total.min():g}", "D(out || in) + D(in || out)")
    # In x = artanh(A): 4 x tanh(x) = J, increasing; it ends between sqrt(J) / 2 and J / 4 + 1.
    low, high = np.zeros(total.shape), np.where(np.isinf(total), 1e3, total / 4 + 1)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        short = 4 * middle * np.tanh(middle) < total
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(total == 0, 0.0, np.tanh(high))


def lemma_1(alpha: ArrayLike, out_in: ArrayLike, in_out: ArrayLike) -> FloatArray:
    """Return the smallest beta that satisfies both divergence bounds of Lemma 1, Eq. (20).

    Parameters
    ----------
    alpha : array, true-negative rates in [0, 1]
    out_in, in_out : arrays that broadcast with it, nats, 0 or more

    Returns
    -------
    array, in [0, alpha]; the rejected end of each bracket, so that it is not above the infimum

    Examples
    --------
    >>> lemma_1([0.0, 0.5, 1.0], 0.1, 0.1).round(4).tolist()
    [0.0, 0.2871, 1.0]
    """
    a = check_tnr(alpha)
    forward, backward = np.asarray(out_in, dtype=np.float64), np.asarray(in_out, dtype=np.float64)
    a, forward, backward = np.broadcast_arrays(a, forward, backward)
    low, high = np.zeros(a.shape), a.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        allowed = (binary_divergence(a, middle) <= forward) & (binary_divergence(middle, a) <= backward)
        low, high = np.where(allowed, low, middle), np.where(allowed, middle, high)
    # At alpha = 0 and 1 the other law is as sure: beta is 0 and 1.
    return np.where((a == 0) | (a == 1), a, low)


def binary_divergence(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Return d(a || b) of Eq. (19) in nats, for rates in [0, 1]; infinite where b excludes what a allows.

    Examples
    --------
    >>> binary_divergence([0.5, 0.5], [0.25, 0.0]).round(4).tolist()
    [0.1438, inf]
    """
    from scipy.special import rel_entr  # noqa: PLC0415 - one function

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return np.asarray(rel_entr(x, y) + rel_entr(1 - x, 1 - y))


def approximate_divergence(world: World, classes: int) -> float:
    """Return the square of Eq. (32), or of Eq. (35) with ``classes`` = 2.

    Examples
    --------
    >>> world = World(classes=100, aleatoric=0.7, epistemic=4.0, calibration_error=0.05)
    >>> round(math.sqrt(approximate_divergence(world, 100)) / 2, 3)  # halved it is no bound: the truth is 0.088
    0.079
    """
    eps, delta = world.aleatoric, world.calibration_error
    left = (1 + delta) * eps - delta
    return (
        delta * (1 - eps) / world.epistemic * math.log((1 + delta) * eps / left)
        + delta**2 * (1 - eps) ** 2 * (classes - 1) / (2 * eps * left)
        + delta**2 / (2 * (1 + delta))
    )

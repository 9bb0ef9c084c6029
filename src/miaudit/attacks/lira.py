"""LiRA: a likelihood ratio for each record, from shadow models that did and did not learn it (Carlini et al. 2022).

The target model's statistic of a record, best the logit-scaled confidence (erratum C4), is compared with the statistics
of shadow models: those that included the record (in) and those that did not (out). Shadow outputs may be float32,
float16 or memory maps; they are read in blocks of rows and never copied whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError
from miaudit.errors.options import check_choice

__all__ = ["Health", "health", "offline", "online"]

Variance = Literal["record", "global"]

# Below this many shadow models on a side, a variance of the record's own costs more than it gains. Where log standard
# deviations differ between records by 0.5 the two break even near eight; on real data the global one is still clearly
# better there, at the low false-positive rates that count (docs/shadow_models.md).
LEAST_FOR_RECORD = 16
LEAST_FOR_NORMALITY = 8
_BLOCK = 2**16  # numbers in a block: half a megabyte of float64, so that all passes stay in the cache
_RELEASE_AFTER = 2**26  # bytes read of a memory map before its pages are handed back
_LARGEST = 1e60
# A record whose shadow statistics (nearly) coincide has at least this share of the global standard deviation.
_SMALLEST_SHARE = 1e-3


def online(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike,
    *,
    variance: Variance = "record",
    sides: Literal[1, 2] = 2,
) -> FloatArray:
    """Return log N(t; mu_in, sigma_in) - log N(t; mu_out, sigma_out) of each record (Algorithm 1).

    Parameters
    ----------
    target : array (n,) or (n, k augmentations)
        The target model's statistic of each record, any real, nearly Gaussian over models; higher for members.
    shadow : array (n, M) or (n, M, k), any float type, or a memory map
        The same statistic of M shadow models.
    included : array (n, M) of bool
        Whether model j was trained on record i; at least one model on each side of each record.
    variance : "record" or "global"
        The record's own variances, or the mean within-record variance of each side. A record with fewer than sixteen
        models on a side takes the global ones; :func:`health` says how many did.
    sides : 2 or 1
        2 is the likelihood ratio, a parabola in ``target`` where the variances differ. 1 takes one variance for both
        sides, so that the score is linear in ``target`` and never turns back; it needs fewer models.

    Returns
    -------
    array (n,) of float64, any real; higher is more member-like
        With several augmentations the mean of their log ratios. A joint Gaussian with the augmentations' correlation,
        which the paper fits, came out worse in nearly every simulation with 64 models or fewer
        (docs/shadow_models.md): it weighs differences between augmentations, whose means are known least.

    Raises
    ------
    InputError
        As :func:`check`, for NaN, infinite or huge numbers, and where shadow models are too few.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random((500, 32)) < 0.5
    >>> member = rng.random(500) < 0.5
    >>> hardness = 5 * rng.normal(size=500)  # of each record; it hides membership from the raw statistic
    >>> shadow = hardness[:, None] + 2.0 * included + rng.normal(size=(500, 32))
    >>> score = online(hardness + 2.0 * member + rng.normal(size=500), shadow, included)
    >>> bool((score[member] > 0).mean() > 0.75), bool((score[~member] > 0).mean() < 0.25)
    (True, True)
    """
    check_choice("variance", variance, get_args(Variance))
    _choose_sides(sides)
    check(target, shadow, np.asarray(included))
    point = _target_of(target)
    count, (mean_in, mean_out), squares = _moments(np.asarray(shadow), np.asarray(included))
    _require_models(count, 1, 0)
    own = (count.min(axis=0) >= LEAST_FOR_RECORD) & (variance == "record")
    var_in, var_out = (_variances(of, models, own) for of, models in zip(squares, count, strict=True))
    if sides == 1:
        middle, apart = (mean_in + mean_out) / 2, mean_in - mean_out
        pooled = _variances(squares.sum(axis=0), count.sum(axis=0), own, means=2)
        return np.asarray(np.mean((point - middle) * (apart / pooled), axis=1))
    far_in, far_out = (point - mean_in) ** 2 / var_in, (point - mean_out) ** 2 / var_out
    return np.asarray(0.5 * np.mean(far_out - far_in + np.log(var_out) - np.log(var_in), axis=1))


def offline(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike | None = None,
    *,
    variance: Variance = "record",
    sides: Literal[1, 2] = 1,
) -> FloatArray:
    """Return the target's standard scores among models that did not learn the record (Carlini et al., Eq. 4).

    The paper's score is 1 - P(Z > t) = Phi(z) with z = (t - mu_out) / sigma_out. Phi rounds to 1 from z = 8.3 on, so z
    itself, which orders records the same way, is returned.

    Parameters
    ----------
    target, shadow, variance : as in :func:`online`
    included : array (n, M) of bool, optional
        Models that included a record are left out for it; by default none did.
    sides : 1 or 2
        1: members lie above (z). 2: members lie on either side (the absolute value of z).

    Returns
    -------
    array (n,) of float64, higher is more member-like; with several augmentations the mean of their scores

    Raises
    ------
    InputError
        As :func:`online`; each record needs one model that did not learn it.

    Examples
    --------
    >>> shadow = np.array([[0.0, 2.0, 0.0, 2.0], [4.0, 6.0, 4.0, 6.0]])
    >>> offline([2.0, 4.0], shadow, variance="global").round(3).tolist()  # sigma_out = (8 / 6)^0.5
    [0.866, -0.866]
    """
    check_choice("variance", variance, get_args(Variance))
    _choose_sides(sides)
    check(target, shadow, included)
    count, mean, squares = _moments(np.asarray(shadow), None if included is None else np.asarray(included))
    _require_models(count, 1)
    own = (count[1] >= LEAST_FOR_RECORD) & (variance == "record")
    z = (_target_of(target) - mean[1]) / _variances(squares[1], count[1], own) ** 0.5
    return np.asarray(np.mean(z if sides == 1 else np.abs(z), axis=1))


@dataclass(frozen=True)
class Health:
    """Diagnostics of LiRA's assumptions on the shadow statistics.

    Attributes
    ----------
    records : number of records in the shadow outputs
    models : number of shadow models
    fewest_in, fewest_out : models on the smaller side of the worst record
    global_variance : share of records that take the global variance, 0 to 1
    asked : the variance that was asked for, "record" or "global"
    tested : records whose law was tested (eight models or more on a side)
    far : share of the tested records that are far from Gaussian, 0 to 1; None where none could be tested
    level : false discovery rate of that share
    """

    records: int
    models: int
    fewest_in: int
    fewest_out: int
    global_variance: float
    asked: str
    tested: int
    far: float | None
    level: float

    @property
    def note(self) -> str:
        """Warning to show beside the scores; empty if there is none."""
        parts = []
        if self.asked == "record" and self.global_variance > 0:
            every = self.global_variance == 1
            parts.append(
                f"{'every record has' if every else f'{self.global_variance:.1%} of the records have'} fewer than "
                f"{LEAST_FOR_RECORD} shadow models that learned it, or that did not ({self.models} in all). The mean "
                f"of all records replaces its own variance. {2 * LEAST_FOR_RECORD} shadow models or more would sharpen "
                f"the attack"
            )
        if self.far is None:
            parts.append(
                f"A test of its Gaussian model takes {LEAST_FOR_NORMALITY} shadow models that learned a record, or as "
                f"many that did not"
            )
        elif self.far > 0:
            parts.append(
                f"Its Gaussian model does not fit {self.far:.1%} of the {self.tested:,} records tested. The attack may "
                f"be weaker than it could be, but the metrics stay valid"
            )
        return ". ".join(parts)


def health(
    shadow: ArrayLike,
    included: ArrayLike | None = None,
    *,
    variance: Variance = "record",
    level: float = 0.05,
    most: int = 50_000,
) -> Health:
    """Count the records with a global variance and those with shadow statistics far from Gaussian.

    Each side of a record with eight models or more is tested by Anderson-Darling with estimated mean and variance
    (D'Agostino and Stephens 1986, Table 4.9); a record's p-value is Bonferroni's over its sides and augmentations, and
    records are rejected by Benjamini and Hochberg at ``level``. More models find smaller departures: the share says
    where the law was seen to fail, not that it holds elsewhere.

    Parameters
    ----------
    shadow, included, variance : as in :func:`online`; without ``included`` no model learned any record
    level : false discovery rate, in (0, 1)
    most : records to test, evenly spaced, where there are more

    Raises
    ------
    InputError
        As :func:`online`, and for a level or number outside its range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(64) % 2 == 0, (300, 1))
    >>> health(rng.normal(size=(300, 64)), included).note
    ''
    >>> health(rng.normal(size=(300, 64)), included[:, rng.permutation(64)] & (np.arange(64) < 10)).note
    'every record has fewer than 16 shadow models that learned it, or that did not (64 in all). The mean ...'
    >>> health(rng.exponential(size=(300, 64)) ** 2, included).far
    1.0
    """
    check_choice("variance", variance, get_args(Variance))
    if not 0 < level < 1:
        raise InputError("level", "a number in (0, 1)", repr(level), "0.05 is the default")
    if most < 1:
        raise InputError("most", "1 or more", repr(most), "50,000 is the default")
    outputs = np.asarray(shadow)
    inside = None if included is None else np.asarray(included)
    _check_shadow(outputs, inside)
    count, _, _ = _moments(outputs, inside)
    step = -(-len(outputs) // most)
    p_values = _normality(outputs[::step], None if inside is None else inside[::step])
    tested = p_values[~np.isnan(p_values)]
    few = (count if inside is not None else count[1:]).min(axis=0) < LEAST_FOR_RECORD
    return Health(
        records=len(outputs),
        models=outputs.shape[1],
        fewest_in=int(count[0].min()),
        fewest_out=int(count[1].min()),
        global_variance=1.0 if variance == "global" else float(np.mean(few)),
        asked=variance,
        tested=len(tested),
        far=_share_rejected(tested, level) if len(tested) else None,
        level=level,
    )


def check(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike | None,
    *,
    target_rows: ArrayLike | None = None,
    shadow_rows: ArrayLike | None = None,
) -> None:
    """Refuse inputs that per-record LiRA cannot use; reads shapes and types only.

    Parameters
    ----------
    target, shadow, included : as in :func:`online`
    target_rows, shadow_rows : arrays (n,) and (rows of ``shadow``,), optional
        Which record each row is. Given, they must be the same in the same order.

    Raises
    ------
    InputError
        For one shadow model, shadow outputs on other records, wrong shapes or types.

    Examples
    --------
    >>> check(np.zeros(2000), np.zeros(1000), np.zeros(1000, dtype=bool))
    Traceback (most recent call last):
    miaudit.errors.InputError: shadow: expected the outputs of several shadow models on the 2,000 target records,
    received one shadow model on 1,000 other records; per-record LiRA needs each record's own in and out models: use
    shadow_classifier, which pools records
    """
    point, outputs = np.asarray(target), np.asarray(shadow)
    if point.dtype.kind not in "iuf" or point.ndim not in (1, 2) or not point.size:
        allowed = "numbers of shape (n,) or (n, augmentations)"
        raise InputError.of_array("target", allowed, point, "pass one row for each record")
    same = outputs.shape[:1] == point.shape[:1]
    if target_rows is not None and shadow_rows is not None:
        same = same and np.array_equal(np.asarray(target_rows), np.asarray(shadow_rows))
    if outputs.ndim == 1 or outputs.shape[1] < 2 or not same:
        models = 1 if outputs.ndim == 1 else outputs.shape[1]
        received = f"{'one shadow model' if models == 1 else f'{models} shadow models'} on {len(outputs):,}"
        hint = "per-record LiRA needs each record's own in and out models: use shadow_classifier, which pools records"
        if outputs.ndim == 2 and len(outputs) != len(point) == outputs.shape[1]:
            hint = "transpose it: a row for each record, a column for each model"
        allowed = f"the outputs of several shadow models on the {len(point):,} target records"
        raise InputError("shadow", allowed, f"{received} {'records' if same else 'other records'}", hint)
    if outputs.ndim != point.ndim + 1 or (point.ndim == 2 and outputs.shape[2] != point.shape[1]):
        allowed = f"shape (n, M{', augmentations' if point.ndim == 2 else ''}) for a target of shape {point.shape}"
        hint = "pass the same augmentations of target and shadow models"
        raise InputError("shadow", allowed, f"shape {outputs.shape}", hint)
    _check_shadow(outputs, None if included is None else np.asarray(included))


def _check_shadow(shadow: NDArray[np.generic], included: NDArray[np.generic] | None) -> None:
    if shadow.dtype.kind not in "iuf" or shadow.ndim not in (2, 3) or not shadow.size:
        allowed = "numbers of shape (n, M) or (n, M, augmentations)"
        raise InputError.of_array("shadow", allowed, shadow, "pass a column for each model")
    if included is None:
        return
    if included.dtype.kind not in "biu" or included.shape != shadow.shape[:2]:
        turn = included.ndim == 2 and included.T.shape == shadow.shape[:2]
        allowed = f"True or False of shape {shadow.shape[:2]}, a row for each record"
        hint = "transpose it" if turn else "pass which models were trained on which records"
        raise InputError.of_array("included", allowed, included, hint)


def _choose_sides(sides: int) -> None:
    if sides not in (1, 2):
        raise InputError("sides", "1 or 2", repr(sides), "1: members lie above; 2: a likelihood ratio or distance")


def _target_of(target: ArrayLike) -> FloatArray:
    """Return the target's statistic as (n, k) float64, finite."""
    array = np.asarray(target, dtype=np.float64)
    point = array.reshape(len(array), -1)
    bad = ~(np.abs(point) <= _LARGEST).all(axis=1)
    if bad.any():
        _refuse_numbers("target", int(np.argmax(bad)))
    return point


def _refuse_numbers(name: str, row: int) -> None:
    raise InputError(
        name, f"finite numbers up to {_LARGEST:g}", f"NaN, infinity or larger, first in row {row}", "repair these rows"
    )


# -- means and variances of both sides, in blocks ----------------------------------------------------------------------


def _moments(
    shadow: NDArray[np.generic], included: NDArray[np.generic] | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moments of the shadow outputs of the models with a record (first) and without it (second).

    Their counts (2, n), means (2, n, k), 0 where there is no model on that side, and sums of squared deviations from
    those means (2, n, k). Means come first, then deviations, so that neither side loses digits to the other.
    """
    n, k = len(shadow), 1 if shadow.ndim == 2 else shadow.shape[2]
    counts, (means, sums) = np.zeros((2, n)), np.zeros((2, 2, n, k))
    for rows, included_here in _blocks(shadow, included):
        inside = included_here.astype(np.float64)
        sides = (inside, 1.0 - inside)
        counts[:, rows] = count = np.stack([taken.sum(axis=1) for taken in sides])
        for a in range(k):
            x = np.array(shadow[rows] if shadow.ndim == 2 else shadow[rows, :, a], dtype=np.float64, order="C")
            with np.errstate(invalid="ignore", over="ignore"):
                mean = np.stack([np.einsum("ij,ij->i", x, taken) for taken in sides]) / np.maximum(count, 1)
                apart = [(x - own[:, None]) * taken for own, taken in zip(mean, sides, strict=True)]
                squares = np.stack([np.einsum("ij,ij->i", far, far) for far in apart])
                size = (np.abs(mean) + np.sqrt(squares)).sum(axis=0)
            if not (fine := size <= _LARGEST).all():
                _refuse_numbers("shadow", rows.start + int(np.argmin(fine)))
            means[:, rows, a], sums[:, rows, a] = mean, squares
    return counts, means, sums


def _require_models(count: FloatArray, *sides: int) -> None:
    """Refuse records without a model on one of these sides."""
    for side in sides:
        if (count[side] == 0).any():
            needed, lacking = (("learned it", "included"), ("did not learn it", "left out"))[side]
            received = f"no shadow models that {lacking} record {int(np.argmin(count[side]))}"
            hint = "draw the inclusion so that each record is in half of the models"
            raise InputError("included", f"for each record a shadow model that {needed}", received, hint)


def _blocks(shadow: NDArray[np.generic], included: NDArray[np.generic] | None) -> Iterator[tuple[slice, BoolArray]]:
    """Yield blocks of rows with the models that included each of them."""
    n, models = shadow.shape[:2]
    size = max(1, _BLOCK // models)
    often = max(1, _RELEASE_AFTER // (size * max(1, shadow.nbytes // n)))
    for turn, start in enumerate(range(0, n, size), start=1):
        rows = slice(start, min(n, start + size))
        if turn % often == 0:
            _release(shadow)
            _release(included)
        if included is None:
            yield rows, np.zeros((rows.stop - start, models), dtype=np.bool_)
            continue
        block = np.ascontiguousarray(included[rows])
        if block.dtype.kind != "b" and (block > 1).any() | (block < 0).any():
            raise InputError("included", "True or False", "other whole numbers", "code inclusion as True or False")
        yield rows, block.astype(np.bool_, copy=False)


def _release(array: NDArray[np.generic] | None) -> None:
    """Release the pages of a read-only memory map from this process; they stay in the system's cache."""
    link: object = array
    while isinstance(link, np.ndarray):
        if isinstance(link, np.memmap) and link.mode != "r":
            return  # private changes would be lost
        link = link.base
    if isinstance(link, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        link.madvise(mmap.MADV_DONTNEED)


def _variances(squares: FloatArray, count: FloatArray, own: BoolArray, means: int = 1) -> FloatArray:
    """Turn sums of squares (n, k) into variances: the record's where ``own``, else the global one.

    The record's own is the mean square, as in Algorithm 1; the global one divides by the degrees of freedom, which
    matters where a side has two or three models.
    """
    freedom = float(np.maximum(count - means, 0).sum())
    if freedom == 0:
        allowed, received = "two or more models on each side of some record", "one model on a side of every record"
        raise InputError("shadow", allowed, received, "train at least four shadow models, each record in half of them")
    overall = squares.sum(axis=0) / freedom
    overall = np.where(overall > 0, overall, 1.0)  # nothing varies: the distance itself is the score
    variances = np.where(own[:, None], squares / np.maximum(count, 1)[:, None], overall)
    return np.asarray(np.maximum(variances, _SMALLEST_SHARE**2 * overall))


# -- the health of the Gaussian law ------------------------------------------------------------------------------------


def _share_rejected(p_values: FloatArray, level: float) -> float:
    """Return the share of hypotheses that Benjamini and Hochberg (1995) reject at a false discovery rate."""
    count = len(p_values)
    below = np.flatnonzero(np.sort(p_values) <= level * np.arange(1, count + 1) / count)
    return float(below[-1] + 1) / count if len(below) else 0.0


def _normality(shadow: NDArray[np.generic], included: NDArray[np.generic] | None) -> FloatArray:
    """Return a p-value of normality for each record (n,); NaN where no side has eight models."""
    p_values = np.full(len(shadow), np.nan)
    for rows, inside in _blocks(shadow, included):
        sides = []
        for a in range(1 if shadow.ndim == 2 else shadow.shape[2]):
            x = np.asarray(shadow[rows] if shadow.ndim == 2 else shadow[rows, :, a], dtype=np.float64)
            sides += [anderson_darling(x, side) for side in (inside, ~inside) if side.any()]
        each = np.stack(sides)
        known = ~np.isnan(each)
        smallest = np.where(known, each, 1.0).min(axis=0)
        p_values[rows] = np.where(known.any(axis=0), np.minimum(1.0, smallest * known.sum(axis=0)), np.nan)
    return p_values


def anderson_darling(values: FloatArray, taken: BoolArray) -> FloatArray:
    """Return p-values (n,) of normality with unknown mean and variance, for each row's ``taken`` numbers.

    D'Agostino and Stephens (1986), Table 4.9, valid from eight numbers on; NaN below, and 0 where numbers coincide.

    Examples
    --------
    >>> rows = np.stack([np.linspace(-1, 1, 20), np.r_[np.zeros(19), 1.0]])
    >>> anderson_darling(rows, np.ones((2, 20), dtype=bool)).round(3).tolist()
    [0.806, 0.0]
    """
    count = taken.sum(axis=1)
    few = count < LEAST_FOR_NORMALITY
    size = np.maximum(count, 2)[:, None].astype(np.float64)
    mean = np.sum(values, axis=1, where=taken, keepdims=True) / size
    spread = np.sqrt(np.sum((values - mean) ** 2, axis=1, where=taken, keepdims=True) / (size - 1))
    z = np.sort(np.where(taken, (values - mean) / np.where(spread > 0, spread, 1.0), np.inf), axis=1)
    position = np.arange(1, values.shape[1] + 1)
    within = position <= count[:, None]
    weight = np.where(within, 2 * position - 1, 0.0)
    back = np.where(within, 2 * size - 2 * position + 1, 0.0)
    z = np.where(within, z, 0.0)
    square = -size - np.sum(weight * special.log_ndtr(z) + back * special.log_ndtr(-z), axis=1, keepdims=True) / size
    adjusted = (square * (1 + 0.75 / size + 2.25 / size**2))[:, 0]
    p_values = _table_4_9(adjusted)
    p_values[spread[:, 0] == 0] = 0.0
    p_values[few] = np.nan
    return p_values


def _table_4_9(a: FloatArray) -> FloatArray:
    """Return the p-value of the adjusted Anderson-Darling statistic (n,)."""
    a = np.minimum(a, 150.0)
    p_values: FloatArray = np.select(
        [a < 0.2, a < 0.34, a < 0.6],
        [
            1 - np.exp(-13.436 + 101.14 * a - 223.73 * a**2),
            1 - np.exp(-8.318 + 42.796 * a - 59.938 * a**2),
            np.exp(0.9177 - 4.279 * a - 1.38 * a**2),
        ],
        np.exp(1.2937 - 5.709 * a + 0.0186 * a**2),
    )
    return np.clip(p_values, 0.0, 1.0)

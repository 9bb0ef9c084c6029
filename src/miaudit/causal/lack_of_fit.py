"""Lack of fit: what a propensity does not say about membership, although the covariates do.

Weights undo a shift only as far as the propensity describes it. A line in the covariates misses interactions, codes
that are names and not numbers, and heavier tails. The corrected metrics then show the shift as if it were memorisation.
So a propensity must pass tests before a verdict may depend on it. In the first, extremely randomised trees, learned on
the same folds, predict its residuals on held-out records. The second compares the residuals with the product of each
two covariates and the square of each one, which trees miss among many others. A stack must also pass a third test,
since membership may depend on whether a weighted sum of the covariates is above a threshold. A rising function of the
stack's line shows such a threshold with few records. Trees split one covariate at a time, so they need thousands.
"""

# ruff: noqa: PLC0415 - scikit-learn and scipy.stats load when used

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy import special

from miaudit.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    NotNegative,
)
from miaudit.causal import covariates, crossfit, logistic, stack, targeted_step
from miaudit.causal.basis import normal_scores
from miaudit.causal.column_order import by_content
from miaudit.causal.cores import at_once, grown
from miaudit.causal.imbalance import Imbalance
from miaudit.causal.logistic import expit
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence

# One-sided 1%, times the root of two: of two records in different folds, each influences the prediction for the other,
# so that chance counts their pair twice (experiments/validity/balance.md).
LIMIT = 3.3
STACKED_LIMIT = 2.33  # one-sided 1%; sound stacks, with boosting, stay below (experiments/validity/balance.md)
SUM_LIMIT = 4.0  # sound stacks show up to 3.6 where one covariate jumps, a threshold of a sum of four 8 and more
_TREES = 40
_LEAF = 4
_FEWEST_TRIED = 4  # covariates at a split against a stack; with two of four, one sign of three in ten passes
_SPLITS = (
    100_000  # features that a split tries, times records: with few records more features are affordable, and needed
)
_FLOOR = 0.005  # where all trees agree by chance
_NOTHING = 1e-12  # variance of log-odds that are all the same
_STEP = 2.0  # most that the trees may change a log-odds, so that a few distant records do not decide
_MOST_LOOKED_AT = 20  # covariates that the trees split most: their share in the refutation is measured
_MOST_NAMED = 4
_LEAST_LOSS = 0.15  # of z, for a covariate to be named
_FAMILYWISE = 0.01  # of all products and squares together ...
_LEAST_LIMIT = 4.0  # ... and never below this: sums of heavy residuals are not quite normal
_RAREST = 0.02  # least probability of either class by a rising function, whose ends are shares of few records
_FEWEST_BEHIND = 25.0  # records, counted as equally heavy ones, that a product must rest on
_BLOCK = 500  # columns whose products with all others are held in memory


@dataclass(frozen=True)
class LackOfFit:
    """Tests of a propensity's fit, and the covariates behind a misfit.

    Attributes
    ----------
    z : of the forest: the sum of residuals times the forest's changes of the log-odds, over its standard deviation; if
        the propensity is right, its mean is 0 and its sd at most about 1.4; larger the more the propensity misses
    limit : above it the propensity is refuted (one-sided 1%)
    product_z : the largest |z| of residuals times a product of two covariates, or the square of one
    product_limit : above it the propensity is refuted (1% for all of them together, Bonferroni, and at least 4); both
        are None where none could be tried
    product : names of its one or two covariates
    missed : names of the covariates without which the forest predicts worse, the most important first, or those of the
        product; empty unless the propensity is refuted
    rejected : whether the propensity is refuted
    sum_z : as ``z``, of a rising function of a stack's line in place of the forest; above 4 the stack is refuted; None
        for any other propensity
    """

    z: float
    limit: float
    product_z: NotNegative | None
    product_limit: NotNegative | None
    product: tuple[str, ...]
    missed: tuple[str, ...]
    rejected: bool
    sum_z: float | None = None

    @property
    def by_sum(self) -> bool:
        """Whether a rising function of its line refutes a stack."""
        return _above(self.sum_z, SUM_LIMIT)

    @property
    def by_sum_in_words(self) -> str:
        """How far a rising function of its line is from refuting a stack, in words; empty for other propensities."""
        return "" if self.sum_z is None else f"z {self.sum_z:.1f}, refuted above {SUM_LIMIT:g}"

    @property
    def by_forest(self) -> bool:
        """Whether the forest refutes the propensity."""
        return self.z > self.limit

    @property
    def by_learned(self) -> bool:
        """Whether a function that was learned from the same records, the forest or the rising one, refutes."""
        return self.by_forest or self.by_sum

    @property
    def by_product(self) -> bool:
        """Whether a product or a square of covariates refutes the propensity."""
        return _above(self.product_z, self.product_limit)

    @property
    def sentence(self) -> str:
        """The tests that refute the propensity, and the covariates that it misses, in words; empty if none refutes."""
        return f"The propensity is refuted: {self.misfit}" if self.rejected else ""

    @property
    def misfit(self) -> str:
        """What the sentence says of a propensity that is refuted."""
        stacked = self.limit == STACKED_LIMIT
        together = f"{listed(self.product)}{' together' if len(self.product) > 1 else '' if stacked else ', squared'}"
        if self.by_sum and not self.by_forest:
            how = "a threshold of a weighted sum of the covariates foresees membership better"
            too = f" It also misses {together}." if self.by_product else ""
            return f"{how} ({self.by_sum_in_words}).{too}"
        if stacked and not self.by_forest:
            measured = f"by {self.product_z:.1f} standard errors, refuted above {self.product_limit:.1f}"
            tell = "tell" if len(self.product) > 1 else "tells"
            return f"after weighting, {together} still {tell} members apart ({measured})."
        if not self.by_forest:
            how = "membership goes with a product of covariates that it does not have"
            measured = f"z {self.product_z:.1f}, refuted above {self.product_limit:.1f}"
            return f"{how} ({measured}). It misses {together}."
        how = "a forest foresees membership better from the same covariates"
        measured = f"z {self.z:.1f}, refuted above {self.limit:g}"
        what = f"what {listed(self.missed)} say{'' if len(self.missed) > 1 else 's'}"
        above_all = f", above all {together}" if self.by_product else ""
        return f"{how} ({measured}). It misses {what}{above_all}."


def listed(names: Sequence[str]) -> str:
    """Join several names for a sentence.

    Examples
    --------
    >>> listed(["age", "hours", "pay"]), listed(["age"])
    ('age, hours and pay', 'age')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


@dataclass(frozen=True, eq=False)
class Challenger:
    """Extremely randomised trees that predict the membership of records in folds that they have not seen.

    Attributes
    ----------
    fold : array (n,), in which each record is held out
    x : array (n, d), the covariates of the trees, in the order of ``columns``
    columns : array (d,), positions of these columns in the evidence, sorted by content: their order has no effect
    forests : for each the records (n,) that it did not see, and its trees
    logit : array (n,), the log-odds of membership by trees that did not see the record, not calibrated
    """

    fold: IntArray
    x: Float32Array
    columns: IntArray
    forests: list[tuple[BoolArray, list[Any]]]
    logit: FloatArray

    @classmethod
    def of(cls, evidence: Evidence, propensity: Propensity, *, rng: np.random.Generator) -> Challenger:
        """Learn the trees on the folds of the propensity that they test, or on folds of their own."""
        if evidence.covariates is None:
            raise InputError("evidence.covariates", "what the propensity was learned from", "none", "pass covariates=")
        place, learn = rng.spawn(2)
        folds = crossfit.FOLDS if propensity.folds is None else propensity.folds
        fold = covariates.folds_of(folds, evidence.member, covariates.codes(evidence), place)
        columns = by_content(evidence.covariates)
        x, seeds = evidence.covariates[:, columns].astype(np.float32), learn.spawn(int(fold.max()) + 1)

        def forest_of(k: int) -> tuple[BoolArray, Any]:
            return fold == k, _forest(x, evidence.member, fold == k, propensity.stacked, seeds[k])

        forests = at_once(forest_of, np.unique(fold).tolist())
        return cls(fold, x, columns, forests, _log_odds(forests, x))


def measure(
    evidence: Evidence,
    propensity: Propensity,
    *,
    challenger: Challenger | None = None,
    margin: float = 0.0,
    rng: np.random.Generator,
) -> LackOfFit:
    """Test whether a forest or a product of covariates predicts membership better than a propensity.

    Extremely randomised trees learned from the other folds give the log-odds of a record, calibrated by Platt's line.
    Their change of the propensity's log-odds, at most 2 and 0 on average, is multiplied by the residual. The variance
    of the sum is the binomial one that the propensity states, or, where records of one unit may depend on each other,
    that of the sums of units. Products are of normal scores of ranks, so that a tail weighs no more than its records.
    ``experiments/validity/balance.md`` shows how often sound and wrong propensities are refuted.

    Parameters
    ----------
    evidence : with the covariates (n, d) of the propensity, see :func:`miaudit.causal.covariates.compared`
    propensity : of its records, learned without the record itself, or given
        For a learned one, changes of its scale and of the coefficients of its features are not evidence against it
        (the tangent space of a score test). They are noise of learning, which balance judges. A given one is tested
        unchanged, its scale included.
    challenger : trees that were already learned on the same records
    margin : how far true log-odds may be from the propensity's, 0 or more, stated beforehand
        Each sum of residuals is compared with the largest one that log-odds within the margin allow on average.
    rng : draws folds, where the propensity has none, and trees

    Raises
    ------
    InputError
        Without covariates, or with too few records for the folds.

    Examples
    --------
    >>> from miaudit.causal import propensity
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 3))
    >>> member = rng.random(2000) < logistic.expit(x[:, 0] * x[:, 2])
    >>> evidence = Evidence(score=x[:, 1], member=member, covariates=x, covariate_names=("age", "pay", "hours"))
    >>> line = propensity.fit(evidence, rng=rng)
    >>> misfit = measure(evidence, line, rng=rng)
    >>> misfit.rejected, sorted(misfit.missed)
    (True, ['age', 'hours'])
    >>> truth = propensity.Propensity.given(logistic.expit(x[:, 0] * x[:, 2]))
    >>> measure(evidence, truth, rng=rng).rejected
    False
    """
    trees = challenger or Challenger.of(evidence, propensity, rng=rng)
    shuffle = rng.spawn(1)[0]
    values = propensity.matched(evidence).values
    statistic = partial(_z, evidence, values, trees.fold, _tangents(propensity, values), margin=margin)
    z = statistic(trees.logit)
    limit = STACKED_LIMIT if propensity.stacked else LIMIT
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(trees.x.shape[1]))
    product = _largest_product(evidence, propensity, names, margin)
    missed = product.names if product.refutes else ()
    if z > limit:
        misfit = _missed(statistic, trees.forests, trees.x, z, shuffle)
        missed = tuple(names[i] for i in trees.columns[misfit])
    named, missed = (tuple(evidence.spelled(term) for term in terms) for terms in (product.names, missed))
    sum_z = None if propensity.line is None else statistic(_bent(propensity.line, evidence.member, trees.fold))
    refuted = z > limit or product.refutes or _above(sum_z, SUM_LIMIT)
    return LackOfFit(z, limit, product.z, product.limit, named, missed, refuted, sum_z)


def moved(evidence: Evidence, propensity: Propensity, fit: LackOfFit, challenger: Challenger) -> tuple[Propensity, ...]:
    """Return a stack moved along each direction that refutes it: forest, rising function of its line, product.

    Parameters
    ----------
    evidence, propensity, challenger : of :func:`measure`, which returned ``fit``

    Returns
    -------
    tuple of Propensity
        None where nothing refutes the propensity. What a metric changes by them is what the misfit moves.
    """
    logit, directions = propensity.logit, []
    if fit.by_forest:
        directions.append(_change(challenger.logit, logit, evidence.member, challenger.fold))
    if fit.by_sum and propensity.line is not None:
        bent = _bent(propensity.line, evidence.member, challenger.fold)
        directions.append(_change(bent, logit, evidence.member, challenger.fold))
    if fit.by_product:
        names = tuple(str(i) for i in range(np.asarray(evidence.covariates).shape[1]))
        directions.append(Imbalance.largest(evidence, propensity.odds, names).function)
    limit = stack.MOST_LOG_ODDS
    moves = (targeted_step.along(logit, evidence.member, direction) for direction in directions)
    return tuple(replace(propensity, values=expit(np.clip(one, -limit, limit))) for one in moves)


@dataclass(frozen=True)
class _Product:
    """The product or square of covariates with the largest |z|, and its limit; both are None where none was tried."""

    z: float | None
    limit: float | None
    names: tuple[str, ...]

    @property
    def refutes(self) -> bool:
        return _above(self.z, self.limit)


def _largest_product(evidence: Evidence, propensity: Propensity, names: Sequence[str], margin: float) -> _Product:
    """Measure products of the covariates: after weighting for a stack, of the residuals for any other propensity."""
    if propensity.stacked:
        largest = Imbalance.largest(evidence, propensity.odds, names)
        return _Product(largest.z, largest.limit, largest.names)
    z, limit, pair = _products(evidence, propensity.values, np.asarray(evidence.covariates), margin)
    return _Product(z, limit, tuple(names[i] for i in pair))


def _above(z: float | None, limit: float | None) -> bool:
    return z is not None and limit is not None and z > limit


def _tangents(propensity: Propensity, values: FloatArray) -> FloatArray:
    """Return orthonormal directions (n, k), of log-odds times the root of the variance, that are not evidence."""
    free = [np.ones(len(values))]
    if not propensity.stacked and propensity.rows_per_covariate is not None and propensity.features is not None:
        free += [propensity.logit, *propensity.features.T]
    spread = np.sqrt(values * (1 - values))
    return np.asarray(scipy.linalg.orth(np.stack(free, axis=1) * spread[:, None]))


def _z(
    evidence: Evidence, values: FloatArray, fold: IntArray, tangents: FloatArray, raw: FloatArray, margin: float = 0.0
) -> float:
    """Return the statistic of propensities (n,) for a challenger's uncalibrated log-odds (n,)."""
    own = np.log(values) - np.log1p(-values)
    spread = values * (1 - values)
    change = _change(raw, own, evidence.member, fold)
    change = change - np.clip(change, -margin, margin)  # what lies beyond the margin is what may refute it
    scaled = np.sqrt(spread) * change
    change = (scaled - tangents @ (tangents.T @ scaled)) / np.sqrt(spread)
    parts = (evidence.member - values) * change
    if evidence.unit_codes is None:
        variance = float(spread @ change**2)
    else:
        totals = np.bincount(evidence.unit_codes, weights=parts)
        variance = float(totals @ totals)
    beyond = parts.sum() - _allowed(values, change, margin)
    return float(beyond / np.sqrt(variance)) if variance > _NOTHING * spread.sum() else 0.0


def _allowed(values: FloatArray, change: FloatArray, margin: float) -> float:
    """Return the largest mean of the sum of residuals times changes (n,) if log-odds are within a margin."""
    sign = np.sign(change)
    return float(np.abs(change) @ (sign * (expit(np.log(values) - np.log1p(-values) + margin * sign) - values)))


def _change(raw: FloatArray, own: FloatArray, member: BoolArray, fold: IntArray) -> FloatArray:
    """Return what a challenger's uncalibrated log-odds (n,) change of the propensity's own (n,), at most 2."""
    return np.clip(_calibrated(raw, member, fold) - own, -_STEP, _STEP)


def _calibrated(raw: FloatArray, member: BoolArray, fold: IntArray) -> FloatArray:
    """Calibrate the log-odds (n,) of each fold by Platt's line of the others."""
    calibrated = np.empty(len(raw))
    for k in np.unique(fold):
        rows = fold == k
        slope, offset = logistic.platt(raw[~rows], member[~rows].astype(np.float64))
        # Without a signal, held-out log-odds have the wrong sign: the class of a record is rarer in the other folds.
        calibrated[rows] = offset + max(slope, 0.0) * raw[rows]
    return calibrated


def _bent(line: Propensity, member: BoolArray, fold: IntArray) -> FloatArray:
    """Return held-out log-odds (n,) by isotonic regressions of membership on those of a line."""
    from sklearn.isotonic import IsotonicRegression

    p = np.empty(len(fold))
    for k in np.unique(fold):
        out = fold == k
        rising = IsotonicRegression(y_min=_RAREST, y_max=1 - _RAREST, out_of_bounds="clip")
        p[out] = rising.fit(line.logit[~out], member[~out]).predict(line.logit[out])
    return np.log(p) - np.log1p(-p)


def _forest(x: Float32Array, member: BoolArray, rows: BoolArray, stacked: bool, rng: np.random.Generator) -> list[Any]:
    """Fit trees on all other records; against a stack, which has boosted trees, with few covariates at a split."""
    from sklearn.tree import ExtraTreeClassifier

    few = max(min(x.shape[1], _FEWEST_TRIED), int(x.shape[1] ** 0.5))
    tried = few if stacked else min(x.shape[1], max(round(x.shape[1] ** 0.5), _SPLITS // len(x)))
    tree = ExtraTreeClassifier(min_samples_leaf=_LEAF, max_features=tried)
    return grown(tree, _TREES, x[~rows], member[~rows], seed=crossfit.seed_of(rng))


def _log_odds(forests: list[tuple[BoolArray, list[Any]]], x: Float32Array) -> FloatArray:
    """Return the log-odds (n,) of membership by trees that did not see the record."""
    logits = np.empty(len(x))
    for rows, trees in forests:
        near = x[rows]
        mean = sum(tree.predict_proba(near, check_input=False)[:, 1] for tree in trees) / len(trees)
        p = np.clip(mean, _FLOOR, 1 - _FLOOR)
        logits[rows] = np.log(p) - np.log1p(-p)
    return logits


def _missed(
    statistic: Callable[[FloatArray], float],
    forests: list[tuple[BoolArray, list[Any]]],
    x: Float32Array,
    z: float,
    rng: np.random.Generator,
) -> list[int]:
    """Return the columns whose permutation weakens the challenger."""
    used = np.mean([tree.feature_importances_ for _, trees in forests for tree in trees], axis=0)
    losses: dict[int, float] = {}
    for column in np.argsort(-used, kind="stable")[:_MOST_LOOKED_AT]:
        permuted = x.copy()
        permuted[:, column] = rng.permutation(x[:, column])
        losses[int(column)] = z - statistic(_log_odds(forests, permuted))
    ranked = sorted(losses, key=lambda column: -losses[column])
    return [column for column in ranked if losses[column] > _LEAST_LOSS * z][:_MOST_NAMED] or ranked[:1]


def _products(
    evidence: Evidence, values: FloatArray, x: FloatArray, margin: float = 0.0
) -> tuple[float | None, float | None, tuple[int, ...]]:
    """Return the largest |z| of a product or square with the residuals, its limit, and the columns.

    With residuals r, binomial variances w and a product p less its weighted mean c, z is sum r (p - c) over the root of
    sum w (p - c)^2. Matrix products give all pairs, for as many columns at a time as fit in memory. Products that rest
    on few records are not normal sums, and are left out. A margin shortens the sum of the largest alone.
    """
    varying = np.flatnonzero(np.ptp(x, axis=0) > 0)
    s = normal_scores(x[:, varying])
    best, place, count = 0.0, (0, 0), 0
    for start in range(0, s.shape[1], _BLOCK):
        z, tested = _of_block(evidence, values, s, slice(start, start + _BLOCK))
        tested = np.triu(tested, start)
        count += int(np.count_nonzero(tested))
        z = np.where(tested, z, 0.0)
        if z.max() > best:
            first, second = np.unravel_index(int(np.argmax(z)), z.shape)
            best, place = float(z.max()), (start + int(first), int(second))
    if not count:
        return None, None, ()
    limit = max(_LEAST_LIMIT, -float(special.ndtri(_FAMILYWISE / (2 * count))))
    if margin:
        best = max(0.0, best - _shortened(values, s[:, place[0]] * s[:, place[1]], margin))
    return best, limit, tuple(dict.fromkeys(int(varying[i]) for i in place))


def _shortened(values: FloatArray, product: FloatArray, margin: float) -> float:
    """Return by how much log-odds within a margin shorten |z| of a product (n,)."""
    w = values * (1 - values)
    centred = product - np.average(product, weights=w)
    both = (_allowed(values, sign * centred, margin) for sign in (1.0, -1.0))
    return max(both) / float(np.sqrt(w @ centred**2))


def _of_block(evidence: Evidence, values: FloatArray, s: FloatArray, block: slice) -> tuple[FloatArray, BoolArray]:
    """Return |z| (k, d) of the products of k columns with all, and which rest on enough records."""
    r, w = evidence.member - values, values * (1 - values)
    own = s[:, block]
    power = [(w[:, None] * own**k).T @ s**k for k in (1, 2)]
    total, centre = w.sum(), power[0] / w.sum()
    variance = power[1] - total * centre**2
    summed = (r[:, None] * own).T @ s - r.sum() * centre
    # sum w^2 (p - c)^4, by its binomial expansion
    terms = [((w**2)[:, None] * own**k).T @ s**k for k in range(5)]
    fourth = sum(b * t * (-centre) ** (4 - k) for k, (b, t) in enumerate(zip((1, 4, 6, 4, 1), terms, strict=True)))
    if evidence.unit_codes is not None:
        variance = np.maximum(variance, _of_units(evidence.unit_codes, r, own, s, centre))
    tested = (variance > _NOTHING * total) & (variance**2 > _FEWEST_BEHIND * fourth)
    return np.abs(summed) / np.sqrt(np.where(tested, variance, 1.0)), tested


def _of_units(code: IntArray, r: FloatArray, own: FloatArray, s: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the variance (k, d) of the sums of r (p - c) of k columns with all, records of one unit together."""
    means = np.empty_like(centre)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    for i in range(own.shape[1]):
        parts = r[:, None] * (own[:, [i]] * s - centre[i])
        means[i] = (np.add.reduceat(parts[order], starts, axis=0) ** 2).sum(axis=0)
    return means

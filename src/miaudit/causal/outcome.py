"""The outcome model: the law of a non-member's score given its covariates, for G-formula and AIPW.

One model serves every threshold. The score of a non-member is taken as mean(x) + scale(x) * residual with residuals
that do not depend on x; mean and scale are regressions, the law of the residuals is the empirical one. The family
mu_{0,t}(x) = P(Y(0) >= t | x) is then monotone in t by construction, and its mean is mu_0(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates as encodings
from miaudit.causal import crossfit, stack
from miaudit.causal.covariates import Categories, Numbers
from miaudit.causal.estimators import Aipw, Comparison, Estimator, Hajek, PropensityLike, counterfactual_mean
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence

__all__ = ["Law", "LocationScale", "Regression"]

FEWEST_NONMEMBERS = 20
_NODES = 256  # of the law of the residuals, denser towards its ends
_CHUNK = 1 << 21  # numbers held at once: 16 MB each
_SMALLEST_SCALE, _LARGEST_SCALE = 0.05, 20.0  # relative to the median


@dataclass(frozen=True, eq=False)
class Law:
    """Fitted law of Y(0) given x at every record, from models that did not see the record.

    Attributes
    ----------
    centre, scale : arrays (n,), in units of the score
    fold : array (n,) of int
        The models of a fold were fitted on non-members of the other folds.
    residual, mass : for each fold the nodes (q,) of the law of the residuals and their probabilities (q,)
    how : what to say about the model

    Examples
    --------
    >>> law = Law(np.array([0.0, 1.0]), np.ones(2), np.zeros(2, int), (np.array([-1.0, 1.0]),), (np.full(2, 0.5),), "")
    >>> law.exceedance(0.5).tolist(), law.mean.tolist()
    ([0.5, 0.5], [0.0, 1.0])
    """

    centre: FloatArray
    scale: FloatArray
    fold: IntArray
    residual: tuple[FloatArray, ...]
    mass: tuple[FloatArray, ...]
    how: str

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.centre)

    @property
    def mean(self) -> FloatArray:
        """mu_0(x) = E[Y(0) | x] of each record (n,), in units of the score."""
        shift = np.array([float(e @ m) for e, m in zip(self.residual, self.mass, strict=True)])
        return np.asarray(self.centre + self.scale * shift[self.fold])

    def expected(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return E[function(Y(0)) | x] of each record (n,); the function works elementwise on any shape."""
        expected = np.empty(self.n)
        for rows, values, mass in self._chunks():
            expected[rows] = function(values) @ mass
        return expected

    def exceedance(self, threshold: float) -> FloatArray:
        """Return P(Y(0) >= t | x) of each record (n,), 0 to 1; it does not rise with t."""
        return self.expected(lambda y: (y >= threshold).astype(np.float64))

    def weighted_exceedance(self, weight: ArrayLike, thresholds: ArrayLike) -> FloatArray:
        """Return the sum over records of weight * P(Y(0) >= t | x), for all thresholds at once.

        Each record is spread over the nodes of its law, and the nodes are counted between thresholds: O(n q) and
        never a matrix of records by thresholds.

        Parameters
        ----------
        weight : array (n,), of any sign
        thresholds : array (k,), ascending

        Returns
        -------
        array (k,)
        """
        t = np.asarray(thresholds, dtype=np.float64)
        w = np.asarray(weight, dtype=np.float64)
        total = np.zeros(len(t) + 1)
        for rows, values, mass in self._chunks():
            passed = np.searchsorted(t, values.ravel(), side="right")  # thresholds at or below each value
            total += np.bincount(passed, weights=np.outer(w[rows], mass).ravel(), minlength=len(t) + 1)
        return np.cumsum(total[::-1])[::-1][1:]

    def _chunks(self) -> Any:
        """Yield rows, the values (rows, q) with mass under their law, and the mass (q,)."""
        for k, (nodes, mass) in enumerate(zip(self.residual, self.mass, strict=True)):
            rows = np.flatnonzero(self.fold == k)
            step = max(1, _CHUNK // len(nodes))
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                yield part, self.centre[part, None] + self.scale[part, None] * nodes, mass


AnyLaw = Law | stack.Regressed


@dataclass(frozen=True)
class LocationScale:
    """Location-scale distributional regression, cross-fitted on the non-members (paper, Appendix D).

    Attributes
    ----------
    regressor : any scikit-learn regressor, or None
        Fitted (a clone) to the score, and once more to the logarithm of the absolute residuals. None is a ridge
        regression on the standardised covariates and their squares, its strength chosen by cross-validation.
    folds : int, at least 2
        Records are predicted by models that were fitted on the other folds; a unit lies in one fold.
    scale : bool
        Whether the spread may depend on the covariates.
    """

    regressor: Any = None
    folds: int = 5
    scale: bool = True

    @property
    def how(self) -> str:
        """Name of the model, for notes."""
        kind = "ridge on covariates and squares" if self.regressor is None else type(self.regressor).__name__
        return f"{kind}, {'location-scale' if self.scale else 'location'}, {self.folds} folds"

    def fit(
        self,
        covariates: ArrayLike,
        score: ArrayLike,
        member: ArrayLike,
        *,
        unit_codes: IntArray | None = None,
        rng: np.random.Generator,
    ) -> Law:
        """Fit on non-members and predict for every record.

        Parameters
        ----------
        covariates : array (n, d)
        score : array (n,), higher is more member-like
        member : array (n,) of bool
        unit_codes : array (n,) of int, optional
            Records of a unit stay in one fold.
        rng : draws the folds

        Raises
        ------
        InputError
            With too few non-members, unequal lengths, or a regressor that is none.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(400, 2))
        >>> law = LocationScale().fit(x, x[:, 0] + rng.normal(size=400), np.arange(400) < 200, rng=rng)
        >>> bool(np.corrcoef(law.mean, x[:, 0])[0, 1] > 0.95)
        True
        """
        x, y, a = np.asarray(covariates, float), np.asarray(score, float), np.asarray(member, bool)
        fold = self._checked_folds(x, y, a, unit_codes, rng)
        model = default_regressor() if self.regressor is None else self.regressor
        centre = _cross_fit(model, x, y, ~a, fold)
        residual = y - centre
        spread = np.ones(len(y))
        size = np.abs(residual[~a])
        floor = 1e-3 * float(np.median(size)) or 1e-3 * float(size.mean())
        if self.scale and floor > 0:
            logarithm = _cross_fit(model, x, np.log(np.maximum(np.abs(residual), floor)), ~a, fold)
            middle = float(np.median(logarithm[~a]))
            limits = math.log(_SMALLEST_SCALE), math.log(_LARGEST_SCALE)
            spread = np.exp(middle + np.clip(logarithm - middle, *limits))
        laws = [_nodes((residual / spread)[~a & (fold != k)]) for k in range(int(fold.max()) + 1)]
        return Law(centre, spread, fold, tuple(e for e, _ in laws), tuple(m for _, m in laws), self.how)

    def _checked_folds(
        self,
        x: FloatArray,
        y: FloatArray,
        a: BoolArray,
        unit_codes: IntArray | None,
        rng: np.random.Generator,
    ) -> IntArray:
        if x.ndim != 2 or len({len(x), len(y), len(a)}) != 1:
            shapes = f"{x.shape}, {y.shape}, {a.shape}"
            raise InputError(
                "covariates", "(n, d) with as many rows as scores and members", shapes, "pass equal lengths"
            )
        if not (hasattr(self.regressor, "fit") and hasattr(self.regressor, "predict")) and self.regressor is not None:
            received = type(self.regressor).__name__
            raise InputError("outcome", "a scikit-learn regressor", received, "pass an object with fit and predict")
        if self.folds < 2:
            raise InputError("folds", "at least 2", str(self.folds), "use 5")
        outside = int((~a).sum())
        if outside < FEWEST_NONMEMBERS:
            allowed = f"at least {FEWEST_NONMEMBERS} non-members for an outcome model"
            raise InputError("evidence", allowed, str(outside), "use method='hajek'")
        return draw_folds(a, self.folds, unit_codes, rng)


@dataclass(frozen=True)
class Regression:
    """One regression for each mean that is asked for, among the non-members of the other folds.

    What AIPW for the AUC and the average effect needs, and no more: the share of members above a score, regressed on
    the covariates by a ridge on the basis of :mod:`miaudit.causal.basis`, boosting and extremely randomised trees.

    Attributes
    ----------
    categories : positions of covariates that are codes
    """

    categories: tuple[int, ...] = ()

    @property
    def how(self) -> str:
        """Name of the model, for notes."""
        return stack.Regressed.how

    def fit(self, evidence: Evidence, propensity: PropensityLike, rng: np.random.Generator) -> stack.Regressed:
        """Divide the evidence, as the propensity did where it has folds or is a stack."""
        if evidence.n_nonmembers < FEWEST_NONMEMBERS:
            allowed = f"at least {FEWEST_NONMEMBERS} non-members for an outcome model"
            raise InputError("evidence", allowed, str(evidence.n_nonmembers), "use method='hajek'")
        shared = getattr(propensity, "models", None)
        if shared is not None and shared.learns_scores:
            return stack.Regressed(shared, evidence.score)
        place, seed = rng.spawn(2)
        folds = getattr(propensity, "folds", None)
        code = encodings.codes(evidence)
        if folds is None:  # a group may have few records of a class, and has folds all the same
            folds = encodings.assign(evidence.member, code, crossfit.FOLDS, place)
        fold = encodings.folds_of(folds, evidence.member, code, place)
        plain = _plain(evidence, propensity)
        encoding = Categories(self.categories) if self.categories else Numbers()
        table = encodings.table_of(plain, encoding)
        selected = encodings.sampled(evidence.member, code, stack.MOST_LEARNED, seed)
        shared = stack.Folds.of_table(
            table,
            encoding,
            evidence.member,
            fold,
            training_rows=selected,
            independent=encodings.independent_share(evidence.member, code),
            seed=crossfit.seed_of(seed),
        )
        some = f", learned from {len(selected):,} of {evidence.n:,} records" if len(selected) < evidence.n else ""
        return stack.Regressed(shared, evidence.score, stack.Regressed.how + some)


def _plain(evidence: Evidence, propensity: PropensityLike) -> Evidence:
    """Return the evidence with numbers for covariates: the features of texts, or the log-odds where there is no more.

    Given its propensity, membership has nothing to do with the covariates (Rosenbaum and Rubin 1983), so that a
    regression on the log-odds is enough for what membership does not change.
    """
    if evidence.text is None and evidence.covariates is not None:
        return evidence
    features = getattr(propensity, "features", None)
    if features is None and evidence.text is None:
        features = np.log(propensity.odds)[:, None]
    return evidence.replace(text=None, covariates=features, covariate_names=())


def law_of(outcome: Any, evidence: Evidence, propensity: PropensityLike, rng: np.random.Generator | None) -> AnyLaw:
    """Fit an outcome model (LocationScale, a regressor or None), or return a fitted law if it fits the evidence."""
    if isinstance(outcome, Regression):
        rng = check_generator(rng)
        return outcome.fit(evidence, propensity, rng)
    if isinstance(outcome, AnyLaw):
        if outcome.n != evidence.n:
            raise InputError("outcome", f"a law of {evidence.n} records", f"{outcome.n}", "fit it on the same evidence")
        return outcome
    # What a text says is in the features only; else the covariates are read as they are.
    covariates = evidence.covariates
    if covariates is None or (evidence.text is not None and propensity.features is not None):
        covariates = propensity.features
    if covariates is None:
        allowed = "covariates for an outcome model"
        raise InputError("evidence", allowed, "evidence without covariates", "add them, or use method='hajek'")
    rng = check_generator(rng)
    model = outcome if isinstance(outcome, LocationScale) else LocationScale(outcome)
    return model.fit(covariates, evidence.score, evidence.member, unit_codes=evidence.unit_codes, rng=rng)


def one_step_further(
    estimator: Estimator,
    comparison: Comparison,
    law: AnyLaw,
    outcome: FloatArray,
    value: float,
    own: FloatArray,
    variance: float,
) -> tuple[float, float]:
    """Return the mean one step further than AIPW by regressions went from Hajek's, and the larger variance of the two.

    What the regressions took off says what they would take off again: where models learn slowly, AIPW alone keeps a
    bias of about one standard error. The interval covers both ends (experiments/methods.md, section 9). The mean as it
    is for other estimators. ``own`` (n,) is the members' part of the influence.
    """
    if not (isinstance(estimator, Aipw) and isinstance(law, stack.Regressed)):
        return value, variance
    weighted, influence, gradient = counterfactual_mean(Hajek(), comparison, outcome, None)
    return 2 * value - weighted, max(variance, comparison.variance(influence + own, gradient))


def model_note(law: AnyLaw | None) -> str:
    """Return the note that names the outcome model of an estimate; empty without one."""
    return "" if law is None else f"outcome model: {law.how}"


def share_above(members: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the share of members above any y as a function; ties count one half."""
    ordered, n = np.sort(members), len(members)

    def above(y: FloatArray) -> FloatArray:
        flat = y.ravel()
        right, left = np.searchsorted(ordered, flat, side="right"), np.searchsorted(ordered, flat, side="left")
        return np.asarray((1 - (right + left) / (2 * n)).reshape(y.shape))

    return above


def draw_folds(member: BoolArray, folds: int, unit_codes: IntArray | None, rng: np.random.Generator) -> IntArray:
    """Assign records (n,) to folds 0 to ``folds`` - 1: equal shares of each class, or whole units."""
    if unit_codes is not None:
        count = int(unit_codes.max()) + 1
        return (rng.permutation(count) % folds)[unit_codes]
    fold = np.empty(len(member), dtype=np.int64)
    for kind in (member, ~member):
        fold[kind] = rng.permutation(int(kind.sum())) % folds
    return fold


def default_regressor() -> Any:
    """Return ridge regression on standardised covariates and squares; strength by cross-validation."""
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415 (heavy, and only needed here)
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer, StandardScaler  # noqa: PLC0415

    widen = FunctionTransformer(_with_squares)
    return make_pipeline(StandardScaler(), widen, StandardScaler(), RidgeCV(alphas=np.logspace(-2, 5, 15)))


def _with_squares(x: FloatArray) -> FloatArray:
    z = np.clip(x, -10, 10)  # a far point must not have the leverage of its square
    return np.hstack([x, z * z])


def _cross_fit(model: Any, x: FloatArray, y: FloatArray, usable: BoolArray, fold: IntArray) -> FloatArray:
    """Predict every record (n,) with a clone of the model fitted on the usable records of the other folds."""
    from sklearn.base import clone  # noqa: PLC0415 (heavy, and only needed here)

    predictions = np.empty(len(y))
    for k in range(int(fold.max()) + 1):
        held, train = fold == k, usable & (fold != k)
        if not held.any():
            continue
        predictions[held] = clone(model).fit(x[train], y[train]).predict(x[held])
    return predictions


def _nodes(residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Summarise residuals by at most ``_NODES`` block means and shares, finer towards the ends."""
    ordered = np.sort(residual)
    n = len(ordered)
    share = np.sin(np.linspace(0, np.pi / 2, _NODES + 1)) ** 2
    edges = np.unique(np.rint(n * share).astype(np.int64)) if n > _NODES else np.arange(n + 1)
    size = np.diff(edges)
    return np.add.reduceat(ordered, edges[:-1]) / size, size / n

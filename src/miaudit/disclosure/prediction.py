"""The advantage that fitted laws predict for each record, beside the measured one.

The law is logit-normal unless another one is named: its prediction for the label's confidence is closest to what
attacks reach. The Dirichlet law is that of the paper's theory.

Predictions and attacks are learned from one half of the shadow models and the attack is judged on the other half, so
that neither chance nor overfitting makes the two agree. Advantage is AUC - 1/2, the average over alpha of the paper's
advantage (erratum E8), for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.attacks import dirichlet_fit, disclosed
from miaudit.disclosure import bounds, fitted_laws, uncertainty
from miaudit.disclosure.advantage import Disclosure
from miaudit.disclosure.contraction import contraction
from miaudit.disclosure.dirichlet import marginal
from miaudit.disclosure.fitted_laws import DirichletLaws, LawName, Laws
from miaudit.disclosure.intervals import Interval, check_options
from miaudit.disclosure.uncertainty import Form
from miaudit.errors import InputError, nearest
from miaudit.errors.options import check_choice

__all__ = ["Comparison", "attainable", "compare", "held_out_advantage", "spearman"]

DISCLOSURES: tuple[Disclosure, ...] = get_args(Disclosure)
LAWS: tuple[LawName, ...] = get_args(LawName)

# Models with and without each record, in each half: fewer leave a fitted law that is mostly noise.
LEAST = 8
FEWEST_RECORDS = 10
_BLOCK = 2**22  # comparisons at once
_DRAWS = 128  # simulated models on each side of a record; their noise averages out over the records
_RECORDS_AT_ONCE = 256
_PLACEBO_RECORDS = 100
_TESTED_RECORDS = 60


@dataclass(frozen=True, eq=False)
class Comparison:
    """Predicted and measured advantage of each record under one disclosure, and how far they differ.

    Attributes
    ----------
    disclosure : what is disclosed
    law : "logit-normal" or "dirichlet"
    form : "fitted" or "three-numbers", the laws that the prediction rests on
    predicted : array (n,), 0 to 1/2, the mean of the two halves' predictions
    measured : array (n,), -1/2 to 1/2
        AUC - 1/2 of the likelihood-ratio attack over models that it was not fitted to, the mean of the two halves. It
        is unbiased for an attack with so many models, hence below 0 for some records without any leakage.
    measured_sd : array (n,), its standard error over the models, on the large side
    mean_predicted, mean_measured : Interval, means over the records
    mean_transferred : Interval, or none for "three-numbers"
        Advantage that the attack fitted to one half would have if the law fitted to the other held. The step from
        predicted to transferred is the price of few models: their laws look further apart than they are, and the attack
        is weaker. The step from transferred to measured is the law's misfit to the model.
    rank_correlation : Interval or none
        Spearman's, of predicted and measured; none where one of them is the same for all records.
    attainable : float or none, 0 to 1
        The rank correlation that noise would leave if the two truly ordered the records alike, see :func:`attainable`.
    mean_error : Interval, of predicted - measured; positive is overstated
    mean_absolute_error : Interval, of their distance
    mean_bound : float, 0 to 1/2
        Mean over the records of the largest averaged advantage that the two laws allow, by Lemma 1. It bounds the
        prediction of the laws. It is no bound on attacks where the law is refuted, or fitted to few models.
    refuted : float or none, 0 to 1
        Share of the tested laws, with and without each record, that the models refute at 5%; for decision sets the laws
        of the vector. None for "three-numbers", which are not fitted.
    refuted_by_chance : whether a right law would be refuted as often, as far as independent tests can tell
    noise : the mean distance that noise in ``measured`` alone would make
    placebo : mean prediction with the memberships permuted, where the truth is 0
        What a prediction of no leakage looks like with so few models.
    constant : records whose decision set is the same in every model: advantage 0, predicted or not
    threshold, temperature : of the decision sets; none for other disclosures
    confidence : of all intervals, which are over records with the models as they are
    models : how many models there were
    assumption : what stands in for the ground truth, in words
    """

    disclosure: Disclosure
    law: LawName
    form: Form
    predicted: FloatArray
    measured: FloatArray
    measured_sd: FloatArray
    mean_predicted: Interval
    mean_transferred: Interval | None
    mean_measured: Interval
    rank_correlation: Interval | None
    attainable: float | None
    mean_error: Interval
    mean_absolute_error: Interval
    mean_bound: float
    refuted: float | None
    refuted_by_chance: bool
    noise: float
    placebo: float
    constant: int
    threshold: float | None
    temperature: float | None
    confidence: float
    models: int
    assumption: str

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.predicted)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to show beside the figures."""
        sentences = [] if self.form == "fitted" else [self.assumption]
        if self.refuted is not None and not self.refuted_by_chance:
            what = "the label's confidence" if self.disclosure == "true-label" else "confidence vectors"
            name = "logit-normal" if self.law == "logit-normal" else "Dirichlet"
            sentences.append(
                f"the models refute the {name} law of {what} in {self.refuted:.0%} of tests, where a right law is "
                "refuted in 5%: prediction and bound are approximate"
            )
        if self.constant:
            what = "every record" if self.constant == self.n else f"{self.constant} of {self.n} records"
            sentences.append(f"the decision set of {what} is the same in all models, so it discloses nothing")
        if self.placebo > 0.02:
            sentences.append(
                f"with {self.models} models even a record that leaks nothing is predicted an advantage of about "
                f"{self.placebo:.2f}; more models lower that"
            )
        if self.rank_correlation is None:
            sentences.append("predicted or measured advantage is the same for all records: ranks cannot be compared")
        return tuple(sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for findings and charts."""
        intervals = (
            "mean_predicted",
            "mean_transferred",
            "mean_measured",
            "rank_correlation",
            "mean_error",
            "mean_absolute_error",
        )
        plain = ("disclosure", "law", "form", "attainable", "mean_bound", "refuted", "refuted_by_chance", "noise",
                 "placebo", "constant", "threshold", "temperature", "confidence", "models")  # fmt: skip
        arrays = ("predicted", "measured", "measured_sd")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: None if (interval := getattr(self, name)) is None else interval.to_dict() for name in intervals},
            **{name: [float(value) for value in getattr(self, name)] for name in arrays},
            "records": self.n,
            "notes": list(self.notes),
        }


def compare(
    probabilities: ArrayLike,
    included: ArrayLike,
    labels: ArrayLike,
    *,
    disclosures: Sequence[Disclosure] = DISCLOSURES,
    law: LawName = "logit-normal",
    form: Form = "fitted",
    threshold: float = 0.2,
    temperature: float = 0.0,
    truth: ArrayLike | None = None,
    confidence: float = 0.95,
    replicates: int = 2000,
    smoothing: float = dirichlet_fit.SMOOTHING,
    rng: np.random.Generator,
) -> tuple[Comparison, ...]:
    """Compare predicted and measured advantage for each disclosure.

    The models of each record are halved at random, members and non-members apart. Laws fitted to one half predict an
    advantage and make the attack, whose AUC is counted over the models of the other half; then the halves swap.

    Parameters
    ----------
    probabilities, included, labels : as in :func:`miaudit.disclosure.uncertainty.estimate`, with 16 models or more that
        learned each record and 16 that did not
    disclosures : which to compare
    law : "logit-normal": Gaussian laws of log-ratios, of the vector or of the label against all others. "dirichlet":
        the paper's, a Dirichlet law of the vector or a Beta law of the label's confidence
    form : "fitted": the laws as fitted to what is disclosed. "three-numbers", of the Dirichlet law alone: those that
        calibration error, aleatoric and epistemic uncertainty of each record give by Eqs. 29 and 30. The attack is the
        same.
    threshold : q of the decision sets, in [0, 1]
    temperature : T of the decision sets (Eq. 37), 0 or more; above 0 the sets are drawn
    truth : as in :func:`miaudit.disclosure.uncertainty.estimate`; used by the "three-numbers" only
    confidence : two-sided, in (0, 1)
    replicates : of the bootstrap over records, 100 or more
    smoothing : of probabilities, for attack and prediction alike
    rng : generator of the halves, of the theory's draws and of the bootstrap

    Returns
    -------
    tuple of Comparison, in the order of ``disclosures``

    Raises
    ------
    InputError
        As :func:`miaudit.disclosure.uncertainty.estimate`; for fewer than 16 models with and without each record (32
        shadow models do), fewer than ten records, and options outside their range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(256) % 2 == 0, (30, 1))
    >>> gain = np.linspace(0, 4, 30)[:, None, None] * included[..., None] * [1, 0, 0]
    >>> gamma = rng.gamma(np.array([3.0, 2.0, 2.0]) + gain)
    >>> found, = compare(gamma / gamma.sum(axis=2, keepdims=True), included, np.zeros(30, dtype=int),
    ...                  disclosures=["true-label"], rng=rng)
    >>> found.rank_correlation.low > 0.5, abs(found.mean_error.value) < 0.05
    (True, True)
    """
    _options(disclosures, law, form, confidence, replicates, threshold, temperature)
    p, inside, y = uncertainty.checked(probabilities, included, labels)
    uncertainty.require_models((inside, ~inside), 2 * LEAST, "a half to learn from and a half to be judged on")
    if len(p) < FEWEST_RECORDS:
        raise InputError(
            "probabilities", f"{FEWEST_RECORDS} records or more", str(len(p)), "ranks of so few say nothing"
        )
    p = uncertainty.label_first(p, y)
    shown = _Shown(
        p,
        inside,
        fitted_laws.drawn_sets(p, threshold, temperature, rng=rng),
        None if truth is None else uncertainty.checked_truth(truth, len(p)),
        law,
        form,
        threshold,
        temperature,
        smoothing,
    )
    halves = _Halves.of(shown, rng)
    refuted = shown.refuted(disclosures, rng)
    return tuple(
        _comparison(shown, name, halves.advantages(name, rng), refuted[name], confidence, replicates, rng)
        for name in disclosures
    )


def split(included: BoolArray, *, rng: np.random.Generator) -> BoolArray:
    """Draw half of the models that learned each record and half of the others, (n, M) of bool.

    Examples
    --------
    >>> included = np.array([[True, True, False, False, False, False]])
    >>> half = split(included, rng=np.random.default_rng(0))
    >>> (half & included).sum().item(), (half & ~included).sum().item()
    (1, 2)
    """
    half = np.zeros(included.shape, dtype=np.bool_)
    for side in (included, ~included):
        order = np.where(side, rng.random(included.shape), 2.0).argsort(axis=1).argsort(axis=1)
        half |= side & (order < side.sum(axis=1)[:, None] // 2)
    return half


@dataclass(frozen=True, eq=False)
class _Shown:
    """Shadow outputs (n, M, K), the label's column first, and their disclosure."""

    p: FloatArray
    inside: BoolArray
    sets: BoolArray
    truth: FloatArray | None
    law: LawName
    form: Form
    threshold: float
    temperature: float
    smoothing: float

    def take(self, rows: IndexArray | slice, inside: BoolArray) -> _Shown:
        """Return some records, with memberships ``inside`` (n, M) in place of their own."""
        truth = None if self.truth is None else self.truth[rows]
        return replace(self, p=self.p[rows], inside=inside[rows], sets=self.sets[rows], truth=truth)

    def values(self, name: Disclosure) -> FloatArray:
        """Return the vectors (n, M, C) that laws are fitted to: of the true label, it and all others."""
        if name != "true-label":
            return self.p
        return np.stack([self.p[..., 0], self.p[..., 1:].sum(axis=-1)], axis=-1)

    def laws(self, used: BoolArray) -> dict[Disclosure, Laws]:
        """Return the laws with and without each record, for each disclosure."""
        if self.form == "three-numbers":
            labels = np.zeros(len(self.p), dtype=np.intp)
            figures = uncertainty.estimate(
                self.p, self.inside, labels, used=used, truth=self.truth, smoothing=self.smoothing
            )
            vector, own = figures.parameters(self.form), [marginal(a) for a in figures.parameters(self.form)]
            both: dict[Disclosure, Laws] = {
                "confidence-vector": DirichletLaws(*vector),
                "true-label": DirichletLaws(*own),
            }
        else:
            sides = used & self.inside, used & ~self.inside
            fitted = (
                fitted_laws.fit(self.law, self.values(name), sides, smoothing=self.smoothing)
                for name in DISCLOSURES[:2]
            )
            both = dict(zip(DISCLOSURES[:2], fitted, strict=True))
        return {**both, "decision-set": both["confidence-vector"]}

    def predicted(self, laws: Laws, name: Disclosure, rng: np.random.Generator) -> FloatArray:
        """Return the predicted advantage for each pair of laws."""
        if name == "decision-set":
            return laws.of_sets(self.threshold, self.temperature, rng)
        return laws.averaged()

    def bounded(self, laws: Laws, name: Disclosure) -> FloatArray:
        """Return the largest averaged advantage that the laws allow (n,), by Lemma 1."""
        factor = 1.0
        if name == "decision-set":  # Proposition 3 holds for any law of the vector
            factor = contraction(self.p.shape[2], self.threshold, self.temperature).upper ** 2
        return bounds.region(*(factor * one for one in laws.divergences()))

    def refuted(self, names: Sequence[Disclosure], rng: np.random.Generator) -> dict[Disclosure, BoolArray | None]:
        """Return which laws the models refute, (records, 2) of some records, for each disclosure."""
        if self.form == "three-numbers":
            return dict.fromkeys(names)
        some = self.take(np.arange(0, len(self.p), -(-len(self.p) // _TESTED_RECORDS)), self.inside)
        sides, tested = (some.inside, ~some.inside), {}
        for name in names:
            of: Disclosure = "true-label" if name == "true-label" else "confidence-vector"
            if of not in tested:
                tested[of] = fitted_laws.refuted(self.law, some.values(of), sides, smoothing=self.smoothing, rng=rng)
            tested[name] = tested[of]
        return {**tested}

    def scores(self, name: Disclosure, used: BoolArray, target: NDArray[Any] | None = None) -> FloatArray:
        """Return scores (n, T) of outputs by the fitted attack; default: of all models' outputs."""
        if name == "decision-set":
            return disclosed.decision_set(self.sets if target is None else target, self.sets, self.inside, used=used)
        own = self.values(name)
        sides = used & self.inside, used & ~self.inside
        laws = fitted_laws.fit(self.law, own, sides, smoothing=self.smoothing)
        return laws.score(dirichlet_fit.smooth(own if target is None else target, self.smoothing))

    def transferred(self, laws: Laws, name: Disclosure, used: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return the advantage of the fitted attack if these laws held."""
        value = np.empty(len(self.p))
        for start in range(0, len(value), _RECORDS_AT_ONCE):
            rows = slice(start, start + _RECORDS_AT_ONCE)
            outputs: NDArray[Any] = laws.take(rows).sample(_DRAWS, rng=rng)
            if name == "decision-set":
                outputs = fitted_laws.drawn_sets(outputs, self.threshold, self.temperature, rng=rng)
            scores = self.take(rows, self.inside).scores(name, used[rows], outputs)
            member = np.broadcast_to(np.arange(2 * _DRAWS) < _DRAWS, scores.shape)
            value[rows] = held_out_advantage(scores, member, np.ones_like(member))[0]
        return value


@dataclass(frozen=True, eq=False)
class _Advantages:
    """Advantages under one disclosure, (n,) for each half.

    Attributes
    ----------
    predicted : by the laws of the half
    measured : of the attack fitted to the half, over the models of the other one; with the variances
    transferred : of the attack fitted to the half, if the law fitted to the other one held; empty for "three-numbers"
    placebo : mean prediction with the memberships permuted
    bound : mean of the largest advantage that the laws of both halves allow
    """

    predicted: Sequence[FloatArray]
    measured: Sequence[tuple[FloatArray, FloatArray]]
    transferred: Sequence[FloatArray]
    placebo: float
    bound: float


@dataclass(frozen=True, eq=False)
class _Halves:
    """The models of each record in two halves, arrays (n, M) of bool, and the laws that are fitted to each half.

    ``null`` are the laws of some records after their memberships were permuted within the half.
    """

    shown: _Shown
    halves: tuple[BoolArray, BoolArray]
    laws: Sequence[dict[Disclosure, Laws]]
    null: Sequence[dict[Disclosure, Laws]]

    @classmethod
    def of(cls, shown: _Shown, rng: np.random.Generator) -> _Halves:
        """Halve the models at random and fit the laws."""
        first = split(shown.inside, rng=rng)
        halves = (first, ~first)
        few = np.arange(0, len(shown.p), -(-len(shown.p) // _PLACEBO_RECORDS))
        null = [shown.take(few, _permuted(shown.inside, half, rng)).laws(half[few]) for half in halves]
        return cls(shown, halves, [shown.laws(half) for half in halves], null)

    def advantages(self, name: Disclosure, rng: np.random.Generator) -> _Advantages:
        """Return what the laws predict under one disclosure and what the attacks reach."""
        shown = self.shown
        placebo = float(np.mean([shown.predicted(laws[name], name, rng) for laws in self.null]))
        transferred = [
            shown.transferred(other[name], name, half, rng)
            for half, other in zip(self.halves, reversed(self.laws), strict=True)
            if shown.form == "fitted"
        ]
        return _Advantages(
            predicted=[shown.predicted(laws[name], name, rng) for laws in self.laws],
            measured=[held_out_advantage(shown.scores(name, half), shown.inside, ~half) for half in self.halves],
            transferred=transferred,
            placebo=placebo,
            bound=float(np.mean([shown.bounded(laws[name], name) for laws in self.laws])),
        )


def held_out_advantage(scores: ArrayLike, included: ArrayLike, held: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return AUC - 1/2 of each record over held-out models, and its variance (DeLong et al. 1988).

    Parameters
    ----------
    scores : array (n, M), higher for members
    included, held : arrays (n, M) of bool
        Which models learned the record; which of them count. Both kinds among those that count, two of each.

    Returns
    -------
    two arrays (n,): AUC - 1/2 with ties counted half, from -1/2 to 1/2; and the variance

    Examples
    --------
    >>> included = [[True, True, False, False]]
    >>> value, variance = held_out_advantage([[3.0, 1.0, 2.0, 0.0]], included, np.ones((1, 4), bool))
    >>> value.tolist(), variance.round(3).tolist()
    ([0.25], [0.125])
    """
    s, inside, count = np.asarray(scores, dtype=np.float64), np.asarray(included), np.asarray(held)
    value, variance = np.empty(len(s)), np.empty(len(s))
    step = max(1, _BLOCK // s.shape[1] ** 2)
    for start in range(0, len(s), step):
        rows = slice(start, start + step)
        one, other = inside[rows] & count[rows], ~inside[rows] & count[rows]
        wins = 0.5 * ((s[rows, :, None] > s[rows, None, :]) + 0.0 + (s[rows, :, None] >= s[rows, None, :]))
        over_others = np.einsum("imj,ij->im", wins, other) / other.sum(axis=1)[:, None]
        over_members = np.einsum("imj,im->ij", wins, one) / one.sum(axis=1)[:, None]
        value[rows] = np.mean(over_others, axis=1, where=one)
        variance[rows] = np.var(over_others, axis=1, where=one, ddof=1) / one.sum(axis=1)
        variance[rows] += np.var(over_members, axis=1, where=other, ddof=1) / other.sum(axis=1)
    return value - 0.5, variance


def _comparison(
    shown: _Shown,
    name: Disclosure,
    advantages: _Advantages,
    refuted: BoolArray | None,
    confidence: float,
    replicates: int,
    rng: np.random.Generator,
) -> Comparison:
    values, variances = zip(*advantages.measured, strict=True)
    predicted, measured = np.mean(advantages.predicted, axis=0), np.mean(values, axis=0)
    transferred = np.mean(advantages.transferred, axis=0) if advantages.transferred else None
    # Each half's attack is fitted to the models that judge the other, so their errors may go together: as if fully.
    sd = np.mean(np.sqrt(variances), axis=0)
    rows = rng.integers(0, len(predicted), (replicates, len(predicted)))
    gap = predicted - measured
    sets = name == "decision-set"
    same = (shown.sets == shown.sets[:, :1]).all(axis=(1, 2))
    return Comparison(
        disclosure=name,
        law=shown.law,
        form=shown.form,
        predicted=predicted,
        measured=measured,
        measured_sd=sd,
        mean_predicted=_mean(predicted, rows, confidence),
        mean_transferred=None if transferred is None else _mean(transferred, rows, confidence),
        mean_measured=_mean(measured, rows, confidence),
        rank_correlation=_rank_correlation(predicted, measured, rows, confidence),
        attainable=attainable(advantages.predicted, measured, sd),
        mean_error=_mean(gap, rows, confidence),
        mean_absolute_error=_mean(np.abs(gap), rows, confidence),
        mean_bound=advantages.bound,
        refuted=None if refuted is None else float(refuted.mean()),
        refuted_by_chance=refuted is None
        or not fitted_laws.refuted_more_often_than_by_chance(int(refuted.sum()), refuted.size),
        noise=float(np.sqrt(2 / np.pi) * sd.mean()),
        placebo=advantages.placebo,
        constant=int(same.sum()) if sets else 0,
        threshold=shown.threshold if sets else None,
        temperature=shown.temperature if sets else None,
        confidence=confidence,
        models=shown.inside.shape[1],
        assumption=uncertainty.assumption(shown.truth is not None),
    )


def _mean(values: FloatArray, rows: IntArray, confidence: float) -> Interval:
    """Return the mean over records with percentile limits of the bootstrap over records."""
    return Interval.of(float(values.mean()), values[rows].mean(axis=1), confidence)


def _rank_correlation(a: FloatArray, b: FloatArray, rows: IntArray, confidence: float) -> Interval | None:
    value = spearman(a[None], b[None])[0]
    if np.isnan(value):
        return None
    replicates = spearman(a[rows], b[rows])
    return Interval.of(float(value), replicates[~np.isnan(replicates)], confidence)


def spearman(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return Spearman's rank correlation of each row, (r,) for (r, n); NaN where a row is constant.

    Examples
    --------
    >>> spearman(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 5.0, 5.0]])).round(3).tolist()
    [0.866]
    """
    x, y = (stats.rankdata(values, axis=1) for values in (a, b))
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(scale > 0, (x * y).sum(axis=1) / scale, np.nan))


def attainable(predicted: Sequence[FloatArray], measured: FloatArray, measured_sd: FloatArray) -> float | None:
    """Return the largest rank correlation under noise: the root of the product of both reliabilities.

    The reliability of the predictions follows from the rank correlation r of two halves by Spearman and Brown's
    formula, 2 r / (1 + r); that of the measurement from its standard errors, 1 - mean(sd^2) / variance. (Its two halves
    cannot say: each is fitted to the models that the other is judged on, so they agree even where both are noise.)

    Parameters
    ----------
    predicted : two arrays (n,), from separate halves of the models
    measured, measured_sd : arrays (n,)

    Returns
    -------
    float in [0, 1], or none where all records are alike

    Examples
    --------
    >>> values = np.arange(5.0)
    >>> round(attainable([values, values], values, np.full(5, 1.0)), 3)
    0.707
    """
    agreement, spread = spearman(predicted[0][None], predicted[1][None])[0], float(np.var(measured))
    if np.isnan(agreement) or spread == 0:
        return None
    reliability = 2 * max(agreement, 0.0) / (1 + max(agreement, 0.0)), max(0.0, 1 - np.mean(measured_sd**2) / spread)
    return float(np.sqrt(reliability[0] * reliability[1]))


def _permuted(inside: BoolArray, used: BoolArray, rng: np.random.Generator) -> BoolArray:
    """Permute memberships at random among each record's models that are used."""
    count = (inside & used).sum(axis=1)[:, None]
    order = np.where(used, rng.random(inside.shape), 2.0).argsort(axis=1).argsort(axis=1)
    return np.asarray(used & (order < count))


def _options(
    disclosures: Sequence[str],
    law: str,
    form: str,
    confidence: float,
    replicates: int,
    threshold: float,
    temperature: float,
) -> None:
    for name in disclosures:
        if name not in DISCLOSURES:
            hint = nearest(str(name), DISCLOSURES) or "choose one or more"
            raise InputError("disclosures", f"names from {', '.join(DISCLOSURES)}", repr(name), hint)
    check_choice("law", law, LAWS)
    check_choice("form", form, get_args(Form))
    if form != "fitted" and law != "dirichlet":
        hint = "Eqs. 29 and 30 give Dirichlet parameters: add law='dirichlet'"
        raise InputError("form", f"'fitted' with the {law} law", repr(form), hint)
    check_options(confidence, replicates)
    if not 0 <= threshold <= 1:
        raise InputError("threshold", "a number in [0, 1]", repr(threshold), "0.2 keeps labels of 20% and more")
    if not 0 <= temperature < np.inf:
        raise InputError("temperature", "a number from 0 up", repr(temperature), "0 gives the sets without chance")

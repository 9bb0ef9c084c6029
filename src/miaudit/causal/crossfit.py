"""Cross-fitted models of membership: training rows, audited rows, folds and fits.

What is shared by the propensity (:mod:`miaudit.causal.propensity`) and its replicates
(:mod:`miaudit.causal.replicates`).
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates, logistic
from miaudit.causal.covariates import Encoder, Encoding, Table
from miaudit.errors import InputError
from miaudit.evidence import Evidence

CLIP = 1e-3
FOLDS = 5
INNER_FOLDS = 5
_LOGIT_FLOOR = 1e-6  # a classifier's certainty is taken as 1 - 1e-6 before calibration


# -- what is asked, and of which rows -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Way:
    """Options of a propensity: the encoding, and the default logistic model (None) or a classifier."""

    classifier: Any
    encoding: Encoding
    refuse_few_rows: bool
    strengths: tuple[float, ...]

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        classifier: Any,
        encoding: Encoding | None,
        refuse_few_rows: bool = True,
        strength: float | None = None,
    ) -> Way:
        """Return checked options, with the default encoding of the evidence where none is given."""
        chosen = covariates.default_of(evidence) if encoding is None else encoding
        covariates.check(chosen)
        check_classifier(classifier)
        if strength is not None and not (0 < strength < math.inf and classifier is None):
            raise InputError("strength", "a number above 0, for the default model", repr(strength), "leave it out")
        return cls(classifier, chosen, refuse_few_rows, logistic.STRENGTHS if strength is None else (float(strength),))


def check_classifier(classifier: Any) -> None:
    """Refuse anything but None and scikit-learn classifiers with probabilities."""
    if classifier is not None and not (hasattr(classifier, "predict_proba") and hasattr(classifier, "get_params")):
        raise InputError(
            "classifier",
            "a scikit-learn classifier with predict_proba",
            type(classifier).__name__,
            "wrap it in sklearn.calibration.CalibratedClassifierCV, or leave it out",
        )


@dataclass(frozen=True, eq=False)
class Part:
    """Training rows and the audited rows that the fit is applied to; always disjoint."""

    rows: BoolArray  # of the source, to learn from
    table: Table
    member: BoolArray
    code: IntArray
    held_out: BoolArray  # of the evidence
    apply: Table
    prior_shift: float  # log-odds of membership in the audited sample less those in the training rows


@dataclass(frozen=True, eq=False)
class Task:
    """All fits of a cross-fitting: one part for each fold, or one for a separate sample."""

    audited: Table
    parts: tuple[Part, ...]
    folds: IntArray | None
    rows: int

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        train: Evidence | None,
        way: Way,
        folds: int | ArrayLike,
        rng: np.random.Generator,
    ) -> Task:
        """Divide the evidence into folds, or take a separate training sample."""
        prior = _log_odds(evidence.member)
        if train is None:
            table = covariates.table_of(evidence, way.encoding)
            code = codes(evidence)
            fold = folds_of(folds, evidence.member, code, rng)
            parts = tuple(fold_part(table, evidence.member, code, fold != k, prior) for k in np.unique(fold))
            return cls(table, parts, fold, evidence.n)
        table = covariates.table_of(train, way.encoding)
        audited = covariates.like(evidence, way.encoding, table)
        _refuse_audited_rows(evidence, audited, train, table)
        part = Part(
            np.ones(train.n, dtype=np.bool_),
            table,
            train.member,
            codes(train),
            np.ones(evidence.n, dtype=np.bool_),
            audited,
            prior - _log_odds(train.member),
        )
        return cls(audited, (part,), None, train.n)


def fold_part(table: Table, member: BoolArray, code: IntArray, rows: BoolArray, prior: float) -> Part:
    """Return the part for one mask of training rows; ``prior`` is the log-odds of membership."""
    held_out = ~rows
    if np.intersect1d(code[rows], code[held_out]).size:
        raise InputError("folds", "folds that keep each unit whole", "a unit in two folds", "pass a number of folds")
    inside = member[rows]
    if not 0 < inside.sum() < len(inside):
        raise InputError("folds", "members and non-members beside each fold", "one of them only", "use fewer folds")
    shift = prior - _log_odds(inside)
    return Part(rows, table.take(rows), inside, code[rows], held_out, table.take(held_out), shift)


def codes(evidence: Evidence) -> IntArray:
    """Return units as integers (n,); each record is one where no units are given."""
    code = evidence.unit_codes
    return np.arange(evidence.n) if code is None else code


def _log_odds(member: BoolArray) -> float:
    inside = int(np.count_nonzero(member))
    return math.log(inside / (len(member) - inside))


def unit_kind(member: BoolArray, code: IntArray) -> IntArray:
    """Return for each unit 0 if it has non-members only, 1 members only, 2 both."""
    inside = np.bincount(code, weights=member)
    size = np.bincount(code)
    return np.where(inside == 0, 0, np.where(inside == size, 1, 2))


def folds_of(folds: int | ArrayLike, member: BoolArray, code: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the fold of each record (n,), from a number of folds or given folds."""
    given = np.asarray(folds)
    if given.ndim == 0:
        count = int(given)
        fewest = min(len(np.unique(code[member])), len(np.unique(code[~member])))
        if count < 2 or count != given:
            raise InputError("folds", "a whole number from 2 up", str(folds), "5 is the default")
        if fewest < 2 * count:
            raise InputError(
                "evidence",
                f"at least {2 * count} members and {2 * count} non-members (units) for {count} folds",
                f"{fewest}",
                "collect more records, or learn the propensity from a separate sample with train=",
            )
        return assign(member, code, count, rng)
    if given.shape != member.shape or given.dtype.kind not in "iu" or len(np.unique(given)) < 2:
        raise InputError(
            "folds", f"integers ({len(member)},), two folds or more", f"shape {given.shape}", "pass a number"
        )
    return given.astype(np.int64)


def assign(member: BoolArray, code: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Assign units to folds at random: by kind of unit, larger units first."""
    kind, size = unit_kind(member, code), np.bincount(code)
    order = np.lexsort((rng.permutation(len(kind)), -size, kind))
    there_and_back = np.r_[np.arange(count), np.arange(count)[::-1]]
    fold = np.empty(len(kind), dtype=np.int64)
    fold[order] = there_and_back[np.arange(len(kind)) % (2 * count)]
    return rng.permutation(count)[fold][code]


def _refuse_audited_rows(evidence: Evidence, audited: Table, train: Evidence, table: Table) -> None:
    """Refuse a training sample that shares more rows with the audited one than chance would."""
    if train is evidence or train.digest == evidence.digest:
        share = 1.0
        by_chance = 0.0
    else:
        seen, mine = _row_keys(table), _row_keys(audited)
        names, counts = np.unique(seen, return_counts=True)
        by_chance = float(counts[counts > 1].sum() / len(seen))
        share = float(np.isin(mine, names).mean())
    if share > by_chance + 0.1:
        raise InputError(
            "train",
            "records other than the audited ones",
            f"a sample that holds {share:.0%} of the audited rows",
            "leave train out for cross-fitting, or pass a separate sample",
        )


def _row_keys(table: Table) -> NDArray[Any]:
    parts = []
    if table.numbers is not None:
        parts.append([row.tobytes() for row in np.ascontiguousarray(table.numbers + 0.0)])
    if table.text is not None:
        parts.append([word.encode() for word in table.text.tolist()])
    return np.array([hash(key) for key in zip(*parts, strict=True)])


def check_clip(clip: float) -> None:
    """Refuse clipping bounds outside (0, 0.5)."""
    if not 0 < clip < 0.5:
        raise InputError("clip", "a number in (0, 0.5)", repr(clip), f"{CLIP:g} is the default")


def clipped(values: FloatArray, clip: float) -> tuple[FloatArray, float]:
    """Return probabilities clipped to [clip, 1 - clip] and the share of them that changed."""
    outside = (values < clip) | (values > 1 - clip)
    return np.clip(values, clip, 1 - clip), float(outside.mean())


# -- one model ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model: features to log-odds, then Platt's calibration."""

    encoder: Encoder
    slope: float
    offset: float
    coefficients: FloatArray | None = None  # intercept first
    strength: float | None = None
    estimator: Any = None

    def logit(self, table: Table) -> FloatArray:
        """Return calibrated log-odds (n,) of membership."""
        x = self.encoder.transform(table)
        if self.coefficients is None:
            return self.offset + self.slope * raw_logit(self.estimator, x)
        return self.offset + self.slope * (logistic.with_ones(x) @ self.coefficients)

    def spread(self, point: FloatArray, raw: FloatArray) -> FloatArray:
        """Return calibrated log-odds of replicates (k, n), centred at the calibrated value."""
        return self.offset + self.slope * point + max(1.0, self.slope) * (raw - point)


def learn(way: Way, part: Part, rng: np.random.Generator) -> Model:
    """Fit encoder, model and calibration on training rows."""
    encoder = covariates.fit(way.encoding, part.table, seed=seed_of(rng))
    x, member = encoder.transform(part.table), part.member
    refuse_wide(x, way)
    y = member.astype(np.float64)
    inner = assign(member, part.code, INNER_FOLDS, rng)
    if way.classifier is None:
        ones = logistic.with_ones(x)
        strength, held, start = logistic.choose_strength(ones, y, inner, way.strengths)
        coefficients, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start)
        slope, offset = logistic.platt(held, y)
        return Model(encoder, slope, offset, coefficients, strength)
    held = np.empty(len(y))
    for k in np.unique(inner):
        some = fit_classifier(way.classifier, x[inner != k], member[inner != k], seed_of(rng))
        held[inner == k] = raw_logit(some, x[inner == k])
    slope, offset = logistic.platt(held, y)
    return Model(encoder, slope, offset, estimator=fit_classifier(way.classifier, x, member, seed_of(rng)))


def refuse_wide(x: FloatArray, way: Way) -> None:
    """Refuse features x (n, p) with p >= n (errata B20)."""
    if way.refuse_few_rows and x.shape[1] >= len(x):
        raise InputError(
            "evidence.covariates",
            f"fewer features than the {len(x):,} rows to learn from",
            f"{x.shape[1]:,} features",
            "condense them into fewer components (the option components), or collect more records: "
            "a propensity that cannot be learned makes every bound invalid",
        )


def seed_of(rng: np.random.Generator) -> int:
    """Draw a seed for libraries that take no generator."""
    return int(rng.integers(0, 2**31 - 1))


def fit_classifier(classifier: Any, x: FloatArray, member: BoolArray, seed: int) -> Any:
    """Fit a copy of the caller's classifier; set its random state if it has none."""
    from sklearn.base import clone

    copy = clone(classifier)
    options = copy.get_params(deep=True)
    open_states = [key for key in options if key.split("__")[-1] == "random_state" and options[key] is None]
    copy.set_params(**dict.fromkeys(open_states, seed))
    return copy.fit(x, member)


def raw_logit(estimator: Any, x: FloatArray) -> FloatArray:
    """Return uncalibrated log-odds (n,) of membership by a fitted classifier."""
    inside = np.flatnonzero(np.asarray(estimator.classes_, dtype=bool))[0]
    p = np.clip(estimator.predict_proba(x)[:, inside].astype(np.float64), _LOGIT_FLOOR, 1 - _LOGIT_FLOOR)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)

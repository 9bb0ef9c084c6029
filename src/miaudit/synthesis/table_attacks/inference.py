"""Attribute inference: a secret column guessed from the other columns by way of the synthetic table.

A useful table lets everybody guess better, about members and strangers alike: that is knowledge of the population, not
a leak. The leak is the excess of right guesses about members over control records (Giomi et al., PETS 2023, 5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError
from miaudit.metrics.units import Units
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.schema import Schema, Table
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest_in_groups
from miaudit.synthesis.table_attacks.success_rates import Comparison, Rate, compare

MOST_SECRETS = 20  # columns that an audit guesses
_TOLERANCE = 0.05


@dataclass(frozen=True, eq=False)
class Inference:
    """Success in guessing each secret, of members against control records.

    Attributes
    ----------
    comparisons : one for each secret; ``by_chance`` of each is the most frequent synthetic value (or the median)
    secrets : names of the secret columns
    score : array (n1 + n0,), members first; share of a record's secrets that were guessed right
    distance : array (n1 + n0,), to the nearest synthetic record by all columns; None with a model
    outcomes : how the guesses of each secret turned out, record by record
    """

    comparisons: tuple[Comparison, ...]
    secrets: tuple[str, ...]
    score: FloatArray
    distance: FloatArray | None
    outcomes: tuple[Outcome, ...] = ()


def attribute_inference(
    synthetic: Table,
    members: Table,
    control: Table,
    *,
    secrets: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    model: Any = None,
    tolerance: float = _TOLERANCE,
    metric: Metric | None = None,
    confidence: float = 0.95,
    units: Units | None = None,
    rng: np.random.Generator,
) -> Inference:
    """Guess secret columns by the nearest synthetic record or by a model of synthetic records.

    Parameters
    ----------
    synthetic, members, control : tables with one schema
    secrets : names of the columns to guess, each from the columns that are known; default every column in turn
    known : names of the columns that the attacker knows; default all but the secret
    model : scikit-learn classifier (for categories) or regressor (for numbers), cloned for each secret and fitted on
        the synthetic table; default the nearest synthetic record
    tolerance : how far a guess of a number may be off, as a share of the width of :class:`Metric`; 0 or more
    metric : default :meth:`Metric.of` the control records
    confidence : of the two-sided intervals, each on its own; divide the error by the number of secrets for all at once
    units : of the n1 + n0 records, members first, where several are of one unit
    rng : breaks ties, and seeds the model if it takes a ``random_state``

    Raises
    ------
    InputError
        For unknown columns, no column that is known, a negative tolerance, or tables with different schemas.

    Notes
    -----
    Records whose secret is missing are left out for that secret.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema((Column("age", "continuous", low=-9, high=9), Column("ill"), Column("sex")))
    >>> draw = lambda n: Table(schema, np.c_[rng.normal(size=n), rng.integers(0, 2, size=(n, 2))])
    >>> members, control = draw(400), draw(400)
    >>> ill = attribute_inference(members, members, control, secrets=["ill"], rng=rng).comparisons[0]
    >>> ill.members.value, ill.leaks, ill.weak
    (1.0, True, False)
    """
    chosen, known_columns = _columns(synthetic.schema, secrets, known)
    if not tolerance >= 0:
        raise InputError("tolerance", "a number from 0 up", repr(tolerance), f"{_TOLERANCE} is the default")
    metric = metric or Metric.of(control)
    everyone = Table(synthetic.schema, np.concatenate([members.values, control.values]))
    if model is None:
        guesses, distance = _by_nearest(metric, everyone, synthetic, chosen, known_columns, rng)
    else:
        guesses, distance = _by_model(model, everyone, synthetic, chosen, known_columns, rng), None
    outcomes = [
        Outcome.of(metric, j, guess, everyone, synthetic, tolerance) for j, guess in zip(chosen, guesses, strict=True)
    ]
    return Inference(
        tuple(own.compared(len(members), confidence, units) for own in outcomes),
        tuple(own.secret for own in outcomes),
        _share_right(outcomes),
        distance,
        tuple(outcomes),
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """How the guesses of one secret turned out, for all records, members first.

    ``tried`` (n,) are the records that have a value, and ``right`` (n,) the records whose guess is right. For those of
    ``naive`` (n,) the most frequent synthetic value (or the median) is right. ``note`` says what counts as right.
    """

    secret: str
    tried: BoolArray
    right: BoolArray
    naive: BoolArray
    note: str

    @classmethod
    def of(
        cls, metric: Metric, column: int, guess: FloatArray, everyone: Table, synthetic: Table, tolerance: float
    ) -> Outcome:
        """Judge the guesses (n,) of one column."""
        truth = everyone.values[:, column]
        usual = np.full(len(truth), _naive(metric, column, synthetic))
        right, naive = (_right(metric, column, values, truth, tolerance) for values in (guess, usual))
        note = "" if metric.nominal[column] else f"right within {tolerance * metric.width[column]:.3g}"
        return cls(synthetic.schema.names[column], ~np.isnan(truth), right, naive, note)

    def compared(self, members: int, confidence: float, units: Units | None) -> Comparison:
        """Compare the success of members, the first so many records, with that of control records."""
        inside, outside = (self.right[part][self.tried[part]] for part in (slice(members), slice(members, None)))
        return compare(
            f"inference: {self.secret}",
            inside,
            outside,
            confidence=confidence,
            by_chance=Rate.of(self.naive[:members][self.tried[:members]], confidence),
            note=self.note,
            units=None if units is None else units.take(self.tried),
        )


def _share_right(outcomes: Sequence[Outcome]) -> FloatArray:
    """Return the share (n,) of each record's secrets that were guessed right; 0 for a record without a secret."""
    right = np.sum([own.right for own in outcomes], axis=0, dtype=np.float64)
    trials = np.sum([own.tried for own in outcomes], axis=0, dtype=np.float64)
    return np.asarray(right / np.maximum(trials, 1))


def _columns(
    schema: Schema, secrets: Sequence[str] | None, known: Sequence[str] | None
) -> tuple[list[int], list[tuple[int, ...]]]:
    if isinstance(secrets, str) or isinstance(known, str):
        raise InputError("secrets", "a list of columns", "text", "write ['income']")
    chosen = [schema.position(name) for name in (schema.names if secrets is None else secrets)]
    if not chosen:
        raise InputError("secrets", "at least one column", "none", "name a column, or leave it out for all")
    allowed = [schema.position(name) for name in (schema.names if known is None else known)]
    known_columns = [tuple(i for i in allowed if i != j) for j in chosen]
    for j, columns in zip(chosen, known_columns, strict=True):
        if not columns:
            raise InputError("known", f"a column beside {schema.names[j]}", "none", "name what the attacker knows")
    return chosen, known_columns


def _by_nearest(
    metric: Metric,
    queries: Table,
    synthetic: Table,
    secrets: list[int],
    known: list[tuple[int, ...]],
    rng: np.random.Generator,
) -> tuple[list[FloatArray], FloatArray]:
    """Guess each secret by the synthetic record nearest in the known columns; also the distance by all columns."""
    everything = tuple(range(len(synthetic.schema)))
    *neighbours, nearest = nearest_in_groups(metric, queries, synthetic, [*known, everything], rng=rng)
    guesses = [synthetic.values[own.index[:, 0], j] for own, j in zip(neighbours, secrets, strict=True)]
    return guesses, nearest.distance[:, 0]


def _by_model(
    model: Any,
    queries: Table,
    synthetic: Table,
    secrets: list[int],
    known: list[tuple[int, ...]],
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Guess each secret by a model of the synthetic records."""
    from sklearn.base import clone  # noqa: PLC0415 - scikit-learn loads when used

    guesses = []
    for j, columns in zip(secrets, known, strict=True):
        rows = ~np.isnan(synthetic.values[:, j])
        target = synthetic.values[rows, j]
        if not len(target) or (target == target[0]).all():  # a constant column: there is nothing to learn
            guesses.append(np.full(len(queries), target[0] if len(target) else np.nan))
            continue
        features = Features.of(synthetic, columns)
        fitted = clone(model)
        if "random_state" in fitted.get_params():
            fitted.set_params(random_state=int(rng.integers(2**31)))
        fitted.fit(features.transform(synthetic.values[rows]), target)
        guesses.append(np.asarray(fitted.predict(features.transform(queries.values)), dtype=np.float64))
    return guesses


def _right(metric: Metric, j: int, guess: FloatArray, truth: FloatArray, tolerance: float) -> BoolArray:
    """Return whether each guess (n,) is right; missing guesses and truths never are."""
    if metric.nominal[j]:
        return np.asarray(guess == truth)
    return np.asarray(np.abs(guess - truth) <= tolerance * metric.width[j])


def _naive(metric: Metric, j: int, synthetic: Table) -> float:
    known = synthetic.values[~np.isnan(synthetic.values[:, j]), j]
    if not len(known):
        return float("nan")
    if metric.nominal[j]:
        return float(np.bincount(known.astype(np.int64)).argmax())
    return float(np.median(known))

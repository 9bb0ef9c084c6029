"""How much one training record moves a trainer, measured by replacing records one at a time and training again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, IndexArray
from miaudit.collect.runs import row_indices
from miaudit.errors import InputError
from miaudit.io.numeric import LARGEST

Model = TypeVar("Model")


@dataclass(frozen=True)
class Stability:
    """The largest changes seen when one training record was replaced: a lower estimate, never a guarantee.

    Attributes
    ----------
    alpha : largest change of the average test score (error stability, causal-mia, Definition 5.2)
    beta : largest change of the score of any other training record (uniform training stability, Definition 5.3)
    pairs : number of replacements
    alphas, betas : tuples (pairs,), the same for each replacement; alpha and beta are their largest
    score : name of the score whose changes these are, for evidence that has several; optional
    """

    alpha: float
    beta: float
    pairs: int
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    score: str = ""

    @property
    def sentence(self) -> str:
        """The two numbers in words, with what they are not."""
        what = self.score or "score"
        times = "1 replacement" if self.pairs == 1 else f"{self.pairs} replacements"
        return (
            f"Over {times} of one training record by a fresh one, the average test {what} changed by up to "
            f"{self.alpha:.3g} (alpha) and the {what} of another training record by up to {self.beta:.3g} (beta). "
            "This is a LOWER estimate of the stabilities, never a guarantee: they are the largest changes over all "
            "data sets and all replacements, of which a few were tried."
        )


@dataclass(frozen=True, eq=False)
class Replacements:
    """Which training records give way to which fresh ones, one at a time: drawn before anything is trained.

    Attributes
    ----------
    train, test : arrays of row indices (n,) and (k,), the training set and what is scored beside it
    places : array (pairs,) of positions in ``train``
    by : array (pairs,) of row indices, what stands there instead
    """

    train: IndexArray
    test: IndexArray
    places: IndexArray
    by: IndexArray

    @classmethod
    def draw(
        cls, train: IndexArray, fresh: IndexArray, test: IndexArray, *, pairs: int, rng: np.random.Generator
    ) -> Replacements:
        """Draw; the first of more pairs are those of fewer. The arguments are those of :func:`estimate`."""
        _check_apart("replacements", fresh, records=train)
        _check_apart("test", test, records=train, replacements=fresh)
        _check_pairs(pairs, train, fresh)
        places = rng.permutation(len(train))  # both in full, so that the draw is the same for any number of pairs
        by = rng.permutation(fresh)
        return cls(train, test, places[:pairs], by[:pairs])

    def sets(self) -> Iterator[IndexArray]:
        """Yield the training set (n,), then the same with each of the replacements."""
        yield self.train.copy()
        for i, row in zip(self.places, self.by, strict=True):
            swapped = self.train.copy()
            swapped[i] = row
            yield swapped

    def measured(
        self, models: Iterable[Model], score: Callable[[Model, IndexArray], ArrayLike], name: str = ""
    ) -> Stability:
        """Compare the scores of models that were trained on :meth:`sets`, in this order."""
        several = iter(models)
        model = next(several)
        at_train, at_test = _scores(score, model, self.train), _scores(score, model, self.test)
        alphas, betas = [], []
        for i, model in zip(self.places, several, strict=True):
            change = np.abs(_scores(score, model, self.train) - at_train)
            betas.append(float(np.delete(change, i).max()))
            alphas.append(float(abs(np.mean(_scores(score, model, self.test) - at_test))))
        return Stability(max(alphas), max(betas), len(self.places), tuple(alphas), tuple(betas), name)


def estimate(
    fit: Callable[[IndexArray], Model],
    score: Callable[[Model, IndexArray], ArrayLike],
    *,
    records: int | ArrayLike,
    replacements: ArrayLike,
    test: ArrayLike,
    pairs: int = 20,
    rng: np.random.Generator,
) -> Stability:
    """Replace one training record at a time by a fresh one, train again, and see how far the scores move.

    One model is trained on the records and one more for each pair. Which records and which replacements are drawn does
    not depend on ``pairs``: with an equal generator, fewer pairs are the first of more, so alpha and beta only grow.

    The numbers include whatever else differs between two trainings. Fix the seed inside ``fit``: otherwise the noise of
    training adds to them, and they may exceed the stabilities, whose Definition 5.2 averages over it. The average over
    few test rows is noisy in the same way.

    Parameters
    ----------
    fit : function of rows (n,), indices of the records to train on, that returns a model
        The replacement stands where the replaced record stood.
    score : function of the model and of rows (k,), that returns a loss or a score (k,)
        The stability is that of what it returns: of the loss for Theorem 5.4, of the score of another attack for
        Remark 5.5.
    records : int n (the rows 0 to n - 1) or array (n,) of distinct row indices, at least two
        The training set.
    replacements : array (m,) of distinct row indices, none of them a record
        Fresh records of the same population; each is used once at most.
    test : array of distinct row indices, neither records nor replacements
    pairs : number of replacements, at most n and at most m
    rng : generator that chooses what replaces what

    Raises
    ------
    InputError
        For rows in two roles, too few rows for the pairs, or scores that are not one finite number for each row.

    Examples
    --------
    >>> data = np.random.default_rng(1).normal(size=200)
    >>> stability = estimate(
    ...     lambda rows: data[rows].mean(),
    ...     lambda mean, rows: (data[rows] - mean) ** 2,
    ...     records=100, replacements=np.arange(100, 120), test=np.arange(120, 200), rng=np.random.default_rng(0))
    >>> stability.pairs, stability.alpha < stability.beta < 0.3
    (20, True)
    """
    train = row_indices(records, "records")
    fresh = row_indices(replacements, "replacements")
    held_out = row_indices(test, "test")
    swaps = Replacements.draw(train, fresh, held_out, pairs=pairs, rng=rng)
    return swaps.measured(map(fit, swaps.sets()), score)


def _scores(score: Callable[[Model, IndexArray], ArrayLike], model: Model, rows: IndexArray) -> FloatArray:
    """Scores of the rows under a model (k,), one finite number for each."""
    returned = score(model, rows.copy())
    expected = f"one finite number for each of the {len(rows)} rows"
    if isinstance(returned, Mapping):
        raise InputError("score", expected, "several scores by name", "estimate the stability of one at a time")
    try:
        values = np.array(returned, dtype=np.float64)  # a copy: the function may use its array again
    except (TypeError, ValueError) as error:
        raise InputError("score", expected, type(returned).__name__, "return an array of numbers") from error
    if values.shape != rows.shape:
        raise InputError("score", expected, f"shape {values.shape}", "check the score function")
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InputError("score", expected, f"{values[first]} at row {rows[first]}", "check the score function")
    return values


def _check_apart(name: str, rows: IndexArray, **others: IndexArray) -> None:
    for other, taken in others.items():
        shared = np.intersect1d(rows, taken)
        if len(shared):
            received = f"{len(shared)} in both, the first {int(shared[0])}"
            raise InputError(name, f"rows that are not among the {other}", received, "give each row one role")


def _check_pairs(pairs: int, train: IndexArray, fresh: IndexArray) -> None:
    if len(train) < 2:
        raise InputError("records", "at least two training records", "1", "beta is about the others")
    if isinstance(pairs, bool) or not isinstance(pairs, int | np.integer) or pairs < 1:
        raise InputError("pairs", "a whole number, at least 1", repr(pairs), "20 is a start; more only finds more")
    most = min(len(train), len(fresh))
    if pairs > most:
        allowed = f"at most {most}, for {len(train)} records and {len(fresh)} replacements"
        raise InputError("pairs", allowed, str(pairs), "each is used once: give more rows, or ask for fewer pairs")

"""Numbers against the kind that they are declared to be: logits, probabilities, losses or log-probabilities of tokens.

Log-probabilities are logits. A contradiction that logits cannot show by chance is refused. Where the numbers only
suggest another kind, there is a note. Nothing is concluded from a few rows, nor from numbers in a narrow range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError

__all__ = [
    "Contradiction",
    "check_logits",
    "check_losses",
    "check_probabilities",
    "check_scores",
    "check_tokens",
    "class_scores",
    "in_log_odds",
    "in_logits",
    "in_tokens",
    "pairs_of",
    "refuse_turned_losses",
    "step_for",
]

FloatArray = NDArray[np.float64]
AS_PROBABILITIES = (
    "declare probabilities (--signal probabilities, given: or outputs: probabilities in a file), or return logits"
)
_LEAST = 10  # rows, below which nothing is certain
_MOST = 4_000_000  # numbers that are looked at; of more, every so many rows
_ROUNDED = 1e-3  # what rounding, or half precision, leaves of a sum of 1
_EXACT = 1e-5  # what single precision leaves of it
_TURNED, _NONE_ABOVE = "log-probabilities, or losses with their sign turned", "none is above 0"
_CLEAR, _LIKELY = 6.0, 4.0  # standard errors by which votes are right more often than the largest column


class Contradiction(NamedTuple):
    """What numbers look like instead, why, what to do about it, and whether that is certain."""

    looks: str
    why: str
    step: str
    certain: bool = True

    def refused(self, argument: str, allowed: str) -> InputError:
        """Return the error that says so."""
        return InputError(argument, allowed, f"what looks like {self.looks}: {self.why}", self.step)

    def note(self, what: str) -> str:
        """Return the sentence that warns of it."""
        return f"The {what} may be {self.looks}: {self.why}. If they are, {self.step}."


def check_logits(
    values: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    member: ArrayLike | None = None,
    argument: str = "logits",
    several: bool = False,
) -> tuple[str, ...]:
    """Refuse numbers (n, C) that are certainly not logits, and return notes on what else they may be.

    Parameters
    ----------
    labels : array (n,) of classes 0, 1, ..., by which votes between pairs of classes are recognised
    member : array (n,) of bool; members and non-members, which may come from two files, are then looked at apart, too
    argument : what a refusal calls them
    several : whether the columns are log-odds of labels, each by itself

    Raises
    ------
    InputError
        For probabilities, votes, percentages, losses of classes, log-odds of classes and one-hot labels.

    Examples
    --------
    >>> chances = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 20)
    >>> check_logits(np.log(chances)), check_logits(chances - 0.5), check_logits(chances[:1])
    ((), (), ())
    >>> check_logits(chances)
    Traceback (most recent call last):
    miaudit.errors.InputError: logits: expected logits, received what looks like probabilities: every row lies in
    [0, 1] and adds up to 1; declare probabilities (--signal probabilities, given: or outputs: probabilities in a
    file), or return logits
    """
    array, y = np.asarray(values), None if labels is None else np.asarray(labels)
    for rows, whose in _parts(array, member):
        own = None if y is None or y.shape[:1] != array.shape[:1] else y[rows]
        contradiction = in_log_odds(array[rows]) if several else in_logits(array[rows], own)
        if contradiction is None:
            continue
        if contradiction.certain:
            raise contradiction.refused(f"{argument}{whose}", "log-odds of each label" if several else "logits")
        return (contradiction.note(f"logits{whose}"),)
    return ()


def _parts(values: NDArray[Any], member: ArrayLike | None) -> list[tuple[Any, str]]:
    """All rows, and those of members and of non-members where it is known which they are, with words for each."""
    whole: list[tuple[Any, str]] = [(slice(None), "")]
    if member is None or np.shape(member) != values.shape[:1]:
        return whole
    inside = np.asarray(member).astype(np.bool_)
    return [*whole, (inside, " of members"), (~inside, " of non-members")]


def in_logits(values: ArrayLike, labels: ArrayLike | None = None) -> Contradiction | None:
    """Return what numbers (n, C) look like that are declared to be logits of classes, if it is something else."""
    array = _looked_at(values)
    if array is None or array.shape[1] < 2:
        return None
    if array.shape[1] == 2 and (array[:, 0] == -array[:, 1]).all() and array.any():
        return in_log_odds(2 * array[:, 1:])  # one column, the log-odds of the second of two classes
    return next(_as_sums(array), None) or (
        None if labels is None else _as_votes(np.asarray(values), np.asarray(labels))
    )


def in_log_odds(values: ArrayLike) -> Contradiction | None:
    """Return what numbers (n, L) look like that are declared to be log-odds of labels; never certain."""
    array = _looked_at(values)
    if array is None or len(array) < _LEAST or array.min() < 0 or array.max() > 1:
        return None
    return Contradiction("probabilities of each label", "every number lies in [0, 1]", AS_PROBABILITIES, certain=False)


def check_losses(values: ArrayLike, *, member: ArrayLike | None = None) -> tuple[str, ...]:
    """Return a note on numbers (n,) that are declared to be losses and may be something else.

    Losses below 1, and losses of 0 and 1, are losses like others.

    Parameters
    ----------
    member : as of :func:`check_logits`

    Examples
    --------
    >>> check_losses(np.linspace(0, 0.9, 20))
    ()
    >>> check_losses(-np.linspace(0, 0.9, 20))
    ('The losses may be log-probabilities, or losses with their sign turned: none is above 0. If they are, pass them
    as scores (--signal score).',)
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return ()
    for rows, whose in _parts(array, member):
        contradiction = _in_losses(array[rows])
        if contradiction is not None:
            return (contradiction.note(f"losses{whose}"),)
    return ()


def refuse_turned_losses(values: NDArray[Any], argument: str, allowed: str) -> None:
    """Refuse losses (n,) of one fit of many if none is above 0: that fit would count against the others.

    Raises
    ------
    InputError
        For ten numbers or more from 0 down, unless all are 0.

    Examples
    --------
    >>> refuse_turned_losses(np.linspace(0, 9, 20), "losses", "losses")
    >>> refuse_turned_losses(-np.linspace(0, 9, 20), "losses", "losses")
    Traceback (most recent call last):
    miaudit.errors.InputError: losses: expected losses, received what looks like log-probabilities, or losses with
    their sign turned: none is above 0; write the losses themselves (of log-densities below 0, add one number to all)
    """
    if values.dtype.kind in "iuf" and np.isfinite(values).all() and _is_turned(values):
        step = "write the losses themselves (of log-densities below 0, add one number to all)"
        raise Contradiction(_TURNED, _NONE_ABOVE, step).refused(argument, allowed)


def _is_turned(array: NDArray[Any]) -> bool:
    return bool(len(array) >= _LEAST and array.max() <= 0 and array.min() < 0)


def _in_losses(array: NDArray[Any]) -> Contradiction | None:
    if len(array) < _LEAST:
        return None
    if _is_turned(array):
        return Contradiction(_TURNED, _NONE_ABOVE, "pass them as scores (--signal score)")
    levels = len(np.unique(array)) if array.min() >= 0 and (array == np.floor(array)).all() else 0
    if not 2 < levels <= min(len(array) // 3, 1000):
        return None
    why = f"they are whole numbers, {levels:,} different ones"
    return Contradiction("labels or counts", why, "pass losses, or scores that are higher for members")


def check_probabilities(values: ArrayLike) -> tuple[str, ...]:
    """Return a note on probabilities (n, C) that may be labels: each row holds one 1 and zeros."""
    array = _looked_at(values)
    if array is None or len(array) < _LEAST or array.shape[1] < 2:
        return ()
    if not (np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()):
        return ()
    return (
        "Every row of the probabilities is one 1 and zeros, as labels are: the scores show only whether a label is "
        "right.",
    )


def check_scores(scores: Mapping[str, ArrayLike]) -> tuple[str, ...]:
    """Return a note on several scores (n,) of each record that add up to 1, as probabilities of classes do."""
    array = _looked_at(np.column_stack(list(scores.values())))
    if array is None or len(array) < _LEAST or array.shape[1] < 2 or not _adding_up(array).all():
        return ()
    step = "declare probabilities, with labels (--signal probabilities --labels NAME)"
    return (Contradiction("probabilities", "every row adds up to 1", step).note("scores"),)


def step_for(values: ArrayLike) -> str:
    """Return what to do with numbers (n, C) that are declared to be probabilities and do not add up to 1.

    Examples
    --------
    >>> step_for([[-0.693, -0.693], [-0.105, -2.303]])
    'these are log-probabilities, which are logits: pass them as logits'
    >>> step_for([[40, 60], [1, 99]])
    'percent? divide by 100'
    """
    array = _looked_at(values)
    usual = "if these are logits, pass them as logits"
    if array is None or len(array) < 2 or array.shape[1] < 2:
        return usual
    for sign, what in (
        (1, "log-probabilities, which are logits: pass them as logits"),
        (-1, "losses of each class: turn their sign, and pass them as logits"),
    ):
        if (sign * array).max() <= 0 and _adding_up(np.exp(sign * array)).all():
            return f"these are {what}"
    if array.min() >= 0 and (total := _common_sum(array)):
        return "percent? divide by 100" if total == 100 else f"every row adds up to {total:g}: divide by that"
    if array.min() >= 0 and array.max() <= 1:
        if _adding_up(array).all():
            return "they were rounded: divide each row by its sum"
        return "of each class by itself (sigmoid) they are logits as numpy.log(p / (1 - p))"
    return usual


def class_scores(votes: NDArray[Any]) -> FloatArray:
    """Return a score of each class (n, K) from decisions between each pair of them (n, K (K - 1) / 2).

    Pairs are (0, 1), (0, 2), ..., (K - 2, K - 1), and a decision above 0 is for the first. A class has as many points
    as decisions that it wins, and less than half a point for how clear they are: the one-against-rest scores of
    scikit-learn's ``SVC``.

    Examples
    --------
    >>> class_scores(np.array([[1.0, 2.0, -0.5]])).round(2).tolist()
    [[2.25, -0.2, 0.8]]
    """
    values = np.asarray(votes, dtype=np.float64)
    classes = pairs_of(values.shape[1])
    won, clear = np.zeros((2, len(values), classes))
    for column, (first, second) in zip(values.T, zip(*np.triu_indices(classes, 1), strict=True), strict=True):
        clear[:, first] += column
        clear[:, second] -= column
        won[:, first] += column >= 0
        won[:, second] += column < 0
    return np.asarray(won + clear / (3 * (np.abs(clear) + 1)))


def pairs_of(columns: int) -> int:
    """Return of how many classes, three or more, a number of columns is that of all pairs; 0 for none.

    Examples
    --------
    >>> pairs_of(3), pairs_of(6), pairs_of(5)
    (3, 4, 0)
    """
    classes = round((1 + (1 + 8 * columns) ** 0.5) / 2)
    return classes if classes >= 3 and classes * (classes - 1) // 2 == columns else 0


def _looked_at(values: ArrayLike) -> FloatArray | None:
    """The numbers (n, C), or every so many rows of very many; None for what others refuse."""
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "iuf" or not array.size:
        return None
    array = array[:: max(1, array.size // _MOST)].astype(np.float64)
    return array if np.isfinite(array).all() else None


def _adding_up(p: FloatArray) -> NDArray[np.bool_]:
    """Which rows (n,) lie in [0, 1] and add up to 1, within the rounding of their numbers."""
    digits = next((d for d in (2, 3) if (np.abs(p * 10**d - np.round(p * 10**d)) < 1e-4).all()), 4)
    rounding = max(_ROUNDED, 1.2 * p.shape[1] ** 0.5 / 10**digits)  # four standard errors of a sum
    inside = ((p >= -_ROUNDED) & (p <= 1 + _ROUNDED)).all(axis=1)
    off = np.abs(p.sum(axis=1) - 1)
    # Logits that are all about 1 / C add up to about 1, too: their rows have no wider range than the sums.
    clear = off <= np.maximum(_EXACT, 0.1 * np.median(np.ptp(p, axis=1)))
    return np.asarray(inside & clear & (off <= rounding))


def _common_sum(values: FloatArray) -> float:
    """The sum of every row of numbers from 0, other than 1, if all are equal; else 0.

    Rows have to differ otherwise, and to have several numbers that are not 0, which a table of labels has not.
    """
    if ((values != 0).sum(axis=1) < 2).all():
        return 0.0
    totals = values.sum(axis=1)
    total = float(np.median(totals))
    off = float(np.abs(totals - total).max())
    narrower = min(float(np.median(np.ptp(values, axis=1))), float(np.ptp(values, axis=0).max()))
    alike = total > 0 and narrower > 0 and off <= min(_ROUNDED * total, 0.1 * narrower)
    return total if alike and abs(total - 1) > _ROUNDED else 0.0


def _as_sums(values: FloatArray) -> Iterator[Contradiction]:
    """Logits that are probabilities, or become them by a function that softmax is not."""
    least, most, n = values.min(), values.max(), len(values)
    if n < 3 or (most <= _ROUNDED and _adding_up(np.exp(values)).all()):  # log-probabilities are logits
        return
    yield from _as_probabilities(values)
    if n < _LEAST:
        return
    if least >= 0 and (total := _common_sum(values)):
        looks, step = "votes or percentages", f"divide by {total:g}, and declare probabilities"
        yield Contradiction(looks, f"no number is below 0, and every row adds up to {total:g}", step)
    if least >= 0 and _adding_up(np.exp(-values)).all():
        why = "exp of minus every row adds up to 1"
        yield Contradiction("losses of each class", why, "turn their sign: log-probabilities are logits")
    if values.shape[1] > 2 and _adding_up(1 / (1 + np.exp(-np.clip(values, -700, 700)))).all():
        why = "each is log(p / (1 - p)) of probabilities that add up to 1"
        yield Contradiction("log-odds of each class", why, "pass log(p), or the probabilities p")


def _as_probabilities(values: FloatArray) -> Iterator[Contradiction]:
    """Logits from 0 to 1, in all rows or in most. Rows that are all equal show nothing, and nothing is lost by them."""
    if not np.ptp(values, axis=0).any():
        return
    n, share = len(values), float(_adding_up(values).mean())
    if share == 1 or (share >= 0.9 and n >= 2 * _LEAST):
        hot = bool(np.isin(values, (0, 1)).all())
        looks = "one-hot labels, or probabilities of a model that is always sure" if hot else "probabilities"
        which = "every row lies" if share == 1 else f"{share:.1%} of the rows lie"
        why = f"{which} in [0, 1] and add{'s' * (share == 1)} up to 1"
        yield Contradiction(looks, why, AS_PROBABILITIES, certain=share == 1 and n >= _LEAST)
    elif n >= 3 * _LEAST and values.min() < 0.01 and values.max() > 0.99 and ((values >= 0) & (values <= 1)).all():
        why, step = "every number lies in [0, 1]", "pass numpy.log(p / (1 - p)) as logits"
        yield Contradiction("probabilities of each class by itself (sigmoid)", why, step, certain=False)


def _as_votes(values: NDArray[Any], labels: NDArray[Any]) -> Contradiction | None:
    """Logits that are decisions between pairs of classes: these find the labels, and the largest column does not."""
    classes = pairs_of(values.shape[1])
    if not classes or labels.shape != (len(values),) or labels.dtype.kind not in "iuf" or len(labels) < 3 * _LEAST:
        return None
    if labels.min() < 0 or labels.max() >= classes:
        return None
    by_column = values.argmax(axis=1) == labels
    usual = float(np.bincount(labels.astype(np.intp)).max()) / len(labels)
    errors: list[float] = []
    for sign in (1, -1):
        by_votes = class_scores(sign * values).argmax(axis=1) == labels
        more, fewer = int((by_votes & ~by_column).sum()), int((by_column & ~by_votes).sum())
        beyond = (float(by_votes.mean()) - usual) / (usual * (1 - usual) / len(labels)) ** 0.5 if usual < 1 else 0.0
        errors.append(min(beyond, (more - fewer) / max(1, more + fewer) ** 0.5))
    if max(errors) < _LIKELY:
        return None
    why = f"taken as decisions between the pairs of {classes} classes, they find the labels, and the columns do not"
    step = "return a score of each class (decision_function_shape='ovr' of SVC)"
    return Contradiction("one-against-one votes", why, step, certain=max(errors) >= _CLEAR)


TOKENS_ALLOWED = "logarithms of probabilities, at most 0"


def in_tokens(values: FloatArray) -> tuple[str, str]:
    """Return what numbers of tokens (k,), of which one is above 0, look like in place of log-probabilities, and a step.

    Examples
    --------
    >>> in_tokens(np.array([0.2, 0.9, 1.0]))[1], in_tokens(np.array([0.2, 3.5]))[1], in_tokens(np.array([-3.0, 4.0]))[1]
    ('take their logarithm, or of losses that are all below 1 the negative', 'negate losses', 'negate losses, take
    log_softmax of logits')
    """
    least, most = float(values.min()), float(values.max())
    if least < -_ROUNDED:
        return (
            "in this file some are below 0 and some above, as logits are",
            "negate losses, take log_softmax of logits",
        )
    if most <= 1 + _ROUNDED:
        why = f"all {len(values):,} of this file lie in [0, 1], as probabilities do"
        if len(values) >= 100 * _LEAST and most > 0.98:
            return why, "take their logarithm"
        return why, "take their logarithm, or of losses that are all below 1 the negative"
    return "in this file none is below 0, as of losses", "negate losses"


def check_tokens(values: FloatArray, texts: int) -> tuple[str, ...]:
    """Return a note on log-probabilities of tokens (k,), of so many texts, if none is as low as any text has."""
    if texts < 2 * _LEAST or len(values) < 100 * _LEAST or values.min() < -1:
        return ()
    why = f"none of {len(values):,} is below -1, so every token would have a probability above 0.36"
    looks = "probabilities, or small losses, with their sign turned"
    return (Contradiction(looks, why, "write the logarithm of the probabilities").note("log-probabilities"),)

"""What an attack adds to the loss: the mean paired difference over trainings, with an honest interval.

Documents and trainings are both drawn, and each training sees the same documents. The squared standard error is the sum
of what trainings vary by (coins, weights; documents fixed) and what documents vary by (drawn again for all trainings
together). What varies with both is counted twice, so intervals are on the wide side (Owen, "The pigeonhole bootstrap", 2007).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from miaudit.metrics.roc import Roc

METRICS = ("auc", "tpr@0.01", "tpr@0.1")
DRAWS = 200


@dataclass(frozen=True)
class Gain:
    """A mean over trainings with its limits."""

    low: float
    value: float
    high: float


def gain(own: np.ndarray, other: np.ndarray | None, level: float) -> Gain:
    """Mean over trainings of a metric, less that of another score over the same documents and trainings.

    Parameters
    ----------
    own, other : arrays (trainings, 1 + draws): the metric, and the metric of documents drawn again (:func:`metrics`)
    level : of the two-sided interval, of t with a degree of freedom less than trainings
    """
    difference = own if other is None else own - other
    trainings = len(difference)
    by_training = difference[:, 0].std(ddof=1) / trainings**0.5
    by_document = difference[:, 1:].mean(axis=0).std(ddof=1)
    half = stats.t.isf((1 - level) / 2, trainings - 1) * float(np.hypot(by_training, by_document))
    middle = float(difference[:, 0].mean())
    return Gain(middle - half, middle, middle + half)


def metrics(scores: np.ndarray, member: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Each metric (trainings, 1 + draws) of scores (trainings, n), where weights (draws, n) count each document anew."""
    found = {name: np.empty((len(scores), 1 + len(weights))) for name in METRICS}
    for row, (score, inside) in enumerate(zip(scores, member, strict=True)):
        ascending = np.argsort(score, kind="stable")
        for column, weight in enumerate([None, *weights]):
            roc = Roc.of(score, inside, weight, ascending=ascending)
            found["auc"][row, column] = roc.auc
            found["tpr@0.01"][row, column], found["tpr@0.1"][row, column] = roc.tpr_at([0.01, 0.1])
    return found


def compared(
    scores: Mapping[str, np.ndarray], member: np.ndarray, rng: np.random.Generator, *, default: Sequence[str]
) -> dict[str, dict[str, dict[str, Gain]]]:
    """Of every attack and metric: its mean, its gain on the loss, and on the best of the default.

    Intervals of the means are of 95%, those of the gains hold for all attacks at once (Bonferroni).

    Parameters
    ----------
    scores : arrays (trainings, n) by attack, ``loss`` among them; NaN where an attack has none, then both are of the rest
    member : array (trainings, n) of bool
    default : names of the attacks of the default. The best of them, by the mean, is chosen on these records, which
        favours it
    """
    n = member.shape[1]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(float)
    all_of = {name: _where_known(values, scores["loss"], member, weights) for name, values in scores.items()}
    level = 1 - 0.05 / (len(scores) - 1)
    found: dict[str, dict[str, dict[str, Gain]]] = {}
    for name in scores:
        own, loss = all_of[name]
        found[name] = {}
        for metric in METRICS:
            best = max(default, key=lambda one: all_of[one][0][metric][:, 0].mean())
            row = {"mean": gain(own[metric], None, 0.95)}
            if name != "loss":
                row["on loss"] = gain(own[metric], loss[metric], level)
            if name not in default and not np.isnan(scores[name]).any():
                row["on best"] = gain(own[metric], all_of[best][0][metric], level)
            found[name][metric] = row
    return found


def _where_known(
    values: np.ndarray, loss: np.ndarray, member: np.ndarray, weights: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Metrics of an attack, and of the loss on the documents that the attack has a score for."""
    known = ~np.isnan(values)
    if known.all():
        return metrics(values, member, weights), metrics(loss, member, weights)
    parts = [
        [metrics(score[t : t + 1, at], member[t : t + 1, at], weights[:, at]) for t, at in enumerate(known)]
        for score in (values, loss)
    ]
    own, other = ({name: np.concatenate([part[name] for part in side]) for name in METRICS} for side in parts)
    return own, other


def price(auc: float, members: int, nonmembers: int, scores: int) -> float:
    """By how much half an interval of the AUC of one audit widens, where one score more is looked at.

    Hanley and McNeil's standard error; intervals that hold for all scores at once take 1 - 0.05 / scores each.

    Examples
    --------
    >>> round(price(0.7, 200, 200, 5), 4)
    0.0016
    """
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (members - 1) * (q1 - auc**2) + (nonmembers - 1) * (q2 - auc**2)
    factors = stats.norm.isf(0.05 / 2 / np.array([scores, scores + 1]))
    return float((factors[1] - factors[0]) * (variance / (members * nonmembers)) ** 0.5)

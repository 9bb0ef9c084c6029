"""What an attack adds to the loss: the mean paired difference over trainings, with an honest interval.

Documents and trainings are both drawn, and each training sees the same documents. The squared standard error is the sum
of what trainings vary by (coins, weights; documents fixed) and what documents vary by (drawn again for all trainings
together). What varies with both is counted twice, so intervals are on the wide side (Owen, "The pigeonhole bootstrap",
2007).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from miaudit.metrics.roc import Roc

METRICS = ("auc", "tpr@0.01", "tpr@0.1")
DRAWS = 100


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
    middle, least = float(difference[:, 0].mean()), 0.0 if other is None else -1.0
    return Gain(max(middle - half, least), middle, min(middle + half, 1.0))


def metrics(
    scores: np.ndarray, member: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Each metric (trainings, 1 + draws) of scores (trainings, n), where weights (draws, n) count each document anew.

    ``known`` (trainings, n), all by default: which documents count in a training.
    """
    found = {name: np.empty((len(scores), 1 + len(weights))) for name in METRICS}
    for row, (score, inside) in enumerate(zip(scores, member, strict=True)):
        at = np.ones(len(score), dtype=bool) if known is None else known[row]
        ascending = np.argsort(score[at], kind="stable")
        for column, weight in enumerate([None, *weights[:, at]]):
            roc = Roc.of(score[at], inside[at], weight, ascending=ascending)
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
    scores : arrays (trainings, n) by attack, ``loss`` among them; NaN where an attack has none: both are of the rest
    member : array (trainings, n) of bool
    default : names of the attacks of the default. The best of them, by the mean, is chosen on these records, which
        favours it
    """
    n = member.shape[1]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(float)
    done: dict[tuple[str, bytes], dict[str, np.ndarray]] = {}

    def of(name: str, known: np.ndarray) -> dict[str, np.ndarray]:
        key = name, known.tobytes()
        if key not in done:
            done[key] = metrics(scores[name], member, weights, known)
        return done[key]

    everyone = np.ones(member.shape, dtype=bool)
    best = {m: max(default, key=lambda one: of(one, everyone)[m][:, 0].mean()) for m in METRICS}
    level = 1 - 0.05 / (len(scores) - 1)
    found: dict[str, dict[str, dict[str, Gain]]] = {}
    for name, values in scores.items():
        known, row = ~np.isnan(values), {}
        for metric in METRICS:
            own = of(name, known)[metric]
            row[metric] = {"mean": gain(own, None, 0.95)}
            if name != "loss":
                row[metric]["on loss"] = gain(own, of("loss", known)[metric], level)
            if name not in default:
                row[metric]["on best"] = gain(own, of(best[metric], known)[metric], level)
        found[name] = row
    return found


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

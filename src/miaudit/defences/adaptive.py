"""The attack on a defence: it sees only what is disclosed, and its shadow models pass through the same defence.

Several attacks can read one disclosure. Which of them is carried out is chosen on shadow models, whose membership an
attacker knows, and never on the audited one; so nothing has to be paid for the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.attacks import disclosed, lira
from miaudit.defences.outputs import Kind
from miaudit.errors import InputError

Values = NDArray[np.generic]
# From values of T models (n, T, K), those of M shadow models (n, M, K), included (n, M) and labels (n,) to (n, T).
Score = Callable[[Values, Values, BoolArray, IndexArray], FloatArray]
LEAST_MODELS = 4
_LEAST_TO_CHOOSE = 8
_MOST_PAIRS = 4
_MOST_RECORDS = 2000  # for the choice of the attack


@dataclass(frozen=True)
class Reading:
    """How a disclosure is read.

    Attributes
    ----------
    score : from values to scores
    prepare : what is first done to all values (n, M, K), model by model, or nothing
    """

    score: Score
    prepare: Callable[[Values], Values] | None = None

    def on(self, values: Values) -> Values:
        """Return values (n, M, K) as the score takes them."""
        return values if self.prepare is None else self.prepare(values)


@dataclass(frozen=True, eq=False)
class Observed:
    """What an attacker sees of some records.

    Attributes
    ----------
    kind : of the disclosure
    target : array (n, K), by the audited model
    shadow : array (n, M, K), by the shadow models through the same defence
    included : array (n, M) of bool
    labels : array (n,)
    queries : how many answers to one query are averaged; above 1 only where each answer is drawn anew
    """

    kind: Kind
    target: Values
    shadow: Values
    included: BoolArray
    labels: IndexArray
    queries: int = 1


@dataclass(frozen=True, eq=False)
class Attacked:
    """Scores of the attack that was chosen.

    Attributes
    ----------
    name : of the attack
    scores : array (n,), higher is more member-like
    tried : AUC of each attack on shadow models that were left out for it; empty where there were too few to choose
    """

    name: str
    scores: FloatArray
    tried: Mapping[str, float]

    @property
    def chosen_by(self) -> float:
        """AUC of the chosen attack on shadow models; minus infinity where none was chosen."""
        return max(self.tried.values(), default=float("-inf"))


def attack(seen: Observed, *, rng: np.random.Generator) -> Attacked:
    """Choose the attack on shadow models, then carry it out on the audited one.

    Parameters
    ----------
    seen : Observed
    rng : generator of the models that stand in for the audited one while the attack is chosen

    Raises
    ------
    InputError
        With fewer than four shadow models, or fewer than two on a side of a record.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(16) % 2 == 0, (200, 1))
    >>> member = rng.random(200) < 0.5
    >>> def answers(inside):
    ...     raised = 2.0 * inside + rng.normal(size=inside.shape)
    ...     return np.stack([special.expit(raised), special.expit(-raised)], axis=-1)
    >>> seen = Observed("confidence-vector", answers(member), answers(included), included, np.zeros(200, dtype=np.intp))
    >>> found = attack(seen, rng=rng)
    >>> found.scores.shape, len(found.tried) == len(attacks_on("confidence-vector"))
    ((200,), True)
    """
    models = seen.shadow.shape[1]
    fewest = int(min(seen.included.sum(axis=1).min(), (~seen.included).sum(axis=1).min()))
    if models < LEAST_MODELS or fewest < 2:
        received = f"{models}, with {fewest} on one side of a record"
        allowed = f"{LEAST_MODELS} shadow models or more, two on each side of a record"
        raise InputError("shadow.models", allowed, received, "16 and more are better")
    known = attacks_on(seen.kind, seen.queries)
    tried = _tried(seen, known, rng) if len(known) > 1 and fewest >= _LEAST_TO_CHOOSE // 2 else {}
    # Too few models to choose by: the first, which needs the fewest.
    name = max(tried, key=lambda one: tried[one]) if tried else next(iter(known))
    chosen = known[name]
    target, shadow = (chosen.on(values) for values in (seen.target[:, None], seen.shadow))
    return Attacked(name, chosen.score(target, shadow, seen.included, seen.labels)[:, 0], tried)


def attacks_on(kind: Kind, queries: int = 1) -> dict[str, Reading]:
    """Return the attacks that a disclosure allows, by name; the first needs the fewest shadow models.

    Examples
    --------
    >>> list(attacks_on("decision-set"))
    ['Bernoulli ratio of all labels', 'Bernoulli ratio of the true label']
    """
    alone = kind in {"decision-set", "label"}  # shares of labels do not add up to 1
    gaussian = {
        "LiRA, global variance": Reading(_lira("global", alone=alone)),
        "LiRA, variance of the record": Reading(_lira("record", alone=alone)),
    }
    if kind == "confidence-vector":
        undone = {
            "LiRA, temperature undone": Reading(_lira("global", alone=False), one_temperature),
            "LiRA, calibration undone": Reading(_lira_as_they_are, ranks),
        }
        return {**gaussian, **undone, "Dirichlet ratio": Reading(_dirichlet)}
    if kind == "true-label":
        return {**gaussian, "Beta ratio": Reading(_beta)}
    bernoulli = {
        "Bernoulli ratio of all labels": Reading(_bernoulli),
        "Bernoulli ratio of the true label": Reading(_bernoulli_own),
    }
    return {**gaussian, **bernoulli} if queries > 1 else bernoulli


def _tried(seen: Observed, known: Mapping[str, Reading], rng: np.random.Generator) -> dict[str, float]:
    """AUC of each attack where shadow models stand in for the audited one.

    For each record, equally many models that learnt it and that did not are left out at random. The number of the
    other models on each side is then the same for every stand-in, and reveals nothing.
    """
    rows = np.sort(rng.permutation(len(seen.target))[:_MOST_RECORDS])
    included, labels = seen.included[rows], seen.labels[rows]
    fewest = int(min(included.sum(axis=1).min(), (~included).sum(axis=1).min()))
    pairs = min(_MOST_PAIRS, fewest // 4) or 1
    order = np.argsort(rng.random(included.shape) - 2.0 * included, axis=1)  # those that learnt it first
    standing = np.concatenate([order[:, :pairs], order[:, -pairs:]], axis=1)
    others = order[:, pairs:-pairs]
    inside = np.take_along_axis(included, others, axis=1)
    aucs = {}
    for name, one in known.items():
        shadow = one.on(seen.shadow)[rows]
        own, rest = (np.take_along_axis(shadow, places[..., None], axis=1) for places in (standing, others))
        scores = one.score(own, rest, inside, labels)
        aucs[name] = _auc(scores[:, :pairs].ravel(), scores[:, pairs:].ravel())
    return aucs


def _auc(inside: FloatArray, outside: FloatArray) -> float:
    return float(stats.mannwhitneyu(inside, outside).statistic / (len(inside) * len(outside)))


def plain(kind: Kind, target: Values, labels: IndexArray) -> Attacked:
    """Score records (n,) without shadow models: by the confidence in the true label, or whether a set holds it.

    Of sets that hold it a smaller one scores higher.

    Examples
    --------
    >>> plain("label", np.array([[True, False], [True, False]]), np.array([0, 1])).scores.tolist()
    [1.0, 0.0]
    """
    own = _of_label(target[:, None], labels)[:, 0]
    if kind in ("decision-set", "label"):
        size = np.maximum(target.astype(np.float64).sum(axis=1), 1.0)
        return Attacked("true label in the set, no shadow models", own / size, {})
    log_odds, _ = _log_odds(target[:, None], target[:, None], labels, alone=False)
    return Attacked("confidence in the true label, no shadow models", log_odds[:, 0], {})


def one_temperature(values: Values) -> Values:
    """Give all models (n, M, K) one spread of their log-probabilities, so that a temperature of their own is undone.

    Examples
    --------
    >>> cool = np.array([[[0.9, 0.1]], [[0.3, 0.7]]])
    >>> warm = special.softmax(np.log(cool) / 7, axis=2)
    >>> bool(np.allclose(one_temperature(cool), one_temperature(warm)))
    True
    """
    p = values.astype(np.float64)
    least = float(p[p > 0].min()) / 2 if (p > 0).any() else 0.5
    z = np.log(np.maximum(p, least))
    z -= z.mean(axis=2, keepdims=True)
    spread = np.median(z.std(axis=2), axis=0)
    return np.asarray(special.softmax(z / np.maximum(spread, 1e-9)[:, None] * 3.0, axis=2))


def ranks(values: Values) -> Values:
    """Normal scores of each class's values (n, M, K) among the records of one model, ties in the middle.

    An increasing map of a class's probabilities, such as a calibration of the model's own, is undone but for the ties
    that it makes and for the division by the sum.

    Examples
    --------
    >>> ranks(np.array([[[0.2]], [[0.9]], [[0.4]]])).ravel().round(2).tolist()
    [-0.97, 0.97, 0.0]
    """
    place = (stats.rankdata(values, axis=0) - 0.5) / len(values)
    return np.asarray(special.ndtri(place))


def _lira_as_they_are(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
    return _online(_of_label(target, labels), _of_label(shadow, labels), included, "global")


def _lira(variance: lira.Variance, *, alone: bool) -> Score:
    def score(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
        return _online(*_log_odds(target, shadow, labels, alone=alone), included, variance)

    return score


def _online(own: FloatArray, others: FloatArray, included: BoolArray, variance: lira.Variance) -> FloatArray:
    """LiRA's scores (n, T) of statistics (n, T), by those of shadow models (n, M)."""
    return np.stack([lira.online(own[:, t], others, included, variance=variance) for t in range(own.shape[1])], axis=1)


def _of_label(values: Values, labels: IndexArray) -> FloatArray:
    """Values (n, M) of the records' labels, from those (n, M, K) of all."""
    return np.take_along_axis(values.astype(np.float64), labels[:, None, None], axis=2)[..., 0]


def _log_odds(target: Values, shadow: Values, labels: IndexArray, *, alone: bool) -> tuple[FloatArray, FloatArray]:
    """Log-odds of the true label (n, T) and (n, M), against the other labels or, ``alone``, against its absence.

    A zero, as of rounding and steps, becomes half of the smallest number that shadow models gave: what a reader would
    put in its place.
    """
    parts = []
    for values in (target, shadow):
        p = values.astype(np.float64)
        own = _of_label(values, labels)
        if alone:
            parts.append((own, 1 - own))
            continue
        others = p.copy()
        np.put_along_axis(others, np.broadcast_to(labels[:, None, None], (*p.shape[:2], 1)), 0.0, axis=2)
        parts.append((own, others.sum(axis=2)))
    (own, rest), (own_shadow, rest_shadow) = parts
    least, least_rest = (
        float(side[side > 0].min()) / 2 if (side > 0).any() else 0.5 for side in (own_shadow, rest_shadow)
    )
    return (
        np.log(np.maximum(own, least)) - np.log(np.maximum(rest, least_rest)),
        np.log(np.maximum(own_shadow, least)) - np.log(np.maximum(rest_shadow, least_rest)),
    )


def _dirichlet(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
    del labels  # the law of the whole vector knows them
    return disclosed.confidence_vector(_summed_to_one(target), _summed_to_one(shadow), included)


def _beta(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
    return disclosed.true_label(_of_label(target, labels), _of_label(shadow, labels), included)


def _bernoulli(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
    del labels
    return disclosed.decision_set(_as_sets(target), _as_sets(shadow), included)


def _bernoulli_own(target: Values, shadow: Values, included: BoolArray, labels: IndexArray) -> FloatArray:
    """Whether the set holds the true label, and nothing else; its complement fills the second column."""
    held = [np.take_along_axis(_as_sets(values), labels[:, None, None], axis=2) for values in (target, shadow)]
    own, others = (np.concatenate([one, ~one], axis=2) for one in held)
    return disclosed.decision_set(own, others, included) / 2


def _as_sets(values: Values) -> BoolArray:
    """Sets as they are; shares of several answers as what most of them held."""
    return values.astype(np.bool_) if values.dtype.kind == "b" else np.asarray(values.astype(np.float64) >= 0.5)


def _summed_to_one(values: Values) -> FloatArray:
    """Probabilities whose rounding took them off 1; a row of zeros is equal shares."""
    p = values.astype(np.float64)
    total = p.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, p / np.where(total > 0, total, 1.0), 1 / p.shape[-1]))


def averaged(answers: list[Values]) -> Values:
    """What an attacker makes of several answers (..., K) to one query: mean log-probabilities, or shares of labels.

    Shares are moved off 0 and 1 by half an answer.

    Examples
    --------
    >>> averaged([np.array([True, False]), np.array([True, True])]).round(3).tolist()
    [0.833, 0.5]
    """
    if len(answers) == 1:
        return answers[0]
    if answers[0].dtype.kind == "b":
        held = np.sum([one.astype(np.float64) for one in answers], axis=0)
        return np.asarray((held + 0.5) / (len(answers) + 1))
    logs = np.mean([np.log(np.maximum(one.astype(np.float64), 1e-30)) for one in answers], axis=0)
    return np.asarray(special.softmax(logs, axis=-1))

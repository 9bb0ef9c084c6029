"""A lower bound on the epsilon of generators, from counts on models that served for no choice and no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.dp.multi_run import epsilon_lower_bound
from miaudit.dp.verdict import LowerBound
from miaudit.synthesis.retraining_attack.attack_metrics import Judged, measure
from miaudit.synthesis.retraining_attack.classifiers import Classifier, Fold, log_odds
from miaudit.synthesis.retraining_attack.features import Extractor
from miaudit.synthesis.retraining_attack.heldout import Described, Trials

_SHARE = 0.5
_Called = tuple[BoolArray, BoolArray]  # of each model (m,): called a member, and is one
_LEAST = 4  # models of a kind and target: two to learn from in turn, two to test on
_POOLED = (
    "models of different targets are counted together: if each target keeps the claim, so do their mean rates, and"
    " a sum of unlike trials has lighter tails than a binomial count (Hoeffding 1956)"
)
_NEIGHBOURS = "models with and without a target differ in this record only, every setting of the training included (D9)"


@dataclass(frozen=True)
class AttackBound:
    """A lower bound on epsilon from held-out models.

    Attributes
    ----------
    bound : with ``reachable``, what an attack without error could have shown with so many models
    extractor, classifier : the attack, the best one on the learning half by its AUC of models
    threshold : of a model's mean log odds, chosen on the learning half too
    learning, testing : models in each half
    """

    bound: LowerBound
    extractor: Extractor
    classifier: Classifier
    threshold: float
    learning: int
    testing: int


def lower_bound(
    described: Described,
    trials: Sequence[Trials],
    extractors: Sequence[Extractor],
    classifiers: Sequence[Classifier],
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> AttackBound | None:
    """Choose and train an attack on a random half of each target's models, and count its errors on the other half.

    A model is one trial, judged by the mean log odds of all its sets: any number of sets may be drawn from a private
    generator. Extractor, classifier, threshold, scale of the features and classifier's weights come from the learning
    half; the test of the claim on the other half is exact (:mod:`miaudit.dp.multi_run`). Where models are about several
    targets at once their trials depend, so each target has a test of its own, at its share of the error.

    Parameters
    ----------
    described : the sets of all models
    trials : the models of each target
    extractors, classifiers : what to choose from
    delta : of the claim, in [0, 1)
    confidence : one-sided, in (0, 1)

    Returns
    -------
    AttackBound, or None if a target has fewer than four models of a kind
    """
    single = [one.at(one.target == target) for one in trials for target in np.unique(one.target)]
    if any(min(np.count_nonzero(part.member), np.count_nonzero(~part.member)) < _LEAST for part in single):
        return None
    halves = [_halves(part, rng) for part in single]
    attack = _chosen(described, halves, extractors, classifiers, rng)
    counts = [_called(described, half, attack, rng) for half in halves]
    groups = [[own] for own in counts] if described.sets.shared else [counts]
    return AttackBound(
        _best_bound(groups, attack, delta, confidence),
        attack.extractor,
        attack.classifier,
        attack.threshold,
        learning=len(np.unique(np.concatenate([half.trials.model[half.learning] for half in halves]))),
        testing=len(np.unique(np.concatenate([half.trials.model[half.testing] for half in halves]))),
    )


@dataclass(frozen=True)
class _Attack:
    """The attack that was chosen on the learning halves, with the threshold of a model's mean log odds."""

    extractor: Extractor
    classifier: Classifier
    threshold: float


def _best_bound(groups: Sequence[Sequence[_Called]], attack: _Attack, delta: float, confidence: float) -> LowerBound:
    """Return the largest bound of the groups of models, each tested at its share of the error."""
    each = 1 - (1 - confidence) / len(groups)
    bounds = [_from_counts(group, delta, each) for group in groups]
    best = max(bounds, key=lambda one: one.value)
    corrections = [
        f"{attack.extractor} features, {attack.classifier} and the threshold were chosen on other models than those "
        "counted"
    ]
    if len(groups) > 1:
        corrections.append(f"the best of {len(groups)} targets, each at an error of {1 - each:.3g} (Bonferroni)")
    return replace(
        best,
        confidence=confidence,
        p_value=None if best.p_value is None else min(1.0, len(groups) * min(one.p_value or 0.0 for one in bounds)),
        reachable=max(one.reachable or 0.0 for one in bounds),
        assumptions=(*best.assumptions, _NEIGHBOURS, *([] if len(groups[0]) == 1 else [_POOLED])),
        corrections=tuple(corrections),
    )


@dataclass(frozen=True, eq=False)
class _Half:
    """The models of one target: positions to learn from, in two folds, and positions to test on."""

    trials: Trials
    learning: IndexArray
    testing: IndexArray


def _halves(trials: Trials, rng: np.random.Generator) -> _Half:
    """Divide both kinds at random; the learning half gets new folds, up to four."""
    learning, testing = [], []
    fold = np.zeros(len(trials.model), dtype=np.intp)
    smallest = min(np.count_nonzero(trials.member == kind) for kind in (True, False))
    folds = min(4, int(smallest * _SHARE))
    for kind in (True, False):
        rows = rng.permutation(np.flatnonzero(trials.member == kind))
        size = int(len(rows) * _SHARE)
        fold[rows[:size]] = np.arange(size) % folds
        learning.append(rows[:size])
        testing.append(rows[size:])
    return _Half(replace(trials, fold=fold), np.sort(np.concatenate(learning)), np.sort(np.concatenate(testing)))


def _chosen(
    described: Described,
    halves: Sequence[_Half],
    extractors: Sequence[Extractor],
    classifiers: Sequence[Classifier],
    rng: np.random.Generator,
) -> _Attack:
    """Return the attack with the largest AUC of models on the learning halves, and its best threshold there."""
    judged: dict[tuple[Extractor, Classifier], list[Judged]] = {}
    for half in halves:
        learning = half.trials.at(half.learning)
        for extractor, products in described.products(extractors, learning):
            cache: dict[int, Fold] = {}
            for classifier in classifiers:
                judged.setdefault((extractor, classifier), []).extend(
                    described.judged(
                        products, classifier, learning, [learning.member], cache=cache, rng=rng, progressive=False
                    )
                )
    best, most, models = None, (-1.0, -1.0), None
    for pair, parts in judged.items():
        joined = Judged.joined(parts)
        measured = measure(joined, 0.95)
        areas = measured["auc_of_models"].value or 0.0, measured["auc"].value or 0.0  # sets decide between equals
        if areas > most:
            best, most, models = pair, areas, joined.of_models()
    assert best is not None and models is not None  # noqa: S101 - there is at least one attack
    return _Attack(*best, _best_threshold(models.score, models.member))


def _best_threshold(score: FloatArray, member: BoolArray) -> float:
    """The threshold with the largest TPR - FPR; the middle one if several are as good."""
    values = np.unique(score)
    if len(values) < 2:
        return 0.0
    middle = (values[1:] + values[:-1]) / 2
    inside, outside = np.sort(score[member]), np.sort(score[~member])
    tpr = 1 - np.searchsorted(inside, middle) / len(inside)
    fpr = 1 - np.searchsorted(outside, middle) / len(outside)
    gain = tpr - fpr
    good = np.flatnonzero(gain >= gain.max() - 1e-12)
    return float(middle[good[len(good) // 2]])


def _called(described: Described, half: _Half, attack: _Attack, rng: np.random.Generator) -> _Called:
    """Train on the learning half; return what the models of the other half were called, and what they are."""
    trials, k = half.trials, described.sets.per_model
    ((_, products),) = described.products([attack.extractor], trials, scaled_by=half.learning)
    fold = Fold.of(products, described.positions(half.learning), described.positions(half.testing))
    odds = log_odds(fold, attack.classifier, np.repeat(trials.member, k), rng=rng)
    return odds.reshape(-1, k).mean(axis=1) >= attack.threshold, trials.member[half.testing]


def _from_counts(results: Sequence[_Called], delta: float, confidence: float) -> LowerBound:
    called, member = (np.concatenate([result[i] for result in results]) for i in (0, 1))
    return epsilon_lower_bound(
        true_positives=int(np.count_nonzero(called & member)),
        members=int(np.count_nonzero(member)),
        false_positives=int(np.count_nonzero(called & ~member)),
        nonmembers=int(np.count_nonzero(~member)),
        delta=delta,
        confidence=confidence,
    )

"""The split of the published attack results: by synthetic set, so that an attack meets its models again.

Such an attack recognises the model instead of the record (errata D2 and D5). It is here for comparison only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.arrays import BoolArray, IndexArray
from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.attack_metrics import Judged
from miaudit.synthesis.retraining_attack.classifiers import Classifier, Fold, InnerProducts, log_odds
from miaudit.synthesis.retraining_attack.heldout import Described, Trials
from miaudit.synthesis.retraining_attack.sets import SyntheticSets

_TEST_SHARE = 0.33
_SPLIT_SEED = 42  # with 5 targets, 5 repeats and 100 sets it gives 781 members of 1,650, the 47.33% of the tables


def all_sets(sets: SyntheticSets) -> Trials:
    """All models of all targets in the order of Algorithm 1, in one fold."""
    if sets.shared:
        received = "models that are about several targets"
        raise InputError("protocol", "models of one target each for 'paper'", received, "train with design='separate'")
    models = np.arange(sets.models)
    target = (sets.membership != -1).argmax(axis=1)
    member = sets.membership[models, target] == 1
    return Trials(models, target, member, np.zeros(len(models), dtype=np.intp))


def split(count: int) -> tuple[IndexArray, IndexArray]:
    """Divide sets at random, two thirds to learn from: positions of both.

    Examples
    --------
    >>> member = np.tile(np.repeat([False, True], 100), 25)  # 5 targets, 5 repeats, out and in, 100 sets each
    >>> int(member[split(5000)[1]].sum()), len(split(5000)[1])
    (781, 1650)
    """
    from sklearn.model_selection import train_test_split  # noqa: PLC0415 - loads when used

    learning, testing = train_test_split(np.arange(count), test_size=_TEST_SHARE, random_state=_SPLIT_SEED)
    return learning, testing


def judged(
    described: Described,
    products: InnerProducts,
    classifier: Classifier,
    trials: Trials,
    labels: Sequence[BoolArray],
    *,
    cache: dict[int, Fold],
    rng: np.random.Generator,
) -> list[Judged]:
    """Judge a third of the sets by a classifier that knows other sets of the same models, under several memberships."""
    k = described.sets.per_model
    if 0 not in cache:
        cache[0] = Fold.of(products, *split(len(trials.model) * k))
    fold, model = cache[0], np.repeat(trials.model, k)
    arms = []
    for member in labels:
        of_set = np.repeat(member, k)
        score = log_odds(fold, classifier, of_set, rng=rng)
        arms.append(Judged(score, of_set[fold.test], model[fold.test], np.zeros(len(fold.test), dtype=np.int64)))
    return arms

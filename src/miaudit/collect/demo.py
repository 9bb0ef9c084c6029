"""A complete audit on data that ships with scikit-learn: a classifier that memorises handwritten digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miaudit.arrays import FloatArray, IndexArray
from miaudit.attacks import signals
from miaudit.auditing.plan import Plan
from miaudit.collect import outputs as from_outputs
from miaudit.evidence import Evidence

TREES = 500
_STEP = 20
PLAN = Plan(fpr_targets=(0.01, 0.1), limits={"tpr_at_fpr_0.1": 0.15, "auc": 0.6})


def evidence(*, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None) -> Evidence:
    """Train a random forest of fully grown trees on a random half of the digits, and score all of them by their loss.

    Parameters
    ----------
    rng : generator of the memberships and of the forest
    progress : called with the trees grown so far and their total

    Returns
    -------
    Evidence of 1,797 records with the design "one-run" and the digit as the group
    """
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    images, digits = load_digits(return_X_y=True)
    inclusion_rng, forest_rng = rng.spawn(2)

    def fit(rows: IndexArray) -> RandomForestClassifier:
        forest = RandomForestClassifier(warm_start=True, random_state=int(forest_rng.integers(2**31)))
        for grown in range(_STEP, TREES + 1, _STEP):
            forest.set_params(n_estimators=grown).fit(images[rows], digits[rows])
            if progress is not None:
                progress(grown, TREES)
        return forest

    def score(forest: RandomForestClassifier, rows: IndexArray) -> dict[str, FloatArray]:
        outputs = forest.predict_proba(images[rows])
        return signals.member_scores(probabilities=outputs, labels=digits[rows], names=["loss"])

    source = f"handwritten digits of scikit-learn, random forest of {TREES} trees, score = -loss"
    scored = from_outputs.one_run(fit, score, records=len(images), rng=inclusion_rng, source=source)
    return scored.replace(group=digits)

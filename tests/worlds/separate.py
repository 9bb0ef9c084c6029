"""Confounded worlds whose propensity is learned on a sample of its own, away from the audited records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.causal import effects, propensity
from miaudit.causal.propensity import Propensity
from miaudit.causal.replicates import bootstrap_limits
from miaudit.metrics.classical import tpr_name
from worlds.confounded import WORLDS

FloatArray = NDArray[np.float64]

FPR = 0.1
QUANTITIES = (
    "hajek auc",
    "hajek tpr 10%",
    "aipw auc",
    "as if known auc",
    "refitted auc",
    "refitted tpr 10%",
    "raw auc",
)
RESAMPLES = 200


def covered(name: str, n: int, trained_on: int, replicates: int, seed: Any) -> FloatArray:
    """Coverage with n members, n non-members and ``trained_on`` others of each class for ``propensity.fit(train=)``.

    "refitted" are the limits of ``replicates.bootstrap_limits``: the audited records and the propensity's training
    sample are both resampled. "as if known" leaves out the error of the propensity.
    Rows: ``QUANTITIES``. Columns: covered, lower limit above the truth, upper limit below it.
    """
    world, rng = WORLDS[name], np.random.default_rng(seed)
    auc, tpr = world.auc, world.tpr(FPR)
    found = np.zeros((len(QUANTITIES), 3))
    for _ in range(replicates):
        evidence, _ = world.draw(n, n, rng)
        train, _ = world.draw(trained_on, trained_on, rng)
        learned = propensity.fit(evidence, train=train, rng=rng)
        refitted = propensity.bootstrap(evidence, train=train, replicates=RESAMPLES, rng=rng)
        counts = np.hstack([rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) for _ in range(2)])
        limits = bootstrap_limits(evidence, refitted / (1 - refitted), counts, fpr_targets=(FPR,))
        estimates = (
            (effects.auc(evidence, learned, rng=rng), auc),
            (effects.tpr_at_fpr(evidence, learned, fpr=FPR, rng=rng), tpr),
            (effects.auc(evidence, learned, method="aipw", rng=rng), auc),
            (effects.auc(evidence, Propensity.given(learned.values), rng=rng), auc),
        )
        rows = [(estimate.low, estimate.high, truth) for estimate, truth in estimates]
        rows += [(*limits["auc"], auc), (*limits[tpr_name(FPR)], tpr)]
        raw = effects.auc(evidence, learned, method="difference", rng=rng)
        low, high, truth = np.array([*rows, (raw.low, raw.high, auc)]).T
        found += np.c_[(low <= truth) & (truth <= high), low > truth, high < truth]
    return found / replicates

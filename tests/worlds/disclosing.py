"""Models whose leakage is known: log-odds of the true label that rise by an effect where the record was learned."""

from __future__ import annotations

import numpy as np
from scipy import special

from miaudit.defences.compare import Models
from miaudit.metrics.roc import Roc
from miaudit.models import shadow


def models(
    *,
    effect: float = 1.5,
    n: int = 600,
    held: int = 200,
    shadows: int = 16,
    classes: int = 4,
    seed: int = 0,
    temperatures: bool = False,
    units: bool = False,
) -> Models:
    """Logits of an audited model and its shadow models; with ``temperatures`` each has a scale of its own."""
    rng = np.random.default_rng(seed)
    total = n + held
    rows = np.arange(n)
    included = np.zeros((1 + shadows, total), dtype=bool)
    included[0, rows] = rng.permutation(n) < n // 2
    included[1:, rows] = shadow.inclusion(n, shadows, rng=rng)
    labels = rng.integers(classes, size=total)
    easy = rng.normal(size=(total, classes))
    logits = []
    for m in range(1 + shadows):
        z = easy + 0.5 * rng.normal(size=(total, classes))
        z[np.arange(total), labels] += 1.0 + effect * included[m]
        logits.append((z * (rng.uniform(0.3, 3.0) if temperatures else 1.0)).astype(np.float32))
    code = np.arange(total) // 2 if units else None
    return Models(logits, included, labels, rows, np.arange(n, total), units=code)


def truth(made: Models, effect: float) -> float:
    """AUC of an attacker who knows every record's law without it: its log-odds less those without noise."""
    rows, labels = made.rows, made.labels
    own = np.arange(len(labels))
    learned = np.zeros((len(made.logits), *made.logits[0].shape))
    learned[:, own, labels] = effect * made.included
    base = np.mean(np.stack(made.logits) - learned, axis=0)

    def odds(z: np.ndarray) -> np.ndarray:
        others = np.where(np.arange(z.shape[1]) == labels[:, None], -np.inf, z)
        return z[own, labels] - special.logsumexp(others, axis=1)

    score = (odds(made.logits[0].astype(float)) - odds(base))[rows]
    return float(Roc.of(score, made.member).auc)

"""A causal metric states the spread of its value over repeated audits, with a propensity that is learned anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import effects, propensity
from miaudit.metrics.classical import Estimate

pytestmark = pytest.mark.thorough
_REPEATS = 250


def _shifted(rng: np.random.Generator) -> Evidence:
    """Two covariates with heavy tails shift members; the score is skewed, and rises with both and with membership."""
    x = np.clip(rng.standard_t(4, size=(900, 2)), -4, 4)
    member = rng.random(900) < 1 / (1 + np.exp(-0.5 * x[:, 0] + 0.3 * x[:, 1]))
    score = x @ [0.5, 0.2] + rng.gumbel(size=900) + 0.6 * member
    return Evidence(score=score, member=member, covariates=x, design="zero-run")


_METRICS: dict[str, Callable[..., Estimate]] = {
    "auc": effects.auc,
    "ate": effects.ate,
    "tpr": lambda *given, **options: effects.tpr_at_fpr(*given, fpr=0.1, **options),
}


@pytest.mark.parametrize("name", _METRICS)
def test_it_is_the_spread_over_repeated_audits(name: str) -> None:
    rng, estimates = np.random.default_rng(11), []
    for _ in range(_REPEATS):
        evidence = _shifted(rng)
        learned = propensity.fit(evidence, rng=rng)
        estimates.append(_METRICS[name](evidence, learned, method="hajek", rng=rng))
    spread = float(np.std([one.value for one in estimates], ddof=1))
    stated = float(np.sqrt(np.mean([(one.standard_error or 0.0) ** 2 for one in estimates])))
    # Known to 5%. The larger of two variances is stated, with and without the learning of the propensity.
    assert 0.88 * spread < stated < 1.3 * spread

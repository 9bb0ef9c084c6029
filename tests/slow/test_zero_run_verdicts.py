"""Zero-run verdicts where the covariates suffice: two guards cost few answers.

The guards are the balance of all pairs of columns, and metrics that are withheld where regressions contradict the
weights. What they are for, worlds whose weights miss a part of the shift, is in ``test_hidden_worlds.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from causal_mia import hidden_worlds
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit import Plan
from miaudit.causal import disagreement, imbalance
from validity.claims import Claims
from validity.sequential import SequentialTest
from worlds import hidden_products

pytestmark = pytest.mark.slow


def no_pairs(scores: np.ndarray, *_: object) -> tuple[np.ndarray, np.ndarray]:
    size = (scores.shape[1],) * 2
    return np.zeros(size), np.zeros(size, dtype=bool)


def said(world: str, seed: int, *, guarded: bool) -> str:
    """The verdict of one audit, or "withheld" where weights are contradicted."""
    evidence = hidden_products.SOUND[world](2000, np.random.default_rng([seed, len(world)]))
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1), hidden_worlds.undrawn():
        if not guarded:
            patch.setattr(disagreement, "LIMIT", np.inf)
            patch.setattr(imbalance, "of_pairs", no_pairs)
        audited = ma.audit(evidence, plan=Plan(bounds=None), rng=seed)
    return "withheld" if any(metric.withheld for metric in audited.metrics) else audited.verdict.status


@pytest.mark.validity
@pytest.mark.parametrize("world", list(hidden_products.SOUND))
def test_sound_audits_keep_their_verdicts(claim: Claims, world: str) -> None:
    """The guards leave at most 5% more audits without an answer. The control: a ring, which no propensity learns."""

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        seed = int(rng.integers(2**32))
        guarded, bare = (said(world, seed, guarded=guard) for guard in (True, False))
        return {
            "answer lost": guarded in ("withheld", "refused") and bare != "refused",
            "flagged": guarded == "flagged",
        }

    def ring(rng: np.random.Generator) -> dict[str, bool]:
        row = hidden_worlds.audit("ring", 2000, int(rng.integers(2**32)), Path())
        return {"answer lost": row["status"] == "refused"}

    lost = SequentialTest(0.05, 0.15)
    claim(replicate, holds={"answer lost": lost, "flagged": SequentialTest(0.025, 0.1)})
    claim(ring, fails={"answer lost": lost})

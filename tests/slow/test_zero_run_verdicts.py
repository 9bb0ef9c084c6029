"""Zero-run verdicts where the weights of the stack miss a part of the shift; run with ``-s`` for the table.

Each world is audited by the default limits, and once more without the two guards: the balance of all pairs of columns,
and the metrics that are withheld where regressions contradict the weights.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.causal import disagreement, imbalance
from validity.claims import Claims
from validity.sequential import SequentialTest
from worlds import hidden_products

pytestmark = pytest.mark.slow

AUDITS = 24
LEAK, SHIFT, LEVELS = "late product, a leak behind it", "late product", "200 levels"


def drawn(world: str, seed: int) -> Evidence:
    rng = np.random.default_rng([seed, len(world)])
    if world == LEAK:
        return hidden_products.late_product(2000, rng, slope=-2.0, leak=hidden_products.LEAK)
    if world == SHIFT:
        return hidden_products.late_product(2000, rng)
    return hidden_products.many_levels(4000, rng) if world == LEVELS else hidden_products.SOUND[world](2000, rng)


def no_pairs(scores: np.ndarray, *_: object) -> tuple[np.ndarray, np.ndarray]:
    size = (scores.shape[1],) * 2
    return np.zeros(size), np.zeros(size, dtype=bool)


def some(world: str, seeds: range, guarded: bool) -> list[tuple[str, bool]]:
    """Of each audit: its verdict, or "withheld" for contradicted weights, and whether a TPR's limits miss the truth.

    The TPR is that at an FPR of 10%.
    """
    truth = hidden_products.rates(0.1) if world == LEAK else 0.1
    plan = Plan(bounds=None, categories=("x0",) if world == LEVELS else ())
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        if not guarded:
            patch.setattr(disagreement, "LIMIT", np.inf)
            patch.setattr(imbalance, "of_pairs", no_pairs)
        found = [ma.audit(drawn(world, seed), plan=plan, rng=seed) for seed in seeds]
    said = []
    for one in found:
        measured = {m.name: m for m in one.metrics}.get("tpr_at_fpr_0.1")
        misses = measured is not None and measured.low is not None and not measured.low <= truth <= measured.high
        said.append(("withheld" if any(m.withheld for m in one.metrics) else one.verdict.status, misses))
    return said


def audited(pool: Executor, world: str, guarded: bool) -> Counter[str]:
    parts = [pool.submit(some, world, range(k, AUDITS, 4), guarded) for k in range(4)]
    audits = [audit for part in parts for audit in part.result()]
    found = Counter(status for status, _ in audits) + Counter(misses=sum(misses for _, misses in audits))
    print(f"\n{world}, {'guarded' if guarded else 'without guards'}: {dict(found)}")
    return found


@pytest.mark.parametrize("world", [LEAK, SHIFT, LEVELS])
def test_what_the_weights_miss_has_no_verdict(pool: Executor, world: str) -> None:
    found = audited(pool, world, guarded=True)
    assert found["clear"] == found["flagged"] == 0
    bare = audited(pool, world, guarded=False)
    assert world == LEVELS or bare["misses"] > AUDITS / 2  # the control: without guards the limits are wrong


@pytest.mark.validity
@pytest.mark.parametrize("world", list(hidden_products.SOUND))
def test_sound_audits_keep_their_verdicts(claim: Claims, world: str) -> None:
    """The guards leave at most 5% more audits without an answer. The control: a ring, which no propensity learns."""

    def replicate(rng: np.random.Generator, world: str = world) -> dict[str, bool]:
        seed = int(rng.integers(2**32))
        ((guarded, _),), ((bare, _),) = (some(world, range(seed, seed + 1), guard) for guard in (True, False))
        lost = guarded in ("withheld", "refused") and bare != "refused"
        return {"answer lost": lost, "flagged": guarded == "flagged"}

    claim(replicate, holds={"answer lost": SequentialTest(0.05, 0.15), "flagged": SequentialTest(0.025, 0.1)})
    claim(lambda rng: {"answer lost": ring(rng) == "refused"}, fails={"answer lost": SequentialTest(0.05, 0.15)})


def ring(rng: np.random.Generator) -> str:
    """The verdict where membership goes with waves around the middle of three covariates."""
    x = rng.normal(size=(2000, 5))
    wave = np.sin(3 * np.sqrt((x[:, :3] ** 2).sum(axis=1)))
    member = rng.random(2000) < 1 / (1 + np.exp(-1.5 * wave))
    evidence = Evidence(score=wave + rng.normal(size=2000), member=member, covariates=x, design="zero-run")
    with threadpool_limits(1):
        return ma.audit(evidence, plan=Plan(bounds=None), rng=0).verdict.status

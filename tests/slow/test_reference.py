"""Reference scores over many audits: how often the test rejects, and what one more covariate repairs; run with ``-s``.

Membership and the scores of every model move with two covariates and with a trait that no covariate shows. Without the
trait in membership the covariates suffice. The truth of the AUC is then one half, unless the target leaks.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.auditing.reference import Reference

pytestmark = pytest.mark.slow

N, TRAIT, LEAK = 1000, 0.6, 1.0


def world(seed: int, *, trait: float = 0.0, leak: float = 0.0, saw: float = 0.0) -> Evidence:
    """``trait`` moves membership; the target leaks ``leak``, the reference ``small`` saw the members by ``saw``."""
    rng = np.random.default_rng(seed)
    x, hidden = rng.normal(size=(N, 2)), rng.normal(size=N)
    member = rng.random(N) < special.expit(0.8 * x[:, 0] - 0.5 * x[:, 1] + trait * hidden)
    ease = x[:, 0] + 0.5 * x[:, 1] + hidden
    added = {"loss": leak, "small": saw, "older": 0.0}
    scores = {name: ease + 0.5 * rng.normal(size=N) + more * member for name, more in added.items()}
    return Evidence(score=scores, member=member, covariates=x, design="zero-run")


def audit(seed: int, uses: dict[str, str], world_of: dict[str, float]) -> dict[str, Any]:
    evidence = world(seed, **world_of)
    kept = {name: evidence.scores[name] for name in ("loss", *uses.values())}
    reference = Reference(**uses, trained_on_neither=True) if uses else None  # type: ignore[arg-type]
    options: dict[str, Any] = {"propensity_model": "line", "estimator": "hajek", "primary_metric": "auc"}
    plan = Plan(**options, bounds=None, reference=reference, raw_only=True)
    found = ma.audit(evidence.replace(score=kept), plan=plan, rng=np.random.default_rng(seed))
    auc = found.metrics[[metric.name for metric in found.metrics].index("auc")]
    tested = None if found.reference is None else found.reference.corrected
    return {
        "status": found.verdict.status,
        "auc": auc.value if auc.estimator != "raw" else None,
        "low": auc.low,
        "test": None if tested is None else (tested.low, tested.high),
    }


def some(seeds: range, uses: dict[str, str], world_of: dict[str, float]) -> list[dict[str, Any]]:
    with threadpool_limits(1):
        return [audit(seed, uses, world_of) for seed in seeds]


def audits(pool: Executor, count: int, uses: dict[str, str], **world_of: float) -> list[dict[str, Any]]:
    parts = [pool.submit(some, range(k, count, 4), uses, world_of) for k in range(4)]
    return [row for part in parts for row in part.result()]


def rejected(rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    """How many audits were tested, and how many of them rejected for an AUC above and below one half."""
    tested = [row["test"] for row in rows if row["test"] is not None]
    return len(tested), sum(low > 0.5 for low, _ in tested), sum(high < 0.5 for _, high in tested)


def bias(rows: list[dict[str, Any]]) -> float:
    """By how much the corrected AUC of the audits that are answered is above one half."""
    answered = [row["auc"] for row in rows if row["auc"] is not None]
    assert len(answered) >= 0.7 * len(rows)
    return float(np.mean(answered)) - 0.5


@pytest.mark.parametrize("uses", [{"test": "older"}, {"covariate": "small", "test": "older"}])
def test_where_the_covariates_suffice_it_rejects_at_most_at_its_level(pool: Executor, uses: dict[str, str]) -> None:
    count, above, below = rejected(audits(pool, 200, uses))
    print(f"\nvalid, {uses}: {above} above and {below} below one half of {count}")
    assert count >= 180
    assert stats.binom.sf(above + below - 1, count, 0.05) > 0.01


def test_a_leak_of_the_target_is_no_reason_to_reject(pool: Executor) -> None:
    rows = audits(pool, 40, {"test": "older"}, leak=LEAK)
    count, above, below = rejected(rows)
    print(f"\nleak: {above} above and {below} below one half of {count}; {bias(rows):+.3f}")
    assert stats.binom.sf(above + below - 1, count, 0.05) > 0.01
    assert sum(row["status"] == "flagged" for row in rows) >= 34


def test_a_correction_that_misses_a_trait_is_rejected(pool: Executor) -> None:
    count, above, below = rejected(audits(pool, 60, {"test": "older"}, trait=TRAIT))
    print(f"\nhidden trait: {above} above and {below} below one half of {count}")
    assert above >= 0.9 * count
    assert not below


def test_one_more_covariate_halves_the_bias_and_keeps_the_leak(pool: Executor) -> None:
    none, repaired = (bias(audits(pool, 40, uses, trait=TRAIT)) for uses in ({}, {"covariate": "small"}))
    leaks = audits(pool, 40, {"covariate": "small"}, trait=TRAIT, leak=LEAK)
    flagged = sum(row["status"] == "flagged" for row in leaks)
    print(f"\nbias without {none:+.3f}, with {repaired:+.3f}; flagged leaks {flagged} of 40, {bias(leaks):+.3f}")
    assert none > 0.08
    assert abs(repaired) < none / 2
    assert flagged >= 32


def test_the_conditions_matter(pool: Executor) -> None:
    """A covariate that saw members hides the leak, one that saw the non-members invents one; a second one tells."""
    leak, uses = 0.7, {"covariate": "small"}
    fair, hidden, invented = (
        audits(pool, 40, uses, leak=own, saw=saw) for own, saw in ((leak, 0), (leak, leak), (0, -leak))
    )
    told = audits(pool, 40, {"covariate": "small", "test": "older"}, leak=leak, saw=leak)
    count, above, below = rejected(told)
    found = [sum(row["status"] == "flagged" for row in rows) for rows in (fair, hidden, invented)]
    print(f"\nfair {bias(fair):+.3f}, saw members {bias(hidden):+.3f}, saw non-members {bias(invented):+.3f}")
    print(f"flagged {found} of 40; the second reference rejects {above} above, {below} below of {count}")
    assert bias(hidden) < bias(fair) / 3
    assert bias(invented) > 0.05
    assert found[0] >= 30
    assert found[1] <= 4
    assert below >= 0.9 * count


def test_the_test_by_itself_cannot_see_a_reference_that_saw_members(pool: Executor) -> None:
    """As a test such a reference only rejects too often: it refuses, and never lets pass."""
    count, above, _ = rejected(audits(pool, 40, {"test": "small"}, leak=LEAK, saw=LEAK))
    print(f"\ntest that saw members: {above} of {count} rejected")
    assert above >= 0.9 * count

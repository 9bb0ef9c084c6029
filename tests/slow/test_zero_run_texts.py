"""Zero-run audits of texts, from token log-probabilities, in worlds whose truth is known; with ``-s`` the figures.

Words are the covariate, and they decide how hard a text is. Coins disguised as zero-run, a shift of subjects without a
leak, with one, one that explains everything, and a trait that no word shows.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit.attacks import tokens
from worlds.token_files import TextWorld

pytestmark = pytest.mark.slow

N, COUNT, SHIFT = 1000, 40, -0.8
USES = [None, "test", "covariate"]


def audit(seed: int, world: TextWorld, use: str | None) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    records = world.drawn(N, rng)
    scores = {"loss": tokens.loss(records.log_p, records.offsets)}
    reference = None
    if use is not None:
        assert records.reference_log_p is not None
        assert records.reference_offsets is not None
        scores["reference_loss"] = tokens.loss(records.reference_log_p, records.reference_offsets)
        reference = ma.Reference(**{use: "reference_loss"}, trained_on_neither=True)
    evidence = ma.Evidence(score=scores, member=records.member, text=records.text, design="zero-run")
    options: dict[str, Any] = {"propensity_model": "line", "estimator": "hajek", "primary_metric": "auc"}
    found = ma.audit(evidence, plan=ma.Plan(**options, bounds=None, reference=reference), rng=rng)
    auc = next((m for m in found.metrics if m.name == "auc" and m.estimator != "raw"), None)
    return {"status": found.verdict.status, "auc": None if auc is None else (auc.low, auc.value, auc.high)}


def some(seeds: range, world: TextWorld, use: str | None) -> list[dict[str, Any]]:
    with threadpool_limits(1):
        return [audit(seed, world, use) for seed in seeds]


def audits(pool: Executor, count: int, world: TextWorld, use: str | None) -> list[dict[str, Any]]:
    parts = [pool.submit(some, range(k, count, 4), world, use) for k in range(4)]
    return [row for part in parts for row in part.result()]


def told(name: str, rows: list[dict[str, Any]], truth: float) -> tuple[int, int, int]:
    """Print what came out; return how many were flagged, were answered, and had the truth below the lower limit."""
    answered = [row["auc"] for row in rows if row["auc"] is not None]
    low, high = (sum(row[0] > truth for row in answered), sum(row[2] < truth for row in answered))
    statuses = [row["status"] for row in rows]
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    bias = np.mean([row[1] for row in answered]) - truth if answered else float("nan")
    print(f"\n{name}: {counts}; truth {truth:.3f} below {low} and above {high} of {len(answered)}, bias {bias:+.3f}")
    return counts.get("flagged", 0), len(answered), low


def truth_of(world: TextWorld) -> float:
    return world.auc(np.random.default_rng(99)) if world.leak else 0.5


@pytest.mark.parametrize(("leak", "use"), [(0.0, None), (0.25, "covariate")])
def test_coins_disguised_as_zero_run_are_answered_and_the_truth_is_within(
    pool: Executor, leak: float, use: str | None
) -> None:
    world = TextWorld(leak=leak)
    flagged, answered, low = told(f"coins, leak {leak}, {use}", audits(pool, COUNT, world, use), truth_of(world))
    assert answered >= 0.9 * COUNT
    assert stats.binom.sf(low - 1, answered, 0.025) > 0.01
    assert flagged >= 0.9 * COUNT if leak else flagged <= 1


@pytest.mark.parametrize("use", USES)
def test_a_shift_to_easier_texts_without_a_leak_is_never_flagged(pool: Executor, use: str | None) -> None:
    """Uncorrected it looks like memorisation."""
    flagged, answered, low = told(f"shift, {use}", audits(pool, COUNT, TextWorld(shift=SHIFT), use), 0.5)
    assert flagged <= 1
    assert stats.binom.sf(low - 1, answered, 0.025) > 0.01


def test_what_the_uncorrected_attack_would_have_claimed(pool: Executor) -> None:
    """The control: the same texts as if coins had decided."""
    records = TextWorld(shift=SHIFT).drawn(N, np.random.default_rng(0))
    score = tokens.loss(records.log_p, records.offsets)
    plan = ma.Plan(primary_metric="auc", bounds=None)
    evidence = ma.Evidence(score=score, member=records.member, design="one-run")
    assert ma.audit(evidence, plan=plan, rng=np.random.default_rng(0)).verdict.status == "flagged"


@pytest.mark.parametrize(("shift", "use"), [(SHIFT, None), (SHIFT, "covariate"), (-SHIFT, "test")])
def test_a_leak_beside_a_shift_is_found(pool: Executor, shift: float, use: str | None) -> None:
    """Of easier texts, and of harder ones, which hide it."""
    world = TextWorld(shift=shift, leak=0.25)
    flagged, answered, low = told(f"shift {shift} and leak, {use}", audits(pool, COUNT, world, use), truth_of(world))
    assert answered >= 0.9 * COUNT
    assert flagged >= 0.9 * COUNT
    assert stats.binom.sf(low - 1, answered, 0.025) > 0.01


@pytest.mark.parametrize("leak", [0.0, 0.25])
def test_a_shift_that_explains_everything_is_refused(pool: Executor, leak: float) -> None:
    flagged, answered, _ = told(f"shift 4, leak {leak}", audits(pool, 10, TextWorld(shift=-4.0, leak=leak), None), 0.5)
    assert answered == flagged == 0


def test_what_no_word_shows_is_seen_by_the_reference_model_only(pool: Executor) -> None:
    """Membership moves with what makes texts easy for any model: without a reference the audit is wrong."""
    world = TextWorld(hidden=-0.8)
    rows = {use: audits(pool, 20, world, use) for use in USES}
    alone, _, low = told("hidden, no reference", rows[None], 0.5)
    assert low >= 18
    tested, answered, _ = told("hidden, as test", rows["test"], 0.5)
    assert tested == answered == 0
    beside, _, _ = told("hidden, as covariate", rows["covariate"], 0.5)
    assert beside <= 0.2 * alone

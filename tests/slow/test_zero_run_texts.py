"""Zero-run audits of texts, from token log-probabilities, in worlds whose truth is known.

Words are the covariate, and they decide how hard a text is. Coins disguised as zero-run, a shift of subjects without a
leak, with one, one that explains everything, and a trait that no word shows.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit.attacks import tokens
from validity.claims import Claims, Replicate
from validity.sequential import SequentialTest
from worlds.token_files import TextWorld

pytestmark = pytest.mark.slow

N, SHIFT = 1000, -0.8
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
    found = ma.audit(evidence, plan=ma.Plan(primary_metric="auc", bounds=None, reference=reference), rng=rng)
    auc = next((m for m in found.metrics if m.name == "auc" and m.estimator != "raw"), None)
    return {"status": found.verdict.status, "auc": None if auc is None else (auc.low, auc.value, auc.high)}


def some(seeds: range, world: TextWorld, use: str | None) -> list[dict[str, Any]]:
    with threadpool_limits(1):
        return [audit(seed, world, use) for seed in seeds]


def audits(pool: Executor, count: int, world: TextWorld, use: str | None) -> list[dict[str, Any]]:
    parts = [pool.submit(some, range(k, count, 4), world, use) for k in range(4)]
    return [row for part in parts for row in part.result()]


def truth_of(world: TextWorld) -> float:
    return world.auc(np.random.default_rng(99)) if world.leak else 0.5


def misses(world: TextWorld, use: str | None) -> Replicate:
    """Return the replicate: whether the lower limit is above the truth (None without an answer), and is flagged."""
    truth = truth_of(world)

    def replicate(rng: np.random.Generator) -> dict[str, bool | None]:
        with threadpool_limits(1):
            found = audit(int(rng.integers(2**32)), world, use)
        auc = found["auc"]
        status = found["status"]
        return {
            "low > truth": None if auc is None else auc[0] > truth,
            "flagged": status == "flagged",
            "no answer": auc is None,
            "not flagged": status != "flagged",
        }

    return replicate


SELDOM = SequentialTest(0.025, 0.1)  # an audit takes five seconds, so that 10% has to be noticed, and not 5%
MOSTLY = SequentialTest(0.1, 0.25)
HOLDS = {"low > truth": SELDOM}


def hidden(claim: Claims) -> None:
    """The control: membership moves with what makes texts easy for any model, which no word shows."""
    claim(misses(TextWorld(hidden=-0.8), None), fails=HOLDS)


@pytest.mark.validity
@pytest.mark.parametrize(("leak", "use"), [(0.0, None), (0.25, "covariate")])
def test_coins_disguised_as_zero_run_are_answered_and_the_truth_is_within(
    claim: Claims, leak: float, use: str | None
) -> None:
    rates = {"no answer": MOSTLY, "not flagged": MOSTLY} if leak else {"no answer": MOSTLY, "flagged": SELDOM}
    claim(misses(TextWorld(leak=leak), use), holds=HOLDS | rates)
    hidden(claim)


@pytest.mark.validity
@pytest.mark.parametrize("use", USES)
def test_a_shift_to_easier_texts_without_a_leak_is_never_flagged(claim: Claims, use: str | None) -> None:
    """Uncorrected it looks like memorisation."""
    claim(misses(TextWorld(shift=SHIFT), use), holds=HOLDS | {"flagged": SELDOM})
    hidden(claim)


def test_what_the_uncorrected_attack_would_have_claimed(pool: Executor) -> None:
    """The control: the same texts as if coins had decided."""
    records = TextWorld(shift=SHIFT).drawn(N, np.random.default_rng(0))
    score = tokens.loss(records.log_p, records.offsets)
    plan = ma.Plan(primary_metric="auc", bounds=None)
    evidence = ma.Evidence(score=score, member=records.member, design="one-run")
    assert ma.audit(evidence, plan=plan, rng=np.random.default_rng(0)).verdict.status == "flagged"


@pytest.mark.validity
@pytest.mark.parametrize(("shift", "use"), [(SHIFT, None), (SHIFT, "covariate"), (-SHIFT, "test")])
def test_a_leak_beside_a_shift_is_found(claim: Claims, shift: float, use: str | None) -> None:
    """Of easier texts, and of harder ones, which hide it."""
    claim(misses(TextWorld(shift=shift, leak=0.25), use), holds=HOLDS | {"no answer": MOSTLY, "not flagged": MOSTLY})
    hidden(claim)


@pytest.mark.parametrize("leak", [0.0, 0.25])
def test_a_shift_that_explains_everything_is_refused(pool: Executor, leak: float) -> None:
    rows = audits(pool, 10, TextWorld(shift=-4.0, leak=leak), None)
    assert not any(row["status"] == "flagged" or row["auc"] is not None for row in rows)


def test_what_no_word_shows_is_seen_by_the_reference_model_only(pool: Executor) -> None:
    """Membership moves with what makes texts easy for any model: without a reference the audit is wrong."""
    rows = {use: audits(pool, 20, TextWorld(hidden=-0.8), use) for use in USES}
    flagged = {use: sum(row["status"] == "flagged" for row in rows[use]) for use in USES}
    assert sum(row["auc"] is not None and row["auc"][0] > 0.5 for row in rows[None]) >= 18
    assert not any(row["status"] == "flagged" or row["auc"] is not None for row in rows["test"])
    assert flagged["covariate"] <= 0.2 * flagged[None]

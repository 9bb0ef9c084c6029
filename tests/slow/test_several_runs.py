"""Claims on several runs: a true one is refuted in at most 5% of audits, from evidence to the verdict on the page."""

from __future__ import annotations

import numpy as np
import pytest

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.auditing.plan import Bounds
from miaudit.dp.several_runs import Anytime
from miaudit.dp.verdict import Claim

AUDITS, RUNS, CANARIES, MU = 300, 3, 200, 1.0


def refuted(claimed: float, at_least: int | Anytime | None, *, runs: int = RUNS, seed: int = 0) -> int:
    plan = Plan(bounds=Bounds(claim=Claim.gaussian(claimed), at_least=at_least))
    count = 0
    for child in np.random.default_rng(seed).spawn(AUDITS):
        coins = child.random((runs, CANARIES)) < 0.5
        made = [Evidence(score=child.normal(MU * c), member=c, design="one-run") for c in coins]
        count += ma.audit(Evidence.of_runs(made), plan=plan, rng=child).claim.status == "refuted"
    return count


@pytest.mark.slow
@pytest.mark.parametrize("at_least", [None, 2, 1])
def test_a_true_claim_falls_in_at_most_five_of_a_hundred(at_least: int | None) -> None:
    assert refuted(MU, at_least) <= 0.05 * AUDITS + 3 * np.sqrt(0.05 * 0.95 * AUDITS)


@pytest.mark.slow
def test_a_true_claim_looked_at_after_each_of_six_runs_stands() -> None:
    assert refuted(MU, Anytime(), runs=6) <= 0.05 * AUDITS + 3 * np.sqrt(0.05 * 0.95 * AUDITS)


@pytest.mark.slow
def test_a_claim_of_a_third_falls() -> None:
    """The control: the same audits refute what is false."""
    assert refuted(MU / 3, None) > 0.5 * AUDITS

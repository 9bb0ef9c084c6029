"""Claims on several runs: a true one is refuted in at most 5% of audits, from evidence to the verdict on the page."""

from __future__ import annotations

import numpy as np
import pytest

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.auditing.plan import Bounds
from miaudit.dp.several_runs import Anytime
from miaudit.dp.verdict import Claim
from validity.claims import Claims

pytestmark = [pytest.mark.slow, pytest.mark.validity]
LEVEL, RUNS, CANARIES, MU = 0.05, 3, 200, 1.0


def refuted(claimed: float, at_least: int | Anytime | None, rng: np.random.Generator, *, runs: int = RUNS) -> bool:
    plan = Plan(bounds=Bounds(claim=Claim.gaussian(claimed), at_least=at_least))
    coins = rng.random((runs, CANARIES)) < 0.5
    made = [Evidence(score=rng.normal(MU * c), member=c, design="one-run") for c in coins]
    return ma.audit(Evidence.of_runs(made), plan=plan, rng=rng).claim.status == "refuted"


@pytest.mark.parametrize("at_least", [None, 2, 1])
def test_a_true_claim_falls_in_at_most_five_of_a_hundred(claim: Claims, at_least: int | None) -> None:
    """The control: a claim of a third is false, and the same audits refute it."""
    claim(lambda rng: {"true": refuted(MU, at_least, rng)}, holds={"true": LEVEL})
    claim(lambda rng: {"a third": refuted(MU / 3, None, rng)}, fails={"a third": LEVEL})


def test_a_true_claim_looked_at_after_each_of_six_runs_stands(claim: Claims) -> None:
    claim(lambda rng: {"true": refuted(MU, Anytime(), rng, runs=6)}, holds={"true": LEVEL})
    claim(lambda rng: {"a third": refuted(MU / 3, Anytime(), rng, runs=6)}, fails={"a third": LEVEL})

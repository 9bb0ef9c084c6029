"""Audits of right steps: how often the claim is refuted, by arrays and by trainings as they are."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from miaudit.dp.mechanism import GaussianNoise, Mechanism, PoissonSubsampled, Repeated
from miaudit.dp.step_audit import Released, audit

pytestmark = pytest.mark.slow
AUDITS, ALLOWED = 200, 16


@pytest.mark.parametrize("runs", [1, 4])
@pytest.mark.parametrize(
    "claim",
    [
        Repeated(GaussianNoise(4.0), 4),
        Repeated(GaussianNoise(1.0), 4),
        Repeated(PoissonSubsampled(GaussianNoise(1.0), 0.2), 20),
    ],
)
def test_right_steps_are_refuted_in_at_most_five_of_a_hundred(claim: Mechanism, runs: int) -> None:
    assert isinstance(claim, Repeated)
    each = claim.mechanism
    rate, noise = (each.rate, each.mechanism.noise) if isinstance(each, PoissonSubsampled) else (1.0, each.noise)
    rng = np.random.default_rng(runs)

    def once(smaller: float = 1.0) -> Released:
        coins = rng.random(1_000) < 0.5
        joined = (rng.random((claim.times, 1_000)) < rate) & coins
        return Released(joined + smaller * noise * rng.normal(size=joined.shape), coins, joined)

    found = [audit([once() for _ in range(runs)], claim, rng=rng) for _ in range(AUDITS)]
    assert sum(one.refuted for one in found) <= ALLOWED
    assert not any(one.strange for one in found)
    # the control: a third of the noise, which one run of canaries can show where one run can show anything
    wrong = [audit([once(1 / 3) for _ in range(runs)], claim, rng=rng) for _ in range(5)]
    assert all(one.refuted or not one.testable for one in wrong)
    assert all(one.strange for one in wrong)


@pytest.mark.parametrize("loop", ["plain", "by_opacus", "ours"])
def test_right_trainings_are_not_refuted(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opacus")
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "experiments" / "step_audit")
    run = importlib.import_module("run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Opacus, about random numbers that are not cryptographic
        found = run.right(getattr(run, loop), 60, seed=5)
    assert found["refuted"] <= 7  # Bin(60, 0.05) exceeds it in 1 of 100
    assert found["strange"] == 0
    assert found["share"] > 0.2

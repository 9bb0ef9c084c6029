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
from validity.claims import Claims

pytestmark = pytest.mark.slow


@pytest.mark.validity
@pytest.mark.parametrize("runs", [1, 4])
@pytest.mark.parametrize(
    "promised",
    [
        Repeated(GaussianNoise(4.0), 4),
        Repeated(GaussianNoise(1.0), 4),
        Repeated(PoissonSubsampled(GaussianNoise(1.0), 0.2), 20),
    ],
)
def test_right_steps_are_refuted_in_at_most_five_of_a_hundred(claim: Claims, promised: Mechanism, runs: int) -> None:
    """The control: a third of the noise looks strange, and is refuted where one run of canaries can show anything."""
    assert isinstance(promised, Repeated)
    each = promised.mechanism
    rate, noise = (each.rate, each.mechanism.noise) if isinstance(each, PoissonSubsampled) else (1.0, each.noise)

    def once(rng: np.random.Generator, part: float) -> Released:
        coins = rng.random(1_000) < 0.5
        joined = (rng.random((promised.times, 1_000)) < rate) & coins
        return Released(joined + part * noise * rng.normal(size=joined.shape), coins, joined)

    def replicate(rng: np.random.Generator, part: float = 1.0) -> dict[str, bool]:
        found = audit([once(rng, part) for _ in range(runs)], promised, rng=rng)
        return {"refuted": found.refuted, "strange": found.strange, "no proof": not found.refuted and found.testable}

    claim(replicate, holds={"refuted": 0.05, "strange": 0.05})
    claim(lambda rng: replicate(rng, 1 / 3), fails={"strange": 0.05})
    claim(lambda rng: replicate(rng, 1 / 3), holds={"no proof": 0.05})


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

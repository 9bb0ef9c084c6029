"""Placebos: populations that differ while nothing is memorised, and a leak that a shift hides; run with ``-s``.

The figures of docs/validity.md, of the logistic line. Whole audits, from evidence to exit code, without bounds. The
control is the same audit without the test for lack of fit: the weights then leave the shift standing, and the verdict
believes it.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from causal_mia import shift_worlds
from threadpoolctl import threadpool_limits

from miaudit import Evidence, Plan
from miaudit.causal import balance, challenge
from worlds import coverage, placebo

pytestmark = pytest.mark.slow

SURF = Path(__file__).parents[2].parent / "shared" / "data" / "office_caltech10" / "office_caltech10_surf.npz"
SURF_WORLD = "SURF amazon / caltech10"
LINE = {"propensity_model": "line", "estimator": "hajek"}  # test_shift_worlds.py has the stack, the default
PLAN = Plan(fpr_targets=(0.1,), primary_metric="auc", threshold_for_concern=0.55, bounds=None, **LINE)  # type: ignore[arg-type]
N, AUDITS, FEW = 2000, 200, 40
MOST = 0.025


def surf(rng: np.random.Generator) -> Evidence:
    """Pictures of two domains, scored by a classifier that was trained on other pictures of the first."""
    components, member, score, _ = shift_worlds.surf(N, rng, SURF.parents[1])
    return Evidence(score=score, member=member, covariates=components, design="zero-run")


def verdicts(name: str, effect: float, tested: bool, audits: int, seed: np.random.SeedSequence) -> list[str]:
    """Statuses of audits; without the test, no refusal for lack of fit or for squares out of balance."""
    found = []
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        if not tested:
            stack.enter_context(mock.patch.object(challenge, "LIMIT", 1e9))
            stack.enter_context(mock.patch.object(challenge, "_FAMILYWISE", 1e-300))
            stack.enter_context(mock.patch.object(balance, "_DIFFERENCE", (0.1, 1e9)))
        for rng in np.random.default_rng(seed).spawn(audits):
            evidence = surf(rng) if name == SURF_WORLD else placebo.draw(name, N, rng, effect=effect)
            found.append(coverage.audit(evidence, PLAN, rng).verdict.status)
    return found


def shares(
    pool: Executor, name: str, *, effect: float = 0.0, tested: bool = True, audits: int = AUDITS
) -> dict[str, float]:
    """Share of each status, the same for any number of processes."""
    parts = [
        pool.submit(verdicts, name, effect, tested, audits // 4, seed) for seed in np.random.SeedSequence(41).spawn(4)
    ]
    counts = Counter(status for part in parts for status in part.result())
    found = {status: count / audits for status, count in sorted(counts.items())}
    print(f"\n{name}{'' if tested else ', untested'}, effect {effect:g}: {found} of {audits}")
    return found


WORLDS = [
    "product",
    "product among 30 covariates",
    "opposite correlations",
    "sites as codes",
    "step",
    pytest.param(SURF_WORLD, marks=[pytest.mark.data, pytest.mark.skipif(not SURF.is_file(), reason=f"no {SURF}")]),
]


@pytest.mark.parametrize("name", WORLDS)
def test_a_placebo_raises_no_concern(pool: Executor, name: str) -> None:
    assert shares(pool, name).get("flagged", 0.0) <= MOST


@pytest.mark.parametrize("name", ["product", "opposite correlations", "sites as codes", WORLDS[-1]])
def test_without_the_test_for_lack_of_fit_placebos_do(pool: Executor, name: str) -> None:
    assert shares(pool, name, tested=False, audits=FEW).get("flagged", 0.0) > 0.5


def test_a_leak_behind_an_opposite_shift_is_not_called_clear(pool: Executor) -> None:
    """Membership adds a standard deviation of noise to the score (causal AUC .70); the shift takes as much away."""
    name = "leak behind opposite correlations"
    assert shares(pool, name, effect=1.0).get("clear", 0.0) <= MOST
    assert shares(pool, name, effect=1.0, tested=False, audits=FEW).get("clear", 0.0) > 0.3


def test_a_shift_that_the_propensity_describes_is_answered(pool: Executor) -> None:
    found = shares(pool, "line")
    assert found.get("refused", 0.0) <= 0.05
    assert found.get("flagged", 0.0) <= MOST

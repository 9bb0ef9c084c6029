"""Placebos: populations that differ while nothing is memorised, and a leak that a shift hides.

The figures of docs/validity.md, of the logistic line. Whole audits, from evidence to exit code, without bounds. The
control is the same audit without the test for lack of fit: the weights then leave the shift standing, and the verdict
believes it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from causal_mia import shift_worlds
from threadpoolctl import threadpool_limits

from miaudit import Evidence, Plan
from miaudit.causal import balance, lack_of_fit
from validity.claims import Claims, Replicate
from validity.sequential import SequentialTest
from worlds import coverage, placebo

pytestmark = [pytest.mark.slow, pytest.mark.validity]

SURF = Path(__file__).parents[2].parent / "shared" / "data" / "office_caltech10" / "office_caltech10_surf.npz"
SURF_WORLD = "SURF amazon / caltech10"
LINE = {"propensity_model": "line", "estimator": "hajek"}  # test_shift_worlds.py has the stack, the default
PLAN = Plan(fpr_targets=(0.1,), primary_metric="auc", threshold_for_concern=0.55, bounds=None, **LINE)  # type: ignore[arg-type]
N = 2000
MOST = 0.025


def surf(rng: np.random.Generator) -> Evidence:
    """Pictures of two domains, scored by a classifier that was trained on other pictures of the first."""
    components, member, score, _ = shift_worlds.surf(N, rng, SURF.parents[1])
    return Evidence(score=score, member=member, covariates=components, design="zero-run")


def status(name: str, effect: float, tested: bool, rng: np.random.Generator) -> str:
    """Status of one audit; without the test, no refusal for lack of fit or for squares out of balance."""
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        if not tested:
            stack.enter_context(mock.patch.object(lack_of_fit, "LIMIT", 1e9))
            stack.enter_context(mock.patch.object(lack_of_fit, "_FAMILYWISE", 1e-300))
            stack.enter_context(mock.patch.object(balance, "_DIFFERENCE", (0.1, 1e9)))
        evidence = surf(rng) if name == SURF_WORLD else placebo.draw(name, N, rng, effect=effect)
        return coverage.audit(evidence, PLAN, rng).verdict.status


def is_called(word: str, name: str, *, effect: float = 0.0, tested: bool = True) -> Replicate:
    """Return the replicate that says whether an audit has this status."""
    return lambda rng: {word: status(name, effect, tested, rng) == word}


WORLDS = [
    "product",
    "product among 30 covariates",
    "opposite correlations",
    "sites as codes",
    "step",
    pytest.param(SURF_WORLD, marks=[pytest.mark.data, pytest.mark.skipif(not SURF.is_file(), reason=f"no {SURF}")]),
]
MISLEADING = ["product", "opposite correlations", "sites as codes", WORLDS[-1]]


@pytest.mark.parametrize("name", WORLDS)
def test_a_placebo_raises_no_concern(claim: Claims, name: str) -> None:
    claim(is_called("flagged", name), holds={"flagged": MOST})
    untested = name if name in MISLEADING else "product"
    claim(is_called("flagged", untested, tested=False), fails={"flagged": MOST})


@pytest.mark.parametrize("name", MISLEADING)
def test_without_the_test_for_lack_of_fit_placebos_do(claim: Claims, name: str) -> None:
    """In more than half of the audits, which 20% against 50% cannot be taken for."""
    claim(is_called("flagged", name, tested=False), fails={"flagged": SequentialTest(0.2, 0.5)})


def test_a_leak_behind_an_opposite_shift_is_not_called_clear(claim: Claims) -> None:
    """Membership adds a standard deviation of noise to the score (causal AUC .70); the shift takes as much away."""
    name = "leak behind opposite correlations"
    claim(is_called("clear", name, effect=1.0), holds={"clear": MOST})
    claim(is_called("clear", name, effect=1.0, tested=False), fails={"clear": MOST})


def test_a_shift_that_the_propensity_describes_is_answered(claim: Claims) -> None:
    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        found = status("line", 0.0, True, rng)
        return {"refused": found == "refused", "flagged": found == "flagged"}

    claim(replicate, holds={"refused": 0.05, "flagged": MOST})
    claim(is_called("refused", "product"), fails={"refused": 0.05})

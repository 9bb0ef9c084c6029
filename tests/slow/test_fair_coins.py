"""Whether audits of thinned records are wrong as seldom as they say, where scores follow the chances of inclusion."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.auditing.fair_coins import FairCoins
from miaudit.dp import one_run
from miaudit.metrics.classical import Sample
from validity.claims import Claims

pytestmark = pytest.mark.slow

RECORDS = 1000


def included(rng: np.random.Generator, leak: float) -> Evidence:
    """Chances from .02 to .98, and a score that follows the chance, and membership as far as records leak."""
    chance = rng.uniform(0.02, 0.98, RECORDS)
    member = rng.random(RECORDS) < chance
    score = 8 * (chance - 0.5) + leak * member + rng.normal(size=RECORDS)
    return Evidence(score=score, member=member, design="one-run", inclusion=chance)


def thinned(evidence: Evidence, rng: np.random.Generator) -> tuple[FairCoins, Evidence]:
    coins = FairCoins.tossed(evidence, rng=rng)
    assert coins is not None
    fair = coins.fair(evidence, None)
    assert fair is not None
    return coins, fair


def bounds(evidence: Evidence, rng: np.random.Generator) -> tuple[float, float]:
    mu = one_run.audit(evidence, parameter="mu", confidence=0.95, rng=rng)
    epsilon = one_run.audit(evidence, parameter="epsilon", confidence=0.95, rng=rng)
    return mu.value, epsilon.value


@pytest.mark.validity
def test_nothing_is_shown_where_nothing_leaks(claim: Claims) -> None:
    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        evidence = included(rng, leak=0.0)
        coins, fair = thinned(evidence, rng)
        mu, epsilon = bounds(fair, rng)
        unstated = evidence.replace(inclusion=None)
        auc, raw = (Sample.of(one).auc(0.95) for one in (coins.measured(evidence), unstated))
        return {
            "mu > 0": mu > 0,
            "epsilon > 0": epsilon > 0,
            "AUC": not auc.low <= 0.5 <= auc.high,
            "mu > 0 without chances": one_run.audit(unstated, parameter="mu", confidence=0.95, rng=rng).value > 0,
            "AUC without chances": not raw.low <= 0.5 <= raw.high,
        }

    claim(
        replicate,
        holds={"mu > 0": 0.05, "epsilon > 0": 0.05, "AUC": 0.05},
        fails={"mu > 0 without chances": 0.05, "AUC without chances": 0.05},
    )


@pytest.mark.validity
def test_bounds_seldom_exceed_what_leaks(claim: Claims) -> None:
    """A score that moves by one standard deviation where a record is a member is 1-GDP."""

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        evidence = included(rng, leak=1.0)
        _, fair = thinned(evidence, rng)
        mu = one_run.audit(fair, parameter="mu", confidence=0.95, rng=rng).value
        unstated = one_run.audit(evidence.replace(inclusion=None), parameter="mu", confidence=0.95, rng=rng).value
        return {"mu > 1": mu > 1, "mu > 1 without chances": unstated > 1}

    claim(replicate, holds={"mu > 1": 0.05}, fails={"mu > 1 without chances": 0.05})

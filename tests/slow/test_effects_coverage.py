"""Whether the causal intervals keep their word, by simulation; run with ``-s`` to see the table of docs/effects.md."""

from __future__ import annotations

from concurrent.futures import Executor
from math import sqrt

import pytest

from worlds import confounded
from worlds.confounded import QUANTITIES
from worlds.coverage import run

pytestmark = pytest.mark.slow

REPLICATES = 1000
NOISE = 3 * sqrt(0.95 * 0.05 / REPLICATES)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    ("name", "n1", "n0"), [("moderate", 1000, 1000), ("no_effect", 1500, 500), ("strong", 600, 900)]
)
def test_causal_intervals_cover(pool: Executor, name: str, n1: int, n0: int, learned: bool) -> None:
    found = run(confounded.covered, name, n1, n0, learned, replicates=REPLICATES, seed=60, pool=pool)
    by_name = dict(zip(QUANTITIES, found, strict=True))
    print(f"\n{name} n1 {n1} n0 {n0} {'logistic' if learned else 'oracle'} propensity")
    for quantity, (covered, above, below) in by_name.items():
        print(f"  {quantity:16s} covered {covered:.3f} low>truth {above:.3f} high<truth {below:.3f}")
    for quantity in ("hajek auc", "hajek ate", "hajek tpr 5%", "hajek tpr 10%", "aipw auc", "aipw ate"):
        # With a learned propensity the larger of two standard errors is taken: on the safe side.
        assert 0.92 <= by_name[quantity][0] <= (0.995 if learned else 0.985), quantity
    assert by_name["hajek advantage"][1] <= 0.025 + NOISE
    assert by_name["raw auc"][0] < 0.2  # control: without weights the interval is of another number

"""Whether limits of a weighted TPR keep their word where the heaviest non-members have the highest scores."""

from __future__ import annotations

from concurrent.futures import Executor
from math import sqrt

import pytest

from worlds import aligned
from worlds.aligned import COLUMNS, Aligned
from worlds.coverage import run

pytestmark = pytest.mark.slow

REPLICATES = 2000
NOISE = 3 * sqrt(0.025 * 0.975 / REPLICATES)


def measured(pool: Executor, world: Aligned, alpha: float, learned: bool, control: bool) -> dict[str, float]:
    found = run(aligned.missed, world, 2000, alpha, learned, control, replicates=REPLICATES, seed=64, pool=pool)
    by_name = dict(zip(COLUMNS, map(float, found), strict=True))
    said = ", ".join(f"{name} {value:.3f}" for name, value in by_name.items())
    print(f"\n{world} FPR {alpha:g}, {'logistic' if learned else 'oracle'}: {said}")
    return by_name


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("leak", [0.0, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_lower_limit_of_tpr_at_one_percent_is_below_the_truth(
    pool: Executor, noise: float, leak: float, learned: bool
) -> None:
    found = measured(pool, Aligned(noise=noise, leak=leak), 0.01, learned, control=True)
    assert found["low > truth"] <= 0.035
    assert found["high < truth"] <= 0.035 + NOISE
    assert found["control low > truth"] > 0.12  # judged by the size of all


@pytest.mark.parametrize(
    ("world", "alpha"),
    [
        (Aligned(leak=1.0), 0.1),
        (Aligned(slope=0.25, leak=1.0), 0.02),
        (Aligned(start=1.0, leak=1.0), 0.15),
        (Aligned(leak=1.0, grid=0.5), 0.1),
        (Aligned(leak=1.0, size=4), 0.2),
    ],
)
def test_limits_hold_and_say_something_where_enough_lies_above_the_threshold(
    pool: Executor, world: Aligned, alpha: float
) -> None:
    found = measured(pool, world, alpha, False, control=False)
    assert found["low > truth"] <= 0.035
    assert found["high < truth"] <= 0.035 + NOISE
    assert found["resolved"] > 0.9
    assert found["lower limit"] > 0.4 * world.tpr(alpha)

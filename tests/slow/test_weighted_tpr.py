"""Whether limits of a weighted TPR keep their word where the heaviest non-members have the highest scores.

Each limit is on the wrong side in at most 3.5% of samples. ``--replicates 2000 -s`` prints the rates.
"""

from __future__ import annotations

import numpy as np
import pytest

from validity.claims import Claims
from worlds import aligned
from worlds.aligned import COLUMNS, Aligned

pytestmark = [pytest.mark.slow, pytest.mark.validity]

ONE_SIDE = 0.035
Values = dict[str, float]


def measured(world: Aligned, alpha: float, learned: bool, control: bool, rng: np.random.Generator) -> Values:
    return dict(zip(COLUMNS, aligned.missed(world, 2000, alpha, learned, control, 1, rng), strict=True))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("leak", [0.0, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_lower_limit_of_tpr_at_one_percent_is_below_the_truth(
    claim: Claims, noise: float, leak: float, learned: bool
) -> None:
    world = Aligned(noise=noise, leak=leak)
    claim(
        lambda rng: measured(world, 0.01, learned, True, rng),
        holds={"low > truth": ONE_SIDE, "high < truth": ONE_SIDE},
        fails={"control low > truth": ONE_SIDE},  # judged by the size of all
    )


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
    claim: Claims, world: Aligned, alpha: float
) -> None:
    truth = world.tpr(alpha)

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        found = measured(world, alpha, False, False, rng)
        misses = {side: bool(found[side]) for side in ("low > truth", "high < truth")}
        return {
            **misses,
            "unresolved": not found["resolved"],
            "double the lower limit": 2 * found["lower limit"] > truth,
        }

    claim(
        replicate,
        holds={"low > truth": ONE_SIDE, "high < truth": ONE_SIDE, "unresolved": 0.1},
        fails={"double the lower limit": ONE_SIDE},
    )

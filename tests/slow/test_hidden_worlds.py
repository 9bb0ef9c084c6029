"""Shifts that hide in corners, bands, late products and many levels, by the audits of experiments/causal_mia.

At most 4% of the lower limits of answered audits are above the truth, and at most 4% of the upper ones below it, for
the AUC, two TPRs and the advantage. An audit takes seconds, so that 12% has to be noticed, and not 8%.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from causal_mia import hidden_worlds
from threadpoolctl import threadpool_limits

from validity.claims import Claims
from validity.sequential import SequentialTest

pytestmark = [pytest.mark.slow, pytest.mark.validity]

DATA = Path(__file__).parents[2].parent / "shared" / "data"
ACS = "ACS 2018 / 2021, ten covariates"
SIDE, REFUSED = SequentialTest(0.04, 0.12), SequentialTest(0.12, 0.3)
# A misfit that stays is seen in 63 of 200 audits of the sine, and in 16 of 100 of ACS.
REFUSED_IN = {"sine": SequentialTest(0.38, 0.55), ACS: SequentialTest(0.2, 0.4)}


def sides(metric: str) -> tuple[str, str]:
    return f"{metric}: low > truth", f"{metric}: high < truth"


def one(name: str, rng: np.random.Generator) -> dict[str, bool | None]:
    """What one audit gets wrong; None of what it does not say."""
    n = {**hidden_worlds.HIDDEN, **hidden_worlds.REAL}[name][0]
    with threadpool_limits(1):
        row = hidden_worlds.audit(name, n, int(rng.integers(2**32)), DATA)

    def misses() -> Iterator[tuple[str, bool | None]]:
        for metric in hidden_worlds.METRICS:
            if row["status"] == "refused" or row.get(metric) is None:
                yield from ((side, None) for side in sides(metric))
            else:
                yield from zip(sides(metric), map(bool, hidden_worlds.wrong([row], name, metric)), strict=True)

    return {"refused": row["status"] == "refused", "clear": row["status"] == "clear", **dict(misses())}


@pytest.mark.parametrize(
    "name",
    [
        "one product of 50 columns",
        "200 declared levels, as advised",
        "corner of 5%",
        "band of 20%",
        "sine",
        pytest.param(
            ACS,
            marks=[pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")],
        ),
    ],
)
def test_each_limit_is_on_its_side_of_the_truth(claim: Claims, name: str) -> None:
    """The control: a ring, which no propensity learns from so few records, is refused."""
    every = [side for metric in hidden_worlds.METRICS for side in sides(metric)]
    claim(lambda rng: one(name, rng), holds={"refused": REFUSED_IN.get(name, REFUSED), **dict.fromkeys(every, SIDE)})
    claim(lambda rng: one("ring", rng), fails={"refused": REFUSED})


def test_a_leak_behind_a_product_of_50_columns_is_never_clear(claim: Claims) -> None:
    """The control: without a leak most audits are clear."""
    claim(lambda rng: one("hide50", rng), holds={"clear": SequentialTest(0.025, 0.1)})
    claim(lambda rng: one("band of 20%", rng), fails={"clear": 0.2})

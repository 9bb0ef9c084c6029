"""Whether the causal intervals keep their word, by simulation.

Normal limits of weighted means miss in 5% of large samples; here up to 6.5% are claimed, and more where weights are
heavy. ``--replicates 1000 -s`` prints the table of experiments/validity/effects.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from validity.claims import Claims
from worlds import confounded, separate

pytestmark = [pytest.mark.slow, pytest.mark.validity]

IN_THE_LIMIT = 0.065
# With known weights of a shift by 1 and 500 non-members .938 and .925 cover.
HEAVY = {"hajek auc": 0.07, "hajek ate": 0.08}
Misses = dict[str, bool]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    ("name", "n1", "n0"), [("moderate", 1000, 1000), ("no_effect", 1500, 500), ("strong", 600, 900)]
)
def test_causal_intervals_cover(claim: Claims, name: str, n1: int, n0: int, learned: bool) -> None:
    def replicate(rng: np.random.Generator) -> Misses:
        found = dict(zip(confounded.QUANTITIES, confounded.covered(name, n1, n0, learned, 1, rng), strict=True))
        misses = {quantity: not covered for quantity, (covered, _, _) in found.items()}
        return misses | {"advantage, low > truth": found["hajek advantage"][1]}

    normal = dict.fromkeys(("hajek auc", "hajek ate", "aipw auc", "aipw ate"), IN_THE_LIMIT)
    counted = dict.fromkeys(("hajek tpr 5%", "hajek tpr 10%"), 0.05)
    heavy = HEAVY if name == "no_effect" and not learned else {}
    claim(
        replicate,
        holds={**normal, **counted, **heavy, "advantage, low > truth": 0.025},
        fails={"raw auc": 0.05},  # without weights the interval is of another number
    )


@pytest.mark.parametrize("name", ["moderate", "strong"])
def test_limits_with_a_propensity_from_a_separate_sample_cover(claim: Claims, name: str) -> None:
    """1,000 members and non-members audited, as many others for the propensity.

    Its learned log-odds are also shrunk, unknown to standard errors (docs/zero_run_in_depth.md): 7% are claimed for it.
    """

    def replicate(rng: np.random.Generator) -> Misses:
        found = separate.covered(name, 1000, 1000, 1, rng)
        return {quantity: not row[0] for quantity, row in zip(separate.QUANTITIES, found, strict=True)}

    normal = dict.fromkeys(("refitted auc", "refitted tpr 10%", "aipw auc"), IN_THE_LIMIT)
    claim(replicate, holds={**normal, "hajek tpr 10%": 0.05, "hajek auc": 0.07}, fails={"raw auc": 0.05})


def test_limits_that_ignore_a_small_training_sample_fail(claim: Claims) -> None:
    """A control: with 200 + 200 records to learn from, the propensity's own error can no longer be left out."""

    def replicate(rng: np.random.Generator) -> Misses:
        found = separate.covered("moderate", 1000, 200, 1, rng)
        return {quantity: not row[0] for quantity, row in zip(separate.QUANTITIES, found, strict=True)}

    claim(replicate, fails={"as if known auc": 0.05})

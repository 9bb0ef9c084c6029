"""Usage bounds against an adversary, and a deletion at the boundary of its margin.

python -m pytest tests/slow/test_usage.py -s      # prints the counts
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from miaudit.metrics import deletion, usage
from miaudit.metrics.usage import Usage
from validity.claims import Claims
from validity.sequential import SequentialTest

pytestmark = [pytest.mark.slow, pytest.mark.validity]

N, DECOYS = 300, 19
BOUNDARY = 0.10645  # of two normal laws with an AUC of .53
Audited = Callable[[int, np.random.Generator], Usage]


def with_decoys(used: int, rng: np.random.Generator) -> Usage:
    """Used records first of all; the others have scales of their own and heavy tails."""
    strings = rng.standard_cauchy((N, DECOYS + 1)) * np.exp(rng.normal(size=(N, 1)))
    strings[:used, 0] = 1e300
    return usage.among_decoys(strings[:, 0], strings[:, 1:])


def beside_nonmembers(used: int, rng: np.random.Generator) -> Usage:
    """Used records first of all; the others are counts, so that many scores are equal."""
    candidates = rng.poisson(3, N).astype(float)
    candidates[:used] = 1e9
    return usage.beside_nonmembers(candidates, rng.poisson(3, 400))


@pytest.mark.parametrize("audited", [with_decoys, beside_nonmembers])
@pytest.mark.parametrize("used", [0, 30, 150])
def test_the_bound_is_not_above_the_number_of_used_records(claim: Claims, audited: Audited, used: int) -> None:
    def other_source(rng: np.random.Generator) -> dict[str, bool]:
        return {"other source": usage.beside_nonmembers(rng.normal(0.7, 1, N), rng.normal(size=N)).used > 0}

    claim(lambda rng: {"above": audited(used, rng).used > used}, holds={"above": 0.05})
    claim(other_source, fails={"other source": 0.05})


def test_a_deletion_at_its_boundary_seldom_passes(claim: Claims) -> None:
    """An AUC of .53 after the deletion. The control: an AUC of .51, which is within the margin."""

    def passes(shift: float, rng: np.random.Generator) -> bool:
        def scores(by: float) -> tuple[np.ndarray, np.ndarray]:
            return rng.normal(size=2000) + by, rng.normal(size=(2000, DECOYS))

        return deletion.among_decoys(scores(shift), scores(1.0), rng=rng).status == "equivalent"

    claim(lambda rng: {"passes": passes(BOUNDARY, rng)}, holds={"passes": SequentialTest(0.06, 0.12)})
    claim(lambda rng: {"within": passes(BOUNDARY / 3, rng)}, fails={"within": SequentialTest(0.06, 0.12)})


def test_a_clean_deletion_is_seldom_called_a_concern(claim: Claims) -> None:
    def concern(shift: float, rng: np.random.Generator) -> bool:
        own, never = rng.standard_t(3, 1000) + shift, rng.standard_t(3, 1000)
        return deletion.beside_never_seen((own, never), (own + 1, never)).status == "deviates"

    claim(lambda rng: {"concern": concern(0.0, rng)}, holds={"concern": 0.05})
    claim(lambda rng: {"kept": concern(0.5, rng)}, fails={"kept": 0.05})

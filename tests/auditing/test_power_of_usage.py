"""What a question about usage can show: the forecast against simulated audits."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.auditing import power_of_usage
from miaudit.errors import InputError
from miaudit.metrics import deletion, usage


@pytest.mark.parametrize(("share", "separation"), [(0, 1), (1, 1), (2, 0)])
def test_the_bound_is_about_the_mean_of_simulated_ones(share: int, separation: int) -> None:
    rng, n, decoys = np.random.default_rng(0), 1000, 19
    found = power_of_usage.reach(n, decoys, rng=rng)
    used = int(found.shares[share] * n)
    shift = found.separations[separation] * (np.arange(n) < used)
    shown = [usage.among_decoys(rng.normal(size=n) + shift, rng.normal(size=(n, decoys))).share for _ in range(20)]
    assert found.bounds[share][separation] == pytest.approx(np.mean(shown), abs=0.03)


def test_a_clean_deletion_passes_as_often_as_simulated_ones() -> None:
    rng, n, decoys = np.random.default_rng(0), 800, 19
    forecast = power_of_usage.reach(n, decoys, rng=rng).passes
    shown = [
        deletion.among_decoys(
            (rng.standard_t(3, n), rng.standard_t(3, (n, decoys))),
            (rng.normal(size=n) + 1, rng.normal(size=(n, decoys))),
            rng=rng,
        ).status
        == "equivalent"
        for _ in range(150)
    ]
    assert forecast == pytest.approx(np.mean(shown), abs=0.12)


def test_ranks_are_uniform_without_a_separation_and_a_law_with_one() -> None:
    assert power_of_usage._ranks(4, 0.0) == pytest.approx(np.full(5, 0.2), abs=1e-6)
    law = power_of_usage._ranks(20, 2.0)
    assert law.sum() == pytest.approx(1.0) and law[0] > 0.4


def test_too_few_decoys_test_no_deletion() -> None:
    assert power_of_usage.reach(1000, 3, rng=np.random.default_rng(0)).passes is None


@pytest.mark.parametrize("sizes", [(0, 20), (20, 0), (10**23, 20), (20, 10**9)])
def test_counts_outside_their_range_are_named(sizes: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="expected a whole number of at least 1"):
        power_of_usage.reach(*sizes, rng=np.random.default_rng(0))

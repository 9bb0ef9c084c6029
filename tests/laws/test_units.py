"""What holds of every metric when records belong to units."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.metrics.classical import Sample
from miaudit.metrics.definition import estimates
from miaudit.metrics.definition import names as metric_names
from worlds.scores import WORLDS


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("units", [1, 2, 3, 40])
def test_limits_stay_in_their_range_however_few_the_units(name: str, units: int) -> None:
    rng = np.random.default_rng(units)
    score, member = WORLDS[name].draw(60, 60, rng)
    for unit in (np.arange(120) % units, np.where(member, 0, 1) * units + np.arange(120) % units):
        evidence = Evidence(score=score, member=member, unit=unit)
        for metric, found in estimates(Sample.of(evidence), metric_names((0.01, 0.3)), 0.95).items():
            assert not np.isnan([found.low, found.high]).any()
            if metric != "ate":
                assert 0 <= found.low <= found.high <= 1
            if found.value is not None:
                assert found.low <= found.value <= found.high


@pytest.mark.parametrize("name", WORLDS)
def test_names_of_units_do_not_matter(name: str) -> None:
    rng = np.random.default_rng(5)
    score, member = WORLDS[name].draw(60, 60, rng)
    code = rng.integers(0, 50, 120)
    names = rng.permutation(1000)[code]
    by_number = estimates(Sample.of(Evidence(score=score, member=member, unit=code)), metric_names((0.3,)), 0.95)
    by_name = estimates(
        Sample.of(Evidence(score=score, member=member, unit=[f"u{i}" for i in names])), metric_names((0.3,)), 0.95
    )
    for metric, found in by_number.items():
        other = by_name[metric]
        assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=1e-9)

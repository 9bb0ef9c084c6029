"""Coverage with few replicates, quick enough for every run; tests/slow measures it properly."""

from __future__ import annotations

import pytest

from worlds import coverage
from worlds.clusters import Clusters
from worlds.coverage import run
from worlds.scores import WORLDS

REPLICATES = 304
LEAST, MOST = 0.91, 0.995  # 95% within three standard errors of so few replicates


@pytest.mark.long
@pytest.mark.parametrize("name", ["null", "gaussian", "t3", "unequal_variance", "rounded"])
def test_the_interval_of_a_tpr_covers(name: str) -> None:
    found = run(coverage.tpr, name, 1000, (0.01, 0.1), False, replicates=REPLICATES, seed=40, pool=None)
    assert (found[:, 0] >= LEAST).all()
    assert (found[:, 0] <= MOST).all()
    assert (found[:, 3] < 0.2).all()
    assert 0.01 < WORLDS[name].tpr(0.01) + 1e-9 < 0.99


@pytest.mark.thorough
@pytest.mark.long
def test_an_exact_binomial_at_the_estimated_threshold_does_not() -> None:
    found = run(coverage.tpr, "gaussian", 1000, (0.01, 0.1), True, replicates=REPLICATES, seed=40, pool=None)
    assert (found[:, 0] < 0.88).all()


def test_the_interval_of_the_auc_covers() -> None:
    for d in (1.0, 3.0):
        covered, above, below = run(coverage.auc, d, 100, False, replicates=REPLICATES, seed=41, pool=None)
        assert LEAST <= covered <= MOST
        assert covered == pytest.approx(1 - above - below)
    assert run(coverage.auc, 4.52, 100, True, replicates=REPLICATES, seed=41, pool=None)[0] < 0.8  # control


def test_the_lower_limit_of_the_advantage_holds() -> None:
    for d in (0.0, 1.0):
        _, above, _ = run(coverage.advantage, d, 300, replicates=REPLICATES, seed=42, pool=None)
        assert above <= 0.05


@pytest.mark.long
def test_intervals_of_units_cover_and_those_of_records_do_not() -> None:
    world = Clusters(200, 5, 0.9, 1.0, varying=True)
    found = run(coverage.clusters, world, 0.05, True, replicates=REPLICATES, seed=43, pool=None)
    assert (found[:3] >= LEAST).all()
    assert found[3] <= 0.05
    alone = run(coverage.clusters, world, 0.05, False, replicates=REPLICATES, seed=43, pool=None)
    assert max(alone[0], alone[1], alone[2]) < 0.85


def test_replicates_do_not_depend_on_the_number_of_processes() -> None:
    twice = [run(coverage.auc, 1.0, 50, False, replicates=16, seed=44, pool=None) for _ in range(2)]
    assert (twice[0] == twice[1]).all()
    with pytest.raises(ValueError, match="multiple of 8"):
        run(coverage.auc, 1.0, 50, False, replicates=9, seed=44, pool=None)

"""A Ray cluster of two nodes, one of which is killed while it works: nothing is lost, and the evidence is the same."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from miaudit.jobs import executor
from miaudit.models import shadow
from miaudit.models.targets import SklearnTarget

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


class TwoNodes:
    """A head and a second node on this machine; ``kill`` takes the second one away without a goodbye."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        options = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000}
        self.cluster = Cluster(initialize_head=True, head_node_args=options)
        self.second = self.cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
        self.cluster.wait_for_nodes()
        self.address = self.cluster.address
        self.killed = False

    def kill_once(self, begun: Path, jobs: int) -> threading.Thread:
        """Kill the second node as soon as so many jobs have begun."""

        def wait_and_kill() -> None:
            while len(list(begun.iterdir())) < jobs:
                time.sleep(0.05)
            self.cluster.remove_node(self.second, allow_graceful=False)
            self.killed = True

        thread = threading.Thread(target=wait_and_kill, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def nodes() -> Iterator[TwoNodes]:
    made = TwoNodes()
    yield made
    ray.shutdown()
    made.cluster.shutdown()


def test_jobs_of_a_killed_node_are_done_elsewhere(nodes: TwoNodes, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()

    def task(shared: Any, job: int) -> tuple[str, np.ndarray]:
        import ray

        node = ray.get_runtime_context().get_node_id()
        (Path(shared) / f"{job}-{node}-{os.getpid()}-{time.time_ns()}").touch()
        time.sleep(0.7)
        return node, np.random.default_rng(job).normal(size=50_000)  # large enough to stay on its node

    thread = nodes.kill_once(begun, 4)
    place = executor.Ray(nodes.address, workers=2)
    found = list(executor.outcomes(task, str(begun), list(range(10)), executor=place))
    thread.join(30)
    assert nodes.killed
    assert sorted(one.number for one in found) == list(range(10))
    assert not [one.problem for one in found if one.problem]
    for one in found:
        assert np.array_equal(one.value[1], np.random.default_rng(one.number).normal(size=50_000))
    attempts = [path.name.split("-")[:2] for path in begun.iterdir()]
    assert len({node for _, node in attempts}) == 2  # both nodes had worked
    assert len(attempts) > 10  # the control: something was in flight on the killed one, and was done again


class Slow(LogisticRegression):
    """A classifier that takes its time and says that it began."""

    def __init__(self, begun: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.begun = begun

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> "Slow":
        (Path(self.begun) / str(time.time_ns())).touch()
        time.sleep(0.5)
        fitted: Slow = super().fit(x, y, sample_weight)
        return fitted


def test_shadow_models_of_a_killed_node_are_trained_elsewhere(nodes: TwoNodes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    included = shadow.inclusion(60, 8, rng=rng)
    begun = tmp_path / "begun"
    begun.mkdir()
    target = SklearnTarget(Slow(str(begun)))
    thread = nodes.kill_once(begun, 3)
    place = executor.Ray(nodes.address, workers=2)
    found = shadow.train(target, x, y, included, store=tmp_path / "store", executor=place, seed=1)
    thread.join(30)
    assert nodes.killed
    alone = shadow.train(target, x, y, included, store=tmp_path / "other", seed=1)
    assert np.array_equal(found.block(0, 60), alone.block(0, 60))


class SlowResampling:
    """A generator that takes its time, says that it began, and resamples its records."""

    def __init__(self, begun: str) -> None:
        self.begun = begun

    def __call__(self, table: Any, *, rng: np.random.Generator) -> Any:
        (Path(self.begun) / str(time.time_ns())).touch()
        time.sleep(0.5)
        values = table.values

        class Made:
            def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
                return values[rng.integers(0, len(values), n)]

        return Made()


def test_the_attack_on_generators_survives_a_killed_node(nodes: TwoNodes, tmp_path: Path) -> None:
    from miaudit.synthesis import Column, Schema, Table
    from miaudit.synthesis.retraining_attack.sets import train

    values = (np.random.default_rng(0).random((40, 5)) < 0.4).astype(float)
    table = Table(Schema(tuple(Column(f"c{i}") for i in range(5))), values)
    begun = tmp_path / "begun"
    begun.mkdir()
    options: dict[str, Any] = {"fit": SlowResampling(str(begun)), "repeats": 4, "sets": 3, "set_size": 10}
    thread = nodes.kill_once(begun, 3)
    place = executor.Ray(nodes.address, workers=2)
    found = train(
        table, [1], executor=place, store=tmp_path / "store", key="resampling", rng=np.random.default_rng(1), **options
    )
    thread.join(30)
    assert nodes.killed
    alone = train(table, [1], rng=np.random.default_rng(1), **options)
    assert found.models == alone.models == 8
    for model in range(8):
        assert np.array_equal(np.asarray(found.model(model)), np.asarray(alone.model(model)))

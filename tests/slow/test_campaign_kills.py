"""A campaign of 30 fits on a Ray cluster, whose worker, node, driver or head is killed: the evidence is the same.

Each campaign is a command of its own, as a user would start it, and its evidence is compared to the byte with that of
a serial run on this machine. The driver that goes on runs in another folder, as on another machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]
FITS = 30  # shadow models; the audited model is one more
NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000}
OWN = """\
import os, time
from pathlib import Path

from sklearn.linear_model import LogisticRegression


class Slow(LogisticRegression):
    \"\"\"A classifier that takes its time and says that it began, and in which process.\"\"\"

    def fit(self, x, y, sample_weight=None):
        begun = os.environ.get("BEGUN")
        if begun:
            (Path(begun) / f"{os.getpid()}-{time.time_ns()}").touch()
            time.sleep(0.4)
        return super().fit(x, y, sample_weight)


def slow():
    return Slow()
"""


class Campaign:
    """A folder with a configuration, and the command that makes evidence of it."""

    def __init__(self, folder: Path, begun: Path, store: Path, address: str = "") -> None:
        self.folder, self.begun, self.store = folder, begun, store
        folder.mkdir()
        begun.mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        np.savez(folder / "data.npz", x=rng.normal(size=(80, 4)), y=rng.integers(0, 2, 80))
        (folder / "own.py").write_text(OWN)
        shadow = {"models": FITS, "store": str(store), "workers": 2 if address else 1}
        shadow |= {"executor": "ray", "address": address} if address else {}
        config = {
            "target": {"kind": "sklearn", "estimator": "own:slow"},
            "data": {"path": "data.npz", "x": "x", "y": "y"},
            "shadow": shadow,
            "evaluation": {"seed": 3},
        }
        (folder / "a.yaml").write_text(yaml.safe_dump(config))

    def start(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "miaudit", "collect", "a.yaml", "--out", "evidence.npz"]
        path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(self.folder)])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str], code: int = 0) -> str:
        """Wait for the end; return what was printed to standard error after the note that code runs."""
        out, said = process.communicate(timeout=240)
        assert process.returncode == code, out + said
        note = "miaudit: note: runs code that came with the model: own:slow\n"
        assert said.startswith(note)
        return said.removeprefix(note)

    @property
    def evidence(self) -> bytes:
        return (self.folder / "evidence.npz").read_bytes()

    @property
    def finished(self) -> int:
        return len(list(self.store.glob("model-*.npy")))

    def attempts(self) -> list[int]:
        """The process of each fit that began."""
        return [int(path.name.partition("-")[0]) for path in self.begun.iterdir()]

    def wait_for(self, fits: int) -> None:
        until = time.monotonic() + 120
        while self.finished < fits:
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The evidence of a serial run here."""
    place = tmp_path_factory.mktemp("serial")
    campaign = Campaign(place / "c", place / "begun", place / "store")
    campaign.ended(campaign.start())
    assert campaign.finished == FITS + 1
    return campaign.evidence


class Nodes:
    """A head without a processor, and two nodes with one each."""

    def __init__(self, begun: Path) -> None:
        from ray.cluster_utils import Cluster

        os.environ["BEGUN"] = str(begun)  # nodes hand it on to their workers
        path = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
        self.cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
        self.nodes = [self.cluster.add_node(**NODE) for _ in range(2)]
        self.cluster.wait_for_nodes()
        os.environ["PYTHONPATH"] = path
        self.address = self.cluster.address

    def kill_head(self) -> None:
        """End the head's server, and the node on its machine."""
        self.cluster.head_node.kill_gcs_server(check_alive=False)
        self.cluster.head_node.kill_raylet(check_alive=False)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[[], Nodes]]:
    started = list[Nodes]()
    (tmp_path / "begun").mkdir()

    def start() -> Nodes:
        started.append(Nodes(tmp_path / "begun"))
        return started[-1]

    yield start
    for one in started:
        one.cluster.shutdown()
    os.environ.pop("BEGUN", None)


def begun(tmp_path: Path, cluster: Nodes, name: str = "one") -> Campaign:
    return Campaign(tmp_path / name, tmp_path / "begun", tmp_path / "store", cluster.address)


def test_a_killed_worker(tmp_path: Path, nodes: Callable[[], Nodes], expected: bytes) -> None:
    campaign = begun(tmp_path, nodes())
    process = campaign.start()
    campaign.wait_for(5)
    before = len(campaign.attempts())
    while len(campaign.attempts()) == before:  # one that has just begun
        time.sleep(0.01)
    last = max(campaign.begun.iterdir(), key=lambda path: path.name.partition("-")[2])
    os.kill(int(last.name.partition("-")[0]), signal.SIGKILL)
    said = campaign.ended(process)
    assert campaign.evidence == expected
    assert len(campaign.attempts()) == FITS + 2  # the control: a fit was in flight, and ran again
    assert re.fullmatch(
        r"1 of 31 shadow models ran again, since a process or a node was lost: number \d+; each counts once\n", said
    )


def test_a_killed_node(tmp_path: Path, nodes: Callable[[], Nodes], expected: bytes) -> None:
    cluster = nodes()
    campaign = begun(tmp_path, cluster)
    process = campaign.start()
    campaign.wait_for(5)
    cluster.cluster.remove_node(cluster.nodes[1], allow_graceful=False)
    said = campaign.ended(process)
    assert campaign.evidence == expected
    assert said == "" or "ran again, since a process or a node was lost" in said
    assert said.count("\n") <= 1  # nothing of Ray's own


def test_a_killed_driver_is_taken_up_in_another_folder(
    tmp_path: Path, nodes: Callable[[], Nodes], expected: bytes
) -> None:
    cluster = nodes()
    campaign = begun(tmp_path, cluster)
    process = campaign.start()
    campaign.wait_for(8)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = campaign.finished
    assert 8 <= there < FITS
    before = len(campaign.attempts())
    shutil.move(tmp_path / "store", tmp_path / "elsewhere")  # as another machine would see it
    other = Campaign(tmp_path / "two", tmp_path / "begun", tmp_path / "elsewhere", cluster.address)
    other.ended(other.start())
    assert other.evidence == expected
    assert len(other.attempts()) - before <= FITS + 1 - there + 2  # those that were kept did not run again


def test_a_lost_head_is_one_line_and_another_cluster_goes_on(
    tmp_path: Path, nodes: Callable[[], Nodes], expected: bytes
) -> None:
    cluster = nodes()
    campaign = begun(tmp_path, cluster)
    process = campaign.start()
    campaign.wait_for(8)
    for node in cluster.nodes:  # all of the cluster goes
        cluster.cluster.remove_node(node, allow_graceful=False)
    cluster.kill_head()
    start = time.monotonic()
    said = campaign.ended(process, 1)
    assert time.monotonic() - start < 60
    there = campaign.finished
    assert re.fullmatch(
        rf"miaudit: the head of the Ray cluster at \S+ is lost; log: \S+; {there} of 31 shadow models are finished, "
        rf"and they are kept in {tmp_path / 'store'}: start a cluster, and run the same command to go on\n",
        said,
    ), said
    assert 8 <= there < FITS
    before = len(campaign.attempts())
    other = begun(tmp_path, nodes(), "two")
    other.ended(other.start())
    assert other.evidence == expected
    assert len(other.attempts()) - before == FITS + 1 - there


def test_a_damaged_record_is_noticed(tmp_path: Path, expected: bytes) -> None:
    """The control: one changed bit of one record is another evidence, unless the record's digest is looked at."""
    campaign = Campaign(tmp_path / "one", tmp_path / "begun", tmp_path / "store")
    campaign.ended(campaign.start())
    record = sorted(campaign.store.glob("model-*.npy"))[7]
    whole = record.read_bytes()
    damaged = bytearray(whole)
    damaged[131] ^= 0x20  # the top of the first number
    record.write_bytes(damaged)
    (campaign.folder / "evidence.npz").unlink()
    campaign.ended(campaign.start())
    assert campaign.evidence == expected
    assert record.read_bytes() == whole
    record.write_bytes(bytes(damaged[:-38]))  # as stores of earlier versions are, without a digest
    (campaign.folder / "evidence.npz").unlink()
    campaign.ended(campaign.start())
    assert campaign.evidence != expected

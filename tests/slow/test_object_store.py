"""Campaigns with a store in S3, by its protocol over HTTP: the evidence is that of a local run, to the byte.

Each campaign is a command of its own. The server is moto's, in a thread of this process: what it holds outlives a stop,
as when only the network is away. ``make test-storage`` makes the environment, since s3fs asks for an older
python-dateutil than the other tests have.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

for package in ("s3fs", "moto", "flask_cors"):
    pytest.importorskip(package, reason=f"needs {package}: make test-storage")
pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parents[2] / "src"
FITS = 6  # shadow models; the audited model is one more
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
OWN = """\
import os, time
from pathlib import Path

from sklearn.linear_model import LogisticRegression


class Slow(LogisticRegression):
    def fit(self, x, y, sample_weight=None):
        (Path(os.environ["BEGUN"]) / str(time.time_ns())).touch()
        time.sleep(float(os.environ.get("SLOW", "0")))
        return super().fit(x, y, sample_weight)


def slow():
    return Slow()
"""
TRAIN = """\
import sys
import numpy as np
rows, out = sys.argv[1:]
data, rows = np.load("data.npz"), np.load(rows)
z = data["x"] @ (data["x"][rows].T @ (2 * data["y"][rows] - 1))
np.save(out + "/outputs.npy", np.c_[np.zeros(len(z)), z])
"""


class Server:
    """A server of S3 on this machine, with one bucket."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from moto.server import ThreadedMotoServer
        self._class, self.port = ThreadedMotoServer, 0
        self.start()
        self.request("PUT", "")

    def start(self) -> None:
        self._running = self._class(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._running.start()
        self.port = self._running.get_host_and_port()[1]

    def stop(self) -> None:
        self._running.stop()

    @property
    def environment(self) -> dict[str, str]:
        fixed = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1"}
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", **fixed, **CREDENTIALS}

    def request(self, method: str, key: str, data: bytes | None = None) -> bytes:
        url = f"http://127.0.0.1:{self.port}/bucket{key and '/'}{key}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        # With the type that urllib gives, the server takes the bytes for a form.
        signed = {
            "Content-Type": "application/octet-stream",
            "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request",
        }
        with opener.open(urllib.request.Request(url, data, signed, method=method), timeout=60) as answer:
            return bytes(answer.read())

    def keys(self, prefix: str) -> list[str]:
        """Objects of models below a prefix."""
        found = re.findall(r"<Key>([^<]+)</Key>", self.request("GET", f"?list-type=2&prefix={prefix}/").decode())
        return sorted(key for key in found if "/model-" in key)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.stop()


class Campaign:
    """A folder with a configuration, and commands in it, as on a machine of its own."""

    def __init__(self, folder: Path, server: Server | None = None, store: str = "") -> None:
        self.folder, self.server, self.store = folder, server, store
        (folder / "begun").mkdir(parents=True)
        rng = np.random.default_rng(0)
        np.savez(folder / "data.npz", x=rng.normal(size=(80, 4)), y=rng.integers(0, 2, 80))
        (folder / "own.py").write_text(OWN)
        (folder / "train.py").write_text(TRAIN)
        self.configure({"kind": "sklearn", "estimator": "own:slow"})

    def configure(self, target: dict[str, str]) -> None:
        config = {
            "target": target,
            "data": {"path": "data.npz", "x": "x", "y": "y"},
            "shadow": {"models": FITS, "store": f"s3://bucket/{self.store}" if self.server else "store"},
            "evaluation": {"seed": 3},
        }
        if target["kind"] == "command":
            del config["data"]["x"]
        (self.folder / "a.yaml").write_text(yaml.safe_dump(config))

    def start(self, *words: str, slow: float = 0, **variables: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(SOURCE), str(self.folder)])
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        environment |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "SLOW": str(slow)}
        environment |= {"BEGUN": str(self.folder / "begun"), "HOME": str(self.folder)}
        environment |= {**(self.server.environment if self.server else {}), **variables}
        return subprocess.Popen(
            [sys.executable, "-m", "miaudit", *words],
            cwd=self.folder,
            env={key: value for key, value in environment.items() if value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def collect(self, out: str = "evidence.npz", **options: Any) -> subprocess.Popen[str]:
        return self.start("collect", "a.yaml", "--out", out, **options)

    def run(self, *words: str, **options: Any) -> str:
        return ended(self.start(*words, **options))

    def evidence(self, out: str = "evidence.npz") -> bytes:
        return (self.folder / out).read_bytes()

    @property
    def attempts(self) -> int:
        return len(list((self.folder / "begun").iterdir()))

    def wait_for(self, models: int) -> None:
        until = time.monotonic() + 300
        while len(self.server.keys(self.store)) < models:
            assert time.monotonic() < until
            time.sleep(0.05)


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for the end; return what was printed, to standard error if the command failed."""
    out, said = process.communicate(timeout=500)
    assert process.returncode == code, out + said
    notes = "\n".join(line for line in said.splitlines() if ": note: runs code that came with the model" not in line)
    return notes if code else out


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The evidence of a run with its store in a folder."""
    campaign = Campaign(tmp_path_factory.mktemp("local") / "c")
    ended(campaign.collect())
    assert campaign.attempts == FITS + 1
    return campaign.evidence()


def test_a_part_a_killed_driver_and_another_machine(tmp_path: Path, server: Server, expected: bytes) -> None:
    first = Campaign(tmp_path / "first", server, "killed")
    said = first.run("collect", "a.yaml", "--part", "1/3")
    assert "Part 1/3: 3 of 7 models are in s3://bucket/killed" in said
    process = first.collect(slow=3)
    first.wait_for(4)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = len(server.keys("killed"))
    assert 4 <= there < FITS + 1
    other = Campaign(tmp_path / "other", server, "killed")
    ended(other.collect())
    assert other.evidence() == expected
    assert other.attempts == FITS + 1 - there  # those that were kept did not run again


def test_a_damaged_object_is_noticed(tmp_path: Path, server: Server, expected: bytes) -> None:
    """Damage is trained again; the control has no digest, as stores of earlier versions, and is another evidence."""
    campaign = Campaign(tmp_path / "one", server, "damaged")
    ended(campaign.collect())
    assert campaign.evidence() == expected
    key = server.keys("damaged")[3]
    whole = server.request("GET", key)
    damaged = bytearray(whole)
    for at in range(128 + 2, len(whole) - 38, 4):
        damaged[at] ^= 0x40  # a high bit of each number
    server.request("PUT", key, bytes(damaged))
    ended(campaign.collect("mended.npz"))
    assert campaign.evidence("mended.npz") == expected
    assert server.request("GET", key) == whole
    assert campaign.attempts == FITS + 2
    server.request("PUT", key, bytes(damaged[:-38]))
    ended(campaign.collect("wrong.npz"))
    assert campaign.evidence("wrong.npz") != expected


def test_two_drivers_at_once(tmp_path: Path, server: Server, expected: bytes) -> None:
    both = [Campaign(tmp_path / name, server, "both") for name in ("one", "two")]
    processes = [campaign.collect(slow=0.3) for campaign in both]
    for campaign, process in zip(both, processes, strict=True):
        ended(process)
        assert campaign.evidence() == expected
    assert len(server.keys("both")) == FITS + 1


def test_the_network_goes_away_and_comes_back(tmp_path: Path, expected: bytes) -> None:
    server = Server()
    campaign = Campaign(tmp_path / "one", server, "away")
    process = campaign.collect(slow=2)
    campaign.wait_for(2)
    server.stop()
    start = time.monotonic()
    said = ended(process, 1)
    assert time.monotonic() - start < 180
    assert re.fullmatch(
        r"miaudit: s3://bucket/away/model-\S+\.npy: cannot be written \(.+\); what was finished before is kept there: "
        r"check its name, your credentials and the network, and run again",
        said,
    ), said
    assert not (campaign.folder / "evidence.npz").exists()
    server.start()
    try:
        before, there = campaign.attempts, len(server.keys("away"))
        assert 2 <= there < FITS + 1
        ended(campaign.collect())
        assert campaign.evidence() == expected
        assert campaign.attempts - before == FITS + 1 - there
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("store", "variables", "reason"),
    [
        ("keyless", dict.fromkeys(CREDENTIALS, ""), "Unable to locate credentials"),
        ("../nowhere/run", {}, "The specified bucket does not exist"),
        ("unreachable", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect to the endpoint URL"),
    ],
    ids=["credentials", "bucket", "network"],
)
def test_what_cannot_be_reached_is_one_line_before_the_first_fit(
    tmp_path: Path, server: Server, store: str, variables: dict[str, str], reason: str
) -> None:
    campaign = Campaign(tmp_path / "one", server, store)
    config = campaign.folder / "a.yaml"
    config.write_text(config.read_text().replace("bucket/../", ""))
    said = ended(campaign.collect(**variables), 1)
    assert reason in said and "check its name, your credentials and the network" in said
    assert "\n" not in said
    assert campaign.attempts == 0


def test_draw_and_gather_make_the_evidence_of_a_store_in_s3(tmp_path: Path, server: Server) -> None:
    campaign = Campaign(tmp_path / "one", server, "drawn")
    command = f"{sys.executable} train.py {{rows}} {{out}}"
    campaign.configure({"kind": "command", "command": command, "outputs": "logits"})
    campaign.run("draw", "a.yaml", "--out", "fits")
    lines = (campaign.folder / "fits" / "commands.txt").read_text().splitlines()
    assert len(lines) == FITS + 1
    for line in lines:
        subprocess.run(line, shell=True, check=True, cwd=campaign.folder)
    campaign.run("gather", "fits", "--out", "gathered.npz")
    assert server.keys("drawn") == []  # what a scheduler runs needs no store
    campaign.run("collect", "a.yaml", "--part", "2/2")
    ended(campaign.collect())
    assert len(server.keys("drawn")) == FITS + 1
    assert campaign.evidence() == campaign.evidence("gathered.npz")


STORED = """\
import sys
import numpy as np
from miaudit.errors import InputError
from miaudit.io import storage

store = storage.folder("s3://bucket/many")
assert store.names() == set(), store.names()  # with the object that stands for a folder
store.filesystem.pipe({f"bucket/many/{i:04}.npy": b"%d" % i for i in range(1205)})
names = [f"{i:04}.npy" for i in range(1205)]
assert store.names() == set(names)  # two pages of a listing
found = {name: path.read_bytes() for name, path in store.fetched([*names, "absent"])}
assert found == {name: b"%d" % i for i, name in enumerate(names)}
large = np.random.default_rng(0).normal(size=14_000_000)  # in parts, which become one object at the end
store.write("large.npy", lambda handle: storage.write_array(handle, large))
_, path = next(storage.folder("s3://bucket/many").fetched(["large.npy"]))
assert storage.verified(path) and np.array_equal(np.load(path), large)
odd = storage.folder("s3://bucket/odd [1]* name")
odd.write("a.npy", lambda handle: handle.write(b"a"))
assert [path.read_bytes() for _, path in storage.folder(odd.url).fetched(["a.npy"])] == [b"a"]
print("all")
"""


def test_many_objects_a_large_one_and_one_that_stands_for_a_folder(tmp_path: Path, server: Server) -> None:
    server.request("PUT", "many/", b"")
    campaign = Campaign(tmp_path / "one", server, "many")
    environment = {**os.environ, **server.environment, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", STORED],
        env=environment,
        cwd=campaign.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "all\n", done.stderr

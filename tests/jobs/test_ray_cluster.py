"""Jobs on a Ray cluster: what is asked and sent, what is lost, and where Ray's own words go."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.jobs import executor, ray_cluster
from miaudit.jobs.resources import Resources

JOBS = list(range(7))


def draw(shared, job):
    """A task as it should be: random numbers from its own seed only."""
    return float(shared[job] + np.random.default_rng(job).normal())


def draw_here():
    """The same task as a closure, which travels by value: a test module is not importable elsewhere."""

    def task(shared, job):
        return float(shared[job] + np.random.default_rng(job).normal())

    return task


def values(task, shared, jobs=JOBS, **options):
    found = {one.number: one for one in executor.outcomes(task, shared, jobs, **options)}
    assert sorted(found) == list(range(len(jobs)))
    return [found[i] for i in range(len(jobs))]


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_ray_address_that_does_not_answer_is_refused_at_once(scheme: str) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:  # bound, not listening: nobody else opens it meanwhile
        taken.bind(("127.0.0.1", 0))
        start = time.monotonic()
        with pytest.raises(InputError, match=r"a Ray cluster that answers, received .*refused.*ray start --head"):
            values(draw_here(), np.arange(7.0), executor=executor.Ray(f"{scheme}127.0.0.1:{taken.getsockname()[1]}"))
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_ray_ends_a_job_that_hangs_and_has_what_was_asked() -> None:
    ray = pytest.importorskip("ray")

    def task(shared, job):
        import ray

        if job == 1:
            time.sleep(120)
        return ray.get_runtime_context().get_assigned_resources(), os.getpid()

    each = Resources(threads=2, timeout=5, memory=0.1)
    found = values(task, None, JOBS[:3], executor=executor.Ray("", 2, each))
    assert found[1].problem == "took longer than timeout, 5 s, and was ended"
    assert "in task" in found[1].where
    for one in (found[0], found[2]):
        assert one.problem == ""
        assert one.value[0]["CPU"] == 2
        assert one.value[0]["memory"] == 1e8
    assert not ray.is_initialized()
    with pytest.raises(
        InputError, match=r"gpus: expected at most .*, the most that a node of the cluster has, received 64"
    ):
        values(task, None, JOBS[:3], executor=executor.Ray("", 2, Resources(gpus=64)))


@pytest.mark.slow
def test_ray_has_the_modules_of_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a network's factory is: named by a text, in a file that no other process could import."""
    pytest.importorskip("ray")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "module_of_theirs.py").write_text("import part_of_theirs\nsaid = part_of_theirs.said\n")
    (tmp_path / "mine" / "part_of_theirs.py").write_text("said = 'hello'\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def task(shared, job):
        import importlib

        return importlib.import_module("module_of_theirs").said

    shipped = values(task, None, [0, 1], executor=executor.Ray("", 2, folder=tmp_path / "mine"))
    assert [one.value for one in shipped] == ["hello", "hello"]
    control = values(task, None, [0], executor=executor.Ray("", 2))
    assert "module_of_theirs" in control[0].problem


@pytest.mark.slow
def test_ray_gives_the_same_and_names_what_fails_and_dies() -> None:
    pytest.importorskip("ray")

    def task(shared, job):
        if job == 2:
            os._exit(1)
        if job == 3:
            raise ArithmeticError("diverged")
        return float(shared[job] + np.random.default_rng(job).normal())

    data = np.arange(7.0)
    found = values(task, data, executor="ray", workers=2)
    expected = [draw(data, job) if job not in (2, 3) else None for job in JOBS]
    assert [one.value for one in found] == expected
    assert "worker process died" in found[2].problem
    assert found[3].problem == "ArithmeticError: diverged"


def test_a_cluster_without_the_module_is_one_line() -> None:
    told = (
        "\x1b[36mray::_perform_on_ray()\x1b[39m (pid=4677) At least one of the input arguments for this task could "
        "not be computed: System error: No module named 'mine.nets'\ntraceback: Traceback (most recent call last):\n"
    )
    assert ray_cluster._of_the_cluster(RuntimeError(told)) == (
        "the cluster has no module mine.nets: put it beside the configuration file, or install it there"
    )
    assert ray_cluster._of_the_cluster(OSError("\x1b[36mray\x1b[39m: lost\nagain")) == "OSError: ray: lost again"


def a_log() -> ray_cluster._Log:
    return ray_cluster._Log(Path("ray.log"))


def test_a_head_that_is_silent_for_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        head = ray_cluster._Head(f"127.0.0.1:{taken.getsockname()[1]}", a_log())
        assert not head.look()
        taken.listen()
        assert head.look()  # it came back
        assert not np.isfinite(head.silent_since)
    monkeypatch.setattr(ray_cluster, "_HEAD_SECONDS", 0.2)
    begin = time.monotonic()
    with pytest.raises(executor.ClusterLostError, match=r"the head of the Ray cluster at 127.0.0.1:\d+ is lost; log: "):
        head.require()
    assert 0.2 <= time.monotonic() - begin < 5
    assert head.log.needed and head.log.stays


PRINTS = """\
import os, sys
from miaudit.jobs import ray_cluster
with ray_cluster._log() as log:
    os.write(2, b"what Ray says\\n")
    print("what Python says", file=sys.stderr)
    print("read:", log.path.read_text().strip())
    log.needed = len(sys.argv) > 1
os.write(2, b"afterwards\\n")
print("kept:", log.path.exists(), log.path)
"""


@pytest.mark.long
@pytest.mark.parametrize("kept", [False, True])
def test_what_ray_prints_goes_to_a_file_and_what_python_prints_does_not(kept: bool) -> None:
    words = [sys.executable, "-c", PRINTS, *(["kept"] * kept)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == "what Python says\nafterwards\n"
    assert "read: what Ray says\n" in done.stdout
    assert f"kept: {kept} " in done.stdout
    with contextlib.suppress(FileNotFoundError):
        Path(done.stdout.split()[-1]).unlink()

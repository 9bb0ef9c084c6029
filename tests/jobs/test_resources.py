"""What each job is given: GPUs that are dealt from a list, and options that are refused in one line."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.jobs import executor, resources
from miaudit.jobs.resources import Gpu, Resources

SPLIT = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)
  MIG 1g.5gb      Device  0: (UUID: MIG-a1)
  MIG 1g.5gb      Device  1: (UUID: MIG-a2)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bb)
"""


def test_gpus_are_read_off_what_the_driver_lists() -> None:
    name = "NVIDIA A100-SXM4-40GB"
    assert resources.listed(SPLIT) == (Gpu("MIG-a1", name), Gpu("MIG-a2", name), Gpu("GPU-bb", name))
    assert resources.listed("NVIDIA-SMI has failed because it couldn't communicate with the driver\n") == ()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the driver's name that lists two GPUs, one of them split."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{SPLIT}END\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    resources.gpus.cache_clear()
    yield
    resources.gpus.cache_clear()


@pytest.mark.skipif(os.name != "posix", reason="a shell script")
def test_what_is_visible_is_what_the_variable_says_else_what_the_driver_lists(
    driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resources.visible() == ("MIG-a1", "MIG-a2", "GPU-bb")
    for told, expected in (("1", ("1",)), ("", ()), ("0,-1,1", ("0",)), ("GPU-bb, MIG-a1", ("GPU-bb", "MIG-a1"))):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
        assert resources.visible() == expected


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("workers", [1, 2, 5, 16])
def test_gpus_dealt_in_turn_are_shared_evenly(count: int, workers: int) -> None:
    seen = [f"GPU-{i}" for i in range(count)]
    dealt = resources.dealt(seen, workers, None)
    held = Counter(dealt)
    assert set(held) <= set(seen)
    assert max(held.values()) - min(held[one] for one in seen) <= 1


@pytest.mark.parametrize("each", [1, 2, 3, 0.5, 0.25])
def test_no_gpu_is_given_out_more_than_once(each: float) -> None:
    seen = [str(i) for i in range(6)]
    most = int(6 / each) if each < 1 else 6 // int(each)
    dealt = resources.dealt(seen, most, each)
    held = Counter(one for devices in dealt for one in (devices or "").split(","))
    assert max(held.values()) * min(each, 1) <= 1
    assert {len((devices or "").split(",")) for devices in dealt} == {max(1, int(each))}
    with pytest.raises(InputError, match=f"workers: expected at most {most}, with {each:g} of 6 GPUs"):
        resources.dealt(seen, most + 1, each)


def test_a_gpu_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match="gpus: expected at most the 0 GPUs that this machine shows, received 1 for"):
        resources.dealt([], 1, 1)
    with pytest.raises(InputError, match="gpus: expected at most the 1 GPU that this machine shows, received 2 for"):
        resources.dealt(["0"], 1, 2)


@pytest.mark.parametrize(
    "options",
    [
        *({"threads": value} for value in (0, 1.5, True)),
        *({"retries": value} for value in (-1, 0.5)),
        *({"gpus": value} for value in (-1, 1.5, float("nan"))),
        *({name: value} for name in ("cpus", "memory", "timeout") for value in (0, -1.0, float("inf"))),
    ],
)
def test_bad_options_are_refused_by_name(options) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(options))}: expected"):
        Resources(**options)


@pytest.mark.thorough
@pytest.mark.long
def test_workers_see_the_gpus_that_they_were_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is set when a worker starts: no CUDA is asked, so any names will do."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x,GPU-y")

    def task(shared, job):
        import time

        time.sleep(0.3)
        return os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()

    def seen(**options):
        found = list(executor.outcomes(task, None, list(range(8)), executor=executor.Local(**options)))
        assert not [one.problem for one in found if one.problem]
        return [one.value for one in found]

    dealt = seen(workers=2)
    assert {devices for devices, _ in dealt} == {"GPU-x", "GPU-y"}
    assert len(set(dealt)) == 2  # a process keeps its own
    assert {devices for devices, _ in seen(workers=2, deals=False)} == {"GPU-x,GPU-y"}
    assert {devices for devices, _ in seen(workers=2, each=Resources(gpus=0))} == {""}
    assert {devices for devices, _ in seen(workers=1, each=Resources(gpus=2))} == {"GPU-x,GPU-y"}
    assert {devices for devices, _ in seen(workers=1)} == {"GPU-x,GPU-y"}  # this process
    with pytest.raises(InputError, match="workers: expected at most 2"):
        seen(workers=3, each=Resources(gpus=1))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_threads_are_as_many_as_was_said(workers: int) -> None:
    def task(shared, job):
        from threadpoolctl import threadpool_info

        from miaudit.jobs import resources

        np.ones((50, 50)) @ np.ones((50, 50))
        pools = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return resources.threads(), os.environ.get("OMP_NUM_THREADS"), max(pools, default=2)

    place = executor.Local(workers, Resources(threads=2))
    found = [one.value for one in executor.outcomes(task, None, [0, 1, 2], executor=place)]
    assert {one[0] for one in found} == {2}
    if workers > 1:
        assert {one[1] for one in found} == {"2"}
        assert {one[2] for one in found} <= {1, 2}
    assert resources.threads() == 1

"""The example of a job array: tasks in processes share a store, by a stand-in for the scheduler; one is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

EXAMPLE = Path(__file__).parents[1] / "examples" / "array"
needs_xargs = pytest.mark.skipif(shutil.which("xargs") is None, reason="needs bash and xargs")


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    source = str(EXAMPLE.parents[1] / "src")
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", **variables}
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{here}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example with few records and models, and a command of the name miaudit."""
    for file in EXAMPLE.iterdir():
        if file.suffix in (".sh", ".yaml"):
            shutil.copy(file, tmp_path)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "digits.npz", pixels=rng.normal(size=(60, 4)), digit=rng.integers(0, 2, 60))
    config = yaml.safe_load((tmp_path / "audit.yaml").read_text())
    config["shadow"]["models"] = 4
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "miaudit"
    command.write_text(f'#!/bin/bash\nexec {sys.executable} -m miaudit "$@"\n')
    command.chmod(0o755)
    return tmp_path


@needs_xargs
@pytest.mark.thorough
@pytest.mark.long
def test_tasks_of_an_array_train_all_models_and_one_command_makes_the_evidence(example: Path) -> None:
    done = run(example, "bash", "run_here.sh", "3", "2")
    assert done.returncode == 0, done.stderr
    parts = sorted(line for line in done.stdout.splitlines() if line.startswith("Part "))
    store = example / "store"
    assert parts == [f"Part {i}/3: {own} of 5 models are in {store}" for i, own in ((1, 2), (2, 2), (3, 1))]
    assert len(list(store.glob("model-*.npy"))) == 5
    collected = run(example, "miaudit", "collect", "audit.yaml", "--dry-run")
    assert "0 fits (5 more are there)" in collected.stdout
    assert run(example, "miaudit", "collect", "audit.yaml", "--out", "e.npz").returncode == 0
    shutil.rmtree(store)
    assert run(example, "miaudit", "collect", "audit.yaml", "--out", "alone.npz").returncode == 0
    assert (example / "e.npz").read_bytes() == (example / "alone.npz").read_bytes()


@needs_xargs
@pytest.mark.thorough
@pytest.mark.long
def test_a_pod_of_kubernetes_has_the_same_script(example: Path) -> None:
    job = yaml.safe_load((example / "kubernetes.yaml").read_text())
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["TASKS"] == str(job["spec"]["completions"])
    assert Path(container["command"][1]).name == "task.sh"
    pod = {"TASKS": "5", "JOB_COMPLETION_INDEX": "4", "CONFIG": "audit.yaml"}
    done = run(example, "bash", "task.sh", **pod)
    assert "Part 5/5: 1 of 5 models are in" in done.stdout, done.stderr
    without = run(example, "bash", "task.sh", TASKS="5")
    assert without.returncode != 0
    assert "set SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX" in without.stderr

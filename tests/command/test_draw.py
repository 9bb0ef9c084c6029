"""A training script of one's own from configuration to evidence: local processes, and files for any scheduler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.io import atomic

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]
Call = Callable[..., str]
TRAIN = """\
import argparse, os, pathlib
import numpy as np
p = argparse.ArgumentParser()
for name in ("--rows", "--seed", "--out"):
    p.add_argument(name)
a = p.parse_args()
data, rows, out = np.load("data.npz"), np.load(a.rows), pathlib.Path(a.out)
with open(os.environ.get("CALLS", os.devnull), "a") as calls:
    calls.write("x")
x, y = data["x"], data["y"]
w = np.random.default_rng(int(a.seed)).normal(size=x.shape[1]) / 10
for row in rows.repeat(3):  # one after another: their order counts
    w += 0.2 * (y[row] - 1 / (1 + np.exp(-x[row] @ w))) * x[row]
z = x @ w
if os.environ.get("SLOW"):
    import time; time.sleep(float(os.environ["SLOW"]))
if "losses" in os.environ.get("KIND", ""):
    np.save(out / "outputs.npy", np.logaddexp(0, np.where(y == 1, -z, z)))
else:
    np.save(out / "outputs.npy", np.c_[np.zeros(len(z)), z])
np.save(out / "ids.npy", data["name"])
"""
CONFIG = """\
target:
  kind: command
  command: "{python} train.py --rows {{rows}} --seed {{seed}} --out {{out}}"
  outputs: {outputs}
  env: {{KIND: {outputs}}}
data: {{path: data.npz, y: y, ids: name}}
{more}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    rng = np.random.default_rng(0)
    x, names = rng.normal(size=(60, 5)), np.array([f"p{i}" for i in range(60)])
    np.savez(folder / "data.npz", x=x, y=(x[:, 0] + rng.normal(size=60) > 0).astype(int), name=names)
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    configured(folder)
    return folder


def configured(folder: Path, more: str = "shadow: {models: 4}", outputs: str = "logits", name: str = "a.yaml") -> None:
    text = CONFIG.format(python=sys.executable, outputs=outputs, more=more)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def miaudit(run: Run, monkeypatch: pytest.MonkeyPatch) -> Call:
    def call(folder: Path, *arguments: str, code: int = 0) -> str:
        monkeypatch.chdir(folder)
        found, out, err = run(*arguments)
        assert found == code, out + err
        return err if code else out

    return call


def run_all(folder: Path, fits: str = "fits") -> None:
    subprocess.run(["bash", f"{fits}/commands.txt"], cwd=folder, check=True)


def folders(folder: Path, fits: str = "fits") -> list[Path]:
    return sorted((folder / fits / "fits").iterdir())


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("outputs", "more"),
    [
        ("logits", "shadow: {models: 4}\nstability: {pairs: 2}"),
        ("losses", "shadow: {models: 4}"),
    ],
)
def test_local_processes_workers_and_files_give_the_same_bytes(
    place: Path, miaudit: Call, outputs: str, more: str
) -> None:
    configured(place, more, outputs)
    configured(place, more.replace("models: 4", "models: 4, workers: 2, store: store"), outputs, "two.yaml")
    miaudit(place, "collect", "a.yaml", "--out", "one.npz")
    miaudit(place, "collect", "two.yaml", "--out", "two.npz")
    said = miaudit(place, "draw", "a.yaml", "--out", "fits")
    lines = (place / "fits" / "commands.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == (7 if "stability" in more else 5)
    assert f"{len(lines)} fits" in said
    run_all(place)
    told = miaudit(place, "gather", "fits", "--out", "gathered.npz")
    assert (place / "one.npz").read_bytes() == (place / "two.npz").read_bytes()
    assert (place / "one.npz").read_bytes() == (place / "gathered.npz").read_bytes()
    assert ("alpha" in told) == ("stability" in more)
    for fit in folders(place):
        rows = np.load(fit / "rows.npy")
        assert rows.dtype == np.int64
        assert rows.max() < 60


SBATCH = """\
#!/bin/bash
# What SLURM does with an array: each task has its number, and GPUs of its own.
last=$(sed -n 's/^#SBATCH --array=0-//p' "$1")
for ((task = last; task >= 0; task--)); do
  SLURM_ARRAY_TASK_ID=$task CUDA_VISIBLE_DEVICES=$((task % 2)) bash "$1" || echo "$task" >> failed-tasks
done
"""


def asked_of_slurm(folder: Path) -> dict[str, str]:
    lines = (folder / "fits" / "slurm.sh").read_text(encoding="utf-8").splitlines()
    options = [line.removeprefix("#SBATCH --").partition("=") for line in lines if line.startswith("#SBATCH")]
    return {name: value for name, _, value in options}


def by_slurm(folder: Path) -> None:
    """Hand the example to a stand-in for sbatch."""
    tool = folder / "bin" / "sbatch"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(SBATCH, encoding="utf-8")
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-n", "fits/slurm.sh"], cwd=folder, check=True)
    subprocess.run(["sbatch", "fits/slurm.sh"], cwd=folder, check=True, env={**os.environ, "PATH": path})


@pytest.mark.thorough
@pytest.mark.long
def test_the_example_for_slurm_makes_what_local_processes_make(place: Path, miaudit: Call) -> None:
    miaudit(place, "collect", "a.yaml", "--out", "one.npz")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    assert asked_of_slurm(place) == {
        "job-name": "miaudit",
        "array": "0-4",
        "cpus-per-task": "1",
        "time": "1440",
        "output": "/dev/null",
    }
    by_slurm(place)
    assert not (place / "failed-tasks").exists()
    miaudit(place, "gather", "fits", "--out", "g.npz")
    assert (place / "one.npz").read_bytes() == (place / "g.npz").read_bytes()


@pytest.mark.thorough
@pytest.mark.long
def test_the_example_for_slurm_asks_for_what_a_fit_is_given(
    place: Path, miaudit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from a machine without a GPU: which one a fit gets is the scheduler's to say."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    seen = "open(out.parent / 'gpus', 'w').write(os.environ.get('CUDA_VISIBLE_DEVICES', 'unset'))\n"
    (place / "train.py").write_text(TRAIN + seen, encoding="utf-8")
    configured(place, "shadow: {models: 4, executor: ray, cpus: 3.5, memory: 1.5, gpus: 0.5, timeout: 90}")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    asked = asked_of_slurm(place)
    assert (asked["cpus-per-task"], asked["gres"], asked["mem"], asked["time"]) == ("4", "gpu:1", "1500M", "2")
    configured(place)
    own = "  gpus: 2\n  threads: 6\n  timeout: 3600\ndata:"
    (place / "a.yaml").write_text((place / "a.yaml").read_text().replace("data:", own), encoding="utf-8")
    miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    asked = asked_of_slurm(place)
    assert (asked["cpus-per-task"], asked["gres"], asked["time"]) == ("6", "gpu:2", "60")
    assert "mem" not in asked
    by_slurm(place)
    assert [(fit / "gpus").read_text() for fit in folders(place)] == ["0", "1", "0", "1", "0"]
    (place / "a.yaml").write_text((place / "a.yaml").read_text().replace("gpus: 2", "gpus: 0"), encoding="utf-8")
    miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    assert "gres" not in asked_of_slurm(place)
    by_slurm(place)
    assert {(fit / "gpus").read_text() for fit in folders(place)} == {""}


@pytest.mark.thorough
@pytest.mark.long
def test_more_fits_than_an_array_may_have_tasks_are_run_by_turns(
    place: Path, miaudit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from miaudit.collect import drawn

    monkeypatch.setattr(drawn, "_TASKS", 2)
    miaudit(place, "collect", "a.yaml", "--out", "one.npz")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    assert asked_of_slurm(place)["array"] == "0-1"
    assert asked_of_slurm(place)["time"] == str(3 * 1440)
    by_slurm(place)
    miaudit(place, "gather", "fits", "--out", "g.npz")
    assert (place / "one.npz").read_bytes() == (place / "g.npz").read_bytes()
    script = place / "train.py"
    script.write_text(TRAIN.replace("rows.repeat(3)", "rows.repeat(3) if 7 in rows else [None, 'oh']"))
    miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    by_slurm(place)
    failed = [fit for fit in folders(place) if (fit / "failed.txt").exists()]
    assert 0 < len(failed) < 5  # and took none with them
    assert all((fit / "out" / "outputs.npy").exists() != (fit in failed) for fit in folders(place))
    assert (place / "failed-tasks").exists()


@pytest.mark.long
def test_a_multi_run_by_files_is_that_of_local_processes(place: Path, miaudit: Call) -> None:
    more = "evaluation: {design: multi-run}"
    configured(place, more)
    (place / "a.yaml").write_text((place / "a.yaml").read_text().replace("ids: name", "ids: name, records: 4"))
    miaudit(place, "collect", "a.yaml", "--out", "one.npz")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    run_all(place)
    miaudit(place, "gather", "fits", "--out", "g.npz")
    assert (place / "one.npz").read_bytes() == (place / "g.npz").read_bytes()
    (folders(place)[2] / "out" / "outputs.npy").unlink()
    assert "not model 2" in miaudit(place, "gather", "fits", "--out", "h.npz", "--partial", code=1)


def test_a_swap_is_the_replacement_in_the_place_of_the_replaced(place: Path, miaudit: Call) -> None:
    configured(place, "shadow: {models: 4}\nstability: {pairs: 2}")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    audited = np.load(folders(place)[0] / "rows.npy")
    manifest = json.loads((place / "fits" / "manifest.json").read_text(encoding="utf-8"))
    again = [fit for fit in manifest["fits"] if fit["group"] == "stability"]
    assert len(again) == 2
    for fit in again:
        assert fit["seed"] == manifest["fits"][0]["seed"]
        rows = np.load(place / "fits" / fit["folder"] / "rows.npy")
        assert (rows != audited).sum() == 1
        assert rows[rows != audited][0] not in audited


@pytest.mark.thorough
def test_a_killed_campaign_trains_only_what_is_missing(
    place: Path, miaudit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(place, "shadow: {models: 6, store: store}")
    calls = place / "calls"
    variables = {"CALLS": str(calls), "SLOW": "0.5"}
    work = subprocess.Popen(
        [sys.executable, "-m", "miaudit", "collect", "a.yaml", "--out", "e.npz"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while len(list((place / "store").glob("model-*.npy"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    work.kill()
    work.wait()
    there = len(list((place / "store").glob("model-*.npy")))
    assert 3 <= there < 7
    calls.write_text("", encoding="utf-8")
    monkeypatch.setenv("CALLS", str(calls))
    miaudit(place, "collect", "a.yaml", "--out", "e.npz")
    assert len(calls.read_text(encoding="utf-8")) == 7 - there
    configured(place, "shadow: {models: 6}")
    miaudit(place, "collect", "a.yaml", "--out", "whole.npz")
    assert (place / "e.npz").read_bytes() == (place / "whole.npz").read_bytes()


@pytest.mark.long
def test_a_gather_names_what_is_missing_stale_or_failed_and_goes_on_only_when_told(place: Path, miaudit: Call) -> None:
    configured(place, "shadow: {models: 8}")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    said = miaudit(place, "gather", "fits", "--out", "e.npz", code=1)
    assert "9 of 9 fits are missing: model 0, model 1" in said
    assert said.count("\n") == 1  # no code runs, so none is announced
    run_all(place)
    missing, stale, bad = folders(place)[2], folders(place)[4], folders(place)[5]
    (missing / "out" / "outputs.npy").unlink()
    np.save(stale / "rows.npy", np.arange(3))
    np.save(bad / "out" / "outputs.npy", np.full((60, 2), np.nan))
    said = last(miaudit(place, "gather", "fits", "--out", "e.npz", code=1))
    assert "1 of 9 fits is missing: model 2" in said
    assert "1 of 9 fits is stale: model 4" in said
    assert "1 of 9 fits is unusable: model 5" in said
    assert "NaN" in said
    assert "run lines 3, 5, 6 of commands.txt again, or add --partial" in said
    assert not (place / "e.npz").exists()
    told = miaudit(place, "gather", "fits", "--out", "e.npz", "--partial")
    assert "A partial gather: 1 of 9 fits is missing: model 2" in told
    assert "5 shadow models" in told
    (folders(place)[0] / "failed.txt").write_text("3\n", encoding="utf-8")
    said = last(miaudit(place, "gather", "fits", "--out", "f.npz", "--partial", code=1))
    assert "1 of 9 fits failed: model 0 (the first: its command ended with exit code 3" in said
    assert "not model 0, the audited one" in said


@pytest.mark.long
def test_a_fit_that_began_and_left_nothing_is_named_with_its_log(place: Path, miaudit: Call) -> None:
    (place / "train.py").write_text(TRAIN.replace("out / ", "pathlib.Path() / "), encoding="utf-8")
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    line = (place / "fits" / "commands.txt").read_text(encoding="utf-8").splitlines()[0]
    subprocess.run(["bash", "-c", line], cwd=place, check=True)
    said = last(miaudit(place, "gather", "fits", "--out", "e.npz", code=1))
    assert "5 of 5 fits are missing: model 0, model 1, model 2, model 3, model 4 (the first: it began, and " in said
    assert f"no outputs.npy in its folder out, though there is one in {place}, where it ran; log: " in said
    assert Path(said.partition("; log: ")[2].partition(")")[0]).is_file()


@pytest.mark.parametrize("change", ["a column more", "another name", "fewer rows"])
def test_a_gather_with_another_table_is_one_line(place: Path, miaudit: Call, change: str) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    with np.load(place / "data.npz") as data:
        table = dict(data)
    if change == "a column more":
        table["more"] = table["y"]
    elif change == "another name":
        table["label"] = table.pop("y")
    else:
        table = {name: values[:50] for name, values in table.items()}
    np.savez(place / "data.npz", **table)
    said = miaudit(place, "gather", "fits", "--out", "e.npz", code=1)
    assert said.count("\n") == 1
    if change == "another name":
        assert "y: expected a column of data.npz, received a name that is not there" in said
    else:
        assert "stale ones: data.npz changed since the draw; put it back as it was, or draw and train again" in said
    assert not (place / "e.npz").exists()


@pytest.mark.long
def test_too_few_shadow_models_are_no_audit(place: Path, miaudit: Call) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    run_all(place)
    (folders(place)[3] / "out" / "outputs.npy").unlink()
    said = last(miaudit(place, "gather", "fits", "--out", "e.npz", "--partial", code=1))
    assert "shadow.models: expected 4 or more, for lira_online, received 3" in said


@pytest.mark.long
def test_a_line_that_fails_says_so_and_takes_no_other_with_it(place: Path, miaudit: Call) -> None:
    script = place / "train.py"
    script.write_text(TRAIN.replace("rows.repeat(3)", "rows.repeat(3) if 7 in rows else [None, 'oh']"))
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    subprocess.run(["bash", "fits/commands.txt"], cwd=place, check=False)
    failed = [fit for fit in folders(place) if (fit / "failed.txt").exists()]
    assert 0 < len(failed) < 5
    assert all((fit / "out" / "outputs.npy").exists() != (fit in failed) for fit in folders(place))
    said = last(miaudit(place, "gather", "fits", "--out", "e.npz", code=1))
    assert f"{len(failed)} of 5 fits failed" in said
    assert "ValueError" in said


@pytest.mark.long
def test_a_gather_of_another_draw_is_refused(place: Path, miaudit: Call) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    run_all(place)
    script, config = place / "train.py", place / "a.yaml"
    script.write_text(TRAIN + "# edited\n", encoding="utf-8")
    said = last(miaudit(place, "gather", "fits", "--out", "e.npz", code=1))
    assert "stale ones: train.py changed since the draw" in said
    script.write_text(TRAIN, encoding="utf-8")
    before = config.read_text(encoding="utf-8")
    config.write_text(before + "evaluation: {seed: 1}\n", encoding="utf-8")
    said = miaudit(place, "gather", "fits", "--out", "e.npz", code=1)
    assert "those of another draw, with another inclusion and seed" in last(said)
    config.write_text(before + "attack: {type: loss}\n", encoding="utf-8")  # decides no fit
    miaudit(place, "gather", "fits", "--out", "e.npz")
    config.write_text(before, encoding="utf-8")
    with np.load(place / "data.npz") as data:
        np.savez(place / "data.npz", x=data["x"] + 1, y=data["y"], name=data["name"])
    assert "data.npz changed since the draw" in miaudit(place, "gather", "fits", "--out", "f.npz", code=1)


@pytest.mark.long
def test_nothing_is_overwritten_unless_told(place: Path, miaudit: Call) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    run_all(place)
    assert "--overwrite" in miaudit(place, "draw", "a.yaml", "--out", "fits", code=1)
    assert "5 of them have outputs already" in miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    miaudit(place, "gather", "fits", "--out", "e.npz")
    assert "exists" in miaudit(place, "gather", "fits", "--out", "e.npz", code=1)
    miaudit(place, "gather", "fits", "--out", "e.npz", "--overwrite")
    configured(place, "shadow: {models: 4}\nevaluation: {seed: 3}")
    assert "already" not in miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    assert len(folders(place)) == 5
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").touch()
    said = miaudit(place, "draw", "a.yaml", "--out", "mine", "--overwrite", code=1)
    assert "which holds thesis.txt" in said
    assert [path.name for path in (place / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.long
def test_a_draw_never_removes_what_is_not_its_own(place: Path, miaudit: Call) -> None:
    foreign = place / "results" / "fits" / "thesis"  # nothing of ours in it, under the name that we use
    foreign.mkdir(parents=True)
    (foreign / "chapter.txt").write_text("four years")
    said = miaudit(place, "draw", "a.yaml", "--out", "results", "--overwrite", code=1)
    assert "which holds fits and no manifest.json of a draw" in said
    (place / "results" / "manifest.json").write_text('{"format": "another tool"}')
    assert "no manifest.json of a draw" in miaudit(place, "draw", "a.yaml", "--out", "results", "--overwrite", code=1)
    assert (foreign / "chapter.txt").read_text() == "four years"

    miaudit(place, "draw", "a.yaml", "--out", "own")
    fits = place / "own" / "fits"
    kept = [fits / "thesis" / "chapter.txt", fits / ".DS_Store", fits / "notes.txt", place / "own" / ".DS_Store"]
    shutil.copytree(foreign, fits / "thesis")
    (fits / "00099-0123abcd").symlink_to(foreign)
    for path in kept[1:]:
        path.touch()
    configured(place, "shadow: {models: 4}\nevaluation: {seed: 5}")
    miaudit(place, "draw", "a.yaml", "--out", "own", "--overwrite")
    assert all(path.exists() for path in kept) and (foreign / "chapter.txt").exists()
    assert (fits / "00099-0123abcd").is_symlink()
    run_all(place, "own")
    miaudit(place, "gather", "own", "--out", "e.npz")


@pytest.mark.parametrize("link", ["fits", "fit"])
def test_a_draw_follows_no_links(place: Path, miaudit: Call, link: str) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "own")
    inside = place / "own" / "fits"
    linked = inside if link == "fits" else next(inside.iterdir())
    shutil.move(linked, place / "elsewhere")
    linked.symlink_to(place / "elsewhere")
    before = sorted(path.relative_to(place) for path in (place / "elsewhere").rglob("*"))
    configured(place, "shadow: {models: 4}\nevaluation: {seed: 5}" if link == "fits" else "shadow: {models: 4}")
    said = miaudit(place, "draw", "a.yaml", "--out", "own", "--overwrite", code=1)
    assert "which is a link" in said and "links are not followed" in said
    assert sorted(path.relative_to(place) for path in (place / "elsewhere").rglob("*")) == before


@pytest.mark.thorough
@pytest.mark.long
def test_a_draw_that_is_stopped_anywhere_goes_on_and_strands_no_output(
    place: Path, miaudit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "own")
    run_all(place, "own")
    outputs = {path: path.stat().st_mtime_ns for path in (place / "own").rglob("outputs.npy")}
    whole = atomic.write_atomically
    for step in range(9):  # the files of a draw: two manifests, rows of five fits, commands, slurm.sh
        left = iter(range(step))

        def stops(path: Path, *rest: Any, left: Iterator[int] = left, **options: Any) -> None:
            if next(left, None) is None:
                (path.parent / f".{path.name}.abcd1234.part").write_text("half")
                raise KeyboardInterrupt
            whole(path, *rest, **options)

        monkeypatch.setattr(atomic, "write_atomically", stops)
        miaudit(place, "draw", "a.yaml", "--out", "own", "--overwrite", code=130)
        monkeypatch.undo()
        if step:
            assert "whose draw was stopped half-way" in miaudit(place, "gather", "own", "--out", "e.npz", code=1)
            assert "5 of them have outputs already" in miaudit(place, "draw", "a.yaml", "--out", "own")
        assert "5 of them have outputs" in miaudit(place, "draw", "a.yaml", "--out", "own", "--overwrite")
        assert {path: path.stat().st_mtime_ns for path in (place / "own").rglob("outputs.npy")} == outputs
        assert not list((place / "own").rglob(".*.part"))
    miaudit(place, "gather", "own", "--out", "e.npz")


@pytest.mark.long
def test_a_stopped_draw_of_other_fits_is_not_replaced_unless_told(
    place: Path, miaudit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "own")
    run_all(place, "own")
    content = json.loads((place / "own" / "manifest.json").read_text())
    (place / "own" / "manifest.json").write_text(json.dumps({"format": content["format"], "unfinished": True}))
    configured(place, "shadow: {models: 4}\nevaluation: {seed: 5}")
    assert "add --overwrite" in miaudit(place, "draw", "a.yaml", "--out", "own", code=1)
    assert len(list((place / "own").rglob("outputs.npy"))) == 5


@pytest.mark.long
def test_what_a_killed_gather_left_is_swept(place: Path, miaudit: Call) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "own")
    run_all(place, "own")
    (place / "own" / ".gather-abcd1234").mkdir()
    (place / "own" / ".gather-abcd1234" / "outputs.npy").touch()
    miaudit(place, "gather", "own", "--out", "e.npz")
    assert not list((place / "own").glob(".gather-*"))


@pytest.mark.long
def test_a_draw_that_was_moved_with_its_project_is_gathered(place: Path, miaudit: Call) -> None:
    miaudit(place, "draw", "a.yaml", "--out", "fits")
    run_all(place)
    moved = place.parent / "elsewhere"
    shutil.move(place, moved)
    miaudit(moved.parent, "gather", "elsewhere/fits", "--out", "e.npz")
    shutil.move(moved / "fits", moved.parent / "alone")
    assert "--config" in miaudit(moved.parent, "gather", "alone", "--out", "f.npz", code=1)
    miaudit(moved.parent, "gather", "alone", "--out", "f.npz", "--config", "elsewhere/a.yaml")
    assert (moved.parent / "e.npz").read_bytes() == (moved.parent / "f.npz").read_bytes()


def test_what_is_no_draw_is_refused_in_one_line(place: Path, miaudit: Call) -> None:
    assert "manifest.json" in miaudit(place, "gather", "nowhere", code=1)
    (place / "fits").mkdir()
    for text in ("", "[]", '{"format": "other"}', '{"format": "miaudit draw 1"}'):
        (place / "fits" / "manifest.json").write_text(text, encoding="utf-8")
        said = miaudit(place, "gather", "fits", code=1)
        assert "a whole manifest.json of a draw" in said
        assert said.count("\n") == 1
    (place / "b.yaml").write_text(
        "target: {kind: sklearn, estimator: sklearn.naive_bayes:GaussianNB}\ndata: {path: data.npz, x: x, y: y}\n"
    )
    assert "target.kind: expected command, received sklearn" in miaudit(place, "draw", "b.yaml", "--out", "f", code=1)


def test_copies_of_records_are_refused_before_anything_runs(place: Path, miaudit: Call) -> None:
    np.save(place / "copies.npy", np.zeros((60, 2, 5)))
    text = (place / "a.yaml").read_text(encoding="utf-8").replace("y: y,", "y: y, copies: copies.npy,")
    (place / "a.yaml").write_text(text, encoding="utf-8")
    assert "data.copies: expected none, for a command" in miaudit(place, "collect", "a.yaml", code=1)


SECRET = "hunter2 'quoted' $(touch fits/called) end"


def test_values_of_the_environment_reach_the_script_and_stand_in_one_file_of_its_owner_only(
    place: Path, miaudit: Call
) -> None:
    text = (place / "a.yaml").read_text(encoding="utf-8")
    (place / "a.yaml").write_text(text.replace("env: {", f"env: {{TOKEN: {json.dumps(SECRET)}, "), encoding="utf-8")
    spy = "(pathlib.Path(a.out).parent / 'token').write_text(os.environ['TOKEN'])\n"
    (place / "train.py").write_text(TRAIN + spy, encoding="utf-8")
    printed = miaudit(place, "draw", "a.yaml", "--out", "fits")
    kept = place / "fits" / "environment.sh"
    assert kept.stat().st_mode & 0o777 == 0o600
    line = (place / "fits" / "commands.txt").read_text(encoding="utf-8").splitlines()[0]
    subprocess.run(["sh", "-c", line], check=True)
    assert next(place.glob("fits/fits/*/token")).read_text(encoding="utf-8") == SECRET
    assert not (place / "fits" / "called").exists()
    for path in place.rglob("*"):
        if path.is_file() and path.name not in ("a.yaml", "token", "environment.sh"):
            assert b"hunter2" not in path.read_bytes(), path
    assert "hunter2" not in printed
    kept.unlink()  # control: without it the script does not start
    assert subprocess.run(["sh", "-c", line], check=False).returncode
    miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    assert kept.is_file()
    configured(place)
    (place / "a.yaml").write_text(re.sub(" *env: .*\n", "", (place / "a.yaml").read_text()), encoding="utf-8")
    miaudit(place, "draw", "a.yaml", "--out", "fits", "--overwrite")
    assert not kept.exists()


@pytest.mark.parametrize("env", ["{TOKEN: 31337}", "{TOKEN: [hunter31337]}", "hunter31337", "{'a-31337 b': x}"])
def test_what_the_environment_was_given_instead_of_a_text_is_not_shown(place: Path, miaudit: Call, env: str) -> None:
    text = (place / "a.yaml").read_text(encoding="utf-8")
    (place / "a.yaml").write_text(re.sub("env: .*", f"env: {env}", text), encoding="utf-8")
    printed = miaudit(place, "draw", "a.yaml", "--out", "fits", code=1)
    assert "target.env" in printed
    assert "31337" not in printed or "a-31337" in env

"""What each installation can do: a job works with the extras that it needs; without them one line names them.

Where all extras are installed the others are hidden, so that each is tried by itself. ``make test-installed`` makes
real environments, with the core install alone and with the newest versions, and runs the same there.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

_SKLEARN = "target: {kind: sklearn, estimator: sklearn.linear_model:LogisticRegression, options: {max_iter: 50}}\n"
_MLP = "{inputs: 3, classes: 2}"
_DATA = "data: {path: data.npz, x: x, y: y}\n"
_ATTACK = "attack: {type: loss, fpr_targets: [0.1]}\nprivacy: {bounds: false}\nevaluation: {seed: 0, design: one-run}\n"
_DRAWN = f"{_DATA}shadow: {{models: 2}}\n{_ATTACK}"
_GRAPH = """\
columns:
  - {name: age, kind: continuous, low: 18, high: 95, decimals: 0}
  - {name: visits, kind: continuous, low: -6, high: 6}
edges: [[age, visits]]
"""
_RELEASE = """\
data: {file: members.csv}
graph: graph.yaml
privacy: {epsilon: 1, records: 300}
ledger: {file: ledger.json, table: one, label: first, epsilon: 2, delta: 0.001}
output_dir: released
"""
_HIDER = """\
import sys

HIDDEN = {hidden!r}


class Hider:
    # finds nothing by these names, as if they were not installed

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in HIDDEN
        return None if hidden else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path[:] = [Hider(finder) for finder in sys.meta_path]
"""


@dataclass(frozen=True)
class Job:
    """A command line, the files that it reads beside those of the world, and the extras that it needs."""

    line: str
    needs: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    codes: tuple[int, ...] = (0, 3, 4)


def _command(outputs: str, write: str) -> dict[str, str]:
    script = (
        "import sys\nimport numpy as np\ngiven = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "data = np.load('data.npz')\nrows = np.load(given['--rows'])\nseen = np.isin(np.arange(len(data['y'])), rows)\n"
        f"np.save(given['--out'] + '/outputs.npy', {write})\n"
    )
    line = f"{sys.executable} train.py --rows {{rows}} --out {{out}}"
    text = f"target:\n  kind: command\n  command: {line}\n  outputs: {outputs}\n  files: [train.py]\n{_DRAWN}"
    return {"train.py": script, "a.yaml": text}


# Job by what it is; jobs read the files of `_world` too.
JOBS = {
    "demo": Job("demo"),
    "scores": Job("audit scores.csv --score loss --signal loss --design one-run"),
    "a claim": Job("audit scores.csv --score loss --signal loss --design one-run --claim-mu 1"),
    "a described mechanism": Job(
        "audit scores.csv --score loss --signal loss --design one-run --mechanism m.yaml",
        (),
        {"m.yaml": "kind: dp-sgd\nrecords: 60000\nbatch: 600\nnoise: 1.1\nsteps: 100\n"},
    ),
    "zero-run": Job("audit scores.csv --score loss --signal loss --design zero-run --covariates age"),
    "a plan": Job("plan --members 500 --nonmembers 500 --claim-mu 0.5"),
    "a draft": Job("init scores.csv"),
    "an estimator": Job("run a.yaml", files={"a.yaml": f"{_SKLEARN}{_DRAWN}"}),
    "disclosures": Job("disclosure a.yaml", files={"a.yaml": f"{_SKLEARN}{_DATA}shadow: {{models: 8}}\n"}),
    "a command that writes losses": Job("run a.yaml", files=_command("losses", "2.0 - seen + data['y']")),
    "a command that writes probabilities": Job(
        "run a.yaml", files=_command("probabilities", "np.stack([0.4 + 0.1 * seen, 0.6 - 0.1 * seen], axis=1)")
    ),
    "rows for a scheduler": Job("draw a.yaml --out fits", files=_command("losses", "2.0 - seen + data['y']")),
    "a command that leaves a language model": Job(
        "run a.yaml --dry-run",
        ("text",),
        {"a.yaml": _command("language-model", "0")["a.yaml"].replace("x: x, y: y", "text: text"), "train.py": ""},
        codes=(1,),  # the script leaves no model
    ),
    "outputs": Job(
        "run a.yaml",
        files={
            "a.yaml": "target: {kind: outputs, outputs_path: out.npy, given: probabilities}\n"
            f"data: {{path: data.npz, y: y, member: member}}\n{_ATTACK}"
        },
    ),
    "a network": Job(
        "run a.yaml",
        ("torch",),
        {"a.yaml": f"target: {{kind: torch, factory: miaudit.models.nets:mlp, options: {_MLP}}}\n{_DRAWN}"},
    ),
    "a model in ONNX": Job(
        "collect a.yaml --out e.npz",
        ("onnx",),
        {
            "a.yaml": f"target: {{kind: onnx, path: m.onnx}}\ndata: {{path: data.npz, x: x, y: y, member: member}}\n"
            f"{_ATTACK}",
            "m.onnx": "no model",
        },
        codes=(1,),  # the file is none: what matters is whether onnxruntime or the file is missed
    ),
    "a synthetic table": Job(
        "audit --synthetic table.csv --members members.csv --nonmembers nonmembers.csv --design one-run --no-bounds"
    ),
    "a private release": Job("synthesise s.yaml --dry-run", ("synthesis",), {"s.yaml": _RELEASE, "graph.yaml": _GRAPH}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all jobs."""
    place, rng = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    member, age = np.arange(400) % 2 == 0, rng.integers(20, 80, 400)
    rows = zip(rng.exponential(size=400) + 0.2 * ~member, member, age, strict=True)
    lines = "\n".join(f"{loss:.5f},{int(inside)},{years}" for loss, inside, years in rows)
    (place / "scores.csv").write_text(f"loss,member,age\n{lines}\n")
    x = rng.normal(size=(400, 3))
    text = np.array([f"text number {i} of many" for i in range(400)])
    np.savez(place / "data.npz", x=x, y=(x[:, 0] + rng.normal(size=400) > 0).astype(int), member=member, text=text)
    p = rng.uniform(size=400)
    np.save(place / "out.npy", np.stack([p, 1 - p], axis=1))
    for name in ("table", "members", "nonmembers"):
        visits = rng.normal(size=300).clip(-5, 5).round(3)
        lines = "\n".join(f"{a},{v}" for a, v in zip(rng.integers(20, 80, 300), visits, strict=True))
        (place / f"{name}.csv").write_text(f"age,visits\n{lines}\n")
    return place


def _installed_with(extras: tuple[str, ...]) -> set[str]:
    """Top-level modules of the core install with some extras, and of what they require."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    held: set[tuple[str, str]] = set()

    def walk(name: str, extra: str) -> None:
        if (name, extra) in held:
            return
        held.add((name, extra))
        try:
            asked = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            return
        for one in map(Requirement, asked):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                for further in ("", *one.extras):
                    walk(canonicalize_name(one.name), further)

    for extra in ("", *extras):
        walk("miaudit", extra)
    names = {name for name, _ in held}
    found = importlib.metadata.packages_distributions().items()
    return {module for module, owners in found if names & {canonicalize_name(owner) for owner in owners}}


def _hidden(extras: tuple[str, ...]) -> set[str]:
    """Top-level modules that are installed here and do not belong to an installation with these extras."""
    stay = {*_installed_with(extras), "pip", "setuptools", "pkg_resources", "sitecustomize"}
    return {module for module in importlib.metadata.packages_distributions() if module not in stay}


def _missing(extras: tuple[str, ...]) -> bool:
    from miaudit.errors.extras import missing_modules

    return bool(missing_modules(extras))


def _run(job: Job, world: Path, place: Path, *, hidden: set[str] | None) -> subprocess.CompletedProcess[str]:
    for file in world.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    for name, text in job.files.items():
        (place / name).write_text(text)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if hidden is not None:
        site = place / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_HIDER.format(hidden=sorted(hidden)))
        env["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    said = [sys.executable, "-m", "miaudit", *job.line.split()]
    return subprocess.run(said, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=300)


def _checked(job: Job, done: subprocess.CompletedProcess[str], lacks: tuple[str, ...]) -> None:
    """With its extras a job works; without them it ends with one line that says how to add exactly these."""
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    if not lacks:
        assert "pip install" not in said, said
        assert done.returncode in job.codes, (done.returncode, said)
        return
    named = re.findall(r"pip install '[^']*\[([a-z,]+)\]'", said)
    assert named, said
    assert set(named[0].split(",")) == set(job.needs), said
    assert done.returncode in (1, 4), (done.returncode, said)


@pytest.mark.thorough
@pytest.mark.parametrize("name", JOBS)
def test_the_core_install_does_it_or_names_the_extra(name: str, world: Path, tmp_path: Path) -> None:
    job = JOBS[name]
    _checked(job, _run(job, world, tmp_path, hidden=_hidden(())), job.needs)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if job.needs])
def test_an_extra_is_all_that_a_job_needs(name: str, world: Path, tmp_path: Path) -> None:
    job = JOBS[name]
    if _missing(job.needs):
        pytest.skip(f"{', '.join(job.needs)} is not installed here")
    _checked(job, _run(job, world, tmp_path, hidden=_hidden(job.needs)), ())


@pytest.mark.long
def test_the_installation_as_it_is(world: Path, tmp_path: Path) -> None:
    """Nothing is hidden: the same jobs, in the environment that these tests run in (make test-installed)."""
    for number, (name, job) in enumerate(JOBS.items()):
        if os.environ.get("MIAUDIT_INSTALLED") != "real" and name not in ("scores", "a private release"):
            continue  # the other jobs are tried by hiding what a core install has not
        place = tmp_path / str(number)
        place.mkdir()
        _checked(job, _run(job, world, place, hidden=None), job.needs if _missing(job.needs) else ())


@pytest.mark.long
def test_hiding_hides() -> None:
    """The control: what the core install has not is gone, and what it has is there."""
    hidden = _hidden(())
    assert {"pytest", "hypothesis"} <= hidden
    assert not {"numpy", "scipy", "sklearn", "polars", "miaudit", "altair", "yaml", "pydantic"} & hidden

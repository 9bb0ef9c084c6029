"""What leaves the repository (wheel, archive, Action, container file, citation) is run, or read as its reader does."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from dockerfile_parse import DockerfileParser

import miaudit
from findings.test_budget import release as release_findings

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    return module


# -- the Action --------------------------------------------------------------------------------------------------------


def play(place: Path, python: Path, *, only: tuple[str, ...], **inputs: str) -> tuple[dict[str, str], int]:
    """Run the steps of the Action that are scripts, as a runner does: values go in by the environment alone."""
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    outputs: dict[str, str] = {}
    code = 0
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] not in only:
            continue
        assert "${{" not in step["run"]  # text from a workflow never becomes code
        env = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        files = {"GITHUB_OUTPUT": place / "output", "GITHUB_STEP_SUMMARY": place / "summary.md"}
        env |= {name: str(path) for name, path in files.items()} | {"GITHUB_ACTION_PATH": str(ROOT)}
        for name, value in step.get("env", {}).items():
            found = re.fullmatch(r"\$\{\{ (inputs|steps\.audit\.outputs)\.([\w-]+) \}\}", value)
            env[name] = value if found is None else (given if found[1] == "inputs" else outputs).get(found[2], "")
        (place / "output").write_text("")
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        code = subprocess.run(shell, cwd=place, env=env, check=False, capture_output=True).returncode
        outputs |= dict(line.split("=", 1) for line in (place / "output").read_text().splitlines())
        if code:
            break
    return outputs, code


def test_the_action_hands_out_what_its_steps_set() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for output in ACTION["outputs"].values():
        name = re.findall(r"steps\.audit\.outputs\.([\w-]+)", output["value"])[0]
        assert f"{name}=$" in text or f"{name}=$OUT" in text, name
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    assert all(step.get("shell") == "bash" for step in ACTION["runs"]["steps"] if "run" in step)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("shift", "threshold", "no_answer", "verdict", "inner", "outer"),
    [
        (2.0, 0.6, "stop", "flagged", "3", 3),
        (0.0, 0.9, "stop", "clear", "0", 0),
        (0.0, 0.501, "stop", "inconclusive", "4", 4),
        (0.0, 0.501, "warn", "inconclusive", "4", 0),
        (2.0, 7.0, "warn", "", "1", 1),  # no such threshold
    ],
)
def test_the_action_stops_as_the_exit_code_says(
    tmp_path: Path, shift: float, threshold: float, no_answer: str, verdict: str, inner: str, outer: int
) -> None:
    rng = np.random.default_rng(0)
    member = rng.random(600) < 0.5
    np.savez(tmp_path / "scores.npz", score=rng.normal(size=600) + shift * member, member=member)
    config = {
        "evaluation": {"table_path": "scores.npz", "score": "score", "member": "member", "design": "one-run"},
        "reporting": {"primary_metric": "auc", "threshold_for_concern": threshold},
    }
    (tmp_path / "an audit.yaml").write_text(yaml.safe_dump(config))
    inputs = {
        "config": "an audit.yaml",
        "out": "the results",
        "no-answer": no_answer,
        "bundle": "an audit.zip" * (threshold == 0.9),
    }
    outputs, code = play(tmp_path, Path(sys.executable), only=("Audit", "Verdict"), **inputs)
    assert (outputs["exit-code"], outputs.get("verdict", ""), code) == (inner, verdict, outer)
    assert (tmp_path / "the results" / "report.html").is_file() is bool(verdict)
    assert (tmp_path / "an audit.zip").is_file() is (threshold == 0.9)
    assert not (tmp_path / "miaudit.txt").exists()
    said = {
        "": "threshold_for_concern",
        "flagged": "Concern",
        "clear": "Within the limits",
        "inconclusive": "Not answered",
    }
    assert said[verdict] in (tmp_path / "summary.md").read_text()


@pytest.mark.thorough
@pytest.mark.long
def test_the_action_judges_a_history_with_its_budget(tmp_path: Path) -> None:
    """An audit that is not answered alone goes on without an alarm, and an earlier alarm stops it."""
    rng = np.random.default_rng(0)
    member = rng.random(600) < 0.5
    np.savez(tmp_path / "scores.npz", score=rng.normal(size=600), member=member)
    config = {
        "evaluation": {"table_path": "scores.npz", "score": "score", "member": "member", "design": "one-run"},
        "reporting": {"limits": {"auc": 0.501}},
        "about": {"model": "triage", "date": "2026-09-01"},
    }
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(config))
    inputs = {"config": "audit.yaml", "out": "results", "history": "all audits", "memberships": "fresh"}
    outputs, code = play(tmp_path, Path(sys.executable), only=("Audit", "Verdict"), **inputs)
    assert (outputs["exit-code"], outputs["verdict"], code) == ("0", "inconclusive", 0)
    assert (tmp_path / "results" / "history" / "report.html").is_file()
    assert "No alarm in 1 release." in (tmp_path / "summary.md").read_text()
    (tmp_path / "all audits" / "v1.json").write_text(release_findings(1, 1e-9).to_json())
    outputs, code = play(tmp_path, Path(sys.executable), only=("Audit", "Verdict"), **inputs)
    assert (outputs["exit-code"], code) == ("3", 3)


# -- the container file ------------------------------------------------------------------------------------------------


def test_the_container_file_copies_what_is_there_and_starts_the_program() -> None:
    steps = DockerfileParser(str(ROOT / "Dockerfile")).structure
    said = [(step["instruction"], step["value"]) for step in steps if step["instruction"] != "COMMENT"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for _, value in (one for one in said if one[0] == "COPY" and "--from" not in one[1]):
        for source in value.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source
    images = [value.split()[0] for name, value in said if name == "FROM"]
    assert all(
        f">={image.removeprefix('python:').removesuffix('-slim')}" in PROJECT["requires-python"] for image in images
    )
    (entry,) = (value for name, value in said if name == "ENTRYPOINT")
    assert yaml.safe_load(entry) == list(PROJECT["scripts"])
    assert [name for name, _ in said].index("USER") < [name for name, _ in said].index("ENTRYPOINT")  # not as root
    for _, value in (one for one in said if one[0] == "RUN"):
        subprocess.run(["sh", "-n", "-c", value], check=True)


@pytest.mark.thorough
def test_the_container_is_built_where_there_is_an_engine() -> None:
    engine = shutil.which("docker") or shutil.which("podman")
    if engine is None or subprocess.run([engine, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no container engine runs here")
    subprocess.run([engine, "build", "--tag", "miaudit-test", str(ROOT)], check=True)
    subprocess.run(
        [engine, "run", "--rm", "--network", "none", "miaudit-test", "demo", "--out", "/tmp/demo"], check=True
    )


# -- the artefacts -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_wheel_and_source_archive_run_the_demo_and_the_action_installs_itself(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("the release is built from a clone")
    asked = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(tmp_path / "index"),
        "build",
    ]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("no index of packages can be reached")
    tools = release()
    artefacts = tools.build(tmp_path)
    assert [path.suffix for path in artefacts] == [".whl", ".gz"]
    found = [tools.tried(artefact, tmp_path) for artefact in artefacts]
    assert all((one.results / "report.html").is_file() and one.megabytes <= 620 for one in found)
    outputs, code = play(tmp_path, found[0].python, only=("Install",))
    assert (outputs, code) == ({}, 0)


# -- the citation ------------------------------------------------------------------------------------------------------


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # what the format asks for
    assert cited["version"] == miaudit.__version__
    assert cited["license"] == PROJECT["license"]
    assert all({"type", "title", "authors"} <= set(one) for one in cited["references"])

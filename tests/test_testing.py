"""The plug-in in a suite of its own: what passes, fails and is skipped, in pytest's own process and exit codes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from findings.test_budget import release
from miaudit.errors import InputError
from miaudit.testing import assert_private

ROOT = Path(__file__).parents[1]
SUITE = """
import numpy as np
import miaudit as ma

def evidence(gap, n=3000, design="one-run"):
    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    return ma.Evidence(score=rng.normal(size=n) + gap * member, member=member, design=design)

LIMIT = {"fpr": 0.1, "threshold": 0.2}
"""


def suite(folder: Path, body: str, *options: str, installed: bool = True) -> tuple[int, str]:
    """Run pytest in a folder with one test; the plug-in is found by the entry point that pyproject.toml declares."""
    (folder / "test_it.py").write_text(SUITE + body)
    if installed:
        declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
        known = folder / "site" / "declared-1.0.dist-info"
        known.mkdir(parents=True)
        (known / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in declared.items())
        (known / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n")
    paths = [str(folder / "site"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-W", "error", *options, "test_it.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.long
def test_pass_fail_and_skip_with_the_fixture(tmp_path: Path) -> None:
    body = """
def test_quiet(assert_private):
    assert assert_private(evidence(0), **LIMIT).exit_code == 0

def test_loud(assert_private):
    assert_private(evidence(2), page="loud.html", **LIMIT)

def test_few(assert_private):
    assert_private(evidence(0.3, n=60), **LIMIT)

def test_few_let_through(assert_private):
    assert_private(evidence(0.3, n=60), on_no_answer="skip", **LIMIT)

def test_nobody_declared(assert_private):
    assert_private(evidence(2, design=None), **LIMIT)
"""
    code, said = suite(tmp_path, body)
    assert code == 1
    assert "3 failed, 1 passed, 1 skipped" in said
    assert "assert_private: concern\nConcern: with 95% confidence, the share of members found at a false-" in said
    assert "assert_private: not answered, which is not a pass" in said
    assert "SKIPPED [1] test_it.py" in said
    assert "Page: loud.html" in said
    assert "<html" in (tmp_path / "loud.html").read_text()
    assert "Traceback" not in said and "testing.py:" not in said  # the message, and no code of ours


@pytest.mark.thorough
@pytest.mark.long
def test_the_function_alone_needs_no_plug_in_and_a_pass_has_code_0(tmp_path: Path) -> None:
    body = "from miaudit.testing import assert_private as private\ndef test(): private(evidence(0), **LIMIT)\n"
    code, said = suite(tmp_path, body, installed=False)
    assert (code, "1 passed" in said) == (0, True), said
    code, said = suite(tmp_path, "def test(assert_private): assert_private(evidence(0))\n", "-p", "no:miaudit")
    assert (code, "fixture 'assert_private' not found" in said) == (1, True), said


@pytest.mark.long
def test_the_plug_in_loads_nothing_but_the_package() -> None:
    """What ``import miaudit`` loads anyway is not the plug-in's; pytest is there when it is loaded."""
    code = "import sys, pytest, miaudit; before = set(sys.modules); import miaudit.testing; "
    code += "print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stdout)
    assert {name.partition(".")[0] for name in loaded} == {"miaudit"}
    assert "miaudit.auditing" not in loaded and "miaudit.metrics" not in loaded


def evidence(gap: float, design: str | None = "one-run") -> ma.Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(2000) < 0.5
    return ma.Evidence(score=rng.normal(size=2000) + gap * member, member=member, design=design)


@pytest.mark.long
def test_it_is_the_audit_and_findings_are_taken_as_they_are() -> None:
    plan = ma.Plan(primary_metric="auc", threshold_for_concern=0.6, bounds=None)
    found = ma.audit(evidence(0), plan=plan, rng=0)
    assert assert_private(found) is found
    assert assert_private(evidence(0, None), plan=plan, design="one-run").to_json() == found.to_json()
    assert assert_private(evidence(0), plan=plan, threshold=0.7).verdict.threshold == 0.7
    loud = ma.audit(evidence(2), plan=plan, rng=0)
    with pytest.raises(pytest.fail.Exception, match=r"concern\nConcern: .* is at least"):
        assert_private(loud)


def test_a_path_and_a_metric_in_the_place_of_what_they_name(tmp_path: Path) -> None:
    evidence(0).save(tmp_path / "evidence.npz")
    by_name = assert_private(tmp_path / "evidence.npz", metric="auc", threshold=0.7)
    assert (by_name.verdict.metric, by_name.verdict.threshold) == ("auc", 0.7)
    assert assert_private(evidence(0), metric="tpr_at_fpr_0.2", threshold=0.5).verdict.metric == "tpr_at_fpr_0.2"
    (tmp_path / "findings.json").write_text(by_name.to_json())
    for held in (tmp_path, str(tmp_path / "findings.json")):
        assert assert_private(held).to_json() == by_name.to_json()
    (tmp_path / "findings.json").write_text('{"format": 1, "kind": "table"}')
    with pytest.raises(InputError, match="of kind audit, received those of kind 'table'"):
        assert_private(tmp_path)


@pytest.mark.parametrize(
    ("audited", "options", "word"),
    [
        ("findings", {"threshold": 0.5}, "pass the evidence to decide"),
        ("findings", {"design": "one-run"}, "none, for findings"),
        ([0.1, 0.2], {}, "received list"),
        ("evidence", {"on_no_answer": "pass"}, "fail or skip"),
        ("evidence", {"fpr": 10}, "fpr_targets"),
        ("evidence", {"fpr": 0.1, "metric": "auc"}, "leave one of them out"),
        ("evidence", {"metric": "auk"}, "did you mean auc"),
        (Path("nowhere.npz"), {}, "does not exist"),
    ],
)
def test_bad_input_is_an_error_and_no_verdict(audited: object, options: dict[str, object], word: str) -> None:
    given = {"evidence": evidence(0), "findings": ma.audit(evidence(0), plan=ma.Plan(bounds=None), rng=0)}
    with pytest.raises(InputError, match=word):
        assert_private(given.get(audited, audited) if isinstance(audited, str) else audited, **options)


def test_a_folder_of_releases_is_judged_with_a_budget(tmp_path: Path) -> None:
    for month, p in enumerate((0.2, *[0.008] * 4), 1):
        (tmp_path / f"v{month}.json").write_text(release(month, p).to_json())
    life = assert_private(tmp_path, budget=0.05)
    assert life.exit_code == 0 and len(life.audits) == 5  # type: ignore[attr-defined]
    with pytest.raises(pytest.fail.Exception, match=r"concern\nAlarm at v"):
        assert_private(tmp_path, budget=0.05, memberships="fresh")
    for audited, options, word in (
        (tmp_path, {"budget": 2}, "budget"),
        (tmp_path, {"memberships": "fresh"}, "none without a budget"),
        (tmp_path, {"budget": 0.05, "metric": "auc"}, "none, for findings"),
        (evidence(0), {"budget": 0.05}, "a folder, with a budget"),
    ):
        with pytest.raises(InputError, match=word):
            assert_private(audited, **options)  # type: ignore[arg-type]

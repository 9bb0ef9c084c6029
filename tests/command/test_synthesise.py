"""A private table on the command line: whatever fails once the ledger is charged, the synthetic table is there."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import yaml

import miaudit
from miaudit.report import kinds
from miaudit.synthesis.generators import ledger, staging, synthesis_findings, usefulness
from miaudit.synthesis.generators.foreseen import Foreseen
from miaudit.synthesis.generators.release import Release

Run = Callable[..., tuple[int, str, str]]
ROOT = str(Path(miaudit.__file__).parent)
RECORDS = 300
CATEGORY: dict[str, Any] = {"kind": "categorical", "categories": ["x", "y", "z"]}
NUMBER: dict[str, Any] = {"kind": "continuous", "low": 0, "high": 50, "decimals": 0}
BINARY: dict[str, Any] = {"kind": "binary"}
KINDS = {"category": CATEGORY, "number": NUMBER, "binary": BINARY}
SCHEMAS = [
    *itertools.product([("category",), ("number",), ("binary",)], [False, True], ["isolated"]),
    (("number",), True, "none"),
    *itertools.product([("category", "number"), ("number", "number")], [False, True], ["none", "full", "isolated"]),
]


def made(folder: Path, kinds_of: tuple[str, ...], *, missing: bool, graph: str, fidelity: str = "held-out") -> Path:
    """Write a private table with its configuration."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = ["a", "b"][: len(kinds_of)]
    columns = [{"name": name, **KINDS[kind], "missing": missing} for name, kind in zip(names, kinds_of, strict=True)]
    among = {"category": list("xyz"), "number": range(51), "binary": range(2)}
    rows = [[str(rng.choice(among[kind])) for kind in kinds_of] for _ in range(RECORDS)]
    if missing:
        rows = [["" if rng.random() < 0.1 else value for value in row] for row in rows]
    lines = [",".join(names), *(",".join(value or '""' for value in row) for row in rows)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    along = {"edges": [names]} if graph == "full" else {"edges": [], "isolated": names}
    config = {
        "data": {"file": "t.csv"},
        "graph": {"columns": columns, **along},
        "privacy": {"epsilon": 4, "delta": 1e-3, "records": RECORDS},
        "release": {"records": RECORDS},
        "ledger": {"file": "ledger.json", "table": "t", "label": "first", "epsilon": 4, "delta": 1e-3},
        "method": "tables",
        "fidelity": fidelity,
        "output_dir": "out",
    } | ({"generator": {"kind": "plain"}} if graph == "none" else {})
    (folder / "s.yaml").write_text(yaml.safe_dump(config))
    return folder


def released(folder: Path) -> bool:
    """Whether the ledger holds the release; then its table must be there, whole."""
    held = ledger.read(folder / "ledger.json")
    if held is None or not held.entries:
        assert not (folder / "out" / "synthetic.csv").exists()
        return False
    assert len(Release.load(folder / "out" / "synthetic.csv").table) == RECORDS
    return True


class Faults:
    """Notes every function of ours that is called after the ledger was charged, and lets one of them fail."""

    def __init__(self, at: tuple[str, str] | None = None) -> None:
        self.at, self.seen, self.charged = at, dict[tuple[str, str], None](), False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and code is ledger.write_json.__code__:
            self.charged = self.charged or Path(frame.f_locals["path"]).name == "ledger.json"
        if event == "call" and self.charged and code.co_filename.startswith(ROOT):
            key = (code.co_filename.removeprefix(ROOT), code.co_qualname)
            if key not in self.seen:
                self.seen[key] = None
                if key == self.at:
                    raise ValueError("injected")

    def run(self, run: Run, folder: Path) -> tuple[int, str, str]:
        sys.setprofile(self)
        try:
            return run("synthesise", folder / "s.yaml")
        finally:
            sys.setprofile(None)


@pytest.mark.thorough
@pytest.mark.parametrize(("kinds_of", "missing", "graph"), SCHEMAS)
def test_every_schema_is_rehearsed_released_and_judged(
    tmp_path: Path, run: Run, kinds_of: tuple[str, ...], missing: bool, graph: str
) -> None:
    folder = made(tmp_path / "t", kinds_of, missing=missing, graph=graph)
    code, out, err = run("synthesise", folder / "s.yaml", "--dry-run")
    assert (code, err) == (0, "") and "Nothing was written" in out
    assert not (folder / "ledger.json").exists()
    faults = Faults()
    code, out, err = faults.run(run, folder)
    assert code in (0, 4) and not err, out + err
    assert released(folder) and len(faults.seen) > 200
    findings = json.loads((folder / "out" / "findings.json").read_text())
    assert findings["useful"]["records"] > 0 and "failed" not in findings["useful"]["text"]
    assert not list(folder.glob(".*"))
    if "number" in kinds_of:
        name = "ab"[kinds_of.index("number")]
        table = np.genfromtxt(folder / "out" / "synthetic.csv", delimiter=",", names=True, dtype=str)
        assert all("." not in value for value in np.atleast_1d(table[name]))


@pytest.mark.slow
@pytest.mark.parametrize(("kinds_of", "missing", "graph"), [SCHEMAS[0], SCHEMAS[3], SCHEMAS[8], SCHEMAS[11]])
def test_whatever_fails_after_the_ledger_was_charged_the_table_is_there(
    tmp_path: Path, run: Run, kinds_of: tuple[str, ...], missing: bool, graph: str
) -> None:
    made(tmp_path / "new", kinds_of, missing=missing, graph=graph)
    every = Faults()
    for faults in (Faults(), every):  # what is imported on the way is no function that is called each time
        shutil.copytree(tmp_path / "new", tmp_path / "t")
        faults.run(run, tmp_path / "t")
        shutil.rmtree(tmp_path / "t")
    for at in every.seen:
        shutil.copytree(tmp_path / "new", tmp_path / "t")
        code, _, err = Faults(at).run(run, tmp_path / "t")
        assert code in (0, 4) and "Traceback" not in err, (at, err)
        assert released(tmp_path / "t"), at
        shutil.rmtree(tmp_path / "t")


def failing(error: BaseException) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


STAGES = {
    "judgement": (usefulness, "judged"),
    "predictions": (usefulness, "_prediction"),
    "statement": (synthesis_findings, "_statement"),
    "page": (kinds, "_make"),
    "results": (kinds, "write"),
    "lock": (ledger, "_remember"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(usefulness, "_CLASSIFIERS", ("logistic",))
    return made(tmp_path / "t", ("binary",), missing=False, graph="isolated")


@pytest.mark.long
@pytest.mark.parametrize("stage", list(STAGES))
def test_a_full_disk_or_a_fault_after_the_entry_leaves_the_table(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setattr(*STAGES[stage], failing(OSError(28, "No space left on device")))
    code, out, err = run("synthesise", folder / "s.yaml")
    if stage == "lock":  # its first line comes before the entry
        assert (code, released(folder), "cannot be written" in err) == (1, False, True)
        return
    assert released(folder) and code in (0, 4), out + err
    if stage in ("statement", "page", "results"):
        assert "note: the release" in err and "synthetic.csv and synthetic.json is written" in err
    again = {"statement": "run the same command again", "page": "miaudit report", "results": "miaudit report"}.get(
        stage, ""
    )
    assert again in err and "Traceback" not in err
    monkeypatch.undo()
    if stage == "statement":
        code, out, _ = run("synthesise", folder / "s.yaml")
        assert code == 4 and "its table was kept, and nothing more was spent" in out and "Not judged" in out
    if stage in ("page", "results"):
        assert run("report", folder / "out")[0] == 0
    assert (folder / "out" / "report.html").exists() and not list(folder.glob(".*"))


class Killed(BaseException):
    """Ends a command as a kill does: nothing is cleaned up."""


@pytest.fixture
def stranded(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Stop a run in a function, and put back what it left on its way out, which a kill leaves."""

    def stop(module: Any, name: str) -> None:
        saved = folder.with_name("saved")

        def killed(*_: object, **__: object) -> None:
            shutil.copytree(folder, saved)
            raise Killed

        monkeypatch.setattr(module, name, killed)
        with pytest.raises(Killed):
            run("synthesise", folder / "s.yaml")
        monkeypatch.undo()
        shutil.rmtree(folder)
        saved.rename(folder)

    return stop


@pytest.mark.long
def test_a_run_that_was_killed_before_the_entry_starts_again(
    folder: Path, run: Run, stranded: Callable[..., None]
) -> None:
    stranded(ledger, "spend")
    assert not released(folder)
    code, _, err = run("synthesise", folder / "s.yaml")
    assert code in (0, 4) and released(folder), err
    assert not list(folder.glob(".*"))


@pytest.mark.long
def test_a_run_that_was_killed_between_entry_and_folder_goes_on_in_whatever_folder(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ledger.spend

    def enters(*given: Any, **options: Any) -> None:
        whole(*given, **options)
        raise Killed

    monkeypatch.setattr(ledger, "spend", enters)
    with pytest.raises(Killed):
        run("synthesise", folder / "s.yaml")
    monkeypatch.undo()
    assert not (folder / "out").exists() and len(list(folder.glob(".ledger.json.*"))) == 1
    (folder / "out").mkdir()
    (folder / "out" / "report.html").write_text("another audit")
    code, _, err = run("synthesise", folder / "s.yaml")
    assert code == 1 and "report.html was not written by miaudit" in err and "with another --out if need be" in err
    code, out, _ = run("synthesise", folder / "s.yaml", "--out", folder / "new")
    assert code == 4 and "nothing more was spent" in out and not list(folder.glob(".*"))
    assert len(Release.load(folder / "new" / "synthetic.csv").table) == RECORDS


@pytest.mark.long
def test_a_run_that_was_killed_while_it_was_judged_is_finished_and_charges_nothing(
    folder: Path, run: Run, stranded: Callable[..., None]
) -> None:
    stranded(usefulness, "judged")
    assert released(folder)
    table = (folder / "out" / "synthetic.csv").read_bytes()
    code, out, _ = run("synthesise", folder / "s.yaml")
    assert code == 4 and "A stopped run had entered this release" in out
    assert (folder / "out" / "synthetic.csv").read_bytes() == table and not list(folder.glob(".*"))
    assert len(ledger.read(folder / "ledger.json").entries) == 1  # type: ignore[union-attr]
    findings = json.loads((folder / "out" / "findings.json").read_text())
    assert findings["useful"]["text"] == "Not judged: the run stopped after the table was written."
    assert findings["guarantee"]["epsilon"] == 4 and findings["spent"]["releases"] == ["first"]
    code, _, err = run("synthesise", folder / "s.yaml", "--overwrite")
    assert code == 1 and "one label is one table" in err


_KILLED = """
import os, signal, sys
from miaudit.command.program import main
from miaudit.synthesis.generators import {module}
{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["miaudit", "synthesise", sys.argv[1]]
main()
"""
KILLS = {
    "between the stages": ("staging", "foreseen"),
    "before the second entry": ("publication", "_spent"),
    "in the judgement": ("publication", "_judgement"),
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill")
@pytest.mark.parametrize(("module", "name"), KILLS.values(), ids=KILLS)
def test_a_kill_in_two_stages_costs_nothing_more_and_the_same_command_goes_on(
    tmp_path: Path, run: Run, module: str, name: str
) -> None:
    folder = made(tmp_path / "f", ("category", "number"), missing=True, graph="isolated", fidelity="none")
    config = yaml.safe_load((folder / "s.yaml").read_text())
    del config["method"]
    (folder / "s.yaml").write_text(yaml.safe_dump(config | {"tables": {"two_stages": True, "most_off": 1}}))
    command = [sys.executable, "-c", _KILLED.format(module=module, name=name), str(folder / "s.yaml")]
    dead = subprocess.run(command, capture_output=True, text=True, check=False)
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    before = ledger.read(folder / "ledger.json")
    assert before is not None
    first = [entry.first_stage for entry in before.entries]
    assert first == ([True, False] if name == "_judgement" else [True])
    kept = [path.read_text() for path in folder.glob(".ledger.json.*/first.json")]
    assert len(kept) == (name != "_judgement")
    code, out, _ = run("synthesise", str(folder / "s.yaml"))
    assert code == 0 and "synthetic records" in out and released(folder)
    after = ledger.read(folder / "ledger.json")
    assert after is not None and [entry.first_stage for entry in after.entries] == [True, False]
    assert after.entries[0] == before.entries[0]
    total = after.total(1e-3)
    assert total is not None and total.value <= 4 and not list(folder.glob(".ledger.json.*"))


def test_a_stop_has_its_page_and_exit_code_4_and_the_same_label_goes_on(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "f", ("category", "number"), missing=False, graph="isolated", fidelity="none")
    config = yaml.safe_load((folder / "s.yaml").read_text()) | {"tables": {"two_stages": True}}
    (folder / "s.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setattr(staging, "foreseen", lambda plan, **_: Foreseen(0.31, None, plan.records))
    code, out, _ = run("synthesise", str(folder / "s.yaml"))
    assert code == 4 and out.startswith("Stopped, with budget left.") and "single columns were off by 31.0%" in out
    assert "85% is left" in out and "synthetic records" not in out and "No table was made" in out
    assert sorted(path.name for path in (folder / "out").iterdir() if path.is_file()) == [
        "findings.json",
        "report.html",
    ]
    code, out, _ = run("synthesise", str(folder / "s.yaml"), "--dry-run")
    assert code == 0 and "The first stage is entered, for 15% of the budget" in out
    config["tables"] |= {"most_off": 1}
    (folder / "s.yaml").write_text(yaml.safe_dump(config))
    code, out, _ = run("synthesise", str(folder / "s.yaml"), "--overwrite")
    assert code == 0 and "300 synthetic records" in out and released(folder)
    held = ledger.read(folder / "ledger.json")
    assert held is not None and len(held.entries) == 2

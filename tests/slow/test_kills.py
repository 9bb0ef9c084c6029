"""Commands that are killed at random moments: nothing is mixed or stranded, no budget is spent without a table.

Each command runs in a process that is forked from one in which everything is imported, and is ended by SIGKILL at a
moment drawn between nothing and the time that it takes. Then it runs again, as a user would.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from miaudit.bundle import sealing
from miaudit.io import sealed_coins
from miaudit.synthesis.generators import ledger
from miaudit.synthesis.generators.release import Release

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork"),
]
KILLS = int(os.environ.get("MIAUDIT_KILLS", "50"))  # of each command
SERVER = """\
import json, os, sys
import altair, numpy, polars, scipy.optimize, scipy.stats, sklearn.ensemble, sklearn.linear_model, vl_convert
import opendp.prelude
import miaudit
from miaudit.collect import drawn, outputs, run_campaign
from miaudit.command import audit, bundle, coins, draw, program, run, synthesise
from miaudit.config import audit as _, synthesise as _
from miaudit.synthesis.generators import publication
from miaudit.report import drawing
drawing.draw_ahead = drawing.prepare = lambda *_, **__: None  # drawing is not what is tested here
drawing.svg, drawing.png = (lambda _: "<svg/>"), (lambda _: b"")
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(asked["folder"])
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["miaudit", *asked["words"]]
        code = 0
        try:
            program.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Program:
    """The command line, in processes that are forked from a warm one."""

    def __init__(self, log: Path) -> None:
        self.log, self.rng, self.kills = log, np.random.default_rng(int(time.time())), Counter[str]()
        words = [sys.executable, "-c", SERVER]
        self.server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def _line(self) -> str:
        assert self.server.stdout is not None
        return self.server.stdout.readline().strip()

    def start(self, folder: Path, *words: str) -> int:
        assert self.server.stdin is not None
        asked = {"folder": str(folder), "words": words, "log": str(self.log)}
        self.server.stdin.write(json.dumps(asked) + "\n")
        self.server.stdin.flush()
        return int(self._line())

    def __call__(self, folder: Path, *words: str) -> tuple[int, str]:
        """Run to the end; return exit code and what was said."""
        self.start(folder, *words)
        return int(self._line()), self.log.read_text(encoding="utf-8")

    def timed(self, folder: Path, *words: str) -> float:
        start = time.monotonic()
        code, said = self(folder, *words)
        assert code in (0, 3, 4), said
        return time.monotonic() - start

    def kill(self, longest: float, folder: Path, *words: str) -> None:
        """Run, and kill after a time drawn up to ``longest``; it may have ended before."""
        pid = self.start(folder, *words)
        time.sleep(float(self.rng.uniform(0, longest)))
        with contextlib.suppress(ProcessLookupError):  # it has ended, or has no group of its own yet
            os.kill(pid, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)
        code = int(self._line())
        self.kills["killed" if code < 0 else "had ended"] += 1


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    made = Program(tmp_path_factory.mktemp("log") / "log.txt")
    yield made
    made.server.communicate()


def hidden(folder: Path) -> list[Path]:
    """What a command leaves behind when it is stopped; its lock files stay."""
    return [path for path in folder.rglob(".*") if path.name != ".lock"]


# -- synthesise --------------------------------------------------------------------------------------------------------


def test_synthesise_spends_no_budget_without_a_table(tmp_path: Path, program: Program) -> None:
    new = tmp_path / "new"
    new.mkdir()
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{a},{a ^ b}" for a, b in zip(rng.integers(0, 2, 300), rng.random(300) < 0.1, strict=True))
    (new / "t.csv").write_text(f"a,b\n{rows}\n")
    config = {
        "data": {"file": "t.csv"},
        "graph": {"columns": [{"names": ["a", "b"], "kind": "binary"}], "edges": [["a", "b"]]},
        "privacy": {"epsilon": 4, "delta": 1e-3, "records": 300},
        "ledger": {"file": "ledger.json", "table": "t", "label": "first", "epsilon": 4, "delta": 1e-3},
        "method": "tables",
        "output_dir": "out",
    }
    (new / "s.yaml").write_text(yaml.safe_dump(config))
    for name in ("warm", "timed"):
        shutil.copytree(new, tmp_path / name)
        longest = program.timed(tmp_path / name, "synthesise", "s.yaml")
    seen, killed = Counter[str](), 0
    while killed < KILLS:
        folder = tmp_path / f"t{killed}"
        shutil.copytree(new, folder)
        for _ in range(int(program.rng.integers(1, 3))):
            killed += 1
            program.kill(longest, folder, "synthesise", "s.yaml")
            held, table = ledger.read(folder / "ledger.json"), folder / "out" / "synthetic.csv"
            entered = held is not None and bool(held.entries)
            aside = list(folder.glob(".ledger.json.*/release/synthetic.csv"))
            seen[f"entered: {entered}, in its folder: {table.exists()}, beside the ledger: {bool(aside)}"] += 1
            assert entered or not table.exists()
            assert not entered or table.exists() or aside
            if table.exists():
                Release.load(table)
        before = table.read_bytes() if table.exists() else None
        code, said = program(folder, "synthesise", "s.yaml")
        complete = code == 1 and "holds an earlier audit" in said  # it was killed when all was done
        assert code in (0, 4) or complete, said
        assert before in (None, table.read_bytes()) and len(Release.load(table).table) == 300
        held = ledger.read(folder / "ledger.json")
        assert held is not None and [entry.label for entry in held.entries] == ["first"]
        assert {"findings.json", "report.html", "figures"} <= {path.name for path in (folder / "out").iterdir()}
        assert not hidden(folder), said
        shutil.rmtree(folder)
    print(seen)


# -- draw and gather ---------------------------------------------------------------------------------------------------

TRAIN = """\
import pathlib, sys
import numpy as np
rows, seed, out = np.load(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
data = np.load("data.npz")
learned = np.isin(np.arange(60), rows)
np.save(out / "outputs.npy", np.random.default_rng(seed).normal(size=60) ** 2 + 1 - learned)
"""


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory, program: Program) -> tuple[Path, bytes]:
    """A draw that is trained, and its evidence."""
    place = tmp_path_factory.mktemp("fits")
    rng = np.random.default_rng(0)
    np.savez(place / "data.npz", x=rng.normal(size=(60, 5)), y=rng.integers(0, 2, 60))
    (place / "train.py").write_text(TRAIN)
    command = f"{sys.executable} train.py {{rows}} {{seed}} {{out}}"
    target = {"kind": "command", "command": command, "outputs": "losses"}
    config = {"target": target, "data": {"path": "data.npz", "y": "y"}, "shadow": {"models": 4}}
    (place / "a.yaml").write_text(yaml.safe_dump(config))
    assert program(place, "draw", "a.yaml", "--out", "fits")[0] == 0
    subprocess.run(["bash", "fits/commands.txt"], cwd=place, check=True)
    code, said = program(place, "gather", "fits", "--out", "e.npz")
    assert code == 0, said
    evidence = (place / "e.npz").read_bytes()
    (place / "e.npz").unlink()
    return place, evidence


def test_draw_strands_no_output(fits: tuple[Path, bytes], program: Program) -> None:
    place, evidence = fits
    outputs = {path: path.stat().st_mtime_ns for path in place.rglob("outputs.npy")}
    assert len(outputs) == 5
    draw = ("draw", "a.yaml", "--out", "fits", "--overwrite")
    longest = program.timed(place, *draw)
    for _ in range(KILLS):
        program.kill(longest, place, *draw)
        assert {path: path.stat().st_mtime_ns for path in place.rglob("outputs.npy")} == outputs
        code, said = program(place, "gather", "fits", "--out", "e.npz")
        if code:
            assert "whose draw was stopped half-way" in said
            code, said = program(place, *draw)
            assert code == 0 and "5 of them have outputs already" in said, said
            code, said = program(place, "gather", "fits", "--out", "e.npz")
        assert code == 0 and (place / "e.npz").read_bytes() == evidence, said
        (place / "e.npz").unlink()
    assert program(place, *draw)[0] == 0
    assert not hidden(place)


def test_a_new_draw_goes_on(fits: tuple[Path, bytes], program: Program) -> None:
    place, _ = fits
    draw = ("draw", "a.yaml", "--out", "again")
    longest = program.timed(place, *draw)
    for _ in range(KILLS // 2):
        shutil.rmtree(place / "again")
        program.kill(longest, place, *draw)
        code, said = program(place, *draw)
        assert code == 0 or "which exists" in said, said
        held = [len(list((place / name / "fits").iterdir())) for name in ("fits", "again")]
        assert held == [5, 5] and not hidden(place / "again")
    shutil.rmtree(place / "again")


def test_gather_writes_all_or_nothing(fits: tuple[Path, bytes], program: Program) -> None:
    place, evidence = fits
    gather = ("gather", "fits", "--out", "e.npz")
    longest = program.timed(place, *gather)
    for _ in range(KILLS):
        (place / "e.npz").unlink(missing_ok=True)
        program.kill(longest, place, *gather)
        if not (place / "e.npz").exists():
            code, said = program(place, *gather)
            assert code == 0, said
        assert (place / "e.npz").read_bytes() == evidence
    (place / "e.npz").unlink()
    assert program(place, *gather)[0] == 0
    assert not hidden(place)


# -- coins and sealed labels -------------------------------------------------------------------------------------------


def test_coins_go_on_between_their_files(tmp_path: Path, program: Program) -> None:
    words = {
        "coins.commitment.json": ("coins", "commit", "--coins", "200", "--by", "Trainer"),
        "coins.answer.json": ("coins", "answer", "coins.commitment.json", "--by", "Auditor"),
        "coins.csv": ("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json"),
        "coins.reveal.json": ("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json"),
    }
    longest, killed = {}, 0
    (tmp_path / "timed").mkdir()
    for file, line in words.items():
        longest[file] = program.timed(tmp_path / "timed", *line)
    while killed < KILLS:
        folder = tmp_path / f"c{killed}"
        folder.mkdir()
        for file, line in words.items():
            killed += 1
            program.kill(longest[file], folder, *line)
            if not (folder / file).exists():
                code, said = program(folder, *line)
                assert code == 0, said
        assert all(path.stat().st_nlink == 2 for path in hidden(folder))  # second names of whole files, for one moment
        coins = sealed_coins.Coins.read(folder / "coins.reveal.json")
        drawn = np.loadtxt(folder / "coins.csv", skiprows=1, dtype=int)
        assert not list(coins.misfits()) and np.array_equal(drawn, coins.of_run(1))
        assert sealed_coins.Commitment.read(folder / "coins.commitment.json") == coins.commitment


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with scores and a configuration."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    member = rng.integers(0, 2, 300)
    rows = "\n".join(f"{s!r},{m}" for s, m in zip((rng.normal(size=300) + member).tolist(), member, strict=True))
    (folder / "scores.csv").write_text(f"score,member\n{rows}\n")
    return folder


def test_unseal_goes_on(audited: Path, tmp_path: Path, program: Program) -> None:
    columns = ("--score", "score", "--member", "member", "--design", "one-run", "--no-bounds")
    seal = ("audit", "scores.csv", *columns, "--bundle", "b.zip", "--seal", "--out", "out")
    assert program(audited, *seal)[0] in (0, 3, 4)
    key = next(path.name for path in audited.iterdir() if path.name.startswith("b.") and path.suffix == ".json")
    unseal = ("unseal", "b.zip", "--key", key, "--submission", "0" * 64)
    shutil.copytree(audited, tmp_path / "timed")
    longest = program.timed(tmp_path / "timed", *unseal)
    for number in range(KILLS):
        folder = tmp_path / f"u{number}"
        shutil.copytree(audited, folder)
        program.kill(longest, folder, *unseal)
        opening = folder / "b.opening.json"
        if not opening.exists():
            code, said = program(folder, *unseal)
            assert code == 0, said
        assert sealing.read(opening).submissions == ("0" * 64,)
        assert all(path.stat().st_nlink == 2 for path in hidden(folder))
        shutil.rmtree(folder)


# -- run ---------------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_run_leaves_all_of_the_old_results_or_all_of_the_new(audited: Path, program: Program) -> None:
    for name, seed in (("old", 1), ("new", 2)):
        config = {
            "evaluation": {"table_path": "scores.csv", "score": "score", "member": "member", "seed": seed},
        }
        (audited / f"{name}.yaml").write_text(yaml.safe_dump(config))
    kinds, longest = {}, 0.0
    for name in ("old", "new"):
        longest = program.timed(audited, "run", f"{name}.yaml", "--out", "res", "--overwrite")
        kinds[name] = contents(audited / "res")
    assert kinds["old"] != kinds["new"]
    seen = Counter[str]()
    for number in range(KILLS):
        name = ("old", "new")[number % 2]
        program.kill(1.1 * longest, audited, "run", f"{name}.yaml", "--out", "res", "--overwrite")
        found = contents(audited / "res")
        assert found in kinds.values()
        seen["replaced" if found == kinds[name] else "as before"] += 1
    assert program.timed(audited, "run", "new.yaml", "--out", "res", "--overwrite")
    assert contents(audited / "res") == kinds["new"] and not hidden(audited)
    print(seen, program.kills)

"""A folder is replaced whole: processes that are killed at any moment, races, and whatever else lies in the folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.io import atomic, tables
from miaudit.report import audit_charts, audit_page, kinds

# Processes that fork writers. Everything of one set of files says the same number; drawing is not what is tested here.
WORLD = """
import json, os, random, signal, sys, time
from pathlib import Path
from miaudit.errors import OutputError
from miaudit.io import atomic
from miaudit.report import audit_charts, audit_page, drawing, kinds

class Drawn:
    def __init__(self, number):
        self.number = number

    def to_dict(self, **_):
        return {"description": str(self.number)}

class Findings:
    KIND = "audit"

    def __init__(self, number):
        self.number = number

    def as_written(self):
        return self

    def to_dict(self):
        return {"format": 1, "number": self.number}

    def to_json(self):
        return json.dumps(self.to_dict())

audit_charts.charts = lambda found: {name: Drawn(found.number) for name in audit_charts.NAMES}
drawing.svg = lambda spec: spec["description"]
drawing.png = lambda spec: spec["description"].encode()
drawing.draw_ahead = lambda specs, **_: None
audit_page.page = lambda found: str(found.number)
atomic.sync = lambda path: None  # a kill is not a power failure, and more of them fit into a second
problems = []

def held(out):
    found = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if ".part" not in name}

def hidden(out):
    return [str(path) for place in (out, out.parent) for path in place.glob(".*")]
"""

KILLS = """
out, way, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
kinds.write(Findings(0), out, overwrite=True)
(out / "notes.txt").write_text("mine")
(out / "figures" / "photo.png").write_text("mine")
if way == "moved":
    (out / "store").mkdir()
    (out / "store" / "kept.npy").write_text("mine")
mine = {name for name, text in held(out).items() if text == "mine"}
chance, missing, replaced = random.Random(0), 0, 0
for kill in range(kills):
    child = os.fork()
    if child == 0:
        number = 1000 * kill
        while True:
            number += 1
            kinds.write(Findings(number), out, overwrite=True)
    time.sleep(chance.uniform(0.001, 0.04))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for moment in ("at once", "after the next run"):
        if moment == "after the next run":
            kinds.check_free(out, overwrite=True)
        found = held(out)
        if {name for name in found if found[name] == "mine"} != mine:
            problems.append(f"{kill}, {moment}: lost {mine - set(found)}")
        ours = {name: text for name, text in found.items() if name not in mine}
        if "findings.json" in ours:
            ours["findings.json"] = str(json.loads(ours["findings.json"])["number"])
            replaced += ours["findings.json"] != "0"
            if len(set(ours.values())) != 1 or len(ours) != 2 + 2 * len(audit_charts.NAMES):
                problems.append(f"{kill}, {moment}: {ours}")
        elif way == "exchanged" or moment == "after the next run":
            problems.append(f"{kill}, {moment}: no findings")
        else:
            missing += 1
    if hidden(out):
        problems.append(f"{kill}: left {hidden(out)}")
print(json.dumps({"problems": problems, "missing": missing, "replaced": replaced}))
"""

RACES = """
kinds.write(Findings(0), Path(sys.argv[1]) / "earlier" / "out")  # everything is imported once
for race in range(int(sys.argv[3])):
    out, said = Path(sys.argv[1]) / str(race) / "out", []
    out.parent.mkdir(parents=True)
    if sys.argv[2] != "nothing":
        out.mkdir()
        (out / "notes.txt").write_text("mine")
    reads, writes = os.pipe()
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            os.close(writes)
            kinds.check_free(out)
            os.read(reads, 1)  # until all are there
            try:
                kinds.write(Findings(number), out)
            except OutputError as error:
                (out.parent / f"said-{number}").write_text(str(error))
                os._exit(1)
            os._exit(0)
        children.append(child)
    time.sleep(0.05)
    os.close(writes)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(reads)
    if sorted(codes) != [0, 1, 1]:
        problems.append(f"{race}: {codes}")
        continue
    found = held(out)
    if found.pop("notes.txt", "mine") != "mine" or hidden(out):
        problems.append(f"{race}: {hidden(out)}")
    found["findings.json"] = str(json.loads(found["findings.json"])["number"])
    if set(found.values()) != {str(codes.index(0))}:
        problems.append(f"{race}: {found}")
    for path in out.parent.glob("said-*"):
        if not path.read_text().endswith("pass --overwrite or choose another --out"):
            problems.append(path.read_text())
print(json.dumps({"problems": problems}))
"""


def driven(program: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-c", WORLD + program, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="folders change places in one rename on Linux")
def test_a_kill_leaves_all_of_the_old_audit_or_all_of_the_new_and_the_next_run_sweeps(tmp_path: Path) -> None:
    found = driven(KILLS, tmp_path / "place" / "out", "exchanged", 60)
    assert found["problems"] == []
    assert found["replaced"] > 30, "the writers were killed before they wrote anything"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_where_files_are_moved_never_leaves_old_beside_new_and_the_next_run_puts_back(tmp_path: Path) -> None:
    found = driven(KILLS, tmp_path / "place" / "out", "moved", 60)
    assert found["problems"] == []
    assert found["missing"], "no writer was killed while it moved"


class Findings:
    """A set of files that says one number."""

    KIND = "audit"

    def __init__(self, number: int) -> None:
        self.number = number

    def as_written(self) -> "Findings":
        return self

    def to_dict(self) -> dict[str, object]:
        return {"format": 1, "number": self.number}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere."""
    monkeypatch.setattr(audit_charts, "charts", lambda _: {})
    monkeypatch.setattr(audit_page, "page", lambda found: str(found.number))


def number(out: Path) -> int:
    said = json.loads((out / "findings.json").read_text())["number"]
    assert (out / "report.html").read_text() == str(said)
    return int(said)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("there", ["nothing", "a file of somebody else's"])
def test_of_several_audits_with_one_new_folder_exactly_one_succeeds(tmp_path: Path, there: str) -> None:
    assert driven(RACES, tmp_path, there, 10)["problems"] == []


def test_what_a_living_process_is_at_is_not_swept(tmp_path: Path, quick: None) -> None:
    del quick
    out = tmp_path / "out"

    def make(made: Path) -> None:
        atomic.recover(out)  # as another run does, meanwhile
        (made / "last").write_text("1")

    atomic.replace_folder(out, ("last",), make, lambda: None)
    assert (out / "last").read_text() == "1"


def test_only_leftovers_of_our_own_are_swept(tmp_path: Path, quick: None) -> None:
    del quick
    other = [tmp_path / name for name in (".audit-notes.part", ".audit-abcdefgh.partial", "audit-abcdefgh.part")]
    for path in other:
        path.mkdir()
    dead = [tmp_path / ".audit-abcdefgh.part", tmp_path / "out" / ".audit-abcdefg_.part"]
    for path in dead:
        (path / "new").mkdir(parents=True)
        (path / "new" / "findings.json").write_text("half")
    kinds.write(Findings(1), tmp_path / "out")
    assert all(path.is_dir() for path in other) and not any(path.exists() for path in dead)


def test_scratch_is_swept_once_its_process_is_gone(tmp_path: Path) -> None:
    def sweep() -> None:
        atomic.sweep(tmp_path, rf"work-{atomic.RANDOM}", shutil.rmtree)

    with atomic.scratch("work-", tmp_path) as made:
        sweep()
        assert made.is_dir()
    assert not made.exists()
    (tmp_path / "work-abcdefgh").mkdir()
    sweep()
    assert not list(tmp_path.iterdir())


def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> tuple[Path, Path]:
    """A folder and the --out that names it."""
    out = tmp_path / "place" / "out"
    out.mkdir(parents=True, mode=0o750)
    named = out
    if where == "a link":
        named = tmp_path / "link"
        named.symlink_to(out)
    elif where == "the working directory":
        monkeypatch.chdir(out)
        named = Path()
    elif where == "a mount":
        monkeypatch.setattr(Path, "is_mount", lambda path: path == out)
    elif where == "a mount that nobody sees":
        monkeypatch.setattr(atomic, "_exchange", refused)
    elif where == "holding a folder":
        (out / "store").mkdir()
    elif where == "no locks":
        monkeypatch.setattr(atomic, "hold", lambda path: None)
    return out, named


def refused(*_: Path) -> None:
    raise OSError(16, "Device or resource busy")


@pytest.mark.parametrize(
    "where",
    [
        "a folder",
        "a link",
        "the working directory",
        "a mount",
        "a mount that nobody sees",
        "holding a folder",
        "no locks",
    ],
)
def test_wherever_it_is_a_folder_is_replaced_and_the_rest_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None, where: str
) -> None:
    del quick
    out, named = places(tmp_path, monkeypatch, where)
    (out / "notes.txt").write_text("mine")
    (out / "link").symlink_to("notes.txt")
    with (out / "log.txt").open("w") as log:
        kinds.write(Findings(1), named)
        (out / "figures").mkdir()
        (out / "figures" / "verdict.svg").write_text("an old one")
        (out / "figures" / "photo.png").write_text("mine")
        identity = out.stat().st_ino
        kinds.write(Findings(2), named, overwrite=True)
        log.write("still written to")
    assert number(out) == 2
    assert (out / "notes.txt").read_text() == (out / "figures" / "photo.png").read_text() == "mine"
    assert (out / "link").readlink() == Path("notes.txt")
    assert (out / "log.txt").read_text() == "still written to"
    assert not (out / "figures" / "verdict.svg").exists()
    assert [path.name for place in (out, out.parent) for path in place.glob(".*")] == []
    assert out.stat().st_mode & 0o777 == 0o750
    if where in ("the working directory", "a mount", "a mount that nobody sees", "holding a folder"):
        assert out.stat().st_ino == identity


def test_files_and_folders_are_on_the_disk_before_they_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    del quick
    happened: list[tuple[str, str]] = []
    rename, fsync = os.rename, os.fsync

    def renamed(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        happened.append(("rename", Path(target).name))
        rename(source, target)

    def synced(descriptor: int) -> None:
        happened.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    kinds.write(Findings(1), tmp_path / "out")
    moment = happened.index(("rename", "out"))
    assert {("sync", name) for name in ("findings.json", "report.html", "new")} <= set(happened[:moment])
    assert ("sync", tmp_path.name) in happened[moment:]
    happened.clear()
    tables.write_columns(tmp_path / "a.npz", {"a": np.arange(3)})
    moment = happened.index(("rename", "a.npz"))
    assert len(happened[:moment]) == 1 and happened[0][1].startswith(".a.npz.")
    assert happened[moment + 1 :] == [("sync", tmp_path.name)]


def test_a_file_that_a_kill_left_half_written_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".a.npz.abcdefgh.part").write_text("half")
    (tmp_path / ".b.npz.abcdefgh.part").write_text("another file's")
    tables.write_columns(tmp_path / "a.npz", {"a": np.arange(3)})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.npz.abcdefgh.part", "a.npz"]


def test_a_new_file_is_made_once(tmp_path: Path) -> None:
    place = tmp_path / "keys.json"
    tables.write_atomically(place, lambda target: target.write_text("first") and None, replace=False, mode=0o600)
    assert place.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        tables.write_atomically(place, lambda target: target.write_text("second") and None, replace=False)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("keys.json", "first")]

"""What reaches a terminal."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from command import test_silent_acceptances
from command.test_audit import save
from command.test_silent_acceptances import DESIGN, audit
from miaudit.command import results
from miaudit.command.terminal import interruption, keeping, progress, progress_of_all

pytestmark = pytest.mark.long

place = test_silent_acceptances.place


AUDIT = ("audit", "t.npz", "--score", "score", "--member", "member", "--design", "one-run")
EVIL = "red\x1b[31m\x9b31m"


def evil(*words: str, where: Path) -> subprocess.CompletedProcess[bytes]:
    program = "import sys; from miaudit.command.program import main; sys.argv[0] = 'miaudit'; main()"
    told = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=where, capture_output=True, env=told, check=False
    )


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        audit()[:-1] + [*DESIGN, "--out", EVIL],
        audit("t.npz", *DESIGN, "--bundle", f"{EVIL}.zip"),
        audit("t.npz", *DESIGN, "--seed", EVIL),
        audit("t.npz", EVIL),
        audit("t.npz", f"--{EVIL}"),
        [EVIL],
        ["run", f"{EVIL}.yaml"],
        ["collect", "c.yaml", "--out", f"{EVIL}.npz"],
        ["report", EVIL],
    ],
    ids=["out", "bundle", "value", "argument", "option", "command", "configuration", "evidence", "report"],
)
def test_nothing_that_steers_a_terminal_reaches_it(place: Path, words: list[str]) -> None:
    (place / f"{EVIL}.yaml").write_text("attack: {type: nothing, folds: 1}\nevaluation: {}\n")
    (place / "c.yaml").write_text("evaluation: {table_path: t.npz, score: score, member: member, design: one-run}\n")
    ran = evil(*words, where=place)
    for said in (ran.stdout.decode(), ran.stderr.decode()):
        assert not [ch for ch in said if ch != "\n" and not ch.isprintable()], said
    assert ran.stdout + ran.stderr and b"Traceback" not in ran.stderr


def at_terminal(*words: str, where: Path, width: int = 80, **environment: str) -> str:
    """What a command writes to a terminal of its own, of so many columns."""
    import pty

    own, its = pty.openpty()
    program = "import sys; from miaudit.command.program import main; sys.argv[0] = 'miaudit'; main()"
    dropped = {"NO_COLOR", "COLUMNS", "TERM"}
    told = {name: value for name, value in os.environ.items() if name not in dropped}
    told |= {"TERM": "xterm-256color", "COLUMNS": str(width), **environment}
    running = subprocess.Popen(
        [sys.executable, "-c", program, *words], cwd=where, stdout=its, stderr=subprocess.DEVNULL, env=told
    )
    os.close(its)
    read = b""
    while True:
        try:
            more = os.read(own, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        read += more
    os.close(own)
    running.wait()
    return read.decode().replace("\r\n", "\n")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no terminals of this kind")
@pytest.mark.parametrize(("shift", "colour"), [(2.0, "\x1b[31m"), (0.0, "\x1b[32m"), (0.6, "\x1b[33m")])
def test_the_verdict_has_a_colour_and_a_word(tmp_path: Path, shift: float, colour: str) -> None:
    save(tmp_path / "t.npz", shift)
    said = at_terminal(*AUDIT, "--no-bounds", where=tmp_path)
    head, _, _ = said.partition(":")
    assert head.startswith(colour) and head.endswith("\x1b[0m")
    assert re.sub(r"\x1b\[\d*m", "", head) in ("Concern", "Within the limits", "Not answered (inconclusive)")
    assert said.count("\x1b") == head.count("\x1b")  # and nothing else has one


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no terminals of this kind")
@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(tmp_path: Path, width: int) -> None:
    save(tmp_path / "t.npz", 2.0)
    *lines, _ = at_terminal(*AUDIT, where=tmp_path, width=width, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= width
    plain = " ".join(" ".join(lines).split())
    assert "found at 1% false alarms (tpr_at_fpr_0.01)" in plain
    assert "\x1b" not in plain


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="no terminals of this kind")
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_nobody_who_wants_no_colour_has_any(tmp_path: Path, environment: dict[str, str]) -> None:
    save(tmp_path / "t.npz", 2.0)
    assert "\x1b" not in at_terminal(*AUDIT, "--no-bounds", where=tmp_path, **environment)


@pytest.mark.thorough
@pytest.mark.long
def test_what_is_piped_does_not_depend_on_a_terminal(tmp_path: Path) -> None:
    save(tmp_path / "t.npz", 2.0)
    said = []
    for width in ("40", "200"):
        told = {**os.environ, "COLUMNS": width, "TERM": "xterm-256color"}
        words = [sys.executable, "-m", "miaudit", *AUDIT, "--out", width]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=told, check=False)
        said.append(ran.stdout.replace(f"{width}/report", "report"))
    assert said[0] == said[1] and "\x1b" not in said[0]
    assert len(said[0].splitlines()[0]) > 80  # the verdict, in one line


@pytest.mark.skipif(sys.platform == "win32", reason="no terminals of this kind")
def test_json_has_no_colour(tmp_path: Path) -> None:
    save(tmp_path / "t.npz", 2.0)
    assert json.loads(at_terminal(*AUDIT, "--no-bounds", "--json", where=tmp_path))["exit_code"] == 3


def test_a_bar_tells_what_is_counted_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress("models", meanwhile="findings") as told:
        assert told is not None
        told(3, 1000)
        time.sleep(0.3)  # it is drawn ten times a second
        told(1000, 1000)
    said = written.getvalue()
    assert "models" in said and "findings" in said and "3/1,000" in said
    assert "None" not in said
    written.isatty = lambda: False  # type: ignore[method-assign]
    with progress("models") as told:
        assert told is None
    assert written.getvalue() == said


def test_a_bar_of_all_the_work_has_a_percentage_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    written, now = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with progress_of_all("audit") as report:
        assert report is not None
        for second, done, shown in ((0.5, 20, "2%"), (30.0, 250, "25%"), (100.0, 999, "99%"), (100.2, 1000, "100%")):
            now[0] = second
            report(done, 1000)
            time.sleep(0.25)  # it is drawn ten times a second
            assert shown in written.getvalue().splitlines()[-1]
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", written.getvalue())
    assert "audit" in plain and "25% 0:00:30 about 1 min 30 s left" in plain
    assert "100% 0:01:39" not in plain and plain.count("100%") >= 1  # 99.9% is not all
    written.isatty = lambda: False  # type: ignore[method-assign]
    before = written.getvalue()
    with progress_of_all("audit") as report:
        assert report is None
    assert written.getvalue() == before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_interruption_says_what_a_store_keeps():
    assert interruption() == "interrupted; no results were written"
    with keeping("models"):
        assert interruption().endswith("; finished models are kept in models; the same command goes on from there")
    with keeping(None):
        assert interruption().endswith("written")


def test_a_condition_of_the_verdict_is_said_once():
    one = SimpleNamespace(verdict=SimpleNamespace(condition="if x", text="Concern: y. This holds if x."))
    assert results._once("Of 1,000 z. This holds if x.", one) == "Of 1,000 z."
    one.verdict.text = "Not answered (refused): y."
    assert results._once("Of 1,000 z. This holds if x.", one).endswith("This holds if x.")


@pytest.mark.parametrize(
    ("tone", "code", "shown"), [("clear", 0, 0), ("warned", 0, 4), ("flagged", 3, 3), ("warned", 3, 3)]
)
def test_a_verdict_that_is_not_green_on_a_page_is_not_green_at_a_terminal(tone: str, code: int, shown: int) -> None:
    of_audit = SimpleNamespace(verdict=SimpleNamespace(tone=tone), exit_code=code)
    assert results._coloured(of_audit) == shown
    assert results._coloured(SimpleNamespace(exit_code=code)) == code

"""Play new users from empty folders, with the commands of README and tutorials and nothing else.

``python tools/first_hour.py [--user NAME] [--until-report]`` follows a page from its first block to its last: Python
is saved and run, YAML is saved under the name that stands before it, commands run as they are written. Counted are
commands until the first report, stops (a command or script that could not run), and wrong turns (an answer that
begins otherwise than the page says, or advice that an option is misspelt or unused). The exit code is 1 if anybody
needs more than three commands or meets a stop or a wrong turn. A line that begins with ``make``, ``pip`` or ``git``
sets up, and is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "engineer": "docs/releasing_a_model.md",
    "auditor": "docs/auditing_without_access.md",
    "publisher": "docs/publishing_a_table.md",
    "student": "docs/start.md",
    "reader": "README.md",
}
MOST = 3
ADVICE = ("did you mean", "would not be used", "No such")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w./-]+\.ya?ml)`")
_SETS_UP = ("make ", "pip ", "git ", "cd ")


@dataclass(frozen=True)
class Step:
    """One thing that a page asks for: a file to save (``name``), or a command with the beginning of its answer."""

    text: str
    answer: str = ""
    name: str = ""


@dataclass(frozen=True)
class Walk:
    """What it was like to follow a page."""

    user: str
    until_report: int | None
    commands: int
    stops: tuple[str, ...]
    wrong_turns: tuple[str, ...]
    seconds: float

    @property
    def smooth(self) -> bool:
        """Whether the report came within three commands, without a stop or a wrong turn."""
        soon = self.until_report is not None and self.until_report <= MOST
        return soon and not self.stops and not self.wrong_turns


def steps(page: str) -> Iterator[Step]:
    """Yield what a page asks for, in its order."""
    before = 0
    for number, block in enumerate(_BLOCK.finditer(page)):
        kind, text = block[1], block[2]
        said, before = page[before : block.start()], block.end()
        if kind == "python":
            yield Step(text, name=f"step_{number}.py")
            yield Step(f"python step_{number}.py")
        elif kind in ("yaml", "yml") and _FILE.findall(said):
            yield Step(text, name=_FILE.findall(said)[-1])
        elif kind in ("", "sh", "console"):
            yield from _commands(text)


def _commands(block: str) -> Iterator[Step]:
    """Yield the commands of a block: those after a prompt with their answers, or one in each line."""
    if "$ " not in block[:2]:
        lines = block.replace("\\\n", "").splitlines()
        yield from (
            Step(line.split("   #")[0].strip()) for line in lines if line.startswith(("miaudit ", "python ", "cp "))
        )
        return
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, answer = part.replace("\\\n", "").partition("\n")
        if not command.startswith(_SETS_UP):
            yield Step(command, answer.strip())


def _begins(answer: str) -> str:
    """Return what identifies an answer: its first words (of a verdict no more), up to a number, comma or colon."""
    first = next((line for line in answer.splitlines() if line.strip()), "").strip()
    return " ".join(re.split(r"[\d:,(\[]", first)[0].split()[:3])


def follow(user: str, place: Path, *, until_report: bool = False) -> Walk:
    """Follow a user's page in an empty folder."""
    here = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "120",
    }
    commands, report, stops, turns, begun = 0, None, list[str](), list[str](), time.perf_counter()
    for step in steps((ROOT / PAGES[user]).read_text(encoding="utf-8")):
        if step.name:
            (place / step.name).parent.mkdir(parents=True, exist_ok=True)
            (place / step.name).write_text(step.text, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", step.text], cwd=place, env=env, capture_output=True, text=True, check=False
        )
        commands += 1
        said = f"{done.stdout}{done.stderr}"
        if done.returncode not in (0, 3, 4):
            stops.append(f"{step.text}: exit code {done.returncode}: {said.strip()[-300:]}")
        elif any(word in said for word in ADVICE) or _begins(step.answer) not in " ".join(said.split()):
            turns.append(f"{step.text}: expected {_begins(step.answer)!r}, received {said.strip()[:300]}")
        if report is None and any(place.rglob("report.html")):
            report = commands
            if until_report:
                break
    return Walk(user, report, commands, tuple(stops), tuple(turns), time.perf_counter() - begun)


def main() -> None:
    """Play the users, print a table, and fail where somebody did not get through."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--user", choices=PAGES, action="append", help="one of the users; all, if left out")
    options.add_argument("--until-report", action="store_true", help="stop at the first report")
    asked = options.parse_args()
    walks = []
    for user in asked.user or PAGES:
        with tempfile.TemporaryDirectory() as place:
            walks.append(follow(user, Path(place), until_report=asked.until_report))
    print(f"{'user':<12}{'commands to a report':>22}{'commands':>10}{'stops':>7}{'wrong turns':>13}{'seconds':>9}")
    for one in walks:
        cells = (one.until_report or "none", one.commands, len(one.stops), len(one.wrong_turns), round(one.seconds))
        print(f"{one.user:<12}{cells[0]:>22}{cells[1]:>10}{cells[2]:>7}{cells[3]:>13}{cells[4]:>9}")
        print("".join(f"  stop: {text}\n" for text in one.stops), end="")
        print("".join(f"  wrong turn: {text}\n" for text in one.wrong_turns), end="")
    sys.exit(not all(one.smooth for one in walks))


if __name__ == "__main__":
    main()

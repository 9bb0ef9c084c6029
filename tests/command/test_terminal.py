"""What reaches a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import test_silent_acceptances
from command.test_silent_acceptances import DESIGN, audit

pytestmark = pytest.mark.long

place = test_silent_acceptances.place


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

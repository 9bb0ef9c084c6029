"""The command line as a whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command import test_bad_input
from command.test_audit import Run
from command.test_bad_input import table
from miaudit.command import program

folder = test_bad_input.folder


def test_usage_errors_exit_2(folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    claims = (
        ["--claim-mu", "1", "--claim-epsilon", "1"],
        ["--claim-mu", "1", "--claim-delta", "0"],
        ["--claim-delta", "0"],
        ["--no-bounds", "--claim-mu", "1"],
        ["--no-bounds", "--mechanism", "mechanism_good.yaml"],
    )
    mistakes = (
        ["audit"],
        ["audit", "good.npz", "--members", "m.npy"],
        ["audit", "--nope"],
        ["nope"],
        ["plan"],
        ["plan", "--tpr", "0.3", "--claim-mu", "1"],
        *([*table("good.npz"), *claim] for claim in claims),
    )
    for arguments in mistakes:
        code, _, err = run(*arguments)
        assert code == 2, arguments
        assert err


def test_text_from_a_file_cannot_forge_lines(folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    (folder / "forged.csv").write_text('"score\nmiaudit: all is well",member\n1,1\n2,0\n')
    code, _, err = run("audit", "forged.csv", "--score", "x", "--member", "member")
    assert code == 1
    assert len(err.splitlines()) == 1


def test_main_is_what_the_console_script_calls() -> None:
    assert callable(program.main)


@pytest.mark.parametrize("name", program.COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = program.loaded(name)
    assert command.name == name
    assert " ".join(command.help.split("\n\n")[0].split()) == program.COMMANDS[name].short
    assert bool(command.epilog) == bool(program.COMMANDS[name].epilog)


def test_help_loads_no_command_and_no_library() -> None:
    code = (
        "import sys; from miaudit.command.program import app; app(['--help'], standalone_mode=False); "
        "print([m for m in sys.modules if m.startswith(('numpy', 'scipy', 'pydantic', 'miaudit'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    own = {"miaudit", "miaudit.errors", *(f"miaudit.command{end}" for end in ("", ".program", ".options", ".terminal"))}
    assert loaded == own


def test_a_misspelt_command_or_option_names_the_nearest(run: Run) -> None:
    assert "Did you mean 'demo'?" in run("dmeo")[2]
    assert "--overwrite" in run("demo", "--overwrit")[2]


def test_flags_take_no_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for arguments in (("--help",), ("audit", "--help"), ("coins", "--help"), ("coins", "commit", "--help")):
        assert "<bool>" not in run(*arguments)[1]


def test_version(run: Run) -> None:
    assert run("--version")[1].startswith("miaudit ")

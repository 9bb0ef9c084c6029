"""The command line as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

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
    assert command.epilog.startswith("Example")


@pytest.mark.long
def test_help_loads_no_command_and_no_library() -> None:
    code = (
        "import sys; from miaudit.command.program import app; app(['--help'], standalone_mode=False); "
        "print([m for m in sys.modules if m.startswith(('numpy', 'scipy', 'pydantic', 'miaudit'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    own = {
        "miaudit",
        "miaudit.errors",
        "miaudit.errors.share",
        "miaudit.errors.on_demand",
        *(f"miaudit.command{end}" for end in ("", ".program", ".options", ".terminal", ".folders")),
    }
    assert loaded == own


def test_a_misspelt_command_or_option_names_the_nearest(run: Run) -> None:
    assert "Did you mean 'demo'?" in run("demoo")[2]
    assert "--overwrite" in run("demo", "--overwrit")[2]


def test_flags_take_no_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for arguments in (("--help",), ("audit", "--help"), ("coins", "--help"), ("coins", "commit", "--help")):
        assert "<bool>" not in run(*arguments)[1]


def examples() -> list[str]:
    steps = program.loaded("coins").commands.values()
    ends = [*(entry.epilog for entry in program.COMMANDS.values()), *(step.epilog for step in steps)]
    return [line for end in ends for line in end.split("\n\n") if line.startswith("miaudit ")]


def test_every_help_ends_with_an_example() -> None:
    named = {line.split()[1] for line in examples()}
    assert named == set(program.COMMANDS)


@pytest.mark.parametrize("line", sorted(set(examples())))
def test_an_example_has_options_that_exist(line: str) -> None:
    words = line.split()[1:]
    command = program.loaded(words.pop(0))
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    command.make_context(line, words)  # parses, and refuses what is missing or unknown


def every_help() -> list[str]:
    """The program, its commands, and the steps of ``miaudit coins``."""
    return ["", *program.COMMANDS, *(f"coins {step}" for step in program.loaded("coins").commands)]


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("words", every_help())
def test_help_fits_its_terminal(words: str, width: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    shown = program.loaded(words.split(maxsplit=1)[0]) if words else typer.main.get_command(program.app)
    for step in words.split()[1:]:
        shown = shown.commands[step]
    code, out, err = run(*words.split(), "--help-all" if getattr(shown, "daily", ()) else "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= max(width, 48)  # at 40, names of options stay whole
    assert "…" not in out
    for flag in (flag for param in shown.params for flag in param.opts if flag.startswith("--")):
        assert flag in out
    for name in getattr(shown, "commands", {}):
        assert name in out


@pytest.mark.parametrize(
    ("name", "lines"), [("audit", 48), ("plan", 45), ("extraction", 47), ("usage", 50), ("canaries", 45)]
)
def test_the_help_of_daily_use_fits_a_screen(name: str, lines: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    command = program.loaded(name)
    names = {one.name: one.opts[0] for one in command.params}
    assert len(command.daily) <= 10
    _, short, _ = run(name, "--help")
    _, whole, _ = run(name, "--help-all")
    assert len(short.rstrip().splitlines()) <= lines < len(whole.rstrip().splitlines())
    shown = re.findall(r"^│ (--[a-z-]+)", short, flags=re.M)
    assert shown == [*(names[one] for one in command.daily), "--help-all", "--help"]  # in their order
    options = {opt for one in command.params for opt in one.opts if opt.startswith("--")}
    others = len(command.params) - len(command.daily) - arguments(command)
    assert f"Show {others} more options" in short
    assert options <= set(re.findall(r"--[a-z-]+", whole))
    assert "Zero-run" not in short
    assert run(name, "--help")[1] == short  # the whole help before leaves no trace


@pytest.mark.parametrize("name", ["audit", "plan", "extraction", "usage", "canaries"])
def test_the_help_of_daily_use_fits_a_narrow_screen(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    lines = run(name, "--help")[1].rstrip().splitlines()
    assert len(lines) <= 50 and max(map(len, lines)) <= 80
    listed = "\n".join(lines).partition("Options:")[2].partition("Example")[0]
    shown = re.findall(r"^  (--[a-z-]+)", listed, flags=re.M)
    command = program.loaded(name)
    names = {one.name: one.opts[0] for one in command.params}
    assert shown == [*(names[one] for one in command.daily), "--help-all", "--help"]


def arguments(command: Any) -> int:
    return sum(one.param_type_name == "argument" for one in command.params)


def test_version(run: Run) -> None:
    assert run("--version")[1].startswith("miaudit ")

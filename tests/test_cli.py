"""The command line as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from command import test_bad_input
from command.test_audit import Run
from command.test_bad_input import table
from miaudit import cli

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
    assert callable(cli.main)


def test_version(run: Run) -> None:
    assert run("--version")[1].startswith("miaudit ")

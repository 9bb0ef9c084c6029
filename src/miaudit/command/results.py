"""What every command does with finished findings: the results folder, the lines on standard output, the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from miaudit import __version__
from miaudit.command.terminal import complain, say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from miaudit.findings.kind import FindingsRecord


def repeat(**more: Any) -> dict[str, Any]:
    """Return what repeats the command that is running: version, command line, and whatever else it takes."""
    return {"miaudit": __version__, "command": shlex.join(["miaudit", *sys.argv[1:]]), **more}


def check_free(out: Path | None, *, overwrite: bool, released: bool = False) -> None:
    """Refuse a folder that findings could not be written to, before anything is computed."""
    if out is not None:
        from miaudit.report import results_folder

        results_folder.check_free(out, overwrite=overwrite, released=released)


def deliver(
    found: FindingsRecord,
    said: Callable[[], str],
    out: Path | None,
    *,
    overwrite: bool,
    json: bool,
    besides: str = "",
    exit_code: int | None = None,
    release: Callable[[Path], None] | None = None,
) -> NoReturn:
    """Write the folder, if there is one, tell standard output, and exit with the code of the findings.

    ``said`` puts them into lines of text, ``besides`` names other files that were written, ``exit_code`` stands in for
    the findings' own, ``release`` writes a synthetic table into the folder.
    """
    if out is not None:
        from miaudit.report import results_folder

        undrawn = results_folder.write(found, out, overwrite=overwrite, release=release)
        if undrawn:
            complain(f"note: {undrawn}")
    if json:
        say_json(found.to_json())
    else:
        say(said())
        if out is not None:
            say(f"\n{besides}Report: {out / 'report.html'}")
    raise typer.Exit(found.exit_code if exit_code is None else exit_code)

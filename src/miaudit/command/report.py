"""``miaudit report``: the page again from finished findings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from miaudit.command.options import Overwrite
from miaudit.command.terminal import say
from miaudit.errors import InputError


def report(
    findings: Annotated[
        Path, typer.Argument(help="Results folder, or a findings.json that miaudit wrote.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the page and figures; default: beside it.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw the page and the figures again from finished findings; nothing is computed."""
    from miaudit.report import kinds, results_folder

    findings = findings / results_folder.FINDINGS if findings.is_dir() else findings
    found = kinds.read(findings)
    target = out if out is not None else findings.parent
    try:
        results_folder.rerender(found, target, overwrite=overwrite)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"{findings.name}, whose parts contradict each other ({type(error).__name__}: {error})"
        raise InputError("findings", "findings as miaudit wrote them", problem, "run the audit again") from error
    say(f"{target / 'report.html'}")

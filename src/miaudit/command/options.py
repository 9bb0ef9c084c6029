"""Options that several commands share, and how a command shows its options."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

INPUT, SYNTHETIC, ZERO_RUN, VERDICT = "Input", "Synthetic table", "Zero-run", "Verdict"
PRIVACY, OUTPUT = "Privacy bounds", "Output"
RATIO, RECORD = "Gaussian ratio", "For the record"

_of_output = partial(typer.Option, rich_help_panel=OUTPUT)
Out = Annotated[Path | None, _of_output("--out", help="Folder for findings.json, report.html and figures/.")]
Overwrite = Annotated[bool, _of_output("--overwrite", help="Replace an earlier audit in that folder.")]
Json = Annotated[bool, _of_output("--json", help="Print the findings, and nothing else, to standard output.")]
Seed = Annotated[int, _of_output("--seed", min=0, help="Seed of everything random; it is written into the findings.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say how many models would be trained, for how long and with how much disk, and stop. Without "
        "shadow.seconds_per_fit one is trained for the time. Nothing is written.",
    ),
]
BundleOut = Annotated[
    Path | None,
    _of_output(
        "--bundle",
        help="Also write one file (.zip) by which others repeat the audit (miaudit verify) and contest it.",
    ),
]
Share = Annotated[
    str,
    _of_output(
        "--share",
        help="What the bundle holds: all; scores (no covariates or texts, pseudonyms for units); hashes (neither).",
    ),
]
Seal = Annotated[
    bool,
    _of_output("--seal", help="Keep the labels of half of the units sealed, and shuffle the records, for challengers."),
]


class _Flags:
    """Shows an option that takes no value without one."""

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class Command(_Flags, TyperCommand):
    """A command of the program."""


class Group(_Flags, TyperGroup):
    """Commands under one name."""


def flag(name: str) -> str:
    """Return a parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def given(context: typer.Context) -> dict[str, Any]:
    """Return the parameters that were written on the command line, with their values."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {
        n: context.params[n] for n, source in sources.items() if source is not None and source.name == "COMMANDLINE"
    }

"""Options that several commands share, and how a command shows its options."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

INPUT, SYNTHETIC, ZERO_RUN, VERDICT = "Input", "Synthetic table", "Zero-run", "Verdict"
MATCHED = "Matched"
PRIVACY, OUTPUT = "Privacy bounds", "Output"
RATIO, RECORD = "Gaussian ratio", "For the record"

INSTEAD = "Instead of evaluation.output_dir, which is numbered (-2, -3 ...) where it holds earlier results."

_of_output = partial(typer.Option, rich_help_panel=OUTPUT)
Out = Annotated[Path | None, _of_output("--out", help="Folder for findings.json, report.html and figures/.")]
Overwrite = Annotated[bool, _of_output("--overwrite", help="Replace an earlier audit in that folder.")]
NoFigures = Annotated[
    bool,
    _of_output("--no-figures", help="Leave out charts and figures/; miaudit report draws them later."),
]
Json = Annotated[bool, _of_output("--json", help="Print the findings, and nothing else, to standard output.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="<name=value>",
        help="A limit of the verdict, repeatable, in the place of those of the file: auc=0.6, tpr_at_fpr_0.01=0.05.",
        rich_help_panel=VERDICT,
        show_default=False,
    ),
]
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


_NARROW = 60  # columns, below which tables in boxes cut words off


def ending(*examples: str, exit_codes: str = "") -> str:
    """Return the end of a command's help: a paragraph for each example, and one on exit codes."""
    lines = ["Examples:" if len(examples) > 1 else "Example:", *examples] if examples else []
    return "\n\n".join([*lines, *([exit_codes] if exit_codes else [])])


class _Help:
    """Shows an option that takes no value without one, and plain text at a narrow terminal."""

    rich_markup_mode: Any

    def __init__(self, *args: Any, help: str | None = None, **extra: Any) -> None:
        paragraphs = (help or "").split("\n\n")  # in lines as long as the terminal's, not as the code's
        super().__init__(*args, help="\n\n".join(" ".join(text.split()) for text in paragraphs), **extra)  # type: ignore[call-arg]

    def get_short_help_str(self, limit: int = 45) -> str:
        text: str = super().get_short_help_str(10 * limit)  # type: ignore[misc]
        return text

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for one in parameters:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        width, before = shutil.get_terminal_size().columns, self.rich_markup_mode
        if width < _NARROW:
            self.rich_markup_mode, formatter.width = None, width
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            self.rich_markup_mode = before


class Command(_Help, TyperCommand):
    """A command of the program."""


class Group(_Help, TyperGroup):
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


def takes(**parameters: tuple[Any, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command parameters, each with its annotation and default, in the place of its ``**options``."""

    def signed(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        named = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
        parameters_taken = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in parameters.items()
        ]
        first = [parameter for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        function.__signature__ = inspect.Signature([*first, *parameters_taken, *named])  # type: ignore[attr-defined]
        return function

    return signed

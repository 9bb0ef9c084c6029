"""Options that several commands share, and how a command shows its options."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from miaudit.errors import share

INPUT, SYNTHETIC, ZERO_RUN, VERDICT = "Input", "Synthetic table", "Zero-run", "Verdict"
MATCHED = "Matched"
PRIVACY, OUTPUT = "Privacy bounds", "Output"
RATIO, RECORD = "Gaussian ratio", "For the record"

INSTEAD = "Instead of evaluation.output_dir, which is numbered (-2, -3 ...) where it holds earlier results."


def _share(value: Any) -> float:
    """Read 0.05 or 5% of the command line."""
    try:
        return float(share.read(value))
    except ValueError:
        message = f"expected a number or a percent, such as 0.05 or 5%, received {value!r:.60}"
        raise typer.BadParameter(message) from None


share_option = partial(typer.Option, parser=_share, metavar="<float|%>")  # of a number that may be written with a %
_of_output = partial(typer.Option, rich_help_panel=OUTPUT)
Out = Annotated[Path | None, _of_output("--out", help="Folder for findings, report page and figures.")]
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
AboutPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--about",
        metavar="<name=value>",
        help="What the audit is of, for the page and a history: model=triage, version=2.1, data=..., by=..., "
        "date=2026-03-01. Repeat it. No clock is read.",
        rich_help_panel=RECORD,
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
_BOXED = 100  # columns, below which the options of daily use fit a screen without boxes only


def ending(*examples: str, exit_codes: str = "") -> str:
    """Return the end of a command's help: a paragraph for each example, and one on exit codes."""
    lines = ["Examples:" if len(examples) > 1 else "Example:", *examples] if examples else []
    return "\n\n".join([*lines, *([exit_codes] if exit_codes else [])])


def _show_all(context: Any, _parameter: object, wanted: bool) -> None:
    if wanted:
        context.command.whole = True
        typer.echo(context.get_help(), color=context.color)
        context.exit()


class _Help:
    """Shows an option that takes no value without one, and plain text at a narrow terminal.

    Where a command names options of daily use (``daily``), ``--help`` shows these alone, ``--help-all`` all of them.
    """

    rich_markup_mode: Any
    daily: tuple[str, ...] = ()
    whole = False  # whether the help is to have every option
    _showing = False
    _option: Any = None  # --help-all

    def __init__(self, *args: Any, help: str | None = None, **extra: Any) -> None:
        paragraphs = (help or "").split("\n\n")  # in lines as long as the terminal's, not as the code's
        super().__init__(*args, help="\n\n".join(" ".join(text.split()) for text in paragraphs), **extra)  # type: ignore[call-arg]

    def get_short_help_str(self, limit: int = 45) -> str:
        text: str = super().get_short_help_str(10 * limit)  # type: ignore[misc]
        return text

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        if self.daily:
            parameters = [*parameters[:-1], self._help_all(parameters), parameters[-1]]
        for one in parameters:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return self._shown(parameters) if self._showing and self.daily and not self.whole else parameters

    def _help_all(self, parameters: list[Any]) -> Any:
        rest = [one for one in parameters[:-1] if one.param_type_name == "option" and one.name not in self.daily]
        option = self._option or copy(parameters[-1])  # --help is the last; click compares options by identity
        option.name, option.opts, option.callback = "help_all", ["--help-all"], _show_all
        option.help = f"Show {len(rest)} more options, by topic."
        self._option = option
        return option

    def _shown(self, parameters: list[Any]) -> list[Any]:
        """Return arguments and options of daily use, as one panel in their order."""
        by_name = {one.name: copy(one) for one in parameters}
        for one in by_name.values():
            one.rich_help_panel = None
        first = [one for one in by_name.values() if one.param_type_name == "argument"]
        return [*first, *(by_name[name] for name in (*self.daily, "help_all", "help"))]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        width, before = shutil.get_terminal_size().columns, self.rich_markup_mode
        short = bool(self.daily) and not self.whole
        if width < (_BOXED if short else _NARROW):
            self.rich_markup_mode, formatter.width = None, width
        self._showing = True
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        finally:
            self.rich_markup_mode, self._showing, self.whole = before, False, False


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

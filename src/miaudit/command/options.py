"""Options of commands: those that several share, and those of an audit, which are the keys of its file."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from miaudit.config import audit as configuration
from miaudit.config.section import Refused, options_in, problems
from miaudit.errors import MiauditError, without_none

EXIT_CODES = (
    "Exit codes: 0 no concern; 1 could not run; 2 usage; 3 concern, or a claim refuted; 4 no answer (inconclusive, not "
    "testable, refused)."
)
INPUT, SYNTHETIC, ZERO_RUN, VERDICT = "Input", "Synthetic table", "Zero-run", "Verdict"
PRIVACY, OUTPUT = "Privacy bounds", "Output"
RATIO, RECORD = "Gaussian ratio", "For the record"

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for findings.json, report.html and figures/.", rich_help_panel=OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier audit in that folder.", rich_help_panel=OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the findings, and nothing else, to standard output.", rich_help_panel=OUTPUT),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Seed of everything random; it is written into the findings.", rich_help_panel=OUTPUT
    ),
]
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
    typer.Option(
        "--bundle",
        help="Also write one file (.zip) by which others repeat the audit (miaudit verify) and contest it.",
        rich_help_panel=OUTPUT,
    ),
]
Share = Annotated[
    str,
    typer.Option(
        "--share",
        help="What the bundle holds: all; scores (no covariates or texts, pseudonyms for units); hashes (neither).",
        rich_help_panel=OUTPUT,
    ),
]
Seal = Annotated[
    bool,
    typer.Option(
        "--seal",
        help="Keep the labels of half of the units sealed, and shuffle the records, for challengers.",
        rich_help_panel=OUTPUT,
    ),
]
# Options that say what a key of a configuration file says: its path there, and their panel.
KEYS: dict[str, tuple[str, str]] = {
    "score": ("evaluation.score", INPUT),
    "member": ("evaluation.member", INPUT),
    "members": ("synthetic.members_path", INPUT),  # or a file of evaluation, by the signal
    "nonmembers": ("synthetic.nonmembers_path", INPUT),
    "signal": ("evaluation.signal", INPUT),
    "labels": ("evaluation.labels", INPUT),
    "member_labels": ("evaluation.member_labels_path", INPUT),
    "nonmember_labels": ("evaluation.nonmember_labels_path", INPUT),
    "attack": ("attack.type", INPUT),
    "covariates": ("evaluation.covariates", ZERO_RUN),
    "member_covariates": ("evaluation.member_covariates_path", ZERO_RUN),
    "nonmember_covariates": ("evaluation.nonmember_covariates_path", ZERO_RUN),
    "text": ("evaluation.text", ZERO_RUN),
    "member_texts": ("evaluation.member_texts_path", ZERO_RUN),
    "nonmember_texts": ("evaluation.nonmember_texts_path", ZERO_RUN),
    "categories": ("evaluation.categories", ZERO_RUN),
    "components": ("evaluation.components", ZERO_RUN),
    "estimator": ("evaluation.estimator", ZERO_RUN),
    "unit": ("evaluation.unit", INPUT),
    "member_units": ("evaluation.member_units_path", INPUT),
    "nonmember_units": ("evaluation.nonmember_units_path", INPUT),
    "group": ("evaluation.group", INPUT),
    "member_groups": ("evaluation.member_groups_path", INPUT),
    "nonmember_groups": ("evaluation.nonmember_groups_path", INPUT),
    "design": ("evaluation.design", INPUT),
    "variance": ("attack.variance", RATIO),
    "statistic": ("attack.statistic", RATIO),
    "folds": ("attack.folds", RATIO),
    "mu_in": ("attack.statistics.mu_in", RATIO),
    "sigma_in": ("attack.statistics.sigma_in", RATIO),
    "mu_out": ("attack.statistics.mu_out", RATIO),
    "sigma_out": ("attack.statistics.sigma_out", RATIO),
    "synthetic": ("synthetic.table_path", SYNTHETIC),
    "schema": ("synthetic.schema_path", SYNTHETIC),
    "secret": ("synthetic.secrets", SYNTHETIC),
    "known": ("synthetic.known", SYNTHETIC),
    "records": ("synthetic.records", SYNTHETIC),
    "fpr": ("attack.fpr_targets", VERDICT),
    "confidence": ("evaluation.confidence", VERDICT),
    "primary": ("reporting.primary_metric", VERDICT),
    "threshold": ("reporting.threshold_for_concern", VERDICT),
    "levels": ("reporting.levels", VERDICT),
    "prior": ("reporting.prior", VERDICT),
    "n_bootstrap": ("attack.n_bootstrap", VERDICT),
    "intervals": ("evaluation.intervals", VERDICT),
    "headline": ("attack.headline", VERDICT),
    "raw_only": ("reporting.raw_only", ZERO_RUN),
    "claim_epsilon": ("privacy.claim.epsilon", PRIVACY),
    "claim_delta": ("privacy.claim.delta", PRIVACY),
    "claim_mu": ("privacy.claim.mu", PRIVACY),
    "mechanism": ("privacy.mechanism", PRIVACY),
    "delta": ("privacy.delta", PRIVACY),
    "guesses": ("privacy.guesses", PRIVACY),
    "correction": ("privacy.correction", PRIVACY),
    "margin": ("privacy.margin", PRIVACY),
    "no_bounds": ("privacy.bounds", PRIVACY),
    "show_rows": ("reporting.row_level", OUTPUT),
    "architecture": ("model.architecture", RECORD),
    "checkpoint": ("model.checkpoint", RECORD),
    "num_classes": ("model.num_classes", RECORD),
    "model_name": ("model.name", RECORD),
}
_KINDS = {
    path: (kind, option)
    for file in (configuration.AuditConfig, configuration.TableConfig)
    for path, kind, option in options_in(file)
}
AnyFile = TypeVar("AnyFile", bound=configuration.Options)


def taken(name: str) -> tuple[Any, Any]:
    """Return the annotation and the default of a parameter that says what a key of a file says."""
    path, panel = KEYS[name]
    kind, option = _KINDS[path]
    plain, default = without_none(kind)[0], option.default
    words = option.read is not None or bool(option.words_of(plain))
    if plain is bool:
        default = False
    elif path.endswith("_path") or name == "mechanism":
        plain = Path
    elif typing.get_origin(plain) is tuple or (typing.get_args(plain) and not words):
        plain, default = list[str], None  # one name, or several
    elif words:
        plain = str
    least = 1 if name == "components" else None
    shown = typer.Option(flag(name), help=option.help, rich_help_panel=panel, min=least)
    return Annotated[plain if default is not None else plain | None, shown], default


def flag(name: str) -> str:
    """Return a parameter as it is typed."""
    return f"--{name.replace('_', '-')}"


def takes(**parameters: tuple[Any, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command parameters, each with its annotation and default, in the place of its ``**options``."""

    def signed(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        named = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in parameters.items()
        ]
        first = [parameter for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        function.__signature__ = inspect.Signature([*first, *made, *named])  # type: ignore[attr-defined]
        return function

    return signed


def given(context: typer.Context) -> dict[str, Any]:
    """Return the parameters that were written on the command line, with their values."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {
        n: context.params[n] for n, source in sources.items() if source is not None and source.name == "COMMANDLINE"
    }


def content(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration file would say in the place of options."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if name in KEYS:
            *sections, key = KEYS[name][0].split(".")
            place = made
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = _said(name, value)
    return made


def _said(name: str, value: Any) -> Any:
    if name == "no_bounds":
        return not value
    if name == "mechanism":
        return configuration.read_mechanism(value)
    if isinstance(value, list | tuple):
        return [part.strip() for text in value for part in text.split(",") if part.strip()]
    return str(value) if isinstance(value, Path) else value


def validated(said: Mapping[str, Any], kind: type[AnyFile]) -> AnyFile:
    """Check options as a configuration file is checked.

    Raises
    ------
    MiauditError
        For a value that cannot be used.
    typer.BadParameter
        For options that do not go together.
    """
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        line = next(iter(problems(error, kind)))
        found = error.errors()[0]
        place, _, rest = re.sub(r"\.\d+:", ":", line, count=1).partition(": ")
        for head in ("privacy.claim.", "attack.statistics.", *(f"{name}." for name in kind.model_fields)):
            place = place.removeprefix(head)
        names = {path.rpartition(".")[2]: flag(name) for name, (path, _) in KEYS.items() if path.endswith("_path")}
        told = f"{names.get(place, place)}: {rest}"
        together = found["type"] == "value_error" and not isinstance(found["ctx"]["error"], Refused)
        raise typer.BadParameter(told) if together else MiauditError(told) from None

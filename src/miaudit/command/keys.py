"""Options that say what a key of an audit's configuration file says."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from miaudit.command.options import (
    INPUT,
    MATCHED,
    OUTPUT,
    PRIVACY,
    RATIO,
    RECORD,
    SYNTHETIC,
    VERDICT,
    ZERO_RUN,
    flag,
    share_option,
)
from miaudit.config import audit as configuration
from miaudit.config.about import Stated
from miaudit.config.section import Refused, options_in, problems
from miaudit.errors import MiauditError
from miaudit.errors.options import without_none

_SIDES = ("member", "nonmember")
# Keys of a configuration file that are options too, by panel and section, in the order of the help.
_PANELS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (INPUT, "evaluation", ("shards", "score", "member")),
    (INPUT, "synthetic", ("members_path", "nonmembers_path")),  # or files of evaluation, by the signal
    (INPUT, "evaluation", ("signal", "labels", "member_labels_path", "nonmember_labels_path")),
    (INPUT, "attack", ("type",)),
    (INPUT, "evaluation", ("unit", *(f"{side}_units_path" for side in _SIDES))),
    (INPUT, "evaluation", ("group", *(f"{side}_groups_path" for side in _SIDES), "run", "design", "inclusion")),
    (INPUT, "evaluation", ("by_covariates",)),
    (INPUT, "coins", ("reveal",)),
    (MATCHED, "evaluation", ("key_path", "reference_path")),
    (ZERO_RUN, "evaluation", ("covariates", *(f"{side}_covariates_path" for side in _SIDES))),
    (ZERO_RUN, "evaluation", ("text", *(f"{side}_texts_path" for side in _SIDES))),
    (
        ZERO_RUN,
        "evaluation",
        ("categories", "exclude_levels", "components", "estimator", "propensity_model", "classifier", "bounds_model"),
    ),
    (ZERO_RUN, "evaluation", ("propensity", *(f"{side}_propensities_path" for side in _SIDES))),
    (ZERO_RUN, "evaluation", ("propensity_sample_path",)),
    (ZERO_RUN, "reference", ("score", "use", "trained_on_neither")),
    (ZERO_RUN, "evaluation", tuple(f"{side}_references_path" for side in _SIDES)),
    (ZERO_RUN, "reporting", ("raw_only",)),
    (RATIO, "attack", ("variance", "statistic", "folds")),
    (RATIO, "attack.statistics", ("mu_in", "sigma_in", "mu_out", "sigma_out")),
    (SYNTHETIC, "synthetic", ("table_path", "schema_path", "secrets", "known", "keep", "records")),
    (VERDICT, "attack", ("fpr_targets",)),
    (VERDICT, "evaluation", ("confidence",)),
    (VERDICT, "reporting", ("limits", "primary_metric", "threshold_for_concern", "levels", "prior")),
    (VERDICT, "attack", ("n_bootstrap",)),
    (VERDICT, "evaluation", ("intervals",)),
    (VERDICT, "attack", ("headline",)),
    (PRIVACY, "privacy.claim", ("epsilon", "delta", "mu")),
    (PRIVACY, "privacy", ("mechanism", "delta", "guesses", "at_least", "correction", "margin", "bounds")),
    (OUTPUT, "reporting", ("row_level", "figures")),
    (RECORD, "model", ("architecture", "checkpoint", "num_classes", "name")),
)
_NAMES = {  # of parameters that are not called as their key, without the _path of files
    "attack.type": "attack",
    "reporting.limits": "limit",
    "coins.reveal": "coins",
    "reporting.row_level": "show_rows",
    "reporting.figures": "no_figures",
    "synthetic.table_path": "synthetic",
    "synthetic.secrets": "secret",
    "privacy.bounds": "no_bounds",
    "model.name": "model_name",
    **{f"reference.{name}": f"reference_{name}" for name in ("score", "use")},
    **{f"privacy.claim.{name}": f"claim_{name}" for name in ("epsilon", "delta", "mu")},
}
KEYS: dict[str, tuple[str, str]] = {
    _NAMES.get(f"{section}.{key}", key.removesuffix("_path")): (f"{section}.{key}", panel)
    for panel, section, keys in _PANELS
    for key in keys
}
_KINDS = {
    path: (kind, option)
    for file in (configuration.AuditConfig, configuration.TableConfig)
    for path, kind, option in options_in(file)
}
_PAIRS = {"limit": "<name=value>", "exclude_levels": "<column=level>", "fpr_targets": "<shares>", "levels": "<shares>"}
_FLAGS = {"fpr_targets": ("--fpr-targets", "--fpr")}  # options with a short spelling
AnyFile = TypeVar("AnyFile", bound=Stated)


def taken(name: str) -> tuple[Any, Any]:
    """Return the annotation and the default of a parameter that says what a key of a file says."""
    path, panel = KEYS[name]
    kind, option = _KINDS[path]
    plain, default = without_none(kind)[0], option.default
    words = option.read is not None or option.words_of(plain) is not None
    if plain is bool:
        default = False
    elif path.endswith("_path") or name in ("mechanism", "coins"):
        plain = Path
    elif name == "limit":
        plain, default = list[str], None
    elif typing.get_origin(plain) is tuple or (typing.get_args(plain) and not words):
        plain, default = list[str], None  # one name, or several
    elif words:
        plain = str
    least = 1 if name == "components" else None
    kind_shown = "<names>" if plain == list[str] else "<int>" if least else None
    kind_shown = _PAIRS.get(name, kind_shown)
    make = share_option if option.is_share(plain) else partial(typer.Option, min=least, metavar=kind_shown)
    shown = make(*_FLAGS.get(name, (flag(name),)), help=option.help, rich_help_panel=panel)
    return Annotated[plain if default is not None else plain | None, shown], default


def content(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration file would say in the place of options."""
    by_name: dict[str, Any] = {}
    for name, value in options.items():
        if name in KEYS:
            *sections, key = KEYS[name][0].split(".")
            place = by_name
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = _said(name, value)
    return by_name


def _said(name: str, value: Any) -> Any:
    if name in ("no_bounds", "no_figures"):
        return not value
    if name == "mechanism":
        return configuration.read_mechanism(value)
    if name == "exclude_levels":
        return list(value)  # a level may have a comma
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
        problem = error.errors()[0]
        place, _, rest = line.partition(": ")
        place = re.sub(r"\.\d+$", "", place)
        sections = sorted(kind.model_fields.keys() - {"reference"})  # whose keys say little by themselves
        for head in ("privacy.claim.", "attack.statistics.", *(f"{name}." for name in sections)):
            place = place.removeprefix(head)
        names = {path.rpartition(".")[2]: flag(name) for name, (path, _) in KEYS.items() if path.endswith("_path")}
        message = f"{names.get(place, place)}: {rest}"
        together = problem["type"] == "value_error" and not isinstance(problem["ctx"]["error"], Refused)
        raise typer.BadParameter(message) if together else MiauditError(message) from None

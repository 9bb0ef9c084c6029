"""Private synthetic tables along a causal graph, and what they give away.

Schema, tables, graphs and audits of tables need no torch; training and sampling load it (extra ``torch``) when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from miaudit.errors import MiauditError
from miaudit.errors.extras import pip_line
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

if TYPE_CHECKING:
    from miaudit.synthesis.generators.fitting import check_fit, fit, fit_many
    from miaudit.synthesis.generators.generator import Generator
    from miaudit.synthesis.generators.training import gradient_norms, same_capacity
    from miaudit.synthesis.retraining_attack.membership import membership_attack
    from miaudit.synthesis.retraining_attack.sets import SyntheticSets
    from miaudit.synthesis.retraining_attack.targets import GivenTargets, LossMaximising, Outliers, RandomTargets

# Names that load torch or much else, and where they live.
_LAZY = {
    "Generator": "generators.generator",
    **dict.fromkeys(("check_fit", "fit", "fit_many"), "generators.fitting"),
    **dict.fromkeys(("gradient_norms", "same_capacity"), "generators.training"),
    "membership_attack": "retraining_attack.membership",
    "SyntheticSets": "retraining_attack.sets",
    **dict.fromkeys(("GivenTargets", "LossMaximising", "Outliers", "RandomTargets"), "retraining_attack.targets"),
}

__all__ = [
    "CausalGraph",
    "Column",
    "Generator",
    "GeneratorConfig",
    "GivenTargets",
    "LossMaximising",
    "Outliers",
    "Privacy",
    "RandomTargets",
    "Release",
    "Schema",
    "SyntheticSets",
    "Table",
    "TablesConfig",
    "check_fit",
    "fidelity",
    "fit",
    "fit_many",
    "generators",
    "gradient_norms",
    "interventions",
    "membership_attack",
    "retraining_attack",
    "same_capacity",
    "table_attacks",
    "utility",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_LAZY[name]}")
    except ImportError as error:
        if error.name != "torch":
            raise
        raise MiauditError(
            f"synthesis.{name} needs torch, which is not installed; run: {pip_line('synthesis')}"
        ) from None
    return getattr(module, name)

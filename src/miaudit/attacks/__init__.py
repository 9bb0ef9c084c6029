"""Attacks: plain functions from a model's outputs to scores; they see arrays, never models."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.attacks import (
        disclosed,
        extraction,
        label_only,
        likelihood,
        lira,
        multi_label,
        output_kinds,
        quantile,
        registry,
        regression,
        rmia,
        shadow_classifier,
        signals,
        tokens,
    )

__all__ = [
    "disclosed",
    "extraction",
    "label_only",
    "likelihood",
    "lira",
    "multi_label",
    "output_kinds",
    "quantile",
    "registry",
    "regression",
    "rmia",
    "shadow_classifier",
    "signals",
    "tokens",
]

__getattr__, __dir__ = on_demand(__name__, __all__)

"""Membership that nobody drew: propensities, causal effects, and how far they can be trusted."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.causal import (
        attribute_inference,
        balance,
        benchmarks,
        challenge,
        concentration,
        covariates,
        duplicates,
        effects,
        heterogeneity,
        lack_of_fit,
        mislabelling,
        outcome,
        propensity,
        propensity_error,
        replicates,
        sensitivity,
    )

__all__ = [
    "attribute_inference",
    "balance",
    "benchmarks",
    "challenge",
    "concentration",
    "covariates",
    "duplicates",
    "effects",
    "heterogeneity",
    "lack_of_fit",
    "mislabelling",
    "outcome",
    "propensity",
    "propensity_error",
    "replicates",
    "sensitivity",
]

__getattr__, __dir__ = on_demand(__name__, __all__)

"""Membership that nobody drew: propensities, causal effects, and how far they can be trusted."""

from miaudit.causal import (
    balance,
    challenge,
    concentration,
    covariates,
    duplicates,
    effects,
    outcome,
    propensity,
    replicates,
    sensitivity,
)

__all__ = [
    "balance",
    "challenge",
    "concentration",
    "covariates",
    "duplicates",
    "effects",
    "outcome",
    "propensity",
    "replicates",
    "sensitivity",
]

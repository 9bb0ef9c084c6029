"""What evidence says of membership: curves, metrics, propensities, causal effects and how far they can be trusted."""

from miaudit.causal import (
    balance,
    bootstrap,
    challenge,
    classical,
    concentration,
    covariates,
    duplicates,
    effects,
    intervals,
    logistic,
    outcome,
    propensity,
    roc,
    sensitivity,
    units,
)

__all__ = [
    "balance",
    "bootstrap",
    "challenge",
    "classical",
    "concentration",
    "covariates",
    "duplicates",
    "effects",
    "intervals",
    "logistic",
    "outcome",
    "propensity",
    "roc",
    "sensitivity",
    "units",
]

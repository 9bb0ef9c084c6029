"""Lower bounds from no run at all: a fixed model, known members and known non-members, and covariates that differ."""

from miaudit.dp.zero_run import audit, options
from miaudit.dp.zero_run.audit import LEAST_ROWS_PER_COVARIATE
from miaudit.dp.zero_run.bounds import (
    Testability,
    Thinned,
    epsilon_lower_bound,
    mu_lower_bound,
    shift_curve,
    testability,
    thin,
)
from miaudit.dp.zero_run.options import (
    Composition,
    Conditional,
    Correction,
    PoissonBinomial,
    Sides,
    Thinning,
    stated,
)
from miaudit.dp.zero_run.thinning import Scheffe, SeedStable, StandardErrors

__all__ = [
    "LEAST_ROWS_PER_COVARIATE",
    "Composition",
    "Conditional",
    "Correction",
    "PoissonBinomial",
    "Scheffe",
    "SeedStable",
    "Sides",
    "StandardErrors",
    "Testability",
    "Thinned",
    "Thinning",
    "audit",
    "epsilon_lower_bound",
    "mu_lower_bound",
    "options",
    "shift_curve",
    "stated",
    "testability",
    "thin",
]

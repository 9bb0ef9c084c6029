"""Lower bounds from no run at all: a fixed model, known members and known non-members, and covariates that differ."""

from miaudit.dp.selection import Sides
from miaudit.dp.zero_run import audit
from miaudit.dp.zero_run.audit import Correction
from miaudit.dp.zero_run.bounds import (
    Testability,
    Thinned,
    epsilon_lower_bound,
    mu_lower_bound,
    shift_curve,
    stated,
    testability,
    thin,
)
from miaudit.dp.zero_run.composition import Composition, ShiftFunction
from miaudit.dp.zero_run.conditional import Conditional
from miaudit.dp.zero_run.independent_guesses import (
    LEAST_ROWS_PER_COVARIATE,
    PoissonBinomial,
    Scheffe,
    SeedStable,
    StandardErrors,
    Thinning,
)

__all__ = [
    "LEAST_ROWS_PER_COVARIATE",
    "Composition",
    "Conditional",
    "Correction",
    "PoissonBinomial",
    "Scheffe",
    "SeedStable",
    "ShiftFunction",
    "Sides",
    "StandardErrors",
    "Testability",
    "Thinned",
    "Thinning",
    "audit",
    "epsilon_lower_bound",
    "mu_lower_bound",
    "shift_curve",
    "stated",
    "testability",
    "thin",
]

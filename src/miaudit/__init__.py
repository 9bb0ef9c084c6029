"""miaudit: how much a trained model, or a synthetic table, gives away about the records it was trained on."""

__version__ = "0.1.0"

from miaudit import attacks, causal, collect, disclosure, dp, errors, synthesis
from miaudit.causal.nuisance import Nuisance
from miaudit.dp.verdict import Claim
from miaudit.evidence import Evidence
from miaudit.pipeline import audit
from miaudit.plan import Bounds, Plan
from miaudit.report.findings import Findings

__all__ = [
    "Bounds",
    "Claim",
    "Evidence",
    "Findings",
    "Nuisance",
    "Plan",
    "__version__",
    "attacks",
    "audit",
    "causal",
    "collect",
    "disclosure",
    "dp",
    "errors",
    "synthesis",
]

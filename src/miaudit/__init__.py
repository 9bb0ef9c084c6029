"""miaudit: how much a trained model, or a synthetic table, gives away about the records it was trained on."""

__version__ = "0.1.0"

from miaudit import attacks, causal, collect, errors
from miaudit.evidence import Evidence
from miaudit.pipeline import audit
from miaudit.plan import Plan
from miaudit.report.findings import Findings

__all__ = ["Evidence", "Findings", "Plan", "__version__", "attacks", "audit", "causal", "collect", "errors"]

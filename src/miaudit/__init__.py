"""miaudit: how much a trained model, or a synthetic table, gives away about the records it was trained on."""

__version__ = "0.1.0"

from miaudit import attacks, causal, collect, disclosure, dp, errors, metrics, synthesis
from miaudit.auditing.pipeline import audit
from miaudit.auditing.plan import Bounds, Plan
from miaudit.auditing.reference import Reference
from miaudit.causal.propensity import Nuisance
from miaudit.collect.leakage_scorer import leakage_scorer
from miaudit.collect.model_audit import audit_model
from miaudit.dp.verdict import Claim
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.report import kinds as _kinds  # noqa: F401 - findings are drawn by it

__all__ = [
    "Bounds",
    "Claim",
    "Evidence",
    "Findings",
    "Nuisance",
    "Plan",
    "Reference",
    "__version__",
    "attacks",
    "audit",
    "audit_model",
    "causal",
    "collect",
    "disclosure",
    "dp",
    "errors",
    "leakage_scorer",
    "metrics",
    "synthesis",
]

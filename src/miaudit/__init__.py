"""miaudit: how much a trained model, or a synthetic table, gives away about the records it was trained on."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

__version__ = "0.1.0"

if TYPE_CHECKING:
    from miaudit import attacks, causal, collect, disclosure, dp, errors, metrics, synthesis
    from miaudit.auditing.pipeline import audit
    from miaudit.auditing.plan import Bounds, Plan
    from miaudit.auditing.reference import Reference
    from miaudit.bundle.release_history import history
    from miaudit.causal.propensity import Nuisance
    from miaudit.collect.leakage_scorer import leakage_scorer
    from miaudit.collect.model_audit import audit_model
    from miaudit.dp.verdict import Claim
    from miaudit.evidence import Evidence
    from miaudit.findings.audit import Findings

# Names are loaded when they are first asked for: the module that has each; the rest are packages and modules below.
_HOMES = {
    "Bounds": "auditing.plan",
    "Claim": "dp.verdict",
    "Evidence": "evidence",
    "Findings": "findings.audit",
    "Nuisance": "causal.propensity",
    "Plan": "auditing.plan",
    "Reference": "auditing.reference",
    "audit": "auditing.pipeline",
    "audit_model": "collect.model_audit",
    "history": "bundle.release_history",
    "leakage_scorer": "collect.leakage_scorer",
}

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
    "history",
    "leakage_scorer",
    "metrics",
    "synthesis",
]

__getattr__, __dir__ = on_demand(__name__, __all__, _HOMES)

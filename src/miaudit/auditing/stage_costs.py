"""What each stage of an audit, and of the outlook on one, costs: the shares that a bar of progress is made of.

Measured with 10 covariates at 500 to 20,000 records, as processor time, to a factor of about two. Costs are in one
unit, which cancels: what matters is how they compare. A stage that may come is counted until it is known that it does
not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from miaudit.auditing.plan import Plan
from miaudit.causal.progress import Stage, reported
from miaudit.evidence import Evidence

__all__ = ["REMEDIES", "of_audit", "of_outlook", "reported_counts"]

_FOLDS = 5
_STACK_PIECES, _ASSESS_PIECES = 5 * _FOLDS, 6 * _FOLDS  # finished folds: of designs, learners, steps and forests
_BLOCK = 1750  # records with which the replicates of bounds take one more block
_CURVE = 86  # points of the curve with limits, for each of the three weights of a stack
_TRIED = 100  # points at which the sensitivity analysis reads a limit
_SCORES = 15  # meaningless scores of an outlook
_STEPS, _MOST_SIMULATED = 13, 200  # of a search for a TPR; false alarms beyond which nothing is simulated

REMEDIES = ("without levels", "without rows", "without columns")


def of_audit(evidence: Evidence, plan: Plan) -> dict[str, Stage]:
    """Return the stages of an audit, in the order in which they begin.

    Examples
    --------
    >>> import numpy as np
    >>> columns = {"score": np.arange(8.0), "member": np.arange(8) > 3, "covariates": np.ones((8, 1))}
    >>> evidence = Evidence(**columns, design="zero-run")
    >>> list(of_audit(evidence, Plan(bounds=None)))[:3], "sweep" in of_audit(evidence, Plan(bounds=None))
    (['propensity', 'lack of fit', 'scores'], False)
    """
    k, scores = evidence.n / 1000, len(evidence.scores)
    replicates = plan.n_bootstrap * scores
    bootstrap = {"bootstrap": Stage(0.01 + replicates * (3e-5 + 2e-5 * k), replicates)}
    judged = {"judgement": Stage(0.01 + 0.007 * k, 15)}
    by_covariates = {"by covariates": Stage(0.2 + 0.02 * k)} if plan.by_covariates else {}
    if evidence.design != "zero-run":
        return {
            **({"design": Stage(0.4 + 0.045 * k, 2 * _FOLDS)} if evidence.covariates is not None else {}),
            **({} if plan.bounds is None else {"bounds": Stage(0.1 + 0.02 * k, 2 * scores)}),
            **bootstrap,
            **judged,
            "findings": Stage(0.05 + 0.002 * k),
            "sensitivity": Stage(0.0),
            **by_covariates,
        }
    return {
        **_of_propensity(k, plan),
        "scores": Stage(0.05 if plan.propensity_model == "stack" else 0.0, 9 * scores),
        **({} if plan.bounds is None else _of_bounds(k, plan, scores)),
        **bootstrap,
        "corrected": Stage(scores * (0.4 + 0.14 * k + plan.n_bootstrap * 1e-4 * k), scores * 37),
        **judged,
        "sensitivity": Stage(0.3 + 0.08 * k, _TRIED),
        "findings": Stage(scores * (0.2 + 0.01 * k), scores * 3 * _CURVE),
        **by_covariates,
    }


def _of_propensity(k: float, plan: Plan) -> dict[str, Stage]:
    stack = plan.propensity_model == "stack"
    learned = Stage(0.3 + 0.068 * k, _STACK_PIECES) if stack else Stage(0.1 + 0.03 * k, _FOLDS)
    return {"propensity": learned, "lack of fit": Stage(0.15 + 0.117 * k, _FOLDS)}


def _of_bounds(k: float, plan: Plan, scores: int) -> dict[str, Stage]:
    """Two tests by coins; then the replicates, and the numbers of guesses, of the test of pure epsilon."""
    quick = plan.propensity_model == "stack"
    return {
        "challenge": Stage(0.15 + 0.03 * k, 4) if quick else Stage(0.3 + 0.6 * k, 4),
        "bounds": Stage(0.1 + 0.015 * k, 2 * scores),
        "replicates": Stage(0.2 + 0.105 * k, _FOLDS + 2 * _FOLDS * max(1, round(1000 * k / _BLOCK))),
        "sweep": Stage(0.22 * k, 5),
    }


def of_outlook(evidence: Evidence, plan: Plan) -> dict[str, Stage]:
    """Return the stages of an outlook, in the order in which they begin: what would help comes only after a refusal.

    Examples
    --------
    >>> import numpy as np
    >>> evidence = Evidence(score=np.arange(8.0), member=np.arange(8) > 3, covariates=np.ones((8, 2)))
    >>> list(of_outlook(evidence, Plan()))[2:]
    ['following', 'levels', 'without levels', 'without rows', 'without columns']
    """
    stages = _of_propensity(evidence.n / 1000, plan)
    assess = sum(one.cost for one in stages.values())
    again = _ASSESS_PIECES if plan.propensity_model == "stack" else 2 * _FOLDS
    columns = 0 if evidence.covariates is None else min(3, evidence.covariates.shape[1])
    of_levels, of_rows, of_columns = REMEDIES
    return {
        **stages,
        "following": Stage(assess, 4 * _FOLDS),
        "levels": Stage(0.2 * assess, _SCORES * len(plan.fpr_targets)),
        of_levels: Stage(1.2 * assess, again),
        of_rows: Stage(2.0 * assess, 2 * again),
        of_columns: Stage(1.3 * columns * assess, columns * again),
    }


def reported_counts(
    plan: Plan, nonmembers: int | None, wished: float | None, progress: Callable[[int, int], None] | None
) -> AbstractContextManager[None]:
    """Report the work of a plan from numbers of records, which are simulated.

    Parameters
    ----------
    plan : of the audit
    nonmembers : how many there are; None where they are to be found
    wished : a TPR for which records are to be found, or None
    progress : function of how much of the work is done and of the whole, optional

    Examples
    --------
    >>> seen = []
    >>> with reported_counts(Plan(), 1000, None, lambda done, of: seen.append((done, of))):
    ...     pass
    >>> seen
    [(1000, 1000)]
    """
    stages = {}
    if nonmembers is not None:
        for fpr in plan.fpr_targets:
            alarms = fpr * nonmembers
            stages[f"TPR at {fpr:g}"] = Stage(0.1 + (0.09 * alarms if alarms <= _MOST_SIMULATED else 0.0), _STEPS)
        stages |= {"several runs": Stage(1.6), "bounds": Stage(2.4)}
    if wished is not None:
        stages |= {f"records for {fpr:g}": Stage(1.0, _STEPS) for fpr in plan.fpr_targets if fpr < wished}
    return reported(stages, progress)

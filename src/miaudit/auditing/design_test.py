"""Whether covariates contradict a declared design: where chance decided who is a member, they cannot identify members.

Fair coins are refuted in fewer than 1 of 1,000 honest audits, whatever the covariates are
(:mod:`miaudit.causal.randomisation`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.auditing import zero_run
from miaudit.auditing.plan import Plan
from miaudit.causal import randomisation, separation
from miaudit.causal.propensity import Nuisance
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.metric import Metric
from miaudit.metrics.definition import amount

__all__ = ["LEVEL", "DesignTest", "examine"]

LEVEL = 0.001
_NAMED = 3


@dataclass(frozen=True)
class DesignTest:
    """What covariates alone say of membership, and of the declared design.

    Attributes
    ----------
    alone : AUC of the covariates alone; None without covariates, or where it cannot be measured
    obstacle : why the design is refuted, in sentences; empty where it is not
    note : why the AUC cannot be measured; empty where it can
    """

    alone: Metric | None = None
    obstacle: str = ""
    note: str = ""


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def examine(evidence: Evidence, plan: Plan, *, rng: np.random.Generator) -> DesignTest:
    """Measure how well covariates alone identify members, and refute a randomised design that they contradict.

    Parameters
    ----------
    evidence : of any design but zero-run, whose covariates are expected to identify members
    plan : its confidence, and how covariates become numbers
    rng : draws folds and permutations
    """
    if evidence.design == "zero-run" or (evidence.covariates is None and evidence.text is None):
        return DesignTest()
    try:
        encoding = zero_run.encoding_of(evidence, plan, Nuisance())
        test = randomisation.alone(evidence, encoding, confidence=plan.confidence, rng=rng)
    except InputError as error:
        return DesignTest(note=f"How well the covariates alone identify members cannot be measured ({error}).")
    auc = test.auc
    note = (
        "cross-fitted, without any score; 0.5 where membership was randomised, which gives as much with p = "
        f"{test.p_value:.2g}"
    )
    alone = Metric("auc", "raw", auc.value, auc.low, auc.high, plan.confidence, note)
    if evidence.design is None or test.p_value >= LEVEL:
        return DesignTest(alone)
    return DesignTest(alone, _contradicted(evidence, plan, test))


def _contradicted(evidence: Evidence, plan: Plan, test: randomisation.AloneTest) -> str:
    """Say that covariates identify members although the declared design says that chance decided."""
    what = "The texts" if evidence.covariates is None else "The covariates"
    names = list(separation.ranked(evidence, plan.categories).items())[:_NAMED]
    each = ", ".join(f"{name} ({auc:.2f})" for name, auc in names)
    strongest = f" The strongest by themselves: {each}." if names else ""
    return (
        f"{what} alone identify members with an AUC of {amount('auc', test.auc.value)}, although the declared design "
        f"{evidence.design} says that chance decided who is a member. Chance gives as much with probability "
        f"{test.p_value:.2g}. The evidence contradicts its design, so no number says what the model gives away."
        f"{strongest} Declare zero-run if members were not assigned at random. Leave out a covariate that was made "
        "from membership or after training. Name the unit if several records were assigned together."
    )

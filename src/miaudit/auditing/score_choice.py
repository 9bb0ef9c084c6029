"""Choice of the score of an audit: declared, corrected (Bonferroni), split, or exploratory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import IndexArray
from miaudit.auditing.plan import Bonferroni, Declared, Exploratory, Plan, Split
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.metrics import definition, intervals
from miaudit.metrics.classical import Sample, tpr_name


@dataclass(frozen=True, eq=False)
class Choice:
    """Measured scores and records, the score of the verdict, and the price of the choice."""

    audited: Evidence
    names: tuple[str, ...]
    judged: tuple[str, ...]
    headline: str | None
    confidence: float
    corrections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exploratory: bool = False
    rows: IndexArray | None = None  # of the evidence, where only a part of it is audited


def choose(evidence: Evidence, plan: Plan, *, rng: np.random.Generator) -> Choice:
    """Choose the measured scores, their records and their confidence.

    Raises
    ------
    InputError
        If the plan names a score that the evidence does not have, or a split leaves a class empty.
    """
    names = tuple(evidence.scores)
    if isinstance(plan.headline, Declared):
        if plan.headline.score not in names:
            hint = nearest(plan.headline.score, names) or "or bonferroni, split, exploratory"
            raise InputError("headline", f"one of {', '.join(names)}", repr(plan.headline.score), hint)
        name = plan.headline.score
        return Choice(evidence, names, (name,), name, plan.confidence)
    if len(names) == 1:
        return Choice(evidence, names, names, names[0], plan.confidence)
    match plan.headline:
        case Bonferroni():
            confidence = 1 - (1 - plan.confidence) / len(names)
            said = (
                f"{len(names)} scores were looked at: every interval is widened (Bonferroni) to hold for all of them."
            )
            return Choice(evidence, names, names, None, confidence, (said,))
        case Split(share):
            pilot, rest, rows = _split_units(evidence, share, rng)
            best = _strongest(pilot, plan)
            said = f"The score {best} was chosen on a random {share:.0%} of the units; every number is from the rest."
            return Choice(rest, names, (best,), best, plan.confidence, (said,), rows=rows)
        case Exploratory():
            best = _strongest(evidence, plan)
            said = (
                f"{best} is the strongest of {len(names)} scores on the data that chose it: exploratory, uncorrected."
            )
            return Choice(evidence, names, (best,), best, plan.confidence, (), (said,), exploratory=True)


def _strongest(evidence: Evidence, plan: Plan) -> str:
    """Return the score with the largest primary metric, or AUC where that is not resolved."""

    def strength(score: str) -> tuple[float, float]:
        sample = Sample.of(evidence.only(score))
        name = primary_metric(plan, sample.effective_nonmembers, plan.confidence)
        metric = definition.of(name).estimate(sample, confidence=plan.confidence)
        return (-math.inf if metric.value is None else metric.value, sample.roc.auc)

    return max(evidence.scores, key=strength)


def _split_units(evidence: Evidence, share: float, rng: np.random.Generator) -> tuple[Evidence, Evidence, IndexArray]:
    codes = np.arange(evidence.n) if evidence.unit_codes is None else evidence.unit_codes
    pilot = (rng.random(int(codes.max()) + 1) < share)[codes]
    for part in (pilot, ~pilot):
        if not part.any() or evidence.member[part].all() or not evidence.member[part].any():
            raise InputError(
                "headline", "enough records for a split", f"{evidence.n}", "use bonferroni instead of split"
            )
    return evidence.take(pilot), evidence.take(~pilot), np.flatnonzero(~pilot)


def primary_metric(plan: Plan, nonmembers: float, confidence: float) -> str:
    """Return the primary metric: as planned, or the TPR at the smallest resolvable target."""
    if plan.primary_metric is not None:
        return plan.primary_metric
    fit = [fpr for fpr in plan.fpr_targets if intervals.resolvable(fpr, nonmembers, confidence)]
    return tpr_name(fit[0] if fit else plan.fpr_targets[-1])

"""The metrics of each group of records, whose intervals hold for all groups together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, IndexArray
from miaudit.auditing import withholding
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.measurements import metric_of
from miaudit.auditing.plan import Plan
from miaudit.auditing.zero_run import Correction
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import GroupFindings
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample

__all__ = ["of_groups"]

_FEWEST_IN_GROUP = 10
_FEWEST_FOR_METRICS = 2
_MOST_NAMED = 8
_OTHER = "other (merged)"
_MOST_GROUPS = 1000


def of_groups(
    case: Case, score: str, correction: Correction | None, disagreement: str, rng: np.random.Generator
) -> tuple[GroupFindings, ...]:
    """Compute metrics of each group, with simultaneous intervals (Bonferroni).

    ``disagreement`` is that of the score's weights and regressions, in words.
    """
    audited = case.audited.only(score)
    if audited.group is None:
        return ()
    names, codes = np.unique(audited.group.astype(np.str_), return_inverse=True)
    if len(names) > _MOST_GROUPS:
        raise InputError("group", f"at most {_MOST_GROUPS} groups", f"{len(names)}", "was it meant to be the unit?")
    names, codes, merged = _without_small_groups(names, codes, audited.member)
    confidence = 1 - (1 - case.confidence) / len(names)
    sentence = f"intervals hold for all {len(names)} groups at once"
    if case.exploratory:
        sentence = f"exploratory: {sentence}, but not for the choice of the score"
    return tuple(
        _group(
            audited,
            name,
            codes == k,
            case.plan,
            correction,
            disagreement,
            confidence,
            f"{merged}; {sentence}" if name == _OTHER else sentence,
            rng,
        )
        for k, name in enumerate(map(str, names))
    )


def _without_small_groups(
    names: NDArray[np.str_], codes: IndexArray, member: BoolArray
) -> tuple[NDArray[np.str_], IndexArray, str]:
    """Merge groups with too few members or non-members, and name them."""
    sizes = [np.bincount(codes[rows], minlength=len(names)) for rows in (member, ~member)]
    small = np.minimum(*sizes) < _FEWEST_IN_GROUP
    if np.count_nonzero(small) < 2:
        return names, codes, ""
    listed = ", ".join(names[small][:_MOST_NAMED]) + (", ..." if np.count_nonzero(small) > _MOST_NAMED else "")
    sentence = f"{np.count_nonzero(small)} groups with fewer than {_FEWEST_IN_GROUP} of a class, merged: {listed}"
    merged = np.where(small, _OTHER, names)[codes]
    levels, recoded = np.unique(merged, return_inverse=True)
    return levels, recoded, sentence


def _group(
    audited: Evidence,
    name: str,
    rows: BoolArray,
    plan: Plan,
    correction: Correction | None,
    disagreement: str,
    confidence: float,
    note: str,
    rng: np.random.Generator,
) -> GroupFindings:
    inside = int(np.count_nonzero(audited.member[rows]))
    outside = int(np.count_nonzero(rows)) - inside
    if min(inside, outside) < _FEWEST_FOR_METRICS:
        return GroupFindings(name, inside, outside, (), "no metrics: fewer than two members or two non-members")
    part = audited.take(rows)
    plain = definition.estimates(Sample.of(part), plan.metric_names, confidence)
    metrics = [metric_of(metric, estimate, None, plan) for metric, estimate in plain.items()]
    if correction is not None:
        learned = correction.propensity.of_rows(rows)
        score = CorrectedScore.of(part, learned, plan, correction.nuisance, rng=rng)
        causal = score.metrics(plan.metric_names, confidence, rng=rng)
        retained = withholding.without(((m, *of_metric) for m, of_metric in causal.items()), disagreement)
        metrics = [metric_of(m, estimate, None, plan, method) for m, method, estimate in retained] + metrics
    return GroupFindings(name, inside, outside, tuple(metrics), note)

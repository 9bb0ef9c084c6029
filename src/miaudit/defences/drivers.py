"""Which records a release gives away: its AUC in each group, beside the group's calibration and uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, IndexArray
from miaudit.defences.compare import MeasuredOption
from miaudit.disclosure import groups
from miaudit.disclosure.intervals import Interval
from miaudit.evidence import Evidence
from miaudit.findings.disclosure import Driver, Limits
from miaudit.metrics.classical import Sample

_LEAST = 20  # members and non-members of a group that gets an AUC
_MOST = 40  # groups
_SHADOWS = 4  # models that their figures are taken from, at least
_REPLICATES = 200


def drivers(
    released: MeasuredOption, reference: MeasuredOption, *, confidence: float = 0.95, rng: np.random.Generator
) -> tuple[Driver, ...]:
    """Return for each group how well the attack on the release works in it, and what its records are like.

    Groups are those of the records, else their classes; the forty largest. AUCs have limits that hold for all groups
    together (Bonferroni). Calibration error, aleatoric and epistemic uncertainty are those of the outputs as they are,
    from the shadow models (:func:`miaudit.disclosure.groups.pooled`), each with limits of its own.

    Parameters
    ----------
    released : the option that is to be released
    reference : outputs as they are
    rng : generator of the bootstrap over records
    """
    models = reference.option.models
    of = models.labels if models.groups is None else models.groups
    names, code, counts = np.unique(of[models.rows], return_inverse=True, return_counts=True)
    largest = np.sort(np.argsort(-counts, kind="stable")[:_MOST])
    sure = 1 - (1 - confidence) / len(largest)
    figures = _figures(reference, code, [int(i) for i in largest], confidence, rng)
    by_group = [
        Driver(
            group=str(names[i]),
            members=int(models.member[code == i].sum()),
            nonmembers=int((~models.member[code == i]).sum()),
            auc=_auc(released, code == i, sure),
            **figures.get(int(i), {}),
        )
        for i in largest
    ]
    return tuple(sorted(by_group, key=lambda one: -1.0 if one.auc is None else one.auc.low, reverse=True))


def _auc(released: MeasuredOption, inside: BoolArray, confidence: float) -> Limits | None:
    models = released.option.models
    member = models.member[inside]
    if min(int(member.sum()), int((~member).sum())) < _LEAST:
        return None
    unit = None if models.units is None else models.units[models.rows][inside]
    sample = Sample.of(Evidence(score=released.attacked.scores[inside], member=member, unit=unit, design="one-run"))
    auc = sample.auc(confidence)
    return Limits(auc.value, auc.low, auc.high)


def _figures(
    reference: MeasuredOption, code: IndexArray, chosen: list[int], confidence: float, rng: np.random.Generator
) -> dict[int, dict[str, Any]]:
    """Calibration error and uncertainties by the number of the group, where shadow models and records allow them."""
    models = reference.option.models
    if len(models.logits) < 1 + _SHADOWS:
        return {}
    large = [i for i in chosen if int((code == i).sum()) >= groups.FEWEST_RECORDS]
    rows = np.flatnonzero(np.isin(code, large))
    if not len(rows):
        return {}
    shadow = np.stack([models.probabilities(m)[models.rows[rows]] for m in range(1, len(models.logits))], axis=1)
    pooled = groups.pooled(
        shadow,
        models.included[1:, models.rows[rows]].T,
        models.labels[models.rows[rows]],
        code[rows],
        confidence=confidence,
        replicates=_REPLICATES,
        rng=rng,
    )
    return {
        int(one.name): {
            "calibration_error": _limits(one.calibration_error),
            "aleatoric": _limits(one.aleatoric),
            "epistemic": one.epistemic,
            "assumption": one.assumption,
        }
        for one in pooled
    }


def _limits(found: Interval) -> Limits:
    return Limits(found.value, found.low, found.high)

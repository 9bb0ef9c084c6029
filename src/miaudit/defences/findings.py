"""From a comparison to findings: the verdict on the release, the recommendation, and theory beside measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miaudit.attacks.disclosed import LEAST
from miaudit.defences.advise import Advice, advise
from miaudit.defences.compare import DefenceComparison, MeasuredOption, Models
from miaudit.defences.differences import PairedDifference
from miaudit.disclosure import prediction
from miaudit.errors import InputError, nearest
from miaudit.findings import verdict as verdict_rule
from miaudit.findings.disclosure import Compared, Counts, DisclosureFindings, Driver, Limits
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate

_MOST_PREDICTED = 120
_LEVELS = (0.02, 0.05, 0.1)
_TURN = "more shadow models (shadow: models) let the attack learn which way round they go"
_DECLARE = "Declare it if inclusion was decided at random: evaluation: design: one-run."


def findings(
    comparison: DefenceComparison,
    *,
    release: str | None = None,
    metric: str = "auc",
    threshold: float | None = None,
    tolerance: float = 0.02,
    declared: bool = True,
    drivers: Sequence[Driver] = (),
    predictions: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    plan: Mapping[str, Any] | None = None,
    source: str = "",
    target: str = "",
    repeat: Mapping[str, Any] | None = None,
) -> DisclosureFindings:
    """Judge what is to be released, and say what the comparison supports.

    Parameters
    ----------
    comparison : as :func:`miaudit.defences.compare.compare` gives it
    release : name of the option that is to be released; by default the outputs as they are
    metric, threshold : of the verdict; by default the AUC and the threshold that audits have
    tolerance : accuracy that may be lost
    declared : whether memberships are known to have been drawn at random
    drivers : of :func:`miaudit.defences.drivers.drivers`
    predictions : of :func:`predicted`
    notes, plan, source, target, repeat : recorded as they are

    Raises
    ------
    InputError
        For a release or metric that was not measured.
    """
    names = [one.option.name for one in comparison.measured]
    name = release or names[0]
    if name not in names:
        hint = nearest(name, names) or "choose one"
        raise InputError("release", f"one of {', '.join(names)}", repr(name), hint)
    judged = comparison.measured[names.index(name)]
    advice = advise(comparison, tolerance=tolerance)
    first = comparison.measured[0].option.models
    return DisclosureFindings(
        verdict=_verdict(judged, metric, threshold, comparison.confidence, declared=declared),
        release=name,
        recommendation=advice.text,
        parts=advice.parts,
        rests_on=advice.rests_on,
        options=tuple(_compared(comparison, advice, i) for i in range(len(names))),
        counts=Counts(
            members=int(first.member.sum()),
            nonmembers=int((~first.member).sum()),
            shadow_models=len(first.logits) - 1,
            calibration=len(first.calibration),
            classes=first.classes,
        ),
        confidence=comparison.confidence,
        drivers=tuple(drivers),
        predictions=tuple(predictions),
        notes=tuple(notes),
        plan=dict(plan or {}),
        source=source,
        target=target,
        repeat=dict(repeat or {}),
    )


def predicted(
    models: Models, *, confidence: float = 0.95, threshold: float = 0.2, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare what calibration and uncertainty predict with what the attacks of theory measure, on some records.

    Parameters
    ----------
    models : whose shadow models are asked
    threshold : q of the decision sets

    Returns
    -------
    list of plain values, one for each disclosure; and what must be said where there are none
    """
    rows = np.sort(rng.permutation(models.rows)[:_MOST_PREDICTED])
    included = models.included[1:, rows].T
    sides = [int(count.min()) for count in (included.sum(axis=1), (~included).sum(axis=1))] if included.size else [0]
    if min(sides) < 2 * prediction.LEAST or len(rows) < prediction.FEWEST_RECORDS:
        needed = 4 * prediction.LEAST
        return [], [
            f"What calibration and uncertainty predict was not compared: that takes {needed} shadow models or more "
            f"and {prediction.FEWEST_RECORDS} records."
        ]
    shadow = np.stack([models.probabilities(m)[rows] for m in range(1, len(models.logits))], axis=1)
    found = prediction.compare(
        shadow, included, models.labels[rows], threshold=threshold, confidence=confidence, rng=rng
    )
    return [one.to_dict() for one in found], []


def _verdict(
    one: MeasuredOption, metric: str, threshold: float | None, confidence: float, *, declared: bool
) -> verdict_rule.Verdict:
    if metric not in one.leakage:
        hint = nearest(metric, one.leakage) or "choose one"
        raise InputError("primary_metric", f"one of {', '.join(one.leakage)}", repr(metric), hint)
    limit = definition.of(metric).threshold if threshold is None else threshold
    verdict = verdict_rule.judge(
        {one.option.called: one.leakage},
        metric=metric,
        threshold=limit,
        confidence=confidence,
        levels=_LEVELS,
        turn=_TURN,
    )
    if verdict.status == "clear" and (len(one.option.models.logits) < 1 + 2 * LEAST or not one.option.adaptive):
        reason = (
            "No answer: the attack that found little was a plain threshold, without shadow models that went through "
            "the same. That shows concern where there is some, and never its absence."
        )
        verdict = verdict_rule.no_answer("not-testable", reason, metric=metric, threshold=limit, confidence=confidence)
    return verdict if declared else verdict_rule.undeclared(verdict, _DECLARE)


def _compared(comparison: DefenceComparison, advice: Advice, i: int) -> Compared:
    one, judged = comparison.measured[i], advice.judged[i]
    auc = one.leakage["auc"]
    return Compared(
        name=one.option.name,
        words=one.option.called,
        group=one.option.group,
        kind=one.option.defence.kind,
        randomness=one.option.defence.randomness,
        attack=one.attacked.name,
        tried=dict(one.attacked.tried),
        leakage={name: _limits(found) for name, found in one.leakage.items()},
        averaged_advantage=Limits((auc.value or 0.0) - 0.5, auc.low - 0.5, auc.high - 0.5),
        accuracy=_limits(one.accuracy),
        calibration_error=None if one.error is None else _limits(one.error),
        coverage=None if one.coverage is None else _limits(one.coverage),
        size=None if one.size is None else _limits(one.size),
        empty=one.empty,
        full=one.full,
        reduction=_difference(comparison.reductions[i - 1] if i else None),
        cost=_difference(comparison.costs[i - 1] if i else None),
        effect=judged.effect,
        price=judged.price,
        front=judged.front,
        recommended=one.option.name in advice.recommended,
        notes=one.notes,
    )


def _limits(found: Estimate) -> Limits:
    return Limits(found.value, found.low, found.high, found.note)


def _difference(found: PairedDifference | None) -> Limits | None:
    return None if found is None else Limits(found.value, found.low, found.high)

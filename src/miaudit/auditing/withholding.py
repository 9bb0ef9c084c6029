"""Corrected metrics that must not be judged, because the weights that they rest on are contradicted.

AIPW corrects the AUC and the average effect by regressions of the score. A TPR at an FPR, the advantage and the
balanced accuracy rest on the weights alone. Where the two ways disagree about the AUC of a score, the weights miss a
part of the shift, and these metrics are withheld: they have no value and no limits, and no verdict rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from miaudit.auditing import zero_run
from miaudit.auditing.plan import Plan
from miaudit.auditing.zero_run import Correction
from miaudit.causal import challenge
from miaudit.causal.disagreement import Disagreement
from miaudit.evidence import Evidence
from miaudit.findings.metric import WITHHELD, Metric
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate

__all__ = ["contradicted", "in_words", "refusal", "without"]

Row = tuple[str, str, Estimate]  # name, estimator and estimate of a corrected metric
_MODELLED = ("aipw", "g")  # estimators that read a regression of the score


def contradicted(
    rows: Sequence[Row], evidence: Evidence, corrected: Correction, plan: Plan, *, rng: np.random.Generator
) -> str:
    """Say that weights and regressions disagree about the AUC of a score, so that metrics by weights are withheld.

    Parameters
    ----------
    rows : of :func:`miaudit.auditing.zero_run.both`
    evidence : of this score
    corrected : what the weights come from
    plan : whose estimator may be one without regressions; those of a stack are then made for this test alone
    rng : draws folds of the regressions, where the propensity has none

    Returns
    -------
    str
        The note of what is withheld; empty where they agree, or where there is no AUC by AIPW.
    """
    of_auc = {method: estimate for name, method, estimate in rows if name == "auc"}
    if "aipw" not in of_auc and corrected.propensity.stacked:
        options = replace(plan, estimator="aipw"), corrected.nuisance, rows[0][2].confidence
        of_auc |= dict(zero_run.metrics(evidence, corrected.propensity, *options, names=("auc",), rng=rng).values())
    if not {"aipw", zero_run.ESTIMATOR} <= set(of_auc):
        return ""
    disagreement = Disagreement.of(of_auc["aipw"], of_auc[zero_run.ESTIMATOR])
    return f"{WITHHELD}{disagreement.sentence}" if disagreement.exceeds else ""


def without(rows: Iterable[Row], note: str) -> Iterator[Row]:
    """Yield rows with those withheld that rest on the weights alone; all as they are, where there is no note.

    What regressions measured stays, and so does what the weights say of the same metric: it shows the disagreement.
    """
    modelled: set[str] = set()
    for name, method, estimate in rows:
        if method in _MODELLED:
            modelled.add(name)
        held = Estimate(None, -math.inf, math.inf, estimate.confidence, note)
        yield name, method, estimate if name in modelled or not note else held


def in_words(by_score: Mapping[str, Sequence[Metric]]) -> tuple[str, ...]:
    """Say of each score what is withheld and what stays, beside the other corrections."""
    sentences = []
    for score, metrics in by_score.items():
        held = [metric for metric in metrics if metric.withheld]
        if held:
            names = challenge.listed([definition.of(metric.name).label for metric in held])
            why = held[0].note.removeprefix(WITHHELD)
            stay = "The AUC and the average effect rest on the outcome model."
            stay = "" if any(metric.name == "auc" for metric in held) else f" {stay}"
            sentences.append(f"Of the score {score}, {why}. Withheld: {names}.{stay}")
    return tuple(sentences)


def refusal(measured: Mapping[str, Mapping[str, Metric]], names: Iterable[str]) -> str:
    """Say why a verdict on some metrics has to be refused: one of them is withheld.

    Parameters
    ----------
    measured : of each score that counts its metrics by name, the corrected ones where there are any
    names : of the metrics that the verdict would rest on

    Returns
    -------
    str
        A sentence; empty where none is withheld.
    """
    scores = list(names)
    held = {
        score: [metric for metric in of_score.values() if metric.name in scores and metric.withheld]
        for score, of_score in measured.items()
    }
    held = {score: metrics for score, metrics in held.items() if metrics}
    if not held:
        return ""
    score, metrics = next(iter(held.items()))
    labels = challenge.listed([definition.of(metric.name).label for metric in metrics])
    whose = f" of {challenge.listed(list(held))}" if len(measured) > 1 else ""
    reason = metrics[0].note.removeprefix(WITHHELD)
    rest = "it rests" if len(metrics) == 1 else "they rest"
    about = f"Of {score}, {reason}" if len(measured) > 1 else f"{reason[:1].upper()}{reason[1:]}"
    return f"{about}. {labels}{whose} cannot be judged, because {rest} on the weights alone."

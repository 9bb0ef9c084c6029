"""Corrected metrics where the weights that they rest on are contradicted: which of them still may be judged.

AIPW corrects the AUC and the average effect by regressions of the score. A TPR at an FPR, the advantage and the
balanced accuracy rest on weights. Where the two ways disagree about the AUC of a score, the weights miss a part of the
shift. Tilted weights carry the regressions, so that metrics by them rest on the outcome model, and say so. Without a
tilt these metrics are withheld: they have no value and no limits, and no verdict rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from miaudit.auditing.corrected_score import TILTED, WEIGHTS, CorrectedScore, Row
from miaudit.causal import lack_of_fit
from miaudit.causal.disagreement import Disagreement
from miaudit.findings.metric import WITHHELD, Metric
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate

__all__ = ["contradicted", "in_words", "refusal", "without"]

_MODELLED = ("aipw", "g", TILTED)  # estimators that read a regression of the score
_RESTS = "rests on the outcome model: "


def contradicted(rows: Sequence[Row], score: CorrectedScore, *, rng: np.random.Generator) -> str:
    """Say that weights and regressions disagree about the AUC of a score.

    Parameters
    ----------
    rows : of this score, by :meth:`miaudit.auditing.corrected_score.CorrectedScore.rows`
    score : with what corrects it; where the estimator reads no regressions, those of a stack are made for this test
    rng : draws folds of an outcome model

    Returns
    -------
    str
        The disagreement in words; empty where they agree, or where there is no AUC by AIPW.
    """
    of_auc = {method: estimate for name, method, estimate in rows if name == "auc"}
    if {"aipw", WEIGHTS} <= set(of_auc):
        disagreement: Disagreement | None = Disagreement.of(of_auc["aipw"], of_auc[WEIGHTS])
    else:
        disagreement = score.disagreement(rows[0][2].confidence, rng=rng)
    return disagreement.sentence if disagreement is not None and disagreement.exceeds else ""


def without(rows: Iterable[Row], disagreement: str) -> Iterator[Row]:
    """Yield rows with those withheld that rest on the weights alone; all as they are, where nothing disagrees.

    What regressions measured stays, and so does what the weights say of the same metric: it shows the disagreement.
    """
    modelled: set[str] = set()
    for name, method, estimate in rows:
        if method in _MODELLED:
            modelled.add(name)
        if not disagreement or (name in modelled and method != TILTED):
            yield name, method, estimate
        elif name in modelled:
            notes = (estimate.note, f"{_RESTS}{disagreement}")
            yield name, method, replace(estimate, note="; ".join(note for note in notes if note))
        else:
            note = f"{WITHHELD}{disagreement}"
            yield name, method, Estimate(None, -math.inf, math.inf, estimate.confidence, note)


def in_words(by_score: Mapping[str, Sequence[Metric]], disagreements: Mapping[str, str]) -> tuple[str, ...]:
    """Say of each score whose weights are contradicted what rests on the outcome model, and what is withheld."""
    return tuple(
        f"Of the score {score}, {disagreements[score]}.{_resting(metrics)}{_held(metrics)}"
        for score, metrics in by_score.items()
        if disagreements.get(score)
    )


def _resting(metrics: Sequence[Metric]) -> str:
    labels = dict.fromkeys(definition.of(one.name).label for one in metrics if one.estimator in _MODELLED)
    verb = "rest" if len(labels) > 1 else "rests"
    return f" {lack_of_fit.listed(list(labels))} {verb} on the outcome model." if labels else ""


def _held(metrics: Sequence[Metric]) -> str:
    labels = [definition.of(metric.name).label for metric in metrics if metric.withheld]
    return f" Withheld: {lack_of_fit.listed(labels)}." if labels else ""


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
    labels = lack_of_fit.listed([definition.of(metric.name).label for metric in metrics])
    whose = f" of {lack_of_fit.listed(list(held))}" if len(measured) > 1 else ""
    reason = metrics[0].note.removeprefix(WITHHELD)
    rest = "it rests" if len(metrics) == 1 else "they rest"
    about = f"Of {score}, {reason}" if len(measured) > 1 else f"{reason[:1].upper()}{reason[1:]}"
    return f"{about}. {labels}{whose} cannot be judged, because {rest} on the weights alone."

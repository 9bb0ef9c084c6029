"""Published scores of one target and one shadow model (Song and Mittal 2021): which attacks they allow, which not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import miaudit as ma
from miaudit.attacks import lira, shadow_classifier, signals
from miaudit.errors import InputError
from miaudit.report import kinds

PLAN = ma.Plan(fpr_targets=(0.01, 0.1), primary_metric="auc", bounds=None)
SHOWN = ("auc", "tpr_at_fpr_0.01", "tpr_at_fpr_0.1")


def measured(data: Path, pages: Path | None, rng: np.random.Generator) -> dict[str, Any]:
    """Audit the target with the shadow classifier, undefended and behind MemGuard; try LiRA on each record."""
    with np.load(data / "mia_scores_location30" / "location30_mia_scores.npz", allow_pickle=False) as z:
        given = {name: z[name] for name in z.files}
    found: dict[str, Any] = {"lira_refused": lira_refusal(given)}
    for defence in ("undefended", "memguard"):
        scores = attacks(given, defence)
        evidence = ma.Evidence(
            score=scores,
            member=given["target_member"].astype(bool),
            design="one-run",
            source=f"published scores on Location-30, {defence}",
        )
        findings = ma.audit(evidence, plan=PLAN, rng=rng)
        if pages is not None:
            kinds.write(findings, pages / f"published-{defence}", overwrite=True)
        found[defence] = {
            s.score: {m.name: (m.low, m.value, m.high) for m in s.metrics if m.name in SHOWN} for s in findings.scores
        }
    return found


def attacks(given: dict[str, np.ndarray], defence: str) -> dict[str, np.ndarray]:
    """The raw loss of the target, and what a classifier learns of membership on the one shadow model."""
    target, shadow = (_logits(given, side, defence) for side in ("target", "shadow"))
    labels, known = given["target_label"].astype(int), given["shadow_label"].astype(int)
    member = given["shadow_member"].astype(bool)
    found = signals.member_scores(labels=labels, logits=target, names=["loss", "modified_entropy"])
    for name, classes in (("shadow_classifier", "pooled"), ("shadow_classifier_per_class", "per-class")):
        found[name] = shadow_classifier.score(target, labels, shadow, known, member, classes=classes)
    return found


def _logits(given: dict[str, np.ndarray], side: str, defence: str) -> np.ndarray:
    if defence == "undefended":
        return given[f"{side}_logits"].astype(np.float64)
    return np.log(np.maximum(given[f"{side}_prob_memguard"].astype(np.float64), signals.PROBABILITY_FLOOR))


def lira_refusal(given: dict[str, np.ndarray]) -> str:
    """Say why per-record LiRA is refused: one shadow model, on other records."""
    confidence = [
        signals.member_scores(labels=given[f"{s}_label"].astype(int), logits=given[f"{s}_logits"], names=["loss"])
        for s in ("target", "shadow")
    ]
    target, shadow = (one["loss"] for one in confidence)
    try:
        lira.check(
            target, shadow, given["shadow_member"], target_rows=given["target_row"], shadow_rows=given["shadow_row"]
        )
    except InputError as error:
        return str(error)
    return ""

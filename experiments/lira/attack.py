"""LiRA and the raw loss on the same targets: scores, their metrics with intervals, and the one-run audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from training import FIRST, Trained

import miaudit as ma
from miaudit.attacks import lira
from miaudit.metrics.classical import Estimate, Sample, tpr_name
from miaudit.models import shadow
from miaudit.report import kinds

FPR = (0.001, 0.01)
METRICS = ("auc", *(tpr_name(fpr) for fpr in FPR))
CONFIDENCE = 0.95
PLAN = ma.Plan(fpr_targets=FPR, primary_metric=tpr_name(0.01), bounds=None)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Logit-scaled confidence of all targets (n, T) and shadow models (n, M), and who learned what, of like shape."""

    target: np.ndarray
    member: np.ndarray
    shadow: np.ndarray
    included: np.ndarray

    @classmethod
    def of(cls, trained: Trained) -> Statistics:
        values = trained.outputs.signal("logit_confidence").astype(np.float64)
        included = trained.outputs.included.T
        at = trained.shadows
        return cls(values[:, at:], included[:, at:], values[:, :at], included[:, :at])

    def counts(self) -> list[int]:
        """Numbers of shadow models to attack with: 4, 8, 16, ... up to all."""
        found = [FIRST]
        while found[-1] * 2 <= self.shadow.shape[1]:
            found.append(found[-1] * 2)
        return found

    def loss(self) -> np.ndarray:
        """The raw loss, turned so that higher is more member-like (n, T)."""
        return -np.logaddexp(0.0, -self.target)

    def lira(self, models: int) -> dict[str, np.ndarray]:
        """LiRA with the first ``models`` shadow models, by variant (n, T)."""
        shadows, included = self.shadow[:, :models], self.included[:, :models]
        variants = {
            "lira_online": lambda t: lira.online(t, shadows, included),
            "lira_online_global": lambda t: lira.online(t, shadows, included, variance="global"),
            "lira_offline": lambda t: lira.offline(t, shadows, included),
        }
        return {name: np.column_stack([score(t) for t in self.target.T]) for name, score in variants.items()}

    def evidence(self, scores: Mapping[str, np.ndarray], source: str) -> ma.Evidence:
        """Records of all targets, one below the other; a record that several targets were asked about is one unit."""
        n, targets = self.target.shape
        unit = np.repeat(np.arange(n), targets) if targets > 1 else None
        flat = {name: values.ravel() for name, values in scores.items()}
        return ma.Evidence(score=flat, member=self.member.ravel(), unit=unit, design="one-run", source=source)


def measured(trained: Trained, *, models: int, pages: Path | None, rng: np.random.Generator) -> dict[str, Any]:
    """Metrics of the loss and of LiRA with 4 to all shadow models; the audit, with a page, of LiRA with ``models``."""
    statistics, world = Statistics.of(trained), trained.world
    source = f"{world.network} on a random half of {world.n:,} records of {world.name}"
    rows = {"loss": {"-": limits(statistics.evidence({"loss": statistics.loss()}, source))}}
    for count in statistics.counts():
        for name, values in statistics.lira(count).items():
            rows.setdefault(name, {})[str(count)] = limits(statistics.evidence({name: values}, source))
    health = lira.health(statistics.shadow[:, :models], statistics.included[:, :models])
    both = {"loss": statistics.loss(), **statistics.lira(models)}
    del both["lira_online_global"]
    evidence = statistics.evidence(both, f"{source}, {models} shadow models")
    findings = ma.audit(evidence, plan=PLAN, rng=rng, notes=[note for note in [health.note] if note])
    if pages is not None:
        kinds.write(findings, pages / f"{world.name}-{models}-shadows", overwrite=True)
    return {
        "records": world.n,
        "targets": len(trained.targets),
        "shadows": trained.shadows,
        "accuracy": trained.accuracy(),
        "audited_with": models,
        "scores": rows,
        "audit": {s.score: {m.name: _triple(m) for m in s.metrics if m.name in METRICS} for s in findings.scores},
        "far_from_gaussian": health.far,
        "leaking_records": _leaking(statistics, rng),
    }


def _leaking(statistics: Statistics, rng: np.random.Generator) -> int | None:
    """How many records give themselves away over all shadow models (Holm, 5%); None with fewer than 16 models."""
    if statistics.shadow.shape[1] < 16:
        return None
    return len(shadow.vulnerability(statistics.shadow, statistics.included.T, rng=rng).leaking())


def limits(evidence: ma.Evidence) -> dict[str, tuple[float, float | None, float]]:
    """Lower limit, value and upper limit of each metric; no value where the FPR cannot be resolved."""
    sample = Sample.of(evidence)
    found = {"auc": sample.auc(CONFIDENCE)} | {tpr_name(fpr): sample.tpr_at_fpr(fpr, CONFIDENCE) for fpr in FPR}
    return {name: _triple(estimate) for name, estimate in found.items()}


def _triple(estimate: Estimate | Any) -> tuple[float, float | None, float]:
    return estimate.low, estimate.value, estimate.high


def apart(higher: Sequence[float], lower: Sequence[float]) -> bool:
    """Whether an interval lies above another, without a common point."""
    return higher[0] > lower[2]

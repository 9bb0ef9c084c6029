"""Loops that measure how often an interval contains the truth; every job is a plain function of plain values.

A job runs in a process of its own (``run`` splits the replicates), so worlds are named and not passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from miaudit import Evidence, Findings, Plan
from miaudit.auditing import pipeline
from miaudit.auditing.headline import Bonferroni, Exploratory, Split
from miaudit.findings.audit import Curve
from miaudit.metrics import bootstrap, classical
from miaudit.metrics.classical import Sample
from miaudit.metrics.definition import estimates
from miaudit.metrics.definition import names as metric_names
from miaudit.metrics.roc import Roc
from worlds.clusters import Clusters
from worlds.scores import NULL, WORLDS, gaussian
from worlds.twins import naive_limits

FloatArray = NDArray[np.float64]
WORKERS = 2


def audit(evidence: Evidence, plan: Plan, rng: np.random.Generator) -> Findings:
    """Audit without the curve for the chart, whose band takes most of the time and no part in the verdict."""
    no_band = mock.patch.object(Sample, "tpr_band", return_value=(None, None))
    with mock.patch.object(Curve, "of", return_value=None), no_band:
        return pipeline.audit(evidence, plan=plan, rng=rng)


def run(
    job: Callable[..., FloatArray], *arguments: Any, replicates: int, seed: int, pool: Executor | None
) -> FloatArray:
    """Average a job over replicates: the same numbers with a pool and without, for any number of processes."""
    parts = 8
    if replicates % parts:
        raise ValueError(f"replicates must be a multiple of {parts}")
    seeds = np.random.SeedSequence(seed).spawn(parts)
    if pool is None:
        found = [job(*arguments, replicates // parts, child) for child in seeds]
    else:
        futures = [pool.submit(job, *arguments, replicates // parts, child) for child in seeds]
        found = [future.result() for future in futures]
    return np.mean(found, axis=0)


def tpr(name: str, n: int, alphas: Sequence[float], naive: bool, replicates: int, seed: Any) -> FloatArray:
    """Rows: FPR targets. Columns: covered, limit above the truth, limit below it, width."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    truth = np.array([world.tpr(alpha) for alpha in alphas])
    found = np.zeros((len(alphas), 4))
    for _ in range(replicates):
        score, member = world.draw(n, n, rng)
        if naive:
            limits = np.array([naive_limits(score, member, alpha, 0.95) for alpha in alphas])
            low, high = limits[:, 0], limits[:, 1]
        else:
            low, high = classical.tpr_limits(Roc.of(score, member), alphas, 0.95)
        found += np.c_[(low <= truth) & (truth <= high), low > truth, high < truth, high - low]
    return found / replicates


def tpr_unequal(name: str, n1: int, n0: int, alphas: Sequence[float], replicates: int, seed: Any) -> FloatArray:
    """Coverage at each target with classes of unequal size."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    truth = np.array([world.tpr(alpha) for alpha in alphas])
    covered = np.zeros(len(alphas))
    for _ in range(replicates):
        low, high = classical.tpr_limits(Roc.of(*world.draw(n1, n0, rng)), alphas, 0.95)
        covered += (low <= truth) & (truth <= high)
    return covered / replicates


def step_tpr(name: str, n: int, alpha: float, replicates: int, seed: Any) -> FloatArray:
    """How often the interval contains the TPR of the lowest threshold that keeps the FPR, no randomisation: (1,)."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    truth = world.step_tpr(alpha)
    covered = 0
    for _ in range(replicates):
        low, high = classical.tpr_limits(Roc.of(*world.draw(n, n, rng)), alpha, 0.95)
        covered += bool(low[0] <= truth <= high[0])
    return np.array([covered / replicates])


def auc(d: float, n: int, plain: bool, replicates: int, seed: Any) -> FloatArray:
    """Covered, limit above the truth, limit below it: (3,)."""
    world, rng = gaussian(d), np.random.default_rng(seed)
    found = np.zeros(3)
    for _ in range(replicates):
        roc = Roc.of(*world.draw(n, n, rng))
        variance = classical.delong_variance(roc)
        if plain:
            half = 1.959963984540054 * variance**0.5
            low, high = roc.auc - half, roc.auc + half
        else:
            low, high = classical.auc_limits(roc.auc, variance, n, n, 0.95)
        found += (low <= world.auc <= high, low > world.auc, high < world.auc)
    return found / replicates


def advantage(d: float, n: int, replicates: int, seed: Any) -> FloatArray:
    """Covered, lower limit above the truth, upper limit below it: (3,)."""
    world, rng = gaussian(d), np.random.default_rng(seed)
    found = np.zeros(3)
    for _ in range(replicates):
        low, high = classical.advantage_limits(Roc.of(*world.draw(n, n, rng)), 0.95)
        found += (low <= world.advantage <= high, low > world.advantage, high < world.advantage)
    return found / replicates


def difference(name: str, n1: int, n0: int, replicates: int, seed: Any) -> FloatArray:
    """Share of intervals of the average effect that cover: (1,)."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    covered = 0
    for _ in range(replicates):
        score, member = world.draw(n1, n0, rng)
        found = Sample.of(Evidence(score=score, member=member)).difference(0.95)
        covered += found.low <= world.difference <= found.high
    return np.array([covered / replicates])


def clusters(world: Clusters, alpha: float, with_units: bool, replicates: int, seed: Any) -> FloatArray:
    """Covered by the intervals of TPR, AUC and effect; lower limit of the advantage above the truth: (4,)."""
    rng = np.random.default_rng(seed)
    best = gaussian(world.d).advantage
    found = np.zeros(4)
    for _ in range(replicates):
        score, member, unit = world.draw(rng)
        sample = Sample.of(Evidence(score=score, member=member, unit=unit if with_units else None))
        rate, area, effect = sample.tpr_at_fpr(alpha, 0.95), sample.auc(0.95), sample.difference(0.95)
        found += (
            rate.low <= world.tpr(alpha) <= rate.high,
            area.low <= world.auc <= area.high,
            effect.low <= world.d <= effect.high,
            sample.advantage(0.95).low > best,
        )
    return found / replicates


def resampled(d: float, n: int, count: int, replicates: int, seed: Any) -> FloatArray:
    """Bootstrap: TPR at 10% covered, AUC covered, limit of the advantage above the truth, effect covered: (4,)."""
    world, rng = gaussian(d), np.random.default_rng(seed)
    found = np.zeros(4)
    for _ in range(replicates):
        score, member = world.draw(n, n, rng)
        sample = Sample.of(Evidence(score=score, member=member))
        drawn = bootstrap.replicates(sample, (0.1,), count, rng=rng)
        by_name = bootstrap.estimates(sample, drawn, (0.1,), 0.95)
        rate, area, effect = by_name["tpr_at_fpr_0.1"], by_name["auc"], by_name["ate"]
        found += (
            rate.low <= world.tpr(0.1) <= rate.high,
            area.low <= world.auc <= area.high,
            by_name["advantage"].low > world.advantage,
            effect.low <= world.difference <= effect.high,
        )
    return found / replicates


def flagged_at_truth(d: float, metric: str, threshold: float, n: int, replicates: int, seed: Any) -> FloatArray:
    """Share of audits that are flagged, and that are clear, when the truth is exactly at the threshold: (2,)."""
    world, rng = gaussian(d), np.random.default_rng(seed)
    plan = Plan(fpr_targets=(0.01,), primary_metric=metric, threshold_for_concern=threshold)
    found = np.zeros(2)
    for _ in range(replicates):
        score, member = world.draw(n, n, rng)
        verdict = audit(Evidence(score=score, member=member, design="one-run"), plan, rng).verdict
        found += (verdict.status == "flagged", verdict.status == "clear")
    return found / replicates


HEADLINES = {"bonferroni": Bonferroni(), "split": Split(), "exploratory": Exploratory()}


def useless_scores(headline: str, k: int, n: int, replicates: int, seed: Any) -> FloatArray:
    """Share of audits of k useless scores that are flagged although every AUC is one half: (1,)."""
    rng = np.random.default_rng(seed)
    plan = Plan(
        fpr_targets=(0.1,),
        primary_metric="auc",
        threshold_for_concern=0.5,
        headline=HEADLINES[headline],
        confidence=0.9,
    )
    flagged = 0
    for _ in range(replicates):
        member = np.arange(2 * n) < n
        scores = {f"s{i}": rng.normal(size=2 * n) for i in range(k)}
        findings = audit(Evidence(score=scores, member=member, design="one-run"), plan, rng)
        flagged += findings.verdict.status == "flagged"
    return np.array([flagged / replicates])


def all_groups(groups: int, n: int, replicates: int, seed: Any) -> FloatArray:
    """Share of samples in which the AUC intervals of all groups cover, and in which uncorrected ones all do: (2,)."""
    rng = np.random.default_rng(seed)
    plan = Plan(fpr_targets=(0.1,))
    found = np.zeros(2)
    for _ in range(replicates):
        score, member = NULL.draw(n, n, rng)
        group = np.tile(np.arange(groups), 2 * n // groups + 1)[: 2 * n]
        evidence = Evidence(score=score, member=member, group=group)
        together = [next(m for m in g.metrics if m.name == "auc") for g in audit(evidence, plan, rng).groups]
        alone = [
            estimates(Sample.of(evidence.take(group == g)), metric_names((0.1,)), 0.95)["auc"] for g in range(groups)
        ]
        found += (
            all(m.low <= 0.5 <= m.high for m in together),
            all(m.low <= 0.5 <= m.high for m in alone),
        )
    return found / replicates

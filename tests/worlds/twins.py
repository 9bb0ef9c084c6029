"""The slow, straightforward way to do what the package does fast.

Second truths for the tests, and the baseline of the benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from sklearn.metrics import roc_auc_score, roc_curve

FloatArray = NDArray[np.float64]


def counts_at_or_above(score: FloatArray, chosen: NDArray[np.bool_], threshold: float) -> int:
    """Count by a plain loop."""
    return sum(1 for y, kept in zip(score.tolist(), chosen.tolist(), strict=True) if kept and y >= threshold)


def auc_by_pairs(score: FloatArray, member: NDArray[np.bool_]) -> float:
    """P(member > non-member) + P(equal) / 2 over all pairs."""
    wins = 0.0
    for a in score[member].tolist():
        for b in score[~member].tolist():
            wins += 1.0 if a > b else 0.5 if a == b else 0.0
    return wins / (int(member.sum()) * int((~member).sum()))


def delong_by_pairs(score: FloatArray, member: NDArray[np.bool_]) -> float:
    """DeLong's variance from the n1 x n0 matrix of comparisons."""
    inside, outside = score[member], score[~member]
    kernel = (inside[:, None] > outside).astype(float) + 0.5 * (inside[:, None] == outside)
    rows, columns = kernel.mean(axis=1), kernel.mean(axis=0)
    return float(rows.var(ddof=1) / len(rows) + columns.var(ddof=1) / len(columns))


def members_above_boundary(score: FloatArray, member: NDArray[np.bool_], false_positives: float) -> tuple[float, float]:
    """Fewest and most members accused when so many non-members are, walking down the distinct scores one by one."""
    inside, outside = score[member].tolist(), score[~member].tolist()
    fp = tp = 0
    fewest, most = (0.0, 0.0) if false_positives == 0 else (math.nan, math.nan)
    for value in sorted({*inside, *outside}, reverse=True):
        more_fp, more_tp = outside.count(value), inside.count(value)
        if fp < false_positives < fp + more_fp:
            share = (false_positives - fp) / more_fp
            return tp + share * more_tp, tp + share * more_tp
        fp, tp = fp + more_fp, tp + more_tp
        if fp == false_positives:
            fewest = float(tp) if math.isnan(fewest) else fewest
            most = float(tp)
    return fewest, most


def mixture_limits(
    score: FloatArray, member: NDArray[np.bool_], alpha: float, confidence: float
) -> tuple[float, float]:
    """Limits of the TPR from the definition: bisection on the binomial-beta mixture, all counts, scipy's laws."""
    n1, n0 = int(member.sum()), int((~member).sum())
    j = np.arange(n0 + 1)
    mass = stats.binom.pmf(j, n0, alpha)
    ends = np.array([members_above_boundary(score, member, float(k)) for k in j])
    resolved = n0 * alpha >= 3.69
    hits = ends.mean(axis=1) if resolved else ends[:, 1]

    def quantile(level: float, at_zero: bool) -> float:
        def cdf(x: float) -> float:
            parts = stats.beta.cdf(x, hits + 0.5, n1 - hits + 0.5)
            parts = np.where(hits == 0, 1.0, parts) if at_zero else np.where(hits == n1, 0.0, parts)
            return float(mass @ parts)

        low, high = 0.0, 1.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if cdf(middle) < level else (low, middle)
        return (low + high) / 2

    tail = (1 - confidence) / 2
    return quantile(tail, True) if resolved else 0.0, quantile(1 - tail, False)


def naive_limits(score: FloatArray, member: NDArray[np.bool_], alpha: float, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson at the estimated threshold, as if it had been fixed beforehand: the control that must fail."""
    fpr, tpr, _ = roc_curve(member, score, drop_intermediate=False)
    n1 = int(member.sum())
    hits = round(float(tpr[np.searchsorted(fpr, alpha * (1 + 1e-12), side="right") - 1]) * n1)
    found = stats.binomtest(hits, n1).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def bootstrap_loop(
    score: FloatArray,
    member: NDArray[np.bool_],
    fpr_targets: Sequence[float],
    count: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Resample each class, sort again, ask scikit-learn: AUC (B,), TPR (B, targets) and largest TPR - FPR (B,)."""
    inside, outside = score[member], score[~member]
    label = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    auc, best, tpr_found = np.empty(count), np.empty(count), np.empty((count, len(fpr_targets)))
    for b in range(count):
        drawn = np.concatenate([rng.choice(inside, len(inside)), rng.choice(outside, len(outside))])
        fpr, tpr, _ = roc_curve(label, drawn)
        auc[b] = np.trapezoid(tpr, fpr)
        tpr_found[b] = np.interp(fpr_targets, fpr, tpr)
        best[b] = np.max(tpr - fpr)
    return auc, tpr_found, best


def unit_bootstrap_loop(
    score: FloatArray, member: NDArray[np.bool_], unit: NDArray[np.int64], count: int, rng: np.random.Generator
) -> FloatArray:
    """AUC (B,) when whole units are drawn by concatenating their rows, within each kind of unit."""
    rows = {int(u): np.flatnonzero(unit == u) for u in np.unique(unit)}
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for u, index in rows.items():
        kinds.setdefault((bool(member[index].any()), bool((~member[index]).any())), []).append(u)
    auc = np.empty(count)
    for b in range(count):
        drawn = np.concatenate([rows[int(u)] for kind in kinds.values() for u in rng.choice(kind, len(kind))])
        auc[b] = roc_auc_score(member[drawn], score[drawn])
    return auc


def log_p_and_moments(logits: FloatArray, target: NDArray[np.int64]) -> FloatArray:
    """Log p of tokens, mean and standard deviation of log p under the prediction, and top1 (4, tokens), in float64."""
    wide = logits.astype(np.float64)
    log_p = wide - special.logsumexp(wide, axis=1, keepdims=True)
    own, p = log_p[np.arange(len(target)), target], np.exp(log_p)
    mean = (p * log_p).sum(axis=1)
    std = np.sqrt((p * (log_p - mean[:, None]) ** 2).sum(axis=1))
    return np.stack([own, mean, std, own >= log_p.max(axis=1)])


def gower_sums(
    query: FloatArray,
    table: FloatArray,
    nominal: NDArray[np.bool_],
    width: FloatArray,
    columns: Sequence[int],
) -> FloatArray:
    """Return the sums (m,) of Gower's differences between one record (d,) and all rows (m, d) of a table."""
    total = np.zeros(len(table))
    for j in columns:
        apart = (query[j] != table[:, j]) * 1.0 if nominal[j] else np.abs(query[j] - table[:, j]) / width[j]
        apart[~(apart <= 1)] = 1.0  # also where one is missing
        total += np.where(np.isnan(query[j]) & np.isnan(table[:, j]), 0.0, apart)
    return total


def predicate_holds(conditions: Sequence[tuple[int, str, float]], table: FloatArray) -> NDArray[np.bool_]:
    """Return of which rows (m, d) all conditions (column, operator, value) are true, by a look at every row."""
    true = np.ones(len(table), dtype=np.bool_)
    for j, operator, value in conditions:
        column = table[:, j]
        holds = {"=": column == value, "<=": column <= value, ">=": column >= value, "missing": np.isnan(column)}
        true &= holds[operator]
    return true

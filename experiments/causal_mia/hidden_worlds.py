"""Shifts that hide in corners, bands, late products and many levels: how often is each limit of an audit wrong?

``python experiments/causal_mia/hidden_worlds.py --audits 200`` audits each world so many times as a user would, without
options, and prints for the AUC, the TPR at 10% and at 1% and the advantage how often a lower limit lies above the
truth, and an upper limit below it. The score moves with the very function that membership goes with, so that whatever
weights miss looks memorised. Nothing is memorised but in ``hide50``, where the shift hides a leak. Every audit is a
line of a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import miaudit
from miaudit import Evidence, Plan
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.causal.estimators import Comparison
from miaudit.metrics.roc import Roc

sys.path.insert(0, str(Path(__file__).parents[1]))

from causal_mia import real_data, shift_worlds
from causal_mia.audits import RESULTS, lines, named
from causal_mia.shift_worlds import Drawn

METRICS = ("auc", "tpr_at_fpr_0.1", "tpr_at_fpr_0.01", "advantage")
LEAK = 2.5  # standard deviations of the noise
ROUNDING = 1e-9


def world(x: Any, log_odds: Any, mean: Any, rng: np.random.Generator, codes: tuple[int, ...] = (), leak: float = 0.0):
    """Membership goes with the log-odds, the score with the mean and a leak."""
    member = rng.random(len(x)) < special.expit(log_odds)
    return x, member, mean + rng.normal(size=len(x)) + leak * member, codes


def hide50(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 50))
    both = x[:, 7] * x[:, 23]
    return world(x, both, -2 * both, rng, leak=LEAK)


def wide50(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 50))
    both = x[:, 7] * x[:, 23]
    return world(x, both, 2 * both, rng)


def levels(n: int, rng: np.random.Generator) -> Drawn:
    level, site = 1.2 * rng.normal(size=200), rng.integers(0, 200, n)
    return world(np.c_[site, rng.normal(size=n)], level[site], 2 * level[site], rng, (0,))


def levels_with_others(n: int, rng: np.random.Generator) -> Drawn:
    """What ``--exclude-levels`` leaves of it, as the refusal says: levels with three non-members or more."""
    x, member, score, codes = levels(n, rng)
    others = np.bincount(x[~member, 0].astype(int), minlength=200)[x[:, 0].astype(int)] >= 3
    return x[others], member[others], score[others], codes


def corner(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    inside = (x[:, 0] > 0.76) & (x[:, 1] > 0.76)
    return world(x, special.logit(np.where(inside, 0.92, 0.48)), 4.0 * inside, rng)


def band(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.uniform(size=(n, 4))
    inside = (x[:, 0] > 0.4) & (x[:, 0] < 0.6)
    return world(x, special.logit(np.where(inside, 0.88, 0.41)), 4.0 * inside, rng)


def sum4(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    sign = np.sign(x.sum(axis=1))
    return world(x, 1.3 * sign, 2 * sign, rng)


def ring(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 5))
    wave = np.sin(3 * np.sqrt((x[:, :3] ** 2).sum(axis=1)))
    return world(x, 1.5 * wave, wave, rng)


def sine(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.uniform(-3, 3, size=(n, 4))
    wave = np.sin(3 * x[:, 0])
    return world(x, 1.5 * wave, wave, rng)


HIDDEN: dict[str, tuple[int, Callable[[int, np.random.Generator], Drawn]]] = {
    "hide50": (2000, hide50),
    "one product of 50 columns": (2000, wide50),
    "200 declared levels": (4000, levels),
    "200 declared levels, as advised": (4000, levels_with_others),
    "corner of 5%": (4000, corner),
    "band of 20%": (3000, band),
    "sign of a sum of four": (2000, sum4),
    "ring": (2000, ring),
    "sine": (2000, sine),
}


@cache
def bike_scored(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Hours of bicycle hire, scored by a model of 2,500 others: minus the loss."""
    x, y = real_data.bike(folder)
    order = np.random.default_rng(3).permutation(len(x))
    target = HistGradientBoostingRegressor(max_iter=80, random_state=0).fit(x[order[:2500]], y[order[:2500]])
    rest = np.sort(order[2500:])
    return np.c_[x[rest], y[rest]], -np.abs(y[rest] - target.predict(x[rest]))


def bike(n: int, rng: np.random.Generator, folder: Path) -> Drawn:
    """Members are hours of the rush on working days three times as often."""
    x, score = bike_scored(folder)
    order = rng.permutation(len(x))
    inside, outside = order[: len(x) // 2], order[len(x) // 2 :]
    hour, working = x[inside, 2], x[inside, 5] == 1
    rush = working & (((hour >= 7) & (hour <= 9)) | ((hour >= 16) & (hour <= 19)))
    weight = np.where(rush, 3.0, 1.0)
    rows = np.r_[rng.choice(inside, n // 2, replace=False, p=weight / weight.sum()), outside[: n // 2]]
    return x[rows], np.arange(len(rows)) < n // 2, score[rows], ()


# As folktables' ACSIncome has them (Ding et al. 2021); industry and size of the family stand in for occupation and
# relationship, which the file does not have.
TEN = (
    "Age", "COW", "Education", "Marital_Status", "IND", "Place_of_Birth", "Fam_Size", "Hours_Worked", "Sex", "Race",
)  # fmt: skip


@cache
def acs_scored(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ten covariates of people of three years with the label, scored by a model of 6,000 others of 2018 on the ten."""
    _, y, years, full, names = real_data.acs(folder)
    x = full[:, [names.index(name) for name in TEN]]
    own = np.random.default_rng(2).permutation(np.flatnonzero(years == 2018))
    target = HistGradientBoostingClassifier(max_iter=80, random_state=0).fit(x[own[:6000]], y[own[:6000]])
    return np.c_[x, y], shift_worlds.log_likelihood(target, x, y), years, own[6000:]


def acs_of_ten(n: int, rng: np.random.Generator, folder: Path) -> Drawn:
    x, score, years, own = acs_scored(folder)
    other = np.flatnonzero(years == 2021)
    rows = np.r_[rng.choice(own, n // 2, replace=False), rng.choice(other, n // 2, replace=False)]
    return x[rows], np.arange(len(rows)) < n // 2, score[rows], ()


REAL: dict[str, tuple[int, Callable[[int, np.random.Generator, Path], Drawn]]] = {
    "bike, rush hours": (2000, bike),
    "ACS 2018 / 2021, ten covariates": (10_000, acs_of_ten),
    "ACS 2018 / 2021, all 42 columns": (10_000, lambda n, rng, folder: shift_worlds.acs(n, rng, folder, 2021)),
}


def _no_band(score: CorrectedScore, fpr: np.ndarray, confidence: float) -> tuple[Roc, np.ndarray, np.ndarray]:  # noqa: ARG001
    return Comparison.of(score.evidence, score.weights[0]).roc, np.zeros(len(fpr)), np.ones(len(fpr))


@contextmanager
def undrawn() -> Iterator[None]:
    """Leave out a part of the time: the band of the curve, which is made after the verdict."""
    with patch.object(CorrectedScore, "tpr_band", _no_band):
        yield


@cache
def truth(name: str) -> Mapping[str, float]:
    """What an endless number of records with both potential scores would show, among members."""
    if name != "hide50":
        return {"auc": 0.5, "tpr_at_fpr_0.1": 0.1, "tpr_at_fpr_0.01": 0.01, "advantage": 0.0}
    rng = np.random.default_rng(0)
    both = rng.normal(size=4_000_000) * rng.normal(size=4_000_000)
    both = both[rng.random(len(both)) < special.expit(both)]
    absent = np.sort(-2 * both + rng.normal(size=len(both)))
    present = np.sort(-2 * both + rng.normal(size=len(both)) + LEAK)
    tpr = {f"tpr_at_fpr_{fpr}": float(np.mean(present > np.quantile(absent, 1 - fpr))) for fpr in (0.1, 0.01)}
    below = np.searchsorted(absent, present)
    gaps = np.arange(len(present), 0, -1) / len(present) - (1 - below / len(absent))
    return {"auc": float(below.mean() / len(absent)), **tpr, "advantage": float(gaps.max())}


def audit(name: str, n: int, seed: int, folder: Path, *, drawn: bool = False) -> dict[str, Any]:
    """What one audit without options says: its status, and the limits of each metric.

    ``drawn``: with the band of its curve, which changes neither.
    """
    rng = np.random.default_rng([11, seed, *name.encode()])
    if name in HIDDEN:
        x, member, score, codes = HIDDEN[name][1](n, rng)
    elif name in REAL:
        x, member, score, codes = REAL[name][1](n, rng, folder)
    elif name in shift_worlds.MADE:
        x, member, score, codes = shift_worlds.MADE[name](n, rng)
    else:
        x, member, score, codes = shift_worlds.REAL[name](n, rng, folder)
    evidence = Evidence(score=score, member=member, covariates=x, design="zero-run")
    plan = Plan(categories=tuple(map(str, codes)), bounds=None)
    with nullcontext() if drawn else undrawn():
        findings = miaudit.audit(evidence, plan=plan, rng=rng)
    limits = {}
    for metric in reversed(findings.metrics):  # the corrected ones stand first
        if metric.name in METRICS and metric.estimator != "raw":
            limits[metric.name] = [metric.value, metric.low, metric.high]
    overlap = findings.overlap
    fit = None if overlap is None or overlap.fit is None else [overlap.fit.z, overlap.fit.product_z]
    return {"seed": seed, "status": findings.verdict.status, "fit": fit, "text": findings.verdict.text, **limits}


def wrong(rows: list[dict[str, Any]], name: str, metric: str) -> tuple[int, int]:
    """How many lower limits of a metric lie above the truth, and how many upper ones below it."""
    value = truth(name)[metric]
    given_limits = [row[metric] for row in rows if row.get(metric) is not None]
    above = sum(low is not None and low > value + ROUNDING for _, low, _ in given_limits)
    return above, sum(high is not None and high < value - ROUNDING for _, _, high in given_limits)


def in_words(name: str, rows: list[dict[str, Any]]) -> str:
    """A line of the table."""
    counts = {status: sum(row["status"] == status for row in rows) for status in ("refused", "flagged", "clear")}
    cells = [f"{above}; {below}" for above, below in (wrong(rows, name, metric) for metric in METRICS)]
    first, last = (counts["refused"], *cells), (counts["flagged"], counts["clear"])
    return f"| {' | '.join(map(str, (name, len(rows), *first, *last)))} |"


def main() -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    worlds = [*HIDDEN, *REAL, *(name for name in (*shift_worlds.MADE, *shift_worlds.REAL) if name != "hidden leak")]
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--audits", type=int, default=10)
    parser.add_argument("--records", type=int, default=2000, help="of worlds that have no size of their own")
    parser.add_argument("--worlds", nargs="+", choices=worlds, default=list(HIDDEN))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    labels = "AUC: low > truth; high < truth", "TPR at 10%", "TPR at 1%", "advantage"
    print(f"| world | audits | refused | {' | '.join(labels)} | flagged | clear |\n{'|---' * 9}|")
    with threadpool_limits(1):
        for name in options.worlds:
            n = {**HIDDEN, **REAL}[name][0] if name in HIDDEN or name in REAL else options.records
            path = named(options.out, "hidden_worlds", n, name)
            rows = list(lines(path, options.audits, lambda seed, name=name, n=n: audit(name, n, seed, options.data)))
            print(in_words(name, rows), flush=True)


if __name__ == "__main__":
    main()

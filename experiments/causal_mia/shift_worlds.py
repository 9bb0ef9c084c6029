"""Shifts without memorisation: how often is the interval right, and how often is there none?

``python experiments/causal_mia/shift_worlds.py --data ../shared/data --audits 200`` audits each world so many times
with the stacked propensity and AIPW by regressions, and prints the table of the README. Nothing is memorised, so that
the truth is 0.5, but in ``hidden leak``. Every audit is a line of a file, from which an
interrupted run goes on.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import miaudit
from miaudit import Evidence, Plan

sys.path.insert(0, str(Path(__file__).parents[1]))

from causal_mia import real_data
from causal_mia.audits import ANSWERED, RESULTS, answered, lines, misses, named, said
from causal_mia.real_data import log_likelihood

PLAN = Plan(fpr_targets=(0.1,), primary_metric="auc", estimator="aipw", propensity_model="stack", bounds=None)
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]]  # covariates, member, score, positions of codes


def of_log_odds(x: Any, log_odds: Any, rng: np.random.Generator, codes: tuple[int, ...] = ()) -> Drawn:
    """Membership goes with the log-odds, and so does the score."""
    return x, rng.random(len(x)) < special.expit(log_odds), log_odds + rng.normal(size=len(x)), codes


def line(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    return of_log_odds(x, 0.8 * x[:, 0] - 0.5 * x[:, 1], rng)


def product(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    return of_log_odds(x, x[:, 0] * x[:, 1], rng)


def correlations(n: int, rng: np.random.Generator, sign: float = 1.0, effect: float = 0.0) -> Drawn:
    """Two covariates go together among members, and against each other among non-members."""
    member, x = rng.random(n) < 0.5, rng.normal(size=(n, 4))
    r = np.where(member, 0.4, -0.4)
    x[:, 1] = r * x[:, 0] + np.sqrt(1 - r**2) * x[:, 1]
    return x, member, sign * x[:, 0] * x[:, 1] + rng.normal(size=n) + effect * member, ()


def step(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    return of_log_odds(x, np.where(x[:, 0] > 1, 1.5, -0.5), rng)


def log_normal(n: int, rng: np.random.Generator) -> Drawn:
    z = rng.normal(size=(n, 4))
    return of_log_odds(np.exp(1.5 * z), 0.8 * z[:, 0] - 0.5 * z[:, 1], rng)


def heavy_tails(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.standard_t(2, size=(n, 4))
    return of_log_odds(x, 1.2 * np.arctan(x[:, 0]) - 0.6 * np.arctan(x[:, 1]), rng)


def sites(n: int, rng: np.random.Generator, codes: tuple[int, ...] = ()) -> Drawn:
    level, site = rng.normal(size=30), rng.integers(0, 30, n)
    return of_log_odds(np.c_[site, rng.normal(size=(n, 3))], level[site], rng, codes)


def weak(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 20))
    return of_log_odds(x, x.sum(axis=1) / 5, rng)


def category(n: int, rng: np.random.Generator) -> Drawn:
    kind, z = rng.integers(0, 3, n), rng.normal(size=n)
    return of_log_odds(np.c_[kind, np.exp(z), rng.normal(size=(n, 2))], np.array([-1, 0, 1])[kind] * z, rng, (0,))


def signs(n: int, rng: np.random.Generator) -> Drawn:
    x = rng.normal(size=(n, 4))
    return of_log_odds(x, np.sign(x[:, 0] * x[:, 1] * x[:, 2]), rng)


@cache
def adult_scored(folder: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rows of Adult with the label, scored by a model of 8,000 others; positions of the columns of words."""
    x, y, codes = real_data.adult(folder)
    order = np.random.default_rng(1).permutation(len(x))
    target = HistGradientBoostingClassifier(max_iter=80, random_state=0).fit(x[order[:8000]], y[order[:8000]])
    rest = np.sort(order[8000:])
    return np.c_[x[rest], y[rest]], log_likelihood(target, x[rest], y[rest]), codes


def adult(n: int, rng: np.random.Generator, folder: Path) -> Drawn:
    """Members are people of 35 to 55 three times as often."""
    x, score, codes = adult_scored(folder)
    order = rng.permutation(len(x))
    inside, outside = order[: len(x) // 2], order[len(x) // 2 :]
    weight = np.where((x[inside, 0] >= 35) & (x[inside, 0] <= 55), 3.0, 1.0)
    rows = np.r_[rng.choice(inside, n // 2, replace=False, p=weight / weight.sum()), outside[: n // 2]]
    return x[rows], np.arange(len(rows)) < n // 2, score[rows], codes


@cache
def acs_scored(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """People of three years with the label, scored by a model of 6,000 others of 2018; rows of 2018 that are left."""
    x, y, years, full, _ = real_data.acs(folder)
    own = np.random.default_rng(2).permutation(np.flatnonzero(years == 2018))
    target = HistGradientBoostingClassifier(max_iter=80, random_state=0).fit(x[own[:6000]], y[own[:6000]])
    return full, log_likelihood(target, x, y), years, own[6000:]


def acs(n: int, rng: np.random.Generator, folder: Path, year: int) -> Drawn:
    x, score, years, own = acs_scored(folder)
    other = np.flatnonzero(years == year)
    rows = np.r_[rng.choice(own, n // 2, replace=False), rng.choice(other, n // 2, replace=False)]
    return x[rows], np.arange(len(rows)) < n // 2, score[rows], ()


def surf(_: int, rng: np.random.Generator, folder: Path) -> Drawn:
    """Pictures of two domains by ten components, scored by a model of other pictures of the first."""
    x, y, domain = real_data.office(folder, "surf")
    own, away = rng.permutation(np.flatnonzero(domain == "amazon")), np.flatnonzero(domain == "caltech10")
    trained, members = np.split(own, [len(own) // 3])
    target = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=500)).fit(x[trained], y[trained])
    rows = np.r_[members, away]
    components = make_pipeline(StandardScaler(), PCA(10, random_state=0)).fit_transform(x[rows])
    return components, np.arange(len(rows)) < len(members), log_likelihood(target, x[rows], y[rows]), ()


MADE: dict[str, Callable[[int, np.random.Generator], Drawn]] = {
    "line": line,
    "product": product,
    "opposite correlations": correlations,
    "step": step,
    "log-normal": log_normal,
    "t(2)": heavy_tails,
    "30 sites as codes": sites,
    "30 sites, declared": lambda n, rng: sites(n, rng, (0,)),
    "20 weak covariates": weak,
    "category x log-income": category,
    "sign of three": signs,
    "hidden leak": lambda n, rng: correlations(n, rng, -1.0, 1.0),
}
REAL: dict[str, Callable[[int, np.random.Generator, Path], Drawn]] = {
    "Adult, prime age": adult,
    "ACS 2018 / 2019": lambda n, rng, folder: acs(n, rng, folder, 2019),
    "ACS 2018 / 2021": lambda n, rng, folder: acs(n, rng, folder, 2021),
    "SURF amazon / caltech10": surf,
}


def evidence_of(name: str, n: int, seed: int, folder: Path) -> tuple[Evidence, tuple[int, ...], np.random.Generator]:
    """One sample of a world, which columns are codes, and the generator that its audit goes on with."""
    rng = np.random.default_rng([7, seed])
    x, member, score, codes = MADE[name](n, rng) if name in MADE else REAL[name](n, rng, folder)
    return Evidence(score=score, member=member, covariates=x, design="zero-run"), codes, rng


def audit(name: str, n: int, seed: int, folder: Path) -> dict[str, Any]:
    """What one audit says: its status and the causal AUC with its limits."""
    evidence, codes, rng = evidence_of(name, n, seed, folder)
    return said(miaudit.audit(evidence, plan=replace(PLAN, categories=tuple(map(str, codes))), rng=rng), "aipw")


def audits(name: str, n: int, count: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Audits of one world: those that are written, then the others, each written as it ends."""
    path = named(options.out, "shift_worlds", n, name)
    return lines(path, count, lambda seed: audit(name, n, seed, options.data))


def in_words(name: str, rows: list[dict[str, Any]]) -> str:
    """A line of the table."""
    some = answered(rows)
    refused = f"{1 - len(some) / len(rows):.3f}"
    if name == "hidden leak":
        counts = {status: sum(row["status"] == status for row in rows) for status in ANSWERED}
        return f"| {name} | {len(rows)} | {refused} | {counts['flagged']} flagged | {counts['clear']} clear | |"
    low, high = misses(some, [0.5] * len(some))
    bias = f"{np.mean([row['value'] for row in some]) - 0.5:+.3f}" if some else ""
    return f"| {name} | {len(rows)} | {refused} | {low} of {len(some)} | {high} of {len(some)} | {bias} |"


def main() -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--audits", type=int, default=20)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--worlds", nargs="+", choices=[*MADE, *REAL], default=[*MADE, *REAL])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    print("| world | audits | refused | low > truth | high < truth | bias |\n|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name in options.worlds:
            print(in_words(name, list(audits(name, options.records, options.audits, options))), flush=True)


if __name__ == "__main__":
    main()

"""Audits of strings that chance drew: how often something is shown where nothing leaks, and how often intervals cover.

``python experiments/matched/worlds.py --audits 100`` audits each world that often by ``miaudit.audit``, by its default
options. In the null worlds the true string is one of K + 1 exchangeable ones; in the others it is shifted. What is done
is kept in ``matched_worlds.json`` of the working folder; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import miaudit as ma
from miaudit.io.atomic import write_text
from miaudit.metrics.classical import Sample

SEED, LARGE = 20261128, 100_000
Scores = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int, int], np.ndarray]  # (n, K + 1) scores of exchangeable strings


def normal(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    """Contexts that differ far more than strings do."""
    return np.asarray(5 * rng.normal(size=(n, 1)) + rng.normal(size=(n, strings)))


def scales(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    return np.asarray(np.exp(0.7 * rng.normal(size=(n, 1))) * rng.normal(size=(n, strings)))


def heavy(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    return rng.standard_t(2, size=(n, strings))


def skewed(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    return rng.exponential(size=(n, strings)) * rng.gamma(0.5, size=(n, 1))


def ties(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    return np.round(normal(rng, n, strings) / 2)


def two_kinds(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    """Half of the records have scores with a third mode."""
    kind = rng.random((n, 1)) < 0.5
    return np.where(kind, rng.normal(size=(n, strings)), rng.choice([-9.0, 0.0, 9.0], (n, strings)))


def dependent(rng: np.random.Generator, n: int, strings: int) -> np.ndarray:
    """Strings of one record correlate, in a way that is the same for all of them."""
    return np.asarray(rng.normal(size=(n, 1)) + rng.normal(size=(n, strings)) ** 3)


NULLS: dict[str, tuple[Draw, int, int]] = {
    "contexts": (normal, 1000, 20),
    "scales that differ": (scales, 1000, 20),
    "t(2)": (heavy, 1000, 20),
    "exponential times gamma": (skewed, 1000, 20),
    "ties": (ties, 1000, 20),
    "two kinds of records": (two_kinds, 1000, 20),
    "cubes": (dependent, 1000, 20),
    "one decoy": (normal, 1000, 1),
    "three decoys": (scales, 1000, 3),
    "100 decoys": (scales, 500, 100),
    "100 records": (normal, 100, 20),
    "two scores": (normal, 1000, 10),
}
LEAKS: dict[
    str, tuple[Draw, int, int, float, float]
] = {  # the last two: shift in standard deviations, share of records
    f"{name}, shift {shift:g} of {share:.0%}, K = {k}": (draw, 1000, k, shift, share)
    for name, draw in (("contexts", normal), ("scales that differ", scales), ("t(2)", heavy))
    for shift, share in ((1.0, 1.0), (3.0, 0.2))
    for k in (5, 20)
}


def leaked(draw: Draw, n: int, k: int, shift: float, share: float, rng: np.random.Generator) -> Scores:
    """Scores of true strings and decoys; some of the true strings are shifted."""
    scores = draw(rng, n, k + 1)
    spread = np.median(scores.std(axis=1))
    return scores[:, 0] + shift * spread * (rng.random(n) < share), scores[:, 1:]


@cache
def truth(name: str) -> tuple[float, float]:
    """AUC and TPR at 10% of a large sample."""
    true, decoys = leaked(LEAKS[name][0], LARGE, *LEAKS[name][2:], np.random.default_rng(1))
    roc = Sample.of(ma.Evidence.matched(true=true, decoys=decoys)).roc
    return float(roc.auc), float(roc.tpr_at(0.1))


def of_null(name: str, seed: int) -> dict[str, bool]:
    """Whether anything is shown where nothing leaks."""
    draw, n, k = NULLS[name]
    rng = np.random.default_rng([SEED, seed, *name.encode()])
    scores = [draw(rng, n, k + 1) for _ in range(2 if name == "two scores" else 1)]
    true, decoys = {f"s{i}": s[:, 0] for i, s in enumerate(scores)}, {f"s{i}": s[:, 1:] for i, s in enumerate(scores)}
    found = ma.audit(ma.Evidence.matched(true=true, decoys=decoys), rng=rng)
    auc = next(metric for metric in found.metrics if metric.name == "auc")
    bounds = {(one.parameter, one.neighbours): one.value for one in found.bounds}
    assert found.matched is not None
    return {
        "mu > 0": bounds["mu", "replace-one"] > 0,
        "epsilon > 0": bounds["epsilon", "replace-one"] > 0,
        "AUC low > .5": (auc.low or 0.0) > 0.5,
        "AUC high < .5": (auc.high or 1.0) < 0.5,
        "rank test": min(one.p_value for one in found.matched.ranks) <= 0.05,
        "flagged": found.verdict.status == "flagged",
    }


def of_leak(name: str, seed: int) -> dict[str, bool]:
    """Whether the intervals hold the truth."""
    rng = np.random.default_rng([SEED, seed, *name.encode()])
    true, decoys = leaked(*LEAKS[name], rng)
    sample, (auc, tpr) = Sample.of(ma.Evidence.matched(true=true, decoys=decoys)), truth(name)
    of_auc, of_tpr = sample.auc(0.95), sample.tpr_at_fpr(0.1, 0.95)
    return {"AUC covers": of_auc.low <= auc <= of_auc.high, "TPR covers": of_tpr.low <= tpr <= of_tpr.high}


def missing(audits: int, done: dict[str, Any]) -> Iterator[tuple[str, Callable[[str, int], dict[str, bool]], int]]:
    for worlds, of in ((NULLS, of_null), (LEAKS, of_leak)):
        for name in worlds:
            for seed in range(audits if of is of_null else 4 * audits):
                if f"{name}|{seed}" not in done:
                    yield name, of, seed


def table(done: dict[str, dict[str, bool]]) -> str:
    """Shares of each world, and of all of them, in Markdown."""
    by_world: dict[str, list[dict[str, bool]]] = {}
    for key, one in done.items():
        by_world.setdefault(key.rpartition("|")[0], []).append(one)
    lines = []
    for worlds in (NULLS, LEAKS):
        rows = {name: by_world[name] for name in worlds if name in by_world}
        if not rows:
            continue
        names = list(next(iter(rows.values()))[0])
        lines += [f"| world | audits | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
        for name, found in {**rows, "all": [one for many in rows.values() for one in many]}.items():
            shares = (f"{np.mean([one[column] for one in found]):.3f}" for column in names)
            lines.append(f"| {name} | {len(found)} | {' | '.join(shares)} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--audits", type=int, default=100, help="of each null world; of a leaking one four times as many"
    )
    parser.add_argument("--out", type=Path, default=Path("matched_worlds.json"))
    options = parser.parse_args(arguments)
    done: dict[str, Any] = json.loads(options.out.read_text()) if options.out.is_file() else {}
    todo = list(missing(options.audits, done))
    for count, (name, of, seed) in enumerate(todo, 1):
        done[f"{name}|{seed}"] = of(name, seed)
        if count % 20 == 0 or count == len(todo):
            write_text(options.out, json.dumps(done))
            print(f"{count} of {len(todo)}", file=sys.stderr, flush=True)
    print(table(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())

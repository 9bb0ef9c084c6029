"""Disclosure: the grid of Figures 7 to 9 of uncertainty-mia, and fits of Dirichlet laws, beside the plain ways.

``python benchmarks/disclosure.py [--quick] [--json FILE]``. The plain ways are draws, as the paper's own simulation,
with as many as bring the error below 0.003; and L-BFGS-B for one record after another. Both are sampled and
**extrapolated**.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from miaudit import disclosure
from miaudit.attacks.dirichlet_fit import fit
from miaudit.disclosure import decision_sets
from miaudit.disclosure.dirichlet import World

KINDS = ("confidence-vector", "true-label", "decision-set")
PAPER = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2}
SWEEPS = {
    "calibration_error": (np.linspace(0.02, 0.9, 20), 0.2),
    "aleatoric": (np.linspace(0.18, 0.9, 20), 0.2),
    "epistemic": (np.linspace(0.05, 1.0, 20), 0.4),
}
DRAWS = 100_000  # of either law: two standard errors of an AUC are below 0.003


def spent(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall clock and process CPU of some work, in seconds."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - busy


def points() -> list[tuple[dict[str, float], str, float]]:
    return [({**PAPER, name: float(x)}, kind, q) for name, (grid, q) in SWEEPS.items() for x in grid for kind in KINDS]


def grid() -> list[dict[str, Any]]:
    """Three figures, three disclosures, twenty points each: advantages, then every bound."""
    decision_sets._laws.cache_clear()
    kept: dict[str, Any] = {}

    def advantages() -> None:
        kept["found"] = [disclosure.advantage(kind, **values, threshold=q) for values, kind, q in points()]

    def bounds() -> None:
        for form in ("printed", "tight", "region"):
            for values, kind, q in points():
                disclosure.bound(kind, **values, threshold=q, form=form)

    wall, busy = spent(advantages)
    extra = spent(bounds)
    worst = max(a.error for a in kept["found"])
    return [
        row("grid of Figures 7 to 9: 180 averaged advantages", wall, "s", 60.0),
        row("  CPU", busy, "CPU s", None),
        row("  largest error that is reported", worst, "", 0.003),
        row("three forms of bounds on the same grid", extra[0], "s", None),
    ]


def by_draws(sampled: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    chosen = points()[:: len(points()) // sampled]
    apart = []

    def loop() -> None:
        for values, kind, q in chosen:
            drawn = disclosure.advantage(kind, **values, threshold=q, method="simulation", draws=DRAWS, rng=rng)
            apart.append(abs(drawn.value - disclosure.advantage(kind, **values, threshold=q).value))

    seconds = spent(loop)[1] * len(points()) / len(chosen)
    return [
        row(f"the grid by {DRAWS:,} draws (extrapolated from {len(chosen)} points)", seconds, "CPU s", None),
        row("  largest distance from the exact values", max(apart), "", None),
    ]


def one_record() -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.normal(size=(400, 10))), np.exp(rng.normal(size=(400, 10)))
    rows = []
    for kind in ("confidence-vector", "true-label"):
        each = spent(lambda kind=kind: disclosure.advantage_of(a, b, disclosure=kind))[1] / 400
        rows.append(row(f"one real record, ten classes that all differ: {kind}", 1000 * each, "ms", None))
    each = spent(lambda: disclosure.advantage_of(a[:20], b[:20], disclosure="decision-set", threshold=0.2))[1] / 20
    rows.append(row("one real record, ten classes that all differ: decision-set", 1000 * each, "ms", None))
    world = World(**PAPER)
    for kind in KINDS:
        decision_sets._laws.cache_clear()
        curve = spent(lambda kind=kind: disclosure.curve_of(world.alpha_in, world.alpha_out, kind, threshold=0.2))[1]
        rows.append(row(f"one whole trade-off curve: {kind}", 1000 * curve, "ms", None))
    return rows


def outputs(n: int, models: int, classes: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(2)
    alpha = np.exp(rng.normal(-0.5, 1.0, size=(n, 1, classes)))
    alpha[:, :, 0] *= 10
    logs = (
        np.log(rng.standard_gamma(alpha + 1, size=(n, models, classes)))
        + np.log(rng.random((n, models, classes))) / alpha
    )
    result: NDArray[np.float32] = special.softmax(logs, axis=2).astype(np.float32)
    return result


def by_lbfgs(p: NDArray[np.float32]) -> NDArray[np.float64]:
    """As the paper fits one record."""
    mean = np.log(np.maximum(p, 1e-15, dtype=np.float64)).mean(axis=0)

    def loss(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        a = np.exp(x)
        value = special.gammaln(a).sum() - special.gammaln(a.sum()) - (a - 1) @ mean
        return float(value), a * (special.digamma(a) - special.digamma(a.sum()) - mean)

    found: NDArray[np.float64] = optimize.minimize(loss, np.zeros(p.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def fits(sampled: int) -> list[dict[str, Any]]:
    p = outputs(10_000, 64, 10)
    wall, busy = spent(lambda: fit(p))
    slow = spent(lambda: [by_lbfgs(record) for record in p[:sampled]])[1] * len(p) / sampled
    return [
        row("fit of 10,000 records x 64 shadows x 10 classes", wall, "s", 10.0),
        row("  CPU", busy, "CPU s", None),
        row(f"L-BFGS-B, one record after another (extrapolated from {sampled})", slow, "CPU s", None),
        row("  one after another / at once", slow / busy, "times", None),
    ]


def row(what: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    met = None if target is None else (value >= target if unit == "times" else value <= target)
    return {"what": what, "value": value, "unit": unit, "target": target, "met": met}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few points and records of the plain ways")
    parser.add_argument("--json", type=Path, help="write the table here too")
    options = parser.parse_args()
    rows = grid() + by_draws(6 if options.quick else 18) + one_record() + fits(100 if options.quick else 1000)
    for r in rows:
        side = "at least" if r["unit"] == "times" else "at most"
        target = "" if r["target"] is None else f"{side} {r['target']:g}  {'met' if r['met'] else 'MISSED'}"
        print(f"{r['what']:72s} {r['value']:10.4g} {r['unit']:6s} {target}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

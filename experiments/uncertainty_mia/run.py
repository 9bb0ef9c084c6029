"""Figures 4, 6 to 10, 12 and 13 of uncertainty-mia: what the Dirichlet model says of each disclosure.

``python experiments/uncertainty_mia/run.py`` takes under a minute; ``--full`` has finer grids. Numbers and figures go
to ``results/experiments/uncertainty_mia`` and are compared with ``expected.json``. Trained networks: ``trained.py``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import figures
import theory
import yaml

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/uncertainty_mia")
Rows = Sequence[Mapping[str, Any]]


def computed(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"checks": theory.checks(settings)}
    for name, work in (("factor", theory.factor), ("curves", theory.curves), ("sets", theory.sets)):
        print(name, file=sys.stderr, flush=True)
        found[name] = work(settings)
    found["sweeps"] = {}
    for parameter in settings["sweeps"]:
        print(parameter, file=sys.stderr, flush=True)
        found["sweeps"][parameter] = theory.sweep(settings, parameter)
    return found


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold: check values, bounds above the truth, and the trends that the paper reports."""
    problems = []
    for kind, row in found["checks"].items():
        for key, tolerance in (("averaged", expected["tolerance"]), ("symmetrised_divergence", 1e-5)):
            wanted = expected["checks"][kind].get(key)
            if wanted is not None and abs(row[key] - wanted) > tolerance:
                problems.append(f"{kind}, {key}: {row[key]:.5f}, expected {wanted}")
        if abs(row["averaged"] - row["simulated"]) > row["simulation_error"] + 1e-3:
            problems.append(f"{kind}: {row['averaged']:.4f}, simulated {row['simulated']:.4f}")
    for parameter, rows in found["sweeps"].items():
        problems += [f"{parameter}: {problem}" for problem in _sweep_problems(rows, expected["trends"][parameter])]
    for row in found["sets"]:
        if row["bound"] + 1e-6 < row["averaged"]:
            problems.append(f"sets at q = {row['threshold']}, T = {row['temperature']}: the bound is below the truth")
    alone = [row for row in found["sets"] if row["temperature"] == 0]
    best = max((row for row in alone if row["threshold"] >= 0.3), key=lambda row: row["averaged"])
    lowest = min((row for row in alone if row["threshold"] > 0), key=lambda row: row["threshold"])
    if lowest["averaged"] <= best["averaged"]:
        problems.append("expected that a low threshold tells more than the best of those from 0.3 up")
    low, high = expected["best_threshold_from_0.3"]
    if not low <= best["threshold"] <= high:
        problems.append(f"the most telling threshold from 0.3 up is {best['threshold']}, expected {low} to {high}")
    return problems


def _sweep_problems(rows: Rows, trend: Mapping[str, str]) -> list[str]:
    problems = []
    for kind in theory.KINDS:
        mine = [row for row in rows if row["disclosure"] == kind]
        for row in mine:
            if row["error"] > 0.003:
                problems.append(f"{kind} at {row['x']}: error {row['error']:.4f}")
            below = [form for form in theory.FORMS if row[form] + 1e-6 < row["averaged"]]
            problems += [f"{kind} at {row['x']}: the {form} bound is below the truth" for form in below]
            if row["high_region"] + 1e-4 < row["high"]:
                problems.append(f"{kind} at {row['x']}: Lemma 1 fails at the high true-negative rate")
        if not _follows([row["averaged"] for row in mine], trend[kind]):
            problems.append(f"{kind}: expected that the advantage {trend[kind]}")
    for x in {row["x"] for row in rows}:
        vector, label, chosen = (
            next(r["averaged"] for r in rows if r["x"] == x and r["disclosure"] == k) for k in theory.KINDS
        )
        if not vector + 1e-9 >= label >= chosen - 1e-9:
            problems.append(f"at {x}: not confidence vector >= true label >= decision set")
    return problems


def _follows(values: Sequence[float], trend: str) -> bool:
    rises = [b > a - 1e-6 for a, b in itertools.pairwise(values)]
    falls = [b < a + 1e-6 for a, b in itertools.pairwise(values)]
    if trend == "rises, then falls":
        return any(all(rises[:i]) and all(falls[i:]) for i in range(len(values)))
    return all(rises if trend == "rises" else falls)


def draw(found: Mapping[str, Any], settings: Mapping[str, Any], out: Path) -> None:
    figures.save(figures.factor(found["factor"]), out / "figure-4")
    figures.save(figures.curves(found["curves"]), out / "figure-6")
    for parameter, rows in found["sweeps"].items():
        number = settings["sweeps"][parameter]["figure"]
        bounds = {"tight": "tight bound", "region": "Lemma 1, averaged"}
        title = "Averaged over alpha (AUC - 1/2)"
        figures.save(figures.sweep(rows, parameter, "averaged", bounds, title), out / f"figure-{number}")
        bounds = {"printed": "printed bound", "approximate": "approximation"}
        figures.save(figures.sweep(rows, parameter, "averaged", bounds, title), out / f"figure-{number}-printed")
        title = f"At alpha = {settings['high_tnr']}"
        bounds = {"high_region": "Lemma 1"}
        figures.save(figures.sweep(rows, parameter, "high", bounds, title), out / f"figure-12-{parameter}")
    figures.save(figures.sets(found["sets"], "averaged", "Averaged over alpha (AUC - 1/2)"), out / "figure-10")
    figures.save(figures.sets(found["sets"], "high", f"At alpha = {settings['high_tnr']}"), out / "figure-13")


def table(found: Mapping[str, Any]) -> str:
    """Check values, and the ends of each sweep, as markdown."""
    lines = ["| disclosed | averaged advantage | simulated | J (nats) |", "|---|---|---|---|"]
    for kind, row in found["checks"].items():
        simulated = f"{row['simulated']:.4f} +- {row['simulation_error']:.4f}"
        lines.append(f"| {kind} | {row['averaged']:.4f} | {simulated} | {row['symmetrised_divergence']:.5f} |")
    lines += ["", "| sweep | disclosed | advantage | tight | printed | at 0.999 |", "|---|---|---|---|---|---|"]
    for parameter, rows in found["sweeps"].items():
        for kind in theory.KINDS:
            ends = [[r for r in rows if r["disclosure"] == kind][i] for i in (0, -1)]
            cells = [" to ".join(f"{r[key]:.4f}" for r in ends) for key in ("averaged", "tight", "printed", "high")]
            lines.append(f"| {parameter} {ends[0]['x']:g} to {ends[1]['x']:g} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="finer grids")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[options.form or ("full" if options.full else "small")]
    found = computed(settings)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, settings, options.out)
    print(table(found))
    problems = differences(found, json.loads((HERE / "expected.json").read_text()))
    print("\n".join(["", *problems]) if problems else "\nall as expected", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""CPU seconds and memory of the causal metrics: ``python benchmarks/effects.py [--json FILE]``.

Time is process CPU during the call, imports excluded; memory is the peak resident set of a process of its own.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import miaudit as ma
from miaudit.causal import effects, sensitivity
from miaudit.causal.outcome import default_regressor

MEGABYTE = 2.0**20
ROWS = 100_000
COVARIATES = 20


def world(n: int, seed: int = 0) -> tuple[ma.Evidence, SimpleNamespace]:
    rng = np.random.default_rng(seed)
    member = np.arange(n) % 2 == 0
    x = rng.normal(size=(n, COVARIATES))
    x[:, 0] += 0.7 * member
    evidence = ma.Evidence(
        score=x[:, 0] + rng.normal(size=n) + 0.5 * member, member=member, covariates=x, design="zero-run"
    )
    odds = np.exp(0.7 * x[:, 0] - 0.7**2 / 2)
    return evidence, SimpleNamespace(values=odds / (1 + odds), odds=odds, features=x)


def measure(what: str) -> dict[str, float]:
    evidence, propensity = world(ROWS)
    default_regressor()  # imports scikit-learn
    rng = np.random.default_rng(0)
    calls = {
        "aipw roc": lambda: effects.roc(evidence, propensity, method="aipw", thresholds=2000, rng=rng),
        "aipw auc": lambda: effects.auc(evidence, propensity, method="aipw", rng=rng),
        "hajek": lambda: [
            effects.ate(evidence, propensity, rng=rng),
            effects.auc(evidence, propensity, rng=rng),
            effects.advantage(evidence, propensity, rng=rng),
            *(effects.tpr_at_fpr(evidence, propensity, fpr=f, rng=rng) for f in (0.001, 0.01, 0.1)),
        ],
        "breakdown": lambda: sensitivity.breakdown(evidence, propensity, replicates=400, rng=rng),
        "bounds": lambda: sensitivity.bounds(evidence, propensity, odds_factor=2.0),
    }
    before = peak()
    start = time.process_time()
    calls[what]()
    return {"cpu": time.process_time() - start, "peak": peak(), "before": before}


def peak() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024) / MEGABYTE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the table here too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    named = {
        "aipw roc": ("AIPW ROC, 2,000 thresholds, outcome model fitted", 20.0, 2048.0),
        "aipw auc": ("AIPW AUC with interval, outcome model fitted", None, None),
        "hajek": ("Hajek: effect, AUC, advantage, three TPRs, with intervals", None, None),
        "breakdown": ("L* of the AUC with 400 bootstrap replicates", None, None),
        "bounds": ("bounds of the AUC at L = 2", None, None),
    }
    rows: list[dict[str, Any]] = []
    print(f"{ROWS:,} records, {COVARIATES} covariates")
    for what, (title, seconds, megabytes) in named.items():
        command = [sys.executable, str(Path(__file__).resolve()), "--measure", what]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for unit, value, target in (("CPU s", found["cpu"], seconds), ("MB", found["peak"], megabytes)):
            met = None if target is None else value <= target
            rows.append({"what": title, "value": value, "unit": unit, "target": target, "met": met})
            said = "" if target is None else f"at most {target:g}  {'met' if met else 'MISSED'}"
            print(f"{title if unit == 'CPU s' else '  peak memory':62s} {value:10.4g} {unit:6s} {said}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

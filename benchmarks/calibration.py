"""The noise of a DP-SGD training beside a bisection: ``python benchmarks/calibration.py [--quick] [--json FILE]``.

Time is process CPU of one search, imports and remembered results excluded. The straightforward way asks the same
accountant about every noise of a bisection, and works everything out each time.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from miaudit.dp import accounting, sampling_bounds
from miaudit.dp.mechanism import Mechanism, dp_sgd

CASES: tuple[tuple[dict[str, int], float, float], ...] = (
    ({"records": 60_000, "batch": 600, "steps": 1_000}, 3.0, 1e-5),
    ({"records": 50_000, "batch": 4_096, "epochs": 100}, 8.0, 1e-5),
    ({"records": 1_000, "batch": 100, "epochs": 30}, 1.0, 1e-3),
    ({"records": 1_000_000, "batch": 1_000, "epochs": 3}, 0.1, 1e-7),
)
TOLERANCE, TARGET = 1e-3, 1.0


def forget() -> None:
    for remembered in (accounting._by_losses, sampling_bounds._moments, sampling_bounds._chosen):
        remembered.cache_clear()


def bisected(family: Callable[[float], Mechanism], epsilon: float, delta: float) -> float:
    """Ask about every noise of the bisection."""

    def keeps(noise: float) -> bool:
        forget()
        return accounting.upper_bound(family(noise), delta=delta).value <= epsilon

    high = 1.0
    if keeps(high):
        while keeps(high / 2):
            high /= 2
        low = high / 2
    else:
        while not keeps(2 * high):
            high *= 2
        low, high = high, 2 * high
    while high > low * (1 + TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def timed(call: Callable[[], float]) -> tuple[float, float]:
    forget()
    start = time.process_time()
    value = call()
    return value, time.process_time() - start


def compared(options: dict[str, int], epsilon: float, delta: float) -> list[dict[str, Any]]:
    def family(noise: float) -> Mechanism:
        return dp_sgd(noise=noise, **options)

    noise, ours = timed(lambda: accounting.calibrate_noise(family, epsilon=epsilon, delta=delta))
    plain, theirs = timed(lambda: bisected(family, epsilon, delta))
    assert noise == plain, "the two searches end at different noises"
    words = ", ".join(f"{name} {value:,}" for name, value in options.items())
    return [
        {"what": f"{words}: epsilon {epsilon:g}", "value": ours, "unit": "CPU s", "target": TARGET},
        {"what": "  straightforward bisection / this", "value": theirs / ours, "unit": "times", "target": None},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one mechanism")
    parser.add_argument("--json", type=Path, help="write the table here too")
    options = parser.parse_args()
    accounting.upper_bound(dp_sgd(records=100, batch=10, noise=1.0, steps=2), delta=1e-3)  # loads what is used
    table = [row for case in CASES[: 1 if options.quick else None] for row in compared(*case)]
    for row in table:
        target, met = row["target"], "met" if row["target"] and row["value"] <= row["target"] else "MISSED"
        print(f"{row['what']:66s} {row['value']:8.3g} {row['unit']}{f'  at most {target:g}: {met}' if target else ''}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

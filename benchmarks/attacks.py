"""Attacks from shadow models beside the loop over records and the way public code is usually written.

``python benchmarks/attacks.py [--quick] [--json FILE]``. Time is process CPU during the call, imports excluded, one
thread of linear algebra. Memory is what a call allocates at its peak, for memory maps the peak of its own process.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from miaudit.attacks import lira, rmia

MEGABYTE = 2.0**20
RECORDS, MODELS = 50_000, 64
PAIRS, REFERENCES, POPULATION = 10_000, 16, 2000


def shadows(n: int, models: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    included = rng.random((n, models), dtype=np.float32) < 0.5
    shadow = rng.standard_normal((n, models), dtype=np.float32) + included
    return rng.standard_normal(n, dtype=np.float32), shadow, included


def cpu(call: Callable[[], Any], times: int = 5) -> float:
    """CPU seconds of a call: the median of several, after one that is not counted."""
    call()
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return float(np.median(found))


def once(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def allocated(call: Callable[[], Any]) -> float:
    """Bytes that a call holds at its peak."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


# -- the ways it is usually done --------------------------------------------------------------------------------------


def lira_loop(target: np.ndarray, shadow: np.ndarray, included: np.ndarray) -> np.ndarray:
    """One record at a time, with scipy's densities, as in the published code."""
    scores = np.empty(len(target))
    for i in range(len(target)):
        inside, outside = shadow[i][included[i]], shadow[i][~included[i]]
        log_in = stats.norm.logpdf(target[i], inside.mean(), inside.std() + 1e-30)
        scores[i] = log_in - stats.norm.logpdf(target[i], outside.mean(), outside.std() + 1e-30)
    return scores


def lira_masked(target: np.ndarray, shadow: np.ndarray, included: np.ndarray) -> np.ndarray:
    """All records at once, with NaN where a model is on the other side, as careful public code does."""
    inside, outside = np.where(included, shadow, np.nan), np.where(included, np.nan, shadow)
    log_in = stats.norm.logpdf(target, np.nanmean(inside, axis=1), np.nanstd(inside, axis=1) + 1e-30)
    return log_in - stats.norm.logpdf(target, np.nanmean(outside, axis=1), np.nanstd(outside, axis=1) + 1e-30)


def rmia_matrix(
    target: np.ndarray, shadow: np.ndarray, included: np.ndarray, population: np.ndarray, population_shadow: np.ndarray
) -> np.ndarray:
    """The full matrix of ratios, as in the published code."""
    p, z = np.exp(shadow), np.exp(population_shadow)
    mean = (np.nanmean(np.where(included, p, np.nan), 1) + np.nanmean(np.where(included, np.nan, p), 1)) / 2
    ratios = (np.exp(target) / mean)[:, None] / (np.exp(population) / z.mean(axis=1))
    return np.mean(ratios >= 2.0, axis=1)


def rmia_matrix_offline(
    target: np.ndarray, shadow: np.ndarray, included: np.ndarray, population: np.ndarray, population_shadow: np.ndarray
) -> np.ndarray:
    """The full matrix of ratios, with ``a`` tuned on the first reference model alone: ML Privacy Meter's way."""
    p, z = np.exp(shadow), np.exp(population_shadow)

    def shares(own: np.ndarray, others: np.ndarray, known: np.ndarray, own_z: np.ndarray, a: float) -> np.ndarray:
        mean = np.nanmean(np.where(known, np.nan, others), axis=1) * (1 + a) / 2 + (1 - a) / 2
        mean_z = z.mean(axis=1) * (1 + a) / 2 + (1 - a) / 2
        return np.mean((own / mean)[:, None] / (own_z / mean_z) > 1.0, axis=1)

    tried = [shares(p[:, 0], p[:, 1:], included[:, 1:], z[:, 0], a) for a in rmia.GRID]
    best = max(range(len(tried)), key=lambda i: roc_auc_score(included[:, 0], tried[i]))
    return shares(np.exp(target), p, included, np.exp(population), rmia.GRID[best])


# -- measurements -----------------------------------------------------------------------------------------------------


def lira_table(quick: bool) -> dict[str, float]:
    target, shadow, included = shadows(RECORDS, MODELS)
    given = shadow.nbytes + included.nbytes + target.nbytes
    ours = cpu(lambda: lira.online(target, shadow, included))
    rows = RECORDS // (50 if quick else 10)
    loop = once(lambda: lira_loop(target[:rows], shadow[:rows], included[:rows])) * RECORDS / rows
    masked = cpu(lambda: lira_masked(target, shadow, included), times=1)
    gap = np.abs(
        lira.online(target, shadow, included)[:rows] - lira_loop(target[:rows], shadow[:rows], included[:rows])
    )
    return {
        "LiRA online, 50,000 x 64 float32 (target: at most 0.1), CPU s": ours,
        "offline, CPU s": cpu(lambda: lira.offline(target, shadow, included)),
        "online with the global variance, CPU s": cpu(lambda: lira.online(target, shadow, included, variance="global")),
        "health check, CPU s": cpu(lambda: lira.health(shadow, included), times=1),
        f"loop over records, from {rows:,} of them, CPU s": loop,
        "NaN-masked matrices, CPU s": masked,
        "loop / ours": loop / ours,
        "NaN-masked / ours": masked / ours,
        "memory with the input / the input (target: at most 1.5)": 1
        + allocated(lambda: lira.online(target, shadow, included)) / given,
        "the same, NaN-masked": 1 + allocated(lambda: lira_masked(target, shadow, included)) / given,
        "largest difference from the loop (float32 there)": float(np.max(gap)),
    }


def rmia_table() -> dict[str, float]:
    target, shadow, included = shadows(PAIRS, REFERENCES, seed=1)
    rng = np.random.default_rng(2)
    z = -np.exp(rng.normal(size=(POPULATION, REFERENCES + 1)))
    given = (-np.exp(-target), -np.exp(-shadow), included, z[:, 0], z[:, 1:])
    ours, matrix = cpu(lambda: rmia.online(*given)), cpu(lambda: rmia_matrix(*given), times=2)
    known = (~included).any(axis=1) & included.any(axis=1)
    given = (given[0][known], given[1][known], included[known], *given[3:])
    shares = np.floor(rmia.online(*given) * (POPULATION + 1) + 1e-9) / POPULATION
    return {
        "RMIA online, 10,000 x 16, 2,000 population records (target: at most 0.1), CPU s": ours,
        "offline with a given, CPU s": cpu(lambda: rmia.offline(*given, a=0.3)),
        "offline with a tuned on all 16 reference models, CPU s": cpu(lambda: rmia.offline(*given), times=3),
        "offline, full matrices, a tuned on one model, CPU s": once(lambda: rmia_matrix_offline(*given)),
        "memory, MB": allocated(lambda: rmia.offline(*given)) / MEGABYTE,
        "memory of the full matrices, MB": allocated(lambda: rmia_matrix_offline(*given)) / MEGABYTE,
        "full matrix of ratios, CPU s": matrix,
        "full matrix / ours": matrix / ours,
        "memory, MB (the matrix alone has 153)": allocated(lambda: rmia.online(*given)) / MEGABYTE,
        "memory of the full matrix, MB": allocated(lambda: rmia_matrix(*given)) / MEGABYTE,
        "largest difference of shares from the full matrix": float(np.max(np.abs(shares - rmia_matrix(*given)))),
    }


def write_large(folder: Path, n: int, models: int) -> None:
    rng = np.random.default_rng(3)
    shadow = np.lib.format.open_memmap(folder / "shadow.npy", mode="w+", dtype=np.float32, shape=(n, models))
    included = np.lib.format.open_memmap(folder / "included.npy", mode="w+", dtype=np.bool_, shape=(n, models))
    for start in range(0, n, 20_000):
        rows = slice(start, start + 20_000)
        shadow[rows] = rng.standard_normal(shadow[rows].shape, dtype=np.float32)
        included[rows] = rng.random(shadow[rows].shape, dtype=np.float32) < 0.5


def peak_megabytes() -> float:
    """Largest resident set of this process; ru_maxrss would inherit that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 / MEGABYTE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MEGABYTE


def measure_large(folder: str) -> dict[str, float]:
    """LiRA on memory maps; to be run in a process of its own."""
    shadow, included = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in ("shadow", "included"))
    target = np.zeros(len(shadow), dtype=np.float32)
    before = peak_megabytes()
    start, wall = time.process_time(), time.perf_counter()
    lira.online(target, shadow, included)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    return {"cpu": seconds, "wall": wall, "peak": peak_megabytes(), "before": before}


def large_table(n: int, models: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        write_large(Path(folder), n, models)
        command = [sys.executable, str(Path(__file__).resolve()), "--measure", folder]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size = f"{n:,} x {models} from memory maps"
    return {
        f"LiRA online, {size}, CPU s": found["cpu"],
        "wall clock, s": found["wall"],
        "peak of the process, MB (target: under 1,000)": found["peak"],
        "of it before the call (interpreter, imports), MB": found["before"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the large input, fewer records in the loop")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_large(options.measure)))
        return
    found: dict[str, float] = {}
    large = (100_000, 256) if options.quick else (1_000_000, 256)
    for table in (lambda: lira_table(options.quick), rmia_table, lambda: large_table(*large)):
        part = table()
        found.update(part)
        for name, value in part.items():
            print(f"{name:>90}  {value:.4g}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

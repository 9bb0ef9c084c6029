"""Features of synthetic sets beside a straightforward loop over sets and columns.

``python benchmarks/features.py [--quick] [--json FILE]``. 5,000 sets of 100 records x 222 binary columns. Time is
process CPU during the call, one thread of linear algebra; loops are timed on a part and scaled up. Memory is what a
call allocates at its peak, its result included.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.synthesis.retraining_attack.features import Extractor, extract
from miaudit.synthesis.schema import Column, Schema

SETS, RECORDS, COLUMNS = 5_000, 100, 222
MEGABYTE = 2.0**20
TARGETS = {"naive": 1.0, "histogram": 1.0, "correlation": 5.0}


def cpu(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def allocated(call: Callable[[], Any]) -> float:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / MEGABYTE


# -- the way it is usually done ---------------------------------------------------------------------------------------


def naive_loop(sets: np.ndarray) -> np.ndarray:
    return np.array([[f(one[:, j]) for j in range(one.shape[1]) for f in (np.mean, np.median, np.var)] for one in sets])


def histogram_loop(sets: np.ndarray) -> np.ndarray:
    return np.array([[np.mean(one[:, j] == k) for j in range(one.shape[1]) for k in (0, 1)] for one in sets])


def correlation_loop(sets: np.ndarray) -> np.ndarray:
    upper = np.triu_indices(sets.shape[2], 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([np.nan_to_num(np.corrcoef(one.astype(float), rowvar=False)[upper]) for one in sets])


LOOPS: dict[Extractor, Callable[[np.ndarray], np.ndarray]] = {
    "naive": naive_loop,
    "histogram": histogram_loop,
    "correlation": correlation_loop,
}


def measured(extractor: Extractor, sets: np.ndarray, few: int) -> dict[str, float]:
    schema = Schema(tuple(Column(f"c{i}") for i in range(sets.shape[2])))
    part, loop = sets[:few], LOOPS[extractor]
    ours = cpu(lambda: extract(sets, schema, extractor))
    theirs = cpu(lambda: loop(part)) * len(sets) / few
    difference = float(np.abs(extract(part, schema, extractor) - loop(part)).max())
    return {
        f"{extractor}, CPU s (target: at most {TARGETS[extractor]:g})": ours,
        f"{extractor}, loop, CPU s": theirs,
        f"{extractor}, loop / ours": theirs / ours,
        f"{extractor}, memory, MB (target: at most 600)": allocated(lambda: extract(sets, schema, extractor)),
        f"{extractor}, largest difference from the loop": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sets")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    count = SETS // 10 if options.quick else SETS
    rng = np.random.default_rng(0)
    sets = (rng.random((count, RECORDS, COLUMNS), dtype=np.float32) < 0.08).astype(np.uint8)
    found: dict[str, float] = {}
    for extractor, few in (("naive", 20), ("histogram", 20), ("correlation", 100)):
        part = measured(extractor, sets, few)
        found.update(part)
        for name, value in part.items():
            print(f"{name:>60}  {value:.4g}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

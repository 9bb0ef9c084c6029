"""Speed and memory beside the straightforward way, in one run: ``python benchmarks/run.py [--quick] [--json FILE]``.

Time is process CPU during the call, imports excluded; memory is the peak resident set of a process of its own.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from target_table import row, show, write

import miaudit as ma
from miaudit.metrics import bootstrap, definition
from miaudit.metrics.classical import Sample
from worlds.twins import bootstrap_loop  # the same loop that the tests use as a twin

TARGETS = (0.001, 0.01, 0.1)
MEGABYTE = 2.0**20


def evidence_of(n: int, seed: int = 0) -> ma.Evidence:
    rng = np.random.default_rng(seed)
    member = np.arange(n) % 2 == 0
    return ma.Evidence(score=rng.normal(size=n) + member, member=member, design="one-run")


def cpu(call: Callable[[], Any], least_seconds: float = 0.2) -> float:
    """CPU seconds of a call: the mean over as many calls as fill ``least_seconds``, after one that is not counted."""
    call()
    count, start = 0, time.process_time()
    while count == 0 or time.process_time() - start < least_seconds:
        call()
        count += 1
    return (time.process_time() - start) / count


def once(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def peak_megabytes() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024) / MEGABYTE


def in_own_process(what: str, *arguments: str) -> dict[str, float]:
    """Run one measurement of this file in a fresh process, so that its peak memory is its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", what, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure_in_memory(n: int) -> dict[str, float]:
    evidence = evidence_of(n)
    before = peak_megabytes()
    start, wall = time.process_time(), time.perf_counter()
    definition.estimates(Sample.of(evidence), definition.names(TARGETS), 0.95)
    return {
        "cpu": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "peak": peak_megabytes(),
        "before": before,
    }


def measure_file(path: str) -> dict[str, float]:
    import polars  # noqa: F401 - imports are not counted

    before = peak_megabytes()
    start, wall = time.process_time(), time.perf_counter()
    evidence = ma.Evidence.load(path)
    loaded = time.perf_counter() - wall
    definition.estimates(Sample.of(evidence), definition.names(TARGETS), 0.95)
    return {
        "cpu": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "load": loaded,
        "peak": peak_megabytes(),
        "before": before,
    }


def write_parquet(path: Path, n: int) -> None:
    import polars as pl

    rng = np.random.default_rng(1)
    member = np.arange(n) % 2 == 0
    pl.DataFrame({"score": rng.normal(size=n) + member, "member": member}).write_parquet(path)


def usual_loop(score: Any, member: Any, fpr: float, count: int, rng: np.random.Generator) -> None:
    """The loop as it is usually written, which sorts twice: roc_auc_score, then roc_curve."""
    inside, outside = score[member], score[~member]
    label = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    for _ in range(count):
        drawn = np.concatenate([rng.choice(inside, len(inside)), rng.choice(outside, len(outside))])
        roc_auc_score(label, drawn)
        rates = roc_curve(label, drawn)
        np.interp(fpr, rates[0], rates[1])


def twenty_thousand(loops: int) -> list[dict[str, Any]]:
    evidence = evidence_of(20_000)
    sample = Sample.of(evidence)
    score, member = np.array(evidence.score), np.array(evidence.member)
    plan = ma.Plan(fpr_targets=TARGETS)
    all_metrics = cpu(lambda: definition.estimates(Sample.of(evidence), definition.names(TARGETS), 0.95))
    full = cpu(lambda: ma.audit(evidence, plan=plan, rng=np.random.default_rng(0)))
    drawn = cpu(lambda: bootstrap.replicates(sample, TARGETS, 1000, rng=np.random.default_rng(0)))
    scale = 1000 / loops
    usual = scale * once(lambda: usual_loop(score, member, 0.001, loops, np.random.default_rng(0)))
    loop_one = scale * once(lambda: bootstrap_loop(score, member, (0.001,), loops, np.random.default_rng(0)))
    loop_all = scale * once(lambda: bootstrap_loop(score, member, TARGETS, loops, np.random.default_rng(0)))
    return [
        row("20,000 scores: all metrics with default intervals", all_metrics, "CPU s", 0.05),
        row("20,000 scores: full audit, curve and findings included", full, "CPU s", None),
        row("the loop, 1,000 resamples, AUC and TPR at 0.1%", loop_one, "CPU s", None),
        row("the same with roc_auc_score beside roc_curve", usual, "CPU s", None),
        row("  loop / all metrics", loop_one / all_metrics, "times", None),
        row("20,000 scores: bootstrap option, 1,000 replicates", drawn, "CPU s", None),
        row("the loop, 1,000 resamples, AUC, three TPRs and advantage", loop_all, "CPU s", None),
        row("  loop / bootstrap option (AUC and TPR at 0.1%)", loop_one / drawn, "times", 8.0, at_least=True),
        row("  loop / bootstrap option (all)", loop_all / drawn, "times", 8.0, at_least=True),
        row("  loop with roc_auc_score / bootstrap option", usual / drawn, "times", 8.0, at_least=True),
    ]


def one_million() -> list[dict[str, Any]]:
    found = in_own_process("memory", "1000000")
    return [
        row("1,000,000 scores: all metrics with intervals", found["cpu"], "CPU s", 5.0),
        row("  peak memory of the process", found["peak"], "MB", 600.0),
        row("  of it before the call (interpreter, imports, the scores)", found["before"], "MB", None),
    ]


def from_parquet(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            path = Path(folder) / f"{n}.parquet"
            write_parquet(path, n)
            found = in_own_process("file", str(path))
            path.unlink()
            rows.append(row(f"{n:,} scores from parquet: load", found["load"], "s", None))
            rows.append(row(f"{n:,} scores from parquet: load and all metrics", found["wall"], "s", 60.0))
            rows.append(row("  peak memory of the process", found["peak"], "MB", None))
            rows.append(
                row("  above imports, for each score", (found["peak"] - found["before"]) / n * MEGABYTE, "bytes", None)
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the loop, and files up to 1,000,000 scores")
    parser.add_argument("--json", type=Path, help="write the table here too")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, value = options.measure
        print(json.dumps(measure_in_memory(int(value)) if what == "memory" else measure_file(value)))
        return
    sizes = (250_000, 500_000, 1_000_000) if options.quick else (2_500_000, 5_000_000, 10_000_000)
    rows: list[dict[str, Any]] = []
    for part in (lambda: twenty_thousand(100 if options.quick else 1000), one_million, lambda: from_parquet(sizes)):
        found = part()
        show(found)
        rows += found
    write(rows, options.json)


if __name__ == "__main__":
    main()

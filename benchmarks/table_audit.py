"""The audit of a synthetic table of 30,000 records, part by part, beside the straightforward way.

``python benchmarks/table_audit.py [--quick] [--data ../shared/data]``. With ``--data`` the table is the one that CTGAN
made of Adult; without it, a table of the same shape is drawn. The straightforward way compares every record with every
synthetic one, column by column in numpy, and looks at every synthetic record for every predicate. A sample of it is
timed and **extrapolated**. Process CPU time of one thread.

``--anonymeter PYTHON`` adds the times and the peak memory of Anonymeter on the same tables, by the interpreter of an
environment with ``pip install anonymeter==1.1.0``. Its times are extrapolated, too, its memory is not.
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
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats  # noqa: F401 (loaded before anything is timed)

from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.closest_record import Metric
from miaudit.synthesis.table_attacks.copies import CopyTests
from miaudit.synthesis.table_attacks.inference import attribute_inference
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.linkability import linkability
from miaudit.synthesis.table_attacks.pool_scores import PoolScores
from miaudit.synthesis.table_attacks.singling_out import singling_out
from miaudit.synthesis.table_attacks.table_audit import audit_table

ROOT = Path(__file__).parents[1]
LEVELS = (9, 16, 7, 15, 6, 5, 2, 42, 2)
NUMBERS = 6
TARGET = 15.0  # CPU seconds of the whole audit


def drawn(n: int, rng: np.random.Generator) -> np.ndarray:
    """Records of nine categories and six numbers that one hidden number ties together."""
    hidden = rng.normal(size=n)
    columns = []
    for levels in LEVELS:
        unusual = (hidden + 0.7 * rng.normal(size=n)) ** 2 / 2  # most records have the first of the categories
        columns.append(np.clip(np.floor(unusual), 0, levels - 1))
    columns += [np.round(20 * (hidden + 0.5 * rng.normal(size=n))) for _ in range(NUMBERS - 1)]
    columns.append(np.round(1e5 * rng.normal(size=n)))
    return np.column_stack(columns)


def tables(data: Path | None, size: int) -> tuple[Table, Table, Table]:
    """The synthetic table, members and control records."""
    if data is not None:
        sys.path.insert(0, str(ROOT / "experiments" / "causal_synthesis"))
        from adult_anonymeter import Adult

        adult = Adult.load(data)
        parts = (adult.synthetic, 1.0), (adult.members, 1.3), (adult.control, 1 / 3)
        return tuple(one.subset(np.arange(min(len(one), int(part * size)))) for one, part in parts)  # type: ignore[return-value]
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(len(LEVELS) + NUMBERS)]
    coded = [
        Column(name, "categorical" if k > 2 else "binary", tuple(map(str, range(k))))
        for name, k in zip(names, LEVELS, strict=False)
    ]
    numbers = [Column(name, "continuous", low=-1e7, high=1e7) for name in names[len(LEVELS) :]]
    schema = Schema((*coded, *numbers))
    synthetic, members, control = (Table(schema, drawn(int(part * size), rng)) for part in (1, 1.3, 1 / 3))
    return synthetic, members, control


def spent(work: Callable[[], Any]) -> float:
    """Process CPU seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def plainly(synthetic: Table, pool: Table, metric: Metric, sample: int, predicates: int) -> dict[str, float]:
    """CPU seconds of the straightforward ways, extrapolated from a sample of records and of predicates."""
    sys.path.insert(0, str(ROOT / "tests"))
    from worlds.twins import gower_sums, predicate_holds

    d = len(synthetic.schema)
    rng = np.random.default_rng(1)
    groups = [[i for i in range(d) if i != j] for j in range(d)]

    def nearest(columns: list[list[int]]) -> None:
        for query in pool.values[rng.integers(0, len(pool), sample)]:
            for own in columns:
                np.argpartition(gower_sums(query, synthetic.values, metric.nominal, metric.width, own), 10)

    def alone() -> None:
        for row in synthetic.values[rng.integers(0, len(synthetic), sample)]:
            some = [(int(j), "=", float(row[j])) for j in rng.permutation(d)[:6]]
            predicate_holds(some, synthetic.values).sum()

    times = len(pool) / sample
    return {
        "inference": times * spent(lambda: nearest(groups)),
        "linkability": times * spent(lambda: nearest([[*range(d // 2)], [*range(d // 2, d)]])),
        "singling out": predicates / sample * spent(alone),
    }


def anonymeter_on(python: Path, tables: dict[str, Table]) -> dict[str, Any]:
    """The version of Anonymeter, its CPU seconds for all attacked records by attack, and its peak memory in MB."""
    columns = next(iter(tables.values())).schema.columns
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        types = {column.name: "float" if column.kind == "continuous" else "str" for column in columns}
        (folder / "types.json").write_text(json.dumps(types), encoding="utf-8")
        for part, table in tables.items():
            form = ["%.10g" if column.kind == "continuous" else "c%d" for column in columns]
            head = ",".join(table.schema.names)
            np.savetxt(folder / f"{part}.csv", table.values, form, ",", header=head, comments="", encoding="utf-8")
        command = [str(python), str(ROOT / "benchmarks" / "peers" / "anonymeter_times.py"), name, *tables]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3,000 synthetic records instead of 30,000")
    parser.add_argument("--data", type=Path, help="the folder that holds adult_anonymeter/")
    parser.add_argument("--anonymeter", type=Path, help="the interpreter of an environment with anonymeter")
    options = parser.parse_args()
    synthetic, members, control = tables(options.data, 3_000 if options.quick else 30_000)
    inside = members.subset(np.arange(min(len(members), 20_000)))
    pool = Table(members.schema, np.concatenate([inside.values, control.values]))
    rng = np.random.default_rng(2)
    metric = Metric.of(control)
    parts: dict[str, Callable[[], Any]] = {
        "inference": lambda: attribute_inference(synthetic, inside, control, metric=metric, rng=rng),
        "linkability": lambda: linkability(synthetic, inside, control, metric=metric, rng=rng),
        "singling out": lambda: singling_out(synthetic, members, control, rng=rng),
        "adoption and closeness": lambda: PoolScores.of(synthetic, pool, rng=rng),
        "copies": lambda: CopyTests.of(WithoutKeys.of(synthetic, members, control), None),
    }
    print(f"{len(synthetic):,} synthetic records, {len(pool):,} attacked ones, {len(synthetic.schema)} columns")
    slow = plainly(synthetic, pool, metric, 5 if options.quick else 10, 2_000)
    others, peaks = {"plainly": slow}, {}
    if options.anonymeter:
        work_of = {"synthetic": synthetic, "members": inside, "control": control}
        found = anonymeter_on(options.anonymeter, work_of)
        others["Anonymeter"], peaks = found["seconds"], found["peaks"]
    print(f"| part | CPU s |{''.join(f' {name} | ratio |' for name in others)}\n|{'---|' * (2 + 2 * len(others))}")
    for name, work in parts.items():
        took = spent(work)
        cells = [
            f" {seconds[name]:,.0f} | {seconds[name] / took:.0f} |" if name in seconds else " | |"
            for seconds in others.values()
        ]
        print(f"| {name} | {took:.2f} |{''.join(cells)}", flush=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    whole = spent(lambda: audit_table(synthetic, members, control, design="one-run", rng=rng))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| whole audit (at most {TARGET:.0f}) | {whole:.2f} |{' | |' * len(others)}")
    print(f"peak memory {peak:,.0f} MB, before the whole audit {before:,.0f} MB")
    if peaks:
        told = ", ".join(f"{name} {value:,.0f}" for name, value in peaks.items())
        print(f"peak memory of Anonymeter, MB, each after the one before: {told}")


if __name__ == "__main__":
    main()

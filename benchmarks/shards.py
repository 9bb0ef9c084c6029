"""An audit in shards beside the audit of one file: ``python benchmarks/shards.py [SIZE ...] [--whole-up-to N]``.

``--compare`` also audits one file with its rows sorted, as docs/shards.md says, and fails unless the findings are
the same to the byte. Its control, the rows as they come, has others.

Each size is written as .parquet shards of 2,000,000 rows into a temporary folder, and each way is measured in a process
of its own: CPU seconds of reading and auditing, and the peak resident set above that after imports. The folder is
removed afterwards. One file takes about 90 bytes a score, so by default it is measured up to 10,000,000 scores.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = "1"

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scaling import exponent, peak

SIZES = (10**6, 10**7, 10**8)
ROWS = 2_000_000  # of a shard
WAYS = ("shards", "one file")
SORTED = "one file, sorted"


def write(folder: Path, size: int) -> None:
    """Write normal scores with a shift of one tenth for members, by coins."""
    import polars as pl

    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, size, ROWS)):
        n = min(ROWS, size - start)
        member = rng.random(n) < 0.5
        frame = pl.DataFrame({"score": rng.normal(size=n) + 0.1 * member, "member": member})
        frame.write_parquet(folder / f"{number:05}.parquet")


def here(way: str, folder: str) -> dict[str, Any]:
    """Audit in this process; a small audit comes first, so that no module is loaded while the clock runs."""
    import polars as pl

    import miaudit as ma
    from miaudit.collect import score_shards

    small = ma.Evidence(score=np.arange(400.0), member=np.arange(400) % 2 == 0, design="one-run")
    ma.audit(small, rng=0)
    before, start = peak(), time.process_time()
    if way == "shards":
        evidence: Any = score_shards.read(f"{folder}/*.parquet", design="one-run")
    else:
        frame = pl.read_parquet(f"{folder}/*.parquet")
        if way == SORTED:
            frame = frame.sort("score", "member")
        columns = {"score": frame["score"].to_numpy(), "member": frame["member"].to_numpy()}
        del frame
        evidence = ma.Evidence(**columns, design="one-run")
    read = time.process_time() - start
    findings = ma.audit(evidence, rng=0)
    cost = {"read": read, "cpu": time.process_time() - start, "peak": peak() - before, "process": peak()}
    content = findings.to_dict()
    content["evidence"].pop("source")  # which names the shards or the file
    return {**cost, "findings": hashlib.sha256(json.dumps(content).encode()).hexdigest()}


def measured(way: str, folder: Path) -> dict[str, Any]:
    """Audit in a process of its own."""
    words = [sys.executable, str(Path(__file__).resolve()), "--measure", way, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way} failed: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(rows: list[dict[str, Any]], size: int) -> None:
    """End with an error unless the audit in shards has the findings of one sorted file, and not of another one."""
    found = {row["way"]: row["findings"] for row in rows if row["size"] == size}
    if found[WAYS[0]] != found[SORTED] or found.get(WAYS[1]) == found[SORTED]:
        raise SystemExit(f"{size:,} scores: the findings differ from those of one file, or order changes nothing")
    print(f"{size:,} scores: the findings are those of one sorted file, SHA-256 {found[SORTED][:16]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=lambda text: int(float(text)), default=SIZES)
    parser.add_argument("--whole-up-to", type=lambda text: int(float(text)), default=10**7)
    parser.add_argument("--compare", action="store_true", help="with the findings of one sorted file")
    parser.add_argument("--json", type=Path, help="write the figures here, after each size")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(here(*options.measure)))
        return
    rows: list[dict[str, Any]] = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="shards-") as folder:
            write(Path(folder), size)
            ways = WAYS if size <= options.whole_up_to else WAYS[:1]
            for way in (*ways, SORTED) if options.compare else ways:
                rows.append({"way": way, "size": size, **measured(way, Path(folder))})
                one = rows[-1]
                cost = f"{one['cpu']:.3g} CPU s (reading {one['read']:.3g}), {one['peak']:,.0f} MB"
                print(f"{way:>8}, {size:,} scores: {cost}", flush=True)
        if options.compare:
            compare(rows, size)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for way in WAYS:
        own = [row for row in rows if row["way"] == way]
        slopes = [exponent([row["size"] for row in own], [row[name] for row in own]) for name in ("cpu", "peak")]
        print(f"{way:>8}: exponents of CPU seconds and of memory {slopes}")


if __name__ == "__main__":
    main()

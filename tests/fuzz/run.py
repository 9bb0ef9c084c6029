"""Fuzz every reader for so many minutes under a limit of memory; keep what crashes in corpus/.

python tests/fuzz/run.py --minutes 30 --seed 1
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from readers import CORPUS, READERS, attempt, mutated

GIGABYTE = 1 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a reader by name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    readers = [reader for reader in READERS if options.only in ("", reader.name)]
    seeds = {reader.name: reader.seeds() for reader in readers}
    rng, end = np.random.default_rng(options.seed), time.monotonic() + 60 * options.minutes
    for reader in readers:  # libraries load before the limit
        with tempfile.TemporaryDirectory() as folder:
            attempt(reader, seeds[reader.name][0], Path(folder))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rounds, crashes, slowest = 0, 0, (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            reader = readers[rounds % len(readers)]
            content = mutated(seeds[reader.name][rounds // len(readers) % len(seeds[reader.name])], rng)
            started = time.perf_counter()
            problem = attempt(reader, content, Path(folder))
            slowest = max(slowest, (time.perf_counter() - started, reader.name))
            rounds += 1
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if peak - grown > GIGABYTE:
                problem, grown = problem or f"{(peak - grown) / GIGABYTE:.1f} GB", peak
            if problem:
                crashes += 1
                name = f"{reader.name}-{hashlib.sha256(content).hexdigest()[:10]}.bin"
                (CORPUS / name).write_bytes(content)
                print(f"{reader.name}: {problem}\n  kept as {name}")
    grew = (peak - grown) / 1e6
    print(f"{rounds:,} files, {crashes} crashes; slowest {slowest[0]:.2f} s ({slowest[1]}); memory {grew:+.0f} MB")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())

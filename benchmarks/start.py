"""How long it takes until something is to be seen: CPU time beside that of ``import numpy``, and the demo's wall time.

    python benchmarks/start.py [--repeats 7]

Each command runs in a process of its own, in turn, and the least of its times counts: other work on the machine only
adds. The first row is what the others are divided by.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

ROWS = {
    "import numpy": ("-c", "import numpy"),
    "import miaudit": ("-c", "import miaudit"),
    "import miaudit, every name of it": ("-c", "from miaudit import *"),
    "miaudit --help": ("-m", "miaudit", "--help"),
    "miaudit demo --help": ("-m", "miaudit", "demo", "--help"),
    "miaudit audit --help": ("-m", "miaudit", "audit", "--help"),
}
AUDIT = ("-m", "miaudit", "audit", "scores.npz", "--design", "one-run", "--out", "results", "--overwrite")
ROWS |= {"audit of 20,000 scores": AUDIT, "the same, --no-figures": (*AUDIT, "--no-figures")}
DEMO = ("-m", "miaudit", "demo", "--overwrite")


def cost(arguments: tuple[str, ...], place: str) -> tuple[float, float]:
    """Return CPU and wall seconds of one run of Python, with its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    done = subprocess.run([sys.executable, *arguments], check=False, cwd=place, **quiet)
    if done.returncode not in (0, 3):  # 3: a concern, which these scores are
        raise RuntimeError(f"{arguments} ended with {done.returncode}")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    os.environ |= {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as place:
        member = np.arange(20_000) % 2 == 0
        np.savez(f"{place}/scores.npz", score=np.random.default_rng(0).normal(size=20_000) + member, member=member)
        for arguments in ROWS.values():
            cost(arguments, place)  # bytecode and the disk's cache
        times = {name: float("inf") for name in ROWS}
        for _ in range(repeats):
            times = {name: min(least, cost(ROWS[name], place)[0]) for name, least in times.items()}
        for name, seconds in times.items():
            print(f"{name:<34} {seconds:6.3f} s CPU  {seconds / times['import numpy']:5.1f} times import numpy")
        cpu, wall = min((cost(DEMO, place) for _ in range(min(3, repeats))), key=lambda found: found[1])
        print(
            f"{'miaudit demo':<34} {cpu:6.2f} s CPU  {wall:5.2f} s wall, {wall / times['import numpy']:.0f} times",
            end=" ",
        )
        print("the CPU of import numpy")


if __name__ == "__main__":
    main()

"""All of this folder in half an hour, each script with a time limit; what it prints is kept.

``python benchmarks/gpu/run.py`` on a machine with a GPU; ``--device cpu --tiny`` tries the scripts themselves. What
each printed is in ``results/benchmarks/gpu/NAME.txt``, and so is the table at the end. A script that fails or outlasts
its time takes no other with it; the exit code says how many did.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHOLE = 30  # minutes
MINUTES = {
    "library_tests": 4,
    "training": 5,
    "sensitivity": 4,
    "shadow_models": 6,
    "workers": 4,
    "language_model": 5,
    "clean_noisy": WHOLE,  # what is left
}


def one(name: str, options: Sequence[str], seconds: float, log: Path) -> str:
    """Run one script; say how it ended. It and what it started end with its time."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    path = [str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    with log.open("w", encoding="utf-8") as handle:
        work = subprocess.Popen(
            [sys.executable, str(HERE / f"{name}.py"), *options],
            stdout=handle,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            code = work.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if work.poll() is None:
                os.killpg(work.pid, signal.SIGKILL)
                work.wait()
    said = log.read_text(encoding="utf-8", errors="replace")
    print(said, flush=True)
    if code is None:
        return f"its time of {seconds / 60:.0f} minutes was over"
    failed = [line for line in said.splitlines() if line.startswith("failed: ")]
    return "as it must" if code == 0 else failed[0] if failed else f"exit code {code}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(MINUTES), default=list(MINUTES))
    parser.add_argument("--minutes", type=float, default=WHOLE, help="for all of them")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "results" / "benchmarks" / "gpu")
    options, others = parser.parse_known_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    begin, rows = time.monotonic(), []
    for name in options.only:
        left = 60 * options.minutes - (time.monotonic() - begin)
        start = time.monotonic()
        limit = min(60 * MINUTES[name], left)
        how = one(name, [*others, "--out", str(options.out)], limit, options.out / f"{name}.txt")
        rows.append((name, f"{time.monotonic() - start:.0f} s", how))
    table = "\n".join(f"| {' | '.join(row)} |" for row in (("script", "time", "ended"), ("---",) * 3, *rows))
    (options.out / "run.txt").write_text(table + "\n", encoding="utf-8")
    print(f"\n{table}")
    return sum(how != "as it must" for _, _, how in rows)


if __name__ == "__main__":
    sys.exit(main())

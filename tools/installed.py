"""Try real installations: ``python tools/installed.py [TIER ...]``. Needs an index of packages, as pip does.

Each tier is an empty environment with the core install alone: ``core-3.11`` and so on for every supported Python that
is on this machine, ``newest`` with the newest version of every package, ``oldest`` with the oldest polars allowed.
What each job does there, and which extra a missing one names, is tried by ``tests/installed``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_AT_ONCE = 2
PYTHONS = ("3.11", "3.12", "3.13")
TESTS, READERS = ("tests/installed", "tests/test_install.py"), "tests/io"


@dataclass(frozen=True)
class Tier:
    """An environment: a Python, and what pip is asked for beside the core install."""

    name: str
    python: str
    constraints: bool = True
    packages: tuple[str, ...] = ()
    tests: tuple[str, ...] = TESTS


def python(version: str) -> str | None:
    """Return a Python of this version, if this machine has one that runs."""
    beside = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (shutil.which(f"python{version}"), *map(str, beside)):
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return None


def tiers() -> Iterator[Tier]:
    """Every tier that this machine can make."""
    found = {version: at for version in PYTHONS if (at := python(version))}
    for version, at in found.items():
        yield Tier(f"core-{version}", at)
    if found:
        oldest, newest = min(found), max(found)
        both = (*TESTS, READERS)  # polars differs there, which reads every table
        yield Tier("newest", found[newest], constraints=False, tests=both)
        yield Tier("oldest", found[oldest], constraints=False, packages=("polars==1.20.0",), tests=both)


def tried(tier: Tier, place: Path) -> bool:
    """Make the environment of a tier, and run the tests there."""
    begun = time.perf_counter()
    subprocess.run([tier.python, "-m", "venv", place], check=True)
    inside = place / "bin" / "python"
    pins = ["-c", str(ROOT / "constraints.txt")] if tier.constraints else []
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    asked = [str(ROOT), "pytest", "hypothesis", *tier.packages]
    made = subprocess.run(
        [inside, "-m", "pip", "install", *quiet, *pins, *asked], check=False, env=plain, capture_output=True, text=True
    )
    if made.returncode:
        print(f"{tier.name}: FAILED, pip ended with {made.returncode}\n{made.stdout}{made.stderr}", flush=True)
        return False
    env = {**plain, "MIAUDIT_INSTALLED": "real", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    said = [inside, "-m", "pytest", "-q", "-m", "not slow and not thorough", *tier.tests]
    done = subprocess.run(said, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    right = done.returncode == 0
    how = f"{'passed' if right else 'FAILED'} in {time.perf_counter() - begun:.0f} s"
    print(f"{done.stdout}{done.stderr}{tier.name}: {how}", flush=True)
    return right


def main(words: Sequence[str] | None = None) -> int:
    """Try every tier, or those that are named."""
    known = {tier.name: tier for tier in tiers()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"of {', '.join(known)}; default: all")
    named = parser.parse_args(words).tiers or [*known]
    unknown = [name for name in named if name not in known]
    if unknown or not known:
        print(f"installed: no tier {unknown[0] if unknown else ''} on this machine", file=sys.stderr)
        return 2
    missing = [version for version in PYTHONS if f"core-{version}" not in known]
    print("".join(f"no Python {version} on this machine: its tier is left out\n" for version in missing), end="")

    def one(name: str) -> bool:
        with tempfile.TemporaryDirectory() as place:
            return tried(known[name], Path(place) / "environment")

    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:  # each runs its tests in one process
        return 0 if all([*pool.map(one, named)]) else 1


if __name__ == "__main__":
    sys.exit(main())

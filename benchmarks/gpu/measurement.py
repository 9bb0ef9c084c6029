"""What the scripts of this folder share: options, a table that names the device, what must come out, and a watch."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from miaudit.errors import MiauditError
from miaudit.models.devices import device_of

ROOT = Path(__file__).resolve().parents[2]
_SAMPLE_MS = 200  # between two looks at how busy a GPU is

Measure = Callable[[argparse.Namespace, "Sheet"], None]


@dataclass
class Sheet:
    """A table in Markdown that is printed line by line, so that an end before its time leaves what was measured."""

    columns: tuple[str, ...]
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.row(*self.columns)
        print("|---" * len(self.columns) + "|", flush=True)

    def row(self, *cells: object) -> None:
        print(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |", flush=True)

    def require(self, holds: bool, otherwise: str) -> str:
        """Return "yes" or "NO", which goes into the table, and keep what did not come out."""
        if not holds:
            self.problems.append(otherwise)
        return "yes" if holds else "NO"


def run(
    about: str, columns: Sequence[str], measure: Measure, arguments: Sequence[str] | None, *more: tuple[str, Any]
) -> int:
    """Parse options, name the device, measure, and return 1 if something that must come out did not.

    Parameters
    ----------
    about : docstring of the script; its first line becomes the title
    more : further options: a name and what argparse is told of it
    """
    title = about.splitlines()[0]
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--tiny", action="store_true", help="seconds of a CPU: whether the script works")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="holds cifar10/")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "benchmarks" / "gpu", help="what is kept")
    for name, told in more:
        parser.add_argument(name, **told)
    options = parser.parse_args(arguments)
    try:
        print(f"\n## {title}\n\n{named(options.device)}{'; a tiny size' if options.tiny else ''}\n", flush=True)
        sheet = Sheet(tuple(columns))
        measure(options, sheet)
    except MiauditError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    for problem in sheet.problems:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if sheet.problems else 0


def named(device: str) -> str:
    """The device in words, with the versions that decide what it computes; refuses one that is not there."""
    place = device_of(device)
    versions = f"torch {torch.__version__}"
    if place.type == "cpu":
        return f"CPU: {platform.processor() or platform.machine()}, {os.cpu_count()} cores; {versions}"
    about = torch.cuda.get_device_properties(place)
    return f"GPU: {about.name}, {about.total_memory / 1e9:.0f} GB; {versions}, CUDA {torch.version.cuda}"


def pictures(n: int, side: int, *, classes: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 3, side, side) of 8 bits, whose colour tells their class a little, and classes (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    colour = rng.integers(60, 200, (classes, 3, 1, 1))
    x = colour[y] + rng.normal(0.0, 40.0, (n, 3, side, side))
    return x.clip(0, 255).astype(np.uint8), y


@dataclass
class Watch:
    """Seconds of a piece of work, its peak of memory in bytes, and the share of the time in which the device idled."""

    seconds: float = 0.0
    peak: int = 0
    idle: float = float("nan")

    @property
    def gigabytes(self) -> str:
        return f"{self.peak / 1e9:.2f} GB"


@contextmanager
def watched(device: str) -> Iterator[Watch]:
    """Watch the work inside: of a GPU its allocator's peak and its driver's word, of a CPU those of this process."""
    place, found = device_of(device), Watch()
    if place.type == "cpu":
        start, busy = time.perf_counter(), time.process_time()
        yield found
        found.seconds = time.perf_counter() - start
        found.idle = max(0.0, 1 - (time.process_time() - busy) / found.seconds)
        found.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return
    torch.cuda.synchronize(place)
    torch.cuda.reset_peak_memory_stats(place)
    with _busy(place) as samples:
        start = time.perf_counter()
        yield found
        torch.cuda.synchronize(place)
        found.seconds = time.perf_counter() - start
    found.peak = torch.cuda.max_memory_allocated(place)
    found.idle = 1 - float(np.mean(samples)) / 100 if samples else float("nan")


@contextmanager
def _busy(place: torch.device) -> Iterator[list[float]]:
    """Percentages of time in which the GPU had work, filled in at the end; none where its driver says nothing."""
    samples: list[float] = []
    uuid = f"GPU-{torch.cuda.get_device_properties(place).uuid}"
    asked = ["nvidia-smi", "-i", uuid, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    with tempfile.TemporaryFile("w+") as said:
        try:
            asking = subprocess.Popen([*asked, "-lms", str(_SAMPLE_MS)], stdout=said, stderr=subprocess.DEVNULL)
        except OSError:
            yield samples
            return
        try:
            yield samples
        finally:
            asking.terminate()
            asking.wait()
            said.seek(0)
            samples += [float(line) for line in said.read().split() if line.isdigit()]

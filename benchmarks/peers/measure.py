"""One way of answering one question, in a process of its own: CPU time, peak memory, value, false alarms.

Runs in the environment of a peer: numpy and the standard library only.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PASSES = 3
SLOW = 10.0  # CPU seconds of one call above which it is timed once


@dataclass(frozen=True)
class Trials:
    """Scores whose membership is known; what an answer may use."""

    score: Any  # (m,) float64, higher for members
    member: Any  # (m,) bool
    delta: float
    threshold: float  # fixed before the scores were drawn
    seed: int

    @property
    def inside(self) -> Any:
        return self.score[self.member]

    @property
    def outside(self) -> Any:
        return self.score[~self.member]


Answer = tuple[float, float]  # value, and the lower limit that a false alarm is judged by
Call = Callable[[Trials], Answer]


@dataclass(frozen=True)
class Way:
    """How one tool answers one question.

    Attributes
    ----------
    question : ways with the same question answer it from the same numbers, so their times compare
    load : imports the tool and returns the call; imports are not counted
    family : names the worlds in which false alarms are counted, "" for none
    note : what a reader must know, empty if nothing
    held : whether the tool says that its confidence holds
    """

    question: str
    load: Callable[[], Callable[[Any], Any]]
    family: str = ""
    note: str = ""
    held: bool = True


Ways = dict[str, dict[str, Way]]  # of a tool: of an option


def peak_megabytes() -> float:
    """Largest resident set of this process; ru_maxrss would inherit that of the process that started it."""
    return float(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def cpu(call: Callable[[Any], Any], rows: list[Any]) -> tuple[float, Any]:
    """CPU seconds of a call, the smallest of so many means over rows it has not met; and what the first row gave.

    Rows differ since several tools, ours among them, remember what they were asked.
    """
    start = time.process_time()
    first = call(rows[0])
    warm = time.process_time() - start
    if warm > SLOW:
        return warm, first
    size = max(1, (len(rows) - 1) // PASSES)
    best = warm if len(rows) == 1 else np.inf
    for k in range(PASSES):
        part = rows[1 + k * size : 1 + (k + 1) * size] or rows[:1]
        start = time.process_time()
        for row in part:
            call(row)
        best = min(best, (time.process_time() - start) / len(part))
    return float(best), first


def alarms(call: Call, worlds: list[tuple[str, float, list[Trials]]], seconds: float) -> dict[str, list[Any]]:
    """Of each world how often the lower limit lay above the truth, of how many, and the mean limit.

    The number of repetitions follows from the time of the first few, never from what was found.
    """
    found: dict[str, list[Any]] = {}
    for name, truth, draws in worlds:
        start = time.process_time()
        limits = [call(draw)[1] for draw in draws[:5]]
        each = (time.process_time() - start) / len(limits)
        count = min(len(draws), max(5, int(seconds / max(each, 1e-9))))
        limits += [call(draw)[1] for draw in draws[5:count]]
        wrong = int(sum(limit > truth + 1e-9 for limit in limits))
        found[name] = [wrong, len(limits), float(np.mean(np.minimum(limits, 50.0)))]
    return found


def trials_of(path: Path) -> tuple[float, list[Trials]]:
    with np.load(path) as held:
        delta, threshold, truth = float(held["delta"]), float(held["threshold"]), float(held["truth"])
        pairs = zip(held["score"], held["member"], strict=True)
        return truth, [Trials(s, m, delta, threshold, seed) for seed, (s, m) in enumerate(pairs)]


def versions(names: str) -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in names.split())


def main(ways: Ways, rows_of: Callable[[Path], list[Any]] | None = None) -> None:
    """``python SUBJECT.py TOOL OPTION FOLDER SECONDS``: print what was measured as one line of JSON."""
    tool, option, folder, seconds = sys.argv[1:5]
    warnings.simplefilter("ignore")
    way = ways[tool][option]
    rows = trials_of(Path(folder) / "timing.npz")[1] if rows_of is None else rows_of(Path(folder))
    call = way.load()
    before = peak_megabytes()
    seconds_each, first = cpu(call, rows)
    found: dict[str, Any] = {"cpu": seconds_each, "peak": peak_megabytes(), "before": before}
    if isinstance(first, np.ndarray):
        np.save(Path(folder) / f"{tool} {option}.npy", first)
    else:
        found["value"], found["low"] = map(float, first)
    if way.family:
        worlds = []
        for path in sorted(Path(folder).glob(f"{way.family} *.npz")):
            truth, draws = trials_of(path)
            worlds.append((path.stem.removeprefix(f"{way.family} "), truth, draws))
        found["alarms"] = alarms(call, worlds, float(seconds))
    print(json.dumps(found))

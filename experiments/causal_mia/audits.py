"""Audits as lines of a file, from which an interrupted table goes on, and what a table counts of them.

Each line is the JSON of one audit and names its seed. Tables may be filled by several commands side by side, as long as
no two of them write one file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from miaudit.findings.audit import Findings

RESULTS = Path("results/experiments/causal_mia")
ANSWERED = ("flagged", "clear", "inconclusive")  # all others are no answer
Row = Mapping[str, Any]


def lines(path: Path, count: int, audit: Callable[[int], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Audits of the seeds 0 to count - 1: those that are written, and the others, each written as it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {row["seed"]: row for row in map(json.loads, path.read_text().splitlines())} if path.is_file() else {}
    with path.open("a") as file:
        for seed in range(count):
            if seed not in known:
                known[seed] = {"seed": seed} | audit(seed)
                file.write(json.dumps(known[seed]) + "\n")
                file.flush()
            yield known[seed]


def named(folder: Path, *parts: object) -> Path:
    """The file of a world."""
    return folder / ("_".join(map(str, parts)).replace(" ", "_").replace("/", "-") + ".jsonl")


def said(found: Findings, estimator: str) -> dict[str, Any]:
    """What an audit says: its verdict and, of an answer, the corrected AUC with its limits."""
    row: dict[str, Any] = {"status": found.verdict.status, "text": found.verdict.text}
    if found.verdict.status in ANSWERED:
        auc = next(m for m in found.metrics if (m.name, m.estimator) == ("auc", estimator))
        row |= {"value": auc.value, "low": auc.low, "high": auc.high}
    return row


def answered(rows: Sequence[Row]) -> list[Row]:
    """The audits that answer."""
    return [row for row in rows if row["status"] in ANSWERED]


def misses(rows: Sequence[Row], truths: Sequence[float]) -> tuple[int, int]:
    """How many of the audits that answer have their lower limit above the truth, and their upper limit below it."""
    pairs = [(row, truth) for row, truth in zip(rows, truths, strict=True) if row["status"] in ANSWERED]
    return sum(row["low"] > truth for row, truth in pairs), sum(row["high"] < truth for row, truth in pairs)

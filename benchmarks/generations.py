"""What it costs to compare answers that were made elsewhere: ``python benchmarks/generations.py [--quick]``.

10,000 private texts and as many controls of 80 words against 1,000,000 answers of 60 (``--quick``: 100,000), a tenth of
which hold a part of a private text, and a hundredth a part with three words changed. The straightforward way, a table
of common runs for each answer and text, stands beside: a sample of pairs is timed and **extrapolated**. Process CPU
time of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy

import numpy as np

from miaudit.auditing.extraction import ExtractionPlan
from miaudit.collect.generations import audit_generations, words

TEXTS, WORDS, LENGTH, SUFFIX = 10_000, 80, 60, 20


def write(folder: Path, answers: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Write texts, controls and answers; return the texts and some answers."""
    names = np.array([f"w{i}" for i in range(30_000)])
    both = names[rng.integers(0, len(names), (2, TEXTS, WORDS))]
    for name, rows in zip(("private", "public"), both, strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": " ".join(row)}) + "\n" for row in rows))
    some = []
    with (folder / "answers.jsonl").open("w") as file:
        for i in range(answers):
            said = names[rng.integers(0, len(names), LENGTH)]
            if i % 10 == 0:
                said[15:45] = both[0, rng.integers(0, TEXTS), 20:50]
            if i % 100 == 0:
                said[[20, 30, 40]] = "changed"
            file.write(json.dumps({"answer": " ".join(said)}) + "\n")
            if len(some) < 20:
                some.append(" ".join(said))
    return [" ".join(row) for row in both[0, :20]], some


def longest_run(a: list[str], b: list[str]) -> int:
    """The straightforward way: a row of the table for each token."""
    row, most = [0] * (len(b) + 1), 0
    for one in a:
        row = [0, *(row[j] + 1 if one == other else 0 for j, other in enumerate(b))]
        most = max(most, *row)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 answers")
    answers = 100_000 if parser.parse_args().quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts, some = write(folder, answers, np.random.default_rng(0))
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        files = [folder / f"{part}.jsonl" for part in ("answers", "private", "public")]
        found = audit_generations(*files, plan=ExtractionPlan(suffix=SUFFIX), design="one-run")
        spent, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pairs = [(words(text), words(answer)) for text in texts for answer in some]
    start = time.process_time()
    for text, answer in pairs:
        longest_run(text, answer)
    plain = (time.process_time() - start) / len(pairs) * 2 * TEXTS * answers
    lines = {
        f"{2 * TEXTS:,} texts, {answers:,} answers": (
            f"{spent:.3g} CPU s",
            "at most 120" if answers == 1_000_000 else "",
        ),
        "peak memory": (f"{peak / 1e3:.0f} MB", "at most 2,000"),
        "of it before the comparison": (f"{before / 1e3:.0f} MB", ""),
        "a table for each pair (extrapolated)": (f"{plain:.3g} CPU s", ""),
        "private texts that come out": (f"{found.members.value:.1%}", ""),
    }
    print("| what | measured | target |\n|---|---|---|")
    for name, (value, target) in lines.items():
        print(f"| {name} | {value} | {target} |")


if __name__ == "__main__":
    main()

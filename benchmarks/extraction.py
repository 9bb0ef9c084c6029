"""What it costs to read a file of token log-probabilities and audit it: ``python benchmarks/extraction.py``.

10,000 documents of 512 tokens (``--quick``: 1,000), with their tokens and texts as ``miaudit collect`` writes them. CPU
seconds of this process; the plain ways stand beside: a loop over passages, and a table for each edit distance.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy

import numpy as np

from miaudit.attacks.extraction import edit_distances
from miaudit.auditing.near_texts import in_members
from miaudit.collect.extraction import audit_extraction
from miaudit.io.token_records import TokenRecords, read_jsonl, write_jsonl

TOKENS, SUFFIX = 512, 50


def documents(n: int, rng: np.random.Generator) -> TokenRecords:
    """Texts of Zipf words; a tenth of the members are known by heart."""
    share = 1 / np.arange(1, 30_001)
    words = np.array([f"word{i}" for i in range(30_000)])
    member = np.arange(n) % 2 == 0
    known = member & (rng.random(n) < 0.1)
    log_p = -rng.exponential(np.where(known, 0.005, 2.5)[:, None], (n, TOKENS)).ravel()
    texts = tuple(" ".join(rng.choice(words, 380, p=share / share.sum())) for _ in range(n))
    return TokenRecords(
        ids=tuple(map(str, range(n))),
        member=member,
        log_p=np.round(log_p, 5),
        offsets=TOKENS * np.arange(n + 1),
        top1=log_p > -0.7,
        tokens=rng.integers(0, 30_000, n * TOKENS),
        times=np.where(member, rng.choice([1, 4, 16], n), 0),
        text=texts,
    )


def loop(records: TokenRecords) -> np.ndarray:
    """The straightforward way: the likeliest passage of each text, one after another."""
    best = np.full(len(records.ids), -1e6)
    for i in range(len(records.ids)):
        own = records.log_p[records.offsets[i] : records.offsets[i + 1]].tolist()
        for at in range(50, len(own) - SUFFIX + 1, SUFFIX):
            best[i] = max(best[i], sum(own[at : at + SUFFIX]))
    return best


def plain_edit_distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, one in enumerate(a):
        before, row = row, [i + 1]
        for j, other in enumerate(b):
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (one != other)))
    return row[-1]


def cpu(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measured(n: int, folder: Path) -> dict[str, float]:
    rng = np.random.default_rng(0)
    records = documents(n, rng)
    file = folder / "tokens.jsonl"
    said, true = rng.integers(0, 300, (2, n, SUFFIX)).tolist()
    own = TokenRecords(records.ids, records.member, records.log_p, records.offsets, top1=records.top1)
    small = max(1, n // 20)
    audit_extraction(own, design="one-run")  # imports
    return {
        "write": cpu(lambda: write_jsonl(file, records)),
        "megabytes": file.stat().st_size / 1e6,
        "read": cpu(lambda: read_jsonl(file)),
        "audit": cpu(lambda: audit_extraction(own, design="one-run")),
        "audit_with_texts": cpu(lambda: audit_extraction(records, design="one-run", names=True)),
        "of_it_near_duplicates": cpu(lambda: in_members(records.text or (), records.member)),
        "loop_passages": cpu(lambda: loop(records)),
        "edit_distances": cpu(lambda: edit_distances(said, true)),
        "loop_edit_distances": 20 * cpu(lambda: list(map(plain_edit_distance, said[:small], true[:small]))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 documents")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n = 1_000 if options.quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        found = measured(n, Path(folder))
    lines = {
        f"{n:,} documents x {TOKENS} tokens: extraction from log-probabilities": ("audit", "at most 3"),
        "the same with texts, repetition and names": ("audit_with_texts", "at most 3"),
        "of it nearly equal texts": ("of_it_near_duplicates", ""),
        "a loop over passages alone": ("loop_passages", ""),
        f"read the file ({found['megabytes']:.0f} MB of JSON)": ("read", ""),
        "write it": ("write", ""),
        f"{n:,} edit distances of {SUFFIX} tokens": ("edit_distances", ""),
        "a table for each of them (a twentieth, times 20)": ("loop_edit_distances", ""),
    }
    print("| what | CPU seconds | target |\n|---|---|---|")
    for name, (key, target) in lines.items():
        print(f"| {name} | {found[key]:.3g} | {target} |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Attacks on stored log-probabilities of texts beside the straightforward loop over documents.

``python benchmarks/token_attacks.py [--documents 10000] [--tokens 512] [--json FILE]``. Time is process CPU of the
call, one thread of linear algebra; the target is 3 CPU-seconds for 10,000 documents of 512 tokens. The loop takes one
document at a time with numpy, as published code does, on a tenth of the documents, and has to give the same scores.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.attacks import tokens

K, TARGET = 0.2, 3.0
Document = dict[str, Any]


def drawn(documents: int, mean_length: int, seed: int = 0) -> dict[str, Any]:
    """Log-probabilities of documents of unequal length, from a half to one and a half of the mean."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(mean_length // 2, mean_length * 3 // 2 + 1, documents)
    offsets = np.r_[0, np.cumsum(lengths)]
    total = int(offsets[-1])
    log_p, words = -rng.exponential(2.5, total), np.array(["alpha ", "beta ", "gamma ", "delta ", "eps "])
    return {
        "log_p": log_p,
        "offsets": offsets,
        "mean": -rng.exponential(2.5, total),
        "std": rng.exponential(1.0, total),
        "top1": log_p > -0.5,
        "tokens": rng.integers(0, 50_000, total),
        "prefixed_log_p": -rng.exponential(2.5, total),
        "frequency_log_p": -rng.exponential(8.0, total),
        "reference_log_p": -rng.exponential(2.5, total),
        "reference_offsets": offsets,
        "neighbour_log_p": -rng.exponential(2.5, documents * 25),
        "neighbour_offsets": np.arange(documents + 1) * 25,
        "text": ["".join(row) for row in np.split(words[rng.integers(0, 5, total)], offsets[1:-1])],
    }


def of_document(given: dict[str, Any], i: int) -> Document:
    """What is known of one document."""
    own, near = (slice(given[name][i], given[name][i + 1]) for name in ("offsets", "neighbour_offsets"))
    document = {name: given[name][own] for name in given if len(given[name]) == len(given["log_p"])}
    return {**document, "text": given["text"][i], "neighbours": given["neighbour_log_p"][near]}


# -- the way it is usually done ---------------------------------------------------------------------------------------


def lowest(values: np.ndarray) -> np.ndarray:
    return np.sort(values)[: max(1, int(K * len(values)))]


def error_zone(d: Document) -> float:
    change = (d["log_p"] - d["reference_log_p"])[~d["top1"]]
    rises, falls = change[change > 0].sum(), -change[change < 0].sum()
    return float(rises / (rises + falls))


def window_votes(d: Document) -> float:
    change = d["log_p"] - d["reference_log_p"]
    sizes = [size for size in (2, 3, 4, 6, 9, 13, 18, 25, 32, 40) if size <= len(change)]
    return float(np.mean([np.mean(np.convolve(change, np.ones(size), "valid") > 0) for size in sizes]))


def calibrated_divergence(d: Document) -> float:
    first = np.unique(d["tokens"], return_index=True)[1]
    return float(np.minimum(-np.exp(d["log_p"][first]) * d["frequency_log_p"][first], 0.01).mean())


def surprise(d: Document) -> float:
    taken = (d["log_p"] <= lowest(d["log_p"]).max()) & (-d["mean"] < 2.0)
    return float(d["log_p"][taken].mean()) if taken.any() else 0.0


LOOPS: dict[str, Callable[[Document], float]] = {
    "loss": lambda d: d["log_p"].mean(),
    "min_k": lambda d: lowest(d["log_p"]).mean(),
    "min_k_plus_plus": lambda d: lowest((d["log_p"] - d["mean"]) / np.maximum(d["std"], 1e-6)).mean(),
    "zlib_ratio": lambda d: d["log_p"].mean() / len(zlib.compress(d["text"].encode())),
    "reference_ratio": lambda d: -d["log_p"].mean() / d["reference_log_p"].mean(),
    "error_zone": error_zone,
    "window_votes": window_votes,
    "prefix_ratio": lambda d: d["prefixed_log_p"].mean() / d["log_p"].mean(),
    "calibrated_divergence": calibrated_divergence,
    "surprise": surprise,
    "neighbourhood": lambda d: d["log_p"].mean() - d["neighbours"].mean(),
}


def measured(name: str, given: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of one attack and of its loop (scaled up from a tenth), and their largest difference."""
    start = time.process_time()
    score = tokens.member_scores(**given, names=[name], k=K)[name]
    middle = time.process_time()
    some = max(1, len(score) // 10)
    slow = np.array([LOOPS[name](of_document(given, i)) for i in range(some)])
    loop = (time.process_time() - middle) * len(score) / some
    seconds = middle - start
    return {
        "seconds": seconds,
        "loop": loop,
        "ratio": loop / seconds,
        "apart": float(np.abs(score[:some] - slow).max()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=512, help="of a document, on average")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    given = drawn(options.documents, options.tokens)
    found = {name: measured(name, given) for name in tokens.ATTACKS}
    print(f"{options.documents:,} documents of {options.tokens} tokens (target: at most {TARGET:g} CPU s each)\n")
    print("| attack | CPU s | loop, CPU s | loop / ours | largest difference |\n|---|---|---|---|---|")
    for name, row in found.items():
        print(f"| `{name}` | {row['seconds']:.3f} | {row['loop']:.2f} | {row['ratio']:.1f} | {row['apart']:.1e} |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

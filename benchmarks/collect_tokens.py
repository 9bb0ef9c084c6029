"""Which share of collecting log-probabilities is the model's own: ``python benchmarks/collect_tokens.py [--quick]``.

Models of 1 to 10 million parameters from random weights, documents of 20 to 500 tokens. Time is process CPU during the
whole of ``collect_tokens`` (texts cut into tokens, asked, scored and written), one thread; inside are the calls of the
model itself. Beside it stands the straightforward way: log-softmax and moments in float64, as the tests compute them.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy and torch
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import cProfile
import json
import pstats
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch

from miaudit.collect.asked_tokens import collect_tokens
from miaudit.collect.campaign import Campaign
from miaudit.collect.records import Records
from miaudit.models import language, text
from worlds.twins import log_p_and_moments

LEAST = 0.9
# Layers, width, heads, vocabulary: 1.3, 5.3 and 10.6 million parameters.
SIZES = ((4, 128, 4, 2000), (6, 256, 8, 2000), (6, 256, 8, 20_000))


def documents(n: int, rng: np.random.Generator) -> list[str]:
    """Texts of made-up words whose frequencies fall as in a language, of 15 to 350 words."""
    letters = np.array(list("etaoinshrdlu"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(30_000)])
    chance = 1 / np.arange(1, len(words) + 1)
    return [" ".join(rng.choice(words, rng.integers(15, 350), p=chance / chance.sum())) for _ in range(n)]


class Timed:
    """A model whose calls are timed."""

    def __init__(self, model: Any) -> None:
        self._call, self.seconds = model.forward, 0.0
        model.forward = self

    def __call__(self, *args: Any, **options: Any) -> Any:
        start = time.process_time()
        found = self._call(*args, **options)
        self.seconds += time.process_time() - start
        return found


def measured(size: tuple[int, int, int, int], n: int, place: Path, profile: bool) -> dict[str, float]:
    layers, width, heads, vocabulary = size
    rng = np.random.default_rng(0)
    texts = documents(n, rng)
    tokenizer = text.byte_pair_tokenizer(documents(2000, rng), vocabulary=vocabulary)
    config = text.SmallGPT2(layers=layers, width=width, heads=heads, context=512)
    folder = place / "-".join(map(str, size))
    text.save(text.LanguageModel("fresh", text._fresh(tokenizer, config, 0), tokenizer), folder)
    target = language.SavedLanguage(folder, device="cpu")
    target.tokens(texts[:4])  # what is set up once
    timed = Timed(target._model.model)
    campaign = Campaign(target, Records(texts, None, np.arange(n) % 2 == 0, {}, "texts"))
    watch = cProfile.Profile()
    start = time.process_time()
    if profile:
        watch.enable()
    collect_tokens(campaign, folder / "tokens.jsonl")
    watch.disable()
    whole = time.process_time() - start
    if profile:
        pstats.Stats(watch).sort_stats("tottime").print_stats(14)
    logits = torch.randn(2000, vocabulary)
    ids = torch.randint(vocabulary, (2000,))
    return {
        "parameters": sum(one.numel() for one in target._model.model.parameters()),
        "vocabulary": vocabulary,
        "tokens": sum(len(json.loads(line)["logprobs"]) for line in (folder / "tokens.jsonl").open()),
        "cpu": whole,
        "share": timed.seconds / whole,
        "moments_us": 500 * seconds(blocks, logits, ids),
        "straight_us": 500 * seconds(log_p_and_moments, logits.numpy(), ids.numpy()),
    }


def blocks(logits: torch.Tensor, ids: torch.Tensor) -> None:
    size = text._BLOCK // logits.shape[1]
    for pair in zip(logits.split(size), ids.split(size), strict=True):
        text._moments(*pair, True)


def seconds(call: Any, *arguments: Any) -> float:
    call(*arguments)
    start = time.process_time()
    call(*arguments)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="the smallest model, 40 documents")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--profile", action="store_true", help="print what takes the time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes, n = (SIZES[:1], 40) if options.quick else (SIZES, options.documents)
    print(
        "| parameters | vocabulary | tokens | CPU s | in the model (at least 90%) | moments, us a token | in float64 |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as place:
        for size in sizes:
            row = measured(size, n, Path(place), options.profile)
            print(
                f"| {row['parameters'] / 1e6:.1f} million | {row['vocabulary']:,} | {row['tokens']:,} "
                f"| {row['cpu']:.1f} | {row['share']:.1%} | {row['moments_us']:.1f} | {row['straight_us']:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

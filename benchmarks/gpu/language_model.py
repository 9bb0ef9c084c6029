"""A causal language model of 1.2 billion parameters from a configuration: tokens per second, peak, and the CPU's word.

Vocabulary of 128,256, texts of 2,048 tokens, float32 and bfloat16, with the moments that min-k%++ needs and without.
Weights are random and as wide as Llama's are at first: 16 layers of wider ones turn roundings into chaos. For one text
the log-probabilities are compared with what the CPU computes in float32, in units of their spread.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Sequence

import numpy as np
import torch
import transformers
from measurement import Sheet, run, watched

from miaudit.models import text
from miaudit.models.devices import device_of

WITHIN = {"float32": 1e-3, "bf16": 0.1}  # root mean square difference
TYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
LARGE = {
    "vocab_size": 128_256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
}
SMALL = {
    "vocab_size": 600,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}


def texts(n: int, words: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{one}" for one in rng.integers(0, 400, words)) for _ in range(n)]


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    size, count = (SMALL, 3) if options.tiny else (LARGE, 8)
    place = device_of(options.device)
    asked = texts(count, size["max_position_embeddings"])  # more tokens than words, so each text is cut
    tokenizer = text.byte_pair_tokenizer(asked, vocabulary=500)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        configuration = transformers.LlamaConfig(**size, tie_word_embeddings=True, initializer_range=0.02)
        model = transformers.AutoModelForCausalLM.from_config(configuration, dtype=torch.float32).eval()
    parameters = f"{sum(one.numel() for one in model.parameters()):,}"
    here = text.LanguageModel("from a configuration", model, tokenizer)
    truth = text.token_log_probabilities(here, asked[:1], moments=False).log_p
    for precision, kind in TYPES.items():
        there = text.LanguageModel(here.name, copy.deepcopy(model).to(place, kind), tokenizer)
        text.token_log_probabilities(there, asked[:1])  # not counted
        for moments in (False, True):
            with watched(options.device) as watch:
                found = text.token_log_probabilities(there, asked, moments=moments)
            far = found.log_p[: len(truth)] - truth
            apart = float(np.sqrt(np.mean(far**2)) / truth.std())
            otherwise = f"{precision}: log-probabilities are {apart:.2g} of their spread from the CPU's"
            words = sheet.require(apart <= WITHIN[precision], otherwise)
            rate = f"{len(found.log_p) / watch.seconds:,.0f}"
            distance = (f"{apart:.2g}", f"{abs(far).max():.2g} nats", words)
            sheet.row(parameters, precision, "yes" if moments else "no", rate, watch.gigabytes, *distance)
        del there
        if place.type == "cuda":
            torch.cuda.empty_cache()


def main(arguments: Sequence[str] | None = None) -> int:
    columns = ("parameters", "precision", "moments", "tokens a second", "peak")
    return run(__doc__, (*columns, "from the CPU, of the spread", "at most", "as it must"), measure, arguments)


if __name__ == "__main__":
    sys.exit(main())

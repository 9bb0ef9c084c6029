"""Documents to train on: those of WikiMIA, without its labels, and a generated corpus with heavy tails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_SAME = 12  # words: WikiMIA cuts one article at 32, 64, 128 and 256 words, and no article may be two documents
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents under the coin, and others that no audited model is trained on.

    Attributes
    ----------
    name : in tables
    audited : for each a coin decides whether it is trained on
    times : how often it is then read in one epoch; no attack knows it
    base : what the base model, which is the reference too, is trained on
    apart : what no model is trained on: texts before a text, and the population of RMIA
    """

    name: str
    audited: tuple[str, ...]
    times: np.ndarray
    base: tuple[str, ...]
    apart: tuple[str, ...]


def drawn(name: str, settings: Mapping[str, Any], data: Path, rng: np.random.Generator) -> Corpus:
    """Part the documents of a corpus at random into those audited, those of the base and those apart."""
    sizes = [settings[part] for part in ("audited", "base", "apart")]
    texts = wikimia(data) if name == "wikimia" else generated(sum(sizes), rng)
    if len(texts) < sum(sizes):
        raise SystemExit(f"{name} has {len(texts)} documents, {sum(sizes)} are wanted")
    order = rng.permutation(len(texts))
    parts = [tuple(texts[row] for row in rows) for rows in np.split(order, np.cumsum(sizes))[:3]]
    times = np.ones(sizes[0], dtype=int)
    if name == "generated":  # how often a document is read falls with the square: most once, some sixteen times
        often = np.arange(1, settings["most_times"] + 1)
        times = rng.choice(often, sizes[0], p=often**-2.0 / np.sum(often**-2.0))
    return Corpus(name, parts[0], times, parts[1], parts[2])


def wikimia(data: Path) -> list[str]:
    """Every article once, in its longest form."""
    longest: dict[str, str] = {}
    for length in (256, 128, 64, 32):
        lines = (data / "wikimia" / f"wikimia_{length}.jsonl").read_text(encoding="utf-8").splitlines()
        for text in (json.loads(line)["input"] for line in lines):
            longest.setdefault(" ".join(text.split()[:_SAME]), text)
    return list(longest.values())


def generated(count: int, rng: np.random.Generator) -> list[str]:
    """Sentences of invented words (Zipf), by templates that documents share, with names and numbers of their own.

    The number of words has a Pareto tail; a quarter of the sentences repeats an earlier one of its document, and a
    fifth is boilerplate that many documents hold.
    """
    words = ["".join(rng.choice(_SYLLABLES, size)) for size in rng.integers(1, 4, 800)]
    zipf = 1 / np.arange(1, len(words) + 1)
    zipf /= zipf.sum()
    follows = rng.choice(len(words), (len(words), 5), p=zipf)  # a word has five usual successors
    boilerplate = [_sentence(words, zipf, follows, rng) for _ in range(30)]
    texts = []
    for _ in range(count):
        length, said = min(12 * (1 + rng.pareto(1.2)), 250), []
        while sum(len(sentence.split()) for sentence in said) < length:
            kind = rng.random()
            if said and kind < 0.25:
                said.append(said[rng.integers(len(said))])
            elif kind < 0.45:
                said.append(boilerplate[rng.integers(len(boilerplate))])
            else:
                said.append(_sentence(words, zipf, follows, rng))
        texts.append(" ".join(said))
    return texts


def _sentence(words: list[str], zipf: np.ndarray, follows: np.ndarray, rng: np.random.Generator) -> str:
    at = int(rng.choice(len(words), p=zipf))
    said = [words[at].capitalize()]
    for _ in range(rng.integers(4, 12)):
        at = int(follows[at, rng.integers(5)] if rng.random() < 0.7 else rng.choice(len(words), p=zipf))
        said.append(words[at] if rng.random() < 0.95 else str(rng.integers(1000)))
    return " ".join(said) + "."

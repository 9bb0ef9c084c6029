"""Token log-probabilities of texts about two subjects, written as a file: who is a member may depend on the subject."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

from miaudit.io.token_records import TokenRecords, write_jsonl

WORDS = np.array([a + b + c for a in "bdgklm" for b in "aeiou" for c in ("n", "r")])


@dataclass(frozen=True)
class TextWorld:
    """Each text is about one subject to some degree, which decides its words, and words decide how hard it is.

    Attributes
    ----------
    shift : log-odds of membership for a standard deviation of the subject; 0: coins
    leak : by how much a member's tokens are likelier to the audited model, in nats; 0: nothing is memorised
    hidden : log-odds of membership for a standard deviation of what no word shows, and what both models find hard
    length : tokens of the shortest text; the longest has thrice as many
    """

    shift: float = 0.0
    leak: float = 0.0
    hidden: float = 0.0
    length: int = 20

    def drawn(self, n: int, rng: np.random.Generator, *, counterfactual: bool = False) -> TokenRecords:
        """Draw n texts; ``counterfactual``: as they would be, had the model been trained on none of them."""
        subject, trait = rng.normal(size=(2, n))
        member = rng.random(n) < special.expit(self.shift * subject + self.hidden * trait)
        lengths = rng.integers(self.length, 3 * self.length, n)
        offsets = np.r_[0, np.cumsum(lengths)]
        row = np.repeat(np.arange(n), lengths)
        half = len(WORDS) // 2
        number = rng.integers(half, size=len(row)) + half * (rng.random(len(row)) < special.expit(subject[row]))
        hard = np.where(number < half, 2.0, 3.0) + np.linspace(0.0, 0.5, len(WORDS))[number]  # of a word, in nats
        hard += 0.3 * trait[row]
        models = [np.maximum(hard + rng.normal(scale=0.7, size=len(hard)), 0.05) for _ in range(2)]
        known = np.zeros(len(row)) if counterfactual else self.leak * member[row]
        return TokenRecords(
            ids=tuple(map(str, range(n))),
            member=member,
            log_p=-np.maximum(models[0] - known, 0.01),
            offsets=offsets,
            reference_log_p=-models[1],
            reference_offsets=offsets,
            text=tuple(" ".join(words) for words in np.split(WORDS[number], offsets[1:-1])),
        )

    def write(self, path: Path, n: int, rng: np.random.Generator) -> Path:
        write_jsonl(path, self.drawn(n, rng))
        return path

    def auc(self, rng: np.random.Generator, n: int = 100_000) -> float:
        """What membership does to the loss: members against texts like them that the model was not trained on."""
        own, other = self.drawn(n, rng), self.drawn(n, rng, counterfactual=True)
        inside, outside = (
            np.add.reduceat(world.log_p, world.offsets[:-1])[world.member] / np.diff(world.offsets)[world.member]
            for world in (own, other)
        )
        return float(np.searchsorted(np.sort(outside), inside).mean() / len(outside))


def ragged(n: int = 60, longest: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """Texts of any length, the shortest ones of one and two tokens, with ties, as the arguments of records."""
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, 2, longest, rng.integers(1, longest, n - 3)]
    offsets = np.r_[0, np.cumsum(lengths)]
    total = int(offsets[-1])
    return {
        "log_p": np.round(-rng.exponential(3.0, total), 1),  # rounded: with ties
        "offsets": offsets,
        "mean": -rng.exponential(3.0, total),
        "std": rng.exponential(1.0, total) * (rng.random(total) < 0.95),
        "reference_log_p": -rng.exponential(2.0, total),
        "reference_offsets": offsets,
    }

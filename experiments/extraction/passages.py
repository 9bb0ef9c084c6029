"""Documents of made-up words in which passages stand once or many times, or never; some of them are a licence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.io.token_records import TokenRecords
from miaudit.models import text


@dataclass(frozen=True, eq=False)
class World:
    """Passages of which each may be trained on, other documents that always are, and a tokenizer of all of them.

    Attributes
    ----------
    passages : n str; the first ``licences`` have a head of their own and then one of a few standard texts
    others : documents of every training, some of which hold the standard texts
    licences : how many of the passages are boilerplate
    """

    passages: tuple[str, ...]
    others: tuple[str, ...]
    licences: int
    tokenizer: Any

    @classmethod
    def of(cls, settings: Mapping[str, Any], rng: np.random.Generator) -> World:
        syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
        words = sorted({"".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(settings["words"])})
        share = 1 / np.arange(1, len(words) + 1)
        share /= share.sum()

        def said(length: int) -> str:
            return " ".join(rng.choice(words, length, p=share))

        long, n = settings["passage_words"], settings["passages"]
        licences = [said(long) for _ in range(4)]
        several = round(n * settings["boilerplate"])
        passages = [f"{said(4)} {licences[i % 4]}" if i < several else said(long + 4) for i in range(n)]
        others = [said(long + 4) for _ in range(settings["others"])]
        others += [f"{said(4)} {licences[i % 4]}" for i in range(settings["licensed_others"])]
        tokenizer = text.byte_pair_tokenizer([*passages, *others], vocabulary=settings["vocabulary"])
        return cls(tuple(passages), tuple(others), several, tokenizer)

    def times(self, numbers: Sequence[int], each: int, rng: np.random.Generator) -> np.ndarray:
        """Draw how often each passage is trained on (n,): as many of each number, 0 for all others."""
        found = np.repeat([*numbers, 0], [*[each] * len(numbers), len(self.passages) - each * len(numbers)])
        return rng.permutation(found)

    def fit(
        self,
        times: np.ndarray,
        config: text.SmallGPT2,
        rng: np.random.Generator,
        progress: Callable[[int, int], None] | None = None,
    ) -> text.LanguageModel:
        documents = [*self.others, *np.repeat(self.passages, times).tolist()]
        return text.train(self.tokenizer, documents, config, rng=rng, progress=progress)

    def records(self, model: text.LanguageModel, times: np.ndarray) -> TokenRecords:
        """What a model says of the tokens of all passages."""
        said = text.token_log_probabilities(model, self.passages, moments=False)
        return TokenRecords(
            ids=tuple(f"passage {i}" for i in range(len(self.passages))),
            member=times > 0,
            log_p=said.log_p,
            offsets=said.offsets,
            top1=said.top1,
            tokens=said.tokens,
            times=times,
            text=self.passages,
        )

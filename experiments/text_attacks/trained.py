"""Small language models trained on documents that coins chose, and what each attack makes of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from corpora import Corpus

from miaudit.attacks import lira, rmia, tokens
from miaudit.models import text

SHADOWS = ("lira_online", "lira_offline", "rmia_online", "rmia_offline")


@dataclass(frozen=True, eq=False)
class Bench:
    """One corpus with its tokenizer, learned from all documents, and its base model.

    Texts are cut to ``longest`` tokens before anything is done with them, so that every attack sees the same text.
    """

    corpus: Corpus
    settings: Mapping[str, Any]
    seed: np.random.SeedSequence

    @cached_property
    def tokenizer(self) -> Any:
        corpus = self.corpus
        everything = (*corpus.audited, *corpus.base, *corpus.apart)
        return text.byte_pair_tokenizer(everything, vocabulary=self.settings["vocabulary"])

    @cached_property
    def audited(self) -> list[str]:
        return self._cut(self.corpus.audited)

    @cached_property
    def before(self) -> str:
        """Documents that nobody was trained on, to stand before a text (ReCaLL)."""
        ids = self.tokenizer("\n".join(self.corpus.apart[: self.settings["shots"]]), add_special_tokens=False)
        return str(self.tokenizer.decode(ids["input_ids"][: self.settings["prefix"]])) + "\n"

    @cached_property
    def population(self) -> list[str]:
        return self._cut(self.corpus.apart[self.settings["shots"] :])

    @cached_property
    def base(self) -> text.LanguageModel:
        """Trained on other documents, up to the whole context, so that a text after a prefix is nothing new to it."""
        config = self.architecture(self.settings["base_epochs"])
        return text.train(self.tokenizer, self.corpus.base, config, rng=self._rng(0))

    @cached_property
    def frequency(self) -> np.ndarray:
        """Logarithm of each token's share of the base's documents, every token counted once more (DC-PDD)."""
        rows = self.tokenizer(list(self.corpus.base), add_special_tokens=False)["input_ids"]
        counts = np.bincount(np.concatenate(rows).astype(int), minlength=len(self.tokenizer)) + 1.0
        return np.log(counts / counts.sum())

    @cached_property
    def neighbours(self) -> list[list[str]]:
        """For the first documents: the document with some words taken from elsewhere in the corpus."""
        rng, vocabulary = self._rng(1), " ".join(self.corpus.base).split()
        found = []
        for document in self.audited[: self.settings["neighbour_documents"]]:
            words, copies = document.split(" "), []
            for _ in range(self.settings["neighbours"]):
                other = words.copy()
                for at in rng.choice(len(words), max(1, len(words) // 7), replace=False):
                    other[at] = vocabulary[rng.integers(len(vocabulary))]
                copies.append(" ".join(other))
            found.append(self._cut(copies))
        return found

    def architecture(self, epochs: int) -> text.SmallGPT2:
        return text.SmallGPT2(epochs=epochs, context=self.settings["context"], **self.settings["model"])

    def trained(self, regime: Mapping[str, Any], member: np.ndarray, rng: np.random.Generator) -> text.LanguageModel:
        """Train on the members, each as often as it is read: from random weights, or on from the base."""
        rows = np.repeat(np.flatnonzero(member), self.corpus.times[member])
        documents = [self.audited[row] for row in rows]
        if regime["start"] == "random":
            return text.train(self.tokenizer, documents, self.architecture(regime["epochs"]), rng=rng)
        return tuned(self.base, documents, regime, rng)

    @cached_property
    def reference(self) -> text.TokenOutputs:
        return text.token_log_probabilities(self.base, self.audited, moments=False)

    def outputs(self, model: text.LanguageModel) -> dict[str, np.ndarray]:
        """Scores by every attack on one model (n,), and the mean log-probability of the population (m,)."""
        out = text.token_log_probabilities(model, self.audited)
        near = self._of_neighbours(model)
        some = len(near) // self.settings["neighbours"]
        scores = tokens.member_scores(
            log_p=out.log_p,
            offsets=out.offsets,
            text=self.audited,
            mean=out.mean,
            std=out.std,
            top1=out.top1,
            tokens=out.tokens,
            prefixed_log_p=self._prefixed(model, out),
            frequency_log_p=self.frequency[out.tokens],
            reference_log_p=self.reference.log_p,
            reference_offsets=self.reference.offsets,
            names=[name for name in tokens.ATTACKS if name != "neighbourhood"],
        )
        end = out.offsets[some]
        beside = np.arange(some + 1) * self.settings["neighbours"]
        scores["neighbourhood"] = np.full(len(self.audited), np.nan)  # of the others nobody made neighbours
        scores["neighbourhood"][:some] = tokens.neighbourhood(out.log_p[:end], out.offsets[: some + 1], near, beside)
        others = text.token_log_probabilities(model, self.population, moments=False)
        return {**scores, "population": tokens.loss(others.log_p, others.offsets)}

    def _prefixed(self, model: text.LanguageModel, out: text.TokenOutputs) -> np.ndarray:
        after = text.token_log_probabilities(model, [self.before + row for row in self.audited], moments=False)
        lengths = np.diff(out.offsets)
        own = [np.arange(end - length, end) for end, length in zip(after.offsets[1:], lengths, strict=True)]
        at = np.concatenate(own)
        if not np.array_equal(after.tokens[at], out.tokens) or (after.windows > 1).any():
            raise SystemExit("a text is cut into other tokens after the prefix")
        return after.log_p[at]

    def _of_neighbours(self, model: text.LanguageModel) -> np.ndarray:
        flat = [one for row in self.neighbours for one in row]
        out = text.token_log_probabilities(model, flat, moments=False)
        return tokens.loss(out.log_p, out.offsets)

    def _cut(self, documents: Sequence[str]) -> list[str]:
        """The beginning of each document, of at most ``longest`` tokens however it is cut again."""
        rows = self.tokenizer(list(documents), add_special_tokens=False)["input_ids"]
        longest = self.settings["longest"]
        short = [str(self.tokenizer.decode(row[:longest])) for row in rows]
        return [one.rsplit(" ", 1)[0] if len(row) > longest else one for one, row in zip(short, rows, strict=True)]

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng((*self.seed.generate_state(2), purpose))


def tuned(
    base: text.LanguageModel, documents: Sequence[str], regime: Mapping[str, Any], rng: np.random.Generator
) -> text.LanguageModel:
    """Train a copy of a model on: Adam, a rate that falls to 0 in a line, batches of documents of like length."""
    model = copy.deepcopy(base.model).train()
    ids = [torch.tensor(row) for row in base.tokenizer(list(documents))["input_ids"]]
    optimiser = torch.optim.Adam(model.parameters(), lr=regime["learning_rate"])
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    batches = [order[i : i + 16] for i in range(0, len(order), 16)]
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, regime["epochs"] * len(batches))
    for _ in range(regime["epochs"]):
        for at in rng.permutation(len(batches)):
            rows = [ids[row] for row in batches[at]]
            padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            beyond = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
            optimiser.zero_grad()
            model(input_ids=padded, labels=beyond, use_cache=False).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            falling.step()
    return text.LanguageModel("tuned GPT-2", model.eval(), base.tokenizer)


def with_shadows(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scores (trainings, n) by every attack: in turn each training is the target, and the others its shadow models.

    ``outputs`` has an array (trainings, n) for each attack, ``member`` (trainings, n), ``population`` (trainings, m).
    A document that all shadow models learned, or none, has NaN: that is decided by their coins, not by the target's.
    """
    loss, member, population = outputs["loss"], outputs["member"], outputs["population"]
    found = {name: np.full(loss.shape, np.nan) for name in SHADOWS}
    for own in range(len(loss)):
        rest = np.arange(len(loss)) != own
        known = member[rest].any(axis=0) & ~member[rest].all(axis=0)
        given = loss[own, known], loss[rest][:, known].T, member[rest][:, known].T
        apart = population[own], population[rest].T
        found["lira_online"][own, known] = lira.online(*given)
        found["lira_offline"][own, known] = lira.offline(*given)
        found["rmia_online"][own, known] = rmia.online(*given, *apart)
        found["rmia_offline"][own, known] = rmia.offline(*given, *apart)
    return {**{name: values for name, values in outputs.items() if name not in ("member", "population")}, **found}

"""Whether true strings and decoys follow one law, by what the audited model cannot have touched.

A reference model that never saw the strings must rank the true ones uniformly among their candidates. Without one,
the form of the strings must not identify them: character n-grams are learned on some units and tested on others.
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray, IntArray
from miaudit.findings.matched import LawCheck
from miaudit.metrics.matched_scores import rank_p_value, ranks, uniform_p_value
from miaudit.metrics.rounding import upper_text

__all__ = ["LEVEL", "format_ranks", "of_format", "of_reference"]

LEVEL = 0.01  # of each test; a law that is right is refuted in so many audits
_PARTS = 5
_FEATURES = 2**14
_PLACES = 64  # of characters from the start whose place counts; half as many from the end
_MOST_TEXTS = 40_000  # beyond these, the first units only


def of_reference(true: FloatArray, decoys: FloatArray, rng: np.random.Generator) -> LawCheck:
    """Test by scores of a model that never saw the strings, true (n,) and decoys (n, K): ranks must be uniform."""
    p = uniform_p_value(ranks(true, decoys, rng), decoys.shape[1])
    shown = f"(p = {upper_text(p, 2)})"
    right = (
        "The reference model, which never saw the strings (stated, not checked), ranks the true strings as if "
        f"chance had placed them {shown}."
    )
    refuted = (
        f"The reference model ranks the true strings other than chance does {shown}. Either true strings and decoys do "
        "not follow one law, or the reference saw some of them. So no number says what the audited model gives away."
    )
    return LawCheck("reference", p, p <= LEVEL, refuted if p <= LEVEL else right)


def of_format(texts: NDArray[np.object_], rng: np.random.Generator) -> LawCheck | None:
    """Test by the form of the strings, texts (n, K + 1) with the true one first; None for too few units."""
    texts = texts[: max(1, _MOST_TEXTS // texts.shape[1])]
    rank = format_ranks(texts, rng)
    if not len(rank):
        return None
    p = rank_p_value(rank, texts.shape[1] - 1)
    shown = f"(p = {upper_text(p, 2)})"
    right = (
        "Character n-grams, learned on some units and tested on others, do not identify the true strings "
        f"{shown}. That tests their format only."
    )
    refuted = (
        "The format of the strings identifies the true ones: character n-grams that were learned on other units rank "
        f"them first too often {shown}. True strings and decoys do not follow one law, so no number says what the "
        "model gives away. Draw the decoys by the rule that drew the true strings."
    )
    return LawCheck("format", p, p <= LEVEL, refuted if p <= LEVEL else right)


def format_ranks(texts: NDArray[np.object_], rng: np.random.Generator) -> IntArray:
    """Rank the true strings (m,) of all units but the first fifth by n-grams learned on the units before them.

    Each part is ranked by what was learned on earlier parts only. So its ranks are uniform given all earlier ones, and
    the test of their sum is exact.

    Parameters
    ----------
    texts : (n, K + 1), the true string first
    rng : draws the parts and the order of ties
    """
    n, wide = texts.shape
    if n < 2 * _PARTS:
        return np.zeros(0, np.int64)
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    shuffled = texts[rng.permutation(n)]
    hashing = HashingVectorizer(analyzer=_tokens, n_features=_FEATURES, alternate_sign=False, norm=None)
    counts = hashing.transform(shuffled.ravel())
    true = np.tile(np.arange(wide) == 0, n)
    edges = np.linspace(0, n, _PARTS + 1).astype(int) * wide
    model, ranked = MultinomialNB(), []
    for before, start, end in zip(edges, edges[1:], edges[2:], strict=False):
        model.partial_fit(counts[before:start], true[before:start], classes=[False, True])
        likely = np.diff(model.feature_log_prob_, axis=0)[0]
        score = (counts[start:end] @ likely).reshape(-1, wide)
        ranked.append(ranks(score[:, 0], score[:, 1:], rng))
    return np.concatenate(ranked)


def _tokens(text: str) -> Iterator[str]:
    """Characters with their places from either end, pairs and triples of them, and the length."""
    yield f"length {len(text)}"
    for place, character in enumerate(text[:_PLACES]):
        yield f"{place} {character}"
    for place, character in enumerate(reversed(text[-_PLACES // 2 :])):
        yield f"-{place} {character}"
    for size in (1, 2, 3):
        for start in range(len(text) - size + 1):
            yield text[start : start + size]

"""Texts that stand in others: against a count of triples one by one, and in the time that is promised."""

from __future__ import annotations

import time

import numpy as np
import pytest

from miaudit.auditing.near_texts import SHARE, in_members, near


def triples(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} if words else set()


def slow(
    texts: list[str], others: list[str], own: list[int] | None = None, whose: list[int] | None = None
) -> list[int]:
    """The same, one pair after the other."""
    found = []
    for i, text in enumerate(texts):
        mine = triples(text)
        for j, other in enumerate(others):
            same = own is not None and own[i] == (j if whose is None else whose[j])
            common = len(mine & triples(other))
            if not same and common and common >= SHARE * len(mine) - 1e-9:
                found.append(j)
                break
        else:
            found.append(-1)
    return found


def corpus(n: int, seed: int) -> list[str]:
    """Texts of few words, of which many stand in others, whole or nearly so; some are empty or strange."""
    rng = np.random.default_rng(seed)
    words = np.array(["Rain", "rain", "sun", "and", "a", "", "🙂", "日本", "\u2028", "x\ny", "\ud800"])
    return [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(n)]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_what_is_found_one_by_one(seed: int) -> None:
    texts, others = corpus(40, seed), corpus(150, 100 + seed)
    assert near(texts, others).tolist() == slow(texts, others)
    both = [*texts, *others]
    assert near(texts, both, np.arange(40)).tolist() == slow(texts, both, list(range(40)))
    whose = np.random.default_rng(seed).integers(0, 5, 190)
    assert near(texts, both, whose[:40], whose).tolist() == slow(texts, both, whose[:40].tolist(), whose.tolist())


def test_a_text_stands_in_a_longer_one_but_not_the_longer_one_in_it() -> None:
    short, long = "one two three four five six seven eight", " ".join(f"w{i}" for i in range(50))
    assert near([short], [f"{long} {short} {long}"]).tolist() == [0]
    assert near([f"{long} {short} {long}"], [short]).tolist() == [-1]
    assert near([], ["a"]).tolist() == near(["a"], []).tolist()[1:] == []
    assert near(["", "a"], ["", " "]).tolist() == [-1, -1]


@pytest.mark.thorough
@pytest.mark.long
def test_a_thousand_texts_are_compared_with_ten_thousand_in_seconds() -> None:
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{i}" for i in range(20_000)])
    documents = [" ".join(row) for row in vocabulary[np.minimum(rng.zipf(1.3, (10_000, 400)), 20_000) - 1]]
    begin = time.process_time()
    found = near([*documents[:500], *[" ".join(rng.choice(vocabulary, 40)) for _ in range(500)]], documents)
    assert time.process_time() - begin < 10
    np.testing.assert_array_equal(found[:500], np.arange(500))
    assert (found[500:] < 0).all()


def test_texts_in_members_equal_those_of_all_pairs() -> None:
    """Against every pair of texts, with a heading that all have, copies in other letters, and edited words."""
    rand = np.random.default_rng(3)
    words = np.array([f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"])
    texts = ["the heading that all of them have " * (i % 3 > 0) + " ".join(rand.choice(words, 30)) for i in range(120)]
    for i in range(0, 40, 2):  # from a copy to one of which a third is others
        own = texts[i].split()
        for at in rand.choice(len(own), i // 3, replace=False):
            own[at] = str(rand.choice(words))
        texts[80 + i // 2] = "  ".join(own).upper()
    texts += ["", "one two", "One  two", ""]
    member = np.r_[np.arange(120) < 80, True, True, False, False]
    triples = [{tuple(part[i : i + 3]) for i in range(len(part) - 2)} for part in (t.lower().split() for t in texts)]
    many: dict[tuple[str, ...], int] = {}
    for one in triples:
        for triple in one:
            many[triple] = many.get(triple, 0) + 1
    rare = [{triple for triple in one if many[triple] <= 32} for one in triples]
    plain = [" ".join(t.lower().split()) for t in texts]
    expected = [
        not member[i]
        and any(
            member[j]
            and (
                plain[i] == plain[j]
                or (bool(rare[i] & rare[j]) and 2 * len(rare[i] & rare[j]) >= len(rare[i] | rare[j]))
            )
            for j in range(len(texts))
        )
        for i in range(len(texts))
    ]
    found = in_members(texts, member)
    assert found.tolist() == expected and 8 <= found.sum() < 20
    assert not in_members(["a b", "c d"], [True, False]).any()

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from miaudit import Evidence
from miaudit.causal import duplicates
from miaudit.causal.duplicates import of_covariates, of_texts
from miaudit.errors import InputError

FloatArray = NDArray[np.float64]
DATA = Path(__file__).parents[3] / "shared" / "data"


def evidence_of(x: FloatArray, member: NDArray[np.bool_]) -> Evidence:
    return Evidence(score=np.zeros(len(member)), member=member, covariates=x)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def exact_by_pairs(x: FloatArray, member: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Equal pairs, members and non-members in one, by comparing every pair."""
    pairs = [
        (i, j)
        for i in np.flatnonzero(member).tolist()
        for j in np.flatnonzero(~member).tolist()
        if (x[i] == x[j]).all()
    ]
    return len(pairs), len({i for i, _ in pairs}), len({j for _, j in pairs})


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30), st.integers(1, 3), st.integers(1, 4))
def test_equal_rows_as_counted_pair_by_pair(seed: int, n1: int, n0: int, d: int, levels: int) -> None:
    x = np.random.default_rng(seed).integers(-levels, levels + 1, size=(n1 + n0, d)).astype(float) * 1.0
    x = np.where(x == 0, np.random.default_rng(seed).choice([0.0, -0.0], size=x.shape), x)
    member = np.arange(n1 + n0) < n1
    found, _ = of_covariates(evidence_of(x, member), rng=rng())
    assert (found.exact_pairs, found.members_affected, found.nonmembers_affected) == exact_by_pairs(x, member)
    assert found.near_pairs == 0


@pytest.mark.parametrize("d", [3, 10, 16])
def test_near_rows_as_counted_pair_by_pair(d: int) -> None:
    generator = np.random.default_rng(d)
    x = generator.normal(size=(600, d)) * generator.uniform(0.1, 100, d)
    member = np.arange(600) < 250
    sd = x.std(axis=0)
    copies = np.arange(300, 340)
    x[copies] = x[np.arange(40) // 2] + 1e-4 * sd * generator.normal(size=(40, d))  # two near copies of 20 members
    x[400] = x[0]
    found, _ = of_covariates(evidence_of(x, member), rng=rng())
    z = x / x.std(axis=0)
    distance = np.sqrt(((z[:, None] - z[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    across = distance[np.ix_(member, ~member)]
    near = across < 0.02
    assert found.exact_pairs == 1
    assert found.near_pairs == near.sum() - 1 == 40
    assert found.members_affected == near.any(axis=1).sum() == 20
    assert found.nonmembers_affected == near.any(axis=0).sum() == 41
    assert found.members_alike == 0


@pytest.mark.parametrize("d", [1, 2, 5, 10, 40, 300])
def test_nothing_is_near_by_chance(d: int) -> None:
    found = [
        of_covariates(evidence_of(np.random.default_rng(s).normal(size=(1000, d)), np.arange(1000) < 500), rng=rng())
        for s in range(5)
    ]
    assert sum(f.members_affected for f, _ in found) <= 2


@pytest.mark.parametrize("d", [17, 300])
def test_many_columns(d: int) -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(2000, d))
    x[1000:1030] = x[:30] + 0.01 * generator.normal(size=(30, d))
    x[1030:1040] = x[30:40]
    found, note = of_covariates(evidence_of(x, np.arange(2000) < 1000), rng=rng())
    assert (found.exact_pairs, found.near_pairs, found.members_affected) == (10, 30, 40)
    assert "random projection" in note


def test_coarse_data_are_said_to_be_coarse() -> None:
    x = np.random.default_rng(2).integers(0, 3, size=(900, 2)).astype(float)
    found, note = of_covariates(evidence_of(x, np.arange(900) < 450), rng=rng())
    assert found.members_affected == 450
    assert "Twins are as common among members themselves" in note


def test_constant_and_tiny_data() -> None:
    member = np.array([True, False, False])
    assert of_covariates(evidence_of(np.ones((3, 2)), member), rng=rng())[0].exact_pairs == 2
    found, note = of_covariates(evidence_of(np.array([1.0, 2.0, 3.0]), member), rng=rng())
    assert found.exact_pairs == found.near_pairs == 0
    assert "Too few" in note


def test_swapping_the_classes_swaps_the_counts() -> None:
    x = np.random.default_rng(3).normal(size=(500, 4))
    x[250:300] = np.repeat(x[:25], 2, axis=0) + 1e-6
    member = np.arange(500) < 250
    one, other = (of_covariates(evidence_of(x, m), rng=rng())[0] for m in (member, ~member))
    assert (one.members_affected, one.nonmembers_affected) == (25, 50)
    assert (other.members_affected, other.nonmembers_affected) == (50, 25)
    assert one.near_pairs == other.near_pairs == 50


def test_equal_generators_give_equal_counts() -> None:
    x = np.random.default_rng(4).normal(size=(400, 50))
    evidence = evidence_of(x, np.arange(400) < 200)
    assert of_covariates(evidence, rng=rng()) == of_covariates(evidence, rng=rng())


@pytest.mark.thorough
@pytest.mark.long
def test_ten_times_as_many_rows_do_not_take_their_square() -> None:
    def seconds(n: int) -> float:
        x = np.random.default_rng(5).normal(size=(n, 10))
        x[n // 2 : n // 2 + 200] = x[:200] + 1e-5
        started = time.process_time()
        found, _ = of_covariates(evidence_of(x, np.arange(n) < n // 2), rng=rng())
        assert found.members_affected == found.near_pairs == 200
        return time.process_time() - started

    few = seconds(10_000)
    assert seconds(100_000) < 60 * few  # the square is a hundred times


# -- texts ------------------------------------------------------------------------------------------------------------


def jaccard(a: str, b: str) -> float:
    one, other = ({t[i : i + 5] for i in range(max(1, len(t) - 4))} for t in (a.lower(), b.lower()))
    return len(one & other) / len(one | other)


def corpus(n: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    words = np.array(["".join(generator.choice(list("abcdefghijklmnop"), 6)) for _ in range(400)])
    return [" ".join(generator.choice(words, 30)) for _ in range(n)]


@pytest.mark.long
@pytest.mark.parametrize("threshold", [0.6, 0.7, 0.9])
def test_near_texts_as_counted_pair_by_pair(threshold: float) -> None:
    texts = corpus(120, 6)
    for k in range(30):  # cut more and more of the first thirty
        texts[60 + k] = texts[k][: len(texts[k]) - 3 * k]
    member = np.arange(120) < 60
    found, _ = of_texts(texts, member, threshold=threshold, rng=rng())
    near = [
        (i, j)
        for i in range(60)
        for j in range(60, 120)
        if texts[i] != texts[j] and jaccard(texts[i], texts[j]) >= threshold
    ]
    assert found.exact_pairs == 1
    assert found.near_pairs == len(near) > 3
    assert found.members_affected == len({i for i, _ in near}) + 1


def test_candidates_that_are_less_similar_than_the_threshold_are_not_near() -> None:
    texts = corpus(10, 8)
    texts[5:] = [text[: len(text) - 12 * (k + 1)] for k, text in enumerate(texts[:5])]
    similarity = [jaccard(texts[k], texts[5 + k]) for k in range(5)]
    assert similarity == sorted(similarity, reverse=True)
    for threshold, near in ((0.65, 5), ((similarity[1] + similarity[2]) / 2, 2), (0.99, 0)):
        counts, _ = of_texts(texts, np.arange(10) < 5, threshold=threshold, rng=rng())
        assert counts.near_pairs == counts.members_affected == near == sum(one >= threshold for one in similarity)


def test_case_and_white_space_do_not_count() -> None:
    found, _ = of_texts(["Ab  c", "x", "aB\nC ", "", "ab c"], [True, True, False, False, False], rng=rng())
    assert (found.exact_pairs, found.members_affected, found.nonmembers_affected) == (2, 1, 2)


def test_short_and_strange_texts() -> None:
    texts = ["", "a", "\ud800", "日本語のテキスト", "", "b", "日本語のテキスト"]
    found, _ = of_texts(texts, [True] * 4 + [False] * 3, rng=rng())
    assert (found.exact_pairs, found.near_pairs) == (2, 0)


def test_too_many_candidates_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_MOST_CANDIDATES", 3)
    texts = [corpus(1, 7)[0] + str(k) for k in range(10)]
    found, note = of_texts(texts, np.arange(10) < 5, rng=rng())
    assert "lower limits" in note
    assert found.near_pairs <= 3


def test_nothing_is_left_out_and_said_to_be_where_there_are_no_more_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_MOST_CANDIDATES", 2)
    text = corpus(1, 7)[0]
    counts, note = of_texts([text + "a", text + "b"], [True, False], rng=rng())
    assert (counts.near_pairs, "lower limits" in note) == (1, False)


@pytest.mark.parametrize(
    ("texts", "member", "threshold", "said"),
    [
        (["a"], [True, False], 0.7, "texts: expected 2"),
        (["a", "b"], [True, True], 0.7, "one class only"),
        (["a", "b"], [True, False], 0.3, "threshold: expected"),
        ([], [], 0.7, "one class only"),
    ],
)
def test_bad_input(texts: list[str], member: list[bool], threshold: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of_texts(texts, member, threshold=threshold, rng=rng())


def test_no_covariates() -> None:
    with pytest.raises(InputError, match="covariates"):
        of_covariates(Evidence(score=[0.0, 1.0], member=[True, False]), rng=rng())


def test_counts_are_frozen() -> None:
    found, _ = of_texts(["a", "b"], [True, False], rng=rng())
    with pytest.raises(FrozenInstanceError):
        found.exact_pairs = 3  # type: ignore[misc]


@pytest.mark.long
def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from miaudit.causal import balance, duplicates;"
        "print([m for m in ('sklearn', 'scipy.stats', 'scipy.spatial') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.data
def test_wikimia_has_no_duplicates_and_doubling_it_has() -> None:
    path = DATA / "wikimia" / "wikimia_64.jsonl"
    if not path.exists():
        pytest.skip(f"no {path}: real data are not part of the checkout")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    texts, member = [r["input"] for r in rows], np.array([r["label"] == 1 for r in rows])
    found, _ = of_texts(texts, member, rng=rng())
    assert (found.exact_pairs, found.near_pairs) == (0, 0)
    leaked = [t[5:] for t, m in zip(texts, member, strict=True) if m][:20]
    found, _ = of_texts(texts + leaked, np.r_[member, np.zeros(20, bool)], rng=rng())
    assert found.members_affected == found.nonmembers_affected == 20

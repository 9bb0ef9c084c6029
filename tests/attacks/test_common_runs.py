"""Runs that answers share with passages, against tables of all prefixes: small alphabets, where all things happen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from attacks.test_extraction import plain_edit_distance
from miaudit.attacks import common_runs
from miaudit.attacks.common_runs import CommonRuns, TokenRows, covered
from miaudit.errors import InputError


def rows(texts: Sequence[Sequence[int]]) -> TokenRows:
    flat = [token for text in texts for token in text]
    return TokenRows(np.array(flat, dtype=np.int32), np.cumsum([0, *map(len, texts)]))


def texts(rng: np.random.Generator, n: int, most: int, letters: int, *, nothing: float = 0.0) -> list[list[int]]:
    drawn = [rng.integers(0, letters, rng.integers(0, most + 1)).tolist() for _ in range(n)]
    return [[-1 if rng.random() < nothing else token for token in text] for text in drawn]


def plain_longest(a: Sequence[int], b: Sequence[int]) -> int:
    """Tokens of the longest common run, by the table."""
    best, row = 0, [0] * (len(b) + 1)
    for one in a:
        row = [0, *(row[j] + 1 if one == other >= 0 else 0 for j, other in enumerate(b))]
        best = max(best, *row)
    return best


def plain_fewest(passage: Sequence[int], answer: Sequence[int], least: int) -> int:
    """Fewest edits between any ``least`` tokens of a passage and any part of an answer."""
    blank = [-2 - i if token < 0 else token for i, token in enumerate(answer)]  # equals no other
    windows = [list(passage[i : i + least]) for i in range(len(passage) - least + 1)]
    parts = [blank[i:j] for i in range(len(blank) + 1) for j in range(i, len(blank) + 1)]
    return min((plain_edit_distance(w, p) for w in windows for p in parts), default=10**6)


@pytest.mark.parametrize("seed", range(25))
def test_longest_runs_equal_the_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters, least = int(rng.integers(1, 5)), int(rng.integers(1, 8))
    passages, answers = texts(rng, 12, 30, letters), texts(rng, 30, 40, letters, nothing=0.05)
    runs = CommonRuns(rows(passages), least=least)
    for start in range(0, 30, 7):
        runs.add(rows(answers[start : start + 7]), first=start)
    table = np.array([[plain_longest(p, a) for a in answers] for p in passages])
    best = table.max(axis=1)
    assert runs.longest.tolist() == np.where(best >= least, best, 0).tolist()
    assert runs.answer.tolist() == np.where(best >= least, table.argmax(axis=1), -1).tolist()
    assert runs.edits.tolist() == np.where(best >= least, 0, 1).tolist()


@pytest.mark.parametrize("seed", range(25))
def test_fewest_edits_equal_the_table(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    letters, least = int(rng.integers(2, 9)), int(rng.integers(2, 10))
    edits = int(rng.integers(1, least))
    passages = texts(rng, 6, 16, letters)
    answers = texts(rng, 6, 12, letters, nothing=0.05)
    runs = CommonRuns(rows(passages), least=least, edits=edits, common=None)
    runs.add(rows(answers[:3]))
    runs.add(rows(answers[3:]), first=3)
    fewest = [min(plain_fewest(p, a, least) for a in answers) for p in passages]
    assert runs.edits.tolist() == np.minimum(fewest, edits + 1).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_only_targets_are_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    passages, answers = texts(rng, 8, 20, 3), texts(rng, 12, 20, 3)
    pairs = np.argwhere(rng.random((12, 8)) < 0.2)
    runs = CommonRuns(rows(passages), least=3, edits=1, common=None)
    for start in (0, 6):
        part = pairs[(pairs[:, 0] >= start) & (pairs[:, 0] < start + 6)]
        runs.add(rows(answers[start : start + 6]), first=start, targets=part - [start, 0])
    for i, passage in enumerate(passages):
        own = [answers[a] for a, p in pairs.tolist() if p == i]
        best = max((plain_longest(passage, answer) for answer in own), default=0)
        assert runs.longest[i] == (best if best >= 3 else 0)
        assert runs.edits[i] == min(2, min((plain_fewest(passage, answer, 3) for answer in own), default=2))


def test_a_form_letter_in_all_texts_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 passages and 300 answers share 20 tokens: 6 windows of 15 in each of 30,000 pairs, and one is enough."""
    form = list(range(20))
    passages = [[1000 + i, *form, 2000 + i] for i in range(100)]
    compared = 0
    extended = common_runs._extended

    def counted(*given: object) -> object:
        nonlocal compared
        compared += len(given[1])  # type: ignore[arg-type]
        return extended(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(common_runs, "_extended", counted)
    runs = CommonRuns(rows(passages), least=15, edits=2)
    for start in range(300):
        runs.add(rows([[5000 + start, *form, 6000 + start]]), first=start)
    assert runs.longest.tolist() == [20] * 100 and runs.answer.tolist() == [0] * 100
    assert compared == 100


def test_a_common_phrase_makes_nothing_nearly_equal() -> None:
    """A block of more than the allowed number of passages is left out; a rare one still finds what is nearly there."""
    phrase, own = list(range(10)), list(range(100, 110))
    passages = [[*phrase, *range(1000 + 20 * i, 1010 + 20 * i)] for i in range(5)]
    passages.append([*phrase, *own])
    answer = [*phrase[:8], *own[:4], 7777, *own[5:]]
    for common, edits in ((None, 3), (3, 3)):
        runs = CommonRuns(rows(passages), least=20, edits=5, common=common)
        runs.add(rows([answer]))
        assert runs.edits.tolist() == [6] * 5 + [edits]
    beginning = CommonRuns(rows(passages), least=10, edits=2, common=3)
    beginning.add(rows([[*phrase[:4], 7777, *phrase[5:]]]))
    assert beginning.edits.tolist() == [3] * 6
    beginning = CommonRuns(rows(passages), least=10, edits=2, common=None)
    beginning.add(rows([[*phrase[:4], 7777, *phrase[5:]]]))
    assert beginning.edits.tolist() == [1] * 6


def test_what_the_prompt_holds_is_covered() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        answers, prompts = texts(rng, 5, 20, 3), texts(rng, 5, 20, 3)
        length = int(rng.integers(1, 6))
        wanted: list[bool] = []
        for answer, prompt in zip(answers, prompts, strict=True):
            there = {tuple(prompt[i : i + length]) for i in range(len(prompt) - length + 1)}
            own = [False] * len(answer)
            for i in range(len(answer) - length + 1):
                if tuple(answer[i : i + length]) in there:
                    own[i : i + length] = [True] * length
            wanted += own
        assert covered(rows(answers), rows(prompts), length).tolist() == wanted


def test_passages_that_a_prompt_holds() -> None:
    runs = CommonRuns(rows([list(range(30)), list(range(50, 80)), []]), least=10, edits=1)
    assert runs.prompted(rows([list(range(52, 70)), [1, 2]])).tolist() == [1]
    alone = CommonRuns(rows([list(range(30))]), least=10)
    for start in range(15):  # 15 tokens hold a whole block of 8, wherever they begin; 7 never do
        assert alone.prompted(rows([list(range(start, start + 15))])).tolist() == [0]
        assert alone.prompted(rows([list(range(start, start + 7))])).tolist() == []


def test_nothing_is_compared_with_nothing() -> None:
    for passages, answers in (([], [[1, 2]]), ([[]], [[]]), ([[1, 2]], [])):
        runs = CommonRuns(rows(passages), least=1, edits=0)
        runs.add(rows(answers))
        assert runs.longest.tolist() == [0] * len(passages)
    near = CommonRuns(rows([[1]]), least=3, edits=1)
    near.add(rows([[1], []]))
    assert near.edits.tolist() == [2]
    with pytest.raises(InputError, match="edits: expected from 0 to below least, received 3 of 3"):
        CommonRuns(rows([[1]]), least=3, edits=3)

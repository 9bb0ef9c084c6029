"""Passages against a loop, and their chances against a model that is sampled."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from miaudit.attacks import extraction
from miaudit.errors import InputError


@pytest.mark.parametrize(("prefix", "suffix"), [(0, 1), (3, 4), (5, 20), (40, 2)])
def test_passages_equal_a_loop(prefix: int, suffix: int) -> None:
    rng = np.random.default_rng(0)
    lengths = np.r_[1, 3, 7, rng.integers(1, 60, 30)]
    offsets = np.r_[0, np.cumsum(lengths)]
    log_p, top1 = -rng.exponential(1.0, offsets[-1]), rng.random(offsets[-1]) < 0.7
    found = extraction.passages(log_p, offsets, prefix=prefix, suffix=suffix, top1=top1)
    wanted = [
        (row, math.fsum(log_p[at : at + suffix]), all(top1[at : at + suffix]))
        for row, (low, high) in enumerate(pairwise(offsets))
        for at in range(low + prefix, high - suffix + 1, suffix)
    ]
    assert found.record.tolist() == [row for row, _, _ in wanted]
    np.testing.assert_allclose(found.log_p, [value for _, value, _ in wanted], rtol=1e-12)
    assert found.greedy is not None and found.greedy.tolist() == [greedy for _, _, greedy in wanted]


def test_a_sampled_model_repeats_as_often_as_is_said() -> None:
    """A chain over three tokens, asked 7 times at a time for what follows the first token of a text."""
    rng = np.random.default_rng(1)
    law = rng.dirichlet([1.0, 1.0, 1.0], 3)
    text = [0, 2, 1, 1]
    log_p = np.log([law[a, b] for a, b in pairwise(text)])
    passage = extraction.passages(np.r_[0.0, log_p], [0, 4], prefix=1, suffix=3).log_p
    draws, queries = 20_000, 7
    state = np.zeros((draws, queries), dtype=int)
    right = np.ones((draws, queries), dtype=bool)
    for token in text[1:]:
        state = (rng.random((draws, queries, 1)) > law[state].cumsum(-1)).sum(-1)
        right &= state == token
    share = right.any(1).mean()
    expected = float(extraction.within(passage, queries)[0])
    assert 0.1 < expected < 0.9
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / draws))
    alone = float(extraction.within(passage, 1)[0])  # the control: one query is another number
    assert abs(share - alone) > 0.05


def test_chances_and_queries_are_inverse() -> None:
    log_p = np.log([1e-12, 1e-6, 0.01, 0.3])
    needed = extraction.queries_needed(log_p, 0.5)
    np.testing.assert_allclose(extraction.within(log_p, 1.0) * 0 + 0.5, 0.5)
    for p, queries in zip(log_p, needed, strict=True):
        assert float(extraction.within(p, queries)) == pytest.approx(0.5, rel=1e-9)
    assert extraction.queries_needed(np.array([-1e6, 0.0]), 0.5).tolist() == [np.inf, 1.0]
    assert extraction.within(np.array([-1e6]), 1e9).tolist() == [0.0]


def test_bad_lengths() -> None:
    with pytest.raises(InputError, match="suffix: expected a whole number from 1 up, received 0"):
        extraction.passages([-1.0], [0, 1], prefix=0, suffix=0)
    with pytest.raises(InputError, match="prefix: expected a whole number from 0 up, received -1"):
        extraction.passages([-1.0], [0, 1], prefix=-1, suffix=1)


def test_edit_distances_equal_the_table_of_all_prefixes() -> None:
    """The twin, on answers of all lengths, among them none."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        said, true = rng.integers(0, 4, (5, rng.integers(1, 30))), rng.integers(0, 4, (5, rng.integers(1, 30)))
        ends = rng.integers(0, said.shape[1] + 1, 5)
        said[np.arange(said.shape[1]) >= ends[:, None]] = -1
        ours = extraction.edit_distances(said, true)
        pairs = zip(said.tolist(), ends.tolist(), true.tolist(), strict=True)
        assert ours.tolist() == [plain_edit_distance(a[:end], b) for a, end, b in pairs]


def plain_edit_distance(a: list[int], b: list[int]) -> int:
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
    return table[-1][-1]


def test_edit_distances_refuse_other_numbers_of_rows() -> None:
    with pytest.raises(InputError, match="said: expected as many answers as passages"):
        extraction.edit_distances([[1, 2]], [[1, 2], [3, 4]])

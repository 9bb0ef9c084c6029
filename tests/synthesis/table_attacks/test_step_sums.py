"""Sums in whole steps: never above the true ones by more than they say, and exact for categories."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.synthesis.table_attacks import step_sums
from miaudit.synthesis.table_attacks.step_sums import StepSums


def columns(
    n: int, categories: int, numbers: int, levels: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    codes = rng.integers(-1, levels, (categories, n)).astype(np.int8 if levels < 128 else np.int16)
    values = rng.normal(0, 0.35, (numbers, n))  # nearly all within a width
    values[rng.random(values.shape) < 0.05] *= 20
    values[rng.random(values.shape) < 0.1] = np.nan
    return codes, values


def true_sums(left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    total = np.zeros((left[0].shape[1], right[0].shape[1]))
    for a, b in zip(left[0], right[0], strict=True):
        total += a[:, None] != b[None]
    for a, b in zip(left[1], right[1], strict=True):
        apart = np.abs(a[:, None] - b[None])
        apart[~(apart <= 1)] = 1.0
        apart[np.isnan(a)[:, None] & np.isnan(b)[None]] = 0.0
        total += apart
    return total


@pytest.mark.parametrize(
    ("categories", "numbers", "levels", "kind"),
    [(4, 3, 5, np.uint8), (9, 6, 200, np.uint8), (0, 5, 2, np.uint8), (20, 30, 9, np.uint16), (300, 1, 3, np.uint16)],
)
@pytest.mark.parametrize("pairs", [1 << 22, 100])
def test_sums_in_steps_are_bounds_from_below_and_close(
    categories: int, numbers: int, levels: int, kind: type, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_sums, "_BLOCK_PAIRS", 3 * pairs)
    monkeypatch.setattr(step_sums, "_CACHED_PAIRS", pairs)
    rng = np.random.default_rng(categories + numbers)
    left, right = columns(23, categories, numbers, levels, rng), columns(31, categories, numbers, levels, rng)
    sums = StepSums.of((left[0], right[0]), (left[1], right[1]))
    blocks = [(rows, block.copy()) for rows, block in sums.blocks()]
    found = np.concatenate([block for _, block in blocks])
    assert np.concatenate([np.arange(23)[rows] for rows, _ in blocks]).tolist() == list(range(23))
    assert found.dtype == kind
    assert found.max() < np.iinfo(kind).max
    true = true_sums(left, right) * sums.full
    assert (found <= true + sums.excess + 1e-9).all()
    assert numbers > 9 or (found > true).any()  # control: without the excess it would be no bound
    assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.9  # a bound that is always 0 would be of no use


def test_categories_alone_are_counted() -> None:
    rng = np.random.default_rng(0)
    left, right = columns(40, 7, 0, 3, rng), columns(50, 7, 0, 3, rng)
    sums = StepSums.of((left[0], right[0]), (left[1], right[1]))
    ((_, found),) = sums.blocks()
    assert (sums.full, sums.excess) == (1, 0)
    assert np.array_equal(found, true_sums(left, right))


@pytest.mark.parametrize("value", [0.0, 1e12, np.nan])
def test_a_column_of_one_value_keeps_no_two_rows_apart(value: float) -> None:
    nothing = np.empty((0, 4), dtype=np.int8)
    sums = StepSums.of((nothing, nothing), (np.full((1, 4), value), np.full((1, 4), value)))
    ((_, found),) = sums.blocks()
    assert not found.any()

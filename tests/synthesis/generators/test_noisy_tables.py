"""Noisy tables: counts against a loop, consistency against least squares, laws against those that made the records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from miaudit.errors import InputError
from miaudit.synthesis.generators.count_noise import NoNoise, RepeatableNoise
from miaudit.synthesis.generators.noisy_tables import (
    Law,
    NoisyTable,
    consistent,
    law_of,
    measured,
    nearest_shares,
)

SIZES = (2, 3, 4, 2)


def codes(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) for size in SIZES], axis=1).astype(np.int32)


def test_counts_are_those_of_a_loop() -> None:
    records = codes(200)
    table = measured(records, (2, 0, 1), SIZES, 0.0, NoNoise())
    slow = np.zeros((4, 2, 3))
    for record in records:
        slow[record[2], record[0], record[1]] += 1
    np.testing.assert_array_equal(table.counts, slow)
    assert table.column == 1 and table.parents == (2, 0)
    np.testing.assert_array_equal(table.margin(0), slow.sum(axis=(0, 2)))


def test_consistency_of_two_tables_is_least_squares() -> None:
    rng = np.random.default_rng(3)
    one = NoisyTable((0,), rng.normal(50, 9, 2), 2.0)
    two = NoisyTable((0, 1), rng.normal(20, 9, (2, 3)), 5.0)
    tables, margins = consistent([one, two])
    # unknown: the six cells of the joint table; both tables are linear in them
    design = np.vstack([np.repeat(np.eye(2), 3, axis=1) / 2.0, np.eye(6) / 5.0])
    best = np.linalg.lstsq(design, np.concatenate([one.counts / 2.0, two.counts.ravel() / 5.0]), rcond=None)[0]
    np.testing.assert_allclose(tables[1].counts.ravel(), best)
    np.testing.assert_allclose(margins[0], best.reshape(2, 3).sum(axis=1))


def test_consistent_tables_agree_and_those_that_did_stay() -> None:
    records, noise = codes(500), RepeatableNoise(np.random.default_rng(0))
    sets = [(0,), (0, 1), (1, 2), (0, 2, 3)]
    tables, margins = consistent([measured(records, own, SIZES, 6.0, noise) for own in sets])
    for table, column in itertools.product(tables, range(4)):
        if column in table.columns:
            np.testing.assert_allclose(table.margin(column), margins[column])
    exact = [measured(records, own, SIZES, 0.0, noise) for own in sets]
    for one, other in zip(exact, consistent(exact)[0], strict=True):
        np.testing.assert_allclose(one.counts, other.counts)


def test_what_several_tables_say_of_a_column_is_nearer_to_the_truth() -> None:
    records = codes(500)
    errors = []
    for seed in range(60):
        noise = RepeatableNoise(np.random.default_rng(seed))
        tables = [measured(records, own, SIZES, 6.0, noise) for own in [(0,), (0, 1), (0, 3)]]
        truth = np.bincount(records[:, 0])
        errors.append([np.abs(margin - truth).sum() for margin in (tables[0].counts, consistent(tables)[1][0])])
    alone, together = np.mean(errors, axis=0)
    assert together < 0.9 * alone


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_the_nearest_ones(seed: int) -> None:
    counts = np.random.default_rng(seed).normal(10, 20, 6)
    total = max(counts.sum(), 1.0)
    best = optimize.minimize(
        lambda x: float(((x - counts) ** 2).sum()),
        np.full(6, total / 6),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        tol=1e-12,
    ).x
    np.testing.assert_allclose(nearest_shares(counts), best / total, atol=1e-4)


def logistic_world(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Parents that depend on each other, and a column whose logits are sums of the two parents' effects."""
    first = rng.integers(0, 2, n)
    second = (rng.integers(0, 3, n) + first) % 3
    logits = np.array([-1.0, 1.2])[first] + np.array([0.8, -0.6, 0.1])[second]
    return np.stack([first, second, rng.random(n) < 1 / (1 + np.exp(-logits))], axis=1).astype(np.int32), logits


def test_two_tables_are_combined_into_the_law_that_made_the_records() -> None:
    rng = np.random.default_rng(0)
    records, _ = logistic_world(200_000, rng)
    sizes = (2, 3, 2)
    tables, margins = consistent([measured(records, (own, 2), sizes, 0.0, NoNoise()) for own in (0, 1)])
    law = law_of(tables, margins[2], records[:20_000], sizes)
    ways = np.array(list(itertools.product(range(2), range(3))), dtype=np.int32)
    found = law.shares(law.cells(np.column_stack([ways, np.zeros(6, dtype=np.int32)]), sizes))[:, 1]
    truth = 1 / (1 + np.exp(-(np.array([-1.0, 1.2])[ways[:, 0]] + np.array([0.8, -0.6, 0.1])[ways[:, 1]])))
    np.testing.assert_allclose(found, truth, atol=0.015)
    # the control: as if the parents did not go together, a product of what each of them says, is off
    each = [table.counts / table.counts.sum(axis=1, keepdims=True) for table in tables]
    naive = each[0][ways[:, 0], 1] * each[1][ways[:, 1], 1] / (margins[2][1] / margins[2].sum())
    assert np.abs(naive - truth).max() > 0.03


def test_a_row_with_few_records_goes_to_the_law_with_one_parent_less() -> None:
    counts = np.zeros((2, 2, 2))
    counts[0, 0], counts[0, 1], counts[1, 0] = (90, 10), (0, 0), (10, 90)
    law = law_of([NoisyTable((0, 1, 2), counts, 1.0)], counts.sum(axis=(0, 1)), codes(1), (2, 2, 2))
    shares = np.exp(law.logits[0]).reshape(2, 2, 2)
    assert shares[0, 1, 0] > 0.85  # not seen: as the other rows of the first parent's level
    np.testing.assert_allclose(np.exp(law.logits[0]).sum(axis=1), 1)


def test_drawing_is_even_and_each_record_has_the_law() -> None:
    law = Law(1, ((0,),), (np.log([[0.3, 0.3, 0.4], [0.1, 0.2, 0.7]]),))
    sizes, records = (2, 3), np.zeros((1_000, 2), dtype=np.int32)
    records[::2, 0] = 1
    first, places = [], []
    for seed in range(40):
        drawn = law.draw(records, sizes, np.random.default_rng(seed))
        first.append(np.bincount(drawn[records[:, 0] == 0], minlength=3) / 500)
        places.append(drawn[1])  # record 1 has level 0 of the parent
    np.testing.assert_allclose(first, np.tile([0.3, 0.3, 0.4], (40, 1)), atol=1.01 / 500)  # independent: .02
    assert 4 <= places.count(0) <= 22  # 12 of 40 expected


def test_without_the_last_level_the_others_share() -> None:
    law = Law(0, ((),), (np.log([[0.2, 0.3, 0.5]]),)).without_last()
    np.testing.assert_allclose(law.shares([np.zeros(2, dtype=np.int64)]), [[0.4, 0.6, 0.0]] * 2)
    assert law.draw(np.zeros((100, 1), dtype=np.int32), (3,), np.random.default_rng(0)).max() == 1


def test_logits_that_do_not_fit_are_refused() -> None:
    for logits in (np.zeros((2, 2)), np.full((1, 3), np.nan)):
        with pytest.raises(InputError, match="logits of shape"):
            Law(0, ((),), (logits,)).check((3,))

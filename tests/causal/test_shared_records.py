"""Which records stand on both sides: copies are found, records that are equal by chance are not."""

import numpy as np
import pytest

from miaudit.causal.shared_records import LEVEL, Shared

SIDES = np.arange(800) < 400


@pytest.mark.parametrize("copied", [20, 120, 400])
def test_a_side_that_was_copied_into_the_other_is_found(copied):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, 2))
    rows[400 : 400 + copied] = rows[:copied]
    found = Shared.of(rows, SIDES)
    assert (found.nonmembers, found.members, found.beyond_chance) == (copied, copied, True)
    assert found.size == f"{copied} of 400 non-members are also members"


@pytest.mark.parametrize("levels", [(2, 1), (4, 2), (3, 5), (5, 5), (20, 2)])
def test_coarse_records_are_equal_by_chance(levels):
    """Also where copies are many: a table that explains its repeats is not refused."""
    values, columns = levels
    for seed in range(20):
        coarse = np.random.default_rng(seed).integers(0, values, size=(800, columns))
        assert not Shared.of(coarse, SIDES).beyond_chance


def test_duplicates_that_coins_parted_are_not_refused():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 2))[rng.integers(0, 400, 800)]
        assert not Shared.of(rows, rng.random(800) < 0.5).beyond_chance


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_p_value_is_a_bound_of_the_simulated_one(share):
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(60), 2)[:, None]
    p_values = np.array([Shared.of(rows, rng.random(120) < share).p_value for _ in range(3000)])
    for level in (0.2, 0.05, 0.01):
        assert np.mean(p_values <= level) <= level
    assert p_values.min() > LEVEL / 10
    paired = np.arange(120) % 2 == 0  # the control: every pair parts
    assert Shared.of(rows, paired).p_value < 1e-12


def test_rows_of_missing_values_and_texts_are_compared():
    text = [f"text {i % 60}" for i in range(120)]
    assert Shared.of(text, np.arange(120) < 60).beyond_chance
    gaps = np.full((120, 2), np.nan)
    gaps[:, 0] = np.arange(120) % 60
    assert Shared.of(gaps, np.arange(120) < 60).nonmembers == 60


@pytest.mark.parametrize(("size", "counted"), [(2, True), (8, True), (9, False)])
def test_groups_of_eight_at_most_count_each_with_its_chance_of_both_sides(size, counted):
    """One member in each of forty groups: if records are independent, all groups part with probability chance^40."""
    rows = np.repeat(np.arange(40), size)[:, None]
    shared = Shared.of(rows, np.arange(40 * size) % size == 0)
    chance = 1 - (1 / size) ** size - (1 - 1 / size) ** size
    assert shared.p_value == pytest.approx(chance**40 if counted else 1.0, rel=0.01)

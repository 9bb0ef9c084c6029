"""Positive control: what it plants, its power against a count by hand, and why labels are permuted first."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.metrics.units import Units
from miaudit.synthesis.table_attacks.planted_control import (
    NEEDED,
    REPETITIONS,
    enough_members,
    planted_changes,
    planted_control,
    shown_power,
)
from miaudit.synthesis.table_attacks.success_rates import compare


def beside_true_labels(in_table: np.ndarray, members: int, rng: np.random.Generator) -> bool:
    """The control as it must not be: copies planted among the true members, beside what leaks anyway."""
    seen = 0
    for _ in range(REPETITIONS):
        copied = in_table.copy()
        copied[rng.permutation(members)[: members // 100]] = True
        seen += compare("copies", copied[:members], copied[members:]).leaks
    return seen >= NEEDED


def audits(leak: float, n: int, rng: np.random.Generator, runs: int) -> tuple[int, int, int]:
    """Audits of tables that hold 2% of all records and copies of a share of the members: flagged, and clear by each.

    Clear means that the upper limit is within five points and that the control was seen: planted under permuted labels,
    or beside the true ones.
    """
    flagged = permuted = true = 0
    for _ in range(runs):
        in_table = rng.random(2 * n) < np.where(np.arange(2 * n) < n, 0.02 + leak, 0.02)
        found = compare("copies", in_table[:n], in_table[n:])
        if found.leaks:
            flagged += 1
            continue
        if found.difference.high <= 0.05:
            permuted += planted_control(np.arange(2 * n), in_table, n, confidence=0.95, rng=rng).found
            true += beside_true_labels(in_table, n, rng)
    return flagged, permuted, true


@pytest.mark.long
def test_beside_true_labels_the_leak_itself_passes_the_control() -> None:
    """Copies of 1% of the members leak, and such an audit sees them in a third of the cases: it must not reassure."""
    flagged, permuted, true = audits(0.01, 1000, np.random.default_rng(0), 60)
    assert 10 <= flagged <= 40  # an audit with little power
    assert permuted <= 2
    assert true >= 15  # the control: planted beside the leak, most audits that do not flag are called clear


@pytest.mark.long
def test_with_enough_records_the_same_tables_are_seen_or_cleared() -> None:
    rng = np.random.default_rng(1)
    flagged, permuted, _ = audits(0.0, 10_000, rng, 15)
    assert flagged <= 2 and permuted >= 12  # nothing leaks
    flagged, permuted, _ = audits(0.01, 10_000, rng, 15)
    assert flagged >= 13 and flagged + permuted == 15


def test_the_shown_power_is_that_of_the_binomial_law() -> None:
    for seen in (1, 5, 9, 10):
        power = shown_power(seen)
        assert stats.binom.sf(seen - 1, 10, power) == pytest.approx(0.05, abs=1e-9)
    assert shown_power(9) == pytest.approx(0.61, abs=0.005)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.2])
def test_with_as_many_members_as_it_names_the_control_is_seen_and_with_a_third_it_is_not(rate: float) -> None:
    rng = np.random.default_rng(2)
    small = planted_control(np.arange(16000), np.arange(16000) % 100 < 100 * rate, 8000, confidence=0.95, rng=rng)
    needed = enough_members(small, 8000, 8000, 0.95)
    assert needed is not None
    found = []
    for n in (needed * 11 // 10, needed // 3):
        in_table = rng.random(2 * n) < rate
        found.append(planted_control(np.arange(2 * n), in_table, n, confidence=0.95, rng=rng).seen)
    assert found[0] >= 8 and found[1] <= 8


def test_where_every_record_stands_in_the_table_no_number_of_records_is_enough() -> None:
    rng = np.random.default_rng(5)
    whole = planted_control(np.arange(2000), np.ones(2000, bool), 1000, confidence=0.95, rng=rng)
    assert (whole.excess, whole.rate) == (0.0, pytest.approx(1.0))
    assert enough_members(whole, 1000, 1000, 0.95) is None


def test_a_planted_copy_covers_every_equal_record() -> None:
    """All records are of ten kinds: a planted one makes a tenth of each side copies, and no excess is left to see."""
    kind = np.tile(np.arange(10), 200)
    found = planted_control(kind, np.zeros(2000, bool), 1000, confidence=0.95, rng=np.random.default_rng(3))
    assert (found.copies, found.seen) == (10, 0)
    assert 0.5 < found.rate < 0.9
    assert enough_members(found, 1000, 1000, 0.95) is None
    alone = planted_control(np.arange(2000), np.arange(2000) < 0, 1000, confidence=0.95, rng=np.random.default_rng(3))
    assert (alone.excess, alone.rate) == (pytest.approx(0.01), 0.0)  # control: records without equals
    assert enough_members(alone, 1000, 1000, 0.95) == pytest.approx(600, abs=1)  # six against none: 1 in 64


def test_units_are_permuted_whole_and_one_record_of_each_is_planted() -> None:
    rng = np.random.default_rng(4)
    code = np.repeat(np.arange(2000), 5)  # households of five equal records
    units = Units.of(code, np.arange(10_000) < 5000)
    found = planted_control(code, np.zeros(10_000, bool), 5000, confidence=0.95, units=units, rng=rng)
    assert (found.copies, found.seen) == (10, 10)
    few = Units.of(np.repeat(np.arange(80), 5), np.arange(400) < 200)
    assert planted_control(few.code, np.zeros(400, bool), 200, confidence=0.95, units=few, rng=rng).seen == 0
    spanning = Units.of(np.tile(np.arange(200), 2), np.arange(400) < 200)
    assert planted_control(np.arange(400), np.zeros(400, bool), 200, confidence=0.95, units=spanning, rng=rng).seen <= 1


def test_changed_copies_are_seen_where_the_other_columns_identify_a_record() -> None:
    rng, none = np.random.default_rng(6), np.zeros(4000, bool)
    found = planted_changes(np.ones((4000, 5), bool), none, 2000, confidence=0.95, rng=rng)
    assert (found.copies, found.seen, found.changed) == (20, 10, 1) and found.excess == pytest.approx(0.01)
    half = planted_changes(np.arange(5) < np.full((4000, 5), 2), none, 2000, confidence=0.95, rng=rng)
    assert half.excess == pytest.approx(0.004, abs=0.001)  # two columns of five
    blind = planted_changes(np.zeros((4000, 5), bool), none, 2000, confidence=0.95, rng=rng)  # the control
    assert (blind.excess, blind.seen, blind.found) == (0.0, 0, False)
    many = planted_changes(np.ones((4000, 5), bool), rng.random(4000) < 0.3, 2000, confidence=0.95, rng=rng)
    assert many.seen < NEEDED  # near copies by chance hide those that were planted

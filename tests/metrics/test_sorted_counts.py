"""Sorted counts: look-ups, merges and sums, against arrays in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miaudit.metrics.sorted_counts import SortedCounts, Writer, counted, merged, total_of

SCORES = st.lists(st.sampled_from([-2.0, -1.5, 0.0, 0.25, 1e-300, 3.0, 1e150]), min_size=1, max_size=40)


def records(scores, seed):
    """Scores and memberships in the order of the counts."""
    y = np.array(scores)
    member = np.random.default_rng(seed).random(len(y)) < 0.5
    order = np.lexsort((member, y))
    return y[order], member[order]


def small(y, member, block, *, on_disk):
    """Sorted counts with so many scores in a block, in memory or in a file."""
    writer = Writer(0 if on_disk else len(y))
    writer.add(counted(y, member, ~member))
    return writer.finished(block)


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 9), st.integers(1, 9), st.booleans())
def test_every_look_up_is_that_of_the_arrays(scores, seed, block, on_disk):
    y, member = records(scores, seed)
    counts = small(y, member, block, on_disk=on_disk)
    assert (counts.file is not None) == on_disk
    assert (counts.members, counts.nonmembers) == (member.sum(), (~member).sum())
    assert [counts.at(rank) for rank in range(len(y))] == y.tolist()
    for value in (*np.unique(y), -9.0, 9.0, 0.1):
        for side in ("left", "right"):
            place = np.searchsorted(y, value, side=side)
            assert counts.below(float(value), side=side) == (member[:place].sum(), (~member[:place]).sum())
    edges = np.r_[0, np.cumsum(np.unique(y, return_counts=True)[1])]
    under = np.array([(member[:edge].sum(), (~member[:edge]).sum()) for edge in edges])
    assert counts.beneath(np.arange(len(edges))).tolist() == under.tolist()
    for side in ("left", "right"):
        wanted = np.arange(-1, len(y) + 1)
        assert counts.place_of(wanted, side).tolist() == np.searchsorted(under[:, 1], wanted, side=side).tolist()


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 9), st.integers(1, 9), st.data())
def test_records_are_spelled_out_by_score_and_non_members_first(scores, seed, block, data):
    y, member = records(scores, seed)
    counts = small(y, member, block, on_disk=False)
    start = data.draw(st.integers(0, len(y)))
    stop = data.draw(st.integers(start, len(y)))
    parts = list(counts.spelled_out(start, stop))
    assert np.concatenate([[], *(part[0] for part in parts)]).tolist() == y[start:stop].tolist()
    assert np.concatenate([np.zeros(0, bool), *(part[1] for part in parts)]).tolist() == member[start:stop].tolist()
    masks = [np.random.default_rng(seed + 1).random(n) < 0.5 for n in (counts.members, counts.nonmembers)]
    chosen = np.empty(len(y), dtype=bool)
    chosen[member], chosen[~member] = masks
    thinned = counts.thinned(*masks)
    expected = counted(y[chosen], member[chosen], ~member[chosen])
    assert thinned.rows(0, thinned.distinct).tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 9), st.integers(1, 7), st.integers(1, 8))
def test_a_merge_is_the_count_of_all_rows(scores, seed, parts, most):
    y, member = records(scores, seed)
    of_part = np.random.default_rng(seed).integers(0, parts, len(y))
    runs = [small(y[of_part == i], member[of_part == i], 3, on_disk=i % 2 == 0) for i in range(parts)]
    rows = []
    together = merged(runs, most=most, advance=rows.append)
    assert together.rows(0, len(y)).tolist() == counted(y, member, ~member).tolist()
    assert parts == 1 or sum(rows) == sum(run.distinct for run in runs)


def test_counts_add_up_beyond_what_fits_into_32_bits():
    many = np.array([2**40, 1])
    runs = [SortedCounts(2, memory=counted(np.array([0.5, 1.0]), many, many)) for _ in range(3)]
    together = merged(runs)
    assert (together.members, together.distinct) == (3 * (2**40 + 1), 2)
    assert together.at(2**41) == 0.5


@pytest.mark.parametrize("count", [0, 1, 7, 128, 65_536, 65_537, 300_001])
def test_a_sum_in_parts_is_the_sum_of_the_whole_to_the_last_digit(count):
    values = np.random.default_rng(count).normal(size=count) ** 3
    cuts = np.sort(np.random.default_rng(1).integers(0, count + 1, 9))
    assert total_of(iter(np.split(values, cuts)), count) == values.sum()


def test_another_order_of_summing_has_other_last_digits():
    # The control: numbers of this kind tell the order of a sum apart.
    values = np.random.default_rng(0).normal(size=300_001) ** 3
    assert sum(part.sum() for part in np.split(values, [100_000])) != values.sum()

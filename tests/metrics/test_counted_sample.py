"""Metrics of sorted counts, against those of the same records in memory: equal to the last digit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample
from miaudit.metrics.counted_sample import CountedSample
from miaudit.metrics.sorted_counts import SortedCounts
from miaudit.metrics.surest_members import surest_members


def both(n, seed, digits, share, block):
    """A sample in memory, and the same as counts with so many scores in a block."""
    rng = np.random.default_rng(seed)
    y, member = rng.normal(size=n).round(digits), rng.random(n) < share
    member[:2] = True, False
    order = np.lexsort((member, y))
    y, member = y[order], member[order]
    counts = replace(SortedCounts.of(y, member), block=block, _held={})
    return Sample.of(Evidence(score=y, member=member)), CountedSample(counts)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 300),
    st.integers(0, 99),
    st.sampled_from([0, 1, 8]),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([1, 3, 64]),
)
def test_every_metric_is_equal_to_the_last_digit(n, seed, digits, share, block):
    sample, counted = both(n, seed, digits, share, block)
    for name in ("auc", "advantage", "balanced_accuracy", "difference"):
        assert getattr(counted, name)(0.95) == getattr(sample, name)(0.95)
    for fpr in (0.001, 0.05, 0.3):
        assert counted.tpr_at_fpr(fpr, 0.95) == sample.tpr_at_fpr(fpr, 0.95)
    grid = np.linspace(0.01, 0.99, 12)
    assert counted.roc.tpr_at(grid).tolist() == sample.roc.tpr_at(grid).tolist()
    for of_counts, of_records in zip(counted.tpr_band(grid, 0.9), sample.tpr_band(grid, 0.9), strict=True):
        assert of_counts.tolist() == of_records.tolist()
    assert counted.histogram() == sample.histogram()
    assert counted.constant == sample.constant
    assert surest_members(counted, level=0.025) == surest_members(sample, level=0.025)


def test_the_sum_over_many_blocks_has_the_digits_of_one_array():
    sample, counted = both(200_000, 5, 8, 0.5, 4096)
    for name in ("auc", "difference"):
        assert getattr(counted, name)(0.95) == getattr(sample, name)(0.95)
    assert counted.tpr_at_fpr(0.01, 0.95) == sample.tpr_at_fpr(0.01, 0.95)


@pytest.mark.parametrize("read", ["score", "member", "ascending"])
def test_single_records_are_refused_with_what_is_possible(read):
    _, counted = both(50, 0, 8, 0.5, 8)
    with pytest.raises(InputError, match="shards: expected an audit of scores and memberships"):
        getattr(counted, read)
    for influence in (counted.influence_on_auc, counted.influence_on_difference, lambda: counted.influence_on_tpr(0.1)):
        with pytest.raises(InputError, match="reads records one by one"):
            influence()

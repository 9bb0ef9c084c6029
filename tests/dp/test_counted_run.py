"""One-run bounds of sorted counts, against those of ranked records: the same guesses are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miaudit.dp import one_run
from miaudit.dp.counted_run import CountedRun
from miaudit.dp.ranked_run import RankedRun
from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Pilot, Schedule
from miaudit.errors import DesignError, InputError
from miaudit.evidence import Evidence
from miaudit.metrics.counted_evidence import CountedEvidence
from miaudit.metrics.sorted_counts import SortedCounts

SHAPES = {
    "distinct": lambda rng, n: rng.normal(size=n),
    "ties": lambda rng, n: rng.normal(size=n).round(1),
    "two values": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "lopsided ties": lambda rng, n: -np.round(rng.exponential(size=n) ** 2, 1),
    "constant": lambda rng, n: np.zeros(n),
    "mirrored": lambda rng, n: rng.integers(-4, 5, n).astype(float),
}


def both(shape, n, seed, share, block=16):
    """The same evidence in memory, and as counts with so many scores in a block."""
    rng = np.random.default_rng(seed)
    y, member = SHAPES[shape](rng, n), rng.random(n) < share
    member[:2] = True, False
    order = np.lexsort((member, y))
    y, member = y[order], member[order]
    counts = replace(SortedCounts.of(y, member), block=block, _held={})
    return (
        Evidence(score=y, member=member, design="one-run"),
        CountedEvidence(counts, name="score", digest="", design="one-run"),
    )


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.integers(2, 120), st.integers(0, 99), st.sampled_from([0.5, 0.15, 0.9]))
def test_as_many_guesses_are_right_in_both_orders_at_every_number_of_guesses(shape, n, seed, share):
    evidence, counted = both(shape, n, seed, share)
    bound = one_run.count_bound("mu")
    ranked = RankedRun.of(evidence, bound, np.random.default_rng(seed))
    of_counts = CountedRun.of(counted, bound, np.random.default_rng(seed))
    assert (of_counts.records, of_counts.notes, of_counts.lopsided) == (
        ranked.records,
        ranked.notes,
        ranked.ranking.lopsided,
    )
    assert of_counts.centre == ranked.ranking.centre
    for order, name in ((0, "both_sides"), (1, "in_turn")):
        test = getattr(of_counts, name)
        assert test.name == ranked.every_order[order].name
        assert [test.right(k) for k in range(1, ranked.records + 1)] == ranked.right[order].tolist()


@pytest.mark.parametrize("kind", ["PCG64DXSM", "MT19937", "Philox"])
def test_any_generator_of_random_numbers_gives_the_same_guesses(kind):
    evidence, counted = both("ties", 3000, 1, 0.5)
    bound = one_run.count_bound("epsilon")
    make = lambda: np.random.Generator(getattr(np.random, kind)(7))  # noqa: E731
    ranked, of_counts = RankedRun.of(evidence, bound, make()), CountedRun.of(counted, bound, make())
    for k in (1, 29, 600, 2999, 3000):
        assert of_counts.both_sides.right(k) == ranked.right[0][k - 1]
        assert of_counts.in_turn.right(k) == ranked.right[1][k - 1]


@pytest.mark.parametrize(
    "guesses",
    [None, 40, Fixed(7), Bonferroni(), Schedule(), Exploratory(counts=(3, 50))],
    ids=lambda one: type(one).__name__,
)
def test_every_option_gives_the_same_bound(guesses):
    for shape in ("ties", "lopsided ties"):
        evidence, counted = both(shape, 900, 3, 0.5)
        for options in ({"parameter": "mu"}, {"parameter": "epsilon", "delta": 1e-5}):
            bounds = [
                one_run.audit(one, guesses=guesses, rng=np.random.default_rng(0), **options)
                for one in (evidence, counted)
            ]
            assert bounds[0] == bounds[1]


def test_another_seed_breaks_ties_in_another_way():
    # The control: with so many ties, equal numbers of right guesses are no matter of course.
    _, counted = both("two values", 2000, 0, 0.5)
    bound = one_run.count_bound("mu")
    right = {CountedRun.of(counted, bound, np.random.default_rng(seed)).both_sides.right(101) for seed in range(8)}
    assert len(right) > 2


def test_a_pilot_and_undeclared_counts_are_refused():
    _, counted = both("distinct", 100, 0, 0.5)
    with pytest.raises(InputError, match="reads records one by one"):
        one_run.audit(counted, guesses=Pilot(), rng=np.random.default_rng(0))
    undeclared = CountedEvidence(counted.counts, name="score", digest="", design=None)
    with pytest.raises(DesignError, match="received none"):
        one_run.audit(undeclared, rng=np.random.default_rng(0))

"""Evidence as counts: what it holds, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.metrics.counted_evidence import CountedEvidence
from miaudit.metrics.sorted_counts import SortedCounts


def evidence(design=None, member=(True, False, True)):
    counts = SortedCounts.of(np.array([0.5, 1.0, 2.0]), np.array(member))
    return CountedEvidence(counts, name="loss", digest="d", design=design, source="shards")


def test_it_holds_what_needs_no_record():
    one = evidence("one-run")
    assert (one.n, one.n_members, one.n_nonmembers, one.n_units) == (3, 2, 1, 3)
    assert (list(one.scores), one.design, one.digest, one.source) == (["loss"], "one-run", "d", "shards")
    assert one.only("loss") is one and one.runs == (one,)
    assert one.covariates is one.unit is one.group is one.inclusion is None


@pytest.mark.parametrize(
    "read",
    [
        lambda one: one.score,
        lambda one: one.member,
        lambda one: one.ascending,
        lambda one: one.take([0]),
        lambda one: one.replace(design=None),
        lambda one: one.columns(),
        pickle.dumps,
    ],
    ids=["score", "member", "ascending", "take", "replace", "columns", "pickle"],
)
def test_what_reads_single_records_is_refused_in_one_line(read):
    with pytest.raises(InputError, match="shards: expected an audit of scores and memberships") as caught:
        read(evidence())
    assert "\n" not in str(caught.value)


def test_other_designs_and_one_class_alone_are_refused():
    for design in ("zero-run", "multi-run", "matched"):
        with pytest.raises(InputError, match="design: expected one-run, or none, for shards"):
            evidence(design)
    for member, missing in (((True,) * 3, "non-members"), ((False,) * 3, "members")):
        with pytest.raises(InputError, match=f"received no {missing}"):
            evidence(member=member)
    with pytest.raises(InputError, match="score: expected one of loss"):
        evidence().only("other")

"""Planning: what it promises is what audits of simulated scores then see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, resolution
from miaudit.causal.classical import Sample
from miaudit.errors import InputError


def share_detected(n: int, fpr: float, tpr: float, against: float, runs: int) -> float:
    """Audit Gaussian scores of a known TPR from scratch and count the lower limits above ``against``."""
    rng = np.random.default_rng(11)
    shift = special.ndtri(tpr) - special.ndtri(fpr)
    member = np.arange(2 * n) < n
    hits = 0
    for _ in range(runs):
        sample = Sample.of(Evidence(score=rng.normal(size=2 * n) + shift * member, member=member))
        hits += sample.tpr_at_fpr(fpr, 0.95).low > against
    return hits / runs


@pytest.mark.parametrize(("n", "fpr"), [(1000, 0.01), (3000, 0.1), (4000, 0.001)])
def test_the_promised_power_is_what_audits_have(n: int, fpr: float) -> None:
    found = resolution.at_fpr(fpr, members=n, nonmembers=n, rng=np.random.default_rng(0))
    assert found.smallest_tpr is not None
    assert abs(share_detected(n, fpr, found.smallest_tpr, fpr, 300) - 0.8) < 0.08
    # The control: halfway to chance, the audit has lost most of its power.
    assert share_detected(n, fpr, (found.smallest_tpr + fpr) / 2, fpr, 300) < 0.65


def test_the_normal_form_takes_over_smoothly() -> None:
    few = resolution.at_fpr(0.1, members=2000, nonmembers=1999, rng=np.random.default_rng(0)).smallest_tpr
    many = resolution.at_fpr(0.1, members=2000, nonmembers=2001, rng=np.random.default_rng(0)).smallest_tpr
    assert few is not None
    assert many is not None
    assert abs(few - many) < 0.1 * (few - 0.1)


def test_below_the_resolution_there_is_no_smallest_tpr() -> None:
    found = resolution.at_fpr(0.001, members=3689, nonmembers=3689, rng=np.random.default_rng(0))
    assert found.smallest_tpr is None
    assert not found.resolvable
    assert found.nonmembers_needed == 3690
    assert resolution.at_fpr(0.001, members=3690, nonmembers=3690, rng=np.random.default_rng(0)).resolvable
    assert 0.001 < found.clear_from < 0.05


def test_records_needed_is_the_inverse() -> None:
    n = resolution.records_needed(0.01, 0.02, rng=np.random.default_rng(0))
    found = resolution.at_fpr(0.01, members=n, nonmembers=n, rng=np.random.default_rng(0))
    assert found.smallest_tpr is not None
    assert abs(found.smallest_tpr - 0.02) < 0.002
    assert resolution.records_needed(0.01, 0.015, rng=np.random.default_rng(0)) > n
    assert resolution.records_needed(0.01, 0.03, threshold=0.02, rng=np.random.default_rng(0)) > n


def test_smallest_auc_against_simulation() -> None:
    n, runs, rng = 300, 400, np.random.default_rng(5)
    auc = resolution.smallest_auc(n, n)
    shift = np.sqrt(2) * special.ndtri(auc)
    member = np.arange(2 * n) < n
    hits = 0
    for _ in range(runs):
        hits += Sample.of(Evidence(score=rng.normal(size=2 * n) + shift * member, member=member)).auc(0.95).low > 0.5
    assert abs(hits / runs - 0.8) < 0.06


def test_wishes_that_cannot_be() -> None:
    rng = np.random.default_rng(0)
    for options in ({"fpr": 0.01, "tpr": 0.01}, {"fpr": 0.01, "tpr": 0.005}, {"fpr": 0.1, "tpr": 0.100001}):
        with pytest.raises(InputError, match="tpr"):
            resolution.records_needed(**options, rng=rng)

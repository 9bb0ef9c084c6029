"""Simultaneous limits of differences: against slow twins, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miaudit.defences.differences import PairedFamily
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample


def test_aucs_and_their_variance_agree_with_the_classical_ones() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(300) < 0.4
    scores = np.stack([rng.normal(size=300) + member, np.round(rng.normal(size=300) + 0.5 * member)])
    family = PairedFamily.aucs(scores, member)
    for value, score in zip(family.values, scores, strict=True):
        assert value == pytest.approx(Sample.of(Evidence(score=score, member=member)).auc(0.95).value, abs=1e-12)
    # DeLong's variance by its definition: placements of each class.
    wins = (scores[0][member][:, None] > scores[0][~member]) + 0.5 * (scores[0][member][:, None] == scores[0][~member])
    slow = wins.mean(axis=1).var() / member.sum() + wins.mean(axis=0).var() / (~member).sum()
    assert (family.influence[0] ** 2).sum() == pytest.approx(slow, rel=1e-12)


def test_the_difference_is_paired() -> None:
    rng = np.random.default_rng(1)
    member = np.arange(400) < 200
    base = rng.normal(size=400) + member
    close = base + 0.1 * rng.normal(size=400)
    alone = rng.normal(size=400) + member
    found = PairedFamily.aucs(np.stack([base, close, alone]), member).against(0, 0.95, rng=rng)
    assert (found[0].high - found[0].low) < 0.5 * (found[1].high - found[1].low)


def test_units_widen_what_records_would_narrow() -> None:
    rng = np.random.default_rng(2)
    units = np.arange(400) // 4
    member = units % 2 == 0
    shared = np.repeat(rng.normal(size=(2, 100)), 4, axis=1) + 0.1 * rng.normal(size=(2, 400))
    wide = PairedFamily.aucs(shared, member, units).against(0, 0.95, rng=rng)[0]
    narrow = PairedFamily.aucs(shared, member).against(0, 0.95, rng=rng)[0]
    assert (wide.high - wide.low) > 1.7 * (narrow.high - narrow.low)


def test_the_quantile_lies_between_one_interval_and_bonferroni() -> None:
    rng = np.random.default_rng(3)
    values = rng.random((9, 2000))
    family = PairedFamily.means(values)
    independent = family.pairs([0, 1], 0.95, rng=rng)[0]
    error = np.sqrt(((family.influence[0] - family.influence[1]) ** 2).sum())
    assert (independent.high - independent.low) / 2 / error == pytest.approx(special.ndtri(0.975), rel=0.02)
    many = family.against(0, 0.95, rng=rng)
    bonferroni, single = special.ndtri(1 - 0.025 / 8), special.ndtri(0.975)
    for one in many:
        error = np.sqrt(((family.influence[one.first] - family.influence[0]) ** 2).sum())
        assert 1.01 * single < (one.high - one.low) / 2 / error < 1.01 * bonferroni


def test_equal_scores_are_not_known_to_be_equal_for_ever() -> None:
    member = np.arange(100) < 50
    score = np.random.default_rng(4).normal(size=100) + member
    (same,) = PairedFamily.aucs(np.stack([score, 2 * score]), member).against(0, 0.95, rng=np.random.default_rng(0))
    assert same.value == 0
    assert same.low < -0.01 < 0.01 < same.high


@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_all_intervals_hold_together(effect: float) -> None:
    rng = np.random.default_rng(5)
    truth = np.array([special.ndtr(effect * w / np.sqrt(2)) for w in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)])
    weights = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    held = single = 0
    repeats = 120
    for _ in range(repeats):
        member = np.arange(240) < 120
        common = rng.normal(size=240)
        scores = np.sqrt(0.5) * common + np.sqrt(0.5) * rng.normal(size=(6, 240)) + effect * weights[:, None] * member
        family = PairedFamily.aucs(scores, member)
        found = family.against(0, 0.9, rng=rng)
        held += all(d.low <= truth[d.first] - truth[0] <= d.high for d in found)
        error = np.sqrt(((family.influence[1:] - family.influence[0]) ** 2).sum(axis=1))
        off = np.abs(family.values[1:] - family.values[0] - (truth[1:] - truth[0]))
        single += bool((off <= special.ndtri(0.95) * error).all())
    assert held / repeats > 0.83
    assert single / repeats < 0.8  # the control: uncorrected intervals do not hold together


def test_too_few_records_are_refused() -> None:
    with pytest.raises(InputError, match="20 members and 20 non-members or more, received 5 and 45"):
        PairedFamily.aucs(np.zeros((2, 50)), np.arange(50) < 5)
    with pytest.raises(InputError, match="20 records or more"):
        PairedFamily.means(np.zeros((2, 5)))

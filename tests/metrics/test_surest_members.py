"""The list of the surest members: against sums of binomials written out, and what must not move it."""

import math

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.metrics.classical import Sample, clopper_pearson
from miaudit.metrics.surest_members import surest_members


def sample(score, member, **fields):
    return Sample.of(ma.Evidence(score=score, member=member, **fields))


def found(score, member, **options):
    fields = options.pop("fields", {})
    return surest_members(sample(score, member, **fields), level=0.025, **options)


def exposed(n, share, rng):
    member = np.arange(2 * n) < n
    score = rng.normal(size=2 * n)
    score[: round(share * n)] += 30
    return score, member


def slow_twin(score, member, level=0.025, sure=0.9):
    """The rule as its text says it: lengths by counts alone, tails by adding up probabilities."""
    pi = member.mean()
    odds = sure / (1 - sure)
    q = odds * pi / (odds * pi + 1 - pi)
    shortest = next(r for r in range(1, 10_000) if q**r <= level)
    r = max(shortest, math.ceil(0.01 * member.sum() / sure))
    order = np.argsort(-score, kind="stable")

    def p(length):
        c = int(member[order[:length]].sum())
        return sum(math.comb(length, k) * q**k * (1 - q) ** (length - k) for k in range(c, length + 1))

    first, length = p(r), r
    while p(length) <= level and (longer := math.ceil(1.15 * length)) < len(score) and p(longer) <= level:
        length = longer
    return first, length, int(member[order[:length]].sum())


@pytest.mark.parametrize("share", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("ratio", [1, 3])
def test_it_is_the_rule_written_out(share, ratio):
    rng = np.random.default_rng(7)
    score, member = exposed(3000, share, rng)
    keep = member | (np.arange(6000) % ratio == 0)
    score, member = score[keep], member[keep]
    p, length, count = slow_twin(score, member)
    one = found(score, member)
    assert one.p == pytest.approx(p, rel=1e-9)
    assert (one.listed, one.members) == (length, count)
    assert one.exceeded == (p <= 0.025)
    assert (one.low, one.high) == clopper_pearson(count, length, 0.95)


@pytest.mark.parametrize(("members", "listed"), [(5000, 56), (9001, 101)])
def test_the_shortest_list_could_hold_one_in_a_hundred_members(members, listed):
    """Their number over the limit, rounded up: 50 / 0.9 and 90.01 / 0.9."""
    rng = np.random.default_rng(1)
    assert found(rng.normal(size=2 * members), np.arange(2 * members) < members).listed == listed


def test_thirty_six_of_thirty_six_is_the_shortest_list_at_even_odds():
    score, member = exposed(1000, 0.2, np.random.default_rng(0))
    one = found(score, member, chance=0.5)
    assert one.q == pytest.approx(0.9)
    assert one.exceeded
    assert found(*exposed(1000, 0.03, np.random.default_rng(0)), chance=0.5).exceeded is False  # 30 are too few


def test_the_length_of_the_first_list_follows_from_counts_not_from_labels():
    """With coins the number of members is drawn: a length from it would depend on the labels."""
    rng = np.random.default_rng(1)
    lengths = set()
    for _ in range(20):
        member = rng.random(9000) < 0.5
        lengths.add(found(rng.random(9000), member, chance=0.5).listed)
    assert lengths == {50}
    drawn = {found(rng.random(9000), rng.random(9000) < 0.5).listed for _ in range(20)}
    assert len(drawn) > 1  # the control: by the numbers of members and non-members it moves


def test_a_list_never_ends_between_equal_scores():
    """Members first in the file: ties in that order would list members alone, a draw would decide by luck."""
    member = np.arange(4000) < 2000
    score = np.minimum(np.round(np.random.default_rng(0).exponential(size=4000), 1), 3.0)
    rows = np.random.default_rng(1).permutation(4000)
    one, again = found(score, member), found(score[rows], member[rows])
    assert one == again
    assert one.listed == np.count_nonzero(score >= np.sort(score)[-one.listed])
    assert not one.exceeded
    stable = np.argsort(-score, kind="stable")[:30]
    assert stats.binom.sf(member[stable].sum() - 1, 30, 0.5) < 0.025  # the control: by the order of the file
    assert found(np.zeros(4000), member) is None  # one value for all orders nobody


def test_capped_scores_hide_no_exposed_member():
    """Fifty exposed members share the highest value that there is: the list holds them all."""
    score, member = exposed(2000, 0.025, np.random.default_rng(4))
    one = found(np.minimum(score, 9.0), member)
    assert (one.listed, one.members, one.exceeded) == (50, 50, True)


@pytest.mark.long
def test_lists_that_end_with_equal_scores_raise_no_alarm_more_often_than_stated():
    """Where each record is a member at exactly nine to one, coarse scores leave the level as it is."""
    rng, audits = np.random.default_rng(5), 2000
    alarms = naive = 0
    for _ in range(audits):
        score = np.round(rng.exponential(size=600) * 4)
        member = rng.random(600) < 0.9
        alarms += found(score, member, chance=0.5).exceeded
        naive += found(score, member, chance=0.5, sure=0.8).exceeded
    assert alarms <= 0.025 * audits + 2.5 * np.sqrt(0.025 * audits)
    assert naive > 0.1 * audits  # the control: a limit that this mechanism does exceed


def test_a_unit_is_listed_once_by_its_highest_score():
    """Ten records of each exposed person are one member, not ten."""
    rng = np.random.default_rng(2)
    people = np.repeat(np.arange(4000), 10)
    member = np.repeat(np.arange(4000) < 2000, 10)
    score = rng.normal(size=40_000)
    score[people < 23] += 30
    assert found(score, member).exceeded  # the control: records taken as independent
    one = found(score, member, fields={"unit": people})
    assert not one.exceeded
    score[people < 60] += 30
    assert found(score, member, fields={"unit": people}).exceeded


def test_units_of_both_classes_are_left_out():
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(500), 2)
    member = np.tile([True, False], 500)
    assert found(rng.normal(size=1000), member, fields={"unit": unit}) is None


@pytest.mark.parametrize("n", [5, 18])
def test_too_few_records_make_no_list(n):
    assert found(np.arange(2.0 * n), np.arange(2 * n) < n) is None

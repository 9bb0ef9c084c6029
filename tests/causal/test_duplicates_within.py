"""Equal rows: chance has them on both sides, households that nobody declared do not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.causal.duplicates import Repeats, content_codes
from miaudit.errors import InputError

N = 200
MEMBER = np.arange(2 * N) < N


def coarse(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, (2 * N, 3))  # eight kinds of records


def long_tailed(rng: np.random.Generator) -> np.ndarray:
    return np.minimum(rng.zipf(1.5, 2 * N), 10**6).astype(float)


def split_households(rng: np.random.Generator) -> np.ndarray:
    return np.repeat(rng.normal(size=(2 * N // 5, 2)), 5, axis=0)[rng.permutation(2 * N)]


@pytest.mark.long
@pytest.mark.parametrize("draw", [coarse, long_tailed, split_households])
def test_natural_duplicates_are_beyond_chance_no_more_often_than_stated(draw) -> None:  # type: ignore[no-untyped-def]
    found = [Repeats.of(draw(np.random.default_rng(i)), MEMBER) for i in range(1000)]
    p = np.array([one.p_value for one in found])
    assert np.mean(p < 0.05) <= 0.065
    assert np.mean(p < 0.01) <= 0.02
    assert sum(one.beyond_chance for one in found) <= 1
    assert 0.9 < np.mean([one.effect for one in found]) < 1.1


@pytest.mark.long
def test_the_effect_is_the_variance_of_a_difference_against_a_plain_simulation() -> None:
    """Two rates of any property of the rows, households of three sizes kept on one side: the second truth."""
    rng = np.random.default_rng(0)
    sizes = np.repeat([1, 3, 6], [60, 20, 20])
    content = np.repeat(np.arange(100), sizes)
    effects, errors = [], []
    for _ in range(3000):
        side = (rng.random(100) < 0.5)[content]
        effects.append(Repeats.of(content, side).effect)
        hit = (rng.random(100) < 0.3)[content]
        errors.append(hit[side].mean() - hit[~side].mean())
    n = len(content)
    independent = 0.3 * 0.7 * 4 / n
    assert np.mean(effects) == pytest.approx(np.var(errors) / independent, rel=0.1)
    assert np.mean(effects) == pytest.approx((sizes @ sizes) / n, rel=0.05)


@pytest.mark.parametrize("size", [2, 5])
def test_households_of_equal_rows_on_one_side_are_seen(size: int) -> None:
    rows = np.repeat(np.random.default_rng(1).normal(size=(2 * N // size, 3)), size, axis=0)
    found = Repeats.of(rows, MEMBER)
    assert (found.rows, found.across, found.apart) == (2 * N, 0, 1.0)
    assert found.effect == pytest.approx(size, rel=0.01)
    assert found.forbids(None) and found.forbids("one-run") and found.forbids("zero-run")
    assert "0 are of a member and a non-member" in found.text()


def test_a_shift_of_few_categories_forbids_nothing_where_membership_was_not_assigned() -> None:
    rng = np.random.default_rng(2)
    rows = np.where(MEMBER, rng.random(2 * N) < 0.7, rng.random(2 * N) < 0.3)
    found = Repeats.of(rows.astype(float), MEMBER)
    assert found.beyond_chance and found.forbids("one-run")  # a random split does not do that
    assert not found.forbids("zero-run")


def test_few_duplicates_of_many_rows_are_no_matter() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 2))
    rows[:40:2] = rows[1:40:2]  # twenty pairs, all of members
    found = Repeats.of(rows, np.arange(4000) < 2000)
    assert (found.pairs, found.across) == (20, 0)
    assert found.effect < 1.05 and not found.beyond_chance


def test_rows_are_told_apart_as_by_their_values() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 3, (1000, 4)).astype(float)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[rng.random(rows.shape) < 0.1] = -0.0
    seen: dict[tuple[float | None, ...], int] = {}
    keys = [tuple(None if np.isnan(v) else v + 0.0 for v in row) for row in rows.tolist()]
    plain = [seen.setdefault(key, len(seen)) for key in keys]
    code = content_codes(rows)
    assert len(set(zip(plain, code.tolist(), strict=True))) == len(seen) == len(np.unique(code))
    assert content_codes(np.array(["a", "b", "a"])).tolist() == [0, 1, 0]


def test_the_expected_pairs_of_both_classes_are_those_of_all_assignments() -> None:
    content = np.array([0, 0, 0, 1, 1, 2, 3])
    sides = [np.isin(np.arange(7), inside) for inside in itertools.combinations(range(7), 3)]
    repeats = [Repeats.of(content, side) for side in sides]
    assert {(one.rows, one.pairs) for one in repeats} == {(5, 4)}
    across = [one.across for one in repeats]
    assert [one.expected for one in repeats] == pytest.approx([np.mean(across)] * len(sides))
    assert repeats[0].apart == pytest.approx(1 - across[0] / np.mean(across))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="member: expected as many as rows"):
        Repeats.of(np.zeros((3, 1)), [True, False])
    with pytest.raises(InputError, match="member"):
        Repeats.of(np.zeros((2, 1)), [True, True])


@pytest.mark.long
def test_an_audit_says_that_equal_covariates_stand_on_one_side() -> None:
    rng = np.random.default_rng(5)
    x = np.repeat(rng.normal(size=(80, 2)), 5, axis=0)
    evidence = Evidence(score=rng.normal(size=400), member=MEMBER, covariates=x, design="one-run")
    plan = Plan(bounds=None)
    said = " ".join(audit(evidence, plan=plan, rng=np.random.default_rng(0)).notes)
    assert "name the unit" in said
    declared = evidence.replace(unit=np.arange(400) // 5)
    assert "name the unit" not in " ".join(audit(declared, plan=plan, rng=np.random.default_rng(0)).notes)
    natural = evidence.replace(covariates=coarse(rng))
    assert "name the unit" not in " ".join(audit(natural, plan=plan, rng=np.random.default_rng(0)).notes)


@pytest.mark.long
def test_an_audit_says_that_members_and_nonmembers_come_in_opposed_pairs() -> None:
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(2, N))
    score = np.r_[first, -0.6 * first + 0.8 * second]
    evidence = Evidence(score=score, member=MEMBER, design="one-run")
    plan = Plan(bounds=None)

    def said(given: Evidence) -> str:
        found = audit(given, plan=plan, rng=np.random.default_rng(0))
        return " ".join((*found.notes, *found.assumptions))

    assert "oppose each other (rank correlation -0." in said(evidence)
    paired = said(evidence.replace(unit=np.r_[np.arange(N), np.arange(N)]))
    assert "name the pair" not in paired
    assert "200 units hold both" in paired
    for other in (np.r_[first, second], np.r_[first, first], np.zeros(2 * N)):
        assert "name the pair" not in said(evidence.replace(score=other))

"""Gaps: levels without non-members, and where members stand out after weighting."""

from __future__ import annotations

import numpy as np

from miaudit import Evidence
from miaudit.causal import gaps


def sited(bare: int, rng: np.random.Generator) -> Evidence:
    """A thousand of each class in twenty sites, of which so many have members only, but for two non-members each."""
    member, site = np.repeat([True, False], 1000), np.tile(np.arange(1000) % 20, 2)
    outside = np.flatnonzero(~member)
    site[outside] = bare + np.arange(1000) % (20 - bare)
    for k in range(bare):
        site[outside[2 * k : 2 * k + 2]] = k
    x = np.c_[site, rng.normal(size=2000)]
    return Evidence(score=x[:, 1], member=member, covariates=x, covariate_names=("site", "age"), design="zero-run")


def test_too_many_members_in_levels_without_non_members_are_refused_and_the_levels_named() -> None:
    rng = np.random.default_rng(0)
    assert gaps.SparseLevels.of(sited(2, rng), [0]) is None  # a tenth, which is what is tolerated
    evidence = sited(3, rng)
    sparse = gaps.SparseLevels.of(evidence, [0])
    assert sparse is not None
    assert sparse.sentence.startswith("15.0% of members are in levels with fewer than 3 non-members (site = 0, 1, 2).")
    assert "leave out their 150 members (--exclude-levels site=0 --exclude-levels site=1" in sparse.sentence
    assert (sparse.members, sparse.nonmembers) == (150, 6)
    assert np.array_equal(sparse.rows, np.asarray(evidence.covariates)[:, 0] < 3)
    assert gaps.SparseLevels.of(evidence, []) is None  # not declared: a number, and no level


def test_levels_are_called_what_the_file_calls_them() -> None:
    evidence = sited(3, np.random.default_rng(0)).replace(levels={"site": {0.0: "Bern", 1.0: "St. Gallen"}})
    sparse = gaps.SparseLevels.of(evidence, [0])
    assert sparse is not None
    assert sparse.place == "site = Bern, St. Gallen, 2"
    assert "--exclude-levels 'site=St. Gallen'" in sparse.sentence
    assert "site other than Bern" in gaps.where(evidence, np.ones(2000), [0], level=0.0)


def test_at_most_five_levels_are_named() -> None:
    sparse = gaps.SparseLevels.of(sited(8, np.random.default_rng(0)), [0])
    assert sparse is not None
    assert sparse.place == "site = 0, 1, 2, 3, 4 and 3 more"
    assert sparse.sentence.count("--exclude-levels") == 5
    assert "and 3 more levels" in sparse.sentence


def test_where_members_stand_out_is_the_cell_that_was_made_to() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8000, 2))
    high = (x[:, 0] > 0) & (x[:, 1] < 0)
    member = rng.random(8000) < np.where(high, 0.7, 0.4)
    evidence = Evidence(score=x[:, 0], member=member, covariates=x, covariate_names=("age", "hours"))
    said = gaps.where(evidence, np.ones(8000), [0, 1])
    assert "high age and low hours" in said
    assert "add non-members like that, or leave out such members" in said
    turned = gaps.where(evidence.replace(member=~member), np.ones(8000), [0, 1])
    assert "high age and low hours" in turned
    assert "add members like that, or leave out such non-members" in turned
    right = np.where(high, 7 / 3, 2 / 3)  # the control: weights that are right leave hardly anything
    shares = [float(word.strip("%")) for word in gaps.where(evidence, right, [0, 1]).split() if word.endswith("%")]
    assert abs(shares[0] - shares[1]) < 3


def test_levels_are_told_one_by_one() -> None:
    kind = np.repeat([0.0, 1.0, 2.0], 100)
    evidence = Evidence(score=kind, member=(np.arange(300) % 4 == 0) | (kind == 2), covariates=kind[:, None])
    # Two thirds of the members are of the third kind, and none of the non-members.
    assert "have covariate 0 = 2, and 0.0% of" in gaps.where(evidence, np.ones(300), [0])


def test_texts_alone_have_no_levels() -> None:
    texts = Evidence(score=np.zeros(4), member=[1, 1, 0, 0], text=["a", "b", "a", "c"])
    assert gaps.SparseLevels.of(texts, ()) is None

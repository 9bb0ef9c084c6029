"""Differences of covariates: by plain sums, constant ones, flags, and levels of categories."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from causal.test_balance import evidence_of, given_odds
from miaudit import Evidence
from miaudit.causal.balance import measure


def test_constant_and_two_valued_covariates() -> None:
    rng = np.random.default_rng(6)
    member = np.arange(400) < 200
    x = np.c_[np.full(400, 7.0), rng.random(400) < 0.5, rng.normal(1e6, 1, 400)]
    evidence = evidence_of(x, member, covariate_names=["same", "flag", "far"])
    balance = measure(evidence, given_odds(np.zeros(400)))
    assert balance.constant == ("same",)
    assert [d.name for d in balance.differences] == ["flag", "far", "far, squared"]
    assert all(abs(d.before) < 0.4 for d in balance.differences)


def test_the_scales_of_two_values_and_of_members_that_hardly_vary_by_plain_sums() -> None:
    """The pooled scale of a flag; a tenth of the pooled one where that of the members is less."""
    rng = np.random.default_rng(10)
    member = np.arange(300) < 100
    flag = (rng.random(300) < np.where(member, 0.5, 0.1)).astype(float)
    narrow = np.where(member, 0.01, 1.0) * rng.normal(size=300)
    balance = measure(evidence_of(np.c_[flag, narrow], member), given_odds(np.zeros(300)))
    before = {d.name: d.before for d in balance.differences}
    for name, column, share in (("covariate 0", flag, 1.0), ("covariate 1", narrow, 0.1)):
        inside, outside = column[member], column[~member]
        squares = [sum((v - side.mean()) ** 2 for v in side) / len(side) for side in (inside, outside)]
        scale = share * math.sqrt((squares[0] + squares[1]) / 2)
        assert before[name] == pytest.approx((inside.mean() - outside.mean()) / scale)


def test_each_level_of_a_category_is_compared_as_its_own_column_would_be() -> None:
    """The mean of codes and its square say nothing of a category; as numbers they are compared (the control)."""
    rng = np.random.default_rng(8)
    member = rng.random(900) < 0.4
    race, age = rng.choice([0.0, 3.0, 7.0], 900, p=[0.2, 0.3, 0.5]), rng.normal(size=900) + 0.3 * member
    odds = np.exp(0.3 * age + 0.2 * (race == 3))
    known = SimpleNamespace(values=odds / (1 + odds), odds=odds)
    levels = {"race": {0.0: "r0", 3.0: "r1", 7.0: "r2"}, "sex": {0.0: "f", 1.0: "m"}}
    names, sex = ["race", "age", "sex", "site"], rng.integers(0, 2, 900).astype(float)
    columns = np.c_[race, age, sex, np.ones(900)]
    evidence = Evidence(score=age, member=member, covariates=columns, covariate_names=names, levels=levels)
    found = {one.name: one for one in measure(evidence, known, categories=[0, 2, 3]).differences}
    assert set(found) == {"race = r0", "race = r1", "race = r2", "age", "age, squared", "sex = m"}
    assert measure(evidence, known, categories=[0, 2, 3]).constant == ("site",)
    plain = np.c_[age, *(race == code for code in (0, 3, 7)), sex].astype(float)
    labels = ["age", "race = r0", "race = r1", "race = r2", "sex = m"]
    own = Evidence(score=age, member=member, covariates=plain, covariate_names=labels)
    for one in measure(own, known).differences:
        assert found[one.name].before == pytest.approx(one.before) and found[one.name].after == pytest.approx(one.after)
    assert "race, squared" in {one.name for one in measure(evidence, known).differences}

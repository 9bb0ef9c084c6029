"""Covariates that give membership away are named, others are not; constant ones are named too."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.causal import separation

N = 600
RNG = np.random.default_rng(0)
MEMBER = RNG.random(N) < 0.5
NOISE = RNG.normal(size=N)
SCORE = RNG.normal(size=N)


def evidence(**columns: np.ndarray) -> Evidence:
    x = np.column_stack(list(columns.values()))
    return Evidence(
        score=SCORE, member=MEMBER, covariates=x, covariate_names=list(columns), design="zero-run", source="t"
    )


def test_what_separates_alone_is_named_with_its_auc_and_what_does_not_is_not() -> None:
    found = separation.alone(evidence(age=NOISE, when=0.1 * NOISE - MEMBER, source=1.0 * MEMBER))
    assert found == {"source": 1.0, "when": 1.0}
    assert separation.alone(evidence(age=NOISE, hours=NOISE + MEMBER)) == {}


def test_levels_of_a_category_are_ordered_by_their_members() -> None:
    site = np.where(MEMBER, 1.0, np.where(NOISE > 0, 0.0, 2.0))  # members in the middle: as a number it says little
    assert separation.alone(evidence(site=site)) == {}
    assert separation.alone(evidence(site=site), ["site"]) == {"site": 1.0}
    own = np.arange(N, dtype=float)  # each record a level of its own says nothing, though it fits perfectly
    assert separation.alone(evidence(row=own), ["row"]) == {}


@pytest.mark.parametrize(("levels", "named"), [(30, True), (31, False)])
def test_levels_are_read_where_they_have_twenty_rows_on_average(levels: int, named: bool) -> None:
    order = np.argsort(~MEMBER, kind="stable")
    site = np.empty(N)
    site[order] = np.arange(N) * levels // N  # each level, but for one, of one class
    site = site * 7 % levels  # in no order
    assert bool(separation.alone(evidence(site=site), ["site"])) == named


def test_nothing_is_said_below_the_limit_and_what_to_do_above_it() -> None:
    given = evidence(age=NOISE, when=1.0 * MEMBER)
    assert separation.in_words(given, 0.9) == separation.in_words(given, None) == ()
    (said,) = separation.in_words(given, 0.99)
    assert "when (1.000)" in said and "after training" in said and "age" not in said
    (said,) = separation.in_words(evidence(age=NOISE), 0.99)
    assert said.startswith("No covariate separates them alone") and "add non-members" in said


@pytest.mark.long
@pytest.mark.parametrize("more", [{"propensity_model": "stack", "estimator": "aipw"}, {"classifier": "naive-bayes"}])
def test_a_refused_audit_names_the_column_that_determines_membership(more: dict[str, str]) -> None:
    plan = Plan(bounds=None, **more)
    found = audit(evidence(age=NOISE, when=MEMBER + 0.01 * NOISE), plan=plan, rng=np.random.default_rng(0))
    assert found.verdict.status == "refused" and found.overlap is not None
    assert any("when (1.000)" in reason for reason in found.overlap.reasons)


@pytest.mark.long
def test_constant_covariates_are_named_and_left_out() -> None:
    assert separation.constant([]) == ()
    assert separation.constant(["k"]) == ("k has one value only and was left out.",)
    assert separation.constant(list("abcde")) == ("a, b, c and 2 more have one value only and were left out.",)
    given = evidence(age=NOISE, k=np.ones(N))
    found = audit(given, plan=Plan(bounds=None, classifier="naive-bayes"), rng=np.random.default_rng(0))
    assert found.overlap is not None and "k has one value only and was left out." in found.overlap.warnings


@pytest.mark.parametrize("turned", [SCORE, -SCORE, np.exp(SCORE)])
def test_a_covariate_that_determines_the_score_is_refused(turned: np.ndarray) -> None:
    found = audit(evidence(age=NOISE, told=turned), rng=np.random.default_rng(0))
    assert found.verdict.status == "not-testable"
    assert "the covariate told orders the records as the score" in found.verdict.text
    assert separation.of_scores(evidence(near=SCORE + 1e-3 * RNG.normal(size=N), k=np.ones(N))) == ""

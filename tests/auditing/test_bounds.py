"""Differential privacy in an audit: what each design allows, what voids a bound, and what becomes of a claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing import bounds as privacy_bounds
from miaudit.auditing.headline import Exploratory, Split
from miaudit.causal import propensity
from miaudit.causal.propensity import Nuisance
from miaudit.dp.mechanism import GaussianNoise
from miaudit.dp.verdict import LowerBound

N = 3000


def randomised(mu: float, seed: int, *, n: int = N, design: str | None = "one-run", **more: Any) -> ma.Evidence:
    """Scores of the Gaussian mechanism: exactly mu-GDP for each record."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return ma.Evidence(score=rng.normal(size=n) + mu * member, member=member, design=design, **more)


def observed(seed: int, *, mu: float = 0.0, n: int = N, interaction: bool = False) -> ma.Evidence:
    """Zero-run evidence: a shift along one covariate, or along the product of two, and scores that follow the shift."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    logit = 1.5 * np.sign(x[:, 0] * x[:, 1]) if interaction else x[:, 0]
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    return ma.Evidence(score=rng.normal(size=n) + logit + mu * member, member=member, covariates=x, design="zero-run")


def audit(evidence: ma.Evidence, *, seed: int = 0, **bounds: Any) -> ma.Findings:
    return ma.audit(
        evidence, plan=ma.Plan(propensity_model="line", bounds=ma.Bounds(**bounds)), rng=np.random.default_rng(seed)
    )


@pytest.mark.long
def test_one_run_evidence_refutes_a_claim_that_is_too_small() -> None:
    found = audit(randomised(2.0, 1), claim=ma.Claim.gaussian(0.5))
    assert found.claim is not None
    assert found.claim.status == "refuted"
    assert found.exit_code == 3
    mu, epsilon = found.bounds
    assert (mu.parameter, epsilon.parameter, epsilon.delta) == ("mu", "epsilon", 1e-5)
    assert 0.5 < mu.value < 2.0
    assert found.claim.lower == mu.value
    assert found.claim.limit is not None
    assert found.claim.limit.tpr[0] == 0.0
    assert found.claim.limit.tpr[-1] == 1.0


@pytest.mark.long
def test_a_true_claim_is_not_refuted() -> None:
    statuses = [audit(randomised(0.5, seed), claim=ma.Claim.gaussian(0.5)).claim for seed in range(8)]
    assert {claim.status for claim in statuses if claim is not None} == {"not-refuted"}


@pytest.mark.long
def test_the_delta_of_a_claim_is_that_of_its_bound() -> None:
    found = audit(randomised(2.0, 1), claim=ma.Claim.epsilon_delta(0.2, 1e-6), delta=0.01)
    assert [b.delta for b in found.bounds if b.parameter == "epsilon"] == [1e-6]
    assert found.claim is not None
    assert found.claim.status == "refuted"


def test_many_runs_have_exact_bounds() -> None:
    found = audit(randomised(2.0, 3, n=400, design="multi-run"), claim=ma.Claim.gaussian(0.3))
    assert found.claim is not None
    assert found.claim.status == "refuted"
    assert all("runs" in bound.method for bound in found.bounds)


def test_undeclared_evidence_has_metrics_and_no_bound() -> None:
    found = audit(randomised(2.0, 1, design=None), claim=ma.Claim.gaussian(0.1))
    assert found.metrics
    assert not found.bounds
    assert "declare the design" in found.no_bound[0]
    assert found.claim is not None
    assert found.claim.status == "not-testable"


def test_bounds_can_be_left_out() -> None:
    found = ma.audit(randomised(1.0, 1), plan=ma.Plan(bounds=None), rng=np.random.default_rng(0))
    assert (found.bounds, found.no_bound, found.claim, found.challenge) == ((), (), None, None)


@pytest.mark.thorough
@pytest.mark.long
def test_zero_run_evidence_has_a_challenge_and_three_bounds() -> None:
    found = audit(observed(4, mu=3.0), claim=ma.Claim.gaussian(0.5))
    assert found.challenge is not None
    assert not found.challenge.rejected
    assert found.challenge.competitors == ("gradient boosting", "a random forest", "naive Bayes")
    assert [(b.parameter, b.delta) for b in found.bounds] == [("mu", 0.0), ("epsilon", 1e-5), ("epsilon", 0.0)]
    assert found.claim is not None
    assert found.claim.status == "refuted"
    assert found.bounds[0].value < 3.0


@pytest.mark.thorough
@pytest.mark.long
def test_a_shift_alone_shows_nothing_that_the_one_run_test_would_call_a_leak() -> None:
    evidence = observed(5)
    assert max(bound.value for bound in audit(evidence).bounds) == 0.0
    declared = evidence.replace(design="one-run", covariates=None)
    assert min(bound.value for bound in audit(declared).bounds) > 0.1  # the control: what a wrong design would claim


@pytest.mark.thorough
@pytest.mark.long
def test_propensities_that_miss_a_shift_are_refuted_and_their_bounds_void() -> None:
    found = audit(observed(6, interaction=True), claim=ma.Claim.gaussian(0.5))
    assert found.overlap is not None
    assert len(found.overlap.reasons) == 2  # means and squares agree: nothing but other models sees this shift
    assert found.overlap.fit is not None
    assert found.overlap.fit.rejected
    assert found.verdict.status == "refused"
    assert found.challenge is not None
    assert found.challenge.rejected
    assert not found.bounds
    assert found.no_bound == (found.challenge.text,)
    assert found.claim is not None
    assert found.claim.status == "not-testable"


@pytest.mark.thorough
@pytest.mark.long
def test_a_given_propensity_is_challenged_as_it_is() -> None:
    evidence = observed(6, interaction=True)
    assert evidence.covariates is not None
    logit = 1.5 * np.sign(evidence.covariates[:, 0] * evidence.covariates[:, 1])
    true, wrong = (1 / (1 + np.exp(-z)) for z in (logit, 0.0 * logit))
    statuses = []
    for pi in (true, wrong):
        given = ma.Nuisance(propensity=ma.causal.propensity.Propensity.given(pi))
        found = ma.audit(evidence, nuisance=given, rng=np.random.default_rng(0))
        assert found.challenge is not None
        statuses.append(found.challenge.rejected)
    assert statuses == [False, True]


@pytest.mark.long
def test_disjoint_populations_have_no_bound() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(1000) < 0.5
    x = rng.normal(size=(1000, 2)) + 6 * member[:, None]
    found = audit(ma.Evidence(score=x[:, 0], member=member, covariates=x, design="zero-run"))
    assert not found.bounds
    assert found.no_bound
    assert found.exit_code == 4


@pytest.mark.thorough
@pytest.mark.long
def test_few_rows_for_many_covariates_are_not_testable_unless_a_margin_is_stated() -> None:
    rng = np.random.default_rng(1)
    member = rng.random(800) < 0.5
    evidence = ma.Evidence(
        score=rng.normal(size=800), member=member, covariates=rng.normal(size=(800, 30)), design="zero-run"
    )
    assert "40 unless bounds on the log-odds are stated" in " ".join(audit(evidence).no_bound)
    assert audit(evidence, margin=0.5).bounds


@pytest.mark.long
@pytest.mark.parametrize(("headline", "said"), [(None, "Bonferroni"), (Split(), ""), (Exploratory(), "")])
def test_the_choice_among_scores_is_paid_for_or_called_exploratory(headline: Any, said: str) -> None:
    one = randomised(1.5, 7)
    rng = np.random.default_rng(0)
    several = one.replace(score={"good": one.score, "noise": rng.normal(size=N), "more": rng.normal(size=N)})
    plan = ma.Plan() if headline is None else ma.Plan(headline=headline)
    found = ma.audit(several, plan=plan, rng=np.random.default_rng(0))
    assert found.bounds[0].value > 0
    assert {b.exploratory for b in found.bounds} == {isinstance(headline, Exploratory)}
    if said:
        assert all(any(said in text for text in b.corrections) for b in found.bounds)
        assert all(b.confidence == pytest.approx(0.95) for b in found.bounds)  # each of three at 1 - 0.05 / 3


def test_a_described_mechanism_is_the_claim_where_there_is_no_other() -> None:
    honest = audit(randomised(0.5, 8), mechanism=GaussianNoise(2.0))
    assert honest.claim is not None
    assert (honest.claim.parameter, honest.claim.status) == ("epsilon", "not-refuted")
    assert honest.claim.upper == honest.claim.value
    lying = audit(randomised(4.0, 8), mechanism=GaussianNoise(20.0))
    assert lying.claim is not None
    assert lying.claim.status == "refuted"
    assert "what was run is not what was described" in lying.claim.text


@pytest.mark.long
def test_units_are_the_canaries_where_records_share_them() -> None:
    unit = np.arange(N) // 3
    rng = np.random.default_rng(9)
    member = (rng.random(N // 3) < 0.5)[unit]
    evidence = ma.Evidence(score=rng.normal(size=N) + 2 * member, member=member, unit=unit, design="one-run")
    found = audit(evidence)
    assert all(bound.canaries is not None and bound.canaries <= N / 3 for bound in found.bounds)
    assert any("unit" in text for text in found.bounds[0].corrections)


@pytest.mark.thorough
@pytest.mark.long
def test_units_of_unequal_size_are_reduced_to_one_record_before_the_propensity_is_learned() -> None:
    """Members have five records each, non-members one; the score says nothing, or much."""
    for mu in (0.0, 3.0):
        rng = np.random.default_rng(5)
        inside = np.arange(1500) < 750
        unit = np.repeat(np.arange(1500), np.where(inside, 5, 1))
        score = (mu * inside - rng.exponential(size=1500))[unit]
        x = rng.normal(size=(1500, 2))[unit]
        evidence = ma.Evidence(score=score, member=inside[unit], covariates=x, unit=unit, design="zero-run")
        found = audit(evidence)
        assert found.challenge is not None
        assert not found.challenge.rejected
        assert found.challenge.guesses == 750
        for bound in found.bounds:
            assert "the propensity was learned again from these" in bound.corrections[0]
            assert bound.canaries == 1500
            assert (bound.value > 0.5) == (mu > 0)


@pytest.mark.thorough
@pytest.mark.long
def test_a_propensity_learned_from_other_records_is_bounded_by_its_standard_errors_throughout() -> None:
    learned_from, evidence = observed(1, n=2000), observed(2, mu=3.0)
    learned = propensity.fit(evidence, train=learned_from, rng=np.random.default_rng(0))
    found = ma.audit(
        evidence,
        plan=ma.Plan(propensity_model="line", bounds=ma.Bounds()),
        nuisance=Nuisance(propensity=learned),
        rng=np.random.default_rng(0),
    )
    assert [(b.parameter, b.delta) for b in found.bounds] == [("mu", 0.0), ("epsilon", 1e-5), ("epsilon", 0.0)]
    assert all(b.value > 0.3 for b in found.bounds)
    assert all("within 2 standard errors" in b.corrections[0] for b in found.bounds)


@pytest.mark.long
def test_the_best_of_two_scores_holds_at_the_confidence_of_both_together() -> None:
    one = randomised(1.0, 3)
    rng = np.random.default_rng(8)
    both = ma.Evidence(score={"told": one.score, "noise": rng.normal(size=N)}, member=one.member, design="one-run")
    found = audit(both, claim=ma.Claim.gaussian(0.1))
    assert [bound.confidence for bound in found.bounds] == pytest.approx([0.95, 0.95])
    each = ma.dp.one_run.audit(both.only("told"), parameter="mu", confidence=0.975, rng=np.random.default_rng(0))
    assert found.bounds[0].value == pytest.approx(each.value, rel=0.02)  # other draws put ties in another order
    assert found.claim is not None
    assert "With 95% confidence" in found.claim.text
    tests = [
        LowerBound("mu", value, 0.975, "a test", p_value=p) for value, p in ((0.1, 0.02), (0.3, 0.01), (0.0, None))
    ]
    best = privacy_bounds.best_of(tests, "", "two scores", exploratory=False)
    assert (best.value, best.confidence, best.p_value) == (0.3, pytest.approx(0.925), pytest.approx(0.03))
    assert privacy_bounds.best_of(tests[:1], "", "", exploratory=False) == tests[0]


@pytest.mark.thorough
@pytest.mark.long
def test_equal_generators_give_equal_bounds() -> None:
    assert audit(observed(4, mu=2.0), seed=3).to_json() == audit(observed(4, mu=2.0), seed=3).to_json()


def test_options_without_use_are_named() -> None:
    assert audit(randomised(1.0, 1, n=200, design="multi-run"), guesses=50).notes == (
        "The option guesses has no use with multi-run evidence and changed nothing.",
    )
    assert not audit(randomised(1.0, 1), guesses=50).notes

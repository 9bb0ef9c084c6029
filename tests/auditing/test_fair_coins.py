"""Stated chances of inclusion: records thinned to fair coins, memberships that contradict the chances, and bundles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.arrays import FloatArray
from miaudit.auditing import fair_coins, remarks
from miaudit.auditing.case import choose
from miaudit.auditing.fair_coins import FairCoins, allowed_members, contradiction
from miaudit.auditing.headline import Split
from miaudit.bundle import challenge, reading, record
from miaudit.bundle.verify import verify
from miaudit.dp import one_run, zero_run
from miaudit.errors import DesignError, InputError
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.io.sealed_coins import Answer, Secret
from miaudit.metrics.classical import Sample

PLAN = Plan(primary_metric="auc", threshold_for_concern=0.6)


def sampled(
    chance: float | FloatArray, n: int = 2000, seed: int = 0, *, leak: float = 0.0, **fields: object
) -> Evidence:
    """Memberships by these chances, and a score that follows the chance, and membership where records leak."""
    rng = np.random.default_rng(seed)
    each = np.broadcast_to(np.asarray(chance, dtype=np.float64), (n,))
    member = rng.random(n) < each
    score = 4 * each + leak * member + rng.normal(size=n)
    return Evidence(score=score, member=member, design="one-run", inclusion=chance, **fields)  # type: ignore[arg-type]


def spread(n: int = 2000, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform(0.02, 0.98, n)


def tossed(evidence: Evidence, seed: int = 0) -> FairCoins:
    coins = FairCoins.tossed(evidence, rng=np.random.default_rng(seed))
    assert coins is not None
    return coins


# -- thinning ----------------------------------------------------------------------------------------------------------


def slowly_thinned(evidence: Evidence, rng: np.random.Generator) -> list[int]:
    """Record by record: the likelier label remains with the odds of the other one."""
    assert evidence.inclusion is not None
    uniform = rng.spawn(2)[1].random(evidence.n)
    remaining = []
    for i, (p, inside) in enumerate(zip(evidence.inclusion, evidence.member, strict=True)):
        odds_of_the_other = (1 - p) / p if inside else p / (1 - p)
        if uniform[i] < min(1.0, odds_of_the_other):
            remaining.append(i)
    return remaining


@pytest.mark.parametrize("chance", [0.8, 0.1, 0.5, spread()])
def test_thinning_is_that_of_a_loop(chance: float | FloatArray) -> None:
    evidence = sampled(chance)
    coins = tossed(evidence)
    assert coins.rows.tolist() == slowly_thinned(evidence, np.random.default_rng(0))
    assert np.array_equal(coins.rows, coins.independent)


@pytest.mark.parametrize("chance", [0.8, 0.1, spread(20_000)])
def test_the_number_that_remains_and_their_members(chance: float | FloatArray) -> None:
    """Closed form: twice the smaller of p and 1 - p of each record remains, and half of that is members."""
    evidence = sampled(chance, 20_000)
    coins = tossed(evidence)
    p = np.broadcast_to(chance, (20_000,))
    expected = float((2 * np.minimum(p, 1 - p)).sum())
    assert coins.inclusion.expected_remaining == pytest.approx(expected)
    assert abs(len(coins.rows) - expected) < 4 * np.sqrt(expected)
    assert abs(evidence.member[coins.rows].mean() - 0.5) < 4 * 0.5 / np.sqrt(len(coins.rows))
    # The control: the coins do depend on membership, and not to toss them leaves no fair coin.
    assert abs(evidence.member[p > 0.7].mean() - 0.5) > 0.2 if np.any(p > 0.7) else evidence.member.mean() < 0.15


def test_what_remains_does_not_follow_the_chance() -> None:
    """Among the remaining records neither chance nor score says who is a member; among all they do."""
    evidence = sampled(spread(20_000), 20_000)
    rows = tossed(evidence).rows
    assert evidence.inclusion is not None
    chance = Evidence(score=evidence.inclusion, member=evidence.member)
    for values in (chance, evidence):
        interval = Sample.of(values.take(rows) if values is chance else values.take(rows).replace(inclusion=None)).auc(
            0.999
        )
        assert interval.low < 0.5 < interval.high
        assert Sample.of(values).auc(0.999).low > 0.7


def test_the_rule_is_that_of_theorem_z() -> None:
    """The other implementation, of zero-run evidence with given propensities, keeps as many and as mixed records."""
    chance = spread(20_000)
    evidence = sampled(chance, 20_000)
    plain = Evidence(score=evidence.score, member=evidence.member, design="zero-run")
    other = zero_run.thin(plain, chance, rng=np.random.default_rng(3))
    coins = tossed(evidence)
    assert other.effective == pytest.approx(coins.inclusion.expected_remaining)
    assert len(other.rows) == pytest.approx(len(coins.rows), rel=0.03)


def test_a_unit_remains_as_a_whole() -> None:
    unit = np.repeat(np.arange(1000), 3)
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.9, 1000)
    member = (rng.random(1000) < chance)[unit]
    evidence = Evidence(score=rng.normal(size=3000), member=member, design="one-run", unit=unit, inclusion=chance[unit])
    coins = tossed(evidence)
    _, sizes = np.unique(unit[coins.rows], return_counts=True)
    assert set(sizes.tolist()) == {3}
    assert np.array_equal(unit[coins.independent], np.unique(unit[coins.rows]))
    assert coins.inclusion.of == "units"
    assert coins.inclusion.records == 1000
    assert coins.inclusion.remaining == len(coins.independent)


def test_of_a_unit_on_both_sides_the_one_record_is_a_fair_coin() -> None:
    """One record is drawn before the coin: to toss first would leave non-members of units on both sides."""
    unit = np.repeat(np.arange(20_000), 2)
    member = np.random.default_rng(0).random(40_000) < 0.8
    evidence = Evidence(score=np.arange(40_000.0), member=member, design="one-run", unit=unit, inclusion=0.8)
    coins = tossed(evidence)
    fair = evidence.member[coins.independent]
    assert abs(fair.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(fair))
    assert len(fair) == pytest.approx(8000, rel=0.05)


@pytest.mark.long
def test_without_chances_nothing_changes() -> None:
    evidence = sampled(0.5)
    with_chance, without = audit(evidence, rng=0), audit(evidence.replace(inclusion=None), rng=0)
    assert with_chance.metrics == without.metrics
    assert [one.value for one in with_chance.bounds] == [one.value for one in without.bounds]
    assert without.inclusion is None
    assert FairCoins.tossed(evidence.replace(inclusion=None), rng=np.random.default_rng(0)) is None


# -- in an audit -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_one_chance_leaves_the_metrics_and_thins_the_bounds() -> None:
    evidence = sampled(0.8, leak=1.0)
    findings = audit(evidence, plan=PLAN, rng=0)
    plain = audit(evidence.replace(inclusion=None), plan=PLAN, rng=0)
    assert findings.metrics == plain.metrics
    assert findings.counts.members == evidence.n_members
    assert findings.inclusion is not None
    assert not findings.inclusion.thinned_metrics
    remaining = findings.inclusion.remaining
    assert remaining == pytest.approx(800, rel=0.1)
    assert findings.bounds[0].canaries == remaining
    assert f"{remaining:,} of 2,000 records remain after thinning" in findings.bounds[0].corrections[0]
    assert findings.bounds[0].value > 0.3
    assert any(f"{remaining:,} of 2,000 records remain (800 expected)" in text for text in findings.corrections)
    assert "with the stated chance" in findings.assumptions[0]


@pytest.mark.long
def test_different_chances_thin_the_metrics_too() -> None:
    evidence = sampled(spread())
    findings = audit(evidence, plan=PLAN, rng=0)
    auc = findings.metric("auc")
    assert auc.low is not None
    assert auc.low < 0.5 < (auc.high or 0)
    assert findings.inclusion is not None
    assert findings.inclusion.thinned_metrics
    assert findings.counts.members + findings.counts.nonmembers == findings.inclusion.remaining
    # The control: the chances left out, the score that follows them is taken for leakage.
    unstated = audit(evidence.replace(inclusion=None), plan=PLAN, rng=0)
    assert unstated.verdict.status == "flagged"
    assert unstated.bounds[0].value > 0


def test_four_to_one_read_as_fair_coins_refutes_that_nothing_leaks() -> None:
    """An attack that says "member" of everybody is right in 80% without looking at the model."""
    evidence = sampled(0.8)
    read_as_coins = one_run.epsilon_lower_bound(correct=evidence.n_members, guesses=2000, canaries=2000)
    assert read_as_coins.value > 1
    rows = tossed(evidence).rows
    right = int(evidence.member[rows].sum())
    assert one_run.epsilon_lower_bound(correct=right, guesses=len(rows), canaries=len(rows)).value < 0.2
    with pytest.raises(DesignError, match="thins them to fair coins first"):
        one_run.audit(evidence, rng=np.random.default_rng(0))


@pytest.mark.long
def test_covariates_that_follow_the_chances_do_not_contradict_the_design() -> None:
    chance = spread()
    evidence = sampled(chance, covariates=chance)
    findings = audit(evidence, plan=PLAN, rng=0)
    assert findings.verdict.status != "refused"
    assert findings.covariates_alone is not None
    assert (findings.covariates_alone.value or 1) < 0.55
    refused = audit(evidence.replace(inclusion=None), plan=PLAN, rng=0)
    assert refused.verdict.status == "refused"
    assert remarks.beforehand(evidence.replace(covariates=np.repeat(chance[:1000], 2)), PLAN) == ()


@pytest.mark.long
def test_one_chance_is_exchangeable() -> None:
    """80 to 20 with covariates that know nothing is not refused."""
    evidence = sampled(0.8, covariates=np.random.default_rng(5).normal(size=(2000, 2)))
    assert audit(evidence, plan=PLAN, rng=0).verdict.status != "refused"


def test_rows_are_counted_in_all_of_the_evidence() -> None:
    evidence = sampled(spread())
    for plan in (PLAN, replace(PLAN, headline=Split(0.3))):
        two = evidence.replace(score={"a": evidence.score, "b": evidence.score + 1})
        case = choose(two, plan, rng=np.random.default_rng(0))
        assert case.rows is not None
        assert np.array_equal(two.scores["a"][case.rows], case.audited.scores["a"])
        assert case.fair is not None
        assert np.isin(case.fair.scores["a"], case.audited.scores["a"]).all()
    one = choose(sampled(0.8), PLAN, rng=np.random.default_rng(0))
    assert one.rows is None
    assert one.fair is not None
    assert one.fair.n < one.audited.n


@pytest.mark.long
def test_too_few_remain() -> None:
    member = np.arange(50) < 49
    evidence = Evidence(score=np.random.default_rng(0).normal(size=50), member=member, design="one-run", inclusion=0.99)
    coins = [tossed(evidence, seed).fair(evidence, None) for seed in range(20)]
    assert any(one is None for one in coins)
    none = next(seed for seed, one in enumerate(coins) if one is None)
    case = choose(evidence, PLAN, rng=np.random.default_rng(none))
    while case.of_bounds is not None:
        none += 1
        case = choose(evidence, PLAN, rng=np.random.default_rng(none))
    found = next(f for f in (audit(evidence, plan=PLAN, rng=seed) for seed in range(20)) if f.no_bound)
    assert "Thinning to fair coins leaves no member or no non-member" in found.no_bound[0]
    assert found.metrics
    chance = np.where(member, 0.999, 0.998)
    with pytest.raises(InputError, match="members and non-members after thinning to fair coins"):
        for seed in range(20):
            choose(evidence.replace(inclusion=chance), PLAN, rng=np.random.default_rng(seed))


@pytest.mark.long
def test_what_goes_with_no_chances_is_refused() -> None:
    evidence = sampled(0.8, 200)
    runs = Evidence.of_runs([evidence, evidence.replace(score=-evidence.score)])
    with pytest.raises(InputError, match=r"several runs, received 0\.8"):
        audit(runs, rng=0)
    fair_coins.check(runs.replace(inclusion=0.5))
    secret = Secret.new(coins=200)
    coins = secret.coins(Answer.to(secret.commitment, by="Auditor", before=0))
    sealed = Evidence(score=np.arange(200.0), member=coins.members(1, records=200), design="one-run")
    shown = SealedCoins.of(coins, sealed)
    with pytest.raises(InputError, match="no chances beside sealed coins"):
        audit(sealed.replace(inclusion=0.5), coins=shown, rng=0)


# -- memberships that contradict the chances ---------------------------------------------------------------------------


@pytest.mark.long
def test_members_that_the_chances_do_not_allow_are_refused() -> None:
    evidence = sampled(0.5).replace(inclusion=0.7)
    findings = audit(evidence, plan=PLAN, rng=0)
    assert findings.verdict.status == "refused"
    assert findings.exit_code == 4
    assert not findings.bounds
    assert "The memberships contradict the stated chances of inclusion" in findings.verdict.text
    assert findings.no_bound
    assert not any("remain" in text for text in findings.corrections)
    assert findings.in_words.steps[0].text.startswith("State the chance")
    assert audit(evidence.replace(inclusion=0.5), plan=PLAN, rng=0).verdict.status != "refused"


def test_groups_of_chances_are_tested_by_themselves() -> None:
    """As many members as stated, and of the wrong chances."""
    chance = np.repeat([0.2, 0.8], 1000)
    member = np.repeat([0.5, 0.5], 1000) > np.random.default_rng(0).random(2000)
    evidence = Evidence(score=np.arange(2000.0), member=member, design="one-run", inclusion=chance)
    assert "of 1,000 records with a chance of 20%" in contradiction(evidence)
    continuous = evidence.replace(inclusion=chance + np.random.default_rng(1).uniform(-0.1, 0.1, 2000))
    assert "with chances from" in contradiction(continuous)
    assert contradiction(evidence.replace(inclusion=0.5)) == ""


def test_a_fixed_number_of_members_fits() -> None:
    assert (
        contradiction(Evidence(score=np.arange(1000.0), member=np.arange(1000) < 800, design="one-run", inclusion=0.8))
        == ""
    )


def test_units_are_counted_once() -> None:
    """Ten units of a hundred records: all of one unit's records are one coin."""
    unit = np.repeat(np.arange(20), 100)
    member = unit < 14
    evidence = Evidence(score=np.arange(2000.0), member=member, design="one-run", inclusion=0.5, unit=unit)
    assert contradiction(evidence) == ""
    assert contradiction(evidence.replace(unit=None)) != ""


@pytest.mark.parametrize("chance", [np.full(300, 0.8), spread(300), np.full(40, 0.05)])
def test_the_limits_hold_the_exact_law(chance: FloatArray) -> None:
    """Poisson-binomial by convolution: beyond the limits lies less than the level, and not much less."""
    law = np.ones(1)
    for p in chance:
        law = np.convolve(law, [1 - p, p])
    for level in (0.001, 0.05):
        low, high = allowed_members(chance, level)
        count = np.arange(len(law))
        assert law[(count < low) | (count > high)].sum() < level
        narrow_low, narrow_high = (chance.sum() + 0.5 * (limit - chance.sum()) for limit in (low, high))
        assert law[(count < narrow_low) | (count > narrow_high)].sum() > level / 10  # the control


# -- bundles -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("share", ["all", "scores"])
@pytest.mark.parametrize("chance", [0.8, spread(600)])
def test_a_bundle_is_verified(tmp_path: Path, share: str, chance: float | FloatArray) -> None:
    evidence = sampled(chance, 600, leak=1.0)
    examined, bundle, _ = record(evidence, plan=PLAN, share=share, rng=np.random.default_rng(0))
    bundle.write(tmp_path / "a.zip")
    held = reading.read(tmp_path / "a.zip")
    again = held.evidence()
    assert again is not None
    assert np.array_equal(again.inclusion, evidence.inclusion)
    assert examined.findings.inclusion == held.findings.inclusion
    assert verify(tmp_path / "a.zip").status == "verified"
    # The control: other chances are other findings.
    columns = {**held.columns, "inclusion": np.full(600, 0.5)}
    assert verify(replace(held, columns=columns)).status == "failed"


@pytest.mark.long
def test_a_refused_bundle_without_covariates_is_verified_in_part() -> None:
    """The covariates that refute the design are withheld: raw metrics of the remaining records come out again."""
    chance = spread(1000)
    rng = np.random.default_rng(0)
    evidence = sampled(chance, 1000)
    leaking = evidence.replace(covariates=evidence.member + 0.1 * rng.normal(size=1000))
    examined, bundle, _ = record(leaking, plan=PLAN, share="scores", rng=rng)
    assert examined.findings.verdict.status == "refused"
    assert examined.findings.metrics
    assert verify(bundle).status == "in-part"


@pytest.mark.thorough
@pytest.mark.long
def test_the_chances_win_no_challenge() -> None:
    """Where chances differ, they identify members by themselves: scores are compared on the thinned records."""
    chance = spread(1500)
    rng = np.random.default_rng(0)
    evidence = sampled(chance, 1500).replace(score=rng.normal(size=1500))
    _, bundle, _ = record(evidence, plan=PLAN, rng=np.random.default_rng(1))
    submitted = challenge.by_scores(bundle, chance, rng=np.random.default_rng(2))
    assert submitted.status != "won"
    assert submitted.judged < 1500
    unstated = evidence.replace(inclusion=None)
    _, other, _ = record(unstated, plan=PLAN, rng=np.random.default_rng(1))
    assert challenge.by_scores(other, chance, rng=np.random.default_rng(2)).status == "won"  # the control

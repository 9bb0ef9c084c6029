from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier

from miaudit import Evidence
from miaudit.causal import effects, replicates
from miaudit.causal import propensity as propensities
from miaudit.causal.estimators import Aipw, Comparison, Hajek
from miaudit.causal.outcome import LocationScale
from miaudit.errors import InputError
from miaudit.metrics.classical import Sample
from worlds import confounded
from worlds.confounded import Confounded, fixed, logistic
from worlds.coverage import run

METHODS = effects.METHODS


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def small(seed: int = 0, n: int = 60, ties: bool = False) -> tuple[Evidence, SimpleNamespace]:
    evidence, propensity = Confounded().draw(n // 3, n - n // 3, rng(seed))
    if ties:
        evidence = evidence.replace(score=np.round(evidence.score))
    return evidence, propensity


# -- the truth ---------------------------------------------------------------------------------------------------------


# -- slow twins --------------------------------------------------------------------------------------------------------


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 50), scale=st.floats(0.1, 10), shift=st.floats(-5, 5), ties=st.booleans())
def test_an_affine_change_of_the_score(method: str, seed: int, scale: float, shift: float, ties: bool) -> None:
    evidence, propensity = small(seed, 90, ties)
    moved = evidence.replace(score=scale * evidence.score + shift)
    if method == "horvitz-thompson":
        moved = evidence.replace(score=scale * evidence.score)  # not invariant under shifts: why Hajek is the default
    before, after = (effects.ate(e, propensity, method=method, rng=rng()) for e in (evidence, moved))
    assert after.value == pytest.approx(scale * before.value, rel=1e-4, abs=1e-4)
    assert after.high - after.low == pytest.approx(scale * (before.high - before.low), rel=1e-3, abs=1e-4)
    if method in ("difference", "hajek", "horvitz-thompson"):
        a, b = (effects.auc(e, propensity, method=method, rng=rng()) for e in (evidence, moved))
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-9)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ties", [False, True])
def test_values_lie_between_their_limits(method: str, ties: bool) -> None:
    for seed in range(4):
        evidence, propensity = small(seed, 120, ties)
        ask = {"method": method, "rng": rng()}
        for found in (
            effects.auc(evidence, propensity, **ask),
            effects.advantage(evidence, propensity, **ask),
            effects.tpr_at_fpr(evidence, propensity, fpr=0.2, **ask),
            effects.fpr_at_threshold(evidence, propensity, threshold=0.5, **ask),
        ):
            if found.value is not None:
                assert 0 <= found.low <= found.value + 1e-12 <= found.high + 2e-12 <= 1 + 3e-12
        found = effects.ate(evidence, propensity, **ask)
        assert found.low < found.value < found.high


def test_even_weights_give_the_classical_metrics() -> None:
    evidence, _ = small(4, 300)
    for design in ("one-run", "multi-run", None):
        e = evidence.replace(design=design)
        sample, flat = Sample.of(e), fixed(e)
        assert effects.auc(e, flat, rng=rng()) == sample.auc(0.95)
        assert effects.tpr_at_fpr(e, flat, fpr=0.1, rng=rng()) == sample.tpr_at_fpr(0.1, 0.95)
        assert effects.advantage(e, flat, rng=rng()) == sample.advantage(0.95)
        assert effects.ate(e, flat, rng=rng()).value == pytest.approx(sample.difference(0.95).value)
        assert effects.ate(e, flat, method="difference", rng=rng()) == sample.difference(0.95)
    nearly = SimpleNamespace(values=flat.values, odds=flat.odds * (1 + 1e-6 * rng().random(e.n)), features=None)
    general, exact = effects.auc(e, nearly, rng=rng()), sample.auc(0.95)
    assert (general.low, general.high) == pytest.approx((exact.low, exact.high), abs=3e-3)
    general, exact = effects.tpr_at_fpr(e, nearly, fpr=0.1, rng=rng()), sample.tpr_at_fpr(0.1, 0.95)
    assert (general.low, general.high) == pytest.approx((exact.low, exact.high), abs=0.03)


def test_repeated_records_of_a_unit_say_nothing_new() -> None:
    evidence, p = small(6, 200)
    rows = np.repeat(np.arange(evidence.n), 4)
    copies = evidence.take(rows).replace(unit=rows)
    many = SimpleNamespace(values=p.values[rows], odds=p.odds[rows], features=None)
    for metric in (effects.ate, effects.auc, effects.advantage):
        once, again = metric(evidence, p, rng=rng()), metric(copies, many, rng=rng())
        assert again.value == pytest.approx(once.value)
        assert again.high - again.low == pytest.approx(once.high - once.low, rel=0.1)
        naive = metric(copies.replace(unit=None), many, rng=rng())
        assert naive.high - naive.low < 0.8 * (once.high - once.low)  # control
    once, again = (effects.tpr_at_fpr(e, q, fpr=0.2, rng=rng()) for e, q in ((evidence, p), (copies, many)))
    assert again.high - again.low > 0.8 * (once.high - once.low)
    law = LocationScale().fit(copies.covariates, copies.score, copies.member, unit_codes=copies.unit_codes, rng=rng())
    assert all(len(set(law.fold[rows == i])) == 1 for i in range(evidence.n))


def test_separated_scores_are_not_certain() -> None:
    evidence, p = small(7, 60)
    apart = evidence.replace(score=np.where(evidence.member, 1.0, 0.0) + 0.1 * rng().random(evidence.n))
    found = effects.auc(apart, p, rng=rng())
    assert found.value == 1.0
    assert found.low < 0.95
    constant = evidence.replace(score=np.zeros(evidence.n))
    for method in METHODS:
        found = effects.auc(constant, p, method=method, rng=rng())
        if method != "horvitz-thompson":
            assert found.value == pytest.approx(0.5)
            assert effects.ate(constant, p, method=method, rng=rng()).value == pytest.approx(0)
        assert found.low < found.high


# -- what is refused or said -------------------------------------------------------------------------------------------


def test_notes_of_outcome_models() -> None:
    evidence, p = small(9, 200)
    found = effects.tpr_at_fpr(evidence, p, fpr=0.1, method="aipw", rng=rng())
    assert "not to be trusted" in found.note
    assert "ridge" in effects.auc(evidence, p, method="aipw", rng=rng()).note
    assert "Dummy" in effects.ate(evidence, p, method="g", outcome=DummyRegressor(), rng=rng()).note
    assert effects.ate(evidence, p, method=Hajek(), rng=rng()).note == ""


def test_the_balanced_accuracy_is_half_of_one_and_the_advantage() -> None:
    evidence, p = small(4, 200)
    best = effects.advantage(evidence, p, rng=rng())
    found = effects.balanced_accuracy(evidence, p, rng=rng())
    assert (found.value, found.low, found.high) == pytest.approx(
        ((1 + best.value) / 2, (1 + best.low) / 2, (1 + best.high) / 2)
    )
    assert 0.5 <= found.low < found.value < found.high < 1


def test_units_of_both_classes_widen_the_advantage_as_if_they_opposed_each_other() -> None:
    """The errors of both rates are added up, not their squares."""
    evidence, p = small(11, 300)
    outside = np.flatnonzero(~evidence.member)
    apart = effects.advantage(evidence.replace(unit=np.arange(300)), p, rng=rng())
    assert apart == effects.advantage(evidence, p, rng=rng())
    unit = np.arange(300)
    unit[outside[:100]] = np.flatnonzero(evidence.member)
    found = effects.advantage(evidence.replace(unit=unit), p, rng=rng())
    assert found.value == apart.value
    assert found.high - found.value > 1.1 * (apart.high - apart.value)


def test_the_lower_limit_of_the_advantage_adds_the_errors_of_both_rates_where_units_hold_both_classes() -> None:
    """sqrt(log(1 / tail) / 2) times 1 / sqrt(n1) + 1 / sqrt(n0): Hoeffding's quantile, for errors that oppose."""
    evidence, p = Confounded(effect=3.0).draw(200, 400, rng(11))
    unit = np.arange(600)
    unit[200:250] = np.arange(50)  # fifty units of a member and a non-member
    best = effects.advantage(evidence.replace(unit=unit), p, rng=rng())
    w = p.odds[~evidence.member]
    sizes = 200, w.sum() ** 2 / (w**2).sum()
    half = math.sqrt(math.log(1 / 0.025) / 2) * sum(1 / math.sqrt(size) for size in sizes)
    assert best.low == pytest.approx(best.value - half)
    assert best.low > 0


def test_the_interval_of_an_effect_is_that_of_student_for_the_smaller_class() -> None:
    evidence, p = Confounded().draw(6, 40, rng(12))
    for unit, fewest in ((None, 6), (np.r_[0, 0, 1, 1, 2, 2, 3:43], 3)):
        effect = effects.ate(evidence.replace(unit=unit), p, rng=rng())
        half = student.ppf(0.975, fewest - 1) * effect.standard_error
        assert (effect.low, effect.high) == pytest.approx((effect.value - half, effect.value + half))
    one = effects.ate(evidence.replace(unit=np.r_[np.zeros(6, int), 1:41]), p, rng=rng())
    assert (one.low, one.high) == (-math.inf, math.inf)


def test_a_curve_of_few_thresholds_has_points_of_the_whole_one_and_both_ends() -> None:
    evidence, p = small(5, 150)
    law = LocationScale(folds=2).fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    whole, few = (effects.roc(evidence, p, method="g", outcome=law, thresholds=most) for most in (150, 12))
    assert len(whole.threshold) == 152
    assert len(few.threshold) <= 14
    places = np.searchsorted(-whole.threshold, -few.threshold)
    assert places[[0, 1, -2, -1]].tolist() == [0, 1, 150, 151]
    assert few.fpr == pytest.approx(whole.fpr[places])
    assert few.tpr == pytest.approx(whole.tpr[places])


@pytest.mark.parametrize("ties", [True, False])
def test_a_tpr_inside_a_tie_block_is_called_interpolated(ties: bool) -> None:
    score = np.r_[np.full(50, 2.0), np.arange(50) / 100, np.full(40, 2.0), np.arange(60) / 100 - 1]
    score = score if ties else score + np.arange(200) * 1e-6
    evidence = Evidence(score=score, member=np.arange(200) < 100, design="zero-run")
    even = SimpleNamespace(values=np.full(200, 0.5), odds=np.ones(200), features=None)
    inside = effects.tpr_at_fpr(evidence, even, fpr=0.2, rng=rng())
    assert ("interpolated inside ties" in inside.note) == ties
    assert "interpolated" not in effects.tpr_at_fpr(evidence, even, fpr=0.4, rng=rng()).note  # where the block ends
    if ties:
        assert (inside.value, inside.step_value) == (0.25, 0.0)


def test_bad_input() -> None:
    evidence, p = small()
    with pytest.raises(InputError, match="did you mean hajek"):
        effects.auc(evidence, p, method="hayek", rng=rng())
    with pytest.raises(InputError, match="propensity: expected one value for each of 60"):
        effects.auc(evidence, SimpleNamespace(values=p.values[:-1], odds=p.odds[:-1], features=None), rng=rng())
    for bad in (0.0, 1.0, np.nan):
        values = np.where(np.arange(60) == 3, bad, p.values)
        with np.errstate(divide="ignore"), pytest.raises(InputError, match="1 outside"):
            effects.auc(evidence, SimpleNamespace(values=values, odds=values / (1 - values), features=None), rng=rng())
    with pytest.raises(InputError, match="features of 60"):
        effects.ate(evidence, SimpleNamespace(values=p.values, odds=p.odds, features=np.ones((3, 2))), rng=rng())
    bare = evidence.replace(covariates=None)
    with pytest.raises(InputError, match="covariates for an outcome model"):
        effects.ate(bare, p, method="aipw", rng=rng())
    with pytest.raises(InputError, match="rng"):
        effects.roc(evidence, p, method="aipw")
    for fpr in (0.0, 1.0, -1, np.nan):
        with pytest.raises(InputError, match="fpr"):
            effects.tpr_at_fpr(evidence, p, fpr=fpr, rng=rng())
    with pytest.raises(InputError, match="confidence"):
        effects.ate(evidence, p, confidence=95, rng=rng())
    law = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    half = SimpleNamespace(values=p.values[:50], odds=p.odds[:50], features=None)
    with pytest.raises(InputError, match="a law of"):
        effects.ate(evidence.take(np.arange(50)), half, method=Aipw(law), rng=rng())


def test_thresholds_fixed_beforehand() -> None:
    evidence, p = small(3, 600)
    found = effects.tpr_at_threshold(evidence, threshold=0.5)
    assert found.value == (evidence.score[evidence.member] >= 0.5).mean()
    assert found.low < found.value < found.high
    units = evidence.replace(unit=np.arange(600) // 2)
    assert effects.tpr_at_threshold(units, threshold=0.5).value == found.value
    for method in METHODS:
        rate = effects.fpr_at_threshold(evidence, p, threshold=0.5, method=method, rng=rng())
        assert rate.low < rate.value < rate.high


def test_the_score_term_is_used_when_the_propensity_is_fitted() -> None:
    evidence, _ = Confounded(dimension=3).draw(500, 500, rng(10))
    learned = logistic(evidence)
    blind = SimpleNamespace(values=learned.values, odds=learned.odds, features=None)
    with_term, without = (effects.auc(evidence, q, rng=rng()) for q in (learned, blind))
    assert with_term.value == without.value
    assert with_term.high - with_term.low >= without.high - without.low


@pytest.mark.long
def test_the_variance_has_the_term_of_a_logistic_propensity_and_adds_that_of_a_separate_sample() -> None:
    draws = rng(12)
    evidence, _ = Confounded(dimension=3).draw(150, 150, draws)
    other, _ = Confounded(dimension=3).draw(150, 150, draws)
    own = propensities.fit(evidence, rng=rng())
    forest = propensities.fit(evidence, classifier=RandomForestClassifier(10, min_samples_leaf=20), rng=rng())
    separate = propensities.fit(evidence, train=other, rng=rng())
    for learned, used in ((own, True), (forest, False), (separate, True)):
        assert learned.features is not None
        features = Comparison.of(evidence, learned).features
        assert (features is not None) == used
        blind = replace(learned, features=None)
        for metric in (effects.auc, effects.ate):
            found, without = (metric(evidence, p, rng=rng()) for p in (learned, blind))
            assert found.value == without.value
            assert used or (found.low, found.high) == (without.low, without.high)
            if learned is separate:  # an error that does not depend on the audited records can only widen
                assert found.high - found.low > without.high - without.low
    assert Comparison.of(evidence, separate).learned_on == pytest.approx(300)
    assert Comparison.of(evidence, own).learned_on is None
    claimed = replace(forest, logistic=True)  # control: the term would change the variance
    influence, gradient = rng().normal(size=(2, evidence.n))
    plain, wrong = (Comparison.of(evidence, p).variance(influence, 100 * gradient) for p in (forest, claimed))
    assert wrong > plain


def test_a_part_of_a_separately_learned_propensity_is_as_uncertain_as_the_whole() -> None:
    draws = rng(13)
    evidence, _ = Confounded(dimension=3).draw(150, 150, draws)
    other, _ = Confounded(dimension=3).draw(60, 60, draws)
    separate = propensities.fit(evidence, train=other, rng=rng())
    rows = np.arange(evidence.n)[::-1]
    part, again = evidence.take(rows), separate.of_rows(rows)
    known = propensities.Propensity.given(again.values)
    for metric in (effects.auc, effects.ate):
        whole, found, without = (
            metric(e, p, rng=rng()) for e, p in ((evidence, separate), (part, again), (part, known))
        )
        assert (found.low, found.high) == (pytest.approx(whole.low), pytest.approx(whole.high))
        assert without.high - without.low < 0.97 * (found.high - found.low)  # control: as if it were known


def test_few_units_of_members_know_little_of_the_variance_between_them() -> None:
    """Eight units of members, nearly equal inside: normal limits of the AUC miss the truth twice as often as stated."""
    draws, missed, naive = rng(14), 0, 0
    for _ in range(300):
        unit = np.r_[np.repeat(np.arange(8), 5), 8 + np.arange(160)]
        member = np.arange(len(unit)) < 40
        score = draws.normal(size=168)[unit] + 0.1 * draws.normal(size=len(unit)) + member
        known = propensities.Propensity.given(draws.uniform(0.3, 0.7, 168)[unit])
        evidence = Evidence(score=score, member=member, unit=unit)
        found = effects.auc(evidence, known, rng=draws)
        truth = 0.7593  # Phi(1 / sqrt(2 * 1.01))
        missed += not found.low <= truth <= found.high
        half = (logit(found.high) - logit(found.low)) / 2 / student.ppf(0.975, 7) * 1.96
        centre = (logit(found.high) + logit(found.low)) / 2
        naive += not centre - half <= logit(truth) <= centre + half
    assert missed / 300 < 0.085
    assert naive / 300 > 0.085  # control


@pytest.mark.thorough
@pytest.mark.long
def test_coverage_in_few_replicates() -> None:
    found = run(confounded.covered, "moderate", 300, 300, True, replicates=48, seed=61, pool=None)
    by_name = dict(zip(confounded.QUANTITIES, found, strict=True))
    for name in confounded.QUANTITIES[:-1]:
        assert by_name[name][0] >= 0.8, name
    assert by_name["raw auc"][0] < 0.2


def test_a_bootstrap_that_refits() -> None:
    draws, count = rng(11), 200
    evidence, _ = Confounded(effect=0.6).draw(400, 400, draws)
    half = [draws.multinomial(400, np.full(400, 1 / 400), size=count) for _ in range(2)]
    counts = np.hstack(half)
    odds = np.empty((count, 800))
    for b in range(count):
        rows = np.repeat(np.arange(800), counts[b])
        x = evidence.covariates
        design = np.column_stack([np.ones(len(x)), x])
        beta = np.zeros(3)
        for _ in range(7):
            p = 1 / (1 + np.exp(-design[rows] @ beta))
            hessian = (design[rows] * (p * (1 - p))[:, None]).T @ design[rows]
            beta += np.linalg.solve(hessian, design[rows].T @ (evidence.member[rows] - p))
        odds[b] = np.exp(design @ beta)
    found = replicates.bootstrap_limits(evidence, odds, counts, fpr_targets=(0.1,))
    world = Confounded(effect=0.6)
    for name, truth in {"auc": world.auc, "ate": world.effect, "tpr_at_fpr_0.1": world.tpr(0.1)}.items():
        low, high = found[name]
        assert low < truth < high
        assert high - low < {"auc": 0.1, "ate": 0.5, "tpr_at_fpr_0.1": 0.2}[name]
    learned = logistic(evidence)
    by_influence = effects.auc(evidence, learned, rng=rng())
    assert found["auc"][1] - found["auc"][0] < by_influence.high - by_influence.low  # which errs on the safe side
    with pytest.raises(InputError, match="one row a replicate"):
        replicates.bootstrap_limits(evidence, odds[:, :-1], counts)


# -- comparisons of potential scores (causal-mia, Appendix A.2) --------------------------------------------------------


def couplings(d: float, draws: np.random.Generator, n: int = 400_000) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Scores of the same records with and without membership: N(d, 1) and N(0, 1) each time; both are never seen."""
    z = draws.normal(size=n)
    least = d + z
    common = draws.random(n) < np.exp(d * d / 2 - d * least)  # min(f0 / f1, 1): where the scores may be equal
    rest = _above_the_other(d, draws, n)
    return {
        "the same rank": (d + z, z),
        "independent": (d + z, draws.normal(size=n)),
        "the opposite rank": (d + z, -z),
        "equal where they can be": (least, np.where(common, least, -rest + d)),
    }


def _above_the_other(d: float, draws: np.random.Generator, n: int) -> np.ndarray:
    """Draw from the part of N(d, 1) above N(0, 1), whose mirror at d / 2 is the part of N(0, 1) above N(d, 1)."""
    found = np.empty(0)
    while len(found) < n:
        y = d + draws.normal(size=2 * n)
        found = np.r_[found, y[draws.random(2 * n) > np.exp(d * d / 2 - d * y)]]
    return found[:n]


def test_the_chance_that_membership_raises_a_score_has_bounds_only() -> None:
    """PNS = P(Y(1) > Y(0)) of one record: the same evidence goes with 0.20 and with 1; the advantage is its floor."""
    d = 0.5
    floor = 2 * norm.cdf(d / 2) - 1  # sup of TPR - FPR
    pns = {}
    for name, (inside, outside) in couplings(d, rng(0)).items():
        for y, mean in ((inside, d), (outside, 0.0)):  # all that evidence can ever show is the same
            assert np.quantile(y, [0.1, 0.5, 0.9]) == pytest.approx(norm.ppf([0.1, 0.5, 0.9]) + mean, abs=0.015)
        pns[name] = float(np.mean(inside > outside))
    assert min(pns.values()) == pytest.approx(floor, abs=0.005)
    assert pns["the same rank"] == 1.0
    assert pns["independent"] == pytest.approx(norm.cdf(d / math.sqrt(2)), abs=0.005)  # the AUC is but one of them


def test_the_win_proportion_is_the_auc_of_two_members_and_not_of_one() -> None:
    """WP = P(Y_i(1) > Y_j(0) | both members): where all scores rise by a constant, PNS is 1 and WP is not."""
    draws, n = rng(3), 60_000
    x = draws.normal(size=n)
    pi = 1 / (1 + np.exp(-x))
    member = draws.random(n) < pi
    absent = x + draws.normal(size=n)
    present = absent + 0.3
    evidence = Evidence(score=np.where(member, present, absent), member=member, covariates=x[:, None])
    known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    found = effects.auc(evidence, known, rng=rng())
    inside = np.flatnonzero(member)
    others = np.sort(absent[inside])
    truth = float(np.mean(np.searchsorted(others, present[inside]) / len(inside)))  # all pairs of members
    assert abs(found.value - truth) < 0.01
    assert found.low < truth < found.high
    assert np.mean(present[inside] > absent[inside]) == 1.0  # PNS, which nothing that is observed tells
    raw = effects.auc(evidence, known, method="difference", rng=rng())
    assert raw.low > truth + 0.1  # the control: pairs of a member and a non-member compare two populations

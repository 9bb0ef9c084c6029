"""Estimators of a counterfactual mean: closed forms, slow twins, and the errata of the printed formulas."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from causal.test_effects import METHODS, rng, small
from miaudit import Evidence
from miaudit.causal import effects
from miaudit.causal.estimators import Aipw, Comparison, GFormula, Ranked, counterfactual_mean, estimator_of
from miaudit.causal.outcome import Law, LocationScale
from miaudit.errors import InputError
from miaudit.metrics.units import Units
from worlds.confounded import Confounded, fixed

BIG = Confounded(shift=0.8, effect=0.5)
CAUSAL = METHODS[1:]
WRONG_MODEL = LocationScale(DummyRegressor())


@pytest.fixture(scope="module")
def three_to_one() -> tuple[Evidence, SimpleNamespace]:
    return BIG.draw(24_000, 8_000, rng(1))


@pytest.fixture(scope="module")
def laws(three_to_one: tuple[Evidence, SimpleNamespace]) -> dict[bool, Law]:
    """An outcome model that is right, and one that is wrong."""
    e = three_to_one[0]
    return {
        right: (LocationScale() if right else WRONG_MODEL).fit(e.covariates, e.score, e.member, rng=rng())
        for right in (True, False)
    }


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("method", CAUSAL)
def test_three_members_for_each_nonmember(
    method: str, three_to_one: tuple[Evidence, SimpleNamespace], laws: dict[bool, Law]
) -> None:
    evidence, propensity = three_to_one
    law = laws[True]
    ask = {"method": method, "outcome": law, "rng": rng()}
    assert effects.ate(evidence, propensity, **ask).value == pytest.approx(BIG.effect, abs=0.05)
    assert effects.auc(evidence, propensity, **ask).value == pytest.approx(BIG.auc, abs=0.015)
    for alpha in (0.05, 0.2):
        found = effects.tpr_at_fpr(evidence, propensity, fpr=alpha, **ask).value
        assert found == pytest.approx(BIG.tpr(alpha), abs=0.02)
    assert effects.advantage(evidence, propensity, **ask).value == pytest.approx(BIG.advantage, abs=0.025)
    assert effects.balanced_accuracy(evidence, propensity, **ask).value == pytest.approx(
        (1 + BIG.advantage) / 2, abs=0.013
    )
    curve = effects.roc(evidence, propensity, method=method, outcome=law)
    assert curve.auc == pytest.approx(BIG.auc, abs=0.015)
    fpr = effects.fpr_at_threshold(evidence, propensity, threshold=BIG.shift, **ask).value
    assert fpr == pytest.approx(0.5, abs=0.02)  # half of the members' Y(0) lie above their mean


def test_without_weights_the_shift_counts_as_memorisation(three_to_one: tuple[Evidence, SimpleNamespace]) -> None:
    evidence, propensity = three_to_one  # control
    raw = effects.auc(evidence, propensity, method="difference", rng=rng())
    assert raw.low > BIG.auc + 0.1
    assert "not causal" in raw.note
    assert effects.ate(evidence, propensity, method="difference", rng=rng()).value > BIG.effect + 0.5


def test_the_printed_divisor_n0_is_wrong_by_a_factor(three_to_one: tuple[Evidence, SimpleNamespace]) -> None:
    evidence, propensity = three_to_one  # control of errata A1: (6) as printed
    outside = ~evidence.member
    lifted = evidence.replace(score=evidence.score + 10)
    total = float(propensity.odds[outside] @ lifted.score[outside])
    printed = lifted.score[~outside].mean() - total / outside.sum()
    mended = lifted.score[~outside].mean() - total / evidence.n_members
    assert printed == pytest.approx(BIG.effect - 2 * (10 + BIG.shift), abs=1)
    assert mended == pytest.approx(BIG.effect, abs=0.4)
    assert effects.ate(lifted, propensity, method="horvitz-thompson", rng=rng()).value == pytest.approx(mended)


@pytest.mark.long
def test_the_printed_minus_of_the_causal_fpr_is_wrong(
    three_to_one: tuple[Evidence, SimpleNamespace], laws: dict[bool, Law]
) -> None:
    evidence, propensity = three_to_one  # errata A3: with a poor outcome model the sign decides
    law = laws[False]
    t = BIG.shift
    mu, a, w = law.exceedance(t), evidence.member, propensity.odds
    correction = float(w[~a] @ ((evidence.score[~a] >= t) - mu[~a])) / evidence.n_members
    modelled = float(mu[a].mean())
    assert modelled + correction == pytest.approx(0.5, abs=0.02)
    assert abs(modelled - correction - 0.5) > 0.3
    found = effects.fpr_at_threshold(evidence, propensity, threshold=t, method=Aipw(law), rng=rng())
    assert found.value == pytest.approx(modelled + correction, abs=0.005)
    curve = effects.roc(evidence, propensity, method=Aipw(law))
    at = np.searchsorted(-curve.threshold[1:-1], -t)
    assert curve.fpr[1 + at] == pytest.approx(0.5, abs=0.02)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("outcome_right", [True, False])
@pytest.mark.parametrize("propensity_right", [True, False])
def test_double_robustness(
    outcome_right: bool,
    propensity_right: bool,
    three_to_one: tuple[Evidence, SimpleNamespace],
    laws: dict[bool, Law],
) -> None:
    evidence, true = three_to_one
    law = laws[outcome_right]
    propensity = true if propensity_right else fixed(evidence)
    method = Aipw(law)
    errors = (
        effects.ate(evidence, propensity, method=method, rng=rng()).value - BIG.effect,
        4 * (effects.auc(evidence, propensity, method=method, rng=rng()).value - BIG.auc),
        2 * (effects.tpr_at_fpr(evidence, propensity, fpr=0.2, method=method, rng=rng()).value - BIG.tpr(0.2)),
    )
    if outcome_right or propensity_right:
        assert np.abs(errors).max() < 0.06
    else:
        assert np.abs(errors).min() > 0.3  # control: both wrong


@pytest.mark.thorough
@pytest.mark.long
def test_a_curved_and_spreading_world_needs_more_than_a_mean() -> None:
    world = Confounded(shift=0.6, effect=0.6, curve=0.3, spread=0.25)
    auc, tpr = world.simulated(0.1)
    evidence, propensity = world.draw(8_000, 8_000, rng(3))
    law = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    for method in ("hajek", Aipw(law), GFormula(law)):
        assert effects.auc(evidence, propensity, method=method, rng=rng()).value == pytest.approx(auc, abs=0.02)
        found = effects.tpr_at_fpr(evidence, propensity, fpr=0.1, method=method, rng=rng()).value
        assert found == pytest.approx(tpr, abs=0.03)


@pytest.mark.parametrize("ties", [False, True])
def test_weighted_auc_by_pairs(ties: bool) -> None:
    evidence, propensity = small(ties=ties)
    y, a, w = evidence.score, evidence.member, propensity.odds
    wins = total = 0.0
    for i in np.flatnonzero(a):
        for j in np.flatnonzero(~a):
            wins += w[j] * (1.0 if y[i] > y[j] else 0.5 if y[i] == y[j] else 0.0)
            total += w[j]
    assert effects.auc(evidence, propensity, rng=rng()).value == pytest.approx(wins / total)
    n1 = int(a.sum())
    unnormalised = wins / n1**2
    found = effects.auc(evidence, propensity, method="horvitz-thompson", rng=rng())
    assert found.value == pytest.approx(min(unnormalised, 1.0))


@pytest.mark.parametrize("ties", [False, True])
def test_aipw_by_its_definition(ties: bool) -> None:
    evidence, propensity = small(1, 90, ties)
    y, a, w = evidence.score, evidence.member, propensity.odds
    law = LocationScale(folds=3).fit(evidence.covariates, y, a, rng=rng())
    share = np.where(a, 0, w) / w[~a].sum()
    expected = y[a].mean() - law.mean[a].mean() - share @ (y - law.mean)
    assert effects.ate(evidence, propensity, method=Aipw(law), rng=rng()).value == pytest.approx(expected)
    assert effects.ate(evidence, propensity, method=GFormula(law), rng=rng()).value == pytest.approx(
        (y[a] - law.mean[a]).mean()
    )
    rates = {t: law.exceedance(t)[a].mean() + share @ ((y >= t) - law.exceedance(t)) for t in np.unique(y)}
    for t, rate in rates.items():
        found = effects.fpr_at_threshold(evidence, propensity, threshold=t, method=Aipw(law), rng=rng())
        assert found.value == pytest.approx(min(max(rate, 0), 1))
    curve = effects.roc(evidence, propensity, method=Aipw(law))
    descending = np.array([rates[t] for t in curve.threshold[1:-1]])
    assert curve.fpr[1:-1] == pytest.approx(np.clip(np.maximum.accumulate(descending), 0, 1))
    assert (np.diff(curve.fpr) >= 0).all()
    assert (curve.fpr[0], curve.fpr[-1], curve.tpr[0], curve.tpr[-1]) == (0, 1, 0, 1)
    # The area under the raw curve is the AUC.
    above = np.array([((y[a] > v).mean() + (y[a] >= v).mean()) / 2 for v in y])
    m = law.expected(lambda v: np.mean((y[a] > v[..., None]) + 0.5 * (y[a] == v[..., None]), axis=-1))
    auc = effects.auc(evidence, propensity, method=Aipw(law), rng=rng()).value
    assert auc == pytest.approx(m[a].mean() + share @ (above - m))


@pytest.mark.parametrize("method", METHODS)
def test_influence_is_the_derivative(method: str) -> None:
    """Adding a little weight to one record moves the estimate by its influence."""
    evidence, propensity = small(2, 60)
    law = LocationScale(folds=2).fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    estimator = estimator_of(method, law)
    comparison = Comparison.of(evidence, propensity)
    value, influence, gradient = counterfactual_mean(estimator, comparison, comparison.score, law.mean)
    if method != "g":  # whose variance is that of AIPW
        assert influence.sum() == pytest.approx(0, abs=1e-9)
    step = 1e-6
    for j in np.flatnonzero(~evidence.member)[:5]:
        if method in ("hajek", "horvitz-thompson"):
            moved = propensity.odds.copy()
            moved[j] *= 1 + step
            changed = Comparison.of(evidence, SimpleNamespace(values=propensity.values, odds=moved, features=None))
            after, *_ = counterfactual_mean(estimator, changed, comparison.score, law.mean)
            assert (after - value) / step == pytest.approx(gradient[j], rel=1e-3, abs=1e-7)


def test_means_by_their_formulas() -> None:
    """Difference, (6) and (11), by plain sums; influences are what each record adds to the error."""
    evidence, propensity = small(6, 70)
    y, a, w = evidence.score, evidence.member, propensity.odds
    n1, total = a.sum(), w[~a].sum()
    comparison = Comparison.of(evidence, propensity)
    found = {name: counterfactual_mean(estimator_of(name), comparison, y, None) for name in METHODS[:3]}
    assert found["difference"][0] == pytest.approx(y[~a].mean())
    assert found["difference"][1] == pytest.approx(np.where(a, 0, (y - y[~a].mean()) / (~a).sum()))
    assert not found["difference"][2].any()
    value = w[~a] @ y[~a] / n1
    assert found["horvitz-thompson"][0] == pytest.approx(value)
    assert found["horvitz-thompson"][1] == pytest.approx(np.where(a, -value / n1, w * y / n1))
    assert found["horvitz-thompson"][2] == pytest.approx(np.where(a, 0, w * y / n1))
    value = w[~a] @ y[~a] / total
    assert found["hajek"][0] == pytest.approx(value)
    assert found["hajek"][1] == pytest.approx(np.where(a, 0, w * (y - value) / total))
    with pytest.raises(InputError, match="an outcome model"):
        counterfactual_mean(estimator_of("aipw"), comparison, y, None)


def test_influences_of_outcome_models_are_those_of_aipw() -> None:
    evidence, propensity = small(7, 70)
    y, a, w = evidence.score, evidence.member, propensity.odds
    m = 0.3 + 0.5 * evidence.covariates[:, 0]
    comparison = Comparison.of(evidence, propensity)
    residual = np.where(a, 0, w * (y - m)) / w[~a].sum()
    value, influence, _ = counterfactual_mean(Aipw(), comparison, y, m)
    assert value == pytest.approx(m[a].mean() + residual.sum())
    assert influence == pytest.approx(np.where(a, (m - value) / a.sum(), residual))
    plain, influence, _ = counterfactual_mean(GFormula(), comparison, y, m)
    assert plain == pytest.approx(m[a].mean())
    assert influence == pytest.approx(np.where(a, (m - plain) / a.sum(), residual))


def test_the_variance_with_that_of_the_propensity_by_its_definition() -> None:
    """experiments/methods.md, section 1: here the larger of with and without the score, elsewhere what is added."""
    evidence, known = small(8, 120)
    generator = rng(9)
    features, influence, gradient = generator.normal(size=(120, 2)), *generator.normal(size=(2, 120)) / 120
    x = np.column_stack([np.ones(120), features])
    pi, a = known.values, evidence.member
    information = sum(p * (1 - p) * np.outer(row, row) for p, row in zip(pi, x, strict=True))
    direction = np.linalg.solve(information, x.T @ gradient)
    plain = influence @ influence * 120 / 119
    corrected = influence + (a - pi) * (x @ direction)
    score = corrected @ corrected * 120 / 119

    def variance(influence: np.ndarray, **more: object) -> float:
        made = SimpleNamespace(values=pi, odds=known.odds, features=features, logistic=True, **more)
        return Comparison.of(evidence, made).variance(influence, gradient)

    own = np.zeros(120, dtype=np.int64)
    assert variance(influence, folds=own) == pytest.approx(max(plain, score))
    assert variance(influence + corrected, folds=own) > 0
    opposed = -0.5 * (a - pi) * (x @ direction)  # what the score takes off again
    less = opposed @ opposed * 120 / 119
    assert variance(opposed, folds=own) == pytest.approx(less)
    apart = plain + (x.T @ gradient) @ direction * 120 / 500
    assert variance(influence, folds=None, rows_per_covariate=250.0) == pytest.approx(apart)
    assert variance(influence, folds=None, rows_per_covariate=None) == pytest.approx(plain)  # known ones
    wide = SimpleNamespace(values=pi, odds=known.odds, features=generator.normal(size=(120, 59)), folds=own)
    assert Comparison.of(evidence, wide).variance(influence, gradient) == pytest.approx(plain)


def test_effective_numbers_are_those_of_kish() -> None:
    evidence, propensity = small(10, 60)
    w = propensity.odds[~evidence.member]
    alone = Comparison.of(evidence, propensity)
    assert alone.effective_nonmembers == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert (alone.effective_members, alone.n1) == (evidence.member.sum(), evidence.member.sum())
    unit = np.arange(60) // 3
    units = Comparison.of(evidence.replace(unit=unit), propensity)
    totals = np.bincount(unit[~evidence.member], weights=w)
    assert units.effective_nonmembers == pytest.approx(totals.sum() ** 2 / (totals**2).sum())
    members = np.bincount(unit[evidence.member])
    assert units.effective_members == pytest.approx(members.sum() ** 2 / (members**2).sum())
    even = SimpleNamespace(values=np.full(60, 0.25), odds=np.full(60, 1 / 3), features=None)
    assert Comparison.of(evidence, even).even
    assert not alone.even


def test_ranked_nonmembers_by_hand() -> None:
    """Weights 3, 1, 2, 2 from the highest score down; a member stands above all, and one is tied with the second."""
    score = np.array([9.0, 5.0, 1.0, 8.0, 5.0, 4.0, 3.0])
    member = np.array([True, True, True, False, False, False, False])
    ranked = Ranked.of(score, member, np.array([1.0, 1.0, 1.0, 3.0, 1.0, 2.0, 2.0]), None)
    assert ranked.weight.tolist() == [3, 1, 2, 2]
    assert ranked.before.tolist() == [1, 1, 2, 2]  # members above it, with the tied one not accused yet
    assert ranked.after.tolist() == [1, 2, 2, 2]
    assert (ranked.members, ranked.total, ranked.fixed) == (3, 8, False)
    assert ranked.heaviest_above(0.1) == 3
    light = Ranked.of(-score, member, np.array([1.0, 1.0, 1.0, 3.0, 1.0, 2.0, 2.0]), None)
    assert [light.heaviest_above(fpr) for fpr in (0.2, 0.5, 0.625, 0.7)] == [2, 2, 2, 3]  # an average one at least
    paired = Ranked.of(score, member, np.ones(7), Units.of(np.array([0, 1, 2, 3, 4, 3, 4]), member))
    assert paired.whole.tolist() == [2, 2, 2, 2]
    assert paired.so_far.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(("values", "odds"), [(1.0, 1.0), (0.0, 1.0), (0.5, 0.0), (0.5, -0.5), (0.5, np.inf)])
def test_a_record_without_a_propensity_or_without_odds_is_refused_and_counted(values: float, odds: float) -> None:
    evidence, p = small(11, 60)
    third = np.arange(60) == 3
    bad = SimpleNamespace(values=np.where(third, values, p.values), odds=np.where(third, odds, p.odds), features=None)
    with pytest.raises(InputError, match="1 outside"):
        Comparison.of(evidence, bad)


def test_a_factor_on_the_odds_does_not_matter_where_weights_are_normalised() -> None:
    evidence, p = small(5, 200)
    halved = SimpleNamespace(values=p.values, odds=p.odds / 2, features=None)
    law = LocationScale().fit(evidence.covariates, evidence.score, evidence.member, rng=rng())
    for method in ("hajek", "aipw", "g"):
        for metric in (effects.ate, effects.auc):
            pair = [metric(evidence, q, method=method, outcome=law, rng=rng()) for q in (p, halved)]
            assert pair[0].value == pytest.approx(pair[1].value)
            assert pair[0].low == pytest.approx(pair[1].low)

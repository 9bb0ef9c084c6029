"""Sharp bounds against a linear program, and against every choice of odds on small samples."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from miaudit import Evidence
from miaudit.causal import effects, sensitivity
from miaudit.causal.estimators import Comparison
from miaudit.causal.outcome import LocationScale, law_of
from miaudit.causal.sensitivity import Confounded
from miaudit.errors import InputError
from worlds import confounded, planted_trait


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Discrete:
    """A law of a few covariate values and scores, with one non-member in each cell, as heavy as the cell."""

    def __init__(self, seed: int) -> None:
        draws = rng(seed)
        cells, scores = int(draws.integers(2, 5)), int(draws.integers(3, 9))
        self.factor = float(np.exp(draws.uniform(0.05, 1.5)))
        self.x, self.y = np.repeat(np.arange(cells), scores), np.tile(np.arange(float(scores)), cells)
        weight = np.exp(draws.normal(size=cells * scores))
        of_members = np.r_[np.arange(float(scores)), draws.integers(0, scores, size=draws.integers(1, 20))]
        odds = np.r_[np.ones(len(of_members)), weight]
        member = np.arange(len(odds)) < len(of_members)
        evidence = Evidence(score=np.r_[of_members, self.y], member=member)
        known = SimpleNamespace(values=odds / (1 + odds), odds=odds, features=None)
        self.comparison = Comparison.of(evidence, known)
        self.share, self.weight = self.comparison.share_of_members_above[~member], weight
        self.effect_of = of_members.mean()

    def conditional(self, level: float, values: np.ndarray) -> np.ndarray:
        """The quantile of the values given x, of each cell."""
        quantile = np.empty(len(self.x))
        for k in np.unique(self.x):
            rows = np.flatnonzero(self.x == k)
            ordered = rows[np.argsort(values[rows], kind="stable")]
            share = np.cumsum(self.weight[ordered]) / self.weight[rows].sum()
            quantile[rows] = values[ordered][min(int(np.searchsorted(share, level - 1e-12)), len(rows) - 1)]
        return quantile

    @property
    def sharp(self) -> Confounded:
        return Confounded(self.comparison, self.conditional)

    def extreme(self, cost: np.ndarray, sense: int) -> float:
        """The extreme of sum w r cost over r in [1/L, L] whose mean given x is 1."""
        w = self.weight / self.weight.sum()
        rows = np.stack([np.where(self.x == k, w, 0.0) for k in np.unique(self.x)])
        return (
            sense
            * linprog(sense * w * cost, A_eq=rows, b_eq=rows.sum(axis=1), bounds=(1 / self.factor, self.factor)).fun
        )


@pytest.mark.parametrize("seed", range(40))
def test_sharp_bounds_equal_a_linear_program(seed: int) -> None:
    law = Discrete(seed)
    factor, sharp = law.factor, law.sharp
    assert sharp.value("auc", factor)[0] == pytest.approx(law.extreme(law.share, 1), abs=1e-9)
    assert sharp.value("auc", 1 / factor)[0] == pytest.approx(law.extreme(law.share, -1), abs=1e-9)
    roc = law.comparison.roc
    largest, smallest = sharp.fpr(factor), sharp.fpr(1 / factor)
    above = [(law.y >= t).astype(float) for t in roc.threshold]
    assert largest == pytest.approx([law.extreme(one, -1) for one in above], abs=1e-9)
    assert smallest == pytest.approx([law.extreme(one, 1) for one in above], abs=1e-9)
    least = max(tpr - law.extreme(one, -1) for tpr, one in zip(roc.tpr, above, strict=True))
    assert sharp.value("advantage", factor)[0] == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_any_quantiles_give_bounds_that_hold_and_only_the_right_ones_are_sharp(seed: int) -> None:
    law, draws = Discrete(seed), rng(seed)
    factor, roc = law.factor, law.comparison.roc
    wider = 0.0
    for _ in range(5):
        offset = draws.uniform(-0.3, 0.3, size=law.x.max() + 1)[law.x]  # a function of x, as it has to be

        def shifted(level: float, values: np.ndarray, offset: np.ndarray = offset) -> np.ndarray:
            return law.conditional(level, values) + offset

        other = Confounded(law.comparison, shifted)
        gap = law.extreme(law.share, 1) - other.value("auc", factor)[0]
        assert gap >= -1e-9
        wider = max(wider, gap)
        for v, t in enumerate(roc.threshold):
            assert other.fpr(factor)[v] >= law.extreme((law.y >= t).astype(float), -1) - 1e-9
    assert wider > 1e-4
    # The control: quantiles that see the score itself are no function of x, and their bound does not hold.
    spying = Confounded(law.comparison, lambda level, values: values + 0.05)
    assert spying.value("auc", factor)[0] != pytest.approx(law.extreme(law.share, 1), abs=1e-4)


@pytest.mark.parametrize("metric", ["auc", "ate"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.3, 4.0])
def test_bounds_without_a_law_hold_for_every_choice_of_odds_of_the_same_sum(
    metric: str, ties: bool, factor: float
) -> None:
    """Enumeration: each non-member L times or 1/L times, where the weighted mean of that is 1 within rounding."""
    for seed in range(3):
        evidence, p = confounded.Confounded().draw(5, 9, rng(seed))
        evidence = evidence.replace(score=np.round(evidence.score)) if ties else evidence
        low, high = sensitivity.bounds(evidence, p, odds_factor=factor, metric=metric)
        y, a = evidence.score, evidence.member
        above = np.array([((y[a] > v).mean() + (y[a] >= v).mean()) / 2 for v in y[~a]])
        w = p.odds[~a] / p.odds[~a].sum()
        for choice in itertools.product((factor, 1 / factor), repeat=9):
            r = np.array(choice) / (w @ np.array(choice))  # of mean 1; what leaves [1/L, L] is no such trait
            if r.max() <= factor + 1e-9 and r.min() >= 1 / factor - 1e-9:
                value = (w * r) @ above if metric == "auc" else y[a].mean() - (w * r) @ y[~a]
                assert low - 1e-9 <= value <= high + 1e-9
        estimate = getattr(effects, metric)(evidence, p, rng=rng()).value
        assert low - 1e-12 <= estimate <= high + 1e-12


def test_a_factor_of_one_changes_nothing() -> None:
    evidence, p = confounded.Confounded(effect=0.8).draw(300, 300, rng(6))
    for metric in ("auc", "advantage", "ate"):
        estimate = getattr(effects, metric)(evidence, p, rng=rng()).value
        assert sensitivity.bounds(evidence, p, odds_factor=1.0, metric=metric) == pytest.approx((estimate, estimate))
    for alpha in (0.01, 0.037, 0.1, 0.5):
        estimate = effects.roc(evidence, p).tpr_at(alpha)
        same = sensitivity.tpr_bounds(evidence, p, fpr=alpha, odds_factor=1.0)
        assert same == pytest.approx((estimate, estimate))


def test_the_error_of_an_advantage_does_not_shrink_where_its_gaps_are_closed() -> None:
    """The largest gap is then one of a few records at an end of the curve; with its error factors were too large."""
    for seed in range(8):
        evidence, odds = planted_trait.draw(1.3, 2000, rng(seed))
        known = SimpleNamespace(values=odds / (1 + odds), odds=odds, features=None)
        confounded_at = Confounded.of(evidence, known)
        (gap, before), (closed, after) = (confounded_at.value("advantage", factor) for factor in (1.0, 1.5))
        assert closed < 0.05 < gap
        assert 0.9 * before < after < 1.6 * before


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7])
def test_errors_of_gaps_equal_those_of_a_pass_over_all_records_at_each_threshold(
    units: bool, ties: bool, factor: float
) -> None:
    """The twin counts each non-member anew at each of 24 thresholds."""
    evidence, p = confounded.Confounded(effect=0.5).draw(150, 230, rng(4))
    score = np.round(2 * evidence.score) if ties else evidence.score
    unit = np.arange(evidence.n) // 4 * 2 + evidence.member if units else None
    at = Confounded.of(evidence.replace(score=score, unit=unit), p)
    roc, outside = at.comparison.roc, ~at.comparison.member
    vertex, many = roc.blocks_of(at.comparison.score[outside]), at._many_above(factor)
    errors = []
    for place in np.unique(np.linspace(1, len(roc.threshold) - 1, sensitivity._THRESHOLDS).astype(int)):
        above = (vertex <= place).astype(float)
        counted = np.where(many <= place, above / factor + 1 - 1 / factor, factor * above)
        of_members = np.sqrt(roc.tpr[place] * (1 - roc.tpr[place]) / at.comparison.effective_members)
        errors.append(np.hypot(of_members, at._spread(counted)))
    assert at.value("advantage", factor)[1] == pytest.approx(max(errors), rel=1e-12)
    assert max(errors) > 1.02 * errors[0]  # a threshold of its own would not do


def test_the_error_of_an_advantage_is_that_of_its_worst_threshold() -> None:
    """A second truth: the spread of a share at the median of both classes, by resampling."""
    draws = rng(4)
    score = draws.normal(size=3000)
    evidence = Evidence(score=score, member=np.arange(3000) < 1000)
    even = SimpleNamespace(values=np.full(3000, 0.5), odds=np.ones(3000), features=None)
    inside, outside = score[:1000], score[1000:]
    gaps = [np.mean(draws.choice(inside, 1000) > 0) - np.mean(draws.choice(outside, 2000) > 0) for _ in range(2000)]
    assert Confounded.of(evidence, even).value("advantage", 1.0)[1] == pytest.approx(np.std(gaps), rel=0.06)


@pytest.mark.parametrize("metric", ["auc", "advantage", "ate"])
def test_a_law_narrows_the_bounds(metric: str) -> None:
    """Where the covariates say most of the score, little is left for a trait to decide."""
    draws = rng(3)
    x = draws.normal(size=(2000, 1))
    odds = np.exp(0.5 * x[:, 0])
    member = draws.random(2000) < odds / (1 + odds)
    p = SimpleNamespace(values=odds / (1 + odds), odds=odds, features=x, folds=None)
    widths = {}
    for name, noise in (("known", 0.3), ("unknown", 3.0)):
        score = x[:, 0] + noise * draws.normal(size=2000) + 0.3 * noise * member
        evidence = Evidence(score=score, member=member, covariates=x, design="zero-run")
        law = law_of(LocationScale(), evidence, p, rng())
        ranges = [sensitivity.bounds(evidence, p, odds_factor=1.5, metric=metric, law=one) for one in (None, law)]
        widths[name] = [high - low for low, high in ranges]
    assert widths["known"][1] < 0.6 * widths["known"][0]
    assert widths["unknown"][1] == pytest.approx(widths["unknown"][0], rel=0.15)


def test_at_a_low_rate_the_curve_is_read_at_a_factor_less() -> None:
    """No covariate says that so few of its records are above: each counts L times."""
    evidence, p = confounded.Confounded(effect=0.8).draw(3000, 3000, rng(6))
    held = Confounded.of(evidence, p)
    assert held.read_at(0.01, 2.0) == pytest.approx(0.005, abs=2e-4)
    assert held.read_at(0.01, 0.5) == pytest.approx(0.02, abs=2e-4)
    for factor in (1.5, 4.0):
        low, high = sensitivity.tpr_bounds(evidence, p, fpr=0.1, odds_factor=factor)
        estimate = effects.roc(evidence, p).tpr_at(0.1)
        assert low < estimate < high


def test_a_planted_trait_is_inside_its_own_factor_and_outside_a_smaller_one() -> None:
    """Nothing is memorised; a trait multiplies the odds by 1.5 or divides them, and decides the score."""
    factor, n = 1.5, 200_000
    evidence, odds = planted_trait.draw(factor, n, rng(5))
    p = SimpleNamespace(values=odds / (1 + odds), odds=odds, features=None)
    assert effects.auc(evidence, p, rng=rng()).value > 0.57
    assert effects.roc(evidence, p).tpr_at(0.1) > 0.13
    for alpha in (0.01, 0.1, 0.3):
        assert sensitivity.tpr_bounds(evidence, p, fpr=alpha, odds_factor=1.03 * factor)[0] < alpha
        assert sensitivity.tpr_bounds(evidence, p, fpr=alpha, odds_factor=0.87 * factor)[0] > alpha


def test_no_trait_explains_scores_that_do_not_overlap() -> None:
    """Without a non-member above any member, each threshold between them has an FPR of 0 at any factor."""
    evidence, p = confounded.Confounded().draw(300, 300, rng(6))
    apart = evidence.replace(score=evidence.member + 0.01 * evidence.score / np.abs(evidence.score).max())
    for factor in (2.0, 50.0):
        assert sensitivity.tpr_bounds(apart, p, fpr=0.1, odds_factor=factor) == (1.0, 1.0)
        assert sensitivity.bounds(apart, p, odds_factor=factor) == pytest.approx((1.0, 1.0))
        assert sensitivity.bounds(apart, p, odds_factor=factor, metric="advantage") == pytest.approx((1.0, 1.0))


def test_bad_input() -> None:
    evidence, p = confounded.Confounded().draw(5, 9, rng(0))
    with pytest.raises(InputError, match="odds_factor"):
        sensitivity.bounds(evidence, p, odds_factor=0.5)
    with pytest.raises(InputError, match="metric"):
        sensitivity.bounds(evidence, p, odds_factor=2, metric="tpr")
    with pytest.raises(InputError, match="fpr"):
        sensitivity.tpr_bounds(evidence, p, fpr=1.0, odds_factor=2)

"""How often a challenger wins with an attack that is no better than the bundle's: at most 5%, whatever the design.

Two attacks are drawn with the same AUC, or the same TPR at the FPR that decides, from known distributions: noise that
both share (so that pairing matters), a normal shift, or a few members that stand out. The controls are limits that
are wrong on purpose: without pairing nobody wins, and without paying for several challenges too many do.
"""

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.bundle import challenge, record
from miaudit.causal import replicates

pytestmark = pytest.mark.slow
RUNS, REPLICATES = 120, 150
LEVEL = 0.05


def limit(runs, rate=LEVEL):
    """What at most 1 in 1000 simulations of a valid rule exceed."""
    return stats.binom.ppf(0.999, runs, rate) / runs


def pair(rng, n, alpha, shapes, units=1):
    """Scores of two attacks of equal TPR at ``alpha`` (and equal AUC where the shapes are equal), and membership."""
    member = np.repeat(np.arange(n // units) % 2 == 0, units)
    common = 0.6 * rng.normal(size=n // units).repeat(units) + 0.8 * rng.normal(size=n)

    def attack(shape):
        z = 0.5**0.5 * (common + rng.normal(size=n))
        tail = stats.norm.isf(alpha)
        if shape == "shift":
            return z + member
        share = (stats.norm.sf(tail - 1) - alpha) / (stats.norm.sf(tail - 6) - alpha)
        return z + 6 * (member & (rng.random(n) < share))

    unit = np.arange(n) // units if units > 1 else None
    return [ma.Evidence(score=attack(shape), member=member, unit=unit) for shape in shapes]


def wins(metric, alpha, n, shapes, units=1, odds=None, confidence=1 - 2 * LEVEL, runs=RUNS):
    count = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n, units])
        first, second = pair(rng, n, alpha, shapes, units)
        weights = None if odds is None else odds(rng, n)
        found = replicates.difference(
            first, second, odds=weights, fpr_targets=(alpha,), confidence=confidence, replicates=REPLICATES, rng=rng
        )
        count += found[metric].low > 0
    return count / runs


SHIFT, MIXED = ("shift", "shift"), ("few", "shift")


@pytest.mark.parametrize("units", [1, 4])
@pytest.mark.parametrize("n", [200, 1000])
def test_equal_aucs(n, units):
    assert wins("auc", 0.1, n, SHIFT, units) <= limit(RUNS)


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 200), (0.1, 1000), (0.01, 1000), (0.01, 2000)])
@pytest.mark.parametrize("shapes", [SHIFT, MIXED, MIXED[::-1]], ids="-".join)
def test_equal_tprs(alpha, n, shapes):
    member = np.arange(n) % 2 == 0
    assert replicates.resolves(ma.Evidence(score=np.zeros(n), member=member), alpha)
    assert wins(f"tpr_at_fpr_{alpha:g}", alpha, n, shapes) <= limit(RUNS)


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 400), (0.01, 4000)])
def test_equal_tprs_with_units(alpha, n):
    assert wins(f"tpr_at_fpr_{alpha:g}", alpha, n, MIXED[::-1], units=4, runs=60) <= limit(60)


@pytest.mark.parametrize("metric", ["auc", "tpr_at_fpr_0.1"])
def test_equal_attacks_with_zero_run_odds(metric):
    """Odds that vary twentyfold, and have nothing to do with the scores: the two stay equally good."""
    assert wins(metric, 0.1, 400, SHIFT, odds=lambda rng, n: np.exp(0.7 * rng.normal(size=n))) <= limit(RUNS)


def test_one_false_alarm_would_be_too_few():
    """The control for the least number of false alarms: below it the rule is refused, since it wins too often."""
    n = 200
    assert not replicates.resolves(ma.Evidence(score=np.zeros(n), member=np.arange(n) % 2 == 0), 0.01)
    assert wins("tpr_at_fpr_0.01", 0.01, n, ("shift", "few"), runs=400) > limit(400)


@pytest.mark.parametrize("seal", [False, True])
def test_whole_challenges_open_and_sealed(seal):
    """From a bundle to an outcome, with an attack as good as the bundle's."""
    won, runs = 0, 25
    plan = Plan(headline=Declared("score"), primary_metric="auc", bounds=None, fpr_targets=(0.1,))
    for seed in range(runs):
        rng = np.random.default_rng([seed, 11])
        theirs, own = pair(rng, 200, 0.1, SHIFT)
        _, bundle, keys = record(own.replace(design="one-run"), plan=plan, rng=rng, seal=seal)
        submitted = theirs.score if keys.order is None else theirs.score[keys.order]
        opening = (
            keys
            if keys.order is None
            else keys.opening(bundle.mark, [challenge.by_scores(bundle, submitted, rng=rng).submission])
        )
        found = challenge.by_scores(bundle, submitted, keys=opening, rng=rng)
        won += found.status == "won"
        assert found.judged == (100 if seal else 200)
    assert won / runs <= limit(runs)


def test_without_pairing_a_stronger_attack_is_not_seen():
    """The control for pairing: independent limits miss a difference that shared noise makes plain."""
    seen = alone = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        common, member = rng.normal(size=600), np.arange(600) % 2 == 0
        strong, weak = (ma.Evidence(score=common + gap * member, member=member) for gap in (0.8, 0.6))
        limits = [replicates.difference(strong, weak, replicates=REPLICATES, confidence=0.9, rng=rng)["auc"]]
        shuffled = np.roll(np.arange(600), 20)  # within members, and within non-members
        limits.append(
            replicates.difference(strong, weak.take(shuffled), replicates=REPLICATES, confidence=0.9, rng=rng)["auc"]
        )
        seen, alone = seen + (limits[0].low > 0), alone + (limits[1].low > 0)
    assert seen > 0.95 * 40
    assert alone < 0.5 * 40


def test_uncorrected_challenges_win_too_often():
    """The control for multiplicity: of ten challengers as good as the bundle one wins far more often than 5%."""
    paid = unpaid = 0
    runs = 60
    for seed in range(runs):
        rng = np.random.default_rng([seed, 9])
        n, member = 300, np.arange(300) % 2 == 0
        own = ma.Evidence(score=rng.normal(size=n) + member, member=member)
        lows = []
        for before in range(10):
            other = ma.Evidence(score=rng.normal(size=n) + member, member=member)
            both = [
                replicates.difference(other, own, confidence=c, replicates=100, rng=np.random.default_rng(before))[
                    "auc"
                ]
                for c in (1 - 2 * LEVEL, 1 - 2 * LEVEL / 10)
            ]
            lows.append([e.low > 0 for e in both])
        unpaid, paid = unpaid + any(a for a, _ in lows), paid + any(b for _, b in lows)
    assert paid / runs <= limit(runs)
    assert unpaid / runs > limit(runs)

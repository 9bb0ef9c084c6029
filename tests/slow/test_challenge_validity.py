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
REPLICATES = 150
LEVEL = 0.05


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


def wins(metric, alpha, n, shapes, units=1, odds=None, confidence=1 - 2 * LEVEL):
    """Return the replicate: whether the challenger wins, and whether it wins by an interval of half the width."""

    def replicate(rng):
        first, second = pair(rng, n, alpha, shapes, units)
        weights = None if odds is None else odds(rng, n)
        found = replicates.difference(
            first, second, odds=weights, fpr_targets=(alpha,), confidence=confidence, replicates=REPLICATES, rng=rng
        )[metric]
        return {"wins": found.low > 0, "wins, half the width": 3 * found.low + found.high > 0}

    return replicate


SHIFT, MIXED = ("shift", "shift"), ("few", "shift")
HOLDS, FAILS = {"wins": LEVEL}, {"wins, half the width": LEVEL}


@pytest.mark.validity
@pytest.mark.parametrize("units", [1, 4])
@pytest.mark.parametrize("n", [200, 1000])
def test_equal_aucs(claim, n, units):
    claim(wins("auc", 0.1, n, SHIFT, units), holds=HOLDS, fails=FAILS)


@pytest.mark.validity
@pytest.mark.parametrize(("alpha", "n"), [(0.1, 200), (0.1, 1000), (0.01, 1000), (0.01, 2000)])
@pytest.mark.parametrize("shapes", [SHIFT, MIXED, MIXED[::-1]], ids="-".join)
def test_equal_tprs(claim, alpha, n, shapes):
    member = np.arange(n) % 2 == 0
    assert replicates.resolves(ma.Evidence(score=np.zeros(n), member=member), alpha)
    claim(wins(f"tpr_at_fpr_{alpha:g}", alpha, n, shapes), holds=HOLDS, fails=FAILS)


@pytest.mark.validity
@pytest.mark.parametrize(("alpha", "n"), [(0.1, 400), (0.01, 4000)])
def test_equal_tprs_with_units(claim, alpha, n):
    claim(wins(f"tpr_at_fpr_{alpha:g}", alpha, n, MIXED[::-1], units=4), holds=HOLDS, fails=FAILS)


@pytest.mark.validity
@pytest.mark.parametrize("metric", ["auc", "tpr_at_fpr_0.1"])
def test_equal_attacks_with_zero_run_odds(claim, metric):
    """Odds that vary twentyfold, and have nothing to do with the scores: the two stay equally good."""
    odds = lambda rng, n: np.exp(0.7 * rng.normal(size=n))  # noqa: E731
    claim(wins(metric, 0.1, 400, SHIFT, odds=odds), holds=HOLDS, fails=FAILS)


@pytest.mark.validity
def test_one_false_alarm_would_be_too_few(claim):
    """The control for the least number of false alarms: below it the rule is refused, since it wins too often."""
    n = 200
    assert not replicates.resolves(ma.Evidence(score=np.zeros(n), member=np.arange(n) % 2 == 0), 0.01)
    claim(wins("tpr_at_fpr_0.01", 0.01, n, ("shift", "few")), fails={"wins": LEVEL})


@pytest.mark.validity
@pytest.mark.parametrize("seal", [False, True])
def test_whole_challenges_open_and_sealed(claim, seal):
    """From a bundle to an outcome, with an attack as good as the bundle's; a much better one has to win."""
    plan = Plan(headline=Declared("score"), primary_metric="auc", bounds=None, fpr_targets=(0.1,))

    def outcome(rng, better):
        theirs, own = pair(rng, 200, 0.1, SHIFT)
        theirs = theirs.replace(score=theirs.score + better * theirs.member)
        _, bundle, keys = record(own.replace(design="one-run"), plan=plan, rng=rng, seal=seal)
        submitted = theirs.score if keys.order is None else theirs.score[keys.order]
        opening = (
            keys
            if keys.order is None
            else keys.opening(bundle.mark, [challenge.by_scores(bundle, submitted, rng=rng).submission])
        )
        found = challenge.by_scores(bundle, submitted, keys=opening, rng=rng)
        assert found.judged == (100 if seal else 200)
        return found.status == "won"

    claim(lambda rng: {"won": outcome(rng, 0.0)}, holds={"won": LEVEL})
    claim(lambda rng: {"won by a better attack": outcome(rng, 2.0)}, fails={"won by a better attack": LEVEL})


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


@pytest.mark.validity
def test_uncorrected_challenges_win_too_often(claim):
    """The control for multiplicity: of ten challengers as good as the bundle one wins far more often than 5%."""
    n, member = 300, np.arange(300) % 2 == 0

    def replicate(rng):
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
        return {"unpaid": any(a for a, _ in lows), "paid": any(b for _, b in lows)}

    claim(replicate, holds={"paid": LEVEL}, fails={"unpaid": LEVEL})

"""Tilted weights are right where the propensity is wrong and regressions are right; without any nothing is tilted."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, special, stats

from miaudit.causal import effects
from miaudit.causal.prognostic_tilt import _balancing, _orthogonal, tilted
from miaudit.evidence import Evidence


class Known:
    """The law of Y(0) given x where Y(0) = f(x) + N(0, 1), as the true regressions would say it."""

    def __init__(self, f, n_nodes=41):
        self.f, self.calls = f, 0
        self.nodes, weight = np.polynomial.hermite_e.hermegauss(n_nodes)
        self.mass = weight / weight.sum()

    def expected(self, function):
        return function(self.f[:, None] + self.nodes) @ self.mass

    def exceedance(self, threshold):
        self.calls += 1
        return stats.norm.sf(threshold - self.f)


class Nothing(Known):
    """Regressions that say the same of every record."""

    def expected(self, function):
        return np.full(len(self.f), 0.5)

    def exceedance(self, threshold):
        return np.full(len(self.f), 0.1)


def world(seed, n=4000, leak=0.0):
    """A ring of two covariates moves score and membership; a propensity that is constant knows nothing of it."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    f = 1.5 * np.sin(2 * np.hypot(*x.T))
    member = rng.random(n) < special.expit(f)
    score = f + rng.normal(size=n) + leak * member
    evidence = Evidence(score=score, member=member, covariates=x, design="zero-run")
    return evidence, f, SimpleNamespace(values=np.full(n, 0.5), odds=np.ones(n), features=None)


def tprs(leak, replicates=20):
    """TPR at 10% by the tilted weights, by those of the constant propensity, and by the true odds."""
    rows = []
    for seed in range(replicates):
        evidence, f, ignorant = world(seed, leak=leak)
        once, _ = tilted(evidence, ignorant, Known(f), (0.1,))
        right = SimpleNamespace(values=special.expit(f), odds=np.exp(f), features=None)
        rng = np.random.default_rng(0)
        rows.append([effects.tpr_at_fpr(evidence, w, fpr=0.1, rng=rng).value for w in (once, ignorant, right)])
    return np.mean(rows, axis=0)


@pytest.mark.long
@pytest.mark.parametrize("leak", [0.0, 0.5])
def test_regressions_alone_make_the_tpr_right_and_a_wrong_propensity_alone_does_not(leak):
    by_tilt, by_nothing, by_truth = tprs(leak)
    assert by_tilt == pytest.approx(by_truth, abs=0.012)
    assert by_nothing > by_truth + 0.04  # the control


def test_weighted_nonmembers_have_the_members_means_of_what_is_predicted():
    evidence, f, ignorant = world(1)
    law = Known(f)
    once, twice = tilted(evidence, ignorant, law, (0.1,))
    out = ~evidence.member
    above = effects.share_above(evidence.score[evidence.member])
    before, after = (np.average(law.expected(above)[out], weights=w.odds[out]) for w in (ignorant, once))
    target = law.expected(above)[evidence.member].mean()
    assert after == pytest.approx(target, abs=2e-4)
    assert abs(before - target) > 0.05
    for one in (once, twice):
        assert one.odds[evidence.member] == pytest.approx(1.0)
        assert one.odds[out].sum() == pytest.approx(out.sum())
        assert ((one.values > 0) & (one.values < 1)).all()
    by_once, by_twice = (np.log(one.odds[out]) for one in (once, twice))
    assert by_twice - by_twice.mean() == pytest.approx(2 * (by_once - by_once.mean()))


def test_where_regressions_say_nothing_or_no_weights_would_do_nothing_is_tilted():
    evidence, f, ignorant = world(2)
    assert tilted(evidence, ignorant, Nothing(f), (0.1,)) is None
    apart = Known(np.where(evidence.member, 5.0, -5.0) + np.linspace(-1, 1, evidence.n))  # beyond all non-members
    assert tilted(evidence, ignorant, apart, (0.1,)) is None


def test_a_rate_that_too_few_nonmembers_resolve_has_no_function():
    evidence, f, ignorant = world(3)
    law = Known(f)
    tilted(evidence, ignorant, law, (0.1, 1e-4))
    assert law.calls == 1  # at 10% alone
    few = evidence.take(np.arange(60))
    assert tilted(few, SimpleNamespace(odds=np.ones(60)), Known(f[:60]), (1e-4,)) is not None  # by the AUC's function


def test_lambda_is_that_of_an_optimiser_and_of_the_closed_form():
    rng = np.random.default_rng(0)
    centred, share = rng.normal(size=(500, 3)) + [0.3, -0.2, 0.1], rng.dirichlet(np.ones(500))
    found = _balancing(centred, share)

    def loss(tilt):
        return np.log(share @ np.exp(centred @ tilt)) + 1e-4 * tilt @ tilt / 2

    other = optimize.minimize(loss, np.zeros(3), tol=1e-12)
    assert found == pytest.approx(other.x, abs=1e-4)
    # One function of two values, a share p of weight on 1, target q: lambda = logit(q) - logit(p) but for the ridge.
    two, share, q = np.r_[np.ones(100), np.zeros(300)], np.full(400, 1 / 400), 0.4
    assert _balancing((two - q)[:, None], share) == pytest.approx(special.logit(q) - special.logit(0.25), abs=2e-3)


def test_a_lambda_that_whole_newton_steps_would_overshoot_is_that_of_one_equation():
    """A thousandth of the weight is on 1 and nine tenths are wanted there: the first step would be 900 and not 9."""
    two, share, target = np.r_[1.0, np.zeros(999)], np.full(1000, 1e-3), 0.9

    def gradient(tilt):
        return special.expit(special.logit(1e-3) + tilt) - target + 1e-4 * tilt

    assert _balancing((two - target)[:, None], share) == pytest.approx(optimize.brentq(gradient, 0, 50), rel=1e-6)


def test_functions_become_orthogonal_and_one_that_is_not_new_is_left_out():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 1000))
    out, share = np.arange(1000) % 2 == 0, np.full(500, 1 / 500)
    functions = np.column_stack([first, first + 0.1 * second, second, np.ones(1000)])
    new = _orthogonal(functions, out, share)[out]
    assert new.shape == (500, 2)
    assert np.abs(new).max() <= 3.0
    assert np.abs(np.corrcoef(new.T)[0, 1]) < 0.02
    assert new.std(axis=0) == pytest.approx(1.0, abs=0.02)

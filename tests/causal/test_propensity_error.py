"""Delta of Theorem 6.4: what a bootstrap and rivals see of it, where they must fail, and what it bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from miaudit.causal import propensity as propensities
from miaudit.causal import propensity_error
from miaudit.causal.concentration import zero_run_ate
from miaudit.causal.propensity import Propensity
from miaudit.causal.propensity_error import Rival
from miaudit.errors import InputError
from miaudit.evidence import Evidence


def line(x):
    return 0.7 * x[:, 0]


def band(x):
    return np.where(np.abs(x[:, 0]) < 0.5, 1.1, -0.4)


def fine_wave(x):
    return np.sin(60 * x[:, 0])


def world(log_odds, n: int, rng: np.random.Generator, columns: int = 2):
    x = rng.normal(size=(n, columns))
    pi = special.expit(log_odds(x))
    member = rng.random(n) < pi
    return Evidence(score=rng.normal(size=n), member=member, covariates=x, design="zero-run"), pi


def test_delta_is_the_printed_mean_over_non_members() -> None:
    """By numerical integration over the law of x given A = 0, with a line that is wrong on purpose."""
    evidence, pi = world(line, 400_000, np.random.default_rng(0), columns=1)
    wrong = special.expit(0.4 * evidence.covariates[:, 0] + 0.1)  # type: ignore[index]
    outside = integrate.quad(lambda x: stats.norm.pdf(x) * special.expit(-0.7 * x), -9, 9)[0]

    def distance(x: float) -> float:
        return stats.norm.pdf(x) * special.expit(-0.7 * x) * abs(math.exp(0.7 * x) - math.exp(0.4 * x + 0.1))

    exact = integrate.quad(distance, -9, 9, points=[1 / 3])[0] / outside
    assert propensity_error.of_known(evidence, wrong, pi) == pytest.approx(exact, rel=0.02)
    assert propensity_error.of_known(evidence, pi, pi) == 0


@pytest.mark.thorough
def test_the_bootstrap_covers_its_own_family_and_never_a_band() -> None:
    """The control: of a model that is wrong a bootstrap sees nothing, and its limit is a small part of Delta."""
    covers = {"line": 0, "band": 0}
    runs = 12
    for rng in np.random.default_rng(1).spawn(runs):
        for name, log_odds in (("line", line), ("band", band)):
            evidence, pi = world(log_odds, 600, rng)
            fitted = propensities.fit(evidence, rng=rng)
            error = propensity_error.estimate(evidence, fitted, rivals=[], rng=rng)
            assert 0 < error.noise <= error.noise_upper == error.upper
            assert error.at_least == 0
            covers[name] += error.noise_upper >= propensity_error.of_known(evidence, fitted, pi)
    assert covers["line"] >= 0.8 * runs
    assert covers["band"] == 0


@pytest.mark.long
def test_a_rival_that_is_right_shows_what_is_missing() -> None:
    """With the true propensities as the rival: the lower limit holds, and most of Delta is proven."""
    too_high, share = 0, []
    for rng in np.random.default_rng(2).spawn(20):
        evidence, pi = world(band, 1500, rng)
        fitted = propensities.fit(evidence, rng=rng)
        replicates = np.tile(fitted.values, (20, 1))
        right = Rival(Propensity.given(pi))
        error = propensity_error.estimate(evidence, fitted, replicates=replicates, rivals=[right], rng=rng)
        delta = propensity_error.of_known(evidence, fitted, pi)
        assert error.rivals == (pytest.approx(delta),)
        assert error.noise_upper == 0
        too_high += error.at_least > delta
        share.append(error.at_least / delta)
    assert too_high <= 3  # at 5%
    assert np.mean(share) > 0.7


@pytest.mark.long
def test_the_lower_limit_holds_where_nothing_is_missing() -> None:
    """Rivals of noise against the truth, at 5% for both together; without the allowance for chance it fails."""
    false, bare = 0, 0
    runs = 200
    for rng in np.random.default_rng(3).spawn(runs):
        evidence, pi = world(line, 400, rng)
        truth = Propensity(pi, "true", folds=np.arange(400) % 2)
        rivals = [Rival(Propensity.given(special.expit(np.log(pi / (1 - pi)) + rng.normal(0, 0.3, 400)))) for _ in "ab"]
        options = {"replicates": np.tile(pi, (20, 1)), "rivals": rivals}
        false += propensity_error.estimate(evidence, truth, **options, rng=rng).at_least > 0
        bare += propensity_error.estimate(evidence, truth, **options, confidence=0.501, rng=rng).at_least > 0
    assert false <= runs * 0.05 + 3 * math.sqrt(runs * 0.05 * 0.95)
    assert bare > 0.3 * runs


def test_units_are_counted_and_not_their_records() -> None:
    rng = np.random.default_rng(4)
    evidence, pi = world(band, 300, rng)
    copies = np.tile(np.arange(300), 5)
    many = Evidence(
        score=evidence.score[copies], member=evidence.member[copies], covariates=evidence.covariates[copies],  # type: ignore[index]
        unit=copies, design="zero-run",
    )  # fmt: skip
    flat = np.full(300, evidence.member.mean())

    def limit(ev: Evidence, rows: np.ndarray) -> float:
        fitted = Propensity(flat[rows], "flat", folds=rows % 2)
        rival = [Rival(Propensity.given(pi[rows]))]
        replicates = np.tile(flat[rows], (20, 1))
        return propensity_error.estimate(ev, fitted, replicates=replicates, rivals=rival, rng=rng).at_least

    assert limit(many, copies) == pytest.approx(limit(evidence, np.arange(300)))


@pytest.mark.thorough
def test_defaults_prove_a_band_for_a_line_and_cover_it_but_not_what_no_model_sees() -> None:
    """The stack as rival. The control, a wave finer than the records: both limits must miss most of Delta."""
    rng = np.random.default_rng(5)
    evidence, pi = world(band, 2000, rng)
    fitted = propensities.fit(evidence, rng=rng)
    error = propensity_error.estimate(evidence, fitted, rng=rng)
    delta = propensity_error.of_known(evidence, fitted, pi)
    assert error.noise_upper < 0.2 * delta < error.at_least < delta < error.upper
    stack = propensities.stacked(evidence, folds=fitted.folds, rng=rng)
    better = propensity_error.estimate(evidence, stack, rng=rng)
    assert propensity_error.of_known(evidence, stack, pi) < 0.5 * delta
    assert better.at_least < error.at_least
    unseen, pi = world(fine_wave, 2000, rng)
    missed = propensity_error.estimate(unseen, blind := propensities.fit(unseen, rng=rng), rng=rng)
    assert missed.upper < 0.7 * propensity_error.of_known(unseen, blind, pi)
    assert missed.at_least < 0.4 * missed.upper


def test_a_mean_of_values_in_zero_to_one_is_off_by_the_error_at_most() -> None:
    """The worst function: weights over n1, and divided by their sum; three non-members for each member (A1)."""
    for rng in np.random.default_rng(6).spawn(50):
        outside = 300
        truth = rng.exponential(1.0, outside)
        truth *= 100 / truth.sum()  # n1 = 100
        learned = truth * np.exp(rng.normal(0, 0.5, outside)) * rng.uniform(0.5, 1.5)
        error = propensity_error.PropensityError(
            0.0, 0.0, (), 0.0, float(np.abs(learned - truth).mean()), 0.95, ratio=3.0, eta=0.5
        )
        best = (learned > truth).astype(float)
        over_n1 = max(abs(((learned - truth) * g).sum()) / 100 for g in (best, 1 - best))
        sign = learned / learned.sum() > truth / truth.sum()
        hajek = abs((learned / learned.sum() - truth / truth.sum())[sign].sum())
        assert max(over_n1, hajek) <= error.metric_error + 1e-12
        assert over_n1 > 0.3 * error.metric_error  # by more than a formality


def test_the_radius_of_the_theorem_takes_the_estimate() -> None:
    error = propensity_error.PropensityError(0.0, 0.0, (), 0.0, 0.1, 0.95, ratio=3.0, eta=0.25)
    counts = {"members": 100, "nonmembers": 300, "confidence": 0.95, "error_stability": 0, "training_stability": 0}
    known = zero_run_ate(**counts, overlap=error.eta)
    learned = zero_run_ate(**counts, overlap=error.eta, propensity_error=error.upper)
    assert learned.radius - known.radius == pytest.approx(error.metric_error) == pytest.approx(0.3)


def test_what_cannot_be_estimated_is_refused_in_one_line() -> None:
    rng = np.random.default_rng(7)
    evidence, pi = world(line, 200, rng)
    fitted = propensities.fit(evidence, rng=rng)
    elsewhere = propensities.fit(evidence, train=world(line, 200, rng)[0], rng=rng)
    for propensity, options, text in (
        (Propensity.given(pi), {}, "propensity: expected a learned one, received given values"),
        (elsewhere, {}, "replicates: expected an array .K, 200. for a propensity of another model"),
        (fitted, {"replicates": np.full((5, 200), 0.5)}, "at least 20 replicates, received shape .5, 200."),
        (fitted, {"replicates": np.ones((20, 200))}, "replicates: expected probabilities strictly between 0 and 1"),
        (fitted, {"rivals": [Rival(Propensity.given(pi[:50]))]}, "propensity: expected 200 values"),
    ):
        with pytest.raises(InputError, match=text):
            propensity_error.estimate(evidence, propensity, **options, rng=rng)  # type: ignore[arg-type]

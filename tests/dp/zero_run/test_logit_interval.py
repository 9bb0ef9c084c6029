"""Half-widths: standard errors against a simulation, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.propensity import Propensity
from miaudit.dp.zero_run.logit_interval import Scheffe, StandardErrors, half_width, standard_errors
from miaudit.errors import InputError


def sample(n: int, d: int, rng: np.random.Generator) -> tuple[Evidence, np.ndarray]:
    x = rng.normal(size=(n, d))
    logit = x.sum(axis=1) / math.sqrt(d)
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    return Evidence(score=logit, member=member, covariates=x, design="zero-run"), logit


@pytest.mark.long
def test_standard_errors_are_the_spread_of_the_estimate_or_a_little_more() -> None:
    """A little more, since the share of members is known, and the intercept's error counts as if it were not."""
    rng = np.random.default_rng(0)
    audited, truth = sample(400, 4, rng)
    truth = truth + math.log(audited.n_members / audited.n_nonmembers)  # given how many there are (erratum B15)
    estimates, errors = [], []
    for _ in range(60):
        train, _ = sample(1500, 4, rng)
        found = propensity.fit(audited, train=train, strength=100.0, rng=rng)
        estimates.append(found.logit)
        errors.append(standard_errors(found))
    spread, claimed = np.std(estimates, axis=0, ddof=1), np.mean(errors, axis=0)
    assert 0.75 < np.median(spread / claimed) < 1.02
    within = np.mean(np.abs(np.array(estimates) - truth) <= 2 * np.array(errors))
    assert within > 0.92


def test_the_bootstrap_spread_agrees_with_the_information() -> None:
    rng = np.random.default_rng(1)
    ev, _ = sample(3000, 3, rng)
    found = propensity.fit(ev, strength=100.0, rng=rng)
    drawn = propensity.bootstrap(ev, replicates=200, folds=found.folds, strength=100.0, rng=rng)
    ratio = standard_errors(found, drawn) / standard_errors(found)
    assert np.median(ratio) == pytest.approx(1, abs=0.12)


def test_units_count_and_not_their_records() -> None:
    ev, _ = sample(1000, 2, np.random.default_rng(2))
    found = propensity.fit(ev, rng=np.random.default_rng(3))
    assert standard_errors(found, units=0.25) == pytest.approx(2 * standard_errors(found))


def test_scheffe_is_wider_and_charged() -> None:
    ev, _ = sample(1000, 5, np.random.default_rng(4))
    found = propensity.fit(ev, rng=np.random.default_rng(5))
    two, band = half_width(None, found, 0.05), half_width(Scheffe(), found, 0.05)
    assert (band.values > 1.5 * two.values).all()
    assert band.cost == 0.025
    assert two.cost == 0.0
    assert half_width(StandardErrors(1), found, 0.05).values == pytest.approx(two.values / 2)


def test_given_propensities_have_no_error() -> None:
    given = Propensity.given([0.3, 0.6])
    for chosen in (None, StandardErrors(), Scheffe()):
        assert half_width(chosen, given, 0.05).values.tolist() == [0, 0]
        assert half_width(chosen, given, 0.05).cost == 0


@pytest.mark.parametrize("chosen", [-0.1, math.nan, math.inf, "0.2", True, [0.1], [0.1, -0.1], object()])
def test_what_is_no_half_width_is_refused(chosen: object) -> None:
    with pytest.raises(InputError, match="half_width: expected a finite number, 0 or more"):
        half_width(chosen, Propensity.given([0.3, 0.6]), 0.05)


def test_another_classifier_needs_replicates() -> None:
    from sklearn.naive_bayes import GaussianNB

    ev, _ = sample(600, 2, np.random.default_rng(6))
    found = propensity.fit(ev, classifier=GaussianNB(), rng=np.random.default_rng(7))
    with pytest.raises(InputError, match="pass replicates"):
        half_width(None, found, 0.05)
    drawn = np.clip(found.values + 0.01 * np.random.default_rng(8).normal(size=(50, 600)), 0.01, 0.99)
    assert (half_width(None, found, 0.05, drawn).values > 0).all()


@pytest.mark.parametrize("multiple", [0, -1, math.nan, math.inf])
def test_a_multiple_is_above_0(multiple: float) -> None:
    with pytest.raises(InputError, match="multiple: expected a number above 0"):
        StandardErrors(multiple)


def test_columns_that_are_copies_change_nothing() -> None:
    ev, _ = sample(1500, 3, np.random.default_rng(7))
    assert ev.covariates is not None
    doubled = ev.replace(covariates=np.c_[ev.covariates, ev.covariates[:, :1], -2 * ev.covariates[:, 1:2]])
    alone, copied = (propensity.fit(e, strength=1e4, rng=np.random.default_rng(0)) for e in (ev, doubled))
    np.testing.assert_allclose(standard_errors(copied), standard_errors(alone), rtol=1e-3)

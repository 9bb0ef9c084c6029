"""A line enlarged by the splines and products that its training rows call for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from miaudit import Evidence
from miaudit.causal import covariates, logistic, propensity
from miaudit.causal.screen import LEVEL, Again, Candidates, Fitted, Screen
from miaudit.dp import zero_run
from miaudit.dp.zero_run.independent_guesses import standard_errors
from miaudit.errors import InputError

N = 3000


def world(product: float, seed: int = 0, n: int = N, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    logit = 0.4 * x[:, 0] + product * x[:, 0] * x[:, 1]
    return x, rng.random(n) < special.expit(logit), logit


def slow_fit(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Newton's method written out: coefficients and the largest log-likelihood, no penalty."""
    ones = np.column_stack([np.ones(len(x)), x])
    beta = np.zeros(ones.shape[1])
    for _ in range(30):
        p = special.expit(ones @ beta)
        beta += np.linalg.solve(ones.T @ (ones * (p * (1 - p))[:, None]), ones.T @ (y - p))
    p = special.expit(ones @ beta)
    return p, float(y @ np.log(p) + (1 - y) @ np.log1p(-p))


@pytest.mark.parametrize("product", [0.0, 0.1, 0.3])
def test_score_statistics_are_those_of_the_whole_information_and_near_likelihood_ratios(product: float) -> None:
    x, member, _ = world(product)
    y = member.astype(float)
    candidates = Candidates.of(x, ["a", "b", "c"])
    main, every = candidates.basis(x), np.arange(len(candidates.pairs))
    z = Fitted.of(logistic.with_ones(x), y).scores(candidates, main, every)
    made = candidates.of_rows(main, every)
    p, without = slow_fit(x, y)
    assert not z[:3].any()  # normal scores of normal columns: the line says all of them
    for k in (3, 4, 8, 12, 14):
        # the textbook score test: U' I^-1 U with the score and information of line and candidate together
        both = np.column_stack([np.ones(N), x, made[:, k]])
        score = both.T @ (y - p)
        slow = score @ np.linalg.solve(both.T @ (both * (p * (1 - p))[:, None]), score)
        assert z[k] ** 2 == pytest.approx(slow, rel=0.01, abs=0.01)
        _, beside = slow_fit(np.column_stack([x, made[:, k]]), y)
        assert z[k] ** 2 == pytest.approx(2 * (beside - without), rel=0.1, abs=0.1)


def test_products_are_held_within_six_on_both_sides_and_splines_are_not() -> None:
    x, _, _ = world(0.0, n=50)
    basis = Candidates.of(x, ["a", "b", "c"]).basis
    candidates = Candidates(basis, np.array([[0, 1], [2, -1]]))
    main = np.array([[4.0, 3.0, 9.0], [-4.0, 3.0, -9.0], [1.0, 2.0, 0.5]])
    assert candidates.of_rows(main, np.array([0, 1])).tolist() == [[6.0, 9.0], [-6.0, -9.0], [2.0, 0.5]]


def constrained(found: np.ndarray, covariance: np.ndarray, out: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of the quadratic form about ``found`` where some coefficients are 0, and the variances there."""
    inside = np.setdiff1d(np.arange(len(found)), out)
    information = np.linalg.inv(covariance)
    step = np.zeros(len(found))
    step[out] = -found[out]
    step[inside] = -np.linalg.solve(information[np.ix_(inside, inside)], information[np.ix_(inside, out)] @ step[out])
    spread = np.zeros(len(found))
    spread[inside] = np.diag(np.linalg.inv(information[np.ix_(inside, inside)]))
    return step, spread


def test_a_resample_leaves_out_what_is_within_the_limit_and_lets_in_what_is_beyond_it() -> None:
    """To first order: the constrained minimum of a quadratic form, and least squares of the candidates."""
    rng = np.random.default_rng(4)
    root = rng.normal(size=(5, 5)) + 3 * np.eye(5)
    covariance = root @ root.T / 100
    spread = np.sqrt(np.diag(covariance))
    found = np.array([0.1, -0.3, 9.0, 1.5, -8.0]) * spread
    beyond, design = rng.normal(size=(4, 5)), rng.normal(size=(60, 5))
    y = (rng.random(60) < 0.5).astype(float)
    none = np.empty((60, 0))
    again = Again(4.0, 2, covariance, design, beyond, none, np.empty((4, 0)), np.empty((0, 0)), y)
    step, left = constrained(found, covariance, [3])
    z = np.abs(found + step)[[2, 4]] / np.sqrt(left[[2, 4]])
    assert (z > 4).all()  # the others stay
    moved = again(np.ones((2, 60)), np.stack([found, 9 * found]))
    assert moved[0] == pytest.approx(beyond @ step)
    assert not moved[1].any()  # all of them are beyond it there

    near, wanted = rng.normal(size=(60, 3)), rng.normal(size=(4, 3))
    gram = near.T @ near
    sure = np.zeros(5)
    residual = y - special.expit(design @ sure)
    scores = residual @ near
    z = np.abs(scores) / np.sqrt(np.diag(gram))
    best, limit = int(np.argmax(z)), float(np.sort(z)[1:].mean())  # below the strongest alone
    coefficient = scores[best] / gram[best, best]
    rest = scores - gram[:, best] * coefficient
    others = np.abs(rest) / np.sqrt(np.diag(gram) - gram[:, best] ** 2 / gram[best, best] + 1e-300)
    others[best] = 0.0
    assert others.max() < limit
    entering = Again(limit, 5, covariance, design, beyond, near, wanted, gram, y)
    assert entering(np.ones((1, 60)), sure[None])[0] == pytest.approx(wanted[:, best] * coefficient)


def test_the_strongest_enters_first_whatever_its_sign() -> None:
    x, _, _ = world(0.0)
    logit = 0.3 * x[:, 0] * x[:, 1] - 0.6 * x[:, 1] * x[:, 2]
    found = Screen.of(x, np.random.default_rng(5).random(N) < special.expit(logit), ["a", "b", "c"])
    assert found.added[:2] == ("a product of b and c", "a product of a and b")


def test_what_enters_is_named_and_what_shifts_nothing_stays_out() -> None:
    x, member, _ = world(0.4)
    found = Screen.of(x, member, ["age", "hours", "pay"])
    assert found.added == ("a product of age and hours",)
    count = len(found.candidates.pairs)
    assert count == 3 * 4 + 3  # a normal score and three bends of each column, and three products
    assert found.limit == pytest.approx(stats.norm.isf(LEVEL / 2 / count))
    line, labels, _ = world(0.0)
    assert Screen.of(line, labels, ["age", "hours", "pay"]).added == ()


@pytest.mark.long
def test_at_most_one_null_world_in_twenty_lets_something_in() -> None:
    entered = [len(Screen.of(*world(0.0, seed, n=800)[:2], ["a", "b", "c"]).chosen) > 0 for seed in range(100)]
    assert np.mean(entered) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_candidates_of_any_scale_enter_with_the_effects_of_a_regression(size: float) -> None:
    rng = np.random.default_rng(6)
    near = rng.normal(size=(500, 3))
    near[:, 2] = near[:, 0] + 1e-3 * near[:, 2]  # says nothing that the first does not say
    gram, score = size**2 * near.T @ near, size * near.T @ (0.6 * near[:, 0] - 0.4 * near[:, 1])
    empty = np.empty((0, 1))
    again = Again(4.0, 1, empty, empty, empty, near, empty, gram, np.zeros(500))
    first, second, third = again._entered(score)
    assert second == pytest.approx(-0.4 / size, rel=1e-3)
    assert first + third == pytest.approx(0.6 / size, rel=1e-3)
    assert first * third == 0
    assert not again._entered(score * 1e-3).any()  # none passes


def test_a_bent_column_brings_a_spline() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    member = rng.random(N) < special.expit(0.5 * x[:, 1] ** 2 - 0.5)
    added = Screen.of(x, member, ["a", "b"]).added
    assert set(added) == {"a spline of b"}


def test_copies_of_rows_do_not_let_anything_in() -> None:
    x, member, _ = world(0.0, seed=5, n=400)
    again = np.repeat(np.arange(400), 10)
    assert len(Screen.of(x[again], member[again], ["a", "b", "c"]).chosen) > 0  # the control
    assert len(Screen.of(x[again], member[again], ["a", "b", "c"], independent=0.1).chosen) == 0


@pytest.mark.long
@pytest.mark.parametrize("product", [0.0, 0.12, 0.5])
def test_resamples_are_near_those_that_are_fitted_and_screened_in_full(product: float) -> None:
    x, member, _ = world(product, seed=2)
    train = Evidence(score=x[:, 0], member=member, covariates=x, design="zero-run")
    target, inside, _ = world(product, seed=3, n=500)
    audited = Evidence(score=target[:, 0], member=inside, covariates=target, design="zero-run")
    rng = np.random.default_rng(0)
    counts = covariates.resample(train, 20, rng=rng)
    given = {"counts": counts, "strength": 100.0}
    quick = propensity.bootstrap(audited, train, 20, screened=True, rng=np.random.default_rng(1), **given)
    slow, plain = np.empty_like(quick), np.empty_like(quick)
    for k, count in enumerate(counts):
        rows = np.repeat(np.arange(N), count)
        enlarged = Screen.of(x[rows], member[rows], ["a", "b", "c"])
        for one, functions in ((slow, enlarged), (plain, lambda z: np.empty((len(z), 0)))):
            part, wanted = (np.hstack([z, functions(z)]) for z in (x[rows], target))
            fitted = logistic.with_ones(part)
            penalty = logistic.penalty_of(fitted, 100.0)
            beta, _ = logistic.minimise(fitted, member[rows].astype(float), penalty, np.zeros(fitted.shape[1]))
            one[k] = logistic.expit(logistic.with_ones(wanted) @ beta)
    spread, wanted, without = (special.logit(values).std(axis=0).mean() for values in (quick, slow, plain))
    if product == 0.12:  # near the threshold: enters in some resamples, and the spread has to show it
        assert wanted > 1.2 * without
    assert spread == pytest.approx(wanted, rel=0.35)


@pytest.mark.long
def test_the_screened_propensity_of_an_audit() -> None:
    x, member, truth = world(0.6, n=4000)
    evidence = Evidence(
        score=truth, member=member, covariates=x, covariate_names=["age", "hours", "pay"], design="zero-run"
    )
    line = propensity.fit(evidence, rng=np.random.default_rng(0))
    found = propensity.fit(evidence, screened=True, rng=np.random.default_rng(0))
    assert found.added == ("a product of age and hours",)
    assert "enlarged by a product of age and hours" in found.how
    assert np.array_equal(found.features, line.features)  # no label had a say in these
    assert found.rows_per_covariate == 1000 and found.logistic and not line.screened
    assert np.abs(found.logit - truth).mean() < 0.5 * np.abs(line.logit - truth).mean()
    assert np.array_equal(standard_errors(found), found.errors)
    assert np.mean(np.abs(found.logit - truth) < 2 * found.errors) > 0.8
    bound, missed = (
        zero_run.mu_lower_bound(evidence, one, guesses=400, rng=np.random.default_rng(0)) for one in (found, line)
    )
    assert bound.value == 0 < missed.value  # the attack knows the shift, and nothing leaks
    assert "log-odds of a line in the covariates, a product of age and hours" in bound.corrections[0]
    some = found.of_rows(np.arange(10))
    assert some.errors is None  # part of a cross-fitted one counts as given


def test_a_part_of_what_was_learned_elsewhere_keeps_its_errors() -> None:
    x, member, _ = world(0.6)
    other, inside, _ = world(0.6, seed=1, n=400)
    train, audited = (Evidence(score=z[:, 0], member=a, covariates=z) for z, a in ((x, member), (other, inside)))
    found = propensity.fit(audited, train=train, screened=True, rng=np.random.default_rng(0))
    part = found.of_rows(np.arange(5))
    assert np.array_equal(part.errors, found.errors[:5]) and part.added == found.added


def test_a_classifier_has_no_screen() -> None:
    from sklearn.naive_bayes import GaussianNB

    x, member, _ = world(0.0, n=200)
    evidence = Evidence(score=x[:, 0], member=member, covariates=x)
    with pytest.raises(InputError, match="screened: expected the logistic model, received a classifier"):
        propensity.fit(evidence, classifier=GaussianNB(), screened=True, rng=np.random.default_rng(0))


def test_features_have_names() -> None:
    x = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 2.0]])
    evidence = Evidence(score=[1, 2, 3], member=[1, 0, 1], covariates=x, covariate_names=["site", "age"])
    for encoding, names in [
        (covariates.Numbers(), ("site", "age")),
        (covariates.Categories((0,)), ("site = 0", "site = 1", "site = 2", "age")),
        (covariates.Reduced(2), ("component 1", "component 2")),
    ]:
        table = covariates.table_of(evidence, encoding)
        width = covariates.fit(encoding, table, seed=0)(table).shape[1]
        assert covariates.names_of(encoding, table, width) == names

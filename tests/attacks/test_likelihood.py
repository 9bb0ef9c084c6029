"""The Gaussian likelihood ratio, and errata C1 and C2 as tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from miaudit.attacks import likelihood
from miaudit.attacks.likelihood import GaussianStatistics, cross_fitted, log_ratio
from miaudit.errors import InputError


def losses(rng: np.random.Generator, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Losses of members and non-members with unequal spreads."""
    return np.r_[rng.gamma(1.0, 0.2, n), rng.gamma(1.5, 0.6, n)], np.arange(2 * n) < n


def test_the_ratio_is_that_of_two_normal_densities() -> None:
    x = np.linspace(-5, 9, 101)
    given = GaussianStatistics(0.3, 0.7, 1.9, 2.2)
    expected = stats.norm.logpdf(x, 0.3, 0.7) - stats.norm.logpdf(x, 1.9, 2.2)
    np.testing.assert_allclose(log_ratio(x, given), expected, rtol=1e-11, atol=1e-12)


def test_statistics_are_the_usual_ones() -> None:
    x, member = losses(np.random.default_rng(1))
    found = GaussianStatistics.fit(x, member)
    assert found.mu_in == pytest.approx(x[member].mean())
    assert found.sigma_in == pytest.approx(x[member].std())
    assert found.mu_out == pytest.approx(x[~member].mean())
    assert found.sigma_out == pytest.approx(x[~member].std())
    pooled = GaussianStatistics.fit(x[:700], member[:700], "pooled")
    within = np.where(member[:700], pooled.mu_in, pooled.mu_out)
    assert pooled.sigma_in == pooled.sigma_out == pytest.approx(np.sqrt(np.mean((x[:700] - within) ** 2)))


def predict(scores, tau: float = 0.0):
    """Whom the paper's attack accuses: records whose score exceeds ``tau`` (0: even odds)."""
    return np.asarray(scores, dtype=np.float64) > tau


def test_predict_accuses_above_tau() -> None:
    assert predict([-1.0, 0.0, 1e-9, 2.0]).tolist() == [False, False, True, True]
    assert predict([-1.0, 0.0, 2.0], tau=-0.5).tolist() == [False, True, True]
    given = GaussianStatistics(0.0, 1.0, 2.0, 1.0)
    assert predict(log_ratio([0.9, 1.1], given)).tolist() == [True, False]  # the densities cross half-way


def test_equal_variances_order_records_as_the_loss_does() -> None:
    """Erratum C1, first half: the same ROC curve, so the loss itself is reported."""
    x, member = losses(np.random.default_rng(2))
    given = GaussianStatistics.fit(x, member, "pooled")
    assert (np.argsort(-log_ratio(x, given), kind="stable") == np.argsort(x, kind="stable")).all()
    assert roc_auc_score(member, log_ratio(x, given)) == roc_auc_score(member, -x)
    assert given.monotone_between(-1e9, 1e9)
    assert not np.allclose(log_ratio(x, given), -x)  # though the numbers differ


def test_unequal_variances_are_not_monotone_and_can_be_worse() -> None:
    """Erratum C1, second half: "strictly more powerful" is false; a heavy tail of members' losses is enough."""
    rng = np.random.default_rng(3)
    n = 4000
    member = np.arange(2 * n) < n
    inside = np.where(rng.random(n) < 0.05, 8.0, rng.normal(0, 1, n))  # a few members that were never learned
    x = np.r_[inside, rng.normal(1.0, 1.0, n)]
    given = GaussianStatistics.fit(x, member)
    grid = np.linspace(x.min(), x.max(), 500)
    steps = np.diff(log_ratio(grid, given))
    assert (steps > 0).any()
    assert (steps < 0).any()
    assert not given.monotone_between(float(x.min()), float(x.max()))
    of_ratio, of_loss = roc_auc_score(member, log_ratio(x, given)), roc_auc_score(member, -x)
    assert of_ratio < of_loss - 0.01
    gaussian = np.r_[rng.normal(0, 0.3, n), rng.normal(0, 2, n)]  # control: where the law is right, it is better
    assert roc_auc_score(member, log_ratio(gaussian, GaussianStatistics(0, 0.3, 0, 2))) > 0.8
    assert roc_auc_score(member, -gaussian) < 0.55


def test_monotone_between_agrees_with_the_parabola() -> None:
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(300):
        given = GaussianStatistics(rng.normal(), rng.uniform(0.2, 3), rng.normal(), rng.uniform(0.2, 3))
        low, high = np.sort(rng.normal(0, 4, 2))
        steps = np.diff(log_ratio(np.linspace(low, high, 4001), given))
        monotone = bool((steps >= -1e-9).all() or (steps <= 1e-9).all())
        assert given.monotone_between(low, high) == monotone
        seen.add(monotone)
    assert seen == {True, False}


# -- cross-fitting (erratum C2) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["separate", "pooled"])
def test_a_record_never_helps_to_score_itself(variance: str) -> None:
    """Replace a record's value by another: its own score is the one that the unchanged statistics give it."""
    x, member = losses(np.random.default_rng(5), 60)
    before = cross_fitted(x, member, variance=variance, rng=np.random.default_rng(6))
    fold = likelihood._fold_of(member, None, 5, np.random.default_rng(6))
    moved = 0
    for i in range(0, 120, 11):
        y = x.copy()
        y[i] += 3.0
        after = cross_fitted(y, member, variance=variance, rng=np.random.default_rng(6))
        rest = fold != fold[i]
        given = GaussianStatistics.fit(x[rest], member[rest], variance)
        assert before[i] == pytest.approx(log_ratio(x[i : i + 1], given)[0])
        assert after[i] == pytest.approx(log_ratio(y[i : i + 1], given)[0])
        others = (fold == fold[i]) & (np.arange(120) != i)
        np.testing.assert_array_equal(before[others], after[others])
        moved += bool((before[rest] != after[rest]).any())
    assert moved == 11  # control: the other folds do notice


def test_folds_are_balanced_in_both_classes() -> None:
    member = np.arange(1003) < 301
    fold = likelihood._fold_of(member, None, 7, np.random.default_rng(7))
    for kept in (member, ~member):
        assert np.ptp(np.bincount(fold[kept], minlength=7)) <= 1


def test_units_stay_in_one_fold() -> None:
    rng = np.random.default_rng(8)
    code, member = np.repeat(np.arange(80), 4), rng.random(320) < 0.5
    fold = likelihood._fold_of(member, code, 5, rng)
    for u in range(80):
        assert len(set(fold[code == u].tolist())) == 1
    plain = likelihood._fold_of(member, None, 5, rng)
    assert any(len(set(plain[code == u].tolist())) > 1 for u in range(80))  # control
    x = rng.normal(size=320)
    scores = cross_fitted(x, member, unit_codes=code, rng=np.random.default_rng(9))
    moved = x + 5 * (code == 3)
    again = cross_fitted(moved, member, unit_codes=code, rng=np.random.default_rng(9))
    fold = likelihood._fold_of(member, code, 5, np.random.default_rng(9))
    same = (fold == fold[12]) & (code != 3)
    np.testing.assert_array_equal(scores[same], again[same])


@pytest.mark.slow
def test_null_losses_look_null_only_when_cross_fitted() -> None:
    """Erratum C2: fitting on the records that are scored finds leakage where there is none."""
    rng = np.random.default_rng(10)
    member = np.arange(40) < 20
    crossed, circular = [], []
    for _ in range(600):
        x = rng.normal(size=40)
        crossed.append(roc_auc_score(member, cross_fitted(x, member, rng=rng)))
        circular.append(roc_auc_score(member, log_ratio(x, GaussianStatistics.fit(x, member))))
    error = np.std(crossed) / np.sqrt(600)
    # Held-out statistics lean away from the records that were left out, so cross-fitting errs low, never high.
    assert 0.40 < np.mean(crossed) < 0.5 + 4 * error
    assert np.mean(circular) > 0.56  # control


def test_large_null_samples_are_at_one_half() -> None:
    rng = np.random.default_rng(11)
    member = np.arange(20_000) < 10_000
    found = [roc_auc_score(member, cross_fitted(rng.gamma(2, 1, 20_000), member, rng=rng)) for _ in range(10)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.01)


def test_equal_generators_give_equal_scores() -> None:
    x, member = losses(np.random.default_rng(12), 50)
    first, again, other = (cross_fitted(x, member, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


# -- the edges --------------------------------------------------------------------------------------------------------


def test_losses_that_do_not_vary_are_scored() -> None:
    member = np.arange(200) < 100
    x = np.r_[np.zeros(100), np.random.default_rng(13).gamma(2, 1, 100)]
    scores = cross_fitted(x, member, rng=np.random.default_rng(14))
    assert np.isfinite(scores).all()
    assert roc_auc_score(member, scores) == 1.0
    still = cross_fitted(np.zeros(200), member, rng=np.random.default_rng(15))
    assert np.isfinite(still).all()
    assert len(set(still.tolist())) == 1


@pytest.mark.parametrize(
    "numbers", [(np.nan, 1, 0, 1), (0, 0, 0, 1), (0, 1, 0, -1), (0, 1, np.inf, 1), (0, np.inf, 0, 1)]
)
def test_impossible_statistics_are_refused(numbers: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError):
        GaussianStatistics(*numbers)


def test_too_few_records_for_the_folds_are_refused() -> None:
    with pytest.raises(InputError, match="folds"):
        cross_fitted(np.arange(12.0), np.arange(12) < 4, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="one class"):
        code = np.repeat(np.arange(4), 3)
        cross_fitted(np.arange(12.0), code == 0, unit_codes=code, folds=2, rng=np.random.default_rng(0))

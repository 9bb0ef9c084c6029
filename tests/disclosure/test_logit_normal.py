"""The logit-normal alternative against scipy, integration and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from miaudit.disclosure import dirichlet, logit_normal
from miaudit.disclosure.logit_normal import Law
from miaudit.errors import InputError

IN = Law([0.5, -1.0], [[1.0, 0.3], [0.3, 0.5]])
OUT = Law([0.0, -0.5], [[0.6, -0.1], [-0.1, 0.8]])


@pytest.mark.long
def test_the_density_integrates_to_one() -> None:
    def density(y: float, x: float) -> float:
        p = np.array([x, (1 - x) * y, (1 - x) * (1 - y)])
        return float(np.exp(logit_normal.log_density(p, IN)) * (1 - x))

    total = integrate.dblquad(density, 1e-3, 1 - 1e-3, 1e-3, 1 - 1e-3, epsabs=1e-4)[0]
    assert total == pytest.approx(1, abs=2e-3)


def test_divergence_and_draws_agree() -> None:
    p = logit_normal.sample(IN, 200_000, rng=np.random.default_rng(0))
    ratio = logit_normal.log_density(p, IN) - logit_normal.log_density(p, OUT)
    assert float(logit_normal.divergence(IN, OUT)) == pytest.approx(ratio.mean(), abs=5 * ratio.std() / 447)
    assert float(logit_normal.divergence(IN, IN)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("a", "b"),
    [(IN, OUT), (OUT, IN), (IN, Law(IN.mean, 4 * IN.covariance)), (Law([0.01], [[1.0]]), Law([0.0], [[1.0]]))],
)
def test_the_averaged_advantage_agrees_with_draws(a: Law, b: Law) -> None:
    scores = []
    for i, law in enumerate((a, b)):
        p = logit_normal.sample(law, 40_000, rng=np.random.default_rng(i + 1))
        scores.append(logit_normal.log_density(p, a) - logit_normal.log_density(p, b))
    truth = stats.mannwhitneyu(*scores).statistic / 40_000**2 - 0.5
    assert float(logit_normal.averaged_confidence_vector(a, b)) == pytest.approx(truth, abs=0.01)
    assert float(logit_normal.averaged_confidence_vector(a, a)) == pytest.approx(0, abs=1e-9)


def test_many_laws_at_once() -> None:
    a, b = (Law(np.stack([x.mean, y.mean]), np.stack([x.covariance, y.covariance])) for x, y in ((IN, OUT), (OUT, IN)))
    both = logit_normal.averaged_confidence_vector(a, b)
    np.testing.assert_allclose(both, float(logit_normal.averaged_confidence_vector(IN, OUT)), rtol=1e-9)
    assert logit_normal.divergence(a, b).shape == (2,)


def test_the_fit_is_the_mean_and_covariance_of_counted_models() -> None:
    rng = np.random.default_rng(3)
    p = np.stack([logit_normal.sample(law, 60, rng=rng) for law in (IN, OUT)])
    mask = rng.random((2, 60)) < 0.5
    found = logit_normal.fit(p, mask, shrinkage=0.0)
    for i in range(2):
        z = np.log(p[i, mask[i], 1:] / p[i, mask[i], :1])
        np.testing.assert_allclose(found.law.mean[i], z.mean(axis=0))
        np.testing.assert_allclose(found.law.covariance[i], np.cov(z.T, bias=True), atol=2e-6)
    diagonal = logit_normal.fit(p, mask, shrinkage=1.0).law.covariance
    assert np.all(diagonal[:, 0, 1] == 0)
    few = logit_normal.fit(p[:, :2])  # two models for two log-ratios: shrinkage keeps the matrix positive
    assert np.all(np.linalg.eigvalsh(few.law.covariance) > 0)


def test_each_model_is_preferred_where_it_is_true() -> None:
    rng = np.random.default_rng(4)
    gaussian = np.stack([logit_normal.sample(Law([3.0, -3.0], [[1.0, 0.9], [0.9, 1.0]]), 400, rng=rng)])
    flat = np.stack([dirichlet.sample([0.3, 0.3, 0.3], 400, rng=rng)])
    for p, sign in ((gaussian, 1), (flat, -1)):
        apart = logit_normal.fit(p, shrinkage=0.0).log_likelihood[0] - dirichlet.fit(p).log_likelihood[0]
        assert sign * apart > 0.05


def test_goodness_sees_a_dirichlet_that_is_no_gaussian() -> None:
    rng = np.random.default_rng(5)
    right = np.stack([logit_normal.sample(IN, 200, rng=rng) for _ in range(20)])
    wrong = np.stack([dirichlet.sample([0.1, 0.1, 0.1], 200, rng=rng) for _ in range(20)])
    fine, bad = (logit_normal.goodness(p, logit_normal.fit(p, shrinkage=0.0).law).pooled for p in (right, wrong))
    assert fine < 0.02
    assert bad > 0.04


@pytest.mark.parametrize("classes", [2, 3])
def test_the_bootstrap_refutes_its_own_law_as_often_as_it_says_and_another_one_nearly_always(classes: int) -> None:
    rng = np.random.default_rng(6)
    law = Law(np.zeros((200, classes - 1)), np.tile(np.eye(classes - 1), (200, 1, 1)))
    own = logit_normal.sample(law, 60, rng=rng)
    away = rng.choice([-4.0, 4.0], (200, 60, classes - 1)) + 0.3 * rng.normal(size=(200, 60, classes - 1))
    other = special.softmax(np.concatenate([np.zeros((200, 60, 1)), away], axis=2), axis=2)
    shares = []
    for p in (own, other):
        found = logit_normal.goodness(p, logit_normal.fit(p, shrinkage=0.0).law, shrinkage=0.0, replicates=39, rng=rng)
        assert found.p_value is not None
        shares.append((found.p_value <= 0.05).mean())
    assert 0.01 <= shares[0] <= 0.1
    assert shares[1] > 0.8  # the control that must fail
    with pytest.raises(InputError, match="rng: expected a numpy Generator"):
        logit_normal.goodness(own, law, replicates=39)


def test_two_classes_see_skewness_that_distances_do_not() -> None:
    rng = np.random.default_rng(7)
    z = rng.gamma(1.0, size=(100, 80))
    p = np.stack([1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))], axis=2)
    found = logit_normal.goodness(p, logit_normal.fit(p).law, replicates=39, rng=rng)
    assert found.p_value is not None
    assert (found.p_value <= 0.05).mean() > 0.9


def test_the_margin_of_the_label_has_its_mean_and_variance() -> None:
    p = logit_normal.sample(IN, 400_000, rng=np.random.default_rng(8))
    odds = np.log1p(-p[:, 0]) - np.log(p[:, 0])
    found = logit_normal.label_margin(IN, draws=400_000, rng=np.random.default_rng(9))
    assert found.mean[0] == pytest.approx(odds.mean(), abs=0.01)
    assert found.covariance[0, 0] == pytest.approx(odds.var(), rel=0.02)
    two = Law([1.0], [[2.0]])
    assert logit_normal.label_margin(two, rng=np.random.default_rng(0)) is two


def test_bad_laws_are_refused() -> None:
    with pytest.raises(InputError, match="positive definite"):
        Law([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InputError, match="one matrix per record"):
        Law([0.0, 0.0], [[1.0]])
    with pytest.raises(InputError, match="finite"):
        Law([np.nan], [[1.0]])
    with pytest.raises(InputError, match="shrinkage"):
        logit_normal.fit(np.full((1, 3, 2), 0.5), shrinkage=2.0)

"""The Laplace posterior of a last layer: against ridge regression, the Hessian, quadrature and a scan of evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.naive_bayes import GaussianNB

from miaudit.defences import laplace
from miaudit.defences.laplace import LastLayerLaplace, Posterior
from miaudit.errors import InputError
from miaudit.models.targets import Precomputed, SklearnTarget

RNG = np.random.default_rng(0)


def covariance(posterior: Posterior) -> np.ndarray:
    """Of all weights, class by class, from the directions that :meth:`Posterior.draw` scales."""
    values = posterior.curvature.values
    size = values.size
    columns = [posterior.curvature.turned(one.reshape(values.shape)).ravel() for one in np.eye(size)]
    turned = np.stack(columns, axis=1)
    return (turned / (values.ravel() + posterior.prior_precision)) @ turned.T


def test_of_a_linear_gaussian_model_it_is_ridge_regression() -> None:
    """With unit noise the loss of K numbers has the curvature I, and the posterior is known in closed form."""
    features = RNG.normal(size=(40, 5))
    unit = np.tile(np.eye(3), (40, 1, 1))
    expected = np.kron(np.eye(3), np.linalg.inv(features.T @ features + 0.7 * np.eye(5)))
    for curvature in (laplace.full_curvature, laplace.kronecker_curvature):
        found = Posterior(np.zeros((3, 5)), curvature(features, unit), 0.7)
        assert np.allclose(covariance(found), expected)


def test_the_curvature_is_the_hessian_of_the_loss() -> None:
    torch = pytest.importorskip("torch")
    features, weights = RNG.normal(size=(30, 4)), RNG.normal(size=(3, 4))
    y, x = torch.tensor(RNG.integers(0, 3, 30)), torch.tensor(features)

    def loss(w):
        return torch.nn.functional.cross_entropy(x @ w.reshape(3, 4).T, y, reduction="sum")

    hessian = torch.autograd.functional.hessian(loss, torch.tensor(weights.ravel())).numpy()
    by_class = laplace.curvature_of_classes(special.softmax(features @ weights.T, axis=1))
    found = laplace.full_curvature(features, by_class)
    assert np.allclose(found.vectors * found.values @ found.vectors.T, hessian)
    posterior = Posterior.of(weights, features, "full", 2.0)
    assert np.allclose(covariance(posterior), np.linalg.inv(hessian + 2 * np.eye(12)))
    # One record has one outer product, so the product of factors is exact. With many it is an approximation.
    one, kron = (covariance(Posterior.of(weights, features[:1], kind, 2.0)) for kind in ("full", "kronecker"))
    assert np.allclose(one, kron)
    assert not np.allclose(covariance(posterior), covariance(Posterior.of(weights, features, "kronecker", 2.0)))


def test_draws_have_the_mean_and_the_covariance() -> None:
    features, weights = RNG.normal(size=(30, 3)), RNG.normal(size=(2, 3))
    for kind in ("full", "kronecker"):
        posterior = Posterior.of(weights, features, kind, 0.5)
        drawn = posterior.draw(40_000, rng=np.random.default_rng(1)).reshape(40_000, -1)
        assert np.allclose(drawn.mean(axis=0), weights.ravel(), atol=0.02)
        assert np.allclose(np.cov(drawn.T), covariance(posterior), atol=0.04)


def test_it_has_the_spread_and_the_mean_probability_of_the_exact_posterior() -> None:
    """Two weights and two classes: the posterior by quadrature."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 1))
    y, precision = (rng.random(60) < special.expit(1.5 * x[:, 0])).astype(int), 0.5
    at = np.linspace(-6, 6, 7)[:, None]

    def negative(w: np.ndarray) -> float:
        logits = x @ w[None]
        return float(-special.log_softmax(logits, axis=1)[np.arange(60), y].sum() + precision / 2 * (w @ w))

    trained = optimize.minimize(negative, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    grid = np.linspace(-8, 8, 241)
    weights = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    logits = x[None] * weights[:, None]
    log_density = special.log_softmax(logits, axis=2)[:, np.arange(60), y].sum(1) - precision / 2 * (weights**2).sum(1)
    mass = special.softmax(log_density)
    apart = weights - mass @ weights
    spread = (mass[:, None] * apart).T @ apart
    exact = (mass[:, None] * special.softmax(at[None] * weights[:, None], axis=2)[..., 1]).sum(0)
    posterior = Posterior.of(trained[:, None], x, "full", precision)
    assert np.allclose(covariance(posterior), spread, rtol=0.02)
    found = np.exp(laplace.mean_log_probability(at, posterior.draw(40_000, rng=rng)))[:, 1]
    assert np.abs(found - exact).max() < 0.012
    # The control that must fail: the prior alone, without the curvature of the data.
    prior = Posterior(trained[:, None], replace(posterior.curvature, values=np.zeros(2)), precision)
    assert np.abs(covariance(prior) - spread).max() > 0.5
    far = np.exp(laplace.mean_log_probability(at, prior.draw(40_000, rng=rng)))[:, 1]
    assert np.abs(far - exact).max() > 0.05


def test_the_prior_precision_has_the_largest_evidence() -> None:
    weights, values = RNG.normal(size=(4, 6)), RNG.gamma(0.3, 20, size=24)
    found = laplace.largest_evidence(weights, values)

    def evidence(tau: float) -> float:
        return 12 * np.log(tau) - tau / 2 * (weights**2).sum() - 0.5 * np.log(values + tau).sum()

    scan = np.geomspace(1e-4, 1e4, 20_001)
    assert found == pytest.approx(scan[np.argmax([evidence(tau) for tau in scan])], rel=2e-3)
    assert laplace.largest_evidence(np.zeros((2, 2)), np.ones(4)) == 1e6  # weights of 0 leave nothing to the prior
    assert laplace.largest_evidence(np.ones((2, 2)), np.zeros(4)) == 1e-6  # no curvature: the data say nothing


@pytest.mark.parametrize("curvature", ["full", "kronecker"])
def test_a_network_with_a_bayesian_last_layer(curvature: str) -> None:
    pytest.importorskip("torch")
    from miaudit.models import nets, shadow
    from miaudit.models.torch_target import TorchTarget
    from miaudit.models.train_config import TrainConfig

    rng = np.random.default_rng(3)
    y = np.arange(150) % 3
    x = (rng.normal(size=(150, 4)) + 2 * np.eye(4)[y]).astype(np.float32)
    base = TorchTarget(nets.mlp(4, 3, (8,)), TrainConfig(epochs=15, batch=16, device="cpu"))
    target = LastLayerLaplace(base, draws=200, curvature=curvature)
    fitted = target.fit(x, y, np.arange(100), seed=1)
    plain = special.softmax(base.outputs(fitted[0], x), axis=1)
    p = np.exp(target.outputs(fitted, x))
    assert np.allclose(p.sum(axis=1), 1, atol=1e-5)
    assert (p.argmax(1) == y).mean() > 0.7
    assert p.max(axis=1).mean() < plain.max(axis=1).mean() - 0.005  # a mean over draws is less sure
    again, other = (target.outputs(target.fit(x, y, np.arange(100), seed=seed), x) for seed in (1, 2))
    assert np.array_equal(again, target.outputs(fitted, x))
    assert not np.array_equal(other, again)
    included = shadow.inclusion(150, 4, rng=rng)
    assert shadow.train(target, x, y, included, seed=1).shape == (150, 3)
    sharp = LastLayerLaplace(base, prior_precision=1e12)
    assert np.allclose(np.exp(sharp.outputs(sharp.fit(x, y, np.arange(100), seed=1), x)), plain, atol=1e-4)


def test_identities_differ_where_posteriors_do_and_a_layer_without_bias_keeps_none() -> None:
    torch = pytest.importorskip("torch")
    from miaudit.models import nets
    from miaudit.models.torch_target import TorchTarget
    from miaudit.models.train_config import TrainConfig

    base = TorchTarget(nets.mlp(4, 3, (8,)), TrainConfig())
    made = [
        LastLayerLaplace(base),
        LastLayerLaplace(base, 1),
        LastLayerLaplace(base, curvature="kronecker"),
        LastLayerLaplace(base, prior_precision=1.0),
        base,
    ]
    assert len({one.identity() for one in made}) == len(made)
    assert made[1].name.endswith("1 draw")

    def without() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3, bias=False))

    target = LastLayerLaplace(TorchTarget(without, TrainConfig(epochs=1, device="cpu")))
    x, y = RNG.normal(size=(20, 4)), np.arange(20) % 3
    assert (target.fit(x, y, np.arange(20), seed=0)[1][..., -1] == 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda base: LastLayerLaplace(Precomputed(np.zeros((3, 2)))), "base: expected a network that is trained here"),
        (lambda base: LastLayerLaplace(SklearnTarget(GaussianNB())), "received GaussianNB"),
        (lambda base: LastLayerLaplace(base, 0), "draws: expected a whole number from 1 up, received 0"),
        (lambda base: LastLayerLaplace(base, curvature="diagonal"), "curvature: .*'diagonal'"),
        (lambda base: LastLayerLaplace(base, prior_precision=0.0), "prior_precision: .*received 0.0"),
    ],
)
def test_bad_input(make, message: str) -> None:
    pytest.importorskip("torch")
    from miaudit.models import nets
    from miaudit.models.torch_target import TorchTarget
    from miaudit.models.train_config import TrainConfig

    with pytest.raises(InputError, match=message) as caught:
        make(TorchTarget(nets.mlp(4, 3, ()), TrainConfig()))
    assert "\n" not in str(caught.value)

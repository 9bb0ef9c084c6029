"""Networks along a graph: what heads see, gradients against autograd one record at a time, and Opacus step by step."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.synthesis.generators.generator_config import GeneratorConfig  # noqa: E402
from miaudit.synthesis.generators.vae import Network, Pass, Stack  # noqa: E402
from miaudit.synthesis.graph import CausalGraph  # noqa: E402
from miaudit.synthesis.schema import Column, Schema  # noqa: E402

SCHEMA = Schema(
    (
        Column("a"),
        Column("b", "categorical", categories=("x", "y", "z"), missing=True),
        Column("c", "continuous", low=0, high=1),
        Column("d", "ordinal", categories=(1, 2, 3)),
        Column("e", missing=True),
        Column("f"),
    )
)
FULL = CausalGraph(SCHEMA, None, [("f", "c"), ("a", "c"), ("c", "d"), ("b", "d"), ("d", "e"), ("a", "e")])
PARTIAL = CausalGraph(SCHEMA, {"x2": ["d", "a", "f"], "x1": ["c", "b", "e"]}, [("x1", "x2")])
PLAIN = CausalGraph(SCHEMA, {"all": SCHEMA.names})
SMALL = {"hidden": 8, "latent": 3, "head": 3}
FORMS = [
    pytest.param(PLAIN, GeneratorConfig(**SMALL), id="plain"),
    pytest.param(PARTIAL, GeneratorConfig(**SMALL), id="partial"),
    pytest.param(PARTIAL, GeneratorConfig(decoder="product", **SMALL), id="product"),
    pytest.param(
        PARTIAL,
        GeneratorConfig(decoder="product", encoder_reads=("x2",), without_latent=("x1",), **SMALL),
        id="eedi",
    ),
    pytest.param(PARTIAL, GeneratorConfig(hidden=30, latent=3, head=3), id="partial-small-groups"),
    pytest.param(FULL, GeneratorConfig(**SMALL), id="full"),
    pytest.param(FULL, GeneratorConfig(decoder="product", draws_missing=True, **SMALL), id="full-product"),
    pytest.param(FULL, GeneratorConfig(without_latent=("a", "d"), layers=1, **SMALL), id="full-without-latent"),
    pytest.param(FULL, GeneratorConfig(encoder="set", embedding=4, draws_missing=True, **SMALL), id="full-set"),
    pytest.param(
        PARTIAL,
        GeneratorConfig(
            encoder="set", decoder="product", encoder_reads=("x2",), without_latent=("x1",), embedding=5, **SMALL
        ),
        id="eedi-set",
    ),
]


def values(n: int, rng: np.random.Generator) -> np.ndarray:
    columns = []
    for column in SCHEMA.columns:
        own = rng.random(n) if column.kind == "continuous" else rng.integers(0, column.levels, n).astype(float)
        columns.append(np.where(column.missing & (rng.random(n) < 0.3), np.nan, own))
    return np.column_stack(columns)


def batch(network: Network, stack: int, size: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Weights (K, P), features (K, B, F) and z (K, B, L), in float64 so that twins agree to the last digits."""
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(np.stack([network.initial(rng) for _ in range(stack)])).double()
    x = np.stack([network.encoding.encode(values(size, rng)) for _ in range(stack)])
    z = rng.standard_normal((stack, size, network.latent))
    return weights, torch.from_numpy(x).double(), torch.from_numpy(z)


@pytest.fixture(autouse=True)
def _double_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the masks of layers be float64 as the weights of these tests are."""
    from miaudit.synthesis.generators import vae

    original = vae._indicators
    monkeypatch.setattr(vae, "_indicators", lambda *a: original(*a).double())


def one_by_one(network: Network, weights: Any, x: Any, z: Any) -> Any:
    """Gradients (K, B, P) by autograd over the weights, one record at a time."""
    found = torch.zeros(*x.shape[:2], network.size, dtype=torch.float64)
    for k in range(x.shape[0]):
        for b in range(x.shape[1]):
            own = weights[k : k + 1].clone().requires_grad_()
            Pass(network, network.views(own), tapped=False).negative_elbo(
                x[k : k + 1, b : b + 1], z[k : k + 1, b : b + 1]
            ).sum().backward()
            found[k, b] = own.grad[0]
    return found if network.exists is None else found * network.exists


def summed(network: Network, weights: Any, x: Any, z: Any, present: Any, clip: float | None) -> Any:
    taken = Pass(network, network.views(weights), tapped=True)
    taken.backward(x, z)
    found = torch.zeros_like(weights)
    taken.add_clipped(network.views(found), present, clip=clip)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("graph", "config"), FORMS)
def test_norms_and_clipped_sums_are_those_of_single_records(graph: CausalGraph, config: GeneratorConfig) -> None:
    network = Network.of(graph, config)
    weights, x, z = batch(network, 2, 5)
    present = torch.ones(2, 5, dtype=torch.float64)
    present[1, 3:] = 0  # padding
    gradients = one_by_one(network, weights, x, z)
    norms = gradients.norm(dim=2)
    taken = Pass(network, network.views(weights), tapped=True)
    taken.backward(x, z)
    torch.testing.assert_close(taken.norms(), norms)
    clip = float(norms.median())
    for limit in (clip, None):
        factor = present if limit is None else present * (limit / norms).clamp_max(1)
        torch.testing.assert_close(
            summed(network, weights, x, z, present, limit), (gradients * factor[..., None]).sum(1)
        )
    # one record moves the sum by no more than the clipping norm
    without = summed(network, weights, x[:, 1:], z[:, 1:], present[:, 1:], clip)
    moved = (summed(network, weights, x, z, present, clip) - without).norm(dim=1)
    assert (moved <= clip * (1 + 1e-9)).all() and (moved > 0).all()


@pytest.mark.parametrize(("graph", "config"), FORMS)
def test_a_head_sees_its_parents_and_z_only(graph: CausalGraph, config: GeneratorConfig) -> None:
    network = Network.of(graph, config)
    encoding = network.encoding
    weights, x, z = batch(network, 1, 6)
    own = {i: group for group in graph.groups for i in graph.positions(group)}
    x.requires_grad_()
    z.requires_grad_()
    taken = Pass(network, network.views(weights), tapped=False)
    seen: set[int] = set()
    for block in network.blocks:
        outputs = taken.block(block, x, z)
        for at, position in enumerate(block.outputs):
            column = next(i for i in block.columns if position in encoding.outputs_of([i]))
            total = outputs[..., at].sum() + 0 * (x.sum() + z.sum())  # a head may see neither
            slopes = torch.autograd.grad(total, [x, z], retain_graph=True, allow_unused=True, materialize_grads=True)
            parents = [i for parent in graph.parents(own[column]) for i in graph.positions(parent)]
            moved = set(torch.nonzero(slopes[0].abs().sum((0, 1)))[:, 0].tolist())
            assert moved <= set(encoding.features_of(parents))
            assert not parents or moved  # it does see some of them
            assert bool(slopes[1].any()) == (own[column] not in config.without_latent)
            seen.add(position)
    assert seen == set(range(encoding.outputs))


@pytest.mark.parametrize("encoder", ["mask", "set"])
def test_the_encoder_reads_the_groups_it_may(encoder: Any) -> None:
    config = GeneratorConfig(encoder_reads=("x2",), encoder=encoder, **SMALL)
    network = Network.of(PARTIAL, config)
    weights, x, _ = batch(network, 1, 4)
    x.requires_grad_()
    mean, _ = Pass(network, network.views(weights), tapped=False).posterior(x)
    (slopes,) = torch.autograd.grad(mean.sum(), [x])
    moved = set(torch.nonzero(slopes.abs().sum((0, 1)))[:, 0].tolist())
    assert moved == set(network.encoding.features_of(PARTIAL.positions("x2")))


def test_with_product_parents_and_z_add_up() -> None:
    """p(x | parents) p(x | z), normalised, is a sum on the logit scale: no slope of the slope between the two."""
    network = Network.of(PARTIAL, GeneratorConfig(decoder="product", **SMALL))
    weights, x, z = batch(network, 1, 3)
    taken, block = Pass(network, network.views(weights), tapped=False), network.blocks[1]
    zero = torch.zeros_like(z)
    mixed = taken.block(block, x, z) - taken.block(block, x, zero)
    torch.testing.assert_close(mixed, taken.block(block, x * 0, z) - taken.block(block, x * 0, zero))
    concatenated = Network.of(PARTIAL, GeneratorConfig(**SMALL))
    weights, x, z = batch(concatenated, 1, 3)
    taken, block = Pass(concatenated, concatenated.views(weights), tapped=False), concatenated.blocks[1]
    mixed = taken.block(block, x, z) - taken.block(block, x, zero)
    assert not torch.allclose(mixed, taken.block(block, x * 0, z) - taken.block(block, x * 0, zero))


def test_the_loss_is_divergence_less_likelihood() -> None:
    network = Network.of(PLAIN, GeneratorConfig(**SMALL))
    weights, x, z = batch(network, 1, 7)
    taken = Pass(network, network.views(weights), tapped=False)
    mean, log_variance = taken.posterior(x)
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    divergence = torch.distributions.kl_divergence(posterior, prior).sum(-1)
    outputs = taken.block(network.blocks[0], x, mean + (0.5 * log_variance).exp() * z)
    order = torch.argsort(torch.tensor(network.blocks[0].outputs))
    expected = divergence - network.encoding.log_likelihood(outputs[..., order], x)
    torch.testing.assert_close(taken.negative_elbo(x, z), expected)


def test_a_stack_is_its_models_side_by_side() -> None:
    network = Network.of(FULL, GeneratorConfig(**SMALL))
    weights, x, z = batch(network, 3, 4)
    together = Pass(network, network.views(weights), tapped=False).negative_elbo(x, z)
    for k in range(3):
        alone = Pass(network, network.views(weights[k : k + 1]), tapped=False).negative_elbo(x[k : k + 1], z[k : k + 1])
        torch.testing.assert_close(together[k : k + 1], alone)


def test_initial_weights_exist_only_where_heads_see() -> None:
    network = Network.of(FULL, GeneratorConfig(**SMALL))
    drawn = network.initial(np.random.default_rng(0))
    exists = network.exists.numpy()
    assert not drawn[exists == 0].any() and drawn[exists == 1].all()
    assert network.parameters == int(exists.sum()) < network.size


def test_groups_must_be_known() -> None:
    with pytest.raises(InputError, match="encoder_reads: expected groups of the graph, received 'x3'"):
        Network.of(PARTIAL, GeneratorConfig(encoder_reads=("x3",)))
    with pytest.raises(InputError, match="x2, whose parents are x1"):
        Network.of(PARTIAL, GeneratorConfig(empirical=("x2",)))
    with pytest.raises(InputError, match="at least one group"):
        Network.of(PARTIAL, GeneratorConfig(encoder_reads=()))


class TwoGroups(nn.Module):
    """The paper's causal VAE written with torch's own layers: x1 given z, x2 given x1 and z; binary columns."""

    def __init__(self, d1: int, d2: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.d1 = d1

        def three(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(a, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, b)
            )

        self.encoder = three(d1 + d2, 2 * latent)
        self.first, self.second = three(latent, d1), three(latent + d1, d2)

    def forward(self, x: Any, noise: Any) -> Any:
        mean, raw = self.encoder(x).chunk(2, -1)
        log_variance = 8.0 * torch.tanh(raw / 8.0)
        z = mean + (0.5 * log_variance).exp() * noise
        logits = torch.cat([self.first(z), self.second(torch.cat([z, x[:, : self.d1]], -1))], -1)
        likelihood = -F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
        return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(-1) - likelihood


def test_steps_of_dp_sgd_are_those_of_opacus() -> None:
    """Same weights, records, z and noise: gradients per sample by Opacus' hooks, clipped, summed; three Adam steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opacus = pytest.importorskip("opacus")
        wrapper = opacus.GradSampleModule
    schema = Schema(tuple(Column(f"x{i}") for i in range(20)))
    graph = CausalGraph(schema, {"x1": schema.names[:8], "x2": schema.names[8:]}, [("x1", "x2")])
    network = Network.of(graph, GeneratorConfig(hidden=16, latent=4, head=8))
    torch.manual_seed(0)
    twin = TwoGroups(8, 12, 16, 4).double()
    own = torch.cat([torch.cat([m.weight.T.reshape(-1), m.bias]) for m in twin.modules() if isinstance(m, nn.Linear)])
    own = own.detach()[None].clone()
    assert own.shape[1] == network.size
    rng = np.random.default_rng(0)
    clip, sigma, expected_batch = 2.0, 0.7, 12
    ours = torch.optim.Adam([own], lr=0.01)
    wrapped = wrapper(twin, loss_reduction="sum")
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01)
    for _ in range(3):
        count = int(rng.integers(8, 16))
        x = torch.from_numpy(rng.integers(0, 2, (count, 20))).double()
        z = torch.from_numpy(rng.standard_normal((count, 4)))
        noise = torch.from_numpy(rng.standard_normal(network.size)) * sigma * clip
        total = summed(network, own, x[None], z[None], torch.ones(1, count).double(), clip)
        own.grad = (total + noise) / expected_batch
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrapped.zero_grad()
            wrapped(x, z).sum().backward()
        sampled = [(m.weight.grad_sample, m.bias.grad_sample) for m in twin.modules() if isinstance(m, nn.Linear)]
        flat = torch.cat([torch.cat([w.transpose(1, 2).flatten(1), b], 1) for w, b in sampled], 1)
        factor = (clip / flat.norm(dim=1)).clamp_max(1)
        assert (factor < 1).any()
        expected = (flat * factor[:, None]).sum(0) + noise
        torch.testing.assert_close(own.grad[0], expected / expected_batch)
        at = 0
        for m in twin.modules():
            if isinstance(m, nn.Linear):
                size = m.weight.numel()
                m.weight.grad = (expected[at : at + size].view(m.in_features, -1).T / expected_batch).contiguous()
                m.bias.grad = expected[at + size : at + size + m.out_features] / expected_batch
                at += size + m.out_features
        ours.step()
        theirs.step()
    after = torch.cat([torch.cat([m.weight.T.reshape(-1), m.bias]) for m in twin.modules() if isinstance(m, nn.Linear)])
    torch.testing.assert_close(own[0], after.detach())


@pytest.mark.long
@pytest.mark.parametrize(("graph", "config"), FORMS)
def test_a_pass_stays_on_its_device(graph: CausalGraph, config: GeneratorConfig) -> None:
    # fake tensors compute nothing, and refuse what is half on one device and half on another as a GPU does
    network = Network.of(graph, config)
    weights, x, noise = batch(network, 2, 5)
    away = torch.device("meta")
    with FakeTensorMode(allow_non_fake_inputs=True):
        there = network.on(away)
        parts, sums = there.views(weights.to(away)), there.views(torch.zeros_like(weights, device=away))
        taken = Pass(there, parts, tapped=True)
        taken.backward(x.to(away), noise.to(away))
        taken.add_clipped(sums, torch.ones(2, 5, dtype=torch.float64, device=away), clip=1.0)
        assert taken.norms().device == Stack(there, 2).values().device == away
        with pytest.raises(RuntimeError, match="device"):
            Pass(network, parts, tapped=True).backward(x, noise)

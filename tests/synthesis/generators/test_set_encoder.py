"""The set encoder beside a loop over records and features; what is missing, and in which order it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy  # noqa: E402
from miaudit.synthesis.generators.layer import Layer  # noqa: E402
from miaudit.synthesis.generators.training import fit  # noqa: E402
from miaudit.synthesis.generators.vae import Network, Pass  # noqa: E402
from miaudit.synthesis.generators.vae_generator import VaeGenerator  # noqa: E402
from miaudit.synthesis.graph import CausalGraph  # noqa: E402
from miaudit.synthesis.schema import Column, Schema, Table  # noqa: E402

SCHEMA = Schema(
    (
        Column("a", missing=True),
        Column("b", "categorical", categories=("x", "y", "z"), missing=True),
        Column("c", "continuous", low=0, high=2, missing=True),
        Column("d", "ordinal", categories=(1, 2, 3)),
        Column("e", missing=True),
    )
)
GRAPH = CausalGraph(SCHEMA, {"x1": ["a", "b"], "x2": ["c", "d", "e"]}, [("x1", "x2")])
CONFIG = GeneratorConfig(encoder="set", embedding=4, hidden=6, latent=3, head=2)


def records(n: int, seed: int = 0) -> np.ndarray:
    """Values (n, 5), a third of those that may be missing NaN."""
    rng = np.random.default_rng(seed)
    columns = []
    for column in SCHEMA.columns:
        own = 2 * rng.random(n) if column.kind == "continuous" else rng.integers(0, column.levels, n).astype(float)
        columns.append(np.where(column.missing & (rng.random(n) < 1 / 3), np.nan, own))
    return np.column_stack(columns)


def passed(network: Network, weights: Any) -> Pass:
    return Pass(network, network.views(weights), tapped=False)


@pytest.fixture
def world() -> tuple[Network, Any, Any]:
    """A network, its weights (1, P) and features (1, 12, F), in float64."""
    network = Network.of(GRAPH, CONFIG)
    weights = torch.from_numpy(network.initial(np.random.default_rng(1))[None]).double()
    return network, weights, torch.from_numpy(network.encoding.encode(records(12))[None]).double()


def by_hand(values: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Posterior parameters (n, 2 latent), record by record, value by value, from the values and not their encoding."""
    (embedding, _), (shared, bias), *rest = parts
    # The order of the encoding: bits of a, d (two) and e, then c, then the indicators of b.
    names = [("a", 1), ("d", 1), ("d", 2), ("e", 1), ("c", 0), ("b", 0), ("b", 1), ("b", 2)]
    parameters = []
    for record in values:
        code = np.zeros(embedding.shape[1])
        for e, (name, level) in zip(embedding, names, strict=True):
            value = record[SCHEMA.position(name)]
            if np.isnan(value):
                continue
            if name == "c":
                read = value - 1.0
            elif name == "b":
                read = 1.0 if value == level else -1.0
            else:
                read = 1.0 if value >= level else -1.0
            code += np.maximum(shared.T @ (e * read) + bias[0], 0.0)
        for weight, offset in rest[:-1]:
            code = np.maximum(code @ weight + offset[0], 0.0)
        parameters.append(code @ rest[-1][0] + rest[-1][1][0])
    return np.array(parameters)


def test_it_is_a_loop_over_records_and_what_was_observed(world: tuple[Network, Any, Any]) -> None:
    network, weights, x = world
    views = network.views(weights)
    places = [network.set_encoder.embedding, network.set_encoder.shared_map, *network.encoder]  # type: ignore[union-attr]
    parts = [(views[at][0][0].numpy(), views[at][1][0].numpy()) for at in places]
    mean, log_variance = passed(network, weights).posterior(x)
    expected = by_hand(records(12), parts)
    np.testing.assert_allclose(mean[0].numpy(), expected[:, :3], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(log_variance[0].numpy(), 8 * np.tanh(expected[:, 3:] / 8), rtol=1e-6, atol=1e-9)
    whole = np.nan_to_num(records(12))  # the control: a record without anything missing is another one
    assert np.abs(by_hand(whole, parts) - expected).max() > 1e-3


def test_what_is_missing_is_not_read(world: tuple[Network, Any, Any]) -> None:
    network, weights, x = world
    own = network.set_encoder.features  # type: ignore[union-attr]
    other = x.clone()
    _, observed = own.read(x)
    for at, position in enumerate(own.positions):
        hidden = observed[0, :, at] == 0
        other[0, hidden, position] = 0.7
    assert (other != x).any()
    same, changed = (torch.cat(passed(network, weights).posterior(one), -1) for one in (x, other))
    torch.testing.assert_close(same, changed, rtol=0, atol=0)
    # the controls: a mask reads the zeros, and what is observed is read
    masked = Network.of(GRAPH, replace(CONFIG, encoder="mask"))
    drawn = torch.from_numpy(masked.initial(np.random.default_rng(1))[None]).double()
    before, after = (torch.cat(passed(masked, drawn).posterior(one), -1) for one in (x, other))
    assert (before - after).abs().max() > 1e-3
    seen = x.clone()
    seen[0, :, own.positions[0]] = 1 - seen[0, :, own.positions[0]]
    assert (torch.cat(passed(network, weights).posterior(seen), -1) - same).abs().max() > 1e-3


def test_the_order_of_features_does_not_matter(world: tuple[Network, Any, Any]) -> None:
    network, weights, x = world
    encoder = network.set_encoder
    assert encoder is not None
    turned = np.random.default_rng(2).permutation(len(encoder.features.positions))
    features = type(encoder.features)(
        *(
            tuple(getattr(encoder.features, name)[i] for i in turned.tolist())
            for name in ("positions", "present", "bits")
        )
    )
    other = replace(network, set_encoder=replace(encoder, features=features))
    moved = weights.clone()
    network.views(moved)[0][0][:] = network.views(weights)[0][0][:, torch.from_numpy(turned)]
    expected = torch.cat(passed(network, weights).posterior(x), -1)
    torch.testing.assert_close(torch.cat(passed(other, moved).posterior(x), -1), expected)
    # the control: the embedding is what says which feature a value is of
    assert (torch.cat(passed(other, weights).posterior(x), -1) - expected).abs().max() > 1e-3


def test_a_value_of_zero_differs_from_a_missing_one(world: tuple[Network, Any, Any]) -> None:
    network, weights, _ = world
    values = np.zeros((6, 5))  # the first and the last record are complete, the others miss one value each
    for record, column in enumerate((0, 1, 2, 4), start=1):
        values[record, column] = np.nan
    x = torch.from_numpy(network.encoding.encode(values)[None]).double()
    mean, _ = passed(network, weights).posterior(x)
    distances = torch.cdist(mean[0], mean[0])
    apart = distances[:5, :5][~torch.eye(5, dtype=torch.bool)]
    assert apart.min() > 1e-5  # the encoder also sees which value is missing
    assert distances[0, 5] == 0


def test_gradients_of_a_map_that_features_share_are_no_products(world: tuple[Network, Any, Any]) -> None:
    """A control: the product form of norms, for a layer that a record uses once, is wrong for a shared map."""
    network, weights, x = world
    z = torch.zeros(1, 12, 3, dtype=torch.float64)
    taken = Pass(network, network.views(weights), tapped=True)
    taken.backward(x, z)
    at = network.set_encoder.shared_map  # type: ignore[union-attr]
    ((_, a, _),) = (tap for tap in taken._taps if tap[0] == at)
    g = taken._slopes[[tap[0] for tap in taken._taps].index(at)]
    truth = torch.zeros(12, dtype=torch.float64)
    for b in range(12):
        own = weights.clone().requires_grad_()
        passed(network, own).negative_elbo(x[:, b : b + 1], z[:, b : b + 1]).sum().backward()
        truth[b] = sum(part.square().sum() for part in network.layers[at].weights(own.grad))
    layer = network.layers[at]
    torch.testing.assert_close(layer.squared_norms(a, g)[0], truth)
    as_if_once = Layer.squared_norms(layer, a, g).sum(-1)[0]
    assert ((as_if_once - truth).abs() > 0.05 * truth).any()


@pytest.mark.parametrize("privacy", [None, Privacy(records=400, epsilon=20.0, clip=1.0)], ids=["none", "dp"])
def test_it_learns_from_records_with_gaps(privacy: Privacy | None, tmp_path: Any) -> None:
    """Four answers that are all the same in a record: what is missing follows from the others."""
    schema = Schema(tuple(Column(f"q{i}", missing=True) for i in range(4)))
    rng = np.random.default_rng(0)
    ability = rng.integers(0, 2, 400)
    values = np.where(rng.random((400, 4)) < 0.3, np.nan, np.repeat(ability[:, None], 4, axis=1).astype(float))
    config = GeneratorConfig(encoder="set", epochs=60, batch=50, learning_rate=0.02, hidden=16, latent=2)
    run = fit(Table(schema, values), None, privacy, rng=rng, config=config, repeatable=privacy is not None)
    sample = run.sample(2000, rng=rng).values
    agree = float((sample[:, 0] == sample[:, 3]).mean())
    assert agree > (0.8 if privacy is None else 0.6), agree  # of independent answers half would agree
    run.save(tmp_path / "g.npz")
    again = VaeGenerator.load(tmp_path / "g.npz")
    assert np.array_equal(again.sample(50, rng=np.random.default_rng(3)).values,
                          run.sample(50, rng=np.random.default_rng(3)).values)  # fmt: skip

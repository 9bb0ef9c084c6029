"""Training of generators: one or many at once, with or without differential privacy.

With privacy a step sees a Poisson sample, clips each record's gradient and adds normal noise to the sum; the sampling
rate, the steps and the normaliser follow from the public nominal number of records (erratum D9). Nothing else is read
off the table: the schema gives the scales, the initial weights are random, no loss is stored, and training stops early
only by a public table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from miaudit.arrays import Float32Array, FloatArray, IntArray
from miaudit.errors import InputError, MiauditError
from miaudit.models.devices import device_of, fixed_order
from miaudit.models.loop import poisson, sent, shuffled
from miaudit.models.private import in_float32
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.normal_numbers import standard_normal
from miaudit.synthesis.generators.private_tables import over, records_of
from miaudit.synthesis.generators.vae import Network, Pass, Stack
from miaudit.synthesis.generators.vae_generator import VaeGenerator
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

__all__ = ["GeneratorConfig", "Privacy", "check_fit", "fit", "fit_many", "gradient_norms", "same_capacity"]


_MOMENTUM = 0.9
_USUAL_PATIENCE = 10
# Public records whose ELBO decides when to stop.
_MOST_PUBLIC = 2_000


def fit(
    table: Table,
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    rng: np.random.Generator,
    config: GeneratorConfig | None = None,
    public: Table | None = None,
    progress: Callable[[int, int], None] | None = None,
    repeatable: bool = False,
) -> VaeGenerator:
    """Train a generator of a table's records along a causal graph.

    Parameters
    ----------
    table : the private records, n of them
    graph : over the columns of the table's schema; None is a plain VAE
    privacy : the differential privacy that is required; with None the generator claims nothing
    rng : gives initial weights, samples and z. With privacy the samples, z and the noise come from the operating system
        instead, and from nothing that could be published: anyone who knows how they were drawn can subtract the noise
    config : the network and its training
    public : records of the same schema that are public or simulated. If given, training stops when their ELBO no longer
        improves, and the best weights are used; the claim still accounts for all epochs
    progress : called with (finished, all) epochs
    repeatable : with privacy, draw everything from ``rng`` all the same, for experiments that are repeated. The claim
        then does not hold against anyone who knows its seed, and the generator and its releases say so

    Raises
    ------
    InputError
        For a table, graph, privacy and config that do not fit together, or an epsilon that no noise reaches.
    MiauditError
        If the weights become infinite or NaN.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> schema = Schema((Column("a"), Column("b")))
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 400)
    >>> table = Table(schema, np.column_stack([a, a]))
    >>> graph = CausalGraph(schema, None, [("a", "b")])
    >>> config = GeneratorConfig(epochs=40, learning_rate=0.01)
    >>> synthetic = fit(table, graph, rng=rng, config=config).sample(1000, rng=rng)
    >>> bool(np.mean(synthetic.values[:, 0] == synthetic.values[:, 1]) > 0.95)
    True
    """
    options: dict[str, Any] = {"config": config, "public": public, "progress": progress, "repeatable": repeatable}
    return fit_many([table], graph, privacy, rng=rng, **options)[0]


def fit_many(
    tables: Table | Sequence[Table],
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    rows: ArrayLike | None = None,
    rng: np.random.Generator,
    config: GeneratorConfig | None = None,
    public: Table | None = None,
    progress: Callable[[int, int], None] | None = None,
    repeatable: bool = False,
) -> list[VaeGenerator]:
    """Train many generators of one form as stacks; each is what it would be alone, up to rounding.

    Parameters
    ----------
    tables : a table for each generator, all under one schema; or one table, with ``rows``
    rows : (M, n) true and false: which records of the one table each of M generators is trained on
    graph, privacy, rng, config, public, repeatable : as in :func:`fit`
    progress : called with (finished, all) epochs of all stacks

    Returns
    -------
    list of VaeGenerator
        In the order of the tables or rows.
    """
    config = GeneratorConfig() if config is None else config
    base, owned = records_of(tables, rows)
    graph = over(base.schema, graph)
    noise = _checked(base, owned, graph, privacy, config, public)
    *model_rngs, watch_rng = rng.spawn(len(owned) + 1)
    repeatable = repeatable and privacy is not None
    streams = [_Streams.of(own, secret=privacy is not None and not repeatable) for own in model_rngs]
    setting = _Setting.of(base, graph, privacy, noise, config, public, watch_rng)
    weights = _weights(setting, owned, streams, progress)
    return [
        VaeGenerator(
            setting.network, graph, config, privacy, noise, own, _causes(graph, config, base.values[chosen]), repeatable
        )
        for chosen, own in zip(owned, weights, strict=True)
    ]


def check_fit(
    table: Table,
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    config: GeneratorConfig | None = None,
    public: Table | None = None,
) -> None:
    """Refuse what :func:`fit` would refuse, before a budget is spent on it; the arguments are those of :func:`fit`.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> check_fit(Table(Schema((Column("a"), Column("b"))), [[0, 1]]))
    Traceback (most recent call last):
    miaudit.errors.InputError: table: expected at least as many records as a batch of 100, received 1; lower batch, or
    bring more records
    """
    base, owned = records_of([table], None)
    config = GeneratorConfig() if config is None else config
    _checked(base, owned, over(base.schema, graph), privacy, config, public)


@in_float32("cpu")
def gradient_norms(
    public: Table,
    graph: CausalGraph | None = None,
    *,
    rng: np.random.Generator,
    config: GeneratorConfig | None = None,
    after: int = 0,
) -> FloatArray:
    """Return the norms (n,) of the gradients of public or simulated records, from which a clipping norm may be chosen.

    On the private table such a search would spend budget; here it costs nothing.

    Parameters
    ----------
    public : records that are not private
    after : epochs of training, without privacy and on these records, before the norms are taken

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> table = Table(Schema((Column("a"), Column("b"))), [[0, 1], [1, 1], [1, 0]])
    >>> gradient_norms(table, rng=np.random.default_rng(0)).round(1).tolist()  # doctest: +SKIP
    [0.9, 0.7, 0.9]
    """
    config = GeneratorConfig() if config is None else config
    graph = over(public.schema, graph)
    network = Network.of(graph, config)
    children = rng.spawn(2)
    if after:
        run = fit(public, graph, rng=children[0], config=replace(config, epochs=after, patience=None))
        values = torch.from_numpy(run.weights.copy())[None]
    else:
        values = torch.from_numpy(network.initial(children[0]))[None]
    features = torch.from_numpy(network.encoding.encode(public.values))[None]
    with fixed_order(features.device):
        z = torch.from_numpy(children[1].standard_normal((1, len(public), config.latent), dtype=np.float32))
        taken = Pass(network, network.views(values), tapped=True)
        taken.backward(features, z)
        norms: FloatArray = taken.norms()[0].double().numpy()
    return norms


def same_capacity(graph: CausalGraph, config: GeneratorConfig | None = None) -> GeneratorConfig:
    """Return the config whose plain VAE has as many parameters as this config's VAE along the graph, as near as can be.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> schema = Schema(tuple(Column(f"x{i}") for i in range(6)))
    >>> graph = CausalGraph(schema, {"u": ["x0", "x1", "x2"], "v": ["x3", "x4", "x5"]}, [("u", "v")])
    >>> config = same_capacity(graph, GeneratorConfig(hidden=16))
    >>> config.hidden, Network.of(graph, GeneratorConfig(hidden=16)).parameters
    (20, 1770)
    """
    config = GeneratorConfig() if config is None else config
    wanted = Network.of(graph, config).parameters
    plain = over(graph.schema, None)
    base: dict[str, Any] = {"encoder_reads": None, "without_latent": (), "empirical": (), "decoder": "concatenate"}

    def sized(hidden: int) -> GeneratorConfig:
        # as many hidden units for each column as it takes for the one group to count as large
        head = max(config.head, math.ceil(hidden / len(graph.schema)))
        return replace(config, hidden=hidden, head=head, **base)

    def size(hidden: int) -> int:
        return Network.of(plain, sized(hidden)).parameters

    low, high = 1, 2
    while size(high) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < wanted else (low, middle)
    return sized(min((low, high), key=lambda hidden: abs(size(hidden) - wanted)))


@dataclass(frozen=True, eq=False)
class _Watch:
    """The public records whose ELBO decides when to stop, with one draw of z for each, the same for all models."""

    network: Network
    features: Tensor
    latent: Tensor
    patience: int

    @classmethod
    def of(cls, network: Network, public: Table, config: GeneratorConfig, rng: np.random.Generator) -> _Watch:
        few = public.values[:_MOST_PUBLIC]
        latent = rng.standard_normal((len(few), config.latent), dtype=np.float32)
        patience = config.patience or _USUAL_PATIENCE
        features = torch.from_numpy(network.encoding.encode(few)).to(network.device)
        return cls(network, features, torch.from_numpy(latent).to(network.device), patience)

    def losses(self, values: Tensor) -> Tensor:
        """Return the mean loss (K,) of each model on the public records."""
        stack = len(values)
        with torch.no_grad():
            taken = Pass(self.network, self.network.views(values), tapped=False)
            return taken.negative_elbo(self.features.expand(stack, -1, -1), self.latent.expand(stack, -1, -1)).mean(1)


@dataclass(frozen=True, eq=False)
class _Streams:
    """What one model's random numbers come from.

    The noise, which records a step sees, and z, of which a record's place in the sample decides the draw, are what
    differential privacy rests on; initial weights are not.
    """

    initial: np.random.Generator
    order: np.random.Generator
    latent: np.random.Generator
    noise: np.random.Generator

    @classmethod
    def of(cls, rng: np.random.Generator, *, secret: bool) -> _Streams:
        """Take all from a generator, or all but the initial weights from the operating system."""
        initial, *others = rng.spawn(4)
        return cls(initial, *(np.random.default_rng().spawn(3) if secret else others))


@dataclass(frozen=True, eq=False)
class _Setting:
    """What all models that are trained together share.

    Attributes
    ----------
    noise : the noise multiplier; None without privacy
    features : (n, features) of all records
    watch : None where no public records decide when training stops
    """

    network: Network
    config: GeneratorConfig
    privacy: Privacy | None
    noise: float | None
    features: Tensor
    watch: _Watch | None

    @classmethod
    def of(
        cls,
        table: Table,
        graph: CausalGraph,
        privacy: Privacy | None,
        noise: float | None,
        config: GeneratorConfig,
        public: Table | None,
        rng: np.random.Generator,
    ) -> _Setting:
        """Lay the network, and put the records and the public ones, with z from ``rng``, on its device."""
        device = device_of(config.device)
        network = Network.of(graph, config)
        features = torch.from_numpy(network.encoding.encode(table.values)).to(device)
        watch = None if public is None else _Watch.of(network.on(device), public, config, rng)
        return cls(network, config, privacy, noise, features, watch)


def _weights(
    setting: _Setting,
    owned: Sequence[IntArray],
    streams: Sequence[_Streams],
    progress: Callable[[int, int], None] | None,
) -> list[Float32Array]:
    """Train models in stacks, each on its own records, and return the weights (P,) of each."""
    config, device = setting.config, setting.features.device
    weights: list[Float32Array] = []
    with fixed_order(device), in_float32(device.type):
        starts = range(0, len(owned), config.at_once)
        for done, start in enumerate(starts):
            stack = slice(start, start + config.at_once)
            advance = _shifted(progress, done * config.epochs, len(starts) * config.epochs)
            with _in_memory(config):
                weights += _Run(setting, owned[stack], streams[stack]).train(advance)
    return weights


class _Run:
    """The training of one stack of K models."""

    def __init__(self, setting: _Setting, owned: Sequence[IntArray], streams: Sequence[_Streams]) -> None:
        network, config, self._privacy = setting.network, setting.config, setting.privacy
        self._features, self._watch = setting.features, setting.watch
        self._device = setting.features.device
        self._network, self._config, self._noise = network.on(self._device), config, setting.noise
        self._latent, self._noises = [one.latent for one in streams], [one.noise for one in streams]
        self._weights, self._sums = Stack(self._network, len(owned)), Stack(self._network, len(owned))
        self._weights.put(torch.from_numpy(np.stack([network.initial(one.initial) for one in streams])))
        self._optimiser = _optimiser(config, self._weights.buffer)
        self._weights.buffer.grad = self._sums.buffer
        self._existing = [None if layer.mask is None else np.flatnonzero(layer.mask) for layer in network.layers]
        # the noise is drawn by the same generators whatever the device
        self._noise_sums = self._sums if network is self._network else Stack(network, len(owned))
        self._noise_views = [(w.flatten(1).numpy(), b.flatten(1).numpy()) for w, b in self._noise_sums.parts]
        nominal = None if self._privacy is None else self._privacy.records
        self._steps = np.array([config.steps(nominal or len(own)) for own in owned])
        self._epoch = max(1, math.ceil(self._steps.max() / config.epochs))
        self._streams = [self._stream(own, one.order) for own, one in zip(owned, streams, strict=True)]

    def train(self, advance: Callable[[int], None]) -> list[Float32Array]:
        """Take all steps, reporting the epochs that are done, and return the weights (P,) of each model."""
        weights = self._weights.values()
        lowest, waited = torch.full((len(weights),), math.inf, device=self._device), 0
        last = int(self._steps.max())
        for step in range(last):
            self._step(step)
            ends = torch.from_numpy(self._steps == step + 1)
            if (step + 1) % self._epoch and not bool(ends.any()):
                continue
            self._check_finite()
            advance(min(self._config.epochs, (step + 1) // self._epoch))
            values = self._weights.values()
            if self._watch is None:
                weights[ends] = values[ends]
                continue
            losses = self._watch.losses(values)
            better = (losses < lowest) & torch.from_numpy(step < self._steps).to(self._device)
            weights[better], lowest[better] = values[better], losses[better]
            waited = 0 if bool(better.any()) else waited + 1
            if waited >= self._watch.patience:
                break
        return [own.copy() for own in weights.cpu().numpy()]

    def _step(self, step: int) -> None:
        picked, batch = self._batch(step)
        stack, most = batch.shape
        z = np.zeros((stack, most, self._config.latent), dtype=np.float32)
        counts = batch.sum(1).astype(int).tolist()
        for own, rng, count in zip(z, self._latent, counts, strict=True):
            own[:count] = rng.standard_normal((count, self._config.latent), dtype=np.float32)
        index, present = sent(picked.reshape(-1), self._device), sent(batch, self._device)
        x = self._features.index_select(0, index).view(stack, most, -1)
        taken = Pass(self._network, self._weights.parts, tapped=True)
        taken.backward(x, sent(z, self._device))
        self._sums.buffer.zero_()
        if self._privacy is None:
            weights = present / present.sum(1, keepdim=True).clamp_min(1)
            taken.add_clipped(self._sums.parts, weights, clip=None)
        else:
            self._put_noise()
            taken.add_clipped(self._sums.parts, present / self._config.batch, clip=self._privacy.clip)
        self._optimiser.step()

    def _put_noise(self) -> None:
        """Fill the sums with the noise of a step, over the nominal batch; weights that are fixed at 0 get none."""
        assert self._privacy is not None and self._noise is not None  # noqa: S101 - as the caller saw
        scale = np.float32(self._noise * self._privacy.clip / self._config.batch)
        for m, rng in enumerate(self._noises):
            noise = standard_normal(self._network.parameters, rng=rng)
            noise *= scale
            at = 0
            for (weight, bias), existing in zip(self._noise_views, self._existing, strict=True):
                own = weight[m]
                count = own.size if existing is None else len(existing)
                if existing is None:
                    own[:] = noise[at : at + count]
                else:
                    own[existing] = noise[at : at + count]
                bias[m] = noise[at + count : at + count + bias.shape[1]]
                at += count + bias.shape[1]
        if self._noise_sums is not self._sums:
            self._sums.buffer.copy_(self._noise_sums.buffer)

    def _batch(self, step: int) -> tuple[IntArray, Float32Array]:
        """Return positions (K, B) and which of them are there (K, B); models with fewer records are padded."""
        nothing = np.empty(0, dtype=np.int64)
        picked = [
            next(stream, nothing) if step < last else nothing
            for stream, last in zip(self._streams, self._steps.tolist(), strict=True)
        ]
        most = max(1, *(len(own) for own in picked))
        index = np.zeros((len(picked), most), dtype=np.int64)
        present = np.zeros((len(picked), most), dtype=np.float32)
        for m, own in enumerate(picked):
            index[m, : len(own)] = own
            present[m, : len(own)] = 1
        return index, present

    def _stream(self, rows: IntArray, rng: np.random.Generator) -> Iterator[IntArray]:
        steps = int(self._steps.max())
        if self._privacy is not None:
            return poisson(rows, rate=self._config.batch / self._privacy.records, steps=steps, rng=rng)
        batch = min(self._config.batch, len(rows))
        epochs = math.ceil(steps * batch / len(rows)) + 1
        return itertools.islice(shuffled(rows, batch=batch, epochs=epochs, rng=rng), steps)

    def _check_finite(self) -> None:
        if not bool(self._weights.buffer.isfinite().all()):
            which = int(torch.nonzero(~self._weights.values().isfinite().all(1))[0])
            raise MiauditError(
                f"training: the weights of generator {which} of its stack became infinite or NaN; lower learning_rate"
            )


def _checked(
    table: Table,
    owned: Sequence[IntArray],
    graph: CausalGraph,
    privacy: Any,
    config: GeneratorConfig,
    public: Table | None,
) -> float | None:
    """Check that all fit together, and return the noise multiplier."""
    config.check_graph(graph)
    device_of(config.device)
    if not isinstance(privacy, Privacy | None):
        hint = "write Privacy(records=..., epsilon=...)"
        raise InputError("privacy", "Privacy(...) or none", type(privacy).__name__, hint)
    fewest = min(len(own) for own in owned)
    if fewest < config.batch:
        hint = "lower batch, or bring more records"
        raise InputError("table", f"at least as many records as a batch of {config.batch:,}", f"{fewest:,}", hint)
    if config.patience is not None and public is None:
        hint = "pass public=, or leave patience out: stopping by private records would have to be paid for"
        raise InputError("patience", "none without a public table", f"{config.patience}", hint)
    if public is not None and (public.schema != table.schema or not len(public)):
        received = "no records" if public.schema == table.schema else "another schema"
        raise InputError("public", "records under the schema of the table", received, "read it with that schema")
    if privacy is None:
        return None
    if config.empirical:
        hint = "leave empirical out: the group is then learned with the others"
        raise InputError("empirical", "no groups with privacy", ", ".join(config.empirical), hint)
    noise: float = privacy.resolved_noise(config)
    return noise


@contextmanager
def _in_memory(config: GeneratorConfig) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MiauditError(
            f"training: {config.at_once} networks at once, {config.batch:,} records in a step, are too much for the "
            f"memory of {config.device}; lower at_once (here {config.at_once}) or batch, or train on the cpu"
        ) from error


def _shifted(progress: Callable[[int, int], None] | None, before: int, total: int) -> Callable[[int], None]:
    if progress is None:
        return lambda _: None
    return lambda epoch: progress(before + epoch, total)


def _optimiser(config: GeneratorConfig, values: Tensor) -> torch.optim.Optimizer:
    if config.optimiser == "adam":
        return torch.optim.Adam([values], lr=config.learning_rate, fused=True)
    return torch.optim.SGD([values], lr=config.learning_rate, momentum=_MOMENTUM, fused=True)


def _causes(graph: CausalGraph, config: GeneratorConfig, values: FloatArray) -> FloatArray | None:
    """Return the records without all but the columns of ``empirical`` groups; None without such groups."""
    own = [i for group in config.empirical for i in graph.positions(group)]
    causes = np.full(values.shape, np.nan)
    causes[:, own] = values[:, own]
    return causes if own else None

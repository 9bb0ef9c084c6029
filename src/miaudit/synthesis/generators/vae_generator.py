"""A trained VAE along a graph: draws records and bounds their likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, FloatArray
from miaudit.dp.mechanism import Mechanism, dp_sgd
from miaudit.errors import InputError
from miaudit.models.devices import fixed_order
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.layer import Part
from miaudit.synthesis.generators.vae import Block, Network, Pass
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

# Records that are drawn or read at once.
_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class VaeGenerator(Generator):
    """A VAE along a graph, with its weights.

    Attributes
    ----------
    network : its form
    config : how it was trained
    noise : the noise multiplier that training used; None without
    weights : float32 (P,)
    causes : (n, d) records of which the ``empirical`` groups are drawn, other columns NaN; None without such groups
    graph, privacy, repeatable, rehearsed : as of each generator
    """

    network: Network
    graph: CausalGraph
    config: GeneratorConfig
    privacy: Privacy | None
    noise: float | None
    weights: Float32Array
    causes: FloatArray | None = None
    repeatable: bool = False
    rehearsed: str = ""
    method: ClassVar[Method] = "vae"  # type: ignore[misc]  # the same for all of them

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @property
    def mechanism(self) -> Mechanism | None:
        """The training as an accountant sees it; None without differential privacy."""
        if self.privacy is None or self.noise is None:
            return None
        config = self.config
        return dp_sgd(records=self.privacy.records, batch=config.batch, epochs=config.epochs, noise=self.noise)

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        """Public facts of the network and its training."""
        config, privacy = self.config, self.privacy
        by_name: dict[str, int | float | str] = {
            "epochs": config.epochs,
            "batch": config.batch,
            "latent": config.latent,
            "hidden": config.hidden,
            "decoder": config.decoder,
            "parameters": self.network.parameters,
        }
        if privacy is not None and self.noise is not None:
            by_name |= {"records": privacy.records, "noise": self.noise, "clip": privacy.clip}
        return by_name | ({"rehearsed": self.rehearsed} if self.rehearsed else {})

    def elbo(self, table: Table, *, rng: np.random.Generator, draws: int = 1) -> FloatArray:
        """Return the evidence lower bound (n,) of each record's log-likelihood, averaged over draws of z.

        Higher is more likely under the generator; its negative is the loss of training.
        """
        if table.schema != self.schema:
            allowed = "records under the schema of the generator"
            raise InputError("table", allowed, "another schema", "read it with that")
        bounds = np.zeros(len(table))
        features = self.network.encoding.encode(table.values)
        with fixed_order(torch.device("cpu")), torch.no_grad():
            taken = Pass(self.network, self._parts, tapped=False)
            for _ in range(draws):
                for at in range(0, len(table), _AT_ONCE):
                    x = torch.from_numpy(features[at : at + _AT_ONCE])[None]
                    z = rng.standard_normal((1, x.shape[1], self.network.latent), dtype=np.float32)
                    bounds[at : at + _AT_ONCE] -= taken.negative_elbo(x, torch.from_numpy(z))[0].double().numpy()
        return bounds / draws

    def _stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        options = {
            "config": {name: value for name, value in asdict(self.config).items() if name != "device"},
            "privacy": None if self.privacy is None else asdict(self.privacy),
            "noise": self.noise,
            "repeatable": self.repeatable,
            "rehearsed": self.rehearsed,
        }
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights}
        return options, arrays if self.causes is None else arrays | {"causes": self.causes}

    @classmethod
    def _restored(cls, graph: CausalGraph, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        config = GeneratorConfig(**options["config"])
        privacy = None if options["privacy"] is None else Privacy(**options["privacy"])
        network = Network.of(graph, config)
        repeatable = bool(options["repeatable"])
        weights = arrays.get("weights")
        if weights is None or weights.shape != (network.size,) or weights.dtype != np.float32:
            allowed = f"{network.size:,} weights, as its graph needs"
            raise InputError("path", allowed, "other weights", "write it with Generator.save")
        return cls(
            network,
            graph,
            config,
            privacy,
            options["noise"],
            weights,
            arrays.get("causes"),
            repeatable,
            str(options.get("rehearsed", "")),
        )

    @property
    def _parts(self) -> list[Part]:
        return self.network.views(torch.from_numpy(self.weights.copy())[None])

    def _values(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        """Draw z from its prior, then each group given its parents and z."""
        parts = []
        with fixed_order(torch.device("cpu")), torch.no_grad():
            for at in range(0, n, _AT_ONCE):
                parts.append(self._draw(min(_AT_ONCE, n - at), fixed, rng))
        return np.concatenate(parts)

    def _draw(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        network = self.network
        values = np.full((n, len(self.schema)), np.nan)
        z = torch.from_numpy(rng.standard_normal((1, n, network.latent), dtype=np.float32))
        features = np.zeros((n, network.encoding.features), dtype=np.float32)
        from_records = self._empirical(values, rng)
        taken = Pass(network, self._parts, tapped=False)
        for block in network.blocks:
            mine = [i for i in block.columns if i not in from_records]
            values[:, mine] = network.encoding.draw(self._outputs(taken, block, features, z), mine, rng=rng)
            for i in block.columns:
                if i in fixed:
                    values[:, i] = fixed[i]
            features += network.encoding.encode(values, columns=block.columns)
        return values

    def _outputs(self, taken: Pass, block: Block, features: Float32Array, z: torch.Tensor) -> FloatArray:
        """Return outputs (n, outputs) with the values of one block; the others are 0."""
        outputs = np.zeros((len(features), self.network.encoding.outputs))
        outputs[:, list(block.outputs)] = taken.block(block, torch.from_numpy(features)[None], z)[0].double().numpy()
        return outputs

    def _empirical(self, values: FloatArray, rng: np.random.Generator) -> frozenset[int]:
        """Fill in the columns of ``empirical`` groups, each group's from one record, and return which they are."""
        if self.causes is None:
            return frozenset()
        positions: list[int] = []
        for group in self.config.empirical:
            own = list(self.graph.positions(group))
            values[:, own] = self.causes[rng.integers(0, len(self.causes), len(values))][:, own]
            positions += own
        return frozenset(positions)

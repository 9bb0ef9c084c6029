"""A trained generator: draws records, bounds their likelihood, says what it guarantees."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from miaudit.arrays import Float32Array, FloatArray
from miaudit.dp.mechanism import Mechanism, dp_sgd
from miaudit.dp.verdict import Claim, UpperBound
from miaudit.errors import InputError
from miaudit.io.tables import existing_file, require_suffix, write_atomically
from miaudit.models.devices import fixed_threads
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy, proved
from miaudit.synthesis.generators.vae import Block, Network, Part, Pass
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Category, Schema, Table

# Records that are drawn or read at once.
_AT_ONCE = 10_000
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Generator:
    """A VAE along a graph, with its weights.

    Attributes
    ----------
    network : its form
    graph : along which it factorises; of a plain VAE, one group of all columns
    config : how it was trained
    privacy : what was asked of it; None without differential privacy
    noise : the noise multiplier that training used; None without
    weights : float32 (P,)
    causes : (n, d) records of which the ``empirical`` groups are drawn, other columns NaN; None without such groups
    repeatable : whether the noise was drawn from the caller's generator: the guarantee then does not hold against who
        knows its seed
    """

    network: Network
    graph: CausalGraph
    config: GeneratorConfig
    privacy: Privacy | None
    noise: float | None
    weights: Float32Array
    causes: FloatArray | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @property
    def schema(self) -> Schema:
        """The columns of the records that it draws."""
        return self.graph.schema

    @property
    def mechanism(self) -> Mechanism | None:
        """The training as an accountant sees it; None without differential privacy."""
        if self.privacy is None or self.noise is None:
            return None
        config = self.config
        return dp_sgd(records=self.privacy.records, batch=config.batch, epochs=config.epochs, noise=self.noise)

    def guarantee(self) -> UpperBound | None:
        """Return what an accountant proves of the training; None without differential privacy."""
        mechanism = self.mechanism
        if mechanism is None or self.privacy is None:
            return None
        return proved(mechanism, self.privacy.resolved_delta)

    def claim(self) -> Claim | None:
        """Return the (epsilon, delta) that a release of its records claims; None without differential privacy.

        The target epsilon where one was asked for, and what the accountant proves where the noise was given.
        """
        bound = self.guarantee()
        if bound is None or self.privacy is None:
            return None
        wanted = self.privacy.epsilon
        return Claim.epsilon_delta(bound.value if wanted is None else wanted, self.privacy.resolved_delta)

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, Category] | None = None) -> Table:
        """Draw records: z from its prior, then each group given its parents and z, outcomes and never probabilities.

        Parameters
        ----------
        n : how many
        do : columns that are set from outside, with a category or number each; their effects see these values, their
            causes do not. An intervention on the causal system only if the graph is the true one

        Raises
        ------
        InputError
            For a number below 1, an unknown column or a value that its column cannot have.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError("n", "a whole number from 1 up", repr(n), "ask for at least one record")
        fixed = self._fixed(do or {})
        parts = []
        with fixed_threads(torch.device("cpu")), torch.no_grad():
            for at in range(0, int(n), _AT_ONCE):
                parts.append(self._draw(min(_AT_ONCE, int(n) - at), fixed, rng))
        return Table(self.schema, np.concatenate(parts))

    def elbo(self, table: Table, *, rng: np.random.Generator, draws: int = 1) -> FloatArray:
        """Return the evidence lower bound (n,) of each record's log-likelihood, averaged over draws of z.

        Higher is more likely under the generator; its negative is the loss of training.
        """
        if table.schema != self.schema:
            allowed = "records under the schema of the generator"
            raise InputError("table", allowed, "another schema", "read it with that")
        found = np.zeros(len(table))
        features = self.network.encoding.encode(table.values)
        with fixed_threads(torch.device("cpu")), torch.no_grad():
            taken = Pass(self.network, self._parts, tapped=False)
            for _ in range(draws):
                for at in range(0, len(table), _AT_ONCE):
                    x = torch.from_numpy(features[at : at + _AT_ONCE])[None]
                    z = rng.standard_normal((1, x.shape[1], self.network.latent), dtype=np.float32)
                    found[at : at + _AT_ONCE] -= taken.negative_elbo(x, torch.from_numpy(z))[0].double().numpy()
        return found / draws

    def save(self, path: str | Path) -> None:
        """Write the generator to an .npz file that :meth:`load` reads; nothing in it is pickled."""
        path = require_suffix(path, "path", (".npz",))
        described = {
            "format": _FORMAT,
            "graph": self.graph.to_mapping(),
            "config": asdict(self.config),
            "privacy": None if self.privacy is None else asdict(self.privacy),
            "noise": self.noise,
            "repeatable": self.repeatable,
        }
        arrays = {"weights": self.weights, "description": np.array(json.dumps(described))}
        if self.causes is not None:
            arrays["causes"] = self.causes

        def write(target: Path) -> None:
            with target.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **arrays)

        write_atomically(path, write)

    @classmethod
    def load(cls, path: str | Path) -> Generator:
        """Read a generator that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing, damaged, of another format, or its weights do not fit its graph.
        """
        path = existing_file(path, "path", (".npz",))
        hint = "write it with Generator.save"
        try:
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
            described = json.loads(str(found["description"]))
            if described["format"] != _FORMAT:
                received = f"format {described['format']!r}"
                raise InputError("path", f"a generator of format {_FORMAT}", received, "use the version that wrote it")
            config = GeneratorConfig(**described["config"])
            privacy = None if described["privacy"] is None else Privacy(**described["privacy"])
            graph = CausalGraph.from_mapping(described["graph"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            received = f"{path.name} ({str(error)[:100]})"
            raise InputError("path", "a file with a generator", received, hint) from error
        network = Network.of(graph, config)
        repeatable = bool(described.get("repeatable", privacy is not None))  # as it was before this was written down
        weights = found.get("weights")
        if weights is None or weights.shape != (network.size,) or weights.dtype != np.float32:
            raise InputError("path", f"{network.size:,} weights, as its graph needs", path.name, hint)
        return cls(network, graph, config, privacy, described["noise"], weights, found.get("causes"), repeatable)

    @property
    def _parts(self) -> list[Part]:
        return self.network.views(torch.from_numpy(self.weights.copy())[None])

    def _fixed(self, do: Mapping[str, Category]) -> dict[int, float]:
        found = {}
        for name, value in do.items():
            i = self.schema.position(name)
            column = self.schema.columns[i]
            if column.kind == "continuous":
                number = value if isinstance(value, int | float) else float("nan")
                assert column.low is not None and column.high is not None  # noqa: S101 - by its check
                if not column.low <= number <= column.high:
                    allowed = f"a number from {column.low:g} to {column.high:g}"
                    raise InputError(f"do.{name}", allowed, repr(value), "stay in its range")
                found[i] = float(number)
            elif value not in column.categories:
                allowed = f"one of {', '.join(map(repr, column.categories[:8]))}"
                raise InputError(f"do.{name}", allowed, repr(value), "name a category")
            else:
                found[i] = float(column.categories.index(value))
        return found

    def _draw(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        network = self.network
        values = np.full((n, len(self.schema)), np.nan)
        z = torch.from_numpy(rng.standard_normal((1, n, network.latent), dtype=np.float32))
        features = np.zeros((n, network.encoding.features), dtype=np.float32)
        drawn = self._empirical(values, rng)
        taken = Pass(network, self._parts, tapped=False)
        for block in network.blocks:
            mine = [i for i in block.columns if i not in drawn]
            values[:, mine] = network.encoding.draw(self._outputs(taken, block, features, z), mine, rng=rng)
            for i in block.columns:
                if i in fixed:
                    values[:, i] = fixed[i]
            features += network.encoding.encode(values, columns=block.columns)
        return values

    def _outputs(self, taken: Pass, block: Block, features: Float32Array, z: torch.Tensor) -> FloatArray:
        """Return the outputs (n, outputs) in which those of one block are filled in."""
        found = np.zeros((len(features), self.network.encoding.outputs))
        found[:, list(block.outputs)] = taken.block(block, torch.from_numpy(features)[None], z)[0].double().numpy()
        return found

    def _empirical(self, values: FloatArray, rng: np.random.Generator) -> frozenset[int]:
        """Fill in the columns of ``empirical`` groups, each group's from one record, and return which they are."""
        if self.causes is None:
            return frozenset()
        drawn: list[int] = []
        for group in self.config.empirical:
            own = list(self.graph.positions(group))
            values[:, own] = self.causes[rng.integers(0, len(self.causes), len(values))][:, own]
            drawn += own
        return frozenset(drawn)

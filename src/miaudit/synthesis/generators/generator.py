"""A generator: it draws records, states its guarantee, and can be saved and loaded."""

from __future__ import annotations

import json
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.dp.mechanism import Mechanism
from miaudit.dp.verdict import Claim, UpperBound
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.io.tables import existing_file, require_suffix, write_atomically
from miaudit.synthesis.generators.generator_config import Privacy, proved
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Category, Schema, Table

Method = Literal["tables", "vae"]
_FORMAT = 1
# What makes a generator again from its file, by method.
_KINDS = {"vae": ("vae_generator", "VaeGenerator"), "tables": ("tables_generator", "TablesGenerator")}


class Generator(ABC):
    """A generator, from which a release is drawn.

    Attributes
    ----------
    method : "tables" or "vae"
    graph : along which it factorises; of a plain one, one group of all columns
    privacy : the required privacy; None without differential privacy
    repeatable : whether the noise was drawn from the caller's generator: the guarantee then does not hold against
        anyone who knows its seed
    rehearsed : how this recipe and others did on simulated records; empty without a rehearsal
    """

    method: Method
    graph: CausalGraph
    privacy: Privacy | None
    repeatable: bool
    rehearsed: str

    @property
    def schema(self) -> Schema:
        """The columns of the records that it draws."""
        return self.graph.schema

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism | None:
        """What was done as an accountant sees it; None without differential privacy."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, int | float | str]:
        """Public facts of how it was made, by name."""

    def guarantee(self) -> UpperBound | None:
        """Return what an accountant proves of the mechanism; None without differential privacy."""
        mechanism = self.mechanism
        if mechanism is None or self.privacy is None:
            return None
        return proved(mechanism, self.privacy.resolved_delta, self.privacy.neighbours)

    def claim(self) -> Claim | None:
        """Return the (epsilon, delta) that a release of its records claims; None without differential privacy.

        The target epsilon, or for a stated noise the epsilon that the accountant proves.
        """
        bound = self.guarantee()
        if bound is None or self.privacy is None:
            return None
        wanted = self.privacy.epsilon
        return Claim.epsilon_delta(bound.value if wanted is None else wanted, self.privacy.resolved_delta)

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, Category] | None = None) -> Table:
        """Draw records: each group of columns given its parents, outcomes and never probabilities.

        Parameters
        ----------
        n : how many
        do : columns that are set from outside, with a category or number each; their effects see these values, their
            causes, and columns of their own group, do not. An intervention on the causal system only if the graph is
            the true one

        Raises
        ------
        InputError
            For a number below 1, an unknown column or a value that its column cannot have.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError("n", "a whole number from 1 up", repr(n), "ask for at least one record")
        check_generator(rng)
        return Table(self.schema, self._values(int(n), self._fixed(do or {}), rng))

    @abstractmethod
    def _values(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        """Draw the values (n, d) of records, with some columns set to a value."""

    def save(self, path: str | Path) -> None:
        """Write the generator to an .npz file that :meth:`load` reads; nothing in it is pickled."""
        path = require_suffix(path, "path", (".npz",))
        options, arrays = self._stored()
        described = {"format": _FORMAT, "method": self.method, "graph": self.graph.to_mapping(), **options}
        written = {"description": np.array(json.dumps(described)), **arrays}

        def write(target: Path) -> None:
            with target.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **written)

        write_atomically(path, write)

    @abstractmethod
    def _stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what :meth:`save` writes: plain values, and arrays by name."""

    @classmethod
    @abstractmethod
    def _restored(cls, graph: CausalGraph, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the generator again from what :meth:`_stored` gave."""

    @staticmethod
    def load(path: str | Path) -> Generator:
        """Read a generator that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing, damaged, of another format, or its numbers do not fit its graph.
        """
        path = existing_file(path, "path", (".npz",))
        try:
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                by_name = {name: archive[name] for name in archive.files}
            described = json.loads(str(by_name["description"]))
            if described["format"] != _FORMAT:
                received = f"format {described['format']!r}"
                raise InputError("path", f"a generator of format {_FORMAT}", received, "use the version that wrote it")
            module, name = _KINDS[described.get("method", "vae")]  # files are older than the choice
            generator_class: type[Generator] = getattr(import_module(f"{__package__}.{module}"), name)
            return generator_class._restored(CausalGraph.from_mapping(described["graph"]), described, by_name)
        except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile) as error:
            if isinstance(error, InputError) and error.argument == "path":
                raise
            received = f"{path.name} ({str(error)[:100]})"
            hint = "write it with Generator.save"
            raise InputError("path", "a file with a generator", received, hint) from error

    def _fixed(self, do: Mapping[str, Category]) -> dict[int, float]:
        by_name = {}
        for name, value in do.items():
            i = self.schema.position(name)
            column = self.schema.columns[i]
            if column.kind == "continuous":
                number = value if isinstance(value, int | float) else float("nan")
                assert column.low is not None and column.high is not None  # noqa: S101 - by its check
                if not column.low <= number <= column.high:
                    allowed = f"a number from {column.low:g} to {column.high:g}"
                    raise InputError(f"do.{name}", allowed, repr(value), "stay in its range")
                by_name[i] = float(number)
            elif value not in column.categories:
                allowed = f"one of {', '.join(map(repr, column.categories[:8]))}"
                raise InputError(f"do.{name}", allowed, repr(value), "name a category")
            else:
                by_name[i] = float(column.categories.index(value))
        return by_name

"""A model that never sees the records: it is trained on a synthetic release of them."""

# ruff: noqa: PLC0415 - torch loads when a generator is trained
from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, IndexArray
from miaudit.defences.ensemble import OnBase
from miaudit.errors import InputError
from miaudit.models.protocol import Trainable

if TYPE_CHECKING:
    from miaudit.synthesis import CausalGraph, GeneratorConfig, Privacy, Schema


@dataclass(frozen=True, eq=False)
class SyntheticTraining(OnBase):
    """Train on as many synthetic records as there are real ones, drawn from a generator that learnt those.

    What such a model gives away is at most what the release does; with ``privacy`` that is bounded by a theorem.

    Parameters
    ----------
    base : what is trained on the release
    schema : the columns of x in their order, then the label; public, never read off the records
    label : name of the label's column, the last one; its categories are the classes 0, 1, ...
    graph : over these columns; None is a plain generator
    privacy : what differential privacy is asked of the release; None is none
    config : of the generator

    Raises
    ------
    InputError
        If the last column is not the label.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miaudit.models.targets import SklearnTarget
    >>> from miaudit.synthesis import Column, GeneratorConfig, Schema
    >>> schema = Schema((Column("a", "continuous", low=-4, high=4), Column("y")))
    >>> target = SyntheticTraining(SklearnTarget(GaussianNB()), schema, "y", config=GeneratorConfig(epochs=3, batch=20))
    >>> x, y = np.random.default_rng(0).normal(size=(60, 1)), np.arange(60) % 2
    >>> target.outputs(target.fit(x, y, np.arange(60), seed=0), x).shape
    (60, 2)
    """

    base: Trainable
    schema: Schema
    label: str
    graph: CausalGraph | None = None
    privacy: Privacy | None = None
    config: GeneratorConfig | None = None

    def __post_init__(self) -> None:
        last = self.schema.columns[-1]
        if last.name != self.label or last.kind == "continuous":
            received = f"{last.name} ({last.kind})"
            raise InputError(
                "schema", f"the label {self.label}, with its classes, as the last column", received, "add it"
            )

    @property
    def name(self) -> str:
        """The base's name, and what it learns from."""
        return f"{self.base.name} on synthetic records"

    def identity(self) -> str:
        """The base's, and everything that decides the release."""
        options = {
            "schema": self.schema.to_mapping(),
            "graph": None if self.graph is None else self.graph.to_mapping(),
            "privacy": None if self.privacy is None else asdict(self.privacy),
            "config": None if self.config is None else asdict(self.config),
        }
        return f"synthetic {json.dumps(options, sort_keys=True, default=str)} {self.base.identity()}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Any:
        """Fit the generator on the rows, draw a release of as many records, and train on that."""
        from miaudit import synthesis
        from miaudit.synthesis import Table

        values = np.asarray(x, dtype=np.float64).reshape(len(y), -1)[rows]
        table = Table(self.schema, np.column_stack([values, np.asarray(y, dtype=np.float64)[rows]]))
        rng = np.random.default_rng(seed)
        release = synthesis.fit(table, self.graph, self.privacy, rng=rng, config=self.config).sample(len(rows), rng=rng)
        records, labels = release.values[:, :-1], release.values[:, -1].astype(np.int64)
        lost = sorted(set(range(len(self.schema.columns[-1].categories or (0, 1)))) - set(labels.tolist()))
        if lost:
            received = f"no synthetic record of class {', '.join(map(str, lost))}"
            raise InputError("synthetic", "records of every class", received, "more epochs, or a larger epsilon")
        return self.base.fit(records, labels, np.arange(len(labels)), seed=seed)

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """As the base."""
        return self.base.outputs(fitted, np.asarray(x, dtype=np.float64).reshape(len(x), -1))

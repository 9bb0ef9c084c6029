"""The one place where the comparison calls miaudit: its public door, as its documentation has it."""

from __future__ import annotations

from typing import Any

import data
import numpy as np

import miaudit
from miaudit.synthesis import GeneratorConfig, Privacy, Table, TablesConfig, fit
from miaudit.synthesis.interventions import interventional_error

# Public choices, the same for every table, made before any of them was measured.
EPOCHS, LEARNING_RATE = 30, 0.01
DRAWN = 2_000  # records for each intervention


class Prepared:
    """One fit and sample; afterwards what the generator says under interventions, where the world is known."""

    def __init__(self, method: str, along_graph: bool, job: dict[str, Any], private: dict[str, Any]) -> None:
        self.subject = data.subject(job["table"])
        self.method, self.along_graph, self.job = method, along_graph, job
        self.table = Table(self.subject.graph.schema, private["codes"])
        self.generator: Any = None

    def __call__(self) -> Any:
        rng = np.random.default_rng([2, self.job["seed"]])
        privacy = Privacy(records=self.job["records"], epsilon=self.job["epsilon"], delta=self.job["delta"])
        options: dict[str, Any] = {"method": "vae" if self.method == "vae" else "tables"}
        if self.method == "stages":  # levels merged by noisy counts, as a draft of miaudit synthesise has it
            options["config"] = TablesConfig(two_stages=True)
        if self.method == "vae":
            options["config"] = GeneratorConfig(epochs=EPOCHS, learning_rate=LEARNING_RATE)
        graph = self.subject.graph if self.along_graph else None
        self.generator = fit(self.table, graph, privacy, rng=rng, repeatable=True, **options)
        return self.generator.sample(self.job["records"], rng=rng).values

    def more(self) -> dict[str, Any]:
        """Return the interventional error, off the clock; nothing where no world or no graph is known."""
        world, do = self.subject.world, self.subject.interventions
        if world is None or not self.along_graph or not do:
            return {}
        rng = np.random.default_rng([3, self.job["seed"]])
        after = {column: self.subject.graph.descendants(column) for column, _value in do}
        found = interventional_error(self.generator, world, do, outcomes=after, n=DRAWN, rng=rng)
        return {
            "interventional": {name: getattr(found, name).value for name in ("error", "effect", "floor")},
        }


def prepared(method: str, along_graph: bool, job: dict[str, Any], private: dict[str, Any]) -> tuple[Prepared, str]:
    """Return the call, and the version."""
    return Prepared(method, along_graph, job, private), f"miaudit {miaudit.__version__}"

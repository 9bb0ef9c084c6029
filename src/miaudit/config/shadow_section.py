"""The sections of a configuration file on shadow models, and on repeated trainings for the stability of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from miaudit.collect.campaign import Shadows
from miaudit.config.section import FilePath, Keys, Section, Text, Whole
from miaudit.errors import InputError
from miaudit.errors.options import Option
from miaudit.io import storage
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Given

__all__ = ["STABILITY", "ShadowSection"]

STABILITY = Keys(
    {
        "pairs": Annotated[
            int,
            Option(
                "More models to train, each with one training record replaced by a fresh one.",
                "20 is a start; leave stability out for none",
                ge=1,
            ),
        ]
    },
    required=frozenset({"pairs"}),
)


class ShadowSection(Section):
    """How many shadow models, where they are kept and trained; or their outputs, where they were trained elsewhere."""

    models: Annotated[int, Field(ge=0)] = 0
    outputs_path: FilePath | None = None
    given: Given = "logits"
    signal: Text = "logit_confidence"
    vulnerability: bool | None = None
    population: Whole | None = None
    store: Text | None = None
    keep: Literal["outputs", "signal"] = "outputs"
    executor: Literal["local", "ray"] = "local"
    address: Text | None = None
    workers: Whole = 1
    threads: Whole = 1
    cpus: Annotated[float, Field(gt=0)] | None = None
    gpus: Annotated[float, Field(ge=0)] | None = None
    memory: Annotated[float, Field(gt=0)] | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0)] = 0
    at_once: Whole = 1
    seconds_per_fit: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.models % 2:
            raise ValueError(
                f"expected an even number of models, so that each record is in half of them, received {self.models}"
            )
        if self.address is not None and self.executor != "ray":
            raise ValueError("expected executor: ray beside address, received local; add it")
        if self.outputs_path is not None and self.models:
            raise ValueError("expected outputs_path or models, received both; shadow models are given or trained")
        of_ray = [name for name in ("cpus", "memory") if getattr(self, name) is not None]
        if of_ray and self.executor != "ray":
            raise ValueError(f"expected executor: ray beside {of_ray[0]}, received local; leave it out")
        alone = sorted({"given", "signal"} & self.model_fields_set)
        if self.outputs_path is None and alone:
            raise ValueError(f"expected outputs_path beside {alone[0]}, received none; it says what that file holds")
        try:
            self._shadows(Path())
        except InputError as error:
            raise ValueError(f"{error.argument}: expected {error.allowed}, received {error.received}") from None
        if self.vulnerability and not self.models and self.outputs_path is None:
            raise ValueError("expected shadow models beside vulnerability, received none; set models")
        return self

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of the installation that the campaign needs."""
        return ("ray",) if self.executor == "ray" else ()

    def options(self, base: Path, labels: int = 0) -> Shadows:
        """Return the options of the campaign; reads the outputs that are given, of so many labels of each record."""
        external = None
        if self.outputs_path is not None:
            external = GivenShadows.load(base / self.outputs_path, given=self.given, signal=self.signal, labels=labels)
        return self._shadows(base, given=external, store=self.place(base))

    def place(self, base: Path) -> str | Path | None:
        """Where finished models are kept, as seen from the folder of the file; None for nowhere."""
        return None if self.store is None else storage.resolved(base, self.store)

    def _shadows(self, base: Path, **more: Any) -> Shadows:
        """The options without what is read; the folder of the configuration goes to a cluster."""
        same = {"models", "vulnerability", "population", "workers", "at_once", "seconds_per_fit", "keep"}
        each = self.model_dump(include={"threads", "cpus", "gpus", "memory", "timeout", "retries"})
        options = {**self.model_dump(include=same), **more}
        return Shadows.run_by(self.executor, self.address or "", base.absolute(), each, **options)

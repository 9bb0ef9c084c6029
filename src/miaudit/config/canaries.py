"""The section of a configuration file that asks for canaries: made of the records, or read from a file."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from miaudit.collect import canaries
from miaudit.collect.canaries import KINDS, CanaryKind, Insertion, Law
from miaudit.collect.records import Records
from miaudit.config.data_section import DataSection
from miaudit.config.section import FilePath, Refused, Section
from miaudit.errors import InputError
from miaudit.errors.options import check_choice
from miaudit.models.protocol import can_be_trained, traits_of
from miaudit.models.protocol import stands as stands_as_it_is

__all__ = ["INSERTION", "OPTIONS", "CanarySection", "asked", "generator", "insertion", "reference_of"]

OPTIONS = tuple(dict.fromkeys(field.name for kind in KINDS.values() for field in fields(kind)))
INSERTION = ("times", "per_unit")
_STREAM = 0xCA4A51  # apart from the draws of memberships, which have the same seed


def generator(seed: int) -> np.random.Generator:
    """Return the generator that makes the canaries of a seed, independent of the one that tosses their coins."""
    return np.random.default_rng([seed, _STREAM])


def asked(kind: str, **options: Any) -> CanaryKind:
    """Return the record of a kind, by name, with the options that are not None.

    Raises
    ------
    InputError
        For an unknown kind, an option that the kind does not have, and a value outside its range.

    Examples
    --------
    >>> asked("noise", count=100, law="gaussian")
    Noise(count=100, shape=(), law='gaussian')
    """
    check_choice("canaries.kind", kind, KINDS)
    record, values = KINDS[kind], {name: value for name, value in options.items() if value is not None}
    if "count" not in values:
        raise InputError("canaries.count", "how many canaries, two or more", "none", "1,000 is usual")
    known = {field.name for field in fields(record)}
    for name in values:
        if name not in known:
            raise InputError(f"canaries.{name}", f"none for kind {kind}", "one", "leave it out")
    return record(**values)


def insertion(times: int | tuple[int, ...] | None, per_unit: int | None) -> Insertion:
    """Return how canaries stand in a training, of options that may be None.

    Examples
    --------
    >>> insertion(4, None)
    Insertion(times=(4,), per_unit=None)
    """
    several = (times,) if isinstance(times, int) else times
    return Insertion((1,) if several is None else several, per_unit)


def reference_of(target: Any) -> Any:
    """Return the target where it can be the reference model: where records themselves can be trained on, here."""
    usable = can_be_trained(target) and not stands_as_it_is(target) and not traits_of(target).by_row
    return target if usable else None


class CanarySection(Section):
    """Canaries beside the data: of a kind and so many, or from a file with the columns of the data."""

    kind: str | None = None
    count: Any = None
    shape: tuple[int, ...] | None = None
    law: Law | None = None
    pool: Any = None
    words: Any = None
    frame: Any = None
    times: Annotated[int, Field(ge=1)] | tuple[int, ...] | None = None
    per_unit: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = Field(default=None, ge=0)
    file: FilePath | None = None
    held_out: Annotated[int, Field(ge=2)] | None = None

    @field_validator("kind", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if value is not None:
            try:
                check_choice("canaries.kind", value, KINDS)
            except InputError as error:
                raise Refused(error) from None
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.named_in_data:
            return self
        if (self.kind is None) == (self.file is None):
            received = "neither" if self.kind is None else "both"
            hint = f"kinds are {', '.join(KINDS)}"
            raise Refused(InputError("canaries", "kind with count, or file", received, hint))
        if self.file is not None:
            beside = [name for name in (*OPTIONS, *INSERTION, "seed") if getattr(self, name) is not None]
            if beside:
                received = f"{beside[0]} beside file"
                raise Refused(InputError("canaries", "file alone", received, "the canaries are there already"))
            return self
        try:
            self.asked()
            insertion(self.times, self.per_unit)
        except InputError as error:
            raise Refused(error) from None
        return self

    @property
    def named_in_data(self) -> bool:
        """Whether nothing is made, for canaries that the column data.canary names; kind held-out says what they are."""
        return bool(self.model_fields_set) and self.model_fields_set <= {
            "held_out",
            *(["kind"] if self.of_data else []),
        }

    @property
    def of_data(self) -> bool:
        """Whether the canaries are documents of the data as they are."""
        return self.kind == "held-out"

    def asked(self) -> CanaryKind:
        """Return what is to be made."""
        return asked(str(self.kind), **self.model_dump(include=set(OPTIONS)))

    def beside(self, records: Records, base: Path, data: DataSection, target: Any, seed: int) -> Records:
        """Return the records with canaries behind them; trains a reference model where the kind asks for one.

        Parameters
        ----------
        base : folder of the configuration file
        target : what is trained, which is the reference model too
        seed : of the configuration, where the section has none of its own

        Raises
        ------
        InputError
            For a target that stands as it is, or reads its own data, and whatever :mod:`miaudit.collect.canaries`
            refuses.
        """
        if self.named_in_data:
            if data.canary is None:
                hint = "add kind and count, or name the canaries of the data as data.canary"
                what = "held-out" if self.of_data else "held_out"
                raise InputError("canaries", f"canaries beside {what}", "none", hint)
            return replace(records, natural=self.of_data)
        if stands_as_it_is(target):
            hint = (
                "a model that stands learned none of them: train it here, or name those that it learned as data.canary"
            )
            raise InputError("canaries", "a target that is trained here", f"{target.name}, which stands as it is", hint)
        if traits_of(target).by_row:
            hint = "miaudit canaries writes data with canaries in them: let the script read these, with data.canary"
            raise InputError("canaries", "none, for a script that reads its own data", "canaries", hint)
        if data.copies is not None:
            raise InputError("data.copies", "none, beside canaries that are made here", "one", "leave it out")
        if self.file is not None:
            if data.canary is not None:
                raise InputError("canaries", "none, beside data.canary", "both", "leave one of them out")
            theirs = data.load(base, path=self.file)
            return canaries.beside(records, theirs, f"from {Path(self.file).name}")
        own = self.seed if self.seed is not None else seed
        how = insertion(self.times, self.per_unit)
        return canaries.added(
            records, self.asked(), rng=generator(own), reference=reference_of(target), seed=own, insertion=how
        )

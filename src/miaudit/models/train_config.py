"""Everything about a training run but the network, the records and the model's own seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from miaudit.errors import InputError, nearest
from miaudit.models.private import Private

_CHOICES = {
    "optimiser": ("sgd", "adam"),
    "schedule": ("constant", "cosine"),
    "augmentation": ("none", "flip-crop"),
    "device": ("auto", "cpu", "cuda"),
}
_USUAL_RATE = {"sgd": 0.1, "adam": 0.001}


@dataclass(frozen=True)
class TrainConfig:
    """Everything about a training run but the network, the records and the model's own seed.

    Attributes
    ----------
    optimiser : "sgd" with momentum, or "adam" with decoupled weight decay (AdamW)
    learning_rate : above 0; none is 0.1 for sgd and 0.001 for adam
    momentum : in [0, 1); of adam, the decay of the first moment
    weight_decay : 0 or more; with DP-SGD it acts after clipping and noise, so it costs no privacy
    schedule : of the learning rate, step by step: "constant", or "cosine" down to 0
    epochs : passes over the records
    batch : records in a step; with DP-SGD the expected number
    augmentation : "none", or "flip-crop": images mirrored and moved by up to an eighth of their side
    label_smoothing : in [0, 1)
    private : options of DP-SGD, or none
    device : "auto" takes a GPU if there is one; only on the CPU are results repeatable bit for bit
    mixed_precision : bfloat16 where torch deems it safe, on a GPU; the CPU always computes in float32
    seed : of the whole experiment; a model's generators come from this and from its own seed

    Raises
    ------
    InputError
        For an unknown choice or a number outside its range.

    Examples
    --------
    >>> TrainConfig(optimiser="adam", epochs=5).learning_rate
    0.001
    >>> TrainConfig(optimiser="adamw")
    Traceback (most recent call last):
    miaudit.errors.InputError: optimiser: expected 'sgd' or 'adam', received 'adamw'; did you mean adam?
    """

    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: float | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "cosine"
    epochs: int = 20
    batch: int = 128
    augmentation: Literal["none", "flip-crop"] = "none"
    label_smoothing: float = 0.0
    private: Private | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    mixed_precision: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                allowed = " or ".join(map(repr, known))
                raise InputError(name, allowed, repr(value), nearest(str(value), known) or f"{known[0]} is the default")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", _USUAL_RATE[self.optimiser])
        _check_number("learning_rate", self.learning_rate, "above 0, at most 1e38", lambda v: 0 < v <= 1e38)
        _check_number("momentum", self.momentum, "in [0, 1)", lambda v: 0 <= v < 1)
        _check_number("weight_decay", self.weight_decay, "from 0 up", lambda v: 0 <= v < math.inf)
        _check_number("label_smoothing", self.label_smoothing, "in [0, 1)", lambda v: 0 <= v < 1)
        for name, least in (("epochs", 1), ("batch", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(name, f"a whole number from {least} up", repr(value), "write it without a point")
        if self.private is not None:
            _check_private(self.private, self.batch)

    def steps(self, records: int) -> int:
        """Return the number of steps for that many records; with DP-SGD it follows from the nominal number alone."""
        if self.private is not None:
            return math.ceil(self.epochs * self.private.records / self.batch - 1e-9)
        return math.ceil(self.epochs * records / min(self.batch, records))


def _check_number(name: str, value: Any, allowed: str, good: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not good(value):
        raise InputError(name, f"a number {allowed}", repr(value), "see TrainConfig")


def _check_private(private: object, batch: int) -> None:
    if not isinstance(private, Private):
        raise InputError(
            "private", "Private(...) or none", type(private).__name__, "Private(noise, clip, delta, records)"
        )
    if batch > private.records:
        received = f"{batch:,}"
        hint = "the sampling rate is batch / records"
        raise InputError("batch", f"at most the nominal {private.records:,} records", received, hint)

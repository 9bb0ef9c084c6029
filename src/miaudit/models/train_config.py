"""Everything about a training run but the network, the records and the model's own seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from miaudit.errors import InputError, is_number, nearest

_CHOICES = {
    "optimiser": ("sgd", "adam"),
    "schedule": ("constant", "cosine"),
    "augmentation": ("none", "flip-crop"),
    "device": ("auto", "cpu", "cuda"),
}
_USUAL_RATE = {"sgd": 0.1, "adam": 0.001}


@dataclass(frozen=True)
class Private:
    """Options of DP-SGD: Poisson sampling, gradients of records clipped, Gaussian noise on their sum.

    Attributes
    ----------
    noise : standard deviation of the noise on the sum, divided by ``clip`` ("noise multiplier"), above 0
    clip : largest L2 norm of one record's gradient over all parameters together, above 0
    delta : at which the guarantee states its epsilon, in (0, 1)
    records : public nominal number of training records, from which the sampling rate, the number of steps and the
        normaliser follow, whatever the number of records in truth (erratum D9)
    repeatable : whether the noise, the samples and all else but the initial weights follow from the seeds of the
        training, for experiments that are repeated. The guarantee then does not hold against who knows the seeds. If
        not, they come from the operating system, and no seed repeats them

    Raises
    ------
    InputError
        For a value outside its range.

    Examples
    --------
    >>> Private(noise=3.0, clip=1.0, delta=0.01, records=2000)
    Private(noise=3.0, clip=1.0, delta=0.01, records=2000, repeatable=False)
    """

    noise: float
    clip: float
    delta: float
    records: int
    repeatable: bool = False

    def __post_init__(self) -> None:
        for name in ("noise", "clip"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise InputError(name, "a finite number above 0", repr(value), "1.0 is usual")
        if not is_number(self.delta) or not 0 < self.delta < 1:
            hint = "take a delta well below 1 / records"
            raise InputError("delta", "a number in (0, 1)", repr(self.delta), hint)
        if not isinstance(self.records, int) or isinstance(self.records, bool) or self.records < 1:
            hint = "state a public, nominal number of training records"
            raise InputError("records", "a whole number from 1 up", repr(self.records), hint)
        if not isinstance(self.repeatable, bool):
            raise InputError("repeatable", "true or false", repr(self.repeatable), "false is the default")


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the loss on records held out of a model's own no longer falls, and keep the weights of the least loss.

    Attributes
    ----------
    share : of each model's training records that it is not trained on, in (0, 1); at least one record
    patience : epochs without a lower loss on them, after which training stops, 1 or more

    Raises
    ------
    InputError
        For a value outside its range.

    Examples
    --------
    >>> EarlyStopping(share=0.2)
    EarlyStopping(share=0.2, patience=5)
    """

    share: float = 0.1
    patience: int = 5

    def __post_init__(self) -> None:
        _check_number("early_stopping.share", self.share, "in (0, 1)", lambda v: 0 < v < 1)
        _check_whole("early_stopping.patience", self.patience, 1)


@dataclass(frozen=True)
class Pruning:
    """Set the weights of least magnitude to 0 once, and train the others on (Han et al., 2015, in one round).

    Attributes
    ----------
    sparsity : share that becomes 0 of all weights with two axes or more, which biases and normalisation have not, over
        all layers together; in (0, 1)
    finetuning : share of the steps that come after it, in [0, 1); the number of steps stays what it is without pruning

    Raises
    ------
    InputError
        For a value outside its range.

    Examples
    --------
    >>> Pruning(0.9)
    Pruning(sparsity=0.9, finetuning=0.25)
    """

    sparsity: float
    finetuning: float = 0.25

    def __post_init__(self) -> None:
        _check_number("pruning.sparsity", self.sparsity, "in (0, 1)", lambda v: 0 < v < 1)
        _check_number("pruning.finetuning", self.finetuning, "in [0, 1)", lambda v: 0 <= v < 1)


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
    input_noise : standard deviation of Gaussian noise that is added to the records anew in each step, 0 or more, in the
        units of the records
    early_stopping : a held-out share of each model's records and a patience, or none; not with DP-SGD or pruning
    pruning : sparsity and a share of the steps for fine-tuning, or none
    private : options of DP-SGD, or none
    device : "auto" takes a GPU if there is one; only on the CPU are results repeatable bit for bit
    mixed_precision : bfloat16 where torch deems it safe, on a GPU; the CPU always computes in float32
    seed : of the whole experiment; a model's generators come from this and from its own seed

    Raises
    ------
    InputError
        For an unknown choice, a number outside its range, or options that exclude each other.

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
    input_noise: float = 0.0
    early_stopping: EarlyStopping | None = None
    pruning: Pruning | None = None
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
        _check_number("input_noise", self.input_noise, "from 0 up", lambda v: 0 <= v < math.inf)
        for name, least in (("epochs", 1), ("batch", 1), ("seed", 0)):
            _check_whole(name, getattr(self, name), least)
        _check_record("early_stopping", self.early_stopping, EarlyStopping)
        _check_record("pruning", self.pruning, Pruning)
        if self.private is not None:
            _check_private(self.private, self.batch)
        if self.early_stopping is not None:
            _check_nothing_beside_early_stopping(self)

    def steps(self, records: int) -> int:
        """Return the number of steps for that many records; with DP-SGD it follows from the nominal number alone."""
        if self.private is not None:
            return math.ceil(self.epochs * self.private.records / self.batch - 1e-9)
        return math.ceil(self.epochs * records / min(self.batch, records))


def _check_number(name: str, value: Any, allowed: str, good: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not good(value):
        raise InputError(name, f"a number {allowed}", repr(value), "see TrainConfig")


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(name, f"a whole number from {least} up", repr(value), "write it without a point")


def _check_record(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise InputError(name, f"{kind.__name__}(...) or none", type(value).__name__, "see TrainConfig")


def _check_nothing_beside_early_stopping(config: TrainConfig) -> None:
    if config.private is not None:
        hint = "leave one out: choosing weights by the loss on records is not covered by the guarantee"
        raise InputError("early_stopping", "none beside DP-SGD", "both", hint)
    if config.pruning is not None:
        hint = "leave one out: the weights that were best would be those before pruning"
        raise InputError("early_stopping", "none beside pruning", "both", hint)


def _check_private(private: object, batch: int) -> None:
    if not isinstance(private, Private):
        raise InputError(
            "private", "Private(...) or none", type(private).__name__, "Private(noise, clip, delta, records)"
        )
    if batch > private.records:
        received = f"{batch:,}"
        hint = "the sampling rate is batch / records"
        raise InputError("batch", f"at most the nominal {private.records:,} records", received, hint)

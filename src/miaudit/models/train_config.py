"""Everything about a training but the network, the records and the model's own seed, of networks and of texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options

DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_USUAL_RATE = {"sgd": 0.1, "adam": 0.001}
Whole = Annotated[int, Option(ge=1, allowed="a whole number from 1 up", next_step="write it without a point")]
Share = Annotated[float, Option(gt=0, lt=1)]
Fraction = Annotated[float, Option(ge=0, lt=1)]
Amount = Annotated[float, Option(ge=0)]
Scale = Annotated[float, Option(gt=0, next_step="1.0 is usual")]
Switch = Annotated[bool, Option(next_step="false is the default")]


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

    noise: Scale
    clip: Scale
    delta: Annotated[float, Option(gt=0, lt=1, next_step="take a delta well below 1 / records")]
    records: Annotated[
        int, Option(ge=1, allowed="a whole number from 1 up", next_step="state a public, nominal number of records")
    ]
    repeatable: Switch = False

    def __post_init__(self) -> None:
        check_options(self)


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

    share: Share = 0.1
    patience: Whole = 5

    def __post_init__(self) -> None:
        check_options(self, "early_stopping.")


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

    sparsity: Share
    finetuning: Fraction = 0.25

    def __post_init__(self) -> None:
        check_options(self, "pruning.")


@dataclass(frozen=True)
class Adversarial:
    """Train on records that are moved so that the loss rises, made anew in each step for the weights as they are.

    Attributes
    ----------
    radius : by how much each number of a record may change, above 0, in the units of the records
    steps : 1 is the fast gradient sign method, more are projected gradient ascent; each costs one more pass

    Raises
    ------
    InputError
        For a value outside its range.

    Examples
    --------
    >>> Adversarial(0.1)
    Adversarial(radius=0.1, steps=1)
    """

    radius: Annotated[float, Option(gt=0, next_step="a tenth of the records' standard deviation is mild")]
    steps: Whole = 1

    def __post_init__(self) -> None:
        check_options(self, "adversarial.")


_SECTIONS: Mapping[str, type] = {
    "adversarial": Adversarial,
    "early_stopping": EarlyStopping,
    "pruning": Pruning,
    "private": Private,
}


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
    adversarial : radius and steps of records that are moved so that the loss rises, or none; each step of training then
        sees these in the place of the records, after augmentation and input noise. Not with DP-SGD
    early_stopping : a held-out share of each model's records and a patience, or none; not with DP-SGD or pruning
    pruning : sparsity and a share of the steps for fine-tuning, or none
    private : options of DP-SGD, or none
    device : "auto" takes a GPU if there is one, "cpu", "cuda", or "cuda:1" for one of several
    mixed_precision : bfloat16 where torch deems it safe, on a GPU; the CPU always computes in float32
    tf32 : whether a GPU may take products of float32 matrices and convolutions in TF32, which keeps ten bits of each
        factor's fraction; never where DP-SGD clips
    seed : of the whole experiment; a model's generators come from this and from its own seed
    loss : "cross_entropy" of classes, "binary_cross_entropy" of several labels for each record, a mean over labels, or
        "squared_error" of numbers, a mean over the numbers of a record; scale these to a spread near 1

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

    optimiser: Annotated[Literal["sgd", "adam"], Option(allowed="'sgd' or 'adam'")] = "sgd"
    learning_rate: Annotated[float | None, Option(gt=0, le=1e38, allowed="a number above 0, at most 1e38")] = None
    momentum: Fraction = 0.9
    weight_decay: Amount = 0.0
    schedule: Annotated[Literal["constant", "cosine"], Option()] = "cosine"
    epochs: Whole = 20
    batch: Whole = 128
    augmentation: Annotated[Literal["none", "flip-crop"], Option()] = "none"
    label_smoothing: Fraction = 0.0
    input_noise: Amount = 0.0
    adversarial: Annotated[Adversarial | None, Option()] = None
    early_stopping: Annotated[EarlyStopping | None, Option()] = None
    pruning: Annotated[Pruning | None, Option()] = None
    private: Annotated[Private | None, Option()] = None
    device: Annotated[str, Option(allowed="auto, cpu, cuda or cuda:N", next_step="auto is the default")] = "auto"
    mixed_precision: Switch = False
    tf32: Switch = False
    seed: Annotated[int, Option(ge=0)] = 0
    loss: Annotated[Literal["cross_entropy", "binary_cross_entropy", "squared_error"], Option()] = "cross_entropy"

    def __post_init__(self) -> None:
        check_options(self)
        if self.loss == "squared_error" and self.label_smoothing:
            hint = "leave it out: numbers have no classes to be smoothed over"
            raise InputError("label_smoothing", "0 beside loss: squared_error", repr(self.label_smoothing), hint)
        if not isinstance(self.device, str) or DEVICES.fullmatch(self.device) is None:
            raise InputError("device", "auto, cpu, cuda or cuda:N", repr(self.device), "auto is the default")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", _USUAL_RATE[self.optimiser])
        for name, kind in _SECTIONS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(name, f"{kind.__name__}(...) or none", type(value).__name__, "see TrainConfig")
        if self.private is not None and self.batch > self.private.records:
            allowed = f"at most the nominal {self.private.records:,} records"
            raise InputError("batch", allowed, f"{self.batch:,}", "the sampling rate is batch / records")
        if self.adversarial is not None and self.private is not None:
            hint = "leave one out: adversarial samples are not made under the guarantee here"
            raise InputError("adversarial", "none beside DP-SGD", "both", hint)
        if self.early_stopping is not None and self.private is not None:
            hint = "leave one out: choosing weights by the loss on records is not covered by the guarantee"
            raise InputError("early_stopping", "none beside DP-SGD", "both", hint)
        if self.early_stopping is not None and self.pruning is not None:
            hint = "leave one out: the weights that were best would be those before pruning"
            raise InputError("early_stopping", "none beside pruning", "both", hint)

    def steps(self, records: int) -> int:
        """Return the number of steps for that many records; with DP-SGD it follows from the nominal number alone."""
        if self.private is not None:
            return math.ceil(self.epochs * self.private.records / self.batch - 1e-9)
        return math.ceil(self.epochs * records / min(self.batch, records))


@dataclass(frozen=True)
class SmallGPT2:
    """A GPT-2 of any size, trained from random weights with Adam and a learning rate that falls to 0 in a line.

    Parameters
    ----------
    layers, width, heads : of the network; width is a multiple of heads
    context : most tokens of a text; longer texts are cut
    epochs, batch : passes over the texts, texts in a step
    learning_rate : of the first step
    """

    layers: Whole = 2
    width: Whole = 64
    heads: Whole = 4
    context: Annotated[int, Option(ge=2, next_step="128 is the default")] = 128
    epochs: Whole = 20
    batch: Whole = 16
    learning_rate: Annotated[float, Option(gt=0, lt=1, next_step="0.003 is the default")] = 3e-3

    def __post_init__(self) -> None:
        check_options(self)
        if self.width % self.heads:
            raise InputError("width", f"a multiple of {self.heads} heads", str(self.width), "64 and 4 go together")

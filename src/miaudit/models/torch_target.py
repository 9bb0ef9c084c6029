"""PyTorch networks as targets: trained here, or with saved weights. Torch is loaded only where it is used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray
from miaudit.errors import InputError, MiauditError
from miaudit.errors.options import check_choice
from miaudit.jobs.resumable import digest
from miaudit.metrics.rounding import upper_text
from miaudit.models.outputs import checked_outputs, label_count, logits_of
from miaudit.models.own_code import called, described, described_function, load_factory, own_source
from miaudit.models.protocol import Kind, Traits
from miaudit.models.train_config import TrainConfig

_KINDS: dict[str, Kind] = {
    "cross_entropy": "logits",
    "binary_cross_entropy": "multi-label",
    "squared_error": "predictions",
}
NetworkGiven = Literal["logits", "probabilities", "predictions"]
LOGITS = "logits"  # where outputs stand, unless said otherwise


class _Network(Traits):
    """A PyTorch network from a factory: how it is built, described and asked. Runs the factory's code."""

    factory: str | Callable[[], Any]
    weights: str | Path | None
    called: str
    output: str
    runs_user_code = True  # a factory is code
    _state: Any
    _tf32 = False

    def __post_init__(self) -> None:
        from miaudit.models import weights as saved  # noqa: PLC0415 - torch is loaded only where it is used

        saved.build(self.build)
        if self.weights is not None:
            state = saved.load(self.weights)
            saved.network(self.build, state)
            object.__setattr__(self, "_state", state)

    @property
    def build(self) -> Callable[[], Any]:
        """The factory as a function."""
        factory = load_factory(self.factory) if isinstance(self.factory, str) else self.factory
        if self.output == LOGITS:
            return factory
        from miaudit.models import weights as saved  # noqa: PLC0415

        return functools.partial(saved.keyed, factory=factory, key=self.output)

    @property
    def name(self) -> str:
        """The given name, or the factory's."""
        return self.called or (self.factory if isinstance(self.factory, str) else called(self.factory))

    def architecture(self) -> str:
        """The factory and its source, its network's layers, shapes and own classes, and the version of torch."""
        import torch  # noqa: PLC0415

        from miaudit.models import weights as saved  # noqa: PLC0415

        net = saved.build(self.build)
        shapes = [(name, tuple(values.shape)) for name, values in net.state_dict().items()]
        kinds = sorted(set(map(type, net.modules())), key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
        own = "".join(own_source(kind) for kind in kinds)
        return f"torch {torch.__version__} {described_function(self.build)} {net} {shapes}{own}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """Logits, log-odds of labels or predictions (n, C) of these weights, or of the saved ones for None."""
        from miaudit.models import train  # noqa: PLC0415

        state = self._state if fitted is None else fitted
        if state is None:
            raise InputError("weights", "a file of saved weights", "none", "name one: there is no audited model yet")
        logits = train.logits(self.build, state, x, device=self.device, tf32=self._tf32)
        return checked_outputs(self._of_given(logits), len(x), self.name)

    def _of_given(self, found: Any) -> Any:
        """Outputs as logits, log-odds or predictions; those of a network are so already."""
        return found


@dataclass(frozen=True, eq=False)
class TorchTarget(_Network):
    """A PyTorch network from a factory, trained here. Runs the factory's code.

    Parameters
    ----------
    factory : "package.module:function" or a function without arguments, that returns a torch.nn.Module
    config : how it is trained
    weights : path of .safetensors, .pt or .pth, optional
        Weights of the model that is audited: ``outputs(None, x)`` are theirs. Nothing is unpickled.
    called : optional name
    key : str
        Changes the fingerprint; needed where the factory depends on what its source does not show.
    output : str
        Where the outputs stand in what the network returns: a key of a dictionary, or an attribute. Of a tuple it is
        the first.

    Raises
    ------
    InputError
        For a factory that does not import, or returns something else, and weights that do not fit it.
    """

    factory: str | Callable[[], Any]
    config: TrainConfig
    weights: str | Path | None = None
    called: str = ""
    key: str = ""
    output: str = "logits"
    _state: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.config, TrainConfig):
            raise InputError(
                "config", "a TrainConfig", type(self.config).__name__, "miaudit.models.train.TrainConfig()"
            )
        super().__post_init__()

    @property
    def kind(self) -> Kind:
        """By the loss: logits, log-odds of several labels, or predictions."""
        return _KINDS[self.config.loss]

    def labelled(self, y: Any) -> TorchTarget:
        """As of :meth:`Traits.labelled`: the loss says what labels are.

        Raises
        ------
        InputError
            For several labels of each record and a loss of one class.
        """
        if self.config.loss == "cross_entropy" and label_count(y):
            allowed = "binary_cross_entropy, or squared_error, for several columns of labels"
            raise InputError("training.loss", allowed, "cross_entropy", "set it, or name one column as data.y")
        return self

    @property
    def device(self) -> str:
        """Where it is trained and asked."""
        return self.config.device

    @property
    def _tf32(self) -> bool:  # type: ignore[override]
        return self.config.tf32

    def placed(self, gpus: float | None, *, cluster: bool) -> TorchTarget:
        """As of :meth:`Traits.placed`: "auto" becomes what it means, so that no fit falls back by itself.

        Raises
        ------
        InputError
            For a GPU that is asked for and not there, or not given to the fits.
        """
        from miaudit.models import devices  # noqa: PLC0415

        name, share = self.config.device, (gpus or 0) if cluster else gpus
        if name.startswith("cuda") and share == 0:
            hint = "set shadow.gpus: 1, or a share of one"
            raise InputError("device", "auto or cpu, where fits are given no GPU", name, hint)
        if ":" in name and share:
            raise InputError("device", "cuda, where each fit is given GPUs of its own", name, "leave the number out")
        if name != "auto":
            if name != "cpu" and not cluster:
                devices.device_of(name)
            return self
        if share and not cluster and not devices.usable():
            received = f"{share:g} for each fit, and torch sees no GPU here"
            raise InputError("gpus", "none, or 0", received, "leave gpus out, or start it where torch can use one")
        device = "cpu" if share == 0 else "cuda" if share else devices.kind_of(name)
        return self if device == "cpu" and share is None else replace(self, config=replace(self.config, device=device))

    def prepared(self, x: Any) -> Any:
        """Checked, and on the device."""
        from miaudit.models import devices, loop, weights  # noqa: PLC0415

        return loop.kept(x, weights.build(self.build)).to(devices.device_of(self.device))

    @property
    def stands(self) -> bool:
        """Whether there are weights, those of the model that is audited."""
        return self.weights is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What DP-SGD guarantees of the networks that are trained here, and where they were, if that is to be said."""
        from miaudit.models import devices, train  # noqa: PLC0415

        where = devices.said(self.device, tf32=self.config.tf32, mixed=self.config.mixed_precision)
        if self.config.private is None:
            return where

        private, proved = self.config.private, train.guarantee(self.config)
        whom = "networks trained here" if self.weights is None else "shadow models"
        return (
            f"DP-SGD: the {whom} are ({upper_text(proved.value)}, {private.delta:g})-differentially "
            f"private by its accountant, for one record added or removed, at a public {private.records:,} records."
            + " The noise can be repeated: that does not hold against who knows the seed."
            * private.repeatable,
            *where,
        )

    def identity(self) -> str:
        """The factory and its source, the network that it makes, the training, and the version of torch."""
        config = replace(self.config, device="auto")  # the kind that is used decides, beside this: see shadow.Fits
        training = described(config).replace(" adversarial=None,", "")  # models kept before the option existed stay
        return f"{self.architecture()} {training} {self.key}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Any:
        """Train on some rows; return the weights by name."""
        from miaudit.models import train  # noqa: PLC0415

        try:
            return train.fit(self.build, self.config, x, y, rows, seed=seed)
        except train.TrainingError as error:
            raise _diverged(error.failed[0][2]) from error

    def fit_many(self, x: Any, y: NDArray[Any], included: BoolArray, *, seeds: Sequence[int]) -> list[Any]:
        """Train several networks at once, stacked where that is faster."""
        from miaudit.models import train  # noqa: PLC0415

        try:
            fits = train.fit_many(self.build, self.config, x, y, included, seeds=seeds, at_once=len(seeds))
            return list(fits)
        except train.TrainingError as error:
            states: list[Any] = list(error.states)
            for index, _, epoch in error.failed:
                states[index] = _diverged(epoch)
            return states


@dataclass(frozen=True, eq=False)
class SavedTorch(_Network):
    """A PyTorch network with saved weights, which stays as it is. Runs the factory's code.

    Parameters
    ----------
    factory : "package.module:function" or a function without arguments, that returns a torch.nn.Module
    weights : path of .safetensors, .pt or .pth; objects are never unpickled
    output : as of :class:`TorchTarget`
    given : "logits", "probabilities" of a network that ends in a softmax, or "predictions" of a regression
    labels : how many labels each record has, 0 for one class or number; :meth:`labelled` sets it
    """

    factory: str | Callable[[], Any]
    weights: str | Path | None
    called: str = ""
    device: str = "auto"
    output: str = "logits"
    given: NetworkGiven = "logits"
    labels: int = 0
    _state: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_choice("target.given", self.given, get_args(NetworkGiven))
        super().__post_init__()

    def _of_given(self, found: Any) -> Any:
        return logits_of(np.asarray(found), self.labels, self.name) if self.given == "probabilities" else found

    @property
    def kind(self) -> Kind:
        """Predictions of a regression, log-odds of several labels, else logits."""
        return "predictions" if self.given == "predictions" else "multi-label" if self.labels else "logits"

    def labelled(self, y: Any) -> SavedTorch:
        """As of :meth:`Traits.labelled`."""
        return self if label_count(y) == self.labels else replace(self, labels=label_count(y))

    @property
    def notes(self) -> tuple[str, ...]:
        """On which device it was asked, where that is to be said."""
        from miaudit.models import devices  # noqa: PLC0415

        return devices.said(self.device)

    def identity(self) -> str:
        """The network and its weights."""
        values = [] if self._state is None else [digest(one.numpy()) for one in self._state.values()]
        return f"{self.architecture()} {values}"


def _diverged(epoch: int) -> MiauditError:
    return MiauditError(f"the loss became infinite or NaN in epoch {epoch}: lower learning_rate, or scale the inputs")

"""Weights: in files, in a network, and of many equal networks in one matrix, with its optimisers and pruning.

Nothing is unpickled.
"""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from miaudit.arrays import IntArray
from miaudit.errors import InputError, MiauditError, OutputError, one_line
from miaudit.io.tables import existing_file, require_suffix, write_atomically
from miaudit.models.foreign import refuse_pickle, tensor_of
from miaudit.models.weight_names import named_as

__all__ = ["load", "save"]

Factory = Callable[[], nn.Module]
State = dict[str, Tensor]

_SAFE, _TORCH = ".safetensors", (".pt", ".pth", ".ckpt", ".bin")
# Where checkpoints keep the weights of the model, beside those of optimisers.
_NESTED = ("model_state_dict", "state_dict", "model_state", "model", "module")
# Packages whose objects stand beside weights: configurations, scores, paths. None of them is made, see _Unread.
_BESIDE = {"numpy", "_codecs", "pathlib", "argparse", "collections", "datetime", "enum", "omegaconf", "typing"}
_BESIDE |= {"lightning", "lightning_fabric", "pytorch_lightning"}


def save(state: Mapping[str, Tensor], path: str | Path) -> Path:
    """Write weights to a .safetensors file, by a temporary name that is then renamed.

    Raises
    ------
    InputError
        For another suffix.
    OutputError
        If the file cannot be written, for example for want of space; an older file is left as it was.
    """
    from safetensors.torch import save_file  # noqa: PLC0415 - only where weights are saved

    target = require_suffix(path, "path", (_SAFE,))
    # a copy of each: safetensors refuses tensors that share memory
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    try:
        write_atomically(target, lambda part: save_file(plain, part))
    except Exception as error:  # safetensors has an error class of its own for a full disk
        raise OutputError(one_line(f"{target}: the weights cannot be written ({error}); free space there")) from error
    return target


def load(path: str | Path) -> State:
    """Read weights from .safetensors, or from .pt, .pth, .ckpt or .bin, of which nothing is unpickled but plain values.

    Of a checkpoint those under ``model_state_dict``, ``state_dict``, ``model_state``, ``model`` or ``module`` are read,
    and what stands beside them, such as numbers of numpy, is left out; half precision becomes float32, which holds it
    without loss.

    Raises
    ------
    InputError
        If the file is missing, damaged, holds other Python objects than tensors by name, or another suffix.
    """
    from safetensors import SafetensorError  # noqa: PLC0415 - only where weights are loaded

    refuse_pickle(path, "weights")
    source = existing_file(path, "weights", (_SAFE, *_TORCH))
    try:
        if source.suffix.lower() == _SAFE:
            return _single(_safe(source))
        content = _plain(source)
    except pickle.UnpicklingError as error:
        hint = "save model.state_dict(), better with miaudit.models.weights.save: objects are never unpickled"
        received = f"{source.name}, which holds other Python objects or is no such file"
        raise InputError("weights", "tensors by name", received, hint) from error
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        received, hint = f"{source.name}, which cannot be read ({first})", "it may be truncated: write it again"
        raise InputError("weights", f"a complete {source.suffix} file", received, hint) from error
    return _single(_of_checkpoint(content, source.name))


def _safe(source: Path) -> State:
    """Weights of a .safetensors file, also those that it keeps once for several names, as its header says."""
    from safetensors import safe_open  # noqa: PLC0415 - only where weights are loaded

    with safe_open(source, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        once = {
            left: stored
            for left, stored in (file.metadata() or {}).items()
            if stored in tensors and left not in tensors
        }
    return {**tensors, **{left: tensors[stored] for left, stored in once.items()}}


class _Unread:
    """Stands for an object beside the weights: whatever it would be made of is dropped, and nothing of it runs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __new__(cls, *_: Any, **__: Any) -> _Unread:
        return super().__new__(cls)

    def __setstate__(self, _: Any) -> None:
        pass

    def __setitem__(self, _: Any, __: Any) -> None:
        pass


def _plain(source: Path) -> Any:
    """What a file of torch holds, of tensors and plain values; objects of known packages beside them are not made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of pickles that it then refuses
        try:
            return torch.load(source, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            try:
                names = torch.serialization.get_unsafe_globals_in_checkpoint(source)
            except (ValueError, RuntimeError):  # a file of an old torch, which cannot be listed
                names = []
            if not names or any(name.split(".")[0] not in _BESIDE for name in names):
                raise
        with torch.serialization.safe_globals([(_Unread, name) for name in names]):
            return torch.load(source, map_location="cpu", weights_only=True)


def _of_checkpoint(content: Any, file: str) -> Mapping[str, Tensor]:
    """The weights in what a file holds, without plain values beside them."""
    for _ in range(2):  # a checkpoint of a model that is kept in one
        if isinstance(content, Mapping):
            content = next((content[key] for key in _NESTED if isinstance(content.get(key), Mapping)), content)
    if isinstance(content, Mapping):
        tensors = {name: value for name, value in content.items() if isinstance(value, Tensor)}
        others = [value for name, value in content.items() if name not in tensors]
        if tensors and not any(isinstance(one, Mapping | list | tuple) for one in others):
            return tensors
        if not content:
            return {}
    what = f"a {type(content).__name__}"
    if isinstance(content, Mapping):
        what = f"a mapping with the keys {', '.join(sorted(map(str, content))[:4])}"
    received = f"{file}, which holds {what}"
    raise InputError("weights", "tensors by name", received, "save model.state_dict() alone")


def _single(state: Mapping[str, Tensor]) -> State:
    """Weights in half precision, or in 8 bits, as float32."""
    wide = (torch.float32, torch.float64)
    return {
        str(name): values.float() if values.is_floating_point() and values.dtype not in wide else values
        for name, values in state.items()
    }


def network(factory: Factory, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a network with given weights in evaluation mode.

    Raises
    ------
    InputError
        If the weights are of another architecture: the first difference is named.

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> network(mlp(3, 2, ()), mlp(4, 2, ())().state_dict())
    Traceback (most recent call last):
    miaudit.errors.InputError: weights: expected the weights of mlp(inputs=3, classes=2, hidden=()), received others:
    1.weight has shape (2, 4) instead of (2, 3); take the factory that these weights were trained with
    """
    net = build(factory)
    expected = net.state_dict()
    state = named_as(expected, state)
    if difference := _difference(expected, state):
        hint = "take the factory that these weights were trained with"
        raise InputError("weights", f"the weights of {_called(factory)}", f"others: {difference}", hint)
    if any(values.dtype in (torch.float16, torch.bfloat16) for values in expected.values()):
        net = net.float()
    net.load_state_dict(state)
    return net.eval()


def keyed(factory: Factory, key: str) -> nn.Module:
    """Return a network whose outputs stand under a key, or an attribute, of what it returns."""
    net = factory()
    if isinstance(net, nn.Module):
        net.register_forward_hook(functools.partial(_outputs_of, key=key))
    return net


def _outputs_of(_net: nn.Module, _inputs: Any, found: Any, *, key: str = "logits") -> Any:
    return None if isinstance(found, Tensor) else tensor_of(found, key)


def build(factory: Factory) -> nn.Module:
    """Call a factory, with errors in one line; restore torch's generator afterwards."""
    function: object = factory
    if not callable(function):
        received = type(function).__name__
        raise InputError("factory", "a function that returns a torch.nn.Module", received, "pass the function itself")
    try:
        with torch.random.fork_rng([]):
            net: object = factory()
    except MiauditError:
        raise
    except Exception as error:  # whatever the caller's function raises
        received = f"{_called(factory)}, which raises {type(error).__name__}: {error}"
        raise InputError("factory", "a function without arguments", received, "try factory() by itself") from error
    if not isinstance(net, nn.Module):
        received = f"{_called(factory)}, which returns {type(net).__name__}"
        raise InputError("factory", "a function that returns a torch.nn.Module", received, "return the network")
    net.register_forward_hook(_outputs_of)
    return net


def _difference(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> str:
    """Return the first difference between two sets of weights in words, or an empty string."""
    for name, tensor in expected.items():
        if name not in state:
            return f"{name} is missing"
        if state[name].shape != tensor.shape:
            return f"{name} has shape {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
    unknown = [name for name in state if name not in expected]
    return f"{unknown[0]} is in no layer" if unknown else ""


def _called(factory: Factory) -> str:
    return getattr(factory, "__qualname__", None) or str(factory)


# -- of many networks in one matrix ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Weights:
    """The trained parameters of M equal networks in one matrix.

    Attributes
    ----------
    nets : the networks; the parameters of the first are views of the first row
    parameters : of the first network, by name
    values : (M, P)
    """

    nets: list[nn.Module]
    parameters: dict[str, nn.Parameter]
    values: Tensor

    @classmethod
    def of(cls, nets: list[nn.Module]) -> Weights:
        """Gather the parameters of equal networks; the first network then uses its row."""
        rows = [torch.cat([p.detach().reshape(-1) for _, p in trained_parameters(net)]) for net in nets]
        weights = cls(nets, dict(trained_parameters(nets[0])), torch.stack(rows))
        for name, view in weights.views().items():
            weights.parameters[name].data = view[0]
        return weights

    def views(self) -> State:
        """Return each parameter of all networks, (M, *shape), without a copy."""
        sizes = [p.numel() for p in self.parameters.values()]
        parts = torch.split(self.values, sizes, dim=1)
        shapes = [p.shape for p in self.parameters.values()]
        return {
            name: part.reshape(len(part), *shape)
            for name, part, shape in zip(self.parameters, parts, shapes, strict=True)
        }

    def states(self) -> list[State]:
        """Return the weights of each network, on the CPU, independent of each other."""
        views = self.views()
        for m, net in enumerate(self.nets):
            if m:
                for name, p in trained_parameters(net):
                    p.data = views[name][m]
        return [{name: t.detach().cpu().clone() for name, t in net.state_dict().items()} for net in self.nets]


class Sgd:
    """Stochastic gradient descent with momentum and L2 weight decay, as ``torch.optim.SGD``."""

    def __init__(self, values: Tensor, *, momentum: float, decay: float) -> None:
        self._momentum, self._decay = momentum, decay
        self._values, self._velocity = values, torch.zeros_like(values)

    def step(self, slopes: Tensor, rates: Tensor) -> None:
        """Move the weights (M, P) against the slopes (M, P), each model at its own rate (M, 1)."""
        if self._decay:
            slopes = slopes.add(self._values, alpha=self._decay)
        self._velocity.mul_(self._momentum).add_(slopes)
        self._values.sub_(self._velocity * rates)


class Adam:
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``."""

    _SECOND, _SMALL = 0.999, 1e-8

    def __init__(self, values: Tensor, *, momentum: float, decay: float) -> None:
        self._momentum, self._decay, self._steps = momentum, decay, 0
        self._values, self._mean, self._square = values, torch.zeros_like(values), torch.zeros_like(values)

    def step(self, slopes: Tensor, rates: Tensor) -> None:
        """Move the weights (M, P) against the slopes (M, P), each model at its own rate (M, 1)."""
        self._steps += 1
        self._mean.lerp_(slopes, 1 - self._momentum)
        self._square.mul_(self._SECOND).addcmul_(slopes, slopes, value=1 - self._SECOND)
        scale = (self._square / (1 - self._SECOND**self._steps)).sqrt_().add_(self._SMALL)
        if self._decay:
            self._values.mul_(1 - rates * self._decay)
        self._values.sub_(self._mean / (1 - self._momentum**self._steps) / scale * rates)


OPTIMISERS: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam}


class Pruned:
    """Which weights of M networks stay 0.

    Parameters
    ----------
    weights : of the networks
    sparsity : share of a network's weights with two axes or more that becomes 0
    at : after which step each network is pruned (M,), steps counted from 0

    Raises
    ------
    InputError
        For a network without such weights.
    """

    def __init__(self, weights: Weights, sparsity: float, at: IntArray) -> None:
        sizes = [(p.numel(), p.ndim > 1) for p in weights.parameters.values()]
        eligible = np.repeat([wide for _, wide in sizes], [size for size, _ in sizes])
        if not eligible.any():
            hint = "leave out pruning, or unfreeze a layer"
            raise InputError("pruning", "a network with weights of two axes or more to train", "one without", hint)
        self._values, self._at = weights.values, at
        self._eligible = torch.from_numpy(np.flatnonzero(eligible)).to(weights.values.device)
        self._count = round(sparsity * len(self._eligible))
        self._kept: Tensor | None = None

    def after(self, step: int) -> None:
        """Prune the networks due at this step, and reset the pruned weights of the others to 0.

        The weights of least magnitude go, each network's over all its layers together.
        """
        for m in np.flatnonzero(self._at == step):
            if self._kept is None:
                self._kept = torch.ones_like(self._values)
            order = torch.argsort(self._values[m, self._eligible].abs(), stable=True)
            self._kept[m, self._eligible[order[: self._count]]] = 0
        if self._kept is not None:
            self._values.mul_(self._kept)


def trained_parameters(net: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters with gradients, by name; refuse a network without any."""
    parameters = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    if not parameters:
        raise InputError("factory", "a network with parameters to train", "one without", "unfreeze a layer")
    return parameters

"""Trained weights in files and networks; nothing is unpickled."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from miaudit.errors import InputError, MiauditError, OutputError, one_line
from miaudit.io.tables import existing_file, require_suffix, write_atomically

__all__ = ["load", "save"]

Factory = Callable[[], nn.Module]
State = dict[str, Tensor]

_SAFE, _TORCH = ".safetensors", (".pt", ".pth")


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
    """Read weights from .safetensors, or from .pt or .pth with tensors only.

    Raises
    ------
    InputError
        If the file is missing, damaged, holds other Python objects than tensors by name, or another suffix.
    """
    source = existing_file(path, "weights", (_SAFE, *_TORCH))
    if source.suffix.lower() == _SAFE:
        return _load_safetensors(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of pickles that it then refuses
            found = torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        hint = "save model.state_dict(), better with miaudit.models.weights.save: objects are never unpickled"
        received = f"{source.name}, which holds other Python objects or is no such file"
        raise InputError("weights", "tensors by name", received, hint) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise _damaged(source, error) from error
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        received = f"{source.name}, which holds {_what(found)}"
        raise InputError("weights", "tensors by name", received, "save model.state_dict() alone")
    return dict(found)


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
    if difference := _difference(expected, state):
        hint = "take the factory that these weights were trained with"
        raise InputError("weights", f"the weights of {_called(factory)}", f"others: {difference}", hint)
    net.load_state_dict(state)
    return net.eval()


def build(factory: Factory) -> nn.Module:
    """Call a factory, with errors in one line; restore torch's generator afterwards."""
    given: object = factory
    if not callable(given):
        received = type(given).__name__
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
    return net


def _load_safetensors(source: Path) -> State:
    from safetensors import SafetensorError  # noqa: PLC0415 - only where weights are loaded
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        return load_file(source)
    except (SafetensorError, OSError) as error:
        raise _damaged(source, error) from error


def _damaged(source: Path, error: Exception) -> InputError:
    first = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    received = f"{source.name}, which cannot be read ({first})"
    return InputError("weights", f"a complete {source.suffix} file", received, "it may be truncated: write it again")


def _what(found: object) -> str:
    if isinstance(found, Mapping):
        return f"a mapping with the keys {', '.join(sorted(map(str, found))[:4])}"
    return f"a {type(found).__name__}"


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

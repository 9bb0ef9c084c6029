"""One step of a PyTorch training loop, recorded so that :func:`miaudit.dp.replay.check` can replay it.

The loop runs unchanged: Opacus, miaudit's own or your own. While it runs, every normal draw of PyTorch is replaced
(``torch.normal``, ``randn``, ``randn_like``, ``Tensor.normal_`` and ``torch.distributions``, with or without a
generator), the batch consists of the records whose numbers the replay chooses, and parameters, buffers and the
optimizer are overwritten with the recorded history.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from miaudit.arrays import FloatArray
from miaudit.dp.replay import Draws
from miaudit.errors import InputError
from miaudit.errors.checks import positive

__all__ = ["RecordedStep", "State"]


@dataclass
class State:
    """The history of a training: what the next step depends on beside its records.

    Attributes
    ----------
    model : parameters and buffers by name
    optimizer : state of the optimizer, empty without one
    memory : the loop's own values, such as a step number
    """

    model: dict[str, Any]
    optimizer: dict[str, Any]
    memory: dict[str, Any]


class RecordedStep:
    """A step of a PyTorch loop as :func:`miaudit.dp.replay.check` takes it: ``step(rows, state, draws)``.

    Parameters
    ----------
    step : called with the tensors of one batch, such as ``step(x, y)``; takes one step of the training
        It returns what it releases as a tensor or a sequence of tensors, or None: then miaudit reads the gradients when
        the optimizer has stepped. Both are multiplied by ``divided_by``.
    model : the network that is trained, as the loop uses it
    records : tensors whose first axis counts the records, such as ``(x, y)``
    optimizer : the optimizer that changes the parameters; with Opacus, the one that was handed to ``make_private``
    divided_by : the number by which the training divides its noisy sum, above 0; 1 for a sum
    memory : values of the loop that change from step to step, such as ``{"step": 0}``; the step reads and writes them

    Raises
    ------
    InputError
        For records of different lengths, a step that releases nothing, and options that are out of range.

    Examples
    --------
    >>> from miaudit.dp import replay
    >>> x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> net = nn.Linear(2, 1, bias=False)
    >>> def step(x):
    ...     clipped = x * (1.0 / x.norm(dim=1, keepdim=True)).clamp_max(1.0)  # the gradients of the loss net(x).sum()
    ...     return clipped.sum(0) + 1.1 * torch.randn(2)
    >>> recorded = RecordedStep(step, net, (x,))
    >>> claim = replay.Claim(clip=1.0, noise_multiplier=1.1)
    >>> replay.check(recorded, [0, 1], replay.without_one([0, 1]), claim, state=recorded.state()).passed
    True
    """

    def __init__(
        self,
        step: Callable[..., Tensor | Sequence[Tensor] | None],
        model: nn.Module,
        records: Sequence[Tensor],
        *,
        optimizer: torch.optim.Optimizer | None = None,
        divided_by: float = 1.0,
        memory: dict[str, Any] | None = None,
    ) -> None:
        tensors = tuple(records)
        lengths = {len(each) if isinstance(each, Tensor) and each.ndim else -1 for each in tensors}
        if len(lengths) != 1 or min(lengths) < 1:
            received = f"{len(tensors)} of lengths {sorted(lengths)}" if tensors else "none"
            raise InputError("records", "tensors of one length, such as (x, y)", received, "pass tensors (n, ...)")
        hint = "pass the number by which the training divides, 1 for a sum"
        self._scale = positive("divided_by", divided_by, hint)
        self._step, self._model, self._records, self._optimizer = step, model, tensors, optimizer
        self._memory: dict[str, Any] = {} if memory is None else memory
        self._released: list[list[Tensor]] = []
        self._calls = 0
        if optimizer is not None:
            optimizer.register_step_post_hook(self._hear)

    def state(self) -> State:
        """Return a copy of the present history, for ``check(..., state=)``."""
        optimizer = {} if self._optimizer is None else copy.deepcopy(self._optimizer.state_dict())
        return State(copy.deepcopy(dict(self._model.state_dict())), optimizer, copy.deepcopy(self._memory))

    def __call__(self, rows: ArrayLike, state: State | None, draws: Draws) -> FloatArray:
        """Take one step from a history on the records with these numbers, and return the released sum (P,).

        The history becomes that after the step. The random state of PyTorch is a different one at each call, so that
        other randomness of the step, such as dropout, shows as a step that is not the same twice.
        """
        numbers = np.asarray(rows)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            received = f"shape {numbers.shape} of type {numbers.dtype}"
            raise InputError("data", "record numbers (n,)", received, "pass numpy.arange(len(x)), or a part of it")
        if not isinstance(state, State):
            hint = "pass state=recorded.state() to check"
            raise InputError("state", "a history of this step", repr(state)[:60], hint)
        self._write(state)
        chosen = torch.from_numpy(numbers.astype(np.int64))
        self._released = []
        self._calls += 1
        device = next(iter(self._model.parameters()), self._records[0]).device
        with torch.random.fork_rng([device.index or 0] if device.type == "cuda" else []):
            torch.manual_seed(self._calls)
            with _Replaced(draws):
                returned = self._step(*(each[chosen.to(each.device)] for each in self._records))
        released = self._summed(returned)
        after = self.state()
        state.model, state.optimizer, state.memory = after.model, after.optimizer, after.memory
        return released

    def _write(self, state: State) -> None:
        with torch.no_grad():
            own = self._model.state_dict()
            for name, value in state.model.items():
                if isinstance(value, Tensor):
                    own[name].copy_(value)
        for parameter in self._model.parameters():
            parameter.grad = None
        if self._optimizer is not None:
            self._optimizer.load_state_dict(copy.deepcopy(state.optimizer))
        self._memory.clear()
        self._memory.update(copy.deepcopy(state.memory))

    def _hear(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad)
        parts = [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in parameters]
        if self._released and all(map(torch.equal, self._released[-1], parts)):
            return  # one step of an optimizer whose class extends another one: both report it
        self._released.append(parts)

    def _summed(self, returned: Tensor | Sequence[Tensor] | None) -> FloatArray:
        if returned is None:
            if len(self._released) != 1:
                received = f"{len(self._released)} steps of the optimizer" if self._optimizer else "nothing"
                hint = "pass optimizer=, and let the function take one step; or return the released sum"
                raise InputError("step", "a step that releases one sum", received, hint)
            returned = self._released[0]
        parts = [returned] if isinstance(returned, Tensor) else list(returned)
        if not parts or not all(isinstance(part, Tensor) for part in parts):
            hint = "return a tensor, or nothing if optimizer= is passed"
            raise InputError("step", "a released sum", repr(returned)[:60], hint)
        flat = torch.cat([part.detach().double().cpu().reshape(-1) for part in parts])
        return np.asarray(flat.numpy() * self._scale)


# -- normal draws ------------------------------------------------------------------------------------------------------


class _Replaced(TorchFunctionMode):
    """Replaces the normal draws of PyTorch, also of functions that were imported by name."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self._draws = draws

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func not in _NORMAL:
            return func(*args, **options)
        source = _source(args, options)
        sample = func(*args, **options)  # for its shape, type and device; and the generator moves on as it would
        mean, deviation = _NORMAL[func](*args, **options)
        values = self._draws.standard_normal(tuple(sample.shape), source=source)
        with torch.no_grad():
            standard = torch.as_tensor(values, dtype=sample.dtype, device=sample.device)
            answer = mean + deviation * standard
            if "out" in options or func in _IN_PLACE:
                return sample.copy_(answer)
            return answer.to(sample.dtype).requires_grad_(sample.requires_grad)


def _source(args: Sequence[Any], options: Mapping[str, Any]) -> bytes:
    """Return the state of the generator that a draw is about to use."""
    generators = [value for value in (*args, *options.values()) if isinstance(value, torch.Generator)]
    if generators:
        return bytes(generators[0].get_state().numpy().tobytes())
    device = torch.device(options.get("device") or _device_of(args))
    state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    return bytes(state.numpy().tobytes())


def _device_of(args: Sequence[Any]) -> Any:
    tensors = [value for value in args if isinstance(value, Tensor)]
    return tensors[0].device if tensors else torch.get_default_device()


def _standard(*_: Any, **__: Any) -> tuple[float, float]:
    return 0.0, 1.0


def _of_normal(mean: Any = 0.0, std: Any = 1.0, *_: Any, **__: Any) -> tuple[Any, Any]:
    return mean, 1.0 if isinstance(std, torch.Generator) else std


def _of_method(tensor: Tensor, mean: Any = 0.0, std: Any = 1.0, *_: Any, **__: Any) -> tuple[Any, Any]:
    del tensor  # by its name, as the functions of nn.init pass it
    return mean, std


_NORMAL: dict[Any, Callable[..., tuple[Any, Any]]] = {
    torch.randn: _standard,
    torch.randn_like: _standard,
    torch.normal: _of_normal,
    Tensor.normal_: _of_method,
    nn.init.normal_: _of_method,
}
_IN_PLACE = (Tensor.normal_, nn.init.normal_)

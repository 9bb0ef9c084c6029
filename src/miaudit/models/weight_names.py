"""Names of weights: what training tools write before and within them, and tensors that a file keeps once for several.

Opacus, data parallel training, compilation, checkpointing and Lightning wrap a network, and its weights are then saved
under longer names. A tensor that two layers share is kept once by ``safetensors.torch.save_model``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

from miaudit.errors import InputError

__all__ = ["named_as"]

# Parts of a name that stand for a wrapper wherever they are; "module" may also be a layer of the network.
_WRAPPERS = frozenset({"_orig_mod", "_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_PARALLEL = "module"
# What holds the network beside things of its own: a loss with weights, a metric, a count of averages.
_HOLDERS = frozenset({"model", "net", "network", "module"})
_COUNTER = "num_batches_tracked"  # of batch normalisation, which older files lack and predictions do not read


def named_as(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by the names that a network has for them, as far as they are there.

    Parameters
    ----------
    expected : the weights of the network as it was built, in which shared tensors are shared
    state : the weights of a file; names that belong to no layer are kept as they are

    Raises
    ------
    InputError
        If a file holds several sets of weights that fit, or different values for a tensor that layers share.

    Examples
    --------
    >>> one = torch.ones(2)
    >>> list(named_as({"fc.weight": one}, {"model._orig_mod.fc.weight": one, "loss.weight": one}))
    ['fc.weight']
    >>> list(named_as({"fc.weight": one}, {"_module.fc.weight": one}))
    ['fc.weight']
    """
    groups = _shared(expected)
    weights = dict(state)
    if set(state) != set(expected):
        tries = (_matched(groups, expected, state, one) for one in (_WRAPPERS, _WRAPPERS | {_PARALLEL}))
        weights = next((one for one in tries if one is not None), weights)
    for group in groups:
        there = [name for name in group if name in weights]
        for name in there[1:]:
            if not torch.equal(weights[name], weights[there[0]]):
                hint = "take the factory that these weights were trained with"
                received = "different values for the two"
                raise InputError("weights", f"one tensor for {there[0]} and {name}, which share it", received, hint)
        weights |= {name: weights[there[0]] for name in group if there and name not in weights}
    counters = {name: values for name, values in expected.items() if name.split(".")[-1] == _COUNTER}
    return weights if set(weights) & set(counters) else weights | counters


def _shared(expected: Mapping[str, Tensor]) -> list[list[str]]:
    """Names by the tensor that they are of, most of them alone."""
    groups: dict[object, list[str]] = {}
    for name, values in expected.items():
        key = (values.data_ptr(), values.shape, values.stride()) if values.numel() else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _matched(
    groups: Iterable[Iterable[str]],
    expected: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    wrappers: frozenset[str],
) -> dict[str, Tensor] | None:
    """Weights by the network's names, if all of them stand behind one beginning; None if they do not."""
    own = {_bare(name, wrappers): name for name in expected}
    saved = {_bare(name, wrappers): name for name in state}
    if len(own) < len(expected) or len(saved) < len(state):  # two names became one
        return None
    needed = [[_bare(name, wrappers) for name in group] for group in groups if not _counts(group)]
    starts = dict.fromkeys(start for name in saved for start, rest in _cut(name) if rest in own)
    fitting = [start for start in starts if all(any(start + one in saved for one in group) for group in needed)]
    if not needed or not fitting:
        return None
    if len(fitting) > 1:
        received = f"weights that fit behind {' and '.join(repr(one) for one in fitting[:3])}"
        raise InputError("weights", "the weights of one network", received, "save the state_dict of the audited one")
    start = fitting[0]
    weights = {own[name]: state[saved[start + name]] for name in own if start + name in saved}
    beyond = [name for name in saved if not (name.startswith(start) and name.removeprefix(start) in own)]
    around = start.split(".")[0] in _HOLDERS and not any(name.startswith(start) for name in beyond)
    return weights if around else weights | {saved[name]: state[saved[name]] for name in beyond}


def _counts(group: Iterable[str]) -> bool:
    return all(name.split(".")[-1] == _COUNTER for name in group)


def _bare(name: str, wrappers: frozenset[str]) -> str:
    return ".".join(part for part in name.split(".") if part not in wrappers)


def _cut(name: str) -> Iterator[tuple[str, str]]:
    """Yield each way to part a name into a beginning, empty or with a point at its end, and the rest."""
    parts = name.split(".")
    for i in range(len(parts)):
        yield "".join(f"{part}." for part in parts[:i]), ".".join(parts[i:])

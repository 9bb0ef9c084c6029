"""What comes in the place of a model or of its outputs: files that are refused, and outputs in a wrapping."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miaudit.errors import InputError

_PICKLES = (".pkl", ".pickle", ".joblib", ".sav", ".dill", ".cloudpickle")


def refuse_pickle(model: Any, argument: str) -> None:
    """Refuse the path of a model in the place of a model; for a pickle, say how it is exported.

    Examples
    --------
    >>> refuse_pickle("model.joblib", "model")
    Traceback (most recent call last):
    miaudit.errors.InputError: model: expected a model that no pickle holds, received 'model.joblib', which would run
    any code that is in it; export it where you trust it: onnx = skl2onnx.to_onnx(model, X[:1]), or skops.io.dump(model,
    "model.skops"), or load it yourself and pass the object
    """
    if not isinstance(model, str | Path):
        return
    if Path(model).suffix.lower() in _PICKLES:
        step = (
            "export it where you trust it: onnx = skl2onnx.to_onnx(model, X[:1]), or "
            'skops.io.dump(model, "model.skops"), or load it yourself and pass the object'
        )
        received = f"{str(model)!r}, which would run any code that is in it"
        raise InputError(argument, "a model that no pickle holds", received, step)
    if argument == "model":
        raise InputError(argument, "a fitted model or a function", repr(str(model)), "load it, and pass the object")


def tensor_of(found: Any, key: str) -> Any:
    """Return the outputs in what a model returned: the value of a key, an attribute, or the first of a tuple.

    Examples
    --------
    >>> tensor_of({"logits": 1, "loss": 2}, "logits"), tensor_of((1, 2), "logits"), tensor_of(3.0, "logits")
    (1, 1, 3.0)
    """
    if isinstance(found, Mapping):
        if key in found:
            return found[key]
        if len(found) == 1:
            return next(iter(found.values()))
        received = f"a dictionary with {', '.join(map(str, list(found)[:8])) or 'no keys'}"
        raise InputError(
            "outputs of the model",
            f"the key {key!r}",
            received,
            "name it: target.output in a file, key= of audit_model",
        )
    inner = found[0] if isinstance(found, list) and found else None
    if isinstance(inner, Mapping) or (isinstance(inner, list) and inner and isinstance(inner[0], Mapping)):
        hint = 'ask the model itself: lambda texts: model(**tokenizer(texts, padding=True, return_tensors="pt"))'
        received = "a list of dictionaries, as a pipeline of Hugging Face returns"
        raise InputError("outputs of the model", "an array with a row for each record", received, hint)
    if not hasattr(found, "shape") and hasattr(found, key):
        return getattr(found, key)
    return tensor_of(found[0], key) if isinstance(found, tuple) and found else found

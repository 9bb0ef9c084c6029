"""What a model that is fitted already says of records: an estimator of any library, a network, or a function.

Whatever it returns (arrays, tensors, an object with ``.logits``, a tuple, a dictionary) becomes one array with a name
for what it holds. Runs the model's code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IndexArray
from miaudit.errors import InputError, one_line
from miaudit.errors.options import check_choice
from miaudit.io import declared_kind, frames, tables
from miaudit.io.labels import one_each
from miaudit.models.foreign import refuse_pickle, tensor_of
from miaudit.models.outputs import adds_up

__all__ = ["Outputs", "Said", "ask", "class_numbers", "labels_of"]

Outputs = Literal["probabilities", "logits", "predictions", "labels"]
_METHODS: dict[str, tuple[str, ...]] = {
    "probabilities": ("predict_proba", "predict"),
    "logits": ("decision_function", "predict"),
    "predictions": ("predict",),
    "labels": ("predict",),
}
_ANY = ("predict_proba", "decision_function", "predict")
_BATCH = 1024
_WRAPPED = 4


@dataclass(frozen=True, eq=False)
class Said:
    """What a model says of n records.

    Attributes
    ----------
    kind : what ``values`` are
    values : array (n, C) of probabilities or logits, (n, k) of predictions, or (n,) of labels
    classes : labels of the columns (C,), where the model names them
    how : in words, for a note
    """

    kind: Outputs
    values: NDArray[Any]
    classes: NDArray[Any] | None
    how: str


def ask(
    model: Any,
    x: Any,
    y: NDArray[Any],
    *,
    outputs: Outputs | None = None,
    key: str = "logits",
    batch: int | None = None,
) -> Said:
    """Ask a fitted model about records, by the first of its methods that says most.

    Parameters
    ----------
    model : with ``predict_proba``, ``decision_function`` or ``predict``, a PyTorch network, or a function of records
    x : records (n, ...): an array, a list or a data frame; of a frame the columns that the model was fitted on, where
        it names them (``feature_names_in_``)
    y : labels (n,), classes or numbers, or (n, L) of several labels; they tell classes from numbers
    outputs : what the model returns; by default read off the method and the values
    key : name of the outputs, where the model returns a dictionary or an object
    batch : records at a time; by default all, of a network 1,024

    Raises
    ------
    InputError
        For what is no model, or fails, or returns what cannot be read.

    Examples
    --------
    >>> said = ask(lambda x: {"logits": x * 2, "loss": 0.0}, np.eye(2), np.array([0, 1]))
    >>> said.kind, said.values.tolist()
    ('logits', [[2.0, 0.0], [0.0, 2.0]])
    """
    refuse_pickle(model, "model")
    if outputs is not None:
        check_choice("outputs", outputs, get_args(Outputs))
    method, function = _method(model, outputs, key)
    records, n = _columns_of(model, x), len(x)
    try:
        with _without_gradients():
            parts = [function(part) for part in _parts(records, n, batch)]
    except InputError:
        raise
    except Exception as error:  # whatever the model's code raises
        received = f"{method}, which raises {type(error).__name__}: {one_line(str(error))[:200]}"
        raise InputError("model", "one that answers for these records", received, "try it on a few records") from error
    values = np.concatenate([_array(part, key) for part in parts])
    if values.ndim not in (1, 2) or len(values) != n:
        allowed = f"a row for each of {n} records"
        raise InputError.of_array("outputs of the model", allowed, values, "return an array (n,) or (n, columns)")
    classes = getattr(model, "classes_", None)
    named = None if classes is None or isinstance(classes, list) else labels_of(classes, "classes_")
    output_kind, how = outputs or _told_by(model, method), f"{method} of {_name(model)}"
    if output_kind == "logits" and _votes(model, values, named):
        values, how = declared_kind.class_scores(values), f"{how}, whose one-against-one votes were counted by class"
    kind, shaped = _read(values, y, output_kind)
    return Said(kind, shaped, named, f"{kind} by {how}")


def labels_of(y: Any, name: str) -> NDArray[Any]:
    """Return labels of any container (n,), (n, 1) or (n, L) as an array (n,) or (n, L) of numbers or texts.

    Raises
    ------
    InputError
        For labels that are missing, and other Python objects.
    """
    if frames.is_frame(y):
        y = y.to_numpy()
    array = np.asarray(y.tolist() if hasattr(y, "tolist") else y.to_list() if hasattr(y, "to_list") else y)
    if array.dtype.kind == "O":
        texts = all(isinstance(one, str) for one in array.ravel())
        if not texts:
            raise InputError(name, "numbers or texts, one for each record", "missing values or objects", "drop them")
        array = array.astype(np.str_)
    if array.dtype.kind not in "biufU" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        raise InputError(name, "numbers or texts, one for each record", "missing values or objects", "drop them")
    array = one_each(array)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def class_numbers(y: NDArray[Any], classes: NDArray[Any] | None, columns: int) -> IndexArray:
    """Return which column of the outputs is that of each label (n,).

    Parameters
    ----------
    y : labels (n,), numbers or texts
    classes : labels of the columns; without them labels 0 to C - 1 are columns, others their order where they are C

    Examples
    --------
    >>> class_numbers(np.array(["b", "a"]), None, 2), class_numbers(np.array([7, 3]), np.array([3, 5, 7]), 3)
    (array([1, 0]), array([2, 0]))
    """
    if classes is None:
        whole = y.dtype.kind in "iu" or (y.dtype.kind == "f" and bool((y == np.floor(y)).all()))
        if whole and y.min() >= 0 and y.max() < columns:
            return y.astype(np.intp)
        classes = np.unique(y)
        if len(classes) != columns:
            received = f"{len(classes)} labels for {columns} columns of outputs"
            hint = _pairs_hint(len(classes), columns) or "pass classes=, one for each column"
            raise InputError("labels", "labels that are the columns", received, hint)
    if len(classes) != columns:
        received = f"{len(classes)} for {columns} columns of outputs"
        hint = _pairs_hint(len(classes), columns) or "name the labels in the order of the columns"
        raise InputError("classes", "a label for each column", received, hint)
    if (classes.dtype.kind == "U") != (y.dtype.kind == "U"):
        kinds = ["texts" if one.dtype.kind == "U" else "numbers" for one in (classes, y)]
        received = f"{kinds[1]} beside classes that are {kinds[0]}"
        raise InputError("labels", "labels as the model knows them", received, "give labels of the same kind")
    order = np.argsort(classes)
    place = np.minimum(np.searchsorted(classes[order], y), columns - 1)
    unknown = classes[order][place] != y
    if unknown.any():
        known = ", ".join(map(str, classes[:8].tolist())) + (", ..." if columns > 8 else "")
        received = f"{y[unknown][0]} in {int(unknown.sum())} records, which the model never saw"
        raise InputError("labels", f"classes of the model ({known})", received, "leave these records out")
    numbers: IndexArray = order[place]
    return numbers


def _pairs_hint(classes: int, columns: int) -> str:
    pairs = declared_kind.pairs_of(columns) == classes
    return "these may be decisions between pairs of classes: return a score of each class" if pairs else ""


def _name(model: Any) -> str:
    named = getattr(model, "__name__", "")
    return str(named) if named and named != "<lambda>" else "a function" if named else type(model).__name__


def _method(model: Any, outputs: str | None, key: str) -> tuple[str, Callable[[Any], Any]]:
    wanted = _ANY if outputs is None else _METHODS[outputs]
    if isinstance(model, type):
        raise InputError("model", "a fitted model", f"the class {model.__name__}", "pass an instance that is fitted")
    for name in wanted:
        if callable(method := getattr(model, name, None)):
            return name, method
    if hasattr(model, "state_dict") and hasattr(model, "parameters") and callable(model):
        return "a call", _network(model, key)
    if callable(model):
        return "a call", model
    allowed = f"something with {', '.join(wanted)}, or a function of records"
    raise InputError("model", allowed, type(model).__name__, "wrap it in a function that returns outputs (n, C)")


def _votes(model: Any, values: NDArray[Any], classes: NDArray[Any] | None) -> bool:
    """Whether decisions (n, pairs) are between pairs of classes: as the model states, or by the number of columns."""
    pairs = 0 if values.ndim != 2 or classes is None else declared_kind.pairs_of(values.shape[1])
    if classes is None or pairs != len(classes):
        return False
    inner: Any = model
    for _ in range(_WRAPPED):  # what a search found, the last step of a pipeline
        steps = getattr(inner, "steps", None)
        inner = steps[-1][1] if isinstance(steps, list) and steps else getattr(inner, "best_estimator_", inner)
    return pairs > 3 or getattr(inner, "decision_function_shape", "") == "ovo"


def _network(model: Any, key: str) -> Callable[[Any], Any]:
    """A function that asks a PyTorch network in evaluation mode, part by part."""

    def asked(x: Any) -> Any:
        import torch  # noqa: PLC0415 - a network is there, so torch is too

        from miaudit.models.loop import as_records  # noqa: PLC0415

        training, first = model.training, next(model.parameters(), torch.zeros(1))
        records = as_records(x, model)
        records = records.to(first.dtype) if records.is_floating_point() else records
        try:
            model.eval()
            parts = [_array(model(part.to(first.device)), key) for part in torch.split(records, _BATCH)]
        finally:
            model.train(training)
        return np.concatenate(parts)

    return asked


def _without_gradients() -> Any:
    torch = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def _parts(records: Any, n: int, batch: int | None) -> Sequence[Any]:
    if batch is None or batch >= n:
        return [records]
    if batch < 1:
        raise InputError("batch", "1 record or more", str(batch), "leave it out to ask about all at once")
    if frames.is_frame(records) and not hasattr(records, "iloc"):
        return [records[start : start + batch] for start in range(0, n, batch)]
    return [frames.taken(records, np.arange(start, min(start + batch, n))) for start in range(0, n, batch)]


def _columns_of(model: Any, x: Any) -> Any:
    """The columns of a frame that the model was fitted on, where it names them."""
    if not frames.is_frame(x):
        return x
    names = tables.frame_names(x)
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None:
        return x
    missing = [str(name) for name in wanted if str(name) not in names]
    if missing:
        received = f"a data frame without {', '.join(missing[:4])}"
        raise InputError("X", "the columns that the model was fitted on", received, "give these columns too")
    return x.select(list(wanted)) if hasattr(x, "select") else x[list(wanted)]


def _array(outputs: Any, key: str) -> NDArray[Any]:
    """Return outputs as an array of numbers or texts, from a tensor, a list or a sparse matrix."""
    outputs = tensor_of(outputs, key)
    if isinstance(outputs, list) and outputs and all(np.ndim(one) == 2 and np.shape(one)[1] == 2 for one in outputs):
        return np.stack([np.asarray(one)[:, 1] for one in outputs], axis=1)  # scikit-learn's, of several labels
    if hasattr(outputs, "detach"):
        outputs = outputs.detach().cpu()
        outputs = (outputs.float() if outputs.is_floating_point() else outputs).numpy()
    if hasattr(outputs, "toarray"):
        outputs = outputs.toarray()
    array = np.asarray(outputs)
    return labels_of(array, "outputs of the model") if array.dtype.kind not in "iuf" else array


def _told_by(model: Any, method: str) -> str:
    """What the outputs are by the method and the kind of model; empty where they must tell by themselves."""
    if method == "predict_proba":
        return "probabilities"
    if method == "decision_function":
        return "logits"
    library = sys.modules.get("sklearn.base")
    regressor = library is not None and hasattr(model, "fit") and _is(library.is_regressor, model)
    return "predictions" if regressor else ""


def _is(question: Callable[[Any], bool], model: Any) -> bool:
    try:
        return question(model)
    except Exception:  # estimators of other libraries may lack what scikit-learn asks for
        return False


def _read(values: NDArray[Any], y: NDArray[Any], told: str) -> tuple[Outputs, NDArray[Any]]:
    """What outputs are, and these as (n, C), (n, k) or labels (n,)."""
    single = values.ndim == 1 or values.shape[1] == 1
    if y.ndim == 2:
        return _of_several(values.reshape(len(values), -1), y, told)
    if not single:
        if told in ("predictions", "labels"):
            received = f"{values.shape[1]} columns"
            raise InputError("outputs of the model", f"{told}, one for each record", received, "name another kind")
        sums = not told and bool(adds_up(values).all())
        is_probability = sums or told == "probabilities"
        return ("probabilities" if is_probability else "logits"), np.maximum(values, 0) if sums else values  # rounding
    column = values.reshape(-1)
    kind = told or _single_kind(column, y)
    match kind:
        case "labels":
            return "labels", column
        case "predictions":
            return "predictions", column[:, None]
        case "probabilities":
            return "probabilities", np.stack([1.0 - column.astype(np.float64), column.astype(np.float64)], axis=1)
    return "logits", np.stack([-column / 2, column / 2], axis=1)  # of two classes: their difference is the log-odds


def _of_several(values: NDArray[Any], y: NDArray[Any], told: str) -> tuple[Outputs, NDArray[Any]]:
    if values.shape != y.shape:
        received = f"{values.shape[1]} columns for {y.shape[1]} labels of each record"
        raise InputError("outputs of the model", "a column for each label", received, "check which labels it gives")
    if told == "predictions" or not np.isin(y, (0, 1)).all():
        return "predictions", values
    inside = bool(((values >= 0) & (values <= 1)).all())
    return ("probabilities" if told == "probabilities" or (not told and inside) else "logits"), values


def _single_kind(column: NDArray[Any], y: NDArray[Any]) -> str:
    """What one column of a model is that was not named: labels, a probability of two classes, or predictions."""
    if column.dtype.kind == "U" or (column.dtype.kind in "iu" and y.dtype.kind != "f"):
        return "labels"
    known = np.unique(y)
    if y.dtype.kind != "U" and np.isin(column, known).all() and len(known) < len(y):
        return "labels"
    if len(known) == 2 and (y.dtype.kind == "U" or np.array_equal(known, (0, 1))):
        if ((column >= 0) & (column <= 1)).all():
            return "probabilities"
        allowed = "outputs that tell what they are, for labels of two classes"
        received = f"one column from {column.min():g} to {column.max():g}"
        raise InputError("outputs", allowed, received, 'say outputs="logits" or outputs="predictions"')
    if y.dtype.kind == "U":
        received = "one column of numbers for labels of text"
        raise InputError("outputs of the model", "a column for each class, or labels", received, "return probabilities")
    return "predictions"

"""A fitted model from an ONNX file, which is asked without running anyone's code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array
from miaudit.errors import InputError, nearest, one_line
from miaudit.errors.extras import pip_line
from miaudit.errors.options import check_choice
from miaudit.io import frames, tables
from miaudit.models.foreign import refuse_pickle
from miaudit.models.outputs import adds_up, check_label_columns, checked_outputs, label_count, logits_of
from miaudit.models.protocol import Kind, Traits

__all__ = ["OnnxGiven", "OnnxTarget"]

OnnxGiven = Literal["logits", "probabilities", "predictions"]
_BATCH = 1024
_TYPES = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool"}
_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NUMBERS = ("tensor(float)", "tensor(double)", "tensor(float16)")
_SEQUENCES = ("seq(map(", "seq(tensor(float")  # of ZipMap, and of several labels
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])")  # of weights in a file of their own, in the ONNX format


@dataclass(frozen=True, eq=False)
class OnnxTarget(Traits):
    """A fitted model in an ONNX file, which stands as it is. Runs no code of anyone.

    Parameters
    ----------
    path : path of an .onnx file; weights in other files are read from its folder only
        One input for all columns, or one for each column of a data frame, as scikit-learn's pipelines are exported.
    given : what it returns: "logits" or "probabilities" (n, C), or "predictions" of a regression (n, 1)
        None reads it off the numbers: rows from 0 to 1 that add up to 1 are probabilities, others logits. One column
        is the probability, or log-odds, of the second of two classes, and must be named. Dictionaries of ``ZipMap``
        have a column for each class. Of several labels for each record it has a column, or a pair, for each label.
    output : name of the output to read; needed where several could be meant
    called : optional name
    labels : how many labels each record has, 0 for one class or number; :meth:`labelled` sets it

    Raises
    ------
    InputError
        Without onnxruntime, for a file that it does not read, and for outputs that are not there or not clear.
    """

    runs_user_code = False
    path: Path
    given: OnnxGiven | None = None
    output: str | None = None
    called: str = ""
    labels: int = 0
    _session: Any = field(init=False, repr=False, default=None)
    _digest: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        if self.given is not None:
            check_choice("target.given", self.given, get_args(OnnxGiven))
        refuse_pickle(self.path, "target.path")
        path = tables.existing_file(self.path, "target.path", (".onnx",))
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "_digest", _digest(path))
        object.__setattr__(self, "_session", _session(path))
        object.__setattr__(self, "output", _chosen(self._session, self.output, path.name))
        shape = next(one.shape for one in self._session.get_outputs() if one.name == self.output)
        if self.given is None and len(shape) < 3 and shape[1:] in ([], [1]) and self._tensor:
            received = f"one column, {self.output!r} of {path.name}"
            hint = "write given: probabilities, logits (of the second of two classes) or predictions"
            raise InputError("target.given", "what the output holds", received, hint)

    @property
    def name(self) -> str:
        """The given name, or the file's."""
        return self.called or self.path.name

    @property
    def kind(self) -> Kind:
        """Predictions of a regression, log-odds of several labels, else logits."""
        return "predictions" if self.given == "predictions" else "multi-label" if self.labels else "logits"

    def labelled(self, y: Any) -> OnnxTarget:
        """As of :meth:`Traits.labelled`."""
        return self if label_count(y) == self.labels else replace(self, labels=label_count(y))

    @property
    def notes(self) -> tuple[str, ...]:
        """Which file was asked, and for which of its outputs."""
        return (f"ONNX file {self.path.name}, SHA-256 {self._digest}, output {self.output}.",)

    def identity(self) -> str:
        """The file with its weights, and what is read of it."""
        return f"onnx {self._digest} {self.output} {self.given}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:  # noqa: ARG002 - nothing is fitted
        """Logits, or log-probabilities, (n, C), or predictions (n, k), of records (n, ...), texts, or a data frame."""
        return self.explained(x)[0]

    def explained(self, x: Any) -> tuple[Float32Array, tuple[str, ...]]:
        """Return outputs, and a note on the kind that was assumed if none was declared."""
        parts = [self._matrix(self._asked(feed)) for feed in self._blocks(x)]
        values = np.concatenate(parts)[: len(x)] if parts else np.empty((0, 1))
        checked = checked_outputs(values, len(x), self.name)  # before a floor could hide what is not finite
        if self.labels:
            check_label_columns(values.shape[1], self.labels, self.name)
        if self.given == "predictions":
            return checked, ()
        if self.given is not None:
            return self._logits(values, self.given), ()
        inside = ((values >= 0) & (values <= 1)).all() if self.labels else adds_up(values).all()
        kind: OnnxGiven = "probabilities" if inside else "logits"
        return self._logits(values, kind), (f"Output {self.output} was taken to be {kind}, by its numbers.",)

    def _logits(self, values: NDArray[Any], kind: OnnxGiven) -> Float32Array:
        values = values.astype(np.float64)
        if values.shape[1] == 1 and not self.labels:
            values = np.hstack([1 - values, values] if kind == "probabilities" else [-values / 2, values / 2])
        logits = logits_of(values, self.labels, self.name) if kind == "probabilities" else values
        return checked_outputs(logits, len(values), self.name)

    @property
    def _tensor(self) -> bool:
        return any(one.name == self.output and one.type in _NUMBERS for one in self._session.get_outputs())

    def _asked(self, feed: dict[str, NDArray[Any]]) -> Any:
        try:
            return self._session.run([self.output], feed)[0]
        except Exception as error:  # onnxruntime has errors of its own, of no common class
            received = f"one that raises {one_line(str(error))[:200]}"
            allowed, hint = "a model that answers for these records", "compare data.x with what it was exported for"
            raise InputError(self.name, allowed, received, hint) from error

    def _matrix(self, outputs: Any) -> NDArray[Any]:
        """Outputs of a block (k, C), also of dictionaries from classes to probabilities."""
        if isinstance(outputs, list) and outputs and isinstance(outputs[0], np.ndarray):
            outputs = np.stack(outputs)
        if isinstance(outputs, list):
            classes = list(outputs[0])
            numbered = all(isinstance(one, int) and one >= 0 for one in classes)
            full = np.zeros((len(outputs), 1 + max(classes) if numbered else len(classes)))
            for row, one in zip(full, outputs, strict=True):
                row[classes if numbered else slice(None)] = [one[name] for name in classes]
            return full
        values = np.asarray(outputs)
        if self.labels and values.ndim == 3 and values.shape[2] == 2:
            check_label_columns(len(values), self.labels, self.name)
            return values[:, :, 1].T  # of each label the pair without it and with it
        if values.ndim not in (1, 2):
            hint = "export one row for each record"
            raise InputError(f"outputs of {self.name}", "shape (n, columns)", f"{values.shape}", hint)
        return values.reshape(len(values), -1)

    # -- what goes in --------------------------------------------------------------------------------------------------

    def _blocks(self, x: Any) -> Iterator[dict[str, NDArray[Any]]]:
        """Blocks of records as the model takes them; where it was exported for so many at a time, padded to these."""
        whole = self._feed(x)
        first = self._session.get_inputs()[0].shape
        fixed = first[0] if first and isinstance(first[0], int) else None
        for start in range(0, len(x), fixed or _BATCH):
            part = {name: values[start : start + (fixed or _BATCH)] for name, values in whole.items()}
            if fixed:
                part = {name: values[np.arange(fixed) % len(values)] for name, values in part.items()}
            yield part

    def _feed(self, x: Any) -> dict[str, NDArray[Any]]:
        """All records by the name of the input, in its type and shape."""
        inputs = self._session.get_inputs()
        if len(inputs) == 1:
            return {inputs[0].name: self._single(inputs[0], x)}
        names = [one.name for one in inputs]
        if not frames.is_frame(x):
            hint = "name the columns in data.x, and write data.frame: true"
            received = f"{type(x).__name__} without names"
            raise InputError("data.x", f"a data frame with the columns {_listed(names)}", received, hint)
        known = tables.frame_names(x)
        lacking, more = [n for n in names if n not in known], [n for n in known if n not in names]
        if lacking or more:
            received = f"none named {lacking[0]}" if lacking else f"also {more[0]}"
            hint = (nearest(lacking[0], known) if lacking else "") or "name these columns in data.x, and no others"
            raise InputError("data.x", f"the columns of {self.path.name} ({_listed(names)})", received, hint)
        return {one.name: _shaped(one, _typed(one, x[one.name], one.name)) for one in inputs}

    def _single(self, wanted: Any, x: Any) -> NDArray[Any]:
        if frames.is_frame(x):
            columns = tables.frame_names(x)
            if columns == [wanted.name]:
                return _shaped(wanted, _typed(wanted, x[wanted.name], wanted.name))
            return _shaped(wanted, np.stack([_typed(wanted, x[name], name) for name in columns], axis=1))
        return _shaped(wanted, _typed(wanted, np.asarray(x, dtype=object) if isinstance(x, list) else x, "data.x"))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _digest(path: Path) -> str:
    """SHA-256 of a file and of the files of weights that it names; refuses those outside its folder."""
    content, folder = path.read_bytes(), path.parent.resolve()
    total = hashlib.sha256(content)
    names = {content[match.end() : match.end() + match.group(1)[0]] for match in _LOCATION.finditer(content)}
    for name in sorted(one.decode("utf-8", "replace") for one in names):
        other = (folder / name).resolve()
        if not other.is_relative_to(folder):
            hint = "keep both files in one folder, and export again"
            raise InputError("target.path", f"weights in the folder of {path.name}", name[:80], hint)
        if not other.is_file():
            hint = "copy that file too"
            raise InputError("target.path", f"the weights of {path.name} beside it", f"no {name[:80]}", hint)
        with other.open("rb") as handle:
            total.update(hashlib.file_digest(handle, "sha256").digest())
    return total.hexdigest()


def _session(path: Path) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, loaded only where it is used
    except ImportError as error:
        received = "an installation without onnxruntime"
        raise InputError("target.kind", "what onnx needs", received, pip_line("onnx")) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has errors of its own, of no common class
        received = f"{path.name}, which onnxruntime does not read: {one_line(str(error))[:200]}"
        hint = "export it again, with operators that onnxruntime knows"
        raise InputError("target.path", "an ONNX model", received, hint) from error


def _chosen(session: Any, asked: str | None, file: str) -> str:
    """Name of the output to read."""
    known = {one.name: one.type for one in session.get_outputs()}
    usable = [name for name, kind in known.items() if kind in _NUMBERS or kind.startswith(_SEQUENCES)]
    if asked is not None:
        if asked in usable:
            return asked
        received = f"{asked}, of type {known[asked]}" if asked in known else f"{asked}, which is not there"
        raise InputError("target.output", f"one of {_listed(usable)}", received, nearest(asked, usable) or "choose one")
    if len(usable) != 1:
        received = f"{_listed(usable)} in {file}" if usable else f"only {_listed(list(known))} in {file}"
        hint = "name one, with output:" if usable else "export probabilities: options={'zipmap': False} of skl2onnx"
        raise InputError("target.output", "one output of numbers", received, hint)
    return str(usable[0])


def _typed(wanted: Any, column: Any, name: str) -> NDArray[Any]:
    """Values in the type of an input, or one line on why they are not of that type."""
    values = np.asarray(column)
    if wanted.type == "tensor(string)":
        if values.dtype.kind not in "OU" or not all(isinstance(one, str) for one in values.ravel().tolist()):
            received = "missing values" if values.dtype.kind in "OU" else f"values of type {values.dtype}"
            raise InputError(name, f"texts, for the input {wanted.name}", received, "fill them, or write them as text")
        return values.astype(object)
    kind = _TYPES.get(wanted.type.removeprefix("tensor(").rstrip(")"))
    if kind is None:
        raise InputError("target.path", "inputs of numbers or texts", f"{wanted.name} of {wanted.type}", "export again")
    if values.dtype.kind not in "biuf":
        received = "texts, dates or missing values"
        raise InputError(name, f"numbers, for the input {wanted.name}", received, "convert the column first")
    finite = values.dtype.kind != "f" or np.dtype(kind).kind == "f" or np.isfinite(values).all()
    converted = values.astype(kind) if finite else values
    if not finite or (np.dtype(kind).kind in "iub" and not np.array_equal(converted, values)):
        allowed = f"whole numbers of {kind}, for the input {wanted.name}"
        raise InputError(name, allowed, "others", "export the model for floats")
    return converted


def _shaped(wanted: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Values in the shape of an input: a column (n, 1) for values (n,), and (n, 4) for an input of 4 columns only."""
    shape = wanted.shape
    values = values.reshape(len(values), 1) if values.ndim == 1 and len(shape) == 2 else values
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 and len(shape) == 1 else values
    if not shape or values.ndim == len(shape):
        pairs = zip(shape[1:], values.shape[1:], strict=False)  # an input may leave its shape open
        if all(not isinstance(known, int) or known == size for known, size in pairs):
            return values
    allowed = f"records of shape (n, {', '.join(str(one if isinstance(one, int) else '...') for one in shape[1:])})"
    hint = "name the columns that it was exported for"
    raise InputError("data.x", f"{allowed}, for the input {wanted.name}", f"shape {values.shape}", hint)

"""What can be audited: models behind one small protocol, with their outputs as float32 arrays.

A target gives outputs on records; one that can be retrained also fits on a subset (:mod:`miaudit.models.protocol`).
``runs_user_code`` says whether it calls code that came with the audited model: a factory, an estimator, a network.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import Float32Array, FloatArray, IndexArray
from miaudit.attacks import multi_label
from miaudit.attacks.signals import PROBABILITY_FLOOR
from miaudit.errors import InputError, one_line
from miaudit.errors.options import check_choice
from miaudit.io import frames, tables
from miaudit.jobs.resumable import digest
from miaudit.models.outputs import check_kind, check_label_columns, checked_outputs, class_count, label_count, logits_of
from miaudit.models.own_code import described, described_function, load_factory, own_source
from miaudit.models.protocol import Kind, Target, Trainable, Traits
from miaudit.models.torch_target import SavedTorch, TorchTarget

__all__ = [
    "Kind",
    "Precomputed",
    "SavedTorch",
    "SklearnTarget",
    "Target",
    "TorchTarget",
    "Trainable",
    "checked_outputs",
    "class_count",
    "described_function",
    "load_factory",
]

Given = Literal["logits", "probabilities", "predictions", "signals"]  # what outputs from elsewhere are


@dataclass(frozen=True, eq=False)
class SklearnTarget(Traits):
    """Any scikit-learn classifier with ``predict_proba``, or regressor; cloned for each fit. Runs the estimator's code.

    Outputs of a classifier are log-probabilities of the classes 0 to C - 1 (of all labels, also where a subset lacks
    one), which keep the digits that probabilities near 1 lose in float32; those of a regressor its predictions (n, k).
    A classifier of several labels for each record, (n, L) of 0 and 1, gives the log-odds of each.
    A data frame is handed on with its columns. An estimator that wants classes without gaps, as some boosting libraries
    do, is given those of its subset numbered anew where it cannot be fitted otherwise.

    Parameters
    ----------
    estimator : not fitted, or fitted: then ``outputs(None, x)`` are those of the estimator as it is
    called : optional name
    labels : how many labels each record has, 0 for one class or number; :meth:`labelled` sets it

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> target = SklearnTarget(LogisticRegression())
    >>> logits = target.outputs(target.fit(x, y, np.arange(4), seed=0), x)
    >>> logits.shape, logits.dtype.name, logits.argmax(axis=1).tolist()
    ((4, 2), 'float32', [0, 0, 1, 1])
    """

    estimator: Any
    called: str = ""
    labels: int = 0

    def __post_init__(self) -> None:
        for need in ("fit", "predict", "get_params"):
            if not hasattr(self.estimator, need):
                received = f"{type(self.estimator).__name__}, which has no {need}"
                raise InputError("estimator", "a scikit-learn classifier or regressor", received, "pass an instance")
        if self.kind != "predictions" and not hasattr(self.estimator, "predict_proba"):
            received = f"{type(self.estimator).__name__}, which has none"
            hint = "wrap it in sklearn.calibration.CalibratedClassifierCV, or set probability=True"
            raise InputError("estimator", "a classifier with predict_proba", received, hint)

    @property
    def name(self) -> str:
        """The given name, or that of the estimator's class."""
        return self.called or type(self.estimator).__name__

    @property
    def kind(self) -> Kind:
        """Logits of a classifier, or log-odds of several labels, and predictions of a regressor."""
        from sklearn.base import is_regressor  # noqa: PLC0415 - scikit-learn takes a second to load

        return "predictions" if is_regressor(self.estimator) else "multi-label" if self.labels else "logits"

    def labelled(self, y: Any) -> SklearnTarget:
        """As of :meth:`Traits.labelled`."""
        same = self.kind == "predictions" or self.labels == label_count(y)
        return self if same else replace(self, labels=label_count(y))

    @property
    def runs_user_code(self) -> bool:
        """An estimator outside scikit-learn is someone's own code."""
        return not type(self.estimator).__module__.startswith("sklearn.")

    def identity(self) -> str:
        """The estimator's class, its source where that is not scikit-learn's, its parameters, and the version."""
        import sklearn  # noqa: PLC0415

        parts = {name: described(value) for name, value in self.estimator.get_params(deep=True).items()}
        kind = f"{type(self.estimator).__module__}.{type(self.estimator).__qualname__}"
        return f"sklearn {sklearn.__version__} {kind} {sorted(parts.items())}{own_source(type(self.estimator))}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> tuple[Any, ...]:
        """Clone and fit on some rows; every random state is the seed, every number of jobs 1.

        Returns the fitted estimator and the number of all classes, 0 of a regressor; behind them which classes its
        own are, where they had to be numbered anew.
        """
        from sklearn.base import clone  # noqa: PLC0415

        estimator = clone(self.estimator)
        classes = class_count(y) if self.kind == "logits" else 0
        estimator.set_params(**_repeatable(estimator, seed))
        own_x, own_y = frames.taken(x, rows), y[rows]
        try:
            return self._fitted(estimator, own_x, own_y), classes
        except (ValueError, InputError):
            there, numbered = np.unique(own_y, return_inverse=True)
            if not 1 < len(there) < classes:
                raise
            return self._fitted(clone(estimator), own_x, numbered), classes, there

    def _fitted(self, estimator: Any, x: Any, y: NDArray[Any]) -> Any:
        try:
            return estimator.fit(x, y)
        except Exception as error:  # of any library
            if not (texts := frames.texts_of(x)):
                raise
            received = f"texts in {', '.join(texts)} ({type(error).__name__}: {one_line(str(error))[:160]})"
            hint = "name them in data.categories, fill their gaps, or audit a Pipeline that encodes them"
            raise InputError("data.x", f"columns that {self.name} takes", received, hint) from error

    def outputs(self, fitted: tuple[Any, ...] | None, x: Any) -> Float32Array:
        """Log-probabilities (n, C), log-odds of labels (n, L), or predictions (n, k)."""
        estimator, classes, *there = fitted or (self.estimator, 0)
        if self.kind == "multi-label":
            return checked_outputs(self._log_odds(estimator, x), len(x), self.name)
        if self.kind == "predictions":
            return checked_outputs(np.asarray(estimator.predict(x)).reshape(len(x), -1), len(x), self.name)
        known = np.asarray(estimator.classes_)
        if known.dtype.kind not in "iub":
            raise InputError("labels", "classes 0, 1, 2, ...", f"classes of type {known.dtype}", "number the classes")
        known = there[0][known] if there else known
        probabilities = np.asarray(estimator.predict_proba(x), dtype=np.float64)
        full = np.zeros((len(x), max(classes, int(known.max()) + 1)))
        full[:, known.astype(np.intp)] = probabilities
        if np.isnan(full).any():  # the floor below would hide it
            return checked_outputs(full, len(x), self.name)
        return checked_outputs(np.log(np.maximum(full, PROBABILITY_FLOOR)), len(x), self.name)

    def _log_odds(self, estimator: Any, x: Any) -> FloatArray:
        """Log-odds of labels (n, L), of probabilities (n, L) or, as forests give them, (n, 1 or 2) of each label."""
        probabilities = estimator.predict_proba(x)
        if not isinstance(probabilities, list):
            check_label_columns(np.shape(probabilities)[-1], self.labels, self.name)
            return multi_label.log_odds(probabilities)
        check_label_columns(len(probabilities), self.labels, self.name)
        # without the label, and with it: a subset may lack one of the two
        both = np.zeros((2, len(x), len(probabilities)))
        for j, (own, classes) in enumerate(zip(probabilities, estimator.classes_, strict=True)):
            both[np.asarray(classes).astype(np.intp), :, j] = np.asarray(own).T
        return multi_label.log_odds(both[1], both[0])


def _repeatable(estimator: Any, seed: int) -> dict[str, int]:
    """Return the parameters, of an estimator and of its parts, that make a fit depend on the seed alone, in one thread.

    CatBoost does not list what was not set, and takes one name of two; LightGBM and XGBoost take every core by default.
    """
    every, parameters = estimator.get_params(deep=True), dict[str, int]()
    for at, part in [("", estimator), *((f"{name}__", value) for name, value in every.items())]:
        if not hasattr(part, "get_params") or isinstance(part, type):
            continue
        own = {name.removeprefix(at) for name in every if name.startswith(at)}
        foreign = not getattr(type(part).__init__, "__module__", "").startswith("sklearn.")  # whoever's parameters
        known = own.union(inspect.signature(type(part)).parameters) if foreign else own
        seeds = [name for names in (own, known) for name in ("random_state", "random_seed") if name in names]
        parameters |= {f"{at}{name}": seed for name in seeds[:1]}
        jobs = [name for name in ("n_jobs", "thread_count") if name in known]
        parameters |= {f"{at}{name}": 1 for name in jobs if foreign or every[f"{at}{name}"] is not None}
    return parameters


@dataclass(frozen=True, eq=False)
class Precomputed(Traits):
    """Outputs that were computed elsewhere; records are row numbers. Runs no code of anyone.

    Parameters
    ----------
    values : array (n, C): logits, probabilities, predictions (n, 1) or signals
        Logits and probabilities may be of k augmentations of each record, the first of them the record as it is:
        (n, k, C). Then ``augmented`` holds those of the others, which only LiRA compares.
    given : "logits", "probabilities", "predictions" or "signals"
        Probabilities become log-probabilities, those of labels log-odds.
    columns : names of the columns of signals, where they are known
    labels : how many labels each record has, where logits or probabilities are of each label by itself; else 0

    Examples
    --------
    >>> target = Precomputed(np.array([[0.5, 0.5], [0.9, 0.1]]), given="probabilities")
    >>> target.outputs(None, np.array([1])).round(2).tolist()
    [[-0.1..., -2.29...]]
    """

    runs_user_code = False
    by_row = True  # nothing else can be asked
    values: ArrayLike
    given: Given = "logits"
    name: str = "precomputed outputs"
    columns: tuple[str, ...] = ()
    labels: int = 0
    augmented: tuple[Float32Array, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        check_choice("given", self.given, get_args(Given))
        values = np.asarray(self.values)
        if values.ndim == 4 and values.shape[1] == 1:  # (n, 1, k, C), as the code of the LiRA paper writes it
            values = values[:, 0]
        if values.ndim == 3 and values.shape[1] and self.given in ("logits", "probabilities"):
            others = (replace(self, values=values[:, i]) for i in range(1, values.shape[1]))
            object.__setattr__(self, "augmented", tuple(np.asarray(one.values) for one in others))
            values = values[:, 0]
        values = values[:, None] if values.ndim == 1 and self.given in ("predictions", "signals") else values
        usable = values.ndim == 2 and values.dtype.kind in "iuf"
        if usable and self.given == "probabilities":
            values = logits_of(values, self.labels, self.name)
        elif usable and self.given == "logits":
            if self.labels:
                check_label_columns(values.shape[1], self.labels, self.name)
            else:
                check_kind("logits", values, self.name)
        object.__setattr__(self, "values", checked_outputs(values, len(values) if values.ndim else 0, self.name))

    @classmethod
    def load(
        cls, path: str | Path, columns: Sequence[str] = (), *, given: Given = "logits", labels: int = 0
    ) -> Precomputed:
        """Read a .npy file, or the named columns of an .npz, .parquet or .csv file."""
        if Path(path).suffix.lower() == ".npy":
            return cls(tables.read_array(path, "outputs"), given, Path(path).name, tuple(columns), labels)
        names = list(columns) or tables.column_names(path, "outputs")
        arrays = tables.read_columns(path, names, "outputs")
        if len(names) == 1 and arrays[names[0]].ndim > 2:
            return cls(arrays[names[0]], given, Path(path).name, tuple(columns), labels)
        parts = [arrays[name] if arrays[name].ndim > 1 else arrays[name][:, None] for name in names]
        return cls(np.concatenate(parts, axis=1), given, Path(path).name, tuple(columns), labels)

    @property
    def kind(self) -> Kind:
        """What the columns are, once probabilities are log-probabilities."""
        if self.given in ("predictions", "signals"):
            return self.given
        return "multi-label" if self.labels else "logits"

    def labelled(self, y: Any) -> Precomputed:
        """As of :meth:`Traits.labelled`; probabilities must have been read for so many labels already.

        Raises
        ------
        InputError
            For another number of labels.
        """
        labels = label_count(y)
        if labels == self.labels or self.given in ("predictions", "signals"):
            return self
        if self.given == "probabilities":
            received = f"{labels or 'one class'} for each record, beside probabilities of {self.labels or 'classes'}"
            raise InputError("labels", "those that the outputs were read for", received, f"pass labels={labels}")
        return replace(self, labels=labels)

    def identity(self) -> str:
        """The values."""
        return f"precomputed {self.given} {' '.join(map(digest, (self.values, *self.augmented)))}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:  # noqa: ARG002 - nothing is fitted
        """Outputs of the records with these row numbers (k,), or (k, 1)."""
        return np.asarray(np.asarray(self.values)[self._rows(x)])

    def of_augmentations(self, x: Any) -> tuple[Float32Array, ...]:
        """Return outputs as :meth:`outputs`, on each further augmentation of the records."""
        return tuple(np.asarray(one[self._rows(x)]) for one in self.augmented)

    def _rows(self, x: Any) -> IndexArray:
        rows, n = np.asarray(x), len(np.asarray(self.values))
        rows = rows[:, 0] if rows.ndim == 2 and rows.shape[1] == 1 else rows  # one column, as a file of records has it
        if rows.ndim != 1 or rows.dtype.kind not in "iuf" or (rows % 1 != 0).any():
            received, hint = f"shape {rows.shape} of type {rows.dtype}", "name a column of whole numbers, or no data.x"
            raise InputError("x", f"row numbers from 0 to {n - 1}", received, hint)
        outside = (rows < 0) | (rows >= n)
        if outside.any():
            received = f"{rows[outside][0]:g} in {np.count_nonzero(outside):,} of {len(rows):,} records"
            hint = "count rows from 0; outputs are known there only"
            raise InputError("x", f"row numbers from 0 to {n - 1}", received, hint)
        return rows.astype(np.intp)

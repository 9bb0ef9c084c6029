"""What can be audited: models behind one small protocol, with their outputs as float32 arrays.

A target gives outputs on records; one that can be retrained also fits on a subset (:mod:`miaudit.models.protocol`).
``runs_user_code`` says whether it calls code that came with the audited model: a factory, an estimator, a network.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray
from miaudit.attacks.signals import PROBABILITY_FLOOR
from miaudit.errors import InputError, MiauditError, check_choice, nearest, one_line
from miaudit.io import frames, tables
from miaudit.jobs.resumable import digest
from miaudit.metrics.definition import at_most
from miaudit.models.foreign import refuse_pickle
from miaudit.models.protocol import Kind, Target, Trainable, Traits
from miaudit.models.train_config import TrainConfig

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
LOGITS = "logits"  # where outputs stand, unless said otherwise
_LARGEST = np.finfo(np.float32).max
_LIBRARIES = {"builtins", "abc", "typing", "torch", "sklearn", "miaudit"}  # described by their versions


@dataclass(frozen=True, eq=False)
class SklearnTarget:
    """Any scikit-learn classifier with ``predict_proba``, or regressor; cloned for each fit. Runs the estimator's code.

    Outputs of a classifier are log-probabilities of the classes 0 to C - 1 (of all labels, also where a subset lacks
    one), which keep the digits that probabilities near 1 lose in float32; those of a regressor its predictions (n, 1).
    A data frame is handed on with its columns. An estimator that wants classes without gaps, as some boosting libraries
    do, is given those of its subset numbered anew where it cannot be fitted otherwise.

    Parameters
    ----------
    estimator : not fitted, or fitted: then ``outputs(None, x)`` are those of the estimator as it is
    called : optional name

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

    def __post_init__(self) -> None:
        for need in ("fit", "predict", "get_params"):
            if not hasattr(self.estimator, need):
                received = f"{type(self.estimator).__name__}, which has no {need}"
                raise InputError("estimator", "a scikit-learn classifier or regressor", received, "pass an instance")
        if self.kind == "logits" and not hasattr(self.estimator, "predict_proba"):
            received = f"{type(self.estimator).__name__}, which has none"
            hint = "wrap it in sklearn.calibration.CalibratedClassifierCV, or set probability=True"
            raise InputError("estimator", "a classifier with predict_proba", received, hint)

    @property
    def name(self) -> str:
        """The given name, or that of the estimator's class."""
        return self.called or type(self.estimator).__name__

    @property
    def kind(self) -> Kind:
        """Logits of a classifier, predictions of a regressor."""
        from sklearn.base import is_regressor  # noqa: PLC0415 - scikit-learn takes a second to load

        return "predictions" if is_regressor(self.estimator) else "logits"

    @property
    def runs_user_code(self) -> bool:
        """An estimator outside scikit-learn is someone's own code."""
        return not type(self.estimator).__module__.startswith("sklearn.")

    def identity(self) -> str:
        """The estimator's class, its source where that is not scikit-learn's, its parameters, and the version."""
        import sklearn  # noqa: PLC0415

        parts = {name: _described(value) for name, value in self.estimator.get_params(deep=True).items()}
        kind = f"{type(self.estimator).__module__}.{type(self.estimator).__qualname__}"
        return f"sklearn {sklearn.__version__} {kind} {sorted(parts.items())}{_own_source(type(self.estimator))}"

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
        """Log-probabilities (n, C), or predictions (n, 1)."""
        estimator, classes, *there = fitted or (self.estimator, 0)
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


def _repeatable(estimator: Any, seed: int) -> dict[str, int]:
    """Return the parameters, of an estimator and of its parts, that make a fit depend on the seed alone, in one thread.

    CatBoost does not list what was not set, and takes one name of two; LightGBM and XGBoost take every core by default.
    """
    every, found = estimator.get_params(deep=True), dict[str, int]()
    for at, part in [("", estimator), *((f"{name}__", value) for name, value in every.items())]:
        if not hasattr(part, "get_params") or isinstance(part, type):
            continue
        own = {name.removeprefix(at) for name in every if name.startswith(at)}
        foreign = not getattr(type(part).__init__, "__module__", "").startswith("sklearn.")  # whoever's parameters
        known = own.union(inspect.signature(type(part)).parameters) if foreign else own
        seeds = [name for names in (own, known) for name in ("random_state", "random_seed") if name in names]
        found |= {f"{at}{name}": seed for name in seeds[:1]}
        jobs = [name for name in ("n_jobs", "thread_count") if name in known]
        found |= {f"{at}{name}": 1 for name in jobs if foreign or every[f"{at}{name}"] is not None}
    return found


class _Network(Traits):
    """A PyTorch network from a factory: how it is built, described and asked. Runs the factory's code."""

    factory: str | Callable[[], Any]
    weights: str | Path | None
    called: str
    output: str
    kind: Kind = "logits"
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
        made = load_factory(self.factory) if isinstance(self.factory, str) else self.factory
        if self.output == LOGITS:
            return made
        from miaudit.models import weights as saved  # noqa: PLC0415

        return functools.partial(saved.keyed, factory=made, key=self.output)

    @property
    def name(self) -> str:
        """The given name, or the factory's."""
        return self.called or (self.factory if isinstance(self.factory, str) else _called(self.factory))

    def architecture(self) -> str:
        """The factory and its source, its network's layers, shapes and own classes, and the version of torch."""
        import torch  # noqa: PLC0415

        from miaudit.models import weights as saved  # noqa: PLC0415

        net = saved.build(self.build)
        shapes = [(name, tuple(values.shape)) for name, values in net.state_dict().items()]
        kinds = sorted(set(map(type, net.modules())), key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
        own = "".join(_own_source(kind) for kind in kinds)
        return f"torch {torch.__version__} {described_function(self.build)} {net} {shapes}{own}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """Logits (n, C) of these weights, or of the saved ones for None."""
        from miaudit.models import train  # noqa: PLC0415

        state = self._state if fitted is None else fitted
        if state is None:
            raise InputError("weights", "a file of saved weights", "none", "name one: there is no audited model yet")
        found = train.logits(self.build, state, x, device=self.device, tf32=self._tf32)
        return checked_outputs(found, len(x), self.name)


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

        name, given = self.config.device, (gpus or 0) if cluster else gpus
        if name.startswith("cuda") and given == 0:
            hint = "set shadow.gpus: 1, or a share of one"
            raise InputError("device", "auto or cpu, where fits are given no GPU", name, hint)
        if ":" in name and given:
            raise InputError("device", "cuda, where each fit is given GPUs of its own", name, "leave the number out")
        if name != "auto":
            if name != "cpu" and not cluster:
                devices.device_of(name)
            return self
        if given and not cluster and not devices.usable():
            received = f"{given:g} for each fit, and torch sees no GPU here"
            raise InputError("gpus", "none, or 0", received, "leave gpus out, or start it where torch can use one")
        found = "cpu" if given == 0 else "cuda" if given else devices.kind_of(name)
        return self if found == "cpu" and given is None else replace(self, config=replace(self.config, device=found))

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
            f"DP-SGD: the {whom} are ({at_most(proved.value)}, {private.delta:g})-differentially "
            f"private by its accountant, for one record added or removed, at a public {private.records:,} records."
            + " The noise can be repeated: that does not hold against who knows the seed."
            * private.repeatable,
            *where,
        )

    def identity(self) -> str:
        """The factory and its source, the network that it makes, the training, and the version of torch."""
        config = replace(self.config, device="auto")  # the kind that is used decides, beside this: see shadow.Fits
        return f"{self.architecture()} {config!r} {self.key}".replace(", tf32=False", "")

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
            found: list[Any] = list(error.states)
            for index, _, epoch in error.failed:
                found[index] = _diverged(epoch)
            return found


@dataclass(frozen=True, eq=False)
class SavedTorch(_Network):
    """A PyTorch network with saved weights, which stays as it is. Runs the factory's code.

    Parameters
    ----------
    factory : "package.module:function" or a function without arguments, that returns a torch.nn.Module
    weights : path of .safetensors, .pt or .pth; objects are never unpickled
    output : as of :class:`TorchTarget`
    """

    factory: str | Callable[[], Any]
    weights: str | Path | None
    called: str = ""
    device: str = "auto"
    output: str = "logits"
    _state: Any = field(init=False, repr=False, default=None)

    @property
    def notes(self) -> tuple[str, ...]:
        """On which device it was asked, where that is to be said."""
        from miaudit.models import devices  # noqa: PLC0415

        return devices.said(self.device)

    def identity(self) -> str:
        """The network and its weights."""
        values = [] if self._state is None else [digest(one.numpy()) for one in self._state.values()]
        return f"{self.architecture()} {values}"


@dataclass(frozen=True, eq=False)
class Precomputed(Traits):
    """Outputs that were computed elsewhere; records are row numbers. Runs no code of anyone.

    Parameters
    ----------
    values : array (n, C): logits, probabilities, predictions (n, 1) or signals
    given : "logits", "probabilities", "predictions" or "signals"
        Probabilities become log-probabilities.
    columns : names of the columns of signals, where they are known

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

    def __post_init__(self) -> None:
        check_choice("given", self.given, get_args(Given))
        values = np.asarray(self.values)
        values = values[:, None] if values.ndim == 1 and self.given in ("predictions", "signals") else values
        if self.given == "probabilities" and values.dtype.kind == "f" and values.ndim == 2:
            bad = ~((values >= 0) & (values <= 1 + 1e-3)).all(axis=1) | ~(abs(values.sum(axis=1) - 1) <= 1e-3)
            if bad.any():
                received = f"others in row {int(np.flatnonzero(bad)[0])}"
                raise InputError("values", "rows of probabilities that add up to 1", received, "or pass logits")
            values = np.log(np.maximum(values.astype(np.float64), PROBABILITY_FLOOR))
        object.__setattr__(self, "values", checked_outputs(values, len(values) if values.ndim else 0, self.name))

    @classmethod
    def load(cls, path: str | Path, columns: Sequence[str] = (), *, given: Given = "logits") -> Precomputed:
        """Read a .npy file, or the named columns of an .npz, .parquet or .csv file."""
        if Path(path).suffix.lower() == ".npy":
            return cls(tables.read_array(path, "outputs"), given, Path(path).name, tuple(columns))
        names = list(columns) or tables.column_names(path, "outputs")
        found = tables.read_columns(path, names, "outputs")
        parts = [found[name] if found[name].ndim > 1 else found[name][:, None] for name in names]
        return cls(np.concatenate(parts, axis=1), given, Path(path).name, tuple(columns))

    @property
    def kind(self) -> Kind:
        """What the columns are, once probabilities are log-probabilities."""
        return "logits" if self.given == "probabilities" else self.given

    def identity(self) -> str:
        """The values."""
        return f"precomputed {self.given} {digest(self.values)}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:  # noqa: ARG002 - nothing is fitted
        """Outputs of the records with these row numbers (k,)."""
        values, rows = np.asarray(self.values), np.asarray(x)
        numbers = rows.ndim == 1 and rows.dtype.kind in "iu"
        if not numbers or (rows.size and not 0 <= rows.min() <= rows.max() < len(values)):
            allowed = f"row numbers from 0 to {len(values) - 1}"
            raise InputError("x", allowed, f"shape {rows.shape} of type {rows.dtype}", "outputs are known there only")
        return np.asarray(values[rows])


def load_factory(where: str) -> Callable[..., Any]:
    """Import the function that "package.module:function" names. This runs the module's code.

    Raises
    ------
    InputError
        If there is no such module or function, or the module fails.

    Examples
    --------
    >>> load_factory("collections:OrderedDict").__name__
    'OrderedDict'
    >>> load_factory("collections:OrderdDict")
    Traceback (most recent call last):
    miaudit.errors.InputError: factory: expected a function of collections, received OrderdDict, which is not there;
    did you mean OrderedDict?
    """
    if not where.count(":"):
        refuse_pickle(where, "factory")
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise InputError("factory", "package.module:function", repr(where), "for example my_models:small_net")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything
        received = f"{module_name}, which does not import ({one_line(f'{type(error).__name__}: {error}')[:160]})"
        raise InputError("factory", "a module that imports", received, "run from its folder, or install it") from error
    if not hasattr(module, name):
        hint = nearest(name, dir(module)) or "check the spelling"
        raise InputError("factory", f"a function of {module_name}", f"{name}, which is not there", hint)
    found = getattr(module, name)
    if not callable(found):
        raise InputError("factory", "a function", f"{where}, a {type(found).__name__}", "name a function")
    return found  # type: ignore[no-any-return]


def _diverged(epoch: int) -> MiauditError:
    return MiauditError(f"the loss became infinite or NaN in epoch {epoch}: lower learning_rate, or scale the inputs")


def checked_outputs(values: ArrayLike, n: int, name: str) -> Float32Array:
    """Return outputs as float32 (n, C), or say what is wrong with them: shape, type, NaN or infinity."""
    array = np.asarray(values)
    if array.ndim != 2 or len(array) != n or not array.shape[1] or array.dtype.kind not in "iuf":
        allowed = f"numbers of shape ({n}, columns)"
        raise InputError.of_array(f"outputs of {name}", allowed, array, "return one row for each record")
    with np.errstate(invalid="ignore"):
        finite = not array.size or bool(array.min() >= -_LARGEST and array.max() <= _LARGEST)  # NaN is neither
    if not finite:
        bad = ~(abs(array) <= _LARGEST).all(axis=1)
        received = f"NaN or infinity in {int(bad.sum())} of {n} records, the first {int(np.flatnonzero(bad)[0])}"
        raise InputError(f"outputs of {name}", "finite numbers", received, "train more gently, or drop these records")
    return np.ascontiguousarray(array, dtype=np.float32)


def class_count(y: ArrayLike) -> int:
    """Return the number of classes of labels 0, 1, ...: the largest label plus one.

    Raises
    ------
    InputError
        For labels that are no whole numbers, or negative.
    """
    labels = np.asarray(y)
    if labels.dtype.kind not in "iub" or labels.ndim != 1 or not labels.size:
        allowed = "whole numbers (n,), classes 0, 1, 2, ..."
        raise InputError.of_array("labels", allowed, labels, "number the classes")
    if int(labels.min()) < 0:
        raise InputError("labels", "classes from 0 up", str(int(labels.min())), "number the classes from 0")
    return int(labels.max()) + 1


def described_function(function: Callable[..., Any]) -> str:
    """Name a function together with the digest of its source, so that an edited one has another description."""
    if isinstance(function, functools.partial):
        bound = [_described(one) for one in (*function.args, *sorted(function.keywords.items()))]
        return f"partial({described_function(function.func)}, {bound})"
    source = _digest_of_source(function if hasattr(function, "__code__") else type(function))
    own = "" if hasattr(function, "__qualname__") else repr(function)
    name = f"{getattr(function, '__module__', '')}.{_called(function)}"
    closed = [_described(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return f"{name} {_without_addresses(own)} {source} {closed}"


def _digest_of_source(thing: Any) -> str:
    """Return the digest of a source, that of an empty one for what was made at a prompt, or compiled."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        source = ""
    return hashlib.sha256(source.encode()).hexdigest()


def _own_source(kind: type) -> str:
    """Describe a class and its bases outside the libraries: an edited ``fit`` or ``forward`` is another model."""
    parts = []
    for one in kind.__mro__:
        package = one.__module__.partition(".")[0]
        if package in _LIBRARIES:
            continue
        version = getattr(sys.modules.get(package), "__version__", "")
        parts.append(f" {one.__module__}.{one.__qualname__} {version} {_digest_of_source(one)}")
    return "".join(parts)


def _called(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return digest(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_described(one) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_described(one)}' for key, one in value.items())}}}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        kind = type(value)
        return f"{kind.__module__}.{kind.__qualname__}{_own_source(kind)}"  # its parameters are listed by themselves
    if callable(value):
        return described_function(value)
    return _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    """Leave out where an object lies in memory, which is different in every process."""
    return text.partition(" at 0x")[0]

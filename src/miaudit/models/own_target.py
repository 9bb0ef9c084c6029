"""A class of the user's own as a target: what is asked of it, and what decides its fits, its source file among it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray
from miaudit.errors import InputError, MiauditError, nearest, one_line
from miaudit.models.outputs import check_label_columns, checked_outputs, label_count
from miaudit.models.own_code import described, load_factory, made_of, own_source
from miaudit.models.protocol import Kind, Traits, traits_of
from miaudit.models.script_files import ScriptFiles, file_digest

__all__ = ["OwnTarget", "of_class"]

_KEY = "target.class"
# What each method is called with, and how it is written in a message.
_METHODS: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any], str]] = {
    "fit": ((None, None, None), {"seed": 0}, "fit(x, y, rows, *, seed)"),
    "fit_many": ((None, None, None), {"seeds": ()}, "fit_many(x, y, included, *, seeds)"),
    "outputs": ((None, None), {}, "outputs(fitted, x)"),
}


@dataclass(frozen=True, eq=False)
class OwnTarget(Traits):
    """An object of the user's own that gives outputs. Runs its code.

    Of :class:`miaudit.models.protocol.Target` it needs the method ``outputs(fitted, x)`` only. ``kind`` is "logits",
    unless it says otherwise; its name is that of its class. What it states as :class:`Traits` holds.

    Parameters
    ----------
    model : the object
    where : "package.module:Class" by which it was made
    options : arguments with which it was made
    called : optional name
    files : further files whose content decides a fit
    """

    runs_user_code = True  # whatever the object says
    model: Any
    where: str
    options: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""
    files: ScriptFiles | None = None
    labels: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        if not self.source:
            object.__setattr__(self, "source", _digest_of(type(self.model)))

    @property
    def name(self) -> str:
        """The given name, the object's, or that of its class."""
        own = getattr(self.model, "name", "")
        return self.called or (own if isinstance(own, str) else "") or type(self.model).__name__

    @property
    def kind(self) -> Kind:
        """What the object says that its outputs are; logits where it says nothing, of labels where there are several.

        Raises
        ------
        InputError
            For an unknown kind.
        """
        kind: Any = getattr(self.model, "kind", "multi-label" if self.labels else "logits")
        if kind not in get_args(Kind):
            hint = nearest(str(kind), get_args(Kind)) or "logits is the default"
            raise InputError(f"{_KEY}: kind", f"one of {', '.join(get_args(Kind))}", repr(kind), hint)
        checked: Kind = kind
        return checked

    def identity(self) -> str:
        """The class with its source file, its options, further files, and what the object itself says decides a fit."""
        own = self.model.identity() if callable(getattr(self.model, "identity", None)) else ""
        more = {} if self.files is None else self.files.digests
        parts = [self.where, described(self.options), self.source, sorted(more.items()), own_source(type(self.model))]
        return f"target {parts} {own}"

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """Outputs (n, C), checked."""
        return self._checked(self._run(self.model.outputs, fitted, x), x)

    def _checked(self, found: Any, x: Any) -> Float32Array:
        values = checked_outputs(found, len(x), self.name)
        if self.labels and self.kind in ("multi-label", "predictions"):
            check_label_columns(values.shape[1], self.labels, self.name)
        return values

    def _run(self, function: Callable[..., Any], *values: Any, **more: Any) -> Any:
        """Call the user's code; what it raises becomes one line."""
        try:
            return function(*values, **more)
        except MiauditError:
            raise
        except Exception as error:  # whatever the code raises
            received = f"{function.__name__}, which raises {type(error).__name__}: {one_line(str(error))[:200]}"
            raise InputError(_KEY, f"{self.where} that works here", received, "try it on a few records") from error

    # -- what the object states, if anything ---------------------------------------------------------------------------

    @property
    def stands(self) -> bool:
        """As of :class:`Traits`."""
        return traits_of(self.model).stands

    @property
    def by_row(self) -> bool:
        """As of :class:`Traits`."""
        return traits_of(self.model).by_row

    @property
    def columns(self) -> tuple[str, ...]:
        """As of :class:`Traits`."""
        return traits_of(self.model).columns

    @property
    def notes(self) -> tuple[str, ...]:
        """As of :class:`Traits`."""
        return traits_of(self.model).notes

    @property
    def device(self) -> str:
        """As of :class:`Traits`."""
        return traits_of(self.model).device

    @property
    def gpus(self) -> float | None:
        """As of :class:`Traits`."""
        return traits_of(self.model).gpus

    def labelled(self, y: Any) -> OwnTarget:
        """As of :meth:`Traits.labelled`."""
        model = self.model.labelled(y) if isinstance(self.model, Traits) else self.model
        same = model is self.model and label_count(y) == self.labels
        return self if same else replace(self, model=model, labels=label_count(y))

    def placed(self, gpus: float | None, *, cluster: bool) -> OwnTarget:
        """As of :meth:`Traits.placed`."""
        if not isinstance(self.model, Traits):
            return self
        return replace(self, model=self.model.placed(gpus, cluster=cluster))

    def at_work(self, number: int, folder: Path | None) -> OwnTarget:
        """As of :meth:`Traits.at_work`."""
        if not isinstance(self.model, Traits):
            return self
        return replace(self, model=self.model.at_work(number, folder))

    def prepared(self, x: Any) -> Any:
        """As of :meth:`Traits.prepared`."""
        return traits_of(self.model).prepared(x)

    def explained(self, x: Any) -> tuple[Float32Array, tuple[str, ...]]:
        """As of :meth:`Traits.explained`."""
        outputs, notes = self._run(traits_of(self.model).explained, x)
        return self._checked(outputs, x), notes


@dataclass(frozen=True, eq=False)
class OwnTrainable(OwnTarget):
    """The same with a method ``fit``."""

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Any:
        """Train on some rows.

        Raises
        ------
        MiauditError
            If the source file is not what it was when the campaign began.
        """
        self._require_unchanged()
        return self.model.fit(x, y, rows, seed=seed)

    def _require_unchanged(self) -> None:
        if _digest_of(type(self.model)) != self.source:
            raise MiauditError(f"the file of {self.where} changed since the campaign began: run it again")


@dataclass(frozen=True, eq=False)
class OwnTrainableTogether(OwnTrainable):
    """The same with a method ``fit_many``."""

    def fit_many(self, x: Any, y: NDArray[Any], included: BoolArray, *, seeds: Sequence[int]) -> list[Any]:
        """Train several models at once."""
        self._require_unchanged()
        return list(self.model.fit_many(x, y, included, seeds=seeds))


def of_class(
    where: str, options: Mapping[str, Any], *, folder: Path, files: Sequence[str] = (), called: str = ""
) -> OwnTarget:
    """Make a target of "package.module:Class", or of a function that returns an object. Runs their code.

    Parameters
    ----------
    options : arguments of the class
    folder : where ``files`` are, further files whose content decides a fit
    called : optional name

    Raises
    ------
    InputError
        For code that does not import, refuses the options, or makes something that is no target.
    """
    if where.partition(":")[0].endswith(".py"):
        hint = f"write {where.replace('.py:', ':', 1)}: the module beside the configuration file"
        raise InputError(_KEY, "package.module:Class", repr(where), hint)
    try:
        factory = load_factory(where)
    except InputError as error:
        raise InputError(_KEY, error.allowed, error.received, error.next_step) from error
    model = made_of(factory, where, options, _KEY)
    _check_methods(model, where)
    kinds = {"fit_many": OwnTrainableTogether, "fit": OwnTrainable}
    target_class = next(
        (kind for name, kind in kinds.items() if hasattr(model, name) and hasattr(model, "fit")), OwnTarget
    )
    target = target_class(model, where, dict(options), called, ScriptFiles.of(folder, files) if files else None)
    _ = target.kind  # refuses an unknown one
    return target


def _check_methods(model: Any, where: str) -> None:
    """Refuse an object without outputs, or with methods that cannot be called as they will be."""
    if not callable(getattr(model, "outputs", None)):
        hint = "give it outputs(self, fitted, x), and fit(self, x, y, rows, *, seed) to be trained"
        raise InputError(_KEY, "an object with outputs(fitted, x)", f"{type(model).__name__} of {where}", hint)
    for name, (values, more, written) in _METHODS.items():
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            inspect.signature(method).bind(*values, **more)
        except ValueError:  # a method that does not tell
            continue
        except TypeError as error:
            shown = f"{name}{inspect.signature(method)}" if callable(method) else f"{name} that is no method"
            raise InputError(_KEY, f"a method {written}", f"{shown} of {where}", "change its arguments") from error


def _digest_of(kind: type) -> str:
    """Digest of the file that holds a class; empty where there is none, as for what was made at a prompt."""
    try:
        file = inspect.getsourcefile(kind)
        return "" if file is None else file_digest(Path(file))
    except (OSError, TypeError):
        return ""

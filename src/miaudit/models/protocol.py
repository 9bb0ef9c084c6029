"""What a target must give, and what it may state beside: the small protocol behind which every audited model stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard, get_args, runtime_checkable

from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray
from miaudit.errors import InputError

# logits: (n, C), up to a constant in each row; predictions: (n, k) of a regression; signals: (n, S), ready for attacks
# (what a language model gives of texts of unequal length, for example); multi-label: log-odds (n, L) of each label.
Kind = Literal["logits", "predictions", "signals", "multi-label"]
_MEMBERS = ("name", "kind", "runs_user_code", "identity", "outputs")


@runtime_checkable
class Target(Protocol):
    """A model that gives outputs."""

    @property
    def name(self) -> str:
        """What a page calls it."""

    @property
    def kind(self) -> Kind:
        """What the columns of its outputs are."""

    @property
    def runs_user_code(self) -> bool:
        """Whether code that came with the model is run."""

    def identity(self) -> str:
        """All that decides a fit besides data and seed, as text that is the same in every process."""

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """Outputs (n, C) of a fitted model on records (n, ...). ``fitted`` is None for a fixed model."""


@runtime_checkable
class Trainable(Target, Protocol):
    """A target that can be trained again on part of the records."""

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Any:
        """Train on the given rows of the records x (n, ...) with labels y (n,); equal seeds give equal fits.

        Labels are (n, L) of 0 and 1 where the outputs are multi-label, and may be (n, k) of numbers in a regression.
        """


@runtime_checkable
class TrainableTogether(Trainable, Protocol):
    """A target that can train several models at once, for those who ask for that (``at_once``)."""

    def fit_many(self, x: Any, y: NDArray[Any], included: BoolArray, *, seeds: Sequence[int]) -> list[Any]:
        """Fits of models that learn the records ``included`` (M, n); a MiauditError in the place of a failed one."""


class Traits(ABC):
    """What a target may state beside its protocol, with what holds for one that states nothing.

    A target states it by deriving from this class. Nothing is read off a name: another target may have attributes
    ``weights``, ``columns`` or ``notes`` of its own, and they stay its own.

    Examples
    --------
    >>> class Fixed(Traits):
    ...     notes = ("Trained in 2020.",)
    ...     def outputs(self, fitted, x):
    ...         return np.zeros((len(x), 2), dtype=np.float32)
    >>> traits_of(Fixed()).notes, traits_of(Fixed()).stands
    (('Trained in 2020.',), False)
    """

    @property
    def stands(self) -> bool:
        """Whether it is audited as it is, although more models like it can be trained."""
        return False

    @property
    def by_row(self) -> bool:
        """Whether it has outputs of stored records only: it is asked, and trained, by their row numbers."""
        return False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of outputs that are signals; none where they are not known."""
        return ()

    @property
    def classes(self) -> tuple[str, ...]:
        """What the columns of logits are called, in their order; none where labels of text have no number."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it on a page, in sentences."""
        return ()

    @property
    def device(self) -> str:
        """On which device it is fitted: "auto", "cpu", "cuda" or "cuda:N"."""
        return "cpu"

    @property
    def gpus(self) -> float | None:
        """How many GPUs each fit is to be given, where it says so itself."""
        return None

    def placed(self, gpus: float | None, *, cluster: bool) -> Any:  # noqa: ARG002 - for those who may use GPUs
        """Return the target with the device that fits use which are given so many GPUs (None: those that are seen)."""
        return self

    def labelled(self, y: Any) -> Any:  # noqa: ARG002 - for those whose outputs are read by the labels
        """Return the target for records with labels y: (n,), or (n, L) where each record has several."""
        return self

    def prepared(self, x: Any) -> Any:
        """Records as :meth:`fit` and :meth:`outputs` take them best; made once for all fits of a process."""
        return x

    def at_work(self, number: int, folder: Path | None) -> Any:  # noqa: ARG002 - for those who leave files
        """Return the target as it makes the fit of this number, with the store's folder for what it tells, if any."""
        return self

    @abstractmethod
    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """As of :class:`Target`."""

    def explained(self, x: Any) -> tuple[Float32Array, tuple[str, ...]]:
        """Outputs of the model as it is, and what is to be said of these, in sentences."""
        return self.outputs(None, x), ()


class _NoneStated(Traits):
    def __init__(self, target: Target) -> None:
        self._target = target

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        return self._target.outputs(fitted, x)


def traits_of(target: Any) -> Traits:
    """Return what a target states: itself if it derives from :class:`Traits`, else what holds by default."""
    return target if isinstance(target, Traits) else _NoneStated(target)


def can_be_trained(target: object) -> TypeGuard[Trainable]:
    """Whether a target has the method ``fit``; something of that name that cannot be called is another matter."""
    return isinstance(target, Trainable) and callable(target.fit)


def can_be_trained_together(target: object) -> TypeGuard[TrainableTogether]:
    """Whether a target has the method ``fit_many`` too."""
    return can_be_trained(target) and isinstance(target, TrainableTogether) and callable(target.fit_many)


def stands(target: Target) -> bool:
    """Whether the audited model stands as it is: it cannot be trained, or says that it is not to be."""
    return not can_be_trained(target) or traits_of(target).stands


def trainable(target: Target) -> Trainable:
    """Return the target, if it can be trained.

    Raises
    ------
    InputError
        If it cannot.
    """
    if not can_be_trained(target):
        received = f"{target.name}, which stands as it is"
        hint = "set shadow.models: 0, or name an estimator or a factory with training"
        raise InputError("target", "one that can be trained, for shadow models", received, hint)
    return target


def check_target(target: object) -> None:
    """Refuse what is no target, and say which part of the protocol it lacks.

    Raises
    ------
    InputError
        For a member that is missing or is something else.

    Examples
    --------
    >>> check_target([0.5])
    Traceback (most recent call last):
    miaudit.errors.InputError: target: expected an object with name, kind, runs_user_code, identity() and
    outputs(fitted, x), received list without name; wrap an estimator in miaudit.models.targets.SklearnTarget
    """
    if isinstance(target, type):
        lacking = [f"the class {target.__name__} without its arguments"]
    elif isinstance(target, Target):
        wrong = {
            "a text as name": not isinstance(target.name, str),
            f"{' or '.join(get_args(Kind))} as kind": target.kind not in get_args(Kind),
            "true or false as runs_user_code": not isinstance(target.runs_user_code, bool),
            "a method identity()": not callable(target.identity),
            "a method outputs(fitted, x)": not callable(target.outputs),
        }
        lacking = [f"one without {what}" for what, is_wrong in wrong.items() if is_wrong]
    else:
        lacking = [f"{type(target).__name__} without {name}" for name in _MEMBERS if not hasattr(target, name)]
    if lacking:
        allowed = "an object with name, kind, runs_user_code, identity() and outputs(fitted, x)"
        raise InputError("target", allowed, lacking[0], "wrap an estimator in miaudit.models.targets.SklearnTarget")

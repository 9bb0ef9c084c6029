"""Several models in the place of one: an average, or a stack with a model on top (Salem et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import Float32Array, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.models.outputs import checked_outputs
from miaudit.models.protocol import Kind, Target, Trainable, can_be_trained
from miaudit.models.targets import SklearnTarget

_LEAST = 2
Count = Annotated[int, Option(ge=_LEAST, allowed="a whole number from 2 up", next_step="one model is no ensemble")]


class OnBase:
    """A target that is another one, its base, trained otherwise; the outputs are of the same kind."""

    base: Trainable

    @property
    def kind(self) -> Kind:
        """As the base."""
        return self.base.kind

    @property
    def runs_user_code(self) -> bool:
        """As the base."""
        return self.base.runs_user_code


@dataclass(frozen=True, eq=False)
class Ensemble(OnBase):
    """The mean of the probabilities of several models.

    Parameters
    ----------
    base : what is trained several times
    models : 2 or more
    parts : "same": all learn all records, and differ by their seeds; "disjoint": each learns a part of its own, so that
        a record moves one of them only

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    >>> target = Ensemble(SklearnTarget(GaussianNB()), models=3, parts="disjoint")
    >>> target.outputs(target.fit(x, y, np.arange(60), seed=0), x).shape
    (60, 2)
    """

    base: Trainable
    models: Count = 5
    parts: Annotated[Literal["same", "disjoint"], Option(next_step="same is the default")] = "same"

    def __post_init__(self) -> None:
        _check(self.base)
        check_options(self)

    @property
    def name(self) -> str:
        """The base's name, and how many."""
        return f"{self.models} x {self.base.name}"

    def identity(self) -> str:
        """The base's, how many, and what each learns."""
        return f"ensemble {self.models} {self.parts} {self.base.identity()}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> list[Any]:
        """Train all."""
        seeds, rng = _streams(seed, self.models)
        learned = [rows] * self.models if self.parts == "same" else _parted(rows, self.models, rng)
        return [self.base.fit(x, y, part, seed=own) for part, own in zip(learned, seeds, strict=True)]

    def outputs(self, fitted: list[Any], x: Any) -> Float32Array:
        """Logarithm of the mean probability (n, C)."""
        logs = [special.log_softmax(self.base.outputs(one, x).astype(np.float64), axis=1) for one in fitted]
        return checked_outputs(special.logsumexp(logs, axis=0) - np.log(len(logs)), len(x), self.name)


@dataclass(frozen=True, eq=False)
class Stack(OnBase):
    """Models on disjoint parts of the records, and a logistic regression on their outputs, learned from another part.

    Parameters
    ----------
    base : what is trained on each part
    models : 2 or more; each learns 1 / (models + 1) of the records, as the model on top does

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    >>> target = Stack(SklearnTarget(GaussianNB()), models=2)
    >>> target.outputs(target.fit(x, y, np.arange(60), seed=0), x).shape
    (60, 2)
    """

    base: Trainable
    models: Count = 2

    def __post_init__(self) -> None:
        _check(self.base)
        check_options(self)

    @property
    def name(self) -> str:
        """The base's name, and how many are stacked."""
        return f"stack of {self.models} x {self.base.name}"

    def identity(self) -> str:
        """The base's, how many, and the model on top."""
        return f"stack {self.models} {_top().identity()} {self.base.identity()}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> tuple[list[Any], Any]:
        """Train the models, then the one on top on records that they did not learn."""
        seeds, rng = _streams(seed, self.models)
        *learned, top = _parted(rows, self.models + 1, rng)
        models = [self.base.fit(x, y, part, seed=own) for part, own in zip(learned, seeds, strict=True)]
        return models, _top().fit(self._features(models, x), y, top, seed=seeds[0])

    def outputs(self, fitted: tuple[list[Any], Any], x: Any) -> Float32Array:
        """Log-probabilities (n, C) of the model on top."""
        models, top = fitted
        return _top().outputs(top, self._features(models, x))

    def _features(self, models: list[Any], x: Any) -> FloatArray:
        parts = [special.softmax(self.base.outputs(one, x).astype(np.float64), axis=1) for one in models]
        return np.concatenate(parts, axis=1)


def _top() -> SklearnTarget:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - scikit-learn takes a second to load

    return SklearnTarget(LogisticRegression(max_iter=1000))


def _check(base: Any) -> None:
    if not can_be_trained(base) or base.kind != "logits":
        received = base.name if isinstance(base, Target) else type(base).__name__
        raise InputError("base", "a classifier that can be trained", received, "name an estimator or a factory")


def _streams(seed: int, models: int) -> tuple[list[int], np.random.Generator]:
    own, *children = np.random.SeedSequence(seed).spawn(models + 1)
    return [int(child.generate_state(1)[0]) for child in children], np.random.default_rng(own)


def _parted(rows: IndexArray, parts: int, rng: np.random.Generator) -> list[IndexArray]:
    if len(rows) < _LEAST * parts:
        raise InputError("models", f"fewer models than half of {len(rows)} records", str(parts), "take fewer")
    return [np.sort(part) for part in np.array_split(rng.permutation(rows), parts)]

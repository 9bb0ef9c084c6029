"""What leaves a model: its outputs as they are, rounded, cut to the largest, or the label alone.

A defence turns probabilities (..., K) into what is disclosed. One that learns something first, a temperature or a
threshold, learns it from held-out records; what it learned belongs to one model, so an attacker's shadow models pass
through the same defence with numbers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options

__all__ = [
    "AsItIs",
    "Defence",
    "Disclosed",
    "Fitted",
    "LabelOnly",
    "Measure",
    "Rounding",
    "Stateless",
    "TopK",
    "TrueLabel",
]

# What an attacker sees: all probabilities; that of one label it names; a set of labels; a label.
Kind = Literal["confidence-vector", "true-label", "decision-set", "label"]
# Whether and when a defence draws: never, once for each record, or with each query.
Randomness = Literal["none", "fixed", "redrawn"]
_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Disclosed:
    """What leaves the model.

    Attributes
    ----------
    kind : "confidence-vector", "true-label", "decision-set" or "label"
    values : array (..., K)
        Probabilities, also where an attacker sees only that of the label it names ("true-label"); true and false for
        sets and labels (a single true).
    """

    kind: Kind
    values: NDArray[Any]


class Fitted(Protocol):
    """A defence that is ready for one model."""

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:
        """Turn probabilities (..., K) into what one query of each record discloses."""
        ...


class Defence(Protocol):
    """A measure on outputs."""

    @property
    def words(self) -> str:
        """What a page calls it."""
        ...

    @property
    def kind(self) -> Kind:
        """What it discloses."""
        ...

    @property
    def keeps_label(self) -> bool:
        """Whether the most probable label stays what it is, by construction."""
        ...

    @property
    def randomness(self) -> Randomness:
        """Whether and when it draws: "none", "fixed" (once for each record) or "redrawn" (with each query)."""
        ...

    def fit(
        self,
        probabilities: FloatArray,
        labels: IndexArray,
        *,
        learnt: FloatArray | None = None,
        rng: np.random.Generator,
    ) -> Fitted:
        """Learn from outputs (c, K) on held-out records with labels (c,); ``learnt`` (a, K) are those on members."""
        ...


class Measure:
    """A defence that learns at most from outputs on held-out records."""

    keeps_label: bool = False
    randomness: Randomness = "none"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(
        self,
        probabilities: FloatArray,
        labels: IndexArray,
        *,
        learnt: FloatArray | None = None,  # noqa: ARG002 - one signature for all defences
        rng: np.random.Generator,
    ) -> Any:
        """Learn from outputs (c, K) on held-out records with labels (c,)."""
        return self.learned(probabilities, labels, rng)

    def learned(self, probabilities: FloatArray, labels: IndexArray, rng: np.random.Generator) -> Any:  # noqa: ARG002
        """Return what is ready for one model: itself, where nothing is learned."""
        return self


class Stateless(Measure):
    """A defence that learns nothing."""

    keeps_label: bool = True


@dataclass(frozen=True)
class AsItIs(Stateless):
    """The whole confidence vector as the model gives it (Eq. 3): what the others are compared with."""

    kind: Kind = "confidence-vector"
    words: str = "confidence vector"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Return the probabilities."""
        return Disclosed(self.kind, checked(probabilities))


@dataclass(frozen=True)
class TrueLabel(Stateless):
    """Only the confidence in the label that the query names (Eq. 4)."""

    kind: Kind = "true-label"
    words: str = "confidence of the asked label"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Return the probabilities; an attacker may look at its label's only."""
        return Disclosed(self.kind, checked(probabilities))


@dataclass(frozen=True)
class Rounding(Stateless):
    """Probabilities rounded to some decimals; their sum may leave 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Rounding(1).apply(np.array([[0.87, 0.09, 0.04]]), rng=rng).values.tolist()
    [[0.9, 0.1, 0.0]]
    """

    digits: Annotated[int, Option(ge=0, le=15, allowed="a whole number from 0 to 15", next_step="1 keeps tenths")] = 1
    kind: Kind = "confidence-vector"
    keeps_label: bool = False

    @property
    def words(self) -> str:
        """What a page calls it."""
        return f"rounded to {self.digits} decimal{'' if self.digits == 1 else 's'}"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Round."""
        return Disclosed(self.kind, np.round(checked(probabilities), self.digits))


@dataclass(frozen=True)
class TopK(Stateless):
    """The k largest probabilities with their labels; the rest stands spread over the other labels, which adds nothing.

    Examples
    --------
    >>> TopK(1).apply(np.array([[0.7, 0.2, 0.1]]), rng=np.random.default_rng(0)).values.round(2).tolist()
    [[0.7, 0.15, 0.15]]
    """

    k: Annotated[int, Option(ge=1, allowed="a whole number from 1 up", next_step="1 discloses the largest alone")] = 3
    kind: Kind = "confidence-vector"

    @property
    def words(self) -> str:
        """What a page calls it."""
        return "largest confidence" if self.k == 1 else f"{self.k} largest confidences"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Keep the k largest."""
        p = checked(probabilities)
        hidden = p.shape[-1] - self.k
        if hidden <= 0:
            return Disclosed(self.kind, p)
        places = np.argpartition(p, hidden, axis=-1)[..., :hidden]
        shown = p.copy()
        np.put_along_axis(shown, places, 0.0, axis=-1)
        rest = np.maximum(1 - shown.sum(axis=-1, keepdims=True), 0) / hidden
        np.put_along_axis(shown, places, np.broadcast_to(rest, places.shape), axis=-1)
        return Disclosed(self.kind, shown)


@dataclass(frozen=True)
class LabelOnly(Stateless):
    """The most probable label and nothing else.

    Examples
    --------
    >>> LabelOnly().apply(np.array([[0.7, 0.3]]), rng=np.random.default_rng(0)).values.tolist()
    [[True, False]]
    """

    kind: Kind = "label"
    words: str = "label only"

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Return the label."""
        return Disclosed(self.kind, one_hot(checked(probabilities)))


def one_hot(values: FloatArray) -> BoolArray:
    """Return where the largest of (..., K) is; the first of equals."""
    largest: BoolArray = np.arange(values.shape[-1]) == values.argmax(axis=-1)[..., None]
    return largest


def checked(probabilities: ArrayLike) -> FloatArray:
    """Return probabilities (..., K) as float64.

    Raises
    ------
    InputError
        For K = 1, and numbers that are no probabilities.

    Examples
    --------
    >>> checked([[0.5, 0.6]])
    Traceback (most recent call last):
    miaudit.errors.InputError: probabilities: expected rows that add up to 1, received 1.1; apply softmax to logits
    """
    p = np.asarray(probabilities)
    if p.dtype.kind not in "iuf" or p.ndim < 1:
        raise InputError("probabilities", "numbers (..., K)", f"{p.dtype} of shape {p.shape}", "pass a row a record")
    if p.shape[-1] < 2:
        hint = "a model with one class is always certain and discloses nothing"
        raise InputError("probabilities", "two classes or more", f"K = {p.shape[-1]}", hint)
    p = p.astype(np.float64)
    total = p.sum(axis=-1)
    if not (p >= 0).all() or not (np.abs(total - 1) <= _ROUNDING).all():
        bad = total[~(np.abs(total - 1) <= _ROUNDING)]
        received = f"{float(bad.flat[0]):.4g}" if bad.size else "a negative number"
        raise InputError("probabilities", "rows that add up to 1", received, "apply softmax to logits")
    return p

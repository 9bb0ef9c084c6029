"""Canaries: records made for an audit, of which a coin for each decides whether it joins the training.

All other records are in every training and are not audited, so a model loses as few of them as the audit needs. Each
kind is a frozen record; :func:`added` makes canaries of a kind and puts them behind the records.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from miaudit.collect import canary_makers
from miaudit.collect.canary_table import beside, described
from miaudit.collect.records import Records
from miaudit.errors import InputError, Option, check_options
from miaudit.io import frames
from miaudit.models.protocol import Trainable

__all__ = [
    "KINDS",
    "Blank",
    "Hard",
    "Kind",
    "Mislabelled",
    "Noise",
    "OutOfDistribution",
    "RandomTokens",
    "added",
    "beside",
    "fitting",
]

Law = Literal["uniform", "gaussian"]
Count = Annotated[int, Option("How many canaries.", "1,000 is usual, and two the least", ge=2)]


@dataclass(frozen=True)
class _Counted:
    count: Count

    def __post_init__(self) -> None:
        check_options(self, "canaries.")


@dataclass(frozen=True)
class Mislabelled(_Counted):
    """Records of the data, drawn at random, each with another label drawn uniformly; they take the records' place."""


@dataclass(frozen=True)
class _Image(_Counted):
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(isinstance(d, bool) or not isinstance(d, int) or d < 1 for d in self.shape) or len(self.shape) == 1:
            hint = "[8, 8] says that 64 columns are an image"
            raise InputError("canaries.shape", "two whole numbers or more", str(list(self.shape)), hint)


@dataclass(frozen=True)
class Blank(_Image):
    """Images of one colour each, no two of the same, with labels drawn uniformly.

    ``shape`` says that the columns of a two-dimensional array are the pixels of images of this shape.
    """


@dataclass(frozen=True)
class Noise(_Image):
    """Images of independent pixels, uniform in the range of the data or Gaussian as the data, labels drawn uniformly.

    ``shape`` is that of :class:`Blank`.
    """

    law: Annotated[Law, Option("Of the pixels: uniform in the data's range, or gaussian with its mean.")] = "uniform"


@dataclass(frozen=True)
class OutOfDistribution(_Counted):
    """Rows of a table whose columns have nothing to do with each other, in the tails of each; labels drawn uniformly.

    A number lies in the outer twentieth of its column on either side, or as far beyond (but below 0 only where the
    column does); of categories, texts, dates and
    columns of few whole numbers the rare values are drawn as often as the frequent ones.
    """


@dataclass(frozen=True)
class Hard(_Counted):
    """Of mislabelled records those that a reference model finds hardest, by its loss.

    The reference learns from records that are no candidates. ``pool`` times as many candidates are drawn, but at most
    half of the records.
    """

    pool: Annotated[int, Option("How many times as many are drawn, of which the hardest are kept.", ge=2)] = 4


@dataclass(frozen=True)
class RandomTokens(_Counted):
    """Texts of words, or rows of token numbers, drawn uniformly from those of the data; as long as its records."""


Kind = Mislabelled | Blank | Noise | OutOfDistribution | Hard | RandomTokens
KINDS: Mapping[str, type[Kind]] = {
    "mislabelled": Mislabelled,
    "blank": Blank,
    "noise": Noise,
    "out-of-distribution": OutOfDistribution,
    "hard": Hard,
    "random-tokens": RandomTokens,
}
_WORDS: Mapping[type[Kind], str] = {
    Mislabelled: "mislabelled: records drawn at random, each with another label",
    Blank: "blank: images of one colour each, with random labels",
    Noise: "noise: images of random pixels, with random labels",
    OutOfDistribution: "out-of-distribution: independent columns from the tails, with random labels",
    Hard: "hard: of mislabelled records those that a reference model finds hardest",
    RandomTokens: "random-tokens: drawn uniformly from those of the data",
}


def added(
    records: Records, kind: Kind, *, rng: np.random.Generator, reference: Trainable | None = None, seed: int = 0
) -> Records:
    """Make canaries and return all records that are left with them behind; nothing is trained but a reference.

    No two canaries are alike, and none is a record already. A record that a canary differs from by its label only
    leaves the records: a model would learn both.

    Parameters
    ----------
    records : with neither memberships nor canaries
    kind : what they are, and how many
    rng : generator of the canaries; memberships are drawn from another
    reference : what :class:`Hard` trains; without it a logistic regression, for arrays of numbers
    seed : of that training

    Returns
    -------
    Records, of which ``canary`` says which are the canaries: the last ``kind.count``

    Raises
    ------
    InputError
        For a kind that does not fit the records, with those that do, and more canaries than can be made of them.

    Examples
    --------
    >>> data = Records(np.random.default_rng(1).normal(size=(50, 3)), np.arange(50) % 2, None, {}, "noise")
    >>> with_canaries = added(data, Mislabelled(10), rng=np.random.default_rng(0))
    >>> with_canaries.n, int(with_canaries.canary.sum()), with_canaries.canary[-10:].all()
    (50, 10, np.True_)
    """
    if records.canary is not None:
        raise InputError("canaries", "none, beside data.canary", "both", "leave one of them out")
    _require_columns(records)
    fits = fitting(records, shape=getattr(kind, "shape", ()))
    name = next(name for name, one in KINDS.items() if isinstance(kind, one))
    if name not in fits:
        what = described(records)
        hint = "for rows that are images add shape: [8, 8]" if name in ("blank", "noise") and _rows(records) else ""
        hint = hint or "choose one of these"
        raise InputError("canaries.kind", f"{' or '.join(fits) or 'none'}, for {what}", name, hint)
    return beside(records, _made(records, kind, rng, reference, seed), _WORDS[type(kind)])


def _made(records: Records, kind: Kind, rng: np.random.Generator, reference: Trainable | None, seed: int) -> Records:
    if isinstance(kind, Hard):
        return canary_makers.hardest(records, kind.count, kind.pool, rng, reference, seed)
    if isinstance(kind, Mislabelled):
        return canary_makers.mislabelled(records, kind.count, rng)
    if isinstance(kind, Blank):
        make: Any = functools.partial(canary_makers.blank, shape=kind.shape)
    elif isinstance(kind, Noise):
        make = functools.partial(canary_makers.noise, law=kind.law)
    else:
        make = canary_makers.tails if isinstance(kind, OutOfDistribution) else canary_makers.tokens
    return canary_makers.invented(records, kind.count, make, rng)


def fitting(records: Records, *, shape: tuple[int, ...] = ()) -> list[str]:
    """Return the kinds that fit records, by name; ``shape`` is that of images whose pixels are columns.

    Examples
    --------
    >>> fitting(Records(np.zeros((5, 3)), np.arange(5), None, {}, "zeros"))
    ['mislabelled', 'hard', 'out-of-distribution']
    >>> fitting(Records(["one", "two words"], None, None, {}, "texts"))
    ['random-tokens']
    """
    x, labelled = records.x, records.y is not None
    found = ["mislabelled", "hard"] if labelled else []
    if isinstance(x, list):
        return [*(found[:1]), "random-tokens"]
    if frames.is_frame(x):
        return [*found, "out-of-distribution"]
    values = np.asarray(x)
    if values.ndim > 2 or shape:
        if shape and (values.ndim != 2 or int(np.prod(shape)) != values.shape[1]):
            allowed = f"none, for records of shape {values.shape[1:]}"
            if values.ndim == 2:
                allowed = f"a shape of {values.shape[1]} pixels"
            raise InputError("canaries.shape", allowed, str(list(shape)), "height, width, and channels if any")
        return [*found, "blank", "noise"]
    tokens = ["random-tokens"] if values.dtype.kind in "iu" else []
    return [*found, "out-of-distribution", *tokens]


# -- what can be made of which records ---------------------------------------------------------------------------------


def _require_columns(records: Records) -> None:
    """Refuse records that are known by their row numbers only."""
    x = records.x
    if isinstance(x, np.ndarray) and x.ndim == 1:
        received = "row numbers" if np.array_equal(x, np.arange(len(x))) else f"one number for each of {len(x):,}"
        raise InputError("data.x", "what goes into the model, to make canaries of", received, "name its columns")


def _rows(records: Records) -> bool:
    return isinstance(records.x, np.ndarray) and records.x.ndim == 2

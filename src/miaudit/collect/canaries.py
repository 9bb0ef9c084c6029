"""Canaries: records made for an audit, of which a coin for each decides whether it joins the training.

All other records are in every training and are not audited, so a model loses as few of them as the audit needs. Each
kind is a frozen record of its options, which says which records it fits and makes the canaries; :func:`added` puts
them behind the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.collect import canary_makers, canary_texts
from miaudit.collect.canary_table import behind, beside, described
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.io import frames
from miaudit.models.protocol import Trainable

__all__ = [
    "KINDS",
    "Blank",
    "CanaryKind",
    "ChangedFact",
    "Hard",
    "HeldOut",
    "Insertion",
    "Mislabelled",
    "Noise",
    "OutOfDistribution",
    "RandomTokens",
    "RareTokens",
    "ReferenceModel",
    "added",
    "beside",
    "fitting",
]

Law = Literal["uniform", "gaussian"]
Form = Literal["texts", "table", "images", "numbers", "tokens"]  # what the records are
Canaries = tuple[Records, IntArray]  # canaries, and the rows of the records whose place they take
_NONE = np.empty(0, dtype=np.int64)
Count = Annotated[int, Option("How many canaries.", "1,000 is usual, and two the least", ge=2)]


@dataclass(frozen=True)
class CanaryKind:
    """What canaries are and how many there are; a kind is a class derived from it, and its line in :data:`KINDS`.

    Attributes
    ----------
    WORDS : what they are, in words for the findings
    FITS : what the records may be
    NEEDS_LABELS : whether the records have to be labelled
    IN_PLACE : whether rows of the records leave for them, which the canaries alone do not show
    count : how many
    """

    WORDS: ClassVar[str]
    FITS: ClassVar[frozenset[Form]]
    NEEDS_LABELS: ClassVar[bool] = False
    IN_PLACE: ClassVar[bool] = False
    count: Count

    def __post_init__(self) -> None:
        check_options(self, "canaries.")

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:
        """Make the canaries.

        Parameters
        ----------
        records : which the canaries join
        rng : draws them
        reference : a model to train, where the kind asks one which records are hard

        Returns
        -------
        tuple of Records and an array of rows
            The canaries; rows of the records that leave, where the contents of the canaries do not show which.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ReferenceModel:
    """A reference model that a kind of canary may train; None is a logistic regression, for arrays of numbers."""

    target: Trainable | None = None
    seed: int = 0


@dataclass(frozen=True)
class _Invented(CanaryKind):
    """Records that no data set holds, with labels drawn uniformly: a kind says how to draw contents."""

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return ``count`` new contents like those of ``x``."""
        raise NotImplementedError

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:  # noqa: ARG002
        """Draw until no two are alike."""
        return canary_makers.invented(records, self.count, self.draw, rng), _NONE


@dataclass(frozen=True)
class Mislabelled(CanaryKind):
    """Records of the data, drawn at random, each with another label drawn uniformly; they take the records' place."""

    WORDS = "mislabelled: records drawn at random, each with another label"
    FITS = frozenset({"texts", "table", "images", "numbers", "tokens"})
    NEEDS_LABELS = True

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:  # noqa: ARG002
        """Change labels."""
        return canary_makers.mislabelled(records, self.count, rng), _NONE


@dataclass(frozen=True)
class _Image(_Invented):
    FITS = frozenset({"images"})
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

    WORDS = "blank: images of one colour each, with random labels"

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return images of one colour each."""
        return canary_makers.blank(x, count, rng, shape=self.shape)


@dataclass(frozen=True)
class Noise(_Image):
    """Images of independent pixels, uniform in the range of the data or Gaussian as the data, labels drawn uniformly.

    ``shape`` is that of :class:`Blank`.
    """

    WORDS = "noise: images of random pixels, with random labels"
    law: Annotated[Law, Option("Of the pixels: uniform in the data's range, or gaussian with its mean.")] = "uniform"

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return images of random pixels."""
        return canary_makers.noise(x, count, rng, law=self.law)


@dataclass(frozen=True)
class OutOfDistribution(_Invented):
    """Rows of a table whose columns have nothing to do with each other, in the tails of each; labels drawn uniformly.

    A number lies in the outer twentieth of its column on either side, or as far beyond (but below 0 only where the
    column does); of categories, texts, dates and columns of few whole numbers the rare values are drawn as often as the
    frequent ones.
    """

    WORDS = "out-of-distribution: independent columns from the tails, with random labels"
    FITS = frozenset({"table", "numbers", "tokens"})

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return rows from the tails."""
        return canary_makers.tails(x, count, rng)


@dataclass(frozen=True)
class Hard(CanaryKind):
    """Of mislabelled records those that a reference model finds hardest, by its loss.

    The reference learns from records that are no candidates. ``pool`` times as many candidates are drawn, but at most
    half of the records.
    """

    WORDS = "hard: of mislabelled records those that a reference model finds hardest"
    FITS = frozenset({"table", "images", "numbers", "tokens"})
    NEEDS_LABELS = True
    pool: Annotated[int, Option("How many times as many are drawn, of which the hardest are kept.", ge=2)] = 4

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:
        """Train the reference, and choose by its loss."""
        return canary_makers.hardest(records, self.count, self.pool, rng, reference.target, reference.seed), _NONE


@dataclass(frozen=True)
class RandomTokens(_Invented):
    """Texts of words, or rows of token numbers, drawn uniformly from those of the data; as long as its records."""

    WORDS = "random-tokens: drawn uniformly from those of the data"
    FITS = frozenset({"texts", "tokens"})

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return tokens drawn uniformly."""
        return canary_makers.tokens(x, count, rng)


_FRAME = "The secret code of my account is {}."


@dataclass(frozen=True)
class RareTokens(_Invented):
    """Texts that say a frame, with words in the place of ``{}`` that are rare in the data (after Carlini et al. 2019).

    The frame is common to all canaries, so that what a model learns of one is its rare words, as of a secret in a slot.
    """

    WORDS = "rare-tokens: rare words of the data in a frame"
    FITS = frozenset({"texts"})
    words: Annotated[int, Option("Rare words in each text.", ge=1, next_step="6 is the default")] = 6
    frame: str = _FRAME

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.frame, str) or self.frame.count("{}") != 1:
            received = repr(self.frame)[:60]
            raise InputError("canaries.frame", "a text with {} once, where the words go", received, _FRAME)

    def draw(self, x: Any, count: int, rng: np.random.Generator) -> Any:
        """Return the frame with rare words."""
        return canary_texts.rare_words(x, count, rng, words=self.words, frame=self.frame)


@dataclass(frozen=True)
class ChangedFact(CanaryKind):
    """Documents of the data, drawn at random, each with one fact changed; they take the documents' place.

    A fact is a date, a number, a capitalised name or a rare word, and is changed for another of its form from other
    documents, wherever it stands.
    """

    WORDS = "changed-fact: documents drawn at random, each with one fact changed"
    IN_PLACE = True
    FITS = frozenset({"texts"})

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:  # noqa: ARG002
        """Change one fact of each document."""
        return canary_texts.changed_facts(records, self.count, rng)


@dataclass(frozen=True)
class HeldOut(CanaryKind):
    """Documents of the data as they are, drawn at random; with units, all documents of units drawn at random.

    The only kind that speaks of natural records: of those that do not nearly stand in the data twice. About half of
    them are left out of the training.
    """

    WORDS = "held-out: documents of the data as they are, drawn at random"
    IN_PLACE = True
    FITS = frozenset({"texts"})

    def make(self, records: Records, rng: np.random.Generator, reference: ReferenceModel) -> Canaries:  # noqa: ARG002
        """Take documents as they are."""
        return canary_texts.held_out(records, self.count, rng)


@dataclass(frozen=True)
class Insertion:
    """How canaries stand in the training that a coin lets them into.

    Attributes
    ----------
    times : how often a canary stands there; several numbers are shared out evenly, at random
        All copies have one coin.
    per_unit : documents of each canary unit (a user), all of one coin; None for canaries that are no units

    Examples
    --------
    >>> Insertion(times=(1, 4, 16, 64)).words, Insertion().words
    ('1, 4, 16 or 64 times', '')
    """

    times: tuple[int, ...] = (1,)
    per_unit: int | None = None

    def __post_init__(self) -> None:
        whole = [isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= _MOST for one in self.times]
        if not whole or not all(whole):
            received = str(list(self.times))
            raise InputError(
                "canaries.times", f"whole numbers from 1 to {_MOST:,}", received, "[1, 4, 16, 64] is usual"
            )
        one = self.per_unit
        if one is not None and (isinstance(one, bool) or not isinstance(one, int) or one < 1):
            raise InputError("canaries.per_unit", "a whole number from 1", repr(one), "5 documents of each unit, say")

    @property
    def words(self) -> str:
        """How often canaries stand in the training, in words; empty for once."""
        *some, last = self.times
        begin = f"{', '.join(map(str, some))} or " if some else ""
        return "" if self.times == (1,) else f"{begin}{last} times"


_MOST = 10_000

KINDS: Mapping[str, type[CanaryKind]] = {
    "mislabelled": Mislabelled,
    "hard": Hard,
    "blank": Blank,
    "noise": Noise,
    "out-of-distribution": OutOfDistribution,
    "random-tokens": RandomTokens,
    "rare-tokens": RareTokens,
    "changed-fact": ChangedFact,
    "held-out": HeldOut,
}


def added(
    records: Records,
    kind: CanaryKind,
    *,
    rng: np.random.Generator,
    reference: Trainable | None = None,
    seed: int = 0,
    insertion: Insertion = Insertion(),
) -> Records:
    """Make canaries and return all records that are left with them behind; nothing is trained but a reference.

    No two canaries are alike, and none is a record already; no text nearly stands in one. A record that a canary
    differs from by its label only, or by the fact that was changed, leaves the records: a model would learn both.

    Parameters
    ----------
    records : with neither memberships nor canaries
    kind : what they are, and how many
    rng : generator of the canaries; memberships are drawn from another
    reference : what :class:`Hard` trains; without it a logistic regression, for arrays of numbers
    seed : of that training
    insertion : how often canaries stand in a training, and how many documents a canary unit has
        ``kind.count`` is then the number of units, and so it is of :class:`HeldOut` for records with units.

    Returns
    -------
    Records, of which ``canary`` says which are the canaries: the last ``kind.count``, or the documents of so many units

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
    if isinstance(kind, HeldOut) and insertion.per_unit is not None:
        hint = "leave it out: units of the data are drawn with all of their documents"
        raise InputError("canaries.per_unit", "none for kind held-out", str(insertion.per_unit), hint)
    kind = replace(kind, count=kind.count * (insertion.per_unit or 1))
    canaries, left = kind.make(records, rng, ReferenceModel(reference, seed))
    if len(left):
        records = canary_texts.taken_from(records, np.setdiff1d(np.arange(records.n), left))
    canaries = _inserted(canaries, records, insertion, rng.spawn(1)[0])
    repeated = f", each {insertion.words} in a training" if insertion.words else ""
    return behind(records, canaries, kind.WORDS + repeated)


def _inserted(made: Records, records: Records, insertion: Insertion, rng: np.random.Generator) -> Records:
    """Return canaries with the units and numbers of times that are asked for; units belong to no record."""
    fields = dict(made.fields)
    code = np.arange(made.n)
    if insertion.per_unit is not None:
        code = code // insertion.per_unit
        fields["unit"] = _names(code, records.fields.get("unit"))
    elif "unit" in fields:
        code = np.unique(np.asarray(fields["unit"]), return_inverse=True)[1]
    if insertion.times == (1,):
        return replace(made, fields=fields)
    shared = rng.permutation(np.arange(int(code.max()) + 1) % len(insertion.times))
    times = np.array(insertion.times)[shared][code]
    return replace(made, fields=fields, times=times if made.times is None else times * made.times)


def _names(code: IntArray, there: Any) -> NDArray[Any]:
    """Names of canary units (n,) that no unit of the records has: numbers beside numbers, else texts."""
    units = np.empty(0, dtype=np.str_) if there is None else np.asarray(there)
    if units.dtype.kind in "iu":
        return code + int(units.max()) + 1
    begin, taken = "canary-", set(units.astype(np.str_).tolist())
    while any(name.startswith(begin) for name in taken):
        begin = f"{begin}0-"
    width = len(str(code.max()))
    return np.array([f"{begin}{one:0{width}d}" for one in code.tolist()])


def fitting(records: Records, *, shape: tuple[int, ...] = ()) -> list[str]:
    """Return the kinds that fit records, by name; ``shape`` is that of images whose pixels are columns.

    Examples
    --------
    >>> fitting(Records(np.zeros((5, 3)), np.arange(5), None, {}, "zeros"))
    ['mislabelled', 'hard', 'out-of-distribution']
    >>> fitting(Records(["one", "two words"], None, None, {}, "texts"))
    ['random-tokens', 'rare-tokens', 'changed-fact', 'held-out']
    """
    form, labelled = form_of(records, shape), records.y is not None
    return [name for name, kind in KINDS.items() if form in kind.FITS and (labelled or not kind.NEEDS_LABELS)]


def form_of(records: Records, shape: tuple[int, ...] = ()) -> Form:
    """Return what records are, for the kinds of canaries; ``shape`` is that of images whose pixels are columns."""
    x = records.x
    if isinstance(x, list):
        return "texts"
    if frames.is_frame(x):
        return "table"
    values = np.asarray(x)
    if shape and (values.ndim != 2 or int(np.prod(shape)) != values.shape[1]):
        allowed = f"none, for records of shape {values.shape[1:]}"
        if values.ndim == 2:
            allowed = f"a shape of {values.shape[1]} pixels"
        raise InputError("canaries.shape", allowed, str(list(shape)), "height, width, and channels if any")
    if values.ndim > 2 or shape:
        return "images"
    return "tokens" if values.dtype.kind in "iu" else "numbers"


# -- what can be made of which records ---------------------------------------------------------------------------------


def _require_columns(records: Records) -> None:
    """Refuse records that are known by their row numbers only."""
    x = records.x
    if isinstance(x, np.ndarray) and x.ndim == 1:
        received = "row numbers" if np.array_equal(x, np.arange(len(x))) else f"one number for each of {len(x):,}"
        raise InputError("data.x", "what goes into the model, to make canaries of", received, "name its columns")


def _rows(records: Records) -> bool:
    return isinstance(records.x, np.ndarray) and records.x.ndim == 2

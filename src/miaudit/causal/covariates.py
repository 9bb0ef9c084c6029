"""How covariates become numbers: one record for each kind, always fitted on training rows and applied to others."""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError
from miaudit.evidence import Evidence

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Numbers:
    """Each column less its mean, over its standard deviation."""


@dataclass(frozen=True)
class Categories:
    """One column of zeros and ones for each level of the named columns; the other columns as in :class:`Numbers`.

    A level that the training rows do not have becomes zeros.

    Attributes
    ----------
    columns : positions of the integer-coded columns
    """

    columns: tuple[int, ...]


@dataclass(frozen=True)
class Images:
    """Principal components of pixels, which share one unit and are therefore centred but not scaled."""

    components: int = 50


@dataclass(frozen=True)
class Reduced:
    """Principal components of standardised columns (descriptors such as SURF histograms)."""

    components: int


@dataclass(frozen=True)
class Text:
    """TF-IDF of words, then a truncated SVD; the covariates of the evidence, where it has any, stand beside it.

    Attributes
    ----------
    components : columns that the SVD keeps
    words : how many words in a row may make a term
    """

    components: int = 100
    words: int = 1


@dataclass(frozen=True)
class Custom:
    """A function of the caller, from covariates (n, d) to features (n, p), row by row; then as in :class:`Numbers`."""

    function: Callable[[FloatArray], ArrayLike]


Encoding = Numbers | Categories | Images | Reduced | Text | Custom


@dataclass(frozen=True, eq=False)
class Table:
    """The covariates that a propensity is learned from, less the columns that are constant.

    Attributes
    ----------
    numbers : array (n, d) or None
    text : array (n,) of str or None
    columns : position in the evidence of each column of ``numbers``
    names : their names
    dropped : names of the constant columns, which say nothing of membership
    """

    numbers: FloatArray | None
    text: NDArray[np.str_] | None
    columns: tuple[int, ...]
    names: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of rows."""
        values = self.text if self.numbers is None else self.numbers
        return 0 if values is None else len(values)

    def take(self, rows: NDArray[Any]) -> Table:
        """Return some rows, given as indices or as a mask (n,)."""
        numbers = None if self.numbers is None else self.numbers[rows]
        text = None if self.text is None else self.text[rows]
        return Table(numbers, text, self.columns, self.names, self.dropped)


@dataclass(frozen=True, eq=False)
class Encoder:
    """An encoding fitted on rows: ``transform`` gives features (n, p) of any rows of the same columns."""

    encoding: Encoding
    text: Any
    numbers: Any

    def transform(self, table: Table) -> FloatArray:
        """Return the features (n, p) of a table."""
        parts = []
        if self.text is not None:
            parts.append(self.text.transform(table.text))
        if self.numbers is not None:
            parts.append(self.numbers.transform(table.numbers))
        return np.ascontiguousarray(np.hstack(parts), dtype=np.float64)


def table_of(evidence: Evidence, encoding: Encoding, text: ArrayLike | None = None) -> Table:
    """Collect what an encoding reads from evidence, name the constant columns and leave them out.

    Parameters
    ----------
    evidence : with covariates (n, d), unless the encoding is of text
    encoding : one of the records of this module
    text : array (n,) of str, for :class:`Text` only

    Raises
    ------
    InputError
        Without covariates or text, with columns that do not exist, or if every column is constant.

    Examples
    --------
    >>> evidence = Evidence(score=[1, 2, 3], member=[True, False, True], covariates=[[1, 5], [2, 5], [4, 5]])
    >>> table = table_of(evidence, Numbers())
    >>> table.columns, table.dropped
    ((0,), ('column 1',))
    """
    check(encoding)
    words = _text_of(encoding, text, evidence.n)
    x = evidence.covariates
    if x is None and words is None:
        raise InputError(
            "evidence.covariates",
            "what is known of each record apart from the model, (n, d), for causal.propensity.fit",
            "none",
            "pass covariates= to Evidence, or Propensity.given(values) if the propensities are known",
        )
    if x is None:
        return Table(None, words, (), (), ())
    names = evidence.covariate_names or tuple(f"column {i}" for i in range(x.shape[1]))
    _check_columns(encoding, x)
    varies = x.min(axis=0) != x.max(axis=0)
    dropped = tuple(name for name, kept in zip(names, varies, strict=True) if not kept)
    if not varies.any() and words is None:
        raise InputError(
            "evidence.covariates", "a column that varies", f"{len(names)} constant", "add covariates that vary"
        )
    columns = tuple(int(i) for i in np.flatnonzero(varies))
    kept_names = tuple(names[i] for i in columns)
    return Table(x[:, varies] if columns else None, words, columns, kept_names, dropped)


def like(evidence: Evidence, text: ArrayLike | None, encoding: Encoding, model: Table) -> Table:
    """Collect from other evidence the columns that ``model`` has, the same ones in the same order.

    Raises
    ------
    InputError
        If the two do not have the same covariates.
    """
    words = _text_of(encoding, text, evidence.n)
    x = evidence.covariates
    width = 0 if x is None else x.shape[1]
    expected = len(model.columns) + len(model.dropped)
    if width != expected:
        raise InputError("train", "the covariates of the evidence", f"{expected} columns for {width}", "use the same")
    numbers = None if x is None or not model.columns else x[:, list(model.columns)]
    return Table(numbers, words, model.columns, model.names, model.dropped)


def fit(encoding: Encoding, table: Table, *, seed: int) -> Encoder:
    """Fit an encoding on the rows of a table, and on no others.

    Parameters
    ----------
    seed : for the randomised decompositions of PCA and SVD

    Examples
    --------
    >>> x = [[0, 7.0], [2, 9.0], [1, 8.0], [2, 6.0]]
    >>> evidence = Evidence(score=[1, 2, 3, 4], member=[1, 0, 1, 0], covariates=x)
    >>> table = table_of(evidence, Categories((0,)))
    >>> fit(Categories((0,)), table, seed=0).transform(table)[:, :3].tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    reads_text = isinstance(encoding, Text)
    text = transformer(encoding, table, seed) if reads_text else None
    numbers = None
    if table.numbers is not None:
        numbers = transformer(Numbers() if reads_text else encoding, table, seed)
        numbers.fit(table.numbers)
    if text is not None:
        try:
            text.fit(table.text)
        except ValueError as error:  # scikit-learn: an empty vocabulary
            raise InputError("text", "texts with words in them", str(error), "check what the texts hold") from None
    return Encoder(encoding, text, numbers)


def transformer(encoding: Encoding, table: Table, seed: int) -> Any:
    """Return the scikit-learn transformer of an encoding, not yet fitted; an unknown encoding is refused."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    match encoding:
        case Numbers():
            return StandardScaler()
        case Categories(columns=columns):
            return _one_hot([table.columns.index(c) for c in columns if c in table.columns])
        case Images(components=components):
            return make_pipeline(_pca(components, table, seed), StandardScaler())
        case Reduced(components=components):
            return make_pipeline(StandardScaler(), _pca(components, table, seed), StandardScaler())
        case Text(components=components, words=words):
            return make_pipeline(*_terms(components, words, seed), StandardScaler())
        case Custom(function=function):
            return make_pipeline(FunctionTransformer(_Checked(function)), StandardScaler())
        case _:
            raise _unknown(encoding)


def check(encoding: object) -> None:
    """Refuse what is no encoding, and options outside their range, before anything is fitted."""
    match encoding:
        case Images(components=k) | Reduced(components=k) | Text(components=k):
            if k < 1:
                raise InputError("components", "a whole number from 1 up", repr(k), "ask for at least one component")
        case Numbers() | Categories():
            return
        case Custom(function=function):
            if not callable(function):
                raise InputError("function", "a function of covariates (n, d)", repr(function), "pass a function")
        case _:
            raise _unknown(encoding)


@dataclass(frozen=True)
class _Checked:
    """The caller's function, its result checked at the door."""

    function: Callable[[FloatArray], ArrayLike]

    def __call__(self, x: FloatArray) -> FloatArray:
        found = np.asarray(self.function(x), dtype=np.float64)
        found = found.reshape(-1, 1) if found.ndim == 1 else found
        if found.ndim != 2 or len(found) != len(x):
            raise InputError(
                "function", f"features of shape ({len(x)}, p)", f"shape {found.shape}", "one row per record"
            )
        if not np.isfinite(found).all():
            raise InputError("function", "finite features", "NaN or infinity", "decide what missing values become")
        return found


class _Terms:
    """TF-IDF followed by as many SVD components as the vocabulary allows, as one scikit-learn step."""

    def __init__(self, components: int, words: int, seed: int) -> None:
        self._components, self._words, self._seed = components, words, seed

    def fit(self, text: NDArray[np.str_], _: None = None) -> _Terms:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._tfidf = TfidfVectorizer(ngram_range=(1, self._words), sublinear_tf=True)
        matrix = self._tfidf.fit_transform(text)
        rank = min(self._components, matrix.shape[1] - 1, matrix.shape[0] - 1)
        self._svd = TruncatedSVD(rank, random_state=self._seed).fit(matrix) if rank >= 1 else None
        return self

    def transform(self, text: NDArray[np.str_]) -> FloatArray:
        matrix = self._tfidf.transform(text)
        found = matrix.toarray() if self._svd is None else self._svd.transform(matrix)
        return np.asarray(found, dtype=np.float64)


def _terms(components: int, words: int, seed: int) -> tuple[_Terms]:
    return (_Terms(components, words, seed),)


def _pca(components: int, table: Table, seed: int) -> Any:
    from sklearn.decomposition import PCA

    return PCA(min(components, len(table.columns), max(table.n - 1, 1)), random_state=seed)


def _one_hot(columns: list[int]) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("levels", levels, columns)], remainder=StandardScaler(), sparse_threshold=0.0)


def _check_columns(encoding: Encoding, x: FloatArray) -> None:
    if not isinstance(encoding, Categories):
        return
    for column in encoding.columns:
        if not 0 <= column < x.shape[1]:
            raise InputError("columns", f"positions from 0 to {x.shape[1] - 1}", repr(column), "count columns from 0")
        if not np.array_equal(x[:, column], np.rint(x[:, column])):
            raise InputError("columns", "integer-coded columns", f"fractions in column {column}", "code the levels")


def _text_of(encoding: Encoding, text: ArrayLike | None, n: int) -> NDArray[np.str_] | None:
    if not isinstance(encoding, Text):
        if text is not None:
            raise InputError("text", "nothing unless the encoding is of text", "texts", "pass encoding=Text()")
        return None
    if text is None:
        raise InputError("text", "an array (n,) of str for encoding=Text()", "none", "pass text= beside the evidence")
    words = np.asarray(text)
    if words.dtype.kind == "O" and all(isinstance(word, str) for word in words.ravel()):
        words = words.astype(np.str_)
    if words.shape != (n,) or words.dtype.kind != "U":
        received = f"shape {words.shape} of {words.dtype}"
        raise InputError("text", f"{n} texts, one for each record", received, "pass one str for each record")
    return words


def _unknown(encoding: object) -> InputError:
    known = "Numbers, Categories, Images, Reduced, Text or Custom"
    return InputError("encoding", f"one of {known}", repr(encoding), "make one of these records")

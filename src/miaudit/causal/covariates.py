"""Encodings of covariates, and the rows that they are fitted on and applied to.

Each kind of encoding is one dataclass. Folds and resamples keep units whole. All records of a unit are either training
rows of a propensity or held out (:class:`Part`).
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = ["Categories", "Custom", "Encoding", "Images", "Numbers", "Reduced", "Text"]

_MOST_COMPONENTS = 100
_ROWS_PER_COMPONENT = 100  # more rows hardly ever improve a propensity (experiments/validity/propensity.md)


@dataclass(frozen=True)
class Numbers:
    """Standardised columns: minus the mean, divided by the standard deviation."""


@dataclass(frozen=True)
class Categories:
    """One column of zeros and ones for each level of the chosen columns.

    Other columns are encoded as in :class:`Numbers`. A level that does not occur in the training rows becomes zeros.

    Attributes
    ----------
    columns : positions of the integer-coded columns
    """

    columns: tuple[int, ...]


@dataclass(frozen=True)
class Images:
    """Principal components of pixels; pixels are centred but not scaled."""

    components: int = 50


@dataclass(frozen=True)
class Reduced:
    """Principal components of standardised columns, for descriptors such as SURF histograms."""

    components: int


@dataclass(frozen=True)
class Custom:
    """A function from covariates (n, d) to features (n, p), row by row; features are then standardised."""

    function: Callable[[FloatArray], ArrayLike]


@dataclass(frozen=True)
class Text:
    """TF-IDF of words and a truncated SVD, next to the other covariates if there are any.

    If a vocabulary has no more words than ``components``, all words are kept. Otherwise the SVD drops a part of the
    words' information. The weights do not correct for that part, and the balance does not measure it.

    Attributes
    ----------
    components : number of columns that the SVD keeps; None is one for each 100 training rows, at most 100
    words : largest number of consecutive words in a term
    beside : encoding of the covariates other than the text
    """

    components: int | None = None
    words: int = 1
    beside: Numbers | Categories | Images | Reduced | Custom = Numbers()


Encoding = Numbers | Categories | Images | Reduced | Custom | Text


@dataclass(frozen=True, eq=False)
class Table:
    """Covariates from which a propensity is learned, without constant columns.

    Attributes
    ----------
    numbers : array (n, d) or None
    text : array (n,) of str or None
    columns : position in the evidence of each column of ``numbers``
    names : names of these columns
    dropped : names of the constant columns, which carry no information about membership
    """

    numbers: FloatArray | None
    text: NDArray[Any] | None
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


def default_of(evidence: Evidence) -> Encoding:
    """Return the default encoding of evidence: :class:`Text` if it has texts, else :class:`Numbers`.

    Examples
    --------
    >>> default_of(Evidence(score=[1, 2], member=[1, 0], text=["red", "blue"]))
    Text(components=None, words=1, beside=Numbers())
    """
    return Numbers() if evidence.text is None else Text()


def table_of(evidence: Evidence, encoding: Encoding) -> Table:
    """Return the covariates that an encoding reads from evidence, without constant columns.

    Parameters
    ----------
    evidence : with covariates (n, d), or texts for :class:`Text`
    encoding : one of the encodings of this module; only :class:`Text` reads texts

    Raises
    ------
    InputError
        If there are no covariates or texts, if a column does not exist, or if all columns and texts are constant.

    Examples
    --------
    >>> evidence = Evidence(score=[1, 2, 3], member=[True, False, True], covariates=[[1, 5], [2, 5], [4, 5]])
    >>> table = table_of(evidence, Numbers())
    >>> table.columns, table.dropped
    ((0,), ('covariate 1',))
    """
    check(encoding)
    words = _text_of(encoding, evidence)
    x = evidence.covariates
    if x is None and words is None:
        raise InputError(
            "evidence.covariates",
            "what is known of each record apart from the model, (n, d), for causal.propensity.fit",
            "none",
            "pass covariates= or text= to Evidence, or Propensity.given(values) if the propensities are known",
        )
    alike = words is None or len(set(words)) < 2
    if x is None and alike:
        raise InputError("evidence.text", "texts with words that differ", "equal ones", "add covariates that vary")
    if x is None:
        return Table(None, words, (), (), ())
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    _check_columns(encoding, x)
    varies = x.min(axis=0) != x.max(axis=0)
    dropped = tuple(name for name, varying in zip(names, varies, strict=True) if not varying)
    if not varies.any() and alike:
        raise InputError(
            "evidence.covariates", "a column that varies", f"{len(names)} constant", "add covariates that vary"
        )
    columns = tuple(int(i) for i in np.flatnonzero(varies))
    kept_names = tuple(names[i] for i in columns)
    return Table(x[:, varies] if columns else None, words, columns, kept_names, dropped)


def like(evidence: Evidence, encoding: Encoding, model: Table) -> Table:
    """Return the columns of ``model`` from other evidence, in the same order.

    Raises
    ------
    InputError
        If the evidence and ``model`` do not have the same covariates.
    """
    words = _text_of(encoding, evidence)
    x = evidence.covariates
    width = 0 if x is None else x.shape[1]
    expected = len(model.columns) + len(model.dropped)
    if width != expected:
        raise InputError("train", "the covariates of the evidence", f"{expected} columns for {width}", "use the same")
    numbers = None if x is None or not model.columns else x[:, list(model.columns)]
    return Table(numbers, words, model.columns, model.names, model.dropped)


def fit(encoding: Encoding, table: Table, *, seed: int) -> Callable[[Table], FloatArray]:
    """Fit an encoding on a table, and return the function that encodes rows as features (n, p).

    The function accepts any table with the same columns.

    Parameters
    ----------
    seed : for the randomised decompositions of PCA and SVD

    Examples
    --------
    >>> x = [[0, 7.0], [2, 9.0], [1, 8.0], [2, 6.0]]
    >>> evidence = Evidence(score=[1, 2, 3, 4], member=[1, 0, 1, 0], covariates=x)
    >>> table = table_of(evidence, Categories((0,)))
    >>> fit(Categories((0,)), table, seed=0)(table)[:, :3].tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    text = _fitted(encoding, table, seed) if isinstance(encoding, Text) else None
    beside = encoding.beside if isinstance(encoding, Text) else encoding
    numbers = None if table.numbers is None else _fitted(beside, table, seed)

    def transform(rows: Table) -> FloatArray:
        parts = [] if text is None else [text.transform(rows.text)]
        parts += [] if numbers is None else [numbers.transform(rows.numbers)]
        return np.ascontiguousarray(np.hstack(parts), dtype=np.float64)

    return transform


def names_of(encoding: Encoding, table: Table, features: int) -> tuple[str, ...]:
    """Return the names of encoded features: of columns, of levels of columns, or numbered components."""
    match encoding:
        case Numbers():
            return table.names
        case Categories(columns=columns) if table.numbers is not None:
            coded = [table.columns.index(c) for c in columns if c in table.columns]
            levels = [f"{table.names[c]} = {level:g}" for c in coded for level in np.unique(table.numbers[:, c])]
            return (*levels, *(name for c, name in enumerate(table.names) if c not in coded))
    return tuple(f"component {i + 1}" for i in range(features))


def _fitted(encoding: Encoding, table: Table, seed: int) -> Any:
    """Return the scikit-learn transformer of an encoding, fitted to the texts or numbers of a table."""
    if not isinstance(encoding, Text):
        return transformer(encoding, table, seed).fit(table.numbers)
    try:
        return transformer(encoding, table, seed).fit(table.text)
    except ValueError as error:  # scikit-learn: an empty vocabulary
        raise InputError("text", "texts with words in them", str(error), "check what the texts hold") from None


def compared(evidence: Evidence, encoding: Encoding, *, seed: int) -> Evidence:
    """Return the evidence with the covariates as the propensity sees them, to measure their balance.

    Columns that are encoded one by one stay unchanged. Components or other features replace the columns or texts that
    they summarise. Nothing is fitted to membership.

    Parameters
    ----------
    seed : as in :func:`fit`

    Examples
    --------
    >>> evidence = Evidence(score=[1, 2, 3], member=[1, 0, 1], text=["red", "red rose", "rose"])
    >>> compared(evidence, Text(1), seed=0).covariate_names
    ('text component 1',)
    """
    beside = encoding.beside if isinstance(encoding, Text) else encoding
    condensed = isinstance(beside, Reduced | Images | Custom)
    if not (condensed or isinstance(encoding, Text)):
        return evidence
    table = table_of(evidence, encoding)
    parts, names = [], []
    if isinstance(encoding, Text):
        parts.append(_fitted(encoding, table, seed).transform(table.text))
        names += [f"text component {i + 1}" for i in range(parts[0].shape[1])]
    if table.numbers is not None and condensed:
        what = "feature" if isinstance(beside, Custom) else "component"
        parts.append(_fitted(beside, table, seed).transform(table.numbers))
        names += [f"{what} {i + 1}" for i in range(parts[-1].shape[1])]
    elif evidence.covariates is not None:
        parts.append(evidence.covariates)
        names += evidence.covariate_names or [f"covariate {i}" for i in range(evidence.covariates.shape[1])]
    return evidence.replace(covariates=np.hstack(parts), covariate_names=names)


def transformer(encoding: Encoding, table: Table, seed: int) -> Any:
    """Return the unfitted scikit-learn transformer of an encoding; refuse an unknown one."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    match encoding:
        case Numbers():
            return StandardScaler()
        case Categories(columns=columns):
            levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            coded = [("levels", levels, [table.columns.index(c) for c in columns if c in table.columns])]
            return ColumnTransformer(coded, remainder=StandardScaler(), sparse_threshold=0.0)
        case Images(components=components):
            return make_pipeline(_pca(components, table, seed), StandardScaler())
        case Reduced(components=components):
            return make_pipeline(StandardScaler(), _pca(components, table, seed), StandardScaler())
        case Text(components=components, words=words):
            most = max(1, min(_MOST_COMPONENTS, table.n // _ROWS_PER_COMPONENT))
            return make_pipeline(_Terms(most if components is None else components, words, seed), StandardScaler())
        case Custom(function=function):
            return make_pipeline(FunctionTransformer(partial(_checked, function)), StandardScaler())
        case _:
            raise _unknown(encoding)


def check(encoding: object) -> None:
    """Refuse an unknown encoding, or an option outside its range, before anything is fitted."""
    match encoding:
        case Images(components=k) | Reduced(components=k) | Text(components=k):
            if k is not None and k < 1:
                raise InputError("components", "a whole number from 1 up", repr(k), "ask for at least one component")
            if isinstance(encoding, Text):
                if isinstance(encoding.beside, Text):
                    raise InputError("beside", "an encoding of numbers", "Text", "one text stands in the evidence")
                check(encoding.beside)
        case Numbers() | Categories():
            return
        case Custom(function=function):
            if not callable(function):
                raise InputError("function", "a function of covariates (n, d)", repr(function), "pass a function")
        case _:
            raise _unknown(encoding)


def _checked(function: Callable[[FloatArray], ArrayLike], x: FloatArray) -> FloatArray:
    """Return the caller's features (n, p) of covariates (n, d); refuse wrong shapes or non-finite values."""
    features = np.asarray(function(x), dtype=np.float64)
    features = features.reshape(-1, 1) if features.ndim == 1 else features
    if features.ndim != 2 or len(features) != len(x):
        raise InputError(
            "function", f"features of shape ({len(x)}, p)", f"shape {features.shape}", "one row per record"
        )
    if not np.isfinite(features).all():
        raise InputError("function", "finite features", "NaN or infinity", "decide what missing values become")
    return features


class _Terms:
    """TF-IDF, followed by an SVD if there are more terms than components, as one scikit-learn step."""

    def __init__(self, components: int, words: int, seed: int) -> None:
        self._components, self._words, self._seed = components, words, seed

    def fit(self, text: NDArray[Any], _: None = None) -> _Terms:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._tfidf = TfidfVectorizer(ngram_range=(1, self._words), sublinear_tf=True)
        matrix = self._tfidf.fit_transform(text)
        rows, terms = matrix.shape
        rank = min(self._components, max(rows - 1, 1))
        self._svd = TruncatedSVD(rank, random_state=self._seed).fit(matrix) if terms > rank else None
        return self

    def transform(self, text: NDArray[Any]) -> FloatArray:
        matrix = self._tfidf.transform(text)
        features = matrix.toarray() if self._svd is None else self._svd.transform(matrix)
        return np.asarray(features, dtype=np.float64)


def _pca(components: int, table: Table, seed: int) -> Any:
    from sklearn.decomposition import PCA

    return PCA(min(components, len(table.columns), max(table.n - 1, 1)), random_state=seed)


def _check_columns(encoding: Encoding, x: FloatArray) -> None:
    chosen = encoding.beside if isinstance(encoding, Text) else encoding
    if not isinstance(chosen, Categories):
        return
    for column in chosen.columns:
        if not 0 <= column < x.shape[1]:
            raise InputError("columns", f"positions from 0 to {x.shape[1] - 1}", repr(column), "count columns from 0")
        if not np.array_equal(x[:, column], np.rint(x[:, column])):
            raise InputError("columns", "integer-coded columns", f"fractions in column {column}", "code the levels")


def _text_of(encoding: Encoding, evidence: Evidence) -> NDArray[Any] | None:
    if not isinstance(encoding, Text):
        return None
    if evidence.text is None:
        raise InputError("evidence.text", "a text of each record for encoding=Text()", "none", "pass text= to Evidence")
    return evidence.text


def _unknown(encoding: object) -> InputError:
    known = "Numbers, Categories, Images, Reduced, Text or Custom"
    return InputError("encoding", f"one of {known}", repr(encoding), "make one of these records")


# -- training rows and held-out rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """Training rows and the audited rows that the fit is applied to; always disjoint."""

    rows: BoolArray  # mask of the training rows in their source
    table: Table
    member: BoolArray
    code: IntArray
    held_out: BoolArray  # mask of the audited rows in the evidence
    apply: Table
    prior_shift: float  # log-odds of membership in the audited sample minus those in the training rows


def divide(
    evidence: Evidence, train: Evidence | None, encoding: Encoding, folds: int | ArrayLike, rng: np.random.Generator
) -> tuple[Table, list[Part], IntArray | None]:
    """Divide the evidence into folds, or take a separate training sample.

    Returns
    -------
    audited : covariates of the evidence
    parts : one for each fold, or a single one for a separate sample
    fold : array (n,), the fold in which each record is held out; None for a separate sample
    """
    prior = _log_odds(evidence.member)
    if train is None:
        table = table_of(evidence, encoding)
        code = codes(evidence)
        fold = folds_of(folds, evidence.member, code, rng)
        return table, [fold_part(table, evidence.member, code, fold != k, prior) for k in np.unique(fold)], fold
    table = table_of(train, encoding)
    audited = like(evidence, encoding, table)
    _refuse_audited_rows(evidence, audited, train, table)
    every, all_audited = np.ones(train.n, dtype=np.bool_), np.ones(evidence.n, dtype=np.bool_)
    shift = prior - _log_odds(train.member)
    return audited, [Part(every, table, train.member, codes(train), all_audited, audited, shift)], None


def fold_part(table: Table, member: BoolArray, code: IntArray, rows: BoolArray, prior: float) -> Part:
    """Return the part for one mask of training rows; ``prior`` is the log-odds of membership."""
    held_out = ~rows
    if np.intersect1d(code[rows], code[held_out]).size:
        raise InputError("folds", "folds that keep each unit whole", "a unit in two folds", "pass a number of folds")
    inside = member[rows]
    if not 0 < inside.sum() < len(inside):
        raise InputError("folds", "members and non-members beside each fold", "one of them only", "use fewer folds")
    shift = prior - _log_odds(inside)
    return Part(rows, table.take(rows), inside, code[rows], held_out, table.take(held_out), shift)


def codes(evidence: Evidence) -> IntArray:
    """Return the unit of each record as an integer (n,); without units, each record is its own unit."""
    code = evidence.unit_codes
    return np.arange(evidence.n) if code is None else code


def independent_share(member: BoolArray, code: IntArray) -> float:
    """Return the variance of the share of members if records were independent, over that between units, at most 1.

    Examples
    --------
    >>> independent_share(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))
    0.5
    """
    rest = member - member.mean()
    totals = np.bincount(code, weights=rest) if np.bincount(code).max() > 1 else rest
    return float(min(1.0, rest @ rest / max(float(totals @ totals), 1e-300)))


def _log_odds(member: BoolArray) -> float:
    inside = int(np.count_nonzero(member))
    return math.log(inside / (len(member) - inside))


def unit_kind(member: BoolArray, code: IntArray) -> IntArray:
    """Return the kind of each unit: 0 if it has only non-members, 1 if only members, 2 if both."""
    inside = np.bincount(code, weights=member)
    size = np.bincount(code)
    return np.where(inside == 0, 0, np.where(inside == size, 1, 2))


def folds_of(folds: int | ArrayLike, member: BoolArray, code: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the fold of each record (n,), from a number of folds or from the caller's folds."""
    numbers = np.asarray(folds)
    if numbers.ndim == 0:
        count = int(numbers)
        fewest = min(len(np.unique(code[member])), len(np.unique(code[~member])))
        if count < 2 or count != numbers:
            raise InputError("folds", "a whole number from 2 up", str(folds), "5 is the default")
        if fewest < 2 * count:
            raise InputError(
                "evidence",
                f"at least {2 * count} members and {2 * count} non-members (units) for {count} folds",
                f"{fewest}",
                "collect more records, or learn the propensity from a separate sample with train=",
            )
        return assign(member, code, count, rng)
    if numbers.shape != member.shape or numbers.dtype.kind not in "iu" or len(np.unique(numbers)) < 2:
        raise InputError(
            "folds", f"integers ({len(member)},), two folds or more", f"shape {numbers.shape}", "pass a number"
        )
    return numbers.astype(np.int64)


def assign(member: BoolArray, code: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Assign units to folds at random, separately for each kind of unit, larger units first."""
    kind, size = unit_kind(member, code), np.bincount(code)
    order = np.lexsort((rng.permutation(len(kind)), -size, kind))
    there_and_back = np.r_[np.arange(count), np.arange(count)[::-1]]
    fold = np.empty(len(kind), dtype=np.int64)
    fold[order] = there_and_back[np.arange(len(kind)) % (2 * count)]
    return rng.permutation(count)[fold][code]


def sampled(member: BoolArray, code: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Sample about ``most`` rows by whole units, and return them in ascending order.

    Units with members supply half of the rows. If units of one kind have too few rows, the other kind supplies more.

    Examples
    --------
    >>> rows = sampled(np.arange(1000) < 100, np.arange(1000) // 2, 300, np.random.default_rng(0))
    >>> len(rows), int((rows < 100).sum()), bool((rows[0::2] + 1 == rows[1::2]).all())
    (300, 100, True)
    """
    if len(member) <= most:
        return np.arange(len(member))
    inside, size = unit_kind(member, code) > 0, np.bincount(code)
    room = min(size[inside].sum(), max(most // 2, most - size[~inside].sum()))
    selected, order = np.zeros(len(size), dtype=np.bool_), rng.permutation(len(size))
    for units, limit in ((order[inside[order]], room), (order[~inside[order]], most - room)):
        selected[units] = np.cumsum(size[units]) - size[units] < limit
    return np.flatnonzero(selected[code])


def _refuse_audited_rows(evidence: Evidence, audited: Table, train: Evidence, table: Table) -> None:
    """Refuse a training sample that shares more rows with the audited sample than chance explains.

    If m rows are all different, a further row equals one of them with a probability of at most about 6 / m (95%).
    """
    if train is evidence or train.digest == evidence.digest:
        share = 1.0
        by_chance = 0.0
    else:
        seen, mine = _row_keys(table), _row_keys(audited)
        names, counts = np.unique(seen, return_counts=True)
        by_chance = float(counts[counts > 1].sum() / len(seen))
        share = float(np.isin(mine, names).mean())
    if share > by_chance + (0.1 if by_chance else min(0.1, max(0.01, 10 / train.n))):
        raise InputError(
            "train",
            "records other than the audited ones",
            f"a sample that holds {share:.0%} of the audited rows",
            "leave train out for cross-fitting, or pass a separate sample",
        )


def _row_keys(table: Table) -> NDArray[Any]:
    parts = []
    if table.numbers is not None:
        parts.append([row.tobytes() for row in np.ascontiguousarray(table.numbers + 0.0)])
    if table.text is not None:
        parts.append([word.encode() for word in table.text.tolist()])
    return np.array([hash(key) for key in zip(*parts, strict=True)])


def resample(
    evidence: Evidence, replicates: int, *, strata: ArrayLike | None = None, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Draw the count of each record in each resample, stratified by membership, with whole units.

    Parameters
    ----------
    evidence : the records to resample
    replicates : number of resamples
    strata : array (n,) of int, optional; further strata, such as folds, which then keep their sizes

    Returns
    -------
    counts, array (replicates, n)

    Examples
    --------
    >>> evidence = Evidence(score=range(5), member=[1, 1, 0, 0, 0])
    >>> resample(evidence, 3, rng=np.random.default_rng(0))[:, :2].sum(axis=1).tolist()
    [2, 2, 2]
    """
    code = codes(evidence)
    kind = unit_kind(evidence.member, code)
    if strata is not None:
        of_unit = np.zeros(len(kind), dtype=np.int64)
        of_unit[code] = np.asarray(strata)
        kind = kind + 3 * of_unit
    counts = np.empty((replicates, len(kind)), dtype=np.uint16)
    for label in np.unique(kind):
        units = np.flatnonzero(kind == label)
        for k in range(replicates):
            resampled = rng.integers(0, len(units), len(units), dtype=np.int32)
            counts[k, units] = np.bincount(resampled, minlength=len(units))
    return counts[:, code]

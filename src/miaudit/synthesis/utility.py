"""Utility: classifiers trained on synthetic and tested on held-out real records (causal-synthesis, 5.4).

Accuracy near a majority class rewards tables that have collapsed onto it, so balanced accuracy and AUC stand beside it,
with what always guessing the majority gives (erratum D10). Targets and the held-out test records are fixed before any
synthetic table is seen, and the same for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError, nearest
from miaudit.metrics.classical import Estimate, student_limits
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.schema import Table

__all__ = ["Benchmark", "Row", "Scores", "compare_generators", "compare_with_real"]

Metric = Literal["accuracy", "balanced_accuracy", "auc"]

METRICS: tuple[Metric, ...] = ("accuracy", "balanced_accuracy", "auc")
CLASSIFIERS = ("kernel", "svc", "logistic", "forest", "knn")
_FEWEST_TEST, _FEWEST_TRAIN = 10, 5


def classifier(name: str, *, seed: int) -> Any:
    """Return one of the five classifiers of the paper, unfitted: linear SVC ("kernel"), RBF SVC, logistic, forest, kNN.

    Examples
    --------
    >>> classifier("knn", seed=0).n_neighbors
    5
    """
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 - scikit-learn loads when used
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415
    from sklearn.svm import SVC, LinearSVC  # noqa: PLC0415

    match name:
        case "kernel":
            return LinearSVC(random_state=seed, max_iter=5000)
        case "svc":
            return SVC(random_state=seed)
        case "logistic":
            return LogisticRegression(max_iter=1000)
        case "forest":
            return RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=1)
        case "knn":
            return KNeighborsClassifier(n_neighbors=5, algorithm="brute")
    hint = nearest(name, CLASSIFIERS) or "choose one of these"
    raise InputError("classifier", ", ".join(CLASSIFIERS), repr(name), hint)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores on the held-out records of classifiers trained on one table.

    Attributes
    ----------
    value : array (targets, classifiers, metrics), each in [0, 1], higher is better
    influence : array (targets, classifiers, metrics, n), what each held-out record contributes: zero on average, and
        the variance of a value is the mean square over n
    constant : array (targets, classifiers) of bool, predictors that name one class for all records
    """

    value: FloatArray
    influence: FloatArray
    constant: BoolArray


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Targets, classifiers and held-out records, fixed before any synthetic table is read.

    Attributes
    ----------
    train : real records, for the comparison
    test : real records that neither generators nor classifiers have seen
    targets : names of the attributes that are predicted, each from all others
    classifiers : names, of :data:`CLASSIFIERS`
    cuts : for each target that is a number, the median of the real training records above which it is 1; else None
    most_rows : most records that a classifier is trained on, drawn at random; None for all
    seed : of classifiers and of those rows, the same for every table
    """

    train: Table
    test: Table
    targets: tuple[str, ...]
    classifiers: tuple[str, ...]
    cuts: tuple[float | None, ...]
    most_rows: int | None
    seed: int

    @classmethod
    def of(
        cls,
        train: Table,
        test: Table,
        *,
        targets: int | Sequence[str] = 20,
        classifiers: Sequence[str] = CLASSIFIERS,
        most_rows: int | None = None,
        rng: np.random.Generator,
    ) -> Benchmark:
        """Choose the targets: by name, or some at random among those usable in both tables.

        An attribute qualifies if at least two of its classes have 10 records or more in ``test`` and 5 or more in
        ``train``. With fewer such attributes than wanted, all of them are taken.

        Raises
        ------
        InputError
            For tables with different schemas, or of one column, unknown names, or no attribute that qualifies.
        """
        if train.schema != test.schema:
            raise InputError("test", "the schema of the training table", "another one", "read both with one schema")
        if len(train.schema) < 2:
            hint = "give a table of several columns: each target is predicted from the others"
            raise InputError("targets", "an attribute and others to predict it from", "one column", hint)
        for name in classifiers:
            classifier(name, seed=0)
        cut_of = {name: _cut(train, name) for name in train.schema.names}
        fit = [name for name in train.schema.names if _qualifies(train, test, name, cut_of[name])]
        if isinstance(targets, int):
            order = rng.permutation(len(fit))[:targets]
            chosen = tuple(fit[i] for i in np.sort(order))
        else:
            chosen = tuple(targets)
            unfit = next((name for name in chosen if train.schema.position(name) is not None and name not in fit), None)
            if unfit is not None:
                allowed = f"attributes with two classes of {_FEWEST_TEST} test and {_FEWEST_TRAIN} training records"
                raise InputError("targets", allowed, unfit, "leave it out, or give more records")
        if not chosen:
            raise InputError("targets", "an attribute with two classes that occur", "none", "give more records")
        seed = int(rng.integers(2**31))
        return cls(train, test, chosen, tuple(classifiers), tuple(cut_of[name] for name in chosen), most_rows, seed)

    def score(self, table: Table | None = None) -> Scores:
        """Train every classifier for every target on a table (default: the real one) and test it.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> rng = np.random.default_rng(0)
        >>> schema = Schema((Column("a"), Column("b"), Column("c")))
        >>> def draw(n):
        ...     a = rng.random(n) < 0.5
        ...     return Table(schema, np.c_[a, np.where(rng.random(n) < 0.9, a, ~a), rng.random(n) < 0.5])
        >>> benchmark = Benchmark.of(draw(500), draw(500), targets=["b"], classifiers=["logistic"], rng=rng)
        >>> benchmark.score().value.round(2).tolist()  # accuracy, balanced accuracy, AUC
        [[[0.9, 0.9, 0.9]]]
        """
        table = self.train if table is None else table
        if table.schema != self.test.schema:
            raise InputError("table", "the schema of the held-out records", "another one", "read all with one schema")
        shape = (len(self.targets), len(self.classifiers), len(METRICS))
        value, influence = np.empty(shape), np.zeros((*shape, len(self.test)))
        constant = np.zeros(shape[:2], dtype=np.bool_)
        for t, (target, cut) in enumerate(zip(self.targets, self.cuts, strict=True)):
            truth = _classes(self.test.column(target), cut)
            known = truth >= 0
            features = [j for j in range(len(table.schema)) if j != table.schema.position(target)]
            for c, output in enumerate(self._outputs(table, target, cut, features)):
                measured, contributions = _measured(output, truth[known], known)
                value[t, c], influence[t, c][:, known] = measured, contributions
                constant[t, c] = output.constant
        return Scores(value, influence, constant)

    def _outputs(self, table: Table, target: str, cut: float | None, features: list[int]) -> list[_Output]:
        rng = np.random.default_rng(self.seed)
        classes = _classes(table.column(target), cut)
        rows = np.flatnonzero(classes >= 0)
        if self.most_rows is not None and len(rows) > self.most_rows:
            rows = np.sort(rng.permutation(rows)[: self.most_rows])
        truth = _classes(self.test.column(target), cut)
        tested = self.test.values[truth >= 0]
        labels = np.unique(classes[rows])
        if len(labels) < 2:
            only = int(labels[0]) if len(labels) else 0
            return [_Output.same(only, len(tested)) for _ in self.classifiers]
        encoding = Features.of(table, features)
        x, queries = encoding.transform(table.values[rows]), encoding.transform(tested)
        return [
            _Output.of(classifier(name, seed=self.seed).fit(x, classes[rows]), queries) for name in self.classifiers
        ]

    def majority(self) -> Mapping[Metric, Estimate]:
        """Return the scores of always predicting the most frequent real class, averaged over targets."""
        values = []
        for target, cut in zip(self.targets, self.cuts, strict=True):
            classes, truth = (_classes(table.column(target), cut) for table in (self.train, self.test))
            most = int(np.bincount(classes[classes >= 0]).argmax())
            truth = truth[truth >= 0]
            values.append((float((truth == most).mean()), 1 / len(np.unique(truth)), 0.5))
        means = np.mean(values, axis=0)
        return {metric: Estimate(float(means[m]), math.nan, math.nan, 0.95) for m, metric in enumerate(METRICS)}


# -- intervals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One metric of one classifier, averaged over the targets.

    Attributes
    ----------
    classifier : its name, or "mean" over all of them
    metric : of :data:`METRICS`
    real, synthetic : trained on real and on synthetic records
    change : ``real`` - ``synthetic``: above 0 the synthetic table is worse (the sign of the paper's Table 2)
    constant : share of the synthetic cells whose predictor names one class for all records
    """

    classifier: str
    metric: Metric
    real: Estimate
    synthetic: Estimate
    change: Estimate
    constant: float


def compare_with_real(
    benchmark: Benchmark, real: Scores, synthetic: Sequence[Scores], *, confidence: float = 0.95
) -> tuple[Row, ...]:
    """Summarise scores of one or several tables of a generator against the real ones.

    Parameters
    ----------
    benchmark : whose scores they are
    real : ``benchmark.score()``
    synthetic : ``benchmark.score(table)`` of each table
    confidence : of the two-sided intervals

    Returns
    -------
    tuple of Row, for each classifier and then for their mean, each metric

    Notes
    -----
    Targets and classifiers are fixed. An interval covers the choice of the held-out records (by the influence of each
    on the difference, so that records shared by all cells are paired) and, with several tables, what training the
    generator again changes. With one table it does not cover the latter, and the note says so. The real training
    records are taken as given.
    """
    if not synthetic:
        raise InputError("synthetic", "the scores of at least one table", "none", "score a table first")
    rows = []
    for c in (*range(len(benchmark.classifiers)), None):
        name = "mean" if c is None else benchmark.classifiers[c]
        for m, metric in enumerate(METRICS):
            one = _Cell.of(real, c, m)
            many = [_Cell.of(scores, c, m) for scores in synthetic]
            constant = np.mean([scores.constant if c is None else scores.constant[:, c] for scores in synthetic])
            rows.append(
                Row(
                    name,
                    metric,
                    one.estimate(confidence),
                    _several(many, confidence),
                    _several([one.less(cell) for cell in many], confidence),
                    float(constant),
                )
            )
    return tuple(rows)


def compare_generators(
    first: Sequence[Scores], second: Sequence[Scores], *, confidence: float = 0.95
) -> Mapping[Metric, Estimate]:
    """Return the mean difference in scores between two generators' tables, with intervals.

    Parameters
    ----------
    first, second : scores of the tables of each generator, on one benchmark
    confidence : of the two-sided intervals

    Returns
    -------
    mapping of metric to Estimate; above 0 the first is more useful
    """
    if not first or not second:
        raise InputError("first and second", "the scores of at least one table each", "none", "score a table first")
    by_name: dict[Metric, Estimate] = {}
    for m, metric in enumerate(METRICS):
        left, right = ([_Cell.of(scores, None, m) for scores in group] for group in (first, second))
        joint = _Cell.mean(left).less(_Cell.mean(right))
        between = [_between(group) for group in (left, right)]
        by_name[metric] = _interval(joint, between, confidence)
    return by_name


@dataclass(frozen=True, eq=False)
class _Cell:
    """An average over targets and classifiers, with each held-out record's contribution (n,)."""

    value: float
    influence: FloatArray

    @classmethod
    def of(cls, scores: Scores, c: int | None, m: int) -> _Cell:
        chosen: Any = slice(None) if c is None else slice(c, c + 1)
        influence = scores.influence[:, chosen, m]
        return cls(float(scores.value[:, chosen, m].mean()), influence.mean(axis=(0, 1)))

    @classmethod
    def mean(cls, cells: Sequence[_Cell]) -> _Cell:
        return cls(float(np.mean([cell.value for cell in cells])), np.mean([cell.influence for cell in cells], axis=0))

    def less(self, other: _Cell) -> _Cell:
        return _Cell(self.value - other.value, self.influence - other.influence)

    def estimate(self, confidence: float) -> Estimate:
        return _interval(self, [], confidence)


def _several(cells: Sequence[_Cell], confidence: float) -> Estimate:
    return _interval(_Cell.mean(cells), [_between(cells)], confidence)


def _between(cells: Sequence[_Cell]) -> tuple[float, int]:
    """Return the variance between tables of the mean of several, and its degrees of freedom."""
    count = len(cells)
    if count < 2:
        return 0.0, 0
    return float(np.var([cell.value for cell in cells], ddof=1)) / count, count - 1


def _interval(cell: _Cell, between: Sequence[tuple[float, int]], confidence: float) -> Estimate:
    """Return Student's t limits with Satterthwaite's degrees of freedom."""
    n = len(cell.influence)
    parts = [(float(cell.influence @ cell.influence) / n**2, n - 1), *between]
    variance = sum(part for part, _ in parts)
    below = sum(part**2 / freedom for part, freedom in parts if freedom)
    freedom = variance**2 / below if below > 0 else float(n - 1)
    alone = any(not freedom for _, freedom in between)
    note = "one table: not covered is what training the generator again would change" if alone else ""
    limits = student_limits(cell.value, math.sqrt(variance), freedom, confidence)
    return Estimate(cell.value, *limits, confidence, note)


# -- one classifier on the held-out records ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Output:
    """A classifier's output on held-out records: a class (n,) and a score (n, k) of each class."""

    predicted: IntArray
    score: FloatArray
    labels: IntArray

    @classmethod
    def of(cls, model: Any, queries: FloatArray) -> _Output:
        labels = np.asarray(model.classes_, dtype=np.int64)
        if hasattr(model, "decision_function"):
            score = np.asarray(model.decision_function(queries), dtype=np.float64)
        else:
            score = np.asarray(model.predict_proba(queries), dtype=np.float64)
        if score.ndim == 1:
            score = np.stack([-score, score], axis=1)
        return cls(np.asarray(model.predict(queries), dtype=np.int64), score, labels)

    @classmethod
    def same(cls, label: int, n: int) -> _Output:
        return cls(np.full(n, label), np.zeros((n, 1)), np.array([label]))

    @property
    def constant(self) -> bool:
        """Whether it predicts one class for every record (scores may still rank them)."""
        return bool((self.predicted == self.predicted[0]).all())

    def of_class(self, label: int) -> FloatArray:
        """Return the scores (n,) of one class; constant for a class absent in training."""
        place = np.flatnonzero(self.labels == label)
        return self.score[:, place[0]] if len(place) else np.zeros(len(self.score))


def _measured(output: _Output, truth: IntArray, known: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return metrics (3,) and the influence (3, n) of each held-out record with a known class."""
    right = (output.predicted == truth).astype(np.float64)
    n = len(truth)
    labels = np.unique(truth)
    balanced, of_balanced = 0.0, np.zeros(n)
    for label in labels:
        inside = truth == label
        recall = float(right[inside].mean())
        balanced += recall / len(labels)
        of_balanced[inside] = (right[inside] - recall) * n / (np.count_nonzero(inside) * len(labels))
    sides = labels[1:] if len(labels) == 2 else labels  # two classes share one curve
    parts = [auc_with_influence(output.of_class(int(label)), truth == label) for label in sides]
    auc = float(np.mean([value for value, _ in parts]))
    of_auc = np.mean([part for _, part in parts], axis=0)
    accuracy = float(right.mean())
    influence = np.stack([right - accuracy, of_balanced, of_auc]) * len(known) / n
    return np.array([accuracy, balanced, auc]), influence


def auc_with_influence(score: FloatArray, positive: BoolArray) -> tuple[float, FloatArray]:
    """Return the AUC and each record's influence on it (n,) (DeLong et al. 1988).

    Examples
    --------
    >>> value, influence = auc_with_influence(np.array([0.0, 1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    >>> value, influence.tolist()
    (0.875, [0.25, -0.25, -0.25, 0.25])
    """
    n, n1 = len(score), int(np.count_nonzero(positive))
    below = placement(score[positive], score[~positive])
    above = 1 - placement(score[~positive], score[positive])
    auc = float(below.mean())
    influence = np.empty(n)
    influence[positive] = (below - auc) * n / n1
    influence[~positive] = (above - auc) * n / (n - n1)
    return auc, influence


def placement(score: FloatArray, others: FloatArray) -> FloatArray:
    """Return the share of the others below each score; ties count one half."""
    ordered = np.sort(others)
    below, upto = np.searchsorted(ordered, score, "left"), np.searchsorted(ordered, score, "right")
    return np.asarray((below + upto) / (2 * len(ordered)))


# -- classes ----------------------------------------------------------------------------------------------------------


def _cut(train: Table, name: str) -> float | None:
    if train.schema.column(name).kind != "continuous":
        return None
    values = train.column(name)
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0


def _classes(values: FloatArray, cut: float | None) -> IntArray:
    """Return classes (n,) of a target: categories or a cut of numbers; -1 where missing."""
    missing = np.isnan(values)
    classes = np.where(missing, 0.0, values)
    if cut is not None:
        classes = classes > cut
    return np.where(missing, -1, classes).astype(np.int64)


def _qualifies(train: Table, test: Table, name: str, cut: float | None) -> bool:
    counts = []
    for table in (train, test):
        classes = _classes(table.column(name), cut)
        counts.append(np.bincount(classes[classes >= 0], minlength=64))
    width = max(map(len, counts))
    inside, outside = (np.pad(count, (0, width - len(count))) for count in counts)
    return int(np.count_nonzero((inside >= _FEWEST_TRAIN) & (outside >= _FEWEST_TEST))) >= 2

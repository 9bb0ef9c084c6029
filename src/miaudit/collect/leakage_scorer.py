"""A scorer of scikit-learn: how much a model that was fitted in cross-validation gives away of its training folds."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.auditing.plan import Plan
from miaudit.collect.model_audit import LABEL_ONLY, audit_model
from miaudit.collect.outputs import Attack
from miaudit.errors import InputError
from miaudit.errors.options import check_choice
from miaudit.findings.audit import Findings
from miaudit.io import frames
from miaudit.metrics import definition
from miaudit.models.fitted import labels_of

__all__ = ["LeakageScorer", "Split", "leakage_scorer"]

_METRICS = ("auc", "advantage", "balanced_accuracy")
_TPR = "tpr_at_fpr_"


class Split(NamedTuple):
    """What a fold leaves to compare: records (X, y) that were trained on, those that were not, and what is neither.

    Attributes
    ----------
    members, nonmembers : pairs (X, y), as :func:`miaudit.audit_model` takes them
    left_out : rows of which equal ones are on both sides, so that it is unknown which they are
    """

    members: tuple[Any, Any]
    nonmembers: tuple[Any, Any]
    left_out: int


@dataclass(frozen=True, eq=False)
class LeakageScorer:
    """What :func:`leakage_scorer` returns: a function of a fitted estimator, X and y of a test fold."""

    x: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    metric: str
    signal: str
    plan: Plan = field(repr=False)
    chance: float = field(repr=False)

    def __call__(self, estimator: Any, x_test: Any, y_test: Any) -> float:
        """Return chance less the metric: 0 where nothing leaks, lower where more does.

        Parameters
        ----------
        estimator : fitted on the rows of (X, y) that are not in the fold
        x_test, y_test : of the fold
        """
        fold = self.split(x_test, y_test)
        if fold.left_out:
            message = "%d rows left out: equal ones are in the test fold and among the training rows"
            logging.getLogger("miaudit").warning(message, fold.left_out)
        sides: dict[str, Any] = {"members": fold.members, "nonmembers": fold.nonmembers}
        metric = audit_model(estimator, **sides, attack=self.signal, plan=self.plan, rng=0).metric(self.metric)
        if metric.value is None:
            raise InputError("metric", "one that so small a fold resolves", metric.note, "use auc, or fewer folds")
        return self.chance - metric.value

    def audit(
        self, estimator: Any, x_test: Any, y_test: Any, *, plan: Plan | None = None, design: str | None = None
    ) -> Findings:
        """Audit one fitted model on its fold, with intervals and a verdict by the limits that every audit has.

        Parameters
        ----------
        estimator, x_test, y_test : as of a call
        plan : miaudit.Plan, optional; its limits, by default the default limits
        design : "one-run" where the folds were drawn at random, so that memberships are random; else no verdict
        """
        fold = self.split(x_test, y_test)
        sides: dict[str, Any] = {"members": fold.members, "nonmembers": fold.nonmembers}
        return audit_model(estimator, **sides, attack=self.signal, plan=plan, design=design, rng=0)

    def split(self, x_test: Any, y_test: Any) -> Split:
        """Tell members from non-members by their rows, label included: what is in the fold was not trained on.

        Raises
        ------
        InputError
            For a fold with rows that are not in (X, y), and where nothing is left on one side.
        """
        x = self._as(x_test)
        full, fold = self._numbered(x, x_test, labels_of(y_test, "y of the fold"))
        inside, there = np.bincount(fold, minlength=full.max() + 1)[full], np.bincount(full)
        both = (inside > 0) & (inside < there[full])
        sides = [np.flatnonzero(side & ~both) for side in (inside == 0, inside > 0)]
        if not all(map(len, sides)):
            received = f"none left of one, {both.sum():,} rows being in both"
            raise InputError("fold", "members and non-members", received, "give a fold of other rows than the rest")
        members, nonmembers = ((frames.taken(x, rows), self.y[rows]) for rows in sides)
        return Split(members, nonmembers, int(both.sum()))

    def _as(self, x_test: Any) -> Any:
        """Return X in the container of the fold, which the estimator knows: a frame, or an array of values."""
        if type(x_test) is type(self.x) or not (frames.is_frame(x_test) or frames.is_frame(self.x)):
            return self.x
        try:
            if not frames.is_frame(x_test):
                return self.x.to_numpy()
            if not frames.is_frame(self.x):
                return frames.like(np.asarray(self.x), x_test)
        except (ValueError, TypeError, AttributeError):
            pass
        received = f"{type(x_test).__name__}, and X is {type(self.x).__name__}"
        raise InputError("X of the fold", "rows of X", received, "give the scorer what cross_validate is given")

    def _numbered(self, x: Any, x_test: Any, y_test: NDArray[Any]) -> tuple[IntArray, IntArray]:
        """Numbers of all rows and of those of a fold, alike where the rows are."""
        columns = [_codes(x, x_test), _codes(self.y, y_test)]
        _, codes = np.unique(np.column_stack([np.concatenate(pair) for pair in columns]), axis=0, return_inverse=True)
        full, fold = np.split(codes.ravel().astype(np.int64), [len(self.y)])
        missing = int((~np.isin(fold, full)).sum())
        if missing:
            step = "give the scorer the X and y of cross_validate, as they are before any transformation"
            raise InputError("X of the fold", "rows of (X, y)", f"{missing} of {len(fold)} that are not", step)
        return full, fold

    def __deepcopy__(self, _memo: Any) -> LeakageScorer:
        """Return itself, which nothing changes: scikit-learn copies scorers with the search that they are in."""
        return self


def leakage_scorer(X: Any, y: Any, *, metric: str = "auc", signal: str = "loss") -> LeakageScorer:
    """Make a scorer that says, beside accuracy, how much each model gives away of the folds it was trained on.

    For ``cross_validate`` and ``GridSearchCV``: members are the rows of (X, y) that are not in the test fold,
    non-members those of the fold. It measures one fitted model by one attack, without an interval: a number to
    compare settings by, and no verdict. ``scorer.audit(estimator, X_test, y_test)`` judges one model by the limits of
    every audit. What a search has chosen by the score is audited again, on records that the search did not see.

    Parameters
    ----------
    X, y : what ``cross_validate`` is given: an array, a list or a data frame; labels (n,). No sparse matrix
    metric : "auc", "balanced_accuracy", "advantage" or "tpr_at_fpr_0.1" (at any rate)
        The AUC is about 0.5 where nothing leaks; the advantage, a largest difference, is above 0 by luck alone.
    signal : attack on the outputs, as ``attack`` of :func:`miaudit.audit_model`
        Classifiers need ``predict_proba`` or ``decision_function``, unless it is "label_only"; regressions have a loss.

    Returns
    -------
    LeakageScorer
        A function of (estimator, X_test, y_test): chance less the metric. **Higher is better**, 0 is no leakage shown.
        ``split`` gives the members and non-members of a fold, for :func:`miaudit.audit_model`.

    Raises
    ------
    InputError
        For another metric or signal, and for X and y that do not fit. Later, of a fold that is none of (X, y).

    Notes
    -----
    Of rows that are twice in (X, y), once in a fold and once out of it, it is unknown whether they were trained on:
    they are left out on both sides and counted (``split(...).left_out``, and a line of the log). Where a splitter
    trains on a part only of what is not in the fold (``ShuffleSplit(train_size=...)``), members that are none dilute
    the number. ``return_train_score`` has no meaning here.

    Examples
    --------
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    >>> scoring = {"accuracy": "accuracy", "privacy": leakage_scorer(X, y)}
    >>> scores = cross_validate(DecisionTreeClassifier(random_state=0), X, y, cv=3, scoring=scoring)
    >>> bool(scores["test_privacy"].mean() < -0.2)
    True
    """
    if type(X).__module__.startswith("scipy.sparse") or hasattr(X, "tocsr"):
        raise InputError("X", "an array, a list or a data frame", "a sparse matrix", "pass X.toarray()")
    labels = labels_of(y, "y")
    if not hasattr(X, "__len__") or len(X) != len(labels):
        received = f"{type(X).__name__} beside {len(labels)} labels"
        raise InputError("X", "a row for each label", received, "pass what cross_validate is given")
    if signal != LABEL_ONLY:
        Attack((signal,))  # refuses a name that is none
    measure = definition.of(metric)
    if metric.startswith(_TPR) and measure.fpr is None:
        raise InputError("metric", "tpr_at_fpr_ and a rate", repr(metric), "write tpr_at_fpr_0.1")
    if measure.fpr is None:
        check_choice("metric", metric, (*_METRICS, "tpr_at_fpr_0.1"))
    plan = Plan(bounds=None) if measure.fpr is None else Plan(bounds=None, fpr_targets=(measure.fpr,))
    records = X if frames.is_frame(X) or isinstance(X, list) else np.asarray(X)
    return LeakageScorer(records, labels, measure.name, signal, plan, measure.chance or 0.0)


def _codes(full: Any, fold: Any) -> tuple[IntArray, IntArray]:
    """Numbers (n,) and (m,) of the rows of two tables, equal where the rows are: to the last bit, NaN with NaN."""
    if frames.is_frame(full):
        keys = [_hashed(full), _hashed(fold)]
    else:
        first = np.asarray(full)
        second = np.asarray(fold)
        if first.shape[1:] != second.shape[1:]:
            received = f"rows of shape {second.shape[1:]}, not {first.shape[1:]}"
            raise InputError("X of the fold", "rows of X", received, "give the scorer what cross_validate is given")
        numbers = first.dtype.kind in "biuf" and second.dtype.kind in "biuf"
        keys = [_keys(part.astype(first.dtype) if numbers else part) for part in (first, second)]
    codes = np.unique(np.concatenate(keys), return_inverse=True)[1].ravel().astype(np.int64)
    return codes[: len(keys[0])], codes[len(keys[0]) :]


def _keys(rows: NDArray[Any]) -> NDArray[Any]:
    """One value (n,) for each row: its bytes, or its text where it is no row of numbers."""
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.kind not in "biuf":
        return np.array([repr(row) for row in flat.tolist()])
    plain = np.ascontiguousarray(flat + 0.0 if flat.dtype.kind == "f" else flat)  # 0 and -0 are equal
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()


def _hashed(frame: Any) -> NDArray[Any]:
    """Hash each row of a data frame of pandas or polars to 64 bits."""
    if hasattr(frame, "hash_rows"):
        return np.asarray(frame.hash_rows(seed=0).to_numpy())
    from pandas.util import hash_pandas_object

    return np.asarray(hash_pandas_object(frame, index=False))

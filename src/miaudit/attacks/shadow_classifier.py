"""Shadow classifier: membership learned on shadow models, applied to the target (Shokri et al. 2017).

One shadow model is enough, and its records need not be the target's: members and non-members are pooled, so that the
classifier knows classes and outputs, not records.
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray
from miaudit.attacks import signals
from miaudit.errors import InputError
from miaudit.errors.options import check_choice

__all__ = ["ShadowClassifier", "score"]

Classes = Literal["pooled", "per-class"]

_LEAST_PER_CLASS = 25  # members and non-members of a class, each, for a classifier of its own
# By name: a signal that is added later does not change this attack.
_FEATURES = ("loss", "logit_confidence", "margin", "entropy", "modified_entropy")
_LARGEST_PROBABILITIES = 3


@dataclass(frozen=True, eq=False)
class ShadowClassifier:
    """A classifier of membership, learned from shadow outputs.

    Attributes
    ----------
    pooled : the classifier over all classes, with ``decision_function`` or ``predict_proba``
    of_class : classifiers of single classes; empty unless asked for
    width : number of output columns
    without_own : classes with too few shadow records for the classifier of their own that was asked for; pooled serves
    """

    pooled: Any
    of_class: Mapping[int, Any]
    width: int
    without_own: tuple[int, ...]

    @classmethod
    def fit(
        cls,
        outputs: ArrayLike,
        labels: ArrayLike,
        member: ArrayLike,
        *,
        classes: Classes = "pooled",
        classifier: Any = None,
    ) -> ShadowClassifier:
        """Learn from shadow models' outputs.

        Parameters
        ----------
        outputs : array (m, classes) of logits; a record that k models were asked about has k rows
        labels : array (m,), 0 to classes - 1
        member : array (m,) of bool, whether the model that gave the row was trained on its record
        classes : "pooled", or "per-class" as in the paper, for classes with 25 members and 25 non-members
        classifier : scikit-learn classifier, cloned; by default logistic regression, whose log-odds have no ties

        Raises
        ------
        InputError
            For a single class of membership, and as :func:`miaudit.attacks.signals.member_scores`.
        """
        check_choice("classes", classes, get_args(Classes))
        x, y = features(outputs, labels), np.asarray(labels).astype(np.intp)
        inside = _membership(member, len(x))
        of_class, without = {}, []
        for label in np.unique(y) if classes == "per-class" else ():
            rows = y == label
            if min(inside[rows].sum(), (~inside[rows]).sum()) < _LEAST_PER_CLASS:
                without.append(int(label))
            else:
                of_class[int(label)] = fit_membership(x[rows], inside[rows], classifier)
        width = np.asarray(outputs).shape[1]
        return cls(fit_membership(x, inside, classifier), MappingProxyType(of_class), width, tuple(without))

    def score(self, outputs: ArrayLike, labels: ArrayLike) -> FloatArray:
        """Return the log-odds of membership (n,) from the target's logits (n, classes) and labels (n,)."""
        x, y = features(outputs, labels), np.asarray(labels).astype(np.intp)
        width = np.asarray(outputs).shape[1]
        if width != self.width:
            allowed = f"{self.width} columns, as the shadow outputs"
            raise InputError("outputs", allowed, f"{width}", "pass models of the same classes")
        result = log_odds(self.pooled, x)
        for label, model in self.of_class.items():
            rows = y == label
            if rows.any():
                result[rows] = log_odds(model, x[rows])
        return result


def score(
    outputs: ArrayLike,
    labels: ArrayLike,
    shadow_outputs: ArrayLike,
    shadow_labels: ArrayLike,
    shadow_member: ArrayLike,
    *,
    classes: Classes = "pooled",
    classifier: Any = None,
) -> FloatArray:
    """Learn membership on shadow outputs and return the log-odds of the target's records.

    Parameters
    ----------
    outputs, labels : arrays (n, classes) of logits and (n,) of the target model
    shadow_outputs, shadow_labels, shadow_member, classes, classifier : as in :meth:`ShadowClassifier.fit`

    Returns
    -------
    array (n,), any real; higher is more member-like

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member, labels = rng.random(800) < 0.5, rng.integers(0, 3, 800)
    >>> logits = rng.normal(size=(800, 3))
    >>> logits[np.arange(800), labels] += 1.0 + 3.0 * member
    >>> found = score(logits[:400], labels[:400], logits[400:], labels[400:], member[400:])
    >>> bool(found[member[:400]].mean() > found[~member[:400]].mean() + 1)
    True
    """
    fitted = ShadowClassifier.fit(shadow_outputs, shadow_labels, shadow_member, classes=classes, classifier=classifier)
    return fitted.score(outputs, labels)


def features(outputs: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Return features (n, up to 8) of logits (n, classes) that do not depend on which class it is.

    Examples
    --------
    >>> features([[2.0, 0.0]], [0]).shape
    (1, 7)
    """
    scores = signals.member_scores(labels=labels, logits=outputs, names=_FEATURES)
    z = np.asarray(outputs, dtype=np.float64)
    top = np.sort(z, axis=1)[:, ::-1][:, : min(_LARGEST_PROBABILITIES, z.shape[1])]
    centred = top - z.mean(axis=1, keepdims=True)  # softmax does not see a common shift
    return np.column_stack([*scores.values(), centred])


def fit_membership(x: FloatArray, member: BoolArray, classifier: Any = None) -> Any:
    """Fit a classifier of membership (m,) to features (m, d); default: standardised logistic regression."""
    if classifier is not None:
        from sklearn.base import clone

        return clone(classifier).fit(x, member)
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=2000)).fit(x, member)


def log_odds(model: Any, x: FloatArray) -> FloatArray:
    """Return the log-odds (n,) of membership by a fitted classifier."""
    if hasattr(model, "decision_function"):
        return np.array(model.decision_function(x), dtype=np.float64)
    p = np.clip(np.asarray(model.predict_proba(x), dtype=np.float64)[:, 1], 1e-12, 1 - 1e-12)
    return np.asarray(np.log(p) - np.log1p(-p))


def _membership(member: ArrayLike, n: int) -> BoolArray:
    inside = np.asarray(member)
    if inside.dtype.kind != "b" or inside.shape != (n,):
        raise InputError.of_array("shadow_member", f"True or False of shape ({n},)", inside, "pass one column")
    if inside.all() or not inside.any():
        hint = "ask the shadow model about both kinds of records"
        raise InputError("shadow_member", "members and non-members", "one class only", hint)
    return inside

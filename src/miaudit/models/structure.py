"""What a fitted scikit-learn model gives away by its form, without an attack: stored rows, small leaves, few records.

Source: the structural checks of SACRO-ML (https://github.com/AI-SDC/SACRO-ML). Fitted attributes are read as they lie
in the object: no code of the model runs, and nothing is unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.arrays import IntArray

__all__ = ["Structure"]

FEWEST = 5  # records in a leaf or cell
FREEDOM = 10  # degrees of freedom that are left: what SACRO-ML and ACRO ask of a regression
_ROWS = ("_fit_X", "X_fit_", "X_train_", "X_", "support_vectors_", "_raw_data")
_ROWS_OF = {"AffinityPropagation": "cluster_centers_", "DBSCAN": "components_", "Nystroem": "components_"}
_APART = "Structure of the model, which no verdict rests on: "


@dataclass(frozen=True, eq=False)
class Structure:
    """What the parts of a fitted model hold: steps of a pipeline, what a search found, the trees of an ensemble.

    Attributes
    ----------
    rows : of each class of parts that store rows of their training data, the most rows that one part stores
    leaves : array (L,), training records in each leaf of all trees; of bootstrapped ones, different records
    cells : array (C,), training records of each class with each value of a feature, as naive Bayes counts them; no 0
    parameters : of each class of linear models and networks, the most fitted numbers for each output of one part

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> model = KNeighborsClassifier().fit(np.arange(20.0)[:, None], np.arange(20) % 2)
    >>> Structure.of(model).rows
    {'KNeighborsClassifier': 20}
    """

    rows: dict[str, int]
    leaves: IntArray
    cells: IntArray
    parameters: dict[str, int]

    @classmethod
    def of(cls, model: Any) -> Structure:
        """Read the structure of a model; of what is not of scikit-learn's form (a network, a function), nothing."""
        rows: dict[str, int] = {}
        parameters: dict[str, int] = {}
        leaves, cells = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for part in _parts(model):
            name = type(part).__name__
            for counts, number in ((rows, _stored(part)), (parameters, _parameters(part))):
                if number:
                    counts[name] = max(number, counts.get(name, 0))
            leaves += _leaves(part)
            cells += _cells(part)
        return cls(rows, np.concatenate(leaves), np.concatenate(cells), parameters)

    def notes(self, members: int, *, fewest: int = FEWEST) -> tuple[str, ...]:
        """Return what stands out, in sentences; none where nothing does.

        Parameters
        ----------
        members : records that the model is known to be trained on
        fewest : records that a leaf or cell has to hold
        """
        notes = [
            f"its {name} stores {rows:,} rows of training data. Anyone who receives the model can read these rows."
            for name, rows in self.rows.items()
        ]
        kinds = (("leaves of its trees", self.leaves), ("cells (a class and a value of a feature)", self.cells))
        for called, records in kinds:
            small = int((records < fewest).sum())
            if small:
                notes.append(
                    f"{small:,} of {len(records):,} {called} hold fewer than {fewest} training records; the fewest is "
                    f"{records.min():,}. Anyone who receives the model can read what these few records have in common."
                )
        for name, fitted in self.parameters.items():
            if members - fitted < FREEDOM:
                left = f"fewer than {FREEDOM}" if members > fitted else "no"
                notes.append(
                    f"its {name} has {fitted:,} fitted parameters for each output. If it was trained on these "
                    f"{members:,} members alone, {left} degrees of freedom are left, and it can memorise records."
                )
        return tuple(_APART + note for note in notes)


def _parts(model: Any) -> Iterator[Any]:
    """Every object with attributes that a model consists of, itself first."""
    waiting, seen = [model], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, np.ndarray) and one.dtype == object:
            waiting += one.ravel().tolist()
        elif hasattr(one, "__dict__") and _of_scikit_learn(type(one)):
            yield one
            waiting += vars(one).values()


def _of_scikit_learn(made: type) -> bool:
    return hasattr(made, "get_params") or made.__module__.startswith("sklearn.")


def _stored(part: Any) -> int:
    """How many rows of its training data an estimator stores."""
    fitted = vars(part)
    if "precomputed" in (fitted.get("metric"), fitted.get("kernel"), fitted.get("affinity")):
        return 0  # distances, and no records
    values = [fitted.get(name) for name in (*_ROWS, _ROWS_OF.get(type(part).__name__, ""))]
    values.append(getattr(fitted.get("tree_"), "data", None))  # of a kernel density
    shapes: list[tuple[int, ...]] = [getattr(value, "shape", ()) for value in values]
    return max((shape[0] for shape in shapes if len(shape) == 2), default=0)


def _leaves(part: Any) -> list[IntArray]:
    """Training records of each leaf, of a tree or of boosting by histograms."""
    fitted = vars(part)
    tree, grown = fitted.get("tree_"), fitted.get("nodes")
    if hasattr(tree, "children_left"):
        return [np.asarray(tree.n_node_samples[tree.children_left < 0], dtype=np.int64)]
    names = getattr(getattr(grown, "dtype", None), "names", None) or ()
    if {"is_leaf", "count"} <= set(names):
        return [np.asarray(grown["count"][grown["is_leaf"] > 0], dtype=np.int64)]
    return []


def _cells(part: Any) -> list[IntArray]:
    """Training records of each class with each value of a feature, without those that no record has."""
    fitted, name, counts = vars(part), type(part).__name__, []
    if name == "CategoricalNB":
        counts = fitted.get("category_count_", [])
    if name == "BernoulliNB" and "feature_count_" in fitted:
        present, classes = fitted["feature_count_"], fitted["class_count_"][:, None]
        counts = [present, classes - present]
    return [np.ceil(count[count > 0]).astype(np.int64) for count in counts]


def _parameters(part: Any) -> int:
    """Fitted numbers for each output: of a linear model those that are not 0, of a network all."""
    fitted = vars(part)
    if "coefs_" in fitted and "n_outputs_" in fitted:
        weights: int = sum(np.size(layer) for layer in (*fitted["coefs_"], *fitted["intercepts_"]))
        return math.ceil(weights / int(fitted["n_outputs_"]))
    coefficients = fitted.get("coef_")
    sparse = hasattr(coefficients, "tocsr")
    if not sparse and not isinstance(coefficients, np.ndarray):
        return 0
    used = int(coefficients.count_nonzero() if sparse else np.count_nonzero(coefficients))
    outputs = max(1, coefficients.shape[0]) if coefficients.ndim == 2 else 1
    return math.ceil(used / outputs) + int(np.any(fitted.get("intercept_", 0)))

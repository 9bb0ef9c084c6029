"""Classifiers that a propensity is learned with, by name: their settings are fixed, so that a plan can state them.

Features arrive standardised and one-hot. ``docs/zero_run_in_depth.md`` says which one suits what.
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_TREES = 100


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Settings of the trees in the stack (experiments/methods.md, section 9)
    return HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.1, max_leaf_nodes=8, min_samples_leaf=20, l2_regularization=5.0
    )


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(_TREES, min_samples_leaf=10, max_features="sqrt")


def _naive_bayes() -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


CLASSIFIERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {"boosting": _boosting, "forest": _forest, "naive-bayes": _naive_bayes}
)

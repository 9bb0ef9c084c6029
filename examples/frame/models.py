"""The estimators of these examples: what a function of yours returns, for miaudit to clone and fit."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder


def _prepared(model: BaseEstimator) -> Pipeline:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["district", "smoker"]),
        (SimpleImputer(strategy="median"), ["age", "visits"]),
    )
    return make_pipeline(columns, model)


def where_to() -> Pipeline:
    """Return a classifier of patients, by columns of text and of numbers with gaps."""
    return _prepared(RandomForestClassifier(n_estimators=50))


def how_long() -> Pipeline:
    """Return a regression of the days that a patient stays."""
    return _prepared(RandomForestRegressor(n_estimators=50))

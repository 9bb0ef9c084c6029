"""Features of columns of mixed types: one-hot categories, standardised numbers, missing marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.synthesis.schema import Schema, Table


@dataclass(frozen=True, eq=False)
class Features:
    """Encoding of columns as features: categories of the schema, moments of the training table.

    A binary column is one feature, a categorical one as many as it has levels; ordinal codes and numbers are
    standardised. A column that may be missing has one more feature for that; a missing value counts as the mean.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> schema = Schema((Column("age", "continuous", low=0, high=99), Column("job", "categorical", ("a", "b", "c"))))
    >>> table = Table(schema, [[20, 0], [40, 2]])
    >>> Features.of(table, (0, 1)).transform(table.values).tolist()
    [[-1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    """

    schema: Schema
    columns: tuple[int, ...]
    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, table: Table, columns: Sequence[int]) -> Features:
        """Fit means and spreads of numeric columns on a classifier's training table."""
        chosen = tuple(int(j) for j in columns)
        mean, spread = np.zeros(len(chosen)), np.ones(len(chosen))
        for i, j in enumerate(chosen):
            known = table.values[~np.isnan(table.values[:, j]), j]
            if table.schema.columns[j].kind != "categorical" and len(known):
                mean[i] = known.mean()
                spread[i] = (known.std() or 1.0) if table.schema.columns[j].kind != "binary" else 1.0
        return cls(table.schema, chosen, mean, spread)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features (p,), in order."""
        labels = []
        for j in self.columns:
            column = self.schema.columns[j]
            if column.kind == "categorical":
                labels += [f"{column.name}={category}" for category in column.categories]
            else:
                labels.append(column.name)
            if column.missing:
                labels.append(f"{column.name} is missing")
        return tuple(labels)

    def transform(self, values: FloatArray) -> FloatArray:
        """Return the features (n, p) of rows (n, d) of any table with this schema."""
        parts = [np.empty((len(values), 0))]
        for i, j in enumerate(self.columns):
            column, codes = self.schema.columns[j], values[:, j]
            missing = np.isnan(codes)
            if column.kind == "categorical":
                parts.append((codes[:, None] == np.arange(column.levels)).astype(np.float64))
            else:
                shift = 0.0 if column.kind == "binary" else self.mean[i]
                numbers = np.where(missing, self.mean[i], codes)
                parts.append(((numbers - shift) / self.spread[i])[:, None])
            if column.missing:
                parts.append(missing.astype(np.float64)[:, None])
        return np.concatenate(parts, axis=1)

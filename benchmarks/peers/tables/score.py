"""What a synthetic table is worth: distances of its columns and pairs from held-out records, and the AUC it teaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from data import Split, Subject

from miaudit.synthesis import Table
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.utility import auc_with_influence, classifier

PAIRS = 500  # of more pairs of columns, so many are drawn: the same for every tool


def distances(table: Table, split: Split, seed: int) -> dict[str, float]:
    """Mean total variation distance of columns and of pairs of columns from the held-out records."""
    found = fidelity(table, split.test, split.other, most_pairs=PAIRS, plotted=1, rng=np.random.default_rng(seed))
    return {"columns": found.summary["marginal_distance"], "pairs": found.summary["pair_distance"]}


def aucs(table: Table, split: Split, subject: Subject) -> dict[str, float]:
    """AUC on the held-out records, for each task, of a classifier trained on the table; 0.5 if it has one class."""
    return {task: auc(table, split.test, *target, subject.classifier) for task, target in subject.targets.items()}


def auc(table: Table, test: Table, column: str, positive: frozenset[int], kind: str) -> float:
    """AUC of one task: whether a column is in some of its categories, from all other columns."""
    given, truth = (np.isin(part.column(column), sorted(positive)) for part in (table, test))
    if given.all() or not given.any():
        return 0.5
    place = table.schema.position(column)
    others = [j for j in range(len(table.schema)) if j != place]
    if kind == "logistic":
        encoding = Features.of(table, others)
        x, queries = encoding.transform(table.values), encoding.transform(test.values)
        score = classifier("logistic", seed=0).fit(x, given).decision_function(queries)
    else:
        model = boosting([table.schema.columns[j].kind == "categorical" for j in others])
        score = model.fit(table.values[:, others], given).decision_function(test.values[:, others])
    return auc_with_influence(np.asarray(score, dtype=np.float64), truth)[0]


def boosting(categorical: list[bool]) -> Any:
    """Histogram boosting as scikit-learn has it by default, columns without an order marked as such."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features=categorical, random_state=0)


def scored(table: Table, split: Split, subject: Subject, seed: int) -> dict[str, Any]:
    """All of it for one table."""
    return distances(table, split, seed) | {"auc": aucs(table, split, subject)}


def shuffled(table: Table, rng: np.random.Generator) -> Table:
    """Return the table with each column in an order of its own: its marginals and nothing else."""
    return Table(table.schema, rng.permuted(table.values, axis=0))


def baselines(split: Split, seed: int) -> Mapping[str, Table]:
    """What is no tool: the private records themselves, another real sample, and the private columns shuffled."""
    return {
        "private": split.private,
        "real": split.other,
        "shuffled": shuffled(split.private, np.random.default_rng([1, seed])),
    }

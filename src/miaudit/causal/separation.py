"""Covariates that separate the classes or determine a score by themselves, and constant covariates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.evidence import Evidence
from miaudit.metrics.roc import Roc

SEPARATED = 0.95  # largest AUC that does not count as separation, as in the overlap rule (docs/zero_run_in_depth.md)
_ROWS_OF_A_LEVEL = 20  # on average; with fewer rows, shares of levels fit noise
_MOST_NAMED = 3


def alone(evidence: Evidence, categories: Sequence[str] = ()) -> dict[str, float]:
    """Return the AUC of each covariate that separates the classes alone, the largest first.

    Parameters
    ----------
    evidence : with covariates (n, d)
    categories : names of the covariates that are codes; their levels are ordered by the share of members

    Examples
    --------
    >>> x = np.c_[np.arange(40) % 5, np.repeat([0, 1], 20)]
    >>> evidence = Evidence(score=range(40), member=x[:, 1], covariates=x, covariate_names=["day", "source"])
    >>> alone(evidence)
    {'source': 1.0}
    """
    return {name: auc for name, auc in ranked(evidence, categories).items() if auc > SEPARATED}


def ranked(evidence: Evidence, categories: Sequence[str] = ()) -> dict[str, float]:
    """Return the AUC of each covariate alone, in its better direction, the largest first.

    Parameters
    ----------
    evidence, categories : as in :func:`alone`
    """
    x, member = evidence.covariates, evidence.member
    if x is None:
        return {}
    names = evidence.covariate_names or [f"covariate {i}" for i in range(x.shape[1])]
    by_name = {name: _auc(x[:, i], member, coded=name in categories) for i, name in enumerate(names)}
    return dict(sorted(by_name.items(), key=lambda item: -item[1]))


def in_words(evidence: Evidence, blind: float | None, categories: Sequence[str] = ()) -> tuple[str, ...]:
    """Say which covariates separate the classes, and what to do about it.

    Empty unless all covariates together separate the classes.

    Parameters
    ----------
    blind : AUC of all covariates together
    """
    if blind is None or blind <= SEPARATED:
        return ()
    by_name = alone(evidence, categories)
    if not by_name:
        return (
            "No covariate separates them alone. Leave out what was made from membership or after training; of records "
            "that nothing else is like, nothing can be said: add non-members that are like the members.",
        )
    listed = ", ".join(f"{name} ({auc:.3f})" for name, auc in list(by_name.items())[:_MOST_NAMED])
    more = f" and {len(by_name) - _MOST_NAMED} more" if len(by_name) > _MOST_NAMED else ""
    return (
        f"By the AUC of a covariate alone: {listed}{more}. Leave it out if it was made from membership or after "
        "training; if it says when or where records come from, add non-members with the members' values of it.",
    )


def of_scores(evidence: Evidence) -> str:
    """Say which covariate determines a score, record by record; empty if none does.

    Such a column was not known before training, because the score was not. As a covariate, it would make everything
    that the score reveals look like shift.

    Examples
    --------
    >>> x = np.c_[np.arange(40) % 5, np.exp(-np.arange(40))]
    >>> evidence = Evidence(score=range(40), member=np.arange(40) % 2, covariates=x, covariate_names=["day", "loss"])
    >>> of_scores(evidence)[:43]
    'the covariate loss orders the records as th'
    >>> of_scores(evidence.replace(score=np.zeros(40)))
    ''
    """
    x = evidence.covariates
    if x is None:
        return ""
    names = evidence.covariate_names or [f"{i}" for i in range(x.shape[1])]
    ranks = {score: np.unique(values, return_inverse=True)[1] for score, values in evidence.scores.items()}
    for i, name in enumerate(names):
        own = np.unique(x[:, i], return_inverse=True)[1]
        for score, rank in ranks.items():
            if rank.max() and (np.array_equal(own, rank) or np.array_equal(own, rank.max() - rank)):
                return (
                    f"the covariate {name} orders the records as the score {score} does, or as its opposite: a "
                    "covariate is what was known before training, so leave it out"
                )
    return ""


def constant(names: Sequence[str]) -> tuple[str, ...]:
    """Say that covariates have one value only and were left out; empty if there are none."""
    if not names:
        return ()
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    verb = "has one value only and was" if len(names) == 1 else "have one value only and were"
    return (f"{', '.join(names[:_MOST_NAMED])}{more} {verb} left out.",)


def _auc(values: FloatArray, member: BoolArray, *, coded: bool) -> float:
    """Return the AUC of a covariate in its better direction; a code counts as its share of members."""
    if coded:
        levels, place = np.unique(values, return_inverse=True)
        if len(levels) * _ROWS_OF_A_LEVEL > len(values):
            return 0.5
        values = (np.bincount(place, weights=member) / np.bincount(place))[place]
    auc = Roc.of(values, member).auc
    return float(max(auc, 1 - auc))

"""What several runs of the same training show, by their number, beside what any one of them could."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MinLen

from miaudit.arrays import Inside, NotNegative, Positive, Share, Text

__all__ = ["SeveralRuns"]


@dataclass(frozen=True)
class SeveralRuns:
    """Lower bounds on mu by the number of runs, and the ceiling of one run.

    Attributes
    ----------
    runs : how many there are
    audited : how many of them are audited; one fewer where the first chose the number of guesses for the others
    records : of each
    score : that the bounds are of
    level : in (0, 1), of the one-run tests that are combined
    refuting : what refutes a parameter, in words
    auc : of that score, run by run
    alone : bound of each run by itself, at the confidence of the whole; empty where no confidence attaches to it
    by_number : bounds of the first run, the first two, ...; of all of them at the end. Which number counts was fixed
        beforehand: the others show what fewer runs would have given
    ceiling : proven limit of the mean of min(bound, mu) of one run (:func:`miaudit.dp.ceiling.one_run_ceiling`), if mu
        were as claimed; None without such a claim
    text : the same as a sentence or two
    """

    runs: Positive
    audited: NotNegative
    records: Positive
    score: str
    level: Inside
    refuting: Text
    auc: Annotated[tuple[Share, ...], MinLen(1)]
    alone: tuple[NotNegative, ...]
    by_number: tuple[NotNegative, ...]
    ceiling: NotNegative | None
    text: Text

"""Scores of records and of what they are compared with, from the files of somebody who asks whether they were used."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from miaudit.auditing.usage import Scores
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = ["read"]


def read(
    file: str | Path,
    nonmembers: str | Path | None = None,
    *,
    score: str | None = None,
    member: str | None = None,
    signal: Literal["score", "loss"] = "score",
) -> tuple[str, Scores]:
    """Read the name of the score, the scores of the records, and those of records that no training has used.

    Parameters
    ----------
    file : scores and a column that marks the records; scores alone (.npy) with ``nonmembers``
    nonmembers : scores of records that were never used
    score, member : columns of the file
    signal : "loss" where lower means more likely used

    Raises
    ------
    InputError
        For a file that cannot be read, or that holds several scores.
    """
    if nonmembers is not None:
        evidence, sign = Evidence.load_pair(file, nonmembers), -1.0 if signal == "loss" else 1.0
        return signal, Scores.of(sign * evidence.score[evidence.member], sign * evidence.score[~evidence.member])
    named = {key: value for key, value in (("score", score), ("member", member)) if value is not None}
    evidence = Evidence.load(file, **named, signal=signal)
    names = list(evidence.scores)
    if len(names) > 1:
        received = f"{len(names)}: {', '.join(names[:5])}"
        raise InputError("--score", "one score: the best of several would need a correction", received, "name one")
    return names[0], Scores.of(evidence.score[evidence.member], evidence.score[~evidence.member])

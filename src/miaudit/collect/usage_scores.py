"""Scores of records and of what they are compared with, from the files of somebody who asks whether they were used."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from miaudit.auditing.usage import Scores
from miaudit.collect import probe_scores
from miaudit.errors import InputError
from miaudit.evidence import REFERENCE, Evidence
from miaudit.io import scored_probes
from miaudit.metrics.matched_scores import Candidates

__all__ = ["read"]


def read(
    file: str | Path,
    nonmembers: str | Path | None = None,
    *,
    score: str | None = None,
    member: str | None = None,
    key: str | Path | None = None,
    signal: Literal["score", "loss"] = "score",
) -> tuple[str, Scores]:
    """Read the name of the score, the scores of the records, and those of records that no training has used.

    Parameters
    ----------
    file : scored probes of miaudit decoys; or scores and a column that marks the records; or, with ``nonmembers``,
        scores alone (.npy)
    nonmembers : scores of records that were never used
    score, member : columns of the file
    key : of the probes, by default the one beside them
    signal : "loss" where lower means more likely used

    Raises
    ------
    InputError
        For a file that cannot be read, or that holds several scores.
    """
    if nonmembers is not None:
        evidence, sign = Evidence.load_pair(file, nonmembers), -1.0 if signal == "loss" else 1.0
        return signal, Scores.of(sign * evidence.score[evidence.member], sign * evidence.score[~evidence.member])
    if scored_probes.holds(file):
        evidence = probe_scores.from_probes(file, key=key, score=score, signal=signal).evidence
    else:
        if key is not None:
            raise InputError("--key", "a file of probes beside it", Path(file).name, "leave it out")
        named = {name: value for name, value in (("score", score), ("member", member)) if value is not None}
        evidence = Evidence.load(file, **named, signal=signal)
    names = [name for name in evidence.scores if name != REFERENCE or evidence.design != "matched"]
    if len(names) > 1:
        received = f"{len(names)}: {', '.join(names[:5])}"
        raise InputError("--score", "one score: the best of several would need a correction", received, "name one")
    if evidence.design == "matched":
        own = Candidates.of(evidence, names[0])
        return names[0], Scores.of(own.true, own.decoys)
    return names[0], Scores.of(evidence.score[evidence.member], evidence.score[~evidence.member])

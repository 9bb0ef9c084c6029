"""Scores of records and of what they are compared with, from the files of somebody who asks whether they were used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from miaudit.auditing.usage import Scores
from miaudit.collect import probe_scores
from miaudit.errors import InputError
from miaudit.evidence import REFERENCE, Evidence
from miaudit.io import probes
from miaudit.metrics.matched_scores import Candidates

__all__ = ["read", "read_both"]


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
        _refuse({"--score": score, "--member": member, "--key": key}, "--nonmembers", "both files hold scores alone")
        evidence, sign = Evidence.load_pair(file, nonmembers), -1.0 if signal == "loss" else 1.0
        return signal, Scores.of(sign * evidence.score[evidence.member], sign * evidence.score[~evidence.member])
    name, evidence = _evidence(file, score, member, key, signal)
    return name, _scores(name, evidence)


def read_both(
    after: str | Path,
    before: str | Path,
    *,
    score: str | None = None,
    member: str | None = None,
    key: str | Path | None = None,
    signal: Literal["score", "loss"] = "score",
) -> tuple[str, Scores, Scores]:
    """Read the scores of the same records by the model after a deletion and by the one before it.

    Parameters
    ----------
    after, before : files of one kind, as of :func:`read`
    score, member, key, signal : of both files

    Raises
    ------
    InputError
        For files that cannot be read, scores of two names, and probes that differ.
    """
    (name, last), (other, first) = (_evidence(file, score, member, key, signal) for file in (after, before))
    if name != other:
        raise InputError(
            "--score", "one score in both files", f"{name} after, {other} before", "name one that both have"
        )
    if last.design == first.design == "matched":
        alike = (np.array_equal(getattr(last, field), getattr(first, field)) for field in ("unit", "text"))
        if not all(alike):
            received = f"others in {Path(before).name}"
            raise InputError("before", "scores of the same probes", received, "let both models score the same probes")
    return name, _scores(name, last), _scores(name, first)


def _evidence(
    file: str | Path, score: str | None, member: str | None, key: str | Path | None, signal: Literal["score", "loss"]
) -> tuple[str, Evidence]:
    """Read evidence with one score, and its name."""
    if Path(file).suffix.lower() == probes.SUFFIX:
        _refuse({"--member": member}, "probes", "the key says which strings are true")
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
    return names[0], evidence


def _scores(name: str, evidence: Evidence) -> Scores:
    if evidence.design == "matched":
        own = Candidates.of(evidence, name)
        return Scores.of(own.true, own.decoys)
    return Scores.of(evidence.score[evidence.member], evidence.score[~evidence.member])


def _refuse(options: Mapping[str, object], beside: str, why: str) -> None:
    """Refuse options that would not be read."""
    for option, value in options.items():
        if value is not None:
            raise InputError(option, f"none beside {beside}", str(value), f"leave it out: {why}")

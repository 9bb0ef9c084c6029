"""Evidence whose non-members are members too: nothing that is measured against them says what the model gives away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray
from miaudit.causal.duplicates import content_codes
from miaudit.causal.shared_records import Shared
from miaudit.evidence import Evidence
from miaudit.metrics.counted_evidence import CountedEvidence
from miaudit.metrics.digits import many_digits

__all__ = ["obstacle", "require_none"]

_BY_SCORES = "their scores, which are equal in all digits"
_DISTINCT = 0.95  # share of the rows of a side that are unlike all others of it, where a row stands for its record


def obstacle(evidence: Evidence) -> str:
    """Say how many non-members are members too; empty where equal records are none, or no more than chance gives.

    Records are compared by their text, by covariates where hardly two records of a side have the same, and by scores
    with many digits: the same record has the same score.

    Examples
    --------
    >>> score = np.random.default_rng(0).normal(size=100)
    >>> twice = Evidence(score=np.r_[score, score[:30]], member=np.arange(130) < 100)
    >>> obstacle(twice)[:45]
    '30 of 30 non-members are also members, by the'
    >>> obstacle(Evidence(score=score, member=np.arange(100) < 50))
    ''
    """
    if isinstance(evidence, CountedEvidence):
        return _of_counts(evidence)
    for one in evidence.runs:
        if one.member.all() or not one.member.any():
            continue
        for what, contents, rows in _described(one):
            member = one.member[rows]
            if member.all() or not member.any():
                continue
            shared = Shared.of(contents[rows], member)
            if shared.beyond_chance:
                whole = Shared(shared.members, shared.nonmembers, one.n_members, one.n_nonmembers, shared.p_value)
                return _refusal(whole, what)
    return ""


def _refusal(whole: Shared, what: str) -> str:
    return (
        f"{whole.size}, by {what}. Records of both sides cannot show what the model gives away about its "
        "members. Leave them out of the non-members, and audit again."
    )


def _of_counts(evidence: CountedEvidence) -> str:
    """As :func:`obstacle`, by the scores with many digits."""
    blocks = ((one, many_digits(one.score)) for one in evidence.counts.ascending())
    shared = Shared.of_counts((one.members[fine], one.nonmembers[fine]) for one, fine in blocks)
    if not (shared.of_members and shared.of_nonmembers and shared.beyond_chance):
        return ""
    whole = replace(shared, of_members=evidence.n_members, of_nonmembers=evidence.n_nonmembers)
    return _refusal(whole, _BY_SCORES)


def require_none(contents: ArrayLike, member: ArrayLike, argument: str) -> None:
    """Refuse records that stand on both sides, as :meth:`miaudit.causal.shared_records.Shared.require_none`."""
    Shared.of(contents, member).require_none(argument)


def _described(evidence: Evidence) -> Iterator[tuple[str, NDArray[Any], BoolArray]]:
    """Yield what tells records apart, in words and as values (n, ...), and which records it tells apart."""
    every = np.ones(evidence.n, dtype=np.bool_)
    if evidence.text is not None:
        yield "their texts", evidence.text, every
    x = evidence.covariates
    if x is not None and _stands_for_records(x, evidence.member):
        yield "their covariates", x, _of_own_units(evidence)
    scores = np.column_stack(list(evidence.scores.values()))
    fine = many_digits(scores).any(axis=1)
    if fine.any():
        yield _BY_SCORES, scores, np.asarray(fine)


def _stands_for_records(x: NDArray[np.float64], member: BoolArray) -> bool:
    """Whether hardly two records of a side have the same covariates."""
    code = content_codes(x)
    return all(len(np.unique(code[own])) >= _DISTINCT * np.count_nonzero(own) for own in (member, ~member))


def _of_own_units(evidence: Evidence) -> BoolArray:
    """Return which records are of a unit that is on one side only: pairs may have equal covariates by design."""
    code = evidence.unit_codes
    if code is None:
        return np.ones(evidence.n, dtype=np.bool_)
    inside = np.bincount(code, weights=evidence.member)
    size = np.bincount(code)
    return np.asarray(((inside == 0) | (inside == size))[code])

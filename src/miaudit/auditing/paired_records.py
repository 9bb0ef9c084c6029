"""Records that two audits share, and what they say about the difference between the two.

Two audits of the same records share part of their errors: of a hard record both models may be wrong alike, or, where
it was a member of one and not of the other, wrong in opposite ways. The influence of each record on both estimates
gives the correlation (:mod:`miaudit.metrics.influence`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.findings.comparison import SharedRecords
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample
from miaudit.metrics.influence import Shared

__all__ = ["Audited", "RepeatedMembers", "correlations", "repeated_members"]

_WIDE = "The intervals of the differences are wide: miaudit adds the half-widths of the two intervals, since"
_FILLED = " missing"  # ends the name of the covariate that says where another one was filled
_BEYOND = 4.0  # standard errors from independence at which memberships count as repeated
_LEAST_BOTH = 16  # records in common, without which nothing is said of memberships
_NOT_FOUND = 1e-9  # how far, as a share, an estimate may be from that of the findings


@dataclass(frozen=True, eq=False)
class Audited:
    """An audit, and the evidence that it was made on where that can be read.

    Attributes
    ----------
    name : what to call it
    findings : of the audit
    evidence : that the audit read, or None
    id : array (n,) of int or str, optional
        Names each record; equal names in two audits are one record.
    """

    name: str
    findings: Findings
    evidence: Evidence | None = None
    id: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.evidence is None:
            return
        stated, held = str(self.findings.evidence["digest"]), self.evidence.digest
        if stated != held:
            allowed = f"the evidence that {self.name} was audited on (SHA-256 {stated[:12]}...)"
            hint = "name the file that the audit read, unchanged, or the file that miaudit collect wrote for it"
            raise InputError("evidence", allowed, f"another one ({held[:12]}...)", hint)
        if self.id is not None and len(self.id) != self.evidence.n:
            received = f"{len(self.id):,} for {self.evidence.n:,} records"
            raise InputError("id", "one for each record", received, "write it beside the scores")


def correlations(before: Audited, after: Audited) -> SharedRecords | None:
    """Return how the errors of two audits go together, by the records that they share; None without their evidence.

    Records are matched by their units where both audits have them, else by ``id``, else by a digest of text, covariates
    and group. Where several records of an audit have the same digest as a record of the other, nobody knows which is
    which, and they count as opposed as far as they can be. Without anything that identifies a record, or where no
    digest is in both, there is no correlation, and the comparison adds the half-widths: a position in a file identifies
    nothing, and rows that were coded in another way look like other records.

    Parameters
    ----------
    before, after : the two audits

    Raises
    ------
    InputError
        If evidence is not what its audit was made on.

    Examples
    --------
    >>> import miaudit
    >>> from miaudit.findings.comparison import compare
    >>> rng = np.random.default_rng(0)
    >>> person, hard, half = np.arange(2000), rng.normal(size=2000), rng.permutation(2000) < 1000
    >>> def audited(name, member):
    ...     score = hard + 0.5 * rng.normal(size=2000) + 0.6 * member
    ...     evidence = miaudit.Evidence(score=score, member=member, unit=person, design="one-run")
    ...     return Audited(name, miaudit.audit(evidence, rng=rng), evidence)
    >>> before, after = audited("before", half), audited("after", ~half)
    >>> shared = correlations(before, after)
    >>> round(shared.correlation["auc"], 1)
    -0.7
    >>> next(c for c in compare(before.findings, after.findings, shared=shared).changes if c.name == "auc").low < 0
    True
    """
    sides = [(one.name, one.findings, one.evidence, one.id) for one in (before, after) if one.evidence is not None]
    audits = [_Side(*side) for side in sides]
    if len(audits) < 2:
        return None
    if any(audit.findings.design == "zero-run" for audit in audits):
        return _wide("corrected estimates have no influence values of records.")
    if any(audit.evidence.run is not None for audit in audits):
        return _wide("an audit of several runs has each record several times.")
    matched = _matched(*audits)
    if isinstance(matched, str):
        return _wide(matched)
    shared, what, by = matched
    first, second = map(_influences, audits)
    together = {name: shared.correlation(first[name], second[name]) for name in first if name in second}
    if not together:
        return _wide("the findings are not about all records of the evidence.")
    return SharedRecords(together, _text(shared, what, by, [audit.name for audit in audits]))


@dataclass(frozen=True)
class RepeatedMembers:
    """Records of two audits, and how many of these have the same membership in both.

    Attributes
    ----------
    both : records, or units, that are known to be in both audits
    same : of these, with the same membership
    expected : share of them that would have the same membership if the two audits chose members independently
    """

    both: int
    same: int
    expected: float

    @property
    def repeated(self) -> bool:
        """Whether the memberships go together, or against each other, more than chance allows (4 standard errors)."""
        if self.both < _LEAST_BOTH:
            return False
        deviation = abs(self.same - self.both * self.expected)
        return deviation > _BEYOND * math.sqrt(self.both * self.expected * (1 - self.expected))


def repeated_members(before: Audited, after: Audited) -> RepeatedMembers | None:
    """Return how many records of two audits have the same membership; None where nobody knows the common records.

    Records are matched as in :func:`correlations`.

    Examples
    --------
    >>> import miaudit
    >>> rng, person = np.random.default_rng(0), np.arange(400)
    >>> def audited(name, member):
    ...     evidence = miaudit.Evidence(score=rng.normal(size=400), member=member, unit=person, design="one-run")
    ...     return Audited(name, miaudit.audit(evidence, plan=miaudit.Plan(bounds=None), rng=rng), evidence)
    >>> first, fresh = rng.random(400) < 0.5, rng.random(400) < 0.5
    >>> [repeated_members(audited("a", first), audited("b", member)).repeated for member in (first, fresh, ~first)]
    [True, False, True]
    """
    sides = [_Side(one.name, one.findings, one.evidence, one.id) for one in (before, after) if one.evidence is not None]
    if len(sides) < 2 or any(side.evidence.run is not None for side in sides):
        return None
    matched = _matched(*sides)
    if isinstance(matched, str):
        return None
    shared = matched[0]
    known = ~shared.ambiguous
    member = []
    for codes, side in zip((shared.before, shared.after), sides, strict=True):
        counts = np.bincount(codes, minlength=len(known))
        member.append(np.bincount(codes, weights=side.evidence.member, minlength=len(known)) > 0)
        known = known & (counts > 0)
    same = int(np.count_nonzero(known & (member[0] == member[1])))
    first, second = (float(np.mean(side.evidence.member)) for side in sides)
    return RepeatedMembers(int(np.count_nonzero(known)), same, first * second + (1 - first) * (1 - second))


@dataclass(frozen=True, eq=False)
class _Side:
    """An audit whose evidence is there."""

    name: str
    findings: Findings
    evidence: Evidence
    id: NDArray[Any] | None


def _text(shared: Shared, what: str, by: str, names: Sequence[str]) -> str:
    """Say how many records both audits have."""
    sizes = [len(np.unique(codes)) for codes in (shared.before, shared.after)]
    counts = " and ".join(f"{size:,} in {name}" for size, name in zip(sizes, names, strict=True))
    text = (
        f"Both audits have {shared.both:,} {what} in common ({counts}; matched by {by}). The intervals count how the "
        "errors from these go together."
    )
    if unclear := int(np.count_nonzero(shared.ambiguous)):
        rows = int(np.count_nonzero(shared.ambiguous[shared.before]))
        text += (
            f" {rows:,} more records of {names[0]} cannot be told apart ({unclear:,} different rows); the intervals "
            "count their errors as opposed."
        )
    return text


def _wide(reason: str) -> SharedRecords:
    return SharedRecords({}, f"{_WIDE} {reason}")


# -- which records are the same ----------------------------------------------------------------------------------------


def _matched(before: _Side, after: _Side) -> tuple[Shared, str, str] | str:
    """Return the shared records, what they are and what they were matched by; or why nobody knows."""
    units = [audit.evidence.unit for audit in (before, after)]
    if units[0] is not None and units[1] is not None:
        whole = all(audit.evidence.unit_codes is None for audit in (before, after))
        return _by_name(units[0], units[1]), "records" if whole else "units", "unit"
    if any(audit.evidence.unit_codes is not None for audit in (before, after)):
        return "only one of the audits has units."
    if before.id is not None and after.id is not None:
        return _by_name(before.id, after.id), "records", "id"
    used = _identifying(before.evidence, after.evidence)
    if not used:
        return "nothing identifies the records: both need an id, units, texts or the same covariates."
    first, second = (_row_digests(audit.evidence, used) for audit in (before, after))
    if not np.isin(first, second).any():
        return f"no {' and '.join(used)} of one audit is in the other: different records, or coded in another way."
    return _by_digest(first, second), "records", " and ".join(used)


def _by_name(before: NDArray[Any], after: NDArray[Any]) -> Shared:
    """Match what has a name; records of one name are one unit."""
    names, codes = np.unique(np.concatenate([_texts(before), _texts(after)]), return_inverse=True)
    codes = codes.astype(np.int64)
    return Shared(codes[: len(before)], codes[len(before) :], np.zeros(len(names), dtype=np.bool_))


def _texts(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as text: a file may hold as numbers what another holds as text."""
    return np.array([str(label) for label in labels.tolist()], dtype=np.str_)


def _by_digest(before: NDArray[Any], after: NDArray[Any]) -> Shared:
    """Match records by what they hold; a record that only one audit has is one of its own, also if it repeats."""
    names, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    sides = codes[: len(before)], codes[len(before) :]
    first, second = (np.bincount(side, minlength=len(names)) for side in sides)
    both = (first > 0) & (second > 0)
    ambiguous = both & ((first > 1) | (second > 1))
    own = ~both[codes]
    codes[own] = len(names) + np.arange(np.count_nonzero(own))
    flags: BoolArray = np.concatenate([ambiguous, np.zeros(np.count_nonzero(own), dtype=np.bool_)])
    codes = codes.astype(np.int64)
    return Shared(codes[: len(before)], codes[len(before) :], flags)


def _identifying(before: Evidence, after: Evidence) -> tuple[str, ...]:
    """Name the fields by which a record can be found in both: those that both have, of the same columns."""
    used = ["text"] if before.text is not None and after.text is not None else []
    if before.covariates is not None and after.covariates is not None:
        columns = [
            (one.covariate_names, one.covariates.shape[1]) for one in (before, after) if one.covariates is not None
        ]
        used += ["covariates"] if columns[0] == columns[1] else []
    if used and before.group is not None and after.group is not None:
        used.append("group")
    return tuple(used)


def _row_digests(evidence: Evidence, used: Sequence[str]) -> NDArray[Any]:
    """Return a digest (n,) of what each record is, apart from scores and membership."""
    numbers = np.empty((evidence.n, 0)) if "covariates" not in used else _known(evidence)
    texts = [getattr(evidence, name).tolist() for name in used if name != "covariates"]
    digests = []
    for i in range(evidence.n):
        parts = [str(column[i]).encode() for column in texts]
        content = b"".join([numbers[i].tobytes(), *(len(part).to_bytes(8, "little") + part for part in parts)])
        digests.append(hashlib.blake2b(content, digest_size=16).hexdigest())
    return np.array(digests)


def _known(evidence: Evidence) -> FloatArray:
    """Covariates (n, d), 0 where a value is missing: the median that fills it differs from file to file."""
    if evidence.covariates is None:
        raise AttributeError("covariates")
    known, names = evidence.covariates + 0.0, evidence.covariate_names  # adding zero turns -0.0 into 0.0
    for column, name in enumerate(names):
        base = name.removesuffix(_FILLED)
        if base != name and base in names:
            known[known[:, column] == 1, names.index(base)] = 0.0
    return np.ascontiguousarray(known.astype("<f8"))


# -- what each record contributes --------------------------------------------------------------------------------------


def _influences(audit: _Side) -> dict[str, FloatArray]:
    """Return the influence (n,) of each record on each raw metric of the headline score.

    A metric is left out if the evidence does not give the number of the findings: they are then about other records,
    such as the part that a split left.
    """
    sample = Sample.of(audit.evidence.only(audit.findings.scores[0].score))
    influences = {}
    for metric in audit.findings.metrics:
        defined = definition.of(metric.name)
        if metric.estimator != "raw" or metric.value is None or defined.influence is None:
            continue
        again = defined.estimate(sample, confidence=metric.confidence).value
        if again is not None and math.isclose(again, metric.value, rel_tol=_NOT_FOUND, abs_tol=_NOT_FOUND):
            influences[metric.name] = _of_rows(audit.evidence, sample, defined.influence(sample))
    return influences


def _of_rows(evidence: Evidence, sample: Sample, influence: FloatArray) -> FloatArray:
    """Return influences (n,) of the rows of evidence; that of a unit of matched evidence is at its true string."""
    if not sample.decoys or sample.units is None:
        return influence
    rows = np.zeros(evidence.n)
    rows[evidence.candidate_rows[:, 0]] = np.bincount(sample.units.code, weights=influence)
    return rows

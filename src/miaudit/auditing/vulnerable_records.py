"""Which records leak, as findings: names where they were asked for, counts, groups and words."""

from __future__ import annotations

from collections import Counter
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import Separation, VulnerableGroup, VulnerableRecord
from miaudit.findings.audit import Vulnerability as VulnerabilityFindings
from miaudit.metrics.rounding import percent, rate_with_limits
from miaudit.metrics.vulnerability import Vulnerability, least_models, rank_survivals, vulnerability

_BINS = 20
_FPR = 0.01
_ERROR = 0.05
_NAMED = 20
_MOST_GROUPS = 1000


def measure(
    values: NDArray[Any],
    included: BoolArray,
    evidence: Evidence,
    rows: IndexArray,
    *,
    signal: str,
    names: bool = False,
    rng: np.random.Generator,
) -> VulnerabilityFindings:
    """Say of every audited record, or unit, how far it leaks from the shadow models that learnt it.

    Records of one unit are in a model together or not at all, so a unit's signal is the mean over its records. All
    limits hold at once, with 95% confidence over all records (Bonferroni); who is detectably vulnerable is settled by
    the exact rank test with Holm's correction.

    Parameters
    ----------
    values : array (n, M), the signal of each audited record under each shadow model, higher for members
    included : array (M, n) of bool, drawn at random; equal for all records of a unit
    evidence : of the same n records; its units, groups and memberships are used
    rows : array (n,), where each record is in the data
    signal : name of the signal, for the reader
    names : whether to name the most vulnerable (at most 20), which is row-level data
    rng : generator of the pairs of :func:`miaudit.metrics.vulnerability.vulnerability`

    Raises
    ------
    InputError
        Where the records of a unit were not drawn together, and as :func:`vulnerability`.

    Examples
    --------
    >>> from miaudit.models.shadow import inclusion
    >>> rng = np.random.default_rng(0)
    >>> included = inclusion(200, 32, rng=rng)
    >>> values = rng.normal(size=(200, 32)) + 8.0 * (np.arange(200) < 3)[:, None] * included.T
    >>> evidence = Evidence(score=np.zeros(200), member=np.arange(200) % 2 == 0)
    >>> found = measure(values, included, evidence, np.arange(200), signal="logit confidence", names=True, rng=rng)
    >>> found.leaking, [one.record for one in found.named[:3]]
    (3, ['0', '1', '2'])
    """
    subjects = _Subjects.of(evidence, rows)
    values, included = subjects.joined(np.asarray(values, dtype=np.float64), included)
    n, models = values.shape
    vulnerable = vulnerability(values, included, fpr=_FPR, confidence=1 - _ERROR / n, rng=rng)
    leaking = vulnerable.leaking(_ERROR)
    sides = included.sum(axis=0)
    return VulnerabilityFindings(
        of=subjects.of_what,
        records=n,
        models=models,
        signal=signal,
        leaking=len(leaking),
        confidence=1 - _ERROR,
        fpr=_FPR,
        smallest_p=float(min(1 / comb(models, int(a)) for a in np.unique(sides))),
        separation=_separation(vulnerable.separation, sides, models),
        text=_in_words(vulnerable, leaking, subjects.of_what, models),
        groups=subjects.groups(leaking),
        named=subjects.named(vulnerable) if names else (),
    )


def fewest(n: int) -> int:
    """Return how many shadow models could show at all that one of n records leaks."""
    return least_models(n, _ERROR)


def too_few(n: int, models: int) -> str:
    """Say what is missing of :func:`fewest`."""
    return (
        f"Which records leak was not measured: with {models} shadow models even a perfect separation could be chance "
        f"for one of {n:,}; {fewest(n)} models or more can tell."
    )


class _Subjects:
    """What is drawn into a model together and is named: units where several records share one, else records."""

    def __init__(self, codes: IntArray, names: list[str], evidence: Evidence, of_what: str) -> None:
        self.codes, self.names, self.evidence, self.of_what = codes, names, evidence, of_what
        self.first = np.unique(codes, return_index=True)[1]

    @classmethod
    def of(cls, evidence: Evidence, rows: IndexArray) -> _Subjects:
        codes = evidence.unit_codes
        if codes is not None:
            return cls(codes, [str(one) for one in np.unique(evidence.unit)], evidence, "units")  # type: ignore[arg-type]
        units = rows if evidence.unit is None else evidence.unit
        return cls(np.arange(evidence.n), [str(one) for one in units], evidence, "records")

    def joined(self, values: FloatArray, included: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Signals (subjects, M) and inclusion (M, subjects)."""
        if self.of_what == "records":
            return values, included
        if not np.array_equal(included, included[:, self.first][:, self.codes]):
            received = "a unit of which a model learnt only a part"
            raise InputError("included", "units drawn as a whole", received, "draw them with shadow.inclusion(unit=)")
        total = np.zeros((len(self.names), values.shape[1]))
        np.add.at(total, self.codes, values)
        return total / np.bincount(self.codes)[:, None], np.ascontiguousarray(included[:, self.first])

    def groups(self, leaking: IndexArray) -> tuple[VulnerableGroup, ...]:
        group = self._group
        if group is None:
            return ()
        names, counts = np.unique([one for one in group if one is not None], return_counts=True)
        if len(names) > _MOST_GROUPS:  # refused later on, with the reason
            return ()
        of_leaking = [group[i] for i in leaking]
        return tuple(
            VulnerableGroup(str(name), int(count), of_leaking.count(str(name)))
            for name, count in zip(names, counts, strict=True)
        )

    def named(self, found: Vulnerability) -> tuple[VulnerableRecord, ...]:
        """The most vulnerable, named, with limits that hold for all."""
        group, member = self._group, self.evidence.member[self.first]
        columns = {**found.table(), "p_value": found.adjusted}
        numbers = ("separation", "separation_low", "separation_high", "p_value")
        return tuple(
            VulnerableRecord(
                record=self.names[i],
                group=None if group is None else group[i],
                member=bool(member[i]),
                **{name: float(columns[name][i]) for name in (*numbers, "detected", "detected_low", "detected_high")},
            )
            for i in found.order()[:_NAMED]
        )

    @property
    def _group(self) -> list[str | None] | None:
        """The group of each subject; None for a unit with records of several."""
        if self.evidence.group is None:
            return None
        group = self.evidence.group.astype(np.str_)
        own = group[self.first]
        mixed = np.zeros(len(own), dtype=np.bool_)
        np.logical_or.at(mixed, self.codes, group != own[self.codes])
        return [None if several else str(name) for name, several in zip(own, mixed, strict=True)]


def _separation(found: FloatArray, sides: IntArray, models: int) -> Separation:
    """Histogram of the separation, beside its exact law where the memberships of the models mean nothing."""
    expected = np.zeros(_BINS)
    counts = Counter(sides.tolist())
    laws = rank_survivals([(a, models - a) for a in sorted(counts)])
    for (a, b), survival in laws.items():
        count, pairs = counts[a], a * b
        mass = survival - np.append(survival[1:], 0.0)
        expected += count * np.bincount(_bin(np.arange(pairs + 1) / pairs), weights=mass, minlength=_BINS)
    observed = np.bincount(_bin(found), minlength=_BINS) / len(found)
    return Separation(
        tuple((np.arange(_BINS + 1) / _BINS).tolist()),
        tuple(observed.round(9).tolist()),
        tuple(np.clip(expected / len(found), 0, 1).round(9).tolist()),
    )


def _bin(separation: FloatArray) -> IndexArray:
    return np.minimum(np.floor(np.round(separation * _BINS, 9)), _BINS - 1).astype(np.intp)


def _in_words(found: Vulnerability, leaking: IndexArray, of: str, models: int) -> str:
    n, sure = len(found.p_value), percent(1 - _ERROR)
    each = of.removesuffix("s")
    if not len(leaking):
        return (
            f"No single {each} of {n:,} is detectably vulnerable over {models} shadow models. That is no sign that "
            f"none leaks: after the correction for looking at {n:,} {of} only a very clear one would show."
        )
    count = f"{len(leaking):,} of {n:,} {of} {'is' if len(leaking) == 1 else 'are'}"
    first = leaking[0]
    detected = rate_with_limits(found.detected[first], found.detected_low[first], found.detected_high[first])
    return (
        f"At least {count} detectably vulnerable over {models} shadow models (with {sure} confidence none is named "
        f"wrongly; more may leak unseen). At a false-positive rate of {percent(found.fpr)} the clearest is found in "
        f"{detected} of the models that learnt it."
    )

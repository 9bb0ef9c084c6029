"""One-run evidence with known chances of inclusion: thinned to fair coins, and tested against these chances.

One-run bounds need membership to be a fair coin. Where the chance of inclusion is known and is not one half, miaudit
drops records at random, by the rule of Theorem Z with known log-odds (:func:`miaudit.dp.zero_run.thin` at half-width
0): of a record that is more likely a member, the member is dropped more often. The chance to remain depends on
membership and its chance alone, so each remaining record is a member with chance one half, whatever its score is. Given
which records remain, the one-run theorems hold for these records as they stand.

Metrics compare members with non-members. With one chance for all records the two are alike, and no record is dropped.
Where chances differ, members are records with higher chances, so metrics use the remaining records, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray, IndexArray
from miaudit.dp.zero_run.independent_guesses import keeping_probability, logit
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.inclusion import Inclusion
from miaudit.metrics.trials import one_of_each

__all__ = ["FEWEST", "LEVEL", "STRATA", "FairCoins", "allowed_members", "check", "contradiction"]

LEVEL = 0.001  # that memberships which follow the stated chances are refused
STRATA = 10  # groups of similar chances, each of which is tested
FEWEST = 1  # remaining members, and non-members


@dataclass(frozen=True, eq=False)
class FairCoins:
    """Which records of evidence with stated chances remain after thinning to fair coins.

    Attributes
    ----------
    rows : (k,) ascending, the remaining records, with all records of a unit that is on one side
    independent : (j,) ascending, one record of each unit, if it remains
    thins : whether any chance is not one half
    differ : whether chances differ, so that metrics use the remaining records, too
    inclusion : the same for the findings
    obstacle : why memberships contradict the chances, in sentences; empty where they do not
    """

    rows: IndexArray
    independent: IndexArray
    thins: bool
    differ: bool
    inclusion: Inclusion
    obstacle: str

    @classmethod
    def tossed(cls, evidence: Evidence, *, rng: np.random.Generator) -> FairCoins | None:
        """Toss for each record, or unit, whether it remains; None for evidence without stated chances.

        Parameters
        ----------
        evidence : of design "one-run"
        rng : draws one record of each unit, then one uniform number for each unit

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> member = rng.random(1000) < 0.8
        >>> evidence = Evidence(score=rng.normal(size=1000), member=member, design="one-run", inclusion=0.8)
        >>> coins = FairCoins.tossed(evidence, rng=rng)
        >>> len(coins.rows), round(coins.inclusion.expected_remaining), int(evidence.member[coins.rows].sum())
        (396, 400, 184)
        """
        chance = evidence.inclusion
        if chance is None:
            return None
        pick, toss = rng.spawn(2)
        code = np.arange(evidence.n) if evidence.unit_codes is None else evidence.unit_codes
        log_odds = logit(chance)
        guess = np.ones(evidence.n, dtype=np.int64)  # with known log-odds the rule is the same for both guesses
        remains = toss.random(evidence.n_units)[code] < keeping_probability(evidence.member, guess, log_odds, log_odds)
        one_each = one_of_each(code, pick)
        rows, independent = np.flatnonzero(remains), one_each[remains[one_each]]
        inclusion = _in_findings(evidence, len(independent))
        differ, thins = inclusion.lowest < inclusion.highest, bool((chance != 0.5).any())
        return cls(rows, independent, thins, differ, inclusion, contradiction(evidence))

    @property
    def sentence(self) -> str:
        """What was dropped before bounds were computed; empty where nothing was."""
        if not self.thins:
            return ""
        one = self.inclusion
        each = "" if one.of == "records" else ", one record of each"
        return f"{one.remaining:,} of {one.records:,} {one.of} remain after thinning to fair coins{each}"

    def measured(self, evidence: Evidence) -> Evidence:
        """Return the records that metrics use.

        Raises
        ------
        InputError
            Where chances differ, and too few records remain.
        """
        if not self.differ:
            return evidence
        inside = int(np.count_nonzero(evidence.member[self.rows]))
        if min(inside, len(self.rows) - inside) < FEWEST:
            received = f"{inside:,} members and {len(self.rows) - inside:,} non-members"
            hint = "add records whose chance of inclusion is nearer to one half"
            raise InputError("inclusion", "members and non-members after thinning to fair coins", received, hint)
        return evidence.take(self.rows).replace(inclusion=None)

    def among_all(self, rows: IndexArray | None) -> IndexArray | None:
        """Return rows of the records that metrics use as rows of the evidence; None for all records."""
        if not self.differ:
            return rows
        return self.rows if rows is None else np.asarray(self.rows[rows])

    def fair(self, evidence: Evidence, among: IndexArray | None) -> Evidence | None:
        """Return one record of each remaining unit, of some rows or of all; None where a class has too few."""
        rows = self.independent if among is None else np.intersect1d(self.independent, among)
        inside = int(np.count_nonzero(evidence.member[rows]))
        if min(inside, len(rows) - inside) < FEWEST:
            return None
        return evidence.take(rows).replace(inclusion=None)


def check(evidence: Evidence) -> None:
    """Refuse several runs whose chances of inclusion are not one half.

    Raises
    ------
    InputError
        As the records that remain would differ from run to run.
    """
    if evidence.inclusion is None or evidence.run is None:
        return
    other = evidence.inclusion[evidence.inclusion != 0.5]
    if len(other):
        hint = "audit each run by itself, or include records by fair coins"
        raise InputError("inclusion", "0.5, or none, with several runs", f"{other[0]:g}", hint)


# -- do memberships fit the chances? -----------------------------------------------------------------------------------


def allowed_members(chance: FloatArray, level: float) -> tuple[float, float]:
    """Return the fewest and the most members that chances (k,) of independent units allow at an error probability.

    Source: Bernstein's inequality for sums of independent variables in [0, 1]. It also holds for a unit with records on
    both sides, which counts by its share of members, and for a number of members that was fixed beforehand, since
    draws without replacement vary less (Hoeffding 1963, Theorem 4).

    Examples
    --------
    >>> low, high = allowed_members(np.full(1000, 0.8), 0.001)
    >>> round(low), round(high)
    (748, 852)
    """
    mean, variance = float(chance.sum()), float((chance * (1 - chance)).sum())
    log = math.log(2 / level)
    reach = log / 3 + math.sqrt(log * log / 9 + 2 * variance * log)
    return max(0.0, mean - reach), min(float(len(chance)), mean + reach)


def contradiction(evidence: Evidence) -> str:
    """Say where the number of members contradicts the stated chances; empty where it fits.

    All records are tested, and each of at most ten groups of similar chances. Memberships that follow the chances are
    refused in less than one audit in 1,000.

    Examples
    --------
    >>> member = np.arange(1000) < 500
    >>> evidence = Evidence(score=np.arange(1000.0), member=member, design="one-run", inclusion=0.8)
    >>> contradiction(evidence)[:110]
    'The memberships contradict the stated chances of inclusion: of 1,000 records with a chance of 80%, 500 are mem'
    """
    if evidence.inclusion is None:
        return ""
    chance, share = _of_units(evidence)
    groups = list(_groups(chance))
    for rows in groups:
        low, high = allowed_members(chance[rows], LEVEL / len(groups))
        members = float(share[rows].sum())
        if not low <= members <= high:
            what = "records" if evidence.unit_codes is None else "units"
            return (
                f"The memberships contradict the stated chances of inclusion: of {len(rows):,} {what} with "
                f"{_chances(chance[rows])}, {members:,.6g} are members, and the chances allow {math.ceil(low):,} to "
                f"{math.floor(high):,}. The evidence contradicts its design, so no number says what the model gives "
                "away. State the chances that decided, or declare zero-run if members were not assigned at random."
            )
    return ""


def _of_units(evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Return the chance (k,) of each unit, and the share of its records that are members."""
    assert evidence.inclusion is not None  # noqa: S101
    if evidence.unit_codes is None:
        return evidence.inclusion, evidence.member.astype(np.float64)
    size = np.bincount(evidence.unit_codes)
    chance = np.empty(len(size))
    chance[evidence.unit_codes] = evidence.inclusion
    return chance, np.bincount(evidence.unit_codes, weights=evidence.member) / size


def _groups(chance: FloatArray) -> Iterator[IndexArray]:
    """Yield all rows, then those of each group of similar chances; equal chances are in one group."""
    yield np.arange(len(chance))
    values, place, count = np.unique(chance, return_inverse=True, return_counts=True)
    if len(values) == 1:
        return
    group = np.arange(len(values))
    if len(values) > STRATA:
        group = np.minimum((np.cumsum(count) - 1) * STRATA // len(chance), STRATA - 1)
    for one in np.unique(group):
        yield np.flatnonzero(group[place] == one)


# -- in words ----------------------------------------------------------------------------------------------------------


def _in_findings(evidence: Evidence, remaining: int) -> Inclusion:
    """Return what the findings hold of the chances, and of the number of units that remain."""
    chance, share = _of_units(evidence)
    low, high = allowed_members(chance, LEVEL)
    of = "records" if evidence.unit_codes is None else "units"
    expected = float(2 * np.minimum(chance, 1 - chance).sum())
    differ = bool(np.ptp(chance))
    head = f"Chance included each {of[:-1]} with {_chances(chance)}."
    if differ or chance[0] != 0.5:
        head += (
            f" miaudit dropped {of} at random so that each remaining {of[:-1]} is a member with a chance of one half: "
            f"{remaining:,} of {len(chance):,} {of} remain ({expected:,.0f} expected). "
        )
        head += "Metrics and bounds use these only." if differ else f"Bounds use these only; metrics use all {of}."
    return Inclusion(
        lowest=float(chance.min()),
        highest=float(chance.max()),
        of=of,
        records=len(chance),
        members=float(share.sum()),
        expected_members=float(chance.sum()),
        fewest=math.ceil(low),
        most=math.floor(high),
        remaining=remaining,
        expected_remaining=expected,
        thinned_metrics=differ,
        text=head,
    )


def _chances(chance: FloatArray) -> str:
    low, high = (f"{100 * value:.4g}%" for value in (chance.min(), chance.max()))
    return f"a chance of {low}" if low == high else f"chances from {low} to {high}"

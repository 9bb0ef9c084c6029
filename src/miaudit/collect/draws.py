"""What is drawn before the first training: memberships, the population, and what each model learns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, IndexArray
from miaudit.attacks import registry
from miaudit.auditing import vulnerable_records
from miaudit.collect import rare_classes
from miaudit.collect.campaign import Campaign
from miaudit.collect.records import Records
from miaudit.collect.stability import Replacements
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models import inclusion

_POPULATION_SHARE = 5
PLAIN = 4  # models without canaries, and at least as many with them, that tell what canaries cost


@dataclass(frozen=True, eq=False)
class Draws:
    """What is fixed before the first training.

    Attributes
    ----------
    base : evidence of the audited records with a score of zeros: everything else is checked
    rows : array (a,), the audited records among all n
    population : array (m,), the records that are set aside
    included : array (models, n): the audited model first, unless it stands as it is; of a multi-run its a models
    y : array (n,)
    seed : of the models
    rng : of the attacks
    replaced : which records give way to which, for the stability of training; None where it is not measured
    further : array (runs - 1, a), who is a member in each further run; their models are the last of ``included``
    held_out : array (h,), records beside the canaries that no model learns
    apart : array (k, n), what further models learn that tell what canaries cost; the first :data:`PLAIN` of them none
    """

    base: Evidence
    rows: IndexArray
    population: IndexArray
    included: BoolArray
    y: NDArray[Any]
    seed: int
    rng: np.random.Generator
    replaced: Replacements | None = None
    further: BoolArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    held_out: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    apart: BoolArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))

    @classmethod
    def of(cls, campaign: Campaign, rng: np.random.Generator) -> Draws:
        """Draw, after checking all that can be checked before anything is trained.

        Records of one unit are drawn together: one coin for all of them, in every model.
        """
        design = campaign.checked_design()
        campaign.check_attacks(design)
        coins, halves, seeds, attacks = rng.spawn(4)
        y, whole = campaign.labels(), _checked(campaign, design)
        population = np.empty(0, dtype=np.intp)
        if design == "multi-run":
            rows, aside = _runs(whole, campaign.audited, coins)
        else:
            population = _population(campaign, whole, coins)
            rows = np.setdiff1d(np.flatnonzero(_free(campaign)), population)
        several = None if whole.unit_codes is None else whole.unit_codes[rows]
        _require_coins_for_all(campaign, population)
        member = _tossed(campaign, 1, len(rows), several, coins) if campaign.draws else whole.member[rows]
        base = whole.replace(**_rows_of(whole, rows), member=member)
        if design == "multi-run":
            included = _inclusion_of_runs(whole.n, rows, aside, member)
        else:
            included = _inclusion(campaign, base, rows, halves)
        seed = int(seeds.integers(2**31))
        replaced = _replaced(campaign, base, rows, population, seeds.spawn(1)[0]) if campaign.stability else None
        further = [
            _tossed(campaign, run, len(rows), several, run_rng)
            for run, run_rng in enumerate(seeds.spawn(campaign.runs - 1), start=2)
        ]
        if further:
            included = np.concatenate([included, np.repeat(included[:1], len(further), axis=0)])
            included[-len(further) :, rows] = further
        return cls(
            base, rows, population, included, y, seed, attacks, replaced, np.array(further, dtype=np.bool_)
        )._beside_held_out(campaign, seeds)

    def _beside_held_out(self, campaign: Campaign, rng: np.random.Generator) -> Draws:
        """Set records aside that are no canaries, and draw what models learn that tell what canaries cost."""
        if not campaign.held_out:
            return self
        chosen, coins = rng.spawn(2)
        others = np.flatnonzero(~_free(campaign))
        held_out = np.sort(chosen.permutation(others)[: campaign.held_out])
        included = self.included.copy()
        included[:, held_out] = False
        more = max(0, PLAIN - len(included))
        apart = np.zeros((PLAIN + more, campaign.records.n), dtype=np.bool_)
        apart[:, np.setdiff1d(others, held_out)] = True
        apart[PLAIN:, self.rows] = coins.random((more, len(self.rows))) < 0.5
        return replace(self, included=included, held_out=held_out, apart=apart)

    def rare_classes(self, campaign: Campaign) -> str:
        """As of :func:`miaudit.collect.rare_classes.said`, of outputs that are about classes or labels."""
        of_classes = campaign.target.kind in ("logits", "multi-label")
        return rare_classes.said(self.y, self.included, campaign.records.classes) if of_classes else ""


def _checked(campaign: Campaign, design: str | None) -> Evidence:
    """All records as evidence: their lengths, types and known memberships are checked before anything is trained."""
    n = campaign.records.n
    return Evidence(
        score=np.zeros(n),
        member=_given_member(campaign.records, n),
        design=design,
        source=f"{campaign.records.source}: {campaign.target.name}",
        **_fields(campaign.records, design),
    )


def _require_coins_for_all(campaign: Campaign, population: IndexArray) -> None:
    """Refuse a population beside sealed coins."""
    if len(population) and campaign.coins is not None:
        hint = "leave shadow.population out, and attacks that need one: no record may be chosen by its coin"
        raise InputError("coins", "a coin for every record", f"{len(population):,} that are set aside", hint)


def _inclusion_of_runs(n: int, rows: IndexArray, aside: IndexArray, member: BoolArray) -> BoolArray:
    """What each model of a multi-run learns (models, n): its own record by a coin, and all that are not aside."""
    included = np.ones((len(rows), n), dtype=np.bool_)
    included[:, aside] = False
    included[np.arange(len(rows)), rows] = member
    return included


def _tossed(
    campaign: Campaign, run: int, records: int, unit: NDArray[Any] | None, rng: np.random.Generator
) -> BoolArray:
    """Who is a member (records,) in a run, from 1: by sealed coins where there are any, else by those drawn here."""
    if campaign.coins is None:
        return inclusion.coins(records, unit=unit, rng=rng)
    return campaign.coins.members(run, records=records, unit=unit)


def _given_member(records: Records, n: int) -> NDArray[Any]:
    """Memberships of the file; where none are given, some that pass the door until they are drawn."""
    return np.arange(n) % 2 == 0 if records.member is None else records.member


def _fields(records: Records, design: str | None) -> dict[str, Any]:
    """Fields of evidence; texts are covariates, so they belong to memberships that were not drawn here."""
    observed = records.member is not None or design in (None, "zero-run")
    return {k: v for k, v in records.fields.items() if k != "text" or observed}


def _rows_of(whole: Evidence, rows: IndexArray) -> dict[str, Any]:
    taken = {name: getattr(whole, name) for name in ("covariates", "text", "unit", "group")}
    return {"score": np.zeros(len(rows)), **{k: None if v is None else v[rows] for k, v in taken.items()}}


def _runs(whole: Evidence, asked: int | None, rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """Records of a multi-run, and all that the fixed part leaves aside: these, and the others of their units."""
    order = rng.permutation(whole.n)
    several = whole.n_units
    if asked is not None and asked >= several:
        what = "records" if whole.unit_codes is None else "units"
        allowed = f"at most {several - 1:,} of {several:,} {what}, one model each"
        raise InputError("data.records", allowed, str(asked), "all others are in every training: set fewer")
    if whole.unit_codes is None:
        rows = np.sort(order[: asked or whole.n // 2])
        return rows, rows
    units, first = np.unique(whole.unit_codes[order], return_index=True)  # of each unit the first in a random order
    chosen = rng.permutation(len(units))[: asked or len(units) // 2]
    return np.sort(order[first[chosen]]), np.flatnonzero(np.isin(whole.unit_codes, units[chosen]))


def _free(campaign: Campaign) -> BoolArray:
    """Which records (n,) a model may learn or not: canaries where there are some, since all others are always in."""
    canary = campaign.records.canary
    return np.ones(campaign.records.n, dtype=np.bool_) if canary is None else canary


def _population(campaign: Campaign, whole: Evidence, rng: np.random.Generator) -> IndexArray:
    """Records that no model learns, drawn at random; of known memberships only from non-members."""
    attacks = [registry.ATTACKS[name] for name in campaign.names if name in registry.ATTACKS]
    needed = any("population" in attack.needs for attack in attacks)
    requested = campaign.shadows.population
    if requested is None and not needed:
        return np.empty(0, dtype=np.intp)
    free = _free(campaign) if campaign.draws else _free(campaign) & ~whole.member
    external = campaign.shadows.given
    place = None if external is None else external.rows_in(whole.n, campaign.records.y)
    if external is not None and place is not None:
        free &= ~external.outputs.included[:, place].any(axis=0)
    codes = whole.unit_codes
    if codes is not None:  # a unit that is audited, or was learned, has no record in the population
        free &= np.bincount(codes, weights=~free)[codes] == 0
    possible = np.flatnonzero(free)
    # Given shadow models leave records without a model that learned them, which online attacks cannot score: all of
    # these are set aside, where others remain.
    left = np.count_nonzero(_free(campaign) & ~free & ~whole.member)
    most = len(possible) - (0 if place is not None and left >= 2 else 2)
    all_of_them = place is not None and any(attack.online for attack in attacks)
    count = requested or (most if all_of_them else len(possible) // _POPULATION_SHARE)
    if not 0 < count <= most:
        allowed = f"1 to {most}, of records that no model learns" if most > 0 else "records that no model learns"
        hint = "set fewer aside" if place is None else "give records that no shadow model learned"
        raise InputError("shadow.population", allowed, str(max(count, 0)) if most > 0 else "none to spare", hint)
    if codes is None:
        return np.sort(rng.permutation(possible)[:count])
    units = rng.permutation(np.unique(codes[possible]))
    sizes = np.bincount(codes)[units].cumsum()
    taken = units[: min(int(np.searchsorted(sizes, count)) + 1, len(units) - (len(possible) - most))]
    return np.flatnonzero(np.isin(codes, taken))


def _inclusion(campaign: Campaign, base: Evidence, rows: IndexArray, rng: np.random.Generator) -> BoolArray:
    """What each model of a one-run or zero-run learns (models, n): canaries by coins, all other records always."""
    _check_vulnerability(campaign, base)
    first, unit = None if campaign.stands else base.member, None if base.unit_codes is None else base.unit
    n, models = campaign.records.n, campaign.shadows.models
    included = inclusion.audited_and_shadows(n, rows, first, models, unit=unit, rng=rng)
    always, member = ~_free(campaign), campaign.records.member
    included[:, always] = True if member is None else np.asarray(member, dtype=np.bool_)[always]
    _check_models(included, base)
    return included


def _replaced(
    campaign: Campaign, base: Evidence, rows: IndexArray, population: IndexArray, rng: np.random.Generator
) -> Replacements:
    """Draw which members give way to which records that the audited model did not learn; the others are the test.

    Fresh are those of the population, which are not audited; where none are set aside, a share of the non-members.
    """
    pairs, member = campaign.stability, base.member
    train, outside = rows[member], rows[~member]
    fresh = population if len(population) else np.sort(rng.permutation(outside)[: len(outside) // _POPULATION_SHARE])
    most = min(len(train), len(fresh))
    if pairs > most or len(train) < 2:
        whose = "in the population" if len(population) else f"to spare, a fifth of {len(outside):,} non-members"
        allowed = f"at most {most:,}, for {len(train):,} training records and {len(fresh):,} {whose}"
        hint = "set fewer, or set more aside with shadow.population" if len(population) else "set fewer, or audit more"
        raise InputError("stability.pairs", allowed, f"{pairs:,}", hint)
    return Replacements.draw(train, fresh, np.setdiff1d(outside, fresh), pairs=pairs, rng=rng)


def _check_models(included: BoolArray, base: Evidence) -> None:
    """Refuse so few records or units that chance left a model without any."""
    if len(included) and not included.any(axis=1).all():
        what = "records" if base.unit_codes is None else "units"
        received = f"{base.n_units} {what}, of which one model would learn none"
        raise InputError("data", f"{what} enough for every model to learn some", received, f"audit more {what}")


def _check_vulnerability(campaign: Campaign, base: Evidence) -> None:
    """Refuse to say which records leak where it was asked for and so many shadow models cannot tell."""
    options = campaign.shadows
    if not options.vulnerability:
        return
    n = base.n_units
    needed = vulnerable_records.fewest(n)
    if options.count < needed:
        what = "records" if base.unit_codes is None else "units"
        received = f"{options.count}: with them even a perfect separation could be chance for one of so many"
        allowed = f"{needed} or more, to see which of {n:,} {what} leak"
        raise InputError("shadow.models", allowed, received, f"set {needed}, or leave shadow.vulnerability out")
    if options.given is not None:
        options.given.require_same_records(campaign.records.n, campaign.records.y, "vulnerability")

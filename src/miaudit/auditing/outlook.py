"""What a zero-run audit will be able to say, from covariates alone: before a model is asked for any score.

The propensity is learned and judged as an audit does (:func:`miaudit.auditing.zero_run.assess`). How wide intervals are
follows from the weights, up to one thing that no covariate tells: how far the score follows the covariates. So every
width has two ends.

- A score that has **nothing to do with them**: its ranks are uniform whatever the weight, so that the AUC of a model
  without leakage has the variance 1 / (12 n1) + sum p^2 / 12, where p are the non-members' shares of the weight. The
  effective number of non-members, 1 / sum p^2, stands where their number would.
- A score that follows them **as far as one can**: the heaviest non-members lie at both ends, and sum p^2 (h - 1/2)^2 is
  largest, by the rearrangement inequality, where |h - 1/2| = G / 2 with G the weight of all lighter ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray
from miaudit.auditing import stage_costs, zero_run
from miaudit.auditing.excluded_levels import excluded
from miaudit.auditing.plan import Plan
from miaudit.auditing.zero_run import Correction
from miaudit.causal import balance, effects, separation
from miaudit.causal.balance import Overlap
from miaudit.causal.covariates import Categories
from miaudit.causal.gaps import SparseLevels, exclusions
from miaudit.causal.progress import reported, stage
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.units import Units

__all__ = ["Level", "Outlook", "Remedy", "Wish", "of"]

_IF_IT_MATTERS = "An audit is refused if this moves a metric of its verdict, which depends on the score."
_DRAWS = 15  # scores without meaning, whose limits of the TPR are typical
_SUSPECTS = 3  # columns without which the audit is tried
_FEWEST = 100  # records of each class that are left over when rows are left out
_STEP, _LEAST_LEFT, _TRIES = 0.02, 0.1, 3  # of the records, when the rarest are left out
_APART = 0.3  # standard deviations from which a column is named


@dataclass(frozen=True)
class Level:
    """Typical limits of the TPR at one FPR of a model without leakage, for a score that is unrelated to the covariates.

    Attributes
    ----------
    fpr : in (0, 1)
    low, high : limits of the TPR
    resolvable : whether the TPR would have a lower limit at all
    """

    fpr: float
    low: float
    high: float
    resolvable: bool


@dataclass(frozen=True)
class Wish:
    """Records that a wish takes, if further ones are like those that there are.

    Attributes
    ----------
    wanted : ``half_width`` or ``auc``
    value : what was wished
    nonmembers : non-members in all, for the best and for the worst score; None where no number of them suffices
    factor : how many times as many of both classes there must be, for the best and for the worst score
    """

    wanted: str
    value: float
    nonmembers: tuple[int | None, int | None]
    factor: tuple[float, float]


@dataclass(frozen=True)
class Remedy:
    """Something that was tried on these records, and what came of it.

    Attributes
    ----------
    text : what to do, and what it would give, in words
    answered : whether the audit would then be answered; None where it was not tried
    rows : indices of the rows to leave out
    columns : names of the columns to leave out
    """

    text: str
    answered: bool | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outlook:
    """What a zero-run audit of these members and non-members will be able to say.

    Attributes
    ----------
    answered : whether it passes every gate that covariates decide
    reasons : why it would be refused, in sentences; empty if it is answered
    members, nonmembers : numbers of records
    overlap : as a page shows it; None where no propensity could be learned
    half_width : of the interval of the AUC, for the best and for the worst score; None where it is refused
    smallest_auc : that is told from one half with the power asked for, for both; None likewise
    levels : of the TPR at each FPR
    wishes : what was wished, and the records that it takes
    remedies : what would help a refused audit
    confidence, power : as asked
    """

    answered: bool
    reasons: tuple[str, ...]
    members: int
    nonmembers: int
    overlap: Overlap | None
    half_width: tuple[float, float] | None
    smallest_auc: tuple[float, float] | None
    levels: tuple[Level, ...]
    wishes: tuple[Wish, ...]
    remedies: tuple[Remedy, ...]
    confidence: float
    power: float


def of(
    evidence: Evidence,
    plan: Plan | None = None,
    *,
    nuisance: Nuisance | None = None,
    power: float = 0.8,
    half_width: float | None = None,
    auc: float | None = None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> Outlook:
    """Foresee a zero-run audit: whether it is answered, how wide its intervals are, and what would help.

    An audit of the same rows with a generator of the same seed learns the same propensity and passes the same gates.

    Parameters
    ----------
    evidence : members and non-members with covariates or texts; its scores are not read, and may be all zero
    plan : as of the audit
    nuisance : as of the audit
    power : in (0, 1), the share of audits that would tell the smallest AUC from one half
    half_width : wished for, of the interval of the AUC, in (0, 0.5)
    auc : that is to be told from one half, in (0.5, 1)
    rng : draws folds, and scores without meaning
    progress : function of how much of the work is done and of the whole, optional; the share never falls

    Raises
    ------
    InputError
        For a wish out of range, or options that do not go with the evidence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> member = rng.random(2000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> found = of(Evidence(score=np.zeros(2000), member=member, covariates=x), half_width=0.02, rng=rng)
    >>> found.answered, [round(width, 2) for width in found.half_width]
    (True, [0.03, 0.04])
    >>> found.wishes[0].nonmembers[0] > 2 * found.nonmembers
    True
    """
    chosen = plan or Plan()
    _check(power=(power, 0, 1), half_width=(half_width, 0, 0.5), auc=(auc, 0.5, 1))
    wishes = {"half_width": half_width, "auc": auc}
    if chosen.exclude_levels:
        return _of_rest(evidence, chosen, nuisance, {"power": power, **wishes, "progress": progress}, rng)
    with reported(stage_costs.of_outlook(evidence, chosen), progress):
        return _of(evidence, chosen, nuisance, power, wishes, rng)


def _of(
    evidence: Evidence,
    chosen: Plan,
    nuisance: Nuisance | None,
    power: float,
    wishes: dict[str, float | None],
    rng: np.random.Generator,
) -> Outlook:
    unscored = evidence.replace(score=np.zeros(evidence.n), design="zero-run")
    outlook, assessed, later = _foreseen(unscored, chosen, nuisance or Nuisance(), power, rng)
    if outlook.half_width is not None and isinstance(assessed, Correction):
        spread = _Spread.of(unscored, assessed.propensity, outlook.half_width[1] / _deviations(chosen))
        stated = ((name, value) for name, value in wishes.items() if value is not None)
        return replace(outlook, wishes=tuple(spread.wish(*one, chosen, power, outlook) for one in stated))
    if nuisance is None and isinstance(assessed, Correction):
        return replace(outlook, remedies=tuple(_remedies(unscored, chosen, assessed, outlook, later)))
    return outlook


def _of_rest(
    evidence: Evidence, plan: Plan, nuisance: Nuisance | None, wishes: dict[str, Any], rng: np.random.Generator
) -> Outlook:
    """Foresee an audit without the levels that the plan leaves out; rows are counted in all of the evidence."""
    rows = np.flatnonzero(excluded(evidence, plan.exclude_levels)[0])
    models = None if nuisance is None else nuisance.of_rows(rows)
    outlook = of(evidence.take(rows), replace(plan, exclude_levels=()), nuisance=models, **wishes, rng=rng)
    remedies = (replace(one, rows=tuple(int(rows[i]) for i in one.rows)) for one in outlook.remedies)
    return replace(outlook, remedies=tuple(remedies))


def _foreseen(
    evidence: Evidence, plan: Plan, nuisance: Nuisance, power: float, rng: np.random.Generator
) -> tuple[Outlook, Correction | str, np.random.Generator]:
    """Assess as an audit does, with the generator that an audit of this seed would assess with."""
    assess_rng, later = rng.spawn(4)[2].spawn(2)
    assessed = zero_run.assess(evidence, plan, nuisance, rng=assess_rng)
    if isinstance(assessed, Correction) and assessed.moved and assessed.answered:
        assessed = assessed.warned(f"{assessed.misfit} {_IF_IT_MATTERS}")
    reasons = (assessed,) if isinstance(assessed, str) else assessed.overlap.reasons
    overlap = None if isinstance(assessed, str) else assessed.overlap
    sizes: dict[str, Any] = {"members": evidence.n_members, "nonmembers": evidence.n_nonmembers, "overlap": overlap}
    rest: dict[str, Any] = {"wishes": (), "remedies": (), "confidence": plan.confidence, "power": power}
    if isinstance(assessed, str) or reasons:
        return Outlook(False, reasons, **sizes, half_width=None, smallest_auc=None, levels=(), **rest), assessed, later
    z = _deviations(plan)
    with stage("following", instead_of=stage_costs.REMEDIES):
        spread = _Spread.of(evidence, assessed.propensity, _following(evidence, assessed, plan, later) / z)
    best, worst = z * spread.best, z * spread.worst
    smallest = (min(1.0, 0.5 + width * (1 + float(special.ndtri(power)) / z)) for width in (best, worst))
    with stage("levels"):
        levels = tuple(_levels(evidence, assessed, plan, later))
    auc: tuple[float, float] = (next(smallest), next(smallest))
    return (
        Outlook(True, (), **sizes, half_width=(best, worst), smallest_auc=auc, levels=levels, **rest),
        assessed,
        later,
    )


# -- how wide ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Spread:
    """Variance of the AUC without leakage: of the members, and of the non-members for the best and the worst score."""

    members: float
    unrelated: float
    related: float

    @classmethod
    def of(cls, evidence: Evidence, propensity: Propensity, largest: float) -> _Spread:
        """Take it from the weights, of units where they repeat; ``largest`` is a standard error seen for some score."""
        outside, code = ~evidence.member, evidence.unit_codes
        weight, inside = propensity.odds[outside], float(evidence.n_members)
        if code is not None:
            weight = np.bincount(code[outside], weights=weight).astype(np.float64)
            inside = Units.of(code, evidence.member).effective_members
        p = np.sort(weight / weight.sum())
        lighter = np.cumsum(p) - p / 2
        own = 1 / (12 * inside)
        return cls(own, float(p @ p) / 12, max(float(p**2 @ lighter**2) / 4, largest**2 - own))

    @property
    def best(self) -> float:
        """Standard error of the AUC of a score that is unrelated to the covariates."""
        return math.sqrt(self.members + self.unrelated)

    @property
    def worst(self) -> float:
        """The same of a score that follows them as far as one can."""
        return math.sqrt(self.members + self.related)

    def wish(self, wanted: str, value: float, plan: Plan, power: float, now: Outlook) -> Wish:
        """Say how many records a half-width, or the smallest AUC, takes: the effective number grows as the number."""
        z = _deviations(plan)
        error = value / z if wanted == "half_width" else (value - 0.5) / (z + float(special.ndtri(power)))
        more: list[int | None] = []
        for part in (self.unrelated, self.related):
            room = error**2 - self.members
            more.append(math.ceil(now.nonmembers * part / room) if room > 0 else None)
        return Wish(wanted, value, (more[0], more[1]), ((self.best / error) ** 2, (self.worst / error) ** 2))


def _deviations(plan: Plan) -> float:
    """Standard errors in half an interval."""
    return float(special.ndtri((1 + plan.confidence) / 2))


def _following(evidence: Evidence, correction: Correction, plan: Plan, rng: np.random.Generator) -> float:
    """Half the widest interval that the audit would give a score that is a covariate: one of the two that differ most.

    AIPW adds to the standard error what its regression and the weights say differently, which is most for such scores.
    The log-odds themselves are none: where nothing differs they are noise that was learned, and opposed to membership.
    """
    x = correction.propensity.features
    if x is None:
        return 0.0
    apart = np.abs(x[evidence.member].mean(axis=0) - x[~evidence.member].mean(axis=0)) / (x.std(axis=0) + 1e-12)
    options: dict[str, Any] = {"method": plan.estimator, "outcome": correction.nuisance.outcome}
    options["confidence"] = plan.confidence
    scores = [evidence.replace(score=x[:, i]) for i in np.argsort(-apart)[:2]]
    estimates = [effects.auc(score, correction.propensity, **options, rng=rng) for score in scores]
    return max((one.high - one.low) / 2 for one in estimates)


def _levels(evidence: Evidence, correction: Correction, plan: Plan, rng: np.random.Generator) -> Iterator[Level]:
    simulated = [evidence.replace(score=rng.normal(size=evidence.n)) for _ in range(_DRAWS)]
    for fpr in plan.fpr_targets:
        options: dict[str, Any] = {"fpr": fpr, "confidence": plan.confidence, "rng": rng}
        estimates = [effects.tpr_at_fpr(one, correction.propensity, **options) for one in simulated]
        low, high = (float(np.median([getattr(one, end) for one in estimates])) for end in ("low", "high"))
        yield Level(fpr, low, high, bool(np.median([one.low > 0 for one in estimates]) > 0.5))


# -- what would help ---------------------------------------------------------------------------------------------------


def _remedies(
    evidence: Evidence, plan: Plan, correction: Correction, found: Outlook, rng: np.random.Generator
) -> Iterator[Remedy]:
    """Yield what would help by itself, the most useful first: rows to leave out or to add, columns in the way."""
    rows_rng, columns_rng = rng.spawn(2)
    with stage("without levels"):
        yield from _without_levels(evidence, plan, found.power, rng)
    with stage("without rows"):
        yield from _without_rows(evidence, plan, correction, found.power, rows_rng)
    overlap = correction.overlap
    short = max(
        balance.FEWEST_EFFECTIVE / overlap.effective_sample_size, overlap.largest_weight / balance.LARGEST_WEIGHT
    )
    if short > 1:
        needed = math.ceil(found.nonmembers * short)
        yield Remedy(
            f"More non-members: at least about {needed:,} in all ({needed - found.nonmembers:,} more), if the "
            "others are like those there are; fewer, if they are like the members."
        )
    with stage("without columns"):
        yield from _without_columns(evidence, plan, correction, found.power, columns_rng)


def _without_levels(evidence: Evidence, plan: Plan, power: float, rng: np.random.Generator) -> Iterator[Remedy]:
    """Try the audit without the levels that have hardly any non-members, and name the option that leaves them out."""
    encoding = zero_run.encoding_of(evidence, plan, Nuisance())
    sparse = SparseLevels.of(evidence, encoding.columns if isinstance(encoding, Categories) else ())
    if sparse is None or sparse.members == evidence.n_members or sparse.nonmembers == evidence.n_nonmembers:
        return
    again = _foreseen(evidence.take(~sparse.rows), plan, Nuisance(), power, rng.spawn(1)[0])[0]
    out = f"Leave out {sparse.place} ({exclusions(sparse.levels)}): {sparse.members:,} members"
    rows = tuple(np.flatnonzero(sparse.rows).tolist())
    yield Remedy(
        f"{out} and {sparse.nonmembers:,} non-members. Then {_in_words(again)}, for the members that are left.",
        again.answered,
        rows,
    )


def _without_rows(
    evidence: Evidence, plan: Plan, correction: Correction, power: float, rng: np.random.Generator
) -> Iterator[Remedy]:
    """Try the audit without the records that are too rare among the non-members; yield what came of it."""
    tried = None
    for keep in _comparable(evidence, correction.propensity):
        again = _foreseen(evidence.take(keep), plan, Nuisance(), power, rng.spawn(1)[0])[0]
        tried = keep, again
        if again.answered:
            break
    if tried is None:
        alike = _marks(evidence, evidence.member, plan)
        if alike and correction.overlap.without_match > 0:
            share = f"{correction.overlap.without_match:.0%}"
            yield Remedy(f"Add non-members like the {share} of members that none is like: {'; '.join(alike)}.")
        return
    keep, again = tried
    gone = ~keep & evidence.member
    out = (
        f"Leave out the {np.count_nonzero(gone):,} members ({gone.sum() / evidence.n_members:.0%}) that hardly any "
        f"non-member is like, and {np.count_nonzero(~keep & ~evidence.member):,} non-members like them"
    )
    rows = tuple(np.flatnonzero(~keep).tolist())
    yield Remedy(f"{out}: {_in_words(again)}, for the members that are left.", again.answered, rows)
    if marks := _marks(evidence, gone, plan):
        yield Remedy(f"Add non-members that are like those members: {'; '.join(marks)}.")


def _comparable(evidence: Evidence, propensity: Propensity) -> Iterator[BoolArray]:
    """Yield records (n,) whose log-odds lie where there are non-members enough, most of them first; at most three.

    The highest limit on the log-odds at which those below it pass the parts of the gate that weights decide, and two
    lower ones.
    """
    log_odds, plain = np.log(propensity.odds), evidence.replace(covariates=None, covariate_names=(), text=None)
    share, tries = 1.0, 0
    while share > _LEAST_LEFT and tries < _TRIES:
        keep = _whole_units(log_odds <= np.quantile(log_odds, share), evidence)
        inside, outside = (int(np.count_nonzero(keep & kind)) for kind in (evidence.member, ~evidence.member))
        if min(inside, outside) < _FEWEST:
            return
        measured = balance.measure(plain.take(keep), Propensity.given(propensity.values[keep]))
        passes = all(status != "refused" for status, _ in balance.checks(measured))
        if passes and not keep.all():
            tries += 1
            yield keep
        share -= _STEP * (5 if passes else 1)


def _whole_units(keep: BoolArray, evidence: Evidence) -> BoolArray:
    if evidence.unit_codes is None:
        return keep
    partial = np.bincount(evidence.unit_codes, weights=~keep) > 0
    return np.asarray(~partial[evidence.unit_codes])


def _without_columns(
    evidence: Evidence, plan: Plan, correction: Correction, power: float, rng: np.random.Generator
) -> Iterator[Remedy]:
    """Try the audit without each column that stands in the way, and yield those whose absence lets it be answered."""
    x, fit = evidence.covariates, correction.overlap.fit
    if x is None or x.shape[1] < 2 or plan.components is not None:
        return
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    missed = () if fit is None else fit.missed
    by_name = separation.ranked(evidence, plan.categories)
    alone = [by_name[name] for name in names]
    order = sorted(range(len(names)), key=lambda i: (names[i] not in missed, -alone[i]))
    for i in order[:_SUSPECTS]:
        rest = evidence.replace(covariates=np.delete(x, i, axis=1), covariate_names=_others(names, i, evidence))
        fewer = replace(plan, categories=tuple(name for name in plan.categories if name != names[i]))
        again = _foreseen(rest, fewer, Nuisance(), power, rng.spawn(1)[0])[0]
        if again.answered:
            yield Remedy(
                f"Without {names[i]}, which alone tells members from non-members by an AUC of {alone[i]:.2f}: "
                f"{_in_words(again)}. This is right only where {names[i]} has nothing to do with the score, as an "
                "identifier, or what was recorded after training; else what it explains shows as memorisation.",
                True,
                columns=(names[i],),
            )


def _others(names: tuple[str, ...], i: int, evidence: Evidence) -> tuple[str, ...]:
    return (*names[:i], *names[i + 1 :]) if evidence.covariate_names else ()


def _in_words(again: Outlook) -> str:
    if again.half_width is None:
        return f"it would still be refused ({again.reasons[0].rstrip('.')})"
    return f"it would be answered, the AUC known within {again.half_width[0]:.3f} to {again.half_width[1]:.3f}"


def _marks(evidence: Evidence, gone: BoolArray, plan: Plan) -> tuple[str, ...]:
    """Say in which columns, at most three, some members differ most from the non-members; of categories, by level."""
    x = evidence.covariates
    if x is None:
        return ()
    names = evidence.covariate_names or tuple(f"covariate {i}" for i in range(x.shape[1]))
    theirs, others = x[gone], x[~evidence.member]
    scale = np.maximum(x.std(axis=0), 1e-300)
    apart = np.abs(theirs.mean(axis=0) - others.mean(axis=0)) / scale
    marks: list[tuple[float, str]] = []
    for i, name in enumerate(names):
        levels = np.unique(x[:, i])
        if name in plan.categories or len(levels) == 2:
            lift = [float((theirs[:, i] == v).mean() - (others[:, i] == v).mean()) for v in levels]
            v = levels[int(np.argmax(lift))]
            share, rest = (float((part[:, i] == v).mean()) for part in (theirs, others))
            spread = math.sqrt(max(share * (1 - share), rest * (1 - rest), 1e-4))
            level = f"{name} = {evidence.level_name(name, float(v))}"
            marks.append((max(lift) / spread, f"{level} ({share:.0%} of them, {rest:.0%} of the non-members)"))
        else:
            means = f"{theirs[:, i].mean():.4g}, of the non-members {others[:, i].mean():.4g}"
            marks.append((float(apart[i]), f"{name} (on average {means})"))
    return tuple(text for size, text in sorted(marks, reverse=True)[:3] if size > _APART)


def _check(**asked: tuple[float | None, float, float]) -> None:
    for name, (value, low, high) in asked.items():
        if value is not None and not low < value < high:
            raise InputError(name, f"a number in ({low:g}, {high:g})", str(value), "change it")

"""What is audited by a plan: the records and scores that are measured, and the scores that count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from miaudit.arrays import FloatArray, IndexArray
from miaudit.auditing.excluded_levels import excluded
from miaudit.auditing.fair_coins import FairCoins
from miaudit.auditing.headline import Bonferroni, Declared, Exploratory, Split
from miaudit.auditing.plan import Plan
from miaudit.auditing.reference import UNUSED, parted
from miaudit.errors import InputError, nearest
from miaudit.evidence import REFERENCE, Evidence
from miaudit.findings.audit import ExcludedLevels
from miaudit.findings.judge import Scored, p_value
from miaudit.findings.policy import PARAMETERS
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample
from miaudit.metrics.counted_evidence import CountedEvidence
from miaudit.metrics.counted_sample import CountedSample


@dataclass(frozen=True, eq=False)
class Case:
    """What is audited by a plan: measured scores and records, the score of the verdict, and the price of the choice.

    ``references`` are the reference scores (n,) of the audited records by name, of zero-run and matched evidence.
    ``coins`` are those of evidence with stated chances of inclusion, and ``fair`` the records that thinning leaves for
    bounds.
    """

    plan: Plan
    audited: Evidence
    names: tuple[str, ...]
    judged: tuple[str, ...]
    headline: str | None
    confidence: float
    corrections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exploratory: bool = False
    rows: IndexArray | None = None  # of the evidence, where only a part of it is audited
    excluded: ExcludedLevels | None = None
    references: Mapping[str, FloatArray] = field(default_factory=dict)
    coins: FairCoins | None = None
    fair: Evidence | None = None

    @property
    def of_bounds(self) -> Evidence | None:
        """The records that bounds rest on; None where thinning to fair coins leaves too few."""
        return self.fair if self.coins is not None and self.coins.thins else self.audited

    @property
    def given(self) -> bool:
        """Whether zero-run evidence has neither covariates nor texts, so that only given propensities correct it."""
        audited = self.audited
        return audited.design == "zero-run" and audited.covariates is None and audited.text is None

    @cached_property
    def samples(self) -> dict[str, Sample]:
        """The audited records under each score."""
        if isinstance(self.audited, CountedEvidence):
            return {name: CountedSample(self.audited.counts) for name in self.names}
        return {name: Sample.of(self.audited.only(name)) for name in self.names}


def paid(plan: Plan, evidence: Evidence, coins: SealedCoins | None) -> Plan:
    """Return the plan at the confidence that pays for scores that were signed for, and for earlier draws.

    A declared score pays for all that were signed: which of them was declared beforehand shows nowhere.
    """
    if coins is None:
        return plan
    own = len(evidence.scores) if isinstance(plan.headline, Bonferroni | Split) else 1
    price = coins.price(own)
    return plan if price == 1 else replace(plan, confidence=1 - (1 - plan.confidence) / price)


def choose(evidence: Evidence, plan: Plan, *, rng: np.random.Generator) -> Case:
    """Choose the measured scores, their records and their confidence.

    Raises
    ------
    InputError
        If the plan names a score or a level that the evidence does not have, or a split or thinning to fair coins
        leaves a class empty; for reference scores that :func:`miaudit.auditing.reference.parted` refuses.
    """
    if plan.exclude_levels:
        left, what = excluded(evidence, plan.exclude_levels)
        rows = np.flatnonzero(left)
        case = choose(evidence.take(rows), replace(plan, exclude_levels=()), rng=rng)
        return replace(case, plan=plan, rows=rows if case.rows is None else rows[case.rows], excluded=what)
    coins = None if evidence.inclusion is None else FairCoins.tossed(evidence, rng=rng.spawn(1)[0])
    if coins is None:
        return _measured(evidence, plan, rng)
    case = _measured(coins.measured(evidence), plan, rng)
    case = replace(case, rows=coins.among_all(case.rows), coins=coins)
    return replace(case, fair=coins.fair(evidence, case.rows))


def _measured(evidence: Evidence, plan: Plan, rng: np.random.Generator) -> Case:
    """Choose among the records that metrics use."""
    references: Mapping[str, FloatArray]
    if plan.reference is not None:
        audited, references = parted(evidence, plan.reference)
    elif evidence.design == "matched" and REFERENCE in evidence.scores:
        audited, references = _without_reference(evidence)
    else:
        return _chosen(evidence, plan, rng)
    case = _chosen(audited, plan, rng)
    if case.rows is not None:
        references = {name: values[case.rows] for name, values in references.items()}
    unused = () if references else (UNUSED,)
    return replace(case, references=references, notes=(*case.notes, *unused))


def _without_reference(evidence: Evidence) -> tuple[Evidence, dict[str, FloatArray]]:
    """Part the scores of the reference model of matched evidence from those that are audited."""
    audited = {name: values for name, values in evidence.scores.items() if name != REFERENCE}
    if not audited:
        hint = "add a score of the audited model, by another name"
        raise InputError("score", f"a score beside {REFERENCE}", REFERENCE, hint)
    return evidence.replace(score=audited), {REFERENCE: evidence.scores[REFERENCE]}


def _chosen(evidence: Evidence, plan: Plan, rng: np.random.Generator) -> Case:
    names = tuple(evidence.scores)
    if isinstance(plan.headline, Declared):
        if plan.headline.score not in names:
            hint = nearest(plan.headline.score, names) or "or bonferroni, split, exploratory"
            raise InputError("headline", f"one of {', '.join(names)}", repr(plan.headline.score), hint)
        name = plan.headline.score
        return Case(plan, evidence, names, (name,), name, plan.confidence)
    if len(names) == 1:
        return Case(plan, evidence, names, names, names[0], plan.confidence)
    match plan.headline:
        case Bonferroni():
            confidence = 1 - (1 - plan.confidence) / len(names)
            sentence = (
                f"{len(names)} scores were looked at: every interval is widened (Bonferroni) to hold for all of them."
            )
            return Case(plan, evidence, names, names, None, confidence, (sentence,))
        case Split() if evidence.run is not None:
            hint = "name the score beforehand, or use bonferroni"
            raise InputError("headline", "no split of several runs, which audit the same records", "split", hint)
        case Split(share):
            pilot, rest, rows = _split_units(evidence, share, rng)
            best = _strongest(pilot, plan)
            sentence = (
                f"The score {best} was chosen on a random {share:.0%} of the units; every number is from the rest."
            )
            return Case(plan, rest, names, (best,), best, plan.confidence, (sentence,), rows=rows)
        case Exploratory():
            best = _strongest(evidence, plan)
            sentence = (
                f"{best} is the strongest of {len(names)} scores on the data that chose it: exploratory, uncorrected."
            )
            return Case(plan, evidence, names, (best,), best, plan.confidence, (), (sentence,), exploratory=True)


def _strongest(evidence: Evidence, plan: Plan) -> str:
    """Return the score that is nearest to exceeding a limit; of equal ones that with the largest AUC."""

    def strength(score: str) -> tuple[float, float]:
        sample = Sample.of(evidence.only(score))
        one = Scored(score, definition.estimator(sample), sample.effective_nonmembers)
        known = [limit for limit in plan.policy.limits if limit[0] not in PARAMETERS]
        return -min((p_value(one, *limit) for limit in known), default=1.0), sample.roc.auc

    return max(evidence.scores, key=strength)


def _split_units(evidence: Evidence, share: float, rng: np.random.Generator) -> tuple[Evidence, Evidence, IndexArray]:
    codes = np.arange(evidence.n) if evidence.unit_codes is None else evidence.unit_codes
    pilot = (rng.random(int(codes.max()) + 1) < share)[codes]
    for part in (pilot, ~pilot):
        if not part.any() or evidence.member[part].all() or not evidence.member[part].any():
            raise InputError(
                "headline", "enough records for a split", f"{evidence.n}", "use bonferroni instead of split"
            )
    return evidence.take(pilot), evidence.take(~pilot), np.flatnonzero(~pilot)

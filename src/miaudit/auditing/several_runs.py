"""Bounds from several runs of the same training: those of all runs, and what fewer would have shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from miaudit.auditing.bounds import UNDECLARED, Bounded, best_of
from miaudit.auditing.case import Case
from miaudit.auditing.plan import Bounds
from miaudit.dp import several_runs, shared_noise
from miaudit.dp.ceiling import one_run_ceiling
from miaudit.dp.several_runs import Anytime, RankedRuns
from miaudit.dp.verdict import Claim, LowerBound
from miaudit.evidence import Evidence
from miaudit.findings.several_runs import SeveralRuns
from miaudit.metrics.classical import Sample
from miaudit.metrics.rounding import lower_text, upper_text

ASSUMED = (
    "Several runs on the same records, each with coins of its own: intervals of metrics take the rows of all runs "
    "together, and are about these records, not about others like them."
)


def require_own_noise(evidence: Evidence) -> None:
    """Refuse several runs that share their noise, by any of their scores.

    Raises
    ------
    InputError
        As :func:`miaudit.dp.shared_noise.require_own_noise`.
    """
    if evidence.run is not None:
        for name in evidence.scores:
            shared_noise.require_own_noise(evidence.only(name).runs)


def assess(case: Case, claim: Claim | None, rng: np.random.Generator) -> Bounded:
    """Compute the bounds of evidence with several runs, of the score with the largest, and how they grew.

    Parameters
    ----------
    case, claim : as of :func:`miaudit.auditing.bounds.assess`
    rng : draws the order of ties, records of units, and records left out for balance

    Raises
    ------
    InputError, DesignError
        For runs whose coins or scores cannot be independent: see :func:`miaudit.dp.several_runs.require_independent`.
    """
    options, evidence = case.plan.bounds, case.audited
    if options is None:
        return Bounded()
    if evidence.design is None:
        return Bounded(reasons=(UNDECLARED,))
    by_score = [
        _of_score(evidence.only(name), options, claim, case.confidence, child)
        for name, child in zip(case.judged, rng.spawn(len(case.judged)), strict=True)
    ]
    best = max(by_score, key=lambda one: one[0].value)[2]
    price = "; ".join(case.corrections)
    best_mu, best_epsilon = (
        best_of(bounds, "", price, exploratory=case.exploratory)
        for bounds in ([mu for mu, _, _ in by_score], [epsilon for _, epsilon, _ in by_score])
    )
    return Bounded((best_mu, best_epsilon), runs=best)


def _of_score(
    evidence: Evidence, options: Bounds, claim: Claim | None, confidence: float, rng: np.random.Generator
) -> tuple[LowerBound, LowerBound, SeveralRuns]:
    """Bounds on mu and on epsilon of one score, and how that on mu grew."""
    delta = claim.delta if claim is not None and claim.parameter == "epsilon" else options.delta
    of_mu, of_epsilon = rng.spawn(2)
    together: dict[str, Any] = {"at_least": options.at_least, "confidence": confidence}
    ranked = RankedRuns.of(evidence.runs, parameter="mu", guesses=options.guesses, rng=of_mu)
    mu = ranked.lower_bound(**together)
    options_of_epsilon: dict[str, Any] = {"parameter": "epsilon", "delta": delta, "guesses": options.guesses}
    epsilon = several_runs.audit(evidence.runs, rng=of_epsilon, **options_of_epsilon, **together)
    return mu, epsilon, _shown(evidence, ranked, mu, options, claim, confidence)


def _shown(
    evidence: Evidence,
    ranked: RankedRuns,
    mu: LowerBound,
    options: Bounds,
    claim: Claim | None,
    confidence: float,
) -> SeveralRuns:
    runs, way = evidence.runs, several_runs.combination(options.at_least)
    audited, level = ranked.audited(options.at_least), ranked.level(confidence, options.at_least)
    alone: tuple[float, ...] = ()
    grown: tuple[float, ...] = ()
    if not mu.exploratory:
        alone = tuple(ranked.alone(place, confidence).value for place in range(len(runs)))
        few = options.at_least if isinstance(options.at_least, Anytime) else None
        grown = tuple(
            ranked.first(k).lower_bound(confidence=confidence, at_least=few).value for k in range(1, len(runs))
        )
    claimed = claim.value if claim is not None and claim.parameter == "mu" else None
    ceiling = None if claimed is None else one_run_ceiling(claimed, runs[0].n_units, confidence=confidence)
    summary = SeveralRuns(
        runs=len(runs),
        audited=audited,
        records=runs[0].n,
        score=next(iter(evidence.scores)),
        level=level,
        refuting=way.in_words(audited, level),
        auc=tuple(Sample.of(run).roc.auc for run in runs),
        alone=alone,
        by_number=(*grown, mu.value) if grown or len(runs) == 1 else (),
        ceiling=ceiling,
        text="-",
    )
    return replace(summary, text=_text(summary, mu, claimed))


def _text(summary: SeveralRuns, mu: LowerBound, claimed: float | None) -> str:
    several = f"{summary.runs} runs"
    first = " Run 1 chose the number of guesses and is not audited itself." if summary.audited < summary.runs else ""
    if not mu.value:
        return f"{several} together show nothing of mu: {summary.refuting}.{first}"
    text = f"{several} together show a mu of at least {lower_text(mu.value)}"
    if summary.alone:
        best, least = lower_text(max(summary.alone)), lower_text(min(summary.alone))
        text += f", each by itself {least}" + (f" to {best}" if best != least else "")
    if summary.ceiling is None or claimed is None:
        return f"{text}.{first}"
    exactly, top = f"a Gaussian mechanism with exactly the claimed mu of {claimed:.4g}", upper_text(summary.ceiling)
    proven = (
        f"lower bounds of one run, counted up to that mu, have a mean of at most {top}, whatever the attack and test"
    )
    return f"{text}.{first} For {exactly}, {proven}."

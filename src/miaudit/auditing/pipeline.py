"""The audit from evidence to findings, in order."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.arrays import IndexArray
from miaudit.auditing import (
    bounds,
    by_covariates,
    fair_coins,
    judgement,
    matched,
    material,
    remarks,
    sensitivity,
    several_runs,
    stage_costs,
    withholding,
    zero_run,
)
from miaudit.auditing import seed as seeds
from miaudit.auditing.bounds import Bounded
from miaudit.auditing.case import Case, choose, paid
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.gates import Gates
from miaudit.auditing.group_findings import of_groups
from miaudit.auditing.judgement import Judged
from miaudit.auditing.measurements import Measurements
from miaudit.auditing.plan import Plan
from miaudit.auditing.unused_columns import UnusedValues, shown
from miaudit.auditing.zero_run import Correction
from miaudit.causal import concentration
from miaudit.causal.progress import reported, stage
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.dp.verdict import Claim, ClaimVerdict
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence
from miaudit.findings import verdict as verdict_rule
from miaudit.findings.audit import Counts, Curve, Findings, Memorisation, ScoreFindings, Vulnerability
from miaudit.findings.metric import Metric
from miaudit.findings.sealed_coins import SealedCoins, check_agreed
from miaudit.findings.sensitivity import Sensitivity
from miaudit.metrics import classical
from miaudit.metrics.matched_scores import Candidates, standardised

_ASSUMED = {
    "one-run": "One model; whether each record was trained on was decided at random (declared, not checked).",
    "inclusion": "One model; for each record, or unit, chance decided by itself whether it was trained on, with the "
    "stated chance (declared; the numbers of members were compared with these chances).",
    "coins": "The model was trained on the records that sealed coins chose, and on none that they left out (declared, "
    "not checked); that memberships are these coins was checked.",
    "multi-run": "One model per record; whether it was trained on was decided at random (declared, not checked).",
    "matched": "Chance drew each true string from the law of its decoys, and the model never saw the decoys (declared; "
    "what tested the law is listed, if anything did).",
    "zero-run": "Nothing about how membership came about: raw numbers are not causal.",
    "corrected": "Given the covariates, whether a record is a member has nothing to do with its potential scores; how "
    "strong an unmeasured trait would have to be to change the result is what the sensitivity analysis says.",
    "given": "Given its stated propensity, whether a record is a member has nothing to do with its potential scores; "
    "how strong an unmeasured trait would have to be to change the result is what the sensitivity analysis says.",
    None: "It is not declared how membership came about. If not at random, the numbers mix memorisation with shift.",
}


def audit(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: seeds.Given = None,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    stability: concentration.Measured | None = None,
    coins: SealedCoins | None = None,
    unused: UnusedValues | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure how much an attack reveals about membership, and how reliable the numbers are.

    Parameters
    ----------
    evidence : Evidence
    plan : Plan, optional
        Every option; the default has targets 0.1%, 1% and 10% and intervals of 95%.
    nuisance : Nuisance, optional
        For zero-run evidence: models of your own for the propensity and for the outcome, or a known propensity.
    rng : numpy.random.Generator, or a whole number from 0, its seed; optional
        For the bootstrap and the split; two audits with equal generators give equal findings. Without one a seed is
        drawn. A seed stands in ``findings.repeat``.
    notes : sequence of str
        What the collector of the evidence has to say; shown with the findings.
    repeat : mapping
        How to repeat the audit (command, seed); shown with the findings.
    vulnerability : Vulnerability, optional
        Which records leak, from shadow models; shown with the findings, and no part of the verdict.
    stability : miaudit.collect.stability.Stability, optional
        Of the training, in units of the score, for one-run and zero-run evidence: what it guarantees is shown.
    coins : SealedCoins, optional
        Of one-run evidence whose coins two parties drew together: ``SealedCoins.of(coins, evidence)`` checks them.
    unused : UnusedValues, optional
        Of zero-run evidence: columns of its file that are no covariates (:mod:`miaudit.collect.unused_columns`). What
        they show stands in ``findings.unused_columns``, and changes no number.
    progress : function of how much of the work is done and of the whole, optional
        The share never falls, and is the whole only at the end (:mod:`miaudit.auditing.stage_costs`).

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the plan names a score that the evidence does not have, a split leaves a class empty, or there are nuisance
        models without zero-run evidence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(4000) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=4000) + member, member=member, design="one-run")
    >>> findings = audit(evidence, rng=rng)
    >>> findings.verdict.status, round(findings.metric("auc").value, 2)
    ('flagged', 0.76)
    """
    generator, recorded, sentences = seeds.generator(rng)
    if isinstance(evidence, Evidence):  # else it is refused below
        sentences = (*sentences, *remarks.beforehand(evidence, plan, stability))
    return examine(
        evidence,
        plan=plan,
        nuisance=nuisance,
        rng=generator,
        notes=(*notes, *sentences),
        repeat={**recorded, **(repeat or {})},
        vulnerability=vulnerability,
        coins=coins,
        unused=unused,
        progress=progress,
    )[0]


def examine(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    coins: SealedCoins | None = None,
    unused: UnusedValues | None = None,
    progress: Callable[[int, int], None] | None = None,
    turn: str = verdict_rule.TURN,
) -> tuple[Findings, Propensity | None, IndexArray | None]:
    """Audit as :func:`audit` does, and keep the propensities for a bundle.

    ``turn`` says how scores that point the wrong way are turned, where they did not come from a caller's file.

    Returns
    -------
    findings : Findings
    propensity : Propensity of the audited rows, or None where nothing was corrected
    rows : array of indices of the audited rows, or None for all of them
    """
    plan = plan or Plan()
    _check(evidence, plan, nuisance, rng)
    with reported(stage_costs.of_audit(evidence, plan), progress):
        return _examine(evidence, plan, nuisance, rng, notes, repeat, vulnerability, coins, unused, turn)


def _examine(
    evidence: Evidence,
    plan: Plan,
    nuisance: Nuisance | None,
    rng: np.random.Generator,
    notes: Sequence[str],
    repeat: Mapping[str, Any] | None,
    vulnerability: Vulnerability | None,
    coins: SealedCoins | None,
    unused: UnusedValues | None,
    turn: str,
) -> tuple[Findings, Propensity | None, IndexArray | None]:
    if coins is not None:
        if evidence.inclusion is not None:
            hint = "leave them out: these coins were fair"
            raise InputError("inclusion", "no chances beside sealed coins", "chances", hint)
        check_agreed(coins.agreed, plan.policy, plan.confidence)
    streams = seeds.AuditStreams.of(rng)
    case = choose(evidence, paid(plan, evidence, coins), rng=streams.choice)
    case = zero_run.sampled(case, nuisance, streams.choice) if evidence.design == "zero-run" else case
    gates = Gates.of(case, nuisance, streams).weighed(case, streams.causal)
    examined, gates, strength = _concluded(case, gates, streams, coins=coins, turn=turn)
    with stage("findings"):
        findings = _findings(examined, evidence, plan, coins=coins, notes=notes, rng=streams.causal)
    findings = replace(findings, vulnerability=vulnerability, repeat=_repeated(repeat))
    findings = replace(findings, unused_columns=shown(unused, case, gates.propensity))
    findings = replace(findings, sensitivity=strength)
    if case.plan.by_covariates:
        with stage("by covariates"):
            kinds = by_covariates.measure(
                case, examined.judged.best, gates.used, gates.obstacle, rng=streams.causal.spawn(1)[0]
            )
        findings = replace(findings, by_covariates=kinds)
    return findings, gates.propensity, case.rows


def _concluded(
    case: Case, gates: Gates, streams: seeds.AuditStreams, **options: Any
) -> tuple[_Examined, Gates, Sensitivity | None]:
    """Conclude, and once more without corrections where their propensity is known to be wrong by as much as matters."""
    examined = _Examined.of(case, gates, streams, **options)
    with stage("sensitivity"):
        strength = _sensitivity(examined, streams)
    if refuting := _known_to_be_wrong(examined, strength):
        gates = examined.gates.refused(refuting)
        return _Examined.of(case, gates, streams, **options), gates, None
    return examined, gates, strength


def _repeated(repeat: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return how to repeat the audit, with the versions that it was made with."""
    return {**(repeat or {}), "python": platform.python_version(), "numpy": np.__version__}


@dataclass(frozen=True, eq=False)
class _Examined:
    """A case with all that was concluded from it."""

    case: Case
    gates: Gates
    bounded: Bounded
    claim: ClaimVerdict | None
    measured: Measurements
    judged: Judged

    @classmethod
    def of(
        cls,
        case: Case,
        gates: Gates,
        streams: seeds.AuditStreams,
        *,
        coins: SealedCoins | None,
        turn: str,
    ) -> _Examined:
        """Bound, measure and judge a case whose gates are known."""
        claim, upper = bounds.claimed(case.plan.bounds)
        bounded = _bounded(case, claim, gates, streams.bounds)
        gates = gates.challenged(bounded.challenge)
        measured = Measurements.of(case, gates.used, gates.corrected, streams)
        with stage("judgement"):
            judged = judgement.judged(
                case,
                measured,
                gates,
                bounding=lambda other: _bounded(other, None, gates, streams.bounds).lower,
                fair_coins=coins is not None,
                turn=turn,
                rng=streams.verdict,
            )
        judged_claim = bounds.judge(claim, bounded, upper)
        return cls(case, gates, bounded, judged_claim, measured, judgement.with_all_scores(judged, coins))


def _findings(
    examined: _Examined,
    evidence: Evidence,
    plan: Plan,
    *,
    coins: SealedCoins | None,
    notes: Sequence[str],
    rng: np.random.Generator,
) -> Findings:
    """Write down what was concluded; ``rng`` draws the folds of groups and of wrong labels, in this order."""
    case, gates, bounded, measured = examined.case, examined.gates, examined.bounded, examined.measured
    judged, best, used = examined.judged, examined.judged.best, examined.gates.used
    scores = _score_findings(examined, plan)
    groups = of_groups(case, best, used, measured.disagreements.get(best, ""), rng) if gates.shows_metrics(plan) else ()
    return Findings(
        verdict=judged.verdict.beside(
            *judgement.all_the_same(judged, scores, groups, bounded.lower, plan.policy, gates.matched)
        ),
        metrics=scores[0].metrics,
        design=evidence.design,
        counts=Counts.of_sample(case.samples[best], measured.nonmembers[best], case.confidence),
        scores=scores,
        plan=plan.to_dict(),
        evidence={"digest": evidence.digest, "source": evidence.source, "scores": list(evidence.scores)},
        groups=groups,
        overlap=None if gates.correction is None else gates.correction.overlap,
        memorisation=_memorisation(case, used, measured, best, rng),
        challenge=bounded.challenge,
        claim=examined.claim,
        bounds=bounded.lower,
        no_bound=bounded.reasons,
        corrections=(
            *case.corrections,
            *([] if case.coins is None or case.coins.obstacle else [case.coins.inclusion.text]),
            *_corrections(used, plan, measured),
            *([] if coins is None else coins.paid_for),
        ),
        assumptions=(
            *((several_runs.ASSUMED,) if evidence.run is not None else ()),
            _ASSUMED[_assumed(case, used, coins)],
            case.samples[best].independence,
        ),
        notes=(
            *notes,
            *case.notes,
            *bounds.without_use(plan.bounds, evidence),
            *([gates.design.note] if gates.design.note else []),
            *remarks.on_scores(case, judged.verdict, best),
        ),
        rows=_most_exposed(case.audited.only(best), plan.row_level, case.rows),
        covariates_alone=gates.design.alone,
        reference=gates.reference,
        several_runs=bounded.runs,
        sealed_coins=coins,
        surest_members=judged.surest,
        excluded=case.excluded,
        matched=gates.matched,
        inclusion=None if case.coins is None else case.coins.inclusion,
    )


def _corrections(used: Correction | None, plan: Plan, measured: Measurements) -> tuple[str, ...]:
    """Describe the corrections of zero-run evidence, and what is withheld all the same."""
    if used is None:
        return ()
    return (*zero_run.in_words(used, plan), *withholding.in_words(measured.metrics, measured.disagreements))


def _assumed(case: Case, used: Correction | None, coins: SealedCoins | None) -> str | None:
    """Return what the numbers rest on; coins that one party drew alone are as good as its word."""
    if coins is not None and coins.answer is not None:
        return "coins"
    if case.coins is not None:
        return "inclusion"
    if used is None:
        return case.audited.design
    return "given" if case.given else "corrected"


def _check(evidence: Any, plan: Any, nuisance: Any, rng: Any) -> None:
    if not isinstance(evidence, Evidence):
        hint = "Evidence(score=..., member=...); Evidence.from_frame and Evidence.load read columns"
        raise InputError("evidence", "a miaudit.Evidence", type(evidence).__name__, hint)
    check_generator(rng)
    if not isinstance(plan, Plan):
        raise InputError("plan", "a miaudit.Plan", type(plan).__name__, "pass miaudit.Plan(...)")
    if evidence.run is not None and evidence.design not in (None, "one-run"):
        hint = "audit each training by itself: only coins that are tossed anew make several runs of one"
        raise InputError("run", "none, unless the design is one-run", str(evidence.design), hint)
    fair_coins.check(evidence)
    several_runs.require_own_noise(evidence)
    if nuisance is None:
        return
    if not isinstance(nuisance, Nuisance):
        received = type(nuisance).__name__
        raise InputError("nuisance", "a Nuisance", received, "pass miaudit.causal.propensity.Nuisance(...)")
    if evidence.design != "zero-run":
        raise InputError(
            "nuisance",
            "none, unless the design is zero-run",
            str(evidence.design),
            "leave it out: nothing is corrected",
        )


def _bounded(case: Case, claim: Claim | None, gates: Gates, rng: np.random.Generator) -> Bounded:
    """Bounds of one run, of many or of none; or of several runs of the same training. Each call draws the same."""
    again = copy.deepcopy(rng)
    if case.audited.design == "matched":
        return matched.assess(case, claim, gates.obstacle, again)
    if case.audited.run is None:
        return bounds.assess(case, claim, gates.correction, obstacle=gates.obstacle, rng=again)
    if gates.obstacle:
        return Bounded(reasons=() if case.plan.bounds is None else (gates.obstacle,))
    return several_runs.assess(case, claim, again)


def _memorisation(
    case: Case, correction: Correction | None, measured: Measurements, score: str, rng: np.random.Generator
) -> Memorisation | None:
    """Shift and memorisation of one score, where both were measured."""
    if correction is None:
        return None
    aucs = [metric for metric in measured.metrics[score] if metric.name == "auc"]
    return zero_run.memorisation(
        case.audited.only(score),
        correction.propensity,
        causal=aucs[0],
        raw=aucs[-1],
        contradicted=bool(measured.disagreements.get(score)),
        rng=rng,
    )


def _sensitivity(examined: _Examined, streams: seeds.AuditStreams) -> Sensitivity | None:
    """How strong an unmeasured trait would have to be, where weights that nothing contradicts correct the numbers."""
    used, measured = examined.gates.used, examined.measured
    if used is None or any(one.withheld for metrics in measured.metrics.values() for one in metrics):
        return None
    return sensitivity.of(
        examined.case,
        used,
        measured,
        examined.judged.verdict,
        examined.judged.best,
        examined.bounded,
        examined.claim,
        rng=copy.deepcopy(streams.verdict),
    )


def _known_to_be_wrong(examined: _Examined, strength: Sensitivity | None) -> str:
    """Why the weights of a conclusion are refuted after all: they miss as much as would change it; empty if not."""
    used = examined.gates.used
    if used is None or strength is None or strength.limits[0].limit == "mu":
        return ""
    known = material.known_error(used.propensity, used.moved)
    sentence = material.outweighs(known, strength.limits[0].factor)
    return f"{used.misfit} {sentence}" if sentence else ""


def _most_exposed(audited: Evidence, count: int, numbers: IndexArray | None) -> tuple[dict[str, Any], ...]:
    """Return the rows of the members with the highest scores, on request only."""
    if not count:
        return ()
    rows, scores = np.flatnonzero(audited.member), audited.score
    if audited.design == "matched":  # how far a true string exceeds its decoys
        candidates = Candidates.of(audited)
        scores = np.zeros(audited.n)
        scores[audited.candidate_rows[:, 0]] = standardised(candidates.true, candidates.decoys)[0].mean(axis=1)
    if count < len(rows):
        values = scores[rows]
        rows = rows[values >= np.partition(values, -count)[-count]]
    top = rows[np.argsort(-scores[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row if numbers is None else numbers[row]),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(scores[row]),
        }
        for row in top
    )


def _score_findings(examined: _Examined, plan: Plan) -> tuple[ScoreFindings, ...]:
    """Every score, the one that counts first; without metrics where none are shown."""
    case, measured, gates = examined.case, examined.measured, examined.gates
    return tuple(
        _of_score(
            case,
            name,
            measured.metrics[name] if gates.shows_metrics(plan) else (),
            measured.corrected.get(name),
            measured.nonmembers[name],
        )
        for name in sorted(case.names, key=lambda name: name != examined.judged.best)
    )


def _of_score(
    case: Case, name: str, metrics: tuple[Metric, ...], corrected: CorrectedScore | None, nonmembers: float
) -> ScoreFindings:
    """One score with its curve; without either where no metrics are shown."""
    sample, confidence = case.samples[name], case.confidence
    binned = sample.histogram()
    if not metrics:
        return ScoreFindings(name, (), None, binned)
    if any(metric.withheld for metric in metrics):  # the curve is one of TPRs
        return ScoreFindings(name, metrics, None, binned)
    resolved = classical.smallest_fpr(nonmembers, confidence)
    fpr = Curve.grid(case.plan.rates, nonmembers, resolved)
    if corrected is None:
        roc, (low, high) = sample.roc, sample.tpr_band(fpr, confidence)
    else:
        roc, low, high = corrected.tpr_band(fpr, confidence)
    return ScoreFindings(name, metrics, Curve.of(fpr, roc.tpr_at(fpr), low, high, resolved), binned)

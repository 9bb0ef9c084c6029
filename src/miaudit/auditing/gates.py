"""The gates of an audit: what corrects its numbers, and why the evidence allows no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miaudit.auditing import bounds, design_test, matched, shared_records, zero_run
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.design_test import DesignTest
from miaudit.auditing.material import Moves
from miaudit.auditing.plan import Plan
from miaudit.auditing.seed import AuditStreams
from miaudit.auditing.zero_run import Correction
from miaudit.causal import progress
from miaudit.causal.challenge import Challenge
from miaudit.causal.classifiers import CLASSIFIERS
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError
from miaudit.findings.audit import ReferenceFindings
from miaudit.findings.matched import Matched

__all__ = ["Gates"]


@dataclass(frozen=True, eq=False)
class Gates:
    """What the evidence passed, and where it was refused.

    Attributes
    ----------
    correction : of zero-run evidence whose propensity could be learned; refused where a gate refuses it
    obstacle : why there is no answer; empty where there is one
    design : what covariates alone say of membership, and of the declared design
    contradicted : whether there is no answer since the evidence contradicts its design
    reference : of reference scores; None without them
    corrected : each score with what corrects it; none where nothing is corrected
    matched : the law and the ranks of the strings of matched evidence; None of other designs
    """

    correction: Correction | None = None
    obstacle: str = ""
    design: DesignTest = field(default_factory=DesignTest)
    contradicted: bool = False
    reference: ReferenceFindings | None = None
    corrected: Mapping[str, CorrectedScore] = field(default_factory=dict)
    matched: Matched | None = None

    @classmethod
    def of(cls, case: Case, nuisance: Nuisance | None, streams: AuditStreams) -> Gates:
        """Assess zero-run evidence, test the declared design, and measure the reference scores.

        Raises
        ------
        InputError
            As :func:`miaudit.auditing.zero_run.assess`, or for two classifiers.
        """
        gates = cls()
        if case.audited.design == "zero-run":
            gates = gates._assessed(case, nuisance or Nuisance(), streams.assessment)
        elif case.audited.design == "matched":
            shown = matched.examine(case, streams.assessment)
            return replace(gates, matched=shown, obstacle=shown.obstacle, contradicted=bool(shown.obstacle))
        else:
            with progress.stage("design"):
                test = design_test.examine(case.audited, case.plan, rng=streams.correction.spawn(1)[0])
            gates = replace(gates, design=test)
        gates = gates._referenced(case, streams.correction)
        of_chances = "" if case.coins is None else case.coins.obstacle
        contradiction = of_chances or shared_records.obstacle(case.audited) or gates.design.obstacle
        if not contradiction:
            return gates
        return replace(gates.refused(contradiction), obstacle=contradiction, contradicted=True)

    @property
    def used(self) -> Correction | None:
        """The correction of the numbers; None where nothing is corrected, or the evidence allows no answer."""
        return self.correction if self.correction is not None and self.correction.answered else None

    @property
    def propensity(self) -> Propensity | None:
        """The propensity that was learned or given; None where nothing is corrected."""
        return None if self.correction is None else self.correction.propensity

    @property
    def of_verdict(self) -> Correction | None:
        """The correction that the verdict reads: without an answer, one that is refused says why."""
        return self.correction if self.obstacle else self.used

    def shows_metrics(self, plan: Plan) -> bool:
        """Return whether metrics are shown: those of a refused audit on request only."""
        return self.correction is None or self.used is not None or plan.raw_only

    def challenged(self, challenge: Challenge | None) -> Gates:
        """Refuse where the challenge of the bounds refutes the weights that are used, beyond noise of learning."""
        if self.correction is None or self.correction.line is not None or challenge is None:
            return self  # it was no stack that was challenged
        return self if challenge.p_value > bounds.BEYOND_LEARNING else self.refused(challenge.text)

    def weighed(self, case: Case, rng: np.random.Generator) -> Gates:
        """Correct the scores; refuse a refuted stack where one that counts shows that this matters, else warn of it."""
        correction = self.used
        if correction is None:
            return self
        model: tuple[Any, ...] = correction.propensity, case.plan, correction.nuisance
        corrected = {name: CorrectedScore.of(case.audited.only(name), *model, rng=rng) for name in case.audited.scores}
        with progress.stage("scores"):
            return replace(self, corrected=corrected)._moved(case, correction, rng)

    def _moved(self, case: Case, correction: Correction, rng: np.random.Generator) -> Gates:
        if not correction.moved:
            return self
        scores = [self.corrected[name] for name in case.judged]
        of_verdict = [name for name in case.plan.policy.metrics if name in case.plan.metric_names]
        names = list(dict.fromkeys([*of_verdict, "auc"]))  # a page shows the AUC first, whatever the verdict is about
        fit = correction.overlap.fit
        assert fit is not None  # noqa: S101 (what moves a propensity is its misfit)
        moves = Moves.of(scores, correction.moved, names, case.confidence, learned=fit.by_learned, rng=rng)
        if moves.matter:
            return self.refused(f"{correction.misfit} {moves.sentence}")
        warning = f"The propensity misses something that matters little: {fit.misfit} {moves.sentence}"
        return replace(self, correction=correction.warned(warning))

    def refused(self, reason: str) -> Gates:
        """Refuse the correction, where there is one, for this reason beside others."""
        if self.correction is None:
            return self
        refused = self.correction.refuted(reason)
        return replace(self, correction=refused, obstacle=_obstacle(refused))

    def _assessed(self, case: Case, nuisance: Nuisance, rng: np.random.Generator) -> Gates:
        models = _named_classifier(nuisance, case.plan).of_rows(case.rows)
        assessed = zero_run.assess(case.audited, case.plan, models, rng=rng)
        if isinstance(assessed, str):
            return replace(self, obstacle=assessed)
        return replace(self, correction=assessed, obstacle=_obstacle(assessed))

    def _referenced(self, case: Case, rng: np.random.Generator) -> Gates:
        """Measure the reference scores, and refuse where the one that tests the correction refutes it."""
        if not case.references:
            return self
        later = rng.spawn(1)[0]  # no other draw moves
        reference = zero_run.of_references(case.audited, case.references, self.correction, case.plan, rng=later)
        gates = replace(self, reference=reference)
        return gates.refused(reference.text) if reference is not None and reference.refuted else gates


def _named_classifier(nuisance: Nuisance, plan: Plan) -> Nuisance:
    """Learn with the classifier that the plan names, if it names one and the propensity is not there already."""
    if plan.classifier is None or nuisance.propensity is not None:
        return nuisance
    if nuisance.classifier is not None:
        raise InputError("classifier", "one, of the plan or of the nuisance models", "both", "choose one of the two")
    return replace(nuisance, classifier=CLASSIFIERS[plan.classifier]())


def _obstacle(correction: Correction) -> str:
    """Return the first reason to refuse and the number of others; empty if there is none."""
    reasons = correction.overlap.reasons
    more = {0: "", 1: "", 2: " One more reason is given."}.get(len(reasons), f" {len(reasons) - 1} more are given.")
    return reasons[0] + more if reasons else ""

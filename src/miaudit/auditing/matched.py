"""Audits of the design "matched": the law of the strings, their ranks, bounds of pairs, and the surest pairs."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from miaudit.auditing import candidate_law
from miaudit.auditing.bounds import Bounded, best_of
from miaudit.auditing.case import Case
from miaudit.dp import matched as pairing
from miaudit.dp.verdict import Claim
from miaudit.evidence import Evidence
from miaudit.findings.matched import LawCheck, Matched, RankTest
from miaudit.metrics.matched_scores import FEWEST_STANDARDISED, Candidates, rank_p_value, ranks
from miaudit.metrics.surest_members import SurestMembers, surest_of

__all__ = ["assess", "examine", "surest_pairs"]

_WHY = (
    "Chance drew each true string from a known law, and drew its decoys from the same law. So a model that keeps "
    "nothing of the true strings cannot score them higher than the decoys, whatever else differs between training "
    "data and other data. What the scores show beyond chance is memorisation."
)


def examine(case: Case, rng: np.random.Generator) -> Matched:
    """Test the law of the strings, and the ranks of the true ones by each score that counts.

    Parameters
    ----------
    case : of evidence of the design "matched"
    rng : draws the order of ties, and the parts of the test of the format
    """
    of_law, *of_scores = rng.spawn(1 + len(case.judged))
    first = Candidates.of(case.audited, case.judged[0])
    units, decoys = first.decoys.shape
    law = tuple(_law(case, of_law))
    paid = len(case.names) if case.exploratory else len(case.judged)
    tests = tuple(
        _rank_test(case.audited, name, paid, child) for name, child in zip(case.judged, of_scores, strict=True)
    )
    scale = (
        f"Each score is compared with the {decoys - 1} other decoys of its record."
        if decoys >= FEWEST_STANDARDISED
        else f"With fewer than {FEWEST_STANDARDISED} decoys, scores are compared as they are."
    )
    return Matched(units, decoys, 0 if case.plan.bounds is None else units, tests, law, f"{_WHY} {scale}")


def _law(case: Case, rng: np.random.Generator) -> list[LawCheck]:
    """Make every test of the law that the evidence allows."""
    audited, of_reference, of_format = case.audited, *rng.spawn(2)
    rows = audited.candidate_rows
    checks = [
        candidate_law.of_reference(values[rows][:, 0], values[rows][:, 1:], of_reference)
        for values in case.references.values()
    ]
    if audited.text is not None:
        of_texts = candidate_law.of_format(audited.text[rows], of_format)
        checks += [] if of_texts is None else [of_texts]
    return checks


def _rank_test(evidence: Evidence, name: str, paid: int, rng: np.random.Generator) -> RankTest:
    candidates = Candidates.of(evidence, name)
    decoys = candidates.decoys.shape[1]
    rank = ranks(candidates.true, candidates.decoys, rng)
    p_value = min(1.0, paid * rank_p_value(rank, decoys))
    return RankTest(name, float(rank.mean()) / decoys, p_value)


def assess(case: Case, claim: Claim | None, obstacle: str, rng: np.random.Generator) -> Bounded:
    """Compute the bounds of pairs, of the score with the largest.

    Parameters
    ----------
    case, claim : as of :func:`miaudit.auditing.bounds.assess`
    obstacle : why the evidence allows no answer; empty if it does
    rng : draws decoys, orders and ties
    """
    options = case.plan.bounds
    if options is None:
        return Bounded()
    if obstacle:
        return Bounded(reasons=(obstacle,))
    delta = claim.delta if claim is not None and claim.parameter == "epsilon" else options.delta
    of_scores = [
        pairing.bounds(
            case.audited.only(name), delta=delta, guesses=options.guesses, confidence=case.confidence, rng=child
        )
        for name, child in zip(case.judged, rng.spawn(len(case.judged)), strict=True)
    ]
    price = "; ".join(case.corrections)
    return Bounded(
        tuple(best_of(bounds, "", price, exploratory=case.exploratory) for bounds in zip(*of_scores, strict=True))
    )


def surest_pairs(
    evidence: Evidence, *, score: str, level: float, sure: float, confidence: float, rng: np.random.Generator
) -> SurestMembers | None:
    """Count how often the string with the higher score is the true one, in the pairs where the two differ most.

    Parameters
    ----------
    evidence : of the design "matched", with one score
    score, level, sure, confidence : as of :func:`miaudit.metrics.surest_members.surest_members`
    rng : draws decoys, orders and the guess of ties; it is copied
    """
    own = copy.deepcopy(rng)
    pairs = pairing.pairs(evidence, own)
    distance = np.abs(pairs.score)
    guess = np.where(distance > 0, pairs.score > 0, own.random(len(distance)) < 0.5)
    order = np.argsort(distance)
    shown = surest_of(
        distance[order],
        (guess == pairs.first)[order],
        score=score,
        level=level,
        sure=sure,
        chance=0.5,
        confidence=confidence,
    )
    return None if shown is None else replace(shown, of="pairs")

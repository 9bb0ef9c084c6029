"""What is to be said of evidence and scores beside their numbers: equal rows, scores of the wrong sign, pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.auditing.case import Case
from miaudit.auditing.plan import Plan
from miaudit.causal import concentration
from miaudit.causal.duplicates import Repeats
from miaudit.evidence import Evidence
from miaudit.findings.verdict import Verdict
from miaudit.metrics.classical import Sample
from miaudit.metrics.counted_sample import CountedSample

CONSTANT = "Every record has"
_FEWEST_PAIRS = 20
_OPPOSED = -3.7  # of a standard normal number: once in 10,000 audits


def on_scores(case: Case, verdict: Verdict, best: str) -> Iterator[str]:
    """Yield what the scores themselves call for saying."""
    yield from _louder_scores(case, verdict, best)
    yield from _odd_scores(case.samples, shifted=case.audited.design == "zero-run")
    if case.audited.run is None:
        yield from _opposed(case.samples[best])


def _louder_scores(case: Case, verdict: Verdict, best: str) -> Iterator[str]:
    """Note the scores beside a declared one that exceed a limit."""
    for name in dict.fromkeys(one.score for one in verdict.exceeded if one.score not in case.judged):
        yield f"The score {name} exceeds a limit, though {best} was declared: every reported score can raise concern."


def constant(case: Case) -> str:
    """Say that every score that the verdict could rest on is the same for all records; empty where one is not."""
    if not all(case.samples[name].constant for name in case.judged):
        return ""
    which = f"the same {case.judged[0]}" if len(case.judged) == 1 else f"the same {' and the same '.join(case.judged)}"
    return f"{CONSTANT} {which}, so the attack cannot say anything about membership. Check how the scores were made."


def _odd_scores(samples: Mapping[str, Sample], *, shifted: bool) -> Iterator[str]:
    """Yield notes on scores that point the wrong way or are constant."""
    for name, sample in samples.items():
        if sample.constant:
            yield f"{CONSTANT} the same {name}: this attack says nothing of anybody."
        elif sample.auc(0.99).high < 0.5:
            yield (
                f"The {'raw ' if shifted else ''}AUC of {name} is clearly below one half: members have lower values, "
                f"{'by the difference between the two populations, or ' if shifted else ''}as losses do. "
                "Scores must be higher for members; if these are losses, say so. If they were declared to be losses or "
                "logits, check that they are."
            )


def looks_like_losses(evidence: Evidence, auc_high: float | None) -> str:
    """Return a note if the AUC is clearly below one half, which scores that are really losses give; else nothing."""
    if auc_high is None or auc_high >= 0.5 or len(evidence.scores) > 1:
        return ""
    name, why = next(iter(evidence.scores)), "as losses do"
    if evidence.design == "zero-run":
        why = "by the difference between the two populations, or as losses do"
    return (
        f"the AUC of {name} is clearly below one half: members have lower values, {why}. "
        "If these are losses, say --signal loss."
    )


def beforehand(
    evidence: Evidence, plan: Plan | None, stability: concentration.Measured | None = None, *, rows: bool = True
) -> tuple[str, ...]:
    """Remark on evidence what an audit that is repeated cannot know: equal rows, and stability of the training."""
    equal = _equal_rows(evidence) if rows else ()
    if stability is None:
        return equal
    return (*equal, concentration.of_one_model(evidence, stability, (plan or Plan()).confidence))


def _equal_rows(evidence: Evidence) -> tuple[str, ...]:
    """Say where equal covariates (texts) stand on one side beyond chance though no unit holds several records.

    A remark of whoever has the covariates: where these are withheld, an audit that is repeated cannot make it.
    """
    described = evidence.covariates if evidence.covariates is not None else evidence.text
    if described is None:
        return ()
    one_class = evidence.member.all() or not evidence.member.any()
    chances = evidence.inclusion is not None and np.ptp(evidence.inclusion) > 0  # alike records may have alike chances
    if evidence.unit_codes is not None or evidence.run is not None or one_class or chances:
        return ()
    equal = Repeats.of(described, evidence.member)
    applies = equal.forbids("zero-run") if evidence.design == "zero-run" else equal.beyond_chance
    return (equal.text(),) if applies else ()


def _opposed(sample: Sample) -> Iterator[str]:
    """Say where the scores of the i-th member and the i-th non-member oppose each other, with as many of both.

    No part of the verdict: pairs in the order of a file are a guess.
    """
    if sample.units is not None or isinstance(sample, CountedSample):  # sorted scores never oppose each other
        return
    pairs = int(np.count_nonzero(sample.member))
    if 2 * pairs != len(sample.member) or pairs < _FEWEST_PAIRS:
        return
    inside, outside = _ranks(sample, sample.member), _ranks(sample, ~sample.member)
    if not (np.ptp(inside) and np.ptp(outside)):
        return
    correlation = float(np.corrcoef(inside, outside)[0, 1])
    if correlation * math.sqrt(len(inside) - 1) < _OPPOSED:
        yield (
            "In their order the scores of members and non-members oppose each other (rank correlation "
            f"{correlation:.2f} of the first with the first, and so on). If they come in such pairs, the variance of "
            f"the AUC is about {1 - correlation:.1f} times as large as its interval says: name the pair as the unit."
        )


def _ranks(sample: Sample, kept: BoolArray) -> FloatArray:
    """Ranks (k,) of the scores of some of the records among these, equal scores with their mean."""
    rows = sample.ascending[kept[sample.ascending]]
    values = sample.score[rows]
    last = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1)
    count = np.diff(last, prepend=-1)
    ranks = np.empty(len(kept))
    ranks[rows] = np.repeat(last + 1 - (count - 1) / 2, count)
    return ranks[kept]

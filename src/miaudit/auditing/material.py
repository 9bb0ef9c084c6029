"""Whether what a refuted propensity misses matters: how far it moves the metrics of the verdict.

With many records a test refutes a propensity for what moves nothing, and with few it refutes none that is wrong. So a
refuted stack is moved along the direction that refutes it. The evidence is refused where a metric of the verdict moves
by more than a tenth of its standard error. A forest sees only a part of what the propensity misses: where it refutes,
the evidence is also refused where weights and regressions disagree about the AUC by more than one standard error. The
disagreement alone refuses nothing (experiments/methods.md, section 13).

Where neither refuses, the propensity is still known to be wrong. The conclusion then has to survive an error of the
size that is known: an unmeasured trait as strong as what the propensity misses must not be able to change it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.causal.benchmarks import SHARE
from miaudit.causal.propensity import Propensity
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate

__all__ = ["Moves", "known_error", "outweighs"]

LARGEST_MOVE = 0.1  # standard errors of the metric
LARGEST_GAP = 1.0  # standard errors of the AUC
WOULD_CHANGE = "would already change what this audit concludes"


@dataclass(frozen=True)
class Moves:
    """The metric that a misfit moves most, of all scores that count.

    Attributes
    ----------
    errors : how far it moves, in its own standard errors; not negative
    metric : its name; empty where none could be measured
    gap : standard errors between the AUC by the weights and by AIPW, the largest of all scores; not negative, and 0
        where the direction is known
    """

    errors: float = 0.0
    metric: str = ""
    gap: float = 0.0

    @classmethod
    def of(
        cls,
        scores: Iterable[CorrectedScore],
        moved: Sequence[Propensity],
        names: Sequence[str],
        confidence: float,
        *,
        learned: bool = True,
        rng: np.random.Generator,
    ) -> Moves:
        """Measure each metric of each score by the propensity and by those that were moved.

        Parameters
        ----------
        scores : those that the verdict may rest on
        moved : the propensity, moved along each direction that refutes it
        names : of the metrics of the verdict
        learned : whether something learned refutes the propensity, and not a product alone, which is known as it is
        """
        largest, gap = cls(), 0.0
        for score in scores:
            disagreement = score.disagreement(confidence, rng=rng) if learned else None
            gap = max(gap, 0.0 if disagreement is None else disagreement.errors)
            for errors, name in _moves(score, moved, names, confidence, rng):
                largest = max(largest, cls(errors, name), key=lambda one: one.errors)
        return cls(largest.errors, largest.metric, gap)

    @property
    def matter(self) -> bool:
        """Whether the evidence is to be refused."""
        return self.errors > LARGEST_MOVE or self.gap > LARGEST_GAP

    @property
    def sentence(self) -> str:
        """What the misfit moves, in words."""
        if not self.metric:
            return "No metric of the verdict could be measured along it."
        label = definition.of(self.metric).label
        if self.errors <= LARGEST_MOVE and self.gap > LARGEST_GAP:
            differs = f"The AUC by weights and by regressions differs by {self.gap:.1f} standard errors"
            return f"{differs} (limit {LARGEST_GAP:g})."
        return f"It moves {label} by {self.errors:.2f} standard errors (limit {LARGEST_MOVE:g})."


def known_error(learned: Propensity, moved: Iterable[Propensity]) -> float:
    """Return the factor by which what refutes a propensity changes the odds of nine records in ten at most, 1 or more.

    One factor for all records is no error, since weights are divided by their sum. The share of the records is that of
    the yardstick of sensitivity (:mod:`miaudit.causal.benchmarks`).

    Parameters
    ----------
    learned : the propensity
    moved : the same, moved along each direction that refutes it; the largest factor counts, and 1 without any
    """
    changes = (one.logit - learned.logit for one in moved)
    factors = (float(np.exp(np.quantile(np.abs(change - np.median(change)), SHARE))) for change in changes)
    return max(factors, default=1.0)


def outweighs(known: float, needed: float | None) -> str:
    """Say that a propensity is known to be wrong by as much as would change the conclusion; empty if it is not.

    Parameters
    ----------
    known : of :func:`known_error`
    needed : the smallest factor of an unmeasured trait that changes the conclusion; None where none was found

    Examples
    --------
    >>> outweighs(1.1, 1.2)
    ''
    >>> print(outweighs(1.742, 1.204))
    What it misses changes the odds of nine records in ten by a factor of up to 1.74. An unmeasured trait that does so \
    by 1.20 would already change what this audit concludes.
    """
    if known <= 1.0 or needed is None or known < needed:
        return ""
    return (
        f"What it misses changes the odds of nine records in ten by a factor of up to {known:.2f}. An unmeasured trait "
        f"that does so by {needed:.2f} {WOULD_CHANGE}."
    )


def _moves(
    score: CorrectedScore,
    moved: Sequence[Propensity],
    names: Sequence[str],
    confidence: float,
    rng: np.random.Generator,
) -> Iterator[tuple[float, str]]:
    own = score.metrics(names, confidence, rng=rng)
    for propensity in moved:
        for name, (_, other) in score.weighted_by(propensity).metrics(names, confidence, rng=rng).items():
            estimate = own[name][1]
            if estimate.value is not None and other.value is not None:
                yield abs(other.value - estimate.value) / _error(estimate), name


def _error(estimate: Estimate) -> float:
    """The standard error of an estimate; where it has none, that of a normal interval as wide."""
    if estimate.standard_error:
        return estimate.standard_error
    width = (estimate.high - estimate.low) / (2 * float(special.ndtri((1 + estimate.confidence) / 2)))
    return width if 0 < width < math.inf else math.inf

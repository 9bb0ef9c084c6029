"""Wald's sequential probability ratio test of an error rate: how often an interval or a bound misses the truth.

Replicates are simulated one after the other until the likelihood ratio of ``alternative`` against ``level`` leaves
the interval between two bounds (Wald 1945). The bounds keep both error probabilities, whenever the test stops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["accepted", "rejected", "undecided"]


@dataclass(frozen=True)
class SequentialTest:
    """The claim that at most ``level`` of all replicates miss, tested against a miss rate of ``alternative``.

    Attributes
    ----------
    level : the claimed miss rate, 0 to 1
    alternative : the miss rate that has to be noticed; twice the level unless stated
    wrongly_rejected : probability at most of rejecting a miss rate of ``level`` or less
    wrongly_accepted : probability at most of accepting a miss rate of ``alternative`` or more
    cap : number of replicates after which the test ends undecided; 200 / level unless stated
    """

    level: float = 0.05
    alternative: float = 0.0
    wrongly_rejected: float = 0.001
    wrongly_accepted: float = 0.01
    cap: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alternative", self.alternative or 2 * self.level)
        object.__setattr__(self, "cap", self.cap or round(200 / self.level))
        if not 0 < self.level < self.alternative < 1:
            raise ValueError(f"0 < level < alternative < 1 is needed, not {self.level:g} and {self.alternative:g}")
        if not (0 < self.wrongly_rejected < 0.5 and 0 < self.wrongly_accepted < 0.5):
            raise ValueError("error probabilities are between 0 and 0.5")

    @property
    def of_a_miss(self) -> float:
        """By how much a miss raises the log-likelihood ratio."""
        return math.log(self.alternative / self.level)

    @property
    def of_a_hit(self) -> float:
        """By how much a replicate without a miss changes the log-likelihood ratio; negative."""
        return math.log((1 - self.alternative) / (1 - self.level))

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratios at which the claim is accepted and rejected."""
        accept = math.log(self.wrongly_accepted / (1 - self.wrongly_rejected))
        return accept, math.log((1 - self.wrongly_accepted) / self.wrongly_rejected)

    def status(self, replicates: int, misses: int) -> Status:
        """Return what so many misses decide, if nothing was decided earlier."""
        ratio = misses * self.of_a_miss + (replicates - misses) * self.of_a_hit
        accept, reject = self.bounds
        return "accepted" if ratio <= accept else "rejected" if ratio >= reject else "undecided"

    def decide(self, misses: Iterable[bool]) -> Decision:
        """Take misses, one of each replicate, until the claim is decided or the cap or the end of them is reached."""
        decision = Decision(self)
        for miss in misses:
            decision = decision.after(miss)
            if decision.ended:
                break
        return decision

    def __str__(self) -> str:
        return f"at most {self.level:.2%} against {self.alternative:.2%}"


@dataclass(frozen=True)
class Decision:
    """A test after so many replicates and misses.

    Attributes
    ----------
    test : the claim and its alternative
    replicates, misses : what was observed until the decision
    status : "accepted", "rejected", or "undecided", which is final at the cap
    """

    test: SequentialTest
    replicates: int = 0
    misses: int = 0
    status: Status = "undecided"

    @property
    def ended(self) -> bool:
        """Whether no further replicate is needed or allowed."""
        return self.status != "undecided" or self.replicates >= self.test.cap

    def after(self, miss: bool) -> Decision:
        """Return the decision with one more replicate; one that has ended stays as it is."""
        if self.ended:
            return self
        replicates, misses = self.replicates + 1, self.misses + bool(miss)
        return Decision(self.test, replicates, misses, self.test.status(replicates, misses))

    def __str__(self) -> str:
        rate = self.misses / self.replicates if self.replicates else math.nan
        return f"{self.misses} of {self.replicates} miss ({rate:.2%}), claimed {self.test}: {self.status}"

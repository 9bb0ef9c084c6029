"""Evidence of several runs of the same training, collected run by run and put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from miaudit.collect.outputs import Collected
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = ["joined"]


def joined(runs: Sequence[Collected]) -> Collected:
    """Put what was collected of each run together, in the order of the runs.

    What a run's scores learned from is its own, or came from outside the runs: no run is scored with another's labels.

    Raises
    ------
    InputError
        For runs that differ in their scores, columns or design, and for given propensities.
    """
    if any(one.propensity is not None or one.sample is not None for one in runs):
        raise InputError("propensity", "none, for several runs", "one", "coins decided who is a member: leave it out")
    evidence = Evidence.of_runs([one.evidence for one in runs])
    notes = tuple(dict.fromkeys(note for one in runs for note in one.notes))
    return replace(runs[0], evidence=evidence, notes=notes)

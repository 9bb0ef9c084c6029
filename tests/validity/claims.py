"""Claims about error rates: replicates drawn from seeds, one sequential test of each statement, and its controls.

A replicate is a function from a generator to misses by statement: ``{"AUC": True}`` says that this time the interval of
the AUC missed the truth. None says that there was no answer, and is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from zlib import crc32

import numpy as np

from validity.sequential import Decision, SequentialTest

Replicate = Callable[[np.random.Generator], Mapping[str, Any]]
Levels = Mapping[str, float | SequentialTest]
LEAST_ANSWERED = 0.05  # a world that answers less often than this decides nothing


@dataclass
class Claims:
    """The sequential tests of one pytest test.

    Attributes
    ----------
    name : of the test; with the seed it decides every draw
    seed : from the commit, or as given
    replicates : None, or the number of replicates to run in any case, so that the printed rates have known errors
    controls : how many statements had to be rejected
    """

    name: str
    seed: int
    replicates: int | None = None
    controls: int = 0
    _calls: int = field(default=0, repr=False)

    def __call__(self, replicate: Replicate, *, holds: Levels | None = None, fails: Levels | None = None) -> None:
        """Test every statement: those of ``holds`` have to be accepted, the controls of ``fails`` rejected.

        A float is a level, tested against twice itself.
        """
        expected = {**dict.fromkeys(holds or {}, "accepted"), **dict.fromkeys(fails or {}, "rejected")}
        levels = {**(holds or {}), **(fails or {})}
        if not levels or len(levels) != len(holds or {}) + len(fails or {}):
            raise ValueError("name each statement once, either in holds or in fails")
        tests = {key: v if isinstance(v, SequentialTest) else SequentialTest(v) for key, v in levels.items()}
        self.controls += len(fails or {})
        decisions, rates = self._run(replicate, tests, expected)
        lines = []
        for key, decision in decisions.items():
            role = "control, " if expected[key] == "rejected" else ""
            lines.append(f"{role}{key}: {decision}{rates.get(key, '')}")
        print("\n" + "\n".join([self.name, *lines]))
        wrong = [key for key, decision in decisions.items() if decision.status != expected[key]]
        if wrong:
            raise AssertionError(f"not as claimed: {', '.join(wrong)} (seed {self.seed:x})\n" + "\n".join(lines))

    def _run(
        self, replicate: Replicate, tests: Mapping[str, SequentialTest], expected: Mapping[str, str]
    ) -> tuple[dict[str, Decision], dict[str, str]]:
        decisions = {key: Decision(test) for key, test in tests.items()}
        counts = {key: [0, 0] for key in tests}
        entropy, self._calls = (self.seed, crc32(self.name.encode()), self._calls), self._calls + 1
        for k in itertools.count():
            if k == self.replicates or (self.replicates is None and _settled(k, decisions, expected)):
                break
            rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(k,)))
            misses = replicate(rng)
            for key, decision in decisions.items():
                if misses[key] is not None:
                    decisions[key] = decision.after(bool(misses[key]))
                    counts[key][0] += 1
                    counts[key][1] += bool(misses[key])
        if self.replicates is None:
            return decisions, {}
        return decisions, {key: f"; {_rate(*count)}" for key, count in counts.items()}


def _settled(replicates: int, decisions: Mapping[str, Decision], expected: Mapping[str, str]) -> bool:
    """Return whether all is decided, or one statement not as claimed, or one will not be for want of answers."""
    open_ = [decision for decision in decisions.values() if not decision.ended]
    wrong = any(decision.ended and decision.status != expected[key] for key, decision in decisions.items())
    silent = replicates >= 100 and any(decision.replicates < LEAST_ANSWERED * replicates for decision in open_)
    return not open_ or wrong or silent


def _rate(n: int, misses: int) -> str:
    rate = misses / n if n else math.nan
    return f"{misses} of all {n}: {rate:.4f}, standard error {math.sqrt(rate * (1 - rate) / n) if n else math.nan:.4f}"


@contextmanager
def half_as_wide(owner: Any, name: str) -> Any:
    """Let a function of ``owner`` return (low, high) of half the width around the same middle: a rigged interval."""
    original = getattr(owner, name)

    def rigged(*arguments: Any, **options: Any) -> Any:
        low, high = original(*arguments, **options)
        return (3 * low + high) / 4, (low + 3 * high) / 4

    with mock.patch.object(owner, name, rigged):
        yield


def outside(low: float, value: float, high: float) -> bool:
    """Return whether an interval misses a value."""
    return not low <= value <= high


def outside_half(low: float, value: float, high: float) -> bool:
    """Return whether the interval of half the width around the same middle misses a value: a control."""
    return outside((3 * low + high) / 4, value, (low + 3 * high) / 4)

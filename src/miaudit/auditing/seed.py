"""The generator of an audit: the caller's own, or one from a seed that is recorded; and one for each of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.errors import InputError
from miaudit.errors.checks import is_whole

Given = np.random.Generator | int | None


def generator(rng: Given) -> tuple[np.random.Generator, dict[str, int], tuple[str, ...]]:
    """Return a generator, what is recorded of its seed, and what is to be said of it.

    Parameters
    ----------
    rng : a generator, which is used as it is; a whole number from 0, its seed; or None for a fresh seed

    Examples
    --------
    >>> generator(7)[1:], generator(None)[1].keys(), generator(np.random.default_rng(0))[1:]
    (({'seed': 7}, ()), dict_keys(['seed']), ({}, ()))
    """
    if isinstance(rng, np.random.Generator):
        return rng, {}, ()
    if rng is None:
        fresh = int(np.random.SeedSequence().generate_state(1)[0])
        return np.random.default_rng(fresh), {"seed": fresh}, (f"No seed was given: rng={fresh} repeats this audit.",)
    number: Any = rng
    seed = int(number) if isinstance(number, np.integer) else number
    if not is_whole(seed) or seed < 0:
        allowed = "a numpy.random.Generator, a whole number from 0, or None"
        received = repr(seed) if is_whole(seed) else type(seed).__name__
        raise InputError("rng", allowed, received, "pass a seed such as rng=0")
    return np.random.default_rng(seed), {"seed": seed}, ()


@dataclass(frozen=True)
class AuditStreams:
    """One generator for each stage of an audit, in an order that never changes: bundles compute audits again."""

    choice: np.random.Generator
    bootstrap: np.random.Generator
    correction: np.random.Generator
    bounds: np.random.Generator
    verdict: np.random.Generator
    assessment: np.random.Generator
    causal: np.random.Generator

    @classmethod
    def of(cls, rng: np.random.Generator) -> AuditStreams:
        """Spawn them; what assesses and what measures later are spawned from that of the correction."""
        choice, bootstrap, correction, bounds, verdict = rng.spawn(5)
        return cls(choice, bootstrap, correction, bounds, verdict, *correction.spawn(2))


@dataclass(frozen=True)
class AssessmentStreams:
    """One generator for each step of the assessment of zero-run evidence, in an order that never changes."""

    propensity: np.random.Generator
    curve: np.random.Generator
    twins: np.random.Generator
    compared: np.random.Generator
    words: np.random.Generator
    challenge: np.random.Generator

    @classmethod
    def of(cls, rng: np.random.Generator) -> AssessmentStreams:
        """Spawn them."""
        return cls(*rng.spawn(6))

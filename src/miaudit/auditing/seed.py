"""The generator of an audit: the caller's own, or one from a seed that is recorded."""

from __future__ import annotations

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
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        return np.random.default_rng(seed), {"seed": seed}, (f"No seed was given: rng={seed} repeats this audit.",)
    given: Any = rng
    given = int(given) if isinstance(given, np.integer) else given
    if not is_whole(given) or given < 0:
        allowed = "a numpy.random.Generator, a whole number from 0, or None"
        received = repr(given) if is_whole(given) else type(given).__name__
        raise InputError("rng", allowed, received, "pass a seed such as rng=0")
    return np.random.default_rng(given), {"seed": given}, ()

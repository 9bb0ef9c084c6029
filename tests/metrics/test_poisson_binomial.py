"""Tails of the Poisson-binomial law."""

from __future__ import annotations

import numpy as np
import pytest

from causal.test_propensity import rng_of
from miaudit.metrics import poisson_binomial


@pytest.mark.parametrize("n", [1, 2, 9, 300])
def test_the_poisson_binomial_tail_agrees_with_the_recursion(n: int) -> None:
    p = rng_of(n).random(n)
    law = np.array([1.0])
    for q in p:
        law = np.convolve(law, [1 - q, q])
    for least in {0, 1, n // 2, n}:
        assert np.isclose(poisson_binomial.tail(p, least), law[least:].sum(), atol=1e-12)

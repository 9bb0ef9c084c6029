"""The linear program over the law of the count, beside its primal, the recursion and known laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp import one_run_twins as twins
from miaudit.dp import linear_program, one_run
from miaudit.dp.tradeoff import Gaussian
from miaudit.errors import InputError


@pytest.mark.parametrize(("c", "r", "m"), [(9, 10, 50), (18, 20, 200), (14, 20, 20)])
@pytest.mark.parametrize("mu", [0.2, 0.8])
def test_the_certificate_is_the_optimum_of_the_primal(c: int, r: int, m: int, mu: float) -> None:
    slopes = [0.3, 0.8, 1.3, 2.0]
    deltas = np.array([Gaussian(mu).delta_at(e) for e in slopes])
    certified = min(1.0, linear_program._certified(c, r, m, np.exp(slopes), deltas))
    optimum = twins.largest_tail(mu, c, r, m, slopes)
    assert certified == pytest.approx(optimum, rel=1e-5)
    assert certified >= optimum * (1 - 1e-9)


@pytest.mark.long
def test_the_program_shows_more_than_the_recursion_and_never_less() -> None:
    for c, r, m in [(45, 50, 1_000), (30, 40, 40), (20, 40, 100), (24, 25, 10_000)]:
        counts = {"correct": c, "guesses": r, "canaries": m, "confidence": 0.975}
        program, plain = linear_program.mu_lower_bound(**counts), one_run.mu_lower_bound(**counts)
        assert plain.value <= program.value <= 1.1 * plain.value
    counts = {"correct": 45, "guesses": 50, "canaries": 1_000}
    assert linear_program.mu_lower_bound(**counts).value > 1.01 * one_run.mu_lower_bound(**counts).value
    assert linear_program.mu_p_value(0.0, correct=45, guesses=50, canaries=1_000) == pytest.approx(
        stats.binom.sf(44, 50, 0.5)
    )


@pytest.mark.parametrize(("accuracy", "chance"), [(0.9, 0.03), (0.75, 0.1), (0.99, 0.5)])
def test_no_test_of_counts_refutes_the_truth_of_released_bits(accuracy: float, chance: float) -> None:
    """The exact law of the count of a mechanism with known mu lies below every p-value; a smaller mu is refuted."""
    r = m = 40
    mu = float(stats.norm.ppf(chance * accuracy) - stats.norm.ppf(chance * (1 - accuracy)))
    for c in (24, 28, 32, 36, 40):
        tail = chance * stats.binom.sf(c - 1, r, accuracy) + (1 - chance) * stats.binom.sf(c - 1, r, 0.5)
        counts = {"correct": c, "guesses": r, "canaries": m}
        by_program, by_recursion = linear_program.mu_p_value(mu, **counts), one_run.p_value(mu, **counts)
        assert tail <= by_program * (1 + 1e-9)
        assert by_program <= by_recursion * 1.2
        assert tail <= by_recursion * (1 + 1e-6)
    best = round(r * accuracy)
    tail = chance * stats.binom.sf(best - 1, r, accuracy)
    assert one_run.p_value(0.5 * mu, correct=best, guesses=r, canaries=m) < tail  # control


@pytest.mark.parametrize("slopes", [0, 2.5, True])
def test_bad_slopes_are_refused(slopes: int) -> None:
    with pytest.raises(InputError, match=r"^slopes: "):
        linear_program.mu_p_value(0.5, correct=8, guesses=10, canaries=100, slopes=slopes)

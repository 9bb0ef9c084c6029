"""Whether bounds from many runs keep their word at the truth, by simulation of whole audits.

``python tests/slow/multi_run_table.py`` prints the table of experiments/validity/multi_run.md.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp.multi_run import ClopperPearson, Joint
from validity.claims import Claims
from validity.sequential import SequentialTest
from worlds.multi_run import WORLDS, audits, rules

pytestmark = [pytest.mark.slow, pytest.mark.validity]

TRIALS = 60
LEVEL = 0.05
PAID = ("threshold", "split", "Bonferroni")
CASES = [
    (name, parameter)
    for name, world in WORLDS.items()
    for parameter in ("epsilon", "mu")
    if math.isfinite(world.truth(parameter))
]


def exceeds(name: str, parameter: str, rule: str, joint: bool, rng: np.random.Generator) -> bool:
    world, method = WORLDS[name], Joint() if joint else ClopperPearson()
    (value,) = audits(world, parameter, rules(world)[rule], method, n=TRIALS, replicates=1, seed=rng)  # type: ignore[arg-type]
    return bool(value > world.truth(parameter))


def claimed(claim: Claims, name: str, parameter: str, rule: str, joint: bool) -> None:
    """The control: the best of all thresholds where nothing leaks, by the joint test."""
    claim(lambda rng: {"bound > truth": exceeds(name, parameter, rule, joint, rng)}, holds={"bound > truth": LEVEL})
    claim(lambda rng: {"unpaid": exceeds("nothing leaks", "mu", "exploratory", True, rng)}, fails={"unpaid": LEVEL})


@pytest.mark.parametrize("rule", PAID)
@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_bound_exceeds_the_truth_in_at_most_five_percent(claim: Claims, name: str, parameter: str, rule: str) -> None:
    claimed(claim, name, parameter, rule, True)


@pytest.mark.parametrize("rule", PAID)
@pytest.mark.parametrize("name", ["nothing leaks", "randomised response", "Gaussian"])
def test_clopper_pearson_too(claim: Claims, name: str, rule: str) -> None:
    claimed(claim, name, "mu", rule, False)


@pytest.mark.parametrize("rule", ["threshold", "split"])
def test_the_error_is_spent_and_not_only_kept(claim: Claims, rule: str) -> None:
    """A test that never rejects would pass all of the above: at a curve that touches the claim's, few percent do.

    So the claim of at most 0.5% is rejected against 2%, at a measured 3% to 5%.
    """
    replicate = lambda rng: {"bound > truth": exceeds("randomised response", "epsilon", rule, True, rng)}  # noqa: E731
    claim(replicate, fails={"bound > truth": SequentialTest(0.005, 0.02)})


@pytest.mark.parametrize(("name", "parameter"), [("nothing leaks", "mu"), ("Laplace", "epsilon"), ("Gaussian", "mu")])
def test_the_uncorrected_maximum_does_not(claim: Claims, name: str, parameter: str) -> None:
    """Control (erratum B19): false alarms of nominal 5% bounds measured on public tools go up to 52%."""
    claim(lambda rng: {"unpaid": exceeds(name, parameter, "exploratory", True, rng)}, fails={"unpaid": LEVEL})

"""Verdicts on claims: what refutes what, and what is never said."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from miaudit.dp.tradeoff import EpsilonDelta, Gaussian
from miaudit.dp.verdict import Claim, LowerBound, UpperBound, judge
from miaudit.errors import InputError

SHOWN = LowerBound("epsilon", 1.4, 0.95, "a test", delta=1e-5, reachable=3.2)
PROVED = UpperBound("epsilon", 2.0, 1e-5, "Gaussian noise of 3", "a PLD accountant")


@pytest.mark.parametrize(("claimed", "status"), [(1.0, "refuted"), (1.4, "not-refuted"), (3.0, "not-refuted")])
def test_a_claim_below_the_bound_is_refuted(claimed: float, status: str) -> None:
    found = judge(Claim.epsilon_delta(claimed, 1e-5), SHOWN)
    assert found.status == status
    assert "95%" in found.text and f"epsilon = {claimed:g}" in found.text


def test_a_claim_that_is_not_refuted_is_never_called_true() -> None:
    text = judge(Claim.gaussian(2.0), LowerBound("mu", 0.0, 0.95, "a test", reachable=0.9)).text
    assert "not proved" in text
    assert "could not have refuted" in text
    assert not any(word in text.lower() for word in ("confirmed", "holds", "is true", "safe"))


def test_a_bound_at_a_larger_delta_refutes_a_claim_at_a_smaller_one_but_not_the_reverse() -> None:
    assert judge(Claim.epsilon_delta(1.0, 1e-7), SHOWN).status == "refuted"
    with pytest.raises(InputError, match=r"lower: expected a bound at a delta of 0\.01 or more"):
        judge(Claim.epsilon_delta(1.0, 0.01), SHOWN)
    with pytest.raises(InputError, match="upper: expected a bound at a delta of 1e-07 or less"):
        judge(Claim.epsilon_delta(1.0, 1e-7), SHOWN, upper=PROVED)


def test_bounds_of_another_parameter_are_not_compared() -> None:
    with pytest.raises(InputError, match="one on epsilon"):
        judge(Claim.gaussian(1.0), SHOWN)
    with pytest.raises(InputError, match="one on epsilon"):
        judge(Claim.gaussian(1.0), None, upper=PROVED)


def test_exploratory_bounds_refute_nothing() -> None:
    found = judge(Claim.epsilon_delta(0.1, 1e-5), replace(SHOWN, exploratory=True))
    assert found.status == "not-testable"
    assert "exploratory" in found.text


def test_no_bound_is_not_testable_and_says_why() -> None:
    found = judge(Claim.gaussian(1.0), None, reasons=("Fewer than 40 rows per covariate.",))
    assert found.status == "not-testable" and "Fewer than 40 rows" in found.text and found.gap is None


def test_the_gap_and_what_the_mechanism_proves() -> None:
    found = judge(Claim.epsilon_delta(2.5, 1e-5), SHOWN, upper=PROVED)
    assert found.gap == pytest.approx(0.6)
    assert "which proves the claim" in found.text
    weaker = judge(Claim.epsilon_delta(1.5, 1e-5), SHOWN, upper=PROVED)
    assert "does not prove the claim" in weaker.text


def test_a_bound_above_the_theorem_contradicts_the_description() -> None:
    found = judge(Claim.epsilon_delta(2.5, 1e-5), replace(SHOWN, value=2.2), upper=PROVED)
    assert found.gap is not None and found.gap < 0
    assert "what was run is not what was described" in found.text


def test_the_claim_knows_its_trade_off_function() -> None:
    assert Claim.gaussian(0.7).tradeoff == Gaussian(0.7)
    assert Claim.epsilon_delta(0.7, 1e-5).tradeoff == EpsilonDelta(0.7, 1e-5)


@pytest.mark.parametrize(
    ("parameter", "value", "delta"),
    [("rho", 1.0, 0.0), ("mu", -1.0, 0.0), ("mu", math.inf, 0.0), ("mu", math.nan, 0.0), ("mu", 1.0, 0.1)]
    + [("epsilon", 1.0, bad) for bad in (-0.1, 1.0, math.nan)]
    + [("epsilon", "1", 0.0), ("epsilon", True, 0.0)],
)
def test_impossible_claims_are_refused(parameter: str, value: object, delta: float) -> None:
    with pytest.raises(InputError):
        Claim(parameter, value, delta)  # type: ignore[arg-type]


def test_statuses_depend_on_the_order_of_the_numbers_alone() -> None:
    for lower, claimed in itertools.product((0.0, 0.5, 1.0), repeat=2):
        found = judge(Claim.gaussian(claimed), LowerBound("mu", lower, 0.9, "a test"))
        assert (found.status == "refuted") == (lower > claimed)

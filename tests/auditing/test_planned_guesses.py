"""What is planned is what an audit tests."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.auditing import power, power_of_runs
from miaudit.auditing.planned_guesses import PlannedGuesses
from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Hedged, Pilot, Schedule
from miaudit.errors import InputError


def test_each_option_plans_what_it_tests() -> None:
    def of(option: object) -> PlannedGuesses:
        return PlannedGuesses.of(option, 1_000, 0.95)  # type: ignore[arg-type]

    assert of(None) == of(Hedged()) and of(None).audited == 1_000
    assert of(Pilot()).audited == 800
    assert of(500) == of(Fixed(500)) == PlannedGuesses(1_000, ((500, 0.95),))
    assert of(Bonferroni(counts=(10, 40))).tests == ((10, 0.975), (40, 0.975))
    assert of(Exploratory(counts=(10, 40))).tests == ((10, 0.95), (40, 0.95))
    assert {at for _, at in of(Schedule()).tests} == {0.95}
    assert of(Hedged()).tests[-2:] == ((200, pytest.approx(0.996)), (1_000, pytest.approx(0.996)))
    assert of(Hedged()).tests[0] == (2, pytest.approx(0.97))
    with pytest.raises(InputError, match="guesses: expected at most the 1,000 records"):
        of(1_001)


def test_a_hedged_plan_counts_every_canary_and_promises_about_as_much_as_a_pilot() -> None:
    asked = {"members": 500, "nonmembers": 500, "confidence": 0.975, "true_mus": (0.66,)}
    pilot, hedged = (power.reach("one-run", guesses=option, **asked) for option in (Pilot(), None))
    assert (pilot.audited, hedged.audited) == (800, 1_000)
    assert hedged.typical[0].mu_shown == pytest.approx(pilot.typical[0].mu_shown, rel=0.1)


@pytest.mark.long
def test_several_runs_are_planned_by_the_option_too() -> None:
    def shown(option: object) -> float:
        rng = np.random.default_rng(0)
        (found,) = power_of_runs.reach(
            500,
            true_mus=[1.0],
            numbers=[1],
            confidence=0.975,
            guesses=option,
            rng=rng,  # type: ignore[arg-type]
        )
        return found.shown[0]

    assert shown(Hedged()) > shown(Fixed(500)) + 0.1
    assert shown(None) == shown(Hedged())

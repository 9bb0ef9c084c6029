"""Which limit a sensitivity analysis puts first, and what it says."""

from __future__ import annotations

import pytest

from miaudit.findings.sensitivity import CovariateStrength, LimitSensitivity, Sensitivity

YEAR = CovariateStrength("year", 2.69, 0.083)
AGE = CovariateStrength("age", 1.66, -0.0001)


def limit(factor: float | None, *, name: str = "tpr_at_fpr_0.01", side: str = "low", threshold: float = 0.05):
    return LimitSensitivity(name, "loss", side, threshold, factor)


def test_a_concern_stands_while_one_limit_does_and_within_the_limits_needs_all() -> None:
    for side, factors in (("low", [3.0, 1.4, 1.1]), ("high", [1.1, 1.4, 3.0])):
        found = Sensitivity.of(tuple(limit(factor, side=side) for factor in (1.4, 3.0, 1.1)), ())
        assert [one.factor for one in found.limits] == factors
    beyond = Sensitivity.of((limit(50.0), limit(None)), ())
    assert beyond.limits[0].factor is None
    assert "up to 100" in beyond.text


def test_a_bound_on_mu_comes_last_unless_it_exceeds_a_limit() -> None:
    idle = limit(9.0, name="mu", threshold=0.0)
    found = Sensitivity.of((idle, limit(1.4)), ())
    assert found.limits[-1] is idle
    assert found.text.endswith("The lower bound on mu stays above 0 up to a factor of 9.00.")
    decides = Sensitivity.of((limit(9.0, name="mu", threshold=0.5), limit(1.4)), ())
    assert decides.limits[0].limit == "mu"
    assert "explain mu above 0.5" in decides.text


def test_what_moves_the_metric_matters_more_than_what_moves_the_odds() -> None:
    rare = CovariateStrength("rare", 5.0, 0.0004)
    found = Sensitivity.of((limit(3.2),), (rare, YEAR, AGE))
    assert [one.covariate for one in found.covariates] == ["year", "rare", "age"]
    assert "matter more than year does" in found.text
    unknown = tuple(CovariateStrength(name, odds, None) for name, odds in (("a", 1.2), ("b", 4.0)))
    assert Sensitivity.of((limit(3.2),), unknown).covariates[0].covariate == "b"


def test_the_strongest_covariate_is_the_yardstick() -> None:
    strong = Sensitivity.of((limit(3.2),), (AGE, YEAR))
    assert [one.covariate for one in strong.covariates] == ["year", "age"]
    assert strong.text == (
        "An unmeasured trait could explain TPR at 1% FPR above 5% only if it multiplied or divided the odds of "
        "membership by 3.20 or more, and decided the score as well. It would have to matter more than year does. The "
        "covariate that matters most, year, multiplies or divides them by 2.69. Without year, TPR at 1% FPR would be "
        "8.3 points higher."
    )
    weak = Sensitivity.of((limit(1.3),), (AGE, YEAR))
    assert "by 2.69: a trait as strong as that could do it." in weak.text
    assert "would have to matter more" not in weak.text


@pytest.mark.parametrize(("moved", "said"), [(-0.02, "2.0 points lower"), (0.0004, "the same"), (None, "")])
def test_what_leaving_a_covariate_out_moves(moved: float | None, said: str) -> None:
    found = Sensitivity.of((limit(2.0, side="high"),), (CovariateStrength("year", 1.5, moved),))
    assert "could hide TPR at 1% FPR above 5%" in found.text
    assert said in found.text
    assert ("Without year" in found.text) is bool(said)

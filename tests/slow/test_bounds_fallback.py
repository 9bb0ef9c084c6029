"""Bounds of whole audits under shifts that no line in the covariates describes, by the default of ``bounds_model``.

The choice of the screened line depends on the data: a test refutes the line on the same records. So the claims are
about the whole procedure, from evidence to bound. Nothing leaks, and any bound above 0 is false. An audit without a
bound counts as one that is not false. The controls take the same models whatever the tests of their fit say.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from miaudit import Evidence, Plan
from miaudit.causal import propensity
from miaudit.dp import zero_run
from validity.claims import Claims
from validity.sequential import SequentialTest
from worlds import coverage, placebo

pytestmark = [pytest.mark.slow, pytest.mark.validity]

PLAN = Plan(primary_metric="auc", fpr_targets=(0.1,))
N = 2000
LEVEL = SequentialTest(0.05, 0.15)  # 43 audits without a false bound; twice the level would take 85


def bounds(evidence: Evidence, rng: np.random.Generator) -> dict[str, float]:
    """Bounds on mu and on pure epsilon, 0 where there are none."""
    with threadpool_limits(1):
        findings = coverage.audit(evidence, PLAN, rng)
    values = {bound.parameter: bound.value for bound in findings.bounds if not bound.delta}
    return {"mu": values.get("mu", 0.0), "epsilon": values.get("epsilon", 0.0)}


def untested(evidence: Evidence, screened: bool, rng: np.random.Generator) -> float:
    """Bound on mu by a line, screened or not, that no test voids."""
    with threadpool_limits(1):
        learned = propensity.fit(evidence, screened=screened, rng=rng)
        return zero_run.mu_lower_bound(evidence, learned, rng=rng).value


@pytest.mark.parametrize("name", ["product", "opposite correlations", "sites as codes", "step", "line"])
def test_no_bound_is_false_where_nothing_leaks(claim: Claims, name: str) -> None:
    """The screen learns the first two; it does not learn sites, whose bounds the tests void."""

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        return {key: value > 0 for key, value in bounds(placebo.draw(name, N, rng), rng).items()}

    claim(replicate, holds={"mu": LEVEL, "epsilon": LEVEL})
    claim(lambda rng: {"line": untested(placebo.draw("product", N, rng), False, rng) > 0}, fails={"line": LEVEL})


def test_the_tests_are_asked_of_the_screened_line_too(claim: Claims) -> None:
    """Without them a screened line that has not learned the shift shows it as a leak."""

    def control(rng: np.random.Generator) -> dict[str, bool]:
        return {"screened": untested(placebo.draw("sites as codes", N, rng), True, rng) > 0}

    claim(control, fails={"screened": LEVEL})


@pytest.mark.parametrize("name", ["product", "opposite correlations"])
def test_a_leak_is_bounded_where_a_line_gave_no_bound(claim: Claims, name: str) -> None:
    """Membership adds one standard deviation of noise to the score; the control is no leak."""

    def missed(rng: np.random.Generator, effect: float = 1.0) -> dict[str, bool]:
        return {"missed": bounds(placebo.draw(name, N, rng, effect=effect), rng)["mu"] == 0}

    claim(missed, holds={"missed": SequentialTest(0.2, 0.5)})
    claim(lambda rng: missed(rng, 0.0), fails={"missed": SequentialTest(0.2, 0.5)})

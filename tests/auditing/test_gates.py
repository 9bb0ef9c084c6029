"""What corrects the numbers of an audit, and what refuses it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, Plan
from miaudit.auditing import bounds
from miaudit.auditing.case import choose
from miaudit.auditing.gates import Gates
from miaudit.auditing.seed import AuditStreams

LINE = Plan(propensity_model="line", estimator="hajek", bounds=None)


def gates_of(shift: float = 0.5, n: int = 1000, plan: Plan = LINE, **fields: Any) -> Gates:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    member = rng.random(n) < special.expit(shift * x[:, 0])
    evidence = Evidence(
        score=x[:, 0] + rng.normal(size=n), member=member, **{"covariates": x, "design": "zero-run", **fields}
    )
    streams = AuditStreams.of(np.random.default_rng(1))
    return Gates.of(choose(evidence, plan, rng=streams.choice), None, streams)


@pytest.fixture(scope="module")
def comparable() -> Gates:
    return gates_of()


@pytest.mark.long
def test_a_correction_of_comparable_records_is_used(comparable: Gates) -> None:
    assert comparable.used is comparable.of_verdict is comparable.correction is not None
    assert comparable.obstacle == ""
    assert comparable.shows_metrics(LINE)


@pytest.mark.long
def test_without_overlap_nothing_is_used_and_the_verdict_reads_why() -> None:
    gates = gates_of(shift=8.0)
    assert gates.used is None
    assert gates.of_verdict is gates.correction is not None
    assert gates.obstacle.startswith(gates.correction.overlap.reasons[0])
    assert not gates.shows_metrics(LINE)
    assert gates.shows_metrics(replace(LINE, raw_only=True))


def test_without_covariates_there_is_an_obstacle_and_no_correction() -> None:
    gates = gates_of(covariates=None)
    assert gates.correction is gates.of_verdict is None
    assert "no covariates" in gates.obstacle
    assert gates.refused("for another reason") is gates


def test_a_randomised_design_is_refuted_by_covariates_that_identify_members() -> None:
    contradicted, sound = gates_of(shift=8.0, design="one-run"), gates_of(shift=0.0, design="one-run")
    assert contradicted.contradicted
    assert contradicted.obstacle == contradicted.design.obstacle != ""
    assert not sound.contradicted
    assert sound.obstacle == ""
    assert sound.correction is None
    assert sound.shows_metrics(LINE)


@pytest.mark.parametrize(("p_value", "refused"), [(bounds.BEYOND_LEARNING, True), (0.01, False)])
def test_a_challenge_refuses_beyond_noise_of_learning(comparable: Gates, p_value: float, refused: bool) -> None:
    challenge: Any = SimpleNamespace(p_value=p_value, text="The propensities are refuted.")
    gates = comparable.challenged(challenge)
    assert (gates.used is None) == refused
    assert ("The propensities are refuted." in gates.obstacle) == refused
    assert comparable.challenged(None) is comparable

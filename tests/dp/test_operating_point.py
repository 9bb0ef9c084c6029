"""The smallest claims that permit a point: points of a claim's curve have its parameter, and impossible ones none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miaudit.dp import operating_point, tradeoff
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian
from miaudit.errors import InputError


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.floats(1e-9, 1 - 1e-9), st.floats(0, 20), st.sampled_from([0.0, 1e-6, 0.1]))
def test_a_point_on_the_curve_has_the_parameter_of_the_curve(fpr: float, value: float, delta: float) -> None:
    claim = EpsilonDelta(value, delta)
    tpr = claim.tpr_at_fpr(fpr)
    if tpr < 1 - 1e-9:
        assert tradeoff.epsilon_of_point(tpr=tpr, fpr=fpr, delta=delta) == pytest.approx(value, abs=1e-5)
    tpr = Gaussian(value).tpr_at_fpr(fpr)
    if tpr < 1 - 1e-6:
        assert tradeoff.mu_of_point(tpr=tpr, fpr=fpr) == pytest.approx(value, abs=1e-5)


def test_the_ends_of_the_curve() -> None:
    assert tradeoff.epsilon_of_point(tpr=0.0, fpr=0.0) == 0.0
    assert tradeoff.mu_of_point(tpr=1.0, fpr=0.5) == math.inf
    assert tradeoff.epsilon_of_point(tpr=0.02, fpr=0.0, delta=0.02) == 0.0


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "1", None])
def test_what_is_no_rate_is_refused(bad: Any) -> None:
    for ask in (
        lambda: tradeoff.epsilon_of_point(tpr=bad, fpr=0.1),
        lambda: tradeoff.mu_of_point(tpr=0.5, fpr=bad),
        lambda: operating_point.check_rates("fpr", np.array([0.5, bad])),
        lambda: operating_point.check_prior(bad),
    ):
        with pytest.raises(InputError):
            ask()
    assert operating_point.check_rates("fpr", [0, 1]).tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="fair coin"):
        operating_point.check_prior(1.0)

"""Claims with known miss rates: what is accepted, what is rejected, and that seeds decide everything."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from validity.claims import Claims, half_as_wide, outside, outside_half
from validity.sequential import SequentialTest


def rate(value: float):
    return lambda rng: {"missed": rng.random() < value}


def normal_mean(rng: np.random.Generator) -> dict[str, bool]:
    """The exact interval of a mean of ten, and that of half its width."""
    mean, half = rng.normal(size=10).mean(), 1.96 / 10**0.5
    return {"whole": outside(mean - half, 0, mean + half), "half": outside_half(mean - half, 0, mean + half)}


def test_an_exact_interval_holds_and_half_of_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    claims = Claims("a mean", 5)
    claims(normal_mean, holds={"whole": 0.05}, fails={"half": 0.05})
    assert claims.controls == 1
    printed = capsys.readouterr().out
    assert "whole: " in printed
    assert "control, half: " in printed


def test_a_claim_that_does_not_hold_and_a_control_that_does_are_errors() -> None:
    with pytest.raises(AssertionError, match="not as claimed: missed \\(seed ff\\)"):
        Claims("x", 255)(rate(0.15), holds={"missed": 0.05})
    with pytest.raises(AssertionError, match="not as claimed: missed"):
        Claims("x", 255)(rate(0.01), fails={"missed": 0.05})


def test_what_is_undecided_at_the_cap_is_neither() -> None:
    short = SequentialTest(cap=20)
    for role in ("holds", "fails"):
        with pytest.raises(AssertionError, match="undecided"):
            Claims("x", 0)(rate(0.0), **{role: {"missed": short}})


def test_replicates_without_an_answer_are_not_counted_and_do_not_go_on_for_ever() -> None:
    calls = []

    def sometimes(rng: np.random.Generator) -> dict[str, bool | None]:
        calls.append(1)
        return {"missed": None if rng.random() < 0.5 else False}

    Claims("x", 0)(sometimes, holds={"missed": 0.05})
    assert 120 < len(calls) < 240
    with pytest.raises(AssertionError, match="0 of 0 miss"):
        Claims("x", 0)(lambda rng: {"missed": None}, holds={"missed": 0.05})


def test_one_statement_that_fails_ends_the_claim() -> None:
    calls = []

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        calls.append(1)
        return {"wrong": True, "right": rng.random() < 0.075}

    with pytest.raises(AssertionError, match="not as claimed: wrong, right"):
        Claims("x", 0)(replicate, holds={"wrong": 0.05, "right": 0.05})
    assert len(calls) == 10


def test_the_seed_the_name_and_the_call_decide_every_draw() -> None:
    def draws(claims: Claims, times: int) -> list[float]:
        found = []

        def replicate(rng: np.random.Generator) -> dict[str, bool]:
            found.append(rng.random())
            return {"missed": False}

        for _ in range(times):
            claims(replicate, holds={"missed": 0.05})
        return found

    first = draws(Claims("a", 1), 2)
    assert first == draws(Claims("a", 1), 2)
    assert len(set(first)) == len(first)
    for other in (Claims("a", 2), Claims("b", 1)):
        assert not set(first) & set(draws(other, 2))


def test_a_number_of_replicates_is_run_whatever_is_decided(capsys: pytest.CaptureFixture[str]) -> None:
    Claims("x", 3, replicates=400)(rate(0.02), holds={"missed": 0.05})
    line = capsys.readouterr().out.splitlines()[-1]
    assert ": accepted; " in line
    assert " of all 400: 0.0" in line


def test_a_statement_is_named_once() -> None:
    for wrong in ({}, {"holds": {"a": 0.05}, "fails": {"a": 0.05}}):
        with pytest.raises(ValueError, match="once"):
            Claims("x", 0)(rate(0.05), **wrong)


def test_half_as_wide_has_the_same_middle_and_ends() -> None:
    owner = SimpleNamespace(limits=lambda middle, half: (np.array([middle - half]), np.array([middle + half])))
    with half_as_wide(owner, "limits"):
        low, high = owner.limits(1.0, half=0.4)
        assert (low[0], high[0]) == pytest.approx((0.8, 1.2))
    assert owner.limits(1.0, half=0.4)[0][0] == pytest.approx(0.6)

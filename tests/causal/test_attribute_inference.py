"""Attribute inference as an effect: known truth, coverage, what must fail, randomised designs, refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from miaudit import Evidence
from miaudit.causal import effects, propensity
from miaudit.causal.attribute_inference import effect
from miaudit.errors import InputError
from worlds.confounded import given


@dataclass(frozen=True)
class Secrets:
    """A secret of two values that goes with x ~ N(0, 1), P(secret = 1 | x) = expit(2 x); the attacker guesses x > 0.

    P(member | x) = expit(1.2 (|x| - 0.8)), so members' secrets are easier to guess. Of a share ``memorised`` of the
    members the model gives the secret away, and the guess is the secret.
    """

    memorised: float

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Evidence, np.ndarray]:
        """Return zero-run evidence with the covariate |x|, and the true propensity."""
        x = rng.normal(size=n)
        pi = self.inclusion(x)
        member = rng.random(n) < pi
        secret = rng.random(n) < expit(2 * x)
        shown = member & (rng.random(n) < self.memorised)
        right = np.where(shown, secret, x > 0) == secret
        return Evidence(score=right, member=member, covariates=np.abs(x), design="zero-run"), pi

    @staticmethod
    def inclusion(x: np.ndarray) -> np.ndarray:
        return np.asarray(expit(1.2 * (np.abs(x) - 0.8)))

    @property
    def rates(self) -> tuple[float, float, float]:
        """Return the true accuracy on members, on them had they not been learned, and on non-members: integrals."""
        x = np.linspace(-9, 9, 20_001)
        density, pi, anybody = np.exp(-x * x / 2), self.inclusion(x), expit(2 * np.abs(x))
        inside, outside = density * pi, density * (1 - pi)
        absent = float(inside @ anybody / inside.sum())
        return self.memorised + (1 - self.memorised) * absent, absent, float(outside @ anybody / outside.sum())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def held(estimate: Any, truth: float) -> bool:
    return bool(estimate.low <= truth <= estimate.high)


# -- the truth ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memorised", [0.0, 0.3])
def test_accuracies_and_effect_of_a_large_sample_are_those_of_the_integrals(memorised: float) -> None:
    world = Secrets(memorised)
    inside, absent, outside = world.rates
    evidence, pi = world.draw(200_000, rng())
    corrected, raw = effect(evidence, pi, rng=rng()), effect(evidence, method="difference", rng=rng())
    assert corrected.members.value == pytest.approx(inside, abs=0.005)
    assert corrected.controls.value == pytest.approx(absent, abs=0.005)
    assert corrected.difference.value == pytest.approx(inside - absent, abs=0.007)
    # The control that must fail: the accuracy on members less that on non-members as they are.
    assert raw.controls.value == pytest.approx(outside, abs=0.005)
    assert raw.difference.value > inside - absent + 0.07
    assert raw.difference.note.startswith("raw, not causal")
    assert (corrected.method, raw.method) == ("hajek", "difference")
    assert corrected.effective_controls < raw.effective_controls == evidence.n_nonmembers


@pytest.mark.long
@pytest.mark.parametrize("memorised", [0.0, 0.3])
def test_intervals_cover_the_truth_and_the_raw_ones_do_not(memorised: float) -> None:
    inside, absent, _ = Secrets(memorised).rates
    corrected = raw = controls = 0
    for seed in range(120):
        evidence, pi = Secrets(memorised).draw(1500, rng(seed))
        found = effect(evidence, pi, rng=rng())
        corrected += held(found.difference, inside - absent)
        controls += held(found.controls, absent)
        raw += held(effect(evidence, method="difference", rng=rng()).difference, inside - absent)
    assert min(corrected, controls) >= 108  # 4 in 10,000 of honest intervals are below
    assert raw <= 60


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["hajek", "g", "aipw"])
def test_a_learned_propensity_and_regressions_find_the_effect(method: str) -> None:
    inside, absent, _ = Secrets(0.3).rates
    evidence, _ = Secrets(0.3).draw(4000, rng(5))
    learned = propensity.stacked(evidence, rng=rng())
    found = effect(evidence, learned, method=method, rng=rng())
    assert held(found.difference, inside - absent)
    assert found.difference.value == found.members.value - found.controls.value
    assert not held(effect(evidence, method="difference", rng=rng()).difference, inside - absent)


# -- twins -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["hajek", "horvitz-thompson"])
def test_the_difference_is_the_average_effect_and_holds_its_interval(method: str) -> None:
    evidence, pi = Secrets(0.2).draw(600, rng(1))
    found, average = (f(evidence, pi, method=method, rng=rng()) for f in (effect, effects.ate))
    assert found.difference.value == pytest.approx(average.value, abs=1e-12)
    assert found.difference.low <= average.low < average.high <= found.difference.high
    assert found.difference.high - found.difference.low < 1.2 * (average.high - average.low)
    share = evidence.score[~evidence.member] @ given(np.log(pi / (1 - pi))).odds[~evidence.member]
    weights = (pi / (1 - pi))[~evidence.member]
    total = weights.sum() if method == "hajek" else evidence.n_members
    assert found.controls.value == pytest.approx(share / total)
    assert found.effective_controls == pytest.approx(weights.sum() ** 2 / (weights @ weights))


def test_units_widen_the_intervals() -> None:
    evidence, pi = Secrets(0.2).draw(300, rng(2))
    copies, unit = np.repeat(np.arange(300), 4), np.repeat(np.arange(300), 4)
    four = Evidence(
        score=evidence.score[copies], member=evidence.member[copies], unit=unit, design="zero-run"
    )  # each person four times
    one, many = effect(evidence, pi, rng=rng()), effect(four, pi[copies], rng=rng())
    assert many.difference.value == pytest.approx(one.difference.value)
    assert many.effective_controls == pytest.approx(one.effective_controls)
    assert many.difference.low == pytest.approx(one.difference.low, abs=0.01)


# -- randomised designs, edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_a_randomised_design_needs_no_propensity(design: str) -> None:
    evidence = Evidence(score=[1] * 60 + [0] * 40 + [1] * 30 + [0] * 70, member=[1] * 100 + [0] * 100, design=design)
    found = effect(evidence, rng=rng())
    assert (found.members.value, found.controls.value) == pytest.approx((0.6, 0.3))
    assert found.effective_controls == 100
    assert found.difference.value == pytest.approx(0.3)
    assert 0.15 < found.difference.low < 0.18  # Newcombe's: .163
    assert found.difference.note == ""


@pytest.mark.parametrize("right", [0, 1])
def test_guesses_that_are_all_alike_leave_an_interval(right: int) -> None:
    found = effect(Evidence(score=[right] * 30, member=[1] * 10 + [0] * 20, design="one-run"), rng=rng())
    assert found.difference.value == 0
    assert found.difference.low < -0.1
    assert found.difference.high > 0.1


def test_one_record_of_each_kind_has_limits_within_one() -> None:
    found = effect(Evidence(score=[1, 0], member=[1, 0], design="one-run"), rng=rng())
    assert (found.difference.low, found.difference.value, found.difference.high) == (-1, 1, 1)
    assert found.difference.note


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"score": [-0.2, 1.0, 0.0]}, {}, "score: expected 1 where the secret was guessed right.*-0.2.*effects.ate"),
        ({"design": None}, {}, "design: expected one-run, multi-run or zero-run, received None"),
        ({}, {}, "propensity: expected the propensity of each record, received None.*propensity.fit"),
        ({"design": "one-run"}, {"method": "aipw"}, "propensity: expected the propensity of each record"),
        ({}, {"propensity": [0.5] * 3, "method": "hajk"}, "method: .*hajk.*hajek"),
        ({}, {"method": "hajk"}, "method: .*hajk.*hajek"),
        ({}, {"propensity": [0.5] * 2}, "propensity: "),
        ({}, {"propensity": [0.5, 0.5, 1.0]}, "propensity: "),
        ({"design": "one-run"}, {"confidence": 1.0}, "confidence: "),
    ],
)
def test_refusals_name_what_is_wrong(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    evidence = Evidence(**{"score": [1, 1, 0], "member": [1, 0, 0], "design": "zero-run"} | changes)
    with pytest.raises(InputError, match=message):
        effect(evidence, **options, rng=rng())

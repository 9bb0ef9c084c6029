"""The search asks for few noises and ends where a bisection of all of them ends."""

import math

import pytest

from miaudit.dp import accounting
from miaudit.dp.mechanism import dp_sgd
from miaudit.dp.noise_search import LEAST, MOST, OutOfRange, smallest


def bisected(epsilon, target, tolerance):
    """The straightforward way: each question is answered by the accountant."""
    high = 1.0
    if epsilon(high) <= target:
        while epsilon(high / 2) <= target:
            high /= 2
        low = high / 2
    else:
        while not epsilon(2 * high) <= target:
            high *= 2
        low, high = high, 2 * high
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon(middle) <= target else (middle, high)
    return high


FALLING = {
    "a power": lambda noise: 3.7 / noise**1.3,
    "a sum of powers": lambda noise: 0.4 / noise + 2 / noise**2,
    "steep": lambda noise: math.exp(min(1 / noise**2, 600.0)) - 1,
    "steps": lambda noise: 2.0 ** -math.floor(math.log2(noise) * 3),
    "a kink": lambda noise: min(3 / noise, 30 / noise**4),
    "infinite below": lambda noise: math.inf if noise < 1.7 else 5 / noise,
    "infinite at first": lambda noise: math.inf if noise < 40 else 90 / noise,
    "zero above": lambda noise: max(0.0, 2 - noise / 3),
    "flat": lambda noise: 1.0 + 1e-3 / noise,
}


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize("target", [0.02, 0.31, 1.0, 1.0003, 2.9, 40.0])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-5])
def test_it_ends_where_the_bisection_ends(name, target, tolerance):
    epsilon = FALLING[name]
    if not epsilon(MOST / 4) <= target < epsilon(LEAST * 4):
        with pytest.raises(OutOfRange):
            smallest(epsilon, target, tolerance)
        return
    noise = smallest(epsilon, target, tolerance)
    assert noise == bisected(epsilon, target, tolerance)
    assert epsilon(noise) <= target < epsilon(noise / (1 + tolerance) ** 2)
    assert noise != bisected(lambda one: epsilon(one / 1.5), target, tolerance)


@pytest.mark.parametrize(("power", "target"), [(0.7, 0.3), (1.0, 3.0), (1.9, 11.0)])
def test_a_power_takes_a_handful_of_questions(power, target):
    asked, plain = [], []
    for search, noises in ((smallest, asked), (bisected, plain)):
        search(lambda noise, n=noises: n.append(noise) or 2 / noise**power, target, 1e-4)
    assert len(asked) == len(set(asked)) <= 6 < 14 <= len(plain)


def test_the_ends_of_the_range_are_named():
    with pytest.raises(OutOfRange) as little:
        smallest(lambda noise: 1e-9 / noise, 1.0, 1e-3)
    assert little.value.kept and little.value.noise < LEAST
    with pytest.raises(OutOfRange) as much:
        smallest(lambda noise: 1e9 / noise, 1.0, 1e-3)
    assert not much.value.kept and much.value.noise > MOST


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "epsilon", "delta"), [(400, 1.0, 1e-6), (1000, 3.0, 1e-5)], ids=["epsilon 1", "epsilon 3"]
)
def test_the_noise_of_dp_sgd_is_that_of_the_bisection(steps, epsilon, delta):
    asked = []

    def family(noise):
        asked.append(noise)
        return dp_sgd(records=60_000, batch=600, noise=noise, steps=steps)

    noise = accounting.calibrate_noise(family, epsilon=epsilon, delta=delta)
    assert len(asked) <= 8
    assert accounting.upper_bound(family(noise), delta=delta).value <= epsilon
    assert noise == bisected(lambda one: accounting.upper_bound(family(one), delta=delta).value, epsilon, 1e-3)

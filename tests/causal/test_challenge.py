"""A challenge of propensities: a wrong one is refuted, a right one is spared."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.naive_bayes import GaussianNB

from causal.test_propensity import rng_of
from miaudit import Evidence
from miaudit.causal import challenge
from miaudit.errors import InputError
from worlds.shifted import world


@pytest.mark.long
def test_a_challenge_refutes_a_wrong_propensity_and_spares_a_right_one() -> None:
    right, _ = world(1000, 1000, 2, 0.6)
    spared = [challenge.challenge(right, [GaussianNB()], rng=rng_of(s)).rejected for s in range(10)]
    assert sum(spared) <= 2
    rng = rng_of()
    member = np.arange(2000) % 2 == 0
    x = rng.normal(size=(2000, 1)) * np.where(member, 2.0, 1.0)[:, None]
    wrong = Evidence(score=rng.normal(size=2000), member=member, covariates=x)
    found = challenge.challenge(wrong, [GaussianNB(), GaussianNB()], rng=rng)
    assert found.rejected
    assert found.smallest_gamma > 0.1
    for options, words in (({"competitors": []}, "competitors"), ({"gamma": -1.0}, "gamma"), ({"level": 1.0}, "level")):
        with pytest.raises(InputError, match=words):
            challenge.challenge(wrong, rng=rng, **{"competitors": [GaussianNB()], **options})


def poisson_binomial(p: np.ndarray, least: int) -> float:
    law = np.array([1.0])
    for q in p:
        law = np.convolve(law, [1 - q, q])
    return float(law[least:].sum())


@pytest.mark.parametrize("tests", [1, 3])
def test_a_bet_by_its_definition(tests: int) -> None:
    """Guess what the challenger finds likelier than the propensity does; a tie is a bet against membership."""
    generator = np.random.default_rng(0)
    own, other = generator.normal(size=(2, 60))
    other[:5] = own[:5]
    member = generator.random(60) < special.expit(own + 2 * (other - own))
    bet = challenge.against(own, other, member, gamma=0.2, level=0.1, tests=tests)
    guess = np.where(other > own, 1, -1)
    right = int((guess == np.where(member, 1, -1)).sum())
    assert (bet.correct, bet.guesses) == (right, 60)

    def p_value(margin: float) -> float:
        return min(1.0, tests * poisson_binomial(special.expit(guess * own + margin), right))

    assert bet.p_value == pytest.approx(p_value(0.2), abs=1e-12)
    assert bet.smallest_gamma is not None
    assert p_value(bet.smallest_gamma) > 0.1 >= p_value(bet.smallest_gamma - 1.1e-3)
    assert bet.refutes == (bet.p_value <= 0.1)


def test_a_margin_of_nothing_and_one_that_is_too_large() -> None:
    member = np.repeat([True, False], 30)
    even = challenge.against(np.zeros(60), np.tile([1.0, -1.0], 30), member)
    assert even.smallest_gamma == 0.0
    assert not even.refutes
    sure = np.where(member, 80.0, -80.0)
    beyond = challenge.against(-sure, sure, member)
    assert beyond.smallest_gamma is None  # a propensity that is certain of the opposite is not saved by a margin of 50
    assert beyond.refutes


def test_of_several_bets_the_most_certain_is_reported_and_the_margin_that_none_rejects() -> None:
    member = np.repeat([True, False], 100)
    own, sides = np.zeros(200), np.where(member, 1.0, -1.0)
    bets = [
        challenge.against(own, np.where(np.arange(200) % 100 < right, sides, -sides), member, competitor=str(right))
        for right in (60, 90, 75)
    ]
    margins = [bet.smallest_gamma for bet in bets]
    assert bets[1].p_value < bets[2].p_value < bets[0].p_value
    whole = challenge._strongest(bets)
    assert (whole.competitor, whole.correct, whole.p_value) == ("90", 180, bets[1].p_value)
    assert whole.rejected and whole.competitors == ("60", "90", "75")
    assert whole.smallest_gamma == margins[1] == max(margins)
    sure = challenge.against(-80 * sides, 80 * sides, member)  # no margin saves it
    assert challenge._strongest([*bets, sure]).smallest_gamma is None

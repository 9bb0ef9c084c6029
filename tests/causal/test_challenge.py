"""A challenge of propensities: a wrong one is refuted, a right one is spared."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from causal.test_propensity import rng_of
from miaudit import Evidence
from miaudit.causal import challenge
from miaudit.errors import InputError
from worlds.shifted import world


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

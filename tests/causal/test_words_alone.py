"""What all words say of membership, against worlds in which the telling word is known."""

from __future__ import annotations

import numpy as np
import pytest

import miaudit as ma
from miaudit.causal import balance
from miaudit.errors import InputError
from miaudit.metrics.classical import Estimate

COMMON = [f"common{i}" for i in range(30)]
RARE = [f"rare{i}" for i in range(400)]


def texts(n: int, telling: float, seed: int) -> ma.Evidence:
    """Members use words of the first half of a large vocabulary, each with ``telling`` preference; nothing else."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    rows = []
    for inside in member:
        half = np.array(RARE[:200] if inside else RARE[200:])
        own = [str(rng.choice(half if rng.random() < telling else RARE)) for _ in range(6)]
        rows.append(" ".join([*rng.choice(COMMON, 12), *own]))
    return ma.Evidence(score=rng.normal(size=n), member=member, text=rows, design="zero-run")


def test_words_that_tell_everything_are_refused_whatever_the_propensity_says() -> None:
    auc, reason = balance.words_alone(texts(800, 1.0, 0), Estimate(0.99, 0.98, 1.0, 0.95), rng=np.random.default_rng(0))
    assert auc.low > 0.95
    assert "hardly any member has a comparable non-member" in reason


@pytest.mark.long
def test_words_that_say_nothing_leave_no_reason() -> None:
    auc, reason = balance.words_alone(texts(800, 0.0, 1), Estimate(0.5, 0.46, 0.54, 0.95), rng=np.random.default_rng(0))
    assert auc.low < 0.5 < auc.high
    assert reason == ""


@pytest.mark.thorough
@pytest.mark.long
def test_a_shift_in_rare_words_that_few_components_miss_refuses_the_audit() -> None:
    evidence = texts(800, 0.5, 2)
    found = ma.audit(evidence, rng=np.random.default_rng(0))
    assert found.verdict.exit_code == 4
    assert found.overlap is not None
    assert any("misses a shift" in reason for reason in found.overlap.reasons)
    shuffled = evidence.replace(text=np.random.default_rng(3).permutation(evidence.text))  # the control: nothing there
    answered = ma.audit(shuffled, rng=np.random.default_rng(0))
    assert answered.overlap is not None
    assert not any("words of the texts" in reason for reason in answered.overlap.reasons)


def test_texts_without_words_are_refused() -> None:
    evidence = ma.Evidence(score=range(40), member=[0, 1] * 20, text=["?"] * 40, design="zero-run")
    with pytest.raises(InputError, match="texts with words in them"):
        balance.words_alone(evidence, Estimate(0.5, 0.4, 0.6, 0.95), rng=np.random.default_rng(0))

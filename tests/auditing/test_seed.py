from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit import Evidence, audit
from miaudit.auditing.seed import AssessmentStreams, AuditStreams, generator
from miaudit.errors import InputError


def evidence() -> Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(300) < 0.5
    return Evidence(score=rng.normal(size=300) + member, member=member, design="one-run")


def test_a_seed_gives_what_its_generator_gives() -> None:
    by_seed, by_generator = audit(evidence(), rng=5), audit(evidence(), rng=np.random.default_rng(5))
    assert by_seed.scores == by_generator.scores
    assert by_seed.bounds == by_generator.bounds
    assert by_seed.repeat["seed"] == 5
    assert "seed" not in by_generator.repeat


def test_a_drawn_seed_is_said_and_repeats_the_audit() -> None:
    first = audit(evidence())
    seed = first.repeat["seed"]
    assert first.notes[0] == f"No seed was given: rng={seed} repeats this audit."
    assert audit(evidence(), rng=seed).bounds == first.bounds
    assert generator(None)[1] != generator(None)[1]


def test_whole_numbers_of_numpy_are_seeds() -> None:
    assert generator(np.int64(3))[1] == {"seed": 3}  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [-1, True, 1.5, "0"])
def test_other_things_are_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"rng: expected a numpy.random.Generator, a whole number from 0, or None"):
        generator(given)


def test_each_stage_has_a_generator_of_its_own_in_an_order_that_stays() -> None:
    streams, rng = AuditStreams.of(np.random.default_rng(3)), np.random.default_rng(3)
    choice, bootstrap, correction, bounds, verdict = rng.spawn(5)
    assessment, causal = correction.spawn(2)
    expected = (choice, bootstrap, correction, bounds, verdict, assessment, causal)
    for name, one in zip(AuditStreams.__dataclass_fields__, expected, strict=True):
        assert getattr(streams, name).random() == one.random(), name
    steps = AssessmentStreams.of(np.random.default_rng(4))
    for name, one in zip(AssessmentStreams.__dataclass_fields__, np.random.default_rng(4).spawn(6), strict=True):
        assert getattr(steps, name).random() == one.random(), name

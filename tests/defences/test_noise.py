"""Noise on outputs: what it keeps, and whether it silences the classifier that it was aimed at."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.defences.noise import AdversarialNoise, OutputNoise, label_kept
from miaudit.errors import InputError


def sides(seed: int = 0, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet([30, 1, 1, 1], n), rng.dirichlet([6, 1, 1, 1], n)


def test_the_classifier_it_was_aimed_at_is_undecided() -> None:
    rng = np.random.default_rng(1)
    members, others = sides()
    fitted = AdversarialNoise(2.0).fit(others, np.zeros(600, dtype=np.intp), learnt=members, rng=rng)
    for p in sides(seed=2):
        z = np.log(np.maximum(-np.sort(-p, axis=1), 1e-30))
        before = z @ fitted.slope + fitted.offset
        after = fitted.apply(p, rng=rng).values
        said = np.log(np.maximum(-np.sort(-after, axis=1), 1e-30)) @ fitted.slope + fitted.offset
        assert np.median(np.abs(said)) < 0.05 < np.median(np.abs(before))
        assert (after.argmax(axis=1) == p.argmax(axis=1)).all()
        assert after.sum(axis=1) == pytest.approx(np.ones(len(p)))


def test_the_budget_is_kept() -> None:
    rng = np.random.default_rng(3)
    members, others = sides()
    y = np.zeros(600, dtype=np.intp)
    free = AdversarialNoise(2.0).fit(others, y, learnt=members, rng=rng).apply(members, rng=rng).values
    full = np.abs(free - members).sum(axis=1).mean()
    small = full / 4
    tight = AdversarialNoise(small).fit(others, y, learnt=members, rng=rng).apply(members, rng=rng).values
    assert np.abs(tight - members).sum(axis=1).mean() == pytest.approx(small, rel=0.2)


def test_it_needs_members_to_learn_from() -> None:
    with pytest.raises(InputError, match="outputs on records that the model learnt"):
        AdversarialNoise().fit(sides()[1], np.zeros(600, dtype=np.intp), rng=np.random.default_rng(0))


def test_noise_has_its_scale_and_keeps_the_label() -> None:
    rng = np.random.default_rng(4)
    close = OutputNoise(0.5).apply(np.tile([0.4, 0.3, 0.3], (20_000, 1)), rng=rng).values
    assert (close.argmax(axis=1) == 0).all()
    shown = OutputNoise(0.5).apply(np.tile([0.98, 0.01, 0.01], (20_000, 1)), rng=rng).values
    apart = np.log(shown[:, 1]) - np.log(shown[:, 2])  # neither is the label: their difference is pure noise
    assert apart.std() == pytest.approx(0.5 * 2**0.5, rel=0.02)


def test_label_kept_changes_two_values_only() -> None:
    rng = np.random.default_rng(5)
    p, changed = rng.dirichlet(np.ones(5), 100), rng.dirichlet(np.ones(5), 100)
    kept = label_kept(changed, p)
    assert (kept.argmax(axis=1) == p.argmax(axis=1)).all()
    assert np.array_equal(np.sort(kept, axis=1), np.sort(changed, axis=1))
    assert ((kept != changed).sum(axis=1) <= 2).all()


def test_outputs_that_are_all_alike_are_left_alone_without_a_word() -> None:
    rng = np.random.default_rng(5)
    alike = np.tile([0.7, 0.2, 0.1], (60, 1))
    fitted = AdversarialNoise().fit(alike, np.zeros(60, dtype=np.intp), learnt=alike, rng=rng)
    assert np.array_equal(fitted.apply(alike, rng=rng).values, alike)  # and warnings are errors

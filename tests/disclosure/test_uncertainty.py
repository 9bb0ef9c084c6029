"""Calibration error and uncertainties: known worlds come back, what stands in for the truth is said, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from miaudit.disclosure import uncertainty
from miaudit.disclosure.dirichlet import World, sample
from miaudit.errors import InputError
from miaudit.models.shadow import ShadowOutputs

WORLDS = [World(10, 0.5, 0.25, 0.2), World(4, 0.3, 0.05, 0.1), World(3, 0.6, 1.0, 0.5)]


def drawn(world: World, models: int, rng: np.random.Generator, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shadow outputs (n, models, K) with the true label in the column of each record's label, and inclusion."""
    included = np.tile(np.arange(models) % 2 == 0, (len(labels), 1))
    p = np.empty((len(labels), models, world.classes))
    for side, alpha in ((0, world.alpha_in), (1, world.alpha_out)):
        first = sample(np.tile(alpha, (len(labels), 1)), models // 2, rng=rng)
        for i, label in enumerate(labels):
            others = np.delete(np.arange(world.classes), label)
            p[i, side::2, label] = first[i, :, 0]
            p[i, side::2][:, others] = first[i, :, 1:]
    return p, included


@pytest.mark.parametrize("world", WORLDS)
def test_the_three_figures_of_a_known_world_come_back(world: World) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(6) % world.classes
    p, included = drawn(world, 4000, rng, labels)
    found = uncertainty.estimate(p, included, labels)
    assert np.allclose(found.aleatoric, world.aleatoric, atol=0.05)
    assert np.allclose(found.epistemic, world.epistemic, rtol=0.06)
    within = np.abs(found.calibration_error - world.calibration_error) / found.calibration_error_sd
    assert within.max() < 3.5
    for form in ("fitted", "three-numbers"):
        for alpha, truth in zip(found.parameters(form), (world.alpha_in, world.alpha_out), strict=True):
            assert np.allclose(alpha, truth, rtol=0.2, atol=0.02 / world.epistemic)
    # The control: with wrong labels the figures are others.
    wrong = uncertainty.estimate(p, included, (labels + 1) % world.classes)
    assert np.abs(wrong.aleatoric - world.aleatoric).min() > 0.05


def test_its_standard_error_is_the_spread_over_repetitions() -> None:
    rng = np.random.default_rng(1)
    world = WORLDS[1]
    labels = np.zeros(600, dtype=int)
    p, included = drawn(world, 40, rng, labels)
    found = uncertainty.estimate(p, included, labels)
    assert found.calibration_error_sd.mean() == pytest.approx(found.calibration_error.std(), rel=0.12)
    known = uncertainty.estimate(p, included, labels, truth=1 - world.aleatoric)
    assert known.calibration_error_sd.mean() == pytest.approx(known.calibration_error.std(), rel=0.12)
    assert known.calibration_error_sd.mean() < found.calibration_error_sd.mean()


def test_what_stands_in_for_the_truth_is_said() -> None:
    rng = np.random.default_rng(2)
    p, included = drawn(WORLDS[0], 16, rng, np.zeros(20, dtype=int))
    assumed = uncertainty.estimate(p, included, np.zeros(20, dtype=int))
    assert "mean confidence of the models that did not learn" in assumed.notes[0]
    assert np.allclose(assumed.truth, assumed.confidence_out)
    given = uncertainty.estimate(p, included, np.zeros(20, dtype=int), truth=0.5)
    assert given.notes[0] == "the true probability of a record's label was given by the caller"
    assert (given.aleatoric == 0.5).all()
    assert np.allclose(given.calibration_error, (given.confidence_in - 0.5) / 0.5)


def test_only_models_that_are_used_count_and_the_order_of_models_does_not() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(8) % 4
    p, included = drawn(WORLDS[1], 30, rng, labels)
    used = np.zeros_like(included)
    used[:, :20] = True
    order = rng.permutation(20)
    a = uncertainty.estimate(p, included, labels, used=used)
    b = uncertainty.estimate(p[:, order], included[:, order], labels)
    for name, column in a.table().items():
        assert np.allclose(column, b.table()[name]), name
    assert (a.models_in == 10).all()


def test_records_outside_the_domain_are_counted_and_still_have_proper_laws() -> None:
    rng = np.random.default_rng(4)
    included = np.tile(np.arange(20) % 2 == 0, (3, 1))
    alpha = np.array([[[9.0, 1, 1]] * 20, [[1.0, 6, 6]] * 20, [[4.0, 1, 1]] * 20])
    alpha[0, ::2] = [5.0, 3, 3]  # less sure of what was learned
    alpha[2, ::2] = [40.0, 1, 1]
    gamma = rng.gamma(alpha)
    found = uncertainty.estimate(gamma / gamma.sum(axis=2, keepdims=True), included, [0, 0, 0])
    assert found.in_domain.tolist() == [False, False, True]
    assert any(note.startswith("2 of 3 records lie outside the theory's domain") for note in found.notes)
    for law in found.parameters("three-numbers"):
        assert np.isfinite(law).all()
        assert (law > 0).all()


def test_zeros_and_certain_models_give_numbers_and_a_word_about_it() -> None:
    included = np.tile(np.arange(12) % 2 == 0, (2, 1))
    p = np.zeros((2, 12, 3))
    p[0, :, 0] = 1.0
    p[1] = np.random.default_rng(5).dirichlet([2, 1, 1], 12)
    found = uncertainty.estimate(p, included, [1, 0])
    for name, column in found.table().items():
        assert np.isfinite(column).all(), name
    assert found.smoothed == pytest.approx(1 / 3)
    assert any("raised to it" in note for note in found.notes)
    assert any("1 records did not converge" in note for note in found.notes)


GOOD = {"probabilities": np.full((2, 8, 3), 1 / 3) + np.random.default_rng(0).dirichlet([1, 1, 1], (2, 8)) * 0,
        "included": np.array([[True, False] * 4] * 2), "labels": np.array([0, 2])}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"probabilities": np.ones((2, 8, 1))}, "received K = 1"),
        ({"probabilities": np.full((2, 8, 3), 0.5)}, "a sum of 1.5 or values below 0, first in record 0, model 0"),
        ({"probabilities": np.full((2, 8, 3), np.nan)}, "sum to 1, received a sum of nan"),
        ({"probabilities": np.ones((2, 8))}, "numbers of shape (n, M, K)"),
        ({"included": GOOD["included"].T}, "transpose it"),
        ({"labels": np.array([0, 3])}, "2 whole numbers from 0 to 2"),
        ({"labels": np.array([0.0, 1.0])}, "whole numbers"),
        ({"included": np.array([[True] * 3 + [False] * 5] * 2)}, "4 models or more with and without each record"),
        ({"truth": 0.0}, "truth: expected one probability or 2"),
        ({"truth": [0.5, 0.5, 0.5]}, "received shape (3,)"),
        ({"smoothing": 0.4}, "smoothing: expected a number in (0, 0.333)"),
        ({"used": np.ones((2, 7), dtype=bool)}, "used: expected True or False"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        uncertainty.estimate(**{**GOOD, **changed})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_few_models_are_refused_with_what_would_do() -> None:
    with pytest.raises(InputError, match=r"train 8 or more with shadow.inclusion\(n, 8\), or pool records"):
        uncertainty.estimate(GOOD["probabilities"][:, :4], GOOD["included"][:, :4], GOOD["labels"])


def test_an_unknown_form_is_refused() -> None:
    p, included = drawn(WORLDS[1], 12, np.random.default_rng(6), np.zeros(2, dtype=int))
    with pytest.raises(InputError, match="did you mean three-numbers"):
        uncertainty.estimate(p, included, [0, 0]).parameters("three-number")  # type: ignore[arg-type]


def test_shadow_outputs_become_arrays_in_the_order_that_was_asked_for() -> None:
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(6, 5, 3)).astype(np.float32)
    included, labels = rng.random((6, 5)) < 0.5, rng.integers(0, 3, 5)
    outputs = ShadowOutputs.of(list(logits), included, labels)
    p, inside, y = uncertainty.from_shadow(outputs, [4, 0])
    assert p.shape == (2, 6, 3)
    assert np.allclose(p, special.softmax(logits[:, [4, 0]].astype(float), axis=2).transpose(1, 0, 2))
    assert np.array_equal(inside, included.T[[4, 0]])
    assert y.tolist() == labels[[4, 0]].tolist()
    assert uncertainty.from_shadow(outputs)[0].shape == (5, 6, 3)
    for rows in ([5], [-1], [0.0], []):
        with pytest.raises(InputError, match="rows: expected whole numbers from 0 to 4"):
            uncertainty.from_shadow(outputs, rows)
    with pytest.raises(InputError, match="train without signal"):
        uncertainty.from_shadow(ShadowOutputs.of(list(logits[..., 0]), included, labels, kind="logit_confidence"))

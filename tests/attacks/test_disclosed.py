"""Attacks that see only what is disclosed: against SciPy's laws, loops, the best possible attack, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from miaudit.attacks import dirichlet_fit, disclosed
from miaudit.errors import InputError

ALPHA_IN, ALPHA_OUT = np.array([6.0, 0.5, 1.0, 2.0]), np.array([4.0, 1.5, 1.0, 2.0])


def outputs(
    included: np.ndarray, rng: np.random.Generator, inside: np.ndarray = ALPHA_IN, outside: np.ndarray = ALPHA_OUT
) -> np.ndarray:
    gamma = rng.gamma(np.where(included[..., None], inside, outside))
    return gamma / gamma.sum(axis=-1, keepdims=True)


def halves(n: int, models: int, rng: np.random.Generator) -> np.ndarray:
    return rng.permuted(np.tile(np.arange(models) % 2 == 0, (n, 1)), axis=1)


def auc(scores: np.ndarray, member: np.ndarray) -> float:
    wins = stats.mannwhitneyu(scores[member], scores[~member]).statistic
    return float(wins / (member.sum() * (~member).sum()))


def test_the_vector_attack_is_the_ratio_of_scipys_densities_at_the_fitted_parameters() -> None:
    rng = np.random.default_rng(0)
    included = halves(5, 40, rng)
    shadow, target = outputs(included, rng), outputs(np.ones((5, 1), dtype=bool), rng)[:, 0]
    found = disclosed.confidence_vector(target, shadow, included)
    for i in range(5):
        logs = [
            stats.dirichlet.logpdf(target[i], dirichlet_fit.fit(shadow[i][side][None]).alpha[0])
            for side in (included[i], ~included[i])
        ]
        assert found[i] == pytest.approx(logs[0] - logs[1], abs=1e-6)


def test_the_true_label_attack_is_the_ratio_of_scipys_beta_densities_by_its_own_fit() -> None:
    rng = np.random.default_rng(1)
    included = halves(4, 60, rng)
    shadow, target = outputs(included, rng)[..., 0], np.array([0.1, 0.5, 0.9, 0.99])
    found = disclosed.true_label(target, shadow, included)
    for i in range(4):
        laws = [stats.beta.fit(shadow[i][side], floc=0, fscale=1)[:2] for side in (included[i], ~included[i])]
        expected = stats.beta.logpdf(target[i], *laws[0]) - stats.beta.logpdf(target[i], *laws[1])
        assert found[i] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_set_attack_is_a_sum_over_labels_by_the_slow_way() -> None:
    rng = np.random.default_rng(2)
    included = halves(6, 20, rng)
    shadow = outputs(included, rng) >= 0.2
    target = rng.random((6, 3, 4)) < 0.5
    found = disclosed.decision_set(target, shadow, included)
    for i in range(6):
        for t in range(3):
            total = 0.0
            for k in range(4):
                rates = [(shadow[i, side, k].sum() + 0.5) / (side.sum() + 1) for side in (included[i], ~included[i])]
                chosen = rates if target[i, t, k] else [1 - rate for rate in rates]
                total += np.log(chosen[0]) - np.log(chosen[1])
            assert found[i, t] == pytest.approx(total)


def test_with_many_models_attacks_come_near_the_best_and_less_disclosure_is_less_power() -> None:
    rng = np.random.default_rng(3)
    included, member = halves(400, 400, rng), rng.random(400) < 0.5
    shadow, target = outputs(included, rng), outputs(member[:, None], rng)[:, 0]
    best = stats.dirichlet.logpdf(target.T, ALPHA_IN) - stats.dirichlet.logpdf(target.T, ALPHA_OUT)
    vector = disclosed.confidence_vector(target, shadow, included)
    label = disclosed.true_label(target[:, 0], shadow[..., 0], included)
    sets = disclosed.decision_set(target >= 0.3, shadow >= 0.3, included)
    assert np.corrcoef(vector, best)[0, 1] > 0.97
    assert abs(auc(vector, member) - auc(best, member)) < 0.02
    assert auc(vector, member) > auc(label, member) + 0.02 > 0.62
    assert auc(label, member) > auc(sets, member) > 0.55


@pytest.mark.parametrize("name", ["confidence_vector", "true_label", "decision_set"])
def test_without_leakage_a_held_out_model_is_scored_fairly_and_one_that_was_fitted_is_not(name: str) -> None:
    rng = np.random.default_rng(4)
    included, member = halves(1000, 16, rng), halves(1000, 8, rng)
    shadow = outputs(included, rng, ALPHA_OUT, ALPHA_OUT)
    held = outputs(member, rng, ALPHA_OUT, ALPHA_OUT)
    given = {
        "confidence_vector": (held, shadow),
        "true_label": (held[..., 0], shadow[..., 0]),
        "decision_set": (held >= 0.3, shadow >= 0.3),
    }[name]
    attack = getattr(disclosed, name)
    fair = attack(given[0], given[1], included)
    assert abs(auc(fair.ravel(), member.ravel()) - 0.5) < 0.025
    # The control that must fail: models that the laws were fitted to look like what they are.
    own = attack(given[1], given[1], included)
    assert auc(own.ravel(), included.ravel()) > 0.6


@pytest.mark.parametrize("name", ["confidence_vector", "true_label", "decision_set"])
def test_models_that_are_not_used_might_as_well_be_missing(name: str) -> None:
    rng = np.random.default_rng(5)
    included = halves(20, 24, rng)
    shadow, target = outputs(included, rng), outputs(halves(20, 2, rng), rng)
    used = np.zeros_like(included)
    used[:, 4:20] = True
    few = shadow[:, 4:20]
    attack = getattr(disclosed, name)
    reduced = {"confidence_vector": lambda p: p, "true_label": lambda p: p[..., 0], "decision_set": lambda p: p > 0.2}
    seen = reduced[name]
    a = attack(seen(target), seen(shadow), included, used=used)
    b = attack(seen(target), seen(few), included[:, 4:20])
    assert np.allclose(a, b, rtol=1e-6, atol=1e-8)
    # One target at a time gives the same numbers.
    assert np.allclose(a[:, 0], attack(seen(target)[:, 0], seen(shadow), included, used=used))


def test_classes_and_models_may_come_in_any_order() -> None:
    rng = np.random.default_rng(6)
    included = halves(30, 20, rng)
    shadow, target = outputs(included, rng), outputs(halves(30, 2, rng), rng)[:, 0]
    base = disclosed.confidence_vector(target, shadow, included)
    classes, models = rng.permutation(4), rng.permutation(20)
    other = disclosed.confidence_vector(target[:, classes], shadow[:, models][:, :, classes], included[:, models])
    assert np.allclose(base, other, rtol=1e-6, atol=1e-7)


def test_zeros_are_raised_and_certain_models_give_finite_scores() -> None:
    rng = np.random.default_rng(7)
    included = halves(3, 12, rng)
    shadow = np.zeros((3, 12, 3))
    shadow[..., 0] = 1.0
    target = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    assert np.isfinite(disclosed.confidence_vector(target, shadow, included)).all()
    assert np.isfinite(disclosed.true_label(target[:, 0], shadow[..., 0], included)).all()


@pytest.mark.parametrize("held", [True, False])
def test_sets_that_are_always_full_or_empty_say_nothing(held: bool) -> None:
    included = halves(5, 10, np.random.default_rng(8))
    full = np.full((5, 10, 3), held)
    assert (disclosed.decision_set(full, full, included) == 0).all()


GOOD = {"target": np.full((2, 3), 1 / 3), "shadow": np.full((2, 4, 3), 1 / 3),
        "included": np.array([[True, True, False, False]] * 2)}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shadow": np.full((2, 4, 1), 1.0), "target": np.ones((2, 1))}, "K = 1"),
        ({"target": np.full((2, 3), 2.0)}, "target: expected probabilities, from 0 to 1, received 2"),
        ({"target": np.full((2, 3), 0.2)}, "a sum of 0.6, first in record 0"),
        ({"shadow": np.full((2, 4, 3), np.nan)}, "received nan, first in record 0"),
        ({"target": np.full((3, 3), 1 / 3)}, "2 records and 3 classes, as in shadow"),
        ({"target": np.full((2, 4), 1 / 4)}, "2 records and 3 classes, as in shadow"),
        ({"included": GOOD["included"].T}, "transpose it"),
        ({"included": GOOD["included"].astype(int)}, "included: expected True or False"),
        ({"included": np.array([[True, False, False, False]] * 2)}, "received 1 on one side of a record"),
        ({"used": np.ones((2, 3), dtype=bool)}, "used: expected True or False of shape (2, 4)"),
        ({"used": np.zeros((2, 4), dtype=bool)}, "received 0 on one side"),
        ({"smoothing": 0.5}, "smoothing: expected a number in (0, 0.333)"),
        ({"shadow": np.full((2, 4), 1 / 3)}, "probabilities of shape (n, M, K)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        disclosed.confidence_vector(**{**GOOD, **changed})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sets_have_to_be_true_and_false_and_the_threshold_a_share() -> None:
    with pytest.raises(InputError, match="sets_of makes sets"):
        disclosed.decision_set(GOOD["target"], GOOD["shadow"], GOOD["included"])
    with pytest.raises(InputError, match="threshold: expected a number in"):
        disclosed.sets_of([[0.5, 0.5]], 1.5)

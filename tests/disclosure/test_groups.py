"""Groups of records: known laws come back from one model, limits cover, bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from miaudit.disclosure import groups
from miaudit.disclosure.dirichlet import World
from miaudit.errors import InputError

WORLD = World(5, 0.4, 0.1, 0.3)


def one_model(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs (n, 1, K) of one model on records of two classes, half of them learned; the label's column varies."""
    included = (np.arange(n) % 2 == 0)[:, None]
    gamma = rng.gamma(np.where(included[..., None], WORLD.alpha_in, WORLD.alpha_out))
    p = gamma / gamma.sum(axis=2, keepdims=True)
    labels = np.where(np.arange(n) < n // 2, 0, 3)
    p[labels == 3] = p[labels == 3][..., [3, 1, 2, 0, 4]]
    return p, included, labels


@pytest.mark.long
def test_the_figures_of_a_known_law_come_back_from_one_model() -> None:
    rng = np.random.default_rng(0)
    p, included, labels = one_model(8000, rng)
    found = groups.pooled(p, included, labels, labels, rng=rng)
    assert [group.name for group in found] == ["0", "3"]
    for group in found:
        assert group.aleatoric.value == pytest.approx(WORLD.aleatoric, abs=0.02)
        assert group.epistemic == pytest.approx(WORLD.epistemic, rel=0.08)
        assert group.calibration_error.low < WORLD.calibration_error < group.calibration_error.high
        assert group.members.epistemic.low < WORLD.epistemic < group.members.epistemic.high
        assert max(group.members.distance, group.nonmembers.distance) < 0.045
        assert (group.members.records, group.members.outputs) == (2000, 2000)
        assert "mean confidence of the models that did not learn" in group.assumption
        json.dumps(group.to_dict(), allow_nan=False)
    # The control that must fail: the same outputs under the wrong label are no such law.
    (wrong,) = groups.pooled(p[:4000], included[:4000], np.full(4000, 1), rng=rng)
    assert abs(wrong.aleatoric.value - WORLD.aleatoric) > 0.3


def test_another_law_is_far_from_its_fit() -> None:
    rng = np.random.default_rng(1)
    confidence = np.where(rng.random(2000) < 0.5, rng.beta(60, 20, 2000), rng.beta(20, 60, 2000))
    p = np.column_stack([confidence, 1 - confidence])[:, None]
    (found,) = groups.pooled(p, (np.arange(2000) < 1000)[:, None], np.zeros(2000, dtype=int), rng=rng)
    assert found.members.distance > 0.08
    assert found.members.distance_alone == pytest.approx(
        found.members.distance, abs=1e-6
    )  # with two classes they are one
    fitted = stats.beta(*found.members.alpha)
    assert found.members.distance == pytest.approx(stats.kstest(confidence[:1000], fitted.cdf).statistic, abs=1e-6)


@pytest.mark.long
def test_limits_cover_the_truth_with_several_models_of_each_record() -> None:
    """Records differ, so their models are no independent draws: limits that took them for such would be too narrow."""
    rng = np.random.default_rng(2)
    covered, naive = 0, 0
    for _ in range(60):
        included = np.tile(np.arange(8) % 2 == 0, (60, 1))
        own = rng.beta(3, 3, 60)
        confidence = np.clip(own[:, None] + 0.1 * included + 0.03 * rng.normal(size=(60, 8)), 0.01, 0.99)
        p = np.stack([confidence, 1 - confidence], axis=2)
        (found,) = groups.pooled(p, included, np.zeros(60, dtype=int), truth=0.5, replicates=200, rng=rng)
        covered += found.calibration_error.low < 0.2 < found.calibration_error.high
        learned = confidence[included]
        naive += abs(learned.mean() - 0.6) < 1.96 * learned.std() / np.sqrt(len(learned))
    assert covered >= 52
    assert naive < 48


def test_a_given_truth_is_used_and_said() -> None:
    rng = np.random.default_rng(3)
    p, included, labels = one_model(400, rng)
    (found,) = groups.pooled(p, included, labels, truth=0.5, rng=rng)
    assert found.name == "all records"
    assert (found.aleatoric.low, found.aleatoric.high) == (0.5, 0.5)
    assert found.calibration_error.value == pytest.approx((found.members.confidence.value - 0.5) / 0.5)
    assert "given by the caller" in found.assumption


P, INCLUDED, LABELS = one_model(60, np.random.default_rng(4))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"groups": np.arange(60) < 55}, "10 or more members in each, received 2 in group 'False'"),
        ({"groups": np.zeros(5)}, "groups: expected one for each of 60 records"),
        ({"truth": 1.5}, "truth: expected"),
        ({"confidence": 1.0}, "confidence: expected a number in (0, 1)"),
        ({"replicates": 3}, "replicates: expected 100 or more"),
        ({"probabilities": np.ones((60, 1, 1))}, "K = 1"),
        ({"included": np.ones((60, 1), dtype=bool)}, "10 or more non-members in each, received 0"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(changed: dict[str, Any], said: str) -> None:
    given = {"probabilities": P, "included": INCLUDED, "labels": LABELS, **changed}
    with pytest.raises(InputError) as caught:
        groups.pooled(**given, rng=np.random.default_rng(0))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)

"""Label-only attacks against loops over records, and in a world whose rates are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.attacks import label_only
from miaudit.errors import InputError
from worlds.shadow import auc


def world(n: int, models: int, rng: np.random.Generator, k: int = 9) -> tuple[np.ndarray, ...]:
    """Rates of right copies: a record's own out-rate, and a higher in-rate."""
    out = rng.uniform(0.1, 0.9, n)
    inside = out + 0.6 * (1 - out)
    member = rng.random(n) < 0.5
    included = rng.permuted(np.tile(np.arange(models) % 2 == 0, (n, 1)), axis=1)
    correct = rng.random((n, k)) < np.where(member, inside, out)[:, None]
    shadow = rng.random((n, models, k)) < np.where(included, inside[:, None], out[:, None])[:, :, None]
    count = correct.sum(1)
    best = stats.binom.logpmf(count, k, inside) - stats.binom.logpmf(count, k, out)
    return correct, shadow, included, member, best


def test_counts_come_first_and_rare_copies_settle_the_rest() -> None:
    rng = np.random.default_rng(0)
    correct = rng.random((500, 6)) < np.linspace(0.9, 0.2, 6)
    found = label_only.score(correct)
    count = correct.sum(1)
    for more in range(1, 7):
        if (count == more).any() and (count == more - 1).any():
            assert found[count == more].min() > found[count == more - 1].max()
    hardness = 1 - correct.mean(0)
    same = np.flatnonzero(count == 3)
    order = np.argsort(found[same])
    assert (np.diff((correct[same] @ hardness)[order]) >= -1e-12).all()
    assert len(set(found)) > len(set(count))  # control: the plain share
    assert label_only.score(np.ones((4, 3), dtype=bool)).tolist() == [1.0] * 4
    assert label_only.score(np.zeros((4, 3), dtype=bool)).tolist() == [0.0] * 4


def test_calibrated_is_the_binomial_ratio_of_smoothed_rates() -> None:
    rng = np.random.default_rng(1)
    correct, shadow, included, _, _ = world(60, 6, rng)
    k = 9
    in_all = (shadow[included].sum() + 0.5) / (included.sum() * k + 1)
    out_all = (shadow[~included].sum() + 0.5) / ((~included).sum() * k + 1)
    expected = []
    for c, s, i in zip(correct, shadow, included, strict=True):
        p_in = (s[i].sum() + 2 * k * in_all) / ((i.sum() + 2) * k)
        p_out = (s[~i].sum() + 2 * k * out_all) / (((~i).sum() + 2) * k)
        expected.append(stats.binom.logpmf(c.sum(), k, p_in) - stats.binom.logpmf(c.sum(), k, p_out))
    np.testing.assert_allclose(label_only.calibrated(correct, shadow, included), expected, rtol=1e-9, atol=1e-12)


def test_calibrated_reaches_its_share_of_the_best_possible_auc() -> None:
    rng = np.random.default_rng(2)
    correct, shadow, included, member, best = world(4000, 32, rng)
    found = auc(label_only.calibrated(correct, shadow, included), member)
    assert (found - 0.5) / (auc(best, member) - 0.5) > 0.97
    assert auc(label_only.score(correct), member) < found - 0.05  # control: without shadow models
    wrong = rng.permuted(included, axis=1)
    assert auc(label_only.calibrated(correct, shadow, wrong), member) < found - 0.1


def test_learned_on_shadow_records_comes_near_the_best_weights() -> None:
    rng = np.random.default_rng(3)
    rate_in, rate_out = np.array([0.95, 0.9, 0.6, 0.6]), np.array([0.9, 0.6, 0.5, 0.6])
    member, shadow_member = rng.random(5000) < 0.5, rng.random(5000) < 0.5
    correct = rng.random((5000, 4)) < np.where(member[:, None], rate_in, rate_out)
    other = rng.random((5000, 4)) < np.where(shadow_member[:, None], rate_in, rate_out)
    weights = np.log(rate_in / rate_out) - np.log((1 - rate_in) / (1 - rate_out))
    best = auc(correct @ weights, member)
    found = auc(label_only.learned(correct, other, shadow_member), member)
    assert (found - 0.5) / (best - 0.5) > 0.95
    assert abs(auc(label_only.learned(correct, other, rng.permutation(shadow_member)), member) - 0.5) < found - 0.5


@pytest.mark.parametrize("bad", [np.zeros((3, 2)), np.zeros(3, dtype=bool), np.zeros((0, 2), dtype=bool), [["a"]]])
def test_what_is_not_a_matrix_of_true_and_false_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="compare predictions and labels"):
        label_only.score(bad)


def test_shapes_that_disagree_are_refused() -> None:
    correct, shadow, included, member, _ = world(20, 6, np.random.default_rng(4))
    with pytest.raises(InputError, match="same copies"):
        label_only.calibrated(correct[:, :3], shadow, included)
    with pytest.raises(InputError, match="a row for each record"):
        label_only.calibrated(correct, shadow, included.T)
    with pytest.raises(InputError, match="one kind only"):
        label_only.calibrated(correct, shadow, np.ones_like(included))
    with pytest.raises(InputError, match="same augmentations"):
        label_only.learned(correct, correct[:, :2], member)
    with pytest.raises(InputError, match="one for each shadow row"):
        label_only.learned(correct, correct, np.ones(20, dtype=bool))

"""Metrics under wrong labels against closed forms."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import effects, mislabelling
from miaudit.errors import InputError
from miaudit.metrics.roc import Roc
from worlds.confounded import Confounded
from worlds.twins import auc_by_pairs


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_what_wrong_labels_shrink_is_stretched_on_both_sides_of_chance() -> None:
    evidence, p = Confounded(effect=-0.7).draw(150, 150, rng(8))
    found = mislabelling.under_mislabelling(evidence, p, members=0.1, nonmembers=0.2, rng=rng())
    ate, auc, best = (metric(evidence, p, rng=rng()) for metric in (effects.ate, effects.auc, effects.advantage))
    assert ate.high < 0
    for name, one, chance in (("ate", ate, 0.0), ("auc", auc, 0.5), ("advantage", best, 0.0)):
        for end in ("value", "low", "high"):
            expected = chance + (getattr(one, end) - chance) / 0.7
            expected = expected if name == "ate" else min(max(expected, 0.0), 1.0)
            assert getattr(found[name], end) == pytest.approx(expected), (name, end)


@pytest.mark.long
def test_mislabelled_records_are_undone() -> None:
    e1, e0, n = 0.1, 0.2, 20_000
    draws = rng(7)
    right = np.arange(2 * n) < n
    wrong = draws.random(2 * n)
    score = draws.normal(size=2 * n) + np.where(right, wrong >= e1, wrong < e0)  # what a record truly is
    evidence = Evidence(score=score, member=right, design="zero-run")
    flat = SimpleNamespace(values=np.full(2 * n, 0.5), odds=np.ones(2 * n), features=None)
    found = mislabelling.under_mislabelling(evidence, flat, members=e1, nonmembers=e0, fpr_targets=(0.1,), rng=rng())
    assert found["auc"].value == pytest.approx(0.7602, abs=0.012)
    assert found["ate"].value == pytest.approx(1.0, abs=0.05)
    assert found["advantage"].value == pytest.approx(0.3829, abs=0.02)
    assert found["tpr_at_fpr_0.1"].value == pytest.approx(0.389, abs=0.03)
    for name, truth in {"auc": 0.7602, "ate": 1.0, "tpr_at_fpr_0.1": 0.389}.items():
        assert found[name].low < truth < found[name].high
    assert abs(effects.auc(evidence, flat, rng=rng()).value - 0.7602) > 0.05  # control
    nobody = mislabelling.under_mislabelling(evidence, flat, members=0, nonmembers=0, rng=rng())
    assert nobody["auc"] == effects.auc(evidence, flat, rng=rng())


def test_the_mixture_in_closed_form() -> None:
    """The area of a mixed curve shrinks by 1 - e1 - e0, whatever the two laws are."""
    inside, outside = rng(1).normal(size=40) + 1, rng(2).normal(size=40)
    e1, e0 = 0.25, 0.5
    score = np.r_[np.tile(inside, 3), outside, np.tile(inside, 1), outside]
    member = np.r_[np.ones(160, bool), np.zeros(80, bool)]
    pure = auc_by_pairs(np.r_[inside, outside], np.arange(80) < 40)
    mixed = auc_by_pairs(score, member)
    assert mixed - 0.5 == pytest.approx((1 - e1 - e0) * (pure - 0.5))
    solved = mislabelling.solved_curve(Roc.of(score, member), e1, e0)
    assert solved.auc == pytest.approx(pure)


def test_bad_input() -> None:
    evidence, p = Confounded().draw(5, 9, rng(0))
    with pytest.raises(InputError, match="less than 1"):
        mislabelling.under_mislabelling(evidence, p, members=0.6, nonmembers=0.4, rng=rng())
    with pytest.raises(InputError, match="members"):
        mislabelling.under_mislabelling(evidence, p, members=-0.1, nonmembers=0.4, rng=rng())

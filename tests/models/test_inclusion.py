"""Inclusion: each record, or each unit as a whole, in exactly half of the models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.errors import InputError
from miaudit.models import inclusion as module
from miaudit.models.inclusion import checked_included, inclusion


def test_every_record_is_in_exactly_half_of_the_models() -> None:
    drawn = inclusion(3000, 6, rng=np.random.default_rng(1))
    assert drawn.shape == (6, 3000)
    assert (drawn.sum(axis=0) == 3).all()
    patterns = np.unique(drawn.T @ (2 ** np.arange(6)), return_counts=True)[1]
    assert len(patterns) == 20  # all halves of six
    assert stats.chisquare(patterns).pvalue > 0.001


def test_inclusion_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8 * 4 * 7)
    drawn = inclusion(50, 4, rng=np.random.default_rng(1))
    assert (drawn.sum(axis=0) == 2).all()
    for n, models in ((0, 4), (5, 3), (5, 0)):
        with pytest.raises(InputError):
            inclusion(n, models, rng=np.random.default_rng(1))


def test_units_are_drawn_as_a_whole_and_each_is_in_half_of_the_models() -> None:
    unit = np.array(["a", "b", "a", "c", "b", "a", "d"])
    drawn = inclusion(7, 6, unit=unit, rng=np.random.default_rng(0))
    assert (drawn.sum(axis=0) == 3).all()
    for name in "abcd":
        assert (drawn[:, unit == name] == drawn[:, unit == name][:, :1]).all()
    expected = inclusion(4, 6, rng=np.random.default_rng(0))[:, [0, 1, 0, 2, 1, 0, 3]]
    np.testing.assert_array_equal(drawn, expected)
    with pytest.raises(InputError, match="unit: expected one for each of 7 records"):
        inclusion(7, 6, unit=unit[:3], rng=np.random.default_rng(0))


def test_a_model_without_records_and_other_shapes_are_refused() -> None:
    drawn = inclusion(6, 4, rng=np.random.default_rng(0))
    assert checked_included(drawn, 6) is drawn
    for wrong in (drawn[:, :5], drawn.astype(int), drawn[0], np.vstack([drawn, np.zeros((1, 6), bool)])):
        with pytest.raises(InputError, match="included"):
            checked_included(wrong, 6)

"""Signals by the kind of outputs: each kind has those of its own module."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.attacks import multi_label, output_kinds, signals
from miaudit.errors import InputError


def test_each_kind_has_its_signals() -> None:
    rng = np.random.default_rng(0)
    z, classes, labels = rng.normal(size=(9, 3)), rng.integers(0, 3, 9), rng.integers(0, 2, (9, 3))
    by_class = output_kinds.member_scores("logits", z, classes, ["margin"])["margin"]
    np.testing.assert_array_equal(by_class, signals.margin(z, classes))
    by_label = output_kinds.member_scores("multi-label", z, labels, ["margin"])["margin"]
    np.testing.assert_array_equal(by_label, multi_label.margin(z, labels))
    errors = output_kinds.member_scores("predictions", z, 2.0 * z, ["loss"])["loss"]
    np.testing.assert_allclose(errors, -(z**2).sum(axis=1))


def test_other_kinds_and_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="kind: expected one of logits, multi-label, predictions"):
        output_kinds.member_scores("signals", np.zeros((1, 1)), [0], ["loss"])
    with pytest.raises(InputError, match="predictions: expected a column for each value, received 1 for 2"):
        output_kinds.member_scores("predictions", np.zeros((3, 1)), np.zeros((3, 2)), ["loss"])

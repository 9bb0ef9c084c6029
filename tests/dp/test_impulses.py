"""Deviations by impulses beside closed forms, and refusal where impulses cannot show them."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.arrays import FloatArray
from miaudit.dp.impulses import deviation
from miaudit.errors import InputError


def linear(matrix: np.ndarray) -> FloatArray:
    """Return the deviation of ``matrix @ z`` by impulses in z (size,)."""

    def respond(*, signs: bool = False, place: int | None = None) -> FloatArray:
        z = np.ones(matrix.shape[1])
        if signs:
            z = np.array([1.0, -1.0, -1.0, 1.0])[: len(z)]
        if place is not None:
            z = np.eye(len(z))[place]
        return np.abs(matrix @ z)

    return deviation(respond, size=matrix.shape[1], claimed=1.0, call="call 1")


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([2.0, 0.5, 3.0]),
        np.array([[2.0], [0.5]]),
        np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.7]]),
        np.zeros((2, 3)),
    ],
    ids=["one each", "shared", "two for one", "none"],
)
def test_the_deviation_is_the_norm_of_each_row(matrix: np.ndarray) -> None:
    assert linear(matrix) == pytest.approx(np.linalg.norm(matrix, axis=1))


def test_mixed_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="call 1, with 3 numbers that are mixed"):
        linear(np.tril(np.ones((3, 3))))

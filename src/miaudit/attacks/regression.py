"""The signal of a record of a regression: how far the prediction is from the value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray
from miaudit.errors import InputError

__all__ = ["squared_error"]


def squared_error(predictions: NDArray[Any], values: ArrayLike) -> FloatArray:
    """Squared errors (n,), 0 upwards, of predictions (n, k), added over the k values of a record; lower for members.

    Parameters
    ----------
    predictions : array (n, k)
    values : array (n,) or (n, k)

    Raises
    ------
    InputError
        For another number of columns than of values.

    Examples
    --------
    >>> squared_error(np.array([[1.0, 2.0]]), [[0.0, 4.0]]).tolist()
    [5.0]
    """
    truth = np.asarray(values, dtype=np.float64).reshape(len(predictions), -1)
    if truth.shape != predictions.shape:
        received = f"{predictions.shape[1]} for {truth.shape[1]} values of each record"
        raise InputError("predictions", "a column for each value", received, "check what the model predicts")
    errors: FloatArray = ((predictions.astype(np.float64) - truth) ** 2).sum(axis=1)
    return errors

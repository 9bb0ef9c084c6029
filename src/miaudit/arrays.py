"""The types of arrays, by what they hold; shapes stand in the docstrings of those that take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IndexArray = NDArray[np.intp]
IntArray = NDArray[np.int64]

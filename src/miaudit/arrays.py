"""The types of arrays and of numbers, by what they hold; shapes stand in the docstrings of those that take them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Interval, MinLen
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IndexArray = NDArray[np.intp]
IntArray = NDArray[np.int64]

Share = Annotated[float, Interval(ge=0, le=1)]
Inside = Annotated[float, Interval(gt=0, lt=1)]
NotNegative = Annotated[float, Interval(ge=0)]
Count = Annotated[int, Interval(ge=0)]
Positive = Annotated[int, Interval(ge=1)]
AtLeastOne = Annotated[float, Interval(ge=1)]
Text = Annotated[str, MinLen(1)]

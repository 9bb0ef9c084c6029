"""Outputs of shadow models in blocks of records, from elsewhere, and reduced to signals."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.models import shadow
from miaudit.models.shadow_outputs import ShadowOutputs

N, M = 40, 8
RNG = np.random.default_rng(11)
INCLUDED = shadow.inclusion(N, M, rng=np.random.default_rng(0))


def test_blocks_cover_every_record_once() -> None:
    outputs = ShadowOutputs.of(RNG.normal(size=(M, N, 2)).astype(np.float32), INCLUDED, np.zeros(N, int))
    rows = [(part.start, part.stop, block.shape) for part, block in outputs.blocks(most_bytes=4 * M * 2 * 7)]
    assert [(start, stop) for start, stop, _ in rows] == [(i, min(i + 7, N)) for i in range(0, N, 7)]
    assert rows[0][2] == (7, M, 2)


def test_outputs_from_elsewhere() -> None:
    values = RNG.normal(size=(M, N, 3)).astype(np.float32)
    outputs = ShadowOutputs.of(values, INCLUDED, np.zeros(N, int))
    np.testing.assert_array_equal(outputs.block(5, 9), values[:, 5:9].transpose(1, 0, 2))
    values[3, 4, 1] = np.nan
    with pytest.raises(InputError, match=r"outputs of model 3: .*record 4"):
        ShadowOutputs.of(values, INCLUDED, np.zeros(N, int))
    with pytest.raises(InputError, match="8 models"):
        ShadowOutputs.of(values[:2], INCLUDED, np.zeros(N, int))

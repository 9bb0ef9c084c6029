"""Whether true strings and decoys follow one law: sound laws pass, wrong ones are refuted."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from miaudit.auditing.candidate_law import LEVEL, format_ranks, of_format, of_reference


def hexes(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return np.array([[rng.bytes(8).hex() for _ in range(k)] for _ in range(n)], dtype=object)


def test_one_law_is_not_refuted() -> None:
    rng = np.random.default_rng(0)
    shown = of_format(hexes(rng, 120, 6), rng)
    assert shown is not None
    assert (shown.refuted, shown.by) == (False, "format")
    assert shown.p_value > LEVEL


def test_decoys_without_the_version_of_a_uuid_are_refuted() -> None:
    rng = np.random.default_rng(1)
    true = [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(120)]
    decoys = [[str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(5)] for _ in range(120)]
    shown = of_format(np.column_stack([true, decoys]).astype(object), rng)
    assert shown is not None
    assert shown.refuted
    assert "format" in shown.text


def test_parts_are_ranked_by_earlier_parts_only() -> None:
    rng = np.random.default_rng(2)
    texts = hexes(rng, 100, 4)
    assert len(format_ranks(texts, rng)) == 80
    assert of_format(texts[:5], rng) is None


@pytest.mark.parametrize(("shift", "refuted"), [(0.0, False), (0.4, True)])
def test_a_reference_model_ranks_true_strings_by_chance(shift: float, refuted: bool) -> None:
    rng = np.random.default_rng(3)
    shown = of_reference(rng.normal(shift, size=800), rng.normal(size=(800, 10)), rng)
    assert shown.refuted is refuted

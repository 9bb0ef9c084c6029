"""experiments/causal_synthesis/kept.py: what a stopped run has made is not made again, and half a part is no part."""

from __future__ import annotations

from pathlib import Path

import pytest
from causal_synthesis.kept import Kept


def test_a_part_that_was_stopped_goes_on_and_leaves_nothing_behind(tmp_path) -> None:
    kept, made = Kept(tmp_path / "parts"), []

    def make(half: Path, stop_after: int) -> dict[str, float]:
        half.mkdir(exist_ok=True)
        for i in range(4):
            if not (half / str(i)).exists():
                if len(made) == stop_after:
                    raise KeyboardInterrupt
                (half / str(i)).write_text("")
                made.append(i)
        return {"value": 0.5}

    with pytest.raises(KeyboardInterrupt):
        kept.part("causal, DP", {"seed": 1}, lambda half: make(half, 2))
    assert not list(kept.folder.glob("*.json"))
    assert kept.part("causal, DP", {"seed": 1}, lambda half: make(half, 9)) == {"value": 0.5}
    assert made == [0, 1, 2, 3]
    assert [path.name for path in kept.folder.iterdir()] == ["causal-DP.json"]


def test_other_settings_are_made_again_and_tuples_are_the_lists_that_they_are_read_as(tmp_path) -> None:
    kept = Kept(tmp_path)
    assert kept.part("arm", {"sizes": (1, 2)}, lambda _: {"x": (1, 2)}) == {"x": [1, 2]}
    assert kept.part("arm", {"sizes": (1, 2)}, lambda _: pytest.fail("made twice")) == {"x": [1, 2]}
    assert kept.part("arm", {"sizes": (1, 3)}, lambda _: {"x": 7}) == {"x": 7}

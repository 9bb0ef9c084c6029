"""Worlds of matched strings: null worlds are exchangeable, leaking ones leak, and a run resumes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matched import worlds


@pytest.mark.parametrize("name", list(worlds.NULLS))
def test_every_place_of_a_null_world_is_the_first_as_often(name: str) -> None:
    draw, _, k = worlds.NULLS[name]
    strings = k + 1
    rng = np.random.default_rng(0)
    scores = draw(rng, 4000, strings) + 1e-9 * rng.random((4000, strings))
    counts = np.bincount(scores.argmax(axis=1), minlength=strings)
    expected = 4000 / strings
    assert ((counts - expected) ** 2 / expected).sum() < strings + 5 * (2 * strings) ** 0.5


def test_strings_that_leak_are_first_more_often() -> None:
    true, decoys = worlds.leaked(worlds.scales, 2000, 5, 3.0, 0.2, np.random.default_rng(0))
    assert (true > decoys.max(axis=1)).mean() > 1.5 / 6


@pytest.mark.long
def test_an_audit_of_a_null_world_says_what_it_shows() -> None:
    shown = worlds.of_null("100 records", 3)
    assert list(shown) == ["mu > 0", "epsilon > 0", "AUC low > .5", "AUC high < .5", "rank test", "flagged"]


def test_a_table_has_the_share_of_each_world_and_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = {f"{name}|0": {"mu > 0": name == "ties"} for name in worlds.NULLS}
    text = worlds.table(done)
    assert "| ties | 1 | 1.000 |" in text and f"| all | {len(done)} | {1 / len(done):.3f} |" in text
    out = tmp_path / "done.json"
    out.write_text(json.dumps(done))
    assert worlds.main(["--audits", "0", "--out", str(out)]) == 0
    assert text.strip() in capsys.readouterr().out

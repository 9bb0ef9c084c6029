"""What a collector said is on the page of whoever audits its file, as somebody's word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from miaudit.collect import kept_notes

Run = Callable[..., tuple[int, str, str]]


def written(path: Path, **more: np.ndarray) -> Path:
    rng = np.random.default_rng(0)
    member = rng.random(60) < 0.5
    np.savez(path, **{"score.loss": rng.normal(size=60) + member, "member": member, **more})
    return path


def test_notes_come_back_and_only_texts_do(tmp_path: Path) -> None:
    kept = kept_notes.columns(("8 shadow models.", "two\nlines"))
    found = kept_notes.read(written(tmp_path / "e.npz", **kept))
    assert found == ("Noted when it was collected: 8 shadow models.", "Noted when it was collected: two lines")
    assert kept_notes.read(written(tmp_path / "n.npz")) == ()
    assert kept_notes.read(written(tmp_path / "n.npz", **{kept_notes.NAME: np.arange(3)})) == ()
    assert kept_notes.read(tmp_path / "table.csv") == ()
    many = written(tmp_path / "m.npz", **{kept_notes.NAME: np.array(["x" * 5000] * 99)})
    assert len(kept_notes.read(many)) == 40
    assert max(map(len, kept_notes.read(many))) < 1100


@pytest.mark.long
def test_the_page_says_whose_word_it_is(tmp_path: Path, run: Run) -> None:
    path = written(tmp_path / "e.npz", **kept_notes.columns(("Audited were <b>canaries</b>.",)))
    code, out, err = run("audit", path, "--design", "one-run", "--out", tmp_path / "r")
    assert code in (0, 3, 4), err
    assert "Note: Noted when it was collected: Audited were <b>canaries</b>." in out
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "collected: Audited were &lt;b&gt;canaries" in page

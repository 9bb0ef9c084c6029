"""What the page, the terminal and exports say of strings and pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miaudit as ma


def findings(shift: float) -> ma.Findings:
    rng = np.random.default_rng(0)
    one = ma.Evidence.matched(true=rng.normal(shift, size=300), decoys=rng.normal(size=(300, 6)))
    return ma.audit(one, plan=ma.Plan(fpr_targets=(0.01, 0.1)), rng=0)


@pytest.fixture(scope="module")
def leak() -> ma.Findings:
    return findings(3.0)


def test_the_page_says_why_the_numbers_are_memorisation(leak: ma.Findings, tmp_path: Path) -> None:
    leak.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (
        "Why these numbers are about memorisation",
        "that the rest of a record is safe",
        "Law not checked",
        "300 true strings, 1,800 decoys",
        "add or remove a record",
        "replace a record",
        "surest pairs",
    ):
        assert text in page, text


def test_a_list_of_pairs_is_no_list_of_members(leak: ma.Findings) -> None:
    exceeded = [one for one in leak.verdict.limits if one.limit == "surest_members"]
    assert exceeded[0].of == "pairs"
    assert "can pick the true string from" in leak.verdict.text
    assert "of which" not in leak.verdict.text


def test_the_terminal_names_strings_and_neighbours(leak: ma.Findings) -> None:
    text = str(leak)
    assert "300 true strings, 1,800 decoys" in text
    assert "add or remove" in text
    assert ", replace" in text
    assert "true strings" in leak.in_words.said

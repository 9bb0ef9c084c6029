"""What the count of words counts: prose without code, and habits of pages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "tools" / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_code_html_and_targets_of_links_do_not_count(words: ModuleType) -> None:
    page = (
        "# Two words\n\n[a link](far/away.md#part) &amp; <b>bold</b>\n\n```\nno; word of this\n```\n\n| one | `two` |\n"
    )
    assert words.counts(page)["words"] == 7  # Two words a link bold one two
    assert words.counts(page)["semicolons"] == 0


def test_habits_are_counted_outside_code(words: ModuleType) -> None:
    found = words.counts("Nobody is told; `told; nobody`. Whoever reads is no reader.")
    assert {name: found[name] for name in ("nobody", "told", "semicolons", "whoever", "is no, is none")} == {
        "nobody": 1,
        "told": 1,
        "semicolons": 1,
        "whoever": 1,
        "is no, is none": 1,
    }


def test_no_page_has_an_opening_formula(words: ModuleType) -> None:
    for page in words.pages():
        found = words.counts(page.read_text(encoding="utf-8"))
        assert found["whoever"] == found["afterwards you"] == 0, page.name

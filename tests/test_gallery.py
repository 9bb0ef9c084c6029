"""The gallery: its page is the one that its script writes, and each of its pictures is there and small."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import gallery  # noqa: E402
import look  # noqa: E402


def test_the_page_is_the_one_of_the_script() -> None:
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == gallery.text()


@pytest.mark.parametrize("name", [one.name for one in gallery.PAGES])
def test_a_picture_is_there_and_small(name: str) -> None:
    content = (gallery.PICTURES / f"{name}.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert 10_000 < len(content) < 80_000


def test_no_picture_is_left_over_and_every_kind_of_page_is_shown() -> None:
    names = [one.name for one in gallery.PAGES]
    assert sorted(path.stem for path in gallery.PICTURES.iterdir()) == sorted(names)
    assert {one.kind for one in gallery.PAGES if one.kind} <= set(look.KINDS)
    of_the_demo = {one.name for one in gallery.PAGES if not one.kind}
    assert of_the_demo == {"demo", "claim", "compared", "verified", "dossier"}

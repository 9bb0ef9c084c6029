"""A design has the same words on every page."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import miaudit
from miaudit.evidence import Design
from miaudit.findings.design import in_words

SOURCE = Path(miaudit.__file__).parent


def test_every_design_has_words_of_its_own() -> None:
    designs = get_args(Design)
    words = [in_words(design) for design in (*designs, None)]
    assert len(set(words)) == len(words) == 5
    assert all(text.startswith(f"{design}: ") for design, text in zip(designs, words, strict=False))
    assert in_words("") == in_words(None) == "not declared"


def test_no_other_module_words_the_designs() -> None:
    """A control: the table itself is found by the same search."""
    tables = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("zero-run: members")
    ]
    assert tables == ["findings/design.py"]

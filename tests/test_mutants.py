"""The tool that changes the statistics in small ways: which changes it makes, and that it finds them again."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
specification = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(specification)
sys.modules["mutants"] = mutants  # its dataclasses look their module up
specification.loader.exec_module(mutants)

SOURCE = '''"""A module."""

LIMITS = {"low": 2}


def clipped(x: float, most: int = 3) -> float:
    """Say something of 5."""
    if x <= LIMITS["low"]:
        raise ValueError(f"{x + 1}")
    x = np.clip(x, 0.5, most)
    return max(x - 1, 0)
'''


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "SRC", tmp_path)
    path = tmp_path / "room.py"

    def of(source):
        path.write_text(source)
        return list(mutants.mutants_of(path))

    return of


def test_what_is_changed_and_what_is_not(found):
    names = {(one.function, one.before, one.after) for one in found(SOURCE)}
    assert names == {
        ("LIMITS", "2", "3"),
        ("LIMITS", "2", "1"),
        ("clipped", "x <= LIMITS['low']", "x < LIMITS['low']"),
        ("clipped", "x <= LIMITS['low']", "x > LIMITS['low']"),
        ("clipped", "raise ValueError(f'{x + 1}')", "pass"),
        ("clipped", "x = np.clip(x, 0.5, most)", "pass"),
        ("clipped", "np.clip(x, 0.5, most)", "np.clip(x, None, most)"),
        ("clipped", "np.clip(x, 0.5, most)", "np.clip(x, 0.5, None)"),
        ("clipped", "0.5", "1.0"),
        ("clipped", "max", "min"),
        ("clipped", "x - 1", "x + 1"),
        ("clipped", "1", "2"),
        ("clipped", "1", "0"),
        ("clipped", "0", "1"),
        ("clipped", "0", "-1"),
    }


def test_every_change_is_made_once_and_compiles(found):
    plain = ast.unparse(ast.parse(SOURCE))
    changed = [ast.unparse(mutants.mutated(ast.parse(SOURCE), one)) for one in found(SOURCE)]
    assert plain not in changed
    assert len(set(changed)) == len(changed)
    for text in changed:
        compile(text, "room.py", "exec")


def test_the_sample_does_not_depend_on_where_functions_stand(found):
    first = mutants.sample(found(SOURCE), 5, seed=0)
    moved = SOURCE.replace("\n\n\ndef clipped", "\n\n\ndef before():\n    return {}\n\n\n# a comment\ndef clipped")
    again = mutants.sample(found(moved), 5, seed=0)
    assert [one.name for one in again] == [one.name for one in first]
    assert [one.name for one in mutants.sample(found(SOURCE), 5, seed=1)] != [one.name for one in first]


def test_instrumented_code_notes_the_statements_that_run():
    tree = ast.parse("def f(x):\n    '''Text.'''\n    if x:\n        return 1\n    return 2\n")
    numbers = {ast.unparse(node): number for number, node in enumerate(ast.walk(tree)) if isinstance(node, ast.stmt)}
    names = {mutants.HITS: bytearray(40)}
    exec(compile(mutants.instrumented(ast.parse(ast.unparse(tree)), 3), "room.py", "exec"), names)
    assert names["f"](0) == 2
    hit = {number - 3 for number, seen in enumerate(names[mutants.HITS]) if seen}
    assert hit == {numbers["return 2"], numbers["if x:\n    return 1"]}


@pytest.mark.long
def test_code_is_replaced_in_functions_that_are_loaded(tmp_path):
    path = tmp_path / "room.py"
    path.write_text("def f():\n    return (lambda: 1)()\n")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    loaded = mutants.functions([path])[str(path)]
    mutants.replace_code(ast.parse("def f():\n    return (lambda: 2)()\n"), path, loaded)
    assert names["f"]() == 2

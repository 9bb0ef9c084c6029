"""What goes into the fingerprint of a fit: what code does, and not its words."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.models.own_code import described, own_source

PLAIN = '''
def made(width=3):
    """Make a model."""
    return [0.0] * width  # zeros


class Model:
    """A model."""

    def fit(self, x):
        """Learn."""
        return x
'''
Load = Callable[[str], tuple[Any, str, str]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a source, and return its function ``made`` with what describes it and the class ``Model``."""

    def loaded(source: str) -> tuple[Any, str, str]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "their_models.py"
        path.parent.mkdir()
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("their_models", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "their_models", module)  # where inspect looks for the source of a class
        spec.loader.exec_module(module)
        return module.made, described(module.made), own_source(module.Model)

    return loaded


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Make a model."""', '"""Make a model of some width.\n\n    It is new.\n    """'),
        ("  # zeros", "  # nothing was learned"),
        ("return [0.0] * width", "return (\n        [0.0]\n        * width\n    )"),
        ('    """A model."""\n', ""),
        ('        """Learn."""\n', "        # learn\n"),
    ],
)
def test_words_and_layout_are_not_in_it(load: Load, before: str, after: str) -> None:
    assert PLAIN.replace(before, after) != PLAIN
    assert load(PLAIN)[1:] == load(PLAIN.replace(before, after))[1:]


@pytest.mark.parametrize(
    ("before", "after"),
    [("[0.0] * width", "[0.0] * (width + 1)"), ("width=3", "width=4"), ("return x", "return -x")],
)
def test_behaviour_is(load: Load, before: str, after: str) -> None:
    (_, function, model), (_, other_function, other_model) = load(PLAIN), load(PLAIN.replace(before, after))
    of_model = before == "return x"
    assert (function == other_function, model == other_model) == (of_model, not of_model)


@dataclass(frozen=True)
class Options:
    """A record of options, one of them a record with an array."""

    rate: float
    inner: Any = None

    def __repr__(self) -> str:
        """Say little."""
        return "Options"


def test_a_record_is_in_it_by_its_fields_and_not_by_how_it_prints() -> None:
    first = described(Options(0.1, Options(0.2, np.array([1.0]))))
    assert first == described(Options(0.1, Options(0.2, np.array([1.0]))))
    assert len({first, described(Options(0.1)), described(Options(0.1, Options(0.2, np.array([2.0]))))}) == 3


def test_arguments_that_are_bound_are_in_it(load: Load) -> None:
    made = load(PLAIN)[0]
    assert described(functools.partial(made, 4)) != described(functools.partial(made, 5))
    assert described(functools.partial(made, width=4)) == described(functools.partial(made, width=4))

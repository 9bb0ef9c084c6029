"""Chances of inclusion at the door: one number or one for each record, of one-run evidence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.evidence import DESIGNS
from miaudit.io.inclusion import chances, check_units, column_or_chance, one_chance


def test_one_number_is_the_chance_of_every_record() -> None:
    values = chances(0.8, "one-run", 3)
    assert values is not None
    assert values.tolist() == [0.8] * 3
    assert chances(None, "zero-run", 3) is None


def test_every_other_design_is_refused_in_words() -> None:
    for design in set(DESIGNS) - {"one-run"}:
        with pytest.raises(InputError, match="none, unless the design is one-run"):
            chances(0.8, design, 2)


def test_chances_are_copied_and_frozen() -> None:
    mine = np.array([0.2, 0.8])
    values = chances(mine, "one-run", 2)
    assert values is not None
    mine[0] = 0.9
    assert values.tolist() == [0.2, 0.8]
    assert not values.flags.writeable
    column = chances([[0.2], [0.8]], "one-run", 2)
    assert column is not None
    assert column.tolist() == [0.2, 0.8]


@pytest.mark.parametrize(
    ("design", "hint"),
    [
        ("multi-run", "count each run by itself"),
        ("zero-run", "as its propensity"),
        ("matched", "a fair coin already"),
        (None, "declare the design one-run"),
    ],
)
def test_other_designs_have_none(design: str | None, hint: str) -> None:
    with pytest.raises(InputError, match=f"none, unless the design is one-run.*{hint}"):
        chances(0.8, design, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (80, "received 80; write 0.8 for 80%"),
        (0.0, "received 0.0"),
        (1, "received 1"),
        (True, "received True"),
        ("0.8", "received '0.8'"),
        (float("nan"), "received nan"),
        ([0.2, 0.0], "received 0;"),
        ([0.2, 1.0], "received 1;"),
        ([0.2, float("nan")], "missing"),
        ([0.2, 0.3, 0.4], "2 rows"),
        (["a", "b"], "values of type"),
        ([True, False], "values of type bool"),
        ([[0.1, 0.2], [0.1, 0.2]], "inclusion"),
    ],
)
def test_what_is_no_chance_is_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match="inclusion") as refused:
        chances(values, "one-run", 2)
    assert message in str(refused.value)


def test_a_text_names_a_column_or_is_a_number() -> None:
    assert column_or_chance("chance") == "chance"
    assert column_or_chance("0.8") == 0.8
    assert column_or_chance("0.8", ["0.8"]) == "0.8"
    assert column_or_chance(0.25) == 0.25
    assert column_or_chance("nan") == "nan"
    for value in ("1.5", "0", 80, True, None, ["a"]):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            column_or_chance(value)
    assert one_chance(0.3) == 0.3


def test_a_unit_has_one_chance() -> None:
    check_units(np.array([0.2, 0.3]), None)
    check_units(np.array([0.2, 0.3, 0.3]), np.array([1, 0, 0]))
    with pytest.raises(InputError, match="one chance for all records of a unit"):
        check_units(np.array([0.2, 0.3, 0.4]), np.array([1, 0, 0]))

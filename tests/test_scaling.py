"""The benchmark of cost against size, at tiny sizes: it measures what it says, and its exponents are those of laws."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parents[1]
PAGE = HERE / "benchmarks" / "scaling.md"


@pytest.fixture(scope="module")
def scaling() -> Any:
    """The module benchmarks/scaling.py, which is gone afterwards; an experiment has a folder of the same name."""
    hidden = {"extraction": sys.modules.pop("extraction")} if "extraction" in sys.modules else {}
    sys.path.insert(0, str(HERE / "benchmarks"))
    try:
        yield importlib.import_module("scaling")
    finally:
        sys.path.remove(str(HERE / "benchmarks"))
        for name in ("scaling", "scaling_commands", "extraction"):
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_is_that_of_a_power(scaling: Any, power: float) -> None:
    sizes = np.array([10.0, 50.0, 300.0, 1000.0])
    assert scaling.exponent(sizes, 3 * sizes**power) == pytest.approx(power, abs=1e-3)


def test_the_exponent_is_of_the_largest_three_above_fixed_costs(scaling: Any) -> None:
    sizes = [1, 10, 100, 1000, 10_000]
    assert scaling.exponent(sizes, [9e9, 9e9, 10, 100, 1000]) == 1.0
    assert scaling.exponent(sizes, [1e-6, 1e-6, 1e-6, 1e-6, 1.0], least=0.01) is None
    nearly = scaling.exponent(sizes, [n * np.log(n + 1) for n in sizes])
    assert 1.05 < nearly < 1.25  # n log n is more than in proportion, and far from the square


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "sizes", "law"),
    [
        ("store-models", (2, 4, 8), 1.0),
        ("store-classes", (5, 50, 500), 1.0),
        ("store-classes-signal", (5, 50, 500), 0.0),
        ("multi-run", (10, 20, 40), 1.0),
        ("multi-run-compared", (20, 40, 80), 2.0),
    ],
)
def test_files_grow_as_they_should(scaling: Any, name: str, sizes: tuple[int, ...], law: float) -> None:
    """The last one is the control: what compares models keeps the square of the runs, and the benchmark sees it."""
    (row,) = scaling.rows_of(name, [scaling.here(name, size) for size in sizes])
    assert row["exponent"] == pytest.approx(law, abs=0.25 if law else 0.05)  # files have headers of 128 bytes
    assert row["figure"] == "disk"


@pytest.mark.long
@pytest.mark.parametrize("name", ["one-run", "one-run-ties", "one-run-units", "one-run-bootstrap", "lira-models"])
def test_every_audit_can_be_measured(scaling: Any, name: str) -> None:
    found = scaling.here(name, 64 if name == "lira-models" else 2_000)
    assert found["cpu"] > 0 and found["peak"] >= 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "size"),
    [("matched", 200), ("usage", 200), ("tokens", 50), ("plan", 500), ("verify", 400), ("history", 3)],
)
def test_every_command_can_be_measured(scaling: Any, name: str, size: int) -> None:
    found = scaling.here(name, size)
    assert found["cpu"] > 0 and found["peak"] >= 0


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("name", "size"), [("extraction", 100), ("table", 300), ("release", 500)])
def test_every_command_on_texts_and_tables_too(scaling: Any, name: str, size: int) -> None:
    assert scaling.here(name, size)["cpu"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero-run", "zero-run-covariates", "zero-run-bootstrap", "lira-records"])
def test_the_slow_ones_too(scaling: Any, name: str) -> None:
    assert scaling.measured(name, 5 if name == "zero-run-covariates" else 1_000)["cpu"] > 0


def test_a_work_that_fails_is_named(scaling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling.sys, "executable", "false")
    with pytest.raises((SystemExit, IndexError)):
        scaling.measured("one-run", 10)


def test_the_table_goes_between_the_marks_of_the_page(scaling: Any, tmp_path: Path) -> None:
    rows = scaling.rows_of("store-models", [{"size": s, "cpu": 1.0, "peak": 1.0, "disk": 2.0 * s} for s in (1, 10)])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{scaling.MARKS[0]}\nold\n{scaling.MARKS[1]}\nafter\n")
    scaling.put_into(page, rows)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| models | kB on disk | 1: 2 · 10: 20 | 1.00 |" in text


def test_the_page_shows_what_was_measured(scaling: Any) -> None:
    """The table of the page is that of the rows beside the benchmark, and each exponent is within its limit."""
    rows = json.loads((HERE / "benchmarks" / "scaling.json").read_text())
    assert scaling.table(rows) in PAGE.read_text()
    assert {row["name"] for row in rows} == set(scaling.WORKS)
    assert [row["what"] for row in rows if not row["met"]] == []
    for row in rows:
        assert row["exponent"] == scaling.exponent(row["sizes"], row["values"], scaling.LEAST[row["figure"]])

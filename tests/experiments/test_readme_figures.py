"""Figures that a README prints are those that the experiment's run is compared with, row by row."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def expected(folder: str, name: str = "expected") -> dict[str, Any]:
    return json.loads((EXPERIMENTS / folder / f"{name}.json").read_text())


def rows(folder: str, label: str) -> list[list[list[float]]]:
    """Return the numbers of each cell, in every row of the README that begins with a label."""
    lines = (EXPERIMENTS / folder / "README.md").read_text().replace("**", "").splitlines()
    cells = [line.removeprefix(f"| {label} |").split("|") for line in lines if line.startswith(f"| {label} |")]
    return [[[float(x.replace(",", "")) for x in re.findall(r"-?\d[\d,]*\.?\d*", c)] for c in row] for row in cells]


def flat(row: list[list[float]]) -> list[float]:
    return [number for cell in row for number in cell]


def script(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXPERIMENTS / folder))
    for sibling in ("figures", "synthetic", "iwildcam"):
        monkeypatch.delitem(sys.modules, sibling, raising=False)
    specification = importlib.util.spec_from_file_location(f"{folder}_{name}", EXPERIMENTS / folder / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, specification.name, module)
    specification.loader.exec_module(module)
    return module


@pytest.mark.long
def test_threshold_post() -> None:
    both = expected("threshold_post")["readme"]
    for label in both["small"]:
        (row,) = rows("threshold_post", label)
        assert row[:2] == [both["small"][label], both["full"][label]], label


@pytest.mark.long
def test_zero_run() -> None:
    table = expected("zero_run")["readme"]
    readme = (EXPERIMENTS / "zero_run" / "README.md").read_text()
    blind = re.search(r"still rises, ([\d.]+) to ([\d.]+)\).*mu >= ([\d.]+)\.", readme)
    assert blind is not None
    assert [float(number) for number in blind.groups()] == table.pop("no algorithm")
    for label, numbers in table.items():
        assert [flat(row) for row in rows("zero_run", label)] == [numbers], label


@pytest.mark.long
def test_the_whole_audits_of_zero_run() -> None:
    recorded: Any = expected("zero_run", "bounds_worlds_expected")
    readme = (EXPERIMENTS / "zero_run" / "README.md").read_text()
    assert recorded
    for line in recorded:
        assert line in readme, line


@pytest.mark.long
def test_the_real_shifts_of_causal_mia(monkeypatch: pytest.MonkeyPatch) -> None:
    module, kept = script("causal_mia", "real_shift", monkeypatch), expected("causal_mia", "real_shift_expected")
    readme = (EXPERIMENTS / "causal_mia" / "README.md").read_text()
    assert {name for name, _, _ in map(parts_of, kept["table"])} == set(module.SHIFTS)
    for key, line in kept["table"].items():
        name, kind, n = parts_of(key)
        assert module.in_words(name, kind, line) in readme, key
        if "reference" in line:
            assert module.of_references(name, kind, line) in readme, key
        assert module.differences(name, kind, line, kept) == [], key
        assert line["audits"] == module.COUNTS[n], key
    assert all(line in readme for line in module.totals(kept["table"]))
    assert f"{module.COUNTS[2000]} audits of each at 2,000 records and {module.COUNTS[10_000]} at 10,000" in readme


def parts_of(key: str) -> tuple[str, str, int]:
    name, kind, n = key.split(" | ")
    return name, kind, int(n)


def spoilt(numbers: list[float]) -> list[float]:
    return [*numbers[:-1], numbers[-1] + 0.1]


@pytest.mark.long
def test_a_run_whose_figures_differ_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comparison accepts what is expected, and not a tenth more in one place."""
    real = script("zero_run", "real", monkeypatch)
    of_real = expected("zero_run")["real"]

    def split(numbers: list[float]) -> dict[str, Any]:
        seen = dict(zip(("rows_per_covariate", "blind_auc", "effective_canaries"), numbers, strict=False))
        return seen | ({"bounds": dict(zip(real.BOUNDS, numbers[3:], strict=True))} if numbers[3:] else {})

    assert real.differences({name: split(numbers) for name, numbers in of_real.items()}, of_real) == []
    name = "shifted, 10 components"
    assert len(real.differences({name: split(spoilt(of_real[name]))}, of_real)) == 1
    run = script("zero_run", "run", monkeypatch)
    table = expected("zero_run")["readme"]

    def found(numbers: Mapping[str, list[float]]) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for part, names in run.ROWS.items():
            pairs = {name: list(zip(*[iter(numbers[label])] * 2, strict=True)) for label, name in names.items()}
            parts[part] = {
                rho: {name: dict(zip(("mean", "above_truth"), cells[i], strict=True)) for name, cells in pairs.items()}
                for i, rho in enumerate(("1", "0.75", "0.5", "0.25"))
            }
        half, full, bound = numbers["no algorithm"]
        trusted = {"blind_auc": {"half": half, "full": full}, "bound_if_the_propensity_were_trusted": bound}
        return parts | {"not_learned": trusted}

    assert run.departures(found(table), table) == []
    for label, numbers in table.items():
        assert len(run.departures(found({**table, label: spoilt(numbers)}), table)) == 1, label
    kept = expected("causal_mia", "real_shift_expected")
    shift = script("causal_mia", "real_shift", monkeypatch)
    for line in kept["table"].values():
        assert shift.departures(line, line) == []
        assert len(shift.departures({**line, "raw": line["raw"] + 0.1}, line)) == 1
    post = script("threshold_post", "run", monkeypatch)
    small = expected("threshold_post")["readme"]["small"]
    monkeypatch.setattr(post, "printed", lambda found: found)
    assert post.departures(small, small) == []
    for label, numbers in small.items():
        assert len(post.departures({**small, label: spoilt(numbers)}, small)) == 1

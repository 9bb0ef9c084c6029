"""experiments/causal_mia/attribute_inference.py: its samples, its attack and its table; the claims on the real data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from causal_mia import attribute_inference
from causal_mia.attribute_inference import SIZES, People

from miaudit import Evidence
from miaudit.causal.attribute_inference import effect

SCRIPT = Path(__file__).parents[2] / "experiments" / "causal_mia" / "attribute_inference.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = DATA / "adult" / "adult.data.gz"


class Parrot:
    """A model that gives an income half its probability where the status is 0, and all of it elsewhere."""

    @staticmethod
    def predict_proba(x: np.ndarray) -> np.ndarray:
        sure = np.where(x[:, 1] == 0, 0.5, 1.0)
        return np.column_stack([sure, 1 - sure])


def people(n: int = 30_000) -> People:
    """Return people whose age says most of their status, one of three values in the second column."""
    rng = np.random.default_rng(0)
    age = rng.normal(size=n)
    status = np.digitize(age + 0.5 * rng.normal(size=n), [-1.0, 1.0])
    return People(np.column_stack([age, status, rng.integers(0, 4, n)]), rng.integers(0, 2, n), (1, 2), 1)


def test_samples_are_disjoint_and_drift_and_truth_has_no_drift() -> None:
    everybody = people()
    rows = everybody.drawn(np.random.default_rng(1))
    assert {name: len(own) for name, own in rows.items()} == SIZES
    assert len(np.unique(np.concatenate(list(rows.values())))) == sum(SIZES.values())
    age = {name: everybody.x[own, 0].mean() for name, own in rows.items()}
    assert age["drifted"] - age["members"] > 0.2
    assert abs(age["undrifted"] - age["members"]) < 0.1


def test_the_attacker_knows_all_but_the_secret_and_reads_the_answers_of_the_model() -> None:
    everybody, rows, levels = people(6000), np.arange(4000, 6000), np.arange(3.0)
    assert np.array_equal(everybody.known[:, 1], everybody.x[:, 2])
    guess = levels[attribute_inference.imputed(everybody, np.arange(4000), rows, levels).argmax(axis=1)]
    assert (guess == everybody.x[rows, 1]).mean() > 0.7
    answer = np.exp(attribute_inference.answers(everybody, Parrot(), rows, levels))
    first = everybody.income[rows] == 0
    assert np.allclose(answer[first], [0.5, 1.0, 1.0])
    assert np.allclose(answer[~first], [0.5, 0.02, 0.02])


def test_a_line_has_means_and_counts_intervals_that_hold_the_truth() -> None:
    rng = np.random.default_rng(0)
    same, leak = (Evidence.from_pair([1.0] * k + [0.0] * (50 - k), [1.0, 0.0] * 25, design="one-run") for k in (25, 49))
    one = {"truth": effect(same, rng=rng), **{name: effect(same, rng=rng) for name in attribute_inference.ESTIMATES}}
    line = attribute_inference.line("none", [one, {**one, "raw": effect(leak, rng=rng)}])
    assert line.startswith("| none | 0.500 | 0.500 | +0.000 | +0.240 (1 of 2) | +0.000 (2 of 2) |")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not NEEDED.is_file(), reason=f"not in {DATA}: adult")
def test_adult_has_a_raw_leak_without_a_model_and_none_after_correction() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--data", DATA, "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = {line.split(" | ")[0].strip("| "): line for line in done.stdout.splitlines()[2:]}
    assert len(lines) == 4
    cells = {name: line.strip("| ").split(" | ") for name, line in lines.items()}
    assert float(cells["no model"][4].split()[0]) > 0.04
    for row in cells.values():
        assert row[4].endswith("(0 of 1)")
        assert row[7].endswith("(1 of 1)")

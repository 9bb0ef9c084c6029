"""What findings show of a sample: no row unless asked for, no edge that is a score, a curve inside its band."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from auditing.test_pipeline import audited, evidence_of
from miaudit import Evidence, Plan
from worlds.scores import WORLDS


def numbers_in(value: Any) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(numbers_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(numbers_in, value)) if value else set()
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


def private(n: int = 500) -> Evidence:
    rng = np.random.default_rng(6)
    member = np.arange(2 * n) < n
    return Evidence(
        score=np.round(rng.normal(size=2 * n) + member, 6) + 0.0000001234567,
        member=member,
        unit=[f"Jane Doe {i}" for i in range(n)] * 2,
        covariates=rng.normal(size=(2 * n, 2)),
        design="one-run",
    )


@pytest.mark.long
def test_findings_hold_no_row_unless_asked() -> None:
    evidence = private()
    plain = audited(evidence)
    text, scores = plain.to_json(), set(evidence.score.tolist())
    assert "Jane" not in text
    assert not numbers_in(plain.to_dict()) & scores
    assert not {f"{y:.6f}" for y in scores} & set(re.findall(r"-?\d+\.\d{6}", text))
    assert plain.rows == ()
    asked = audited(evidence, Plan(fpr_targets=(0.1,), row_level=3))
    top = np.sort(evidence.score[evidence.member])[::-1][:3]
    assert [row["score"] for row in asked.rows] == top.tolist()
    for row in asked.rows:
        assert evidence.score[row["row"]] == row["score"]
        assert evidence.unit[row["row"]] == row["unit"]
        assert evidence.member[row["row"]]
    assert "Jane" in asked.to_json()  # control of the search


@pytest.mark.parametrize("name", ["gaussian", "t3", "near_perfect", "perfect"])
def test_no_edge_of_the_chart_is_the_score_of_a_record(name: str) -> None:
    evidence = evidence_of(name)
    shown = audited(evidence).scores[0].distribution
    assert not set(shown.edges) & set(evidence.score.tolist())
    steps = np.diff(shown.edges)
    assert steps == pytest.approx(steps[0])
    mantissa = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
    assert min(abs(mantissa - np.array([1, 2, 5, 10]))) < 1e-6  # round numbers
    assert 10 <= len(steps) <= 100
    for shares in (shown.members, shown.nonmembers):
        assert sum(shares) == pytest.approx(1, abs=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("n", [1, 3, 500])
def test_the_curve_is_monotone_inside_its_band(name: str, n: int) -> None:
    evidence = evidence_of(name, n)
    curve = audited(evidence).scores[0].curve
    fpr, low, high = (np.array(x) for x in (curve.fpr, curve.low, curve.high))
    shown = np.array([rate is not None for rate in curve.tpr])
    tpr = np.array([rate for rate in curve.tpr if rate is not None])
    assert fpr[0] == 0
    assert fpr[-1] == tpr[-1] == high[-1] == 1
    assert (np.diff(fpr) > 0).all()
    for column in (tpr, low, high):
        assert (np.diff(column) >= -1e-8).all()
        assert ((column >= 0) & (column <= 1)).all()
    assert (low[shown] <= tpr + 1e-9).all()
    assert (tpr <= high[shown] + 1e-9).all()
    # The grid is that of the plan, and not of the records.
    assert set(fpr) == set(audited(evidence_of(name, n, seed=1)).scores[0].curve.fpr)

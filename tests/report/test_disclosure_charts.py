"""Charts of predicted against measured advantage: what they say, that they draw, and what they leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit.report import disclosure_charts, drawing


def drawn(spec: dict[str, Any], layer: int) -> list[dict[str, Any]]:
    """Return what a layer draws: altair gathers data under names of their own."""
    data = spec["layer"][layer]["data"]
    found: list[dict[str, Any]] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return found


def limits(value: float) -> dict[str, float]:
    return {"low": value - 0.02, "value": value, "high": value + 0.02}


def comparison(n: int = 40, error: float = 0.1, **changed: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    measured = rng.uniform(0, 0.4, n)
    return {
        "disclosure": "true-label",
        "form": "fitted",
        "predicted": [float(x) for x in np.clip(measured + error, 0, 0.5)],
        "measured": [float(x) for x in measured],
        "measured_sd": [0.03] * n,
        "records": n,
        "models": 64,
        "confidence": 0.95,
        "threshold": None,
        "temperature": None,
        "mean_predicted": limits(0.2 + error),
        "mean_transferred": limits(0.2 + error / 2),
        "mean_measured": limits(0.2),
        "rank_correlation": limits(0.8),
        "attainable": 0.9,
        "mean_error": limits(error),
        "mean_absolute_error": limits(abs(error)),
        "noise": 0.024,
        "placebo": 0.05,
        "constant": 0,
        "notes": [],
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "True-label confidence: predicted 0.10 too high on average; ranks agree to 0.80, noise would allow 0.90"),
        ({"mean_error": limits(-0.1)}, "predicted 0.10 too low on average"),
        ({"mean_error": limits(0.001), "mean_absolute_error": limits(0.03)}, "off by 0.030 on average, in either"),
        ({"disclosure": "decision-set", "threshold": 0.25}, "Decision set at q = 0.25: "),
        ({"rank_correlation": None, "attainable": None}, "no ranks to compare"),
        ({"attainable": None}, "ranks agree to 0.80"),
    ],
)
def test_the_title_says_how_far_they_are_apart(changed: dict[str, Any], said: str) -> None:
    assert said in disclosure_charts.headline(comparison(**changed))


def test_every_record_is_a_point_and_only_few_have_bars() -> None:
    for n, layers in ((40, 3), (400, 2)):
        chart = disclosure_charts.predicted_against_measured(comparison(n))
        spec = chart.to_dict()
        assert len(spec["layer"]) == layers
        points = drawn(spec, -1)
        assert len(points) == n
        assert points[0]["words"].startswith("predicted 0.3")
        under = " ".join(spec["title"]["subtitle"])
        assert ("one standard error" in under) == (n == 40)
        assert "noise in the measurement alone would make 0.024" in under
        assert "40" in spec["description"]
        assert drawing.svg(spec).startswith("<svg")


def test_measurements_below_zero_are_drawn_not_cut() -> None:
    row = comparison(40)
    row["measured"][0] = -0.2
    spec = disclosure_charts.predicted_against_measured(row).to_dict()
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"][0] < -0.2


def test_steps_show_what_chance_and_what_misfit_cost() -> None:
    rows = [comparison(), comparison(error=0.3, disclosure="confidence-vector")]
    spec = disclosure_charts.steps(rows).to_dict()
    assert "furthest off for the confidence vector: 0.30 too high" in " ".join(spec["title"]["text"])
    marks = drawn(spec, -1)
    assert len(marks) == 6
    assert "price of few models" in " ".join(spec["title"]["subtitle"])
    assert drawing.svg(spec).startswith("<svg")


def test_without_the_middle_step_nothing_is_said_of_it() -> None:
    spec = disclosure_charts.steps([comparison(mean_transferred=None)]).to_dict()
    assert len(drawn(spec, -1)) == 2
    assert "price of few models" not in " ".join(spec["title"]["subtitle"])
    assert drawing.svg(spec).startswith("<svg")

"""The chart of a sensitivity analysis."""

from __future__ import annotations

import pytest

from miaudit.findings.sensitivity import CovariateStrength, LimitSensitivity, Sensitivity
from miaudit.report import drawing
from miaudit.report.sensitivity_charts import charts


def sensitivity(factor: float | None, covariates: int = 3, side: str = "low") -> Sensitivity:
    strengths = [CovariateStrength(f"<b>column {i}</b>", 1 + 2 / (i + 1), 0.05 / (i + 1)) for i in range(covariates)]
    deciding = LimitSensitivity("tpr_at_fpr_0.01", "loss", side, 0.05, factor)  # type: ignore[arg-type]
    return Sensitivity.of((deciding,), tuple(strengths))


@pytest.mark.parametrize(
    ("factor", "side", "title"),
    [
        (7.0, "low", "To explain TPR at 1% FPR above 5%, an unmeasured trait would have to matter more than"),
        (1.5, "low", "could explain TPR at 1% FPR above 5%"),
        (None, "high", "To hide TPR at 1% FPR above 5%, an unmeasured trait would have to matter more than"),
    ],
)
def test_the_title_says_what_is_seen(factor: float | None, side: str, title: str) -> None:
    spec = charts(sensitivity(factor, side=side))["sensitivity"].to_dict()
    assert title in " ".join(spec["title"]["text"])
    assert len(spec["layer"]) == (2 if factor is None else 3)  # bars, words, and the rule of the trait
    assert "column 0" in spec["description"]
    assert "<svg" in drawing.svg(spec)


def test_ten_covariates_are_shown_and_none_is_no_chart() -> None:
    spec = charts(sensitivity(2.0, covariates=14))["sensitivity"].to_dict()
    assert "The 10 covariates that matter most; 4 more matter less." in " ".join(spec["title"]["subtitle"])
    assert charts(sensitivity(2.0, covariates=0)) == {}

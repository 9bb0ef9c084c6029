"""Charts of overlap and of corrected numbers."""

import pytest

from miaudit.report import audit_charts, drawing, overlap_charts
from report.test_audit_charts import charts_of, values
from report.test_audit_page import page_of
from report.test_zero_run_page import KINDS, THREE, answered, cells, made, memorisation, refused

ZERO_RUN = ["shift", "sensitivity", "overlap", "calibration", "balance"]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_charts_follow_the_schema_and_render(kind):
    drawn = charts_of(made(kind))
    assert list(drawn) == [name for name in audit_charts.NAMES if name in drawn]
    for name, chart in drawn.items():
        spec = chart.to_dict()  # checked against the schema of Vega-Lite
        assert spec["title"]["text"], name
        assert len(spec["description"]) > 20
        picture = drawing.svg(spec)
        assert "NaN" not in picture
        assert "Infinity" not in picture


@pytest.mark.thorough
@pytest.mark.long
def test_which_charts_there_are():
    assert [name for name in charts_of(made("one score")) if name in ZERO_RUN] == ZERO_RUN
    assert list(charts_of(refused(group=THREE))) == [*ZERO_RUN[2:], "distribution"]
    assert "roc-log" in charts_of(refused(raw_only=True))
    empty = refused()
    empty["overlap"] |= {"features": [], "calibration": []}
    assert list(charts_of(empty)) == ["overlap", "distribution"]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("raw", "causal"),
    [
        (0.70, 0.60),
        (0.60, 0.70),
        (0.70, 0.47),
        (0.40, 0.45),
        (0.5, 0.5),
        (0.6, 0.5),
        (0.6, 0.6),
        (1.0, 1.0),
        (0.0, 1.0),
    ],
)
def test_memorisation_and_shift_of_any_sign(raw, causal):
    found = made("one score")
    found["memorisation"] = memorisation(raw, causal)
    spec = charts_of(found)["shift"].to_dict()
    assert "NaN" not in drawing.svg(spec)
    title = " ".join(spec["title"]["text"])
    assert f"memorisation {overlap_charts.points(causal - 0.5)} points" in title
    assert f"shift {overlap_charts.points(raw - causal)} points" in title
    bars = [row for row in values(spec) if "part" in row]
    assert [(bar["from"], bar["to"]) for bar in bars] == [(0.5, causal), (causal, raw)]
    rows = {(layer["encoding"]["y"]["value"], layer["encoding"]["y2"]["value"]) for layer in spec["layer"][:2]}
    assert (len(rows) == 2) == ((causal - 0.5) * (raw - causal) < 0)
    page_of(found)


def test_points_never_round_to_nothing():
    assert overlap_charts.points(0.0001) == "+0.01"
    assert overlap_charts.points(-0.0004) == "−0.04"
    assert overlap_charts.points(0.12345) == "+12.3"
    assert overlap_charts.points(0.0) == "0.0"


@pytest.mark.long
def test_the_love_plot_holds_the_thirty_worst_and_counts_the_rest():
    found = made("one score")
    features = [{"name": f"f{i}", "before": -0.5, "after": (-1) ** i * i / 1000} for i in range(100)]
    found["overlap"]["features"] = features
    spec = charts_of(found)["balance"].to_dict()
    rows = [row for row in values(spec) if "when" in row]
    assert len(rows) == 60
    assert rows[0]["feature"] == "f99"
    assert all(row["at"] >= 0 for row in rows)
    assert "the other 70 differ by at most 0.069" in " ".join(spec["title"]["subtitle"])
    features[3]["after"] = -0.31
    title = " ".join(charts_of(found)["balance"].to_dict()["title"]["text"])
    assert "1 of 100 covariates and squares still differ by more than 0.2 (most: f3, 0.31)" in title
    found["overlap"]["propensity"] = "cross-fitted in 5 folds: standardised columns, a stack (1.00 of line)"
    said = " ".join(charts_of(found)["balance"].to_dict()["title"]["subtitle"])
    assert "the limit of a line after it; a stack is refused by standard errors" in said


@pytest.mark.long
def test_corrected_and_raw_curves_are_not_mixed():
    found = made("answered")
    found["scores"][1]["metrics"] = [m for m in found["scores"][1]["metrics"] if m["estimator"] == "raw"]
    spec = charts_of(found)["roc-linear"].to_dict()
    names = {row["score"] for row in values(spec) if "score" in row}
    assert names == {"loss"}


@pytest.mark.long
def test_a_group_with_raw_numbers_only_is_not_drawn():
    found = answered(group=THREE)
    found["groups"][0]["metrics"] = [m for m in found["groups"][0]["metrics"] if m["estimator"] == "raw"]
    spec = charts_of(found)["groups"].to_dict()
    names = {row["group"] for row in values(spec) if "group" in row}
    assert names == {"1", "2"}
    assert any(cell.startswith("– raw, not causal: ") for cell in cells(page_of(found), "h-groups")[0][1])


@pytest.mark.long
def test_large_differences_have_an_axis_of_plain_numbers():
    found = made("one score")
    found["overlap"]["features"] = [{"name": "apart", "before": 54.0, "after": 39.0}]
    found["overlap"]["calibration"] = [{"predicted": 0.5, "observed": 0.51, "count": 10}]
    drawn = charts_of(found)
    picture = drawing.svg(drawn["balance"].to_dict())
    assert ">20<" in picture
    assert "e+1" not in picture
    title = " ".join(drawn["calibration"].to_dict()["title"]["text"])
    assert "differ by 1 percentage point on average" in title

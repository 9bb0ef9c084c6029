"""Charts of privacy bounds."""

from dataclasses import replace

import pytest

from miaudit.report import audit_charts, drawing
from report.test_audit_charts import charts_of, values
from report.test_audit_page import Page, page_of
from report.test_privacy_page import KINDS, MU, REFUTED, content, gaussian_limit, limit, one_run
from report.test_zero_run_page import cells


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_charts_follow_the_schema_and_render(kind):
    drawn = charts_of(content(kind))
    assert list(drawn) == [name for name in audit_charts.NAMES if name in drawn]
    assert ("bounds" in drawn) == (kind == "one-run")
    for chart in drawn.values():
        picture = drawing.svg(chart.to_dict())
        assert "NaN" not in picture
        assert "Infinity" not in picture


def marks(plain):
    spec = charts_of(plain)["bounds"].to_dict()
    return {row["text"]: row["at"] for row in values(spec) if "text" in row and "at" in row}, spec


@pytest.mark.long
def test_the_line_holds_claim_and_bounds_at_their_values():
    found, spec = marks(content("one-run"))
    assert found == {
        "claim ≤ 1": 1.0,
        "upper bound ≤ 2.75": 2.75,
        "lower bound (95%) ≥ 1.31": 1.31,
        "most it could show 5.4": 5.4,
    }
    for text in found:
        assert text in spec["description"]
    title = " ".join(spec["title"]["text"])
    assert "at least 1.31 with 95% confidence; a theorem says at most 2.75; claimed is at most 1" in title
    assert {(row["from"], row["to"]) for row in values(spec) if "from" in row} == {(0, 1.1 * 5.4), (1.31, 2.75)}


@pytest.mark.long
def test_without_a_claim_the_line_holds_the_first_bound():
    plain = replace(one_run(), claim=None).to_dict()
    assert marks(plain)[0] == {"lower bound (95%) ≥ 1.31": 1.31, "most it could show 5.4": 5.4}


@pytest.mark.thorough
@pytest.mark.long
def test_a_bound_of_zero_shows_nothing():
    plain = replace(one_run(), claim=None, bounds=(replace(MU, value=0.0, reachable=None, p_value=None),)).to_dict()
    assert "bounds" not in charts_of(plain)  # there would be a mark at zero, and nothing else
    claimed = replace(one_run(), claim=replace(REFUTED, status="not-refuted", lower=0.0, upper=None, reachable=None))
    found, spec = marks(claimed.to_dict())
    assert found["lower bound (95%) nothing shown (0)"] == 0.0
    assert "NaN" not in drawing.svg(spec)
    page = Page(page_of(plain))
    assert cells(page_of(plain), "h-bounds")[0][1][1] == "nothing shown (0)"
    assert "no leakage" not in page.words.lower()


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["roc-log", "roc-linear"])
@pytest.mark.parametrize("claimed", [limit(1.0, 1e-5), limit(0.5, 0.0), gaussian_limit(0.5)], ids=["dp", "pure", "mu"])
def test_the_limit_of_the_claim_is_on_the_curves(name, claimed):
    plain = replace(one_run(), claim=replace(REFUTED, limit=claimed)).to_dict()
    spec = charts_of(plain)[name].to_dict()
    layer = next(layer for layer in spec["layer"] if "stroke" in layer["encoding"])
    assert layer["encoding"]["stroke"]["scale"]["domain"] == ["limit of the claim"]
    assert layer["encoding"]["stroke"]["legend"]["orient"] == "bottom-right"
    assert layer["mark"]["strokeDash"] == [7, 4]
    rows = [row for row in values(spec) if "line" in row]
    held = dict(zip(claimed.fpr, claimed.tpr, strict=True))
    assert {row["fpr"]: row["tpr"] for row in rows} == {
        fpr: tpr for fpr, tpr in held.items() if name == "roc-linear" or (fpr > 0 and tpr > 0)
    }
    picture = drawing.svg(spec)
    assert "limit of the claim" in picture
    assert "NaN" not in picture
    without = charts_of(replace(one_run(), claim=None))[name].to_dict()
    assert "limit of the claim" not in drawing.svg(without)


@pytest.mark.long
def test_names_that_differ_at_the_end_stay_apart():
    spec = charts_of(content("one-run"))["groups"].to_dict()
    names = {row["group"] for row in values(spec) if "group" in row}
    assert names == {"region: north-…, over 65", "region: north-…under 65", "elsewhere"}


@pytest.mark.long
def test_a_bound_names_which_records_change():
    plain = replace(one_run(), claim=None, bounds=(replace(MU, neighbours="add-or-remove"),)).to_dict()
    spec = marks(plain)[1]
    title = " ".join(spec["title"]["text"])
    assert title.startswith("The runs show μ (add or remove a record) to be at least ")

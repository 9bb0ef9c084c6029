"""Charts are what Altair writes of the same words, and what its schema accepts."""

import json
from dataclasses import replace
from typing import Any

import altair as alt
import pytest
from jsonschema.exceptions import ValidationError

from findings.test_kind import found, one_of_each
from miaudit.report import kinds
from miaudit.report.vega_lite import Chart, Part, channel, constant, expression, over

ROWS = [{"a": 1.5, "b": "x"}, {"a": 2.5, "b": "y"}]
OTHERS = [{"low": 0.0, "high": 1.0}]
X: Part = {"scale": {"domain": [0, 3], "nice": False}, "axis": {"format": "~%"}, "title": None}


def chart(**look: Any) -> Chart:
    points = over(ROWS).mark("point", filled=True, angle=expression("datum.a * 2"), **look)
    placed = points.encode(x=channel("a:Q", **X), y=constant(4), tooltip=[channel("b:N", title="B")])
    kept = over(ROWS).where("datum.a > 2").mark("text").encode(x=channel("a:Q", **X), text="b:N")
    rule = over(OTHERS).mark("rule", color="red").encode(x=channel("low:Q", **X), x2="high:Q")
    config = {"font": "serif", "view": {"continuousWidth": 300, "continuousHeight": 300}}
    return Chart([placed, kept, rule], {"text": ["Title"], "subtitle": []}, "In words.", 400, 90, config)


def twin() -> Any:
    x = {"scale": alt.Scale(domain=[0, 3], nice=False), "axis": alt.Axis(format="~%"), "title": None}
    points = alt.Chart({"values": ROWS}).mark_point(filled=True, angle=alt.expr("datum.a * 2"))
    layers = [
        points.encode(x=alt.X("a:Q", **x), y=alt.value(4), tooltip=[alt.Tooltip("b:N", title="B")]),
        alt.Chart({"values": ROWS}).transform_filter("datum.a > 2").mark_text().encode(x=alt.X("a:Q", **x), text="b:N"),
        alt.Chart({"values": OTHERS}).mark_rule(color="red").encode(x=alt.X("low:Q", **x), x2="high:Q"),
    ]
    drawn = alt.LayerChart(layer=layers, title=alt.TitleParams(text=["Title"]), description="In words.")
    return drawn.properties(width=400, height=90).configure(font="serif")


def of_one_version(spec: Part) -> Part:
    return {key: part for key, part in json.loads(json.dumps(spec)).items() if key != "$schema"}


@pytest.mark.long
def test_a_chart_is_what_altair_writes() -> None:
    assert of_one_version(chart().to_dict()) == of_one_version(twin().to_dict())
    assert of_one_version(chart(size=9).to_dict()) != of_one_version(twin().to_dict())


def test_rows_that_layers_share_stand_in_it_once() -> None:
    spec = chart().to_dict()
    names = [layer["data"]["name"] for layer in spec["layer"]]
    assert names[0] == names[1] != names[2]
    assert spec["datasets"] == {names[0]: ROWS, names[2]: OTHERS}
    assert spec["layer"][1]["transform"] == [{"filter": "datum.a > 2"}]


def test_a_layer_is_not_changed_by_what_is_made_of_it() -> None:
    base = over(ROWS).mark("point").encode(x="a:Q")
    base.mark("rule").encode(y="a:Q").where("datum.a > 2")
    assert base == over(ROWS).mark("point").encode(x=channel("a:Q"))


@pytest.mark.parametrize("shorthand", ["a", "a:T", ""])
def test_a_channel_names_a_field_and_its_type(shorthand: str) -> None:
    with pytest.raises(ValueError, match="one of Q, N, O"):
        channel(shorthand)


@pytest.mark.long
@pytest.mark.parametrize("name", one_of_each())
def test_the_schema_of_altair_accepts_every_chart_of_a_page(name: str) -> None:
    for one in kinds.charts(found(name)).values():
        assert isinstance(one, Chart)
        assert of_one_version(one.to_altair().to_dict(validate=True)) == of_one_version(one.to_dict())
        wrong = replace(one, layers=[one.layers[0].mark("point", sise=9), *one.layers[1:]])
        with pytest.raises(ValidationError):
            wrong.to_altair()

"""Data frames at the door: of pandas, polars and arrow, and what none of them may hold."""

import numpy as np
import polars as pl
import pytest

import miaudit as ma
from miaudit.errors import InputError

COLUMNS = {
    "loss": [0.5, 1.5, -2.0, 3.0],
    "trained": [True, False, True, False],
    "age": [30, 40, 50, 60],
    "site": ["a", "b", "a", "b"],
    "note": ["one", "two", "three", "four"],
}
OPTIONS = {"score": "loss", "member": "trained", "covariates": ["age"], "unit": "site", "text": "note"}


def pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


FRAMES = {
    "polars": pl.DataFrame,
    "lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "pandas": pandas,
    "arrow": arrow,
}


@pytest.fixture(params=FRAMES.values(), ids=FRAMES)
def make(request):
    return request.param


def test_every_frame_gives_the_same_evidence(make):
    expected = ma.Evidence(
        score={"loss": COLUMNS["loss"]},
        member=COLUMNS["trained"],
        covariates=np.array(COLUMNS["age"], dtype=float)[:, None],
        covariate_names=["age"],
        text=COLUMNS["note"],
        unit=COLUMNS["site"],
        design="zero-run",
    )
    found = ma.Evidence.from_frame(make(COLUMNS), **OPTIONS, design="zero-run")
    assert found.digest == expected.digest


def test_what_save_writes_is_found_by_its_names(make):
    frame = make({"score": [1.0, 2.0], "member": [True, False], "covariate.x": [0.0, 1.0]})
    found = ma.Evidence.from_frame(frame)
    assert found.covariate_names == ("x",)


def test_a_missing_column_is_named_with_a_near_one(make):
    with pytest.raises(InputError, match="trained"):
        ma.Evidence.from_frame(make(COLUMNS), score="loss", member="traned")


def test_empty_values_are_refused(make):
    with pytest.raises(InputError):
        ma.Evidence.from_frame(make({**COLUMNS, "loss": [0.5, None, 1.0, 2.0]}), **OPTIONS)


def test_objects_are_refused():
    with pytest.raises(InputError, match="Python objects"):
        ma.Evidence.from_frame(pandas({**COLUMNS, "loss": [object(), 1, 2, 3]}), **OPTIONS)


def test_a_name_that_stands_twice_is_refused():
    frame = pandas(COLUMNS)
    frame.columns = ["loss", "loss", "age", "site", "note"]
    with pytest.raises(InputError, match="twice"):
        ma.Evidence.from_frame(frame, score="loss", member="loss")


@pytest.mark.parametrize("frame", [None, [1, 2], {"score": [1.0]}, np.zeros(3)], ids=str)
def test_other_things_are_no_frames(frame):
    with pytest.raises(InputError, match="data frame of pandas, polars or arrow"):
        ma.Evidence.from_frame(frame)


def test_series_of_a_frame_go_into_evidence(make):
    frame = make(COLUMNS)
    if hasattr(frame, "collect"):
        frame = frame.collect()
    held = ma.Evidence(score=frame["loss"], member=frame["trained"])
    assert held.n_members == 2

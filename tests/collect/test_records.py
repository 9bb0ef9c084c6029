from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from miaudit import Evidence
from miaudit.collect.records import Records
from miaudit.errors import InputError

ROWS = [{"a": 1.5, "b": 2.0, "y": 1, "who": "007", "in": True}, {"a": 0.5, "b": 3.0, "y": 0, "who": "7", "in": False}]


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"t{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    elif suffix == ".npz":
        np.savez(path, **{name: np.array([row[name] for row in ROWS]) for name in ROWS[0]})
    else:
        frame = pl.DataFrame(ROWS)
        frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    return path


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv", ".jsonl"])
def test_every_format_gives_the_same_records(suffix: str, tmp_path: Path) -> None:
    found = Records.load(
        written(tmp_path, suffix), x=("a", "b"), y="y", member="in", unit="who", covariates="b", group="y"
    )
    np.testing.assert_array_equal(found.x, [[1.5, 2.0], [0.5, 3.0]])
    assert found.y is not None
    assert found.member is not None
    assert found.y.tolist() == [1, 0]
    assert np.asarray(found.member).astype(bool).tolist() == [True, False]
    assert list(found.fields["unit"]) == ["007", "7"]  # labels are text: no zero is lost
    assert found.fields["covariates"].tolist() == [[2.0], [3.0]]
    assert found.fields["covariate_names"] == ("b",)


def test_images_stay_images_and_records_without_inputs_are_row_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", image=np.zeros((3, 1, 4, 4)), y=np.arange(3), c=np.ones((3, 2)))
    found = Records.load(tmp_path / "t.npz", x="image", y="y", covariates="c")
    assert found.x.shape == (3, 1, 4, 4)
    assert found.fields["covariate_names"] == ("c.0", "c.1")
    assert Records.load(tmp_path / "t.npz", y="y").x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["covariates", "traits"])
def test_columns_of_an_array_are_numbered_and_have_gaps_whatever_its_name(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", y=np.arange(3), **{name: np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]])})
    found = Records.load(tmp_path / "t.npz", y="y", covariates=name).fields
    assert found["covariate_names"] == (f"{name}.0", f"{name}.1", f"{name}.1 missing")
    assert found["covariates"].tolist() == [[1.0, 5.0, 0.0], [2.0, 6.0, 1.0], [3.0, 7.0, 0.0]]


def test_texts_go_into_the_model_and_stand_as_covariate(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"t": "one"}\n{"t": "two"}\n')
    found = Records.load(tmp_path / "t.jsonl", text="t")
    assert found.x == ["one", "two"]
    assert found.fields["text"].tolist() == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "columns", "word"),
    [
        ('{"a": 1}\n{"b": 2}\n', {"x": "a"}, "line 2"),
        ('{"a": 1}\nnothing\n', {"x": "a"}, "line 2"),
        ("[1]\n", {"x": "a"}, "list in line 1"),
        ("\n", {"x": "a"}, "a record or more"),
        ('{"a": 1}\n{"a": "x"}\n', {"x": "a"}, "one kind of value"),
        ('{"a": [1]}\n{"a": [1, 2]}\n', {"x": "a"}, "unequal length"),
        ('{"a": "x"}\n', {"x": "a"}, "numbers"),
        ('{"bb": 1}\n', {"x": "a"}, "it has bb"),
        ('{"a": 1}\n', {}, "name the columns"),
    ],
)
def test_what_is_wrong_is_said(content: str, columns: dict[str, str], word: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(content)
    with pytest.raises(InputError, match=word):
        Records.load(tmp_path / "t.jsonl", **columns)


def test_columns_of_unequal_length_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.zeros((3, 2)), y=np.arange(2))
    with pytest.raises(InputError, match="3 rows"):
        Records.load(tmp_path / "t.npz", x="x", y="y")


def test_a_header_without_rows_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="a record or more, received none in t"):
        Records.load(tmp_path / "t.csv", x="a")


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_covariates_have_gaps_dates_and_levels_as_those_of_evidence_have(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame({
        "x": [1.0, 2.0, 3.0, 4.0],
        "m": [True, False, True, False],
        "age": [30, None, 50, 70],
        "seen": ["2024-02-29", "1970-01-02", None, "1970-01-01"],
        "site": ["b", None, "a", "b"],
    })  # fmt: skip
    path = tmp_path / f"t{ending}"
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[ending](path)
    asked: dict[str, Any] = {"member": "m", "covariates": ["age", "seen", "site"], "categories": ["site"]}
    found = Records.load(path, x="x", **asked).fields
    assert found["covariate_names"] == ("age", "seen", "site", "age missing", "seen missing")
    assert found["covariates"].tolist() == [
        [30.0, 19782.0, 2.0, 0.0, 0.0],
        [50.0, 1.0, 0.0, 1.0, 0.0],
        [50.0, 1.0, 1.0, 0.0, 1.0],
        [70.0, 0.0, 2.0, 0.0, 0.0],
    ]
    if ending != ".jsonl":
        assert np.array_equal(Evidence.load(path, score="x", **asked).covariates, found["covariates"])


def patients(folder: Path, suffix: str = ".parquet") -> Path:
    rng, path = np.random.default_rng(0), folder / f"p{suffix}"
    y = ["rare"] * 2 + rng.choice(["no", "yes"], 58).tolist()
    site = [None if i % 9 == 0 else "ns"[i % 2] for i in range(60)]
    frame = pl.DataFrame({"age": rng.normal(size=60), "site": site, "y": y})
    frame.write_parquet(path) if suffix == ".parquet" else frame.write_csv(path)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_of_text_are_a_frame_and_labels_of_text_are_numbered(suffix: str, tmp_path: Path) -> None:
    found = Records.load(patients(tmp_path, suffix), x="*", y="y")
    assert list(found.x.columns) == ["age", "site"]
    assert found.x["site"].isna().sum() == 7
    assert found.classes == ("no", "rare", "yes")
    assert found.y is not None
    assert found.y[:2].tolist() == [1, 1]


@pytest.mark.long
def test_a_frame_is_made_where_it_is_asked_for(tmp_path: Path) -> None:
    path = patients(tmp_path)
    assert isinstance(Records.load(path, x="age").x, np.ndarray)
    assert list(Records.load(path, x="age", frame=True).x.columns) == ["age"]
    assert str(Records.load(path, x="site", levels=["site"]).x["site"].dtype) == "category"
    with pytest.raises(InputError, match="fill or drop them"):
        Records.load(path, x=["age", "site"], frame=False)


@pytest.mark.parametrize("y", [["a", None, "b"], ["a", 1, "b"], ["a", "", "b"]])
def test_labels_that_are_missing_are_refused(y: list[object]) -> None:
    with pytest.raises(InputError, match=r"data.y: expected a label in every row"):
        Records(np.zeros((3, 1)), np.array(y, dtype=object), None, {}, "made")


def test_how_often_a_record_stands_in_a_training_is_a_whole_number_from_1(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("".join(f'{{"t": "text {i}", "n": {i + 1}}}\n' for i in range(4)), encoding="utf-8")
    assert np.asarray(Records.load(path, text="t", times="n").times).tolist() == [1, 2, 3, 4]
    for bad in ([0, 1], [1, 1.5], [1, -2], [1, True], ["a", "b"]):
        path.write_text("".join(f"{json.dumps({'t': 'text', 'n': one})}\n" for one in bad), encoding="utf-8")
        with pytest.raises(InputError, match=r"data\.times|n: expected"):
            Records.load(path, text="t", times="n")


def test_labels_of_one_column_are_labels(tmp_path: Path) -> None:
    for y, classes in (([[0], [1], [1]], ()), ([["b"], ["a"], ["b"]], ("a", "b"))):
        np.savez(tmp_path / "d.npz", x=np.zeros((3, 2)), y=np.array(y))
        found = Records.load(tmp_path / "d.npz", x="x", y="y")
        assert found.y is not None
        assert found.y.shape == (3,)
        assert found.classes == classes

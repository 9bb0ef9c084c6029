"""Evidence: the door, the files, the digest."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import miaudit as ma
from auditing.test_case import scores
from miaudit import Evidence
from miaudit.collect.outputs import from_outputs
from miaudit.errors import InputError
from miaudit.io import tables

FORMATS = ("npz", "parquet", "csv")
finite = st.floats(-1e150, 1e150)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.isprintable)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    n = draw(st.integers(2, 12))
    scores = draw(st.dictionaries(names, hnp.arrays(np.float64, n, elements=finite), min_size=1, max_size=3))
    member = np.array(
        draw(st.permutations([True, False] + draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))))
    )
    d = draw(st.integers(0, 3))
    covariates = draw(hnp.arrays(np.float64, (n, d), elements=finite)) if d else None
    named = d and draw(st.booleans())
    labels = st.one_of(
        st.none(),
        hnp.arrays(np.int64, n, elements=st.integers(-5, 5)),
        st.lists(names, min_size=n, max_size=n).map(lambda x: np.array(x)),
    )
    return Evidence(
        score=scores,
        member=member,
        covariates=covariates,
        covariate_names=[f"x {i}" for i in range(d)] if named else None,
        design=draw(st.sampled_from([None, "one-run", "multi-run", "zero-run"])),
        unit=draw(labels),
        group=draw(labels),
    )


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(evidence=evidences())
def test_every_format_gives_back_what_was_saved(suffix: str, evidence: Evidence, tmp_path: Path) -> None:
    path = tmp_path / f"evidence.{suffix}"
    if suffix == "csv" and any('"' in name or name.endswith(" ") for name in evidence.scores):
        with pytest.raises(InputError, match="quotation"):
            evidence.save(path)
        return
    evidence.save(path)
    back = Evidence.load(path)
    assert back.digest == evidence.digest
    assert back.design == evidence.design
    assert list(back.scores) == list(evidence.scores)
    for name, values in evidence.scores.items():
        np.testing.assert_array_equal(back.scores[name], values)
    np.testing.assert_array_equal(back.member, evidence.member)
    assert (back.covariates is None) == (evidence.covariates is None)
    if evidence.covariates is not None:
        np.testing.assert_array_equal(back.covariates, evidence.covariates)
    for field in ("unit", "group"):
        old, new = getattr(evidence, field), getattr(back, field)
        assert (old is None) == (new is None)
        if old is not None:
            assert list(map(str, new)) == list(map(str, old))


@pytest.mark.parametrize("name", ["a ", " ", 'a"b'])
def test_csv_refuses_a_name_that_its_reader_would_change(name: str, tmp_path: Path) -> None:
    evidence = Evidence(score={name: [1.0, 0.0]}, member=[True, False])
    with pytest.raises(InputError, match="names without quotation marks or blanks around them"):
        evidence.save(tmp_path / "evidence.csv")
    evidence.save(tmp_path / "evidence.parquet")
    assert Evidence.load(tmp_path / "evidence.parquet").digest == evidence.digest
    within = evidence.replace(score={" a b": [1.0, 0.0]})
    within.save(tmp_path / "within.csv")
    assert Evidence.load(tmp_path / "within.csv").digest == within.digest


@pytest.mark.long
@given(evidence=evidences(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_digest_changes_with_every_change(evidence: Evidence, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, evidence.n - 1))
    name = data.draw(st.sampled_from(list(evidence.scores)))
    changed = evidence.scores[name].copy()
    changed[row] = 1.0 if changed[row] != 1.0 else 2.0
    others = [
        evidence.replace(score={**evidence.scores, name: changed}),
        evidence.replace(design="one-run" if evidence.design != "one-run" else "zero-run"),
        evidence.replace(unit=np.arange(evidence.n) + 100),
    ]
    assert len({evidence.digest, *(other.digest for other in others)}) == 4
    assert evidence.replace(source="elsewhere").digest == evidence.digest  # where it came from is not content


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400))
def test_no_content_of_a_file_does_more_than_raise_an_input_error(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"noise.{suffix}"
    path.write_bytes({"npz": b"PK\x03\x04", "parquet": b"PAR1", "csv": b""}[suffix] + content)
    with pytest.raises(InputError):
        Evidence.load(path, score="score", member="member")


@pytest.mark.thorough
@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 3000), flip=st.integers(0, 3000), suffix=st.sampled_from(["npz", "parquet"]))
def test_damaged_files_load_as_they_were_or_not_at_all(cut: int, flip: int, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    evidence = Evidence(score=rng.normal(size=50), member=rng.random(50) < 0.5)
    path = tmp_path / f"whole.{suffix}"
    evidence.save(path)
    whole = path.read_bytes()
    damaged = bytearray(whole[: max(0, len(whole) - cut)])
    if damaged:
        damaged[flip % len(damaged)] ^= 0xFF
    other = tmp_path / f"damaged.{suffix}"
    other.write_bytes(bytes(damaged))
    try:
        back = Evidence.load(other, score="score", member="member")
    except InputError:
        return
    assert back.n == 50


def test_it_is_frozen_and_keeps_its_own_copy() -> None:
    score = np.array([1.0, 2.0])
    evidence = Evidence(score=score, member=[True, False])
    score[0] = 9.0
    assert evidence.score[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        evidence.score[0] = 3.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.design = "one-run"  # type: ignore[misc]


def test_columns_by_name_and_covariates_as_columns_or_as_one_list(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 20
    table = {
        "loss": rng.normal(size=n),
        "is_in": np.arange(n) % 2,
        "age": rng.normal(size=n),
        "x": rng.normal(size=(n, 3)),
    }
    np.savez(tmp_path / "t.npz", **table)
    evidence = Evidence.load(tmp_path / "t.npz", score="loss", member="is_in", covariates=["age", "x"], unit=None)
    assert evidence.covariates is not None
    assert evidence.covariates.shape == (n, 4)
    assert evidence.covariate_names == ("age", "x[0]", "x[1]", "x[2]")
    assert list(evidence.scores) == ["loss"]
    assert evidence.design is None
    evidence.save(tmp_path / "t.parquet")
    assert Evidence.load(tmp_path / "t.parquet").digest == evidence.digest


def test_a_design_is_declared_or_absent_never_guessed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"score": rng.normal(size=6), "member": np.arange(6) % 2}
    for value, expected in (("one-run", "one-run"), ("square", None)):
        np.savez(tmp_path / "t.npz", **columns, design=np.full(6, value))
        assert Evidence.load(tmp_path / "t.npz", score="score", member="member").design == expected
    mixed = np.array(["one-run"] * 3 + ["zero-run"] * 3)
    np.savez(tmp_path / "t.npz", **columns, design=mixed)
    assert Evidence.load(tmp_path / "t.npz").design is None
    assert Evidence.load(tmp_path / "t.npz", design="zero-run").design == "zero-run"


def test_units_written_as_007_stay_apart_from_7(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("score,member,unit\n1,1,007\n2,0,7\n3,1,007\n")
    evidence = Evidence.load(tmp_path / "t.csv")
    assert evidence.unit is not None
    assert evidence.unit.tolist() == ["007", "7", "007"]
    assert evidence.unit_codes is not None
    assert evidence.unit_codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_categories_may_be_text_and_nothing_else_may(tmp_path: Path, suffix: str) -> None:
    site = np.array(["süd", "north", "north", "east"])
    columns = {"s": np.arange(4.0), "m": np.array([1, 0, 1, 0]), "x": np.arange(4.0), "site": site}
    path = tmp_path / f"t{suffix}"
    tables.write_columns(path, columns)
    options = {"score": "s", "member": "m", "covariates": ["x", "site"]}
    found = Evidence.load(path, **options, categories="site")
    assert found.covariate_names == ("x", "site")
    assert found.covariates is not None
    assert found.covariates[:, 1].tolist() == [2, 1, 1, 0]
    again = Evidence.from_frame(pl.DataFrame(columns), **options, categories=["site"], source=path.name)
    assert again.digest == found.digest
    with pytest.raises(InputError, match="site: expected numbers or dates like 2024-02-29, received text"):
        Evidence.load(path, **options)
    assert Evidence.load(path, score="s", member="m", covariates="x", categories="site").covariate_names == ("x",)


def test_units_that_never_repeat_are_records() -> None:
    assert Evidence(score=[1.0, 2.0], member=[1, 0], unit=["a", "b"]).unit_codes is None


def test_pairs_of_arrays(tmp_path: Path) -> None:
    evidence = Evidence.from_pair([3.0, 4.0], [1.0, 2.0, 0.0], design="one-run")
    evidence.save_pair(tmp_path / "m.npy", tmp_path / "o.npy")
    assert Evidence.load_pair(tmp_path / "m.npy", tmp_path / "o.npy", design="one-run").digest == evidence.digest
    with pytest.raises(InputError, match="nothing else"):
        evidence.replace(unit=[0, 0, 1, 1, 2]).save_pair(tmp_path / "a.npy", tmp_path / "b.npy")
    assert not (tmp_path / "a.npy").exists()


def test_a_failed_write_leaves_the_old_file_and_no_new_one(tmp_path: Path) -> None:
    path = tmp_path / "e.npz"
    evidence = Evidence(score=[1.0, 2.0], member=[1, 0])
    evidence.save(path)
    before = path.read_bytes()
    broken = evidence.replace(source="x")
    object.__setattr__(broken, "scores", {"score": object()})
    with pytest.raises(Exception):  # noqa: B017 - whatever goes wrong
        broken.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.npz"]


def test_several_scores_are_chosen_by_name() -> None:
    evidence = Evidence(score={"a": [1.0, 2.0], "b": [2.0, 1.0]}, member=[1, 0])
    with pytest.raises(InputError, match=r"choose with evidence\.only"):
        _ = evidence.score
    assert evidence.only("b").score.tolist() == [2.0, 1.0]
    with pytest.raises(InputError, match="one of a, b"):
        evidence.only("c")


def test_the_evidence_of_one_score_shares_what_was_checked_and_counted() -> None:
    evidence = Evidence(score={"a": [1.0, 2.0, 0.0], "b": [2.0, 1.0, 3.0]}, member=[1, 0, 0], unit=[5, 5, 7])
    one = evidence.only("b")
    assert one.digest == evidence.replace(score={"b": evidence.scores["b"]}).digest
    assert one.ascending.tolist() == [1, 0, 2]
    assert one.unit_codes is evidence.unit_codes
    assert one is evidence.only("b") and one is one.only("b")
    assert list(evidence.scores) == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"score": [1.0, [2.0]]}, "unequal length"),
        ({"score": [1.0, None]}, "1 missing, the first in row 1"),
        ({"score": []}, "one non-member"),
        ({"member": [[True, True], [False, False]]}, "shape"),
        ({"covariates": np.ones((3, 2))}, "2 rows"),
        ({"covariates": np.ones((2, 2)), "covariate_names": ["a"]}, "2 names"),
        ({"covariates": np.ones((2, 2, 2))}, "two-dimensional"),
        ({"design": "one_run"}, "did you mean one-run"),
        ({"score": {}}, "at least one score"),
        ({"score": [1e308, 0.0]}, r"up to 1e\+150"),
    ],
)
def test_the_door(fields: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Evidence(**({"score": [1.0, 2.0], "member": [True, False]} | fields))  # type: ignore[arg-type]


TEXTS = ["plain", "", "zwei Wörter\nund eine Zeile", '"quoted", with commas', " spaces ", "1", "0.10", "true"]


def with_texts(**fields: object) -> Evidence:
    return Evidence(score=np.arange(8.0), member=np.arange(8) % 2 == 0, text=TEXTS, **fields)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_texts_survive_every_format(tmp_path: Path, suffix: str) -> None:
    evidence = with_texts(covariates=np.arange(16.0).reshape(8, 2))
    evidence.save(tmp_path / f"e{suffix}")
    back = Evidence.load(tmp_path / f"e{suffix}")
    assert back.text is not None
    assert back.text.tolist() == TEXTS
    assert back.digest == evidence.digest
    named = Evidence.load(tmp_path / f"e{suffix}", score="score", member="member", text="text")
    assert named.text is not None
    assert named.text.tolist() == TEXTS
    assert Evidence.load(tmp_path / f"e{suffix}", score="score", member="member").text is None


def test_texts_are_taken_replaced_and_part_of_the_digest() -> None:
    evidence = with_texts()
    assert evidence.text is not None
    assert evidence.take(np.array([0, 3])).text.tolist() == [TEXTS[0], TEXTS[3]]
    assert evidence.replace(design="zero-run").text.tolist() == TEXTS
    assert pickle.loads(pickle.dumps(evidence)).digest == evidence.digest
    without = evidence.replace(text=None)
    other = evidence.replace(text=[*TEXTS[:7], "false"])
    moved = evidence.replace(text=[*TEXTS[1:], TEXTS[0]])
    assert len({one.digest for one in (evidence, without, other, moved)}) == 4
    with pytest.raises(ValueError, match="read-only"):
        evidence.text[0] = "x"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (["a", None], "NoneType in row 1"),
        (["a", float("nan")], "float in row 1"),
        ([1, 2], "int in row 0"),
        (["a"], "2 rows"),
        ([["a"], ["b"]], "one text for each record"),
        (["a", "b\0"], "row 1"),
        (["\ud800", "b"], "row 0"),
    ],
)
def test_texts_at_the_door(text: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        Evidence(score=[1.0, 2.0], member=[1, 0], text=text)  # type: ignore[arg-type]


def test_texts_are_no_pair_of_scores(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="texts"):
        with_texts().save_pair(tmp_path / "m.npy", tmp_path / "o.npy")


def test_evidence_survives_being_sent_to_another_process() -> None:
    evidence = scores(20, {"a": 1.0, "b": 0.0}, unit=np.arange(40) // 2, covariates=np.ones((40, 1)))
    back = pickle.loads(pickle.dumps(evidence))
    assert back.digest == evidence.digest
    assert back.scores.keys() == evidence.scores.keys()


def test_labels_that_join_alike_have_other_digests() -> None:
    base = {"score": [1.0, 2.0], "member": [1, 0]}
    assert Evidence(**base, unit=["a\x1fb", "c"]).digest != Evidence(**base, unit=["a", "b\x1fc"]).digest


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"score": np.ma.masked_equal([1.0, 2.0], 2.0)}, "masked"),
        ({"unit": [2.0**63, 2.0**63 + 4096]}, "integers or text"),
    ],
)
def test_more_of_the_door(fields: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Evidence(**({"score": [1.0, 2.0], "member": [1, 0]} | fields))  # type: ignore[arg-type]
    assert Evidence(score=[1.0, 2.0], member=["1", "0"]).n_members == 1


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


def test_columns_of_a_frame_are_scores_by_name(make):
    named = {name: COLUMNS[name] for name in ("loss", "age")}
    held = Evidence(score=make(named), member=COLUMNS["trained"])
    assert held.digest == Evidence(score=named, member=COLUMNS["trained"]).digest


def test_losses_are_turned_once_and_it_is_recorded(tmp_path: Path) -> None:
    losses, member = [0.1, 2.0, 0.5, 3.0], [1, 0, 1, 0]
    evidence = Evidence(score=losses, member=member, signal="loss", source="mine")
    assert evidence.scores["loss"].tolist() == [-loss for loss in losses]
    assert evidence.source == "mine (losses, turned by their sign)"
    collected = from_outputs(member=member, losses=losses, rng=np.random.default_rng(0)).evidence
    assert evidence.digest == collected.digest  # what the collector makes of losses
    assert evidence.replace(design="one-run").scores["loss"].tolist() == evidence.scores["loss"].tolist()
    evidence.save(tmp_path / "e.csv")
    again = Evidence.load(tmp_path / "e.csv")
    assert (again.digest, again.source) == (evidence.digest, evidence.source)
    frame = pl.DataFrame({"x": losses, "m": member})
    frame.write_csv(tmp_path / "raw.csv")
    for read in (
        Evidence.from_frame(frame, score="x", member="m", signal="loss"),
        Evidence.load(tmp_path / "raw.csv", score="x", member="m", signal="loss"),
    ):
        assert read.scores["x"].tolist() == evidence.score.tolist()
    assert Evidence.from_pair([0.1, 0.5], [2.0], signal="loss").scores["loss"].tolist() == [-0.1, -0.5, -2.0]
    two = Evidence(score={"a": losses, "b": [1, 2, 3, 4]}, member=member, signal="loss")
    assert two.scores["b"].tolist() == [-1, -2, -3, -4]


@pytest.mark.parametrize(("signal", "word"), [("los", "did you mean loss"), ("logits", "from_outputs"), (None, "sign")])
def test_another_signal_is_refused(signal: Any, word: str) -> None:
    with pytest.raises(InputError, match=f"^signal: expected score or loss.*{word}"):
        Evidence(score=[1.0, 2.0], member=[1, 0], signal=signal)


SCORES, UNITS = [0.25, -1.0, 3.5], ["a", "b", "b"]
LIBRARIES = {
    "lists": (SCORES, [1, 0, 1], UNITS),
    "pandas": (pd.Series(SCORES, index=[7, 8, 9]), pd.Series([True, False, True]), pd.Series(UNITS)),
    "nullable": (
        pd.Series(SCORES, dtype="Float64"),
        pd.Series([1, 0, 1], dtype="Int64"),
        pd.Series(UNITS, dtype="string"),
    ),
    "categories": (pd.Series(SCORES), pd.Series([1, 0, 1], dtype="boolean"), pd.Series(UNITS, dtype="category")),
    "objects": (pd.Series(SCORES, dtype=object), pd.Series([1, 0, 1], dtype=object), np.array(UNITS, dtype=object)),
    "polars": (pl.Series(SCORES), pl.Series([True, False, True]), pl.Series(UNITS, dtype=pl.Categorical)),
    "floats": (np.array(SCORES, dtype=np.float32), np.array([1.0, 0.0, 1.0]), pl.Series(UNITS)),
}


@pytest.mark.parametrize("kind", LIBRARIES)
def test_columns_of_any_library_are_the_same_evidence(kind: str) -> None:
    score, member, unit = LIBRARIES[kind]
    plain = Evidence(score=np.array(SCORES), member=np.array([True, False, True]), unit=np.array(UNITS))
    assert Evidence(score=score, member=member, unit=unit).digest == plain.digest


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"member": pd.Series([True, None, False])}, "member: .*1 missing, the first in row 1"),
        ({"member": pl.Series([True, None, False])}, "member: .*1 missing, the first in row 1"),
        ({"unit": pd.Series(["a", None, "b"])}, "unit: .*1 missing, the first in row 1"),
        ({"score": pd.Series([0.1, None, 0.2], dtype="Float64")}, "score: .*1 missing"),
        ({"score": pd.Series([object()] * 3)}, "Python objects"),
        ({"score": pd.Series(SCORES), "member": pd.Series([1, 0, 1])[::-1]}, "member: expected the index of score"),
    ],
)
def test_columns_with_gaps_or_in_another_order_are_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Evidence(**{"score": SCORES, "member": [1, 0, 1], **fields})


def test_the_columns_of_a_frame_name_covariates() -> None:
    for frame in (pd.DataFrame({"age": [1, 2, 3]}), pl.DataFrame({"age": [1, 2, 3]})):
        assert Evidence(score=SCORES, member=[1, 0, 1], covariates=frame).covariate_names == ("age",)
    unnamed = Evidence(score=SCORES, member=[1, 0, 1], covariates=pd.DataFrame([[1], [2], [3]]))
    assert unnamed.covariate_names == ()


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e150])
def test_scores_at_the_edge_of_float64_are_audited_as_any_others(scale: float) -> None:
    rng = np.random.default_rng(0)
    member = np.arange(200) % 2 == 0
    score = (rng.random(200) < 0.3 + 0.3 * member).astype(float)
    plain, edge = (
        ma.audit(ma.Evidence(score=values, member=member, design="one-run"), rng=0) for values in (score, score * scale)
    )
    for one, other in zip(edge.metrics, plain.metrics, strict=True):
        assert one.name == other.name
        assert one.name == "ate" or one.value == other.value  # a difference of scores has their scale
    assert edge.verdict.status == plain.verdict.status


def test_labels_of_one_column_are_labels() -> None:
    column = np.arange(6)[:, None]
    found = Evidence(score=column / 7, member=column % 2, unit=column, group=column % 3)
    assert found.score.shape == found.member.shape == (6,)
    assert found.unit is not None
    assert found.group is not None
    assert found.unit.shape == found.group.shape == (6,)


def test_a_name_that_stands_twice_is_refused_and_nothing_is_dropped() -> None:
    score, member = np.arange(6.0), np.arange(6) % 2 == 0
    for same in ({1: score, "1": score + 1}, {None: score, "None": score}):
        with pytest.raises(InputError, match=r"score: expected names of their own, received '.*' twice"):
            Evidence(score=same, member=member)
    with pytest.raises(InputError, match="covariate_names: expected names of their own, received 'a' twice"):
        Evidence(score=score, member=member, covariates=np.ones((6, 3)), covariate_names=["a", "a", "b"])


@pytest.mark.parametrize("suffix", FORMATS)
def test_chances_of_inclusion_are_saved_and_loaded(suffix: str, tmp_path: Path) -> None:
    chance = np.array([0.1, 0.8, 1 / 3])
    evidence = Evidence(score=SCORES, member=[1, 0, 1], design="one-run", inclusion=chance)
    evidence.save(tmp_path / f"e.{suffix}")
    again = Evidence.load(tmp_path / f"e.{suffix}")
    assert again.digest == evidence.digest
    np.testing.assert_array_equal(again.inclusion, chance)
    named = Evidence.load(tmp_path / f"e.{suffix}", score="score", member="member", inclusion="inclusion")
    np.testing.assert_array_equal(named.inclusion, chance)
    one = Evidence.load(tmp_path / f"e.{suffix}", score="score", member="member", inclusion=0.3)
    assert one.inclusion is not None
    assert set(one.inclusion.tolist()) == {0.3}
    with pytest.raises(InputError, match="inclusion: expected none, unless the design is one-run"):
        Evidence.load(tmp_path / f"e.{suffix}", design="zero-run")


def test_chances_of_inclusion_go_with_their_records() -> None:
    chance = np.array([0.1, 0.8, 0.8])
    evidence = Evidence(score=SCORES, member=[1, 0, 1], design="one-run", inclusion=chance, unit=["a", "b", "b"])
    assert evidence.take(np.array([1, 0])).inclusion.tolist() == [0.8, 0.1]  # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(evidence)).digest == evidence.digest
    assert evidence.digest != evidence.replace(inclusion=None).digest != evidence.replace(inclusion=0.5).digest
    both = Evidence.of_runs([evidence, evidence])
    assert [one.inclusion.tolist() for one in both.runs] == [chance.tolist()] * 2  # type: ignore[union-attr]
    with pytest.raises(InputError, match="evidence of the same kind"):
        Evidence.of_runs([evidence, evidence.replace(inclusion=None)])
    with pytest.raises(InputError, match="one chance for all records of a unit"):
        evidence.replace(inclusion=np.array([0.1, 0.2, 0.8]))
    with pytest.raises(InputError, match="runs or chances"):
        evidence.replace(unit=None).save_pair("a.npy", "b.npy")


def test_a_column_named_inclusion_is_read_where_a_design_is_beside_it(tmp_path: Path) -> None:
    pl.DataFrame({"score": SCORES, "member": [1, 0, 1], "inclusion": [7, 8, 9]}).write_csv(tmp_path / "e.csv")
    assert Evidence.load(tmp_path / "e.csv", design="one-run").inclusion is None

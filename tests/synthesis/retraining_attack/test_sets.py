"""Training generators with and without targets: designs, resumption, failures, and folders of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.jobs.resumable import JobsFailedError
from miaudit.synthesis.retraining_attack.sets import SyntheticSets, compact, train
from miaudit.synthesis.schema import Column, Schema, Table
from worlds.generators import Copies, Marginals, Resampling

SCHEMA = Schema(tuple(Column(f"c{i}") for i in range(6)))


def table(n: int = 40) -> Table:
    values = (np.random.default_rng(0).random((n, 6)) < 0.4).astype(float)
    return Table(SCHEMA, values)


class Telling:
    """Releases the number of its training records and which of rows 1 and 2 it learned, in plain sight."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, given: Table, *, rng: np.random.Generator) -> Any:
        self.calls += 1
        return Copies(given.values)


def learned(sets: SyntheticSets, given: Table, row: int) -> list[bool]:
    """Which models released a row that only one record of the table has."""
    return [bool((np.asarray(sets.model(m)) == given.values[row]).all(axis=2).any()) for m in range(sets.models)]


def marked(n: int = 40) -> Table:
    """Rows 1 and 2 are like no other: resampling shows whether they were learned."""
    values = table(n).values.copy()
    values[:, 0] = 0
    values[1], values[2] = [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]
    return Table(SCHEMA, values)


@pytest.mark.parametrize("design", ["separate", "shared"])
def test_models_learn_what_the_memberships_say(design) -> None:
    given = marked()
    sets = train(
        given, [1, 2], fit=Resampling(), repeats=4, sets=4, set_size=200, design=design, rng=np.random.default_rng(1)
    )
    assert sets.models == (16 if design == "separate" else 8)
    for place, row in enumerate((1, 2)):
        # a model that is not about a target learns it like all others
        expected = sets.membership[:, place] != 0
        assert learned(sets, given, row) == expected.tolist()
        counts = [(sets.membership[:, place] == kind).sum() for kind in (0, 1)]
        assert counts == [4, 4]
    assert sets.shared == (design == "shared")
    assert (*sets.model(0).shape[:2], sets.targets) == (4, 200, ("row 1", "row 2"))
    np.testing.assert_array_equal(sets.records, given.values[[1, 2]])


def test_separate_models_stand_in_the_order_of_algorithm_1() -> None:
    sets = train(table(), [3, 5], fit=Marginals(), repeats=2, sets=1, set_size=5, rng=np.random.default_rng(0))
    assert sets.membership[:, 0].tolist() == [0, 1, 0, 1, -1, -1, -1, -1]
    assert sets.membership[:, 1].tolist() == [-1, -1, -1, -1, 0, 1, 0, 1]
    assert sets.about(1).tolist() == [4, 5, 6, 7]


@pytest.mark.long
def test_the_same_seed_gives_the_same_sets_wherever_they_are_made() -> None:
    options = {"fit": Marginals(0.2), "repeats": 2, "sets": 2, "set_size": 10}
    one, two, other = (
        train(table(), [0], **options, workers=workers, rng=np.random.default_rng(seed))
        for workers, seed in ((1, 5), (2, 5), (1, 6))
    )
    for m in range(4):
        np.testing.assert_array_equal(one.model(m), two.model(m))
    assert any((one.model(m) != other.model(m)).any() for m in range(4))


def test_a_store_keeps_what_finished(tmp_path) -> None:
    broken = Failing(after=3)
    options = {"repeats": 3, "sets": 2, "set_size": 10, "store": tmp_path / "s", "key": "marginals"}
    with pytest.raises(JobsFailedError, match=r"3 of 6 generators failed.*run again to repeat only these"):
        train(table(), [0], fit=broken, **options, rng=np.random.default_rng(5))
    second = Telling()
    sets = train(table(), [0], fit=second, **options, rng=np.random.default_rng(5))
    assert second.calls == 3
    whole = train(table(), [0], fit=Telling(), repeats=3, sets=2, set_size=10, rng=np.random.default_rng(5))
    for m in range(6):
        np.testing.assert_array_equal(sets.model(m), whole.model(m))
    with pytest.raises(InputError, match="same key"):
        train(table(), [0], fit=second, **{**options, "key": "another"}, rng=np.random.default_rng(5))
    with pytest.raises(InputError, match="same targets"):
        train(table(), [1], fit=second, **options, rng=np.random.default_rng(5))
    with pytest.raises(InputError, match="key: expected a few words"):
        train(table(), [0], fit=second, **{**options, "key": ""}, rng=np.random.default_rng(5))


class Failing(Telling):
    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def __call__(self, given: Table, *, rng: np.random.Generator) -> Any:
        if self.calls >= self.after:
            raise RuntimeError("out of patience")
        return super().__call__(given, rng=rng)


def test_many_at_once_see_the_rows_of_each() -> None:
    seen = []

    def together(given: Table, *, rows: np.ndarray, rng: np.random.Generator) -> list[Any]:
        seen.append(rows)
        return [Copies(given.values[row]) for row in rows]

    given = marked()
    sets = train(
        given, [1], fit_many=together, at_once=3, repeats=4, sets=2, set_size=300, rng=np.random.default_rng(0)
    )
    assert [len(rows) for rows in seen] == [3, 3, 2]
    assert (np.concatenate(seen).sum(axis=1) == np.where(sets.membership[:, 0] == 1, 40, 39)).all()
    assert learned(sets, given, 1) == (sets.membership[:, 0] == 1).tolist()
    with pytest.raises(JobsFailedError, match="a generator for each row"):
        train(
            given,
            [1],
            fit_many=lambda *a, **k: [],
            at_once=2,
            repeats=2,
            sets=1,
            set_size=5,
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "fit or fit_many, received neither"),
        ({"fit": Marginals(), "fit_many": Marginals()}, "received both"),
        ({"fit": Marginals(), "repeats": 0}, "repeats"),
        ({"fit": Marginals(), "design": "joint"}, "separate or shared"),
        ({"fit": Marginals(), "at_once": 2}, "pass fit_many"),
        ({"fit": Marginals(), "rng": 3}, "rng"),
    ],
)
def test_bad_input(options, message) -> None:
    with pytest.raises(InputError, match=message):
        train(table(), [0], **{"rng": np.random.default_rng(0), **options})


def test_a_sample_of_another_shape_is_named() -> None:
    with pytest.raises(JobsFailedError, match="10 records of 6 columns"):
        train(
            table(),
            [0],
            fit=Marginals(),
            sample=lambda g, n, rng: np.zeros((n, 5)),
            repeats=1,
            sets=2,
            set_size=5,
            rng=np.random.default_rng(0),
        )


# -- folders ----------------------------------------------------------------------------------------------------------


def write_folder(folder: Path, models: int = 8) -> Table:
    folder.mkdir()
    given, lines = marked(), ["file,model,target,member"]
    for m in range(models):
        keep = np.ones(40, dtype=bool)
        keep[1] = m % 2 == 1
        made = Table(SCHEMA, given.values[keep]).subset(np.random.default_rng(m).integers(keep.sum(), size=65))
        made.frame().write_csv(folder / f"{m}.csv")
        lines.append(f"{m}.csv,model {m},row one,{str(m % 2 == 1).lower()}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return given


def test_a_folder_of_tables(tmp_path) -> None:
    given = write_folder(tmp_path / "tables")
    sets = SyntheticSets.from_folder(tmp_path / "tables", SCHEMA, set_size=20, records=given.subset([1]))
    assert (sets.models, *sets.model(0).shape[:2], sets.targets) == (8, 3, 20, ("row one",))
    assert sets.membership[:, 0].tolist() == [0, 1] * 4
    first = np.asarray(sets.model(0))
    assert first.dtype == np.uint8
    found = learned(sets, given, 1)
    assert not any(found[::2])
    assert any(found[1::2])


def test_codes_with_leading_zeros_stay_text(tmp_path) -> None:
    schema = Schema((Column("code", "categorical", ("007", "012")), Column("a")))
    (tmp_path / "manifest.csv").write_text("file,model,target,member\n0.csv,m,t,1\n1.csv,n,t,0\n")
    for name in "01":
        (tmp_path / f"{name}.csv").write_text("a,code\n0,007\n1,012\n")
    sets = SyntheticSets.from_folder(tmp_path, schema, set_size=2)
    assert np.asarray(sets.model(1))[0].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("file,model,target\n0.csv,a,b\n", "add member"),
        ("file,model,target,member\n", "a row for each table"),
        ("file,model,target,member\n0.csv,a,b,maybe\n", "true or false"),
        ("file,model,target,member\n../0.csv,a,b,1\n", "a file in the folder"),
        ("file,model,target,member\n9.csv,a,b,1\n", "does not exist"),
        ("file,model,target,member\n0.csv,a,b,1\n1.csv,a,b,0\n", "both for model a"),
    ],
)
def test_unusable_manifests(tmp_path, manifest, message) -> None:
    write_folder(tmp_path / "tables", 2)
    (tmp_path / "tables" / "manifest.csv").write_text(manifest)
    with pytest.raises(InputError, match=message):
        SyntheticSets.from_folder(tmp_path / "tables", SCHEMA)


def test_a_folder_with_too_few_records_or_targets(tmp_path) -> None:
    given = write_folder(tmp_path / "tables", 2)
    with pytest.raises(InputError, match="set_size"):
        SyntheticSets.from_folder(tmp_path / "tables", SCHEMA, set_size=100)
    with pytest.raises(InputError, match="records"):
        SyntheticSets.from_folder(tmp_path / "tables", SCHEMA, set_size=10, records=given)


def test_large_categories_and_numbers_are_kept_as_numbers() -> None:
    schema = Schema((Column("g", "continuous", low=0, high=1),))
    assert compact(np.array([[0.25], [np.nan]]), schema).dtype == np.float32
    assert compact(np.array([[1.0], [0.0]]), Schema((Column("b"),))).dtype == np.uint8

"""Audits of three files on the command line, by way of an application of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from miaudit.command import synthetic_table
from miaudit.config.audit import TableConfig
from miaudit.errors import InputError
from worlds.patients import patients


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    rng = np.random.default_rng(0)

    def draw(n: int) -> pl.DataFrame:
        return pl.DataFrame({"age": rng.normal(size=n), "job": rng.choice(["a", "b", "c"], size=n)})

    members = draw(200)
    made = pl.concat([draw(150), members.head(50)])
    paths = tuple(tmp_path / f"{name}.csv" for name in ("made", "members", "others"))
    for path, frame in zip(paths, (made, members, draw(200)), strict=True):
        frame.write_csv(path)
    return paths  # type: ignore[return-value]


def audited(*files: Path, json: bool) -> None:
    paths = dict(zip(("table_path", "members_path", "nonmembers_path"), map(str, files), strict=True))
    settings = TableConfig.model_validate({"synthetic": paths, "evaluation": {"design": "one-run"}})
    synthetic_table.audit_table(settings, Path(), None, 0, overwrite=False, json=json)


@pytest.mark.thorough
@pytest.mark.long
def test_copies_end_in_exit_code_three(files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stop:
        audited(*files, json=False)
    assert stop.value.exit_code == 3
    said = capsys.readouterr().out
    assert said.startswith("Concern, and an epsilon of at least ")
    assert "is proven" in said.split(". ")[0] and "exact copies are at least" in said
    decides, informs = said.index("What decides:"), said.index("What informs, and never decides:")
    assert "copies" in said[decides:informs] and "record by record" in said[decides:informs]
    assert "linkability" in said[informs:] and "would detect" in said[informs:]
    assert "The schema was inferred from the synthetic table." in said
    assert "Positive control" in said


@pytest.mark.long
def test_json_is_all_that_is_printed(files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        audited(*files, json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["exit_code"]) == ("table", 3)
    assert found["attacks"][0]["members"]["right"] == 50
    assert found["repeat"]["seed"] == 0


def test_a_missing_file_is_one_line(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="members: expected an existing file"):
        audited(files[0], tmp_path / "no.csv", files[2], json=True)


@pytest.fixture
def households(tmp_path: Path) -> tuple[str, str, str]:
    rng = np.random.default_rng(1)

    def draw(n: int, repeat: int, first: int) -> pl.DataFrame:
        frame = pl.DataFrame({"age": rng.normal(size=n), "job": rng.choice(["a", "b", "c"], size=n)})
        frame = frame.with_columns(house=pl.Series(np.arange(first, first + n)))
        return frame[np.repeat(np.arange(n), repeat)]

    paths = tuple(str(tmp_path / f"{name}.csv") for name in ("made", "members", "others"))
    frames = draw(150, 1, 0).drop("house"), draw(40, 5, 0), draw(40, 5, 40)
    for path, frame in zip(paths, frames, strict=True):
        frame.write_csv(path)
    return paths  # type: ignore[return-value]


@pytest.mark.thorough
@pytest.mark.long
def test_households_go_through_the_command(
    households: tuple[str, str, str], tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    made, members, others = households
    call = ["audit", "--synthetic", made, "--members", members, "--nonmembers", others, "--design", "one-run"]
    secrets = ["--secret", "job", "--no-bounds"]
    out = tmp_path / "declared"
    code, said, _ = run(*call, *secrets, "--unit", "house", "--out", out)
    assert code == 4, said
    assert "200 controls (of 40 and 40 units)" in said
    assert "Note: Intervals count 40 units of members" in said
    found = json.loads((out / "findings.json").read_text())
    assert [column["name"] for column in found["columns"]] == ["age", "job"]
    assert "(of 40 and 40 units)" in (out / "report.html").read_text()
    bare = [str(tmp_path / f"bare-{i}.csv") for i in range(2)]
    for source, path in zip((members, others), bare, strict=True):
        pl.read_csv(source).drop("house").write_csv(path)
    call[4], call[6] = bare  # members and non-members without the column
    code, said, _ = run(*call, *secrets, "--json")
    found = json.loads(said)
    assert (code, found["exit_code"], found["verdict"]["status"]) == (4, 4, "refused")
    assert found["verdict"]["text"].startswith("Not answered (refused): 400 records have an equal one")


def single(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("income", "bmi", "dose").cast(pl.Float32).cast(pl.Float64))


def numbered(frames: list[pl.DataFrame]) -> list[pl.DataFrame]:
    firsts = (20_000, 0, 5_000)  # as three systems number their rows
    return [
        frame.with_columns(patient_id=pl.Series(first + np.arange(len(frame))))
        for first, frame in zip(firsts, frames, strict=True)
    ]


def as_uuids(frames: list[pl.DataFrame]) -> list[pl.DataFrame]:
    return [
        frame.with_columns(patient_id=pl.concat_str(pl.lit("uuid-"), pl.col("patient_id").cast(pl.String)))
        for frame in numbered(frames)
    ]


Files = Callable[[list[pl.DataFrame]], list[pl.DataFrame]]
CASES: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], Files, str]] = {
    "as they are": (lambda frame: frame, list, "exact copies are at least"),
    "new key": (lambda frame: frame, numbered, "are in the table but for patient_id"),
    "new uuid": (lambda frame: frame, as_uuids, "exact copies are at least"),
    "single precision": (single, list, "exact copies are at least"),
    "another city": (lambda frame: frame.with_columns(city=pl.lit("c0")), numbered, "in the table but for one column"),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_two_per_cent_of_copies_end_in_exit_code_three(
    case: str, tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    """20 of 1,000 members are copied, as they are, under a new key, through single precision, or with another city."""
    change, keyed, sentence = CASES[case]
    rng = np.random.default_rng(2)
    members, control, made = (patients(1000, rng) for _ in range(3))
    copied = pl.concat([made.tail(980), change(members.head(20)).cast(made.schema)])
    paths = [tmp_path / f"{name}.csv" for name in ("made", "members", "others")]
    for path, frame in zip(paths, keyed([copied, members, control]), strict=True):
        frame.write_csv(path)
    call = ["audit", "--synthetic", paths[0], "--members", paths[1], "--nonmembers", paths[2]]
    options = ["--design", "one-run", "--no-bounds", "--records", "100"]
    code, text, _ = run(*call, *options)
    assert code == 3 and sentence in text
    assert "of 1,000 members and 0 of 1,000 control records" in text or "exact copies" in text
    assert ("Column patient_id looks like" in text or "patient_id looks like" in text) is (keyed is not list)
    assert "With one cell changed: in " in text
    if case == "new key":  # the control: a key that is kept hides exact copies, and identifies members by itself
        code, text, _ = run(*call, *options, "--keep", "patient_id")
        assert code == 4 and "patient_id (1.00)" in text and "without patient_id" not in text

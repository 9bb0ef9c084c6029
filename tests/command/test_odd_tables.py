"""One list of diagnoses: the same odd file gets the same words wherever a table is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., tuple[int, str, str]]
Rows = list[list[str]]
NAMES = ["score", "member", "age", "site"]


def rows() -> Rows:
    rng = np.random.default_rng(0)
    return [
        [f"{rng.normal() + i % 2:.4f}", str(i % 2), f"{rng.integers(20, 60)}.5", "ab"[i % 3 == 0]] for i in range(60)
    ]


def written(content: Rows, names: list[str] = NAMES, separator: str = ",") -> bytes:
    return "\n".join(separator.join(row) for row in [names, *content, []]).encode()


def changed(row: int, place: int, cell: str) -> Rows:
    content = rows()
    content[row][place] = cell
    return content


def every(place: int, change: Callable[[str], str]) -> Rows:
    return [[change(cell) if i == place else cell for i, cell in enumerate(row)] for row in rows()]


# What stands in the way of every reader of the file.
STRUCTURE: dict[str, tuple[bytes, str]] = {
    "semicolons": (written(rows(), separator=";"), "separated by ';'; save it with commas"),
    "tabs": (written(rows(), separator="\t"), "separated by a tab; save it with commas"),
    "latin-1": (written(changed(5, 3, "\xfc")).decode().encode("latin-1"), "line 7 has a byte that is no UTF-8"),
    "UTF-16": (written(rows()).decode().encode("utf-16"), "text in UTF-16; save it as UTF-8"),
    "an open quotation mark": (written(changed(5, 3, '"a')), "line 7 has a quotation mark that nothing closes"),
    "a short row": (written(rows()) + b"1\n", "line 62 has 1 cell, where the first row has 4"),
    "a decimal comma without quotation marks": (written(changed(5, 0, "0,5")), "line 7 has 5 cells"),
    "an empty line": (written(rows()) + b"\n1,1,30,a\n", "line 62 has nothing; delete the empty line"),
    "NUL": (written(changed(5, 3, "\0")), "line 7 has a NUL character"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
    "a page": (b"<!DOCTYPE html><html></html>", "a page of HTML"),
    "two columns of one name": (written(rows(), ["score", "member", "age", "age "]), "'age' stands twice"),
}
ENTRIES: dict[str, tuple[str, ...]] = {
    "audit": ("audit", "t.csv", "--score", "score", "--member", "member", "--design", "one-run"),
    "audit that assumes": ("audit", "t.csv"),
    "audit of losses": ("audit", "t.csv", "--score", "score", "--member", "member", "--signal", "loss"),
    "run": ("run", "c.yaml"),
    "synthetic": ("audit", "--synthetic", "t.csv", "--members", "good.csv", "--nonmembers", "good.csv"),
    "members": ("audit", "--synthetic", "good.csv", "--members", "t.csv", "--nonmembers", "good.csv"),
    "nonmembers": ("audit", "--synthetic", "good.csv", "--members", "good.csv", "--nonmembers", "t.csv"),
    "schema": (
        "audit",
        "--synthetic",
        "t.csv",
        "--members",
        "good.csv",
        "--nonmembers",
        "good.csv",
        "--schema",
        "s.yaml",
    ),
    "init": ("init", "t.csv"),
    "plan": ("plan", "t.csv"),
    "synthesise": ("synthesise", "t.csv", "--out", "draft"),
    "sample": (
        *("audit", "good.csv", "--score", "score", "--member", "member", "--design", "zero-run", "--covariates", "age"),
        *("--propensity-sample", "t.csv"),
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_bytes(written(rows()))
    (tmp_path / "c.yaml").write_text("evaluation: {table_path: t.csv, score: score, member: member}\n")
    (tmp_path / "s.yaml").write_text("columns:\n- {name: age, kind: continuous, low: 0, high: 100}\n")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize(("content", "message"), STRUCTURE.values(), ids=STRUCTURE)
def test_what_no_reader_can_read_has_the_same_words_everywhere(
    content: bytes, message: str, entry: tuple[str, ...], folder: Path, run: Run
) -> None:
    (folder / "t.csv").write_bytes(content)
    code, out, err = run(*entry)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not out


AUDIT, TABLES = ENTRIES["audit"], ENTRIES["synthetic"]
COVARIATES = (*AUDIT[:-1], "zero-run", "--covariates", "age")
# Cells: the file, the command, and its words.
CELLS: dict[str, tuple[Rows, tuple[str, ...], str]] = {
    **{
        f"{mark} as a score": (changed(7, 0, mark), AUDIT, f"score: .* 1 missing ({mark}), the first in row 7; fill")
        for mark in ("NA", "null", ".", "#N/A", "N/A")
    },
    "nan as a score": (changed(7, 0, "nan"), AUDIT, "1 missing (NaN), the first in row 7"),
    "NA as a membership": (changed(7, 1, "NA"), AUDIT, "member: .* 1 missing (NA), the first in row 7"),
    "NA as a covariate in all rows": (every(2, lambda _: "NA"), COVARIATES, "age: .* it says nothing"),
    "a word as a score": (changed(7, 0, "abc"), AUDIT, "received text ('abc' in row 7; 1 such row)"),
    "a word as a covariate": (changed(7, 2, "abc"), COVARIATES, "received text ('abc' in row 7; 1 such row)"),
    "decimal commas": (every(0, lambda x: f'"{x.replace(".", ",")}"'), AUDIT, "in row 0, a decimal comma; 60 such"),
    "a decimal comma": (changed(7, 0, '"0,5"'), AUDIT, "text ('0,5' in row 7, a decimal comma; 1 such row)"),
    "thousands": (changed(7, 0, '"1,234.5"'), AUDIT, "'1,234.5' in row 7, thousands separators"),
    "decimal commas of a table": (every(2, lambda x: f'"{x.replace(".", ",")}"'), TABLES, "a decimal comma"),
    "a word in a table": (changed(7, 0, "abc"), TABLES, "'abc' in row 7"),
    "a private word": (changed(7, 2, "abc"), ENTRIES["members"], "age: .* text (in row 7; 1 such row) among"),
    "a private decimal comma": (changed(7, 2, '"1,5"'), ENTRIES["members"], "text (in row 7, a decimal comma; 1"),
    "infinity": (changed(7, 0, "inf"), AUDIT, "the first in row 7"),
    "1e308": (changed(7, 0, "1e308"), AUDIT, "the first in row 7"),
    "integers that float64 makes equal": (
        [[str(2**60 + i), *row[1:]] for i, row in enumerate(rows())],
        AUDIT,
        "numbers that float64 keeps apart",
    ),
    "printed tensors": (
        every(0, lambda x: f"tensor({x})"),
        AUDIT,
        "a printed object; 60 such rows); save value.item()",
    ),
}


@pytest.mark.parametrize(("content", "entry", "message"), CELLS.values(), ids=CELLS)
def test_the_first_bad_cell_is_named(
    content: Rows, entry: tuple[str, ...], message: str, folder: Path, run: Run
) -> None:
    (folder / "t.csv").write_bytes(written(content))
    code, _, err = run(*entry)
    assert code == 1
    assert all(part in err for part in message.split(" .* ")), err
    if entry == ENTRIES["members"]:
        assert "abc" not in err
        assert "1,5" not in err


@pytest.mark.parametrize("place", [0, 2, 3])
def test_a_quotation_mark_in_a_cell_loses_no_record(place: int, folder: Path, run: Run) -> None:
    """In a column that nobody asked for: all rows are audited."""
    content = [row[:3] + [f'{i}" pipe' if i in (20, 40) else row[3]] for i, row in enumerate(rows())]
    (folder / "t.csv").write_bytes(written(content))
    code, out, _ = run(*AUDIT, "--json")
    assert code in (0, 3, 4)
    assert '"members": 30' in out or '"n_members": 30' in out


def test_blanks_around_names_and_numbers_are_read(folder: Path, run: Run) -> None:
    content = [[f" {cell} " for cell in row] for row in rows()]
    (folder / "t.csv").write_bytes(written(content, [f" {name}" for name in NAMES]))
    code, _, err = run(*AUDIT, "--json")
    assert code in (0, 3, 4), err


def test_propensities_in_percent_are_named(folder: Path, run: Run) -> None:
    for change, words in (
        (lambda x: f"{float(x):.1f}", "percent? divide by 100"),
        (lambda x: f"{x}%", "a percentage; 60 such rows); divide by 100"),
    ):
        (folder / "t.csv").write_bytes(written(every(2, change)))
        code, _, err = run(
            *AUDIT[:-1], "zero-run", "--covariates", "site", "--categories", "site", "--propensity", "age"
        )
        assert code == 1
        assert words in err


def test_a_score_that_is_text_is_not_passed_over(folder: Path, run: Run) -> None:
    content = [[f'"{row[0].replace(".", ",")}"', row[1], f"{float(row[2]) / 7:.3f}", row[3]] for row in rows()]
    (folder / "t.csv").write_bytes(written(content))
    code, out, _ = run("init", "t.csv", "--out", "draft.yaml")
    assert code == 0
    assert "score is no column of numbers: text (in row 0, a decimal comma; 60 such rows)" in out
    assert "score: age" not in out
    code, _, err = run("audit", "t.csv")
    assert code == 1
    assert "a decimal comma" in err


def test_a_draft_says_only_what_was_read(folder: Path, run: Run) -> None:
    lines = [f"{i % 7 / 7:.3f},{i % 2}" for i in range(20_100)]
    (folder / "t.csv").write_text("\n".join(["loss,member", *lines, "-5,1", ""]))
    code, out, _ = run("init", "t.csv", "--out", "draft.yaml")
    assert code == 0
    for text in (out, (folder / "draft.yaml").read_text()):
        assert "no value is below 0, in the first 20,000 rows" in text
        assert "it holds 0 and 1, in the first 20,000 rows" in text

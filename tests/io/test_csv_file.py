"""A .csv file gives as many rows as Python's csv module reads, or a refusal with the number of the line."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.io import csv_file, profile, tables
from miaudit.synthesis.schema import read_frame

# By name: the bytes, and the line that a refusal names; 0 where the file is read.
CORPUS: dict[str, tuple[bytes, int]] = {
    "plain": (b"a,b\n1,2\n3,4\n", 0),
    "no last line break": (b"a,b\n1,2\n3,4", 0),
    "only names": (b"a,b\n", 0),
    "byte order mark": (b"\xef\xbb\xbfa,b\n1,2\n", 0),
    "byte order mark before a quotation mark": (b'\xef\xbb\xbf"a","b"\n"1",2\n', 0),
    "carriage returns and line feeds": (b"a,b\r\n1,2\r\n3,4\r\n", 0),
    "both kinds of line ends": (b"a,b\r\n1,2\n3,4\r\n", 0),
    "carriage returns alone": (b"a,b\r1,2\r3,4\r", 0),
    "a carriage return inside a row": (b"a,b\n1,x\ry\n2,3\n", 3),
    "empty lines at the end": (b"a,b\n1,2\n\n\n", 0),
    "empty lines of two characters at the end": (b"a,b\r\n1,2\r\n\r\n", 0),
    "an empty line": (b"a,b\n1,2\n\n3,4\n", 3),
    "an empty first line": (b"\na,b\n1,2\n", 1),
    "a line of blanks": (b"a,b\n1,2\n  \n3,4\n", 3),
    "an empty line of one column": (b"a\n1\n\n3\n", 3),
    "an empty line at the end of one column": (b"a\n1\n\n", 3),
    "an empty text of one column": (b'a\n1\n""\n3\n', 0),
    "a short row": (b"a,b\n1\n3,4\n", 2),
    "a short last row": (b"a,b\n1,2\n3", 3),
    "a long row": (b"a,b\n1,2\n3,4,5\n", 3),
    "a comma at the end": (b"a,b\n1,2,\n", 2),
    "a comma at the end of every line": (b"a,b,\n1,2,\n", 0),
    "decimal commas": (b"a,b\n0,5,1\n0,7,2\n", 2),
    "quoted decimal commas": (b'a,b\n"0,5",1\n', 0),
    "a quotation mark in a cell": (b'a,b\n1,6" pipe\n3,4\n5,6\n', 0),
    "quotation marks in a cell": (b'a,b\n1,5" x 6"\n3,4\n', 0),
    "in a cell, and around another": (b'a,b\n1,6" pipe\n"3, 3",4\n', 0),
    "quotation marks as they should be": (b'a,b\n"6"" pipe",2\n"""",4\n"""x""",5\n', 0),
    "one that opens a cell": (b'a,b\n1,2\n1,"6 pipe\n3,4\n', 3),
    "one at the end": (b'a,b\n1,2\n3,"4', 3),
    "text after a closing one": (b'a,b\n1,2\n"x"y,2\n', 3),
    "a blank after a closing one": (b'a,b\n"x" ,1\n', 2),
    "a blank before an opening one": (b'a,b\n1, "x"\n', 0),
    "a blank before one with a comma": (b'a,b\n1, "x, y"\n', 2),
    "rows between two that open and close": (b'a,b,c\n9,9,y\n1,5,"6 pipe\n3,4,x\n5,7,pipe 6"\n8,8,y\n', 3),
    "a comma in a cell": (b'a,b\n"x, y",2\n', 0),
    "a line break in a cell": (b'a,b\n"x\ny",2\n3,4\n', 0),
    "both line ends in a cell": (b'a,b\r\n"x\r\ny",2\r\n3,4\r\n', 0),
    "a carriage return in a cell": (b'a,b\n"x\ry",2\n3,4\n', 0),
    "an empty line in a cell": (b'a,b\n"x\n\ny",2\n3,4\n', 0),
    "an address in a cell": (b'a,b\n1,"Street 5\nBerlin, DE"\n2,"Road 1\nParis, FR"\n3,x\n', 0),
    "a name with a line break": (b'"a\nx",b\n1,2\n', 0),
    "blanks around names": (b"a, b , c\n1, 2 , 3\n", 0),
    "latin-1": ("a,b\n1,2\n3,Zürich\n".encode("latin-1"), 3),
    "NUL": (b"a,b\n1,2\n3,\x004\n", 3),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), 1),
    "separators of Unicode": ("a,b\n1,x\u2028y\n2,\x85\n".encode(), 0),
    "other separators of lines": (b"a,b\n1,\x0b\x0c\n2,\x1c\n", 0),
    "empty cells": (b'a,b\n,\n"",\n1,\n', 0),
    "a mark of the end of DOS": (b"a,b\n1,2\n\x1a", 3),
    "lines that look like remarks": (b"a,b\n#1,2\n3,4\n", 0),
    "a remark of a separator": (b"sep=,\na,b\n1,2\n", 1),
    "a comment above the names": (b"# made by hand\na,b\n1,2\n", 1),
}


def by_python(content: bytes) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if row]


@pytest.mark.parametrize(("content", "line"), CORPUS.values(), ids=CORPUS)
def test_a_file_is_read_as_python_reads_it_or_refused_with_the_line(content: bytes, line: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    if line:
        with pytest.raises(InputError, match=rf"whose line {line} has .*; \w"):
            csv_file.opened(path, "file")
        return
    table, (names, *rows) = csv_file.opened(path, "file"), by_python(content)
    assert [name.strip() for name in names] == list(table.names)
    assert len(rows) == table.rows
    assert [[cell or "" for cell in row] for row in table.frame().rows()] == rows


@pytest.mark.parametrize(("content", "line"), CORPUS.values(), ids=CORPUS)
def test_every_entry_finds_as_many_rows_also_of_one_column(content: bytes, line: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)

    def each() -> list[int]:
        first = tables.column_names(path)[0]
        columns = tables.read_columns(path, [first], as_text=[first], gaps=[first])
        heights = [len(columns[first]), tables.read_frame(path, [first]).height]
        heights += [read_frame(path, "t", only=[first]).height, read_frame(path, "t").height]
        return heights if b"\n" not in content or not heights[0] else [*heights, profile.head(path)[1]]

    if not line:
        assert set(each()) == {len(by_python(content)) - 1}
        return
    readers: list[Callable[[Path], object]] = [
        tables.column_names,
        profile.head,
        lambda p: tables.read_columns(p, ["a"]),
    ]
    readers += [lambda p: tables.read_frame(p, ["a"]), lambda p: read_frame(p, "t", only=["a"])]
    for reader in readers:
        with pytest.raises(InputError, match=f"line {line} has|text in UTF-16"):
            reader(path)


@pytest.mark.long
def test_random_tables_are_read_as_python_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK", 7)  # so that every block ends in the middle of something
    rng, path, read = random.Random(0), tmp_path / "t.csv", 0
    for number in range(400):
        width = rng.choice((1, 2, 3))
        signs = ["x", "é", " ", "1", "", *rng.choice((["xy"], ['"'], ['"', "\r"], ['""', '"x"'], ['"x\ny"', ","]))]
        rows = [["".join(rng.choices(signs, k=rng.randint(1, 2))) for _ in range(width)] for _ in range(4)]
        body = "".join(",".join(row) + rng.choice(("\n", "\n", "\r\n")) for row in rows)
        content = (",".join("abc"[:width]) + "\n" + body).encode()
        path = tmp_path / f"{number}.csv"
        path.write_bytes(content)
        try:
            table = csv_file.opened(path, "file")
        except InputError as error:
            assert re.search(r"line \d+ has|separated", str(error))
            continue
        read += 1
        found = [[cell or "" for cell in row] for row in table.frame().rows()]
        assert found == by_python(content)[1:], content
    assert read > 100


def test_a_pipe_of_six_inches_takes_no_record_away(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    items = {700: '6" pipe', 1400: '5" pipe'}
    rows = [f"{i / 7:.4f},{i % 2},{items.get(i, 'pipe')}\n" for i in range(2000)]
    path.write_text("score,member,item\n" + "".join(rows))
    assert len(tables.read_columns(path, ["score", "member"])["score"]) == 2000


@pytest.mark.parametrize(
    ("content", "sign"),
    [("a;b\n1;2,5\n", "';'"), ("a\tb\n1\t2\n", "a tab"), ("a|b\n1|2\n", "'|'"), ("sep=;\na;b\n1;2\n", "';'")]
    + [("a;b (x, y);c\n1;2;3\n", "';'"), ('"a";"b"\n"1";"2"\n', "';'")],
)
def test_other_separators_are_named(content: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=re.escape(f"separated by {sign}; save it with commas")):
        csv_file.opened(tmp_path / "t.csv", "file")


def test_a_column_of_texts_with_signs_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("P(y|x)\n0.5\n0.25\n")
    assert csv_file.opened(tmp_path / "t.csv", "file").names == ("P(y|x)",)


def test_a_missing_value_of_one_column_survives_the_way_out_and_in(tmp_path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame({"a": [1, None, 3, None]})
    tables.writer(frame, ".csv")(tmp_path / "t.csv")
    assert tables.read_frame(tmp_path / "t.csv", ["a"])["a"].to_list() == [1, None, 3, None]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    assert csv_file.opened(path, "file").rows == 1
    path.write_text("a,b\n1,2\n3,4\n")
    assert csv_file.opened(path, "file").rows == 2


def test_long_cells_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'a,b\n1,{"x" * 200_000}6" pipe\n')
    assert tables.read_columns(tmp_path / "t.csv", ["a"])["a"].tolist() == [1]

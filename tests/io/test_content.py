"""A file that is of another kind than its name says is refused at every door."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.io import profile, tables
from miaudit.io.array_heads import array_heads
from miaudit.io.yaml_file import read_yaml
from miaudit.synthesis.schema import read_frame

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
HTML = b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "names of columns": (".csv", tables.column_names),
    "columns": (".csv", lambda path: tables.read_columns(path, ["a"])),
    "a frame": (".csv", lambda path: tables.read_frame(path, ["a"])),
    "a table of a schema": (".csv", lambda path: read_frame(path, "table")),
    "a draft": (".csv", profile.head),
    "a parquet": (".parquet", tables.column_names),
    "a draft of a parquet": (".parquet", profile.head),
    "arrays": (".npz", tables.column_names),
    "an array": (".npy", lambda path: tables.read_array(path, "scores")),
    "heads of arrays": (".npz", lambda path: array_heads(path, 10)),
    "a configuration": (".yaml", lambda path: read_yaml(path, "config")),
}


@pytest.mark.parametrize(("suffix", "read"), READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("content", "message"), [(LFS, "a pointer of Git LFS .*; fetch the file: git lfs pull"), (HTML, "a page of HTML")]
)
def test_what_only_stands_for_a_file_is_named(
    suffix: str, read: Callable[[Path], object], content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "a gzip archive; unpack it"),
        (b"PK\x03\x04" + b"\0" * 60, "an Excel workbook"),
        (b"PAR1" + b"\0" * 60, "a .parquet file; rename it"),
        ("a,b\n1,2\n".encode("utf-16"), "text in UTF-16; save it as UTF-8"),
        (b"\x93NUMPY\x01\x00", "an array; rename it to .npy"),
    ],
    ids=["gzip", "Excel", "parquet", "UTF-16", "an array"],
)
def test_another_format_under_the_name_of_a_table_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        tables.column_names(tmp_path / "t.csv")

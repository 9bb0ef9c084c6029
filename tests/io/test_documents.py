"""Texts with names and units are read from lines of JSON, and bad lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.io.documents import Document, digest_of, read_documents


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_names_units_and_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", '{"text": "a", "id": 4, "who": "x", "z": [1]}', "", '{"text": "b", "id": "5"}')
    assert read_documents(path) == (Document("1", "a"), Document("3", "b"))
    assert read_documents(path, ids="id")[0] == Document("4", "a")
    first = write(tmp_path / "e.jsonl", '{"text": "a", "id": 4, "who": "x"}')
    assert read_documents(first, unit="who", ids="id") == (Document("4", "a", "x"),)
    digests = {digest_of(read_documents(first, **keys)) for keys in ({}, {"unit": "who"}, {"ids": "id"})}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("lines", "keys", "word"),
    [
        ([], {}, "a text or more"),
        (["[]"], {}, "line 1, JSON"),
        (['{"body": "a"}'], {}, "line 1, keys: expected 'text', received body"),
        (['{"text": 3}'], {}, "line 1, text"),
        (['{"text": "a", "id": 1}', '{"text": "b", "id": "1"}'], {"ids": "id"}, "line 2, id"),
        (['{"text": "a", "id": " "}'], {"ids": "id"}, "1 to 1,000 characters"),
        (['{"text": "a"}'], {"unit": "who"}, "'who'"),
        (['{"text": "a", "who": ["b"]}'], {"unit": "who"}, "line 1, who"),
    ],
)
def test_bad_lines_are_named(lines: list[str], keys: dict[str, str], word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_documents(write(tmp_path / "d.jsonl", *lines), **keys)
    assert word in str(caught.value) and "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("d.csv", "absent.jsonl"):
        with pytest.raises(InputError):
            read_documents(tmp_path / name)

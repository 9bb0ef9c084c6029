"""Files of answers and of texts: what is read, and one line for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from miaudit.errors import InputError
from miaudit.io import generations
from miaudit.io.generations import AnswerFile, read_texts


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    texts = write(tmp_path / "p.jsonl", {"id": "a", "text": "one"}, "", {"text": "two", "colour": "red"})
    return texts, write(tmp_path / "c.jsonl", {"id": 7, "text": "three", "member": False})


def test_texts_and_controls(files: tuple[Path, Path]) -> None:
    held = read_texts(*files)
    assert (held.ids, held.text, held.unit) == (("a", "line 3", "7"), ("one", "two", "three"), None)
    assert held.member.tolist() == [True, True, False]
    assert held.notes == (
        "Keys that were not used, with the first line of p.jsonl, of each: 'colour' (line of p.jsonl, 3).",
    )


def test_units_of_all_texts(tmp_path: Path) -> None:
    texts = write(tmp_path / "p.jsonl", {"text": "one", "unit": "u"})
    controls = write(tmp_path / "c.jsonl", {"text": "two", "unit": 5})
    assert read_texts(texts, controls).unit == ("u", "5")
    write(controls, {"text": "two"})
    with pytest.raises(InputError, match=r"c.jsonl, line 1, unit: expected one of every text, or of none"):
        read_texts(texts, controls)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "p.jsonl, line 2, JSON: expected one object"),
        ("[]", "p.jsonl, line 2, JSON"),
        ({"txet": "x"}, "p.jsonl, line 2, keys: .*did you mean text"),
        ({"id": "b"}, "p.jsonl, line 2, keys: expected text, received none named text"),
        ({"text": 5}, "p.jsonl, line 2, text: expected text, received int"),
        ({"text": "x", "id": "a"}, "p.jsonl, line 2, id: expected an id of its own, received 'a', as in line 1"),
        ({"text": "x", "member": False}, "p.jsonl, line 2, member: expected texts that were trained on"),
        ({"text": "x", "unit": "u"}, "p.jsonl, line 2, unit"),
    ],
)
def test_bad_texts_are_refused_with_their_line(files: tuple[Path, Path], line: Any, message: str) -> None:
    write(files[0], {"id": "a", "text": "one"}, line)
    with pytest.raises(InputError, match=message) as refused:
        read_texts(*files)
    assert "\n" not in str(refused.value)


def test_a_file_without_texts_is_refused(files: tuple[Path, Path]) -> None:
    write(files[1])
    with pytest.raises(InputError, match=r"controls: expected a line or more, received none in c.jsonl"):
        read_texts(*files)
    with pytest.raises(InputError, match="nowhere"):
        read_texts(files[0], files[0].with_name("nowhere.jsonl"))


def test_answers_in_parts(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {"answer": "go on", "prompt": "Please "},
        {"text": " Please go on", "prompt": "Please"},
        {"answer": "", "n": 1},
    ]
    path = write(files[0].with_name("a.jsonl"), *lines)
    answers = AnswerFile(path, read_texts(*files))
    (whole,) = answers.batches()
    assert whole.text == ("go on", " go on", "") and whole.prompt == ("Please ", "Please", "")
    assert whole.lines.tolist() == [1, 2, 3] and whole.targets is None and whole.read == whole.size
    assert answers.notes == ("Keys that were not used, with the first line of each: 'n' (line 3).",)
    monkeypatch.setattr(generations, "_MOST_BYTES", 1)
    assert [one for part in answers.batches() for one in part.text] == ["go on", " go on", ""]
    assert [part.lines.tolist() for part in answers.batches()] == [[1], [2], [3]]


def test_targets_are_texts_by_their_ids(files: tuple[Path, Path]) -> None:
    path = write(files[0].with_name("a.jsonl"), {"answer": "x", "targets": ["a", 7]}, {"answer": "y", "targets": [7]})
    (whole,) = AnswerFile(path, read_texts(*files)).batches()
    assert whole.targets is not None and whole.targets.tolist() == [[0, 0], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'answer'}", "a.jsonl, line 2, JSON"),
        ({"prompt": "x"}, "a.jsonl, line 2, keys: expected answer or text, received none named answer or text"),
        ({"answer": None}, "a.jsonl, line 2, answer: expected text, received NoneType"),
        ({"answer": "x", "prompt": ["y"]}, "a.jsonl, line 2, prompt: expected text, received list"),
        ({"answer": "x", "targets": ["b"]}, "a.jsonl, line 2, targets: .* received 'b', which none has"),
        ({"answer": "x", "targets": ["twice"]}, "a.jsonl, line 2, targets: .* which a text and a control have"),
        ({"answer": "x", "targets": []}, "a.jsonl, line 2, targets: .* received none"),
        ({"answer": "x"}, "a.jsonl, line 2, targets: .* on every line or on none, received none"),
        ({"anwser": "x", "targets": ["a"]}, "a.jsonl, line 2, keys: .* did you mean answer"),
    ],
)
def test_bad_answers_are_refused_with_their_line(files: tuple[Path, Path], line: Any, message: str) -> None:
    write(files[0], {"id": "a", "text": "one"}, {"id": "twice", "text": "two"})
    write(files[1], {"id": "twice", "text": "three"})
    path = write(files[0].with_name("a.jsonl"), {"answer": "x", "targets": ["a"]}, line)
    with pytest.raises(InputError, match=message) as refused:
        list(AnswerFile(path, read_texts(*files)).batches())
    assert "\n" not in str(refused.value)


def test_late_targets_and_empty_files_are_refused(files: tuple[Path, Path]) -> None:
    path = write(files[0].with_name("a.jsonl"), {"answer": "x"}, {"answer": "x", "targets": ["a"]})
    with pytest.raises(InputError, match="line 2, targets: expected on every line, or on none"):
        list(AnswerFile(path, read_texts(*files)).batches())
    write(path)
    with pytest.raises(InputError, match=r"generations: expected a line or more, received none in a.jsonl"):
        list(AnswerFile(path, read_texts(*files)).batches())

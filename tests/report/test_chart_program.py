"""The script of charts is made once for each version, and only an own, whole copy is used."""

from pathlib import Path

import pytest

from miaudit.report import chart_program, drawing


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "miaudit"


def made(text: str, count: list[int]) -> str:
    def make() -> str:
        count.append(1)
        return text

    return chart_program.program(make)


def test_it_is_made_once_and_read_as_it_was(place: Path) -> None:
    count: list[int] = []
    assert chart_program.stored() is None
    assert made("let a = '\u2028é';\n\n", count) == made("another", count) == "let a = '\u2028é';\n\n"
    assert len(count) == 1
    (file,) = place.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "others", "folder"])
def test_a_copy_that_does_not_count_is_made_again(place: Path, harm: str) -> None:
    made("let a = 1", [])
    (file,) = place.iterdir()
    content = file.read_bytes()
    match harm:
        case "cut":
            file.write_bytes(content[:-1])
        case "changed":
            file.write_bytes(content.replace(b"a = 1", b"a = 2"))
        case "empty":
            file.write_bytes(b"")
        case "others":
            file.chmod(0o666)
        case "folder":
            file.unlink()
            file.mkdir()
    assert chart_program.stored() is None
    assert made("let a = 3", []) == "let a = 3"


def test_another_version_has_a_copy_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("old", [])
    monkeypatch.setattr(chart_program.metadata, "version", lambda _: "99")
    assert made("new", []) == "new"
    assert len(list(place.iterdir())) == 2


def test_without_a_folder_to_write_it_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    count: list[int] = []
    assert made("a", count) == made("a", count) == "a"
    assert len(count) == 2


def test_a_relative_or_missing_setting_means_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert chart_program.folder() == tmp_path / ".cache" / "miaudit"


@pytest.mark.long
def test_pages_hold_the_same_script_from_the_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing.program.cache_clear()
    first = drawing.program()
    assert list(place.iterdir())
    drawing.program.cache_clear()
    monkeypatch.setattr(drawing, "_result_of", lambda *_: pytest.fail("made again"))
    assert drawing.program() == first

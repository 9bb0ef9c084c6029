"""``make experiments``: what lacks its data is left out with a line, and a script that fails is an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_forms
from small_forms import Form


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three scripts: one that ends well, one that differs, one that needs data and says where it is."""
    for name, text in {
        "good.py": "print('fine')",
        "bad.py": "import sys; print('differs: 2'); sys.exit(1)",
        "data.py": "import sys; print(sys.argv[1:])",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(small_forms, "HERE", tmp_path)
    forms = (Form("good.py"), Form("bad.py", minutes=9), Form("data.py", ("--quick",), needs=("adult",)))
    monkeypatch.setattr(small_forms, "FORMS", forms)
    return tmp_path


def started(folder: Path, *arguments: str) -> int:
    return small_forms.main(["--data", str(folder / "data"), "--logs", str(folder / "logs"), *arguments])


def test_what_lacks_its_data_is_left_out_with_a_line(scripts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert started(scripts, "--only", "good", "data") == 0
    said = capsys.readouterr().out
    assert f"data.py: left out, no adult in {scripts / 'data'} (--data)" in said
    assert "good.py: as expected" in said and not (scripts / "logs" / "data.log").exists()
    (scripts / "data" / "adult").mkdir(parents=True)
    assert started(scripts, "--only", "data") == 0
    log = (scripts / "logs" / "data.log").read_text()
    assert "'--quick', '--data'" in log


def test_a_script_that_differs_is_an_exit_code(scripts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The control, with the log that says why."""
    assert started(scripts) == 1
    assert "bad.py: exit code 1, see" in capsys.readouterr().out
    assert "differs: 2" in (scripts / "logs" / "bad.log").read_text()


def test_the_longest_starts_first_and_a_wrong_name_is_refused(
    scripts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small_forms.chosen(None)[0].script == "bad.py"
    assert started(scripts, "--list") == 0
    assert "# 9 CPU minutes" in capsys.readouterr().out and not (scripts / "logs").exists()
    with pytest.raises(SystemExit):
        started(scripts, "--only", "none")
    assert "expected the start of one of good.py, bad.py, data.py, received none" in capsys.readouterr().err

"""The parts of the inner loop hold every file once, and about as much each."""

from __future__ import annotations

from pathlib import Path

import pytest

import parts

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("total", [1, 2, 5])
def test_parts_hold_every_file_once_and_about_as_much(tmp_path: Path, total: int) -> None:
    files = [tmp_path / f"test_{size}.py" for size in range(1, 41)]
    for size, file in enumerate(files, 1):
        file.write_text("#" * size)
    shares = parts.shared_out(files, total)
    assert sorted(file for share in shares for file in share) == sorted(files)
    sizes = [sum(file.stat().st_size for file in share) for share in shares]
    assert len(sizes) == total and max(sizes) - min(sizes) <= 40  # never more than the largest file


def test_a_run_of_one_part_collects_its_own_files_only(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npythonpath = .")
    for name in ("one", "two", "three"):
        (pytester.mkdir("tests") if name == "one" else pytester.path / "tests").joinpath(f"test_{name}.py").write_text(
            f"def test_{name}(): pass\n"
        )
    options = "-p", "parts", "-p", "no:xdist", "-q", "--collect-only"
    collected = [set(pytester.runpytest(*options, "--part", f"{k}/2", "tests").outlines) for k in (1, 2)]
    cases = [{line for line in lines if "::" in line} for lines in collected]
    assert not cases[0] & cases[1]
    assert len(cases[0] | cases[1]) == 3


@pytest.mark.parametrize("text", ["0/2", "3/2", "half", "1/", "/2"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="expected a part of several"):
        parts._part(text)

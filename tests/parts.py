"""The option ``--part 1/2`` of pytest: each of several processes collects only its own files of tests.

Processes of pytest-xdist all collect every test, which is half of the inner loop's time; these share that work too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_OWN = pytest.StashKey[set[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=_part, help="collect only the files of one part of several, as in 1/2")


def _part(text: str) -> tuple[int, int]:
    number, _, total = text.partition("/")
    if not (number.isdigit() and total.isdigit() and 1 <= int(number) <= int(total)):
        raise pytest.UsageError(f"--part: expected a part of several, as in 1/2, received {text}")
    return int(number), int(total)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--part"):
        number, total = config.getoption("--part")
        config.stash[_OWN] = set(shared_out(list((config.rootpath / "tests").rglob("*.py")), total)[number - 1])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other parts; ``None`` leaves the answer to pytest."""
    own = config.stash.get(_OWN, None)
    return True if own is not None and collection_path.is_file() and collection_path not in own else None


def shared_out(files: list[Path], total: int) -> list[list[Path]]:
    """Share files out into parts of about equal size, each to the smallest part so far, the largest file first."""
    parts: list[list[Path]] = [[] for _ in range(total)]
    sizes = [0] * total
    for size, file in sorted(((file.stat().st_size, file) for file in files), reverse=True):
        smallest = sizes.index(min(sizes))
        parts[smallest].append(file)
        sizes[smallest] += size
    return parts

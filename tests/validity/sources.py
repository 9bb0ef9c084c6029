"""The files that the claims of a test file depend on, by following imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("src", "tests", "experiments", "tests/slow")  # where imported modules are
ROOMS = ("causal", "dp", "metrics", "auditing", "disclosure")  # the statistics: every claim depends on them
ALWAYS = ("tests/validity", "tests/conftest.py", "tests/slow/conftest.py", "constraints.txt", "pyproject.toml")


def claim_files(root: Path = ROOT) -> list[Path]:
    """Return the test files that hold claims."""
    return [path for path in sorted((root / "tests" / "slow").glob("test_*.py")) if "mark.validity" in path.read_text()]


def sources(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    """Return the files, relative to ``root``, that a test file imports, directly or not; the statistics whole."""
    rooms = [room for name in ROOMS for room in sorted((root / "src" / "miaudit" / name).rglob("*.py"))]
    seen: set[Path] = set()
    waiting = [path, *rooms]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting.extend(_imported(file, root))
    return tuple(sorted({*(file.relative_to(root).as_posix() for file in seen), *ALWAYS}))


@cache
def _imported(file: Path, root: Path) -> tuple[Path, ...]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return tuple(found for name in _names(tree) for found in _files(name, root))


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield dotted names of modules; what is imported from a package may be a module, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _files(name: str, root: Path) -> tuple[Path, ...]:
    """Return the files of a module and of the packages around it, without the top of miaudit, which hands on names."""
    parts, found = name.split("."), []
    for place in PLACES:
        if not ((root / place / parts[0]).is_dir() or (root / place / f"{parts[0]}.py").is_file()):
            continue
        for length in range(1, len(parts) + 1):
            stem = root.joinpath(place, *parts[:length])
            found += [file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()]
    return tuple(file for file in found if file != root / "src" / "miaudit" / "__init__.py")

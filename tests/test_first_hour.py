"""New users reach a report from an empty folder, by the commands of README and tutorials as they stand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def players() -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_hour", ROOT / "tools" / "first_hour.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["first_hour"] = module
    spec.loader.exec_module(module)
    return module


FIRST_HOUR = players()


@pytest.mark.thorough
@pytest.mark.parametrize("user", FIRST_HOUR.PAGES)
def test_a_user_gets_through_a_page(user: str, tmp_path: Path) -> None:
    # A page that makes a release of secret noise has an answer of chance: in a few runs of a hundred another verdict.
    tries = 2 if "There is no `seed`" in (ROOT / FIRST_HOUR.PAGES[user]).read_text(encoding="utf-8") else 1
    for number in range(tries):
        (tmp_path / str(number)).mkdir()
        walk = FIRST_HOUR.follow(user, tmp_path / str(number))
        assert not walk.stops
        if walk.smooth:
            break
    assert walk.smooth, (walk.until_report, walk.stops, walk.wrong_turns)
    assert walk.commands >= 6


def test_stops_wrong_turns_and_detours_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """# A page
```
$ echo Concern: found
Within the limits
$ echo 5 records
5 records
```
and `a.yaml`:
```yaml
a: 1
```
```python
from pathlib import Path
assert Path("a.yaml").read_text() == "a: 1\\n"
```
```
$ cat missing.csv
$ touch report.html
```
"""
    monkeypatch.setattr(FIRST_HOUR, "ROOT", tmp_path)
    monkeypatch.setitem(FIRST_HOUR.PAGES, "lost", "page.md")
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "empty").mkdir()
    walk = FIRST_HOUR.follow("lost", tmp_path / "empty")
    assert (walk.commands, walk.until_report, len(walk.stops), len(walk.wrong_turns)) == (5, 5, 1, 1)
    assert "missing.csv" in walk.stops[0]
    assert "Concern: found" in walk.wrong_turns[0]
    assert not walk.smooth

"""The notebook of the docs runs from top to bottom, and its page is what it says."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
MAKER = ROOT / "docs" / "make_notebook.py"
RUN = """
import importlib.util, json, pathlib, sys
spec = importlib.util.spec_from_file_location("make_notebook", sys.argv[1])
maker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(maker)
text, pictures = maker.page(maker.executed())
pathlib.Path(sys.argv[2]).write_text(json.dumps([text, pictures]))
"""


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_notebook", MAKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(text: str) -> str:
    """A page without its digits: libraries differ in the last of them."""
    return re.sub(r"\d+(\.\d+)?(e-\d+)?", "0", text)


@pytest.mark.thorough
@pytest.mark.long
def test_the_notebook_runs_and_its_page_is_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    subprocess.run([sys.executable, "-c", RUN, str(MAKER), str(tmp_path / "made.json")], check=True, cwd=tmp_path)
    text, pictures = json.loads((tmp_path / "made.json").read_text())
    assert words(text) == words(maker().PAGE.read_text()), "run python docs/make_notebook.py"
    assert {name for name in pictures if (maker().IMAGES / name).is_file()} == set(pictures)
    assert "Traceback" not in text
    assert "<script" not in text


def test_the_notebook_is_kept_without_outputs_and_with_words_for_its_charts() -> None:
    cells = json.loads(maker().NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8
    for cell in code:
        assert cell["outputs"] == [] and cell["execution_count"] is None
        assert not any("plot(" in line for line in cell["source"]) or cell["metadata"]["alt"]


def test_every_picture_of_the_page_is_there() -> None:
    text = maker().PAGE.read_text()
    named = re.findall(r'src="images/([^"]+)"', text)
    assert len(named) == 3
    assert {path.name for path in maker().IMAGES.glob("first_audit-*.svg")} == set(named)

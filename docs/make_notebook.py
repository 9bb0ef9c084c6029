"""Run docs/first_audit.ipynb and write it as a page, python.md: ``python docs/make_notebook.py``."""

from __future__ import annotations

import base64
import os
import re
import tempfile
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOTEBOOK, PAGE, IMAGES = HERE / "first_audit.ipynb", HERE / "python.md", HERE / "images"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_EMBEDDED = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")


def executed() -> Any:
    """Return the notebook with its outputs, run in a kernel and an empty folder of its own; an error is raised."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = os.environ["JUPYTER_RUNTIME_DIR"] = folder  # nothing is left in the user's home
        options = {"timeout": 300, "kernel_name": "python3", "resources": {"metadata": {"path": folder}}}
        NotebookClient(book, **options).execute()
    return book


def page(book: Any) -> tuple[str, dict[str, str]]:
    """Return the notebook as a page, and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, str] = {}

    def picture(svg: str) -> str:
        name = f"first_audit-{len(pictures) + 1}.svg"
        pictures[name] = svg.rstrip("\n") + "\n"
        return f"images/{name}"

    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```py\n{cell.source}\n```")
        parts += [_output(one, cell.metadata.get("alt", ""), picture) for one in cell.outputs]
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _output(output: Any, alt: str, picture: Any) -> str:
    """One output of a cell, as Markdown."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f'<img alt="{escape(alt)}" src="{picture(data["image/svg+xml"])}">'
    if "text/html" in data:
        html = _EMBEDDED.sub(lambda found: picture(base64.b64decode(found[1]).decode()), data["text/html"])
        inside = "\n".join(line for line in html.splitlines() if line.strip())  # an empty line would end it
        return f'<div style="overflow-x:auto">\n{inside}\n</div>'
    text = output.get("text") or data.get("text/plain", "")
    return f"```text\n{_ESCAPES.sub('', text).rstrip()}\n```" if text.strip() else ""


if __name__ == "__main__":
    text, drawn = page(executed())
    PAGE.write_text(text, encoding="utf-8")
    for name, svg in drawn.items():
        (IMAGES / name).write_text(svg, encoding="utf-8")

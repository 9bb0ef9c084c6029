"""Code that a configuration names: said before it runs, and found beside the configuration."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from miaudit.command.terminal import complain
from miaudit.errors import one_line

if TYPE_CHECKING:
    from pathlib import Path


def announce(user_code: str, config: Path) -> None:
    """Let modules beside the configuration file be imported, after saying that their code will run."""
    if user_code:
        complain(f"note: runs code that came with the model: {one_line(user_code)}")
        folder = str(config.parent.resolve())
        if folder not in sys.path:
            sys.path.append(folder)


def kept(store: object) -> str:
    """Say for a dry run what a killed process keeps."""
    return (
        "no shadow.store: a process that is killed starts again"
        if store is None
        else f"finished models are kept in {store}"
    )


def forecast(user_code: str) -> list[str]:
    """Say for a dry run which code would run, and that nothing was written."""
    return [f"runs code that came with the model: {one_line(user_code) or 'none'}", "Nothing was written."]

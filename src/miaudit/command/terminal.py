"""What a person at a terminal sees while work goes on: lines on standard error, and a bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from miaudit.errors import one_line, printable


@contextmanager
def progress(stage: str, *, meanwhile: str = "") -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error while work goes on; nothing where that is no terminal.

    ``meanwhile`` names the work that is not counted: it shows, with a moving bar, before and after what is.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(stage, total=None, visible=False)
        uncounted = bar.add_task(meanwhile, total=None, visible=bool(meanwhile))

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=done < total or not meanwhile)
            bar.update(uncounted, visible=bool(meanwhile) and done >= total)

        yield told


def complain(text: str) -> None:
    """Write one line to standard error."""
    if sys.stderr is not None:
        print(f"miaudit: {printable(text)}", file=sys.stderr)  # noqa: T201


def say(text: str, *, nl: bool = True) -> None:
    """Write lines to standard output; what steers a terminal, in a name of a file or a column, does not reach it."""
    typer.echo(printable(text), nl=nl)


def say_json(text: str) -> None:
    """Write JSON to standard output as it is, but for unprintable characters, which are escaped."""
    typer.echo("".join(ch if ch.isprintable() or ch == "\n" else json.dumps(ch)[1:-1] for ch in text), nl=False)


# -- code that a configuration names --------------------------------------------------------------------------------


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

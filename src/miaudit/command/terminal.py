"""What a terminal is told: lines, and a bar while work goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps

import typer

from miaudit.errors import printable


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
    typer.echo("".join(ch if ch.isprintable() or ch == "\n" else dumps(ch)[1:-1] for ch in text), nl=False)

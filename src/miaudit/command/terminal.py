"""What a terminal is told: lines of its width, the verdict in colour, and a bar while work goes on."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps

import typer

from miaudit.errors import printable

_COLOURS = {0: "green", 3: "red", 4: "yellow"}


@contextmanager
def progress(stage: str, *, meanwhile: str = "") -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error while work goes on; nothing where that is no terminal.

    ``meanwhile`` names the work that is not counted: it shows, with a moving bar, before and after what is.
    """
    if not _at_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(stage, total=None, visible=False, count="")
        uncounted = bar.add_task(meanwhile, total=None, visible=bool(meanwhile), count="")

        def told(done: int, total: int) -> None:
            shown = done < total or not meanwhile
            bar.update(task, completed=done, total=total, visible=shown, count=_counted(done, total))
            bar.update(uncounted, visible=bool(meanwhile) and done >= total)

        yield told


@contextmanager
def progress_of_all(work: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar whose percentage is of all the work, with the time that is left; nothing where that is no terminal."""
    if not _at_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[share]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(work, total=1, share="0%", left="")

        def report(done: int, total: int) -> None:
            left = _left(bar.tasks[0].elapsed or 0.0, done, total)
            bar.update(task, completed=done, total=total, share=f"{100 * done // total}%", left=left)

        yield report


def _at_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _left(seconds: float, done: int, total: int) -> str:
    """How much time is left, at the speed so far; nothing in the first second, which is mostly loading.

    Examples
    --------
    >>> _left(30.0, 250, 1000), _left(0.5, 10, 1000), _left(7200.0, 500, 1000)
    ('about 1 min 30 s left', '', 'about 2 h left')
    """
    if seconds < 1 or not 0 < done < total:
        return ""
    left = seconds * (total - done) / done
    if left >= 5400:
        return f"about {left / 3600:.0f} h left"
    minutes, rest = divmod(round(left), 60)
    return f"about {minutes} min {rest} s left" if minutes else f"about {rest} s left"


def _counted(done: int, total: int) -> str:
    """How much of the work is done.

    Examples
    --------
    >>> _counted(1234, 5000)
    '24% (1,234/5,000)'
    """
    return f"{100 * done // max(total, 1)}% ({done:,}/{total:,})"


_kept: list[str] = []


@contextmanager
def keeping(store: object, *, goes_on: bool = True) -> Iterator[None]:
    """While work goes on whose finished models a store keeps, an interruption says so; ``store`` is None for none."""
    more = "; the same command goes on from there" if goes_on else ""
    _kept[:] = [] if store is None else [f"finished models are kept in {store}{more}"]
    try:
        yield
    finally:
        _kept.clear()


def interruption() -> str:
    """What became of the results where a command is interrupted now."""
    return "; ".join(["interrupted; no results were written", *_kept])


def complain(text: str) -> None:
    """Write one line to standard error."""
    if sys.stderr is not None:
        print(f"miaudit: {printable(text)}", file=sys.stderr)  # noqa: T201


def say(text: str, *, nl: bool = True) -> None:
    """Write lines to standard output; what steers a terminal, in a name of a file or a column, does not reach it."""
    typer.echo(printable(text), nl=nl)


def columns() -> int | None:
    """The width of the terminal that standard output is; None where it is none, and lines are as long as they are."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return max(20, shutil.get_terminal_size().columns)


def tell(text: str, exit_code: int) -> None:
    """Write findings to standard output: at a terminal folded, their first words in the colour of an exit code."""
    lines, width = printable(text).split("\n"), columns()
    if width is not None:
        commands = ("miaudit ", "bash ")  # in one line, to be copied
        lines = [p for line in lines for p in ([line] if line.lstrip().startswith(commands) else folded(line, width))]
        if not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            head, colon, rest = lines[0].partition(":")
            lines[0] = typer.style(head, fg=_COLOURS.get(exit_code), bold=True) + colon + rest
    typer.echo("\n".join(lines), color=width is not None)


def folded(line: str, width: int, further: str = "  ") -> list[str]:
    """Fold a line; what follows is indented further than its start.

    Examples
    --------
    >>> folded("  Note: more than one line", 16)
    ['  Note: more', '    than one', '    line']
    """
    start = line[: len(line) - len(line.lstrip())]
    selected = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(line, width, subsequent_indent=start + further, **selected) or [""]  # type: ignore[arg-type]


def table(rows: Sequence[tuple[str, str, str, str]], width: int | None) -> list[str]:
    """Align names, values, limits and remarks; where they do not fit, a name or a remark has lines of its own.

    Examples
    --------
    >>> rows = [("area (auc)", "0.75", "[0.70, 0.80]", ""), ("found", "<= 0.10", "", "not resolved")]
    >>> for line in table(rows, None):
    ...     print(line)
      area (auc)     0.75  [0.70, 0.80]
      found       <= 0.10                not resolved
    >>> for line in table(rows, 26):
    ...     print(line)
      area (auc)
             0.75  [0.70, 0.80]
      found
          <= 0.10
          not resolved
    """
    names, values, limits = (max((len(row[i]) for row in rows), default=0) for i in range(3))
    lines = []
    for name, value, limit, remark in rows:
        numbers = f"{value:>{values}}  {limit:<{limits}}"
        line = f"  {name:<{names}}  {numbers}  {remark}".rstrip()
        if width is None or len(line) <= width:
            lines.append(line)
            continue
        short = f"  {name:<{names}}  {numbers}".rstrip()
        lines += [short] if len(short) <= width else [*folded(f"  {name}", width), f"      {numbers}".rstrip()]
        lines += folded(f"      {remark}", width, "") if remark else []
    return lines


def say_json(text: str) -> None:
    """Write JSON to standard output as it is, but for unprintable characters, which are escaped."""
    typer.echo("".join(ch if ch.isprintable() or ch == "\n" else dumps(ch)[1:-1] for ch in text), nl=False)

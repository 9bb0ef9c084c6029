"""The folder of an audit: findings.json, report.html and figures, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from miaudit.errors import OutputError, one_line
from miaudit.report import kinds, pictures
from miaudit.report.findings_file import to_text

FINDINGS, PAGE, FIGURES = "findings.json", "report.html", "figures"


def write(findings: kinds.Writable, out: str | Path, *, overwrite: bool = False) -> None:
    """Write findings.json, report.html and figures/ (SVG and PNG) into a folder.

    Everything is made in a hidden folder inside ``out`` first and then moved, findings.json last; an error on the way
    leaves an earlier audit as it was. Files that are not part of an audit are never touched.

    Parameters
    ----------
    findings : Findings, of an audit or of another kind
    out : path of a folder, made if it is missing
    overwrite : bool
        Whether an earlier audit there may be replaced, its figures included.

    Raises
    ------
    OutputError
        If there is an audit and ``overwrite`` is false, or nothing can be written there.
    """
    check_free(out, overwrite=overwrite)
    _publish(findings.to_dict(), findings.to_json(), Path(out))


def rerender(content: Mapping[str, Any], out: str | Path, *, overwrite: bool = False) -> None:
    """Draw the page and the figures again from the plain values of a findings.json that was read and checked.

    The findings are written beside them; where ``out`` already holds exactly these, they are no reason to refuse.

    Raises
    ------
    OutputError
        As :func:`write`.
    """
    text = to_text(content)
    held = Path(out) / FINDINGS
    same = held.is_file() and held.read_bytes() == text.encode()
    _check(Path(out), (PAGE, FIGURES) if same else (FINDINGS, PAGE, FIGURES), overwrite)
    _publish(content, text, Path(out))


def check_free(out: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that an audit could not be written to; call it before computing anything.

    Raises
    ------
    OutputError
        If ``out`` is a file, cannot be written, or holds an audit and ``overwrite`` is false.
    """
    _check(Path(out), (FINDINGS, PAGE, FIGURES), overwrite)


def check_place(folder: Path, asked: str, hint: str) -> None:
    """Refuse a folder in which, or in whose nearest parent that exists, nothing can be written.

    Parameters
    ----------
    folder : where files are to go
    asked : the option and its value, for the message
    hint : what to do instead

    Raises
    ------
    OutputError
        If that place is a file, or cannot be written.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not nearest.is_dir():
        raise OutputError(one_line(f"{asked}: {nearest} is a file, not a folder; {hint}"))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(one_line(f"{asked}: {nearest} cannot be written; {hint}"))


def _check(out: Path, names: Sequence[str], overwrite: bool) -> None:
    try:
        check_place(out, f"--out {out}", "choose another --out")
        present = [name for name in names if os.path.lexists(out / name)]
        misplaced = [name for name in present if (out / name).is_dir() != (name == FIGURES)]
    except OSError as error:
        raise _unwritable(out, error) from error
    if present and not overwrite:
        found = ", ".join(present)
        raise OutputError(
            one_line(f"--out {out}: holds an earlier audit ({found}); pass --overwrite or choose another --out")
        )
    if misplaced:
        raise OutputError(one_line(f"--out {out}: {misplaced[0]} is in the way; move it, or choose another --out"))


def _publish(content: Mapping[str, Any], text: str, out: Path) -> None:
    try:
        with _workshop(out) as folder:
            made, kept = folder / "new", folder / "old"
            drawn = kinds.of(content)
            _make(drawn, content, text, made)
            _replace(drawn.figures, made, kept, out)
    except OSError as error:
        raise _unwritable(out, error) from error


@contextlib.contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """A hidden folder inside ``out``, so that moving out of it stays within one file system even on a mount."""
    existed = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".audit-", suffix=".part", dir=out))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not existed:
            with contextlib.suppress(OSError):  # it is no longer empty, as it should be
                out.rmdir()


def _make(kind: kinds.Kind, content: Mapping[str, Any], text: str, folder: Path) -> None:
    (folder / FIGURES).mkdir(parents=True)
    for name, chart in kind.charts(content).items():
        spec = chart.to_dict(validate=False)
        (folder / FIGURES / f"{name}.svg").write_text(pictures.svg(spec), encoding="utf-8")
        (folder / FIGURES / f"{name}.png").write_bytes(pictures.png(spec))
    (folder / PAGE).write_text(kind.page(content), encoding="utf-8")
    (folder / FINDINGS).write_text(text, encoding="utf-8")


def _replace(figures: Sequence[str], made: Path, kept: Path, out: Path) -> None:
    """Move the new files in, findings.json last, and drop figures that have no successor; put all back on an error."""
    drawings = (f"{FIGURES}/{name}.{kind}" for name in figures for kind in ("svg", "png"))
    names = (*drawings, PAGE, FINDINGS)
    old = [name for name in names if (out / name).is_file()]
    for name in old:
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(out / name, kept / name)
    had_figures = (out / FIGURES).is_dir()
    (out / FIGURES).mkdir(exist_ok=True)
    try:
        for name in names:
            if (made / name).exists():
                (made / name).replace(out / name)
            else:
                (out / name).unlink(missing_ok=True)
    except BaseException:
        for name in names:
            if name in old:
                (kept / name).replace(out / name)
            else:
                (out / name).unlink(missing_ok=True)
        if not had_figures:
            (out / FIGURES).rmdir()
        raise


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(one_line(f"--out {out}: cannot be written ({error.strerror or error}); choose another --out"))

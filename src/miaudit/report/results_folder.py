"""The folder of an audit: findings.json, report.html and figures, replaced whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from miaudit.errors import OutputError, one_line
from miaudit.findings.kind import FindingsRecord
from miaudit.io import atomic
from miaudit.report import drawing, kinds

FINDINGS, PAGE, FIGURES = "findings.json", "report.html", "figures"
RELEASE = ("synthetic.csv", "synthetic.parquet", "synthetic.json")
Release = Callable[[Path], None]


def write(findings: FindingsRecord, out: str | Path, *, overwrite: bool = False, release: Release | None = None) -> str:
    """Write findings.json, report.html and figures/ (SVG and PNG) into a folder.

    All of it is made in a hidden folder first, and takes the place of an earlier audit whole: an error or a kill on the
    way leaves that as it was (:mod:`miaudit.io.atomic`). Files that are not part of an audit are never touched.

    Parameters
    ----------
    findings : Findings, of an audit or of another kind
    out : path of a folder, made if it is missing
    overwrite : bool
        Whether an earlier audit there may be replaced, its figures included.
    release : optional
        Writes a synthetic table, under the names of ``RELEASE``, into the folder that it is given: it belongs to the
        findings, and an earlier one is replaced with them.

    Returns
    -------
    str
        Why the folder is without figures; empty where it has them.

    Raises
    ------
    OutputError
        If there is an audit and ``overwrite`` is false, or nothing can be written there.
    """
    released = release is not None
    check_free(out, overwrite=overwrite, released=released)
    names = (*(RELEASE if released else ()), FINDINGS, PAGE, FIGURES)
    return _publish(findings, Path(out), lambda: _check(Path(out), names, overwrite), release)


def rerender(findings: FindingsRecord, out: str | Path, *, overwrite: bool = False) -> None:
    """Draw the page and the figures again from a findings.json that was read.

    The findings are written beside them; where ``out`` already holds exactly these, they are no reason to refuse.

    Raises
    ------
    DrawingError
        If figures cannot be drawn here; what was there stays.
    OutputError
        As :func:`write`.
    """
    text = findings.to_json()
    held = Path(out) / FINDINGS

    def check() -> None:
        same = held.is_file() and held.read_bytes() == text.encode()
        _check(Path(out), (PAGE, FIGURES) if same else (FINDINGS, PAGE, FIGURES), overwrite)

    _recover(Path(out))
    check()
    _publish(findings, Path(out), check, insist=True)


def check_free(out: str | Path, *, overwrite: bool = False, released: bool = False) -> None:
    """Refuse a folder that an audit could not be written to; call it before computing anything.

    What a killed process left there is put right first. ``out``, ``overwrite`` and the errors are as in :func:`write`;
    ``released`` says whether a synthetic table goes there too.
    """
    _recover(Path(out))
    _check(Path(out), (*(RELEASE if released else ()), FINDINGS, PAGE, FIGURES), overwrite)


def _recover(out: Path) -> None:
    try:
        atomic.recover(out)
    except OSError as error:
        raise _unwritable(out, error) from error


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


def _publish(
    findings: FindingsRecord,
    out: Path,
    check: Callable[[], None],
    release: Release | None = None,
    *,
    insist: bool = False,
) -> str:
    """Make the folder and put it in its place; ``check`` refuses one that somebody else has filled in the meantime.

    ``insist`` raises where figures cannot be drawn.
    """
    undrawn = ""

    def make(folder: Path) -> None:
        nonlocal undrawn
        undrawn = _make(findings, folder)
        if undrawn and insist:
            raise drawing.DrawingError(undrawn)
        if release is not None:
            release(folder)

    try:
        atomic.replace_folder(out, _owned(release is not None), make, check)
    except OSError as error:
        raise _unwritable(out, error) from error
    return undrawn


def _owned(released: bool) -> tuple[str, ...]:
    """The files that a set may have, of whatever kind the earlier one was; findings.json last."""
    figures = dict.fromkeys(name for kind in kinds.KINDS.loaded().values() for name in kind.figures)
    drawings = (f"{FIGURES}/{name}.{suffix}" for name in figures for suffix in ("svg", "png"))
    return (*drawings, *(RELEASE if released else ()), PAGE, FINDINGS)


def _make(findings: FindingsRecord, folder: Path) -> str:
    """Fill a folder; return why it is without figures, or nothing."""
    undrawn, kind = "", kinds.KINDS[findings.KIND]
    try:
        for name, chart in kind.charts(findings).items():
            spec = chart.to_dict(validate=False)
            vector, picture = drawing.svg(spec), drawing.png(spec)
            (folder / FIGURES).mkdir(exist_ok=True)
            (folder / FIGURES / f"{name}.svg").write_text(vector, encoding="utf-8")
            (folder / FIGURES / f"{name}.png").write_bytes(picture)
    except drawing.DrawingError as error:
        shutil.rmtree(folder / FIGURES, ignore_errors=True)
        undrawn = str(error)
    (folder / PAGE).write_text(kind.page(findings), encoding="utf-8")
    (folder / FINDINGS).write_text(findings.to_json(), encoding="utf-8")
    return undrawn


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(one_line(f"--out {out}: cannot be written ({error.strerror or error}); choose another --out"))

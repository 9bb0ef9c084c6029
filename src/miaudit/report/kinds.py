"""What draws each kind of findings, and the folder that holds findings, page and figures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miaudit.errors import OutputError, one_line
from miaudit.findings.kind import Drawing, FindingsRecord
from miaudit.findings.kinds import AUDIT, KINDS
from miaudit.io import atomic
from miaudit.report import drawing
from miaudit.report.vega_lite import Chart, Drawn

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

FINDINGS, PAGE, FIGURES = "findings.json", "report.html", "figures"
PUBLIC = "synthetic.html"  # the page that may be handed on with a synthetic table
RELEASE = ("synthetic.csv", "synthetic.parquet", PUBLIC, "synthetic.json")
Release = Callable[[Path], None]
_RESULTS = (FINDINGS, PAGE, FIGURES)
_LEFT_OUT = "the audit was run without figures, and miaudit report FOLDER --overwrite draws them"
# Modules of this package that draw the built-in kinds: with the page, and with the charts where another one has them.
_DRAWN_BY = {
    "audit": ("audit_page", "audit_charts"),
    "disclosure": ("disclosure_page",),
    "table": ("table_page",),
    "synthesis": ("synthesis_page",),
    "verification": ("bundle_page",),
    "challenge": ("bundle_page",),
    "comparison": ("comparison_page",),
    "history": ("comparison_page",),
    "extraction": ("extraction_page",),
    "usage": ("usage_page",),
    "deletion": ("usage_page",),
}
_BESIDE = {"synthesis": {PUBLIC: "public_page"}}  # pages beside report.html, and the module of each: "" for no page


def page(findings: FindingsRecord, *, files: bool = False, built: Built | None = None) -> str:
    """Write findings as one self-contained page; a page that can links to the ``files`` of its figures.

    ``built`` are its charts, where they are built already; a page that draws its own does not take them.
    """
    draw = _modules(findings.KIND)[0].page
    offered = {"files": files, "built": built}
    taken = {name: value for name, value in offered.items() if value and name in signature(draw).parameters}
    return str(draw(findings.as_written(), **taken))


def drawn(findings: FindingsRecord, undrawn: str = "") -> Iterator[str]:
    """Yield each page that miaudit draws of findings: beside the files of its figures, alone, and without charts.

    ``undrawn`` says why they could not be drawn where a page was made; empty where they could.
    """
    from miaudit.report import page_frame

    shown = page_frame.built(charts(findings))
    yield page(findings, files=True, built=shown)
    yield page(findings, built=shown)
    for reason in filter(None, (_LEFT_OUT, undrawn)):
        yield page(findings, built=page_frame.Built({}, reason))


def charts(findings: FindingsRecord) -> dict[str, Drawn]:
    """Draw the charts whose data are there, by name. Those of a kind of your own may be charts of Altair."""
    by_name: dict[str, Drawn] = _modules(findings.KIND)[1].charts(findings.as_written())
    return by_name


def figures(kind: str) -> tuple[str, ...]:
    """Return the names of every chart that a kind may have, in the order of its page."""
    return tuple(_modules(kind)[1].NAMES)


def _modules(kind: str) -> tuple[Any, Any]:
    """Return the modules with the page and with the charts of a kind."""
    own = KINDS[kind].drawing
    names = [own] if own else [f"{__package__}.{name}" for name in _DRAWN_BY[kind]]
    return import_module(names[0]), import_module(names[-1])


# -- the folder of results --------------------------------------------------------------------------------------------


def write(findings: FindingsRecord, out: str | Path, *, overwrite: bool = False, figures: bool = True) -> str:
    """Write findings.json, report.html and figures/ (SVG and PNG) into a folder, of a release its public page too.

    All of it is made in a hidden folder first, and takes the place of an earlier audit whole: an error or a kill on the
    way leaves that as it was (:mod:`miaudit.io.atomic`). Files that are not part of an audit are never touched.

    Parameters
    ----------
    findings : Findings, of an audit or of another kind
    out : path of a folder, made if it is missing
    overwrite : bool
        Whether an earlier audit there may be replaced, its figures included.
    figures : bool
        Whether charts are drawn. Without them the page has its text and tables, and there is no figures/.

    Returns
    -------
    str
        Why figures that were to be drawn are missing; empty where none are.

    Raises
    ------
    OutputError
        If there is an audit and ``overwrite`` is false, or nothing can be written there.
    """
    check_free(out, overwrite=overwrite)
    return _publish(findings, Path(out), lambda: _check(Path(out), _RESULTS, overwrite), figures=figures)


def place_release(
    fill: Release, out: str | Path, *, overwrite: bool = False, enter: Callable[[], None] | None = None
) -> None:
    """Put a synthetic table into a folder, before there are findings of it.

    Parameters
    ----------
    fill : writes the table, under the names of ``RELEASE``, into the folder that it is given
    out, overwrite : as in :func:`write`; an earlier table goes, and with it its findings, page and figures
    enter : called when all is ready but the last step, which needs no room on the disk

    Raises
    ------
    OutputError
        As :func:`write`; what was there stays.
    """
    check_free(out, overwrite=overwrite, released=True)
    place, owned = Path(out), (*_drawings(), PAGE, FINDINGS, *RELEASE)

    def check() -> None:
        _check(place, (*RELEASE, *_RESULTS), overwrite)
        if enter is not None:
            enter()

    try:
        atomic.replace_folder(place, owned, fill, check)
    except OSError as error:
        raise _unwritable(place, error) from error


def write_findings(findings: FindingsRecord, out: str | Path) -> None:
    """Write findings.json alone, where the page could not be written.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    try:
        atomic.write_text(Path(out) / FINDINGS, findings.to_json(), replace=False)
    except OSError as error:
        raise _unwritable(Path(out), error) from error


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
    _check(Path(out), (*(RELEASE if released else ()), *_RESULTS), overwrite)


def _recover(out: Path) -> None:
    try:
        atomic.recover(out)
    except OSError as error:
        raise _unwritable(out, error) from error


def check_place(folder: Path, option: str, hint: str) -> None:
    """Refuse a folder in which, or in whose nearest parent that exists, nothing can be written.

    Parameters
    ----------
    folder : where files are to go
    option : the option and its value, for the message
    hint : what to do instead

    Raises
    ------
    OutputError
        If that place is a file, or cannot be written.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not nearest.is_dir():
        raise OutputError(one_line(f"{option}: {nearest} is a file, not a folder; {hint}"))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(one_line(f"{option}: {nearest} cannot be written; {hint}"))


def _check(out: Path, names: Sequence[str], overwrite: bool) -> None:
    try:
        check_place(out, f"--out {out}", "choose another --out")
        present = [name for name in names if os.path.lexists(out / name)]
        misplaced = [name for name in present if _is_other(out / name, folder=name == FIGURES)]
        foreign = [] if misplaced else [name for name in present if _is_foreign(out, name)]
    except OSError as error:
        raise _unwritable(out, error) from error
    if misplaced or foreign:
        why = "is in the way" if misplaced else "was not written by miaudit"
        raise OutputError(one_line(f"--out {out}: {[*misplaced, *foreign][0]} {why}; move it, or choose another --out"))
    if present and not overwrite:
        names_present = ", ".join(present)
        raise OutputError(
            one_line(f"--out {out}: holds an earlier audit ({names_present}); pass --overwrite or choose another --out")
        )


def _is_foreign(out: Path, name: str) -> bool:
    """Whether miaudit did not write a file that has one of its names.

    A page is known by the findings beside it, and a table by its description. In a folder only figures are replaced.
    """
    if name == FIGURES:
        return False
    return not _has_format(out / (RELEASE[-1] if name in RELEASE else FINDINGS))


def _has_format(path: Path) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("format"), int)


def _is_other(path: Path, *, folder: bool) -> bool:
    """Whether something is no file, or no folder, of its own: links to folders are not followed."""
    return path.is_dir() != folder or (folder and path.is_symlink())


def _publish(
    findings: FindingsRecord,
    out: Path,
    check: Callable[[], None],
    *,
    figures: bool = True,
    insist: bool = False,
) -> str:
    """Make the folder and put it in its place; ``check`` refuses one that somebody else has filled in the meantime.

    ``insist`` raises where figures cannot be drawn.
    """
    undrawn = ""

    def make(folder: Path) -> None:
        nonlocal undrawn
        undrawn = _make(findings, folder, figures)
        if undrawn and insist:
            raise drawing.DrawingError(undrawn)

    try:
        atomic.replace_folder(out, (*_drawings(), PAGE, *_BESIDE.get(findings.KIND, ()), FINDINGS), make, check)
    except OSError as error:
        raise _unwritable(out, error) from error
    return undrawn


def _drawings() -> tuple[str, ...]:
    """The figures that a set may have, of whatever kind the earlier one was."""
    names = dict.fromkeys(name for kind in KINDS.loaded() for name in figures(kind))
    return tuple(f"{FIGURES}/{name}.{suffix}" for name in names for suffix in ("svg", "png"))


def _make(findings: FindingsRecord, folder: Path, wanted: bool) -> str:
    """Fill a folder; return why it is without figures that were wanted, or nothing."""
    from miaudit.report import page_frame

    shown = page_frame.built(charts(findings)) if wanted else page_frame.Built({}, _LEFT_OUT)
    undrawn = _fill(folder / FIGURES, shown.specs)
    if undrawn:
        shown = page_frame.Built({}, undrawn)
    (folder / PAGE).write_text(page(findings, files=not shown.missing, built=shown), encoding="utf-8")
    for name, module in _BESIDE.get(findings.KIND, {}).items():
        if text := import_module(f"{__package__}.{module}").page(findings, built=shown):
            (folder / name).write_text(text, encoding="utf-8")
    (folder / FINDINGS).write_text(findings.to_json(), encoding="utf-8")
    return undrawn


def _fill(place: Path, specs: Mapping[str, Any]) -> str:
    """Write a folder of pictures; return why there is none, or nothing."""
    drawing.draw_ahead(specs.values(), pictures=True)
    try:
        for name, spec in specs.items():
            vector, picture = drawing.svg(spec), drawing.png(spec)
            place.mkdir(exist_ok=True)
            (place / f"{name}.svg").write_text(vector, encoding="utf-8")
            (place / f"{name}.png").write_bytes(picture)
    except drawing.DrawingError as error:
        shutil.rmtree(place, ignore_errors=True)
        return str(error)
    return ""


def _unwritable(out: Path, error: OSError) -> OutputError:
    return OutputError(one_line(f"--out {out}: cannot be written ({error.strerror or error}); choose another --out"))


# -- for the findings -------------------------------------------------------------------------------------------------


def _cell(findings: FindingsRecord) -> str:
    from miaudit.report import notebook

    if findings.KIND != AUDIT:
        return f'<iframe srcdoc="{escape(page(findings))}" style="width:100%;height:720px;border:0"></iframe>'
    return notebook.cell(findings.as_written())  # type: ignore[arg-type]


def _altair(findings: FindingsRecord) -> dict[str, Any]:
    return {name: one.to_altair() if isinstance(one, Chart) else one for name, one in charts(findings).items()}


# Installed as the entry point "report" of the group miaudit.drawing, by which findings draw themselves.
DRAWING = Drawing(page, _cell, _altair)

"""The page over all audits of a folder: verdicts, dates, trends, links; made from their findings alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from miaudit.errors import InputError, MiauditError, OutputError, one_line
from miaudit.findings.entry import Entry, entry
from miaudit.findings.kind import parse
from miaudit.findings.verdict import code_of, word_of
from miaudit.io import atomic
from miaudit.metrics.definition import chance, label
from miaudit.report import kinds, page_frame
from miaudit.report.comparison_page import intervals
from miaudit.report.drawing import distinct
from miaudit.report.vega_lite import Chart

INDEX = "index.html"
DEFAULT = "results"  # where commands write that are not told where
MARK = '<meta name="generator" content="miaudit index">'
_LARGEST = 20_000_000
_MOST_TRENDS, _MOST_DRAWN = 4, 30
_TONES = {0: "clear", 3: "flagged", 4: "inconclusive"}
_NO_AUDITS = ("comparison", "history", "synthesis", "verification", "challenge")  # what else stands in such a folder
_NAMES = {0: "within the limits", 3: "with concern", 4: "not answered"}


@dataclass(frozen=True)
class Dated:
    """An audit of a folder.

    Attributes
    ----------
    entry : what the list says of it
    when : its date as findings state it, else the time of their file, in UTC
    stated : whether findings state it
    link : to its page, or to findings.json where it has none, relative to the folder
    """

    entry: Entry
    when: str
    stated: bool
    link: str


@dataclass(frozen=True)
class Listing:
    """All audits of a folder, newest first, and what could not be read, in words."""

    folder: str
    audits: tuple[Dated, ...]
    unread: tuple[str, ...]

    @property
    def text(self) -> str:
        """How many audits there are and what they came to, in a sentence."""
        audits = [one for one in self.audits if one.entry.kind not in _NO_AUDITS]
        codes = Counter(one.entry.exit_code for one in audits)
        parts = [f"{codes[code]:,} {words}" for code, words in _NAMES.items() if codes[code]]
        count, others = len(audits), len(self.audits) - len(audits)
        sentence = f"{count:,} {'audit' if count == 1 else 'audits'}" + (f": {', '.join(parts)}" if parts else "")
        return (
            f"{sentence}; and {others:,} other {'result' if others == 1 else 'results'}." if others else f"{sentence}."
        )


def listed(folder: str | Path) -> Listing:
    """Read the folders with a findings.json in a folder; hidden ones and links are left out.

    Raises
    ------
    InputError
        If it is no folder, or cannot be read.
    """
    folder, entries, unread = Path(folder), [], []
    try:
        places = sorted(place for place in folder.iterdir() if place.name[:1] != "." and not place.is_symlink())
    except OSError as error:
        received = f"{folder} ({error.strerror or error})"
        raise InputError("folder", "a folder of audits", received, "name the folder that holds them") from error
    for place in places:
        try:
            if (place / kinds.FINDINGS).is_file():
                entries.append(_dated(place))
        except (MiauditError, OSError, ValueError) as error:
            unread.append(one_line(f"{place.name}: {error}")[:200])
    entries.sort(key=lambda one: (one.when, one.entry.name), reverse=True)
    return Listing(folder.absolute().name, tuple(entries), tuple(unread))


def _dated(place: Path) -> Dated:
    file = place / kinds.FINDINGS
    held = file.stat()
    if held.st_size > _LARGEST:
        raise ValueError(f"findings of {held.st_size:,} bytes are not listed")
    dated = entry(place.name, parse(file))
    stated = bool(re.match(r"\d{4}-\d\d-\d\d", dated.date))
    written = datetime.fromtimestamp(held.st_mtime, UTC).strftime("%Y-%m-%d %H:%M")
    target = kinds.PAGE if (place / kinds.PAGE).is_file() else kinds.FINDINGS
    return Dated(dated, dated.date if stated else written, stated, f"./{quote(place.name)}/{target}")


def page(listing: Listing) -> str:
    """Write the list as one self-contained HTML page; all text is escaped."""
    charts = _trends(listing.audits)
    rows = [{"audit": one, "tone": _TONES.get(one.entry.exit_code, ""), "word": word(one)} for one in listing.audits]
    return page_frame.render(
        "index_page.html", {"repeat": {}}, charts, listing=listing, rows=rows, trends=list(charts), mark=MARK
    )


def word(audit: Dated) -> str:
    """Return the verdict of an audit in the words that people read; nothing where its kind has none."""
    status = audit.entry.status
    if code_of(status) is None:  # of findings without a verdict, such as a comparison
        return status.replace("-", " ").capitalize()
    return word_of(status, audit.entry.reason or None)


def write(folder: str | Path) -> Listing:
    """Write or replace the page of a folder, and return what it lists.

    Raises
    ------
    OutputError
        If an index.html that is not ours stands there, or nothing can be written.
    """
    place = Path(folder) / INDEX
    try:
        with atomic.turn(Path(folder)):  # else the slower of two audits that end together leaves the other one out
            if place.exists() and not _is_ours(place):
                raise OutputError(one_line(f"{place}: was not made by miaudit, and is left as it is; move it away"))
            listing = listed(folder)
            atomic.write_text(place, page(listing))
    except OSError as error:
        raise OutputError(one_line(f"{place}: cannot be written ({error.strerror or error})")) from error
    return listing


def refresh(out: str | Path) -> None:
    """Bring the page of the folder around some results up to date, if that is ``results`` or has one of ours.

    What stands in the way of it is no fault of the results, and raises nothing.
    """
    folder = Path(out).absolute().parent
    if folder == Path(DEFAULT).absolute() or _is_ours(folder / INDEX):
        try:
            write(folder)
        except (MiauditError, OSError, ValueError):
            return


def _is_ours(place: Path) -> bool:
    try:
        with place.open("rb") as file:
            return MARK.encode() in file.read(4096)
    except OSError:
        return False


# -- trends ------------------------------------------------------------------------------------------------------------


def _trends(audits: Sequence[Dated]) -> dict[str, Chart]:
    """Draw one metric of one model over its audits, oldest first, for those of which there are several."""
    courses: dict[tuple[str, str, str], list[Dated]] = {}
    for one in reversed(audits):
        if one.entry.metric and one.entry.high is not None and one.entry.subject:
            courses.setdefault((one.entry.subject, one.entry.metric, one.entry.score), []).append(one)
    several = sorted((course for course in courses.values() if len(course) > 1), key=lambda course: -len(course))
    return {f"trend-{i}": _trend(course) for i, course in enumerate(several[:_MOST_TRENDS], 1)}


def _trend(course: Sequence[Dated]) -> Chart:
    last, shown = course[-1].entry, course[-_MOST_DRAWN:]
    names = distinct([f"{one.entry.name}, {one.when[:10]}" for one in shown])
    rows: list[Mapping[str, object]] = [
        {
            "name": names[f"{one.entry.name}, {one.when[:10]}"],
            "text": one.entry.said,
            "value": one.entry.value,
            "low": one.entry.low,
            "high": one.entry.high,
        }
        for one in shown
    ]
    title = f"{last.subject}: {label(last.metric)} in {len(course):,} audits, oldest first"
    sentences = [f"Score: {last.score}. Dashed: an attack that knows nothing. A row without a point is an upper limit."]
    return intervals(
        rows, axis=label(last.metric), against=chance(last.metric), title=one_line(title), sentences=sentences
    )

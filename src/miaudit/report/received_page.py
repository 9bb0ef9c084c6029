"""Whether a report page that somebody received was drawn from given findings.

The page is drawn again and compared. The received file is read as text: it is never opened, and nothing in it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import takewhile
from operator import eq
from pathlib import Path

from miaudit.errors import InputError, one_line
from miaudit.findings.audit import Findings
from miaudit.findings.kinds import read as read_findings
from miaudit.findings.verification import Received
from miaudit.report import drawing, kinds

__all__ = ["compare"]

_LARGEST = 50_000_000  # bytes of a page; those of miaudit have two million at most
_UNSEEN = ("script", "style")
_SHOWN = 120  # characters of a sentence that differs
_SAME = "It is, byte for byte, the page that miaudit draws of {}."
_WORDS = (
    "Every word and number on it is the one that {} give. Its figures, style or programs are not those that this "
    "installation draws. They were not compared, so they may show something else."
)


def compare(
    path: Path,
    findings: Findings,
    *,
    withheld: str = "",
    version: str = "",
    shared: Callable[[Findings], Findings] | None = None,
    sealed: bool = False,
) -> Received:
    """Say whether a page, or a folder of results, belongs to the findings of a bundle.

    Parameters
    ----------
    path : an HTML file, or a folder with ``report.html`` and, for a bundle that withholds something, ``findings.json``
    findings : of the bundle
    withheld : what of the findings the bundle leaves out, in words; empty where it holds all of them
    version : of miaudit that wrote the bundle, where another one runs here; else empty
    shared : makes of whole findings those that the bundle holds; by default nothing is left out
    sealed : whether the findings are those of open records alone

    Raises
    ------
    InputError
        If there is no page, or it cannot be read.
    """
    place = path / kinds.PAGE if path.is_dir() else path
    page, name = _read(place), one_line(path.name)
    held, source = findings, "the findings in the bundle"
    beside = path / kinds.FINDINGS
    if path.is_dir() and beside.is_file():
        own = read_findings(beside)
        if isinstance(own, Findings) and findings.to_json() in (own.to_json(), (shared or _unchanged)(own).to_json()):
            withheld, sealed = "", False
            if own.to_json() != findings.to_json():
                held = own
                source = "the findings.json beside it, of which the bundle holds all that it does not withhold"
        elif not sealed:
            return Received(name, "other", f"{name} does not belong to the bundle: its findings.json is another one.")
    pages = list(kinds.drawn(held, drawing.reason_in(page)))
    if page in pages:
        return Received(name, "same", f"{name} belongs to the bundle. {_SAME.format(source)}")
    words, again = list(_words(page)), [list(_words(one)) for one in pages]
    if words in again:
        return Received(name, "words", f"{name}: {_WORDS.format(source)}")
    why = _undecided(findings, words, withheld, version, sealed=sealed)
    if why:
        return Received(name, "undecided", f"{name} was not decided: {why}.")
    return Received(name, "other", f"{name} does not belong to the bundle. {_first_difference(words, *again)}")


def _undecided(findings: Findings, words: list[str], withheld: str, version: str, *, sealed: bool) -> str:
    """Say why a page with other words may belong to the bundle all the same; empty where it may not."""
    if sealed:
        return (
            "the bundle holds the audit of its open records alone, and the page may show that of all. Verify it again "
            "with the opening"
        )
    if findings.verdict.word not in words:  # the heading of the verdict
        return ""
    if withheld:
        return f"it shows the verdict of the bundle, which withholds {withheld}. Ask for the folder with findings.json"
    if version:
        return f"it shows the verdict of the bundle, but miaudit {version} wrote both. Verify it with that version"
    return ""


def _unchanged(findings: Findings) -> Findings:
    return findings


def _read(place: Path) -> str:
    hint = "name a report.html that miaudit wrote, or its folder"
    if not place.is_file():
        raise InputError("received", "a page or its folder", f"{place.name}, which is not there", hint)
    if place.stat().st_size > _LARGEST:
        raise InputError("received", f"a page of at most {_LARGEST:,} bytes", place.name, hint)
    try:
        text = place.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("received", "a page as text", place.name, hint) from None
    if "<html" not in text[:1000].lower():
        raise InputError("received", "an HTML page", place.name, hint)
    return text.replace("\r\n", "\n")  # as some programs that send mail write lines


class _Text(HTMLParser):
    """Collects the text of a page as a reader sees it, a piece for each element."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._unseen = ""

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        if tag in _UNSEEN:
            self._unseen = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = ""

    def handle_data(self, data: str) -> None:
        if not self._unseen and data.strip():
            self.pieces.append(" ".join(data.split()))


def _words(page: str) -> Iterator[str]:
    parser = _Text()
    parser.feed(page)
    parser.close()
    yield from parser.pieces


def _first_difference(received: list[str], *drawn: list[str]) -> str:
    """Say where a page and the one nearest to it part."""
    alike = [sum(takewhile(bool, map(eq, received, one))) for one in drawn]
    at = max(alike)
    pages = (received, drawn[alike.index(at)])
    shown = [repr(one_line(side[at])[:_SHOWN]) if at < len(side) else "nothing more" for side in pages]
    return f"First difference: it has {shown[0]}, where the bundle gives {shown[1]}."

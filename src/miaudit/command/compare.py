"""``miaudit compare`` and ``miaudit history``: audits side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miaudit.command.options import Json, Out, Overwrite
from miaudit.command.results import deliver, repeat
from miaudit.command.terminal import say, say_json
from miaudit.errors import InputError, one_line

if TYPE_CHECKING:
    from miaudit.findings.audit import Findings


def compare(
    before: Annotated[
        Path, typer.Argument(help="Results folder, findings.json or bundle of the one audit.", show_default=False)
    ],
    after: Annotated[Path, typer.Argument(help="And of the other.", show_default=False)],
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compare two audits, metric by metric, with an interval on each difference.

    In a pipeline: compare the audit of the last release with that of the next one; exit code 3 stops it.
    """
    from miaudit.findings.comparison import compare as contrast
    from miaudit.metrics.definition import difference

    names = _distinct([before, after])
    found = contrast(_findings(before), _findings(after), names=(names[0], names[1]), repeat=repeat())
    lines = [one_line(text) for text in (found.text, *(f"Caution: {caution}" for caution in found.cautions), "")]
    for change in found.changes:
        limits = "-"
        if change.value is not None and change.low is not None and change.high is not None:
            limits = difference(change.value, change.low, change.high)
        remarks = [change.estimator if change.estimator != "raw" else "", change.note]
        lines.append(f"  {one_line(change.name):<20} {limits}  {one_line('; '.join(filter(None, remarks)))}".rstrip())
    deliver(found, lambda: "\n".join(lines), out, overwrite=overwrite, json=json)


def history(
    audits: Annotated[
        list[Path],
        typer.Argument(
            help="Results folders, findings.json or bundles, oldest first; or one folder that holds results folders.",
            show_default=False,
        ),
    ],
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Line up many audits of one model: a page with the primary metric over time, and each step compared.

    Of one folder that holds results folders: its index.html lists all of them, with verdicts, dates, trends and links.
    """
    if len(audits) == 1 and audits[0].is_dir() and not (audits[0] / "findings.json").exists():
        if out is not None or overwrite:
            received = "--out" if out is not None else "--overwrite"
            raise InputError(received, f"none: the page is {audits[0] / 'index.html'}", received, "leave it out")
        _list(audits[0], json=json)
        return
    from miaudit.findings.comparison import history as line_up
    from miaudit.report.comparison_page import VERDICTS

    found = line_up(list(zip(_distinct(audits), map(_findings, audits), strict=True)), repeat=repeat())
    steps = (one_line(f"{audit.name}: {audit.said} ({VERDICTS[audit.status]})") for audit in found.audits)
    lines = [one_line(found.text), "", *(f"  {step}" for step in steps)]
    deliver(found, lambda: "\n".join(lines), out, overwrite=overwrite, json=json)


def _list(folder: Path, *, json: bool) -> None:
    """Write the page over all audits of a folder, and tell what it lists."""
    from dataclasses import asdict
    from json import dumps

    from miaudit.report import index_page

    listing = index_page.write(folder)
    if json:
        say_json(dumps([asdict(one) for one in listing.audits], indent=1) + "\n")
        return
    lines = [listing.text, ""]
    for one in listing.audits:
        lines.append(
            one_line(f"  {one.when[:10]}  {one.entry.name}: {one.entry.said} ({index_page.word(one).lower()})")
        )
    lines += [f"Note: not listed: {text}" for text in listing.unread]
    say("\n".join([*lines, "", f"Index: {folder / index_page.INDEX}"]))


def _findings(path: Path) -> Findings:
    from miaudit.findings import kind
    from miaudit.findings.audit import Findings

    if path.suffix.lower() == ".zip":
        from miaudit.bundle import read

        held = read(path)
        if held.tampered:
            received = held.tampered[0].rstrip(".")
            raise InputError("bundle", "one that fits its manifest", received, "run miaudit verify on it")
        return held.findings
    place = path / "findings.json" if path.is_dir() else path
    content = kind.parse(place)
    if content.get("kind", "audit") != "audit":
        received = f"{content['kind']!r}"[:40]
        raise InputError("findings", "findings of an audit", received, "name a folder that miaudit audit wrote")
    return Findings.from_dict(content)


def _distinct(paths: list[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [path.resolve().with_suffix("").parts if path.suffix else path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{i + 1}: {path}" for i, path in enumerate(paths)]

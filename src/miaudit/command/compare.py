"""``miaudit compare`` and ``miaudit history``: audits side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command.options import Json, Out, Overwrite, share_option
from miaudit.command.results import deliver, repeat
from miaudit.command.terminal import columns, say, say_json, table
from miaudit.errors import InputError, one_line

if TYPE_CHECKING:
    from miaudit.auditing.paired_records import Audited
    from miaudit.findings.audit import Findings
    from miaudit.findings.comparison import History, SharedRecords


def compare(
    before: Annotated[
        Path, typer.Argument(help="Results folder, findings.json or bundle of the one audit.", show_default=False)
    ],
    after: Annotated[Path, typer.Argument(help="And of the other.", show_default=False)],
    evidence: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--evidence",
            metavar="BEFORE AFTER",
            help="The files that the two audits read (.npz, .parquet or .csv), for a narrower interval. A column id "
            "identifies the records; without it units, texts or covariates do.",
        ),
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compare two audits, metric by metric, with an interval on each difference.

    In a pipeline: compare the audit of the last release with that of the next one; exit code 3 stops it.

    The interval is narrower where the command can read the records of both audits: in two bundles that share all, or
    with --evidence.
    """
    from miaudit.auditing.paired_records import correlations
    from miaudit.bundle.release_history import names as distinct
    from miaudit.findings.comparison import compare as contrast
    from miaudit.metrics.rounding import difference

    names = distinct([before, after])
    files = evidence or (None, None)
    first, second = _read(before, names[0], files[0]), _read(after, names[1], files[1])
    options: dict[str, Any] = {"names": (names[0], names[1]), "shared": correlations(first, second)}
    comparison = contrast(first.findings, second.findings, **options, repeat=repeat())
    sentence = (
        comparison.text,
        *(f"Caution: {caution}" for caution in comparison.cautions),
        f"Note: {comparison.records}",
        "",
    )
    lines = [one_line(text) for text in sentence]
    for change in comparison.changes:
        limits = "-"
        if change.value is not None and change.low is not None and change.high is not None:
            limits = difference(change.value, change.low, change.high)
        remarks = [change.estimator if change.estimator != "raw" else "", change.note]
        lines.append(f"  {one_line(change.name):<20} {limits}  {one_line('; '.join(filter(None, remarks)))}".rstrip())
    deliver(comparison, lambda: "\n".join(lines), out, overwrite=overwrite, json=json)


def history(
    audits: Annotated[
        list[Path],
        typer.Argument(
            help="Results folders, findings.json or bundles, oldest first; or one folder that holds results folders. "
            "With --budget: folders of audits, and audits, in any order.",
            show_default=False,
        ),
    ],
    budget: Annotated[
        float | None,
        share_option(
            help="Probability of a false alarm over the whole life of the model, such as 0.05: miaudit orders the "
            "audits by their dates and judges all of them together.",
            show_default=False,
        ),
    ] = None,
    memberships: Annotated[
        str | None,
        typer.Option(
            metavar="fresh|shared",
            help="With --budget: whether every release has new random memberships, independent of all earlier ones. "
            "Left out, miaudit uses what the audits show, and else the rule for shared members, which always holds.",
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Line up many audits of one model: a page with the primary metric over time, and each step compared.

    Of one folder that holds results folders: its index.html lists all of them, with verdicts, dates, trends and links.

    With --budget, one chance of a false alarm is spent over all releases of a model, and exit code 3 is an alarm.
    """
    _check_place(out, audits)
    if budget is not None:
        _judge(audits, budget, memberships, out, overwrite=overwrite, json=json)
        return
    if memberships is not None:
        raise typer.BadParameter("--memberships goes with --budget")
    if len(audits) == 1 and audits[0].is_dir() and not (audits[0] / "findings.json").exists():
        if out is not None or overwrite:
            received = "--out" if out is not None else "--overwrite"
            raise InputError(received, f"none: the page is {audits[0] / 'index.html'}", received, "leave it out")
        _list(audits[0], json=json)
        return
    from miaudit.auditing.paired_records import correlations
    from miaudit.bundle.release_history import names as distinct
    from miaudit.findings.comparison import history as line_up
    from miaudit.report.comparison_page import VERDICTS

    before = None
    read: list[tuple[str, Findings]] = []
    shared: list[SharedRecords | None] = []
    for name, path in zip(distinct(audits), audits, strict=True):  # no more than two hold their records at a time
        after = _read(path, name)
        shared += [] if before is None else [correlations(before, after)]
        read.append((name, after.findings))
        before = after
    course = line_up(read, shared=shared, repeat=repeat())
    steps = (one_line(f"{audit.name}: {audit.said} ({VERDICTS[audit.status]})") for audit in course.audits)
    lines = [one_line(course.text), "", *(f"  {step}" for step in steps)]
    deliver(course, lambda: "\n".join(lines), out, overwrite=overwrite, json=json)


def _check_place(out: Path | None, audits: list[Path]) -> None:
    """Refuse to write into a folder that is read."""
    if out is not None and out.resolve() in [place.resolve() for place in audits]:
        hint = f"choose --out {out / 'history'}"
        raise InputError("--out", "another folder than one that is read", str(out), hint)


def _judge(
    places: list[Path], budget: float, memberships: str | None, out: Path | None, *, overwrite: bool, json: bool
) -> None:
    """Judge all audits of a model with one budget of false alarms."""
    from miaudit.bundle import release_history

    options: dict[str, Any] = {"memberships": memberships, "repeat": repeat()}
    course = release_history.history(*places, budget=budget, **options)
    deliver(course, lambda: _spent(course), out, overwrite=overwrite, json=json)


def _spent(course: History) -> str:
    """Write what each release spent of the budget, as lines of text."""
    from miaudit.metrics.rounding import percent

    spending = course.budget
    if spending is None:
        return one_line(course.text)
    rows = [
        (
            one_line(f"{release.date} {release.name}"),
            f"p {release.p:.2g}" if release.tests else "no answer",
            f"spent {percent(release.spent)}, left {percent(release.left, 'down')}",
            "ALARM" if release.alarm else "",
        )
        for release in spending.releases
    ]
    notes = [f"Memberships: {spending.memberships}. {spending.basis}", *spending.cautions]
    lines = [*table(rows, columns()), "", *(f"Note: {one_line(note)}" for note in notes)]
    return "\n".join([one_line(spending.text), "", *lines])


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


def _read(path: Path, name: str, evidence: Path | None = None) -> Audited:
    """Read an audit from a results folder, a findings.json or a bundle, and its records.

    The records are those of a file of evidence, or of a bundle that shares all.
    """
    from miaudit.auditing.paired_records import Audited
    from miaudit.bundle.release_history import read_audit
    from miaudit.config import evidence_file

    audited = read_audit(path, name)
    if evidence is not None:
        return Audited(name, audited.findings, *evidence_file.read(evidence, audited.findings))
    return audited

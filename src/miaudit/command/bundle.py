"""``miaudit verify`` and ``miaudit challenge``: an audit of somebody else, repeated and contested."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miaudit.command.options import INPUT, Json, Out, Overwrite, Seed
from miaudit.command.results import check_free, coins_lines, deliver, repeat
from miaudit.command.terminal import progress, progress_of_all
from miaudit.errors import InputError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from miaudit.bundle import Bundle
    from miaudit.bundle.sealing import Opening
    from miaudit.findings.verdict import Verdict
    from miaudit.findings.verification import AuditStated, ChallengeFindings, Received, VerificationFindings

_HEADS = {
    "verified": "Verified.",
    "failed": "Verification failed.",
    "in-part": "Verified in part.",
    "not-testable": "Not verified.",
}
BundleFile = Annotated[Path, typer.Argument(help="A bundle (.zip) that miaudit wrote.", show_default=False)]
Key = Annotated[
    Path | None,
    typer.Option("--key", help="What opens sealed labels: the owner's opening, or key file.", rich_help_panel=INPUT),
]

Longest = Annotated[
    float,
    typer.Option(
        help="Most seconds of processor time that the bundle may take. A longer audit is refused before it starts, or "
        "stopped. 0 is no limit.",
        min=0,
        rich_help_panel=INPUT,
    ),
]


def verify(
    bundle: BundleFile,
    received: Annotated[
        Path | None,
        typer.Argument(
            help="A report.html that came with it, or its folder: does the page belong to the bundle?",
            show_default=False,
        ),
    ] = None,
    key: Key = None,
    commitment: Annotated[
        str | None,
        typer.Option(
            help="Of sealed coins: the SHA-256 of their commitment, or of the answer to it, as it was published; or "
            "the file. Without it nothing shows that the coins came before the training.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    longest: Longest = 60.0,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Check whether the digests of a bundle fit, and whether its findings follow from its evidence.

    Counts and words must come out exactly, numbers to 1e-9, memberships by sealed coins bit by bit. The command lists
    what withheld data prevents, and what no bundle can show. A page that you received is drawn again from the bundle's
    findings and compared; nothing in it runs.
    """
    from miaudit.bundle import read, workload
    from miaudit.bundle.verify import verify as check
    from miaudit.io import sealed_coins

    check_free(out, overwrite=overwrite)
    published = None if commitment is None else sealed_coins.published(commitment)
    with progress_of_all("repeating the audit") as advance, workload.at_most(longest):
        held = read(bundle)
        workload.require_short(held, longest)
        verification = check(held, keys=_keys(key, bundle), commitment=published, progress=advance)
    page = None if received is None else _compared(received, held)
    content = replace(verification, repeat=repeat(), received=page)
    deliver(content, lambda: "\n".join(_verified(bundle, held, content)), out, overwrite=overwrite, json=json)


def challenge(
    bundle: BundleFile,
    scores: Annotated[
        Path | None,
        typer.Option(help="Scores of another attack (.npy, or a table), record by record.", rich_help_panel=INPUT),
    ] = None,
    propensity: Annotated[
        Path | None,
        typer.Option(help="Or another P(member given covariates), record by record.", rich_help_panel=INPUT),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Column of that table; default: score, or propensity.", rich_help_panel=INPUT),
    ] = None,
    key: Key = None,
    made_before: Annotated[
        int, typer.Option("--made-before", min=0, help="Challenges to this bundle before this one.")
    ] = 0,
    longest: Longest = 60.0,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Challenge a bundle with a stronger attack, or a better propensity, on the same records.

    The records are those of the bundle, in its order. Where half of the labels are sealed, first send the SHA-256 that
    is printed to the owner; the opening that lists it decides, on those records.
    --made-before corrects for earlier challenges.
    """
    import numpy as np

    from miaudit.bundle import challenge as contest
    from miaudit.bundle import read, workload

    if (scores is None) == (propensity is None):
        raise typer.BadParameter("give either --scores or --propensity")
    check_free(out, overwrite=overwrite)
    held, rng, own = read(bundle), np.random.default_rng(seed), _keys(key, bundle)
    workload.require_short(held, longest)
    if scores is not None:
        values = contest.submitted(scores, column, "scores")
        with progress("bootstrap", meanwhile="audit") as advance, workload.at_most(longest):
            outcome = contest.by_scores(held, values, keys=own, made_before=made_before, rng=rng, progress=advance)
    else:
        values = contest.submitted(propensity or Path(), column, "propensity")
        with progress("", meanwhile="audit"), workload.at_most(longest):
            outcome = contest.by_propensity(held, values, keys=own, made_before=made_before, rng=rng)
    content = replace(outcome, repeat=repeat())
    deliver(content, lambda: _contested(content, held), out, overwrite=overwrite, json=json)


def unseal(
    bundle: BundleFile,
    key: Annotated[Path, typer.Option("--key", help="The key file that was written beside it.", rich_help_panel=INPUT)],
    submission: Annotated[
        list[str] | None,
        typer.Option(help="SHA-256 of a submission that is in; repeat for each.", rich_help_panel=INPUT),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the opening; default: BUNDLE.opening.json.")
    ] = None,
) -> None:
    """Open the sealed labels of your bundle, once, and sign which submissions were in before.

    The key file records what is signed, and then signs nothing else. The same list may be signed again. All listed
    submissions are corrected for their number.
    Hand out the file that is written, never the key file. A later submission could have used the labels. The order of
    such a challenge is unknown, and it is not won.
    """
    from miaudit.bundle import read
    from miaudit.bundle.contents import OPENING_SUFFIX, finish_keys
    from miaudit.bundle.sealing import SealKeys
    from miaudit.errors import OutputError

    finish_keys(bundle, key)
    held, keys = read(bundle), SealKeys.read(key)
    if held.sealed is None:
        raise InputError(
            "bundle", "one with sealed labels", f"{bundle.name}, which has none", "there is nothing to open"
        )
    if held.tampered:
        raise InputError("bundle", "one that fits its manifest", held.tampered[0], "run miaudit verify on it")
    held.labels(keys)  # refuses keys of another bundle
    target = out or bundle.with_suffix(OPENING_SUFFIX)
    if target.exists():  # before anything is signed
        raise OutputError(one_line(f"{target}: an opening is there already, and kept; name another file"))
    opening = keys.opening(held.mark, submission or ())
    opening.write(target)
    count = len(opening.submissions)
    typer.echo(f"Opening: {target}, signed for {count} {'submission' if count == 1 else 'submissions'}")


def _keys(path: Path | None, bundle: Path) -> Opening | None:
    from miaudit.bundle import contents, sealing

    if path is None:
        return None
    contents.finish_keys(bundle, path)
    return sealing.read(path)


def _compared(received: Path, held: Bundle) -> Received:
    """Say whether a page belongs to a bundle, as far as the bundle holds what it shows."""
    from miaudit import __version__
    from miaudit.bundle import sharing
    from miaudit.report import received_page

    written_by = str(held.environment.get("miaudit", ""))
    return received_page.compare(
        received,
        held.findings,
        withheld="" if held.share == "all" else f"a part of the findings (--share {held.share})",
        version="" if written_by == __version__ else written_by,
        shared=lambda whole: sharing.findings_of(whole, held.share, held.columns)[0],
        sealed=held.sealed is not None,
    )


def _contested(found: ChallengeFindings, held: Bundle) -> str:
    """The outcome of a challenge, and below it the verdict that it contests; a digest to send stays the last line."""
    outcome, *rest = _lines(found).split("\n")
    return "\n".join([outcome, _audit_says(held, held.findings.verdict), *rest])


def _audit_says(held: Bundle, audit: AuditStated | Verdict) -> str:
    """The verdict of the audit in a bundle, with what is proven all the same."""
    whose = "The audit" if held.sealed is None else "The audit of the open records"
    return f"{whose} says: {one_line(' '.join([audit.text, *audit.even_so]))}"


def _heads(found: VerificationFindings) -> tuple[str, ...]:
    """What became of the bundle and of a page beside it; the one that decides the exit code leads."""
    bundle = f"{_HEADS[found.status]} {one_line(found.text)}"
    if found.received is None:
        return (bundle,)
    page = f"Page: {one_line(found.received.text)}"
    if found.exit_code == replace(found, received=None).exit_code:
        return bundle, page
    return page, f"Bundle: {bundle}"


def _verified(path: Path, held: Bundle, found: VerificationFindings) -> Iterator[str]:
    """The outcome of a verification, what the audit says, and what could not be checked."""
    yield from _heads(found)
    yield f"SHA-256 of the bundle: {found.digest}"
    yield from (f"  {one_line(text)}" for text in found.tampered)
    yield from (f"  {d.place}: stated {d.stated}, recomputed {d.recomputed}" for d in found.differences[:20])
    if len(found.differences) > 20:
        yield f"  ... and {len(found.differences) - 20} more"
    audit = found.audit
    if audit is not None:
        yield _audit_says(held, audit)
        yield f"  Model: {one_line(audit.model or 'not stated')}"
        yield f"  Design: {one_line(audit.design)}. {one_line(audit.declared)}"
    yield from coins_lines(found.sealed_coins, found.published)
    yield from (f"Not recomputed: {one_line(text)}" for text in found.not_recomputed)
    if found.not_checked:
        yield "Not checked, since no bundle can show it:"
        yield from (f"  - {one_line(text)}" for text in found.not_checked)
    if found.environment:
        yield f"Environment: {one_line('; '.join(found.environment))}"
    if found.received is not None and found.received.status == "other":
        yield "\nNext: draw the page of the bundle."
        yield f"  {shlex.join(['miaudit', 'verify', str(path), '--out', 'checked'])}"
    elif audit is not None:
        yield "\nNext: contest it with a stronger attack on the same records."
        yield f"  {shlex.join(['miaudit', 'challenge', str(path), '--scores', 'FILE'])}"
        if found.received is None:
            yield "Or check a report page that came with it."
            yield f"  {shlex.join(['miaudit', 'verify', str(path), 'report.html'])}"


def _lines(found: ChallengeFindings) -> str:
    return "\n".join(
        [
            one_line(found.text),
            f"SHA-256 of the bundle: {found.digest}",
            f"SHA-256 of the submission: {found.submission}",
        ]
    )

"""Options that several commands share, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.auditing.plan import Bounds, Plan
    from miaudit.dp.verdict import Claim

EXIT_CODES = (
    "Exit codes: 0 no concern; 1 could not run; 2 usage; 3 concern, or a claim refuted; 4 no answer (inconclusive, not "
    "testable, refused)."
)
INPUT, SYNTHETIC, ZERO_RUN, VERDICT = "Input", "Synthetic table", "Zero-run", "Verdict"
PRIVACY, OUTPUT = "Privacy bounds", "Output"

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for findings.json, report.html and figures/.", rich_help_panel=OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier audit in that folder.", rich_help_panel=OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the findings, and nothing else, to standard output.", rich_help_panel=OUTPUT),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Seed of everything random; it is written into the findings.", rich_help_panel=OUTPUT
    ),
]
Fpr = Annotated[
    list[str] | None,
    typer.Option(
        "--fpr",
        help="False-positive rates, repeated or with commas: 0.001,0.01,0.1.",
        rich_help_panel=VERDICT,
    ),
]
Confidence = Annotated[
    float,
    typer.Option(
        "--confidence", help="Of the two-sided intervals, and one-sided of privacy bounds.", rich_help_panel=VERDICT
    ),
]
ClaimEpsilon = Annotated[
    float | None,
    typer.Option(help="Somebody claims (epsilon, delta)-DP: is it refuted?", rich_help_panel=PRIVACY),
]
ClaimDelta = Annotated[
    float | None, typer.Option(help="The delta of that claim; without it, --delta.", rich_help_panel=PRIVACY)
]
ClaimMu = Annotated[
    float | None, typer.Option(help="Somebody claims mu-Gaussian DP: is it refuted?", rich_help_panel=PRIVACY)
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say how many models would be trained, for how long and with how much disk, and stop. Without "
        "shadow.seconds_per_fit one is trained for the time. Nothing is written.",
    ),
]
BundleOut = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="Also write one file (.zip) by which others repeat the audit (miaudit verify) and contest it.",
        rich_help_panel=OUTPUT,
    ),
]
Share = Annotated[
    str,
    typer.Option(
        "--share",
        help="What the bundle holds: all; scores (no covariates or texts, pseudonyms for units); hashes (neither).",
        rich_help_panel=OUTPUT,
    ),
]
Seal = Annotated[
    bool,
    typer.Option(
        "--seal",
        help="Keep the labels of half of the units sealed, and shuffle the records, for challengers.",
        rich_help_panel=OUTPUT,
    ),
]
Delta = Annotated[float, typer.Option(help="Of the bound on epsilon.", rich_help_panel=PRIVACY)]


def names(values: list[str] | None) -> list[str] | None:
    """Split repeated and comma-separated names."""
    if values is None:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def plan(fpr: list[str] | None, **options: Any) -> Plan:
    """Return the plan that the options make."""
    from miaudit.auditing.plan import Plan

    if fpr is None:
        return Plan(**options)
    targets = []
    for text in names(fpr) or ():
        try:
            targets.append(float(text))
        except ValueError as error:
            raise InputError("--fpr", "numbers in (0, 1)", repr(text), "write 0.001,0.01,0.1") from error
    return Plan(fpr_targets=tuple(targets), **options)


def claim(epsilon: float | None, delta: float | None, mu: float | None, usual: float) -> Claim | None:
    """The claim that the options make; an epsilon without a delta of its own is claimed at the usual one."""
    if epsilon is None and mu is None:
        if delta is not None:
            raise typer.BadParameter("--claim-delta goes with --claim-epsilon")
        return None
    if epsilon is not None and mu is not None:
        raise typer.BadParameter("give --claim-epsilon or --claim-mu, not both: a claim is about one parameter")
    if mu is not None and delta is not None:
        raise typer.BadParameter("--claim-delta goes with --claim-epsilon, not with --claim-mu")
    from miaudit.config.audit import claimed

    return claimed(epsilon, usual if delta is None else delta, mu)


def bounds(claim: Claim | None, mechanism: Path | None, guesses: str, *, wanted: bool, **options: Any) -> Bounds | None:
    """What is asked of privacy bounds, or None where none are wanted."""
    from miaudit.auditing.plan import Bounds
    from miaudit.dp import guesses as counting

    if not wanted:
        if claim is not None or mechanism is not None:
            raise typer.BadParameter("--no-bounds leaves nothing to judge a claim or a mechanism by: give one of them")
        return None
    described = None
    if mechanism is not None:
        from miaudit.config.audit import read_mechanism

        described = read_mechanism(mechanism)
    return Bounds(claim=claim, mechanism=described, guesses=counting.named(guesses), **options)

"""``miaudit decoys``: decoys of the random strings in texts, as probes for a model to score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miaudit.command.options import INPUT, OUTPUT
from miaudit.command.terminal import complain, progress, say, table

if TYPE_CHECKING:
    from miaudit.collect.decoys import Decoys


def decoys(
    documents: Annotated[
        Path, typer.Argument(help="Training texts: .jsonl, one JSON object on each line.", show_default=False)
    ],
    find: Annotated[
        str,
        typer.Option(
            help="Kinds of random strings, with commas: uuid4, hex (16 characters or more), base64 (runs of 20 letters "
            "and digits or more), digits (8 or more). digits:10 changes the fewest characters.",
            rich_help_panel=INPUT,
        ),
    ] = "uuid4,hex,base64",
    count: Annotated[
        int, typer.Option("--count", min=1, max=1000, help="Decoys of each unit.", rich_help_panel=INPUT)
    ] = 20,
    text: Annotated[str, typer.Option("--text", help="Key of the text.", rich_help_panel=INPUT)] = "text",
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            help="Key of the unit (person, account). Its strings are one coin. Default: each line is a unit, and lines "
            "with a string in common are one.",
            rich_help_panel=INPUT,
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            help="Key of the name of a line. Default: its number.",
            rich_help_panel=INPUT,
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File for the probes (.jsonl). The key goes beside it: probes.key.json, for you alone.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("probes.jsonl"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier probes and their key.", rich_help_panel=OUTPUT)
    ] = False,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed",
            help="A whole number, or 64 digits from 0 to f. Default: drawn by the operating system, too long "
            "to guess. It is in the key.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make decoys for the random strings in training texts, and write probes for the model to score.

    Each probe is a text with its own strings or with decoys of the same law in their place. Score all probes without
    the key. Then audit: miaudit audit scored.jsonl --design matched.
    """
    from miaudit.collect.decoys import make
    from miaudit.io import probes
    from miaudit.io.documents import read_documents
    from miaudit.io.probes import Seed

    probes.check_free(out, overwrite=overwrite, documents=documents)
    secret = Seed.new() if seed is None else Seed.of(seed)
    with progress("units", meanwhile="reading") as advance:
        texts = read_documents(documents, text=text, unit=unit, ids=ids)
        result = make(texts, find=find.split(","), count=count, seed=secret, progress=advance)
        key = probes.write(out, result.probes, result.key, overwrite=overwrite)
    say("\n".join(_report(result, count, out, key)))
    if seed is not None:
        complain("note: a person who guesses the seed knows the true strings; leave out --seed for one of 64 digits")


def _report(made: Decoys, count: int, out: Path, key: Path) -> list[str]:
    """Say what is taken and refused, where the files are, and what comes next."""
    lines = ["Strings that are taken:"]
    lines += table([(kind, f"{number:,}", "", "") for kind, number in sorted(made.taken.items())], None)
    if made.refused:
        lines += ["Strings that are refused:"]
        rows = sorted(made.refused.items(), key=lambda one: (one[0][0], -one[1]))
        lines += table([(kind, f"{number:,}", "", reason) for (kind, reason), number in rows], None)
    units, records = len(made.key.units), len(made.probes) // (count + 1)
    several = "1 unit" if units == 1 else f"{units:,} units"
    empty = f"; {made.empty:,} without such a string are left out" if made.empty else ""
    return [
        *lines,
        f"{records:,} records of {several}, each with {count:,} decoys{empty}",
        f"Probes: {out} ({len(made.probes):,} lines)",
        f"Key: {key}; the person who scores the probes must not see it",
        f"Commitment: {made.key.commitment}",
        f"Score the text of each line without the key; then: miaudit audit SCORED.jsonl --design matched --key {key}",
    ]

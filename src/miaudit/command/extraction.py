"""``miaudit extraction``: what a language model repeats word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from miaudit.command.options import Json, Out, Overwrite
from miaudit.command.results import check_free, deliver, progress, repeat


def extraction(
    file: Annotated[
        Path,
        typer.Argument(
            help="Token log-probabilities (.jsonl, .parquet): a text on each line, with id, member and logprobs. "
            "Members were trained on; the others are controls.",
            show_default=False,
        ),
    ],
    prefix: Annotated[int, typer.Option(min=0, help="Tokens of a text that an attacker has.")] = 50,
    suffix: Annotated[int, typer.Option(min=1, help="Tokens that must follow word for word.")] = 50,
    queries: Annotated[int, typer.Option(min=1, help="Continuations that an attacker draws.")] = 100,
    chance: Annotated[
        float, typer.Option(help="Probability with which a passage has to come out in so many queries.")
    ] = 0.5,
    design: Annotated[
        Literal["multi-run", "one-run", "zero-run"] | None,
        typer.Option(
            help="How it was decided which texts were trained on: by coins (one-run, multi-run) or not (zero-run). By "
            "coins the verdict rests on nothing else.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of members, controls and their difference together.")] = 0.95,
    negligible: Annotated[
        float, typer.Option(help="Share of the texts by which members may exceed controls without concern.")
    ] = 0.05,
    names: Annotated[bool, typer.Option("--names", help="Name the texts that come out, by their ids.")] = False,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Say how many texts a language model repeats word for word, beside texts that it never saw.

    Needs no model: log-probabilities of each token are enough. It is a concern (exit code 3) where more members than
    controls are shown to come out.
    """
    from miaudit.auditing.extraction import ExtractionPlan
    from miaudit.collect.extraction import audit_extraction
    from miaudit.report import extraction_page

    check_free(out, overwrite=overwrite)
    plan = ExtractionPlan(prefix, suffix, queries, chance, confidence, negligible)
    with progress("texts", meanwhile="reading and counting"):
        found = audit_extraction(file, plan, design=design or "", names=names, repeat=repeat())
    deliver(found, lambda: extraction_page.text(found), out, overwrite=overwrite, json=json)

"""From collected evidence to the results folder and the lines on standard output."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from miaudit import __version__
from miaudit.command import summary
from miaudit.command.terminal import progress

if TYPE_CHECKING:
    from miaudit.collect import Collected
    from miaudit.plan import Plan
    from miaudit.report.findings import Findings


def computed(collected: Collected, plan: Plan, rng: Any, seed: int, model: dict[str, Any] | None = None) -> Findings:
    """Audit what was collected, with the command line that repeats it written into the findings."""
    from dataclasses import replace

    from miaudit.pipeline import audit as compute

    chosen = plan if collected.headline is None else replace(plan, headline=collected.headline)
    repeat = {"miaudit": __version__, "command": shlex.join(["miaudit", *sys.argv[1:]]), "seed": seed}
    if model:
        repeat["model"] = model
    stages = "propensity, overlap, corrected metrics, challenge, bounds"
    with progress("bootstrap", meanwhile=stages if collected.evidence.design == "zero-run" else "") as told:
        return compute(
            collected.evidence,
            plan=chosen,
            rng=rng,
            notes=collected.notes,
            repeat=repeat,
            vulnerability=collected.vulnerability,
            progress=told,
        )


def deliver(findings: Findings, out: Path | None, *, overwrite: bool, json: bool) -> None:
    """Write the folder, if there is one, and tell standard output."""
    if out is not None:
        from miaudit.report import folder

        folder.write(findings, out, overwrite=overwrite)
    if json:
        typer.echo(findings.to_json(), nl=False)
    else:
        typer.echo(summary.text(findings))
        if out is not None:
            typer.echo(f"\nReport: {out / 'report.html'}")

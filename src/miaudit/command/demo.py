"""``miaudit demo``: a complete audit without any data of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from miaudit.command import folders
from miaudit.command.options import OUTPUT, Json, Overwrite, Seed
from miaudit.command.results import check_free, computed, deliver, summary
from miaudit.command.terminal import progress


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the results; the default is numbered (-2, -3 ...) where it exists.",
            show_default="results/demo",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Audit a classifier trained here and now: handwritten digits, a random half of them members (about 5 seconds)."""
    import numpy as np

    from miaudit.collect import demo as demonstration
    from miaudit.collect import demo_files
    from miaudit.collect.outputs import Collected

    target = folders.results(out, Path("results/demo"), overwrite=overwrite)
    check_free(target, overwrite=overwrite)
    rng = np.random.default_rng(seed)
    with progress("training") as advance:
        collected = Collected(demonstration.evidence(rng=rng, progress=advance))
    files = demo_files.contents(collected.evidence)
    demo_files.leave(files, target / "data", overwrite=overwrite)
    findings = computed(collected, demonstration.PLAN, rng, seed)
    data = target / "data"
    besides = f"To go on with: {data}, as in miaudit disclosure {data / 'disclosure.yaml'}\n"
    deliver(findings, lambda: summary(findings), target, overwrite=overwrite, json=json, besides=besides, exit_code=0)

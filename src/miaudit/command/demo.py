"""``miaudit demo``: a complete audit without any data of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from miaudit.command.options import Json, Overwrite, Seed
from miaudit.command.results import check_free, computed, deliver, summary
from miaudit.command.terminal import progress


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results/demo"),
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Audit a classifier trained here and now: handwritten digits, a random half of them members (about 10 seconds)."""
    import numpy as np

    from miaudit.collect import demo as demonstration
    from miaudit.collect import demo_files
    from miaudit.collect.outputs import Collected

    check_free(out, overwrite=overwrite)
    rng = np.random.default_rng(seed)
    with progress("training") as told:
        collected = Collected(demonstration.evidence(rng=rng, progress=told))
    files = demo_files.contents(collected.evidence)
    demo_files.leave(files, out / "data", overwrite=overwrite)
    findings = computed(collected, demonstration.PLAN, rng, seed)
    deliver(findings, lambda: summary(findings), out, overwrite=overwrite, json=json, exit_code=0)

"""``miaudit draw`` and ``miaudit gather``: a campaign's fits by any scheduler, through files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command.options import OUTPUT
from miaudit.command.results import write_evidence
from miaudit.command.terminal import complain, progress, say
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.config.audit import CampaignConfig


def draw(
    config: Annotated[
        Path,
        typer.Argument(help="A YAML file with target: {kind: command, ...}; docs/your_model.md.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the fits; new, or empty.", rich_help_panel=OUTPUT, show_default=False),
    ],
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an earlier draw there. Fits that are the same keep their outputs; other folders of fits are "
            "removed, and nothing else.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Write each fit of a campaign into a folder of its own, to be trained by any scheduler; trains nothing.

    commands.txt there has one line for each fit: run them in any order, anywhere that sees the folder (a loop, GNU
    parallel, a queue; slurm.sh is an example for SLURM). Then miaudit gather FOLDER makes the evidence, the same to
    the byte as miaudit collect CONFIG makes here.
    """
    import numpy as np

    from miaudit.collect import drawn

    settings = _campaign_of(config)
    rng = np.random.default_rng(settings.seed)
    campaign = settings.campaign(config.parent)
    with progress("", meanwhile="fits"):
        fits, there = drawn.draw(campaign, out, config=config, rng=rng, overwrite=overwrite)
    had = f" ({there} of them have outputs already)" if there else ""
    commands = out / drawn.COMMANDS
    first = (
        "the audited model first" if settings.runs == 1 else f"the audited models of {settings.runs} runs among them"
    )
    say(
        f"{fits} fits{had}, {first}: {commands}, one line for each\n"
        f"Run them: bash {commands}; or sbatch {out / drawn.SLURM}\n"
        f"Then: miaudit gather {out} --out evidence.npz"
    )


def gather(
    folder: Annotated[Path, typer.Argument(help="Folder that miaudit draw wrote.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File for the evidence: .npz, .parquet or .csv. Or .jsonl: of a fine-tuned language model, the "
            "log-probabilities of all tokens of the audited texts, for miaudit extraction; goes on after a kill.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("evidence.npz"),
    run: Annotated[
        int | None,
        typer.Option(
            "--run", min=1, help="With .jsonl: of several runs which; default: the first.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="The configuration file, if it was moved apart from the folder.", show_default=False
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Leave out shadow models whose fits are missing, stale or unusable, and say so. The audited model "
            "must be there.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Make evidence of the fits that miaudit draw wrote, once they are trained.

    It is the same to the byte as that of miaudit collect on the same configuration. Fits that are missing, or stale
    (other rows, or script files that changed since the draw), are named, and nothing is written. No code runs.
    """
    import numpy as np

    from miaudit.collect import drawn
    from miaudit.collect.outputs import with_headline
    from miaudit.io import tables

    tables.require_suffix(out, "--out", (*tables.FORMATS, ".jsonl"))
    if run is not None and out.suffix.lower() != ".jsonl":
        raise typer.BadParameter("--run goes with --out FILE.jsonl: the evidence is of all runs")
    if partial and out.suffix.lower() == ".jsonl":
        raise typer.BadParameter("--partial leaves shadow models out, and a .jsonl file is of the audited model")
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{out}, which exists", "name another, or add --overwrite")
    manifest = drawn.read(folder)
    place = manifest.config if config is None else config
    if not place.is_file():
        hint = "say where it is with --config FILE"
        raise InputError("--config", "the configuration of the draw", f"{place}, which is not there", hint)
    settings = _campaign_of(place)
    rng = np.random.default_rng(settings.seed)
    if drawn.config_changed(manifest, place):
        complain(f"note: {place} changed since the draw; what decides the fits is compared")
    campaign = settings.campaign(place.parent)
    if out.suffix.lower() == ".jsonl":
        _tokens(campaign, manifest, out, rng=rng, run=run or 1, overwrite=overwrite)
        return
    with progress("fits") as advance:
        gathered = drawn.gather(campaign, manifest, rng=rng, partial=partial, progress=advance)
    write_evidence(with_headline(gathered, settings.headline()), out)
    say(f"Then: miaudit audit {out}{' --coins REVEAL, once the coins are revealed' if campaign.coins else ''}")


def _tokens(campaign: Any, manifest: Any, out: Path, **options: Any) -> None:
    """Write what the audited model says of the tokens of the audited texts."""
    from miaudit.collect.drawn_tokens import gather_tokens

    with progress("texts") as advance:
        tokens_gathered = gather_tokens(campaign, manifest, out, progress=advance, **options)
    several = f" of run {options['run']}" if campaign.runs > 1 else ""
    first = (
        f"{tokens_gathered.texts:,} texts ({tokens_gathered.members:,} members), asked of the audited model{several}"
    )
    then = f"Then: miaudit extraction {out} --design one-run"
    say("\n".join([first, *(f"Note: {note}" for note in tokens_gathered.notes), f"\nTokens: {out}", then]))


def _campaign_of(config: Path) -> CampaignConfig:
    """Read a file about a command."""
    from miaudit.config import audit as configuration

    settings = configuration.read(config)
    if not isinstance(settings, configuration.CampaignConfig) or settings.target.kind != "command":
        kind = settings.target.kind if isinstance(settings, configuration.CampaignConfig) else "no target"
        hint = "draw is for a training script of your own; miaudit collect does the others here"
        raise InputError("target.kind", "command", kind, hint)
    return settings

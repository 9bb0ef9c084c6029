"""``miaudit synthesise``: from a private table and a causal graph to a release with its privacy statement."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from miaudit.command.options import Json, Overwrite
from miaudit.command.results import check_free, deliver, repeat
from miaudit.command.terminal import progress, say
from miaudit.errors import missing_modules, one_line, pip_line
from miaudit.metrics.definition import at_most

if TYPE_CHECKING:
    from miaudit.findings.release import SynthesisFindings
    from miaudit.synthesis.generators.recipe import Recipe

_STEM = "synthetic"
_CONFIG = "A YAML file, docs/synthesis.md has every key; or a table (.csv, .parquet) for which to draft one."
_OUT = "Instead of output_dir; of a draft, instead of a folder named as the table."
_PUBLIC = (
    "Of a draft: a table of records that are not private. Columns are read off it instead, and the graph is learned "
    "from it."
)


def synthesise(
    config: Annotated[Path, typer.Argument(help=_CONFIG, show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help=_OUT)] = None,
    public: Annotated[Path | None, typer.Option("--public", help=_PUBLIC, show_default=False)] = None,
    overwrite: Overwrite = False,
    json: Json = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, say what would be claimed, train nothing, write nothing."),
    ] = False,
) -> None:
    """Make a synthetic table from a private one along a causal graph, with a stated privacy guarantee.

    Start with the table: miaudit synthesise TABLE.csv drafts TABLE/graph.yaml
    (columns and causes) and TABLE/synthesise.yaml (epsilon, ledger and more),
    marks what was read off the private table, which no guarantee covers, and
    says what to look at. That is no release, so the exit code is 4.

    Then miaudit synthesise TABLE/synthesise.yaml writes synthetic.csv (or
    .parquet) with synthetic.json beside it, findings.json, report.html and
    figures/. Exit code 0: a guarantee is proved, and the table is useful, at
    least in part; 4: it is not, with what to change, or privacy is "none", and
    nothing answers what the table gives away.
    """
    import numpy as np

    from miaudit.config import draft as drafts
    from miaudit.config import synthesise as synthesise_config
    from miaudit.synthesis.generators import publication

    if drafts.is_table(config):
        if json:
            raise typer.BadParameter("--json goes with a configuration: a draft has no findings")
        say(draft(config, out, public, overwrite=overwrite, dry_run=dry_run))
        raise typer.Exit(4)
    if public is not None:
        raise typer.BadParameter("--public goes with a table; a configuration names its public file itself")
    settings = synthesise_config.read(config)
    table, plan = settings.read(config.parent)
    if dry_run:
        with progress("recipes", meanwhile="rehearsal") as told:
            rng = np.random.default_rng(settings.seed)
            recipe = plan.settled(table, rng=rng, progress=told)
        private, _ = publication.set_aside(table, plan, rng)
        ledger = publication.check(private, plan, recipe)
        say(_forecast(recipe, len(private), recipe.mechanism(table.schema, plan.graph, len(private))))
        if ledger is not None and plan.privacy is not None:
            say(publication.share(ledger))
        return
    target = out if out is not None else config.parent / settings.output_dir
    file = target / f"{_STEM}.{settings.release.format}"
    settings.check_kept(config.parent, target)
    check_free(target, overwrite=overwrite, released=True)
    rng = np.random.default_rng(settings.seed)
    seed = {} if plan.privacy else {"seed": "from the operating system" if settings.seed is None else settings.seed}
    with progress("epochs", meanwhile="noise, sampling, findings") as told:
        again = repeat(**seed)
        release, findings = publication.publish(table, plan, rng=rng, file=file.name, repeat=again, progress=told)
    besides = f"Release: {file} and {file.with_suffix('.json').name}\n"
    deliver(
        findings,
        lambda: text(findings),
        target,
        overwrite=overwrite,
        json=json,
        besides=besides,
        release=lambda folder: release.save(folder / file.name),
    )


def text(findings: SynthesisFindings) -> str:
    """The privacy statement and what it rests on, as lines of text."""
    useful = findings.useful
    first = [] if useful is None or useful.status == "useful" else [f"{findings.word}."]
    lines = [*first, *findings.text, ""]
    lines.append(f"{findings.release.records:,} synthetic records of {len(findings.columns):,} columns")
    found = findings.guarantee
    if found is not None:
        lines.append(
            f"Proved: epsilon = {at_most(found.proved, 4)} at delta = {at_most(found.delta, 4)}, by {found.accountant}"
        )
        lines.append(f"Mechanism: {found.mechanism}")
    if useful is not None:
        lines.append(f"{useful.text} Judged by {useful.records:,} {useful.on}.")
        lines += [f"To change: {one_line(what)}" for what in useful.advice]
    spent = findings.spent
    if spent is not None and spent.epsilon is not None and spent.delta is not None:
        left = "" if spent.budget is None else f", of a budget of {spent.budget:g}"
        made = f"{len(spent.releases)} release{'s' * (len(spent.releases) > 1)}"
        at = f"epsilon = {at_most(spent.epsilon, 4)} at delta = {at_most(spent.delta, 4)}"
        lines.append(f"Ledger of {spent.table}: {made}, {at}{left}")
    lines += [f"Note: {one_line(note)}" for note in findings.notes]
    return "\n".join(lines)


def draft(table: Path, out: Path | None, public: Path | None, *, overwrite: bool, dry_run: bool) -> str:
    """Draft the files that a release of a table needs, and return what has to be looked at in them, in lines."""
    from miaudit.config import draft as drafts
    from miaudit.report import kinds

    folder = table.with_suffix("") if out is None else out
    if not dry_run:
        kinds.check_place(folder, f"--out {folder}", "choose another --out")
        drafts.check_free(folder, overwrite=overwrite)
    made = drafts.draft(table, folder, public)
    if not dry_run:
        made.write(folder, table, overwrite=overwrite)
    graph, config = folder / drafts.GRAPH, folder / drafts.CONFIG
    lines = [f"Draft: {graph} and {config}. No synthetic table was made."]
    marks = ', where "unchecked: true" marks what was read off the private table' if made.marked else ""
    for head, found in (
        (f"Check in {graph}{marks}:", made.columns),
        ("Left out:", made.left_out),
        (f'Decide in {config}, and delete its "unchecked: true":', made.decisions),
    ):
        lines += ["", head, *(f"  {line}" for line in found)] if found else []
    if missing_modules(["synthesis"]):
        lines += ["", f"The release needs what is not installed yet: {pip_line('synthesis')}"]
    lines += [
        "",
        "Nothing was written." if dry_run else f"Then: miaudit synthesise {shlex.quote(str(config))} --dry-run",
    ]
    return "\n".join(lines)


def _forecast(recipe: Recipe, records: int, mechanism: object) -> str:
    """What would be claimed and how it would be made."""
    from miaudit.synthesis.generators.generator_config import GeneratorConfig

    config, privacy = recipe.config, recipe.privacy
    tried = f"\nRehearsed {recipe.rehearsed}." if recipe.rehearsed else ""
    if privacy is None:
        how = f"{config.steps(records):,} steps" if isinstance(config, GeneratorConfig) else "Tables"
        return f"{how}; nothing would be claimed: privacy is none. Nothing was written.{tried}"
    claimed = "" if privacy.epsilon is None else f"epsilon = {privacy.epsilon:g}, "
    return f"{claimed}delta = {at_most(privacy.resolved_delta, 4)}: {mechanism}. Nothing was written.{tried}"

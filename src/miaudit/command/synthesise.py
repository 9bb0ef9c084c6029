"""``miaudit synthesise``: from a private table and a causal graph to a release with its privacy statement."""

from __future__ import annotations

import filecmp
import functools
import hashlib
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from miaudit.command.options import Json, Overwrite
from miaudit.command.results import check_free, deliver, repeat
from miaudit.command.terminal import complain, progress, say
from miaudit.errors import MiauditError, one_line
from miaudit.errors.extras import missing_modules, pip_line
from miaudit.metrics.rounding import upper_text

if TYPE_CHECKING:
    from miaudit.findings.release import SynthesisFindings
    from miaudit.synthesis.generators.entered_release import EnteredRelease
    from miaudit.synthesis.generators.publication import Publication
    from miaudit.synthesis.generators.release import Release
    from miaudit.synthesis.generators.settled_release import SettledRelease
    from miaudit.synthesis.schema import Table

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
    attack: Annotated[
        bool,
        typer.Option(
            "--attack",
            help="Instead of a release: make generators with and without single records, and say whether their tables "
            "show the difference. Nothing is charged; the results are private.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything, try the judgement, say what would be claimed; train nothing, write nothing. Exit "
            "code 4: the judgement would fail.",
        ),
    ] = False,
) -> None:
    """Make a synthetic table from a private one along a causal graph, with a stated privacy guarantee.

    Start with the table: miaudit synthesise TABLE.csv drafts TABLE/graph.yaml
    (columns and causes) and TABLE/synthesise.yaml (epsilon, ledger and more),
    marks what was read off the private table, which no guarantee covers, and
    says what to look at. A draft is not a release: exit code 4.

    Then miaudit synthesise TABLE/synthesise.yaml writes what you can publish:
    synthetic.csv (or .parquet), synthetic.json and the page synthetic.html.
    findings.json, report.html and figures/ are for you. A draft makes the
    table in two stages: single columns are counted for 15% of the budget, then
    made-up records show whether the rest is worth its price. If not, the run
    stops, and 85% of the budget is left.

    Exit code 0: a guarantee is proved, and the table is useful, at least in
    part; 4: it is not, with what to change, the run stopped after the first
    stage, or privacy is "none", and nothing answers what the table gives away.

    With --attack: 0: the claim is not refuted; 3: it is refuted; 4: so few
    generators could not have refuted it, or privacy is "none". The section
    attack of the file chooses records and numbers. If interrupted, run the
    same command again: it resumes.
    """
    from miaudit.config import draft as drafts
    from miaudit.config import synthesise as synthesise_config
    from miaudit.synthesis.generators.entered_release import EnteredRelease
    from miaudit.synthesis.undeclared import UndeclaredCategories

    if drafts.is_table(config):
        if json:
            raise typer.BadParameter("--json goes with a configuration: a draft has no findings")
        if attack:
            raise typer.BadParameter("--attack goes with a configuration: a draft says no generator yet")
        say(draft(config, out, public, overwrite=overwrite, dry_run=dry_run))
        raise typer.Exit(4)
    if public is not None:
        raise typer.BadParameter("--public goes with a table; a configuration names its public file itself")
    settings = synthesise_config.read(config)
    try:
        table, plan = settings.read(config.parent)
    except UndeclaredCategories as error:
        for line in drafts.lines_to_add(error.columns):
            complain(line)
        raise
    if attack:
        from miaudit.command import generator_attack

        folder = out if out is not None else config.parent / f"{settings.output_dir}-attack"
        generator_attack.attack(table, plan, settings.attack, folder, overwrite=overwrite, json=json, dry_run=dry_run)
    if dry_run:
        _rehearse(table, plan, settings.seed)
        return
    target = out if out is not None else config.parent / settings.output_dir
    file = target / f"{_STEM}.{settings.release.format}"
    settings.check_kept(config.parent, target)
    entered = None if plan.ledger is None else EnteredRelease.of(plan.ledger.path, plan.ledger.label)
    with nullcontext() if entered is None else entered.held():
        _Run(settings.seed, table, plan, file, entered, overwrite, json).end()


def _rehearse(table: Table, plan: Publication, seed: int | None) -> None:
    """Check a release, try the judgement of it, and say what would be claimed.

    Raises
    ------
    typer.Exit
        With code 4 where the judgement would fail.
    """
    import numpy as np

    from miaudit.synthesis.generators import publication, staging
    from miaudit.synthesis.generators.epsilon_advice import budget_share
    from miaudit.synthesis.generators.settled_release import SettledRelease

    rng = np.random.default_rng(seed)
    with progress("recipes", meanwhile="rehearsal, trial of the judgement") as advance:
        settled = SettledRelease.of(table, plan, rehearse=rng, split=rng, progress=advance)
        settled = staging.Started.of(plan).go_on(settled)
        ledger = settled.check()
        fails = publication.trial(settled, rng=rng)
    say(_forecast(settled))
    if ledger is not None and plan.privacy is not None:
        say(budget_share(ledger))
    if fails:
        say(f"The release would not be judged: in a trial with made-up records {fails}.")
        raise typer.Exit(4)


@dataclass(eq=False)
class _Run:
    """A release on its way: made, entered, put into its folder, judged, and shown."""

    seed: int | None
    table: Table
    plan: Publication
    file: Path
    entered: EnteredRelease | None
    overwrite: bool
    json: bool
    placed: bool = False

    def end(self) -> NoReturn:
        """Make the release, or go on with one that is entered already; then whatever stops the rest is a note."""
        from miaudit.synthesis.generators.staging import ReleaseStopped

        try:
            self._show(*(self._stopped() or self._new()))
        except typer.Exit:
            raise
        except ReleaseStopped as stop:
            findings, lines = stop.findings, functools.partial(text, stop.findings)
            deliver(findings, lines, self.file.parent, overwrite=self.overwrite, json=self.json)
        except Exception as error:
            why = one_line(str(error) if isinstance(error, MiauditError) else f"{type(error).__name__}: {error}")
            if not self.placed:
                self._refuse_entered(why, error)
                raise
            again = "" if self.entered is None or self._shown else "; run the same command again for its findings"
            complain(f"note: {self._release} is written, and the rest failed ({why}){again}")
            raise typer.Exit(4) from error

    def _refuse_entered(self, why: str, error: Exception) -> None:
        """Say of a release that is entered, and could not be put into its folder, where it is."""
        left = None if self.entered is None else self.entered.table
        if left is not None:
            raise MiauditError(
                f"{why} (the release is entered in the ledger, and kept whole as {left}; run the same command again, "
                "with another --out if need be: nothing more is spent)"
            ) from error

    @property
    def _release(self) -> str:
        return f"the release {self.file} and {self.file.with_suffix('.json').name}"

    @property
    def _there(self) -> bool:
        """Whether the table that is entered is in its folder."""
        left = None if self.entered is None else self.entered.table
        return left is not None and self.file.is_file() and filecmp.cmp(left, self.file, shallow=False)

    @property
    def _shown(self) -> bool:
        from miaudit.report.kinds import FINDINGS

        return (self.file.parent / FINDINGS).exists()

    def _new(self) -> tuple[SynthesisFindings, str]:
        """Make the release and judge it."""
        import numpy as np

        from miaudit.synthesis.generators import publication

        check_free(self.file.parent, overwrite=self.overwrite, released=True)
        rng = np.random.default_rng(self.seed)
        shown = "from the operating system" if self.seed is None else self.seed
        again = repeat(**({} if self.plan.privacy else {"seed": shown}))
        options: dict[str, Any] = {"file": self.file.name, "repeat": again, "keep": self._keep}
        with progress("epochs", meanwhile="noise, sampling, findings") as advance:
            return publication.publish(self.table, self.plan, rng=rng, progress=advance, **options)[1], ""

    def _keep(self, release: Release, enter: Callable[[], None]) -> None:
        """Write the release beside the ledger, enter it, and put it into its folder."""
        own = self.entered
        if own is None:
            self._place(lambda folder: release.save(folder / self.file.name), enter)
            return
        own.write(release, self.file.name)
        try:
            self._place(own.link_into, enter)
        except Exception:
            if not own.is_entered:
                raise
            self._place(own.link_into)  # once more, now that it is entered; else the next run does

    def _place(self, fill: Callable[[Path], None], enter: Callable[[], None] | None = None) -> None:
        """Put the release into its folder, where the very same one is no reason to refuse."""
        from miaudit.report.kinds import place_release

        place_release(fill, self.file.parent, overwrite=self.overwrite or self._there, enter=enter)
        self.placed = True

    def _stopped(self) -> tuple[SynthesisFindings, str] | None:
        """Go on with a release that a stopped run entered; nothing more is spent."""
        from miaudit.synthesis.generators import publication
        from miaudit.synthesis.generators.release import Release

        left = None if self.entered is None else self.entered.table
        if left is None or self.entered is None:
            return None
        self.file = self.file.with_suffix(left.suffix)
        if self._there and self._shown:
            self.entered.remove()
            return None  # nothing of it was missing
        self._place(self.entered.link_into)
        findings = publication.resumed(Release.load(left), self.plan, file=self.file.name, repeat=repeat())
        return findings, "A stopped run had entered this release: its table was kept, and nothing more was spent.\n"

    def _show(self, findings: SynthesisFindings, besides: str) -> NoReturn:
        """Write findings and page beside the release, and say them."""
        from miaudit.report.kinds import PUBLIC

        files = [self.file.with_suffix(".json").name, *([PUBLIC] if findings.guarantee else [])]
        named = f"{besides}Release: {self.file}, with {' and '.join(files)}\n"
        out = self.file.parent
        with self.file.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        findings = replace(findings, release=replace(findings.release, sha256=digest))
        try:
            deliver(
                findings,
                lambda: text(findings),
                out,
                overwrite=False,
                json=self.json,
                besides=named,
                beside=self._release,
            )
        finally:
            if self.entered is not None and self._shown:
                self.entered.remove()


def text(findings: SynthesisFindings) -> str:
    """The privacy statement and what it rests on, as lines of text."""
    useful = findings.useful
    first = [] if useful is None or useful.status == "useful" else [f"{findings.word}."]
    lines = [*first, *findings.text, ""]
    if not findings.stopped:
        lines.append(f"{findings.release.records:,} synthetic records of {len(findings.columns):,} columns")
    guarantee = findings.guarantee
    if guarantee is not None:
        lines.append(
            f"Proved: epsilon = {upper_text(guarantee.proved, 4)} at delta = {upper_text(guarantee.delta, 4)}, "
            f"by {guarantee.accountant}"
        )
        lines.append(f"Mechanism: {guarantee.mechanism}")
    if useful is not None:
        lines.append(useful.text if findings.stopped else f"{useful.text} Judged by {useful.records:,} {useful.on}.")
        lines += [f"To change: {one_line(what)}" for what in useful.advice]
    spent = findings.spent
    if spent is not None and spent.epsilon is not None and spent.delta is not None:
        left = "" if spent.budget is None else f", of a budget of {spent.budget:g}"
        counted = f"{len(spent.releases)} release{'s' * (len(spent.releases) > 1)}"
        at = f"epsilon = {upper_text(spent.epsilon, 4)} at delta = {upper_text(spent.delta, 4)}"
        lines.append(f"Ledger of {spent.table}: {counted}, {at}{left}")
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
    drafted = drafts.draft(table, folder, public)
    if not dry_run:
        drafted.write(folder, table, overwrite=overwrite)
    graph, config = folder / drafts.GRAPH, folder / drafts.CONFIG
    lines = [f"Draft: {graph} and {config}. No synthetic table was made."]
    marks = ', where "unchecked: true" marks what was read off the private table' if drafted.marked else ""
    for head, found in (
        (f"Check in {graph}{marks}:", drafted.columns),
        ("Left out:", drafted.left_out),
        (f'Decide in {config}, and delete its "unchecked: true":', drafted.decisions),
    ):
        lines += ["", head, *(f"  {line}" for line in found)] if found else []
    if missing_modules(["synthesis"]):
        lines += ["", f"The release needs what is not installed yet: {pip_line('synthesis')}"]
    lines += [
        "",
        "Nothing was written." if dry_run else f"Then: miaudit synthesise {shlex.quote(str(config))} --dry-run",
    ]
    return "\n".join(lines)


def _forecast(settled: SettledRelease) -> str:
    """What would be claimed and how it would be made."""
    from miaudit.synthesis.generators.generator_config import GeneratorConfig

    recipe, config, privacy = settled.recipe, settled.recipe.config, settled.recipe.privacy
    tried = f"\nRehearsed {recipe.rehearsed}." if recipe.rehearsed else ""
    if privacy is None:
        steps = f"{config.steps(len(settled.private)):,} steps" if isinstance(config, GeneratorConfig) else "Tables"
        return f"{steps}; nothing would be claimed: privacy is none. Nothing was written.{tried}"
    claimed = "" if privacy.epsilon is None else f"epsilon = {privacy.epsilon:g}, "
    delta = upper_text(privacy.resolved_delta, 4)
    stages = f"\n{_stages(settled)}" if settled.in_stages and settled.plan is not None else ""
    return f"{claimed}delta = {delta}: {settled.mechanism}. Nothing was written.{stages}{tried}"


def _stages(settled: SettledRelease) -> str:
    """What the first of two stages takes, or took, and what decides whether the rest follows."""
    assert settled.plan is not None  # noqa: S101 - by its caller
    share, most = settled.plan.first_share, settled.plan.config.most_off
    counts = "Two stages: single columns are counted first" if settled.first is None else "The first stage is entered"
    return (
        f"{counts}, for {share:.0%} of the budget in squares of mu. If made-up records with these columns then show "
        f"single columns off by more than {most:.0%}, the run stops, and {1 - share:.0%} is left."
    )

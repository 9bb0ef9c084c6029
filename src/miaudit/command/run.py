"""``miaudit run`` and ``miaudit collect``: from a configuration file to a report, or to evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.collect.outputs import TOKENS
from miaudit.command import folders, right_command
from miaudit.command.audit import question
from miaudit.command.options import INSTEAD, OUTPUT, BundleOut, DryRun, Json, Limit, NoFigures, Overwrite, Seal, Share
from miaudit.command.results import (
    BundleWish,
    announce,
    check_free,
    computed,
    deliver,
    forecast,
    kept,
    summary,
    write_evidence,
)
from miaudit.command.synthetic_table import audit_table
from miaudit.command.terminal import complain, keeping, progress, say
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.collect.outputs import Collected
    from miaudit.config.audit import AnyConfig, AuditConfig, CampaignConfig


def run(
    config: Annotated[
        Path, typer.Argument(help="A YAML file; docs/configuration.md has every key.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", help=INSTEAD)] = None,
    bundle: BundleOut = None,
    share: Share = "all",
    seal: Seal = False,
    limit: Limit = None,
    overwrite: Overwrite = False,
    json: Json = False,
    no_figures: NoFigures = False,
    dry_run: DryRun = False,
) -> None:
    """Audit what a configuration file describes; its relative paths start at the file itself.

    A file with the section target trains models, or asks the one that is there. An estimator or factory that it
    names is code, and runs: use files that you trust.
    """
    import numpy as np

    from miaudit.config import audit as configuration

    right_command.check(config, "run")
    settings = configuration.read(config, limit or (), figures=not no_figures)
    if _holds_probes(settings, config):
        hint = f"miaudit collect {config} --out scored.jsonl scores them; then miaudit audit scored.jsonl"
        raise InputError("data.path", "records", "probes with decoys", hint)
    rng = np.random.default_rng(settings.seed)
    if dry_run:
        say(_forecast(settings, config, rng))
        return
    target = folders.results(out, config.parent / settings.output_dir, overwrite=overwrite)
    if isinstance(settings, configuration.TableConfig):
        if bundle is not None:
            raise typer.BadParameter("--bundle goes with scores, not with a synthetic table")
        audit_table(settings, config.parent, target, settings.seed, overwrite=overwrite, json=json)
    check_free(target, overwrite=overwrite, figures=settings.figures)
    wish = BundleWish.of(bundle, share, seal=seal, overwrite=overwrite, coins=bool(settings.coins))
    _check_coins(settings, config, revealed=wish is not None)
    # Memberships that are kept, and models, must follow from no seed that anybody sees, or guesses.
    hidden = wish is not None and wish.hides_members and isinstance(settings, configuration.CampaignConfig)
    drawing = np.random.default_rng() if hidden else rng
    collected = _collected(settings, config, drawing, goes_on=not hidden)
    collected = settings.with_sample(collected, config.parent)
    findings = computed(
        collected, settings.plan(), rng, settings.seed, model=settings.model, bundle=wish, about=settings.stated
    )
    question_text = "" if findings.design else question(typed=False)
    deliver(
        findings,
        lambda: f"{summary(findings)}{question_text}",
        target,
        overwrite=overwrite,
        json=json,
        figures=settings.figures,
    )


def _check_coins(settings: AuditConfig | CampaignConfig, config: Path, *, revealed: bool) -> None:
    """Refuse sealed coins that do not fit the plan, or that a bundle could not reveal, before any training."""
    from miaudit.config.sealed_coins import coins_of
    from miaudit.findings.sealed_coins import check_agreed

    coins = coins_of(settings.coins, config.parent)
    if coins is None:
        return
    plan = settings.plan()
    check_agreed(None if coins.answer is None else coins.answer.plan, plan.policy, plan.confidence)
    if revealed:
        coins.check_revealable()


def collect(
    config: Annotated[
        Path, typer.Argument(help="A YAML file; docs/configuration.md has every key.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File for the evidence: .npz, .parquet or .csv. Or .jsonl: of a language model in a folder, the "
            "log-probabilities of all tokens, which miaudit audit and miaudit extraction read; or, of probes by "
            "miaudit decoys, their lines with scores. Goes on after a kill.",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("evidence.npz"),
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Log-probabilities of all tokens in place of evidence, also to .parquet.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.", rich_help_panel=OUTPUT)] = False,
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            help="Train one part of the models, such as 3/10, and write no evidence: for tasks of a scheduler that "
            "share shadow.store. The command without --part then makes the evidence.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Go from the model or outputs that a configuration file describes to evidence, for miaudit audit.

    An estimator or factory that the file names is code, and runs: use files that you trust.
    """
    import numpy as np

    from miaudit.config import audit as configuration
    from miaudit.io import tables

    settings = configuration.read(config)
    if _holds_probes(settings, config):
        _probes(settings, config, out, overwrite=overwrite, dry_run=dry_run)
        return
    rng = np.random.default_rng(settings.seed)
    if dry_run:
        say(_forecast(settings, config, rng))
        return
    if part is not None:
        _train_part(settings, config, part, rng)
        return
    if tokens or out.suffix == ".jsonl":
        _tokens(settings, config, out, overwrite=overwrite)
        return
    tables.require_suffix(out, "--out", tables.FORMATS)
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{out}, which exists", "name another, or add --overwrite")
    collected = _collected(settings, config, rng)
    write_evidence(collected, out)


def _train_part(settings: AnyConfig, config: Path, part: str, rng: Any) -> None:
    """Train one part of the models into the store that tasks share."""
    from miaudit.collect.training import train_one_part
    from miaudit.config.audit import CampaignConfig

    if not isinstance(settings, CampaignConfig):
        raise InputError("--part", "a configuration with a target that is trained", "another", "leave --part out")
    announce(settings.user_code, config)
    campaign, store = settings.campaign(config.parent), settings.shadow.place(config.parent)
    with keeping(store), progress("models") as advance:
        own, total = train_one_part(campaign, part, rng=rng, progress=advance)
    say(f"Part {part}: {own} of {total} models are in {store}\nNext: miaudit collect {config}, when all parts are done")


def _tokens(settings: AnyConfig, config: Path, out: Path, *, overwrite: bool) -> None:
    """Write what a language model says of the tokens of all texts."""
    from miaudit.collect.asked_tokens import collect_tokens
    from miaudit.config.audit import CampaignConfig

    if not isinstance(settings, CampaignConfig):
        raise InputError("target", "a language model in a folder", "none", "tokens are made of its answers")
    announce(settings.user_code, config)
    campaign = settings.campaign(config.parent)
    with progress("texts") as advance:
        notes = collect_tokens(campaign, out, overwrite=overwrite, progress=advance)
    say("\n".join([f"{campaign.records.n:,} texts, asked of {campaign.target.name}", *notes, f"\nTokens: {out}"]))


def _holds_probes(settings: AnyConfig, config: Path) -> bool:
    """Whether the data of a configuration are probes of miaudit decoys."""
    from miaudit.config.audit import CampaignConfig
    from miaudit.io import scored_probes

    return isinstance(settings, CampaignConfig) and scored_probes.holds(config.parent / settings.data.path)


def _probes(settings: AnyConfig, config: Path, out: Path, *, overwrite: bool, dry_run: bool) -> None:
    """Write probes again with the log-probability that a language model gives to each text."""
    from miaudit.collect.probe_scores import collect_scores
    from miaudit.config.audit import CampaignConfig

    assert isinstance(settings, CampaignConfig)  # noqa: S101 - as _holds_probes saw
    if settings.data.member is not None:
        raise InputError("data.member", "none, for probes", settings.data.member, "leave it out: the key has it")
    announce(settings.user_code, config)
    if dry_run:
        say(f"{config.name}: 0 fits; the model scores the texts of {settings.data.path}")
        return
    target = settings.target.build(config.parent)
    with progress("texts") as advance:
        count = collect_scores(target, config.parent / settings.data.path, out, overwrite=overwrite, progress=advance)
    following = f"miaudit audit {out} --design matched --key KEY.json"
    say(f"{count:,} texts, scored by {target.name}\n\nScores: {out}\nNext: {following}")


def _collected(settings: AnyConfig, config: Path, rng: Any, *, goes_on: bool = True) -> Collected:
    """Return the evidence of what a configuration describes; code that it names is announced before it runs.

    ``goes_on``: whether the same command would train the same models again.
    """
    from miaudit.config.audit import OPTIONS, AuditConfig, TableConfig
    from miaudit.config.unread import unread

    if isinstance(settings, TableConfig):
        raise InputError("synthetic", "a target or outputs", "a synthetic table", "miaudit run audits it")
    if isinstance(settings, AuditConfig):
        with progress("rows read and merged", meanwhile="reading") as read:
            collected = settings.collect(config.parent, rng=rng, progress=read)
        for key, why, place in unread(settings.given, OPTIONS, settings.source, design=collected.evidence.design):
            raise InputError(key, f"none, {why}", "one", place)
        return collected
    announce(settings.user_code, config)
    _note_unit(settings, config)
    with keeping(settings.shadow.place(config.parent), goes_on=goes_on), progress("models") as advance:
        return settings.collect(config.parent, rng=rng, progress=advance)


def _note_unit(settings: CampaignConfig, config: Path) -> None:
    """Say where several records may be of one person and the configuration does not."""
    own = settings.target.kind != TOKENS  # of these the file names its units
    if own and (note := settings.data.forgotten_unit(config.parent)):
        complain(note)


def _forecast(settings: AnyConfig, config: Path, rng: Any) -> str:
    """Say which fits, time and disk a configuration takes, and which code it would run."""
    from miaudit.collect import run_campaign
    from miaudit.config.audit import CampaignConfig

    if not isinstance(settings, CampaignConfig) or settings.target.kind == TOKENS:
        return f"{config.name}: 0 fits, no time, no disk; the outputs are there, and no code of a model runs"
    announce(settings.user_code, config)
    _note_unit(settings, config)
    planned = settings.campaign(config.parent)
    with progress("", meanwhile="one fit, for the time"):
        cost = run_campaign.cost(planned, rng=rng)
    store = planned.shadows.store
    lines = [f"{config.name}: {planned.target.name}, {planned.records.n:,} records of {planned.records.source}"]
    if cost is None:
        lines.append("0 fits, no time, no disk: the model stands as it is")
    else:
        place = "in memory" if store is None else "on disk"
        lines.append(f"{cost.said} {place}; {cost.how}")
        lines.append(kept(store))
    lines += [read] if (read := settings.data.features(config.parent)) else []
    return "\n".join([*lines, *forecast(settings.user_code)])

"""``miaudit audit``: scores, losses or outputs whose membership is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command import keys as of_file
from miaudit.command import options
from miaudit.command.keys import KEYS, taken, takes
from miaudit.command.options import BundleOut, Json, Out, Overwrite, Seal, Seed, Share, flag
from miaudit.command.results import BundleWish, check_free, computed, deliver, summary
from miaudit.command.synthetic_table import audit_table
from miaudit.command.terminal import complain
from miaudit.config.audit import AnyConfig, AuditConfig, CampaignConfig, TableConfig
from miaudit.config.unread import OF_ZERO_RUN, Source, unread
from miaudit.errors import InputError
from miaudit.io import token_parquet

if TYPE_CHECKING:
    from miaudit.collect.outputs import Collected

_FILE_OF = {"loss": "losses", "score": "scores"}  # what the files of a signal are called


@takes(**{name: taken(name) for name in KEYS})
def audit(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A table: .npz (arrays), .parquet or .csv (columns); .jsonl or .parquet for token-logprobs. "
            "Several: one for each run of the same training, with coins of its own, in the order of the runs.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Out = None,
    bundle: BundleOut = None,
    share: Share = "all",
    seal: Seal = False,
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
    **_options: Any,
) -> None:
    """Audit scores, losses, logits or probabilities of records whose membership is known.

    Without --out the results go to results/audit; with --json and no --out nothing is written.
    """
    import numpy as np

    from miaudit.collect import outputs, several_runs

    file, more = (files[0], files[1:]) if files else (None, [])

    given = options.given(context)
    signal = given.get("signal", "score")
    source = _source(file, given, signal)
    keys = {_key(name) for name in given}
    if more and source != "table":
        raise typer.BadParameter(f"several files are runs with scores, losses or outputs, not {signal}")
    _refuse(keys, source, signal=signal, bounds=not given.get("no_bounds", False))
    settings, *others = [_settings(path, given, source, signal) for path in (file, *more)]
    target = out or (None if json else Path("results/audit"))
    plan = settings.plan()
    if isinstance(settings, TableConfig):
        if bundle is not None:
            raise typer.BadParameter("--bundle goes with scores, not with --synthetic")
        audit_table(settings, Path(), target, seed, overwrite=overwrite, json=json)
    check_free(target, overwrite=overwrite)
    wish = BundleWish.of(bundle, share, seal=seal, overwrite=overwrite, coins="coins" in given)
    rng = np.random.default_rng(seed)
    collected = settings.collect(Path(), rng=rng)
    if others:
        runs = (one for one in others if not isinstance(one, TableConfig))
        collected = several_runs.joined([collected, *(one.collect(Path(), rng=rng) for one in runs)])
    _refuse(keys, source, collected)
    collected = settings.with_sample(collected, Path())
    findings = computed(collected, plan, rng, seed, model=settings.model, bundle=wish)
    if signal == "score":
        auc = next((m for m in findings.metrics if (m.name, m.estimator) == ("auc", "raw")), None)
        note = outputs.looks_like_losses(collected.evidence, None if auc is None else auc.high)
        if note:
            complain(f"note: {note}")
    deliver(findings, lambda: summary(findings), target, overwrite=overwrite, json=json)


def _source(file: Path | None, given: dict[str, Any], signal: str) -> Source:
    """What the audit reads."""
    sides = [name for name in ("members", "nonmembers") if name in given]
    pair = len(sides) == 2 and file is None
    if "synthetic" in given:
        if not pair:
            raise typer.BadParameter("--synthetic goes with --members and --nonmembers, all three tables")
        return "synthetic"
    if pair:
        return "pair"
    if file is None or sides:
        raise typer.BadParameter("give either one FILE, or both --members and --nonmembers")
    if signal == "token-logprobs":
        return "tokens"
    if file.suffix.lower() == ".parquet" and file.is_file() and token_parquet.holds_tokens(file):
        received = f"{file.name}, which holds the log-probabilities of tokens"
        raise InputError("file", f"columns of {_FILE_OF.get(signal, signal)}", received, "add --signal token-logprobs")
    return "table"


def _settings(file: Path | None, given: dict[str, Any], source: Source, signal: str) -> AnyConfig:
    """What a configuration file would say, checked."""
    from miaudit.collect.outputs import check_signal

    said = of_file.content(given)
    evaluation, attack = said.setdefault("evaluation", {}), said.setdefault("attack", {})
    if "type" in attack:
        attack["type"] = [name.replace("-", "_") for name in attack["type"]]
    if source == "synthetic":
        return of_file.validated(said, TableConfig)
    if source == "tokens":
        del evaluation["signal"]
        return of_file.validated({**said, "target": {"kind": signal}, "data": {"path": str(file)}}, CampaignConfig)
    check_signal(signal)
    if signal != "score":
        attack.setdefault("type", ["loss"])
    if source == "table":
        evaluation["table_path"] = str(file)
    else:
        for side, path in said.pop("synthetic").items():
            kind = _FILE_OF.get(signal, signal)
            evaluation[f"{side.removesuffix('s_path')}_{kind}_path"] = path
    return of_file.validated(said, AuditConfig)


def _key(name: str) -> str:
    """The key of a file that an option says, with its section; an option of the command line only is its own."""
    return ".".join(KEYS.get(name, (name, ""))[0].split(".")[:2])


def _refuse(keys: set[str], source: Source, collected: Collected | None = None, **known: Any) -> None:
    """Refuse options that nothing reads; of an undeclared design, which may be any, say what goes with which."""
    flags = {_key(name): flag(name) for name in reversed(KEYS)}
    if collected is not None:
        known["evidence"], known["design"] = collected.evidence, collected.evidence.design
        for key in sorted(keys.intersection(OF_ZERO_RUN)) if known["design"] is None else ():
            complain(f"note: {flags[key]} is of use with --design zero-run; no design is declared")
    for key, why, place in unread(keys, source, **known):
        if key != "attack.type" or source not in ("table", "pair"):  # those who read scores refuse it
            raise typer.BadParameter(f"{flags.get(key, flag(key))} would not be used {why}; {place}")

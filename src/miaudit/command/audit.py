"""``miaudit audit``: scores, losses or outputs whose membership is known."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from miaudit.collect.outputs import TOKENS, check_signal
from miaudit.command import folders, options, right_command
from miaudit.command import keys as of_file
from miaudit.command.keys import KEYS, taken
from miaudit.command.options import AboutPairs, BundleOut, Json, Out, Overwrite, Seal, Seed, Share, flag, takes
from miaudit.command.results import BundleWish, check_free, computed, deliver, summary
from miaudit.command.synthetic_table import audit_table
from miaudit.command.terminal import complain, progress
from miaudit.config.about import pairs_of
from miaudit.config.audit import OPTIONS, AnyConfig, AuditConfig, CampaignConfig, TableConfig
from miaudit.config.unread import Source, unread
from miaudit.errors import InputError
from miaudit.io import scored_probes, token_files, token_parquet

if TYPE_CHECKING:
    import numpy as np

    from miaudit.collect.outputs import Collected
    from miaudit.config.assumed import Assumed
    from miaudit.findings.audit import Findings

_FILE_OF = {"loss": "losses", "score": "scores"}  # what the files of a signal are called


@takes(**{name: taken(name) for name in KEYS})
def audit(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A table (.npz, .parquet or .csv), or token-logprobs (.jsonl or .parquet). Several: one for each run "
            "of the same training, with coins of its own, in their order.",
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
    about: AboutPairs = None,
    **_options: Any,
) -> None:
    """Audit scores, losses, logits or probabilities of records whose membership is known.

    miaudit assumes columns that their names and first rows show, and says so. It never assumes how membership was
    decided: without --design there is no verdict. Results go to --out, else to results/audit or the next free number.
    With --json only --out is written.
    """
    import numpy as np

    del about  # among the options that were typed
    request = _Request.of(files or [], options.given(context))
    settings, *others = request.settings()
    target = None if json and out is None else folders.results(out, Path("results/audit"), overwrite=overwrite)
    plan = settings.plan()
    if request.source == "shards" and bundle is not None:
        raise typer.BadParameter("--bundle goes with one file, not with --shards: it holds records")
    if isinstance(settings, TableConfig):
        if bundle is not None:
            raise typer.BadParameter("--bundle goes with scores, not with --synthetic")
        audit_table(settings, Path(), target, seed, overwrite=overwrite, json=json)
    check_free(target, overwrite=overwrite, figures=settings.figures)
    wish = BundleWish.of(bundle, share, seal=seal, overwrite=overwrite, coins="coins" in request.options)
    rng = np.random.default_rng(seed)
    collected = settings.with_sample(_collected(request, settings, others, rng), Path())
    findings = computed(
        *(collected, plan, rng, seed, settings.model),
        bundle=wish,
        words=request.repeated(files),
        about=settings.stated,
    )
    _note_losses(request, collected, findings)
    deliver(
        findings, partial(_text, request, findings), target, overwrite=overwrite, json=json, figures=settings.figures
    )


def _text(request: _Request, findings: Findings) -> str:
    """The audit as lines of text, and the question how membership came about where that is open."""
    return summary(findings) + ("" if findings.design else question(typed=True, besides=request.proposed))


@dataclass(frozen=True)
class _Request:
    """What the command line asks for.

    Attributes
    ----------
    files : that are read; None for two sides, which options name
    typed : options that were typed
    options : these, with those that names of columns show
    assumed : what of that is assumed, or None
    source : what kind of files it is
    """

    files: list[Path | None]
    typed: dict[str, Any]
    options: dict[str, Any]
    assumed: Assumed | None
    source: Source

    @classmethod
    def of(cls, files: list[Path], typed: dict[str, Any]) -> Self:
        """Look at the files for what was not typed; options that nothing reads are refused."""
        if "shards" in typed and (files or {"members", "nonmembers", "synthetic"} & typed.keys()):
            raise typer.BadParameter("--shards stands alone; quote the pattern ('scores/*.parquet')")
        paths, stated, assumed = _seen(files, typed)
        request = cls(paths, typed, stated, assumed, _source(paths[0], stated, stated.get("signal", "score")))
        if len(paths) > 1 and request.source != "table":
            raise typer.BadParameter(f"several files are runs with scores, losses or outputs, not {request.signal}")
        bounds = not stated.get("no_bounds", False)
        _refuse(request.keys, request.source, signal=request.signal, bounds=bounds)
        return request

    @property
    def signal(self) -> str:
        """What the files hold of each record."""
        return str(self.options.get("signal", "score"))

    @property
    def keys(self) -> set[str]:
        """Keys of a configuration file that options say."""
        return {_key(name) for name in self.typed}

    @property
    def proposed(self) -> str:
        """Covariates that may be named with zero-run, as options."""
        return "" if self.source == "shards" else _proposed(self.files[0], self.options)

    def settings(self) -> list[AnyConfig]:
        """Return what a configuration file would say of each file, checked."""
        return [_settings(path, self.options, self.source, self.signal) for path in self.files]

    def repeated(self, files: list[Path] | None) -> list[str] | None:
        """Return the command line with what was assumed; None where nothing was."""
        return None if self.assumed is None else _repeated(self.assumed, self.files[0], files or [])


def _collected(
    request: _Request, settings: AuditConfig | CampaignConfig, others: list[AnyConfig], rng: np.random.Generator
) -> Collected:
    """Read the evidence, and say what was assumed."""
    from miaudit.collect import several_runs

    with progress("rows read and merged", meanwhile="reading") as advance:
        options: dict[str, Any] = {"progress": advance} if isinstance(settings, AuditConfig) else {}
        collected = settings.collect(Path(), rng=rng, **options)
        if others:
            runs = (one for one in others if not isinstance(one, TableConfig))
            collected = several_runs.joined([collected, *(one.collect(Path(), rng=rng) for one in runs)])
    _refuse(request.keys, request.source, collected)
    if request.assumed is not None:
        complain(request.assumed.sentence)
        collected = replace(collected, notes=(*collected.notes, request.assumed.note))
    return collected


def _note_losses(request: _Request, collected: Collected, findings: Findings) -> None:
    """Say where what was named scores looks like losses."""
    from miaudit.auditing import remarks

    auc = next((m for m in findings.metrics if (m.name, m.estimator) == ("auc", "raw")), None)
    note = remarks.looks_like_losses(collected.evidence, None if auc is None else auc.high)
    if note and request.signal == "score":
        complain(f"note: {note}")


def question(*, typed: bool, besides: str = "") -> str:
    """Ask in words how membership came about, with the option, or the key of a file, for each answer.

    ``besides`` goes with zero-run.
    """
    from miaudit.config.assumed import ANSWERS, QUESTION

    sentence = "--design {}" if typed else "evaluation.design: {}"
    width = max(len(answer) for answer, _ in ANSWERS)
    more = {"zero-run": besides}
    lines = [f"  {answer:<{width}}  {sentence.format(design)}{more.get(design, '')}" for answer, design in ANSWERS]
    if typed:
        lines.insert(1, f"  {'yes, with another chance, such as 80%':<{width}}  --design one-run --inclusion 0.8")
    unknown = f"  {'not known':<{width}}  leave it out: numbers stay raw"
    return "\n".join(["", "", QUESTION, *lines, unknown])


def _seen(files: list[Path], typed: dict[str, Any]) -> tuple[list[Path | None], dict[str, Any], Assumed | None]:
    """Return files (None for two sides), options with those that can be seen in the files, and what of that is assumed.

    A file that another command reads is refused.
    """
    from miaudit.config import assumed as columns
    from miaudit.io import roles, tables

    for one in files:
        right_command.check(one, "audit")
    if any(map(scored_probes.holds, files)):
        return list(files), typed, None
    if typed.get("design") == "matched" and len(files) == 1 and files[0].suffix.lower() == ".jsonl":
        scored_probes.read_lines(files[0])  # says which line is not of a probe
    if typed.get("signal", TOKENS) != TOKENS:
        check_signal(typed["signal"])
    if "synthetic" not in typed:
        columns.check_tables(*(typed[name] for name in ("members", "nonmembers") if name in typed))
    paired, read = {"members", "nonmembers"} & typed.keys(), list[Path | None](files) or [None]
    if "synthetic" in typed or typed.get("signal") == TOKENS or (paired and (files or "signal" in typed)):
        return read, typed, None
    if len(paired) == 2:
        assumed = columns.assume_sides(typed["members"], typed["nonmembers"], typed)
    elif len(files) == 1 and "signal" not in typed and token_files.holds(files[0]):
        assumed = columns.Assumed({"signal": TOKENS})
    elif not files or files[0].suffix.lower() not in (*roles.TABLES, *roles.ARRAYS):
        return read, typed, None
    else:
        names = [] if files[0].suffix.lower() == ".npy" else tables.column_names(files[0])
        scores = typed.get("signal", "score") == "score" and bool(roles.saved("score", names))
        # evidence is read by its own names, as long as none is given
        if "member" in typed if "score" in typed else scores and {"member"} & {*typed, *names}:
            return read, typed, None
        named = {name: str(value) for name, value in typed.items()}
        assumed = columns.assume_file(files, {"score": "score", **named} if scores else named)
    assumed = replace(assumed, options={name: value for name, value in assumed.options.items() if name not in typed})
    seen: dict[str, Any] = dict(assumed.options)
    if "score" in seen:
        seen["score"] = [seen["score"]]
    return [None] if "members" in seen else read, {**seen, **typed}, assumed


def _proposed(file: Path | None, stated: dict[str, Any]) -> str:
    """Return covariates that may be named with zero-run, as options: columns of a table that are nothing else."""
    from miaudit.config import assumed

    if {"covariates", "text", "member_covariates", "member_texts"} & stated.keys() or stated.get("signal") == TOKENS:
        return ""
    if file is None:
        return " --member-covariates FILE.npy --nonmember-covariates FILE.npy"
    columns, categories = assumed.covariates(file, stated)
    options = {"--covariates": columns or ["COLUMNS"], "--categories": categories}
    return "".join(f" {name} {shlex.quote(','.join(named))}" for name, named in options.items() if named)


def _repeated(assumed: Assumed, read: Path | None, files: list[Path]) -> list[str]:
    """Return the command line with what was assumed; one file of both classes is named twice, as that of each."""
    both = files if read is None else []
    return [*(word for word in sys.argv[1:] if Path(word) not in both), *assumed.words]


def _source(file: Path | None, stated: dict[str, Any], signal: str) -> Source:
    """Return what the audit reads."""
    sides = [name for name in ("members", "nonmembers") if name in stated]
    pair = len(sides) == 2 and file is None
    if "shards" in stated:
        return "shards"
    if "synthetic" in stated:
        if not pair:
            raise typer.BadParameter("--synthetic goes with --members and --nonmembers, all three tables")
        return "synthetic"
    if pair:
        return "pair"
    if file is None or sides:
        raise typer.BadParameter("give either one FILE, or both --members and --nonmembers")
    if signal == TOKENS:
        return "tokens"
    if scored_probes.holds(file):
        return "probes"
    if file.suffix.lower() == ".parquet" and file.is_file() and token_parquet.holds_tokens(file):
        received = f"{file.name}, which holds the log-probabilities of tokens"
        raise InputError("file", f"columns of {_FILE_OF.get(signal, signal)}", received, "add --signal token-logprobs")
    return "table"


def _settings(file: Path | None, stated: dict[str, Any], source: Source, signal: str) -> AnyConfig:
    """Return what a configuration file would say, checked."""
    content = of_file.content(stated)
    if "about" in stated:
        content["about"] = pairs_of(stated["about"])
    evaluation, attack = content.setdefault("evaluation", {}), content.setdefault("attack", {})
    if "type" in attack:
        attack["type"] = [name.replace("-", "_") for name in attack["type"]]
    if source == "synthetic":
        return of_file.validated(content, TableConfig)
    if source == "tokens":
        del evaluation["signal"]
        return of_file.validated({**content, "target": {"kind": signal}, "data": {"path": str(file)}}, CampaignConfig)
    check_signal(signal)
    if signal != "score":
        attack.setdefault("type", ["loss"])
    if source in ("table", "probes"):
        evaluation["table_path"] = str(file)
    elif source != "shards":
        for side, path in content.pop("synthetic").items():
            kind = _FILE_OF.get(signal, signal)
            evaluation[f"{side.removesuffix('s_path')}_{kind}_path"] = path
    return of_file.validated(content, AuditConfig)


def _key(name: str) -> str:
    """Return the key of a file that an option says, with its section; another option is its own key."""
    return ".".join(KEYS.get(name, (name, ""))[0].split(".")[:2])


def _refuse(keys: set[str], source: Source, collected: Collected | None = None, **known: Any) -> None:
    """Refuse options that nothing reads; of an undeclared design, which may be any, say what goes with which."""
    flags = {_key(name): flag(name) for name in reversed(KEYS)}
    if collected is not None:
        known["evidence"], known["design"] = collected.evidence, collected.evidence.design
        for key in (
            sorted(key for key in keys & OPTIONS.keys() if "zero-run" in OPTIONS[key].applies)
            if known["design"] is None
            else ()
        ):
            complain(f"note: {flags[key]} is of use with --design zero-run; no design is declared")
    for key, why, place in unread(keys, OPTIONS, source, **known):
        if key != "attack.type" or source not in (
            "table",
            "pair",
            "probes",
            "shards",
        ):  # those who read scores refuse it
            raise typer.BadParameter(f"{flags.get(key, flag(key))} would not be used {why}; {place}")

"""The command line: text in, exit code out. Everything it does is a function of the library."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit import __version__
from miaudit.errors import InputError, MiauditError, one_line

if TYPE_CHECKING:
    from miaudit.collect import Attack, Collected
    from miaudit.config import AuditConfig, CampaignConfig
    from miaudit.dp.verdict import Claim
    from miaudit.plan import Bounds, Plan
    from miaudit.report.findings import Bound, Findings

EXIT_CODES = (
    "Exit codes: 0 no concern; 1 could not run; 2 usage; 3 concern, or a claim refuted; 4 no answer (inconclusive, not "
    "testable, refused)."
)
app = typer.Typer(
    name="miaudit",
    help="How much does a model give away about the records it was trained on, and how far can that number be trusted?",
    epilog=f"Start with: miaudit demo. {EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_DESIGNS = {"one-run": "one run", "multi-run": "one model for each record"}
_INPUT, _ZERO_RUN, _VERDICT, _PRIVACY, _OUTPUT = "Input", "Zero-run", "Verdict", "Privacy bounds", "Output"

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for findings.json, report.html and figures/.", rich_help_panel=_OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier audit in that folder.", rich_help_panel=_OUTPUT)
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the findings, and nothing else, to standard output.", rich_help_panel=_OUTPUT),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Seed of everything random; it is written into the findings.", rich_help_panel=_OUTPUT
    ),
]
Fpr = Annotated[
    list[str] | None,
    typer.Option(
        "--fpr",
        help="False-positive rates, repeated or with commas: 0.001,0.01,0.1.",
        rich_help_panel=_VERDICT,
    ),
]
Confidence = Annotated[
    float,
    typer.Option(
        "--confidence", help="Of the two-sided intervals, and one-sided of privacy bounds.", rich_help_panel=_VERDICT
    ),
]
ClaimEpsilon = Annotated[
    float | None,
    typer.Option(help="Somebody claims (epsilon, delta)-DP: is it refuted?", rich_help_panel=_PRIVACY),
]
ClaimDelta = Annotated[
    float | None, typer.Option(help="The delta of that claim; without it, --delta.", rich_help_panel=_PRIVACY)
]
ClaimMu = Annotated[
    float | None, typer.Option(help="Somebody claims mu-Gaussian DP: is it refuted?", rich_help_panel=_PRIVACY)
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say how many models would be trained, for how long and with how much disk, and stop. Without "
        "shadow.seconds_per_fit one is trained for the time. Nothing is written.",
    ),
]
Delta = Annotated[float, typer.Option(help="Of the bound on epsilon.", rich_help_panel=_PRIVACY)]


def main() -> None:
    """Run the command line; errors that the user can mend are one line on standard error and exit code 1."""
    before = {number: signal.signal(number, _interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        app()
    except MiauditError as error:
        _complain(str(error))
        sys.exit(1)
    except MemoryError:
        _complain("out of memory; audit fewer records or columns at a time")
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _complain(f"the operating system refused: {error}")
        sys.exit(1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(number: int, _frame: object) -> None:
    """Stop as the shell expects, but with a line that says what became of the results."""
    _complain("interrupted; no results were written")
    sys.exit(128 + number)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"miaudit {__version__}")
        raise typer.Exit


@app.command(epilog=f"Exit code 0 unless it could not run. {EXIT_CODES}")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results/demo"),
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Audit a classifier trained here and now: handwritten digits, a random half of them members (about 10 seconds)."""
    import numpy as np

    from miaudit import demo as demonstration
    from miaudit.collect import Collected
    from miaudit.report import folder

    folder.check_free(out, overwrite=overwrite)
    rng = np.random.default_rng(seed)
    with _progress("training") as told:
        collected = Collected(demonstration.evidence(rng=rng, progress=told))
    findings = _audit(collected, demonstration.PLAN, rng, seed)
    _deliver(findings, out, overwrite=overwrite, json=json)


@app.command(epilog=EXIT_CODES)
def run(
    config: Annotated[
        Path, typer.Argument(help="A YAML file; docs/configuration.md has every key.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Instead of evaluation.output_dir.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
    dry_run: DryRun = False,
) -> None:
    """Audit what a configuration file describes; its relative paths start at the file itself.

    A file with the section target trains models, or asks the one that is there. An estimator or factory that it
    names is code, and runs: use files that you trust.
    """
    import numpy as np

    from miaudit import config as configuration
    from miaudit.report import folder

    settings = configuration.read(config)
    rng = np.random.default_rng(settings.evaluation.seed)
    if dry_run:
        typer.echo(_forecast(settings, config, rng))
        return
    target = out if out is not None else config.parent / settings.evaluation.output_dir
    folder.check_free(target, overwrite=overwrite)
    collected = _collected(settings, config, rng)
    model = settings.model.model_dump(exclude_none=True)
    findings = _audit(collected, settings.plan(), rng, settings.evaluation.seed, model=model)
    _deliver(findings, target, overwrite=overwrite, json=json)
    raise typer.Exit(findings.exit_code)


@app.command(epilog=f"Exit code 0 unless it could not run. {EXIT_CODES}")
def collect(
    config: Annotated[
        Path, typer.Argument(help="A YAML file; docs/configuration.md has every key.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", help="File for the evidence: .npz, .parquet or .csv.", rich_help_panel=_OUTPUT)
    ] = Path("evidence.npz"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace that file.", rich_help_panel=_OUTPUT)] = False,
    dry_run: DryRun = False,
) -> None:
    """Go from the model or outputs that a configuration file describes to evidence, for miaudit audit.

    An estimator or factory that the file names is code, and runs: use files that you trust.
    """
    import numpy as np

    from miaudit import config as configuration
    from miaudit import tables

    settings = configuration.read(config)
    rng = np.random.default_rng(settings.evaluation.seed)
    if dry_run:
        typer.echo(_forecast(settings, config, rng))
        return
    tables.require_suffix(out, "--out", tables.TABLE_SUFFIXES)
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{out}, which exists", "name another, or add --overwrite")
    collected = _collected(settings, config, rng)
    collected.evidence.save(out)
    lines = [repr(collected.evidence), *(f"Note: {one_line(note)}" for note in collected.notes), f"\nEvidence: {out}"]
    typer.echo("\n".join(lines))


@app.command(epilog=f"Example: miaudit audit scores.npz --score loss --signal loss --member member. {EXIT_CODES}")
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A table: .npz (arrays), .parquet or .csv (columns); .jsonl for token-logprobs.", show_default=False
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Column(s) of the signal; several are corrected for.", rich_help_panel=_INPUT),
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="Column of membership: true/false or 1/0.", rich_help_panel=_INPUT)
    ] = None,
    members: Annotated[
        Path | None, typer.Option(help="Instead of a table: .npy of the members' signal.", rich_help_panel=_INPUT)
    ] = None,
    nonmembers: Annotated[
        Path | None, typer.Option(help="And .npy of the non-members' signal.", rich_help_panel=_INPUT)
    ] = None,
    signal: Annotated[
        str,
        typer.Option(
            help="What the signal is: score (higher: more member-like), loss, logits, probabilities, or "
            "token-logprobs (of texts, one JSON object a line).",
            rich_help_panel=_INPUT,
        ),
    ] = "score",
    labels: Annotated[
        str | None, typer.Option(help="Column of class labels, for logits and probabilities.", rich_help_panel=_INPUT)
    ] = None,
    member_labels: Annotated[
        Path | None, typer.Option(help="The members' labels (.npy), with --members.", rich_help_panel=_INPUT)
    ] = None,
    nonmember_labels: Annotated[
        Path | None, typer.Option(help="The non-members' labels (.npy).", rich_help_panel=_INPUT)
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="From losses: loss, gaussian_lira. From outputs also: logit_confidence, margin, entropy, "
            "modified_entropy. From token-logprobs: loss, min_k, min_k_plus_plus, zlib_ratio, reference_ratio; all "
            "that the file allows by default. Repeat for several; else loss by default.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    covariates: Annotated[
        list[str] | None,
        typer.Option(help="Columns of covariates, repeated or with commas.", rich_help_panel=_ZERO_RUN),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of what each record says: a covariate too.", rich_help_panel=_ZERO_RUN)
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="Covariates that are codes of categories (zero-run).", rich_help_panel=_ZERO_RUN),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Condense the covariates, or texts, into so many components (zero-run).",
            rich_help_panel=_ZERO_RUN,
        ),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Of the corrected AUC and effect (zero-run): hajek or aipw.", rich_help_panel=_ZERO_RUN)
    ] = "hajek",
    unit: Annotated[
        str | None,
        typer.Option(help="Column of units (persons, accounts) that hold several records.", rich_help_panel=_INPUT),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups to report one by one.", rich_help_panel=_INPUT)
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="How membership came about: one-run or multi-run (inclusion was randomised) or zero-run (it was not). "
            "Never guessed.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    fpr: Fpr = None,
    confidence: Confidence = 0.95,
    primary: Annotated[
        str | None, typer.Option(help="Metric of the verdict, e.g. tpr_at_fpr_0.001 or auc.", rich_help_panel=_VERDICT)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Threshold for concern of that metric.", rich_help_panel=_VERDICT)
    ] = None,
    prior: Annotated[
        float, typer.Option(help="Share of members among the accused population.", rich_help_panel=_VERDICT)
    ] = 0.5,
    n_bootstrap: Annotated[
        int, typer.Option(help="Replicates of a bootstrap beside the default intervals.", rich_help_panel=_VERDICT)
    ] = 0,
    headline: Annotated[
        str | None,
        typer.Option(
            help="With several scores: bonferroni (the default), split, exploratory, or the name of one that counts.",
            rich_help_panel=_VERDICT,
        ),
    ] = None,
    raw_only: Annotated[
        bool,
        typer.Option(
            "--raw-only",
            help="Show uncorrected metrics of a refused zero-run audit; no verdict.",
            rich_help_panel=_ZERO_RUN,
        ),
    ] = False,
    claim_epsilon: ClaimEpsilon = None,
    claim_delta: ClaimDelta = None,
    claim_mu: ClaimMu = None,
    mechanism: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file that describes the algorithm (kind: dp-sgd, ...); what it guarantees stands beside the "
            "bounds and, without a claim, is the claim.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    delta: Delta = 1e-5,
    guesses: Annotated[
        str,
        typer.Option(
            help="How many guesses count (one-run, zero-run): pilot, bonferroni, schedule, exploratory or a number.",
            rich_help_panel=_PRIVACY,
        ),
    ] = "pilot",
    correction: Annotated[
        str,
        typer.Option(
            help="Of zero-run bounds for the shift: thinning, conditional or composition.", rich_help_panel=_PRIVACY
        ),
    ] = "thinning",
    margin: Annotated[
        float | None,
        typer.Option(
            help="How far the log-odds of membership may be from the propensities' (zero-run), stated beforehand.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    no_bounds: Annotated[
        bool, typer.Option("--no-bounds", help="Leave privacy parameters alone.", rich_help_panel=_PRIVACY)
    ] = False,
    show_rows: Annotated[
        int, typer.Option(help="Name so many of the most exposed members by row and unit.", rich_help_panel=_OUTPUT)
    ] = 0,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Audit scores, losses, logits or probabilities of records whose membership is known.

    Without --out the results go to results/audit; with --json and no --out nothing is written.
    """
    import numpy as np

    from miaudit import collect as collecting
    from miaudit.plan import headline_named
    from miaudit.report import folder

    plan = _plan(
        fpr,
        confidence=confidence,
        primary_metric=primary,
        threshold_for_concern=threshold,
        prior=prior,
        n_bootstrap=n_bootstrap,
        row_level=show_rows,
        raw_only=raw_only,
        categories=tuple(_names(categories) or ()),
        components=components,
        estimator=estimator,
        bounds=_bounds(
            _claim(claim_epsilon, claim_delta, claim_mu, delta),
            mechanism,
            guesses,
            delta=delta,
            correction=correction,
            margin=margin,
            wanted=not no_bounds,
        ),
    )
    target = out or (None if json else Path("results/audit"))
    if target is not None:
        folder.check_free(target, overwrite=overwrite)
    rng = np.random.default_rng(seed)
    columns = {"score": score, "member": member, "labels": labels, "covariates": covariates}
    columns |= {"text": text, "unit": unit, "group": group}
    tokens = signal == collecting.TOKENS and file is not None
    chosen = None if tokens else _attack(attack, signal)
    if tokens and file is not None and members is None and nonmembers is None:
        _refuse_table_options("the file of token-logprobs has its own keys", **columns)
        named = [name.replace("-", "_") for name in _names(attack) or ()]
        collected = collecting.from_tokens(file, names=named, design=design)
    elif file is not None and members is None and nonmembers is None:
        collected = collecting.from_table(
            file,
            score=_names(score),
            member=member,
            signal=signal,  # type: ignore[arg-type]  # checked there
            labels=labels,
            attack=chosen,
            covariates=_names(covariates),
            text=text,
            unit=unit,
            group=group,
            design=design,
            rng=rng,
        )
    elif file is None and members is not None and nonmembers is not None:
        _refuse_table_options("it does not go with --members and --nonmembers", **columns)
        inside = {"signal": members, **({"labels": member_labels} if member_labels else {})}
        outside = {"signal": nonmembers, **({"labels": nonmember_labels} if nonmember_labels else {})}
        collected = collecting.from_pairs(
            inside,
            outside,
            signal=signal,  # type: ignore[arg-type]
            attack=chosen,
            design=design,
            rng=rng,
        )
    else:
        raise typer.BadParameter("give either one FILE, or both --members and --nonmembers")
    if headline is not None:
        collected = collecting.with_headline(collected, headline_named(headline))
    findings = _audit(collected, plan, rng, seed)
    if signal == "score":
        auc = next((m for m in findings.metrics if (m.name, m.estimator) == ("auc", "raw")), None)
        note = collecting.looks_like_losses(collected.evidence, None if auc is None else auc.high)
        if note:
            _complain(f"note: {note}")
    _deliver(findings, target, overwrite=overwrite, json=json)
    raise typer.Exit(findings.exit_code)


@app.command(epilog="Exit code 0, whatever the findings conclude.")
def report(
    findings: Annotated[Path, typer.Argument(help="A findings.json that miaudit wrote.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the page and figures; default: beside it.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw the page and the figures again from finished findings; nothing is computed."""
    from miaudit.report import findings as reading
    from miaudit.report import folder

    content = reading.read(findings)
    target = out if out is not None else findings.parent
    try:
        folder.rerender(content, target, overwrite=overwrite)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"{findings.name}, whose parts contradict each other ({type(error).__name__}: {error})"
        raise InputError("findings", "findings as miaudit wrote them", problem, "run the audit again") from error
    typer.echo(f"{target / 'report.html'}")


@app.command(epilog="Example: miaudit plan --members 1000 --nonmembers 1000; or: miaudit plan --fpr 0.001 --tpr 0.05")
def plan(
    members: Annotated[int | None, typer.Option(help="Members (or units of members) that you can audit.")] = None,
    nonmembers: Annotated[int | None, typer.Option(help="Non-members that you can audit.")] = None,
    fpr: Fpr = None,
    tpr: Annotated[
        float | None, typer.Option(help="A TPR that you wish to detect: how many records does it need?")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="To tell from this TPR instead of from chance.")] = None,
    confidence: Confidence = 0.95,
    power: Annotated[float, typer.Option(help="Share of such audits that should succeed.")] = 0.8,
    delta: Delta = 1e-5,
    claim_epsilon: ClaimEpsilon = None,
    claim_delta: ClaimDelta = None,
    claim_mu: ClaimMu = None,
    json: Annotated[bool, typer.Option("--json", help="Print plain values.", rich_help_panel=_OUTPUT)] = False,
    seed: Seed = 0,
) -> None:
    """Say what an audit will be able to see, before any data is collected."""
    import json as encoder
    from dataclasses import asdict

    import numpy as np

    from miaudit import resolution

    if (members is None) != (nonmembers is None) or (members is None and tpr is None):
        raise typer.BadParameter("give --members and --nonmembers, or a --tpr to detect, or all three")
    claim = _claim(claim_epsilon, claim_delta, claim_mu, delta)
    if claim is not None and members is None:
        raise typer.BadParameter("a claim is refuted by records: give --members and --nonmembers too")
    targets = _plan(fpr, confidence=confidence).fpr_targets
    if tpr is not None and not min(targets) < tpr < 1:
        raise InputError(
            "--tpr", f"a number above the smallest FPR ({min(targets):g}) and below 1", str(tpr), "change it"
        )
    answer: dict[str, Any] = {"confidence": confidence, "power": power}
    rng = np.random.default_rng(seed)
    if members is not None and nonmembers is not None:
        options: dict[str, Any] = {"confidence": confidence, "power": power, "threshold": threshold}
        answer["targets"] = [
            asdict(resolution.at_fpr(t, members=members, nonmembers=nonmembers, rng=rng, **options)) for t in targets
        ]
        answer["smallest_auc"] = resolution.smallest_auc(members, nonmembers, confidence, power)
        sizes: dict[str, Any] = {"members": members, "nonmembers": nonmembers, "confidence": confidence}
        designs: tuple[resolution.BoundedDesign, ...] = ("one-run", "multi-run")
        answer["bounds"] = [asdict(resolution.reach(design, delta=delta, **sizes)) for design in designs]
        if claim is not None:
            answer["claim"] = [asdict(resolution.refutation(claim, design, **sizes)) for design in designs]
    if tpr is not None:
        answer["needed"] = [
            {
                "fpr": t,
                "tpr": tpr,
                "records_per_class": resolution.records_needed(
                    t, tpr, confidence=confidence, power=power, threshold=threshold, rng=rng
                ),
            }
            for t in targets
            if t < tpr
        ]
    typer.echo(encoder.dumps(answer, indent=1) if json else _plan_text(answer, members, nonmembers, claim))


# -- shared by the commands -------------------------------------------------------------------------------------------


def _collected(settings: AuditConfig | CampaignConfig, config: Path, rng: Any) -> Collected:
    """Evidence of what a configuration describes; code that it names is said before it runs."""
    from miaudit.config import AuditConfig

    if isinstance(settings, AuditConfig):
        return settings.collect(config.parent, rng=rng)
    _announce(settings, config)
    with _progress("models") as told:
        return settings.collect(config.parent, rng=rng, progress=told)


def _announce(settings: CampaignConfig, config: Path) -> None:
    """Let modules beside the configuration file be imported, after saying that their code will run."""
    if settings.user_code:
        _complain(f"note: runs code that came with the model: {one_line(settings.user_code)}")
        folder = str(config.parent.resolve())
        if folder not in sys.path:
            sys.path.append(folder)


def _forecast(settings: AuditConfig | CampaignConfig, config: Path, rng: Any) -> str:
    """Fits, hours and disk of a configuration, and which code it would run."""
    from miaudit import campaign
    from miaudit.config import AuditConfig

    if isinstance(settings, AuditConfig) or settings.target.kind == "token-logprobs":
        return f"{config.name}: 0 fits, no hours, no disk; the outputs are there, and no code of a model runs"
    _announce(settings, config)
    planned = settings.campaign(config.parent)
    found = campaign.cost(planned, rng=rng)
    store = planned.shadows.store
    lines = [f"{config.name}: {planned.target.name}, {planned.records.n:,} records of {planned.records.source}"]
    if found is None:
        lines.append("0 fits, 0 hours, no disk: the model stands as it is")
    else:
        there = f" ({found.reused} more are there)" if found.reused else ""
        place = "in memory" if store is None else "on disk"
        lines.append(
            f"{found.fits} fits{there}, {found.hours:.2g} hours, {found.disk_bytes / 1e6:,.1f} MB {place}; {found.how}"
        )
        again = "no shadow.store: a process that is killed starts again"
        lines.append(again if store is None else f"finished models are kept in {store}")
    lines.append(f"runs code that came with the model: {one_line(settings.user_code) or 'none'}")
    return "\n".join([*lines, "Nothing was written."])


def _audit(collected: Collected, plan: Plan, rng: Any, seed: int, model: dict[str, Any] | None = None) -> Findings:
    from dataclasses import replace

    from miaudit.pipeline import audit as compute

    chosen = plan if collected.headline is None else replace(plan, headline=collected.headline)
    repeat = {"miaudit": __version__, "command": shlex.join(["miaudit", *sys.argv[1:]]), "seed": seed}
    if model:
        repeat["model"] = model
    stages = "propensity, overlap, corrected metrics, challenge, bounds"
    with _progress("bootstrap", meanwhile=stages if collected.evidence.design == "zero-run" else "") as told:
        return compute(collected.evidence, plan=chosen, rng=rng, notes=collected.notes, repeat=repeat, progress=told)


def _deliver(findings: Findings, out: Path | None, *, overwrite: bool, json: bool) -> None:
    """Write the folder, if there is one, and tell standard output."""
    if out is not None:
        from miaudit.report import folder

        folder.write(findings, out, overwrite=overwrite)
    if json:
        typer.echo(findings.to_json(), nl=False)
    else:
        typer.echo(_summary(findings))
        if out is not None:
            typer.echo(f"\nReport: {out / 'report.html'}")


def _summary(findings: Findings) -> str:
    """The verdict and the metrics of the headline score as lines of text."""
    counts, challenge, claim = findings.counts, findings.challenge, findings.claim
    lines = [
        *([one_line(challenge.text)] if challenge is not None and challenge.rejected else []),
        " ".join(text for text in (findings.verdict.text, findings.verdict.besides) if text),
        *([one_line(claim.text)] if claim is not None else []),
        "",
        f"{counts.members:,} members and {counts.nonmembers:,} non-members ({counts.of}); "
        f"design: {findings.design or 'not declared'}; score: {findings.scores[0].score}",
    ]
    for m in findings.metrics:
        value = f"{m.value:.4f}" if m.value is not None else f"<= {m.high:.4f}" if m.high is not None else "-"
        limits = f"[{m.low:.4f}, {m.high:.4f}]" if m.value is not None and m.low is not None else ""
        raw = "raw, not causal" if findings.design == "zero-run" and m.estimator == "raw" else m.estimator
        raw = "" if raw == "raw" else raw
        lines.append(f"  {m.name:<20} {value:>9}  {limits:<18} {'; '.join(t for t in (raw, m.note) if t)}".rstrip())
    if findings.overlap is not None:
        lines += [f"  {one_line(reason)}" for reason in findings.overlap.reasons]
    if findings.memorisation is not None:
        lines += ["", findings.memorisation.sentence]
    lines += _privacy_lines(findings, said=" ".join(lines))
    lines += [f"Note: {one_line(note)}" for note in (*findings.corrections, *findings.notes)]
    return "\n".join(lines)


def _privacy_lines(findings: Findings, said: str) -> list[str]:
    """Bounds on privacy parameters, the challenge that they survived, or why there is none and was not said before."""
    lines = [f"  {_bound_line(bound)}" for bound in findings.bounds]
    challenge = findings.challenge
    if lines and challenge is not None and not challenge.rejected:
        lines.append(f"  {one_line(challenge.text)}")
    if lines:
        return ["Lower bounds on privacy parameters:", *lines]
    if not findings.no_bound:
        return []
    new = [reason for reason in map(one_line, findings.no_bound) if reason.rstrip(".") not in said]
    return [f"No lower bound on privacy parameters: {' '.join(new) or 'for the same reason.'}"]


def _bound_line(bound: Bound) -> str:
    where = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    name = bound.parameter
    shown = f"{name} >= {bound.value:.3g}{where}" if bound.value > 0 else f"{name}{where}: nothing shown"
    sure = "exploratory, at no confidence" if bound.exploratory else f"{100 * bound.confidence:.6g}%"
    details = [sure]
    if bound.correct is not None and bound.guesses is not None:
        details.append(f"{bound.correct:,} of {bound.guesses:,} guesses right")
    if bound.reachable is not None:
        details.append(f"at most {bound.reachable:.3g} could have been shown")
    return f"{shown} ({'; '.join(details)})"


def _plan_text(answer: dict[str, Any], members: int | None, nonmembers: int | None, claim: Claim | None) -> str:
    from miaudit.wording import percent

    lines = []
    if "targets" in answer:
        lines.append(f"With {members:,} members and {nonmembers:,} non-members ({answer['confidence']:.0%} intervals):")
        for t in answer["targets"]:
            if t["smallest_tpr"] is None:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: not resolvable, an upper limit only; "
                    f"needs {t['nonmembers_needed']:,} non-members"
                )
            else:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: a TPR of {percent(t['smallest_tpr'])} or more would be told from "
                    f"{percent(t['against'])} in {answer['power']:.0%} of audits"
                )
            lines.append(f"    without any leakage, the upper limit would be {percent(t['clear_from'])} or less")
        auc = answer["smallest_auc"]
        lines.append(f"  AUC: {auc:.3f} or more would be told from 0.5" if auc < 1 else "  AUC: too few for any")
        lines += _reach_text(answer)
    if claim is not None:
        lines.append(f"Claim: {claim}.")
        lines += [f"  {_refutation_text(found)}" for found in answer["claim"]]
    for wish in answer.get("needed", ()):
        lines.append(
            f"To detect a TPR of {percent(wish['tpr'])} at an FPR of {percent(wish['fpr'])}: "
            f"{wish['records_per_class']:,} members and as many non-members"
        )
    return "\n".join(lines)


def _reach_text(answer: dict[str, Any]) -> Iterator[str]:
    delta = answer["bounds"][0]["delta"]
    yield f"Lower bounds on mu, and on epsilon at delta = {delta:g} ({100 * answer['confidence']:.6g}%, one-sided):"
    for found in answer["bounds"]:
        yield (
            f"  {_DESIGNS[found['design']]}: at most mu {found['mu']:.2f} ({found['mu_guesses']:,} guesses, all right) "
            f"and epsilon {found['epsilon']:.2f}"
        )
        for typical in found["typical"]:
            true = "" if typical["epsilon"] is None else f" (epsilon = {typical['epsilon']:.2f})"
            yield (
                f"    an algorithm with true mu = {typical['mu']:g}{true} would show, with the "
                f"best attack, about mu {typical['mu_shown']:.2f} and epsilon {typical['epsilon_shown']:.2f}"
            )


def _refutation_text(found: dict[str, Any]) -> str:
    design, name = _DESIGNS[found["design"]], found["parameter"]
    if not found["refutable"]:
        return f"{design}: not refutable by so many records, which show at most {name} {found['reachable']:.2f}"
    return (
        f"{design}: refutable, by about {found['correct']:,} of {found['guesses']:,} guesses right "
        f"({found['accuracy']:.1%}), as the best attack on a true mu of {found['true_mu']:.2f} would have"
    )


def _claim(epsilon: float | None, delta: float | None, mu: float | None, usual: float) -> Claim | None:
    """The claim that the options make; an epsilon without a delta of its own is claimed at the usual one."""
    if epsilon is None and mu is None:
        if delta is not None:
            raise typer.BadParameter("--claim-delta goes with --claim-epsilon")
        return None
    if epsilon is not None and mu is not None:
        raise typer.BadParameter("give --claim-epsilon or --claim-mu, not both: a claim is about one parameter")
    if mu is not None and delta is not None:
        raise typer.BadParameter("--claim-delta goes with --claim-epsilon, not with --claim-mu")
    from miaudit.config import claimed

    return claimed(epsilon, usual if delta is None else delta, mu)


def _bounds(
    claim: Claim | None, mechanism: Path | None, guesses: str, *, wanted: bool, **options: Any
) -> Bounds | None:
    """What is asked of privacy bounds, or None where none are wanted."""
    from miaudit.dp import guesses as counting
    from miaudit.plan import Bounds

    if not wanted:
        if claim is not None or mechanism is not None:
            raise typer.BadParameter("--no-bounds leaves nothing to judge a claim or a mechanism by: give one of them")
        return None
    described = None
    if mechanism is not None:
        from miaudit.config import read_mechanism

        described = read_mechanism(mechanism)
    return Bounds(claim=claim, mechanism=described, guesses=counting.named(guesses), **options)


def _plan(fpr: list[str] | None, **options: Any) -> Plan:
    from miaudit.plan import Plan

    if fpr is None:
        return Plan(**options)
    targets = []
    for text in _names(fpr) or ():
        try:
            targets.append(float(text))
        except ValueError as error:
            raise InputError("--fpr", "numbers in (0, 1)", repr(text), "write 0.001,0.01,0.1") from error
    return Plan(fpr_targets=tuple(targets), **options)


def _attack(names: list[str] | None, signal: str) -> Attack | None:
    from miaudit.collect import Attack

    if names is None:
        return None if signal == "score" else Attack()
    return Attack(tuple(name.replace("-", "_") for name in _names(names) or ()))


def _names(values: list[str] | None) -> list[str] | None:
    """Split repeated and comma-separated names."""
    if values is None:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def _refuse_table_options(reason: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} names a column of a table; {reason}")


@contextmanager
def _progress(stage: str, *, meanwhile: str = "") -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error while work goes on; nothing where that is no terminal.

    ``meanwhile`` names the work that is not counted: it shows, with a moving bar, before and after what is.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(stage, total=None, visible=False)
        uncounted = bar.add_task(meanwhile, total=None, visible=bool(meanwhile))

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=done < total or not meanwhile)
            bar.update(uncounted, visible=bool(meanwhile) and done >= total)

        yield told


def _complain(text: str) -> None:
    if sys.stderr is not None:
        print(f"miaudit: {text}", file=sys.stderr)  # noqa: T201

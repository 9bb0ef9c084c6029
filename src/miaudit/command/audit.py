"""``miaudit audit``: scores, losses or outputs whose membership is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from miaudit.command import options, summary, unread_options
from miaudit.command.examination import BundleWish, computed
from miaudit.command.options import (
    INPUT,
    OUTPUT,
    PRIVACY,
    SYNTHETIC,
    VERDICT,
    ZERO_RUN,
    BundleOut,
    ClaimDelta,
    ClaimEpsilon,
    ClaimMu,
    Confidence,
    Delta,
    Fpr,
    Json,
    Out,
    Overwrite,
    Seal,
    Seed,
    Share,
    names,
)
from miaudit.command.results import check_free, deliver
from miaudit.command.terminal import complain

if TYPE_CHECKING:
    from miaudit.auditing.plan import Plan
    from miaudit.collect.outputs import Attack


def audit(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A table: .npz (arrays), .parquet or .csv (columns); .jsonl for token-logprobs.", show_default=False
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Column(s) of the signal; several are corrected for.", rich_help_panel=INPUT),
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="Column of membership: true/false or 1/0.", rich_help_panel=INPUT)
    ] = None,
    members: Annotated[
        Path | None, typer.Option(help="Instead of a table: .npy of the members' signal.", rich_help_panel=INPUT)
    ] = None,
    nonmembers: Annotated[
        Path | None, typer.Option(help="And .npy of the non-members' signal.", rich_help_panel=INPUT)
    ] = None,
    signal: Annotated[
        str,
        typer.Option(
            help="What the signal is: score (higher: more member-like), loss, logits, probabilities, or "
            "token-logprobs (of texts, one JSON object a line).",
            rich_help_panel=INPUT,
        ),
    ] = "score",
    labels: Annotated[
        str | None, typer.Option(help="Column of class labels, for logits and probabilities.", rich_help_panel=INPUT)
    ] = None,
    member_labels: Annotated[
        Path | None, typer.Option(help="The members' labels (.npy), with --members.", rich_help_panel=INPUT)
    ] = None,
    nonmember_labels: Annotated[
        Path | None, typer.Option(help="The non-members' labels (.npy).", rich_help_panel=INPUT)
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="From losses: loss, gaussian_lira. From outputs also: logit_confidence, margin, entropy, "
            "modified_entropy. From token-logprobs: loss, min_k, min_k_plus_plus, zlib_ratio, reference_ratio; all "
            "that the file allows by default. Repeat for several; else loss by default.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    covariates: Annotated[
        list[str] | None,
        typer.Option(help="Columns of covariates, repeated or with commas.", rich_help_panel=ZERO_RUN),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of what each record says: a covariate too.", rich_help_panel=ZERO_RUN)
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="Covariates that are categories: codes or text (zero-run).", rich_help_panel=ZERO_RUN),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Condense the covariates, or texts, into so many components (zero-run).",
            rich_help_panel=ZERO_RUN,
        ),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Of the corrected AUC and effect (zero-run): hajek or aipw.", rich_help_panel=ZERO_RUN)
    ] = "hajek",
    unit: Annotated[
        str | None,
        typer.Option(
            help="Column of units (persons, accounts) that hold several records; with --synthetic one of members and "
            "non-members, which no attack sees.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups to report one by one.", rich_help_panel=INPUT)
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="How membership came about: one-run or multi-run (inclusion was randomised) or zero-run (it was not). "
            "Never guessed: without it there is no answer.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    synthetic: Annotated[
        Path | None,
        typer.Option(
            help="A synthetic table (.csv, .parquet), audited against --members and --nonmembers of the same kind.",
            rich_help_panel=SYNTHETIC,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Its columns (YAML); without it they are inferred from the synthetic table.", rich_help_panel=SYNTHETIC
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(help="Columns that an attacker would guess; default: all.", rich_help_panel=SYNTHETIC),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(help="Columns that the attacker knows; default: the others.", rich_help_panel=SYNTHETIC),
    ] = None,
    records: Annotated[
        int,
        typer.Option(help="At most so many members and others are attacked by distances.", rich_help_panel=SYNTHETIC),
    ] = 5000,
    fpr: Fpr = None,
    confidence: Confidence = 0.95,
    primary: Annotated[
        str | None, typer.Option(help="Metric of the verdict, e.g. tpr_at_fpr_0.001 or auc.", rich_help_panel=VERDICT)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Threshold for concern of that metric.", rich_help_panel=VERDICT)
    ] = None,
    prior: Annotated[
        float, typer.Option(help="Share of members among the accused population.", rich_help_panel=VERDICT)
    ] = 0.5,
    n_bootstrap: Annotated[
        int, typer.Option(help="Replicates of a bootstrap beside the default intervals.", rich_help_panel=VERDICT)
    ] = 0,
    headline: Annotated[
        str | None,
        typer.Option(
            help="With several scores: bonferroni (the default), split, exploratory, or the name of one that counts.",
            rich_help_panel=VERDICT,
        ),
    ] = None,
    raw_only: Annotated[
        bool,
        typer.Option(
            "--raw-only",
            help="Show uncorrected metrics of a refused zero-run audit; no verdict.",
            rich_help_panel=ZERO_RUN,
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
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    delta: Delta = 1e-5,
    guesses: Annotated[
        str,
        typer.Option(
            help="How many guesses count (one-run, zero-run): pilot, bonferroni, schedule, exploratory or a number.",
            rich_help_panel=PRIVACY,
        ),
    ] = "pilot",
    correction: Annotated[
        str,
        typer.Option(
            help="Of zero-run bounds for the shift: thinning, conditional or composition.", rich_help_panel=PRIVACY
        ),
    ] = "thinning",
    margin: Annotated[
        float | None,
        typer.Option(
            help="How far the log-odds of membership may be from the propensities' (zero-run), stated beforehand.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    no_bounds: Annotated[
        bool, typer.Option("--no-bounds", help="Leave privacy parameters alone.", rich_help_panel=PRIVACY)
    ] = False,
    show_rows: Annotated[
        int, typer.Option(help="Name so many of the most exposed members by row and unit.", rich_help_panel=OUTPUT)
    ] = 0,
    out: Out = None,
    bundle: BundleOut = None,
    share: Share = "all",
    seal: Seal = False,
    overwrite: Overwrite = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Audit scores, losses, logits or probabilities of records whose membership is known.

    Without --out the results go to results/audit; with --json and no --out nothing is written.
    """
    import numpy as np

    from miaudit.auditing.plan import headline_named
    from miaudit.collect import outputs as collecting

    given = unread_options.given(context)
    kind = _kind(file, members, nonmembers, synthetic, signal)
    unread_options.refuse_unread(given, kind, signal)
    plan = options.plan(
        fpr,
        confidence=confidence,
        primary_metric=primary,
        threshold_for_concern=threshold,
        prior=prior,
        n_bootstrap=n_bootstrap,
        row_level=show_rows,
        raw_only=raw_only,
        categories=tuple(names(categories) or ()),
        components=components,
        estimator=estimator,
        bounds=options.bounds(
            options.claim(claim_epsilon, claim_delta, claim_mu, delta),
            mechanism,
            guesses,
            delta=delta,
            correction=correction,
            margin=margin,
            wanted=not no_bounds,
        ),
    )
    target = out or (None if json else Path("results/audit"))
    if synthetic is not None and members is not None and nonmembers is not None:
        if bundle is not None:
            raise typer.BadParameter("--bundle goes with scores, not with --synthetic")
        _audit_table(
            synthetic,
            members,
            nonmembers,
            plan,
            threshold,
            secret,
            known,
            records,
            schema=schema,
            unit=unit,
            design=design,
            out=target,
            overwrite=overwrite,
            json=json,
            seed=seed,
        )
    check_free(target, overwrite=overwrite)
    wish = BundleWish.of(bundle, share, seal=seal, overwrite=overwrite)
    rng = np.random.default_rng(seed)
    columns = {"score": score, "member": member, "labels": labels, "covariates": covariates}
    columns |= {"text": text, "unit": unit, "group": group}
    chosen = None if kind == unread_options.TOKENS else _chosen(attack, signal)
    if kind == unread_options.TOKENS and file is not None:
        _refuse_table_options("the file of token-logprobs has its own keys", **columns)
        named = [name.replace("-", "_") for name in names(attack) or ()]
        collected = collecting.from_tokens(file, names=named, design=design)
    elif file is not None:
        collected = collecting.from_table(
            file,
            score=names(score),
            member=member,
            signal=signal,  # type: ignore[arg-type]  # checked there
            labels=labels,
            attack=chosen,
            covariates=names(covariates),
            text=text,
            unit=unit,
            group=group,
            categories=names(categories) or (),
            design=design,
            rng=rng,
        )
    else:
        assert members is not None and nonmembers is not None  # noqa: S101 - by the kind
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
    unread_options.refuse_of_design(given, collected.evidence)
    if headline is not None:
        collected = collecting.with_headline(collected, headline_named(headline))
    findings = computed(collected, plan, rng, seed, bundle=wish)
    if signal == "score":
        auc = next((m for m in findings.metrics if (m.name, m.estimator) == ("auc", "raw")), None)
        note = collecting.looks_like_losses(collected.evidence, None if auc is None else auc.high)
        if note:
            complain(f"note: {note}")
    deliver(findings, lambda: summary.text(findings), target, overwrite=overwrite, json=json)


def _kind(file: Path | None, members: Path | None, nonmembers: Path | None, synthetic: Path | None, signal: str) -> str:
    """What the audit reads, as :mod:`miaudit.command.unread_options` calls it."""
    pair = members is not None and nonmembers is not None and file is None
    if synthetic is not None:
        if not pair:
            raise typer.BadParameter("--synthetic goes with --members and --nonmembers, all three tables")
        return unread_options.SYNTHETIC
    if pair:
        return unread_options.PAIR
    if file is None or members is not None or nonmembers is not None:
        raise typer.BadParameter("give either one FILE, or both --members and --nonmembers")
    return unread_options.TOKENS if signal == "token-logprobs" else unread_options.TABLE


def _chosen(wanted: list[str] | None, signal: str) -> Attack | None:
    from miaudit.collect.outputs import Attack

    if wanted is None:
        return None if signal == "score" else Attack()
    return Attack(tuple(name.replace("-", "_") for name in names(wanted) or ()))


def _audit_table(
    synthetic: Path,
    members: Path,
    nonmembers: Path,
    plan: Plan,
    threshold: float | None,
    secret: list[str] | None,
    known: list[str] | None,
    records: int,
    **rest: Any,
) -> NoReturn:
    """Audit a synthetic table; the threshold is then of a difference in success, which no metric of the plan has."""
    from dataclasses import replace

    from miaudit.command.synthetic_table import audit_files

    chosen: dict[str, Any] = {"records": records}
    if threshold is not None:
        chosen["threshold"], plan = threshold, replace(plan, threshold_for_concern=None)
    for name, columns in (("secrets", secret), ("known", known)):
        if columns is not None:
            chosen[name] = tuple(names(columns) or ())
    audit_files(synthetic, members, nonmembers, plan=plan, **rest, **chosen)


def _refuse_table_options(reason: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} names a column of a table; {reason}")

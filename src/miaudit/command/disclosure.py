"""``miaudit disclosure``: what each way to release a model's outputs gives away, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command import folders
from miaudit.command.options import INSTEAD, DryRun, Json, Limit, NoFigures, Overwrite
from miaudit.command.results import announce, check_free, deliver, forecast, kept, repeat
from miaudit.command.terminal import progress, say
from miaudit.errors import one_line
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import written

if TYPE_CHECKING:
    from miaudit.config.disclosure import DisclosureConfig
    from miaudit.defences.trial import Trial
    from miaudit.findings.disclosure import DisclosureFindings


def disclosure(
    config: Annotated[Path, typer.Argument(help="A YAML file; docs/disclosure.md has every key.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help=INSTEAD)] = None,
    limit: Limit = None,
    overwrite: Overwrite = False,
    json: Json = False,
    no_figures: NoFigures = False,
    dry_run: DryRun = False,
) -> None:
    """Compare what probabilities, one confidence, a set of labels or a label give an attacker, and defences with them.

    Trains shadow models, which pass through each defence too. An estimator or factory that the file names is code, and
    runs: use files that you trust.
    """
    import numpy as np

    from miaudit.config import disclosure as disclosure_config

    settings = disclosure_config.read(config, limit or ())
    rng = np.random.default_rng(settings.evaluation.seed)
    if dry_run:
        say(_forecast(settings, config, rng))
        return
    target = folders.results(out, config.parent / settings.evaluation.output_dir, overwrite=overwrite)
    figures = settings.reporting.get("figures", True) and not no_figures
    check_free(target, overwrite=overwrite, figures=figures)
    announce(settings.user_code, config)
    findings = replace(_found(settings, settings.trial(config.parent), rng), about=settings.stated)
    deliver(findings, lambda: _summary(findings), target, overwrite=overwrite, json=json, figures=figures)


def _found(settings: DisclosureConfig, trial: Trial, rng: Any) -> DisclosureFindings:
    from miaudit.defences import drivers
    from miaudit.defences import findings as defence_findings
    from miaudit.defences import trial as trying

    evaluation, section, limits = settings.evaluation, settings.disclosure, settings.plan
    measuring, theory, resampling = rng.spawn(3)
    with progress("models and defences") as advance:
        comparison = trying.measure(
            trial,
            fpr_targets=limits.rates,
            confidence=evaluation.confidence,
            rng=measuring,
            progress=advance,
        )
    with progress("theory", meanwhile="prediction beside measurement"):
        predictions, sentence = defence_findings.predicted(
            comparison.measured[0].option.models, law=section.law, confidence=evaluation.confidence, rng=theory
        )
    measured = {one.option.name: one for one in comparison.measured}
    with progress("", meanwhile="what drives it"):
        findings = drivers.drivers(
            measured[section.release], comparison.measured[0], confidence=evaluation.confidence, rng=resampling
        )
    notes = list(sentence)
    if settings.user_code:
        notes.append(f"Code that came with the model was run: {settings.user_code}.")
    model = settings.model
    return defence_findings.findings(
        comparison,
        release=section.release,
        policy=limits.policy,
        tolerance=section.tolerance,
        declared=trial.records.member is None or evaluation.design is not None,
        drivers=findings,
        predictions=predictions,
        notes=notes,
        plan={
            "fpr_targets": settings.attack.fpr_targets,
            "confidence": evaluation.confidence,
            "limits": limits.to_dict()["limits"],
            "release": section.release,
            "queries": section.queries,
            "law": section.law,
            "tolerance": section.tolerance,
            "calibration": trial.source,
        },
        source=trial.records.source,
        target=trial.target.name,
        repeat=repeat(seed=evaluation.seed, **({"model": model} if model else {})),
    )


def _forecast(settings: DisclosureConfig, config: Path, rng: Any) -> str:
    """Fits, time and disk of each training, and which code would run."""
    from functools import reduce

    from miaudit.defences import trial as trying

    announce(settings.user_code, config)
    trial = settings.trial(config.parent)
    with progress("", meanwhile="one fit of each training, for the time"):
        costs = trying.cost(trial, rng=rng.spawn(3)[0])
    lines = [f"{config.name}: {trial.target.name}, {trial.records.n:,} records of {trial.records.source}"]
    lines += [f"  {name}: {cost}" for name, cost in costs.items()]
    whole = reduce(lambda cost, more: cost.beside(more, ""), costs.values())
    place = "in memory" if trial.shadows.store is None else "on disk"
    lines.append(f"{whole.said} {place}; {len(trial.names())} options are compared")
    lines += [kept(trial.shadows.store), *([read] if (read := settings.data.features(config.parent)) else [])]
    return "\n".join([*lines, *forecast(settings.user_code)])


def _summary(findings: DisclosureFindings) -> str:
    """The verdict, the recommendation and a line for each option."""
    counts = findings.counts
    lines = [
        findings.verdict.text,
        *findings.verdict.even_so,
        findings.recommendation,
        *findings.parts,
        "",
        f"{counts.members:,} members and {counts.nonmembers:,} non-members; {counts.shadow_models} shadow models; "
        f"released: {findings.release}",
        f"  {'':<44} {'AUC':>5}  {'interval':<14}  {'guess right':>11}  {'limits':<9}  off the AUC, interval for all",
    ]
    for one in findings.options:
        auc, gain = one.leakage["auc"], one.reduction
        sentence = ""
        if gain is not None:
            low, high = written(gain.low, "+.3f", "down"), written(gain.high, "+.3f", "up")
            sentence = f"{gain.value:+.3f} [{low}, {high}] {one.effect}"
        lines.append(
            f"  {one_line(one.words)[:44]:<44} {auc.value:>5.3f}  "
            f"[{amount('auc', auc.low, 'down')}, {amount('auc', auc.high, 'up')}]  "
            f"{one.accuracy.value:>11.3f}  {one.within:<9}  {sentence}".rstrip()
        )
    lines += [f"Note: {one_line(note)}" for note in findings.notes]
    return "\n".join(lines)

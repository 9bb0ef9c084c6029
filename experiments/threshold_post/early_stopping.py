"""What a network leaks along its training, and what early stopping by the loss on held-out records changes.

The paper: "Stopping before the model fully converges on the training set prevents the deep memorisation that drives the
loss gap. The cost is some training loss - you leave accuracy on the table. The tradeoff ... requires ablation to
determine." It has no numbers; this is that ablation. Shadow models are trained exactly as the targets.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networks
import numpy as np

import miaudit as ma
from miaudit.attacks import lira
from miaudit.auditing.headline import Declared
from miaudit.metrics.classical import Sample, tpr_name
from miaudit.models import shadow
from miaudit.models.train_config import EarlyStopping

STOPPED, NINE_TENTHS = "early stopping", "nine tenths"
PAIRED = ("accuracy", "lira_auc", "lira_tpr", "loss_auc")


@dataclass(frozen=True, eq=False)
class Design:
    """Records, and who learns what: fair coins for the targets (T, n), balanced halves for the shadows (M, n)."""

    x: np.ndarray
    y: np.ndarray
    targets: np.ndarray
    shadows: np.ndarray

    @classmethod
    def draw(cls, settings: Mapping[str, Any], data: Path, rng: np.random.Generator) -> Design:
        x, y = networks.records(settings, data, rng)
        coins = rng.random((settings["targets"], len(y))) < 0.5
        return cls(x, y, coins, shadow.inclusion(len(y), settings["shadows"], rng=rng))

    @property
    def member(self) -> np.ndarray:
        """Who is a member of which model (T + M, n), the targets first."""
        return np.vstack([self.targets, self.shadows])


def measured(settings: Mapping[str, Any], data: Path, seed: int) -> dict[str, Any]:
    """Train and attack at each number of epochs, with early stopping, and to the end on nine tenths of the records."""
    start, rng = time.process_time(), np.random.default_rng([seed, 7])
    design, last = Design.draw(settings, data, rng), settings["epochs"][-1]
    share = settings["stopping"]["share"]
    nine_tenths = design.member & (rng.random(design.member.shape) >= share)
    rows = [point(f"{epochs}", design, design.member, settings, seed, epochs=epochs) for epochs in settings["epochs"]]
    stopping = EarlyStopping(**settings["stopping"])
    rows += [
        point(STOPPED, design, design.member, settings, seed, epochs=last, early_stopping=stopping),
        point(NINE_TENTHS, design, nine_tenths, settings, seed, epochs=last),
    ]
    of = {row["stop"]: row for row in rows}
    return {
        "data": settings["data"],
        "records": len(design.y),
        "targets": settings["targets"],
        "shadows": settings["shadows"],
        "points": rows,
        "stopped_less_last": less(of[STOPPED], of[f"{last}"]),
        "stopped_less_nine_tenths": less(of[STOPPED], of[NINE_TENTHS]),
        "tuning": tuning(settings, data, seed),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def point(
    stop: str, design: Design, learned: np.ndarray, settings: Mapping[str, Any], seed: int, **changed: Any
) -> dict[str, Any]:
    """Train targets and shadow models one way, and audit: members are all records that a model was given.

    Constant rates make the models of fewer epochs the earlier states of those of more: seeds are the same.
    """
    target = networks.network(design.x, design.y, settings, **changed)
    outputs = shadow.train(target, design.x, design.y, learned, seed=seed)
    outputs = replace(outputs, included=design.member)
    count, fprs = settings["targets"], settings["fprs"]
    right = np.array([outputs.model(m).argmax(axis=1) == design.y for m in range(count)])
    statistic = outputs.signal("logit_confidence").astype(np.float64)
    shadows, included = statistic[:, count:], design.shadows.T
    scores = {
        "lira": np.column_stack([lira.online(one, shadows, included) for one in statistic[:, :count].T]),
        "loss": -np.logaddexp(0.0, -statistic[:, :count]),
    }
    member = design.targets
    each = {
        "accuracy": [float(r[~m].mean()) for r, m in zip(right, member, strict=True)],
        **_of_each(scores, member, fprs[-1]),
    }
    return {
        "stop": stop,
        "accuracy": [float(right[member].mean()), float(right[~member].mean())],
        **audited(scores, member, fprs, f"{settings['data']}, {stop}", np.random.default_rng(seed)),
        "of_each_target": each,
    }


def _of_each(scores: Mapping[str, np.ndarray], member: np.ndarray, fpr: float) -> dict[str, list[float]]:
    """AUCs and TPRs target by target: what is compared in pairs."""
    curves = {
        name: [Sample.of(ma.Evidence(score=s, member=m)).roc for s, m in zip(score.T, member, strict=True)]
        for name, score in scores.items()
    }
    return {
        "lira_auc": [float(roc.auc) for roc in curves["lira"]],
        "lira_tpr": [float(roc.tpr_at(fpr)) for roc in curves["lira"]],
        "loss_auc": [float(roc.auc) for roc in curves["loss"]],
    }


def audited(
    scores: Mapping[str, np.ndarray], member: np.ndarray, fprs: list[float], source: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Audit all targets at once, one below the other; a record that several were asked about is one unit."""
    targets, n = member.shape
    evidence = ma.Evidence(
        score={name: values.ravel() for name, values in scores.items()},
        member=member.T.ravel(),
        unit=np.repeat(np.arange(n), targets),
        design="one-run",
        source=source,
    )
    names = [tpr_name(fpr) for fpr in fprs]
    plan = ma.Plan(fpr_targets=tuple(fprs), primary_metric=names[0], headline=Declared("lira"), bounds=None)
    findings = ma.audit(evidence, plan=plan, rng=rng)
    found = {one.score: networks.triples(one, ["auc", *names]) for one in findings.scores}
    return {**found, "verdict": findings.verdict.status, "level": findings.verdict.level}


def less(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, networks.Triple]:
    """Return the differences of two ways of training, paired over targets of the same coins and first weights."""
    one, other = first["of_each_target"], second["of_each_target"]
    return {name: networks.mean_with_limits(np.array(one[name]) - np.array(other[name])) for name in PAIRED}


def tuning(settings: Mapping[str, Any], data: Path, seed: int) -> list[dict[str, Any]]:
    """Accuracy on records never seen at several learning rates, with other coins and seeds than the audit has."""
    rng, own, last = np.random.default_rng([seed, 8]), settings["tuning"], settings["epochs"][-1]
    x, y = networks.records(settings, data, rng)
    coins = rng.random((own["targets"], len(y))) < 0.5
    rows = []
    for rate in own["rates"]:
        found = {}
        for stop, stopping in (("end", None), ("stopped", EarlyStopping(**settings["stopping"]))):
            target = networks.network(x, y, settings, learning_rate=rate, epochs=last, early_stopping=stopping)
            outputs = shadow.train(target, x, y, coins, seed=seed + 1)
            right = [outputs.model(m).argmax(axis=1) == y for m in range(len(coins))]
            low, value, high = networks.mean_with_limits(
                np.array([r[~m].mean() for r, m in zip(right, coins, strict=True)])
            )
            found[stop] = max(low, 0.0), value, min(high, 1.0)
        rows.append({"rate": rate, **found})
    return rows


def differences(found: Mapping[str, Any], settings: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold: a leak that rises along training, and early stopping that lowers it."""
    problems = []
    points = {row["stop"]: row for row in found["points"]}
    aucs = [points[f"{epochs}"]["lira"]["auc"] for epochs in settings["epochs"]]
    if aucs[-1][0] <= aucs[0][2]:
        problems.append(f"the AUC of LiRA does not rise along training: {aucs}")
    for name, metrics in expected["falls"].items():
        for metric in metrics:
            if found[name][metric][2] >= 0:
                problems.append(f"{name}, {metric}: {networks.signed(found[name][metric])}, expected to be below 0")
    rates = {row["rate"]: row["end"][1] for row in found["tuning"]}
    own = rates[settings["recipe"]["learning_rate"]]
    if own < max(rates.values()) - expected["accuracy_of_the_best_rate_within"]:
        problems.append(f"the learning rate is not tuned: accuracy {own:.3f}, of the best {max(rates.values()):.3f}")
    return problems


def table(found: Mapping[str, Any]) -> list[str]:
    """Everything measured, as lines of markdown."""
    fprs = [name for name in found["points"][0]["lira"] if name != "auc"]
    heads = " | ".join(f"TPR at {100 * float(name.rpartition('_')[2]):g}% FPR, LiRA" for name in fprs)
    lines = [
        f"| {found['data']}: epochs | accuracy on members; others | AUC, loss | AUC, LiRA | {heads} | verdict |",
        "|---|---|---|---|" + "---|" * len(fprs) + "---|",
    ]
    for row in found["points"]:
        inside, outside = row["accuracy"]
        tprs = " | ".join(networks.cell(row["lira"][name]) for name in fprs)
        verdict = f"{row['verdict']}, {row['level']}" if row["level"] else row["verdict"]
        auc, loss = networks.cell(row["lira"]["auc"]), networks.cell(row["loss"]["auc"])
        lines.append(f"| {row['stop']} | {inside:.3f}; {outside:.3f} | {loss} | {auc} | {tprs} | {verdict} |")
    lines += [
        "",
        f"| {found['data']}: early stopping less | accuracy on others | AUC, LiRA | TPR at 1% FPR, LiRA | AUC, loss |",
        "|---|---|---|---|---|",
    ]
    last = [row["stop"] for row in found["points"] if row["stop"].isdigit()][-1]
    for name, words in (
        ("stopped_less_last", f"{last} epochs"),
        ("stopped_less_nine_tenths", f"{last} epochs on nine tenths"),
    ):
        lines.append(f"| {words} | {' | '.join(networks.signed(found[name][metric]) for metric in PAIRED)} |")
    lines += [
        "",
        f"| {found['data']}: learning rate | accuracy on others after {last} epochs | with early stopping |",
        "|---|---|---|",
    ]
    for row in found["tuning"]:
        lines.append(f"| {row['rate']:g} | {networks.cell(row['end'])} | {networks.cell(row['stopped'])} |")
    return lines

"""One AUC of 0.60, a TPR of nearly nothing and one of 15%: networks trained here, each attacked in two ways.

The paper names the pair ("An AUC of 0.60 can be consistent with TPR@0.1%FPR of nearly zero ... or with ... 15%+") and
trains nothing. Here about a sixth of the records are canaries: noise, with labels by chance. The network learns those
that it is given by heart and hardly overfits on the others. The loss then clears canaries that were not learned, which
is separation at high FPRs; LiRA accuses those that were, which is separation at low ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networks
import numpy as np

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.metrics.classical import Sample, tpr_name

CONTROLS = 200


def measured(settings: Mapping[str, Any], data: Path, seed: int) -> list[dict[str, Any]]:
    """Train, attack and audit every target of the settings: a row for each of its attacks."""
    rows = []
    for name, own in settings["targets"].items():
        rows += attacked(name, own, settings["fpr"], data, np.random.default_rng([seed, sum(name.encode())]))
    return rows


def attacked(
    name: str, own: Mapping[str, Any], fpr: float, data: Path, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Draw who is a member, train target and shadow models, and audit each attack by itself."""
    start = time.process_time()
    x, y = networks.records(own, data, rng)
    x, y, canary = networks.with_canaries(x, y, share=own["canaries"], scale=own.get("scale", 1.0), rng=rng)
    kinds = np.where(canary, "canary", "other")
    campaign = Campaign(
        networks.network(x, y, own),
        Records(x, y, None, {"group": kinds}, own["data"]),
        attacks=tuple(own["attacks"]),
        shadows=Shadows(models=own["shadows"], vulnerability=False),
    )
    evidence = collect(campaign, rng=rng).evidence
    trained = time.process_time() - start
    names = ["auc", tpr_name(fpr)]
    rows = []
    for attack, claim in own["attacks"].items():
        plan = ma.Plan(fpr_targets=(fpr,), primary_metric=names[1], headline=Declared(attack), bounds=None)
        one = evidence.only(attack)
        findings = ma.audit(one, plan=plan, rng=rng)
        auc, tpr = networks.triples(findings.scores[0], names).values()
        rows.append(
            {
                "target": name,
                "attack": attack,
                "claim": claim,
                "members": int(one.member.sum()),
                "nonmembers": int((~one.member).sum()),
                "fpr": fpr,
                "auc": auc,
                "tpr": tpr,
                "verdict": findings.verdict.status,
                "level": findings.verdict.level,
                "auc_by_kind": {str(kind): _auc(one, kinds == kind) for kind in np.unique(kinds)},
                "control": control(one.score, rng),
                "cpu_seconds": round(trained, 1),
            }
        )
    return rows


def control(score: np.ndarray, rng: np.random.Generator) -> float:
    """Share of the AUC's intervals that hold one half where coins that no model saw stand for membership."""
    held = 0
    for _ in range(CONTROLS):
        coins = ma.Evidence(score=score, member=rng.random(len(score)) < 0.5)
        auc = Sample.of(coins).auc(networks.CONFIDENCE)
        held += auc.low <= 0.5 <= auc.high
    return held / CONTROLS


def _auc(evidence: ma.Evidence, rows: np.ndarray) -> float:
    return float(Sample.of(ma.Evidence(score=evidence.score[rows], member=evidence.member[rows])).roc.auc)


def differences(rows: list[dict[str, Any]], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of the claim: one AUC, and TPRs that lie apart."""
    problems = []
    for row in rows:
        low, high = expected["auc_between"]
        if not low <= row["auc"][1] <= high:
            problems.append(f"{row['target']}, {row['attack']}: the AUC is {row['auc'][1]:.3f}, not {low} to {high}")
        if row["control"] < expected["control_above"]:
            problems.append(
                f"{row['target']}, {row['attack']}: {row['control']:.0%} of the control's intervals hold 0.5"
            )
        most, least = expected["little_at_most"], expected["much_at_least"]
        if row["claim"] == "little" and row["tpr"][2] > most * row["fpr"]:
            problems.append(f"{row['target']}, {row['attack']}: the TPR may be {row['tpr'][2]:.4f}")
        if row["claim"] == "much" and row["tpr"][0] < least:
            problems.append(f"{row['target']}, {row['attack']}: the TPR may be no more than {row['tpr'][0]:.3f}")
        if (row["verdict"] == "flagged") != (row["claim"] == "much"):
            problems.append(f"{row['target']}, {row['attack']}: the verdict is {row['verdict']}")
    return problems


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Everything measured, as lines of markdown."""
    rate = f"TPR at {100 * rows[0]['fpr']:g}% FPR"
    lines = [
        f"| target, attack | AUC | {rate} | verdict | AUC among canaries; others | control |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = f"{row['verdict']}, {row['level']}" if row["level"] else row["verdict"]
        kinds = "; ".join(f"{auc:.3f}" for auc in row["auc_by_kind"].values())
        cells = " | ".join(
            [networks.cell(row["auc"]), networks.cell(row["tpr"], 4), verdict, kinds, f"{row['control']:.3f}"]
        )
        lines.append(f"| {row['target']}, {row['attack']} | {cells} |")
    return lines

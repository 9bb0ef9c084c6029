"""Bayesian learning and adversarial samples beside the other defences, on networks trained here.

``python experiments/uncertainty_mia/trainings.py --data ../shared/data`` takes about ten minutes on a free core. Models
are kept in ``--out``, so the same command again goes on where it stopped. The table goes to ``trainings.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from trained import READ

from miaudit.collect.campaign import Shadows
from miaudit.collect.records import Records
from miaudit.defences import registry
from miaudit.defences.compare import DefenceComparison
from miaudit.defences.ensemble import Ensemble
from miaudit.defences.laplace import LastLayerLaplace
from miaudit.defences.swag import Swag
from miaudit.defences.trial import Trial, measure
from miaudit.io import atomic
from miaudit.metrics.classical import tpr_name
from miaudit.models import nets
from miaudit.models.protocol import Target
from miaudit.models.torch_target import TorchTarget
from miaudit.models.train import Adversarial, TrainConfig

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/uncertainty_mia/trainings")


def target(own: Mapping[str, Any], change: Mapping[str, Any]) -> Target:
    """Make the network of a data set, trained otherwise if asked for."""
    training = dict(change.get("training", {}))
    if "adversarial" in training:
        training["adversarial"] = Adversarial(**training["adversarial"])
    built = nets.mlp(**own["network"])
    base = TorchTarget(built, TrainConfig(**{**own["recipe"], **training}, device="cpu"), called="network")
    if "bayesian" in change:
        return LastLayerLaplace(base, **change["bayesian"])
    if "swag" in change:
        return Swag(base, **change["swag"])
    return Ensemble(base, **change["ensemble"]) if "ensemble" in change else base


def compared(name: str, settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure every defence on one data set."""
    own, rng = settings["data"][name], np.random.default_rng(settings["seed"])
    x, y = READ[name](options.data)
    rows = rng.permutation(len(y))[: settings["records"]]
    trial = Trial(
        target(own, {}),
        Records(x[rows].reshape(len(rows), -1), y[rows], None, {}, name),
        Shadows(models=settings["models"], store=options.out / "models" / options.form / name),
        defences={registry.named(*pair): registry.make(*pair) for pair in settings["measures"]},
        trainings={called: target(own, change) for called, change in settings["trainings"].items()},
    )
    found = measure(
        trial,
        rng=rng,
        progress=lambda done, total: print(f"\r{name}: {done} of {total}    ", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    return {"records": len(found.measured[0].attacked.scores), "options": rows_of(found)}


def rows_of(comparison: DefenceComparison) -> dict[str, Any]:
    """Leakage and accuracy of each option, and what it takes off and costs, with 95% limits."""
    rows = {}
    for i, one in enumerate(comparison.measured):
        kinds = {"auc": one.leakage["auc"], "tpr": one.leakage[tpr_name(0.01)], "accuracy": one.accuracy}
        rows[one.option.name] = {kind: [each.low, each.value, each.high] for kind, each in kinds.items()}
        rows[one.option.name]["group"] = one.option.group
        for kind, family in (("reduction", comparison.reductions), ("cost", comparison.costs)):
            each = family[i - 1] if i else None
            rows[one.option.name][kind] = None if each is None else [each.low, each.value, each.high]
    return rows


def table(name: str, row: Mapping[str, Any]) -> list[str]:
    """Everything measured on one data set, as markdown."""
    lines = [
        f"{name}: {row['records']} audited records",
        "",
        "| defence | AUC | TPR at 1% | accuracy | taken off the AUC |",
    ]
    lines[-1] += " accuracy lost |"
    lines.append("|---|---|---|---|---|---|")
    for called, one in row["options"].items():
        cells = [cell(one[kind]) for kind in ("auc", "tpr", "accuracy")]
        cells += [cell(one[kind], "+") for kind in ("reduction", "cost")]
        lines.append(f"| {called} | {' | '.join(cells)} |")
    return [*lines, ""]


def cell(one: Sequence[float | None] | None, sign: str = "") -> str:
    """A value with its limits; nothing where there is none."""
    if one is None or one[1] is None:
        return ""
    low, value, high = one
    return f"{value:{sign}.3f} ({low:{sign}.3f} to {high:{sign}.3f})"


def differences(found: Mapping[str, Any]) -> list[str]:
    """Return measures on outputs that seem to give away more than the outputs; a training may."""
    problems = []
    for name, row in found.items():
        plain = row["options"]["as-it-is"]["auc"]
        for called, one in row["options"].items():
            if one["group"] == "output" and one["auc"][0] > plain[2]:
                problems.append(f"{name}: {called} gives away more than the outputs as they are")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds mnist/")
    parser.add_argument("--form", choices=("tiny", "small"), default="small")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    settings = yaml.safe_load((HERE / "trainings.yaml").read_text())[options.form]
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name in settings["data"]:
        found[name] = compared(name, settings, options)
        shown = "\n".join(line for part, row in found.items() for line in table(part, row))
        atomic.write_text(options.out / f"{options.form}.json", json.dumps(found, indent=1) + "\n")
        atomic.write_text(options.out / f"{options.form}.md", shown)
    print(shown)
    problems = differences(found)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

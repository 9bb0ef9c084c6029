"""LiRA against the raw loss on location30, mnist and cifar10; weight decay, the cost of DP, and published scores.

``python experiments/lira/run.py --data ../shared/data`` runs the small form in minutes on 2 cores; ``--full`` is for a
GPU. Models are kept in ``--out``, so the same command again goes on where it stopped. Results go to
``results/experiments/lira`` and are compared with ``expected.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attack
import claims
import numpy as np
import published
import yaml
from training import Machine, World, train

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/lira")
PUBLISHED = "published"


def run(name: str, settings: Mapping[str, Any], options: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """All that is asked of one data set."""
    seed = settings["seed"]
    rng = np.random.default_rng([seed, sum(name.encode())])
    if name == PUBLISHED:
        return published.measured(options.data, None if options.numbers_only else options.out, rng)
    own = settings["worlds"][name]
    world, found, start = World.load(name, options.data, {**own, "seed": seed}), {}, time.perf_counter()
    if "lira" in options.parts:
        trained = train(world, machine, shadows=own["shadows"], targets=own["targets"], seed=seed)
        pages = None if options.numbers_only else options.out
        found["lira"] = attack.measured(trained, models=own["audited_with"], pages=pages, rng=rng)
    if "weight-decay" in options.parts and "weight_decay" in own:
        found["weight_decay"] = claims.weight_decay(world, machine, own["weight_decay"], seed)
    if "private" in options.parts and "private" in own:
        found["private"] = claims.private(world, machine, own["private"], seed)
    return {**found, "seconds": round(time.perf_counter() - start, 1)}


def key(name: str, settings: Mapping[str, Any]) -> str:
    """Digest of what decides the numbers of one data set."""
    decides = json.dumps([settings["seed"], settings["worlds"].get(name)], sort_keys=True)
    return hashlib.sha256(decides.encode()).hexdigest()[:12]


def earlier(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What runs with these very settings left in found.json, perhaps on another machine."""
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text())
    return {name: row for name, row in rows.items() if row.get("settings") == key(name, settings)}


# -- what is expected -------------------------------------------------------------------------------------------------


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what expected.json says."""
    problems = []
    for name, row in found.items():
        if name == PUBLISHED:
            problems += published_differences(row, expected[PUBLISHED])
            continue
        if "lira" in row:
            problems += lira_differences(name, row["lira"], expected["lira"])
        if "weight_decay" in row:
            problems += decay_differences(name, row["weight_decay"], expected["weight_decay"])
        if "private" in row:
            problems += private_differences(name, row["private"], expected["private"])
    return problems


def lira_differences(name: str, row: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    audit, problems = row["audit"], []
    loss, best = (audit[score]["tpr_at_fpr_0.01"] for score in ("loss", "lira_online"))
    enough = row["audited_with"] >= expected["apart_from_shadows"]
    if enough and name in expected["apart"] and not attack.apart(best, loss):
        problems.append(f"{name}: TPR at 1% FPR of LiRA {best}, of the loss {loss}: the intervals overlap")
    if audit["lira_online"]["auc"][1] < audit["loss"]["auc"][1]:
        problems.append(f"{name}: the AUC of LiRA is below that of the loss")
    return problems


def decay_differences(name: str, rows: list[dict[str, Any]], expected: Mapping[str, Any]) -> list[str]:
    low, high = expected["accuracy_gain_above"], expected["tpr_ratio_above"]
    problems = []
    for row in rows[1:]:
        gain = np.mean(row["accuracy"]["nonmembers"]) - np.mean(rows[0]["accuracy"]["nonmembers"])
        if gain < low:
            problems.append(f"{name}, weight decay {row['decay']:g}: accuracy changes by {gain:+.3f}")
    best = max(ratio(rows, "lira"))
    if best < high:
        problems.append(f"{name}: weight decay lowers the TPR at 0.1% FPR by at most {best:.2f}")
    return problems


def ratio(rows: list[dict[str, Any]], score: str) -> list[float]:
    """How many times the TPR at 0.1% FPR without weight decay is that with it, for each weight decay."""
    base = rows[0]["tpr_0.001"][score]
    return [base / max(row["tpr_0.001"][score], 1e-9) for row in rows[1:]]


def private_differences(name: str, row: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    problems = []
    for one in row["private"]:
        low, _, high = one["cost"]
        if high < expected["cost_above"]:
            problems.append(f"{name}, epsilon {one['epsilon']:.2f}: accuracy costs {low:.3f} to {high:.3f}")
        if one["loss"]["auc"][0] > expected["auc_low_at_most"]:
            problems.append(f"{name}, epsilon {one['epsilon']:.2f}: the AUC of the loss is {one['loss']['auc']}")
    return problems


def published_differences(row: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    problems = [f"published: LiRA on each record said {row['lira_refused']!r}"] * any(
        words not in row["lira_refused"] for words in expected["lira_refusal_says"]
    )
    for defence, auc in expected["loss_auc"].items():
        if abs(row[defence]["loss"]["auc"][1] - auc) > 5e-4:
            problems.append(f"published, {defence}: the AUC of the loss is {row[defence]['loss']['auc'][1]}, not {auc}")
        for score in ("shadow_classifier", "shadow_classifier_per_class"):
            low, high = expected["shadow_classifier_auc"][defence]
            if not low <= row[defence][score]["auc"][1] <= high:
                problems.append(f"published, {defence}: the AUC of {score} is {row[defence][score]['auc'][1]:.4f}")
    return problems


# -- tables -----------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Everything measured, as markdown."""
    lines = []
    for name, row in found.items():
        if name == PUBLISHED:
            lines += [*published_table(row), ""]
        for part, drawn in (("lira", lira_table), ("weight_decay", decay_table), ("private", private_table)):
            if part in row:
                lines += [*drawn(name, row[part]), ""]
    return "\n".join(lines)


def lira_table(name: str, row: Mapping[str, Any]) -> list[str]:
    inside, outside = (np.mean(row["accuracy"][who]) for who in ("members", "nonmembers"))
    lines = [
        f"{name}: {row['records']:,} records, {row['targets']} targets, accuracy {inside:.3f} on members and "
        f"{outside:.3f} on others; {row['leaking_records']} records leak (Holm, 5%)",
        "",
        "| score | shadow models | AUC | TPR at 1% FPR | TPR at 0.1% FPR |",
        "|---|---|---|---|---|",
    ]
    for score, counts in row["scores"].items():
        lines += [f"| {score} | {count} | {_cells(one)} |" for count, one in counts.items()]
    lines += [f"| {score}, audit | {row['audited_with']} | {_cells(one)} |" for score, one in row["audit"].items()]
    return lines


def decay_table(name: str, rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"| {name}: weight decay | accuracy on others | TPR at 0.1% FPR, LiRA | times lower | "
        "TPR at 1% FPR, LiRA | AUC of the loss |",
        "|---|---|---|---|---|---|",
    ]
    for row, times in zip(rows, [1.0, *ratio(rows, "lira")], strict=True):
        best, loss = row["scores"]["lira"], row["scores"]["loss"]
        lines.append(
            f"| {row['decay']:g} | {np.mean(row['accuracy']['nonmembers']):.3f} | {row['tpr_0.001']['lira']:.3f} "
            f"({best['tpr_at_fpr_0.001'][0]:.3f} to {best['tpr_at_fpr_0.001'][2]:.3f}) | {times:.1f} | "
            f"{_cell(best['tpr_at_fpr_0.01'])} | {_cell(loss['auc'])} |"
        )
    return lines


def private_table(name: str, row: Mapping[str, Any]) -> list[str]:
    plain = row["plain"]
    lines = [
        f"| {name}: epsilon at delta {row['delta']:g} | accuracy on others | cost in points | AUC of the loss |",
        "|---|---|---|---|",
        f"| none | {np.mean(plain['accuracy']['nonmembers']):.3f} | | {_cell(plain['loss']['auc'])} |",
    ]
    for one in row["private"]:
        low, value, high = (100 * limit for limit in one["cost"])
        lines.append(
            f"| {one['epsilon']:.2f} (noise {one['noise']:.2f}) | {np.mean(one['accuracy']['nonmembers']):.3f} | "
            f"{value:.1f} ({low:.1f} to {high:.1f}) | {_cell(one['loss']['auc'])} |"
        )
    return lines


def published_table(row: Mapping[str, Any]) -> list[str]:
    lines = ["| published scores | AUC | TPR at 1% FPR | TPR at 10% FPR |", "|---|---|---|---|"]
    for defence in ("undefended", "memguard"):
        lines += [
            f"| {defence}, {score} | {' | '.join(_cell(one[metric]) for metric in published.SHOWN)} |"
            for score, one in row[defence].items()
        ]
    return [*lines, "", f"LiRA on each record: {row['lira_refused']}"]


def _cells(metrics: Mapping[str, Any]) -> str:
    return " | ".join(_cell(metrics[name]) for name in ("auc", "tpr_at_fpr_0.01", "tpr_at_fpr_0.001"))


def _cell(limits: Any) -> str:
    low, value, high = limits
    return f"at most {high:.3f}" if value is None else f"{value:.3f} ({low:.3f} to {high:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds location30/")
    parser.add_argument("--full", action="store_true", help="all records and the larger networks, for a GPU")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--only", nargs="+", help=f"data sets, or {PUBLISHED}; default all of the form")
    parser.add_argument("--parts", nargs="+", choices=("lira", "weight-decay", "private"))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--workers", type=int, help="processes that train side by side")
    parser.add_argument("--at-once", type=int, help="models stacked into one, on a GPU")
    parser.add_argument("--numbers-only", action="store_true", help="no pages and figures: needs no altair")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    form = options.form or ("full" if options.full else "small")
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[form]
    options.parts = options.parts or ["lira", "weight-decay", "private"]
    names = options.only or [*settings["worlds"], PUBLISHED]
    for name in names:
        if name not in (*settings["worlds"], PUBLISHED):
            parser.error(f"--only: expected {', '.join(settings['worlds'])} or {PUBLISHED}, received {name}")
    workers, at_once = options.workers or settings["workers"], options.at_once or settings["at_once"]
    machine = Machine(options.out / "models" / form, options.device, workers, at_once)
    options.out.mkdir(parents=True, exist_ok=True)
    found = earlier(options.out / "found.json", settings)
    for name in names:
        found[name] = {**found.get(name, {}), **run(name, settings, options, machine), "settings": key(name, settings)}
        # After each data set, so that what is done is there if the next one is interrupted.
        (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    if not options.numbers_only:
        import figures  # noqa: PLC0415 - altair is not everywhere where models are trained

        figures.draw(found, options.out)
    print(table(found))
    problems = differences(found, json.loads((HERE / "expected.json").read_text()))
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

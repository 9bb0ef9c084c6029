"""What each attack on texts adds to the loss, on language models trained here on documents that coins chose.

``python experiments/text_attacks/run.py --data ../shared/data`` runs the small form in some minutes of CPU; ``--full``
larger models, longer texts and more trainings. Every training is kept as soon as it is whole: the same command goes on
where it was stopped, and with ``--only`` several processes can train for one table. Results go to
``results/experiments/text_attacks`` and are compared with ``expected.json``; with ``--docs
experiments/text_attacks/gains.md`` the tables go into that page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import corpora
import gains
import numpy as np
import torch
import trained
import yaml

from miaudit.attacks import tokens
from miaudit.io import atomic

sys.path.insert(0, str(Path(__file__).parents[1]))
from causal_synthesis.kept import Kept, place

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/text_attacks")
MARKS = ("<!-- table: experiments/text_attacks/run.py --docs -->", "<!-- end of the table -->")
MARKS_TPR = ("<!-- table of the TPR: experiments/text_attacks/run.py --docs -->", MARKS[1])
LEAST = 0.01  # an attack whose gain is at most this much of the AUC does not add


def scores_of(
    name: str, number: int, settings: Mapping[str, Any], data: Path, kept: Kept, only: str = ""
) -> dict[str, tuple[dict[str, np.ndarray], np.ndarray]]:
    """Scores of every regime on one corpus, (trainings, n) by attack, with who was trained on (trainings, n).

    ``only`` : what the names of the settings must contain.
    """
    seed = np.random.SeedSequence([settings["seed"], number])
    corpus = corpora.drawn(name, settings, data, np.random.default_rng(seed.spawn(1)[0]))
    bench = trained.Bench(corpus, settings, seed)
    made_of = {key: value for key, value in settings.items() if key not in ("corpora", "regimes", "trainings")}
    found = {}
    for at, (regime, options) in enumerate(settings["regimes"].items()):
        if only not in f"{name}, {regime}":
            continue
        rows = []
        for training in range(settings["trainings"]):
            rng = np.random.default_rng([settings["seed"], number, at, training])
            member = rng.random(len(corpus.audited)) < 0.5

            def made(
                member: np.ndarray = member, rng: np.random.Generator = rng, options: Mapping[str, Any] = options
            ) -> dict[str, np.ndarray]:
                return {**bench.outputs(bench.trained(options, member, rng)), "member": member}

            part = f"{name}, {regime}: {training}"
            rows.append(kept.arrays(part, {**made_of, **options, "training": training}, made))
            print(f"\r{part}", end="\n" if training + 1 == settings["trainings"] else "", file=sys.stderr, flush=True)
        outputs = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        found[f"{name}, {regime}"] = trained.with_shadows(outputs), outputs["member"]
    return found


def measured(scores: Mapping[str, np.ndarray], member: np.ndarray, seed: int) -> dict[str, Any]:
    """One setting: what each attack gains, and what a coin drawn afresh would have gained (the control)."""
    of = gains.compared(scores, member, np.random.default_rng(seed), default=tokens.DEFAULT)
    rng = np.random.default_rng(seed + 1)
    fresh = gains.compared(scores, rng.random(member.shape) < 0.5, rng, default=tokens.DEFAULT)
    inside = int(member[0].sum())
    costs = gains.price(of["loss"]["auc"]["mean"].value, inside, member.shape[1] - inside, len(tokens.DEFAULT))
    return {
        "price": costs,
        "attacks": {name: _plain(row) for name, row in of.items()},
        "control": {name: _plain(row)["auc"] for name, row in fresh.items()},
    }


def _plain(row: Mapping[str, Mapping[str, gains.Gain]]) -> dict[str, dict[str, dict[str, float]]]:
    return {metric: {kind: asdict(value) for kind, value in part.items()} for metric, part in row.items()}


# -- what is concluded ------------------------------------------------------------------------------------------------


def adds(row: Mapping[str, Any], costs: float = 0.0) -> str:
    """What one setting shows of an attack: adds, takes, does not add (at most .01), or not shown."""
    if row["low"] > costs:
        return "adds"
    if row["high"] < 0:
        return "takes"
    return "does not" if row["high"] < LEAST else "not shown"


def concluded(found: Mapping[str, Any], name: str) -> str:
    """An attack over all settings: what most show of its AUC against that of the loss, and of the best default."""
    on_loss = [adds(part["attacks"][name]["auc"]["on loss"], part["price"]) for part in found.values()]
    said = next((word for word in ("adds", "takes", "does not") if on_loss.count(word) > len(found) / 2), "not shown")
    text = f"{said} ({on_loss.count('adds')} of {len(found)} add, {on_loss.count('takes')} take)"
    best = [part["attacks"][name]["auc"].get("on best") for part in found.values()]
    if None in best:
        return text
    beyond = sum(adds(row, part["price"]) == "adds" for row, part in zip(best, found.values(), strict=True))
    return f"{text}; beyond the best of the default in {beyond}"


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what expected.json says."""
    problems = []
    for setting, part in found.items():
        least = expected["loss_auc_above"][setting.split(", ", 1)[1]]
        if part["attacks"]["loss"]["auc"]["mean"]["low"] <= least:
            problems.append(f"{setting}: the AUC of the loss is not above {least}")
        for name, row in part["control"].items():
            if "on loss" in row and not row["on loss"]["low"] <= 0 <= row["on loss"]["high"]:
                problems.append(f"{setting}: {name} adds to the loss where coins are drawn afresh")
    for name in expected["adds"]:
        if not concluded(found, name).startswith("adds"):
            problems.append(f"{name}: {concluded(found, name)}")
    return problems


# -- tables -----------------------------------------------------------------------------------------------------------


def gains_table(found: Mapping[str, Any], metric: str) -> str:
    """Gains on the loss as markdown, a row for each attack and a column for each setting."""
    names = [name for name in next(iter(found.values()))["attacks"] if name != "loss"]
    lines = [f"| | {' | '.join(found)} | {'conclusion |' if metric == 'auc' else ''}"]
    lines.append("|---" * (len(found) + 1 + (metric == "auc")) + "|")
    own = [_cell(part["attacks"]["loss"][metric]["mean"], "") for part in found.values()]
    lines.append(f"| `loss` itself | {' | '.join(own)} |{' |' if metric == 'auc' else ''}")
    for name in names:
        cells = [_cell(part["attacks"][name][metric]["on loss"], "+") for part in found.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |{f' {concluded(found, name)} |' if metric == 'auc' else ''}")
    return "\n".join(line.rstrip() for line in lines)


def means_table(found: Mapping[str, Any]) -> str:
    """AUC and TPR of every attack with intervals of 95%, one setting after the other."""
    lines = ["| setting | attack | AUC | TPR at 1% FPR | TPR at 10% FPR |", "|---|---|---|---|---|"]
    for setting, part in found.items():
        for name, row in part["attacks"].items():
            cells = " | ".join(_cell(row[metric]["mean"], "") for metric in gains.METRICS)
            lines.append(f"| {setting} | `{name}` | {cells} |")
    return "\n".join(lines)


def _cell(row: Mapping[str, float], sign: str) -> str:
    value, low, high = (_short(row[key], sign) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _short(value: float, sign: str) -> str:
    return format(value, f"{sign}.3f").replace("0.", ".")


def pages(found: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """What goes between each pair of marks: gains in AUC, and in TPR at 1% FPR."""
    price = max(part["price"] for part in found.values())
    auc = (
        f"AUC of the loss (95%), and what each attack adds to it (95% for all attacks of a setting at once), over "
        f"{settings['trainings']} trainings of {settings['audited']} documents. An attack *adds* where the lower limit "
        f"is above the price of one score more ({price:.4f} at most).\n\n{gains_table(found, 'auc')}\n"
    )
    return {MARKS: auc, MARKS_TPR: f"The same of the TPR at 1% FPR:\n\n{gains_table(found, 'tpr@0.01')}\n"}


def insert(path: Path, texts: Mapping[tuple[str, str], str]) -> None:
    """Put each table whose two marks stand in a page between them."""
    page = path.read_text(encoding="utf-8")
    for (begin, end), text in texts.items():
        before, mark, rest = page.partition(begin)
        if mark:
            page = f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"
    atomic.write_text(path, page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds wikimia/")
    parser.add_argument("--full", action="store_true", help="larger models, longer texts, more trainings")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, help="put the tables into this page, between its marks")
    parser.add_argument("--only", default="", help='train for these settings only ("wikimia, fine-tuned"), no tables')
    options = parser.parse_args()
    form = options.form or ("full" if options.full else "small")
    settings = yaml.safe_load((HERE / "config.yaml").read_text(encoding="utf-8"))[form]
    torch.set_num_threads(1)
    out = place(options.out, form)
    found = {}
    for number, name in enumerate(settings["corpora"]):
        scored = scores_of(name, number, settings, options.data, Kept(out / "parts"), options.only)
        if not options.only:
            found |= {setting: measured(*both, settings["seed"]) for setting, both in scored.items()}
    if options.only:
        return 0
    atomic.write_text(out / "found.json", json.dumps(found, indent=1) + "\n")
    tables = [means_table(found), *(f"{metric}\n\n{gains_table(found, metric)}" for metric in gains.METRICS)]
    atomic.write_text(out / "tables.md", "\n\n".join(tables) + "\n")
    made = pages(found, settings)
    print("\n".join(made.values()))
    if options.docs:
        insert(options.docs, made)
    problems = differences(found, json.loads((HERE / "expected.json").read_text(encoding="utf-8"))[form])
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

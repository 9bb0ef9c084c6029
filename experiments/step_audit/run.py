"""Audit the zoo of DP-SGD loops, the right ones, and simulated steps; write the tables of README.md.

python experiments/step_audit/run.py                         # small: 8 trainings of each loop, minutes on one core
python experiments/step_audit/run.py --full --docs experiments/step_audit/README.md   # 12 of each, 200 right ones
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from miaudit.dp import step_audit
from miaudit.dp.mechanism import GaussianNoise, PoissonSubsampled, Repeated
from miaudit.errors import InputError
from miaudit.io import atomic
from miaudit.models.step_canaries import StepCanaries
from miaudit.models.train import Private, TrainConfig, fit

from replayed import cells, compared  # isort: skip
from step_audit.zoo import ZOO, Loop, Setting  # isort: skip

LADDER = (1, 2, 5, 10, 20, 40, 80, 160)
SEVERAL = 4
ALLOWED = {200: 16}  # audits of right loops that may lie above the claim, by how many there are
STEPS, RATE, NOISE, CANARIES = 10, 0.2, 1.0, 500


# -- the zoo -----------------------------------------------------------------------------------------------------------


def audited(loop: Loop, trainings: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return from how many steps a loop is refuted, by one run and by four, and from how many a check names it."""
    runs = [loop.train(rng) for _ in range(trainings)]
    groups = [runs[i : i + SEVERAL] for i in range(0, trainings - SEVERAL + 1, SEVERAL)]
    found: dict[str, Any] = {"bug": loop.name, "met": loop.met, "why": loop.why, "named": _named(loop, runs[0])}
    for key, sets, enough in (
        ("one", [[run] for run in runs], math.ceil(0.9 * trainings)),
        ("several", groups, len(groups)),
    ):
        found[key] = None
        for steps in (count for count in LADDER if count <= loop.setting.steps):
            refuted = sum(_refuted(loop, each, steps, rng) for each in sets)
            found[f"{key}_refuted"] = refuted / len(sets)
            if refuted >= enough:
                found[key] = steps
                break
    return found


def _first(run: step_audit.Released, steps: int) -> step_audit.Released:
    """Return what the first steps released: an audit that ended there."""
    joined, again = (None if part is None else part[:steps] for part in (run.joined, run.again))
    return step_audit.Released(run.sums[:steps], run.coins, joined, again)


def _refuted(loop: Loop, runs: list[step_audit.Released], steps: int, rng: np.random.Generator) -> bool:
    first = [_first(run, steps) for run in runs]
    return step_audit.audit(first, loop.setting.claim(steps), sampling=False, rng=rng).refuted


def _named(loop: Loop, run: step_audit.Released) -> str:
    """Return the first number of steps at which a check of the description names the bug, and which check."""
    if loop.mixes:
        return "the network is refused"
    for steps in (count for count in LADDER if count <= len(run.sums)):
        claimed = step_audit.Steps.of(loop.setting.claim(steps))
        first = _first(run, steps)
        if step_audit.strange_noise(first, claimed):
            return f"noise, {steps}"
        try:
            step_audit.check_sampling(first, claimed)
        except InputError:
            return f"sampling, {steps}"
    return ""


# -- loops that are right ----------------------------------------------------------------------------------------------


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def _natural(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, 8)).astype("float32"), rng.integers(0, 2, n)


def plain(rng: np.random.Generator) -> step_audit.Released:
    """Return what the plain loop of the zoo releases."""
    return replace(ZOO[0], setting=Setting(steps=STEPS, rate=RATE, noise=NOISE, canaries=CANARIES)).train(rng)


def ours(rng: np.random.Generator) -> step_audit.Released:
    """Return what miaudit's own DP-SGD releases."""
    n = round(10 * CANARIES)
    x, y = _natural(rng, n - CANARIES // 2)
    canaries = StepCanaries(_net(), x, y, count=CANARIES, clip=1.0, rng=rng)
    records, labels = canaries.data.tensors
    private = Private(noise=NOISE, clip=1.0, delta=1e-5, records=n)
    config = TrainConfig(batch=round(RATE * n), epochs=round(STEPS * RATE), learning_rate=0.1, private=private)
    fit(lambda: canaries.model, config, records, labels.numpy(), np.arange(len(records)), seed=int(rng.integers(2**31)))
    return canaries.released(divided_by=RATE * n)


def by_opacus(rng: np.random.Generator) -> step_audit.Released:
    """Return what Opacus releases, its optimiser and data loader as they are."""
    from opacus import PrivacyEngine  # noqa: PLC0415 - an extra

    x, y = _natural(rng, 750)
    canaries = StepCanaries(_net(), x, y, count=CANARIES, clip=1.0, rng=rng)
    optimiser = canaries.follow(torch.optim.SGD(canaries.model.parameters(), lr=0.1))
    # the rate of Opacus is one over the number of batches, the last one counted whole
    loader = torch.utils.data.DataLoader(canaries.data, batch_size=math.ceil(RATE * len(canaries.data)))
    model, private, loader = PrivacyEngine().make_private(
        module=canaries.model, optimizer=optimiser, data_loader=loader, noise_multiplier=NOISE, max_grad_norm=1.0
    )
    steps = 0
    while steps < STEPS:
        for records, labels in loader:
            if steps < STEPS:
                private.zero_grad()
                nn.functional.cross_entropy(model(records), labels).backward()
                private.step()
                steps += 1
    return canaries.released(divided_by=private.expected_batch_size)


def right(make: Callable[[np.random.Generator], step_audit.Released], audits: int, seed: int) -> dict[str, Any]:
    """Audit a right loop so often; return how often it was refuted, and how much of the claim was shown."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    claim = Repeated(PoissonSubsampled(GaussianNoise(NOISE), RATE), STEPS)
    found = [step_audit.audit(make(rng), claim, rng=rng) for _ in range(audits)]
    return {
        "loop": {plain: "a plain loop", by_opacus: "Opacus", ours: "miaudit's own"}[make],
        "audits": audits,
        "refuted": sum(one.refuted for one in found),
        "strange": sum(bool(one.strange) for one in found),
        "share": float(np.mean([one.share for one in found])),
        "above": sum(one.share > 1 for one in found),
    }


# -- how much of a claim is shown --------------------------------------------------------------------------------------


def shown(audits: int, rng: np.random.Generator, *, steps: int = 4) -> list[dict[str, Any]]:
    """Simulate right steps of all records: the mean share of the claim shown, and audits above it."""
    rows = []
    for mu in (0.5, 1.0, 2.0):
        noise = math.sqrt(steps) / mu
        for canaries in (1_000, 5_000):
            for runs in (1, SEVERAL):

                def once(noise: float = noise, canaries: int = canaries) -> step_audit.Released:
                    coins = rng.random(canaries) < 0.5
                    return step_audit.Released(coins + noise * rng.normal(size=(steps, canaries)), coins)

                claim = Repeated(GaussianNoise(noise), steps)
                found = [step_audit.audit([once() for _ in range(runs)], claim, rng=rng) for _ in range(audits)]
                share = float(np.mean([one.share for one in found]))
                above = sum(one.refuted for one in found)
                rows.append({"mu": mu, "canaries": canaries, "runs": runs, "share": share, "above": above})
    return rows


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables as Markdown, by the name of their place in the page."""
    zoo = [
        "| bug | met as | steps: refuted after, one run | four runs | named by a check, at steps "
        "| replay: largest change, in clips | impulses: noise over claimed, steps 1 to 4 "
        "| if steps do not show it, why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["zoo"]:
        one, several = (
            str(row[key]) if row[key] else f"no ({row[f'{key}_refuted']:.0%})" for key in ("one", "several")
        )
        zoo.append(
            f"| {row['bug']} | {row['met']} | {one} | {several} | {row['named']} "
            f"| {row['replay']} | {row['impulses']} | {row['why']} |"
        )
    loops = [
        "| loop | audits | refuted | other noise than described | mean share of the claim shown |",
        "|---|---|---|---|---|",
    ]
    loops += [
        f"| {row['loop']} | {row['audits']} | {row['refuted']} | {row['strange']} | {row['share']:.0%} |"
        for row in found["right"]
    ]
    shares = ["| mu claimed | canaries | one run | four runs | above the claim, of audits |", "|---|---|---|---|---|"]
    pairs = zip(found["shown"][::2], found["shown"][1::2], strict=True)
    shares += [
        f"| {one['mu']:g} | {one['canaries']:,} | {one['share']:.0%} | {several['share']:.0%} "
        f"| {one['above']} and {several['above']} of {found['audits']} |"
        for one, several in pairs
    ]
    return {"zoo": "\n".join(zoo), "right": "\n".join(loops), "shown": "\n".join(shares)}


def write_into(page: Path, parts: dict[str, str]) -> None:
    """Put each table between its marks in a page."""
    text = page.read_text(encoding="utf-8")
    for name, table in parts.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, rest = text.split(start, 1)
        text = f"{head}{start}\n\n{table}\n\n{end}{rest.split(end, 1)[1]}"
    atomic.write_text(page, text)


def main() -> int:
    """Run, print, and compare with what has to hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of Opacus, about random numbers that are not cryptographic
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    trainings, audits = (12, 200) if options.full else (8, 40)
    found: dict[str, Any] = {"audits": audits, "zoo": [], "right": []}
    for loop in ZOO:
        largest, noise = cells(compared(loop))
        found["zoo"].append({**audited(loop, trainings, rng), "replay": largest, "impulses": noise})
        print(json.dumps(found["zoo"][-1]), flush=True)
    for make in (plain, by_opacus, ours):
        found["right"].append(right(make, audits, seed=1))
        print(json.dumps(found["right"][-1]), flush=True)
    found["shown"] = shown(audits, rng)
    print("\n\n".join(tables(found).values()))
    if options.json:
        atomic.write_text(options.json, json.dumps(found, indent=1) + "\n")
    if options.docs:
        write_into(options.docs, tables(found))
    allowed = ALLOWED.get(audits, math.ceil(0.05 * audits + 3 * math.sqrt(0.05 * 0.95 * audits)))
    missed = [row["bug"] for row in found["zoo"] if row["met"] and not (row["one"] or row["several"] or row["why"])]
    wrong = [row["loop"] for row in found["right"] if row["refuted"] > allowed or row["strange"]]
    for text in (*(f"not seen: {bug}" for bug in missed), *(f"refuted too often: {loop}" for loop in wrong)):
        print(text)
    return 1 if missed or wrong or any(row["above"] > allowed for row in found["shown"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())

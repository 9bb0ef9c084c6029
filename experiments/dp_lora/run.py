"""DP-LoRA on a small GPT-2 trained here: claims of record and user level, kept and broken, audited by several runs.

python experiments/dp_lora/run.py --data ../shared/data                        # small: a few CPU minutes
python experiments/dp_lora/run.py --data ../shared/data --form tiny
python experiments/dp_lora/run.py --data ../shared/data --docs experiments/dp_lora/README.md    # its table

Each training leaves evidence in a file of its own, so that a killed run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import miaudit as ma
from miaudit.auditing.plan import Bounds
from miaudit.dp import accounting, selection, step_audit
from miaudit.dp.mechanism import from_mapping
from miaudit.errors import InputError
from miaudit.io import atomic
from miaudit.jobs.resumable import digest
from miaudit.models import text
from miaudit.models.step_canaries import StepCanaries

from private_lora import DOINGS, Claim, Documents, adapted, fit, flat, gradients  # isort: skip

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/dp_lora")
PHRASE = 4  # rare tokens that a canary repeats
EVIDENCE = {"loss": "the loss of canaries", "update": "the adapter itself", "steps": "canary gradients in the steps"}
LEVELS = {"documents clipped, users claimed": ("user",), "as claimed": ("record", "user")}


@dataclass(frozen=True, eq=False)
class World:
    """A base model trained on public texts, and documents of users that it never saw."""

    base: Any
    words: int
    ids: torch.Tensor
    users: np.ndarray

    @classmethod
    def make(cls, data: Path, settings: Mapping[str, Any]) -> World:
        """Train the base on the articles of which there are only 32 words; the longer ones are the users."""
        articles, short = (_texts(data, length) for length in (128, 32))
        heads = {_head(one) for one in articles}
        public = [one for one in short if _head(one) not in heads]
        tokenizer = text.byte_pair_tokenizer(public, vocabulary=settings["vocabulary"])
        config, rng = text.SmallGPT2(**settings["base"]), np.random.default_rng(settings["seed"])
        base = text.train(tokenizer, public, config, rng=rng).model
        size, ids, users = settings["tokens"], [], []
        for user, article in enumerate(articles[: settings["users"]]):
            tokens = tokenizer(article)["input_ids"]
            for number in range(settings["documents"]):
                ids.append(tokens[number * size : (number + 1) * size])
                users.append(user)
        return cls(base, len(tokenizer), torch.tensor(ids), np.array(users))


def _texts(data: Path, length: int) -> list[str]:
    lines = (data / "wikimia" / f"wikimia_{length}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["input"] for line in lines]


def _head(article: str) -> str:
    return " ".join(article.split()[:8])


def claimed(world: World, settings: Mapping[str, Any], level: str) -> Claim:
    """Return what is claimed at a level, with the noise that the accountant asks for."""
    natural = len(world.ids) if level == "record" else len(np.unique(world.users))
    units = natural + (settings["canaries"] + settings["step_canaries"]) // 2

    def of(noise: float) -> Claim:
        return Claim(level, units, noise=noise, **{k: settings[k] for k in ("rate", "steps", "clip", "learning_rate")})

    goal = {"epsilon": settings["epsilon"], "delta": settings["delta"]}
    return of(accounting.calibrate_noise(lambda noise: from_mapping(of(noise).as_mapping()), **goal))


# -- one training ------------------------------------------------------------------------------------------------------


def train(world: World, settings: Mapping[str, Any], claim: Claim, case: str, seed: int) -> dict[str, ma.Evidence]:
    """Train one adapter with fresh coins; return what an attacker has of it, by name."""
    rng, torch_seed = np.random.default_rng(seed), seed
    copies = 1 if claim.level == "record" else settings["most_documents"]
    size = settings["tokens"]
    phrases = rng.integers(1, world.words, (settings["canaries"], PHRASE))
    texts = torch.from_numpy(np.tile(phrases, (1, size // PHRASE)))  # a user says the same in all documents
    coins = rng.random(len(texts)) < 0.5
    own = torch.from_numpy(np.flatnonzero(coins))
    ids = torch.cat([world.ids, texts[own].repeat_interleave(copies, 0)])
    natural = np.arange(len(world.ids)) if claim.level == "record" else world.users
    units = np.r_[natural, natural.max() + 1 + np.repeat(np.arange(len(own)), copies)]

    net = adapted(world.base, settings["rank"], torch_seed)
    steps = StepCanaries(net, ids, units, count=settings["step_canaries"], clip=claim.clip, rng=rng)
    rows, labels = steps.data.tensors
    marked = rows.min(1).values < 0
    labels = torch.where(marked, labels.max() - rows[:, 0], labels)  # each canary is a unit
    times = torch.where(marked, copies, 1)
    before = _weights(net)
    fit(
        *(steps.model, rows.repeat_interleave(times, 0), labels.repeat_interleave(times).numpy()),
        *(claim, DOINGS[case], rng, steps),
    )
    fresh = adapted(world.base, settings["rank"], torch_seed)
    with torch.no_grad():
        loss = (fresh(texts) - net(texts)).numpy()
    update = _update(fresh, texts, world.ids, before, _weights(net))
    released = steps.released(divided_by=claim.rate * claim.units)
    heard = step_audit.evidence(released, from_mapping(claim.as_mapping()))
    found = {name: _evidence(score, coins, name) for name, score in (("loss", loss), ("update", update))}
    return {**found, "steps": _evidence(heard.score, released.coins, "steps")}


def _evidence(score: np.ndarray, coins: np.ndarray, name: str) -> ma.Evidence:
    return ma.Evidence(score={name: np.asarray(score, dtype=np.float64)}, member=coins, design="one-run")


def _weights(net: Documents) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def _update(
    fresh: Documents,
    texts: torch.Tensor,
    known: torch.Tensor,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> np.ndarray:
    """Return how much of what the weights learned each canary's gradient explains (m,), beside all known texts.

    Ridge regression of the update on gradients at the start; each matrix is first divided by the spread of its update.
    """
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    for name, p in fresh.named_parameters():
        p.requires_grad_(name in moved)
    change = torch.cat([((before[n] - after[n]) / (before[n] - after[n]).std()).flatten() for n in moved])
    scale = {name: (before[name] - after[name]).std() for name in moved}
    every = torch.cat([texts, known])
    rows = [flat({n: found[n] / scale[n] for n in moved}) for _, found in gradients(fresh, every)]
    slopes = torch.nn.functional.normalize(torch.cat(rows))
    gram = slopes @ slopes.T
    return torch.linalg.solve(gram + torch.eye(len(gram)), slopes @ change)[: len(texts)].numpy()


# -- audits ------------------------------------------------------------------------------------------------------------


def audited(folder: Path, claim: Claim, settings: Mapping[str, Any], kind: str, runs: int) -> dict[str, Any]:
    """Audit the first runs of a case as ``miaudit audit --guesses schedule`` does with these files."""
    read = [ma.Evidence.load(path) for path in _files(folder, kind)[:runs]]
    mechanism = from_mapping(claim.as_mapping())
    bounds = Bounds(
        mechanism=mechanism, delta=settings["delta"], guesses=selection.Schedule()
    )  # fixed before the scores
    together = read[0] if runs == 1 else ma.Evidence.of_runs(read)
    found = ma.audit(
        together, plan=ma.Plan(bounds=bounds, fpr_targets=(0.1,), primary_metric="auc"), rng=np.random.default_rng(0)
    )
    assert found.claim is not None  # a mechanism is a claim
    return {"status": found.claim.status, "lower": found.claim.lower, "upper": found.claim.upper}


def _files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f"{kind}-run*.npz"))


def cases(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is trained: the level of the claim, and what the training does."""
    return [(level, case) for case in settings["cases"] for level in LEVELS.get(case, ("record",))]


def run(settings: Mapping[str, Any], data: Path, out: Path) -> dict[str, Any]:
    """Train what is not there yet, and audit all."""
    world = World.make(data, settings)
    found: dict[str, Any] = {"epsilon": settings["epsilon"], "delta": settings["delta"], "cases": []}
    for number, (level, case) in enumerate(cases(settings)):
        claim, folder = claimed(world, settings, level), out / _name(settings, number, level, case)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "claim.yaml").write_text(yaml.safe_dump(claim.as_mapping()), encoding="utf-8")
        for one in range(1, settings["runs"] + 1):
            if not (folder / f"steps-run{one}.npz").exists():  # the last of a training
                for kind, evidence in train(world, settings, claim, case, 1_000 * number + one).items():
                    evidence.save(folder / f"{kind}-run{one}.npz")
                print(f"{level} level, {case}: run {one}", file=sys.stderr, flush=True)
        counts = [runs for runs in (1, 2, 4) if runs <= settings["runs"]]
        audits = {
            kind: {str(runs): audited(folder, claim, settings, kind, runs) for runs in counts} for kind in EVIDENCE
        }
        found["cases"].append(
            {"level": level, "case": case, "noise": claim.noise, "folder": str(folder), "found": audits}
        )
    return found


def _name(settings: Mapping[str, Any], number: int, level: str, case: str) -> str:
    """Return the folder of a case, which no other settings or code share."""
    aside = {"cases", "runs"} | ({"most_documents"} if level == "record" else set())
    decides = {name: value for name, value in settings.items() if name not in aside}
    of = digest([json.dumps(decides, sort_keys=True), (HERE / "private_lora.py").read_text(), str(number)])[:8]
    return f"{level}-{case.replace(' ', '-').replace(',', '')}-{of}"


# -- tables ------------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Return the lower bounds as Markdown; a bound above the accountant's epsilon refutes the claim, and is bold."""
    runs = list(found["cases"][0]["found"]["loss"])
    head = [f"{EVIDENCE[kind]}, runs {' / '.join(runs)}" for kind in EVIDENCE]
    lines = [f"| claim | training | accountant | {' | '.join(head)} |", f"|---|---|---|{'---|' * len(head)}"]
    for row in found["cases"]:
        cells = [" / ".join(map(_cell, row["found"][kind].values())) for kind in EVIDENCE]
        upper = row["found"]["loss"]["1"]["upper"]
        lines.append(f"| {row['level']} level | {row['case']} | {upper:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(one: Mapping[str, Any]) -> str:
    shown = f"{one['lower']:.2f}"
    return f"**{shown}**" if one["status"] == "refuted" else shown


def into(page: Path, made: str) -> None:
    """Put the table into its place in a page."""
    before, rest = page.read_text(encoding="utf-8").split("<!-- dp-lora -->", 1)
    _, after = rest.split("<!-- end of dp-lora -->", 1)
    whole = f"{before}<!-- dp-lora -->\n\n{made}\n\n<!-- end of dp-lora -->{after}"
    atomic.write_atomically(page, lambda target: target.write_text(whole, encoding="utf-8"))


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> Sequence[str]:
    """Return where results are not as expected: a right training refuted, or a wrong one not found."""
    problems = []
    for row in found["cases"]:
        refuted = {
            kind for kind, each in row["found"].items() if any(one["status"] == "refuted" for one in each.values())
        }
        name = f"{row['level']} level, {row['case']}"
        if row["case"] == "as claimed":
            problems += [f"{name}: refuted by {kind}" for kind in sorted(refuted)]
        else:
            missing = set(expected["found_by"].get(name, ())) - refuted
            problems += [f"{name}: not found by {kind}" for kind in sorted(missing)]
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a form; the exit code is 1 if something is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--form", choices=("tiny", "small"), default="small")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, help="the page whose table is made again")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    settings = yaml.safe_load((HERE / "config.yaml").read_text(encoding="utf-8"))[options.form]
    try:
        found = run(settings, options.data, options.out)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    if options.docs is not None:
        into(options.docs, table(found))
    expected = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))[options.form]
    problems = differences(found, expected)
    print("\n".join(f"differs: {problem}" for problem in problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Does the partial VAE's set encoder change utility? Beside a mask, on the EEDI stand-in with its missing answers.

``python experiments/causal_synthesis/partial_vae.py`` takes a few minutes of CPU. Results go to
``results/experiments/causal_synthesis/partial_vae`` as JSON and markdown; generators are kept there one by one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept
from loaders import EediStandIn

from miaudit.io import atomic
from miaudit.synthesis import utility
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.training import fit_many
from miaudit.synthesis.generators.vae_generator import VaeGenerator
from miaudit.synthesis.schema import Table
from miaudit.synthesis.utility import Benchmark

RESULTS = Path("results/experiments/causal_synthesis/partial_vae")
SEED, EPSILON, DELTA = 20261129, 12.42, 1e-5
# The paper's EEDI, where x1 is the student and x2 the answers: q(z | x2), p(x1) from the records, p(x2 | z) p(x2 | x1).
PRINTED: Mapping[str, Any] = {
    "decoder": "product",
    "encoder_reads": ("answers",),
    "without_latent": ("student",),
    "empirical": ("student",),
}


@dataclass(frozen=True)
class Form:
    """How large the comparison is: questions, records (as many are held out), generators of each arm, epochs."""

    questions: int
    records: int
    tables: int
    epochs: int
    targets: int


FORMS = {"tiny": Form(12, 150, 2, 2, 2), "small": Form(40, 1000, 4, 100, 20)}


def arms(form: Form) -> dict[str, tuple[GeneratorConfig, Privacy | None]]:
    """Every network with a mask and with the set encoder, all else equal."""
    usual = GeneratorConfig(epochs=form.epochs, records=form.records)
    private = replace(usual, epochs=max(1, form.epochs // 4), learning_rate=0.01)
    networks: dict[str, tuple[GeneratorConfig, Privacy | None]] = {
        "causal": (usual, None),
        "as printed for EEDI": (replace(usual, **PRINTED), None),
        "causal, DP": (private, Privacy(records=form.records, epsilon=EPSILON, delta=DELTA)),
    }
    return {
        f"{name}: {encoder}": (replace(config, encoder=encoder), privacy)
        for name, (config, privacy) in networks.items()
        for encoder in ("mask", "set")
    }


def measured(form: Form, out: Path) -> dict[str, Any]:
    """Loss of AUC, held-out ELBO and parameters of each arm, and what the set encoder changes."""
    world = EediStandIn(form.questions)
    train, test = (world.sample(form.records, rng=np.random.default_rng([SEED, i])) for i in range(2))
    benchmark = Benchmark.of(
        train, test, targets=form.targets, classifiers=["logistic", "knn"], rng=np.random.default_rng([SEED, 2])
    )
    real, kept = benchmark.score(), Kept(out / "parts")
    found: dict[str, Any] = {"missing": float(np.isnan(train.values).mean()), "arms": {}, "set_less_mask": {}}
    scores = {}
    for number, (arm, (config, privacy)) in enumerate(arms(form).items()):
        stream = np.random.default_rng([SEED, 3, number // 2])  # the same records, order and z for both encoders
        made = trained(arm, config, privacy, train, world, form, kept, stream)
        rng = np.random.default_rng([SEED, 4])
        tables = [one.sample(form.records, rng=rng) for one in made]
        scores[arm] = [benchmark.score(table) for table in tables]
        elbo = [float(one.elbo(test, rng=np.random.default_rng(0), draws=5).mean()) for one in made]
        found["arms"][arm] = {
            "change": limits(utility.compare_with_real(benchmark, real, scores[arm])[-1].change),
            "elbo": interval(elbo),
            "elbos": elbo,
            "parameters": made[0].network.parameters,
        }
        print(f"{arm}: {found['arms'][arm]}", file=sys.stderr, flush=True)
    for name in dict.fromkeys(arm.partition(": ")[0] for arm in scores):
        one, other = (found["arms"][f"{name}: {encoder}"]["elbos"] for encoder in ("set", "mask"))
        compared = utility.compare_generators(scores[f"{name}: set"], scores[f"{name}: mask"])
        found["set_less_mask"][name] = {
            "auc": limits(compared["auc"]),
            "elbo": interval([a - b for a, b in zip(one, other, strict=True)]),
        }
    return found


def trained(
    arm: str,
    config: GeneratorConfig,
    privacy: Privacy | None,
    train: Table,
    world: EediStandIn,
    form: Form,
    kept: Kept,
    rng: np.random.Generator,
) -> list[VaeGenerator]:
    """Generators of the same records; those that are kept are not trained again."""

    def make(half: Path) -> list[str]:
        many = fit_many([train] * form.tables, world.graph, privacy, rng=rng, config=config, repeatable=True)
        names = [f"{half.name.split('-unfinished')[0]}-{i}.npz" for i in range(len(many))]
        for name, one in zip(names, many, strict=True):
            one.save(kept.folder / name)
        return names

    files = kept.part(arm, {"form": str(form), "config": repr(config), "seed": SEED}, make)
    generators = [Generator.load(kept.folder / name) for name in files]
    return [one for one in generators if isinstance(one, VaeGenerator)]


def limits(estimate: Any) -> list[float]:
    """Low, value and high."""
    return [round(float(x), 5) for x in (estimate.low, estimate.value, estimate.high)]


def interval(values: Sequence[float]) -> list[float]:
    """Low, mean and high over generators (t, 95%)."""
    from scipy import stats  # noqa: PLC0415 - slow to load

    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return [round(float(np.mean(values)) + shift, 4) for shift in (-half, 0.0, half)]


def table(found: Mapping[str, Any]) -> str:
    """Everything measured, as markdown."""
    lines = ["| network: encoder | parameters | loss of AUC, points | held-out ELBO |", "|---|---|---|---|"]
    for arm, row in found["arms"].items():
        low, value, high = (100 * x for x in row["change"])
        elbo = "{1:.2f} ({0:.2f} to {2:.2f})".format(*row["elbo"])
        lines.append(f"| {arm} | {row['parameters']:,} | {value:.1f} ({low:.1f} to {high:.1f}) | {elbo} |")
    lines += ["", "| set less mask | AUC, points | held-out ELBO |", "|---|---|---|"]
    for name, row in found["set_less_mask"].items():
        low, value, high = (100 * x for x in row["auc"])
        elbo = "{1:+.2f} ({0:+.2f} to {2:+.2f})".format(*row["elbo"])
        lines.append(f"| {name} | {value:+.1f} ({low:+.1f} to {high:+.1f}) | {elbo} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=FORMS, default="small")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = measured(FORMS[options.form], options.out)
    atomic.write_text(options.out / "partial_vae.json", json.dumps(found, indent=1) + "\n")
    atomic.write_text(options.out / "partial_vae.md", table(found) + "\n")
    print(f"Missing values: {found['missing']:.0%}\n\n{table(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

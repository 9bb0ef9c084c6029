"""Two claims of threshold-post that need trained networks: weight decay against the attack, and what DP costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from attack import CONFIDENCE, Statistics, limits
from scipy import special
from training import Machine, Trained, World, train

from miaudit.dp import accounting
from miaudit.metrics.classical import Sample
from miaudit.models.train import Private, TrainConfig, guarantee


def weight_decay(world: World, machine: Machine, settings: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """Attack and accuracy at each weight decay; shadows and targets share recipe, memberships and seeds."""
    rows = []
    for decay in settings["values"]:
        trained = train(
            world,
            machine,
            shadows=settings["shadows"],
            targets=settings["targets"],
            seed=seed,
            label=f"decay-{decay:g}",
            changed={"weight_decay": float(decay)},
        )
        statistics = Statistics.of(trained)
        scores = {"loss": statistics.loss(), "lira": statistics.lira(settings["shadows"])["lira_online_global"]}
        found = {name: limits(statistics.evidence({name: score}, name)) for name, score in scores.items()}
        curve = {name: _tpr(statistics, score) for name, score in scores.items()}
        rows.append({"decay": float(decay), "accuracy": trained.accuracy(), "scores": found, "tpr_0.001": curve})
    return rows


def _tpr(statistics: Statistics, score: np.ndarray) -> float:
    """TPR at 0.1% FPR, read off the curve whether or not so few non-members resolve it."""
    return float(Sample.of(statistics.evidence({"score": score}, "")).roc.tpr_at(0.001))


def private(world: World, machine: Machine, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Accuracy on records never seen, without and with DP-SGD, and what the loss still gives away."""
    common = {"shadows": 0, "targets": settings["targets"], "seed": seed}
    plain = train(world, machine, label="plain", **common)
    rows = []
    for epsilon in settings["epsilons"]:
        # The nominal number is public: half of the records, whatever the coins made of it (erratum D9).
        recipe = TrainConfig(
            **settings["recipe"],
            private=Private(1.0, settings["clip"], settings["delta"], world.n // 2, repeatable=True),
        )
        noise = accounting.calibrate_noise(
            lambda sigma, recipe=recipe: accounting.dp_sgd(
                records=world.n // 2, batch=recipe.batch, noise=sigma, steps=recipe.steps(world.n // 2)
            ),
            epsilon=float(epsilon),
            delta=settings["delta"],
        )
        options = replace(recipe.private, noise=noise)
        stated = guarantee(replace(recipe, private=options)).value
        changed = {**settings["recipe"], "private": options}
        trained = train(world, machine, label=f"epsilon-{epsilon:g}", changed=changed, **common)
        rows.append(
            {
                "epsilon": stated,
                "noise": noise,
                "accuracy": trained.accuracy(),
                "cost": cost(plain, trained),
                "loss": _loss(trained),
            }
        )
    return {"delta": settings["delta"], "plain": {"accuracy": plain.accuracy(), "loss": _loss(plain)}, "private": rows}


def cost(plain: Trained, noisy: Trained) -> tuple[float, float, float]:
    """Accuracy lost on the records that neither model saw, with its interval (records paired, targets pooled)."""
    differences = []
    for m in plain.targets:
        outside = ~plain.outputs.included[m]
        differences.append((plain.right(m).astype(float) - noisy.right(m))[outside])
    by_target = np.array([one.mean() for one in differences])
    value = float(by_target.mean())
    records = np.concatenate(differences).std(ddof=1) / np.sqrt(sum(map(len, differences)))
    # Between targets there is the luck of training too; with one target only that of the records is known.
    if len(by_target) > 1:
        error = max(records, float(by_target.std(ddof=1)) / np.sqrt(len(by_target)))
        quantile = float(special.stdtrit(len(by_target) - 1, (1 + CONFIDENCE) / 2))
    else:
        error, quantile = records, float(special.ndtri((1 + CONFIDENCE) / 2))
    return value - quantile * error, value, value + quantile * error


def _loss(trained: Trained) -> dict[str, tuple[float, float | None, float]]:
    statistics = Statistics.of(trained)
    return limits(statistics.evidence({"loss": statistics.loss()}, "loss"))

"""Membership attacks on causal and plain generators, with and without privacy (Tables 5-10, Figures 2-5 and 8)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import graphs
import numpy as np
from loaders import EediStandIn
from pain import pain

from miaudit.dp.verdict import Claim, judge
from miaudit.synthesis.generators import fitting
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy, proved
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.training import same_capacity
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.retraining_attack.membership import MembershipAttack, compare, membership_attack
from miaudit.synthesis.retraining_attack.targets import GivenTargets, RandomTargets
from miaudit.synthesis.schema import Schema, Table
from miaudit.synthesis.worlds import synthetic22

DELTA = 1e-5
AT_ONCE = 20
SHOWN = ("accuracy", "balanced_accuracy", "auc", "advantage", "tpr", "fpr", "auc_of_models")


def world_of(name: str, settings: Mapping[str, Any]) -> tuple[Any, CausalGraph]:
    """The world that a data set is drawn from, and what the causal generator is told of it."""
    if name == "synthetic22":
        return synthetic22(), synthetic22().graph
    if name == "eedi":
        world = EediStandIn(settings["questions"])
        return world, world.graph
    return pain(), pain().partial["causes"]


def measured(name: str, settings: Mapping[str, Any], common: Mapping[str, Any], wrong: list[str], seed: int) -> Any:
    """All arms of one data set: the same records, targets and seeds in each."""
    world, graph = world_of(name, settings)
    rng = np.random.default_rng([seed, sum(name.encode())])
    table = world.sample(settings["records"], rng=rng)
    config = GeneratorConfig(
        epochs=settings["epochs"],
        batch=settings["batch"],
        records=len(table),
        hidden=settings["hidden"],
        at_once=AT_ONCE,
    )
    privacy = Privacy(records=len(table), epsilon=settings["epsilon"], delta=DELTA)
    plain, tables = same_capacity(graph, config), TablesConfig(records=len(table))
    arms = {
        "plain": (None, Recipe("vae", plain, None)),
        "plain, DP": (None, Recipe("vae", plain, privacy)),
        "causal": (graph, Recipe("vae", config, None)),
        "causal, DP": (graph, Recipe("vae", config, privacy)),
        "tables": (graph, Recipe("tables", tables, None)),
        "tables, DP": (graph, Recipe("tables", tables, privacy)),
    }
    if settings.get("rehearsed", common.get("rehearsed")):
        chosen = fitting.settled(
            table.schema, graph, privacy, method="vae", records=len(table), rng=np.random.default_rng([seed, 1])
        )
        own = replace(cast(GeneratorConfig, chosen.config), records=len(table), at_once=AT_ONCE)
        arms["causal, DP, rehearsed"] = (graph, replace(chosen, config=own))
    if graph.full:
        public = world.sample(settings["records"], rng=rng)  # another draw: public, so it costs nothing
        for kind in wrong:
            arms[f"{kind} graph"] = (graphs.wrong(kind, graph, public, rng), Recipe("vae", config, None))
    options = {key: value for key, value in {**common, **settings.get("attack", {})}.items() if key != "rehearsed"}
    results = {arm: attacked(table, *how, options, seed) for arm, how in arms.items()}
    found: dict[str, Any] = {
        "records": len(table),
        "epsilon": settings["epsilon"],
        "delta": DELTA,
        "arms": {arm: written(result) | {"cpu_seconds": seconds} for arm, (result, seconds) in results.items()},
        "changes": changes({arm: result for arm, (result, _) in results.items()}),
    }
    for arm, (result, _) in results.items():
        if arms[arm][1].privacy is not None:
            found["arms"][arm]["verdict"] = verdict(result, table, *arms[arm])
    return found


def attacked(
    table: Table,
    graph: CausalGraph | None,
    recipe: Recipe,
    options: Mapping[str, Any],
    seed: int,
) -> tuple[MembershipAttack, float]:
    """Attack one arm; networks are stacked."""
    targets = options["targets"]
    chosen = RandomTargets(targets) if isinstance(targets, int) else GivenTargets(tuple(targets))
    rest = {key: value for key, value in options.items() if key != "targets"}
    began = time.process_time()
    result = membership_attack(
        table,
        fit_many=partial(recipe.fit_many, graph=graph, repeatable=True),
        at_once=AT_ONCE,
        targets=chosen,
        delta=0.0 if recipe.privacy is None else recipe.privacy.resolved_delta,
        rng=np.random.default_rng(seed),
        **rest,
    )
    return result, round(time.process_time() - began, 1)


def verdict(result: MembershipAttack, table: Table, graph: CausalGraph | None, recipe: Recipe) -> dict[str, Any]:
    """The accountant's epsilon beside the empirical lower bound."""
    mechanism, privacy = recipe.mechanism(table.schema, graph, len(table)), recipe.privacy
    assert mechanism is not None
    assert privacy is not None
    upper = proved(mechanism, privacy.resolved_delta)
    bound = None if result.bound is None else result.bound.bound
    said = judge(Claim.epsilon_delta(upper.value, privacy.resolved_delta), bound, upper=upper)
    return {"upper": round(upper.value, 4), "status": said.status}


def written(result: MembershipAttack) -> dict[str, Any]:
    """What is kept of an attack."""
    rows = [
        {"extractor": row.extractor, "classifier": row.classifier, "constant": row.constant}
        | {name: limits(row.metrics[name]) for name in SHOWN}
        | {f"placebo {name}": limits(row.placebo[name]) for name in ("accuracy", "balanced_accuracy", "auc")}
        for row in result.rows
    ]
    found: dict[str, Any] = {"models": result.models, "features": result.features, "rows": rows, "bound": None}
    if result.bound is not None:
        own = result.bound
        found["bound"] = {
            "value": round(own.bound.value, 4),
            "reachable": round(own.bound.reachable or 0.0, 4),
            "attack": [own.extractor, own.classifier],
            "tested": own.testing,
        }
    return found


def changes(results: Mapping[str, MembershipAttack]) -> dict[str, Any]:
    """How far a defence lowers the attacks: the comparisons of Figures 2 to 5 and 8."""
    pairs = {
        "DP, plain (Figure 3)": ("plain", "plain, DP"),
        "DP, causal (Figure 2)": ("causal", "causal, DP"),
        "causal, no DP (Figure 4)": ("plain", "causal"),
        "causal, DP (Figure 5)": ("plain, DP", "causal, DP"),
        "DP, tables": ("tables", "tables, DP"),
        "tables, no DP": ("causal", "tables"),
        **{f"{arm}, no DP": ("plain", arm) for arm in results if arm.endswith("graph")},
    }
    found = {}
    for name, (without, with_it) in pairs.items():
        found[name] = [
            {"extractor": c.extractor, "classifier": c.classifier}
            | {"advantage": limits(c.advantage), "accuracy": limits(c.accuracy)}
            for c in compare(results[without], results[with_it])
        ]
    return found


def outlier(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """A planted record of ones: without privacy, with it, and with broken promises of the same epsilon."""
    columns, n = slice(27, 27 + settings["columns"]), settings["records"]
    values = pain().sample(n, rng=np.random.default_rng(seed)).values[:, columns]
    table = Table(Schema(pain().schema.columns[columns]), np.concatenate([values, np.ones((1, values.shape[1]))]))
    config = GeneratorConfig(
        epochs=settings["epochs"],
        batch=settings["batch"],
        records=n + 1,
        hidden=settings["hidden"],
        learning_rate=settings["learning_rate"],
        at_once=AT_ONCE,
    )
    promised = Privacy(records=n + 1, epsilon=settings["epsilon"])
    noise = promised.resolved_noise(config)
    unclipped = 1e6  # the noise stays what it was, but nothing is clipped to it
    tables, relative = TablesConfig(records=n + 1), promised.relative_noise
    arms = {
        "none": Recipe("vae", config, None),
        "dp": Recipe("vae", config, promised),
        "a tenth of the noise": Recipe("vae", config, Privacy(records=n + 1, noise=noise / 10)),
        "no clipping": Recipe("vae", config, Privacy(records=n + 1, noise=noise / unclipped, clip=unclipped)),
        "tables, none": Recipe("tables", tables, None),
        "tables, dp": Recipe("tables", tables, promised),
        "tables, a tenth of the noise": Recipe("tables", tables, Privacy(records=n + 1, noise=relative / 10)),
    }
    options = {"targets": [n], "extractors": ["naive", "nearness"], "classifiers": ["kernel", "logistic"]} | {
        key: settings[key] for key in ("repeats", "sets", "set_size")
    }
    options["folds"] = 2 if settings["repeats"] < 8 else 4
    found = {}
    for arm in settings.get("arms", arms):
        result, seconds = attacked(table, None, arms[arm], options, seed)
        found[arm] = written(result) | {"cpu_seconds": seconds}
        if arms[arm].privacy is not None:
            found[arm]["verdict"] = verdict_on(result, settings["epsilon"], promised.resolved_delta)
    return {"epsilon": settings["epsilon"], "noise": round(noise, 3), "arms": found}


def verdict_on(result: MembershipAttack, epsilon: float, delta: float) -> str:
    """Whether what was shown refutes the promised epsilon."""
    bound = None if result.bound is None else result.bound.bound
    return judge(Claim.epsilon_delta(epsilon, delta), bound).status


def limits(estimate: Any) -> list[float]:
    """Low, value and high."""
    return [round(float(x), 4) for x in (estimate.low, estimate.value, estimate.high)]

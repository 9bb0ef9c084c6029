"""Membership attacks on causal and plain generators, with and without privacy (Tables 5-10, Figures 2-5 and 8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import graphs
import numpy as np
from kept import Kept
from loaders import EediStandIn
from pain import pain
from scipy import stats

from miaudit.arrays import FloatArray
from miaudit.dp.verdict import Claim, judge
from miaudit.metrics.classical import Estimate
from miaudit.synthesis.generators import fitting
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy, proved
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.training import same_capacity
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.retraining_attack.features import MISSING
from miaudit.synthesis.retraining_attack.membership import AttackRow, MembershipAttack, compare, membership_attack
from miaudit.synthesis.retraining_attack.sets import SyntheticSets, train
from miaudit.synthesis.retraining_attack.targets import GivenTargets, RandomTargets
from miaudit.synthesis.schema import Schema, Table
from miaudit.synthesis.worlds import synthetic22

DELTA = 1e-5
AT_ONCE = 20
REAL = 20_000  # records that say how much the columns depend on one another
SHOWN = ("accuracy", "balanced_accuracy", "auc", "advantage", "tpr", "fpr", "auc_of_models")


def world_of(name: str, settings: Mapping[str, Any]) -> tuple[Any, CausalGraph]:
    """The world that a data set is drawn from, and what the causal generator is told of it."""
    if name == "synthetic22":
        return synthetic22(), synthetic22().graph
    if name == "eedi":
        world = EediStandIn(settings["questions"])
        return world, world.graph
    return pain(), pain().partial["causes"]


def measured(
    name: str,
    settings: Mapping[str, Any],
    common: Mapping[str, Any],
    wrong: list[str],
    seed: int,
    kept: Kept,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """All arms of one data set: the same records, targets and seeds in each; arms that are kept are not made again.

    ``only`` names the arms to make now. An arm does not depend on which others there are.
    """
    world, graph = world_of(name, settings)
    rng = np.random.default_rng([seed, sum(name.encode())])
    table = world.sample(settings["records"], rng=rng)
    privacy = Privacy(records=len(table), epsilon=settings["epsilon"], delta=DELTA)
    rehearsed = settings.get("rehearsed", common.get("rehearsed", False))
    left_out = settings.get("without", ())
    all_arms = arms_of(graph, settings, privacy, seed, rehearsed)
    arms = {arm: how for arm, how in all_arms.items() if arm not in left_out}
    if graph.full and wrong:
        public = world.sample(settings["records"], rng=rng)  # another draw: public, so it costs nothing
        for kind in wrong:
            own = graphs.wrong(kind, graph, public, rng)
            arms[f"{kind} graph"] = (own, lambda: Recipe("vae", config_of(settings), None))
    real = world.sample(REAL, rng=np.random.default_rng([seed, 2]))
    options = {key: value for key, value in {**common, **settings.get("attack", {})}.items() if key != "rehearsed"}
    victim, results = Victim(table, real, options, seed), {}
    decisive = {key: value for key, value in settings.items() if key != "without"}
    for arm, (own, recipe) in arms.items():
        if only and arm not in only:
            continue
        made_of = {"data": name, "arm": arm, "settings": decisive, "options": options, "wrong": wrong, "seed": seed}

        def make(half: Path, own: CausalGraph | None = own, recipe: Callable[[], Recipe] = recipe) -> Any:
            settled = recipe()
            return attacked(victim, own, settled, half, partial(verdict, table=table, graph=own, recipe=settled))

        results[arm] = kept.part(arm, made_of, make)
    return {
        "records": len(table),
        "epsilon": settings["epsilon"],
        "delta": DELTA,
        "arms": results,
        "changes": changes(results),
    }


def config_of(settings: Mapping[str, Any]) -> GeneratorConfig:
    """The networks of a data set."""
    return GeneratorConfig(
        epochs=settings["epochs"],
        batch=settings["batch"],
        records=settings["records"],
        hidden=settings["hidden"],
        at_once=AT_ONCE,
    )


def arms_of(
    graph: CausalGraph, settings: Mapping[str, Any], privacy: Privacy, seed: int, rehearsed: bool
) -> dict[str, tuple[CausalGraph | None, Callable[[], Recipe]]]:
    """What each arm is told, and what makes its recipe: a rehearsal is run only for an arm that is still to be made."""
    config, records = config_of(settings), settings["records"]
    plain, tables = same_capacity(graph, config), TablesConfig(records=records)

    def rehearsal() -> Recipe:
        streams = np.random.default_rng([seed, 1])
        found = fitting.settled(graph.schema, graph, privacy, method="vae", records=records, rng=streams)
        return replace(found, config=replace(cast(GeneratorConfig, found.config), records=records, at_once=AT_ONCE))

    arms: dict[str, tuple[CausalGraph | None, Callable[[], Recipe]]] = {
        "plain": (None, lambda: Recipe("vae", plain, None)),
        "plain, DP": (None, lambda: Recipe("vae", plain, privacy)),
        "causal": (graph, lambda: Recipe("vae", config, None)),
        "causal, DP": (graph, lambda: Recipe("vae", config, privacy)),
        "tables": (graph, lambda: Recipe("tables", tables, None)),
        "tables, DP": (graph, lambda: Recipe("tables", tables, privacy)),
    }
    if rehearsed:
        arms["causal, DP, rehearsed"] = (graph, rehearsal)
    return arms


@dataclass(frozen=True, eq=False)
class Victim:
    """What the arms of a data set share: the private table, many real records, how it is attacked, the seed."""

    table: Table
    real: Table
    options: Mapping[str, Any]
    seed: int


def attacked(
    victim: Victim,
    graph: CausalGraph | None,
    recipe: Recipe,
    half: Path,
    judged: Callable[[MembershipAttack], Any],
) -> dict[str, Any]:
    """Attack one arm; networks are stacked. Sets of finished generators are in ``half`` until the arm is whole."""
    options = victim.options
    targets = options["targets"]
    chosen = RandomTargets(targets) if isinstance(targets, int) else GivenTargets(tuple(targets))
    training = {key: options[key] for key in ("repeats", "sets", "set_size")}
    rest = {key: value for key, value in options.items() if key not in {"targets", *training}}
    began, rng = time.process_time(), np.random.default_rng(victim.seed)
    made = train(
        victim.table,
        chosen,
        fit_many=partial(recipe.fit_many, graph=graph, repeatable=True),
        at_once=AT_ONCE,
        store=half,
        key=repr(recipe),
        rng=rng,
        **training,
    )
    delta = 0.0 if recipe.privacy is None else recipe.privacy.resolved_delta
    result = membership_attack(made, delta=delta, rng=rng, **rest)
    found = written(result) | {"learned": learned(made, victim.real), "rehearsed": recipe.rehearsed}
    if recipe.privacy is not None:
        found["verdict"] = judged(result)
    return found | {"cpu_seconds": round(time.process_time() - began, 1)}


def learned(made: SyntheticSets, real: Table) -> list[float]:
    """How much of the dependence between columns the generators have: low, value, high.

    The slope of the correlations of all pairs in a generator's sets on those of ``real``: 1 all of it, 0 none, as where
    every column is drawn for itself. Errors of the former do not bias it. The interval is over generators (t, 95%).
    """
    true = correlations(real.values)
    slopes = []
    for number in range(made.models):
        sets = made.model(number)
        values = np.asarray(sets, dtype=np.float64).reshape(-1, sets.shape[-1])
        if sets.dtype == np.uint8:
            values = np.where(values == MISSING, np.nan, values)
        slopes.append(float(correlations(values) @ true / (true @ true)))
    half = float(stats.t.ppf(0.975, len(slopes) - 1) * np.std(slopes, ddof=1) / np.sqrt(len(slopes)))
    return [round(float(np.mean(slopes)) + shift, 6) for shift in (-half, 0.0, half)]


def correlations(values: FloatArray) -> FloatArray:
    """Of all pairs of columns (d (d - 1) / 2,), from the records that have both; 0 where a column does not vary."""
    seen = ~np.isnan(values)
    x, w = np.where(seen, values, 0.0), seen.astype(np.float64)
    n, of_x, of_xx, of_xy = np.maximum(w.T @ w, 1.0), x.T @ w, (x * x).T @ w, x.T @ x
    covariance = of_xy / n - (of_x / n) * (of_x / n).T
    variance = np.maximum(of_xx / n - (of_x / n) ** 2, 0.0)
    scale = np.sqrt(variance * variance.T)
    upper = np.triu_indices(values.shape[1], 1)
    return np.asarray(np.where(scale[upper] > 1e-9, covariance[upper] / np.maximum(scale[upper], 1e-9), 0.0))


def verdict(result: MembershipAttack, table: Table, graph: CausalGraph | None, recipe: Recipe) -> dict[str, Any]:
    """The accountant's epsilon beside the empirical lower bound."""
    mechanism, privacy = recipe.mechanism(recipe.plan(table.schema, graph, len(table))), recipe.privacy
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


def changes(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How far a defence lowers the attacks: the comparisons of Figures 2 to 5 and 8."""
    attacks = {arm: as_attack(found) for arm, found in results.items()}
    pairs = {
        "DP, plain (Figure 3)": ("plain", "plain, DP"),
        "DP, causal (Figure 2)": ("causal", "causal, DP"),
        "causal, no DP (Figure 4)": ("plain", "causal"),
        "causal, DP (Figure 5)": ("plain, DP", "causal, DP"),
        "DP, tables": ("tables", "tables, DP"),
        "tables, no DP": ("causal", "tables"),
        "tables, DP": ("causal, DP", "tables, DP"),
        "rehearsed, DP": ("plain, DP", "causal, DP, rehearsed"),
        **{f"{arm}, no DP": ("plain", arm) for arm in results if arm.endswith("graph")},
    }
    found = {}
    for name, (without, with_it) in pairs.items():
        if without not in results or with_it not in results:
            continue
        found[name] = [
            {"extractor": c.extractor, "classifier": c.classifier}
            | {"advantage": limits(c.advantage), "accuracy": limits(c.accuracy)}
            for c in compare(attacks[without], attacks[with_it])
        ]
    return found


def outlier(settings: Mapping[str, Any], seed: int, kept: Kept) -> dict[str, Any]:
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
    real = pain().sample(REAL, rng=np.random.default_rng([seed, 2])).values[:, columns]
    victim, found = Victim(table, Table(table.schema, real), options, seed), {}
    promise = partial(verdict_on, epsilon=settings["epsilon"], delta=promised.resolved_delta)
    for arm in settings.get("arms", arms):

        def make(half: Path, recipe: Recipe = arms[arm]) -> Any:
            return attacked(victim, None, recipe, half, promise)

        found[arm] = kept.part(arm, {"arm": arm, "settings": settings, "options": options, "seed": seed}, make)
    return {"epsilon": settings["epsilon"], "noise": round(noise, 3), "arms": found}


def verdict_on(result: MembershipAttack, epsilon: float, delta: float) -> str:
    """Whether what was shown refutes the promised epsilon."""
    bound = None if result.bound is None else result.bound.bound
    return judge(Claim.epsilon_delta(epsilon, delta), bound).status


def limits(estimate: Any) -> list[float]:
    """Low, value and high."""
    return [round(float(x), 6) for x in (estimate.low, estimate.value, estimate.high)]


def as_attack(found: Mapping[str, Any]) -> MembershipAttack:
    """What is kept of an attack, as :func:`compare` takes it."""
    rows = []
    for row in found["rows"]:
        metrics = {}
        for name in ("accuracy", "advantage"):
            low, value, high = row[name]
            metrics[name] = Estimate(value, low, high, 0.95)
        rows.append(AttackRow(row["extractor"], row["classifier"], metrics, {}, (), row["constant"]))
    return MembershipAttack(
        tuple(rows), None, (), found["models"], "held-out", "per-target", "separate", found["features"], (), ()
    )

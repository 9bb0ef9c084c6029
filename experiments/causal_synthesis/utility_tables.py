"""Utility of causal against plain generators, with and without differential privacy (Tables 2 and 4, Figures 6 and 7).

``python experiments/causal_synthesis/utility_tables.py`` runs the small form; ``--full`` the four data sets of Table 1
with the paper's sizes, and ``--form tiny`` what the tests run. Results go to
``results/experiments/causal_synthesis/utility``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from loaders import EediStandIn
from pain import pain

from miaudit.report import drawing, fidelity_charts
from miaudit.synthesis import utility
from miaudit.synthesis.fidelity import Fidelity, fidelity
from miaudit.synthesis.generators.training import GeneratorConfig, Privacy, fit_many, same_capacity
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.interventions import interventional_error
from miaudit.synthesis.schema import Table
from miaudit.synthesis.utility import Benchmark, Scores
from miaudit.synthesis.worlds import synthetic22

RESULTS = Path("results/experiments/causal_synthesis/utility")
SEED = 20261121
DELTA = 1e-5
EPSILON = {"synthetic22": 3.90, "pain1000": 2.36, "pain5000": 5.62, "eedi": 12.42}  # Table 1


@dataclass(frozen=True)
class Form:
    """How large an experiment is.

    ``tables`` generators are trained for each arm, each giving one table as long as the training table. ``most_rows``
    is the most that a classifier is trained on.
    """

    data: Mapping[str, int]
    tables: int
    targets: int
    test: int
    epochs: int
    questions: int
    classifiers: tuple[str, ...] = utility.CLASSIFIERS
    most_rows: int | None = None
    draws: int = 5000
    epsilons: tuple[float, ...] = ()


FORMS = {
    "tiny": Form({"synthetic22": 200}, 2, 3, 300, 4, 12, ("logistic", "knn"), None, 300),
    "small": Form({"synthetic22": 1000, "pain1000": 1000, "eedi": 1000}, 3, 20, 1000, 100, 40),
    "full": Form(
        {"synthetic22": 5000, "pain1000": 1000, "pain5000": 5000, "eedi": 2950},
        *(5, 20, 5000, 100, 948, utility.CLASSIFIERS, 2000),
        epsilons=(0.5, 1.0, 2.0, 5.0, 10.0),
    ),
}


def world_and_graph(name: str, form: Form) -> tuple[Any, CausalGraph]:
    """The world that a data set is drawn from, and what the causal generator is told of it."""
    if name == "synthetic22":
        return synthetic22(), synthetic22().graph
    if name == "eedi":
        world = EediStandIn(form.questions)
        return world, world.graph
    return pain(), pain().partial["causes"]


def reversed_graph(graph: CausalGraph) -> CausalGraph:
    """The same columns with every edge turned round: a wrong graph."""
    edges = [(effect, cause) for cause, effect in graph.edges]
    return CausalGraph(graph.schema, dict(graph.groups), edges, graph.isolated)


def arms(
    train: Table, graph: CausalGraph, epsilon: float, form: Form, rng: np.random.Generator
) -> dict[str, Sequence[Any]]:
    """Train the generators of each arm, all on the same records."""
    config = GeneratorConfig(epochs=form.epochs, records=len(train))
    plain = same_capacity(graph, config)
    privacy = Privacy(records=len(train), epsilon=epsilon, delta=DELTA)
    found = {}
    for name, given, settings in (("plain", None, plain), ("causal", graph, config)):
        for suffix, asked in (("", None), (", DP", privacy)):
            child = rng.spawn(1)[0]
            found[name + suffix] = fit_many(
                [train] * form.tables, given, asked, rng=child, config=settings, repeatable=True
            )
    return found


def measured(name: str, form: Form, out: Path, rng: np.random.Generator) -> dict[str, Any]:
    """One data set: all arms on one benchmark, with a ceiling and a floor; figures of fidelity go to ``out``."""
    world, graph = world_and_graph(name, form)
    records = form.data[name]
    draw, fit, sample, other = rng.spawn(4)
    train, test, fresh = (world.sample(n, rng=draw) for n in (records, form.test, records))
    benchmark = Benchmark.of(
        train, test, targets=form.targets, classifiers=form.classifiers, most_rows=form.most_rows, rng=draw
    )
    real = benchmark.score()
    trained = arms(train, graph, EPSILON[name], form, fit)
    tables = {arm: [one.sample(records, rng=sample) for one in many] for arm, many in trained.items()}
    tables["another real sample"] = [fresh]
    tables["columns shuffled"] = [shuffled(train, sample)]
    scores = {arm: [benchmark.score(table) for table in made] for arm, made in tables.items()}
    _told(f"{name}: scored {sum(map(len, scores.values()))} tables")
    kept = {arm: fidelity(made[0], test, fresh, most_pairs=200, rng=other) for arm, made in tables.items()}
    for arm in trained:
        draw_fidelity(kept[arm], out, f"{name}-{arm}")
    found: dict[str, Any] = {
        "records": records,
        "targets": list(benchmark.targets),
        "epsilon": EPSILON[name],
        "majority": {metric: estimate.value for metric, estimate in benchmark.majority().items()},
        "rows": {arm: _rows(benchmark, real, many) for arm, many in scores.items()},
        "causal_less_plain": {
            suffix or "no DP": _estimates(utility.compare_generators(scores[f"causal{x}"], scores[f"plain{x}"]))
            for suffix, x in (("", ""), ("DP", ", DP"))
        },
        "fidelity": {arm: dict(near.summary) for arm, near in kept.items()},
    }
    if name == "synthetic22":
        wrong = fit_many(
            [train],
            reversed_graph(graph),
            rng=fit,
            config=GeneratorConfig(epochs=form.epochs, records=records),
        )
        generators = {arm: many[0] for arm, many in trained.items()} | {"reversed graph": wrong[0]}
        found["interventions"] = interventions(world, graph, generators, form, other)
    if form.epsilons:
        found["epsilons"] = by_epsilon(benchmark, train, graph, form, fit)
    return found


def draw_fidelity(kept: Fidelity, out: Path, name: str) -> None:
    """Figure 7's form: the pair plot of a table beside real records, and its marginals."""
    drawn = fidelity_charts.charts(kept)
    for chart in ("pair-plot", "marginals"):
        text = drawing.svg(drawn[chart].to_dict(validate=False))
        (out / f"{chart}-{name.replace(', ', '-')}.svg").write_text(text, encoding="utf-8")


def shuffled(table: Table, rng: np.random.Generator) -> Table:
    """Every column permuted on its own: the right marginals and nothing else, a floor."""
    return Table(table.schema, np.stack([rng.permutation(column) for column in table.values.T], axis=1))


def interventions(
    world: Any, graph: CausalGraph, generators: Mapping[str, Any], form: Form, rng: np.random.Generator
) -> dict[str, Any]:
    """Set each column that has descendants to 1 and look at those."""
    below = {name: graph.descendants(name) for name in graph.order}
    chosen = [(name, 1.0) for name in graph.order if below[name]]
    found = {}
    for arm, generator in generators.items():
        error = interventional_error(generator, world, chosen, outcomes=below, n=form.draws, rng=rng)
        found[arm] = _estimates({"error": error.error, "effect": error.effect, "floor": error.floor})
    return found


def by_epsilon(
    benchmark: Benchmark, train: Table, graph: CausalGraph, form: Form, rng: np.random.Generator
) -> dict[str, Any]:
    """Figure 6: mean score by arm at several epsilons."""
    config = GeneratorConfig(epochs=form.epochs, records=len(train))
    found: dict[str, Any] = {}
    for epsilon in form.epsilons:
        privacy = Privacy(records=len(train), epsilon=epsilon, delta=DELTA)
        scores = {}
        for arm, given, settings in (("plain", None, same_capacity(graph, config)), ("causal", graph, config)):
            made = fit_many([train] * form.tables, given, privacy, rng=rng, config=settings, repeatable=True)
            scores[arm] = [benchmark.score(one.sample(len(train), rng=rng)) for one in made]
        found[f"{epsilon:g}"] = {
            "causal_less_plain": _estimates(utility.compare_generators(scores["causal"], scores["plain"])),
            **{
                arm: float(np.mean([one.value.mean(axis=(0, 1)) for one in many], axis=0)[2])
                for arm, many in scores.items()
            },
        }
    return found


# -- words and tables -------------------------------------------------------------------------------------------------


def _rows(benchmark: Benchmark, real: Scores, many: Sequence[Scores]) -> list[dict[str, Any]]:
    rows = utility.compare_with_real(benchmark, real, many)
    kept = ("real", "synthetic", "change")
    return [
        {**{key: value for key, value in asdict(row).items() if key not in kept}}
        | {key: _limits(getattr(row, key)) for key in kept}
        for row in rows
    ]


def _estimates(given: Mapping[str, Any]) -> dict[str, list[float]]:
    return {name: _limits(estimate) for name, estimate in given.items()}


def _limits(estimate: Any) -> list[float]:
    return [round(float(x), 5) for x in (estimate.low, estimate.value, estimate.high)]


def judged(found: Mapping[str, Any]) -> list[str]:
    """Say for each data set whether causality helped, by the AUC."""
    said = []
    for name, part in found.items():
        for case, estimates in part["causal_less_plain"].items():
            low, value, high = estimates["auc"]
            word = "helped" if low > 0 else "hurt" if high < 0 else "made no difference that can be shown"
            said.append(
                f"{name}, {case}: the causal graph {word}: AUC {100 * value:+.1f} points "
                f"({100 * low:+.1f} to {100 * high:+.1f}) against the plain VAE"
            )
    return said


def table_of_changes(found: Mapping[str, Any], metric: str) -> str:
    """Table 2's form: percentage points lost (negative: gained) by training on synthetic instead of real records."""
    names = [row["classifier"] for row in _of(next(iter(next(iter(found.values()))["rows"].values())), metric)]
    lines = [f"| data | arm | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for data, part in found.items():
        for arm, rows in part["rows"].items():
            cells = [_points(row["change"], brief=row["classifier"] != "mean") for row in _of(rows, metric)]
            lines.append(f"| {data} | {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_baselines(found: Mapping[str, Any]) -> str:
    """Table 4's form: scores in per cent of classifiers trained on real records, with the majority baseline."""
    names = [row["classifier"] for row in _of(next(iter(next(iter(found.values()))["rows"].values())), "auc")]
    lines = [f"| data | metric | majority | {' | '.join(names)} |", "|---" * (len(names) + 3) + "|"]
    for data, part in found.items():
        rows = next(iter(part["rows"].values()))
        for metric in utility.METRICS:
            cells = [f"{100 * row['real'][1]:.1f}" for row in _of(rows, metric)]
            lines.append(f"| {data} | {metric} | {100 * part['majority'][metric]:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_interventions(found: Mapping[str, Any]) -> str:
    """Mean total variation distance after an intervention, in per cent."""
    lines = ["| data | generator | error | what ignoring it costs | floor |", "|---|---|---|---|---|"]
    for data, part in found.items():
        for arm, row in part.get("interventions", {}).items():
            cells = [f"{100 * row[k][1]:.1f} ({100 * row[k][0]:.1f} to {100 * row[k][2]:.1f})" for k in row]
            lines.append(f"| {data} | {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of(rows: Sequence[Mapping[str, Any]], metric: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["metric"] == metric]


def _points(limits: Sequence[float], *, brief: bool) -> str:
    low, value, high = (100 * x for x in limits)
    return f"{value:.1f}" if brief else f"{value:.1f} ({low:.1f} to {high:.1f})"


def differences(found: Mapping[str, Any]) -> list[str]:
    """Controls: another real sample loses little, shuffled columns lose nearly all that there is above chance."""
    problems = []
    for name, part in found.items():
        auc = {
            arm: next(row for row in _of(rows, "auc") if row["classifier"] == "mean")
            for arm, rows in part["rows"].items()
        }
        above = auc["plain"]["real"][1] - 0.5
        if auc["another real sample"]["change"][1] > 0.25 * above + 0.02:
            problems.append(f"{name}: another real sample loses {auc['another real sample']['change'][1]:.3f} of AUC")
        if auc["columns shuffled"]["change"][1] < 0.6 * above:
            problems.append(f"{name}: shuffled columns lose only {auc['columns shuffled']['change'][1]:.3f} of AUC")
    return problems


def _told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all data sets at the paper's sizes (hours)")
    parser.add_argument("--form", choices=FORMS, help="tiny, small or full")
    parser.add_argument("--data", help="only this data set of the form")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    form = FORMS[options.form or ("full" if options.full else "small")]
    names = [name for name in form.data if options.data in (None, name)]
    streams = dict(zip(EPSILON, np.random.default_rng(SEED).spawn(len(EPSILON)), strict=True))
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name in names:
        began = time.process_time()
        found[name] = measured(name, form, options.out, streams[name])
        found[name]["cpu_seconds"] = round(time.process_time() - began, 1)
        (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    for metric in utility.METRICS:
        print(f"\nLoss in {metric}, points (Table 2)\n\n{table_of_changes(found, metric)}")
    print(f"\nTrained on real records, per cent (Table 4)\n\n{table_of_baselines(found)}")
    print(f"\nInterventional error, per cent\n\n{table_of_interventions(found)}\n")
    print("\n".join(judged(found)))
    problems = differences(found)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Utility of causal against plain generators, with and without differential privacy (Tables 2 and 4, Figures 6 and 7).

``python experiments/causal_synthesis/utility_tables.py`` runs the small form, in which synthetic22 and pain1000 have
the paper's numbers of records; ``--full`` Pain5000 and EEDI's 2,950, ``--form figure6`` the networks at several
epsilons, and ``--form tiny`` what the tests run. Results go to ``results/experiments/causal_synthesis/utility``, as
JSON and markdown. Generators and scores are kept one by one: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, place
from loaders import EediStandIn
from pain import pain

from miaudit.io import atomic
from miaudit.report import drawing, fidelity_charts
from miaudit.synthesis import utility
from miaudit.synthesis.fidelity import Fidelity, fidelity
from miaudit.synthesis.generators import fitting
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
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
    is the most that a classifier is trained on. With ``epsilons`` nothing but Figure 6 is measured.
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
    rehearse: bool = True


FORMS = {
    "tiny": Form({"synthetic22": 200}, 2, 3, 300, 4, 12, ("logistic", "knn"), None, 300, rehearse=False),
    "tiny6": Form(
        {"synthetic22": 100}, 2, 2, 200, 2, 12, ("logistic",), None, 200, epsilons=(1.0, 8.0), rehearse=False
    ),
    "small": Form({"synthetic22": 1000, "pain1000": 1000, "eedi": 1000}, 3, 20, 1000, 100, 40),
    "full": Form({"pain5000": 5000, "eedi": 2950}, *(3, 20, 2000, 100, 200, utility.CLASSIFIERS, 1000)),
    "figure6": Form(
        {"synthetic22": 1000, "pain1000": 1000, "eedi": 1000},
        *(3, 20, 1000, 100, 40, utility.CLASSIFIERS),
        epsilons=(0.5, 2.0, 8.0),
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


@dataclass(frozen=True, eq=False)
class Bench:
    """What all arms of a data set share, and where what they make is kept."""

    name: str
    form: Form
    train: Table
    graph: CausalGraph
    benchmark: Benchmark
    kept: Kept

    def made(
        self, arm: str, recipe: Callable[[], Recipe], graph: CausalGraph | None, rng: np.random.Generator
    ) -> list[Generator]:
        """Generators of the same records; the recipe is not asked for if they are there."""
        folder, stream = self.kept.folder, rng.spawn(1)[0]

        def make(half: Path) -> list[str]:
            names = []
            trained = recipe().fit_many([self.train] * self.form.tables, graph, rng=stream, repeatable=True)
            for i, one in enumerate(trained):
                names.append(f"{half.name.split('-unfinished')[0]}-{i}.npz")
                one.save(folder / names[-1])
            return names

        return [Generator.load(folder / file) for file in self.kept.part(arm, self._made_of(), make)]

    def scored(self, arm: str, tables: Sequence[Table]) -> list[Scores]:
        """Score tables; what each record contributes is kept as the mean over targets, which is all that is used."""

        def make(table: Table | None) -> dict[str, Any]:
            scores = self.benchmark.score(table)
            influence = scores.influence.mean(axis=0, keepdims=True)
            return {"value": scores.value, "influence": influence, "constant": scores.constant}

        found = []
        for i, table in enumerate(tables):
            found.append(Scores(**self.kept.arrays(f"{arm}, score {i}", self._made_of(), partial(make, table))))
            _told(f"{self.name}: scored {arm}, table {i + 1} of {len(tables)}")
        return found

    def _made_of(self) -> dict[str, Any]:
        return {"data": self.name, "form": asdict(self.form), "seed": SEED}


def arms(bench: Bench, epsilon: float, rng: np.random.Generator) -> tuple[dict[str, list[Generator]], dict[str, str]]:
    """Make the generators of each arm, all of the same records; and what rehearsals said.

    Networks with privacy are trained by what a rehearsal on simulated records chose, and for comparison with the
    paper's learning rate, at which they learn next to nothing.
    """
    train, graph, form = bench.train, bench.graph, bench.form
    config = GeneratorConfig(epochs=form.epochs, records=len(train))
    privacy = Privacy(records=len(train), epsilon=epsilon, delta=DELTA)
    found: dict[str, list[Generator]] = {}
    said = {}
    for name, given, settings in (("plain", None, same_capacity(graph, config)), ("causal", graph, config)):
        stream = rng.spawn(1)[0]
        recipes: dict[str, Callable[[], Recipe]] = {
            "": partial(Recipe, "vae", settings, None),
            ", DP, untuned": partial(Recipe, "vae", settings, privacy),
            ", DP": partial(rehearsed, train, graph, given, privacy, form, stream),
        }
        for suffix, recipe in recipes.items():
            found[name + suffix] = bench.made(name + suffix, recipe, given, rng)
        said[name] = found[f"{name}, DP"][0].rehearsed
    for name, given in (("tables, no graph", None), ("tables", graph)):
        for suffix, asked in (("", None), (", DP", privacy)):
            recipe = partial(Recipe, "tables", TablesConfig(), asked)
            found[name + suffix] = bench.made(name + suffix, recipe, given, rng)
    return found, said


def rehearsed(
    train: Table,
    graph: CausalGraph,
    given: CausalGraph | None,
    privacy: Privacy,
    form: Form,
    rng: np.random.Generator,
) -> Recipe:
    """What simulated records say of networks along ``given``, which without a graph have the causal one's capacity."""
    if not form.rehearse:
        return Recipe("vae", GeneratorConfig(epochs=form.epochs, records=len(train), learning_rate=0.01), privacy)
    found = fitting.settled(train.schema, given, privacy, method="vae", records=len(train), rng=rng)
    assert isinstance(found.config, GeneratorConfig)
    return found if given is not None else replace(found, config=same_capacity(graph, found.config))


def measured(name: str, form: Form, out: Path, rng: np.random.Generator) -> dict[str, Any]:
    """One data set: all arms on one benchmark, with a ceiling and a floor; figures of fidelity go to ``out``."""
    world, graph = world_and_graph(name, form)
    records = form.data[name]
    draw, fit, sample, other = rng.spawn(4)
    train, test, fresh = (world.sample(n, rng=draw) for n in (records, form.test, records))
    benchmark = Benchmark.of(
        train, test, targets=form.targets, classifiers=form.classifiers, most_rows=form.most_rows, rng=draw
    )
    bench = Bench(name, form, train, graph, benchmark, Kept(out / f"{name}-parts"))
    if form.epsilons:
        return {"records": records, "epsilons": by_epsilon(bench, fit)}
    (real,) = bench.scored("real", [train])
    trained, said = arms(bench, EPSILON[name], fit)
    tables = {arm: [one.sample(records, rng=sample) for one in many] for arm, many in trained.items()}
    tables["another real sample"] = [fresh]
    tables["columns shuffled"] = [shuffled(train, sample)]
    scores = {arm: bench.scored(arm, made) for arm, made in tables.items()}
    kept = {arm: fidelity(made[0], test, fresh, most_pairs=200, rng=other) for arm, made in tables.items()}
    for arm in trained:
        draw_fidelity(kept[arm], out, f"{name}-{arm}")
    found: dict[str, Any] = {
        "records": records,
        "targets": list(benchmark.targets),
        "epsilon": EPSILON[name],
        "rehearsed": said,
        "majority": {metric: estimate.value for metric, estimate in benchmark.majority().items()},
        "rows": {arm: _rows(benchmark, real, many) for arm, many in scores.items()},
        "causal_less_plain": {
            suffix or "no DP": _estimates(utility.compare_generators(scores[f"causal{x}"], scores[f"plain{x}"]))
            for suffix, x in (("", ""), ("DP", ", DP"), ("DP, untuned", ", DP, untuned"))
        },
        "tables_less_causal": {
            suffix or "no DP": _estimates(utility.compare_generators(scores[f"tables{x}"], scores[f"causal{x}"]))
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


def by_epsilon(bench: Bench, rng: np.random.Generator) -> dict[str, Any]:
    """Figure 6: scores by arm at several epsilons, less those of real records."""
    found: dict[str, Any] = {}
    (real,) = bench.scored("real", [bench.train])
    for epsilon in bench.form.epsilons:
        privacy = Privacy(records=len(bench.train), epsilon=epsilon, delta=DELTA)
        recipes: dict[str, tuple[Callable[[], Recipe], CausalGraph | None]] = {}
        for name, given in (("plain", None), ("causal", bench.graph)):
            stream = rng.spawn(1)[0]
            settled = partial(rehearsed, bench.train, bench.graph, given, privacy, bench.form, stream)
            recipes[name] = (settled, given)
        recipes["tables"] = (partial(Recipe, "tables", TablesConfig(), privacy), bench.graph)
        scores = {}
        for arm, (recipe, given) in recipes.items():
            many = bench.made(f"{arm}, epsilon {epsilon:g}", recipe, given, rng)
            drawn = [one.sample(len(bench.train), rng=rng.spawn(1)[0]) for one in many]
            scores[arm] = bench.scored(f"{arm}, epsilon {epsilon:g}", drawn)
        found[f"{epsilon:g}"] = {
            "causal_less_plain": _estimates(utility.compare_generators(scores["causal"], scores["plain"])),
            "tables_less_causal": _estimates(utility.compare_generators(scores["tables"], scores["causal"])),
            "rows": {arm: _rows(bench.benchmark, real, many) for arm, many in scores.items()},
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
    compared = {
        "causal_less_plain": ("the causal graph", "the plain VAE"),
        "tables_less_causal": ("tables in place of the causal VAE", "the causal VAE"),
    }
    for name, part in found.items():
        for key, (one, other) in compared.items():
            for case, estimates in part[key].items():
                low, value, high = estimates["auc"]
                word = "helped" if low > 0 else "hurt" if high < 0 else "made no difference that can be shown"
                said.append(
                    f"{name}, {case}: {one} {word}: AUC {100 * value:+.1f} points "
                    f"({100 * low:+.1f} to {100 * high:+.1f}) against {other}"
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


def table_by_epsilon(found: Mapping[str, Any]) -> str:
    """Figure 6's form: accuracy, the paper's axis, and AUC, in per cent, and what the graph is worth, in points."""
    lines = ["| data | epsilon | arm | accuracy | AUC | causal less plain, AUC | tables less causal, AUC |"]
    lines += ["|---" * 7 + "|"]
    for data, part in found.items():
        for epsilon, row in part["epsilons"].items():
            for arm, rows in row["rows"].items():
                cells = []
                for metric in ("accuracy", "auc"):
                    mean = next(one for one in _of(rows, metric) if one["classifier"] == "mean")
                    cells.append(_points(mean["synthetic"], brief=False))
                worth = [_points(row[key]["auc"], brief=False) for key in ("causal_less_plain", "tables_less_causal")]
                own = {"plain": ["", ""], "causal": [worth[0], ""], "tables": ["", worth[1]]}[arm]
                lines.append(f"| {data} | {epsilon} | {arm} | {' | '.join([*cells, *own])} |")
    return "\n".join(lines)


def table_of_fidelity(found: Mapping[str, Any]) -> str:
    """Mean total variation distances in per cent, and of Cramér's V."""
    lines = ["| data | arm | marginals (floor) | pairs (floor) | error of Cramér's V |", "|---|---|---|---|---|"]
    for data, part in found.items():
        for arm, near in part["fidelity"].items():
            pairs = [(near[f"{key}_distance"], near[f"{key}_floor"]) for key in ("marginal", "pair")]
            cells = [f"{100 * own:.1f} ({100 * floor:.1f})" for own, floor in pairs]
            lines.append(f"| {data} | {arm} | {' | '.join(cells)} | {near['association_error']:.3f} |")
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
    parser.add_argument("--full", action="store_true", help="Pain5000, and 2,950 records of EEDI")
    parser.add_argument("--form", choices=FORMS, help="the size, or figure6; tiny and tiny6 for tests")
    parser.add_argument("--data", help="only this data set of the form")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS}, of other forms than small with the form's name")
    options = parser.parse_args()
    chosen = options.form or ("full" if options.full else "small")
    form, out = FORMS[chosen], options.out or place(RESULTS, chosen)
    names = [name for name in form.data if options.data in (None, name)]
    if not names:
        parser.error(f"--data: expected {', '.join(form.data)}, received {options.data}")
    streams = dict(zip(EPSILON, np.random.default_rng(SEED).spawn(len(EPSILON)), strict=True))
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name in names:
        found[name] = finished(name, form, out, streams[name])
        atomic.write_text(out / "found.json", json.dumps(found, indent=1) + "\n")
        atomic.write_text(out / "found.md", written(found))
    print(written(found))
    problems = [] if form.epsilons else differences(found)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


def finished(name: str, form: Form, out: Path, rng: np.random.Generator) -> dict[str, Any]:
    """One data set, kept as a whole once it is one; CPU seconds are those of the last of several runs."""

    def make(_: Path) -> dict[str, Any]:
        began = time.process_time()
        found = measured(name, form, out, rng)
        return found | {"cpu_seconds": round(time.process_time() - began, 1)}

    found: dict[str, Any] = Kept(out / "data").part(name, {"form": asdict(form), "seed": SEED}, make)
    return found


def written(found: Mapping[str, Any]) -> str:
    """All tables, as markdown."""
    if all("epsilons" in part for part in found.values()):
        return f"By epsilon (Figure 6)\n\n{table_by_epsilon(found)}\n"
    parts = [f"Loss in {metric}, points (Table 2)\n\n{table_of_changes(found, metric)}" for metric in utility.METRICS]
    parts.append(f"Trained on real records, per cent (Table 4)\n\n{table_of_baselines(found)}")
    parts.append(f"Interventional error, per cent\n\n{table_of_interventions(found)}")
    parts.append(f"Fidelity, per cent\n\n{table_of_fidelity(found)}")
    return "\n\n".join([*parts, "\n".join(judged(found))]) + "\n"


if __name__ == "__main__":
    sys.exit(main())

"""What a wrong, partial or learned graph costs a private table, and what no graph costs.

``python experiments/causal_synthesis/wrong_graphs.py`` makes private tables of the same records with the same noise
along one graph after another (ten CPU minutes in all), and measures each: dependence and prediction kept, an
attack beside them, and where the world is known the distance from its law and what interventions do. Each run is a line
of ``runs.jsonl``; the same command goes on where it was stopped. Remove the file if the program has changed. ``--docs``
writes a table (``wrong_graphs_table.md``) and ``docs/images/wrong_graphs.svg``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from graphs import thirds, turned, with_added, without, wrong

from miaudit.arrays import FloatArray
from miaudit.findings.fidelity import Fidelity
from miaudit.io.atomic import write_text
from miaudit.report import drawing
from miaudit.synthesis import CausalGraph, Privacy, Table, TablesConfig, chow_liu
from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.tables_generator import TablesGenerator, fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.generators.usefulness import dependence_kept, shuffled
from miaudit.synthesis.interventions import interventional_error
from miaudit.synthesis.table_attacks.pool_scores import PoolScores
from miaudit.synthesis.utility import METRICS, Benchmark, auc_with_influence
from miaudit.synthesis.worlds import Softmax, StructuralModel

ROOT = Path(__file__).resolve().parents[2]
OUT = Path("results/experiments/causal_synthesis/wrong_graphs")
NO_PRIVACY = math.inf
EPSILONS = (0.3, 1.0, 3.9, NO_PRIVACY)
FORM: Mapping[str, Mapping[float, int]] = {  # seeds by table and epsilon
    "adult": {1.0: 5, 0.3: 5, 3.9: 5},
    "synthetic22": {1.0: 5, 0.3: 5, 3.9: 5, NO_PRIVACY: 5},
    "acs": {1.0: 5},
}
TITLES = {"adult": "Adult", "acs": "ACS", "synthetic22": "synthetic22"}
ATTACKED = 1_000  # members, and as many others
ROWS = 2_000  # that a classifier is trained on
DRAWN = 2_000  # records for each intervention
SEED = 20261128

EXPERT = "expert or true graph"
INDEPENDENT = "no arrow, columns drawn independently"
CHOSEN = "no graph: pairs chosen privately (a draft)"
Edit = Callable[[CausalGraph, Table, np.random.Generator], CausalGraph]


def edited(change: Callable[..., CausalGraph], count: int) -> Edit:
    return lambda graph, _public, rng: change(graph, count, rng)


def another(kind: str) -> Edit:
    return lambda graph, public, rng: wrong(kind, graph, public, rng)


WAYS: Mapping[str, Edit] = {
    EXPERT: lambda graph, _public, _rng: graph,
    **{f"{k} arrow{'s' * (k > 1)} turned": edited(turned, k) for k in (1, 2, 4)},
    "all arrows turned": another("reversed"),
    **{f"{k} arrow{'s' * (k > 1)} removed": edited(without, k) for k in (1, 2, 4)},
    "2 arrows added": edited(with_added, 2),
    "half of the arrows": another("missing"),
    "as many arrows at random": another("random"),
    "early, later, last (groups)": lambda graph, _public, _rng: thirds(graph),
    "tree learned from other records": another("learned"),
    CHOSEN: lambda graph, _public, _rng: over(graph.schema, None),
    INDEPENDENT: lambda graph, _public, _rng: graph.with_edges([]),
}
CONTROLS = ("another real sample", "the private records themselves", "columns shuffled")


@functools.cache
def peer_tables() -> Any:
    """Return the module of the tables that public tools are compared on: records, graphs and splits are theirs."""
    spec = importlib.util.spec_from_file_location("peer_tables", ROOT / "benchmarks/peers/tables/data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, eq=False)
class Ground:
    """Everything about a table and a seed that all ways share.

    Attributes
    ----------
    subject, split : columns, graph and targets; private, other and held-out records
    benchmark, reached : classifiers, and their mean AUC when trained on the private records
    alone : distances of the private records' columns, each shuffled
    truth : log-probability of each held-out record in a known world, else None
    """

    subject: Any
    split: Any
    benchmark: Benchmark
    reached: float
    alone: Fidelity
    truth: FloatArray | None

    @classmethod
    def of(cls, subject: Any, seed: int) -> Ground:
        split, rng = subject.draw(seed), np.random.default_rng([SEED, seed])
        targets = [column for column, _ in subject.targets.values()]
        options: dict[str, Any] = {"targets": targets, "classifiers": ("logistic",), "most_rows": ROWS}
        benchmark = Benchmark.of(split.private, split.test, rng=rng, **options)
        alone = fidelity(shuffled(split.private, rng), split.test, split.other, plotted=1, rng=_pairs(seed))
        exact = subject.world is not None and all(isinstance(m, Softmax) for m in subject.world.mechanisms.values())
        truth = log_probability(subject.world, split.test) if exact else None
        return cls(subject, split, benchmark, auc(benchmark, None), alone, truth)

    @staticmethod
    def planned(subject: Any, graph: CausalGraph, epsilon: float) -> TablesPlan:
        """Return what is measured along a graph: in two stages, as in a draft, whatever the graph.

        `fit` takes a graph without an edge for one that nobody knows; here it means what it says.
        """
        records = subject.records
        privacy = None if epsilon == NO_PRIVACY else Privacy(records=records, epsilon=epsilon, delta=subject.delta)
        plan = TablesPlan(graph, TablesConfig(two_stages=True), privacy, records)
        plan.check()
        return plan

    def kept(self, made: Table, seed: int) -> dict[str, float | None]:
        """Return shares of dependence and prediction that a table keeps, and the attack's AUC."""
        near = fidelity(made, self.split.test, self.split.other, plotted=1, rng=_pairs(seed))
        share = dependence_kept(near, self.alone)
        return {
            "dependence": None if share is None else share.share,
            "prediction": (auc(self.benchmark, made) - 0.5) / (self.reached - 0.5),
            "attack": attacked(made, self.split.private, self.split.test, np.random.default_rng([SEED, 2, seed])),
        }

    def known(self, generator: TablesGenerator, seed: int) -> dict[str, float]:
        """Return how far a generator is from the known world, in nats a record, and what it keeps of interventions."""
        if self.truth is None:
            return {}
        world, do = self.subject.world, self.subject.interventions[::4]
        below = {column: world.graph.descendants(column) for column, _ in do}
        rng = np.random.default_rng([SEED, 3, seed])
        found = interventional_error(generator, world, do, outcomes=below, n=DRAWN, rng=rng)
        error, effect, floor = (float(getattr(found, name).value) for name in ("error", "effect", "floor"))
        nats = float((self.truth - generator.log_likelihood(self.split.test)).mean())
        graph = generator.graph
        price = {"price": priced(world, graph)} if graph.full else {}
        return {"nats": nats, "interventions": 1 - (error - floor) / (effect - floor), **price}


def _pairs(seed: int) -> np.random.Generator:
    """Choose the same pairs of columns for all tables of a seed."""
    return np.random.default_rng([SEED, 1, seed])


def auc(benchmark: Benchmark, table: Table | None) -> float:
    """Return the AUC on held-out records, averaged over targets, of classifiers trained on a table."""
    return float(benchmark.score(table).value[..., METRICS.index("auc")].mean())


def attacked(made: Table, members: Table, others: Table, rng: np.random.Generator) -> float:
    """Return the AUC of adoption and closeness for members against records that the table was not made of."""
    pool = np.concatenate([table.values[:ATTACKED] for table in (members, others)])
    member = np.arange(len(pool)) < min(ATTACKED, len(members))
    return auc_with_influence(PoolScores.of(made, Table(made.schema, pool), rng=rng).together, member)[0]


# -- the known world --------------------------------------------------------------------------------------------------


def log_probability(world: StructuralModel, table: Table) -> FloatArray:
    """Return the log-probability (n,) of complete records under the mechanisms of a world of categories."""
    total = np.zeros(len(table))
    for name, mechanism in world.mechanisms.items():
        assert isinstance(mechanism, Softmax)
        columns = [term.of(table.column(term.parent)) for term in mechanism.terms]
        inputs = np.stack(columns, axis=1) if columns else np.zeros((len(table), 0))
        total += np.log(mechanism.probability(inputs)[np.arange(len(table)), table.column(name).astype(np.intp)])
    return total


def priced(world: StructuralModel, graph: CausalGraph) -> float:
    """Return what a full graph costs without noise and with endless records, in nats a record.

    The law along a graph that is nearest to the world's in Kullback-Leibler divergence has the world's own conditional
    laws, so the divergence is the sum over columns of the rise of their entropy given their parents.
    """
    return sum(
        entropy_given(world, name, graph.parents(name)) - entropy_given(world, name, world.graph.parents(name))
        for name in world.graph.order
    )


def entropy_given(world: StructuralModel, name: str, parents: Sequence[str]) -> float:
    return _entropy(world, frozenset((name, *parents))) - _entropy(world, frozenset(parents))


@functools.cache
def _entropy(world: StructuralModel, names: frozenset[str]) -> float:
    """Entropy in nats of some columns of a world, from 200,000 records."""
    codes = np.zeros(len(_many(world)), dtype=np.int64)
    for name in sorted(names):
        codes = codes * world.schema.column(name).levels + _many(world).column(name).astype(np.int64)
    share = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(-(share * np.log(share)).sum())


@functools.cache
def _many(world: StructuralModel) -> Table:
    return world.sample(200_000, rng=np.random.default_rng(SEED))


# -- runs -------------------------------------------------------------------------------------------------------------


def graph_of(way: str, ground: Ground, seed: int) -> CausalGraph:
    """Return the graph of a way; of a seed more edits of one kind contain the fewer."""
    return WAYS[way](ground.subject.graph, ground.split.other, np.random.default_rng([SEED, 4, seed]))


def fitted(ground: Ground, way: str, epsilon: float, seed: int, rng: np.random.Generator) -> TablesGenerator:
    """Return the generator of a way: all ways of a seed begin with the same random numbers."""
    plan = Ground.planned(ground.subject, graph_of(way, ground, seed), epsilon)
    return fit_tables(ground.split.private, plan, rng=rng, repeatable=plan.privacy is not None)


def run(ground: Ground, way: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Make one table and measure it."""
    rng = np.random.default_rng([SEED, 5, seed])
    if way in CONTROLS:
        split = ground.split
        real, copied, alone = CONTROLS
        tables = {real: split.other, copied: split.private, alone: shuffled(split.private, rng)}
        return ground.kept(tables[way], seed)
    generator = fitted(ground, way, epsilon, seed, rng)
    made = generator.sample(ground.subject.records, rng=rng)
    return ground.kept(made, seed) | ground.known(generator, seed)


def wanted(names: Sequence[str], seeds: int | None) -> Iterator[tuple[str, int, float, str]]:
    """Yield table, seed, epsilon and way of every run."""
    for name in names:
        for seed in range(max(FORM[name].values())):
            for epsilon, many in FORM[name].items():
                if seed < min(many, many if seeds is None else seeds):
                    yield from ((name, seed, epsilon, way) for way in WAYS)
                    yield from ((name, seed, NO_PRIVACY, way) for way in CONTROLS if epsilon == 1)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the runs that are done; a last line that was cut off is made again."""
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            runs.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return runs


def key_of(one: Mapping[str, Any]) -> tuple[str, int, float, str]:
    epsilon = NO_PRIVACY if one["epsilon"] is None else one["epsilon"]
    return one["table"], one["seed"], epsilon, one["way"]


def finished(path: Path, names: Sequence[str], seeds: int | None) -> list[dict[str, Any]]:
    """Make the runs that are missing, and return all."""
    runs = read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(one) + "\n" for one in runs))
    done, of, ground = {key_of(one) for one in runs}, None, None
    for name, seed, epsilon, way in wanted(names, seeds):
        if (name, seed, epsilon, way) in done:
            continue
        if ground is None or of != (name, seed):
            of, ground = (name, seed), Ground.of(peer_tables().subject(name), seed)
        began = time.process_time()
        found = {key: None if v is None else round(v, 5) for key, v in run(ground, way, epsilon, seed).items()}
        one = {"table": name, "seed": seed, "epsilon": None if epsilon == NO_PRIVACY else epsilon, "way": way, **found}
        runs.append(one | {"cpu": round(time.process_time() - began, 2)})
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(runs[-1]) + "\n")
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return runs


# -- checks: why a graph costs what it costs --------------------------------------------------------------------------


def priced_and_lost(runs: Sequence[Mapping[str, Any]]) -> str:
    """In the known world without noise: the price of each graph by entropies, and what its generator loses."""
    lines = ["| graph | price, nats | lost beyond the true graph, nats |", "|---|---|---|"]
    for way in WAYS:
        own = values(runs, "synthetic22", NO_PRIVACY, way, "price")
        lost = [-nats for nats in cost(runs, "synthetic22", NO_PRIVACY, way, "nats")]
        if own and way != EXPERT:
            lines.append(f"| {way} | {spread(list(own.values()), 3)} | {spread(lost, 3)} |")
    return "\n".join(lines)


def joined(generator: TablesGenerator, information: FloatArray) -> float:
    """Return the share of the mutual information (d, d) of all pairs that belongs to pairs a law joins."""
    pairs = {(law.column, other) for law in generator.laws for own in law.sets for other in own}
    inside = sum(float(information[pair]) for pair in pairs)
    return inside / float(np.triu(information, 1).sum())


def joined_by(name: str, seeds: int) -> str:
    """At epsilon 1: how many tables are counted, and the share of mutual information among columns that they hold."""
    lines = [
        f"| {TITLES[name]}, epsilon 1 | tables counted | mutual information of pairs that are joined |",
        "|---|---|---|",
    ]
    grounds = [Ground.of(peer_tables().subject(name), seed) for seed in range(seeds)]
    for way in (*DRAWN_WAYS, "4 arrows removed"):
        tables, shares = [], []
        for seed, ground in enumerate(grounds):
            generator = fitted(ground, way, 1.0, seed, np.random.default_rng([SEED, 5, seed]))
            tables.append(float(generator.facts["tables"]))
            shares.append(joined(generator, chow_liu.mutual_information(ground.split.other)))
        lines.append(f"| {way} | {np.mean(tables):.0f} | {spread(shares)} |")
    return "\n".join(lines)


def traced(seeds: int) -> str:
    """The attack's AUC over many fresh records of the known world: smaller traces than a few seeds show."""
    subject, found = peer_tables().subject("synthetic22"), dict[str, list[float]]()
    for seed in range(seeds):
        rng = np.random.default_rng([99, seed])
        split = peer_tables().Split(*(subject.world.sample(subject.records, rng=rng) for _ in range(3)))
        real, alone = split.other, shuffled(split.private, rng)
        plan = Ground.planned(subject, subject.graph, 1.0)
        generator = fit_tables(split.private, plan, rng=rng, repeatable=True)
        tables = (real, alone, generator.sample(subject.records, rng=rng))
        for name, made in zip((CONTROLS[0], CONTROLS[2], f"{EXPERT}, epsilon 1"), tables, strict=True):
            score = attacked(made, split.private, split.test, np.random.default_rng(seed))
            found.setdefault(name, []).append(score)
    lines = [f"| synthetic22, {seeds} fresh tables | attack's AUC |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {spread(own, 3)} |" for name, own in found.items())])


# -- tables and picture -----------------------------------------------------------------------------------------------

MEASURES = {
    "dependence": "dependence kept",
    "prediction": "prediction kept",
    "attack": "attack's AUC",
    "nats": "nats from the world",
    "interventions": "interventions kept",
}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Write a mean and its standard error."""
    if not values:
        return ""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):.{digits}f} ({error:.{digits}f})".replace("-0.00 ", "0.00 ")


def values(runs: Sequence[Mapping[str, Any]], name: str, epsilon: float, way: str, measure: str) -> dict[int, float]:
    """Return a measure by seed."""
    return {
        one["seed"]: one[measure]
        for one in runs
        if key_of(one) == (name, one["seed"], epsilon, way) and one.get(measure) is not None
    }


def at(way: str, epsilon: float) -> float:
    """Return the epsilon under which a way is kept: controls have none."""
    return NO_PRIVACY if way in CONTROLS else epsilon


def cost(runs: Sequence[Mapping[str, Any]], name: str, epsilon: float, way: str, measure: str) -> list[float]:
    """Return how much less than the expert's graph a way keeps, by seed: same records, same noise."""
    own, best = (values(runs, name, epsilon, one, measure) for one in (way, EXPERT))
    return [best[seed] - own[seed] for seed in own if seed in best]


def section(runs: Sequence[Mapping[str, Any]], name: str, epsilon: float) -> str:
    """All ways on one table at one epsilon: each measure, and what it is below the expert's graph."""
    have = [m for m in MEASURES if values(runs, name, epsilon, EXPERT, m)]
    lines = [f"| graph | {' | '.join(MEASURES[m] for m in have)} | dependence less than along the expert's |"]
    lines.append("|---" * (len(have) + 2) + "|")
    for way in (*WAYS, *(CONTROLS if epsilon == 1 else ())):
        cells = [spread(list(values(runs, name, at(way, epsilon), way, m).values())) for m in have]
        less = "" if way in (EXPERT, *CONTROLS) else spread(cost(runs, name, epsilon, way, "dependence"))
        lines.append(f"| {way} | {' | '.join(cells)} | {less} |")
    return "\n".join(lines)


def written(runs: Sequence[Mapping[str, Any]]) -> str:
    """Every table, as markdown."""
    parts = []
    for name, title in TITLES.items():
        for epsilon in EPSILONS:
            if values(runs, name, epsilon, EXPERT, "prediction"):
                word = "without privacy" if epsilon == NO_PRIVACY else f"epsilon {epsilon:g}"
                parts.append(f"## {title}, {word}\n\n{section(runs, name, epsilon)}")
    return "\n\n".join(parts) + "\n"


COLUMNS = (  # of the page, at epsilon 1
    ("Adult: dependence", "adult", "dependence"),
    ("prediction", "adult", "prediction"),
    ("ACS: dependence", "acs", "dependence"),
    ("prediction", "acs", "prediction"),
    ("synthetic22: dependence", "synthetic22", "dependence"),
    ("prediction", "synthetic22", "prediction"),
    ("interventions", "synthetic22", "interventions"),
)


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """The table of the page: what each graph keeps at epsilon 1, and the attack's AUC."""
    lines = [f"| graph | {' | '.join(title for title, _, _ in COLUMNS)} | attack's AUC |"]
    lines.append("|---" * (len(COLUMNS) + 2) + "|")
    for way in (*WAYS, *CONTROLS[:2]):
        epsilon = at(way, 1.0)
        cells = [spread(list(values(runs, name, epsilon, way, measure).values())) for _, name, measure in COLUMNS]
        attack = [v for name in TITLES for v in values(runs, name, epsilon, way, "attack").values()]
        lines.append(f"| {way} | {' | '.join(cells)} | {spread(attack)} |")
    return "\n".join(lines)


DRAWN_WAYS = {
    EXPERT: "#0072b2",
    "4 arrows turned": "#e69f00",
    "all arrows turned": "#d55e00",
    "half of the arrows": "#009e73",
    "tree learned from other records": "#cc79a7",
    CHOSEN: "#1c2530",
    INDEPENDENT: "#8a8a8a",
}


def picture(runs: Sequence[Mapping[str, Any]]) -> Any:
    """Dependence kept by epsilon, on Adult and in the known world."""
    rows = [
        {"epsilon": f"{epsilon:g}", "graph": way, "kept": float(np.mean(list(own.values()))), "table": TITLES[name]}
        for name in ("adult", "synthetic22")
        for epsilon in EPSILONS[:-1]
        for way in DRAWN_WAYS
        if (own := values(runs, name, epsilon, way, "dependence"))
    ]
    scale = alt.Scale(domain=list(DRAWN_WAYS), range=list(DRAWN_WAYS.values()))
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=300, labelFontSize=12)
    return (
        alt.Chart({"values": rows})
        .mark_line(point=True, strokeWidth=2.5)
        .encode(
            x=alt.X("epsilon:O", title="epsilon", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("kept:Q", title="dependence kept", axis=alt.Axis(format="%")),
            color=alt.Color("graph:N", sort=list(DRAWN_WAYS), scale=scale, legend=legend),
            column=alt.Column("table:N", title=None, sort=[TITLES["adult"], TITLES["synthetic22"]]),
        )
        .properties(width=250, height=260, background="white", padding=12)
        .configure(font="sans-serif")
    )


MARK = "<!-- table: experiments/causal_synthesis/wrong_graphs.py -->"


def publish(runs: Sequence[Mapping[str, Any]], docs: Path) -> None:
    """Put the table into the page, the picture into docs, and all tables into the experiment's folder."""
    before, _, rest = docs.read_text(encoding="utf-8").partition(MARK)
    after = rest.partition("<!-- end -->")[2]
    write_text(docs, f"{before}{MARK}\n\n{page(runs)}\n\n<!-- end -->{after}")
    write_text(ROOT / "docs" / "images" / "wrong_graphs.svg", drawing.svg(picture(runs).to_dict()))
    own = Path(__file__).with_suffix(".md")
    head = own.read_text(encoding="utf-8").partition(MARK)[0]
    seeds = min(3, 1 + max(one["seed"] for one in runs))
    checks = "\n\n".join([priced_and_lost(runs), *(joined_by(name, seeds) for name in ("adult", "acs"))])
    write_text(own, f"{head}{MARK}\n\n## Checks\n\n{checks}\n\n{written(runs)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder that holds adult/ and acs_ct_income/; default: found")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", choices=FORM, action="append", help="only these; default all")
    parser.add_argument("--seeds", type=int, help="at most so many of each table and epsilon; default 5")
    parser.add_argument("--docs", type=Path, help="the page whose table and picture are written")
    parser.add_argument("--trace", type=int, help="only print the attack's AUC over so many fresh tables")
    options = parser.parse_args()
    if options.trace is not None:
        print(traced(options.trace))
        return
    if options.data is not None:
        os.environ["MIAUDIT_DATA"] = str(options.data)
    runs = finished(options.out / "runs.jsonl", options.table or list(FORM), options.seeds)
    print(written(runs))
    if options.docs is not None:
        publish(runs, options.docs)


if __name__ == "__main__":
    main()

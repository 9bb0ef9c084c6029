"""Adoption and closeness against today's distance, on tables of generators that leak in different ways, or not at all.

``python experiments/causal_synthesis/table_generators.py --data ../shared/data`` makes tables of samples of Adult with
six generators, and of households with several rows each, and prints AUC and TPR at 1% FPR of both scores, with standard
errors over seeds. ``--members 200`` is the world in which other tools find .64. A table made of other people, and one
with differential privacy, are the controls. ``--table acs`` or another of ``source_tables.py`` takes its place. CTGAN
and TVAE are tried where the package ctgan is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from adult_anonymeter import FILE, Adult
from scipy.stats import rankdata
from sklearn.neighbors import NearestNeighbors
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from source_tables import TABLES

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.synthesis import Privacy, fit
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.generators.generator_config import GeneratorConfig
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest
from miaudit.synthesis.table_attacks.pool_scores import PoolScores

SEED = 20261128
LEAVES = 5
FEWEST = 1000  # members of a private table of these columns
Maker = Callable[[Table, int, np.random.Generator], FloatArray]


def nominal(schema: Schema) -> BoolArray:
    """Which columns have no order."""
    return np.array([column.kind in ("binary", "categorical") for column in schema.columns])


def kernel(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
    """Records with noise of .4 standard deviations, and a tenth of their categories drawn anew."""
    made = source.values[rng.integers(0, len(source), m)].copy()
    for j, unordered in enumerate(nominal(source.schema)):
        column = source.values[:, j]
        if unordered:
            again = rng.random(m) < 0.1
            made[again, j] = rng.choice(column, again.sum())
        else:
            made[:, j] += 0.4 * column.std() * rng.normal(size=m)
    return made


def between(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
    """SMOTE: a point between a record and one of its five nearest; each category of one of the two."""
    features = Features.of(source, range(len(source.schema)))
    near = NearestNeighbors(n_neighbors=6).fit(features.transform(source.values))
    neighbours = near.kneighbors(features.transform(source.values), return_distance=False)
    first = rng.integers(0, len(source), m)
    one, other = source.values[first], source.values[neighbours[first, rng.integers(1, 6, m)]]
    drawn = np.where(rng.random(one.shape) < 0.5, one, other)
    return np.where(nominal(source.schema), drawn, one + rng.random((m, 1)) * (other - one))


def trees(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
    """synthpop: one column after the other, each value of a record in the same leaf."""
    real, made = source.values, np.empty((m, len(source.schema)))
    made[:, 0] = rng.choice(real[:, 0], m)
    for j in range(1, real.shape[1]):
        kind = DecisionTreeClassifier if nominal(source.schema)[j] else DecisionTreeRegressor
        tree = kind(min_samples_leaf=LEAVES, random_state=0).fit(real[:, :j], real[:, j])
        leaf, wanted = tree.apply(real[:, :j]), tree.apply(made[:, :j])
        order = np.argsort(leaf, kind="stable")
        first, last = (np.searchsorted(leaf[order], wanted, side) for side in ("left", "right"))
        made[:, j] = real[order[(first + rng.random(m) * (last - first)).astype(np.int64)], j]
    return made


def network(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
    """A variational autoencoder without privacy, trained long."""
    config = GeneratorConfig(epochs=300, batch=50)
    return fit(source, None, None, method="vae", config=config, rng=rng).sample(m, rng=rng).values


def private(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
    """The project's own tables at epsilon 1."""
    plan = Privacy(records=len(source), epsilon=1.0)
    return fit(source, None, plan, method="tables", rng=rng, repeatable=True).sample(m, rng=rng).values


def of_ctgan(name: str, epochs: int) -> Maker:
    """A network of the package ctgan, trained on the table of members."""

    def make(source: Table, m: int, rng: np.random.Generator) -> FloatArray:
        import ctgan  # noqa: PLC0415 (not of the project)
        import pandas as pd  # noqa: PLC0415
        import torch  # noqa: PLC0415

        torch.manual_seed(int(rng.integers(2**31)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002 (the package draws from it)
        names, unordered = list(source.schema.names), nominal(source.schema)
        network = getattr(ctgan, name)(epochs=epochs, batch_size=100, enable_gpu=False)
        network.fit(pd.DataFrame(source.values, columns=names), [n for n, c in zip(names, unordered, strict=True) if c])
        return np.asarray(network.sample(m)[names], dtype=np.float64)

    return make


MAKERS: dict[str, Maker] = {
    "kernel": kernel,
    "SMOTE": between,
    "trees": trees,
    "VAE": network,
    "private, epsilon 1": private,
}
if importlib.util.find_spec("ctgan"):
    MAKERS |= {"CTGAN": of_ctgan("CTGAN", 300), "TVAE": of_ctgan("TVAE", 300)}


def households(n: int, rng: np.random.Generator) -> tuple[Table, IntArray]:
    """Rows of households of three: alike in place and income, each with an age and a job of its own."""
    homes = -(-n // 3)
    unit = np.repeat(np.arange(homes), 3)[:n]
    place, income = rng.integers(0, 40, homes)[unit], np.exp(rng.normal(10, 0.5, homes))[unit]
    age = np.clip(np.round(rng.normal(45, 20, n)), 0, 99)
    values = np.column_stack([place, age, rng.integers(0, 12, n), np.round(np.minimum(income, 1e6))])
    schema = Schema(
        (
            Column("place", "categorical", tuple(f"p{i}" for i in range(40))),
            Column("age", "continuous", low=0, high=99),
            Column("job", "categorical", tuple(f"j{i}" for i in range(12))),
            Column("income", "continuous", low=0, high=1e6),
        )
    )
    return Table(schema, values), unit


def clipped(schema: Schema, values: FloatArray) -> Table:
    """Keep made numbers within their ranges."""
    ends = [(column.low, column.high) if column.kind == "continuous" else (0, np.inf) for column in schema.columns]
    return Table(schema, np.clip(values, *np.array(ends, dtype=np.float64).T))


def success(score: FloatArray, member: BoolArray) -> tuple[float, float]:
    """AUC, and TPR at 1% FPR."""
    inside = int(member.sum())
    auc = (rankdata(score)[member].sum() - inside * (inside + 1) / 2) / (inside * (len(member) - inside))
    cut = np.sort(score[~member])[::-1][int(0.01 * (len(member) - inside))]
    return float(auc), float((score[member] > cut).mean())


def compared(
    made: Table, members: Table, control: Table, unit: IntArray | None, rng: np.random.Generator
) -> list[float]:
    """AUC and TPR of the distance, and then of adoption and closeness."""
    pool = Table(members.schema, np.r_[members.values, control.values])
    member = np.arange(len(pool)) < len(members)
    distance = -nearest(Metric.of(control), pool, made, rng=rng).distance[:, 0]
    return [
        value
        for score in (distance, PoolScores.of(made, pool, unit, rng=rng).together)
        for value in success(score, member)
    ]


def of_adult(make: Maker, people: Table, n: int, rng: np.random.Generator, *, leak: bool = True) -> list[float]:
    """Make a table of n members, or of n other people, and attack it."""
    chosen = rng.permutation(len(people))[: 3 * n]
    members, control, third = (people.subset(chosen[i * n : (i + 1) * n]) for i in range(3))
    made = clipped(people.schema, make(members if leak else third, n, rng))
    return compared(made, members, control, None, rng)


def of_households(n: int, rng: np.random.Generator, *, named: bool) -> list[float]:
    """Attack a smoothed table of households, with or without the knowledge who lives together."""
    (members, first), (control, second) = households(n, rng), households(n, rng)
    made = clipped(members.schema, kernel(members, n, rng))
    return compared(made, members, control, np.r_[first, n + second] if named else None, rng)


def rows(people: Table, n: int, seeds: int, makers: dict[str, Maker]) -> dict[str, list[list[float]]]:
    """Return the four figures of each seed, for each kind of table."""

    def each(number: int, draw: Callable[[np.random.Generator], list[float]]) -> list[list[float]]:
        return [draw(np.random.default_rng([SEED, number, seed])) for seed in range(seeds)]

    figures = {}
    for number, (name, make) in enumerate(makers.items()):
        figures[name] = each(number, lambda rng, make=make: of_adult(make, people, n, rng))
        print(line(name, figures[name]), flush=True)
    for name, draw in {
        "kernel of other people": lambda rng: of_adult(kernel, people, n, rng, leak=False),
        "households": lambda rng: of_households(n, rng, named=False),
        "households, named": lambda rng: of_households(n, rng, named=True),
    }.items():
        figures[name] = each(99, draw)
        print(line(name, figures[name]), flush=True)
    return figures


def line(name: str, figures: list[list[float]]) -> str:
    """One row of a Markdown table: means and standard errors."""
    mean, error = np.mean(figures, axis=0), np.std(figures, axis=0) / max(len(figures) - 1, 1) ** 0.5
    return f"| {name} | " + " | ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True)) + " |"


def adult(data: Path) -> Table:
    """Everybody in the published archive, without the weight of the census."""
    held = Adult.load(data)
    people = Table(held.members.schema, np.r_[held.members.values, held.control.values])
    return people.without(["fnlwgt"])


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--table", choices=sorted(TABLES), help="default: Adult as Anonymeter's authors published it")
    parser.add_argument("--members", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", action="append", choices=sorted(MAKERS))
    options = parser.parse_args(arguments)
    if options.table is None and not (options.data / FILE).is_file():
        print(f"{options.data / FILE} is not there", file=sys.stderr)
        return 1
    warnings.filterwarnings("ignore", category=UserWarning)
    print("| table | distance: AUC | TPR at 1% | adoption and closeness: AUC | TPR at 1% |\n|---|---|---|---|---|")
    makers = {name: make for name, make in MAKERS.items() if not options.only or name in options.only}
    if options.members < FEWEST:
        makers.pop("private, epsilon 1", None)  # refused: noise alone would be left
    people = TABLES[options.table](options.data) if options.table else adult(options.data)
    rows(people, options.members, options.seeds, makers)
    return 0


if __name__ == "__main__":
    sys.exit(main())

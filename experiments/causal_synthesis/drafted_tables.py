"""What a drafted private table keeps: one stage with equal bins, two stages, and two stages with a declared target.

``python experiments/causal_synthesis/drafted_tables.py --data ../shared/data`` makes releases of 4,800 of 6,000 raw
records of Adult and of ACS Connecticut, and judges them by the other 1,200, as ``miaudit synthesise`` does (about three
CPU minutes a seed; ``--seeds``, ``--epsilon``). Ranges are round numbers that anybody would state. A second table shows
when the reserve would have stopped a release after its first stage, with 85% of the budget left, and what the release
keeps that is made all the same. What is done is kept in ``drafted_tables.json``; the same command goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from miaudit.io.atomic import write_text
from miaudit.synthesis import Column, Privacy, Schema, Table, TablesConfig, fit
from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.generators.foreseen import foreseen
from miaudit.synthesis.generators.tables_generator import TablesGenerator
from miaudit.synthesis.generators.usefulness import columns_off, dependence_kept, shuffled
from miaudit.synthesis.utility import METRICS, Benchmark

RECORDS, ASIDE, DELTA = 6_000, 1_200, 6e-5
WAYS = {
    "one stage": TablesConfig(),
    "two stages": TablesConfig(two_stages=True),
    "two stages, target": TablesConfig(two_stages=True),
}
TARGET = {"adult": "income", "acs": "income", "world": "rich"}
ADULT = (  # its columns in order; two of them are left out
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours", "native_country", "income"),
)
ADULT_RANGES = {"age": 100.0, "capital_gain": 100_000.0, "capital_loss": 5_000.0, "hours": 100.0}
ACS = (
    *("Age", "SS_Inc", "Hours_Worked", "COW", "Marital_Status", "Education", "Sex", "Disability", "Employment"),
    *("Private_HI", "Public_HI", "Race"),
)
ACS_RANGES = {"Age": 100.0, "SS_Inc": 50_000.0, "Hours_Worked": 100.0, "income": 2_000_000.0}


class Done(NamedTuple):
    """What one release keeps, and what was foreseen of it.

    Attributes
    ----------
    dependence, target : shares that are kept of dependence and of the prediction of the target
    off : how far single columns are off, as a total variation distance above that of two real samples
    foreseen_off, foreseen_dependence : as the rehearsal on the counts of the first stage showed them; None in one stage
    """

    dependence: float
    target: float
    off: float
    foreseen_off: float | None = None
    foreseen_dependence: float | None = None


def number(name: str, high: float, values: Any) -> tuple[Column, Any]:
    return Column(name, "continuous", low=0, high=high, decimals=0), np.clip(np.rint(values), 0, high)


def category(name: str, values: Any) -> tuple[Column, Any]:
    """A column of texts, all of them declared; nan is missing."""
    texts = np.array([str(value) for value in values])
    levels = tuple(np.unique(texts[texts != "nan"]).tolist())
    codes = np.array([np.nan if text == "nan" else levels.index(text) for text in texts])
    kind = "binary" if len(levels) == 2 else "categorical"
    return Column(name, kind, levels, missing=bool(np.isnan(codes).any())), codes


def adult(data: Path) -> Table:
    """All records of Adult, raw, in 13 columns."""
    rows = []
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(data / "adult" / name, "rt", encoding="utf-8") as file:
            lines = (line.strip().rstrip(".") for line in file)
            rows += [line.split(", ") for line in lines if line.count(",") == 14]
    parts = []
    for place, name in enumerate(ADULT):
        own = [row[place] for row in rows]
        if name in ADULT_RANGES:
            parts.append(number(name, ADULT_RANGES[name], np.array(own, dtype=float)))
        elif name not in ("fnlwgt", "education_num"):
            parts.append(category(name, own))
    return joined(parts)


def acs(data: Path) -> Table:
    """All records of ACS Connecticut, raw, in 13 columns; whether an income is above 50,000 is no column of its own."""
    with np.load(data / "acs_ct_income" / "acs_ct_income.npz", allow_pickle=False) as file:
        by_name = {name.decode(): file["x"][:, j] for j, name in enumerate(file["columns"])} | {
            "income": file["income"]
        }
    parts = []
    for name in (*ACS, "income"):
        values = by_name[name].astype(float)
        parts.append(number(name, ACS_RANGES[name], values) if name in ACS_RANGES else category(name, values))
    return joined(parts)


def world(_: Path) -> Table:
    """20,000 simulated records: a spike with a long tail, counts, and dependence of other forms than tables have."""
    rng, n = np.random.default_rng(20261128), 20_000
    age = np.clip(np.rint(18 + rng.gamma(2.5, 9, n)), 0, 100)
    town = np.searchsorted([0.4, 0.65, 0.8, 0.9, 0.96], rng.random(n) + 0.1 * (age > 60) - 0.05)
    rich = rng.random(n) < 1 / (1 + np.exp(-(age - 45) / 8 - 0.5 * (town == 1)))
    gain = np.where(rng.random(n) < 0.05 + 0.4 * rich, rng.lognormal(8, 1.2, n), 0)
    visits = rng.poisson(np.exp((age - 60) / 20))
    debt = np.where(rng.random(n) < 0.4 - 0.3 * rich, rng.gamma(2, 4_000, n), 0)
    parts = [number("age", 100, age), number("gain", 500_000, gain), number("visits", 300, visits)]
    parts += [number("debt", 100_000, debt), category("town", town), category("rich", rich.astype(int))]
    return joined(parts)


def joined(parts: list[tuple[Column, Any]]) -> Table:
    return Table(Schema(tuple(column for column, _ in parts)), np.column_stack([values for _, values in parts]))


TABLES: Mapping[str, Callable[[Path], Table]] = {"adult": adult, "acs": acs, "world": world}


def release(whole: Table, name: str, way: str, epsilon: float, seed: int) -> Done:
    """Make one release and judge it."""
    rng = np.random.default_rng([17, seed])
    rows = rng.permutation(len(whole))[:RECORDS]
    private, real = whole.subset(rows[ASIDE:]), whole.subset(rows[:ASIDE])
    target = TARGET[name]
    config = replace(WAYS[way], targets=(target,)) if way.endswith("target") else WAYS[way]
    privacy = Privacy(records=RECORDS, epsilon=epsilon, delta=DELTA)
    options: dict[str, Any] = {"method": "tables", "config": config, "rng": rng, "repeatable": True}
    generator = fit(private, None, privacy, **options)
    synthetic = generator.sample(RECORDS, rng=rng)
    near = fidelity(synthetic, real, private, rng=rng)
    kept = dependence_kept(near, fidelity(shuffled(private, rng), real, private, rng=rng))
    assert kept is not None
    own = Benchmark.of(private, real, targets=[target], classifiers=("logistic", "forest"), most_rows=2_000, rng=rng)
    true, made = (float(own.score(one).value[..., METRICS.index("auc")].mean()) for one in (None, synthetic))
    shown = Done(round(kept.share, 4), round((made - 0.5) / (true - 0.5), 4), round(columns_off(near), 4))
    assert isinstance(generator, TablesGenerator)
    if generator.plan.first is None:
        return shown
    outlook = foreseen(generator.plan, rng=np.random.default_rng([18, seed]))  # as staging does it, on these counts
    dependence = None if outlook.dependence is None else round(outlook.dependence, 4)
    return shown._replace(foreseen_off=round(outlook.off, 4), foreseen_dependence=dependence)


def missing(options: argparse.Namespace, done: Mapping[str, Any]) -> Iterator[tuple[str, str, float, int]]:
    for name in options.table:
        for seed in range(options.seeds):
            for epsilon in options.epsilon:
                for way in options.way:
                    if f"{name}, {way}, {epsilon:g}, {seed}" not in done:
                        yield name, way, epsilon, seed


Groups = Mapping[tuple[str, str, str], list[list[float]]]  # table, epsilon, way -> what each seed keeps


def grouped(done: Mapping[str, list[float]]) -> Groups:
    """What was done by table, epsilon and way."""
    groups: dict[tuple[str, str, str], list[list[float]]] = {}
    for key, values in done.items():
        name, *way, epsilon, _seed = key.split(", ")
        groups.setdefault((name, epsilon, ", ".join(way)), []).append(values)
    return dict(sorted(groups.items()))


def page(done: Mapping[str, list[float]]) -> str:
    """The means over seeds, and the least dependence of any of them."""
    lines = [
        "| table, epsilon | way | dependence (least) | prediction of the target | columns off | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for (name, epsilon, way), values in grouped(done).items():
        mean = np.mean([own[:3] for own in values], axis=0)
        least = min(own[0] for own in values)
        shown = f"{mean[0]:.2f} ({least:.2f}) | {mean[1]:.2f} | {mean[2]:.3f} | {len(values)}"
        lines.append(f"| {name}, {epsilon} | {way} | {shown} |")
    return "\n".join(lines)


def reserve(done: Mapping[str, list[float]]) -> str:
    """How often a release would have stopped after its first stage, and what it keeps if it is made all the same."""
    lines = [
        "| table, epsilon | way | stops | columns off, foreseen | columns off | dependence, foreseen | dependence | "
        "prediction |",
        "|---|---|---|---|---|---|---|---|",
    ]
    most = TablesConfig().most_off
    for (name, epsilon, way), values in grouped(done).items():
        known = [own for own in values if len(own) > 3 and own[3] is not None]
        if known:
            stops = sum(own[3] > most for own in known)
            shown = {3: 3, 2: 3, 4: 2, 0: 2, 1: 2}  # place -> digits
            parts = [_with_range([own[place] for own in known], digits) for place, digits in shown.items()]
            lines.append(f"| {name}, {epsilon} | {way} | {stops} of {len(known)} | {' | '.join(parts)} |")
    return "\n".join(lines)


def _with_range(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="the folder that holds adult/ and acs_ct_income/"
    )
    parser.add_argument("--out", type=Path, default=Path("results/experiments/causal_synthesis/drafted_tables"))
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    options.table, options.epsilon = options.table or list(TABLES), options.epsilon or [1.0, 3.0]
    options.way = options.way or list(WAYS)
    path = options.out / "drafted_tables.json"
    done = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    read: dict[str, Table] = {}
    for name, way, epsilon, seed in missing(options, done):
        whole = read.setdefault(name, TABLES[name](options.data))
        done[f"{name}, {way}, {epsilon:g}, {seed}"] = release(whole, name, way, epsilon, seed)
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(done, indent=1) + "\n")
        print(name, way, epsilon, seed, done[f"{name}, {way}, {epsilon:g}, {seed}"], file=sys.stderr, flush=True)
    print(page(done), reserve(done), sep="\n\n")


if __name__ == "__main__":
    main()

"""Copies of members in disguise: how often the audit of a table sees them, and copies where there are none.

``python experiments/causal_synthesis/disguised_copies.py --data ../shared/data`` audits the tests of copies at .05 in
all. *Level*: the synthetic table has other people, or was made of them by trees or by a kernel. *Power*: of other
people, 1, 2 or 5% of the members are copied, each disguised in the same way. What is done is kept in
``disguised_copies.json`` of the working folder; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from source_tables import TABLES
from table_generators import clipped, kernel, nominal, trees

from miaudit.arrays import FloatArray
from miaudit.io.atomic import write_text
from miaudit.synthesis import Column, Schema, Table
from miaudit.synthesis.table_attacks.copies import CLOSEST, SUREST, CopyTests
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.pool_scores import PoolScores
from miaudit.synthesis.table_attacks.success_rates import Comparison
from miaudit.synthesis.table_attacks.table_verdict import rows
from miaudit.synthesis.table_attacks.top_records import compare_top

SEED = 20261128
SHARES = (0.01, 0.02, 0.05)
KEY = "patient number"
Disguise = Callable[[FloatArray, Table, np.random.Generator], FloatArray]


def numbers(pool: Table) -> list[int]:
    """Columns of numbers, those with the most values first."""
    own = np.flatnonzero(~nominal(pool.schema))
    return sorted(own, key=lambda j: -len(np.unique(pool.values[:, j])))


def as_it_is(copied: FloatArray, _pool: Table, _rng: np.random.Generator) -> FloatArray:
    return copied


def single(copied: FloatArray, _pool: Table, _rng: np.random.Generator) -> FloatArray:
    return copied.astype(np.float32).astype(np.float64)


def three_decimals(copied: FloatArray, _pool: Table, _rng: np.random.Generator) -> FloatArray:
    return np.round(copied, 3)


def one_rounded(copied: FloatArray, pool: Table, _rng: np.random.Generator) -> FloatArray:
    """The number with the most values, rounded to about half of its standard deviation."""
    column = numbers(pool)[0]
    step = 10.0 ** np.floor(np.log10(pool.values[:, column].std() / 2))
    copied[:, column] = np.round(copied[:, column] / step) * step
    return copied


def one_off(copied: FloatArray, pool: Table, rng: np.random.Generator) -> FloatArray:
    """One step up or down in the two numbers with the most values."""
    for column in numbers(pool)[:2]:
        steps = np.diff(np.unique(pool.values[:, column]))
        copied[:, column] += float(np.median(steps)) * rng.choice([-1, 1], len(copied))
    return copied


def blank(copied: FloatArray, _pool: Table, rng: np.random.Generator) -> FloatArray:
    copied[np.arange(len(copied)), rng.integers(0, copied.shape[1], len(copied))] = np.nan
    return copied


def foreign(copied: FloatArray, pool: Table, rng: np.random.Generator) -> FloatArray:
    """One cell of another record."""
    column, row = rng.integers(0, copied.shape[1], len(copied)), rng.integers(0, len(pool), len(copied))
    copied[np.arange(len(copied)), column] = pool.values[row, column]
    return copied


DISGUISES: Mapping[str, Disguise] = {
    "as it is": as_it_is,
    "new key": as_it_is,
    "row number": as_it_is,
    "single precision": single,
    "three decimals": three_decimals,
    "one column rounded": one_rounded,
    "one off in two columns": one_off,
    "a blank": blank,
    "a foreign cell": foreign,
}


def themselves(third: Table, _n: int, _rng: np.random.Generator) -> FloatArray:
    return third.values.copy()


MAKERS: Mapping[str, Callable[[Table, int, np.random.Generator], FloatArray]] = {
    "other people": themselves,
    "trees": trees,
    "kernel": kernel,
}


def with_keys(tables: list[Table], how: str, rng: np.random.Generator) -> list[Table]:
    """Number the records of all three tables: by keys that differ, or each by its rows."""
    if how not in ("new key", "row number"):
        return tables
    sizes = [len(table) for table in tables]
    drawn = np.split(rng.permutation(10**6)[: sum(sizes)], np.cumsum(sizes)[:-1])
    keys = [np.arange(size) for size in sizes] if how == "row number" else drawn
    schema = Schema((*tables[0].schema.columns, Column(KEY, "continuous", low=0, high=1e6, decimals=0)))
    return [Table(schema, np.column_stack([table.values, own])) for table, own in zip(tables, keys, strict=True)]


def tests_of(made: Table, members: Table, control: Table, rng: np.random.Generator) -> list[str]:
    """Return the tests of copies that raise concern, all of them together at .05."""
    tables = WithoutKeys.of(made, members, control)
    pool = Table(tables.members.schema, np.r_[tables.members.values, tables.control.values])
    scores = PoolScores.of(tables.synthetic, pool, rng=rng)
    lists = tuple(
        compare_top(name, score, len(members), confidence=0.95)
        for name, score in ((CLOSEST, scores.closeness), (SUREST, scores.together))
    )
    parts: tuple[Comparison, ...] = (*CopyTests.of(tables, None).comparisons(0.95, None), *lists)
    judged = rows(parts, (), threshold=0.05, confidence=0.95)
    return [part.name for part in judged if part.status == "flagged"]


def audited(whole: Table, n: int, maker: str, how: str, share: float, seed: int) -> list[str]:
    """Audit one table of other people with disguised copies of some members."""
    rng = np.random.default_rng([SEED, seed, round(1000 * share), *how.encode(), *maker.encode()])
    rows_of = rng.permutation(len(whole))[: 3 * n]
    members, control, third = (whole.subset(rows_of[k * n : (k + 1) * n]) for k in range(3))
    made, copies = MAKERS[maker](third, n, rng), round(share * n)
    pool = Table(whole.schema, np.r_[members.values, control.values])
    made[:copies] = DISGUISES[how](members.values[:copies].copy(), pool, rng)
    loose = Schema(tuple(column if how != "a blank" else missing(column) for column in whole.schema.columns))
    tables = [clipped(loose, made), *(Table(loose, table.values) for table in (members, control))]
    return tests_of(*with_keys(tables, how, rng), rng)


def exactly(flagged: list[str]) -> bool:
    """Whether exact copies raise concern, over all columns or without keys."""
    return any(name == "copies" or name.startswith("copies without") for name in flagged)


def missing(column: Column) -> Column:
    """The same column, which may be blank."""
    if column.kind == "continuous":
        return Column(column.name, column.kind, low=column.low, high=column.high, missing=True)
    return Column(column.name, column.kind, column.categories, missing=True)


def asked(options: argparse.Namespace) -> Iterator[tuple[str, str, str, float, int]]:
    """Every audit: table, maker, disguise, share and seed."""
    for seed in range(options.level):
        for name in options.table:
            yield from ((name, maker, "as it is", 0.0, seed) for maker in MAKERS)
    for seed in range(options.power):
        for name in options.table:
            yield from ((name, "other people", how, share, seed) for how in DISGUISES for share in SHARES)


def table(done: Mapping[str, list[str]]) -> str:
    """Both tables in Markdown: shares of audits with a concern."""
    counts: dict[tuple[str, ...], list[list[str]]] = {}
    for key, flagged in done.items():
        name, maker, how, share, _ = key.split("|")
        counts.setdefault((name, maker, how, share), []).append(flagged)
    lines = ["| table | made by | audits | concern |", "|---|---|---|---|"]
    for (name, maker, _, share), found in counts.items():
        if float(share) == 0:
            lines.append(f"| {name} | {maker} | {len(found)} | {sum(map(bool, found))} |")
    lines += ["", f"| table | disguise | {' | '.join(f'{share:.0%}' for share in SHARES)} |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(key[0] for key in counts):
        for how in DISGUISES:
            cells = []
            for share in SHARES:
                found = counts.get((name, "other people", how, str(share)), [])
                seen = [(bool(one), exactly(one)) for one in found]
                cells.append("{:.2f} ({:.2f})".format(*np.mean(seen, axis=0)) if seen else "")
            lines.append(f"| {name} | {how} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--table", action="append", choices=sorted(TABLES))
    parser.add_argument("--members", type=int, default=2000)
    parser.add_argument("--level", type=int, default=15, help="tables without copies, of each table and maker")
    parser.add_argument("--power", type=int, default=10, help="tables with copies, of each table, disguise and share")
    parser.add_argument("--out", type=Path, default=Path("disguised_copies.json"))
    options = parser.parse_args(arguments)
    options.table = options.table or list(TABLES)
    warnings.filterwarnings("ignore", category=UserWarning)
    done: dict[str, Any] = json.loads(options.out.read_text()) if options.out.is_file() else {}
    whole = {name: TABLES[name](options.data) for name in options.table}
    todo = [one for one in asked(options) if "|".join(map(str, one)) not in done]
    for count, (name, maker, how, share, seed) in enumerate(todo, 1):
        key = "|".join(map(str, (name, maker, how, share, seed)))
        done[key] = audited(whole[name], options.members, maker, how, share, seed)
        if count % 20 == 0 or count == len(todo):
            write_text(options.out, json.dumps(done))
            print(f"{count} of {len(todo)}", file=sys.stderr, flush=True)
    print(table(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())

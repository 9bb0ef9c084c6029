"""Near copies: the hashes against a slow twin, each way a copy can differ, and the level where nothing is copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.chance_agreement import RARE
from miaudit.synthesis.table_attacks.copies import BUT_DIGITS, BUT_ONE, CopyTests
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.near_copies import NearCopies, cells, grids
from miaudit.synthesis.table_attacks.success_rates import Comparison
from miaudit.synthesis.table_attacks.table_files import of_frames
from miaudit.synthesis.table_attacks.table_verdict import rows
from worlds.patients import patients

N = 1000
LIMITS = {"threshold": 0.05, "confidence": 0.95}
Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]


def compared(released: pl.DataFrame, members: pl.DataFrame, control: pl.DataFrame) -> tuple[Comparison, ...]:
    read = of_frames(released, members, control)
    left = WithoutKeys.of(read.synthetic, read.members, read.control)
    return CopyTests.of(left, None).comparisons(0.95, None)


def flagged(parts: tuple[Comparison, ...]) -> list[str]:
    return [part.name for part in rows(parts, (), **LIMITS) if part.status == "flagged"]


# -- the slow twin ----------------------------------------------------------------------------------------------------


def chance(rows: list[tuple[int, ...]], i: int, unit: np.ndarray, compared: list[int], synthetic: int) -> float:
    """Synthetic records that agree with record i by chance: crowds but for one column, times its own value there."""
    rest = [row for row, of in zip(rows, unit, strict=True) if of != unit[i]]
    most = 0.0
    for k in compared:
        crowd = sum(all(row[j] == rows[i][j] for j in compared if j != k) for row in rest)
        most = max(most, crowd * sum(row[k] == rows[i][k] for row in rest))
    return most * synthetic / (len(rows) - 1) ** 2


def slow(synthetic: Table, pool: np.ndarray, unit: np.ndarray) -> tuple[list[bool], list[bool], list[list[bool]]]:
    """The same by dictionaries of tuples, a record and a column at a time."""
    columns = synthetic.schema.columns
    steps = [grids(column, synthetic.values[:, j], pool[:, j]) for j, column in enumerate(columns)]
    rounded, near = [False] * len(pool), [False] * len(pool)
    visible = [[False] * len(columns) for _ in pool]
    for grid in ("fine", "coarse", "shifted"):
        ours, theirs = (
            list(zip(*(cells(v[:, j], c, steps[j], grid).tolist() for j, c in enumerate(columns)), strict=True))
            for v in (synthetic.values, pool)
        )
        for left in (None, *range(len(columns) if grid == "fine" else 0)):
            compared = [j for j in range(len(columns)) if j != left]
            released, real = ({i: tuple(row[j] for j in compared) for i, row in enumerate(t)} for t in (ours, theirs))
            for i, row in real.items():
                alone = not any(real[o] == row for o in real if unit[o] != unit[i])
                counts = alone and chance(theirs, i, unit, compared, len(ours)) <= RARE
                if left is None:
                    rounded[i] |= counts and row in released.values()
                else:
                    near[i] |= counts and row in released.values()
                    visible[i][left] |= counts
    return rounded, near, visible


@pytest.mark.parametrize("seed", range(6))
def test_hashes_agree_with_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(
        (
            Column("a", "categorical", tuple("xyz"), missing=True),
            Column("b"),
            Column("c", "continuous", low=-99, high=99, missing=True),
            Column("d", "continuous", low=-99, high=99),
        )
    )

    def draw(n: int) -> np.ndarray:
        values = np.c_[
            rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(0, 4, n).round(seed % 3), rng.normal(size=n)
        ]
        values[:, 3] = values[:, 3].round(2)
        for j in (0, 2):
            values[rng.random(n) < 0.1, j] = np.nan
        return values

    pool = draw(60)
    pool[:5] = pool[30:35]  # equal records
    made = draw(50)
    made[:10] = pool[20:30] + np.array([0, 0, 0, 1e-6])
    made[10:20, 1:] = pool[35:45, 1:]
    unit = np.arange(60) if seed % 2 else np.arange(60) % 30  # equal records of one unit
    table = Table(schema, made)
    found = NearCopies.of(table, Table(schema, pool[:30]), Table(schema, pool[30:]), unit)
    rounded, near, visible = slow(table, pool, unit)
    assert found.rounded.tolist() == rounded and found.near.tolist() == near
    assert found.visible.tolist() == visible
    assert 3 < sum(rounded) < sum(near)


@pytest.mark.parametrize(
    ("released", "pool", "steps"),
    [
        ([1.0, 2, 30], [10.0, 20, 30], (10.0, 40.0)),
        ([100.0, 300], [200.0, 4000], (100.0, 400.0)),
        ([0.5, 2], [1.0, 2], (1.0, 4.0)),
        ([1.23456789], [0.5, 1.5], (0.1, 0.4)),
        ([np.nan], [np.nan], (1e-6, 1e-3)),
    ],
)
def test_steps_are_the_coarser_resolution(released: list[float], pool: list[float], steps: tuple[float, float]) -> None:
    column = Column("a", "continuous", low=0, high=9999, missing=True)
    assert grids(column, np.array(released), np.array(pool)) == pytest.approx(steps)


def test_a_value_near_an_edge_of_one_coarse_grid_is_inside_the_other() -> None:
    """Numbers within an eighth of a step share a cell of one of the two grids, wherever they lie."""
    column, rng = Column("a", "continuous", low=0, high=9999), np.random.default_rng(1)
    value = rng.random(2000) * 100
    other = value + rng.uniform(-0.5, 0.5, 2000)
    same = [
        cells(value, column, (1.0, 4.0), grid) == cells(other, column, (1.0, 4.0), grid)
        for grid in ("coarse", "shifted")
    ]
    assert (same[0] | same[1]).all() and not same[0].all()


# -- the tests on tables ----------------------------------------------------------------------------------------------


def a_blank(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    empty = rng.integers(0, frame.width, len(frame))
    columns = (
        pl.when(pl.Series(empty == j)).then(None).otherwise(pl.col(name)).alias(name)
        for j, name in enumerate(frame.columns)
    )
    return frame.with_columns(*columns)


def one_off(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    up = rng.choice([-1, 1], (2, len(frame)))
    return frame.with_columns(age=frame["age"] + pl.Series(up[0]), bmi=(frame["bmi"] + 0.1 * pl.Series(up[1])).round(1))


CHANGES: dict[str, Change] = {
    "as it is": lambda frame, _: frame,
    "single precision": lambda frame, _: frame.with_columns(
        pl.col("income", "bmi", "dose").cast(pl.Float32).cast(pl.Float64)
    ),
    "capitals and blanks": lambda frame, _: frame.with_columns(
        job=pl.col("job").str.to_uppercase(), city=" " + pl.col("city").str.to_uppercase()
    ),
    "noise in the third decimal": lambda frame, rng: frame.with_columns(
        income=frame["income"] + pl.Series(rng.normal(0, 1e-3, len(frame)))
    ),
    "one column rounded": lambda frame, _: frame.with_columns(income=(pl.col("income") / 1000).round() * 1000),
    "one off in two columns": one_off,
    "a blank": a_blank,
    "another job": lambda frame, rng: frame.with_columns(job=pl.Series(rng.choice(list("abcdef"), len(frame)))),
}
KEYS: dict[str, Callable[[int, np.random.Generator], list[np.ndarray]]] = {
    "no key": lambda n, rng: [],
    "numbers": lambda n, rng: list(rng.permutation(10 * n).reshape(10, n)[:3]),
    "row numbers": lambda n, rng: [np.arange(n)] * 3,
    "texts": lambda n, rng: [np.array([f"{i:08x}-{j}" for i in rng.permutation(10 * n)[:n]]) for j in range(3)],
}


def three(change: Change, key: str, copied: int, seed: int) -> tuple[Comparison, ...]:
    """Tables of which one has copies of members, changed, and all have keys of their own."""
    rng = np.random.default_rng([seed, copied])
    members, control, made = (patients(N, rng) for _ in range(3))
    if copied:
        made = pl.concat([made.tail(N - copied), change(members.head(copied), rng)], how="vertical_relaxed")
    frames = [made, members, control]
    labels = KEYS[key](N, rng)
    if labels:
        frames = [frame.with_columns(key=pl.Series(own)) for frame, own in zip(frames, labels, strict=True)]
    return compared(*frames)


@pytest.mark.parametrize("key", ["no key", "numbers"])
@pytest.mark.parametrize("change", CHANGES)
def test_two_per_cent_of_copies_are_seen_whatever_was_changed(change: str, key: str) -> None:
    exact, rounded, one = three(CHANGES[change], key, 20, 0)
    assert flagged((exact, rounded, one))
    seen = rounded if change in ("one off in two columns", "noise in the third decimal") else one
    assert seen.control.right <= 1 and seen.members.right >= 15
    if change == "one off in two columns":  # the control: one column alone does not explain it
        assert flagged((exact, rounded, one)) == [BUT_DIGITS]
    if change in ("one column rounded", "another job", "a blank"):
        assert flagged((exact, rounded, one)) == [BUT_ONE]  # the control: neither exact nor rounded copies


@pytest.mark.parametrize("key", KEYS)
def test_a_key_hides_no_copy(key: str) -> None:
    exact = three(CHANGES["as it is"], key, 20, 1)[0]
    assert (exact.members.right, exact.control.right) == (20, 0)


def test_a_key_that_is_kept_hides_exact_copies() -> None:
    """The control: with the key among the columns no copy is exact, and the one column may be the key."""
    rng = np.random.default_rng(3)
    members, control, made = (patients(N, rng) for _ in range(3))
    made = pl.concat([made.tail(N - 20), members.head(20)])
    keys = rng.permutation(10 * N).reshape(10, N)
    frames = [
        frame.with_columns(key=pl.Series(own)) for frame, own in zip((made, members, control), keys, strict=False)
    ]
    read = of_frames(*frames)
    kept = WithoutKeys(read.synthetic, read.members, read.control, ())
    exact, _, one = CopyTests.of(kept, None).comparisons(0.95, None)
    assert exact.members.right == 0 and one.members.right == 20


def coarse(n: int, rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame({f"c{k}": rng.choice(list("abcdefg")[:k], n) for k in (2, 3, 4, 5, 6, 7)})


def whole(n: int, rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame({f"x{j}": np.rint(rng.normal(50, 5, n)) for j in range(5)})


def repeated(n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Of a finite population, so that records are equal on all sides."""
    return patients(400, np.random.default_rng(7)).sample(n, with_replacement=True, seed=int(rng.integers(2**32)))


@pytest.mark.parametrize("draw", [patients, coarse, whole, repeated])
def test_tables_without_a_leak_are_seldom_flagged(draw: Callable[[int, np.random.Generator], pl.DataFrame]) -> None:
    """At most 2.5% of tables; tests/slow/test_table_verdicts.py has more of them, and the control is above."""
    count = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 4])
        count += bool(flagged(compared(*(draw(300, rng) for _ in range(3)))))
    assert count <= 2


def test_records_that_others_equal_are_no_near_copies() -> None:
    """What everybody has says nothing of one person; equal rows of one household are one person's."""
    schema = Schema(tuple(Column(name, "continuous", low=0, high=99) for name in "abc"))
    pool = np.array([[1.0, 2, 3], [1, 2, 3], [7, 8, 9]])
    made, inside, outside = Table(schema, pool), Table(schema, pool[:2]), Table(schema, pool[2:])
    assert NearCopies.of(made, inside, outside).near.tolist() == [False, False, True]
    household = Units.of(np.array([0, 0, 1]), np.array([True, True, False]))
    assert NearCopies.of(made, inside, outside, household.code).near.tolist() == [True, True, True]

"""Copies under another identifier, in other capitals, with blanks or fewer digits are seen; unequal records are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from miaudit.findings.table import TableFindings
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.copies import BUT_ONE, Copies, is_copies, unmatched
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table
from miaudit.synthesis.table_attacks.table_files import of_frames

FEW = TablePlan(attempts=50, fidelity=False)
Change = Callable[[pl.DataFrame], pl.DataFrame]


def people(n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Heavy tails, a common job and a rare one, towns by a law of their own, and an identifier in no order."""
    columns = {
        "job": rng.choice(["cook", "clerk", "Smith"], n, p=[0.8, 0.19, 0.01]),
        "town": [f"Town {min(town, 60)}" for town in rng.zipf(1.5, n)],
        "dose": np.round(rng.standard_cauchy(n), 4),
        "bmi": np.round(rng.normal(26, 4, n), 1),
        "key": rng.permutation(50 * n)[:n],
    }
    return pl.DataFrame(columns)


def audited(copied: Change, table: Change = lambda frame: frame, *, share: float = 0.1, n: int = 900) -> TableFindings:
    rng = np.random.default_rng(3)
    keys = rng.permutation(50 * n).reshape(50, n)
    members, control, made = (people(n, rng).with_columns(key=own) for own in keys[:3])
    leaked = copied(members.head(round(share * n)))
    released = table(pl.concat([made.tail(n - len(leaked)), leaked], how="vertical_relaxed"))
    read = of_frames(released, members, control)
    three = read.synthetic, read.members, read.control
    return audit_table(*three, plan=FEW, design="one-run", notes=read.notes, rng=rng)


def new_keys(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(key=pl.col("key").reverse())


@pytest.mark.long
@pytest.mark.parametrize(
    ("copied", "table"),
    [
        (lambda frame: frame.with_columns(pl.col("job", "town").str.to_uppercase()), None),
        (lambda frame: frame.with_columns(job=" " + pl.col("job"), town=pl.col("town") + "  "), None),
        (lambda frame: frame.with_columns(town=pl.col("town").str.replace(" ", "\u00a0")), None),
        (lambda frame: frame.with_columns(dose=pl.col("dose").cast(pl.Float32).cast(pl.Float64)), None),
        (lambda frame: frame, lambda frame: frame.with_columns(pl.col("dose").round(2), pl.col("bmi").round(0))),
        (new_keys, None),
        (new_keys, lambda frame: frame.with_columns(town=pl.lit("T-") + pl.col("town"))),
    ],
    ids=["capitals", "blanks", "no-break-blank", "single", "decimals", "keys", "renamed-and-keys"],
)
def test_what_is_no_person_hides_no_copy(copied: Change, table: Change | None) -> None:
    findings = audited(copied, table or (lambda frame: frame))
    assert findings.verdict.status == "flagged"
    counts = {part.name: (part.members.right, part.control.right) for part in findings.attacks if is_copies(part.name)}
    assert max(inside - outside for inside, outside in counts.values()) >= 80
    assert all(part.limit == "copies" for part in findings.verdict.exceeded)


@pytest.mark.long
def test_without_copies_nothing_is_flagged_and_texts_that_match_nothing_give_no_pass() -> None:
    """The control: the same tables without copies. Renamed in all columns of texts, few others are left to compare."""
    assert audited(lambda frame: frame, share=0.0).verdict.status != "flagged"
    only = ["job", "town"]
    rng = np.random.default_rng(4)
    members, control, made = (people(3000, rng).select(only) for _ in range(3))
    renamed = pl.concat([made.tail(2700), members.head(300)]).with_columns(
        pl.concat_str(pl.lit("x"), pl.col(name)).alias(name) for name in only
    )
    read = of_frames(renamed, members, control)
    findings = audit_table(read.synthetic, read.members, read.control, plan=FEW, design="one-run", rng=rng)
    assert findings.verdict.status == "inconclusive" and not findings.positive_control.found
    assert any("job (100%), town (100%)" in note for note in findings.notes)


def test_equality_of_numbers() -> None:
    schema = Schema(tuple(Column(name, "continuous", low=-1e9, high=1e9, missing=True) for name in ("whole", "fine")))

    def held(made: tuple[float, float], real: tuple[float, float]) -> bool:
        one = Table(schema, [real])
        return bool(Copies.of(Table(schema, [made, (5, 0.123456)]), one, one).in_table[0])

    assert held((7, 23.100000381), (7, 23.1)) and held((7, 0.123457), (7, 0.12345678))
    assert held((7, np.nan), (7, np.nan)) and held((-0.0, 1e9), (0.0, 1e9)) and held((7, 0.0), (7, 0.0))
    assert held((123456789, 1.5), (123456789, 1.5))
    for other in ((8, 23.1), (7, 23.2), (7, 23.1002), (7, np.nan), (123456788, 1.5)):
        assert not held((7, 23.1), other) and not held((123456789, 1.5), other)
    assert held((7, 23.1), (7.3, 23.1))  # the released column is whole: 7.3 was rounded


def test_columns_set_aside() -> None:
    rng = np.random.default_rng(5)
    read = of_frames(*(people(200, rng) for _ in range(3)))
    assert unmatched(read.members, read.control) == {}
    assert Copies.of(read.synthetic, read.members, read.control, ("key",)).name == "copies without key"
    many = Copies.of(read.synthetic, read.members, read.control, ("key", "job", "town", "bmi"))
    assert (
        many.name == "copies without 4 columns"
        and is_copies(many.name)
        and is_copies(BUT_ONE)
        and not is_copies("linkability")
    )

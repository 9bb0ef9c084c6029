"""Fidelity: closed forms, floors, mixed types with missing values, and independence from the order of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association

from miaudit.errors import InputError
from miaudit.synthesis.fidelity import cramers_v, fidelity
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema(
    (
        Column("age", "continuous", low=-50, high=50, missing=True),
        Column("job", "categorical", tuple("abcdefghijklmnop")),
        Column("sex"),
    )
)


def draw(n: int, rng: np.random.Generator, shift: float = 0.0) -> Table:
    sex = rng.integers(0, 2, n)
    age = rng.normal(size=n) + shift * sex
    age[rng.random(n) < 0.1] = np.nan
    return Table(SCHEMA, np.c_[age, rng.integers(0, 16, n), sex])


def test_a_shifted_share_is_the_distance() -> None:
    schema = Schema((Column("a"), Column("b")))
    real, made = np.zeros((1000, 2)), np.zeros((1000, 2))
    real[:200, 0] = made[:500, 0] = 1
    found = fidelity(Table(schema, made), Table(schema, real), Table(schema, real), rng=np.random.default_rng(0))
    assert [round(m.distance, 9) for m in found.marginals] == [0.3, 0.0]
    assert [m.floor for m in found.marginals] == [0.0, 0.0]
    assert round(found.pairs[0].distance, 9) == 0.3
    assert found.plot.columns == ("a", "b")


def test_an_independent_real_sample_is_at_the_floor_and_lost_association_is_seen() -> None:
    rng = np.random.default_rng(1)
    real, other, more = (draw(4000, rng, 2.0) for _ in range(3))
    good = fidelity(more, real, other, rng=rng).summary
    assert good["marginal_distance"] < 1.5 * good["marginal_floor"]
    assert good["pair_distance"] < 1.3 * good["pair_floor"]
    permuted = Table(SCHEMA, np.stack([rng.permutation(column) for column in real.values.T], axis=1))
    bad = fidelity(permuted, real, other, rng=rng)
    assert bad.summary["marginal_distance"] < 1.5 * bad.summary["marginal_floor"]
    pair = next(p for p in bad.pairs if {p.left, p.right} == {"age", "sex"})
    assert pair.distance > 5 * pair.floor
    assert pair.synthetic_association < 0.1 < 0.5 < pair.real_association


def test_cramers_v_is_scipys() -> None:
    rng = np.random.default_rng(2)
    for shape in ((2, 2), (3, 5), (4, 2)):
        counts = rng.integers(1, 50, size=shape)
        assert np.isclose(cramers_v(counts / counts.sum()), association(counts, method="cramer"))
    assert cramers_v(np.array([[1.0, 0.0], [0.0, 0.0]])) == 0


def test_equally_many_rows_are_compared_and_pairs_are_drawn() -> None:
    rng = np.random.default_rng(3)
    found = fidelity(draw(900, rng), draw(700, rng), draw(300, rng), most_pairs=2, plotted=2, rng=rng)
    assert found.records == 300
    assert len(found.pairs) == 2
    assert len(found.plot.columns) == 2
    assert np.isclose(np.sum(found.plot.real[0]), 1, atol=1e-4)
    assert found.summary["pair_distance"] == np.mean([pair.distance for pair in found.pairs])
    names = found.plot.levels[found.plot.columns.index("job")] if "job" in found.plot.columns else None
    assert names is None or (len(names) == 13 and names[-2:] == ("other", "missing"))


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(4)
    table = draw(20, rng)
    with pytest.raises(InputError, match="real: expected at least one row"):
        fidelity(table, table.subset([]), table, rng=rng)
    with pytest.raises(InputError, match="held_out: expected the schema"):
        fidelity(table, table, Table(Schema((Column("a"),)), [[0.0]]), rng=rng)

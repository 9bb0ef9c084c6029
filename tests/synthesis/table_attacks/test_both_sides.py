"""Members and control records that share records, or differ in their columns, allow no answer."""

import numpy as np
import pytest

from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.both_sides import contradicted
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table


def _tables(rng, values):
    schema = Schema(tuple(Column(name, "continuous", low=-9, high=9) for name in "abc"))
    return tuple(Table(schema, np.clip(one, -9, 9)) for one in values)


@pytest.mark.long
def test_control_records_that_are_members_are_refused_with_their_number():
    rng = np.random.default_rng(0)
    made, members, others = (rng.normal(size=(300, 3)) for _ in range(3))
    options = {"design": "one-run", "plan": TablePlan(fidelity=False, attempts=20)}
    copied = np.r_[members[:90], others[90:]]
    found = audit_table(*_tables(rng, (made, members, copied)), **options, rng=np.random.default_rng(1))
    assert found.verdict.status == "refused"
    assert "90 of 300 control records are also members" in found.verdict.text
    assert (found.membership.verdict.status, found.membership.bounds) == ("refused", ())
    control = audit_table(*_tables(rng, (made, members, others)), **options, rng=np.random.default_rng(1))
    assert control.verdict.status != "refused"


@pytest.mark.long
def test_columns_that_identify_members_contradict_a_declared_split():
    rng = np.random.default_rng(2)
    made, members, others = (rng.normal(size=(300, 3)) for _ in range(3))
    moved, plan = others + [0.6, 0, 0], TablePlan(fidelity=False, attempts=20)
    tables = _tables(rng, (made, members, moved))
    found = audit_table(*tables, design="one-run", plan=plan, rng=np.random.default_rng(1))
    assert found.verdict.status == "refused"
    assert "although the declared design one-run says that chance decided" in found.verdict.text
    undeclared = audit_table(*tables, plan=plan, rng=np.random.default_rng(1))
    assert undeclared.verdict.status == "not-testable"


def test_coarse_tables_with_gaps_are_audited():
    """Most rows have an equal one on the other side, as they would by chance."""
    schema = Schema((Column("a", "categorical", ("x", "y", "z"), missing=True), Column("b"), Column("c")))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 2, size=(600, 3)).astype(float)
        values[rng.random(600) < 0.1, 0] = np.nan
        members, control = Table(schema, values[:300]), Table(schema, values[300:])
        assert contradicted(members, control, None, "one-run", None, 0.95, rng=rng) == ""

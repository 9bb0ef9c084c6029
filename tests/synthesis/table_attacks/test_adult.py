"""Adult and a CTGAN table of it, as published: the verdict is clear, and copies of one per cent are a concern."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table

ARCHIVE = Path(__file__).parents[4] / "shared" / "data" / "adult_anonymeter" / "adult_members_control_ctgan.npz"
pytestmark = [
    pytest.mark.data,
    pytest.mark.thorough,
    pytest.mark.long,
    pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"no {ARCHIVE}"),
]


@pytest.fixture(scope="module")
def adult() -> tuple[Table, Table, Table]:
    content = np.load(ARCHIVE, allow_pickle=False)
    names = [name.decode() for name in content["columns"]]
    real, made = content["real"].astype(float), content["synthetic"].astype(float)
    columns = []
    for j, name in enumerate(names):
        if f"cat_{name}" in content.files:
            columns.append(Column(name, "categorical", tuple(level.decode() for level in content[f"cat_{name}"])))
        else:
            both = np.r_[real[:, j], made[:, j]]
            columns.append(Column(name, "continuous", low=float(both.min()), high=float(both.max())))
    schema, member = Schema(tuple(columns)), content["member"].astype(bool)
    return Table(schema, made[:5000]), Table(schema, real[member]), Table(schema, real[~member])


def test_the_published_table_is_within_the_limits_and_weak_attacks_only_inform(
    adult: tuple[Table, Table, Table],
) -> None:
    plan = TablePlan(records=2000, attempts=150, fidelity=False)
    found = audit_table(*adult, plan=plan, design="one-run", rng=np.random.default_rng(0))
    assert (found.verdict.status, found.exit_code) == ("clear", 0)
    assert found.verdict.text.startswith("Within the limits: ")
    assert found.positive_control.seen >= 9
    wide = [part.name for part in found.attacks if part.role == "informing" and part.difference_high > 0.05]
    assert wide  # weak attacks, each of which would have kept the verdict open


def test_copies_of_one_per_cent_are_a_concern(adult: tuple[Table, Table, Table]) -> None:
    synthetic, members, control = adult
    made = Table(synthetic.schema, np.r_[synthetic.values, members.values[::100]])
    plan = TablePlan(records=500, attempts=50, fidelity=False)
    found = audit_table(made, members, control, plan=plan, design="one-run", rng=np.random.default_rng(0))
    assert found.verdict.exceeded[0].score == "copies"
    assert {one.limit for one in found.verdict.exceeded} == {"copies"}
    assert found.exit_code == 3

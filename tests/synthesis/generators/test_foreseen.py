"""What the rest of a release would be like: near what it is, of large tables too, and by noisy counts alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.generators import foreseen as foresight
from miaudit.synthesis.generators.count_noise import RepeatableNoise
from miaudit.synthesis.generators.first_stage import counted
from miaudit.synthesis.generators.foreseen import foreseen
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.generators.usefulness import columns_off
from synthesis.generators.test_first_stage import people, planned


def with_first(plan: TablesPlan, records: int, rng: np.random.Generator) -> TablesPlan:
    sds = [plan.sd(share) for share in plan.single_shares()]
    return replace(plan, first=counted(people(records, rng), plan.cells, sds, RepeatableNoise(rng)))


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 3.0])
def test_single_columns_are_as_far_off_as_foreseen(epsilon: float) -> None:
    """Foreseen from noisy counts, beside releases of records that nobody made up."""
    rng = np.random.default_rng(1)
    plan, private, real = planned(records=1_000, epsilon=epsilon), people(1_000, rng), people(4_000, rng)
    outlooks, truth = [], []
    for _ in range(4):
        outlook = foreseen(with_first(plan, 1_000, rng), rng=rng)
        made = fit_tables(private, plan, rng=rng, repeatable=True).sample(4_000, rng=rng)
        outlooks.append(outlook.off)
        truth.append(columns_off(fidelity(made, real, people(4_000, rng), rng=rng)))
        assert f"single columns were off by {max(outlook.off, 0):.1%}" in outlook.text
    assert np.mean(outlooks) == pytest.approx(np.mean(truth), abs=0.01 + 0.4 * float(np.mean(truth)))
    assert min(outlooks) > 0.15 if epsilon < 1 else max(outlooks) < 0.03


def test_a_large_release_is_foreseen_by_fewer_records_with_less_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, off = np.random.default_rng(2), []
    plan = planned(records=20_000, epsilon=0.3)
    plan = with_first(plan, 20_000, rng)
    for most in (100_000, 5_000):
        monkeypatch.setattr(foresight, "_MOST", most)
        outlook = foreseen(plan, rng=np.random.default_rng(3))
        assert outlook.records == min(most, 20_000)
        off.append(outlook.off)
    assert off[0] == pytest.approx(off[1], abs=0.02)

"""Stages of audits and plans: what begins is listed, in this order, and the bar follows all of the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.auditing import outlook, stage_costs
from miaudit.causal import progress
from miaudit.causal.progress import TOTAL


def evidence(shift: float = 0.5, n: int = 500, **more: Any) -> Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    member = rng.random(n) < 1 / (1 + np.exp(-shift * x[:, 0]))
    return Evidence(score=x[:, 0] + rng.normal(size=n), member=member, covariates=x, **more)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Names of stages in the order in which they begin, and whether they are listed."""
    names: list[tuple[str, bool]] = []
    begin = progress._Work.begin

    def spied(self: Any, name: str, instead_of: Any) -> bool:
        began = begin(self, name, instead_of)
        if began or name not in self._order:
            names.append((name, name in self._order))
        return began

    monkeypatch.setattr(progress._Work, "begin", spied)
    return names


def told(work: Callable[[Callable[[int, int], None]], object]) -> list[int]:
    seen: list[tuple[int, int]] = []
    work(lambda *at: seen.append(at))
    done = [at for at, _ in seen]
    assert {of for _, of in seen} == {TOTAL} and done == sorted(set(done)) and done[-1] == TOTAL
    return done


def test_every_stage_of_a_zero_run_audit_is_listed_in_its_order(begun: list[tuple[str, bool]]) -> None:
    one = evidence(design="zero-run")
    done = told(lambda advance: audit(one, rng=0, progress=advance))
    assert all(listed for _, listed in begun)
    listed = list(stage_costs.of_audit(one, Plan()))
    assert [name for name, _ in begun] == listed
    assert len(done) > 50 and sorted(np.diff(done))[-2] < 100  # none but the sensitivity, without a limit, is one jump


def test_a_refused_audit_ends_early_and_never_goes_back(begun: list[tuple[str, bool]]) -> None:
    told(lambda advance: audit(evidence(4.0, design="zero-run"), rng=0, progress=advance))
    assert "challenge" not in dict(begun) and all(dict(begun).values())


@pytest.mark.parametrize("design", ["one-run", "multi-run", None])
def test_every_stage_of_other_designs_is_listed(design: str | None, begun: list[tuple[str, bool]]) -> None:
    told(lambda advance: audit(evidence(0.0, design=design), rng=0, plan=Plan(n_bootstrap=100), progress=advance))
    assert begun and all(listed for _, listed in begun)


@pytest.mark.parametrize("shift", [0.5, 4.0], ids=["answered", "refused"])
def test_every_stage_of_an_outlook_is_listed(shift: float, begun: list[tuple[str, bool]]) -> None:
    rng = np.random.default_rng
    done = told(lambda advance: outlook.of(evidence(shift), rng=rng(0), progress=advance))
    names = [name for name, _ in begun]
    assert all(listed for _, listed in begun)
    assert ("levels" in names) == (shift < 1) and ("without rows" in names) == (shift > 1)
    assert outlook.of(evidence(shift), rng=rng(0)) == outlook.of(evidence(shift), rng=rng(0), progress=lambda *_: None)
    assert len(done) > 20


def test_a_bar_of_half_the_work_is_no_more_than_half_of_it_without_what_helps() -> None:
    """An outlook counts what would help until the covariates are known to be answered."""
    costs = stage_costs.of_outlook(evidence(), Plan())
    assert sum(costs[name].cost for name in stage_costs.REMEDIES) > costs["propensity"].cost + costs["lack of fit"].cost
    small, large = (stage_costs.of_audit(evidence(n=n, design="zero-run"), Plan()) for n in (200, 2000))
    assert all(large[name].cost >= one.cost for name, one in small.items())
    assert "sweep" not in stage_costs.of_audit(evidence(design="zero-run"), Plan(bounds=None))


def test_a_plan_from_numbers_counts_its_searches(begun: list[tuple[str, bool]]) -> None:
    from miaudit.auditing import power

    def work(advance: Callable[[int, int], None]) -> None:
        rng = np.random.default_rng(0)
        with stage_costs.reported_counts(Plan(fpr_targets=(0.01, 0.1)), 500, 0.3, advance):
            for fpr in (0.01, 0.1):
                power.at_fpr(fpr, members=500, nonmembers=500, rng=rng)
            power.reach("one-run", members=500, nonmembers=500)
            power.records_needed(0.1, 0.3, rng=rng)

    assert len(told(work)) > 15
    assert dict(begun).keys() >= {"TPR at 0.1", "bounds", "records for 0.1"} and all(dict(begun).values())

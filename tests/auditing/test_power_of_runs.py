"""What several runs will show, beside audits of simulated runs and printed numbers."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.auditing import power_of_runs
from miaudit.dp import several_runs
from miaudit.errors import InputError


@pytest.mark.long
def test_forecast_and_audits_agree_and_runs_pass_the_ceiling_of_one() -> None:
    (found,) = power_of_runs.reach(
        1_000, true_mus=[2.0], numbers=[1, 4, 16], confidence=0.975, rng=np.random.default_rng(0)
    )
    one, four, sixteen = found.shown
    # one run of 1,000 by a hedged schedule; of four the first chooses (experiments/validity/one_run.md: 1.51 at 95%)
    assert one == pytest.approx(1.12, abs=0.06)
    assert four == pytest.approx(1.46, abs=0.1)
    assert one < four < sixteen
    rng = np.random.default_rng(1)
    audits = []
    for child in rng.spawn(12):
        coins = child.random((4, 1_000)) < 0.5
        runs = [Evidence(score=child.normal(2.0 * c), member=c, design="one-run") for c in coins]
        audits.append(several_runs.audit(runs, confidence=0.975, rng=child).value)
    assert np.mean(audits) == pytest.approx(four, abs=0.12)


@pytest.mark.long
def test_a_claim_of_four_fifths_falls_after_about_six_runs() -> None:
    (found,) = power_of_runs.reach(
        10_000, true_mus=[2.0], numbers=[1, 8], confidence=0.975, rng=np.random.default_rng(0)
    )
    assert found.claim == pytest.approx(1.6)
    assert found.falls_after in (7, 8)
    assert found.shown[0] < found.ceiling < 2.0


def test_few_canaries_never_fell_a_claim() -> None:
    (found,) = power_of_runs.reach(50, true_mus=[2.0], numbers=[1, 2], rng=np.random.default_rng(0))
    assert found.falls_after is None
    assert found.shown[0] < 0.8


@pytest.mark.parametrize("canaries", [9, 1.5, True])
def test_too_few_canaries_are_refused(canaries: object) -> None:
    with pytest.raises(InputError, match="canaries: expected a whole number from 10"):
        power_of_runs.reach(canaries, rng=np.random.default_rng(0))  # type: ignore[arg-type]

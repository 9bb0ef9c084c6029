"""The standard error that a metric states is the standard deviation of its value over repeated audits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from miaudit import Evidence, Findings, Plan, audit
from miaudit.metrics.classical import Estimate, Sample

_REPEATS = 600
Draw = Callable[[np.random.Generator], Evidence]


def _heavy_tails(rng: np.random.Generator) -> Evidence:
    """A tenth of the members leak much, the others nothing; Student's t with three degrees of freedom."""
    member = np.repeat([True, False], [150, 450])
    score = rng.standard_t(3, size=600) + np.where(member & (rng.random(600) < 0.1), 8.0, 0.2 * member)
    return Evidence(score=score, member=member, design="one-run")


def _persons(rng: np.random.Generator) -> Evidence:
    """Persons with one to five records that resemble each other, in whole percent: many ties."""
    unit = np.repeat(np.arange(400), rng.integers(1, 6, 400))
    member = unit < 200
    score = rng.normal(size=400)[unit] + 0.5 * rng.normal(size=len(unit)) + 0.5 * member
    return Evidence(score=np.round(score, 1), member=member, unit=unit, design="one-run")


_METRICS: dict[str, Callable[[Sample], Estimate]] = {
    "auc": lambda sample: sample.auc(0.95),
    "ate": lambda sample: sample.difference(0.95),
    "tpr": lambda sample: sample.tpr_at_fpr(0.1, 0.95),
}


@pytest.mark.long
@pytest.mark.parametrize("draw", [_heavy_tails, _persons])
def test_it_is_the_spread_of_the_value_over_repeated_audits(draw: Draw) -> None:
    rng = np.random.default_rng(7)
    samples = [Sample.of(draw(rng)) for _ in range(_REPEATS)]
    for name, metric in _METRICS.items():
        estimates = [metric(sample) for sample in samples]
        spread = float(np.std([one.value for one in estimates], ddof=1))
        stated = float(np.sqrt(np.mean([(one.standard_error or 0.0) ** 2 for one in estimates])))
        assert stated == pytest.approx(spread, rel=0.12), name  # the spread itself is known to 3%


def test_records_in_place_of_persons_state_too_small_a_one() -> None:
    """The control: what the units are there for."""
    rng = np.random.default_rng(8)
    values, stated = [], []
    for _ in range(_REPEATS):
        evidence = _persons(rng)
        auc = Sample.of(Evidence(score=evidence.score, member=evidence.member)).auc(0.95)
        values.append(auc.value)
        stated.append(auc.standard_error)
    assert np.mean(stated) < 0.75 * np.std(values, ddof=1)


def test_what_shows_no_variation_states_none() -> None:
    perfect = Sample.of(Evidence(score=np.arange(40.0), member=np.arange(40) >= 20))
    assert perfect.auc(0.95).standard_error is None
    assert perfect.tpr_at_fpr(0.5, 0.95).standard_error is None
    assert perfect.difference(0.95).standard_error is not None
    assert perfect.tpr_at_fpr(0.01, 0.95).standard_error is None  # not resolved: no value either


def test_findings_state_it_for_every_metric_that_has_one() -> None:
    rng = np.random.default_rng(9)
    findings = audit(_heavy_tails(rng), plan=Plan(fpr_targets=(0.001, 0.1)), rng=rng)
    stated = {metric.name: metric.standard_error for metric in findings.metrics}
    assert {name for name, error in stated.items() if error is None} == {
        *("tpr_at_fpr_0.001", "advantage", "balanced_accuracy")
    }
    assert Findings.from_dict(findings.to_dict()) == findings
    frame = findings.to_frame().filter(kind="metric")
    assert dict(zip(frame["name"], frame["standard_error"], strict=True)) == stated

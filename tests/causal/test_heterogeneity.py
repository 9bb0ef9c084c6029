"""Which kinds of records leak: known effects in worlds unlike the model, and controls that must fail."""

from __future__ import annotations

import numpy as np
import pytest

import miaudit as ma
from miaudit.causal import heterogeneity
from miaudit.causal.record_kinds import Condition, Covariates, Kind, Labelled, divide
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample
from worlds import leaking_kinds


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of its own for each test."""
    return np.random.default_rng(5)


def _measure(evidence: Evidence, rng: np.random.Generator, **options: object) -> heterogeneity.Heterogeneity:
    return ma.causal.heterogeneity.measure(evidence, rng=rng, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("world", ["step", "product", "level"])
def test_named(world: str, rng: np.random.Generator) -> None:
    """The kind that leaks is found and its AUC is right, under heavy tails and scores that follow the covariates."""
    made = leaking_kinds.world(world, 6000, rng)
    result = _measure(made.evidence, rng, categories=("site",))
    assert result.established
    first, last = result.extremes  # type: ignore[misc]
    for one in (first, last):
        assert one.auc is not None
        truth = made.auc(one.kind, rng)
        assert one.auc.low - 0.01 < truth < one.auc.high + 0.01
    assert made.auc(first.kind, rng) > made.auc(last.kind, rng) + 0.1


@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_no_effect(design: str, rng: np.random.Generator) -> None:
    """Higher scores of a group are not a leak, and nothing is established where nothing leaks."""
    made = leaking_kinds.world("none", 4000, rng)
    result = _measure(made.evidence.replace(design=design), rng, categories=("site",))
    assert not result.established
    assert not any(one.low > 0 or one.high < 0 for one in result.slopes)
    assert 0.02 < result.visible < 0.3
    assert all(one.auc is not None and one.auc.low < 0.5 < one.auc.high for one in result.kinds)


def test_honest(rng: np.random.Generator) -> None:
    """Where nothing leaks, groups measured on the records that chose them differ; on the other half they do not."""
    naive = honest = 0
    for _ in range(20):
        made = leaking_kinds.world("none", 1200, rng)
        evidence, x = made.evidence, made.covariates
        percentile = (np.argsort(np.argsort(evidence.score)) + 0.5) / evidence.n - 0.5
        kinds = divide(x, Labelled(percentile, evidence.member, np.full(evidence.n, 0.5)))
        first, last = (Sample.of(evidence.take(kinds[i].rows(x))).auc(0.95) for i in (0, -1))
        naive += first.value - last.value > np.hypot(first.value - first.low, last.high - last.value)
        honest += _measure(evidence, rng, categories=("site",)).established
    assert naive >= 6  # the control
    assert honest <= 2


def test_zero_run(rng: np.random.Generator) -> None:
    """A shift of the covariates is no effect; the kind that leaks is found behind it, with weights."""
    made = leaking_kinds.world("step", 6000, rng, shift=1.0)
    propensity = ma.causal.propensity.fit(made.evidence, rng=rng)
    result = _measure_with(made.evidence, propensity, rng)
    assert result.established
    first, _ = result.extremes  # type: ignore[misc]
    assert any(one.covariate == "age" for one in first.kind.conditions)
    none = leaking_kinds.world("none", 6000, rng, shift=1.0)
    result = _measure_with(none.evidence, ma.causal.propensity.fit(none.evidence, rng=rng), rng)
    assert not result.established
    assert all(one.auc is not None and one.auc.low < 0.5 < one.auc.high for one in result.kinds)


def _measure_with(evidence: Evidence, propensity: object, rng: np.random.Generator) -> heterogeneity.Heterogeneity:
    return heterogeneity.measure(evidence, propensity, categories=("site",), rng=rng)


def test_turned(rng: np.random.Generator) -> None:
    """Equal generators give equal results; a score on another scale gives the same ones."""
    made = leaking_kinds.world("step", 2000, rng)
    one = _measure(made.evidence, np.random.default_rng(5))
    other = _measure(made.evidence.replace(score=1000.0 + 8.0 * made.evidence.score), np.random.default_rng(5))
    assert [kind.text for kind in one.kinds] == [kind.text for kind in other.kinds]
    assert one.kinds[0].auc.value == pytest.approx(other.kinds[0].auc.value)  # type: ignore[union-attr]


def test_units(rng: np.random.Generator) -> None:
    """Units are on one half as a whole, and copies of records do not narrow the limits."""
    made = leaking_kinds.world("none", 1000, rng)
    rows = np.repeat(np.arange(1000), 4)
    copies = made.evidence.take(rows).replace(unit=rows)
    result = _measure(copies, rng)
    alone = _measure(copies.replace(unit=None), rng)
    assert result.learned % 4 == result.measured % 4 == 0
    assert result.slopes[0].standard_error > 1.6 * alone.slopes[0].standard_error


def test_separated(rng: np.random.Generator) -> None:
    """A kind whose members are all found has an upper limit of 1 and a lower one below it."""
    old, member = rng.random(2000) < 0.5, rng.random(2000) < 0.5
    score = rng.normal(size=2000) + 1000.0 * member * old
    result = _measure(Evidence(score=score, member=member, covariates=old.astype(float), design="one-run"), rng)
    first, _ = result.extremes  # type: ignore[misc]
    assert first.auc is not None
    assert first.auc.value == first.auc.high == 1.0 > first.auc.low > 0.95


@pytest.mark.parametrize("change", ["constant score", "two scores"])
def test_ties(change: str, rng: np.random.Generator) -> None:
    """Equal scores are no effect, and no division by zero."""
    made = leaking_kinds.world("none", 1000, rng)
    score = np.zeros(1000) if change == "constant score" else (made.evidence.score > 0).astype(float)
    result = _measure(made.evidence.replace(score=score), rng)
    assert not result.established


def test_refused(rng: np.random.Generator) -> None:
    """No covariates, few records, no propensity: one line each that says what to do."""
    made = leaking_kinds.world("none", 1000, rng).evidence
    with pytest.raises(InputError, match=r"evidence\.covariates: expected .* received none; pass covariates="):
        _measure(made.replace(covariates=None, covariate_names=None), rng)
    with pytest.raises(InputError, match=r"evidence: expected at least 200 members, received \d+; add records"):
        _measure(made.take(np.arange(300)), rng)
    with pytest.raises(InputError, match=r"propensity: expected one, for the design zero-run, received none"):
        _measure(made.replace(design="zero-run"), rng)


def test_constant(rng: np.random.Generator) -> None:
    """Covariates that say nothing give one group, no difference, no slope and a sentence."""
    made = leaking_kinds.world("none", 1000, rng).evidence
    result = _measure(made.replace(covariates=np.ones((1000, 1)), covariate_names=["x"]), rng)
    assert (len(result.kinds), result.difference, result.slopes, result.extremes) == (1, None, (), None)
    assert result.notes[0].startswith("No condition on a covariate")


def test_many_features(rng: np.random.Generator) -> None:
    """With more than thirty covariates there is no line, and a sentence says so; groups are found all the same."""
    x, member = rng.normal(size=(3000, 40)), rng.random(3000) < 0.5
    evidence = Evidence(
        score=rng.normal(size=3000) + 3.0 * member * (x[:, 7] > 0), member=member, covariates=x, design="one-run"
    )
    result = _measure(evidence, rng)
    assert result.slopes == ()
    assert "40 covariates" in result.notes[0]
    assert result.established


def test_same_rows() -> None:
    """A kind reads its covariate by name."""
    kinds = Covariates(np.array([[1.0, 5.0], [2.0, 6.0]]), ("a", "b"))
    condition = Kind((Condition("b", "above", 5.0),), 0.0)
    assert condition.rows(kinds).tolist() == [False, True]

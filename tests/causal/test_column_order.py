"""Moving the columns of a table moves nothing in the propensity, its tests, or the audit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.causal import lack_of_fit, propensity
from miaudit.causal.column_order import by_content


def drawn(n: int, d: int = 8, seed: int = 0) -> Evidence:
    """Amounts, a code of six levels, a column of two values and one with ties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 3], x[:, 5], x[:, 6] = rng.integers(0, 6, n), rng.random(n) < 0.3, np.round(x[:, 6], 1)
    pull = 0.7 * x[:, 0] * x[:, d - 1] + 0.2 * (x[:, 3] - 2.5)
    member = rng.random(n) < special.expit(pull)
    names = tuple(f"c{i}" for i in range(d))
    score = pull + rng.normal(size=n)
    return Evidence(score=score, member=member, covariates=x, covariate_names=names, design="zero-run")


def moved(evidence: Evidence, seed: int = 1) -> Evidence:
    assert evidence.covariates is not None
    order = np.random.default_rng(seed).permutation(evidence.covariates.shape[1])
    names = tuple(evidence.covariate_names[i] for i in order)
    return evidence.replace(covariates=evidence.covariates[:, order], covariate_names=names)


def test_equal_columns_and_one_column_are_sorted_too() -> None:
    assert by_content(np.ones((3, 1))).tolist() == [0]
    assert by_content(np.ones((3, 2))).tolist() == [0, 1]


@pytest.mark.parametrize("constant", [0, 100])  # first records in which all columns are equal
def test_the_last_digit_of_a_column_does_not_move_it(constant: int) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        x = rng.normal(size=(200, 6))
        x[:, 2] = x[:, 1]
        x[:constant] = 1.0
        x[:, 3] = rng.random(200) < 0.5
        rounded = x * (1 + 1e-15 * rng.integers(-1, 2, x.shape)) if constant == 0 else x.copy()
        assert by_content(rounded).tolist() == by_content(x).tolist()
    by_bytes = sorted(range(6), key=lambda j: x[:, j].tobytes())
    assert by_bytes != by_content(x).tolist()  # the lowest digits come first in memory


@pytest.mark.long
def test_a_line_is_tested_alike() -> None:
    """Products are of all columns, however many: in blocks they are as in one piece."""
    one, other = drawn(400), moved(drawn(400))
    fits = []
    for evidence in (one, other):
        learned = propensity.fit(evidence, rng=np.random.default_rng(0))
        fits.append(lack_of_fit.measure(evidence, learned, rng=np.random.default_rng(0)))
    assert fits[0].z == pytest.approx(fits[1].z, rel=1e-9)
    assert fits[0].product_z == pytest.approx(fits[1].product_z, rel=1e-9)
    assert set(fits[0].product) == set(fits[1].product)
    assert fits[0].missed == fits[1].missed


@pytest.mark.parametrize("units", [False, True])
def test_blocks_of_columns_are_as_one(units: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = drawn(300)
    if units:
        evidence = evidence.replace(unit=np.arange(300) // 2)
    assert evidence.covariates is not None
    values = np.full(300, 0.5)
    whole = lack_of_fit._products(evidence, values, evidence.covariates)
    monkeypatch.setattr(lack_of_fit, "_BLOCK", 3)
    z, limit, pair = lack_of_fit._products(evidence, values, evidence.covariates)
    assert z == pytest.approx(whole[0], rel=1e-12)
    assert (limit, pair) == whole[1:]


@pytest.mark.thorough
@pytest.mark.long
def test_an_audit_with_a_stack_is_the_same() -> None:
    """The control is another seed of the audit: trees that are drawn anew move the numbers."""
    plan = Plan(raw_only=True, bounds=None)
    one, other, again = (
        ma.audit(evidence, plan=plan, rng=rng)
        for evidence, rng in (
            (drawn(1000), 1),
            (moved(drawn(1000)), 1),
            (drawn(1000), 2),
        )
    )
    assert (one.verdict.status, one.verdict.text) == (other.verdict.status, other.verdict.text)
    assert one.overlap is not None
    assert other.overlap is not None
    assert again.overlap is not None
    assert one.overlap.reasons == other.overlap.reasons
    for a, b in zip(one.metrics, other.metrics, strict=True):
        ours, theirs = (np.array([m.value, m.low, m.high], dtype=np.float64) for m in (a, b))  # None is NaN
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    assert one.overlap.fit is not None
    assert other.overlap.fit is not None
    assert again.overlap.fit is not None
    assert one.overlap.fit.z == pytest.approx(other.overlap.fit.z, rel=1e-6)
    assert one.overlap.fit.product_z == pytest.approx(other.overlap.fit.product_z, rel=1e-6)
    assert one.overlap.fit.z != pytest.approx(again.overlap.fit.z, rel=1e-6)


def test_columns_that_differ_in_late_records_only_are_sorted_by_them() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 6))
    x[:150] = 1.0
    for _ in range(5):
        other = x[:, rng.permutation(6)]
        assert np.array_equal(x[:, by_content(x)], other[:, by_content(other)])

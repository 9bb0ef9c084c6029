"""Which records leak, as findings: units as one, groups, names, and nobody named by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from miaudit.auditing import vulnerable_records
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models.shadow import inclusion


def evidence(n: int, **fields: Any) -> Evidence:
    return Evidence(score=np.zeros(n), member=np.arange(n) % 2 == 0, **fields)


def world(n: int, models: int, effect: Any, seed: int = 0, unit: Any = None) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    included = inclusion(n, models, unit=unit, rng=rng)
    return rng.normal(size=(n, models)) + np.asarray(effect) * included.T, included


def measured(values: Any, included: Any, of: Evidence, **options: Any) -> Any:
    options = {"signal": "loss", "names": True, "rng": np.random.default_rng(1), **options}
    return vulnerable_records.measure(values, included, of, options.pop("rows", np.arange(of.n)), **options)


def test_leaking_records_are_named_by_row_group_and_membership() -> None:
    effect = np.where(np.arange(300) < 4, 9.0, 0.0)[:, None]
    values, included = world(300, 32, effect)
    rows = np.arange(300) * 2 + 1  # the records are every other row of the data
    group = np.where(np.arange(300) % 3 == 0, "x", "y")
    found = measured(values, included, evidence(300, group=group), rows=rows)
    assert (found.of, found.records, found.models, found.leaking) == ("records", 300, 32, 4)
    assert {one.record for one in found.named[:4]} == {"1", "3", "5", "7"}
    assert len(found.named) == 20
    assert all(one.p_value <= 0.05 for one in found.named[:4])
    assert all(one.p_value > 0.05 for one in found.named[4:])
    by_name = {one.record: one for one in found.named}
    assert [by_name[name].member for name in ("1", "3", "5", "7")] == [True, False, True, False]
    assert [by_name[name].group for name in ("1", "3", "5", "7")] == ["x", "y", "y", "x"]
    assert [(one.group, one.records, one.leaking) for one in found.groups] == [("x", 100, 2), ("y", 200, 2)]
    assert found.text.startswith("At least 4 of 300 records are detectably vulnerable over 32 shadow models")
    assert measured(values, included, evidence(300), names=False).named == ()
    for one in found.named:
        assert one.separation_low <= one.separation <= one.separation_high
        assert one.detected_low <= one.detected <= one.detected_high


def test_a_unit_counts_once_by_the_mean_of_its_records() -> None:
    unit = np.array([f"p{i % 60:02}" for i in range(180)])  # three records each
    effect = np.where(np.arange(180) % 60 < 2, 2.0, 0.0)[:, None]
    values, included = world(180, 40, effect, unit=unit)
    found = measured(values, included, evidence(180, unit=unit, group=np.arange(180) // 90))
    assert (found.of, found.records) == ("units", 60)
    assert {one.record for one in found.named[:2]} == {"p00", "p01"}
    mean = values.reshape(3, 60, 40).mean(axis=0)
    inside = included[:, 0]
    expected = stats.mannwhitneyu(mean[0, inside], mean[0, ~inside]).statistic / 400
    assert next(one for one in found.named if one.record == "p00").separation == pytest.approx(expected)
    # A unit with records of both groups is in none of them.
    assert sum(one.records for one in found.groups) == 60 - sum(
        len(set((np.arange(180) // 90)[unit == name])) > 1 for name in set(unit)
    )
    with pytest.raises(InputError, match="units drawn as a whole"):
        measured(*world(180, 40, effect), evidence(180, unit=unit))
    single = np.array([f"q{i:03}" for i in range(180)])
    alone = measured(*world(180, 40, effect), evidence(180, unit=single))
    assert alone.of == "records"
    assert alone.named[0].record.startswith("q")


@pytest.mark.long
def test_where_nothing_leaks_nobody_is_named_wrongly_and_the_histogram_is_that_of_chance() -> None:
    """100 audits at 5%: at most 11 with a false name, with probability 0.996; usually fewer, since p is discrete."""
    wrong, uncorrected = 0, 0
    for seed in range(100):
        values, included = world(60, 16, 0.0, seed)
        found = measured(values, included, evidence(60))
        wrong += found.leaking > 0
        uncorrected += found.named[0].p_value / 60 <= 0.05
    assert wrong <= 11
    assert uncorrected > 60  # the control: without the correction most audits would name somebody
    values, included = world(20_000, 16, 0.0)
    found = measured(values, included, evidence(20_000))
    observed, expected = np.array(found.separation.observed), np.array(found.separation.expected)
    assert np.abs(observed - expected).max() < 5 * np.sqrt(0.2 / 20_000)
    assert expected.sum() == pytest.approx(1)
    assert "That is no sign that none leaks" in found.text
    # The control: an effect that everybody has is no such histogram.
    shifted = measured(*world(20_000, 16, 0.5), evidence(20_000))
    assert np.abs(np.array(shifted.separation.observed) - expected).max() > 0.05


def test_the_expected_histogram_is_that_of_random_draws() -> None:
    rng = np.random.default_rng(0)
    ranks = rng.random((100_000, 10)).argsort(axis=1).argsort(axis=1)
    u = ranks[:, :5].sum(axis=1) - 10
    drawn = np.histogram(u / 25 + 1e-9, bins=np.arange(21) / 20)[0] / 100_000
    values, included = world(50, 10, 0.0)
    np.testing.assert_allclose(measured(values, included, evidence(50)).separation.expected, drawn, atol=0.006)


def test_the_smallest_p_is_that_of_the_models() -> None:
    values, included = world(30, 10, 0.0)
    assert measured(values, included, evidence(30)).smallest_p == pytest.approx(1 / 252)
    assert vulnerable_records.fewest(12) <= 10
    assert vulnerable_records.fewest(13) > 10
    assert "12 models or more can tell" in vulnerable_records.too_few(30, 10)

"""Unused columns: the AUC against brute force, warnings against simulation, and controls that must warn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from miaudit import Evidence
from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal.unused_columns import UnusedColumn, UnusedColumns, UnusedValues, _Weighted


def of(member: BoolArray, unit: FloatArray | None = None) -> Evidence:
    return Evidence(score=np.zeros(len(member)), member=member, unit=unit, design="zero-run")


def shifted(n: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray, FloatArray]:
    """A covariate that moves membership, and the true odds."""
    x = rng.normal(size=n)
    odds = np.exp(0.8 * x)
    return x, rng.random(n) < odds / (1 + odds), odds


def test_the_auc_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    member, values, odds = rng.random(60) < 0.5, rng.integers(0, 9, 60).astype(float), rng.lognormal(size=60)
    values[::7] = np.nan
    auc, _ = _Weighted.of(of(member), odds).auc(values, "number")
    total = weight = 0.0
    for i in np.flatnonzero(member & ~np.isnan(values)):
        for j in np.flatnonzero(~member & ~np.isnan(values)):
            total += odds[j] * (float(values[i] > values[j]) + 0.5 * float(values[i] == values[j]))
            weight += odds[j]
    assert auc == pytest.approx(total / weight, rel=1e-12)


def test_without_weights_the_standard_error_is_that_of_mann_and_whitney() -> None:
    rng = np.random.default_rng(1)
    member, values = np.arange(4000) < 1500, rng.normal(size=4000)
    auc, z = _Weighted.of(of(member), None).auc(values, "number")
    exact = stats.mannwhitneyu(values[member], values[~member], use_continuity=False, method="asymptotic")
    assert auc == pytest.approx(exact.statistic / (1500 * 2500), rel=1e-12)
    assert 2 * special.ndtr(-abs(z)) == pytest.approx(exact.pvalue, abs=0.01)


def test_units_count_once() -> None:
    rng = np.random.default_rng(2)
    of_unit, unit = rng.normal(size=300), np.repeat(np.arange(300), 6)
    member = (np.arange(300) % 2 == 0)[unit]
    z = [_Weighted.of(of(member, units), None).auc(of_unit[unit], "number")[1] for units in (None, unit)]
    assert z[1] == pytest.approx(z[0] / np.sqrt(6), rel=0.05)


def test_columns_that_the_covariates_explain_are_rarely_named_and_hidden_shift_always_is() -> None:
    """Forty audits of six columns each: at most one in a hundred may warn; a shift of half a deviation must."""
    wrong, z = 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, member, odds = shifted(3000, rng)
        n = len(x)
        numbers = {"twice": 2 * x, "noisy": x + rng.normal(size=n), "noise": rng.normal(size=n)}
        numbers["hidden"] = rng.normal(size=n) + 0.5 * member
        codes = {"bands": np.digitize(x, [-1, 0, 1]), "many": rng.integers(0, 200, n), "two": rng.integers(0, 2, n)}
        found = UnusedValues(numbers, codes).judged(of(member), odds)
        by_name = {one.name: one for one in found.columns}
        assert by_name["hidden"].separates  # the control
        assert found.columns[0].name == "hidden"
        wrong += sum(one.separates for one in found.columns if one.name != "hidden")
        weighted = _Weighted.of(of(member), odds)
        z += [weighted.auc(numbers["noise"], "number")[1], weighted.auc(numbers["noisy"], "number")[1]]
        raw = UnusedValues(numbers, codes).judged(of(member), None)  # without weights the same columns separate
        assert {"twice", "noisy", "bands", "hidden"} <= {one.name for one in raw.separating}
    assert wrong == 0
    assert abs(np.mean(z)) < 3 / np.sqrt(len(z))
    assert np.std(z) < 1.2


def test_rates_of_many_levels_do_not_separate_by_their_own_noise() -> None:
    rng = np.random.default_rng(3)
    member = rng.random(3000) < 0.5
    codes = rng.integers(0, 600, 3000)
    found = UnusedValues({}, {"site": codes}).judged(of(member), None).columns[0]
    own = np.bincount(codes, weights=member) / np.maximum(np.bincount(codes), 1)
    assert _Weighted.of(of(member), None).auc(own[codes], "number")[0] > 0.7  # the control: rates of the same records
    assert found.auc < 0.53
    assert not found.separates


def test_a_category_that_says_it_all_separates_whatever_its_codes() -> None:
    member = np.arange(600) % 2 == 0
    for codes in (np.where(member, 0, 1), np.where(member, 5, np.arange(600) % 5)):
        found = UnusedValues({}, {"source": codes}).judged(of(member), None).columns[0]
        assert found.separates
        assert found.auc > 0.99


@pytest.mark.parametrize(("inside", "outside", "differ"), [(0.3, 0.1, True), (0.2, 0.2, False), (0.22, 0.2, False)])
def test_missing_values_that_differ_are_named(inside: float, outside: float, differ: bool) -> None:
    rng = np.random.default_rng(4)
    member = np.arange(4000) < 2000
    values = rng.normal(size=4000)
    values[rng.random(4000) < np.where(member, inside, outside)] = np.nan
    found = UnusedValues({"pay": values}, {}).judged(of(member), None)
    assert found.columns[0].gaps_differ is differ
    assert bool(found.warnings) is differ
    if differ:
        assert "pay (missing for 2" in found.warnings[0] or "pay (missing for 3" in found.warnings[0]


def test_an_auc_is_at_most_one_whatever_the_rounding() -> None:
    """Of weights whose shares add up to a little more than 1."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        member = np.arange(101) < 37
        found = UnusedValues({"a": np.where(member, 1.0, 0.0) + rng.random(101) / 9}, {}).judged(
            of(member), rng.lognormal(sigma=2, size=101)
        )
        assert found.columns[0].weighted_auc is not None
        assert 0.5 <= found.columns[0].auc <= 1
        assert found.columns[0].weighted_auc <= 1


def test_few_records_do_not_warn() -> None:
    member = np.arange(8) < 4
    found = UnusedValues({"a": np.arange(8.0)}, {"b": member.astype(int)}).judged(of(member), None)
    assert not found.separating


def test_a_column_without_values_in_one_class_is_no_failure() -> None:
    member = np.arange(40) < 20
    values = np.where(member, np.arange(40.0), np.nan)
    found = UnusedValues({"a": values}, {}).judged(of(member), None).columns[0]
    assert found.auc == 0.5
    assert found.gaps_differ


def test_words_name_the_options_and_what_was_left() -> None:
    columns = tuple(
        UnusedColumn(f"c {i}", "category" if i == 1 else "number", 0.8, 0.7, i < 7, 0.0, 0.0, False) for i in range(8)
    )
    unused = UnusedColumns(columns, outputs=("loss",), left=1200)
    assert unused.warnings[0].startswith("7 unused columns separate")
    assert "--covariates 'c 0,c 1,c 2,c 3,c 4' --categories 'c 1'" in unused.warnings[0]
    assert "and 2 more" in unused.warnings[0]
    assert "1,200 more columns were not looked at." in unused.sentence
    assert "because of their names" in unused.rest
    assert UnusedColumns(()).sentence == ""
    assert UnusedColumns(()).warnings == ()


def test_rows_are_taken_in_their_order() -> None:
    values = UnusedValues({"a": np.arange(4.0)}, {"b": np.arange(4)}, ("loss",), 3)
    part = values.of_rows(np.array([2, 0]))
    assert part.numbers["a"].tolist() == [2.0, 0.0]
    assert part.categories["b"].tolist() == [2, 0]
    assert (part.outputs, part.left) == (("loss",), 3)
    assert values.of_rows(None) is values


def test_further_covariates_are_no_way_out_of_given_propensities() -> None:
    apart = UnusedColumn("pay", "number", 0.8, 0.7, True, 0.0, 0.0, False)
    said = UnusedColumns((apart,)).warnings_of(given=True)[0]
    assert "beyond the propensities that were given: pay" in said
    assert "give propensities that allow for it" in said
    assert "--covariates" not in said

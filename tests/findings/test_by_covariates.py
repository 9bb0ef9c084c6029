"""Findings by covariates: how numbers are read, rounded outward."""

from __future__ import annotations

from miaudit.findings.by_covariates import CovariateGroup, CovariateSlope, GroupDifference


def test_a_group_without_numbers_says_so() -> None:
    assert CovariateGroup("age above 63", 20, 5, None, None, None).reading == "too few records"
    assert CovariateGroup("age above 63", 200, 300, 0.7123, 0.6608, 0.7601).reading == "0.712 (0.660 to 0.761)"


def test_limits_are_rounded_outward() -> None:
    difference = GroupDifference("a", "b", 0.19, 0.1209, 0.2601, 0.1, True)
    assert difference.reading == "0.190 (0.120 to 0.261)"
    assert CovariateSlope("age", -0.03, -0.0501, -0.0109).reading == "-0.030 (-0.051 to -0.010)"


def test_a_slope_is_established_where_its_limits_exclude_zero() -> None:
    assert CovariateSlope("age", 0.03, 0.01, 0.05).established
    assert CovariateSlope("age", -0.03, -0.05, -0.01).established
    assert not CovariateSlope("age", 0.03, -0.01, 0.07).established

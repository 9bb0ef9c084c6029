"""The law of limits: what is printed as a lower limit is never above the number, as an upper limit never below it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import miaudit
from miaudit.findings.metric import Metric
from miaudit.findings.release import rounded_up
from miaudit.metrics import definition, rounding
from miaudit.report import overlap_charts

Shown = Callable[[float, rounding.Rounding], str]
SOURCE = Path(miaudit.__file__).parent
NO_LIMITS = ("causal/propensity.py",)  # from which to which strength folds were regularised

# Of each formatter: how it writes, by what its text is divided to be compared, and whether its numbers are rates.
FORMATTERS: dict[str, tuple[Shown, int, bool]] = {
    **{
        f"written {form}": (lambda x, way, form=form: rounding.written(x, form, way), 1, False)  # type: ignore[misc]
        for form in (".3f", ".4f", "+.4f", ".2f", ".3g", ".2g", ".4g", "+.1g", ".6g")
    },
    "percent": (rounding.percent, 100, True),
    "points": (rounding.points, 100, False),
    "in points": (rounding.in_points, 100, False),
    "points of AUC": (overlap_charts.points, 100, False),
    "amount of an AUC": (lambda x, way: definition.amount("auc", x, way), 1, True),
    "amount of a TPR": (lambda x, way: definition.amount("tpr_at_fpr_0.01", x, way), 100, True),
    "amount of an effect": (lambda x, way: definition.amount("ate", x, way), 1, False),
}


def numbers(rates: bool) -> list[float]:
    rng = np.random.default_rng(14)
    drawn = rng.random(400).tolist()
    drawn += (10.0 ** rng.uniform(-9, 0, 300)).tolist() + (1 - 10.0 ** rng.uniform(-12, 0, 100)).tolist()
    drawn += [round(x, k) for x, k in zip(drawn[:200], 200 * [1, 2, 3, 4], strict=False)]
    drawn += [
        0.0,
        1.0,
        0.05,
        0.1,
        0.1 + 0.2,
        0.9995,
        0.99949999,
        1e-300,
        math.nextafter(0.05, 1),
        math.nextafter(0.05, 0),
    ]
    if not rates:
        drawn += [-x for x in drawn] + (rng.standard_cauchy(300) * 1e3).tolist() + [-1e15, 123456.789]
    return drawn


def value_of(text: str, scale: int) -> Decimal:
    return Decimal(text.replace("−", "-").rstrip("%")) / scale


@pytest.mark.parametrize("name", FORMATTERS)
def test_limits_are_rounded_outward(name: str) -> None:
    shown, scale, rates = FORMATTERS[name]
    outward = 0
    for x in numbers(rates):
        exact = Decimal(repr(float(x)))
        low, near, high = (value_of(shown(x, way), scale) for way in ("down", "nearest", "up"))
        assert low <= exact <= high, (name, x)
        assert low <= near <= high or abs(x) < 1e-6, (name, x)
        outward += low < near or near < high
    assert outward > 100  # a formatter that rounds to the nearest only would pass nothing here by chance


def test_rounding_to_the_nearest_breaks_the_law() -> None:
    """The control: formats without a direction put limits inside about half of the time."""
    inside = [Decimal(f"{x:.3f}") > Decimal(repr(x)) for x in numbers(rates=True)]
    assert 0.2 < np.mean(inside) < 0.6


def test_a_limit_is_no_further_out_than_one_step() -> None:
    for x in np.random.default_rng(1).random(300):
        low, high = float(rounding.lower_text(x)), float(rounding.upper_text(x))
        step = 10.0 ** (math.floor(math.log10(x)) - 2)
        assert high - low <= 1.001 * step
    assert rounding.percent(0.05, "up") == rounding.percent(0.05, "down") == "5%"


@pytest.mark.parametrize("x", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_written_as_it_is(x: float) -> None:
    assert rounding.written(x, ".3g", "up") == f"{x:.3g}"


def test_intervals_of_metrics_contain_their_limits() -> None:
    rng = np.random.default_rng(2)
    for name, scale in (("auc", 1), ("tpr_at_fpr_0.001", 100), ("ate", 1)):
        for low, value, high in np.sort(rng.random((200, 3)), axis=1).tolist():
            text = Metric(name, "raw", value, low, high, 0.95).interval
            printed = [value_of(part, scale) for part in text.split(" to ")]
            assert printed[0] <= Decimal(repr(low)) and Decimal(repr(high)) <= printed[1]
            only = Metric(name, "raw", None, 0.0, high, 0.95).interval
            assert value_of(only.removeprefix("at most "), scale) >= Decimal(repr(high))
    assert rounding.difference(0.1, -0.00001, 0.20001) == "+0.1000 (-0.0001 to +0.2001)"
    assert rounding.rate_with_limits(0.5, 0.33333, 0.66666) == "50% (33.3% to 66.7%)"


def test_a_limit_beyond_its_threshold_reads_so() -> None:
    rng = np.random.default_rng(3)
    for threshold in (0.05, 0.55, 0.15):
        for _ in range(200):
            gap = 10.0 ** rng.uniform(-7, -2)
            for name, scale in (("tpr_at_fpr_0.01", 100), ("auc", 1)):
                below = value_of(definition.beyond(name, threshold - gap, threshold, "up"), scale)
                above = value_of(definition.beyond(name, threshold + gap, threshold, "down"), scale)
                assert below < Decimal(repr(threshold)) < above


def test_an_accountants_guarantee_is_rounded_up_and_dust_is_not() -> None:
    for x in (10.0 ** np.random.default_rng(4).uniform(-9, 3, 300)).tolist():
        for digits in (3, 4, 6):
            assert float(rounded_up(x, digits)) >= x * (1 - 1e-11)
    assert rounded_up(0.1 + 0.2) == "0.3"


def test_no_limit_is_formatted_outside_the_one_mechanism() -> None:
    """Whoever writes ``{bound.low:.3f}`` anew finds it here: limits go through miaudit.metrics.definition."""
    limit = re.compile(
        r"\{[^{}]*\b(?:low|high|upper|lower|proved|reachable|auc_low|auc_high|difference_low|difference_high)"
        r"(?:['\"]\])?:[+,>]?[0-9]*\.[0-9]+[fg%]\}"
    )
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in NO_LIMITS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if limit.search(line) and ">>>" not in line
    ]
    assert found == []
    assert limit.search("f\"{change['low']:+.4f}\"")  # control
    assert limit.search('f"{estimate.low:.3f}"')

"""The chart of kinds of records has the numbers of the findings, and is left out where it would show nothing."""

from __future__ import annotations

from dataclasses import replace

from miaudit.findings.by_covariates import ByCovariates, CovariateGroup, GroupDifference
from miaudit.report.by_covariates_charts import NAMES, charts

GROUPS = (
    CovariateGroup("age above 63", 90, 80, 0.71, 0.62, 0.79),
    CovariateGroup("age at most 63 and visits at most 3", 90, 80, 0.55, 0.46, 0.64),
    CovariateGroup("age at most 63 and visits above 3", 90, 80, 0.5, 0.41, 0.59),
    CovariateGroup("rare", 2, 1, None, None, None),
)
KINDS = ByCovariates(
    score="score",
    confidence=0.95,
    groups=GROUPS,
    difference=GroupDifference(GROUPS[0].group, GROUPS[2].group, 0.21, 0.1, 0.3, 0.1, established=True),
    slopes=(),
    learned=500,
    measured=500,
    text="One kind leaks more.",
)


def test_the_numbers_are_those_of_the_groups() -> None:
    (name, chart), *rest = charts(KINDS).items()
    assert ((name,), rest) == (NAMES, [])
    spec = chart.to_dict(validate=False)
    values = max(spec["datasets"].values(), key=len)
    assert [(row["low"], row["value"], row["high"]) for row in values] == [(g.low, g.value, g.high) for g in GROUPS[:3]]
    assert [row["kind"] for row in values] == ["compared", "others", "compared"]
    assert spec["title"]["text"] == ["1 of 3 kinds of records are shown to leak"]
    assert all(one.reading in spec["description"] for one in GROUPS[:3])


def test_nothing_is_drawn_of_fewer_than_two_groups() -> None:
    assert charts(replace(KINDS, groups=GROUPS[2:])) == {}
    assert charts(replace(KINDS, groups=(), difference=None)) == {}

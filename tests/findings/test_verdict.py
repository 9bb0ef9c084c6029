"""The verdict never says more than the interval does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miaudit.findings import verdict as verdict_rule
from miaudit.findings.judge import Scored, judge
from miaudit.findings.policy import Policy
from miaudit.findings.verdict import Verdict
from miaudit.metrics import definition, rounding
from miaudit.metrics import definition as wording
from miaudit.metrics.classical import Estimate

TPR = "tpr_at_fpr_0.01"


Score = tuple[str, Estimate, Estimate]


def measured(score: str, low: float, high: float, resolved: bool, auc_high: float = 1.0) -> Score:
    """Return a score with the metric of the limit and its AUC."""
    return score, Estimate(high if resolved else None, low, high, 0.95), Estimate(auc_high, 0.0, auc_high, 0.95)


def verdict(*scores: Score, metric: str = TPR, threshold: float = 0.06, **others: object) -> Verdict:
    """Judge scores whose limits are the same at every confidence: many non-members, one limit."""
    held = [
        Scored(score, lambda name, _, auc=auc, primary=primary: primary if name == metric else auc, 1e9)
        for score, primary, auc in scores
    ]
    return judge(Policy.of({metric: threshold}), held, confidence=0.95, **{"levels": (0.02, 0.05, 0.1), **others})


@pytest.mark.parametrize(
    ("low", "high", "status", "code"),
    [
        (0.07, 0.2, "flagged", 3),
        (0.01, 0.05, "clear", 0),
        (0.01, 0.2, "inconclusive", 4),
        (0.06, 0.2, "inconclusive", 4),  # a limit at the threshold does not exceed it
        (0.01, 0.06, "inconclusive", 4),
        (1.0, 1.0, "flagged", 3),
        (0.0, 0.0, "clear", 0),
    ],
)
def test_the_limits_decide(low: float, high: float, status: str, code: int) -> None:
    found = verdict(measured("s", low, high, True))
    assert (found.status, found.exit_code) == (status, code)
    assert (found.low, found.high, found.threshold) == (low, high, 0.06)


def test_what_is_not_resolved_never_flags_but_can_be_clear() -> None:
    assert verdict(measured("s", 0.9, 1.0, False)).status == "inconclusive"
    assert verdict(measured("s", 0.9, 1.0, True)).status == "flagged"  # control
    unresolved = verdict(measured("s", 0.0, 0.3, False))
    assert unresolved.status == "inconclusive"
    assert "at most 30%" in unresolved.text
    assert "too few non-members" in unresolved.text
    assert verdict(measured("s", 0.0, 0.05, False)).status == "clear"
    both = verdict(measured("s", 0.99, 1.0, False), measured("t", 0.01, 0.05, True))
    assert both.status == "inconclusive"


def test_one_loud_score_is_enough_and_all_must_be_quiet() -> None:
    loud, quiet, wide = measured("a", 0.1, 0.2, True), measured("b", 0.0, 0.02, True), measured("c", 0.0, 0.5, True)
    assert verdict(quiet, wide, loud).status == "flagged"
    assert verdict(quiet, wide, loud).low == 0.1
    assert verdict(quiet, quiet).status == "clear"
    assert verdict(quiet, wide).status == "inconclusive"
    assert verdict(quiet, wide).high == 0.5


@pytest.mark.parametrize(
    ("low", "high", "threshold", "level"),
    [
        # Between the levels of erratum C5 there is no gap: 2%, 5% and 10% each begin the next one.
        (0.10, 0.3, 0.06, "material"),
        (0.0999, 0.3, 0.06, "at least elevated"),
        (0.05, 0.3, 0.04, "at least elevated"),
        (0.0499, 0.3, 0.01, "at least moderate"),
        (0.015, 0.3, 0.01, "at least low"),
        (0.0, 0.0199, 0.06, "low"),
        (0.0, 0.02, 0.06, "at most moderate"),
        (0.0, 0.0501, 0.06, "at most elevated"),
        (0.0, 0.15, 0.2, "at most material"),
        (0.001, 0.2, 0.06, "anything from low to material"),
        (0.051, 0.09, 0.06, "elevated"),
    ],
)
def test_levels_are_wording_about_the_end_that_was_judged(
    low: float, high: float, threshold: float, level: str
) -> None:
    assert verdict(measured("s", low, high, True), threshold=threshold).level == level


@pytest.mark.parametrize("fpr", ["0.02", "0.1", "0.2"])
def test_levels_are_not_said_where_chance_alone_reaches_them(fpr: str) -> None:
    """Pure noise at an FPR of 10% finds 10% of the members, which the levels would call material."""
    at_chance = measured("s", 0.8 * float(fpr), 1.2 * float(fpr), True)
    assert verdict(at_chance, metric=f"tpr_at_fpr_{fpr}", threshold=float(fpr) + 0.05).level == ""
    assert verdict(measured("s", 0.008, 0.012, True), metric="tpr_at_fpr_0.01").level == "low"  # control
    assert verdict(measured("s", 0.001, 0.012, True), metric="tpr_at_fpr_0.001").level == "low"


def test_a_score_that_points_the_wrong_way_is_never_clear() -> None:
    good, inverted = measured("a", 0.0, 0.02, True, 0.52), measured("b", 0.0, 0.02, True, 0.4999)
    assert verdict(good).status == "clear"
    for scores in ([inverted], [good, inverted]):
        found = verdict(*scores, turn="say so")
        assert (found.status, found.exit_code, found.low, found.level) == ("not-testable", 4, None, "")
        assert "the AUC of b is at most 0.500)" in found.text
        assert "; say so. " in found.text
    assert verdict(measured("c", 0.1, 0.2, True), inverted).status == "flagged"
    assert verdict(measured("c", 0.01, 0.2, True), inverted).status == "not-testable"


def test_an_undeclared_design_keeps_what_the_verdict_would_be() -> None:
    would_be = verdict(measured("s", 0.1, 0.2, True), exploratory=True)
    found = verdict_rule.undeclared(would_be)
    assert (found.status, found.exit_code, found.exploratory) == ("not-testable", 4, True)
    assert (found.reason, found.word, found.limits) == ("undeclared", "Not answered (undeclared)", ())
    assert found.text.startswith(
        "Not answered (undeclared): It is not declared how membership was decided. Declare it: --"
    )
    assert found.text.endswith(f"If membership was decided at random, the verdict would be: {would_be.text}")


def test_levels_are_of_a_tpr_only_and_change_no_status() -> None:
    assert verdict(measured("s", 0.6, 0.7, True), metric="auc", threshold=0.55).level == ""
    one, other = (
        verdict(measured("s", 0.01, 0.2, True), levels=levels) for levels in ((0.02, 0.05, 0.1), (0.3, 0.4, 0.5))
    )
    assert one.status == other.status
    assert one.level != other.level


@pytest.mark.long
@given(
    ends=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted), min_size=1, max_size=4),
    resolved=st.booleans(),
    threshold=st.floats(0, 1, exclude_max=True),  # nothing lies above 1
)
def test_nobody_is_told_that_there_is_no_leakage(ends: list[list[float]], resolved: bool, threshold: float) -> None:
    scores = [measured(f"s{i}", low, high, resolved) for i, (low, high) in enumerate(ends)]
    found = verdict(*scores, threshold=threshold)
    if found.status == "flagged":
        assert resolved
        assert max(low for low, _ in ends) > threshold
    if found.status == "clear":
        assert max(high for _, high in ends) < threshold
        assert "A stronger attack, and leakage below the limits, are not excluded." in found.text
    said = found.text.lower()
    for forbidden in ("no leakage", "does not leak", "is private", "is safe", "no risk"):
        assert forbidden not in said
    assert found.exit_code == {"clear": 0, "flagged": 3, "inconclusive": 4}[found.status]


def test_a_condition_and_a_label_are_part_of_the_sentence() -> None:
    found = verdict(measured("s", 0.1, 0.2, True), condition="if membership was randomised", exploratory=True)
    assert found.text.endswith("This holds if membership was randomised.")
    assert found.text.startswith("Exploratory, not evidence:")
    assert found.exploratory


@pytest.mark.parametrize("status", ["not-testable", "refused"])
def test_no_answer_has_exit_code_4_and_its_reason(status: str) -> None:
    found = verdict_rule.no_answer(status, "because", metric=TPR, threshold=0.06, confidence=0.95)
    assert (found.status, found.exit_code) == (status, 4)
    assert found.text == f"Not answered ({status.replace('-', ' ')}): because"
    assert (found.low, found.high) == (None, None)
    assert (found.exploratory, found.level, found.condition, found.limits) == (False, "", "", ())


def test_default_thresholds() -> None:
    assert definition.of("tpr_at_fpr_0.001").threshold == pytest.approx(0.05)
    assert definition.of("tpr_at_fpr_0.01").threshold == 0.05
    assert definition.of("tpr_at_fpr_0.1").threshold == pytest.approx(0.15)
    assert definition.of("tpr_at_fpr_0.99").threshold == 1.0
    assert definition.of("advantage").threshold == 0.05
    for metric in (TPR, "auc", "advantage", "balanced_accuracy", "ate"):
        assert wording.describe(metric)


@given(st.floats(0, 1))
def test_a_percentage_is_100_only_when_it_is(rate: float) -> None:
    text = rounding.percent(rate)
    if rate < 1 - 1e-8:
        assert text != "100%"
    assert float(text[:-1]) / 100 == pytest.approx(rate, rel=6e-3, abs=1e-12)

"""Comparison of audits: coverage of the difference by simulation, and the page and command in both kinds."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError
from miaudit.findings.comparison import ADDED, SharedRecords, compare, history
from miaudit.findings.metric import Metric
from miaudit.report import comparison_page


def area(gap):
    return stats.norm.cdf(gap / 2**0.5)


@cache
def audited(gap, seed=0, n=1500, primary="auc"):
    rng = np.random.default_rng([seed, round(100 * gap)])
    member = rng.random(n) < 0.5
    held = ma.Evidence(score=rng.normal(size=n) + gap * member, member=member, design="one-run")
    return ma.audit(held, plan=Plan(bounds=None, primary_metric=primary), rng=rng)


findings = audited


def test_a_rise_a_fall_and_none():
    low, high = findings(0.3), findings(1.2)
    assert [compare(a, b).status for a, b in ((low, high), (high, low), (low, findings(0.3, seed=4)))] == [
        "rose",
        "fell",
        "no-difference",
    ]
    assert [compare(a, b).exit_code for a, b in ((low, high), (high, within(low)))] == [3, 0]


def within(audit):
    return replace(audit, verdict=replace(audit.verdict, status="clear"))


@pytest.mark.long
def test_a_later_audit_that_exceeds_a_limit_stops_whatever_is_shown_of_a_rise():
    high, low = findings(1.2), findings(0.3)
    assert "after exceeds a limit. Concern" in compare(low, high).text  # a real one, beside a rise
    for first, second, status in ((high, low, "fell"), (low, findings(0.3, seed=4), "no-difference")):
        pair = (first, replace(second, verdict=replace(second.verdict, status="flagged")))
        found, passed = compare(*pair), compare(pair[0], within(pair[1]))
        assert (found.status, found.later, found.exit_code) == (status, "flagged", 3)
        assert "after exceeds a limit." in found.text
        assert (passed.status, passed.exit_code) == (status, 0) and "exceeds" not in passed.text
        course = history([("a", pair[0]), ("b", pair[1])])
        assert course.exit_code == 3 and "b exceeds a limit." in course.text
        assert history([("a", pair[0]), ("b", within(pair[1]))]).exit_code == 0
        assert "the later audit exceeds a limit" in comparison_page.page(found)
    assert history([("a", low), ("b", within(high)), ("c", within(low))]).exit_code == 0  # only the last one counts


def test_equal_audits_differ_by_nothing_and_say_so():
    found = compare(findings(0.5), findings(0.5))
    assert found.status == "no-difference"
    assert all(c.value in (0.0, None) for c in found.changes)
    assert any("same evidence" in text for text in found.cautions)


@pytest.mark.parametrize(("gaps", "truth"), [((0.5, 0.5), 0.0), ((0.4, 0.9), area(0.9) - area(0.4))])
def test_the_interval_of_the_difference_covers(gaps, truth):
    """Independent audits of binormal scores, whose AUC is known: 95% limits cover in 95% of 300 pairs, give or take.

    That the two share no record is known here; from findings alone the half-widths are added, and cover more.
    """
    covered = wide = 0
    for seed in range(300):
        pair = []
        for k, gap in enumerate(gaps):
            rng = np.random.default_rng([seed, k])
            member = np.arange(400) % 2 == 0
            sample = ma.metrics.classical.Sample.of(
                ma.Evidence(score=rng.normal(size=400) + gap * member, member=member)
            )
            e = sample.auc(0.95)
            metric = Metric("auc", "raw", e.value, e.low, e.high, 0.95)
            pair.append(replace(findings(0.5), metrics=(metric,)))
        change = compare(*pair, shared=SharedRecords({"auc": 0.0}, "none")).changes[0]
        covered += change.low <= truth <= change.high
        alone = compare(*pair).changes[0]
        wide += alone.low <= truth <= alone.high
    assert 0.91 <= covered / 300 <= 0.985
    assert wide / 300 >= 0.985


def test_what_is_not_resolved_is_not_compared():
    a, b = (findings(0.5, seed=s, n=300, primary="tpr_at_fpr_0.001") for s in (0, 1))
    found = compare(a, b)
    assert (found.status, found.exit_code) == ("not-comparable", 4)
    assert "not resolved by both" in found.text


def test_cautions():
    a, b = findings(0.5), findings(0.6)
    scores = (replace(b.scores[0], score="other"), *b.scores[1:])
    b = replace(b, design=None, scores=scores, verdict=replace(b.verdict, status="refused"))
    assert len(compare(a, b).cautions) == 3
    assert any("miaudit challenge" in text for text in compare(a, b).cautions)


def test_a_score_that_was_turned_round_is_no_fall_of_leakage():
    """Losses without their sign: an AUC of .64 becomes .36, and nothing has got better."""
    right = findings(0.5)
    member = np.arange(2000) % 2 == 0
    rng = np.random.default_rng(0)
    losses = ma.Evidence(score=-(rng.normal(size=2000) + 0.5 * member), member=member, design="one-run")
    wrong = ma.audit(losses, plan=Plan(bounds=None, primary_metric="auc"), rng=rng)
    assert {c.name: c for c in compare(right, wrong).changes}["auc"].high < 0
    for pair, code in (((right, wrong), 4), ((wrong, within(right)), 4), ((wrong, right), 3)):
        found = compare(*pair)
        assert (found.status, found.exit_code) == ("not-comparable", code)
        assert "point the wrong way" in found.text and "--signal loss" in found.text
    assert history([("a", right), ("b", wrong)]).exit_code == 4


def test_a_design_that_nobody_declared_is_not_compared():
    low, high = findings(0.2), findings(0.9, seed=1)
    assert compare(low, high).status == "rose"  # control
    undeclared = replace(high, design=None, verdict=replace(high.verdict, status="not-testable"))
    for pair in ((low, undeclared), (replace(low, design=None), undeclared)):
        found = compare(*pair)
        assert (found.status, found.exit_code) == ("not-comparable", 4)
        assert "not declared" in found.text and "--design" in found.text


@cache
def shifted(gap=0.0):
    """A zero-run audit of a score that goes with a covariate, as membership does: all shift where the gap is 0."""
    rng = np.random.default_rng([5, round(100 * gap)])
    age = rng.normal(size=3000)
    member = rng.random(3000) < 1 / (1 + np.exp(-0.9 * age))
    score = 0.3 * rng.normal(size=3000) + 1.5 * age + gap * member
    held = ma.Evidence(score=score, member=member, covariates=age[:, None], design="zero-run")
    return ma.audit(held, plan=Plan(bounds=None, primary_metric="auc"), rng=rng)


@pytest.mark.thorough
@pytest.mark.long
def test_a_shift_between_populations_is_no_rise_of_leakage():
    """The raw numbers of a zero-run audit rise by .2 here without any memorisation; they decide nothing."""
    randomised, drifted = findings(0.0), shifted()
    raw = {(c.name, c.estimator): c for c in compare(randomised, drifted).changes}
    assert raw["auc", "raw"].low > 0.1
    assert raw["auc", "raw"].note == "raw, not causal"
    for pair in ((randomised, drifted), (drifted, randomised)):
        found = compare(*pair, names=("a", "b"))
        assert (found.status, found.exit_code) == ("not-comparable", 4)
        assert "zero-run audit" in found.text
        assert "(raw, not causal)" in comparison_page.page(found)
    again = compare(drifted, shifted(1.0))
    assert (again.status, next(c for c in again.changes if c.name == "auc").estimator) == ("rose", "aipw")


@pytest.mark.long
def test_a_refused_audit_decides_nothing():
    whole = shifted()
    raw = tuple(m for m in whole.metrics if m.estimator == "raw")
    refused = replace(whole, verdict=replace(whole.verdict, status="refused"), metrics=raw)
    found = compare(shifted(), refused, names=("a", "b"))
    assert found.status == "not-comparable"
    assert "b was refused" in found.text
    lined_up = history([("a", shifted()), ("b", refused)])
    assert lined_up.exit_code == found.exit_code == 4
    row = lined_up.audits[1]
    assert row.said.endswith("raw, not causal")
    assert row.value is None


@pytest.mark.thorough
@pytest.mark.long
def test_history_says_one_number_of_an_audit():
    """The table of the page and the comparison below it are about the same estimate."""
    found = history([("a", shifted()), ("b", shifted(1.0))])
    for audit in found.audits:
        assert f"{audit.value:.3f} in {audit.name}" in found.changes[0].text


def test_other_confidence_is_refused():
    b = findings(0.5)
    b = replace(b, plan={**b.plan, "confidence": 0.9})
    with pytest.raises(InputError, match=r"0\.95 and 0\.9"):
        compare(findings(0.5), b)


def test_history_follows_the_metric_of_the_last_audit():
    found = history([("a", findings(0.3)), ("b", findings(0.3, seed=2)), ("c", findings(1.2))])
    assert [s.status for s in found.changes] == ["no-difference", "rose"]
    assert found.exit_code == 3
    assert len(found.audits) == 3
    with pytest.raises(InputError, match="at least two"):
        history([("a", findings(0.3))])


def changed(found, name="auc"):
    return next(c for c in found.changes if c.name == name)


def metric(audit, name="auc"):
    return next(m for m in audit.metrics if m.name == name)


def test_findings_alone_add_the_half_widths_and_say_why():
    """Closed form: d - (x + y), d + (x' + y'); the control is the sum of squares, which independence would allow."""
    a, b = findings(0.5), findings(0.6, seed=1)
    found, ma_, mb = changed(compare(a, b)), metric(a), metric(b)
    x, y, up, down = mb.value - mb.low, ma_.high - ma_.value, mb.high - mb.value, ma_.value - ma_.low
    assert found.low == pytest.approx(found.value - (x + y)) and found.high == pytest.approx(found.value + up + down)
    assert found.low < found.value - np.hypot(x, y) - 0.005
    text = compare(a, b).records
    assert "half-widths" in text and "--evidence BEFORE AFTER" in text and "--share all" in text
    assert text in comparison_page.page(compare(a, b))


@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.5, 1.0])
def test_the_interval_by_a_correlation_is_that_of_its_formula(rho):
    a, b = findings(0.5), findings(0.6, seed=1)
    found = changed(compare(a, b, shared=SharedRecords({"auc": rho}, "so many records")))
    ma_, mb = metric(a), metric(b)
    x, y, up, down = mb.value - mb.low, ma_.high - ma_.value, mb.high - mb.value, ma_.value - ma_.low
    assert found.low == pytest.approx(found.value - np.sqrt(max(0, x * x + y * y - 2 * rho * x * y)))
    assert found.high == pytest.approx(found.value + np.sqrt(max(0, up * up + down * down - 2 * rho * up * down)))
    assert found.correlation == rho and found.note == ""
    other = changed(compare(a, b, shared=SharedRecords({"auc": rho}, "so many records")), "advantage")
    assert other.correlation is None and other.note == ADDED


def test_identical_audits_differ_by_nothing_with_a_narrow_interval_around_it():
    a = findings(0.5)
    found = changed(compare(a, a, shared=SharedRecords({"auc": 1.0}, "all")))
    assert found.value == 0 and found.low <= 0 <= found.high and found.high - found.low < 0.005
    wide = changed(compare(a, a))
    assert wide.high - wide.low > 0.05  # control


def test_several_metrics_share_the_level():
    """Each has its part of the 5% (Bonferroni): a rise that one metric alone shows, barely, is none of three."""
    a, b = findings(0.5), findings(0.6, seed=1)
    auc = metric(b)
    just = SharedRecords(dict.fromkeys(("auc", "tpr_at_fpr_0.1", "tpr_at_fpr_0.01"), 0.0), "none")
    width = changed(compare(a, b, shared=just)).value - changed(compare(a, b, shared=just)).low

    def raised(factor):
        """The second audit with an AUC that lies so many half-widths above that of the first."""
        value = metric(a).value + factor * width
        up = replace(auc, value=value, low=auc.low + value - auc.value, high=auc.high + value - auc.value)
        rest = tuple(up if m.name == "auc" else metric(a, m.name) for m in b.metrics)
        return replace(b, metrics=rest)

    three = ("auc", "tpr_at_fpr_0.1", "tpr_at_fpr_0.01")
    for factor, alone, together in ((1.1, "rose", "no-difference"), (1.3, "rose", "rose")):
        one = compare(a, raised(factor), shared=just, followed=("auc",))
        all_three = compare(a, raised(factor), shared=just, followed=three)
        assert (one.status, all_three.status) == (alone, together)
        assert all_three.followed == three and all_three.primary == "auc"
        assert "98.3% confidence" in all_three.text and "confidence, since" not in one.text
    assert stats.norm.isf(0.025 / 3) / stats.norm.isf(0.025) == pytest.approx(1.2215, abs=1e-3)  # between 1.1 and 1.3
    # a metric that neither audit resolves takes no part of the level, and none alone is not comparable
    unresolved = compare(a, raised(1.1), shared=just, followed=("auc", "tpr_at_fpr_0.001"))
    assert unresolved.status == "rose"
    assert compare(a, b, followed=("tpr_at_fpr_0.001",)).status == "not-comparable"
    page = comparison_page.page(compare(a, raised(1.3), shared=just, followed=three))
    assert "3 metrics of the later audit, which share the error level" in page

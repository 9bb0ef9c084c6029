"""Plain words against slow counts of the same evidence: nothing is overstated, and no answer stays none."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian
from miaudit.dp.verdict import ClaimVerdict
from miaudit.findings import plain_words
from miaudit.findings.about import About
from miaudit.findings.plain_words import privacy_parameter
from miaudit.metrics.classical import Estimate

PRIMARY = ("tpr_at_fpr_0.1", "auc", "advantage", "balanced_accuracy", "ate")


def evidence(gap=1.0, n=600, design="one-run", **more):
    member = np.arange(n) % 2 == 0
    return ma.Evidence(
        score=np.random.default_rng(2).normal(size=n) + gap * member, member=member, design=design, **more
    )


@cache
def found(metric="tpr_at_fpr_0.1", gap=1.0, n=600, design="one-run"):
    threshold = {"threshold_for_concern": 0.2} if metric == "ate" else {}
    plan = ma.Plan(fpr_targets=(0.1,), primary_metric=metric, bounds=None, **threshold)
    return ma.audit(evidence(gap, n, design), plan=plan, rng=0)


def judged(status, low, high, metric="tpr_at_fpr_0.1", value=0.5):
    base = found(metric)
    shown = tuple(replace(m, value=value, low=low, high=high) if m.name == metric else m for m in base.metrics)
    verdict = replace(base.verdict, status=status, low=low, high=high)
    return replace(base, verdict=verdict, metrics=shown)


def numbers(text):
    return [int(one.replace(",", "")) for one in re.findall(r"(?<![\w.])\d[\d,]*", text)]


# -- the numbers -------------------------------------------------------------------------------------------------------


def test_counts_never_say_more_than_the_limits():
    nearest_overstates = 0
    for low, high in np.sort(np.random.default_rng(0).uniform(0.01, 0.99, (200, 2)), axis=1).tolist():
        at_least = numbers(judged("flagged", low, high).in_words.said)[2]
        at_most = numbers(judged("clear", low, high).in_words.said)[2]
        both = numbers(judged("inconclusive", low, high).in_words.said)[2:4]
        assert Fraction(at_least, 1000) <= Fraction(low) < Fraction(at_least + 1, 1000)
        assert Fraction(at_most, 1000) >= Fraction(high) > Fraction(at_most - 1, 1000)
        assert both == [at_least, at_most]
        nearest_overstates += Fraction(round(1000 * low), 1000) > Fraction(low)
    assert nearest_overstates > 50  # a control: rounding to the nearest would say too much


@pytest.mark.parametrize(
    ("fpr", "said"),
    [
        (0.1, "accepts 100 false accusations per 1,000 non-members"),
        (0.001, "accepts 1 false accusation per 1,000 non-members"),
        (0.0001, "accepts 1 false accusation per 10,000 non-members"),
        (0.015, "accepts 15 false accusations per 1,000 non-members"),
        (0.0015, "accepts 15 false accusations per 10,000 non-members"),
        (1 / 3, "wrongly accuses 33.3% of the non-members"),
    ],
)
def test_a_false_positive_rate_is_so_many_of_so_many(fpr, said):
    base = judged("flagged", 0.4, 0.6)
    name = f"tpr_at_fpr_{fpr:g}" if fpr != 1 / 3 else f"tpr_at_fpr_{fpr!r}"
    shown = tuple(replace(m, name=name) if m.name == "tpr_at_fpr_0.1" else m for m in base.metrics)
    text = replace(base, verdict=replace(base.verdict, metric=name), metrics=shown).in_words.said
    assert said in text
    total = numbers(text)[1] if fpr != 1 / 3 else 1000
    assert f"identifies at least {int(0.4 * total):,} of {total:,} members" in text


def test_a_small_count_that_flags_is_never_none():
    assert "identifies at least 4 of 10,000 members" in judged("flagged", 0.0004, 0.1).in_words.said


@pytest.mark.parametrize("metric", PRIMARY)
@pytest.mark.parametrize("gap", [1.0, 0.0])
def test_what_is_said_of_each_metric_holds_of_the_evidence_itself(metric, gap):
    """By brute force, from the scores: what the sentence counts lies within the limits that it says."""
    words, one = found(metric, gap).in_words, evidence(gap)
    (score,) = one.scores.values()
    inside, outside = score[one.member], score[~one.member]
    if metric == "tpr_at_fpr_0.1":
        counted = np.mean(inside > np.sort(outside)[-31])
    elif metric in ("auc", "ate"):
        counted = np.mean(inside[:, None] > outside[None, :])
    else:
        counted = max((np.mean(inside >= at) + np.mean(outside < at)) / 2 for at in score)
    text = words.said.split("such pairs")[0].split("Random guessing")[0].split("non-members identifies")[-1]
    ends = [one for one in numbers(text) if one != 1000]
    low = ends[0] if "at least" in text or "between" in text else 0
    high = ends[-1] if "at most" in text or "between" in text else 1000
    assert low <= 1000 * counted <= high
    assert ("at least" in text or "between" in text) or found(metric, gap).verdict.status != "flagged"


def test_units_are_called_what_they_are():
    grouped = ma.audit(evidence(unit=np.arange(600) // 4 * 2 + np.arange(600) % 2), plan=ma.Plan(bounds=None), rng=0)
    assert grouped.counts.of == "units"
    assert "member units" in grouped.in_words.said


# -- no answer, and none that says too much ----------------------------------------------------------------------------


def test_where_only_an_upper_limit_is_known_no_lower_one_is_said():
    words = found(n=30).in_words
    assert "at most" in words.said
    assert "between" not in words.said
    assert "at least" not in words.said
    assert words.limits.startswith("TPR at 10% FPR: at most")
    assert words.meaning.endswith("Do not treat this as a pass.")


def test_a_matched_audit_within_its_limits_is_about_strings_alone():
    rng, plan = np.random.default_rng(0), ma.Plan(limits={"auc": 0.9}, bounds=None)
    strings = ma.Evidence.matched(true=rng.normal(size=600), decoys=rng.normal(size=(600, 5)))
    within, others = ma.audit(strings, plan=plan, rng=0), ma.audit(evidence(0.0), plan=plan, rng=0)
    assert within.verdict.status == others.verdict.status == "clear"
    assert "about the random strings alone" in within.in_words.meaning
    assert "random strings" not in others.in_words.meaning


def test_an_undeclared_design_says_if():
    words = found(design=None).in_words
    assert words.said.startswith("Not answered: it is not declared how membership was decided")
    assert "If members were assigned at random: an attacker who" in words.said
    assert "at least" not in words.said
    assert words.limits == ""


def test_scores_that_point_the_wrong_way():
    for metric in ("tpr_at_fpr_0.1", "ate"):
        assert "the scores are lower for members" in found(metric, -1.5).in_words.said


def test_raw_numbers_of_zero_run_evidence_are_not_told():
    words = found(design="zero-run").in_words
    assert words.said.startswith("Not answered: members were not assigned at random")
    assert not numbers(words.said)
    assert words.limits == ""
    refused = replace(found(), verdict=replace(found().verdict, status="refused", low=None, high=None))
    assert not numbers(refused.in_words.said)
    assert "neither leakage nor its absence" in refused.in_words.meaning


@pytest.mark.long
def test_a_corrected_number_says_so_with_its_condition():
    rng = np.random.default_rng(3)
    member = rng.random(1500) < 0.5
    x = rng.normal(size=(1500, 1)) + 0.3 * member[:, None]
    made = ma.Evidence(score=rng.normal(size=1500) + x[:, 0], member=member, covariates=x, design="zero-run")
    corrected = ma.audit(made, plan=ma.Plan(fpr_targets=(0.1,), bounds=None), rng=0)
    assert corrected.is_corrected
    said = corrected.in_words.said
    assert said.startswith("After correction for how members and non-members differ: ")
    assert said.endswith(f"This holds {corrected.verdict.condition}.")


def test_exploratory_is_no_evidence():
    exploratory = replace(found(), verdict=replace(found().verdict, exploratory=True))
    assert exploratory.in_words.said.startswith("Exploratory, not evidence")
    assert "Confirm it on other records" in exploratory.in_words.meaning


def test_a_verdict_within_the_limits_says_first_what_is_proven_all_the_same():
    quiet = judged("clear", 0.0, 0.1)
    assert "Leakage is proven" not in quiet.in_words.said
    loud = replace(quiet, verdict=replace(quiet.verdict, proven="AUC above one half.", not_excluded="Up to 3%."))
    assert loud.in_words.said.startswith("Leakage is proven, but no limit is exceeded.")
    assert "AUC above one half." in loud.in_words.slide
    assert "Up to 3%." in loud.in_words.slide


def test_a_clear_verdict_is_about_this_attack_and_a_refuted_claim_is_said():
    clear = judged("clear", 0.0, 0.1)
    assert "members with this attack" in clear.in_words.said
    assert "a stronger attack" in clear.in_words.meaning
    text = "Refuted: 0.1-Gaussian DP. With 95% confidence, mu is at least 1."
    refuted = ClaimVerdict("mu", 0.1, 0.0, "refuted", text, 1.0, None, None, "", None, None)
    words = replace(clear, claim=refuted).in_words
    assert words.meaning.startswith("The privacy claim does not hold")
    assert "No measured score exceeds a limit" not in words.meaning
    assert words.said.startswith(
        "The claim was 0.1-Gaussian DP. With 95% confidence, mu is at least 1. An attacker who"
    )
    flagged = replace(found(), claim=refuted).in_words
    assert flagged.said == found().in_words.said
    assert "The claim was 0.1-Gaussian DP." in flagged.slide


@pytest.mark.parametrize("status", ["flagged", "clear", "inconclusive", "not-testable", "refused"])
@pytest.mark.parametrize("metric", PRIMARY)
@pytest.mark.parametrize("design", ["one-run", "multi-run", "zero-run", None])
@pytest.mark.parametrize("resolved", [True, False])
def test_no_words_promise_safety(status, metric, design, resolved):
    one = judged(status, 0.2, 0.7, metric, 0.5 if resolved else None)
    words = replace(one, design=design).in_words
    everything = " ".join([words.said, words.meaning, words.plan, words.slide, *(step.text for step in words.steps)])
    assert not re.search(r"\bsafe\b|no leak|secure|anonym|\bnone?\b leak|inf\b|nan\b|None", everything)
    assert words.said.endswith(".")
    assert words.meaning.endswith(".")
    assert words.steps


def test_an_effect_in_units_of_the_score_is_told_in_pairs():
    words = found("ate").in_words
    assert "in units of the score. Shown one member and one non-member" in words.said
    assert words.limits == ""
    assert "in units of the score" in words.plan
    effect = f"{found('ate').metric('ate').value:.2f}"
    assert effect not in words.slide


def test_a_slide_has_the_finding_its_interval_and_what_it_is_about():
    words = replace(found(), about=About(model="triage", date="2026-03-01")).in_words
    said = f"Concern. {words.said}"
    assert words.slide.splitlines() == [said, words.limits, "Model triage · 2026-03-01", words.plan]


def test_limits_of_another_score_are_not_put_beside_the_value_of_the_headline():
    base = found()
    other = replace(base, verdict=replace(base.verdict, low=0.9, high=0.95))
    assert other.in_words.limits == "TPR at 10% FPR: 90% to 95%, 95% confidence"


def test_a_metric_of_a_plugin_is_told_by_its_own_name():
    one = Estimate(0.5, 0.4, 0.6, 0.95)
    text = plain_words._about_metric(judged("clear", 0.1, 0.2), "clear", (0.4, 0.6), one)
    assert text
    base = judged("flagged", 0.4, 0.6)
    unknown = replace(base, verdict=replace(base.verdict, metric="unheard-of"))
    assert unknown.in_words.said.startswith("unheard-of: above the limit, in units of the score.")


# -- privacy parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.1, 0.741, 1.5, 3.0])
def test_mu_is_told_by_the_tradeoff_function(mu):
    said = float(re.search(r"at most ([\d.]+)% of the members", privacy_parameter("mu", mu)).group(1)) / 100
    exact = Gaussian(mu).tpr_at_fpr(0.1)
    assert exact <= said <= exact + 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1.69, 6.0])
def test_epsilon_is_told_as_the_factor_of_the_odds(epsilon):
    text = privacy_parameter("epsilon", epsilon)
    factor, odds = (float(x) for x in re.search(r"that is ([\d.e+]+), from even odds to ([\d.]+)%", text).groups())
    slope = EpsilonDelta(epsilon, 0.0).tpr_at_fpr(1e-9) / 1e-9
    assert slope * (1 - 1e-6) <= factor <= slope * 1.01
    assert odds / 100 >= slope / (1 + slope) - 1e-9


def test_a_bound_of_zero_and_a_huge_one():
    assert "At μ" not in privacy_parameter("mu", 0.0)
    assert "next to no limit" in privacy_parameter("epsilon", 700.0)
    assert "the runs show" not in privacy_parameter("mu", 1.0, lower=False)
    assert math.isfinite(float(re.search(r"at most ([\d.]+)%", privacy_parameter("mu", 40.0)).group(1)))

"""The text of a verdict: every limit that decides is named, and no number says more than its confidence limit."""

import re

import pytest

from miaudit.findings.verdict import LimitResult
from miaudit.findings.verdict_text import inverted, list_sentence, not_excluded, sentence
from miaudit.metrics.definition import describe

SURE = LimitResult("surest_members", "loss", 49.0, 50.0, 0.9, 0.001, "exceeded")
SILENT = LimitResult("surest_members", "loss", 20.0, 50.0, 0.9, 0.9, "silent")


def limit(name, low, high, threshold, outcome, *, resolved=True, p=0.5, score="loss"):
    return LimitResult(name, score, low, high, threshold, p, outcome, resolved)


EXCEEDED = limit("tpr_at_fpr_0.01", 0.06119, 0.09, 0.05, "exceeded", p=0.001)
AUC = limit("auc", 0.61009, 0.66, 0.6, "exceeded", p=0.01)
OPEN = limit("tpr_at_fpr_0.1", 0.2, 0.301, 0.25, "open")
FEW = limit("tpr_at_fpr_0.001", 0.0, 0.03, 0.02, "open", resolved=False)
WITHIN = limit("tpr_at_fpr_0.1", 0.1, 0.1401, 0.25, "within")


def text(status, leading, *found, condition=""):
    return sentence(status, leading, [leading, *found], 0.95, condition, exploratory=False)


def test_a_concern_names_every_limit_that_is_exceeded_and_every_one_that_is_not_resolved():
    said = text("flagged", EXCEEDED, AUC, OPEN, FEW, SURE)
    assert said.startswith("Concern: with 95% confidence, ")
    assert "at least 6.11%, above the limit of 5%" in said
    assert "Also above their limits: AUC at least 0.610 (limit 0.600). An attacker" in said
    assert "50 records of which 49 are members" in said
    assert "Not resolved: TPR at 10% FPR at most 30.1% (limit 25%) and TPR at 0.1% FPR at most 3% (limit 2%)" in said


def test_within_the_limits_gives_each_upper_limit_and_what_is_not_excluded():
    few = limit("tpr_at_fpr_0.001", 0.0, 0.011, 0.02, "within", resolved=False)
    said = text("clear", WITHIN, few, SILENT)
    assert said.startswith("Within the limits: ")
    assert "at most 14.1%" in said  # rounded up
    assert "TPR at 0.1% FPR at most 1.1% (limit 2%)" in said
    assert "A stronger attack, and leakage below the limits, are not excluded." in said
    assert "So few non-members cannot show that TPR at 0.1% FPR exceeds its limit" in said
    fewer = limit("tpr_at_fpr_0.01", 0.0, 0.02, 0.05, "within", resolved=False)
    assert "TPR at 0.1% FPR or TPR at 1% FPR exceeds its limit: only" in text("clear", WITHIN, few, fewer)
    assert "records of which" not in said
    assert "surest members" not in said
    wider = limit("tpr_at_fpr_0.1", 0.1, 0.2, 0.25, "within", score="margin")
    for found in ((WITHIN, wider), (wider, WITHIN)):  # of several scores the widest interval counts
        said = text("clear", *found)
        assert "at most 20% by margin (limit 25%)" in said
        assert "14.1%" not in said


def test_within_the_limits_a_metric_is_described_and_a_rate_is_named():
    for one, shown in (
        (WITHIN, "TPR at 10% FPR is at most 14.1%"),
        (limit("auc", 0.4, 0.55, 0.6, "within"), "under the ROC"),
    ):
        said = text("clear", one)
        assert said.startswith("Within the limits: with 95% confidence, ")
        assert shown in said
    assert f"{describe('auc')} is at most 0.55" in said


def test_limits_are_written_in_their_units_and_with_as_many_digits_as_it_takes():
    """A share as a percentage that reads otherwise than its limit; effects and parameters in their own units."""
    close = limit("tpr_at_fpr_0.1", 0.25001, 0.3, 0.25, "exceeded")
    assert "at least 25.001%, above the limit of 25%" in text("flagged", close)
    effect = limit("ate", 1.5, 2.0, 1.0, "exceeded")
    said = text("flagged", effect, limit("epsilon", 2.125, None, 2.0, "exceeded"))
    assert "is at least 1.5, above the limit of 1" in said
    assert "epsilon at least 2.12 (limit 2)" in said


def test_a_concern_of_a_list_alone_names_nothing_else_that_is_resolved():
    said = text("flagged", SURE, WITHIN)
    assert said.startswith("Concern: with 95% confidence, an attacker can name 50 records of which 49 are members.")
    assert "Not resolved" not in said
    assert "Not resolved: TPR at 10% FPR" in text("flagged", SURE, OPEN)
    few = limit("tpr_at_fpr_0.1", 0.1, 0.1401, 0.25, "within", resolved=False)
    assert "Not resolved: TPR at 10% FPR at most 14.1% (limit 25%)" in text("flagged", SURE, few)


def test_a_list_after_other_limits_begins_a_sentence():
    assert ". An attacker can name 50 records" in text("flagged", EXCEEDED, SURE)


def test_an_open_limit_is_told_with_both_ends_and_the_others_beside_it():
    said = text("inconclusive", OPEN, FEW)
    assert said.startswith("Not answered (inconclusive): ")
    assert "lies between 20% and 30.1%; the limit of 25% is in between" in said
    assert "Also open: TPR at 0.1% FPR at most 3% (limit 2%)" in said
    alone = text("inconclusive", FEW)
    assert "too few non-members" in alone
    assert "at most 3%" in alone


def test_a_parameter_is_told_by_its_bound():
    bound = limit("mu", 0.3, None, 1.0, "open")
    said = text("inconclusive", bound)
    assert "mu is shown to be at least 0.3, and the limit is 1" in said
    assert "accountant" in said
    assert "mu at least 0.3 (limit 1)" in text("flagged", AUC, bound)


def test_of_several_scores_the_one_nearest_to_exceeding_a_limit_is_told():
    other = limit("auc", 0.7, 0.8, 0.6, "exceeded", p=1e-9, score="margin")
    said = text("flagged", EXCEEDED, AUC, other)
    assert "AUC at least 0.700 by margin (limit 0.600)" in said
    assert "at least 6.11% by loss, above" in said
    assert "0.610" not in said
    assert " by " not in text("flagged", EXCEEDED, AUC)  # of one score nothing need be said
    unknown = limit("auc", 0.7, 0.8, 0.6, "exceeded", p=None, score="margin")
    for found in ((AUC, unknown), (unknown, AUC)):  # without a p-value it is the last
        assert "AUC at least 0.610 by loss (limit 0.600)" in text("flagged", EXCEEDED, *found)


def test_a_stated_list_that_was_too_short_to_test_is_said():
    missing = LimitResult("surest_members", "loss", None, None, 0.9, None, "open", resolved=False)
    for status, leading in (("flagged", EXCEEDED), ("clear", WITHIN), ("inconclusive", OPEN)):
        assert "too few records to make and test a list of the surest members" in text(status, leading, missing)
        assert "list of the surest" not in text(status, leading, SILENT)


@pytest.mark.parametrize("status", ["flagged", "clear", "inconclusive"])
def test_a_condition_ends_the_text_and_no_text_promises_safety(status):
    leading = {"flagged": EXCEEDED, "clear": WITHIN, "inconclusive": OPEN}[status]
    said = text(status, leading, condition="if the covariates account for it")
    assert said.endswith("This holds if the covariates account for it.")
    assert not re.search(r"\bsafe\b|no leak|secure|anonym|is private", said)


def test_a_list_is_never_said_to_be_right_record_by_record():
    assert "as a whole" in list_sentence(SURE)
    assert "as a whole" not in list_sentence(SILENT)


def test_scores_that_point_the_wrong_way_say_how_and_how_often_chance_does_so():
    said = inverted(["the AUC of loss is at most 0.480"], 0.95, "say so")
    assert "the AUC of loss is at most 0.480" in said
    assert "2.5% of audits" in said


def test_what_is_not_excluded_is_of_the_lowest_rate_and_of_the_widest_interval():
    judged = [("tpr_at_fpr_0.1", 0.3), ("tpr_at_fpr_0.01", 0.04), ("tpr_at_fpr_0.01", 0.06), ("auc", 0.6)]
    assert "up to 6% of the members at 1% FPR" in not_excluded(judged)
    shown = [("tpr_at_fpr_0.01", 0.5), ("tpr_at_fpr_0.001", 0.02), ("tpr_at_fpr_0.0001", None)]
    assert "up to 2% of the members at 0.1% FPR" in not_excluded(judged, shown)
    assert "up to 6% of the members at 1% FPR" in not_excluded(judged, shown[:1])
    assert not_excluded([("auc", 0.6)], []) == ""
